"""Retry of a finished run from chosen nodes.

The redo set is the chosen nodes and all that can be reached from them, not walking through a join whose kept tokens
suffice. In it, tasks begin again with a new attempt, tokens that leave it are erased, tokens that enter it are kept.
Everything outside stays as it is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide._undoing import undone
from headway.coordinator.core.decide._walk import Walk
from headway.coordinator.core.events import RunRetried
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.plan import Edge, Json, NodeType
from headway.coordinator.core.refusals import NodeNotFound, NodeNotReached, NodeUndoes, NothingToRetry
from headway.coordinator.core.rows import PayloadKey, TaskRow, TokenRow
from headway.coordinator.core.state import Draft

Begin: TypeAlias = Callable[[str], None]
"""Lets the pending node of a path begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoPlan:
    """What a retry does: paths in the plan's order.

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


def plan_redo(draft: Draft, graph: Graph, chosen: Iterable[str]) -> RedoPlan:
    """Work out the redo set.

    Raises:
        NodeNotFound, NodeUndoes, NodeNotReached, NothingToRetry: the choice is no good.
        Missing: all rows are needed.
    """
    draft.require("all")
    tasks = draft.known_tasks()
    named = tuple(dict.fromkeys(chosen))
    for path in named:
        if path not in graph.plan.nodes:
            raise NodeNotFound(node=path, workflow=graph.plan.workflow, version=str(draft.run.version))
        if path in graph.undoes:
            raise NodeUndoes(node=path, undone=graph.undoes[path])
        if path not in tasks or was_passed_over(tasks[path]):
            raise NodeNotReached(node=path)
    unfinished = _was_stopped if named else _is_unfinished
    gone = undone(draft, graph)
    picked = {*named, *gone, *(path for path, row in tasks.items() if unfinished(row) and path not in graph.undoes)}
    if not picked:
        raise NothingToRetry(run_id=draft.state.run_id)
    redo = _spread(draft, graph, picked)
    order = [path for path in graph.plan.nodes if path in tasks]
    starts = tuple(
        path
        for path in order
        if path in picked and (not _is_led_to(graph, path, redo) or _suffices(draft, graph, path, redo))
    )
    return RedoPlan(
        starts=starts,
        reset=tuple(path for path in order if path in redo and path not in starts),
        kept=tuple(path for path in order if path not in redo),
        nodes=frozenset(redo),
        undone=gone,
    )


def redo(walk: Walk, event: RunRetried) -> None:
    """Reopen the run and start again from the chosen nodes."""
    plan = plan_redo(walk.draft, walk.graph, event.chosen)
    reopen(walk, "retry", plan, keep_input=not event.render_inputs)


def reopen(walk: Walk, opening: str, plan: RedoPlan, *, keep_input: bool, instead: Mapping[str, Begin] = {}) -> None:
    """Reopen the run as planned.

    Args:
        walk: of the event.
        opening: its name in REOPENINGS.
        plan: what is redone.
        keep_input: of the nodes that start, unless they had none.
        instead: by path, what happens to a node that would start at once.
    """
    again = (*plan.starts, *plan.reset)
    doubtful = {edge.index: edge for path in again if path not in instead for edge in _doubtful(walk, path, plan.nodes)}
    variables = _kept_variables(walk, plan)
    walk.emit(do.ReopenRun(opening=opening, chosen=plan.starts, reset=plan.reset, kept=plan.kept))
    if variables is not None:
        walk.emit(do.ResetVariables(values=variables))
    for path in again:
        row = walk.row(path)
        repeats = row.state is TaskState.SUCCEEDED or path in plan.undone
        walk.emit(do.RedoTask(path=path, generation=row.generation + repeats))
    named = {path: _named(walk, path) for path in walk.graph.gathers}
    for path in sorted(walk.graph.gathers):
        row = walk.draft.token(path)
        edges = walk.graph.incoming[path]
        slots = tuple(slot for slot, edge in enumerate(edges) if edge.source in plan.nodes or edge.index in doubtful)
        if row is not None and slots:
            walk.emit(do.EraseTokens(path=path, slots=slots))
    _excuse(walk, plan, named)
    walk.arm_deadline()
    for edge in doubtful.values():
        walk.weigh_again(edge)
    for path in plan.starts:
        if path in instead:
            instead[path](path)
        else:
            _start(walk, path, doubtful.values(), keep_input=keep_input)


def _kept_variables(walk: Walk, plan: RedoPlan) -> dict[str, Json] | None:
    """What the set nodes that are kept have set, in their order; None: no set node is redone."""
    rows = [
        row for path in (*plan.starts, *plan.reset, *plan.kept) if (row := walk.row(path)).state is TaskState.SUCCEEDED
    ]
    sets = [row for row in rows if walk.graph.node(row.path).type is NodeType.SET]
    kept = [row for row in sets if row.path not in plan.nodes]
    if len(kept) == len(sets):
        return None
    kept.sort(key=lambda row: (row.finished_at or walk.at, row.path))
    keys: list[PayloadKey] = [(row.path, row.output_attempt or 0, "output") for row in kept]
    walk.draft.require_payloads(keys)
    variables: dict[str, Json] = {}
    for key in keys:
        values = walk.draft.payload(key).value
        variables |= values if isinstance(values, dict) else {}
    return variables


def _start(walk: Walk, path: str, doubtful: Iterable[Edge], *, keep_input: bool) -> None:
    if path in walk.graph.gathers:
        walk.resume(path, keep_input=keep_input)
    elif not any(edge.target == path for edge in doubtful):
        walk.start(path, by_always=walk.is_cleanup(path), keep_input=keep_input)


def _doubtful(walk: Walk, path: str, redone: frozenset[str]) -> list[Edge]:
    """Edges to a node that failed because the condition of one could not be evaluated: they are weighed again."""
    row = walk.row(path)
    details = (row.error or {}).get("details")
    if row.leased_at is not None or not isinstance(details, dict) or "edge" not in details:
        return []
    tokens = walk.draft.token(path) if path in walk.graph.gathers else TokenRow(path, live=1)
    live = 0 if tokens is None else tokens.live
    return [
        edge
        for slot, edge in enumerate(walk.graph.incoming[path])
        if edge.when is not None and live >> slot & 1 and edge.source not in redone
    ]


def _named(walk: Walk, path: str) -> set[str]:
    """The failed nodes that tokens at a node name."""
    row = walk.draft.token(path)
    return set() if row is None else {name for named in row.names.values() for name, _ in named}


def _excuse(walk: Walk, plan: RedoPlan, named: Mapping[str, set[str]]) -> None:
    """Failures that counted because a join could not fire, which now can again, are tolerated until it cannot.

    Those of nodes that were to undo what is done anew count no more. `named`: by node, as its tokens stood before.
    """
    for path in walk.graph.undoes:
        row = walk.draft.task(path)
        if row is not None and row.disposition == "unhandled":
            walk.emit(do.ExcuseFailure(path=path))
    excused: set[str] = set()
    counting: set[str] = set()
    for path in walk.graph.gathers:
        row = walk.draft.token(path) if walk.graph.excuses(path) else None
        if row is None:
            continue
        if path in plan.nodes and walk.within_reach(row) >= walk.graph.need(path):
            excused |= named[path]
        elif row.live.bit_count() < walk.graph.need(path):
            counting |= _named(walk, path)
    for path in sorted(excused - counting - plan.nodes):
        if walk.row(path).disposition == "unhandled" and path in walk.graph.tolerant:
            walk.emit(do.ExcuseFailure(path=path))


def was_passed_over(row: TaskRow) -> bool:
    """Its tokens did not let it run."""
    return row.state is TaskState.CANCELLED and row.cause in ("not_chosen", "blocked")


def _was_stopped(row: TaskRow) -> bool:
    """Cut short, so that nothing behind it could be decided: always goes on with the run."""
    return row.state is TaskState.CANCELLED and not was_passed_over(row)


def _is_unfinished(row: TaskRow) -> bool:
    return _was_stopped(row) or (row.state is TaskState.FAILED and row.disposition != "handled")


def _is_led_to(graph: Graph, path: str, redo: set[str]) -> bool:
    return any(edge.source in redo for edge in graph.incoming[path])


def _spread(draft: Draft, graph: Graph, redo: set[str]) -> set[str]:
    """Grow the set along the edges until nothing new is reached."""
    chosen, grown = frozenset(redo), True
    while grown:
        targets = {edge.target for path in redo for edge in graph.outgoing[path]} - redo
        fresh = {path for path in targets if path in chosen or not _suffices(draft, graph, path, redo)}
        grown = bool(fresh)
        redo = redo | fresh
    return redo


def _suffices(draft: Draft, graph: Graph, path: str, redo: set[str]) -> bool:
    """True for a join that the live tokens from outside the redo set keep fired."""
    row = draft.token(path) if graph.is_count_join(path) and path in graph.gathers else None
    if row is None:
        return False
    kept = sum(row.live >> slot & 1 for slot, edge in enumerate(graph.incoming[path]) if edge.source not in redo)
    return kept >= graph.need(path)
