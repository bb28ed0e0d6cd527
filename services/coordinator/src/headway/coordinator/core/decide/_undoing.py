"""How a run that failed or was cancelled undoes what it did: one node after the other, what completed last first.

What nodes that can be undone did stands in rows of their own, in the order in which it came, whichever items and
iterations they are in. So the next one is found at once, however many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide import _nodes
from headway.coordinator.core.rows import COMPENSATING, UNCOMPENSATED, EffectRow, undoing_generation, was_undone
from headway.coordinator.core.state import EFFECTS, LATEST

if TYPE_CHECKING:
    from headway.coordinator.core.decide._walk import Walk


def undo_rest(walk: Walk) -> bool:
    """Go on undoing what took effect, when the run is not paused; False: nothing is left to be undone."""
    if not walk.graph.can_undo or walk.run.ending == UNCOMPENSATED:
        return False
    begun = 0
    while (effect := _next(walk)) is not None:
        if walk.run.is_paused:
            return True
        if begun == EFFECTS or walk.effort.is_half_spent:  # they failed at once, or nobody knows of them, each of them
            walk.emit(do.ScheduleTimer(path="", kind="go_on", attempt=0, due_at=walk.at))
            return True
        begun += 1
        _undo(walk, effect)
        if walk.run.open_tasks:
            return True
    return False


def _next(walk: Walk) -> EffectRow | None:
    """What is to be undone next; what could not be undone since the run was reopened is left behind."""
    last = walk.run.steering.undoing
    return walk.draft.latest_effect(LATEST if last is None else last.place)


def _undo(walk: Walk, effect: EffectRow) -> None:
    """Begin the node that undoes another.

    What a retry of the run repeated took effect twice, and is undone twice. What nobody knows of was taken up by the
    next attempt, under the same idempotency key: it counts only as the latest.
    """
    spot = walk.graph.spot(effect.path)
    undo = spot.beside(spot.node.compensate or "")
    walk.draft.require_around((effect.path, undo), spot.scope)
    row = walk.row(effect.path)
    if effect.gave == "unknown" and row.attempt != effect.attempt:
        walk.emit(do.TakeEffect(place=effect.place, path=effect.path, undone=False))
        return
    if not walk.run.is_compensating:
        walk.cancel_run_timers()  # what stopped the run does not stop what undoes it
        walk.emit(do.MarkRun(flag="ending", path=COMPENSATING))
    walk.emit(do.BeginUndoing(place=effect.place, path=effect.path, attempt=effect.attempt, gave=effect.gave))
    before = walk.draft.task(undo)
    is_undone = before is not None and was_undone(row, before)
    generation = undoing_generation(effect.attempt, row.attempt, is_undone=is_undone)
    if before is None:
        _nodes.create(walk, undo)
        walk.emit(do.SetGeneration(path=undo, generation=generation))
    else:  # it undid what the node did before
        walk.emit(do.RedoTask(path=undo, generation=generation))
    walk.undoing = effect
    walk.start(undo, by_always=True)
    walk.undoing = None
