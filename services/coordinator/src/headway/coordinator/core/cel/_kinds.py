"""What kinds of JSON values an expression yields, as far as it is known, and where kinds meet that cannot.

CEL's own checker sees all values of a run as one type, since they come as JSON. What is known of them (a schema, what a
node always yields) is known to the caller, who is asked for it path by path.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headway.coordinator.core.cel._syntax import Call, Constant, Field, Group, Loop, Name, Tree, path_of
from headway.coordinator.core.plan import VariablePath

NUMBER, TEXT, BOOLEAN, NULL, LIST, MAP, OTHER = "number", "text", "boolean", "null", "list", "map", "other"
Kinds: TypeAlias = frozenset[str] | None
"""The kinds that a value may be of; None: nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of the value at a path.

    Attributes:
        kinds: that it may be of.
        words: if it is a text, it is one of these; None: any.
    """

    kinds: Kinds = None
    words: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Values that cannot be used as they are.

    Attributes:
        offset: where, in characters from 0.
        message: what is wrong.
        remedy: what to do; may be empty.
    """

    offset: int
    message: str
    remedy: str


_YIELDS: Mapping[str, str] = {
    "size": NUMBER, "int": NUMBER, "uint": NUMBER, "double": NUMBER, "string": TEXT, "bool": BOOLEAN,
    "contains": BOOLEAN, "startsWith": BOOLEAN, "endsWith": BOOLEAN, "matches": BOOLEAN, "@in": BOOLEAN, "!_": BOOLEAN,
    "_&&_": BOOLEAN, "_||_": BOOLEAN, "_==_": BOOLEAN, "_!=_": BOOLEAN, "_<_": BOOLEAN, "_<=_": BOOLEAN,
    "_>_": BOOLEAN, "_>=_": BOOLEAN,
}  # fmt: skip
_SIGNS: Mapping[str, str] = {
    "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "_==_": "==", "_!=_": "!=", "_+_": "+", "_-_": "-", "_*_": "*",
    "_/_": "/", "_%_": "%", "_&&_": "&&", "_||_": "||", "!_": "!", "-_": "-",
}  # fmt: skip
_TAKES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), frozenset({NUMBER, TEXT, BOOLEAN, OTHER})),
    "_+_": frozenset({NUMBER, TEXT, LIST, OTHER}),
    "_-_": frozenset({NUMBER, OTHER}),
    **dict.fromkeys(("_*_", "_/_", "_%_", "-_"), frozenset({NUMBER})),
    **dict.fromkeys(("_&&_", "_||_", "!_"), frozenset({BOOLEAN})),
}
_ARITHMETIC = frozenset({"_+_", "_-_", "_*_", "_/_", "_%_", "-_"})
_OF_ONE_KIND = frozenset({"_<_", "_<=_", "_>_", "_>=_", "_+_"})
_EQUALITY = frozenset({"_==_", "_!=_"})
_COMPARE = "compare it with something: == … or > …"


