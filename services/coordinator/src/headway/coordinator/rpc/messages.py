"""Rows into messages."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any
from uuid import UUID

import msgspec
import orjson

from headway.api.runs.v1 import runs_pb2 as pb
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.payloads import shortened
from headway.coordinator.core.plan import FINALLY, Node
from headway.coordinator.core.records import readable
from headway.coordinator.core.rows import COMPENSATING, ChildRow, Parent, RunRow
from headway.coordinator.engine.starting import Started
from headway.coordinator.ids import run_id_text, task_id
from headway.coordinator.store.loading import parent_of, steering_of
from headway.coordinator.store.reading import RunView

STATES: Mapping[str, pb.RunState] = {
    "pending": pb.RUN_STATE_PENDING,
    "running": pb.RUN_STATE_RUNNING,
    "succeeded": pb.RUN_STATE_SUCCEEDED,
    "failed": pb.RUN_STATE_FAILED,
    "cancelled": pb.RUN_STATE_CANCELLED,
}
PAGE_BYTES = 8 << 20  # of what a response carries besides its frame, at the most
WORK_BYTES = 3 << 20  # the same, in the answers to Lease and Report: gRPC's clients take 4 MiB unless told otherwise
ERROR_LIMIT = 4_096  # characters of a run's error
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


def page_bytes(message_limit: int) -> int:
    """What a response may carry besides its frame: half of the largest message."""
    return min(PAGE_BYTES, message_limit // 2)


def one_task_bytes(message_limit: int) -> int:
    """The same, of a run with one of its tasks: input and outputs have a place in the smallest message there is."""
    return min(PAGE_BYTES, message_limit - message_limit // 8)


def work_bytes(message_limit: int) -> int:
    """The same, of an answer to a worker."""
    return min(WORK_BYTES, page_bytes(message_limit))


def is_final(state: str) -> bool:
    """A run in this state is over."""
    return state in ("succeeded", "failed", "cancelled")


def start_response(started: Started) -> pb.StartResponse:
    """The run that a start names."""
    return pb.StartResponse(run_id=run_id_text(started.run_id), existed=started.existed, version=started.version)


def run(record: Any) -> pb.Run:
    """A run, as it stands in a list."""
    error = None if record["error"] is None else orjson.loads(record["error"])
    steering, parent = steering_of(record["steering"]), parent_of(record["parent"])
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
        paused_at=record["paused_at"],
        pause_reason=steering.pause_reason,
        clock_paused=steering.clock_stopped,
        cancel_reason=steering.cancel_reason,
        compensating=record["ending"] == COMPENSATING and not is_final(record["state"]),
        labels=dict(record["labels"] or ()),
        parent=None if parent is None else _parent(parent),
        concluded=None if steering.conclusion is None else STATES[steering.conclusion.state],
    )


def _parent(parent: Parent) -> pb.Parent:
    return pb.Parent(run_id=parent.run_id, path=parent.path, detached=parent.detached)


def run_of(run_id: UUID, row: RunRow) -> pb.Run:
    """A run, as it stands in a list but for its labels, from a row that decisions read."""
    error = None if row.error is None else orjson.dumps(row.error)
    steering = msgspec.json.encode(row.steering)
    parent = None if row.parent is None else msgspec.json.encode(row.parent)
    columns = {"run_id": run_id, "error": error, "steering": steering, "parent": parent, "labels": None}
    return run({**msgspec.structs.asdict(row), **columns})


def retry_response(answer: Mapping[str, Any]) -> pb.RetryResponse:
    """What a retry comes to."""
    undone: Any = [{**each, "state": _TASK_STATES[each["state"]]} for each in answer["undone"]]
    fields: dict[str, Any] = {**answer, "undone": undone}
    return pb.RetryResponse(**fields)


def _trace_id(traceparent: str) -> str:
    """Of a W3C traceparent, version-trace-span-flags; empty: none."""
    return traceparent.split("-")[1] if traceparent else ""


def _run_error(error: Mapping[str, Any]) -> pb.RunError:
    """A `finish` node may end a run with a message of any type and size."""
    message = error["message"]
    text = message if isinstance(message, str) else orjson.dumps(message).decode()
    told = shortened(text, ERROR_LIMIT)
    return pb.RunError(failure_class=error["failure_class"], message=told, paths=error["paths"])


def get_response(view: RunView, graph: Graph, room: "Room") -> pb.GetResponse:
    """A run with all that is shown of it; outputs and traces only while they fit, so that any run can be looked at.

    What goes first: the run's own payloads, which always fit, the last failures of tasks, outputs, and attempts that
    were left behind, the latest first. What is left out says so.
    """
    whole = run(view.run)
    whole.input, whole.output = (view.run[name] or b"" for name in ("input", "output"))
    room.takes(len(whole.input) + len(whole.output))
    whole.trace_id = _trace_id(view.run["trace"])
    counts = {record["path"]: _item_counts(record) for record in view.loops}
    tasks = {
        record["path"]: _task(view.run_id, record, graph, counts.get(record["path"]), view.children.get(record["path"]))
        for record in view.tasks
    }
    for record in view.tasks:
        _put_error(tasks[record["path"]], record, room)
    for record in view.tasks:
        _put_output(tasks[record["path"]], record, room)
    attempts: dict[str, list[pb.Attempt]] = {}
    for record in sorted(view.attempts, key=itemgetter("ended_at", "attempt"), reverse=True):
        attempts.setdefault(record["path"], []).append(_attempt(record, room))
    for path, latest_first in attempts.items():
        tasks[path].attempts.extend(reversed(latest_first))
    return pb.GetResponse(
        run=whole,
        tasks=tasks.values(),
        more_stale_reports=view.more_stale_reports,
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


def _item_counts(record: Any) -> pb.ItemCounts:
    return pb.ItemCounts(
        total=record["total"],
        running=record["open"],
        succeeded=record["succeeded"],
        failed=record["failed"],
        cancelled=record["cancelled"],
        undone=record["undone"],
        left_out=record["left_out"],
    )


def items_that_fit(records: Sequence[Any], room: Room) -> list[pb.Item]:
    """The first items, as many as go into one response: at least one."""
    items: list[pb.Item] = []
    for record in records:
        if not room.takes(len(record["output"] or b"") + len(record["error"] or b"")) and items:
            break
        error = None if record["error"] is None else orjson.loads(record["error"])
        is_left_out = record["output"] is None
        items.append(
            pb.Item(
                path=record["path"],
                index=record["index"],
                place=record["index"] if record["place"] is None else record["place"],
                state=STATES[record["state"]],
                error=None if error is None else _run_error(error),
                created_at=record["created_at"],
                finished_at=record["finished_at"],
                output=record["output"] or b"",
                output_left_out=record["output_bytes"] if is_left_out else None,
                undone=record["undone"],
            )
        )
    return items


def _task(
    run_id: UUID,
    record: Any,
    graph: Graph,
    items: pb.ItemCounts | None,
    child: ChildRow | None,
) -> pb.Task:
    node = graph.node(record["path"])
    is_last = (
        record["path"] == FINALLY
    )  # compiled to a repeat of one iteration whose failure is optional: nobody's business
    return pb.Task(
        task_id=task_id(run_id, record["path"]),
        path=record["path"],
        type=FINALLY if is_last else node.type,
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
        ready_at=record["ready_at"],
        started_at=record["started_at"],
        leased_at=record["leased_at"],
        finished_at=record["finished_at"],
        cause=record["cause"],
        due_at=record["due_at"],
        disposition=None if is_last else record["disposition"],
        waits_for=_waits_for(record, node),
        progress=_progress(record),
        undoes=graph.owner(record["path"]),
        items=None if is_last else items,
        child_run_id="" if child is None else child.child,
    )


def _waits_for(record: Any, node: Node) -> str:
    if record["state"] != "waiting":
        return ""
    return node.event or ("" if record["waits_for"] is None else str(orjson.loads(record["waits_for"])))


def _progress(record: Any) -> pb.Progress | None:
    if record["progress_at"] is None:
        return None
    return pb.Progress(percent=record["percent"], message=record["message"], at=record["progress_at"])


def task_error(failure_class: str, error: Mapping[str, Any], room: Room) -> pb.TaskError:
    """A task's failure: all of it, or, where there is no room, its class and its type."""
    whole = pb.TaskError(
        failure_class=failure_class,
        type=str(error.get("type")),
        message=str(error.get("message")),
        trace=str(error.get("trace")),
        details=orjson.dumps(error["details"]) if error.get("details") else b"",
    )
    if room.takes(whole.ByteSize()):
        return whole
    return pb.TaskError(failure_class=failure_class, type=whole.type, left_out=True)


def _put_error(task: pb.Task, record: Any, room: Room) -> None:
    if record["failure_class"] is not None:
        task.error.CopyFrom(task_error(record["failure_class"], orjson.loads(record["error"]), room))


def _put_output(task: pb.Task, record: Any, room: Room) -> None:
    """An output that is not read was too large."""
    if record["output"] is not None and room.takes(record["output_bytes"]):
        task.output = record["output"]
    elif record["output_bytes"] is not None:
        task.output_left_out = record["output_bytes"]


def _attempt(record: Any, room: Room) -> pb.Attempt:
    attempt = pb.Attempt(
        attempt=record["attempt"],
        owner=record["owner"],
        leased_at=record["leased_at"],
        ended_at=record["ended_at"],
        outcome=record["outcome"],
    )
    if record["failure_class"] is not None:
        attempt.error.CopyFrom(task_error(record["failure_class"], orjson.loads(record["error"]), room))
    return attempt


def events_that_fit(records: Sequence[Any], room: Room) -> list[pb.Event]:
    """The first entries of a history, as many as go into one response: at least one."""
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
