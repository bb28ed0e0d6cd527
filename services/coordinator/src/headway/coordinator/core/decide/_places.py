"""Which items of a map are next, where `where` leaves some out. Nothing is decided here.

Items are looked at in windows that grow as long as too few are found, so that what they need is loaded at once, and
what is not needed is hardly looked at. One decision looks at `LOOKS` of them: the rest is left to further ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.decide._scope import Scope
from headway.coordinator.core.effort import TooMuchToDecide
from headway.coordinator.core.missing import Key, Missing
from headway.coordinator.core.paths import scope_at
from headway.coordinator.core.templates import evaluate_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.plan import Expression
    from headway.coordinator.core.rows import LoopRow

LOOKS = 1_000  # items that one decision looks at: some fifty milliseconds
LOOK_STEPS = 200  # what a look costs the decision, besides what the expression computes
_GROWTH = 4

Problem: TypeAlias = ExpressionError | TooMuchToDecide
Verdict: TypeAlias = bool | Problem


class Found(NamedTuple):
    """An item that is next.

    Attributes:
        place: in the list.
        problem: whether it is to be done cannot be told; None: it is to be done.
    """

    place: int
    problem: Problem | None = None


def next_items(walk: Walk, loop: LoopRow, where: Expression | None, count: int) -> tuple[list[Found], int]:
    """Find so many next items, or fewer.

    Returns:
        the items, and the place up to which was looked.

    Raises:
        Missing: rows that the looks need are not loaded.
    """
    if where is None:
        end = loop.seen + count_of_sources(walk, loop, loop.seen, count)
        return [Found(place) for place in range(loop.seen, end)], end
    found: list[Found] = []
    at, window = loop.seen, count
    while at < loop.total and len(found) < count and may_look(walk):
        window = count_of_sources(walk, loop, at, min(window, walk.looks, loop.total - at))
        at = _look(walk, loop, where, range(at, at + window), found, count)
        window *= _GROWTH
    return found, at


def _look(walk: Walk, loop: LoopRow, where: Expression, places: range, found: list[Found], count: int) -> int:
    """Look at some items; returns the place behind the last one that was looked at. Raises Missing."""
    missing: set[Key] = set()
    at, overruns = places.start, walk.overruns
    for place in places:
        if len(found) == count or walk.effort.is_half_spent or walk.overruns > overruns:
            break
        try:
            verdict = _judge(walk, scope_at(loop.path, loop.started + len(found)), where, place)
        except Missing as error:
            missing |= error.keys
        else:
            found += [] if verdict is False else [Found(place, None if verdict is True else verdict)]
        at = place + 1
    if missing:
        raise Missing(missing)
    return at


def may_look(walk: Walk) -> bool:
    """True while this decision may look at more items, and begin them."""
    return walk.looks > 0 and not walk.overruns and not walk.effort.is_half_spent


def judge_again(walk: Walk, scopes: Sequence[str], where: Expression) -> dict[str, Verdict]:
    """Judge the first of some items that were begun: one at least, and as many as this decision may. Raises Missing."""
    missing: set[Key] = set()
    verdicts: dict[str, Verdict] = {}
    for scope in scopes:
        if (verdicts or missing) and not may_look(walk):
            break
        try:
            verdicts[scope] = _judge(walk, scope, where, walk.place(scope))
        except Missing as error:
            missing |= error.keys
    if missing:
        raise Missing(missing)
    return verdicts


def _judge(walk: Walk, scope: str, where: Expression, place: int) -> Verdict:
    """Whether an item at a place is to be done; what it would be called is `scope`. Raises Missing."""
    walk.looks -= 1
    walk.effort.spend(LOOK_STEPS)
    walk.places[scope] = place
    view = Scope(walk, scope)
    try:
        return evaluate_condition(where, view.lookup, view.present, walk.effort)
    except (ExpressionError, TooMuchToDecide) as problem:
        return problem
    finally:
        walk.has_memory_for(view.bytes_read)


def count_of_sources(walk: Walk, loop: LoopRow, first: int, count: int) -> int:
    """How many of the next results of the map that this one goes over may be in memory together: one at least.

    Raises:
        Missing: they are not loaded.
    """
    if loop.source is None:
        return count
    paths = [scope_at(loop.source, place) for place in range(first, first + count)]
    walk.draft.require_scopes(paths)
    rows = [walk.scope(path) for path in paths]
    fitting = next((place for place, row in enumerate(rows) if not walk.has_memory_for(row.output_bytes)), count)
    rows = rows[: max(fitting, 1)]
    walk.draft.require_payloads(row.output for row in rows if row.output is not None)
    return len(rows)
