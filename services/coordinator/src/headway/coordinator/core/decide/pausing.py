"""Pause and resume: nothing new is dispatched in between, and what is due meanwhile happens once, afterwards.

A paused run goes on being decided: reports, signals and lost leases are reduced as ever. Tasks that become READY stay
so without a message. Alarms (a wait's end, the next try) have no timer while it is paused: their instant stands in the
task's row. Time-outs run on, unless the run's clock was stopped with it; then what is left of them is kept.
"""

from collections.abc import Mapping
from datetime import timedelta

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide import _children, _nodes
from headway.coordinator.core.decide._walk import Walk
from headway.coordinator.core.events import RunPaused
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.plan import NodeType
from headway.coordinator.core.rows import TaskRow

_TIMEOUTS = frozenset({"run_deadline", "total_timeout", "event_timeout"})  # that stand still with the run's clock
_ALARMS: Mapping[TaskState, str] = {TaskState.RETRYING: "retry", TaskState.WAITING: "wait"}
_MILLISECOND = timedelta(milliseconds=1)


def pause(walk: Walk, event: RunPaused) -> None:
    """Hold what could start."""
    rows = walk.all_open_tasks()
    timers = walk.draft.known_timers() if event.stop_clock else {}
    walk.emit(do.PauseRun(reason=event.reason, clock_stopped=event.stop_clock))
    for row in rows:
        if row.state is TaskState.READY:
            walk.emit(do.HoldTask(path=row.path))
            walk.cancel_timers(row.path, only_attempt=True)
        elif _has_alarm(walk, row):
            walk.emit(do.CancelTimer(path=row.path, kind=_ALARMS[row.state], attempt=row.attempt))
    for (path, kind, attempt), due_at in sorted(timers.items()):
        if kind in _TIMEOUTS:
            left_ms = max(due_at - walk.at, timedelta()) // _MILLISECOND
            walk.emit(do.HoldTimer(path=path, kind=kind, attempt=attempt, left_ms=left_ms))


def resume(walk: Walk) -> None:
    """Let go of what was held."""
    rows, held = walk.all_open_tasks(), walk.run.steering.held
    walk.emit(do.ResumeRun())
    for row in rows:
        if row.state is TaskState.READY:
            _nodes.dispatch(walk, row.path)
        elif _has_alarm(walk, row) and row.due_at is not None:
            walk.set_alarm(row.path, _ALARMS[row.state], row.due_at)
    for path, kind, attempt, left_ms in held:
        due_at = walk.at + timedelta(milliseconds=left_ms)
        if kind == "event_timeout":
            walk.emit(do.PostponeTask(path=path, due_at=due_at))
        walk.emit(do.ScheduleTimer(path=path, kind=kind, attempt=attempt, due_at=due_at))
    held_back = [row.path for row in rows if row.state is TaskState.WAITING and walk.graph.is_subflow(row.path)]
    walk.draft.require_children(held_back)
    for path in held_back:
        if _children.awaited(walk, path) is None:
            _children.start(walk, path)


def _has_alarm(walk: Walk, row: TaskRow) -> bool:
    """True for a task that goes on by itself at an instant: its next try, or the end of a wait."""
    is_wait = row.state is TaskState.WAITING and walk.graph.node(row.path).type is NodeType.WAIT
    return is_wait or row.state is TaskState.RETRYING
