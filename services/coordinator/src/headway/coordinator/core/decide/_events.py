"""One small function per event: what it means for the run. Cascades are the walk's."""

from datetime import timedelta
from typing import assert_never

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide import _children, _loops, _nodes, _signals, pausing, redo, skipping
from headway.coordinator.core.decide._contracts import breach
from headway.coordinator.core.decide._failures import failed, timed_out
from headway.coordinator.core.decide._walk import Walk
from headway.coordinator.core.events import (
    ChildFinished,
    LeaseExpired,
    LeaseReleased,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodeSkipped,
    RunCancelled,
    RunEvent,
    RunPaused,
    RunResumed,
    RunRetried,
    RunStarted,
    SignalReceived,
    TimerFired,
)
from headway.coordinator.core.failure_types import FailureType
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.paths import scope_of
from headway.coordinator.core.plan import FINALLY
from headway.coordinator.core.refusals import RunClosed, RunNotFinished
from headway.coordinator.core.rows import ALL_STOPS, BROKEN_OFF, RUN_INPUT, UNCOMPENSATED, UNSTARTED


def reduce(walk: Walk, event: RunEvent) -> None:
    """Dispatch on the event's type; count it."""
    if isinstance(event, RunStarted):
        _run_started(walk, event)
        return
    walk.projector.count_event()
    match event:
        case NodeCompleted():
            _node_completed(walk, event)
        case NodeFailed():
            walk.claim(event.path)
            walk.fail(
                event.path,
                "fail",
                event.failure,
                retryable=not event.final,
                reported=True,
                asked_ms=event.retry_after_ms,
            )
        case NodeCancelled():
            _node_cancelled(walk, event)
        case LeaseReleased():
            _lease_released(walk, event)
        case LeaseExpired():
            _lease_expired(walk, event)
        case TimerFired():
            _timer_fired(walk, event)
        case SignalReceived():
            _signal_received(walk, event)
        case RunCancelled() | RunPaused() | RunResumed() | RunRetried():
            _steer(walk, event)
        case ChildFinished():
            _children.finish(walk, event)
        case NodeSkipped():
            skipping.skip(walk, event)
        case _ as never:
            assert_never(never)


def _steer(walk: Walk, event: RunCancelled | RunPaused | RunResumed | RunRetried) -> None:
    """What people ask of the whole run."""
    match event:
        case RunCancelled():
            _run_cancelled(walk, event)
        case RunPaused():
            pausing.pause(walk, event)
        case RunResumed():
            pausing.resume(walk)
        case RunRetried():
            _run_retried(walk, event)
        case _ as never:
            assert_never(never)


def _run_started(walk: Walk, event: RunStarted) -> None:
    walk.emit(
        do.CreateRun(
            namespace=event.namespace,
            workflow=event.workflow,
            version=event.version,
            key=event.key,
            trace=event.trace,
        )
    )
    walk.projector.count_event()
    if event.parent is not None:
        walk.emit(do.AdoptRun(parent=event.parent))
    if event.labels:
        walk.emit(do.LabelRun(labels=dict(event.labels)))
    path, attempt, role = RUN_INPUT
    walk.emit(do.StorePayload(path=path, attempt=attempt, role=role, data=event.input))
    if event.is_cancelled:
        error = {"failure_class": "cancelled", "message": "cancelled by its parent before it started", "paths": []}
        walk.emit(do.FinishRun(state=RunState.CANCELLED, error=error, output_path=None, output_attempt=None))
        _children.tell_parent(walk, UNSTARTED)
        return
    walk.emit(do.StartRun())
    walk.deadline_at = event.deadline_at
    walk.arm_deadline()
    for start in walk.graph.starts:
        walk.start(start)


def _run_retried(walk: Walk, event: RunRetried) -> None:
    if event.parent is not None:
        walk.emit(do.AdoptRun(parent=event.parent))
        walk.deadline_at = event.deadline_at
        if walk.run.state is RunState.SUCCEEDED:  # it was retried by itself since
            _children.tell_parent(walk)
        if walk.run.state not in (RunState.FAILED, RunState.CANCELLED):
            return
    if not walk.run.is_final:
        raise RunNotFinished(run_id=walk.draft.state.run_id, state=walk.run.state)
    redo.redo(walk, event)


def _node_completed(walk: Walk, event: NodeCompleted) -> None:
    path = event.path
    walk.claim(path)
    broken = breach(walk.graph.node(path).output_schema, event.output, f"the output of {path}", walk.effort)
    if broken is None:
        walk.complete(path, "succeed", event.output, reported=True)
    else:
        walk.fail(path, "fail", broken, retryable=True, reported=True)


def _node_cancelled(walk: Walk, event: NodeCancelled) -> None:
    walk.claim(event.path)
    cause = walk.row(event.path).cause or (walk.run.stop_cause if walk.run.is_stopping else None)
    if cause is not None:
        walk.cancel(event.path, cause, reported=True)
        return
    message = "the worker cancelled the handler although the run was not being stopped"
    walk.fail(event.path, "fail", failed(FailureType.CANCELLED, message), retryable=True, reported=True)


def _lease_released(walk: Walk, event: LeaseReleased) -> None:
    walk.claim(event.path)
    if walk.is_over_for(event.path):
        cause = walk.row(event.path).cause or walk.halt(scope_of(event.path)).cause
        walk.cancel(event.path, cause, reported=True, given_back=True)
    else:
        _again(walk, event.path, "released")


