"""Events and actions as they are recorded in a run's history, and back.

Recorded by position and as MessagePack, to be small: `[<field>, …]` for an event, and `[<tag>, <field>, …]` for each
action; `readable` gives them their names back. Payloads are recorded by their size only: they are rows of `outputs` and
`signals`. A record carries events.FORMAT; older ones are upgraded here.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, get_args

import msgspec
import orjson

from headway.coordinator.core import actions, events
from headway.coordinator.core.actions import Action, BufferSignal, StorePayload
from headway.coordinator.core.document import Document
from headway.coordinator.core.events import FORMAT, RunEvent

_NOT_RECORDED = frozenset(
    {"at", "chance", "path", "attempt", "owner", "labels", "parent", "deadline_at", "is_cancelled"}
)  # columns, in actions, or not kept
_PAYLOADS = frozenset({"input", "output", "payload"})  # recorded by size
_EVENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    cls.__name__: tuple(name for name in cls.__struct_fields__ if name not in _NOT_RECORDED)
    for cls in get_args(events.RunEvent)
}


class Unread(Document):
    """A payload that a record mentions: only its size is known.

    Attributes:
        size: bytes.
    """

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        """Stand for a payload of that size."""
        super().__init__(b"null")
        self.size = size


class UnknownRecord(Exception):
    """The history was written by a newer version."""


def _size(value: object) -> object:
    if isinstance(value, Document):
        return len(value.raw)
    raise TypeError(type(value).__name__)


def _unread(kind: type, value: Any) -> object:
    if kind is Document:
        return Unread(value)
    raise TypeError(kind.__name__)


def _getter(names: tuple[str, ...]) -> Callable[[RunEvent], tuple[Any, ...]]:
    values = attrgetter(*names)
    return values if len(names) > 1 else lambda event: (values(event),)


_GETTERS = {cls: _getter(_EVENT_FIELDS[cls.__name__]) for cls in get_args(events.RunEvent)}
_encode = msgspec.msgpack.Encoder(enc_hook=_size).encode
_decode = msgspec.msgpack.Decoder(list[actions.Action], dec_hook=_unread).decode
_decode_values = msgspec.msgpack.Decoder(list[Any]).decode


def encode_event(event: RunEvent) -> bytes:
    """Return the event's own fields, in their order, as an array; type, time, path and attempt are columns."""
    return _encode(_GETTERS[type(event)](event))


def encode_actions(given: list[Action]) -> bytes:
    """Return the actions as an array."""
    return _encode(given)


def decode_actions(raw: bytes, payloads: Callable[[Action], Document] | None = None) -> list[Action]:
    """Return recorded actions.

    Args:
        raw: from the history.
        payloads: finds the stored payload of a StorePayload or BufferSignal; None: they come back unread.

    Raises:
        UnknownRecord: the history was written by a newer version.
    """
    try:
        decoded = _decode(raw)
    except msgspec.ValidationError as error:
        raise UnknownRecord(str(error)) from error
    return decoded if payloads is None else [_with_payload(action, payloads) for action in decoded]


def _with_payload(action: Action, payloads: Callable[[Action], Document]) -> Action:
    if isinstance(action, StorePayload):
        return msgspec.structs.replace(action, data=payloads(action))
    return msgspec.structs.replace(action, payload=payloads(action)) if isinstance(action, BufferSignal) else action


def readable(event_type: str, event: bytes, given: bytes) -> tuple[bytes, bytes]:
    """Return a record for people and clients.

    Args:
        event_type: of the record.
        event: as recorded.
        given: actions, as recorded.

    Returns:
        A JSON object of the event's fields, and a JSON array of `["<Action>", {"<field>": …}]`.
    """
    values = zip(_EVENT_FIELDS[event_type], _decode_values(event), strict=False)
    named = {name: {"size": value} if name in _PAYLOADS else value for name, value in values}
    orders = [(type(order).__name__, _fields(order)) for order in decode_actions(given)]
    return orjson.dumps(named), orjson.dumps(orders)


def _fields(order: Action) -> dict[str, object]:
    named = msgspec.structs.asdict(order)
    return {
        name: {"size": value.size} if isinstance(value, Unread) else msgspec.to_builtins(value)
        for name, value in named.items()
    }


def event_types() -> tuple[str, ...]:
    """Every type of event that a history can hold."""
    return tuple(_EVENT_FIELDS)


__all__ = [
    "FORMAT",
    "UnknownRecord",
    "Unread",
    "decode_actions",
    "encode_actions",
    "encode_event",
    "event_types",
    "readable",
]
