"""How a run ends, once nothing in it can happen any more: its final state, its output, and what it says of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide._children import tell_parent
from headway.coordinator.core.decide._contracts import breach
from headway.coordinator.core.decide._undoing import undo_rest
from headway.coordinator.core.document import NULL
from headway.coordinator.core.effort import Effort
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.outcome import outcome, tally_of
from headway.coordinator.core.paths import inside
from headway.coordinator.core.payloads import shortened
from headway.coordinator.core.plan import FINALLY, FailureClass, Json
from headway.coordinator.core.rows import Conclusion

if TYPE_CHECKING:
    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.document import Document
    from headway.coordinator.core.graph import Graph
    from headway.coordinator.core.rows import TaskRow

NAMED_PATHS = 20  # failing tasks that the error of a run or an item names
MESSAGE = 4_096  # characters of a finish node's message that the run's error keeps


def settle(walk: Walk) -> None:
    """End the run when nothing in it can happen any more; unless it succeeded, only once all is undone."""
    if walk.run.state is not RunState.RUNNING:
        return
    conclusion = walk.run.conclusion or _conclude(walk)
    if conclusion is None:
        return
    if walk.graph.has_finally:
        if walk.run.conclusion is None:
            _begin_finally(walk, conclusion)
        if walk.run.open_tasks:
            return
        conclusion = _after_finally(walk, conclusion)
    run = walk.run
    source = walk.row(run.finish_path) if run.finish_path else None
    has_output = source is not None and source.output_attempt is not None
    walk.emit(
        do.FinishRun(
            state=conclusion.state,
            error=conclusion.error,
            output_path=source.path if source and has_output else None,
            output_attempt=source.output_attempt if source and has_output else None,
        )
    )
    tell_parent(walk)


def _conclude(walk: Walk) -> Conclusion | None:
    """How the run ends; None: something in it may happen yet."""
    ended, broken = _outcome(walk), None
    if ended is RunState.SUCCEEDED and not walk.run.finish_path:
        broken = breach(walk.graph.plan.output_schema, NULL, "the run's output", Effort())
        ended = ended if broken is None else RunState.FAILED
    if ended is None or (ended is not RunState.SUCCEEDED and undo_rest(walk)):
        return None
    if ended is RunState.SUCCEEDED:
        return Conclusion(state=ended, error=None)
    if broken is None:
        return Conclusion(state=ended, error=_with_standing(walk, _cause(walk, ended)))
    error: dict[str, Json] = {"failure_class": broken.failure_class, "message": broken.message, "paths": []}
    return Conclusion(state=ended, error=_with_standing(walk, error))


def _begin_finally(walk: Walk, conclusion: Conclusion) -> None:
    """What stopped the run does not stop what runs at its end; it begins anew at each end."""
    walk.cancel_run_timers()
    walk.emit(do.ConcludeRun(state=conclusion.state, error=conclusion.error))
    row = walk.draft.task(FINALLY) if walk.run.epoch > 1 else None
    if row is not None:
        walk.emit(do.RedoTask(path=FINALLY, generation=row.generation + 1))
    walk.start(FINALLY, by_always=True)
    walk.come_to_rest()


def _after_finally(walk: Walk, conclusion: Conclusion) -> Conclusion:
    """A run keeps its outcome, unless it succeeded and what ran at its end did not."""
    row, state, error = walk.row(FINALLY), conclusion.state, conclusion.error
    if row.state is TaskState.SUCCEEDED:
        return conclusion
    told = row.error or {}
    message = f"{FINALLY}: {told.get('type')}: {told.get('message')}"
    if row.state is TaskState.CANCELLED:
        message = f"{FINALLY} was broken off by request"
    if error is not None:
        return Conclusion(state=state, error={**error, "message": f"{error['message']}; {message}"})
    if row.state is TaskState.CANCELLED:
        return Conclusion(
            state=RunState.CANCELLED, error={"failure_class": "cancelled", "message": message, "paths": []}
        )
    paths: list[Json] = [FINALLY]
    return Conclusion(
        state=RunState.FAILED, error={"failure_class": row.failure_class, "message": message, "paths": paths}
    )


def _outcome(walk: Walk) -> RunState | None:
    run = walk.run
    counts = tally_of(run)
    if walk.graph.has_finally and run.epoch > 1:  # what ran at an end before says nothing of this one
        row = walk.draft.task(FINALLY)
        counts = replace(counts, succeeded=counts.succeeded - (row is not None and row.state is TaskState.SUCCEEDED))
    finish = RunState(walk.graph.node(run.finish_path).outcome) if run.finish_path else None
    ended = outcome(counts, finish=finish, cancelled=run.cancelling, deadline_passed=run.expired)
    if ended is RunState.SUCCEEDED and finish is None and (run.is_compensating or run.epoch > 1):
        return ended if counts.succeeded > _succeeded_undoing(walk) else RunState.FAILED
    return ended


def _succeeded_undoing(walk: Walk) -> int:
    """How many of the run's own nodes undid another: that says nothing of how the run ends."""
    paths = tuple(walk.graph.undoes)
    walk.draft.require_tasks(paths)
    return sum(row is not None and row.state is TaskState.SUCCEEDED for row in map(walk.draft.task, paths))


