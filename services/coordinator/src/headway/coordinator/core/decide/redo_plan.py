"""What a retry of a finished run does again; worked out on its rows, nothing is decided yet.

The redo set is the chosen nodes and all that can be reached from them, not walking through a join whose kept tokens
suffice. Everything outside stays as it is. A node in a map or repeat belongs to its item or iteration, where the same
is worked out, and to the map or repeat around; other items keep their results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.paths import inside, is_within, loop_of, scope_at, scopes_around
from headway.coordinator.core.plan import FINALLY, NodeType
from headway.coordinator.core.refusals import (
    InvalidArgument,
    IterationDropped,
    NodeNotFound,
    NodeNotReached,
    NodeUndoes,
    NothingToRetry,
)
from headway.coordinator.core.rows import BEATEN, PASSED_OVER, TaskRow, TokenRow, took_effect, was_undone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

    from headway.coordinator.core.state import Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoPlan:
    """What a retry does in the run itself, or in an item or iteration: nodes in the plan's order.

    Attributes:
        starts: chosen, and nothing that is redone leads to them, or they are joins that need nothing more: they start
            at once.
        reset: others that were reached before and are redone when tokens reach them again.
        kept: keep their result.
        nodes: the redo set, unreached nodes included.
        undone: of it, what was undone: its effect is wanted anew.
    """

    starts: tuple[str, ...]
    reset: tuple[str, ...]
    kept: tuple[str, ...]
    nodes: frozenset[str]
    undone: frozenset[str]


class Part:
    """The rows of the run itself, or of an item or iteration, by node."""

    __slots__ = ("draft", "graph", "scope")

    def __init__(self, draft: Draft, graph: Graph, scope: str) -> None:
        """Load them. Raises Missing."""
        self.draft = draft
        self.graph = graph
        self.scope = scope
        if scope or graph.bodies:
            draft.require_tasks([inside(scope, name) for name in graph.plan.nodes])
        else:
            draft.require("all")

    def task(self, name: str) -> TaskRow | None:
        """A node's task."""
        return self.draft.task(inside(self.scope, name))

    def token(self, name: str) -> TokenRow | None:
        """The tokens that a node gathers."""
        return self.draft.token(inside(self.scope, name))

    def tasks(self) -> dict[str, TaskRow]:
        """Those that there are, in the plan's order; what runs at the end is none of a retry's business."""
        names = (name for name in self.graph.plan.nodes if name != FINALLY)
        return {name: row for name in names if (row := self.task(name)) is not None}


def plan_redo(draft: Draft, graph: Graph, chosen: Iterable[str]) -> RedoPlan:
    """Work out the redo set of a run.

    Raises:
        NodeNotFound, NodeUndoes, NodeNotReached, NothingToRetry: the choice is no good.
        Missing: more rows are needed.
    """
    by_scope = _by_scope(draft, graph, chosen)
    part = Part(draft, graph, "")
    gone = undone(part)
    plan = plan_part(part, tuple(by_scope.get("", ())), gone)
    last = part.task(FINALLY) if graph.has_finally else None
    if not plan.nodes and (last is None or last.state is TaskState.SUCCEEDED):
        raise NothingToRetry(run_id=draft.state.run_id)
    return plan


