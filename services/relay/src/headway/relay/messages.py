"""What the relay carries: rows of the outbox, and how they look to a worker or to the coordinator.

Pure: no I/O, no clock, no client library. The broker message is a contract (docs/worker_protocol.md).
"""

import json
import re
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from headway.runtime.ids import task_id
from headway.runtime.queues import queue_name_of

__all__ = ["DISPATCH_FIELDS", "Dispatch", "Handover", "NotPublishableError", "dispatch_values", "handover_event"]

DISPATCH_FIELDS = ("dispatch_id", "task_id", "attempt", "handler", "queue", "namespace", "trace")

_SPACE = re.compile(r"[ \t\r\n]*")


class NotPublishableError(ValueError):
    """The row can never be carried out as it is: it stays, and is worth an alarm."""


class Dispatch(NamedTuple):
    """A row of kind `dispatch`: a task that wants a worker.

    Attributes:
        trace: W3C traceparent of the decision; empty without tracing.
        age_seconds: How long ago the row was written, by the database's clock, when it was claimed.
    """

    outbox_id: UUID
    run_id: UUID
    namespace: str
    path: str
    attempt: int
    queue: str
    handler: str
    trace: str
    age_seconds: float

    @property
    def queue_name(self) -> str:
        """Namespace and queue as one name, as in the stream's key."""
        return queue_name_of(self.namespace, self.queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A row of kind `handover`: an event for the run `run_id`; `trace` as of a dispatch."""

    outbox_id: UUID
    run_id: UUID
    body: bytes
    trace: str = ""


def dispatch_values(row: Dispatch, trace: str) -> tuple[str, ...]:
    """Write a dispatch as the values of a stream entry, in the order of DISPATCH_FIELDS.

    Args:
        row: The row.
        trace: W3C traceparent of the publish span, or the row's own without tracing.

    Raises:
        NotPublishableError: No worker could ever read it.
    """
    outbox_id, run_id, namespace, path, attempt, queue, handler, _, _ = row
    if not (queue and handler and path and namespace):
        raise NotPublishableError("a dispatch needs a namespace, a queue, a handler and a path")
    return (str(outbox_id), task_id(run_id, path), str(attempt), handler, queue, namespace, trace)


def handover_event(body: bytes) -> tuple[str, bytes]:
    """Split `{"type": …, "event": {…}}` into the type and the event's own bytes.

    The event is cut out as it stands, not decoded and written anew: large integers and decimal fractions survive.

    Raises:
        NotPublishableError: The body is not such an object.
    """
    try:
        text = body.decode()
        members = _members(text)
        event_type = members["type"]
        event = members["event"]
        kind: object = json.loads(event_type)
        str(kind).encode()  # a lone surrogate is valid JSON and no valid text
    except (ValueError, KeyError, RecursionError) as error:
        raise NotPublishableError(f"the body of a handover is not as agreed: {error!r}") from error
    if not isinstance(kind, str) or not kind or not event.startswith("{"):
        raise NotPublishableError("a handover needs a type and an object as its event")
    return kind, event.encode()


def _members(text: str) -> dict[str, str]:
    """Cut a JSON object into its members, each value as it is written."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)
    members: dict[str, str] = {}
    place = _expect(text, 0, "{")
    while True:
        key, place = _value(decoder, text, place)
        start = _skip(text, _expect(text, place, ":"))
        members[json.loads(key)], place = _value(decoder, text, start)
        place = _skip(text, place)
        if text[place : place + 1] != ",":
            break
        place += 1
    if _skip(text, _expect(text, place, "}")) != len(text):
        raise ValueError("text after the object")
    return members


def _value(decoder: json.JSONDecoder, text: str, place: int) -> tuple[str, int]:
    start = _skip(text, place)
    _, end = decoder.raw_decode(text, start)
    return text[start:end], end


def _expect(text: str, place: int, sign: str) -> int:
    place = _skip(text, place)
    if text[place : place + 1] != sign:
        raise ValueError(f"expected {sign!r} at {place}")
    return place + 1


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place
