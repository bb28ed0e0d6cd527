"""Reads the syntax tree of a CEL expression.

The evaluator hands out its tree only as a serialized `cel.expr.ParsedExpr` or `CheckedExpr` message. This module takes
those bytes apart by the field numbers of cel/expr/syntax.proto and checked.proto (protobuf's rules of compatibility
keep them fixed) and finds what the rest of the engine must know: which variables an expression reads, where they stand,
and how much work it may ask for. It never evaluates anything.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from headway.coordinator.core.cel._wire import Message
from headway.coordinator.core.plan import VariablePath


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One place at which an expression reads a variable.

    Attributes:
        path: the longest path of plain fields and constant text keys, cut behind any other index.
        offset: where it begins, in characters from 0.
        tested: it is the operand of `has(…)`: only its presence is asked.
        part: only an item of it is asked for ("item"), or how large it is ("size"); empty: all of it.
        field: of the item, all that is asked for; None: the whole item.
        expression: the number of this part of the tree, the same when the source is parsed again; with `part`, that of
            the call that asks.
    """

    path: VariablePath
    offset: int
    tested: bool
    part: str
    field: str | None = None
    expression: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """`path[…].rest`, and nothing else.

    Attributes:
        path: of the list or map.
        rest: from the item on.
        expression: the number of the call that looks the item up.
    """

    path: VariablePath
    rest: VariablePath
    expression: int


@dataclass(slots=True, kw_only=True)
class Syntax:
    """What an expression is made of.

    Attributes:
        reads: in the order of the tree.
        whole: the path, when the expression is nothing else.
        chosen: when the expression is nothing but an item of a path, or a field in that: where.
        loops: how deep comprehensions (`map`, `filter`, `all`, `exists`) are nested.
        gone_through: the paths that they go through.
        loop_calls: calls and operators inside comprehensions; those that ask for a part of a path count for more.
        messages: the offset of each protobuf message that it builds.
        root: its tree.
    """

    root: "Tree"
    reads: list[Read] = field(default_factory=list[Read])
    whole: VariablePath | None = None
    chosen: "Chosen | None" = None
    loops: int = 0
    gone_through: list[VariablePath] = field(default_factory=list[VariablePath])
    loop_calls: int = 0
    messages: list[int] = field(default_factory=list[int])


def read_syntax(serialized: bytes) -> Syntax:
    """Returns what stands in an expression, given as the evaluator serialized it."""
    root = _decode(serialized)
    syntax = Syntax(root=root)
    _visit(root, syntax, frozenset(), 0)
    if not (isinstance(root, Field) and root.tested):
        found = path_of(root, frozenset())
        syntax.whole = found[0] if found else None
        syntax.chosen = _chosen(root)
    return syntax


# The tree


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is spelt out; `text` is set when it is a text, `truth` when it is true or false.

    `kind`: as in `_kinds`.
    """

    kind: str
    text: str | None
    truth: bool | None = None


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Field:
    """A field of something."""

    operand: "Tree"
    name: str
    tested: bool
    number: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator; `offset` is where its name stands."""

    function: str
    operands: tuple["Tree", ...]
    offset: int
    number: int


@dataclass(frozen=True, slots=True)
class Group:
    """A list, a map or a protobuf message; `message` is the message's offset."""

    kind: str
    parts: tuple["Tree", ...]
    message: int | None


@dataclass(frozen=True, slots=True)
class Loop:
    """A comprehension; `names` are those that it gives to what is inside."""

    names: frozenset[str]
    outside: tuple["Tree", ...]
    inside: tuple["Tree", ...]


Tree: TypeAlias = Constant | Name | Field | Call | Group | Loop


def path_of(tree: Tree, hidden: frozenset[str]) -> tuple[VariablePath, int] | None:
    """Returns the path that a part of the tree reads, and its offset; None: it is no path.

    Args:
        tree: the part.
        hidden: names that comprehensions around it have given.
    """
    steps: list[str] = []
    while True:
        match tree:
            case Field(operand=operand, name=name):
                steps.append(name)
                tree = operand
            case Call(function="_[_]", operands=(operand, Constant(text=str() as key))):
                steps.append(key)
                tree = operand
            case Name(name=name, offset=offset) if name not in hidden:
                return (name.removeprefix("."), *reversed(steps)), offset
            case _:
                return None


PART_CALLS = 4  # calls that asking for a part counts for: the evaluator has to call back
_PARTS = {("_[_]", 2): "item", ("size", 1): "size"}  # by function and how many it takes: what it asks of the first


def _chosen(tree: Tree) -> Chosen | None:
    rest: list[str] = []
    while True:
        match tree:
            case Field(operand=operand, name=name):
                rest.append(name)
                tree = operand
            case Call(function="_[_]", operands=(operand, Constant(text=str() as key))):
                rest.append(key)
                tree = operand
            case Call(function="_[_]", operands=(operand, _), number=number) if found := path_of(operand, frozenset()):
                return Chosen(path=found[0], rest=tuple(reversed(rest)), expression=number)
            case _:
                return None


def _operands_but_parts(
    call: Call, syntax: Syntax, hidden: frozenset[str], field_of_it: str | None
) -> tuple[Tree, ...]:
    """What a call takes, but for a path of which it asks for a part."""
    part = _PARTS.get((call.function, len(call.operands)), "")
    found = path_of(call.operands[0], hidden) if part else None
    if found is None:
        return call.operands
    path, offset = found
    asked = Read(path=path, offset=offset, tested=False, part=part, field=field_of_it, expression=call.number)
    syntax.reads.append(asked)
    return call.operands[1:]


