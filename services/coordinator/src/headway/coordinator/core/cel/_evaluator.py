"""Compiling and evaluating expressions.

Compiles an expression once, evaluates it on JSON values that the caller binds, and gives a JSON value back. It reads
nothing but those values, and the work that one evaluation can ask for is limited: in the text's length, in the nesting
and size of comprehensions, in the values bound, and in the result.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from cel_expr_python import cel

from headway.coordinator.core.cel import _environment, _messages, limits
from headway.coordinator.core.cel._rewrite import rewrite
from headway.coordinator.core.cel._syntax import Read, Syntax, read_syntax
from headway.coordinator.core.cel._values import Refused, Result, Room
from headway.coordinator.core.effort import Effort
from headway.coordinator.core.plan import Json, Place, VariablePath

VARIABLES: Mapping[str, str] = {
    "input": "dyn",
    "nodes": "map",
    "vars": "map",
    "run": "map",
    "error": "map",
    "outcome": "map",
    "payload": "dyn",
    "item": "dyn",
    "index": "dyn",
    "last": "dyn",
    "loops": "map",
}
_MAX_PLAIN = 32
_BARE_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
# Of CEL: not all of them can be names, and not everywhere.
_RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "null",
    "package", "namespace", "return", "true", "var", "void", "while",
})  # fmt: skip
_TYPE_NAMES = frozenset({"int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"})


class ExpressionInvalid(ValueError):
    """The expression's text is wrong; found when it is compiled.

    Attributes:
        line, column: where, inside the expression, from 1.
        message: what is wrong.
        remedy: what to write instead; may be empty.
    """

    reason = "EXPRESSION_INVALID"

    def __init__(self, line: int, column: int, message: str, remedy: str = "") -> None:
        super().__init__(f"{line}:{column}: {message}" + (f"; {remedy}" if remedy else ""))
        self.line = line
        self.column = column
        self.message = message
        self.remedy = remedy


class UnknownNames(ExpressionInvalid):
    """It reads names that there are not.

    Attributes:
        reads: all variables that it reads, those names included.
    """

    def __init__(self, line: int, column: int, message: str, remedy: str, reads: Sequence[Read]) -> None:
        super().__init__(line, column, message, remedy)
        self.reads = tuple(reads)


class ExpressionError(Exception):
    """The expression could not be evaluated on the values that it met.

    Attributes:
        expression: its source.
        message: what went wrong.
        place: where the expression stands in the workflow's source, when known.
        types: what it read, as it is spelt, each with the type that was met.
    """

    reason = "EXPRESSION_FAILED"

    def __init__(
        self, expression: str, message: str, place: Place | None = None, types: Mapping[str, str] | None = None
    ) -> None:
        where = f" (line {place.line}, column {place.column})" if place else ""
        met = ", ".join(f"{path} is {kind}" for path, kind in (types or {}).items())
        super().__init__(f"{message}, in {expression}{where}" + (f"; {met}" if met else ""))
        self.expression = expression
        self.message = message
        self.place = place
        self.types: Mapping[str, str] = types or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The variables of an expression.

    Attributes:
        reads: the paths whose values it needs; none reaches into another.
        tests: the paths of which it asks only whether they are there, and that no read brings along.
        whole: the path, when the expression is nothing else.
    """

    reads: tuple[VariablePath, ...]
    tests: tuple[VariablePath, ...]
    whole: VariablePath | None


