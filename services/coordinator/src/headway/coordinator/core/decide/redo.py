"""Retry of a finished run from chosen nodes.

The redo set is the chosen nodes and all that can be reached from them, not walking through a join whose kept tokens
suffice. In it, tasks begin again with a new attempt, tokens that leave it are erased, tokens that enter it are kept.
Everything outside stays as it is. A node in a map or repeat reopens its item or iteration, in which the same is done,
and the map or repeat, which goes on; other items keep their results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide._undoing import took_effect
from headway.coordinator.core.decide._weighing import within_reach
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.paths import inside, is_within, loop_of, scopes_around
from headway.coordinator.core.plan import FINALLY, NodeType
from headway.coordinator.core.refusals import InvalidArgument, NodeNotFound, NodeNotReached, NodeUndoes, NothingToRetry
from headway.coordinator.core.rows import BEATEN, TaskRow, TokenRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.events import RunRetried
    from headway.coordinator.core.plan import Edge, Json
    from headway.coordinator.core.rows import PayloadKey
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
    plan = _plan(part, tuple(by_scope.get("", ())), gone)
    last = part.task(FINALLY) if graph.has_finally else None
    if not plan.nodes and (last is None or last.state is TaskState.SUCCEEDED):
        raise NothingToRetry(run_id=draft.state.run_id)
    return plan


def chosen_by_scope(draft: Draft, graph: Graph, chosen: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The chosen nodes by their scopes. Raises what `plan_redo` does."""
    return {scope: tuple(names) for scope, names in _by_scope(draft, graph, chosen).items()}


def _by_scope(draft: Draft, graph: Graph, chosen: Iterable[str]) -> dict[str, dict[str, None]]:
    """The chosen nodes by their scopes, and the maps and repeats that lie around them by theirs."""
    by_scope: dict[str, dict[str, None]] = {}
    named = tuple(chosen)
    for path in named:
        if not graph.has(path):
            raise NodeNotFound(node=path, workflow=graph.plan.workflow, version=str(draft.run.version))
        if graph.has_finally and is_within(path, FINALLY):
            raise InvalidArgument(field="node", problem=f"{FINALLY} runs again by itself when the retried run ends")
        if owner := graph.owner(path):
            raise NodeUndoes(node=path, undone=owner)
    around = {scope for path in named for scope in scopes_around(graph.spot(path).scope)}
    draft.require_scopes(sorted(around))
    draft.require_tasks(named)
    for path in named:
        spot = graph.spot(path)
        row = draft.task(path) if _is_begun(draft, spot.scope) else None
        if row is None or was_passed_over(row):
            raise NodeNotReached(node=path)
        by_scope.setdefault(spot.scope, {})[spot.name] = None
        for scope in scopes_around(spot.scope):
            loop = graph.spot(loop_of(scope)[0])
            around = draft.task(loop_of(scope)[0])
            if around is None or was_passed_over(around):  # what is in it is left from before another retry
                raise NodeNotReached(node=path)
            by_scope.setdefault(loop.scope, {})[loop.name] = None
    return by_scope


def _is_begun(draft: Draft, scope: str) -> bool:
    """True unless an item or iteration around was never begun, or not since its map or repeat began anew."""
    for each in scopes_around(scope):
        path, index = loop_of(each)
        loop = draft.loop(path)
        if loop is None or index >= loop.started or draft.scope(each) is None:
            return False
    return True


def _plan(part: Part, named: tuple[str, ...], gone: frozenset[str]) -> RedoPlan:
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
        fresh = {name for name in losers if not _is_beaten(part, name, redo)}
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


def _is_beaten(part: Part, name: str, redo: AbstractSet[str]) -> bool:
    """True when a join that stops the others stays fired without the node."""
    return any(_stays_fired(part, join, redo) for join in part.graph.raced.get(name, ()))


def _stays_fired(part: Part, join: str, redo: AbstractSet[str]) -> bool:
    row = part.task(join)
    is_fired = row is not None and row.state is TaskState.SUCCEEDED
    return is_fired and (join not in redo or _suffices(part, join, redo))


def redo(walk: Walk, event: RunRetried) -> None:
    """Reopen the run and start again from the chosen nodes."""
    plan = plan_redo(walk.draft, walk.graph, event.chosen)
    walk.chosen = chosen_by_scope(walk.draft, walk.graph, event.chosen)
    reopen(walk, "retry", plan, keep_input=not event.render_inputs)


