"""Pause and resume: nothing new is dispatched in between, and what is due meanwhile happens once, afterwards.

A paused run goes on being decided: reports, signals and lost leases are reduced as ever. Tasks that become READY stay
so without a message. Alarms (a wait's end, the next try, the end of a repeat's pause) have no timer while it is paused:
their instant stands in the task's row. No item or iteration begins, and nothing is undone. Time-outs run on, unless the
run's clock was stopped with it; then what is left of them is kept.
"""

from collections.abc import Iterable
from datetime import timedelta

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide import _children, _loops, _nodes
from headway.coordinator.core.decide._walk import Walk
from headway.coordinator.core.events import RunPaused
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.plan import LOOP_NODES, NodeType
from headway.coordinator.core.rows import TaskRow

_TIMEOUTS = frozenset({"run_deadline", "total_timeout", "event_timeout"})  # that stand still with the run's clock
_MILLISECOND = timedelta(milliseconds=1)


def pause(walk: Walk, event: RunPaused) -> None:
    """Hold what could start."""
    rows = walk.all_open_tasks()
    timers = walk.draft.known_timers() if event.stop_clock else {}
    walk.draft.require_loops(_loops_among(walk, rows))
    walk.emit(do.PauseRun(reason=event.reason, clock_stopped=event.stop_clock))
    for row in rows:
        if row.state is TaskState.READY:
            walk.emit(do.HoldTask(path=row.path))
            walk.cancel_timers(row.path, only_attempt=True)
        elif (kind := _alarm(walk, row)) is not None:
            walk.emit(do.CancelTimer(path=row.path, kind=kind, attempt=row.attempt))
    if walk.run.is_compensating:
        walk.emit(do.CancelTimer(path="", kind="go_on", attempt=0))
    for (path, kind, attempt), due_at in sorted(timers.items()):
        if kind in _TIMEOUTS:
            left_ms = max(due_at - walk.at, timedelta()) // _MILLISECOND
            walk.emit(do.HoldTimer(path=path, kind=kind, attempt=attempt, left_ms=left_ms))


def resume(walk: Walk) -> None:
    """Let go of what was held."""
    rows, held = walk.all_open_tasks(), walk.run.steering.held
    walk.draft.require_loops(_loops_among(walk, rows))
    walk.emit(do.ResumeRun())
    for row in rows:
        if row.state is TaskState.READY:
            _nodes.dispatch(walk, row.path)
        elif (kind := _alarm(walk, row)) is not None:
            walk.set_alarm(row.path, kind, row.due_at or walk.at)
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


def _alarm(walk: Walk, row: TaskRow) -> str | None:
    """The timer of a task that goes on by itself: to its next try, the end of a wait, its next item or iteration."""
    if row.state is TaskState.RETRYING:
        return "retry"
    if row.state is not TaskState.WAITING:
        return None
    kind = walk.graph.node(row.path).type
    if kind is NodeType.WAIT:
        return "wait"
    return "go_on" if kind in LOOP_NODES and _loops.may_begin(walk, row.path) else None


def _loops_among(walk: Walk, rows: Iterable[TaskRow]) -> list[str]:
    """Maps and repeats that are under way."""
    waiting = (row.path for row in rows if row.state is TaskState.WAITING)
    return [path for path in waiting if walk.graph.node(path).type in LOOP_NODES]
