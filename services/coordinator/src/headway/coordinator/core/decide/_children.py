"""Runs that subflow nodes start: asked for, told to stop, and what their ends mean.

Parent and child are decided in transactions of their own and talk by hand-overs, which may come twice, late or in any
order. A child's row in the parent says whether its end is still waited for; nothing else is believed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from headway.coordinator.core import actions as do
from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.decide._contracts import breach
from headway.coordinator.core.decide._failures import expression_failure, failed
from headway.coordinator.core.decide._scope import Scope
from headway.coordinator.core.document import EMPTY, Document
from headway.coordinator.core.effort import TooMuchToDecide
from headway.coordinator.core.events import Failure
from headway.coordinator.core.failure_types import FailureType
from headway.coordinator.core.handovers import (
    NO_OUTPUT,
    CancelChild,
    ChildEnded,
    StartChild,
    body_of,
    kind_of,
    raw_of,
)
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.paths import scope_of
from headway.coordinator.core.payloads import is_short, shortened
from headway.coordinator.core.plan import FailureClass
from headway.coordinator.core.refusals import InvalidKey
from headway.coordinator.core.rows import GONE, LEFT, REFUSED, STARTED, UNCOMPENSATED, UNSTARTED, Parent
from headway.coordinator.core.templates import render

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.events import ChildFinished
    from headway.coordinator.core.plan import Json, Node
    from headway.coordinator.core.rows import ChildRow, TaskRow

MAX_DEPTH = 16  # of runs in one another
MESSAGE = 4_096  # characters of a child's error that its parent keeps
TAKEN_UP = frozenset({RunState.FAILED.value, RunState.CANCELLED.value})  # ends that a retry of the parent goes on from
_STOPPED = frozenset({RunState.CANCELLED.value, UNSTARTED, REFUSED, GONE})  # ends of a run that was told to stop
_MILLISECOND = timedelta(milliseconds=1)


def too_deep(walk: Walk) -> Failure | None:
    """The failure of a node that would start one run too many inside the others; None: it would not."""
    if walk.run.parent is None or walk.run.parent.depth < MAX_DEPTH:
        return None
    message = f"{MAX_DEPTH} runs lie around this one already: does a workflow start itself?"
    return failed(FailureType.SUBFLOW_TOO_DEEP, message)


def start(walk: Walk, path: str, *, again: bool = False) -> None:
    """Ask for the run of a waiting subflow node. `again`: the one it had goes on, if it failed or was stopped."""
    row, node = walk.row(path), walk.graph.node(path)
    before = walk.draft.child(path) if again else None
    takes_up = before is not None and before.state in TAKEN_UP
    child = before.child if before is not None and takes_up else walk.draft.child_id(path, row.attempt)
    try:
        labels, key = _labels(walk, path, node), _key(walk, path, node)
    except (ExpressionError, TooMuchToDecide) as error:
        walk.fail(path, "wait_failed", expression_failure(error), retryable=False)
        return
    except InvalidKey as refusal:
        walk.fail(path, "wait_failed", _refused(node.child_workflow, refusal.reason, str(refusal)), retryable=False)
        return
    message = StartChild(
        namespace=walk.run.namespace,
        workflow=node.child_workflow,
        version=node.child_version,
        input=raw_of(EMPTY if row.input is None else walk.draft.payload(row.input)),
        labels=labels,
        parent=_parent(walk, path, row.attempt, detached=node.detach),
        deadline_at=None if node.detach else _deadline(walk),
        again=takes_up,
        key=key,
    )
    walk.emit(
        do.OpenChild(
            path=path,
            attempt=row.attempt,
            child=child,
            workflow=node.child_workflow,
            version=node.child_version,
            detached=node.detach,
        )
    )
    walk.emit(do.HandOver(to=child, kind=kind_of(message), body=body_of(message)))


def _labels(walk: Walk, path: str, node: Node) -> dict[str, str]:
    scope = Scope(walk, scope_of(path), target=path)
    labels: dict[str, str] = {}
    for name, template in node.labels.items():
        given = Document.of(render(template, scope.lookup, scope.present, scope.effort))
        value = given.value
        if value is not None and value != "":
            labels[name] = value if isinstance(value, str) else given.raw.decode()
    return labels


def _key(walk: Walk, path: str, node: Node) -> str | None:
    """The key that the run is to have; null: none. Raises InvalidKey."""
    if node.key is None:
        return None
    scope = Scope(walk, scope_of(path), target=path)
    value = Document.of(render(node.key, scope.lookup, scope.present, scope.effort)).value
    if isinstance(value, float) and value.is_integer():  # however the number is spelt, it is the same key
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if value is not None and not (isinstance(value, str) and is_short(value)):
        raise InvalidKey
    return value


def _parent(walk: Walk, path: str, attempt: int, *, detached: bool) -> Parent:
    run_id, above = walk.draft.state.run_id, walk.run.parent
    return Parent(
        run_id=run_id,
        path=path,
        attempt=attempt,
        place=f"{run_id if above is None else above.place}/{path}",
        attempts=(attempt,) if above is None else (*above.attempts, attempt),
        detached=detached,
    )


def _deadline(walk: Walk) -> datetime | None:
    may_have_one = walk.graph.plan.deadline_ms is not None or walk.run.parent is not None
    return walk.draft.deadline() if may_have_one else None


def awaited(walk: Walk, path: str) -> ChildRow | None:
    """The run that a waiting subflow node waits for; None: a pause holds it back."""
    child = walk.draft.child(path)
    return child if child is not None and child.is_open and child.attempt == walk.row(path).attempt else None


def stop(walk: Walk, path: str, cause: str) -> None:
    """Tell a node's run to stop, and wait for its end; what is held back, or detached, is not waited for."""
    child = awaited(walk, path)
    if child is None or child.detached:
        leave(walk, path)
        walk.cancel(path, cause)
    elif child.stop is None:
        walk.emit(do.StopChild(path=path, attempt=child.attempt, cause=cause))
        _tell(walk, child)


