"""Retry of a finished run from chosen nodes: what `redo_plan` works out is done.

In the redo set, tasks begin again with a new attempt, tokens that leave it are erased, tokens that enter it are kept. A
node in a map or repeat reopens its item or iteration, and the map or repeat, which goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide._taking_up import is_taken_up, places_in
from headway.coordinator.core.decide._weighing import within_reach
from headway.coordinator.core.decide.redo_plan import (
    Part,
    RedoPlan,
    chosen_by_scope,
    is_beaten,
    plan_part,
    plan_redo,
    undone,
)
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.paths import inside
from headway.coordinator.core.plan import NodeType
from headway.coordinator.core.rows import TokenRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.events import RunRetried
    from headway.coordinator.core.plan import Edge, Json
    from headway.coordinator.core.rows import PayloadKey


def redo(walk: Walk, event: RunRetried) -> None:
    """Reopen the run and start again from the chosen nodes."""
    plan = plan_redo(walk.draft, walk.graph, event.chosen)
    walk.chosen = chosen_by_scope(walk.draft, walk.graph, event.chosen)
    reopen(walk, "retry", plan, keep_input=not event.render_inputs)


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
    return loop is not None and is_taken_up(loop, NodeType.REPEAT, is_chosen=bool(places_in(name, walk.chosen)))


def redo_scope(walk: Walk, scope: str, chosen: tuple[str, ...]) -> None:
    """Reopen an item or iteration and start again from the chosen nodes in it; none: from what did not succeed."""
    part = Part(walk.draft, walk.graph.body(scope), scope)
    if walk.scope(scope).state is not RunState.RUNNING:
        walk.emit(do.ReopenScope(path=scope))
    gone = undone(part)
    plan = plan_part(part, chosen, gone)
    if not plan.nodes:
        plan = plan_part(part, part.graph.starts, gone)
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
        and not is_beaten(part, name, plan.nodes)
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
