"""A node gets its output by hand: in a paused run while it waits, in a failed one after it failed or was stopped."""

from functools import partial

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide._children import leave
from headway.coordinator.core.decide._contracts import breach, variable_breach
from headway.coordinator.core.decide._walk import Walk
from headway.coordinator.core.decide.redo import reopen
from headway.coordinator.core.decide.redo_plan import (
    chosen_by_scope,
    not_there,
    plan_redo,
    starts_at_once,
    was_passed_over,
)
from headway.coordinator.core.document import Document
from headway.coordinator.core.effort import TooMuchToDecide
from headway.coordinator.core.events import NodeSkipped
from headway.coordinator.core.graph import Spot
from headway.coordinator.core.machines import REOPENINGS, SKIP_TRANSITION, TaskState
from headway.coordinator.core.paths import is_within
from headway.coordinator.core.payloads import LIMIT
from headway.coordinator.core.plan import FINALLY, Json, NodeType
from headway.coordinator.core.refusals import (
    InvalidArgument,
    NodeNotFound,
    NodeNotSkippable,
    RunNotHeld,
)
from headway.coordinator.core.rows import TaskRow

_REMEDIES = {
    TaskState.RUNNING: "a worker holds it; wait for its report, or cancel the run",
    TaskState.PENDING: "it waits for other nodes; skip those",
    TaskState.SUCCEEDED: "it has an output already; a retry of the run can repeat it",
    TaskState.FAILED: "its failure was followed by other nodes; skip it when the run has failed",
    TaskState.CANCELLED: "its run goes on without it; skip it when the run has failed",
}


def skip(walk: Walk, event: NodeSkipped) -> None:
    """Let the node succeed.

    Raises:
        NodeNotFound, RunNotHeld, NodeNotReached, NodeNotSkippable, InvalidArgument: nothing was decided.
    """
    run, path = walk.run, event.path
    if not walk.graph.has(path):
        raise NodeNotFound(node=path, workflow=walk.graph.plan.workflow, version=str(run.version))
    if not run.is_paused and run.state not in REOPENINGS["skip"].sources:
        raise RunNotHeld(run_id=walk.draft.state.run_id, state=run.state)
    row = walk.draft.task(path)
    if row is None or was_passed_over(row):
        raise not_there(walk.draft, walk.graph, path, walk.graph.spot(path).scope)
    if walk.graph.node(path).body is not None:
        remedy = "its result is that of its items or iterations; skip nodes in them"
        raise NodeNotSkippable(node=path, state=row.state, remedy=remedy)
    chosen = _chosen(walk, walk.graph.spot(path), event.output.value)
    _need_contract(walk, path, event.output)
    if run.is_paused:
        if row.state not in SKIP_TRANSITION:
            raise _not_skippable(row)
        _succeed(walk, event, chosen, SKIP_TRANSITION[row.state], path)
    else:
        _reopen(walk, event, chosen, row)


def _reopen(walk: Walk, event: NodeSkipped, chosen: int | None, row: TaskRow) -> None:
    path = event.path
    if row.state is TaskState.SUCCEEDED:
        raise _not_skippable(row)
    if is_within(path, FINALLY):
        remedy = "it runs again by itself at the run's next end; retry the run"
        raise NodeNotSkippable(node=path, state=row.state, remedy=remedy)
    plan = plan_redo(walk.draft, walk.graph, [path])
    if not starts_at_once(walk.draft, walk.graph, path):
        remedy = "nodes that lead to it start again with the run; retry the run, or skip those"
        raise NodeNotSkippable(node=path, state=row.state, remedy=remedy)
    walk.chosen = chosen_by_scope(walk.draft, walk.graph, [path])
    walk.instead = {path: partial(_succeed, walk, event, chosen, "decide_succeeded")}
    reopen(walk, "skip", plan, keep_input=True)


def _succeed(walk: Walk, event: NodeSkipped, chosen: int | None, via: str, path: str) -> None:
    if walk.graph.node(path).type is NodeType.SET:
        values = event.output.value
        walk.emit(do.SetVariables(values=values if isinstance(values, dict) else {}))
    if via == "wait_succeeded" and walk.graph.is_subflow(path):
        leave(walk, path)
    walk.complete(path, via, event.output, chosen=chosen, cause="skipped")


def _chosen(walk: Walk, spot: Spot, value: Json) -> int | None:
    """Of a switch, the edge that its output names. Raises InvalidArgument when the output does not fit the node."""
    node = spot.node
    if node.type is NodeType.FINISH:
        raise InvalidArgument(field="node", problem="a finish node ends the run by what it says; it cannot be skipped")
    if node.type is NodeType.SET:
        _check_values(walk, value)
    if node.type is not NodeType.SWITCH:
        return None
    given = [case.edge for case in node.cases] + ([] if node.default_edge is None else [node.default_edge])
    edges = {spot.graph.plan.edges[edge].target: edge for edge in reversed(given)}
    target = value.get("to") if isinstance(value, dict) else None
    if not isinstance(target, str) or target not in edges:
        problem = f'that of a switch is {{"to": <node>}} with one of {", ".join(sorted(edges))}'
        raise InvalidArgument(field="output", problem=problem)
    return edges[target]


def _check_values(walk: Walk, value: Json) -> None:
    if not isinstance(value, dict):
        raise InvalidArgument(field="output", problem="that of a set node is an object of its values")
    declared = walk.graph.plan.variables
    unknown = [] if declared is None else sorted(value.keys() - declared.keys())
    if unknown:
        problem = f"the workflow has no variable {unknown[0]}; it has {', '.join(sorted(declared or ()))}"
        raise InvalidArgument(field="output", problem=problem)
    size = len(Document.of({**walk.run.vars, **value}).raw)
    if size > LIMIT:
        raise InvalidArgument(field="output", problem=f"the run's variables would have {size} bytes of JSON")


def _need_contract(walk: Walk, path: str, output: Document) -> None:
    """What is given by hand is held against what the workflow says of it, as what comes by itself is."""
    node = walk.graph.node(path)
    try:
        broken = breach(node.output_schema, output, f"the output of {path}", walk.effort)
        if node.type is NodeType.SET and isinstance(output.value, dict):
            broken = variable_breach(walk.graph.plan.variables, output.value, walk.effort)
    except TooMuchToDecide as error:
        raise InvalidArgument(field="output", problem=str(error)) from None
    if broken is not None:
        raise InvalidArgument(field="output", problem=broken.message)


def _not_skippable(row: TaskRow) -> NodeNotSkippable:
    return NodeNotSkippable(node=row.path, state=row.state, remedy=_REMEDIES[row.state])