class Compiled:
    """A compiled expression. Safe to share between threads."""

    __slots__ = (
        "_growth",
        "_max_list",
        "_max_text",
        "_program",
        "_rewritten",
        "_tests",
        "references",
        "result",
        "source",
        "syntax",
    )

    def __init__(self, source: str, syntax: Syntax, checked: cel.Expression) -> None:
        self.source = source
        self.syntax = syntax
        self.references = _references(syntax)
        self.result = checked.return_type().name().lower().partition("<")[0]
        tested = [read for read in syntax.reads if read.tested]
        self._tests = {f"@has{read.expression}": read.path for read in tested}  # no source can spell these names
        answers = {read.expression: f"@has{read.expression}" for read in tested}
        self._rewritten = rewrite(checked.serialize(), answers)
        self._program: cel.Expression | None = None
        self._growth = 1 + source.count("+")  # how often a list or a text may be made longer by itself
        self._max_list = limits.longest_list(syntax.loops, syntax.loop_calls)
        self._max_text = limits.MAX_LOOP_TEXT if syntax.loops else limits.MAX_BOUND_TEXT

    def evaluate(self, bindings: Mapping[str, Json], effort: Effort | None = None) -> Json:
        """Returns the expression's value.

        Args:
            bindings: variable name to value. What is absent counts as missing, at any depth: `has(…)` is false, a read
                fails.
            effort: of the decision, which is charged; if absent, nothing is.

        Raises:
            ExpressionError: a value is missing or of the wrong type, or a limit is exceeded.
            TooMuchToDecide: the effort does not suffice.
        """
        try:
            room = Room(self._max_text, self._max_list)
            bound = {name: room.admit(value, 0) for name, value in bindings.items()}
            if self._tests:
                bound |= {name: _is_bound(path, bindings) for name, path in self._tests.items()}
            if effort is not None:
                effort.spent(room.steps)
                effort.spend(limits.EVALUATION_STEPS + self._steps(room))
            if self._program is None:  # many are checked, and never evaluated
                self._program = _make_environment().deserialize(self._rewritten)
            value = self._program.eval(data=bound)
            result = Result()
            found = result.plain(value, 0)
        except (Refused, RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise ExpressionError(self.source, _messages.run_time_message(str(error))) from None
        if effort is not None:
            effort.spent(result.steps)
        return found

    def _steps(self, room: Room) -> int:
        """Steps that evaluating may take, at the most: what it goes through is no longer than what was bound."""
        text = room.longest_text * self._growth // limits.TEXT_A_STEP
        loops = self.syntax.loops
        if not loops:
            return text
        reach = (room.longest_list + self.source.count(",")) * self._growth
        rounds = min(reach**loops, limits.MAX_ROUNDS)
        return rounds * (self.syntax.loop_calls + reach // limits.ITEMS_A_STEP + text)


@lru_cache(maxsize=4_096)
def compile_expression(source: str) -> Compiled:
    """Returns the expression, parsed and type-checked; compiled once per process.

    Args:
        source: CEL, on VARIABLES; which of them are there where it stands is not known here.

    Raises:
        UnknownNames: it reads others.
        ExpressionInvalid: it does not parse, its types do not fit, or it could ask for too much work.
    """
    syntax = _parse(source)
    _check_work(source, syntax)
    _check_names(source, syntax)
    checked = _attempt(source, disable_check=False)
    return Compiled(source, syntax, checked)


def bare_path(source: str) -> VariablePath | None:
    """Returns the path, when an expression is plainly nothing else; None: it has to be compiled to know."""
    if _BARE_PATH.fullmatch(source) is None:
        return None
    path = tuple(source.split("."))
    is_plain = len(path) <= _MAX_PLAIN and path[0] not in _TYPE_NAMES and not _RESERVED.intersection(path)
    return path if is_plain else None


def references(source: str) -> References:
    """Returns the variables that an expression reads; types and names are not checked.

    Raises:
        ExpressionInvalid: it does not parse.
    """
    return _references(_parse(source))


@lru_cache(maxsize=1)
def _make_environment() -> cel.Env:
    types = {"dyn": cel.Type.DYN, "map": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)}
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_environment.configuration()),
        variables={name: types[spelt] for name, spelt in VARIABLES.items()},
        function_impls=_environment.implementations(),
    )


def _parse(source: str) -> Syntax:
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        line, column = _place_of(source, error.start)
        raise ExpressionInvalid(line, column, "half of a character (a lone surrogate)", "write both halves") from None
    if size > limits.MAX_SOURCE_BYTES:
        message = f"the expression has {size} bytes; at most {limits.MAX_SOURCE_BYTES} are allowed"
        raise ExpressionInvalid(1, 1, message, "compute this in a python node")
    if not source.strip():
        raise ExpressionInvalid(1, 1, "the expression is empty", "write what it is to yield, such as input.name")
    return read_syntax(_attempt(source, disable_check=True).serialize())


def _attempt(source: str, *, disable_check: bool) -> cel.Expression:
    try:
        return _make_environment().compile(source, disable_check)
    except (RuntimeError, TypeError, ValueError) as error:
        found = _messages.complaint_about(source, str(error))
        raise ExpressionInvalid(found.line, found.column, found.message, found.remedy) from None


def _check_work(source: str, syntax: Syntax) -> None:
    remedy = "compute this in a python node"
    if syntax.messages:
        line, column = _place_of(source, syntax.messages[0])
        raise ExpressionInvalid(
            line, column, "protobuf messages are not part of the language", 'write a map: {"key": value}'
        )
    if syntax.loops > limits.MAX_LOOPS:
        raise ExpressionInvalid(1, 1, f"more than {limits.MAX_LOOPS} comprehensions are nested in one another", remedy)
    if syntax.loop_calls > limits.MAX_LOOP_CALLS:
        raise ExpressionInvalid(1, 1, "too much is computed for each item of a list", remedy)


def _check_names(source: str, syntax: Syntax) -> None:
    for read in syntax.reads:
        name = read.path[0]
        if name not in VARIABLES and not (name in _TYPE_NAMES and len(read.path) == 1):
            line, column = _place_of(source, read.offset)
            named = [each for each in syntax.reads if each.path[0] not in _TYPE_NAMES or len(each.path) > 1]
            raise UnknownNames(line, column, f"unknown name {name}", f"known are {', '.join(VARIABLES)}", named)


def _references(syntax: Syntax) -> References:
    named = [read for read in syntax.reads if read.path[0] not in _TYPE_NAMES]
    paths = {read.path for read in named if not read.tested}
    reads = [path for path in paths if not _reaches_into(path, paths)]
    tests = {read.path for read in named if read.tested and read.path not in paths}
    return References(
        reads=tuple(sorted(reads)),
        tests=tuple(sorted(path for path in tests if not _reaches_into(path, paths))),
        whole=syntax.whole if syntax.whole and syntax.whole[0] not in _TYPE_NAMES else None,
    )


def _is_bound(path: VariablePath, bindings: Mapping[str, Json]) -> bool:
    inner: object = bindings
    for step in path:
        if not isinstance(inner, Mapping) or step not in inner:
            return False
        inner = cast("Mapping[str, object]", inner)[step]
    return True


def _reaches_into(path: VariablePath, others: Collection[VariablePath]) -> bool:
    return any(path[:length] in others for length in range(1, len(path)))


def _place_of(source: str, offset: int) -> tuple[int, int]:
    line_start = source.rfind("\n", 0, offset) + 1
    return source.count("\n", 0, offset) + 1, offset - line_start + 1
