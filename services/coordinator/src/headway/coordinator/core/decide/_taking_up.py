"""Which items and iterations are taken up again, in a run that was reopened; what happens in them is decided elsewhere.

What a retry chose is noted when its map goes on, and taken up first, as far as there is room; then, from the first on,
what did not succeed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide._places import Verdict, judge_again
from headway.coordinator.core.decide._signals import ask_ahead
from headway.coordinator.core.document import Document
from headway.coordinator.core.paths import chosen_key, inside, loop_of, scope_at, scopes_around
from headway.coordinator.core.plan import NodeType
from headway.coordinator.core.state import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.graph import Graph
    from headway.coordinator.core.rows import LoopRow

Names: TypeAlias = tuple[str, ...]


class Again(NamedTuple):
    """An item or iteration that is taken up.

    Attributes:
        chosen: the nodes in it that are redone; none: those that did not succeed.
        verdict: of an item of which it could not be told whether it is to be done, the answer now; None: it is.
    """

    chosen: Names
    verdict: Verdict | None


def is_taken_up(loop: LoopRow, kind: NodeType, *, is_chosen: bool) -> bool:
    """True for a map or repeat that goes on where it stopped when its node is redone; else it begins anew.

    Args:
        loop: its row.
        kind: which of them it is.
        is_chosen: something in it is to be redone.
    """
    unfinished = is_chosen or loop.failed > 0 or loop.cancelled > 0
    if kind is NodeType.REPEAT:
        return not loop.undone and (unfinished or loop.stop is not None)
    return unfinished or loop.undone or loop.redo_chosen is not None or loop.seen < loop.total


def places_in(path: str, scopes: Iterable[str]) -> dict[str, int]:
    """In which item or iteration of a map or repeat scopes lie; those elsewhere are left out."""
    around = {scope: dict(map(loop_of, scopes_around(scope))) for scope in scopes}
    return {scope: indexes[path] for scope, indexes in around.items() if path in indexes}


def note(walk: Walk, loop: LoopRow, chosen: Mapping[str, Names]) -> None:
    """Note what is to be taken up: the chosen nodes in it, by scope, and what stopped; if none were chosen, failed too.

    What an earlier retry chose and did not come to, because all was stopped again, is noted anew.
    """
    path, attempt = loop.path, None
    before = _noted(walk, loop)
    places = places_in(path, before)
    left = {scope: names for scope, names in before.items() if places[scope] >= (loop.redo_from or 0)}
    both = {**chosen, **{scope: (*names, *chosen.get(scope, ())) for scope, names in left.items()}}
    if both:
        path, attempt, role = chosen_key(path, walk.row(path).attempt)
        data = Document.of({scope: [*names] for scope, names in both.items()})
        walk.emit(do.StorePayload(path=path, attempt=attempt, role=role, data=data))
    again = do.ReopenLoop(path=path, started=loop.started, redo_from=0, redo_failed=not chosen, redo_chosen=attempt)
    walk.emit(again)


def _noted(walk: Walk, loop: LoopRow) -> dict[str, Names]:
    """The nodes in a map that are to be redone, by their scopes."""
    if loop.redo_chosen is None:
        return {}
    stored = walk.draft.payload(chosen_key(loop.path, loop.redo_chosen)).value
    by_scope = stored.items() if isinstance(stored, dict) else ()
    return {scope: tuple(map(str, names)) for scope, names in by_scope if isinstance(names, list)}


def take_next(walk: Walk, loop: LoopRow, first: int, most: int) -> dict[str, Again]:
    """Take the next ones from an index on, as many as may be; the row of their map or repeat says so from then on.

    Returns:
        them, by their scopes; perhaps none, when no more are to be taken up.

    Raises:
        Missing: some of them are not loaded.
    """
    if loop.redo_chosen is not None:
        return _take_chosen(walk, loop, first, most)
    return _take_unfinished(walk, loop, first, most)


def _take_chosen(walk: Walk, loop: LoopRow, first: int, most: int) -> dict[str, Again]:
    """Behind the last chosen one, others come from the first on."""
    chosen = _noted(walk, loop)
    walk.chosen = {**walk.chosen, **chosen}
    items = sorted({index for index in places_in(loop.path, chosen).values() if first <= index < loop.started})
    scopes = [scope_at(loop.path, index) for index in items[: min(most, walk.room)]]
    walk.draft.require_scopes(scopes)
    verdicts = _asked_again(walk, loop, scopes)
    taken = items[: len(verdicts)]
    walk.room -= len(taken)
    is_last = len(taken) == len(items)
    walk.emit(
        do.ReopenLoop(
            path=loop.path,
            started=loop.started,
            redo_from=0 if is_last else taken[-1] + 1,
            redo_failed=loop.redo_failed,
            redo_chosen=None if is_last else loop.redo_chosen,
        )
    )
    return {scope: Again(chosen[scope], verdict) for scope, verdict in verdicts.items()}


def _take_unfinished(walk: Walk, loop: LoopRow, first: int, most: int) -> dict[str, Again]:
    page = "unfinished" if loop.redo_failed else "stopped"
    found = walk.draft.items(loop.path, page, first)
    rows = [row for row in found if row.index < loop.started]  # others are left from before it was begun anew
    verdicts = _asked_again(walk, loop, [row.path for row in rows[: min(most, walk.room)]])
    taken = rows[: len(verdicts)]
    walk.room -= len(taken)
    spot = walk.graph.spot(loop.path)
    walk.draft.require_within(spot.graph.bodies[spot.name], verdicts, page, walk.room)
    is_last = len(rows) < PAGE and len(taken) == len(rows)
    walk.emit(
        do.ReopenLoop(
            path=loop.path,
            started=loop.started,
            redo_from=None if is_last else taken[-1].index + 1,
            redo_failed=loop.redo_failed,
        )
    )
    return {scope: Again((), verdict) for scope, verdict in verdicts.items()}


def _asked_again(walk: Walk, loop: LoopRow, scopes: list[str]) -> dict[str, Verdict | None]:
    """Of items of which it could not be told whether they are to be done, that is asked again; None: of others.

    Returns:
        the first of them, as many as are taken up in this decision.
    """
    if not scopes:
        return {}
    spot = walk.graph.spot(loop.path)
    body, where = spot.graph.bodies[spot.name], spot.node.where
    walk.draft.require_bodies(body, scopes)
    ask_for_signals(walk, body, scopes)
    ask_for_children(walk, body, scopes)
    verdicts: dict[str, Verdict | None] = dict.fromkeys(scopes)
    if where is None:
        return verdicts
    names = body.plan.nodes
    bare = [scope for scope in scopes if all(walk.draft.task(inside(scope, name)) is None for name in names)]
    judged = judge_again(walk, bare, where)
    last = next((scopes.index(scope) for scope in bare if scope not in judged), len(scopes))
    return {scope: judged.get(scope) for scope in scopes[:last]}


def ask_for_signals(walk: Walk, body: Graph, scopes: Sequence[str]) -> None:
    """Ask at once for the signals that may be taken in some items as they begin. Raises Missing."""
    asking = [name for name in body.starts if body.plan.nodes[name].event_name is not None]
    ask_ahead(walk, [inside(scope, name) for scope in scopes for name in asking])


def ask_for_children(walk: Walk, body: Graph, scopes: Sequence[str]) -> None:
    """Ask at once for the ids of the runs that the subflow nodes of some items may start. Raises Missing."""
    paths = [inside(scope, name) for scope in scopes for name in sorted(body.subflows)]
    rows = [walk.draft.task(path) for path in paths]
    walk.draft.require_child_ids(
        (path, 1 if row is None else row.attempt + 1) for path, row in zip(paths, rows, strict=True)
    )
