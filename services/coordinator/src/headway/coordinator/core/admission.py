"""Which events and requests apply, judged by the rows under their lock. Nothing here changes anything."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from headway.coordinator.core.events import ChildFinished, LeaseExpired, TimerFired
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.rows import AttemptRow, ChildRow, Parent, RunRow, TaskRow
from headway.coordinator.core.state import Draft


class Answer(StrEnum):
    """What Lease, Renew and Report answer."""

    GRANTED = "GRANTED"
    RENEWED = "RENEWED"
    HELD = "HELD"
    DUPLICATE = "DUPLICATE"
    RUN_CLOSED = "RUN_CLOSED"
    RUN_PAUSED = "RUN_PAUSED"
    STALE_ATTEMPT = "STALE_ATTEMPT"
    LEASE_LOST = "LEASE_LOST"
    ACCEPTED = "ACCEPTED"
    BUSY = "BUSY"


class RunGate(Struct, frozen=True, kw_only=True):
    """What Lease and Renew need to know of a run, read without its lock."""

    is_final: bool
    is_stopping: bool  # cancelling, expired or finished: nothing starts, holders are told
    is_failing: bool  # an unhandled failure: nothing starts, holders may end
    is_paused: bool  # nothing starts until it is resumed, holders may end


class LeasedTask(Protocol):
    """What Lease and Renew need of a task's row."""

    @property
    def state(self) -> TaskState: ...
    @property
    def attempt(self) -> int: ...
    @property
    def owner(self) -> str | None: ...
    @property
    def grant_key(self) -> str | None: ...


def lease_answer(gate: RunGate, task: LeasedTask, *, attempt: int, owner: str, grant_key: str) -> Answer:
    """Judge a request for a lease.

    Args:
        gate: the run.
        task: its row, locked.
        attempt: asked for.
        owner: who asks.
        grant_key: of the delivery; the same key of the same owner is granted again.
    """
    if gate.is_final:
        return Answer.RUN_CLOSED
    if task.attempt != attempt:
        return Answer.STALE_ATTEMPT
    if task.state is TaskState.RUNNING:
        same = task.grant_key == grant_key and task.owner == owner
        return Answer.GRANTED if same else Answer.HELD
    if task.state is not TaskState.READY:
        return Answer.STALE_ATTEMPT
    if gate.is_stopping:
        return Answer.RUN_CLOSED
    return Answer.RUN_PAUSED if gate.is_paused else Answer.GRANTED


def renew_answer(gate: RunGate, task: LeasedTask, *, attempt: int, owner: str) -> Answer:
    """Judge a renewal. The holder keeps its right until the reaper's decision commits, however late it is."""
    if gate.is_final:
        return Answer.RUN_CLOSED
    holds = task.state is TaskState.RUNNING and task.attempt == attempt and task.owner == owner
    return Answer.RENEWED if holds else Answer.LEASE_LOST


def report_answer(run: RunRow, task: TaskRow, left: AttemptRow | None, *, attempt: int, owner: str) -> Answer:
    """Judge a report, in the order that the contract gives.

    Args:
        run: its row, locked.
        task: its row, locked.
        left: the attempt's own record, when the task has moved on to another.
        attempt: reported.
        owner: who reports.
    """
    recorded = task.reported if attempt == task.attempt else left is not None and left.reported
    if recorded:
        return Answer.DUPLICATE
    if run.is_final:
        return Answer.RUN_CLOSED
    if attempt != task.attempt:
        return Answer.STALE_ATTEMPT
    if task.state is not TaskState.RUNNING or task.owner != owner:
        return Answer.LEASE_LOST
    return Answer.ACCEPTED


def lease_has_expired(task: TaskRow | None, event: LeaseExpired) -> bool:
    """True when the reaper's event applies."""
    return (
        task is not None
        and task.state is TaskState.RUNNING
        and task.attempt == event.attempt
        and task.lease_expires_at is not None
        and task.lease_expires_at <= event.at
    )


