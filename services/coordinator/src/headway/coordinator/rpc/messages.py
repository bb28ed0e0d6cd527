"""Rows into messages."""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from headway.api.definitions.v1 import definitions_pb2
from headway.api.runs.v1 import runs_pb2 as pb
from headway.coordinator.core.compiler import Fault
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.refusals import InvalidArgument, InvalidPageToken
from headway.coordinator.ids import task_id
from headway.coordinator.store.reading import RunView

STATES: Mapping[str, pb.RunState] = {
    "pending": pb.RUN_STATE_PENDING,
    "running": pb.RUN_STATE_RUNNING,
    "succeeded": pb.RUN_STATE_SUCCEEDED,
    "failed": pb.RUN_STATE_FAILED,
    "cancelled": pb.RUN_STATE_CANCELLED,
}
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
        return datetime.fromisoformat(instant), UUID(run_id)
    except (ValueError, binascii.Error) as error:
        raise InvalidPageToken() from error


def run(record: Any) -> pb.Run:
    """A run, as it stands in a list."""
    error = None if record["error"] is None else orjson.loads(record["error"])
    return pb.Run(
        run_id=record["run_id"].hex,
        namespace=record["namespace"],
        workflow=record["workflow"],
        version=record["version"],
        state=STATES[record["state"]],
        epoch=record["epoch"],
        cancelling=record["cancelling"] and not is_final(record["state"]),
        created_at=record["created_at"],
        finished_at=record["finished_at"],
        error=None if error is None else pb.RunError(**error),
        last_seq=record["seq"],
        key=record["key"],
    )


def get_response(view: RunView, graph: Graph) -> pb.GetResponse:
    """A run with all that is shown of it."""
    whole = run(view.run)
    whole.input = view.run["input"] or b""
    whole.output = view.run["output"] or b""
    attempts: dict[str, list[pb.Attempt]] = {}
    for record in view.attempts:
        attempts.setdefault(record["path"], []).append(_attempt(record))
    return pb.GetResponse(
        run=whole,
        tasks=[_task(view.run_id, record, graph, attempts.get(record["path"], [])) for record in view.tasks],
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


def _task(run_id: UUID, record: Any, graph: Graph, attempts: list[pb.Attempt]) -> pb.Task:
    return pb.Task(
        task_id=task_id(run_id, record["path"]),
        path=record["path"],
        type=graph.node(record["path"]).type,
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
        error=_error(record),
        cause=record["cause"],
        due_at=record["due_at"],
        attempts=attempts,
        output=record["output"],
        handled=record["disposition"] == "handled",
    )


def _error(record: Any) -> pb.TaskError | None:
    if record["failure_class"] is None:
        return None
    error = orjson.loads(record["error"])
    details = error.pop("details", None)
    return pb.TaskError(
        failure_class=record["failure_class"], **error, details=orjson.dumps(details) if details else b""
    )


def _attempt(record: Any) -> pb.Attempt:
    return pb.Attempt(
        attempt=record["attempt"],
        owner=record["owner"],
        leased_at=record["leased_at"],
        ended_at=record["ended_at"],
        outcome=record["outcome"],
        error=_error(record),
    )


def event(record: Any) -> pb.Event:
    """An entry of a history."""
    return pb.Event(**dict(record))


def fault(given: Fault) -> definitions_pb2.Fault:
    """One thing wrong with a definition."""
    return definitions_pb2.Fault(
        line=given.line,
        column=given.column,
        code=given.code,
        message=given.message,
        remedy=given.remedy,
        warning=given.warning,
    )


def definition(record: Any) -> definitions_pb2.Definition:
    """A version."""
    return definitions_pb2.Definition(**dict(record))
