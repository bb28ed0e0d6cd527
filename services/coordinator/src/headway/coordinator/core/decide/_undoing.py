"""How a run that failed or was cancelled undoes what it did: one node after the other, what completed last first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide import _nodes
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.rows import COMPENSATING, UNCOMPENSATED, TaskRow

if TYPE_CHECKING:
    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.graph import Graph
    from headway.coordinator.core.state import Draft


def undo_next(walk: Walk) -> bool:
    """Begin the next node that undoes another; False: there is none left."""
    graph = walk.graph
    if not graph.undone_by or walk.run.ending == UNCOMPENSATED:
        return False
    order = {owner: place for place, owner in enumerate(graph.undone_by)}
    due = [row for row, undo in _pairs(walk.draft, graph) if _is_to_be_undone(row, undo)]
    if not due:
        return False
    if not walk.run.is_compensating:
        walk.cancel_run_timers()  # what stopped the run does not stop what undoes it
        walk.emit(do.MarkRun(flag="ending", path=COMPENSATING))
    last = max(due, key=lambda row: (row.finished_at or walk.at, order[row.path]))
    path = graph.undone_by[last.path]
    if walk.draft.task(path) is None:
        _nodes.create(walk, path)
        walk.emit(do.SetGeneration(path=path, generation=last.attempt))
    else:  # it undid what the node did before a retry of the run
        walk.emit(do.RedoTask(path=path, generation=last.attempt))
    walk.start(path, by_always=True)
    return True


def undone(draft: Draft, graph: Graph) -> frozenset[str]:
    """Nodes whose effect was undone, or may have been, since they completed."""
    pairs = _pairs(draft, graph)
    return frozenset(row.path for row, undo in pairs if undo is not None and not _is_to_be_undone(row, undo))


def not_undone(draft: Draft, graph: Graph) -> list[tuple[str, str]]:
    """Nodes whose effect stands although it was to be undone, each with the node that failed to undo it."""
    return [
        (row.path, undo.path)
        for row, undo in _pairs(draft, graph)
        if undo is not None and undo.state is TaskState.FAILED and not _is_to_be_undone(row, undo)
    ]


def _pairs(draft: Draft, graph: Graph) -> list[tuple[TaskRow, TaskRow | None]]:
    """What took effect and can be undone, each with what undoes it."""
    draft.require_tasks((*graph.undone_by, *graph.undoes))
    owners = (draft.task(owner) for owner in graph.undone_by)
    return [(row, draft.task(graph.undone_by[row.path])) for row in owners if row is not None and _took_effect(row)]


def _took_effect(row: TaskRow) -> bool:
    """It succeeded; or its worker fell silent while it was being stopped: nobody knows."""
    return row.state is TaskState.SUCCEEDED or (row.state is TaskState.CANCELLED and row.cause == "unknown")


def _is_to_be_undone(row: TaskRow, undo: TaskRow | None) -> bool:
    return undo is None or undo.generation != row.attempt