def child_applies(run: RunRow, task: TaskRow | None, child: ChildRow | None, event: ChildFinished) -> bool:
    """True when the end of a run, or its start, is still waited for by the node that asked for it."""
    if run.is_final or task is None or child is None:
        return False
    is_waiting = task.state is TaskState.WAITING and task.attempt == event.attempt
    return is_waiting and child.is_open and child.attempt == event.attempt and child.child == event.child


def stop_applies(run: RunRow, parent: Parent) -> bool:
    """True when a node's order to stop its run, in the attempt that it names, still means something."""
    known = 0 if run.parent is None else run.parent.attempt
    return known < parent.attempt or (known == parent.attempt and not run.is_final)


def timer_applies(run: RunRow, task: TaskRow | None, event: TimerFired) -> bool:
    """True when a timer that came due still means something; False: its row can go."""
    if run.is_final:
        return False
    if not event.path:
        return _RUN_TIMERS[event.kind](run)
    return task is not None and _TASK_TIMERS[event.kind](task, event.attempt)


SILENCES = frozenset({"heartbeat_timeout", "stall_timeout"})
_REAPERS_TURN = timedelta(seconds=1)  # a lease that has run out is lost, not silent: its reaper is near
_LONGEST_LOOK = timedelta(minutes=1)  # between two looks at a task that still waits for its worker


def look_again_at(draft: Draft, task: TaskRow, event: TimerFired) -> datetime | None:
    """When a timer that applies is to come again, for its time has not come yet; None: it has.

    Only time-outs of silence can come too early: neither leases nor heartbeats move them.

    Args:
        draft: of the run.
        task: whose timer it is.
        event: the timer that came due.

    Raises:
        Missing: the handler's signs of life were not loaded.
    """
    timeouts = draft.state.graph.node(event.path).timeouts
    limit_ms = {"heartbeat_timeout": timeouts.heartbeat_ms, "stall_timeout": timeouts.stall_ms}.get(event.kind)
    if limit_ms is None:
        return None
    limit, beat = timedelta(milliseconds=limit_ms), draft.beat(event.path)
    if task.state is not TaskState.RUNNING or task.lease_expires_at is None:
        waited = event.at - (task.ready_at or event.at)
        return event.at + max(limit, min(waited, _LONGEST_LOOK))
    told = None
    if beat is not None and beat.attempt == task.attempt:
        told = beat.beat_at if event.kind == "heartbeat_timeout" else beat.progress_at
    since = max(instant for instant in (task.leased_at, told) if instant is not None)
    if since + limit > event.at:
        return since + limit
    return event.at + _REAPERS_TURN if task.lease_expires_at <= event.at else None


def earliest(*instants: datetime | None) -> datetime | None:
    """The earliest of those that are set."""
    given = [instant for instant in instants if instant is not None]
    return min(given) if given else None


def _in_state(state: TaskState) -> Callable[[TaskRow, int], bool]:
    return lambda task, attempt: task.state is state and task.attempt == attempt


_MAY_BE_STOPPED = (TaskState.RUNNING, TaskState.WAITING)
_MAY_BE_SILENT = (TaskState.READY, TaskState.RUNNING)
_RUN_TIMERS: Mapping[str, Callable[[RunRow], bool]] = {
    "run_deadline": lambda run: not (run.expired or run.is_compensating or run.conclusion is not None),
    "cancel_grace": lambda run: run.is_stopping,
    "go_on": lambda run: not run.is_final,
}
_TASK_TIMERS: Mapping[str, Callable[[TaskRow, int], bool]] = {
    "wait": _in_state(TaskState.WAITING),
    "go_on": _in_state(TaskState.WAITING),
    "event_timeout": _in_state(TaskState.WAITING),
    "retry": _in_state(TaskState.RETRYING),
    "queue_timeout": _in_state(TaskState.READY),
    **dict.fromkeys(SILENCES, lambda task, attempt: task.attempt == attempt and task.state in _MAY_BE_SILENT),
    "total_timeout": lambda task, _attempt: task.is_open,
    "cancel_grace": lambda task, attempt: task.attempt == attempt and task.state in _MAY_BE_STOPPED,
}
