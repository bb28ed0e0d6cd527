"""Changes a checked CEL expression before it is evaluated, where CEL's own ways do not suit workflows.

- Division is given to a function of our own: see `_environment`.
- What a comprehension goes through is passed through `@items`, unless the checker knows that it is a list: a list
  stays as it is, a map becomes its sorted keys.
  CEL goes through a map in an order that differs from process to process; decisions must not.
- `has(input.a.b)` is an error in CEL where there is no `input.a`, and where that is no map. Here it is false: each test
  of a variable's path becomes a variable of its own, bound to the answer; and `has(item.a.b)`, where the item is not of
  such a path, becomes `has(item.a) && has(item.a.b)`.
- `nodes.a.output[n]` and `size(nodes.a.output)` are asked for during the evaluation, through `@item` and `@size`: what
  they are of need not be read as a whole.

The expression is a serialized message; it is copied field by field, and only what changes is written anew.
"""

from collections.abc import Mapping

from headway.coordinator.core.cel._wire import Message, Span, read_fields, write_field

DIVISION = b"@/@"
ITEMS = b"@items"
ITEM = b"@item"
SIZE = b"@size"
AND = b"_&&_"

# Kind of message: its fields that hold messages to look into, by number. From cel/expr/syntax.proto, checked.proto and
# google/protobuf/any.proto; "range" is an expression that a comprehension goes through.
_CHILDREN: dict[str, dict[int, str]] = {
    "any": {2: "checked"},
    "checked": {4: "root"},
    "expression": {5: "select", 6: "call", 7: "list", 8: "struct", 9: "loop"},
    "select": {1: "expression"},
    "call": {1: "expression", 2: "function", 3: "expression"},
    "list": {1: "expression"},
    "struct": {2: "entry"},
    "entry": {3: "expression", 4: "expression"},
    "loop": {2: "range", 4: "expression", 5: "expression", 6: "expression", 7: "expression"},
}
_ANY_VALUE, _TYPE_MAP, _LIST_TYPE = 2, 3, 6
_MAP_KEY, _MAP_VALUE = 1, 2
_ID, _NAME, _SELECT, _CALL, _CALL_TARGET, _FUNCTION, _ARGUMENT = 2, 4, 5, 6, 1, 2, 3
_NAME_TEXT, _SELECT_OPERAND, _SELECT_TEST = 1, 1, 3
_FIRST_OWN_ID = 1 << 20  # beyond any id that a source of limited size can give rise to


def rewrite(
    serialized: bytes, tests: Mapping[int, str], parts: Mapping[int, str] | None = None, key_of: int | None = None
) -> bytes:
    """Returns the checked expression with our own division, order of maps, tests of presence and look-ups of items.

    Args:
        serialized: the checked expression.
        tests: for parts of the tree, by number, that test a path: the variable that is the answer.
        parts: for calls, by number, that ask for an item or the size of a path: the variable that stands for its value.
        key_of: of the tree take only what the look-up of this number looks up.
    """
    whole = (0, len(serialized))
    checked = Message(serialized, whole).message(_ANY_VALUE)
    lists = frozenset(
        entry.integer(_MAP_KEY) for entry in checked.messages(_TYPE_MAP) if _LIST_TYPE in entry.message(_MAP_VALUE)
    )
    return _Copy(serialized, lists, tests, parts or {}, key_of).of(whole, "any")


class _Copy:
    """The way through one message."""

    __slots__ = ("_buffer", "_key_of", "_lists", "_parts", "_tests")

    def __init__(
        self,
        buffer: bytes,
        lists: frozenset[int],
        tests: Mapping[int, str],
        parts: Mapping[int, str],
        key_of: int | None,
    ) -> None:
        self._buffer = buffer
        self._lists = lists
        self._tests = tests
        self._parts = parts
        self._key_of = key_of

    def of(self, span: Span, kind: str) -> bytes:
        """Returns what stands there, changed."""
        match kind:
            case "function":
                name = self._buffer[span[0] : span[1]]
                return DIVISION if name == b"_/_" else name
            case "range":
                copied = self.of(span, "expression")
                is_list = Message(self._buffer, span).integer(_ID) in self._lists
                return copied if is_list else _call(ITEMS, (copied,), _FIRST_OWN_ID + span[0])
            case "expression":
                return self._expression(span)
            case "root":
                return self._expression(span if self._key_of is None else self._key_in(span))
            case _:
                return self._fields(span, kind)

    def _fields(self, span: Span, kind: str) -> bytes:
        children = _CHILDREN[kind]
        written = bytearray()
        for number, value, (begin, end) in read_fields(self._buffer, span):
            if number in children and isinstance(value, tuple):
                written += write_field(number, self.of(value, children[number]))
            else:
                written += self._buffer[begin:end]
        return bytes(written)

    def _expression(self, span: Span) -> bytes:
        message = Message(self._buffer, span)
        number = message.integer(_ID)
        answer = self._tests.get(number)
        if answer is not None:
            return _variable(answer, _FIRST_OWN_ID + span[0])
        if number in self._parts:
            call = message.message(_CALL)
            (_, *asked) = call.spans(_CALL_TARGET, _ARGUMENT)
            operands = (_variable(self._parts[number], _FIRST_OWN_ID + span[0] + 1), *map(self._expression, asked))
            return _call(ITEM if asked else SIZE, operands, _FIRST_OWN_ID + span[0])
        copied = self._fields(span, "expression")
        if message.message(_SELECT).integer(_SELECT_TEST):
            return self._test_before(message.message(_SELECT).spans(_SELECT_OPERAND)[0], copied)
        return copied

    def _key_in(self, span: Span) -> Span:
        """Where what `key_of` looks up lies: it is at the root, or before nothing but fields."""
        message = Message(self._buffer, span)
        if _SELECT in message:
            return self._key_in(message.message(_SELECT).spans(_SELECT_OPERAND)[0])
        operand, key = message.message(_CALL).spans(_ARGUMENT)
        return key if message.integer(_ID) == self._key_of else self._key_in(operand)

    def _test_before(self, span: Span, test: bytes) -> bytes:
        """Returns the test behind tests of all the fields on the way to it; the nearest to the root comes first."""
        operand = Message(self._buffer, span)
        if _SELECT not in operand:
            return test
        (select,) = operand.spans(_SELECT)
        tested = self._fields(select, "select") + write_field(_SELECT_TEST, 1)
        step = write_field(_ID, _FIRST_OWN_ID + span[0]) + write_field(_SELECT, tested)
        both = _call(AND, (step, test), _FIRST_OWN_ID + span[0] + 1)
        return self._test_before(operand.message(_SELECT).spans(_SELECT_OPERAND)[0], both)


def _variable(name: str, own_id: int) -> bytes:
    return write_field(_ID, own_id) + write_field(_NAME, write_field(_NAME_TEXT, name.encode()))


def _call(function: bytes, arguments: tuple[bytes, ...], own_id: int) -> bytes:
    call = write_field(_FUNCTION, function) + b"".join(write_field(_ARGUMENT, each) for each in arguments)
    return write_field(_ID, own_id) + write_field(_CALL, call)
