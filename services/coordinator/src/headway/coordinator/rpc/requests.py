"""Reads what requests have in common: namespaces, ids, texts; bad ones become refusals that name the field."""

import re
from datetime import timedelta
from typing import Literal, Protocol
from uuid import UUID, uuid5

from google.protobuf.duration_pb2 import Duration

from headway.coordinator.core.payloads import TEXT_LIMIT, is_short, storable_text
from headway.coordinator.core.refusals import InvalidArgument, InvalidRequestId, RunNotFound
from headway.coordinator.ids import MalformedId, parse_run_id
from headway.runtime.queues import NAMESPACE_PATTERN, is_namespace

LONGEST = timedelta(days=3_650)  # of any pause
GRACE_SECONDS = 60
REASON_LIMIT = 1_000  # characters
LONGEST_GRACE = timedelta(days=1)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def namespace_of(text: str) -> str:
    """The namespace; empty: default. Raises InvalidArgument."""
    if text and not is_namespace(text):
        raise InvalidArgument(field="namespace", problem=f"it must match {NAMESPACE_PATTERN}")
    return text or "default"


def short_text(text: str, field: str) -> str:
    """A name or key. Raises InvalidArgument."""
    if not is_short(text):
        raise InvalidArgument(field=field, problem=f"it must have 1 to {TEXT_LIMIT} characters and no NUL")
    return text


def optional_text(text: str, field: str) -> str:
    """A name to filter by; empty: none. Raises InvalidArgument."""
    return short_text(text, field) if text else ""


def run_id_of(text: str, namespace: str) -> UUID:
    """The run id; one that we never gave out names no run. Raises RunNotFound."""
    try:
        return parse_run_id(text)
    except MalformedId as error:
        raise RunNotFound(run_id=text[:TEXT_LIMIT], namespace=namespace) from error


def request_id_of(text: str) -> UUID:
    """The request id. Raises InvalidRequestId."""
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidRequestId(request_id=text[:TEXT_LIMIT]) from error


def signal_request_id(run_id: UUID, name: str, event_id: str) -> UUID:
    """The request id of a signal that has an id of its own: the same for the same event. Neither text holds a NUL."""
    return uuid5(run_id, f"{name}\x00{event_id}")


def reason_text(text: str) -> str:
    """Why somebody does something, for people, cut."""
    return storable_text(text, REASON_LIMIT)


class _WithGrace(Protocol):
    @property
    def grace(self) -> Duration: ...

    def HasField(self, field_name: Literal["grace"], /) -> bool: ...


def grace_of(request: _WithGrace) -> int:
    """How long holders have, in milliseconds; unset: a minute. Raises InvalidArgument."""
    grace = duration_of(request.grace, "grace") if request.HasField("grace") else timedelta(seconds=GRACE_SECONDS)
    if not timedelta() <= grace <= LONGEST_GRACE:
        raise InvalidArgument(field="grace", problem="it must be between 0 s and 1 day")
    return int(grace / timedelta(milliseconds=1))


def page_size(given: int, default: int, largest: int) -> int:
    """How many a page has at the most; 0: the default. Raises InvalidArgument."""
    if not 0 <= given <= largest:
        raise InvalidArgument(field="page_size", problem=f"it must be between 0 and {largest}")
    return given or default


def traceparent_of(text: str) -> str:
    """The W3C traceparent; one that is not is as good as none: a trace never makes a request fail."""
    return text if _TRACEPARENT.fullmatch(text) else ""


def duration_ms(given: Duration, field: str) -> int:
    """A pause in whole milliseconds. Raises InvalidArgument when it is negative or longer than ten years."""
    duration = duration_of(given, field)
    if not timedelta() <= duration <= LONGEST:
        raise InvalidArgument(field=field, problem=f"it must be between 0 s and {LONGEST.days} days")
    return duration // timedelta(milliseconds=1)


def duration_of(given: Duration, field: str) -> timedelta:
    """A duration. Raises InvalidArgument when it is longer than any that can be counted with."""
    try:
        return given.ToTimedelta()
    except (OverflowError, ValueError) as error:
        raise InvalidArgument(field=field, problem="it is no duration that can be counted with") from error
