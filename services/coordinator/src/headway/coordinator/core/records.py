"""Events and actions as they are recorded in a run's history, and back.

Recorded: `{"<field>": …}` for an event and `["<Action>", {"<field>": …}]` for each action. Payloads are recorded by
their size only: they are rows of `outputs` and `signals`. A record carries events.FORMAT; older ones are upgraded here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, get_args

import orjson

from headway.coordinator.core import actions, events
from headway.coordinator.core.actions import Action
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.events import FORMAT, Event, Failure, RunEvent
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import FailureClass

_ACTIONS: Mapping[str, type] = {cls.__name__: cls for cls in get_args(actions.Action)}
_EVENTS: Mapping[str, type] = {cls.__name__: cls for cls in get_args(events.RunEvent)}
_SHARED = frozenset(field.name for field in fields(Event)) - {"request_id"}  # columns of their own, or not kept
_NOT_RECORDED = _SHARED | {"path", "attempt"}


def encode_event(event: RunEvent) -> bytes:
    """Return the event's own fields as a JSON object; type, time, path and attempt are columns."""
    own = {field.name: getattr(event, field.name) for field in fields(event) if field.name not in _NOT_RECORDED}
    return orjson.dumps(own, default=_summary)


def encode_actions(given: Iterable[Action]) -> bytes:
    """Return the actions as a JSON array."""
    return orjson.dumps([(type(action).__name__, action) for action in given], default=_summary)


def decode_actions(raw: bytes, payloads: Callable[[Action], Document] | None = None) -> list[Action]:
    """Return recorded actions.

    Args:
        raw: from the history.
        payloads: finds the stored payload of a StorePayload or BufferSignal; None: they come back as null.

    Raises:
        KeyError: the history was written by a newer version.
    """
    decoded: list[Action] = []
    for name, given in orjson.loads(raw):
        action = _build(_ACTIONS[name], given)
        if payloads is not None and isinstance(action, actions.StorePayload):
            action = actions.StorePayload(
                path=action.path, attempt=action.attempt, role=action.role, data=payloads(action)
            )
        elif payloads is not None and isinstance(action, actions.BufferSignal):
            action = actions.BufferSignal(name=action.name, payload=payloads(action))
        decoded.append(action)
    return decoded


def event_types() -> tuple[str, ...]:
    """Every type of event that a history can hold."""
    return tuple(_EVENTS)


def _summary(value: object) -> object:
    if isinstance(value, Document):
        return {"size": len(value.raw)}
    raise TypeError(type(value).__name__)


def _build(cls: type, given: Mapping[str, Any]) -> Any:
    converters = _CONVERT.get(cls, {})
    return cls(**{name: converters[name](value) if name in converters else value for name, value in given.items()})


def _instant(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def _failure(value: Mapping[str, Any]) -> Failure:
    fields_of = dict(value)
    return Failure(failure_class=FailureClass(fields_of.pop("failure_class")), **fields_of)


def _names(value: Iterable[Iterable[Any]]) -> tuple[tuple[str, int | None], ...]:
    return tuple((name, edge) for name, edge in value)


_CONVERT: Mapping[type, Mapping[str, Callable[[Any], Any]]] = {
    actions.FinishRun: {"state": RunState},
    actions.ReopenRun: {"chosen": tuple, "reset": tuple, "kept": tuple},
    actions.StorePayload: {"data": lambda _: NULL},
    actions.SetInput: {"input": tuple},
    actions.AwaitTask: {"due_at": _instant},
    actions.ClaimTask: {"leased_at": _instant, "started_at": _instant},
    actions.FailTask: {"failure": _failure},
    actions.ScheduleRetry: {"due_at": _instant},
    actions.ScheduleTimer: {"due_at": _instant},
    actions.SetToken: {"names": _names},
    actions.EraseTokens: {"slots": tuple},
    actions.BufferSignal: {"payload": lambda _: NULL},
}

__all__ = ["FORMAT", "decode_actions", "encode_actions", "encode_event", "event_types"]
