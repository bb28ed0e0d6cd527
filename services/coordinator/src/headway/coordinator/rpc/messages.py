"""Rows into messages."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from headway.api.runs.v1 import runs_pb2 as pb
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.records import readable
from headway.coordinator.core.refusals import InvalidArgument, InvalidPageToken
from headway.coordinator.engine.starting import Started
from headway.coordinator.ids import run_id_text, task_id
from headway.coordinator.store.reading import RunView

STATES: Mapping[str, pb.RunState] = {
    "pending": pb.RUN_STATE_PENDING,
    "running": pb.RUN_STATE_RUNNING,
    "succeeded": pb.RUN_STATE_SUCCEEDED,
    "failed": pb.RUN_STATE_FAILED,
    "cancelled": pb.RUN_STATE_CANCELLED,
}
_FIRST_YEAR, _LAST_YEAR = 2000, 9000  # of instants that page tokens name: PostgreSQL can hold them in any zone
PAGE_BYTES = 8 << 20  # of what a response carries besides its frame: half of the message limit
ERROR_LIMIT = 4_096  # characters of a run's error
_STATE_NAMES: Mapping[int, str] = {number: name for name, number in STATES.items()}
_TASK_STATES: Mapping[str, pb.TaskState] = {
    "pending": pb.TASK_STATE_PENDING,
    "ready": pb.TASK_STATE_READY,
    "running": pb.TASK_STATE_RUNNING,
    "waiting": pb.TASK_STATE_WAITING,
    "retrying": pb.TASK_STATE_RETRYING,
    "succeeded": pb.TASK_STATE_SUCCEEDED,
    "failed": pb.TASK_STATE_FAILED,
    "cancelled": pb.TASK_STATE_CANCELLED,
}


def is_final(state: str) -> bool:
    """A run in this state is over."""
    return state in ("succeeded", "failed", "cancelled")


def state_name(number: int) -> str:
    """The name of a state to filter by; unspecified: none. Raises InvalidArgument."""
    if not number:
        return ""
    name = _STATE_NAMES.get(number)
    if name is None:
        raise InvalidArgument(field="state", problem=f"there is no state {number}")
    return name


def page_token(record: Any) -> str:
    """Where the next page begins."""
    return base64.urlsafe_b64encode(f"{record['created_at'].isoformat()}|{record['run_id'].hex}".encode()).decode()


def read_page_token(token: str) -> tuple[datetime, UUID] | None:
    """Read a token; empty: from the start. Raises InvalidPageToken."""
    if not token:
        return None
    try:
        instant, _, run_id = base64.urlsafe_b64decode(token.encode()).decode().partition("|")
        return _storable_instant(instant), UUID(run_id)
    except (ValueError, binascii.Error) as error:
        raise InvalidPageToken from error


def _storable_instant(text: str) -> datetime:
    """Read an instant that the database can compare with. Raises ValueError."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None or not _FIRST_YEAR <= instant.year <= _LAST_YEAR:
        raise ValueError(text)
    return instant.astimezone(UTC)


def start_response(started: Started) -> pb.StartResponse:
    """The run that a start names."""
    return pb.StartResponse(run_id=run_id_text(started.run_id), existed=started.existed, version=started.version)


def run(record: Any) -> pb.Run:
    """A run, as it stands in a list."""
    error = None if record["error"] is None else orjson.loads(record["error"])
    return pb.Run(
        run_id=run_id_text(record["run_id"]),
        namespace=record["namespace"],
        workflow=record["workflow"],
        version=record["version"],
        state=STATES[record["state"]],
        epoch=record["epoch"],
        cancelling=record["cancelling"] and not is_final(record["state"]),
        created_at=record["created_at"],
        finished_at=record["finished_at"],
        error=None if error is None else _run_error(error),
        last_seq=record["seq"],
        key=record["key"],
    )


def _run_error(error: Mapping[str, Any]) -> pb.RunError:
    """A `finish` node may end a run with a message of any type and size."""
    message = error["message"]
    text = message if isinstance(message, str) else orjson.dumps(message).decode()
    return pb.RunError(failure_class=error["failure_class"], message=text[:ERROR_LIMIT], paths=error["paths"])


def get_response(view: RunView, graph: Graph) -> pb.GetResponse:
    """A run with all that is shown of it: outputs and traces only while they fit, so that any run can be looked at."""
    room = Room(PAGE_BYTES)
    whole = run(view.run)
    whole.input = view.run["input"] or b""
    whole.output = view.run["output"] or b""
    attempts: dict[str, list[pb.Attempt]] = {}
    for record in view.attempts:
        attempts.setdefault(record["path"], []).append(_attempt(record, room))
    return pb.GetResponse(
        run=whole,
        tasks=[_task(view.run_id, record, graph, attempts.get(record["path"], []), room) for record in view.tasks],
        stale_reports=[
            pb.StaleReport(
                path=record["path"],
                attempt=record["attempt"],
                owner=record["owner"],
                answer=record["answer"],
                at=record["at"],
            )
            for record in reversed(view.stale_reports)
        ],
    )


class Room:
    """Bytes that are left in a response."""

    def __init__(self, size: int) -> None:
        """Begin with some."""
        self._left = size

    def takes(self, size: int) -> bool:
        """True, and there is less left, when that many fit."""
        if size > self._left:
            return False
        self._left -= size
        return True


def _task(run_id: UUID, record: Any, graph: Graph, attempts: list[pb.Attempt], room: Room) -> pb.Task:
    node = graph.node(record["path"])
    return pb.Task(
        task_id=task_id(run_id, record["path"]),
        path=record["path"],
        type=node.type,
        state=_TASK_STATES[record["state"]],
        attempt=record["attempt"],
        tries=record["tries"],
        losses=record["losses"],
        generation=record["generation"],
        queue=record["queue"],
        handler=record["handler"],
        owner=record["owner"],
        lease_expires_at=record["lease_expires_at"],
        created_at=record["created_at"],
        started_at=record["started_at"],
        finished_at=record["finished_at"],
        error=_error(record, room),
        cause=record["cause"],
        due_at=record["due_at"],
        attempts=attempts,
        output=record["output"] if room.takes(len(record["output"] or b"")) else None,
        handled=record["disposition"] == "handled",
        waits_for=node.event if record["state"] == "waiting" else "",
    )


def _error(record: Any, room: Room) -> pb.TaskError | None:
    if record["failure_class"] is None:
        return None
    error = orjson.loads(record["error"])
    whole = room.takes(len(record["error"]))
    return pb.TaskError(
        failure_class=record["failure_class"],
        type=error["type"],
        message=error["message"] if whole else "",
        trace=error["trace"] if whole else "",
        details=orjson.dumps(error["details"]) if whole and error["details"] else b"",
    )


def _attempt(record: Any, room: Room) -> pb.Attempt:
    return pb.Attempt(
        attempt=record["attempt"],
        owner=record["owner"],
        leased_at=record["leased_at"],
        ended_at=record["ended_at"],
        outcome=record["outcome"],
        error=_error(record, room),
    )


def events_that_fit(records: Sequence[Any]) -> list[pb.Event]:
    """The first entries of a history, as many as go into one response: at least one."""
    room = Room(PAGE_BYTES)
    events: list[pb.Event] = []
    for record in records:
        entry = event(record)
        if not room.takes(len(entry.event) + len(entry.actions)) and events:
            break
        events.append(entry)
    return events


def event(record: Any) -> pb.Event:
    """An entry of a history."""
    named, given = readable(record["type"], record["event"], record["actions"])
    fields: dict[str, Any] = {**record, "event": named, "actions": given}
    return pb.Event(**fields)