def _with_standing(walk: Walk, error: dict[str, Json]) -> dict[str, Json]:
    """The run's error, and what could not be undone."""
    steering = walk.run.steering
    if not steering.standing:
        return error
    spots = [walk.graph.spot(path) for path in steering.standing]
    failed = [spot.beside(spot.node.compensate or "") for spot in spots]
    named = ", ".join(f"{path} ({undo} failed)" for path, undo in zip(steering.standing, failed, strict=True))
    more = steering.not_undone - len(failed)
    message = f"{error['message']}; not undone: {named}" + (f" and {more} more" if more else "")
    paths = error["paths"]
    known: list[Json] = paths if isinstance(paths, list) else []
    return {**error, "message": message, "paths": [*known, *failed][:NAMED_PATHS]}


def _cause(walk: Walk, ended: RunState) -> dict[str, Json]:
    run = walk.run
    if run.finish_path is not None:
        row = walk.row(run.finish_path)
        message = _spoken(walk.draft.payload(row.input)) if row.input else f"ended by {row.path}"
        return {"failure_class": FailureClass.EXEC_FAILED, "message": message, "paths": [row.path]}
    if ended is RunState.CANCELLED:
        reason = run.steering.cancel_reason
        message = f"cancelled by request: {reason}" if reason else "cancelled by request"
        return {"failure_class": "cancelled", **_with_closed(walk, message)}
    if run.expired:
        return {"failure_class": FailureClass.TIMEOUT, **_with_closed(walk, "the run's deadline passed")}
    return _failures_error(walk)


def _with_closed(walk: Walk, message: str) -> dict[str, Json]:
    """The message, and the attempts that were closed without a word of their holders just now: the grace was over."""
    closed = [action.path for action in walk.actions if isinstance(action, do.CancelTask) and action.cause == "unknown"]
    if closed:
        message += f"; {len(closed)} attempt(s) did not end in time and were closed: what they did is unknown"
    paths: list[Json] = list(closed[:NAMED_PATHS])
    return {"message": message, "paths": paths}


def _failures_error(walk: Walk) -> dict[str, Json]:
    culprits = unhandled(walk, walk.graph, "")
    if not culprits:
        return {"failure_class": FailureClass.EXEC_FAILED, "message": "no task succeeded", "paths": []}
    first = culprits[0]
    error = first.error or {}
    paths: list[Json] = [row.path for row in culprits[:NAMED_PATHS]]
    message = f"{first.path}: {error.get('type')}: {error.get('message')}"
    return {"failure_class": first.failure_class, "message": message, "paths": paths}


def unhandled(walk: Walk, graph: Graph, scope: str) -> list[TaskRow]:
    """The failures of the run itself, or of a scope, that count, the earliest first."""
    count = (walk.scope(scope) if scope else walk.run).unhandled_tasks
    known = walk.draft.known_tasks()
    if scope or graph.bodies:
        paths = [inside(scope, name) for name in graph.plan.nodes]
        rows = [row for path in paths if (row := known.get(path)) is not None and _counts(row)]
        if len(rows) != count:
            walk.draft.require_tasks(paths)
    else:
        rows = [row for row in known.values() if _counts(row)]
        if len(rows) != count:
            walk.draft.require("unhandled")
    return sorted(rows, key=lambda row: (row.finished_at or walk.at, row.path))


def _counts(row: TaskRow) -> bool:
    return row.state is TaskState.FAILED and row.disposition == "unhandled"


def _spoken(document: Document) -> str:
    """A finish node's message as text, cut."""
    value = document.value
    return shortened(value if isinstance(value, str) else document.raw.decode(), MESSAGE)
