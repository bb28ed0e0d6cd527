"""Compiling and evaluating expressions.

Compiles an expression once, evaluates it on JSON values that the caller binds, and gives a JSON value back. It reads
nothing but those values, and the work that one evaluation can ask for is limited: in the text's length, in the nesting
and size of comprehensions, in the values bound, and in the result.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from cel_expr_python import cel

from headway.coordinator.core.cel import _environment, _messages, limits
from headway.coordinator.core.cel._habits import as_spelt_here
from headway.coordinator.core.cel._parts import Part, Parts, Plain
from headway.coordinator.core.cel._rewrite import rewrite
from headway.coordinator.core.cel._syntax import Read, Syntax, read_syntax
from headway.coordinator.core.cel._values import Refused, Result, Room
from headway.coordinator.core.cel._weight import weigh
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
_FROM_THE_END = re.compile(r"(?<=[\w\])])\[\s*-\s*\d+\s*\]")
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
        parts: the paths of which it asks only for items, or how many there are, and that no read brings along.
        tests: the paths of which it asks only whether they are there, and that no read brings along.
        whole: the path, when the expression is nothing else.
    """

    reads: tuple[VariablePath, ...]
    parts: tuple[VariablePath, ...]
    tests: tuple[VariablePath, ...]
    whole: VariablePath | None


class _Program:
    """What the evaluator runs; it is made when it is first asked for: many are checked, and never evaluated."""

    __slots__ = ("_made", "_serialized")

    def __init__(self, serialized: bytes) -> None:
        self._serialized = serialized
        self._made: cel.Expression | None = None

    def run(self, data: dict[str, Json]) -> cel.Value:
        if self._made is None:
            self._made = _make_environment().deserialize(self._serialized)
        return self._made.eval(data=data)


_FAULTS = (Refused, RuntimeError, TypeError, ValueError, OverflowError)


