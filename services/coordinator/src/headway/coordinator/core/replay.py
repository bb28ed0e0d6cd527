"""Rebuild a run's rows from its recorded history: actions are applied again, nothing is decided again."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from headway.coordinator.core.actions import Action, CreateRun
from headway.coordinator.core.document import Document
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.projector import Projector
from headway.coordinator.core.records import decode_actions
from headway.coordinator.core.state import Draft, State

PayloadOf = Callable[[int, Action], Document]  # (seq, action) -> what it stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A row of `run_events`, as far as a replay needs it."""

    seq: int
    at: datetime
    actions: bytes


class HistoryBroken(Exception):
    """The history has a gap at {seq}."""


def replay(graph: Graph, history: Iterable[Recorded], payload_of: PayloadOf) -> State:
    """Apply a history from its beginning.

    Raises:
        HistoryBroken: a sequence number is missing.
        IllegalTransition: an action does not fit the rows before it.
    """
    state = State(graph=graph, complete=True)
    for expected, record in enumerate(history, start=1):
        if record.seq != expected:
            raise HistoryBroken(f"the history has a gap at {expected}")
        draft = Draft(state)
        projector = Projector(draft, record.at)
        given = decode_actions(record.actions, lambda action, seq=record.seq: payload_of(seq, action))
        if not (given and isinstance(given[0], CreateRun)):
            projector.count_event()
        for action in given:
            projector.apply(action)
            if isinstance(action, CreateRun):
                projector.count_event()
        state.absorb(draft.changes)
    return state


__all__ = ["HistoryBroken", "Recorded", "replay"]
