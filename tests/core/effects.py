"""What nodes that can be undone did, followed through a history: which effects stand, and what is wanted anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.coordinator.core import actions as do

if TYPE_CHECKING:
    from headway.coordinator.core.graph import Graph

_BEHIND = 1 << 62  # all effects


class Effects:
    """A stack of effects, numbered in the order in which they came.

    Attributes:
        standing: paths of the nodes.
    """

    def __init__(self, graph: Graph) -> None:
        """Of a run that begins."""
        self.standing: dict[int, str] = {}
        self._graph = graph
        self._count = 0
        self._last = _BEHIND  # begun to be undone since the run was reopened
        self._latest: dict[str, int] = {}  # of nodes that were not done again since
        self._undone: set[int] = set()  # or perhaps
        self._failed: set[str] = set()  # nodes that ended without success
        self._lost: dict[str, int] = {}  # what nodes did that ended without a word of their holder
        self._stale: set[int] = set()  # taken up by the next attempt
        self._undoing: set[str] = set()  # nodes that are open

    def to_be_undone(self) -> list[str]:
        """What stands and was not tried to be undone since the run was reopened."""
        return [path for place, path in self.standing.items() if place < self._last]

    def wanted_anew(self) -> set[str]:
        """Nodes of which the latest effect was undone, or may have been."""
        return {path for path, place in self._latest.items() if place in self._undone}

    def follow(self, action: do.Action) -> None:
        """Go on by an action; AssertionError: it may not come now."""
        match action:
            case do.ReopenRun():
                self._last = _BEHIND
            case do.NoteEffect():
                self._note(action.path)
            case do.RedoTask():
                self._redo(action.path)
            case do.BeginUndoing() | do.TakeEffect() | do.DoubtUndoing():
                self._undo(action)
            case do.DispatchTask() | do.AwaitTask():
                self._undoing |= {action.path} if self._graph.owner(action.path) else set()
            case do.CompleteTask() | do.CancelTask():
                is_lost = isinstance(action, do.CancelTask) and (action.cause == "unknown" or action.unknown)
                self._end(action.path, has_failed=is_lost)
            case do.FailTask() if action.disposition is not None:
                self._end(action.path, has_failed=True)
            case _:
                pass

    def _note(self, path: str) -> None:
        self.standing[self._count] = path
        self._latest[path] = self._count
        if path in self._failed:
            self._lost[path] = self._count
        self._count += 1

    def _redo(self, path: str) -> None:
        self._latest.pop(path, None)
        if path in self._lost:
            self._stale.add(self._lost.pop(path))

    def _end(self, path: str, *, has_failed: bool) -> None:
        self._undoing.discard(path)
        self._lost.pop(path, None)
        self._failed.discard(path)
        if has_failed:
            self._failed.add(path)

    def _undo(self, action: do.BeginUndoing | do.TakeEffect | do.DoubtUndoing) -> None:
        if isinstance(action, do.BeginUndoing):
            assert not self._undoing, "two are undone at once"
            self._last = self._next()
            assert self.standing[self._last] == action.path, "not the latest is undone"
            assert self._last not in self._stale
            return
        is_forgotten = isinstance(action, do.TakeEffect) and not action.undone
        place = self._next() if is_forgotten else self._last
        assert self.standing[place] == action.path
        assert (place in self._stale) == is_forgotten
        self._lost = {path: lost for path, lost in self._lost.items() if lost != place}
        if isinstance(action, do.TakeEffect):
            del self.standing[place]
        if not is_forgotten:
            self._undone.add(place)

    def _next(self) -> int:
        return max(place for place in self.standing if place < self._last)
