"""The reducer: `decide(state, event)` says what must change. Pure: no clock, no chance, no ids of its own, no I/O.

The shell locks the run, loads what `wants` names, and then:

    while isinstance(verdict := decide(state, event), Need):
        load(verdict.keys)                # in the same transaction
    state.absorb(verdict.changes)         # the run's next event in this transaction sees them
    save(event, verdict.actions, verdict.changes)

Whether an event applies at all is judged before, by `admission`.
"""

from msgspec import Struct

from headway.coordinator.core.actions import Action
from headway.coordinator.core.decide import _events
from headway.coordinator.core.decide._walk import Walk
from headway.coordinator.core.decide._wants import wants
from headway.coordinator.core.events import RunEvent
from headway.coordinator.core.missing import Key, Missing
from headway.coordinator.core.state import PAGE, Changes, State

__all__ = ["PATIENCE", "Decision", "Need", "decide", "wants"]

PATIENCE = 16  # questions, after which a decision has half as much room


class Need(Struct, frozen=True):
    """The decision reaches rows that were not loaded: load them in this transaction and ask again.

    Attributes:
        steps: of its budget that it spent until then.
    """

    keys: frozenset[Key]
    steps: int = 0


class Decision(Struct, frozen=True):
    """What an event causes: the actions to record, and the rows that the projector made of them.

    Attributes:
        steps: of its budget that it spent.
    """

    actions: list[Action]
    changes: Changes
    steps: int = 0


def decide(state: State, event: RunEvent, *, questions: int = 0) -> Decision | Need:
    """Reduce one event. The state is not changed.

    Args:
        state: the run's rows, as far as they were loaded.
        event: what happened.
        questions: how often it asked already. Each time it began anew, and it has to end: it leaves more to the next.

    Raises:
        Refusal: the caller asked for what the run cannot do now.
        IllegalTransition: a broken invariant; the shell rolls back.
    """
    walk = Walk(state, event, max(1, PAGE >> questions // PATIENCE))
    guessed = walk.draft.guessed
    try:
        _events.reduce(walk, event)
        walk.finish()
    except Missing as missing:
        return Need(frozenset(guessed) or missing.keys, walk.effort.steps)
    except Exception:
        if not guessed:  # else it may be wrong as well: it comes again, if it is right, once nothing is guessed
            raise
    if guessed:
        return Need(frozenset(guessed), walk.effort.steps)
    return Decision(walk.actions, walk.draft.changes, walk.effort.steps)