def chosen_by_scope(draft: Draft, graph: Graph, chosen: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The chosen nodes by their scopes. Raises what `plan_redo` does."""
    return {scope: tuple(names) for scope, names in _by_scope(draft, graph, chosen).items()}


def _by_scope(draft: Draft, graph: Graph, chosen: Iterable[str]) -> dict[str, dict[str, None]]:
    """The chosen nodes by their scopes, and the maps and repeats that lie around them by theirs.

    An item or iteration that is chosen as a whole is a scope without nodes.
    """
    by_scope: dict[str, dict[str, None]] = {}
    named = tuple(chosen)
    whole = frozenset(path for path in named if _is_scope(graph, path))
    for path in named:
        if path not in whole and not graph.has(path):
            raise NodeNotFound(node=path, workflow=graph.plan.workflow, version=str(draft.run.version))
        if graph.has_finally and is_within(path, FINALLY):
            raise InvalidArgument(field="node", problem=f"{FINALLY} runs again by itself when the retried run ends")
        if path not in whole and (owner := graph.owner(path)):
            raise NodeUndoes(node=path, undone=owner)
    scopes = {path: path if path in whole else graph.spot(path).scope for path in named}
    draft.require_scopes(sorted({around for scope in scopes.values() for around in scopes_around(scope)}))
    draft.require_tasks(path for path in named if path not in whole)
    for path, scope in scopes.items():
        names = by_scope.setdefault(scope, {})
        is_begun = _is_begun(draft, scope)
        if path not in whole:
            row = draft.task(path) if is_begun else None
            is_begun = row is not None and not was_passed_over(row)
            names[graph.spot(path).name] = None
        if not is_begun:
            raise not_there(draft, graph, path, scope)
        _need_what_lies_before(draft, graph, path, scope)
        for each in scopes_around(scope):
            loop = graph.spot(loop_of(each)[0])
            around = draft.task(loop_of(each)[0])
            if around is None or was_passed_over(around):  # what is in it is left from before another retry
                raise NodeNotReached(node=path)
            by_scope.setdefault(loop.scope, {})[loop.name] = None
    return by_scope


def _is_scope(graph: Graph, path: str) -> bool:
    """True for the path of an item or iteration: of a map or repeat that there is, whether or not it was begun."""
    try:
        graph.body(path)
    except LookupError:
        return False
    return bool(path)


def not_there(draft: Draft, graph: Graph, path: str, inner: str) -> NodeNotReached | IterationDropped:
    """Why a node in a scope cannot be done again or skipped: it was not reached, or its iteration was dropped since.

    Raises:
        Missing: more rows are needed.
    """
    for scope in scopes_around(inner):
        where, index = loop_of(scope)
        loop, kept = draft.loop(where), graph.node(where).keep_last
        if loop is not None and kept is not None and index < loop.started and draft.scope(scope) is None:
            return IterationDropped(node=path, scope=scope, kept=str(kept))
    return NodeNotReached(node=path)


def _need_what_lies_before(draft: Draft, graph: Graph, path: str, inner: str) -> None:
    """An iteration is done again as it was done first: with the result of the one before. Raises IterationDropped."""
    for scope in scopes_around(inner):
        where, index = loop_of(scope)
        kept = graph.node(where).keep_last
        if kept is not None and index and draft.scope(before := scope_at(where, index - 1)) is None:
            raise IterationDropped(node=path, scope=before, kept=str(kept))


def _is_begun(draft: Draft, scope: str) -> bool:
    """True unless an item or iteration around was never begun, or not since its map or repeat began anew."""
    for each in scopes_around(scope):
        path, index = loop_of(each)
        loop = draft.loop(path)
        if loop is None or index >= loop.started or draft.scope(each) is None:
            return False
    return True


def starts_at_once(draft: Draft, graph: Graph, path: str) -> bool:
    """True when nothing that a retry from a node does again leads to it, nor to the maps and repeats around it.

    Raises:
        NodeNotFound, NodeUndoes, NodeNotReached: there is no such node to be retried.
        Missing: more rows are needed.
    """
    for scope, names in _by_scope(draft, graph, [path]).items():
        part = Part(draft, graph.body(scope), scope)
        gone = undone(part)
        plan = plan_part(part, tuple(names), gone)
        begins_anew = any(part.graph.plan.nodes[name].type is NodeType.REPEAT for name in gone & names.keys())
        if begins_anew or not names.keys() <= {*plan.starts}:
            return False
    return True


def plan_part(part: Part, named: tuple[str, ...], gone: frozenset[str]) -> RedoPlan:
    """Work out the redo set of the run itself, or of an item or iteration; none named: from what did not succeed."""
    picked = _pick(part, named, gone)
    redo = _spread(part, picked)
    order = list(part.tasks())
    starts = tuple(
        name
        for name in order
        if name in picked and (not _is_led_to(part.graph, name, redo) or _suffices(part, name, redo))
    )
    return RedoPlan(
        starts=starts,
        reset=tuple(name for name in order if name in redo and name not in starts),
        kept=tuple(name for name in order if name not in redo),
        nodes=frozenset(redo),
        undone=gone,
    )


def _pick(part: Part, named: tuple[str, ...], gone: frozenset[str]) -> set[str]:
    """What is chosen, was undone, or did not come to an end of its own.

    What a join has beaten takes part again when that join is to fire anew, and is left alone as long as it stays fired.
    """
    graph, unfinished = part.graph, _was_stopped if named else _is_unfinished
    rows = {name: row for name, row in part.tasks().items() if name not in graph.undoes}
    losers = {name for name, row in rows.items() if name in graph.raced and _may_stay_beaten(row, unfinished)}
    picked = {*named, *gone, *(name for name, row in rows.items() if name not in losers and unfinished(row))}
    while losers:
        redo = _spread(part, picked)
        fresh = {name for name in losers if not is_beaten(part, name, redo)}
        if not fresh:
            break
        picked |= fresh
        losers -= fresh
    return picked


def _may_stay_beaten(row: TaskRow, unfinished: Callable[[TaskRow], bool]) -> bool:
    """True for what would be done again, did no join stay fired without it: its tokens are out, and it counts not."""
    if row.state is TaskState.CANCELLED:
        return row.cause in (BEATEN, "unknown")
    return unfinished(row) and row.disposition != "unhandled"


def is_beaten(part: Part, name: str, redo: AbstractSet[str]) -> bool:
    """True when a join that stops the others stays fired without the node."""
    return any(_stays_fired(part, join, redo) for join in part.graph.raced.get(name, ()))


def _stays_fired(part: Part, join: str, redo: AbstractSet[str]) -> bool:
    row = part.task(join)
    is_fired = row is not None and row.state is TaskState.SUCCEEDED
    return is_fired and (join not in redo or _suffices(part, join, redo))


def undone(part: Part) -> frozenset[str]:
    """Nodes whose effect was undone, or may have been, since they completed; and loops in which that happened."""
    graph, draft = part.graph, part.draft
    names = [
        name
        for name, undo in graph.undone_by.items()
        if (row := part.task(name)) is not None
        and took_effect(row)
        and (undoing := part.task(undo)) is not None
        and was_undone(row, undoing)
    ]
    loops = {name: inside(part.scope, name) for name, body in graph.bodies.items() if body.can_undo}
    draft.require_loops(loops.values())
    names += [
        name
        for name, path in loops.items()
        if (loop := draft.loop(path)) is not None
        and loop.undone
        and (row := part.task(name)) is not None
        and not was_passed_over(row)
    ]
    return frozenset(names)


def was_passed_over(row: TaskRow) -> bool:
    """Its tokens did not let it run."""
    return row.state is TaskState.CANCELLED and row.cause in PASSED_OVER


def _was_stopped(row: TaskRow) -> bool:
    """Cut short, so that nothing behind it could be decided: always goes on with the run."""
    return row.state is TaskState.CANCELLED and not was_passed_over(row)


def _is_unfinished(row: TaskRow) -> bool:
    return _was_stopped(row) or (row.state is TaskState.FAILED and row.disposition != "handled")


def _is_led_to(graph: Graph, name: str, redo: set[str]) -> bool:
    return any(edge.source in redo for edge in graph.incoming[name])


def _spread(part: Part, redo: set[str]) -> set[str]:
    """Grow the set along the edges until nothing new is reached."""
    chosen, grown = frozenset(redo), True
    while grown:
        targets = {edge.target for name in redo for edge in part.graph.outgoing[name]} - redo
        fresh = {name for name in targets if name in chosen or not _suffices(part, name, redo)}
        grown = bool(fresh)
        redo = redo | fresh
    return redo


def _suffices(part: Part, name: str, redo: AbstractSet[str]) -> bool:
    """True for a join that the live tokens from outside the redo set keep fired."""
    graph = part.graph
    row = part.token(name) if graph.is_count_join(name) and name in graph.gathers else None
    if row is None:
        return False
    kept = sum(row.live >> slot & 1 for slot, edge in enumerate(graph.incoming[name]) if edge.source not in redo)
    return kept >= graph.need(name)