def starts_at_once(draft: Draft, graph: Graph, path: str) -> bool:
    """True when nothing that a retry from a node does again leads to it, nor to the maps and repeats around it.

    Raises:
        NodeNotFound, NodeUndoes, NodeNotReached: there is no such node to be retried.
        Missing: more rows are needed.
    """
    for scope, names in _by_scope(draft, graph, [path]).items():
        part = Part(draft, graph.body(scope), scope)
        gone = undone(part)
        plan = _plan(part, tuple(names), gone)
        begins_anew = any(part.graph.plan.nodes[name].type is NodeType.REPEAT for name in gone & names.keys())
        if begins_anew or not names.keys() <= {*plan.starts}:
            return False
    return True


def undone(part: Part) -> frozenset[str]:
    """Nodes whose effect was undone, or may have been, since they completed; and loops in which that happened."""
    graph, draft = part.graph, part.draft
    names = [
        name
        for name, undo in graph.undone_by.items()
        if (row := part.task(name)) is not None
        and took_effect(row)
        and (undoing := part.task(undo)) is not None
        and undoing.generation == row.attempt
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


def reopen(walk: Walk, opening: str, plan: RedoPlan, *, keep_input: bool) -> None:
    """Reopen the run as planned.

    Args:
        walk: of the event.
        opening: its name in REOPENINGS.
        plan: what is redone.
        keep_input: of the nodes that start, unless they had none.
    """
    variables = _kept_variables(walk, plan, keep_input=keep_input)
    walk.emit(do.ReopenRun(opening=opening, chosen=plan.starts, reset=plan.reset, kept=plan.kept))
    if variables is not None:
        walk.emit(do.ResetVariables(values=variables))
    _redo(walk, Part(walk.draft, walk.graph, ""), plan, keep_input=keep_input)


def _kept_variables(walk: Walk, plan: RedoPlan, *, keep_input: bool) -> dict[str, Json] | None:
    """What the set nodes that are kept have set, in their order; None: no set node is redone.

    What iterations set stays as it is, unless their repeat begins anew.
    """
    rows = [
        row for path in (*plan.starts, *plan.reset, *plan.kept) if (row := walk.row(path)).state is TaskState.SUCCEEDED
    ]
    sets = [row for row in rows if walk.graph.node(row.path).type is NodeType.SET]
    kept = [row for row in sets if row.path not in plan.nodes]
    anew = {name for name in walk.graph.sets_in if name in plan.nodes and not _goes_on(walk, plan, name, keep_input)}
    if len(kept) == len(sets) and not anew:
        return None
    kept.sort(key=lambda row: (row.finished_at or walk.at, row.path))
    keys: list[PayloadKey] = [(row.path, row.output_attempt or 0, "output") for row in kept]
    walk.draft.require_payloads(keys)
    variables: dict[str, Json] = {}
    for key in keys:
        values = walk.draft.payload(key).value
        variables |= values if isinstance(values, dict) else {}
    staying = {name for loop, names in walk.graph.sets_in.items() if loop not in anew for name in names}
    return variables | {name: value for name, value in walk.run.vars.items() if name in staying}


def _goes_on(walk: Walk, plan: RedoPlan, name: str, keep_input: bool) -> bool:  # noqa: FBT001 - as `reopen` has it
    """True for a repeat that takes up its iterations where they stopped."""
    loop = walk.draft.loop(name) if keep_input and name in plan.starts else None
    is_chosen = any(loop_of(scope)[0] == name for scope in walk.chosen if scope)
    unfinished = loop is not None and bool(loop.failed or loop.cancelled or loop.stop is not None)
    return loop is not None and not loop.undone and (is_chosen or unfinished)


def redo_scope(walk: Walk, scope: str, chosen: tuple[str, ...]) -> None:
    """Reopen an item or iteration and start again from the chosen nodes in it; none: from what did not succeed."""
    part = Part(walk.draft, walk.graph.body(scope), scope)
    if walk.scope(scope).state is not RunState.RUNNING:
        walk.emit(do.ReopenScope(path=scope))
    gone = undone(part)
    plan = _plan(part, chosen, gone)
    if not plan.nodes:
        plan = _plan(part, tuple(name for name in part.graph.starts if part.task(name) is not None), gone)
    _redo(walk, part, plan, keep_input=True)
    walk.touch(scope)


def _redo(walk: Walk, part: Part, plan: RedoPlan, *, keep_input: bool) -> None:
    graph, scope, instead = part.graph, part.scope, walk.instead
    again = (*plan.starts, *plan.reset)
    weighed = [name for name in again if inside(scope, name) not in instead]
    doubtful = {edge.index: edge for name in weighed for edge in _doubtful(part, name, plan.nodes)}
    losers = _losers_that_count_again(part, plan)
    for name in again:
        row = walk.row(inside(scope, name))
        repeats = row.state is TaskState.SUCCEEDED or name in plan.undone
        walk.emit(do.RedoTask(path=row.path, generation=row.generation + repeats))
    for name in losers:
        walk.emit(do.CountFailure(path=inside(scope, name)))
    named = {name: _named(part, name) for name in graph.gathers}
    for name in sorted(graph.gathers):
        tokens = part.token(name)
        edges = graph.incoming[name]
        slots = tuple(slot for slot, edge in enumerate(edges) if edge.source in plan.nodes or edge.index in doubtful)
        if tokens is not None and slots:
            walk.emit(do.EraseTokens(path=tokens.path, slots=slots))
    _excuse(walk, part, plan, named)
    if not scope:
        walk.arm_deadline()
    for edge in doubtful.values():
        walk.weigh_again(graph, scope, edge)
    for name in plan.starts:
        path = inside(scope, name)
        if path in instead:
            instead[path](path)
        elif name in graph.gathers:
            walk.resume(path, keep_input=keep_input)
        elif not any(edge.target == name for edge in doubtful.values()):
            walk.start(path, by_always=walk.is_cleanup(path), keep_input=keep_input)


def _doubtful(part: Part, name: str, redone: frozenset[str]) -> list[Edge]:
    """Edges to a node that failed because the condition of one could not be evaluated: they are weighed again."""
    row = part.task(name)
    details = None if row is None else (row.error or {}).get("details")
    if row is None or row.leased_at is not None or not isinstance(details, dict) or "edge" not in details:
        return []
    tokens = part.token(name) if name in part.graph.gathers else TokenRow(row.path, live=1)
    live = 0 if tokens is None else tokens.live
    return [
        edge
        for slot, edge in enumerate(part.graph.incoming[name])
        if edge.when is not None and live >> slot & 1 and edge.source not in redone
    ]


def _losers_that_count_again(part: Part, plan: RedoPlan) -> list[str]:
    """Failures that are kept, and did not count only because a join had fired that is to fire anew."""
    return [
        name
        for name in part.graph.raced
        if name not in plan.nodes
        and name not in part.graph.tolerant
        and (row := part.task(name)) is not None
        and row.disposition == "tolerated"
        and not _is_beaten(part, name, plan.nodes)
    ]


def _named(part: Part, name: str) -> set[str]:
    """The failed nodes that tokens at a node name."""
    row = part.token(name)
    return set() if row is None else {failed for named in row.names.values() for failed, _ in named}


def _excuse(walk: Walk, part: Part, plan: RedoPlan, named: Mapping[str, set[str]]) -> None:
    """Failures that counted because a join could not fire, which now can again, are tolerated until it cannot.

    `named`: by node, as its tokens stood before.
    """
    graph = part.graph
    excused: set[str] = set()
    counting: set[str] = set()
    for name in graph.gathers:
        row = part.token(name) if graph.excuses(name) else None
        if row is None:
            continue
        if name in plan.nodes and within_reach(graph.at(part.scope, name), row) >= graph.need(name):
            excused |= named[name]
        elif row.live.bit_count() < graph.need(name):
            counting |= _named(part, name)
    for name in sorted(excused - counting - plan.nodes):
        row = walk.row(inside(part.scope, name))
        if row.disposition == "unhandled" and name in graph.tolerant:
            walk.emit(do.ExcuseFailure(path=row.path))


def was_passed_over(row: TaskRow) -> bool:
    """Its tokens did not let it run."""
    return row.state is TaskState.CANCELLED and row.cause in ("not_chosen", "blocked", BEATEN)


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
