"""Reads filters and page tokens of lists; bad ones become refusals that name the field."""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import msgpack

from headway.api.runs.v1 import runs_pb2 as pb
from headway.coordinator.core.labels import MAX_LABELS, label_fault
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.refusals import InvalidArgument, InvalidPageToken
from headway.coordinator.ids import MalformedId, parse_run_id
from headway.coordinator.rpc.messages import STATES
from headway.coordinator.rpc.requests import optional_text
from headway.coordinator.store.listing import FIRST, LAST, Order, Place, RunFilter

FINGERPRINT_BYTES = 8  # of a filter, in its page tokens
_STATES: Mapping[int, RunState] = {number: RunState(name) for name, number in STATES.items()}
_CLASSES = ("", "timeout", "exec_failed", "verdict_fail", "cancelled")
_DIGITS = re.compile(r"[0-9a-f]{0,32}")


def run_filter(given: pb.RunFilter, namespace: str) -> RunFilter:
    """Which runs are meant. Raises InvalidArgument."""
    if given.version < 0:
        raise InvalidArgument(field="filter.version", problem="it must be a stored version, or 0 for any")
    if given.failure_class not in _CLASSES:
        raise InvalidArgument(field="filter.failure_class", problem=f"it must be one of {', '.join(_CLASSES[1:])}")
    if not _DIGITS.fullmatch(given.run_id_prefix):
        raise InvalidArgument(field="filter.run_id_prefix", problem="it must be at most 32 small hexadecimal digits")
    try:
        parent = parse_run_id(given.parent_run_id) if given.parent_run_id else None
    except MalformedId as error:
        raise InvalidArgument(field="filter.parent_run_id", problem="it is no run id") from error
    is_of_end = given.HasField("finished_from") or given.HasField("finished_until")
    return RunFilter(
        namespace=namespace,
        workflow=optional_text(given.workflow, "filter.workflow"),
        version=given.version,
        states=frozenset(_state(number) for number in given.states),
        failure_class=given.failure_class,
        created=_range(given, "created"),
        finished=_range(given, "finished") if is_of_end else None,
        key=optional_text(given.key, "filter.key"),
        key_prefix=optional_text(given.key_prefix, "filter.key_prefix"),
        labels=_labels(given.labels),
        id_prefix=given.run_id_prefix,
        parent=parent,
        paused=given.paused,
    )


def _state(number: int) -> RunState:
    state = _STATES.get(number)
    if state is None:
        raise InvalidArgument(field="filter.states", problem=f"there is no state {number}")
    return state


def _range(given: pb.RunFilter, name: str) -> tuple[datetime, datetime]:
    first, last = f"{name}_from", f"{name}_until"
    return (
        _instant(getattr(given, first), first) if given.HasField(first) else FIRST,
        _instant(getattr(given, last), last) if given.HasField(last) else LAST,
    )


def _instant(given: Timestamp, field: str) -> datetime:
    """An instant, within those that the database can hold in any zone. Raises InvalidArgument."""
    try:
        return min(max(given.ToDatetime(tzinfo=UTC), FIRST), LAST)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(field=f"filter.{field}", problem="it is no instant") from error


def _labels(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    if len(given) > MAX_LABELS:
        raise InvalidArgument(field="filter.labels", problem=f"no run has more than {MAX_LABELS}")
    for name, value in given.items():
        if problem := label_fault(name, value):
            raise InvalidArgument(field="filter.labels", problem=problem)
    return tuple(sorted(given.items()))


def page_token(place: Place | None, wanted: RunFilter) -> str:
    """Where the next page of a filter begins; empty: nowhere."""
    if place is None:
        return ""
    where = place.key if place.order is Order.KEY else place.at.isoformat()
    return base64.urlsafe_b64encode(f"{place.order}|{fingerprint(wanted)}|{place.run_id.hex}|{where}".encode()).decode()


def read_page_token(token: str, wanted: RunFilter) -> Place | None:
    """Read a token that was given out for the same filter; empty: from the start. Raises InvalidPageToken."""
    if not token:
        return None
    try:
        order, filtered, run_id, where = base64.urlsafe_b64decode(token.encode()).decode().split("|", 3)
        if order != wanted.order or filtered != fingerprint(wanted) or "\x00" in where:
            raise InvalidPageToken
        if order == Order.KEY:
            return Place(Order.KEY, run_id=UUID(run_id), key=where)
        return Place(wanted.order, _storable(where), UUID(run_id))
    except (ValueError, binascii.Error) as error:
        raise InvalidPageToken from error


def fingerprint(wanted: RunFilter) -> str:
    """The same for the same filter, in every process."""
    return blake2b(msgpack.encode(wanted, order="sorted"), digest_size=FINGERPRINT_BYTES).hexdigest()


def _storable(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None or not FIRST.year < instant.year < LAST.year:
        raise ValueError(text)
    return instant.astimezone(UTC)