class Judge:
    """Goes through one expression."""

    def __init__(self, know: Callable[[VariablePath], Known]) -> None:
        """Ask `know` what is known of the value at a path."""
        self.misfits: list[Misfit] = []
        self._know = know

    def judge(self, tree: Tree, hidden: frozenset[str] = frozenset()) -> Known:
        """Returns what is known of a part's value; what cannot be used as it is goes to `misfits`."""
        if isinstance(tree, Field) and tree.tested:
            return Known(kinds=frozenset({BOOLEAN}))
        if (found := path_of(tree, hidden)) is not None:
            return self._know(found[0])
        match tree:
            case Constant(kind=kind, text=text):
                return Known(kinds=frozenset({kind}), words=None if text is None else frozenset({text}))
            case Name() | Field(operand=Name()):
                return Known()
            case Field(operand=operand):
                self.judge(operand, hidden)
                return Known()
            case Group(kind=kind, parts=parts):
                for part in parts:
                    self.judge(part, hidden)
                return Known(kinds=frozenset({kind}))
            case Loop(names=names, outside=outside, inside=inside):
                for part in outside:
                    self.judge(part, hidden)
                for part in inside:
                    self.judge(part, hidden | names)
                return Known()
            case Call(function=function, operands=operands):
                return self._judge_call(tree, function, [self.judge(operand, hidden) for operand in operands])

    def _judge_call(self, call: Call, function: str, operands: list[Known]) -> Known:
        taken = _TAKES.get(function)
        refused = next((each for each in operands if taken and each.kinds is not None and not each.kinds & taken), None)
        if taken is not None and refused is not None:
            wanted = words_for(taken - {OTHER})
            message = f"{_SIGNS[function]} takes {wanted}, this is {words_for(refused.kinds)}"
            self.misfits.append(Misfit(offset=call.offset, message=message, remedy=_remedy(function, refused.kinds)))
        elif len(operands) == 2 and function in _OF_ONE_KIND | _EQUALITY:  # noqa: PLR2004 - both sides
            self._compare(call, function, *operands)
        if function == "_?_:_" and len(operands) == 3:  # noqa: PLR2004 - condition and both values
            self._ask(call, operands[0])
            return Known(kinds=_either(operands[1].kinds, operands[2].kinds))
        if function in _ARITHMETIC:
            return Known(kinds=_result(operands))
        yields = _YIELDS.get(function)
        return Known(kinds=None if yields is None else frozenset({yields}))

    def _ask(self, call: Call, condition: Known) -> None:
        """Sees whether what stands before `?`, or what a list is filtered by, can be true or false."""
        if condition.kinds is not None and BOOLEAN not in condition.kinds:
            message = f"a condition must be true or false, this is {words_for(condition.kinds)}"
            self.misfits.append(Misfit(offset=call.offset, message=message, remedy=_COMPARE))

    def _compare(self, call: Call, function: str, left: Known, right: Known) -> None:
        if left.kinds is None or right.kinds is None or OTHER in left.kinds | right.kinds:
            return
        sign, shared = _SIGNS[function], left.kinds & right.kinds
        if function in _EQUALITY and shared == {TEXT} and left.words and right.words and not left.words & right.words:
            wanted, given = sorted((left.words, right.words), key=len, reverse=True)
            message = f"{sign} compares with {_quoted(given)}, which this never is"
            self.misfits.append(Misfit(offset=call.offset, message=message, remedy=f"it is one of {_quoted(wanted)}"))
        elif not shared and not (function in _EQUALITY and NULL in left.kinds | right.kinds):
            message = f"{sign} is used on {words_for(left.kinds)} and {words_for(right.kinds)}"
            if function in _EQUALITY:
                message += ", which are never equal"
            remedy = "convert one of them: int(…), double(…) or string(…)"
            self.misfits.append(Misfit(offset=call.offset, message=message, remedy=remedy))


def words_for(kinds: Kinds) -> str:
    """Returns `a number or text`."""
    with_article = {NUMBER: "a number", BOOLEAN: "true or false", LIST: "a list", MAP: "a map"}
    return " or ".join(with_article.get(kind, kind) for kind in sorted(kinds or ()))


def _quoted(words: frozenset[str]) -> str:
    return ", ".join(f'"{word}"' for word in sorted(words))


def _remedy(function: str, kinds: Kinds) -> str:
    if _TAKES[function] == {BOOLEAN}:
        return _COMPARE
    return "convert it: int(…) or double(…)" if kinds == {TEXT} else f"give it {words_for(_TAKES[function] - {OTHER})}"


def _either(one: Kinds, other: Kinds) -> Kinds:
    return None if one is None or other is None else one | other


def _result(operands: list[Known]) -> Kinds:
    kinds = {each.kinds for each in operands}
    return kinds.pop() if len(kinds) == 1 else None