def leave(walk: Walk, path: str) -> None:
    """A node's run is not waited for any more, if it was: it is told to stop."""
    child = awaited(walk, path)
    if child is not None:
        walk.emit(do.CloseChild(path=path, attempt=child.attempt, state=LEFT))
        _tell(walk, child)


def tell_again(walk: Walk, rows: Iterable[TaskRow]) -> None:
    """Nothing is to be undone, after all: runs that were told to stop before are told so."""
    paths = [row.path for row in rows if row.state is TaskState.WAITING and walk.graph.is_subflow(row.path)]
    walk.draft.require_children(paths)
    for path in paths:
        child = awaited(walk, path)
        if child is not None and child.stop is not None:
            _tell(walk, child)


def _tell(walk: Walk, child: ChildRow) -> None:
    message = CancelChild(
        namespace=walk.run.namespace,
        workflow=child.workflow,
        version=child.version,
        parent=_parent(walk, child.path, child.attempt, detached=child.detached),
        reason=f"its parent stops it: run {walk.draft.state.run_id}, node {child.path}",
        grace_ms=walk.grace // _MILLISECOND,
        compensate=walk.run.ending != UNCOMPENSATED,
    )
    walk.emit(do.HandOver(to=child.child, kind=kind_of(message), body=body_of(message)))


def finish(walk: Walk, event: ChildFinished) -> None:
    """The end of a node's run, or its start when it is detached, is the node's."""
    path, state = event.path, event.state
    child = walk.draft.write_child(path)
    walk.emit(do.CloseChild(path=path, attempt=event.attempt, state=state))
    if state == GONE and child.stop is None:
        if not walk.run.is_paused:
            start(walk, path)  # of this attempt, which took up another's run, there was none yet
    elif state == STARTED:
        walk.complete(path, "wait_succeeded", Document.of({"run_id": event.child}))
    elif state == RunState.SUCCEEDED:
        broken = None
        if event.output is not None:
            broken = breach(walk.graph.node(path).output_schema, event.output, f"the output of {path}", walk.effort)
        if broken is None:
            walk.complete(path, "wait_succeeded", event.output)
        else:
            walk.fail(path, "wait_failed", broken, retryable=True)
    elif state in _STOPPED and child.stop is not None:
        walk.cancel(path, child.stop)
    else:
        walk.fail(path, "wait_failed", _failure(event, child), retryable=state == RunState.FAILED)


def _failure(event: ChildFinished, child: ChildRow) -> Failure:
    error = event.error or {}
    message = shortened(str(error.get("message")), MESSAGE)
    if event.state == REFUSED and "holder" in error:
        held: dict[str, Json] = {"workflow": child.workflow, "key": error["key"], "run_id": error["holder"]}
        message = f"{child.workflow} could not start: its key is that of run {error['holder']}"
        return failed(FailureType.SUBFLOW_KEY_TAKEN, message, held)
    if event.state == REFUSED:
        return _refused(child.workflow, str(error.get("type")), message, run_id=event.child)
    details: dict[str, Json] = {"workflow": child.workflow, "run_id": event.child}
    paths = error.get("paths")
    nodes: list[Json] = [str(path) for path in paths] if isinstance(paths, list) else []
    details["nodes"] = nodes
    is_failed = event.state == RunState.FAILED
    how = "failed" if is_failed else "was cancelled"
    return Failure(
        failure_class=FailureClass(error["failure_class"]) if is_failed else FailureClass.EXEC_FAILED,
        type=FailureType.SUBFLOW_FAILED.value if is_failed else FailureType.SUBFLOW_CANCELLED.value,
        message=f"run {event.child} of {child.workflow} {how}: {message}",
        details=details,
    )


def _refused(workflow: str, reason: str, message: str, **details: Json) -> Failure:
    told: dict[str, Json] = {"workflow": workflow, "reason": reason, **details}
    return failed(FailureType.SUBFLOW_REFUSED, f"{workflow} could not start: {message}", told)


def tell_parent(walk: Walk, state: str | None = None) -> None:
    """The run is over: its parent, if one waits for it, is told. `state`: how, when that is not the run's own."""
    run = walk.run
    parent = run.parent
    if parent is None or parent.detached:
        return
    output = NO_OUTPUT
    if run.output_path is not None and run.output_attempt is not None:
        output = raw_of(walk.draft.payload((run.output_path, run.output_attempt, "output")))
    message = ChildEnded(
        path=parent.path,
        attempt=parent.attempt,
        child=walk.draft.state.run_id,
        state=state or str(run.state),
        error=run.error,
        output=output,
    )
    walk.emit(do.HandOver(to=parent.run_id, kind=kind_of(message), body=body_of(message)))