class Compiled:
    """A compiled expression. Safe to share between threads.

    Attributes:
        chosen: it is nothing but an item of a path, or a field in that: where. `key` yields which item.
    """

    __slots__ = (
        "_fields",
        "_growth",
        "_key",
        "_max_list",
        "_max_text",
        "_program",
        "_tests",
        "_weight",
        "chosen",
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
        asked = {read.expression: _part_name(read.path) for read in syntax.reads if read.path in self.references.parts}
        self._fields = _fields_asked_for(syntax.reads)
        serialized = checked.serialize()
        self._program = _Program(rewrite(serialized, answers, asked))
        chosen = syntax.chosen
        self.chosen = chosen if chosen is not None and chosen.path in self.references.parts else None
        self._key: _Program | None = None
        if self.chosen is not None:
            self._key = _Program(rewrite(serialized, answers, asked, self.chosen.expression))
        self._weight = weigh(syntax.root)
        self._growth = 1 + source.count("+")  # how often a list or a text may be made longer by itself
        self._max_list = limits.longest_list(syntax.loops, syntax.loop_calls)
        self._max_text = limits.MAX_LOOP_TEXT if syntax.loops else limits.MAX_BOUND_TEXT

    def evaluate(
        self,
        bindings: Mapping[str, Json],
        effort: Effort | None = None,
        parts: Mapping[VariablePath, Part] | None = None,
    ) -> Json:
        """Returns the expression's value.

        Args:
            bindings: variable name to value. What is absent counts as missing, at any depth: `has(…)` is false, a read
                fails.
            effort: of the decision, which is charged; if absent, nothing is.
            parts: what it asks for items or the size of, by path; if absent, what is bound there.

        Raises:
            ExpressionError: a value is missing or of the wrong type, or a limit is exceeded.
            TooMuchToDecide: the effort does not suffice.
            Missing: parts need rows that were not loaded.
        """
        if self.references.parts:
            return self._ask(self._program, bindings, effort, parts)
        try:
            room = Room(self._max_text, self._max_list)
            bound = {name: room.admit(value, 0) for name, value in bindings.items()}
            if self._tests:
                bound |= self._answers(bindings)
            if effort is not None:
                effort.spent(room.steps)
                effort.spend(limits.EVALUATION_STEPS + self._steps(room))
            result = Result(self.result)
            found = result.plain(self._program.run(bound), 0)
        except _FAULTS as error:
            raise self._error(error) from None
        if effort is not None:
            effort.spent(result.steps)
        return found

    def key(
        self,
        bindings: Mapping[str, Json],
        effort: Effort | None = None,
        parts: Mapping[VariablePath, Part] | None = None,
    ) -> Json:
        """Returns which item it looks up, when it is nothing else: see `chosen`. All else as `evaluate`."""
        if self._key is None:
            raise LookupError(self.source)
        return self._ask(self._key, bindings, effort, parts)

    def _ask(
        self,
        program: _Program,
        bindings: Mapping[str, Json],
        effort: Effort | None,
        parts: Mapping[VariablePath, Part] | None,
    ) -> Json:
        try:
            room = Room(self._max_text, self._max_list)
            bound = {name: room.admit(value, 0) for name, value in bindings.items()} | self._answers(bindings)
            bill = _Bill(effort, room, self._steps)
            bill.charge()
            result = Result(self.result)
            given = _bound_parts(self.references.parts, bindings) if parts is None else parts
            with Parts(given, self._fields, room, bill.charge) as asked:
                bound |= {_part_name(path): number for path, number in asked.numbers.items()}
                found = result.plain(program.run(bound), 0)
        except _FAULTS as error:
            raise self._error(error) from None
        if effort is not None:
            effort.spent(result.steps)
        return found

    def _answers(self, bindings: Mapping[str, Json]) -> dict[str, Json]:
        return {name: _is_bound(path, bindings) for name, path in self._tests.items()}

    def _error(self, error: Exception) -> ExpressionError:
        return ExpressionError(self.source, _messages.run_time_message(str(error)))

    def _steps(self, room: Room) -> int:
        """Steps that evaluating may take, at the most: what it goes through is no longer than what was bound."""
        once, each_round = self._weight
        reach = (room.longest_list + self.source.count(",")) * self._growth
        text = room.longest_text * self._growth // limits.TEXT_A_STEP
        first = room.values * limits.FIRST_COMPARED_STEPS if once.whole or each_round.whole else 0
        steps = text + first + once.steps(room, reach, self._growth)
        if not self.syntax.loops:
            return steps
        rounds = min(reach**self.syntax.loops, limits.MAX_ROUNDS)
        each = self.syntax.loop_calls + reach // limits.ITEMS_A_STEP + text
        return steps + rounds * (each + each_round.steps(room, reach, self._growth))


class _Bill:
    """What an evaluation has been charged for, before the work is done; it reads more as it asks for parts."""

    __slots__ = ("_effort", "_paid", "_room", "_steps", "_worked")

    def __init__(self, effort: Effort | None, room: Room, steps: Callable[[Room], int]) -> None:
        self._effort = effort
        self._room = room
        self._steps = steps
        self._paid = 0
        self._worked = 0

    def charge(self) -> None:
        if self._effort is None:
            return
        read, work = self._room.steps, limits.EVALUATION_STEPS + self._steps(self._room)
        self._effort.spent(read - self._paid)
        self._effort.spend(work - self._worked)
        self._paid, self._worked = read, work


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


def meant_expression(source: str, *, names_are_known: bool = True) -> str:
    """Returns how an expression of another language is spelt here; empty: nobody knows, or it is spelt so already.

    Args:
        source: as it was written.
        names_are_known: only what compiles with all its names.
    """
    here = as_spelt_here(source)
    if here == source.strip():
        return ""
    try:
        compile_expression(here)
    except UnknownNames:
        return "" if names_are_known else here
    except ExpressionInvalid:
        return ""
    return here


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
    if found := _FROM_THE_END.search(_messages.without_texts(source)):
        line, column = _place_of(source, found.start())
        message = f"there is no item {found[0]}: places in a list count from 0"
        raise ExpressionInvalid(line, column, message, "write list[size(list) - 1]")
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
    paths = {read.path for read in named if not (read.tested or read.part)}
    reads = [path for path in paths if not _reaches_into(path, paths)]
    parts = {read.path for read in named if read.part and read.path not in paths}
    tests = {read.path for read in named if read.tested and read.path not in paths}
    return References(
        reads=tuple(sorted(reads)),
        parts=tuple(sorted(path for path in parts if not _reaches_into(path, paths))),
        tests=tuple(sorted(path for path in tests if not _reaches_into(path, paths))),
        whole=syntax.whole if syntax.whole and syntax.whole[0] not in _TYPE_NAMES else None,
    )


def _fields_asked_for(reads: Iterable[Read]) -> dict[VariablePath, frozenset[str]]:
    """Of paths of whose items it asks for nothing but fields: for which."""
    items = [read for read in reads if read.part == "item"]
    whole = {read.path for read in items if read.field is None}
    fields: dict[VariablePath, frozenset[str]] = {}
    for read in items:
        if read.field is not None and read.path not in whole:
            fields[read.path] = fields.get(read.path, frozenset()) | {read.field}
    return fields


def _part_name(path: VariablePath) -> str:
    """The variable that stands for a path of which only parts are asked for: no source can spell it."""
    return "@part:" + "\0".join(path)


def _bound_parts(paths: Collection[VariablePath], bindings: Mapping[str, Json]) -> dict[VariablePath, Part]:
    found: dict[VariablePath, Part] = {}
    for path in paths:
        inner: Json = dict(bindings)
        for step in path:
            inner = inner[step] if isinstance(inner, dict) and step in inner else None
        found[path] = Plain(inner)
    return found


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
