"""Changes a checked CEL expression before it is evaluated, where CEL's own ways do not suit workflows.

- Division is given to a function of our own: see `_environment`.
- What a comprehension goes through is passed through `@items`, unless the checker knows that it is a list: a list
  stays as it is, a map becomes its sorted keys.
  CEL goes through a map in an order that differs from process to process; decisions must not.

The expression is a serialized message; it is copied field by field, and only what changes is written anew.
"""

from headway.coordinator.core.cel._wire import Message, Span, read_fields, write_field

DIVISION = b"@/@"
ITEMS = b"@items"

# Kind of message: its fields that hold messages to look into, by number. From cel/expr/syntax.proto, checked.proto and
# google/protobuf/any.proto; "range" is an expression that a comprehension goes through.
_CHILDREN: dict[str, dict[int, str]] = {
    "any": {2: "checked"},
    "checked": {4: "expression"},
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
_ID, _CALL, _FUNCTION, _ARGUMENT = 2, 6, 2, 3
_FIRST_OWN_ID = 1 << 20  # beyond any id that a source of limited size can give rise to


def rewrite(serialized: bytes) -> bytes:
    """Returns the checked expression with our own division and order of maps."""
    whole = (0, len(serialized))
    checked = Message(serialized, whole).message(_ANY_VALUE)
    lists = frozenset(
        entry.integer(_MAP_KEY) for entry in checked.messages(_TYPE_MAP) if _LIST_TYPE in entry.message(_MAP_VALUE)
    )
    return _copy(serialized, whole, "any", lists)


def _copy(buffer: bytes, span: Span, kind: str, lists: frozenset[int]) -> bytes:
    if kind == "function":
        name = buffer[span[0] : span[1]]
        return DIVISION if name == b"_/_" else name
    if kind == "range":
        copied = _copy(buffer, span, "expression", lists)
        is_list = Message(buffer, span).integer(_ID) in lists
        return copied if is_list else _through_items(copied, _FIRST_OWN_ID + span[0])
    children = _CHILDREN[kind]
    written = bytearray()
    for number, value, (begin, end) in read_fields(buffer, span):
        if number in children and isinstance(value, tuple):
            written += write_field(number, _copy(buffer, value, children[number], lists))
        else:
            written += buffer[begin:end]
    return bytes(written)


def _through_items(expression: bytes, own_id: int) -> bytes:
    call = write_field(_FUNCTION, ITEMS) + write_field(_ARGUMENT, expression)
    return write_field(_ID, own_id) + write_field(_CALL, call)