def _visit(tree: Tree, syntax: Syntax, hidden: frozenset[str], depth: int, field_of_it: str | None = None) -> None:
    found = path_of(tree, hidden)
    if found is not None:
        tested = isinstance(tree, Field) and tree.tested
        number = tree.number if isinstance(tree, Field) else 0
        syntax.reads.append(Read(path=found[0], offset=found[1], tested=tested, part="", expression=number))
        return
    match tree:
        case Constant() | Name():
            pass
        case Field(operand=operand, name=name):
            _visit(operand, syntax, hidden, depth, name)
        case Call():
            _visit_call(tree, syntax, hidden, depth, field_of_it)
        case Group(parts=parts, message=message):
            if message is not None:
                syntax.messages.append(message)
            for part in parts:
                _visit(part, syntax, hidden, depth)
        case Loop(names=names, outside=outside, inside=inside):
            syntax.loops = max(syntax.loops, depth + 1)
            for part in outside:
                found = path_of(part, hidden)
                syntax.gone_through += [found[0]] if found is not None else []
                _visit(part, syntax, hidden, depth)
            for part in inside:
                _visit(part, syntax, hidden | names, depth + 1)


def _visit_call(tree: Call, syntax: Syntax, hidden: frozenset[str], depth: int, field_of_it: str | None) -> None:
    match tree:
        case Call(function="_[_]", operands=(operand, Constant(text=str() as key))):
            syntax.loop_calls += depth > 0
            _visit(operand, syntax, hidden, depth, key)
        case _:
            operands = _operands_but_parts(tree, syntax, hidden, field_of_it)
            syntax.loop_calls += (depth > 0) * (1 if operands is tree.operands else PART_CALLS)
            for operand in operands:
                _visit(operand, syntax, hidden, depth)


# Protobuf. Field numbers from cel/expr/syntax.proto, checked.proto and google/protobuf/any.proto.

_ANY_TYPE, _ANY_VALUE = 1, 2
_EXPRESSION_AND_SOURCE = {"CheckedExpr": (4, 5), "ParsedExpr": (2, 3)}
_SOURCE_POSITIONS, _MAP_KEY, _MAP_VALUE = 4, 1, 2
_ID, _CONSTANT, _NAME, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = 2, 3, 4, 5, 6, 7, 8, 9
_CONSTANT_TRUTH, _CONSTANT_TEXT, _NAME_TEXT = 2, 6, 1
_CONSTANT_KINDS = {1: "null", 2: "boolean", 3: "number", 4: "number", 5: "number", 6: "text"}
_SELECT_OPERAND, _SELECT_FIELD, _SELECT_TEST = 1, 2, 3
_CALL_TARGET, _CALL_FUNCTION, _CALL_ARGUMENTS = 1, 2, 3
_LIST_ELEMENTS = 1
_STRUCT_MESSAGE, _STRUCT_ENTRIES, _ENTRY_KEY, _ENTRY_VALUE = 1, 2, 3, 4
_LOOP_NAMES, _LOOP_OUTSIDE, _LOOP_INSIDE = (1, 3, 8), (2, 4), (5, 6, 7)


def _decode(serialized: bytes) -> Tree:
    outer = Message(serialized, (0, len(serialized)))
    expression, source = _EXPRESSION_AND_SOURCE[outer.text(_ANY_TYPE).rpartition(".")[2]]
    inner = outer.message(_ANY_VALUE)
    entries = inner.message(source).messages(_SOURCE_POSITIONS)
    offsets = {entry.integer(_MAP_KEY): entry.integer(_MAP_VALUE) for entry in entries}
    return _decode_tree(inner.message(expression), offsets)


def _decode_tree(message: Message, offsets: dict[int, int]) -> Tree:
    def decode(messages: list[Message]) -> tuple[Tree, ...]:
        return tuple(_decode_tree(each, offsets) for each in messages)

    number = message.integer(_ID)
    offset = offsets.get(number, 0)
    if _NAME in message:
        return Name(message.message(_NAME).text(_NAME_TEXT), offset)
    if _SELECT in message:
        select = message.message(_SELECT)
        operand = _decode_tree(select.message(_SELECT_OPERAND), offsets)
        return Field(operand, select.text(_SELECT_FIELD), select.integer(_SELECT_TEST) != 0, number)
    if _CALL in message:
        call = message.message(_CALL)
        return Call(call.text(_CALL_FUNCTION), decode(call.messages(_CALL_TARGET, _CALL_ARGUMENTS)), offset, number)
    if _LIST in message:
        return Group("list", decode(message.message(_LIST).messages(_LIST_ELEMENTS)), None)
    if _STRUCT in message:
        struct = message.message(_STRUCT)
        parts = [
            part for entry in struct.messages(_STRUCT_ENTRIES) for part in entry.messages(_ENTRY_KEY, _ENTRY_VALUE)
        ]
        is_message = bool(struct.text(_STRUCT_MESSAGE))
        return Group("other" if is_message else "map", decode(parts), offset if is_message else None)
    if _LOOP in message:
        loop = message.message(_LOOP)
        names = frozenset(loop.texts(*_LOOP_NAMES))
        return Loop(names, decode(loop.messages(*_LOOP_OUTSIDE)), decode(loop.messages(*_LOOP_INSIDE)))
    constant = message.message(_CONSTANT)
    kind = next((kind for number, kind in _CONSTANT_KINDS.items() if number in constant), "other")
    text = constant.text(_CONSTANT_TEXT) if kind == "text" else None
    return Constant(kind, text, bool(constant.integer(_CONSTANT_TRUTH)) if kind == "boolean" else None)