def _again(walk: Walk, path: str, outcome: str) -> None:
    """The attempt is left behind without a failure; the next one goes to the queue at once."""
    walk.cancel_timers(path, only_attempt=True)
    walk.emit(do.ReapLease(path=path, outcome=outcome))
    _nodes.dispatch(walk, path)


def _lease_expired(walk: Walk, event: LeaseExpired) -> None:
    row = walk.claim(event.path)
    node = walk.graph.node(event.path)
    if row.attempt_expires_at is not None and row.attempt_expires_at <= walk.at:
        walk.fail(event.path, "fail", timed_out("attempt", f"after {node.timeouts.attempt_ms} ms"), retryable=True)
    elif walk.is_over_for(event.path):
        walk.cancel(event.path, "unknown")
    elif row.losses + 1 > node.retry.max_losses:
        message = f"its lease was lost {row.losses + 1} times, the last time by {row.owner}"
        walk.fail(event.path, "fail", failed(FailureType.LEASE_LOST, message), retryable=False)
    else:
        _again(walk, event.path, "lost")


def _timer_fired(walk: Walk, event: TimerFired) -> None:
    walk.emit(do.CancelTimer(path=event.path, kind=event.kind, attempt=event.attempt))
    match event.kind:
        case "wait":
            walk.complete(event.path, "wait_succeeded", None)
        case "event_timeout":
            message = f"no signal {_signals.name_of(walk, event.path)} came that fits"
            walk.fail(event.path, "wait_failed", timed_out("event", message), retryable=False)
        case "retry":
            _nodes.try_again(walk, event.path)
        case "queue_timeout":
            queue = walk.row(event.path).queue
            walk.fail(
                event.path, "expire_ready", timed_out("queue", f"no worker took it from {queue}"), retryable=False
            )
        case "total_timeout":
            _total_timeout(walk, event.path)
        case "heartbeat_timeout" | "stall_timeout":
            _silent(walk, event)
        case "run_deadline":
            stops_already = walk.run.is_stopping  # with a grace of its own
            walk.emit(do.MarkRun(flag="expired"))
            if not stops_already:
                walk.stop_run()
        case "cancel_grace":
            _loops.close(walk, event.path)
        case "go_on":
            if event.path:  # of the run itself: what it undoes goes on as it comes to rest
                _loops.go_on(walk, event.path)
        case _:
            raise LookupError(event.kind)


_EXPIRE = {
    TaskState.READY: "expire_ready",
    TaskState.RUNNING: "fail",
    TaskState.RETRYING: "expire_retrying",
    TaskState.WAITING: "wait_failed",
}


def _total_timeout(walk: Walk, path: str) -> None:
    row = walk.row(path)
    if walk.graph.node(path).body is not None:
        _loops.time_out(walk, path)
        return
    if row.state is TaskState.RUNNING:
        walk.claim(path)
    elif row.state is TaskState.RETRYING:
        walk.emit(do.CancelTimer(path=path, kind="retry", attempt=row.attempt))
    elif row.state is TaskState.WAITING:
        _children.leave(walk, path)
    total_ms = walk.graph.node(path).timeouts.total_ms
    walk.fail(path, _EXPIRE[row.state], timed_out("total", f"after {total_ms} ms"), retryable=False)


def _silent(walk: Walk, event: TimerFired) -> None:
    """The handler gave no sign of life, or told of no progress: whether it did was judged before."""
    walk.claim(event.path)
    timeouts = walk.graph.node(event.path).timeouts
    which, what, limit_ms = (
        ("heartbeat", "no heartbeat", timeouts.heartbeat_ms)
        if event.kind == "heartbeat_timeout"
        else ("stall", "no progress", timeouts.stall_ms)
    )
    walk.fail(event.path, "fail", timed_out(which, f"{what} for {limit_ms} ms"), retryable=True)


def _signal_received(walk: Walk, event: SignalReceived) -> None:
    if walk.run.is_final:
        raise RunClosed(run_id=walk.draft.state.run_id, state=walk.run.state, request="signal")
    _signals.receive(walk, event)


def _run_cancelled(walk: Walk, event: RunCancelled) -> None:
    known = None if walk.run.parent is None else walk.run.parent.asker
    is_taken_up = event.parent is not None and event.parent.asker != known
    if event.parent is not None and is_taken_up:
        walk.emit(do.AdoptRun(parent=event.parent))
        if walk.run.is_final:  # it came before the order to go on, which then finds that the run was told of it
            _children.tell_parent(walk, None if walk.run.state is RunState.SUCCEEDED else RunState.CANCELLED)
            return
    if walk.run.is_final:
        raise RunClosed(run_id=walk.draft.state.run_id, state=walk.run.state, request="cancel")
    if walk.run.conclusion is not None:
        if not event.compensate and walk.loop(FINALLY).stop not in ALL_STOPS:
            _loops.stop(walk, FINALLY, BROKEN_OFF, timedelta(milliseconds=event.grace_ms))
        return
    is_new = not walk.run.cancelling and not walk.run.is_compensating
    if not event.compensate and walk.run.ending != UNCOMPENSATED:
        is_new = is_new or walk.run.is_compensating
        walk.emit(do.MarkRun(flag="ending", path=UNCOMPENSATED))
        if walk.graph.has_subflows:
            _children.tell_again(walk, walk.all_open_tasks())
    if is_new:
        walk.emit(do.MarkRun(flag="cancelling", reason=event.reason))
        walk.stop_run(timedelta(milliseconds=event.grace_ms))
