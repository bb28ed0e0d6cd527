"""Which nodes of a run that nobody cut short have run, and what every edge carries: worked out from the rules of tokens
as they are written, looking at the whole graph at once, with nothing of the engine's own walk.

    Every edge gets exactly one token: live, dead (not chosen) or failed (naming the nodes that failed). A node that
    succeeded: success and always edges whose `when` holds are live, the rest dead. A node that failed for good: its
    first matching failure or timeout edge is live (it is handled), always edges are live, success edges carry failed.
    A dead node passes dead on; a blocked one failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.paths import inside, loop_of, scope_of, scopes_around
from headway.coordinator.core.plan import FINALLY, Edge, EdgeKind, Node, NodeType
from headway.coordinator.core.rows import TaskRow
from headway.coordinator.core.schemas import misfits
from tests.core.generated import FAILS, FAULTY, HOLDS
from tests.core.invariants import was_only_looked_at
from tests.core.simulator import World

Handler = int | None


@dataclass(frozen=True)
class Carried:
    """What an edge carries. faulty: live, but its condition could not be computed."""

    kind: str
    names: Mapping[str, Handler] = field(default_factory=dict[str, Handler])
    faulty: bool = False


LIVE, DEAD, FAULT = Carried("live"), Carried("dead"), Carried("live", faulty=True)


@dataclass
class Told:
    """What must have become of a run.

    Attributes:
        ran: nodes that ran, whatever came of it.
        carried: by edge.
        unsure: joins any / need n to which a condition could not be computed: the order of arrival decides.
        unfired: joins that can do without a branch, and did not fire all the same.
        handlers: by failed node, the edge that took the failure.
    """

    ran: set[str] = field(default_factory=set[str])
    carried: dict[int, Carried] = field(default_factory=dict[int, Carried])
    unsure: set[str] = field(default_factory=set[str])
    unfired: set[str] = field(default_factory=set[str])
    handlers: dict[str, Handler] = field(default_factory=dict[str, Handler])


def tell(graph: Graph, tasks: Mapping[str, TaskRow]) -> Told:
    """Work it out from how each task ended; nodes stand in an order that all edges follow."""
    told = Told()
    for node in graph.plan.nodes.values():
        if node.id in graph.undoes or node.id == FINALLY:
            continue
        into = [_seen_by(graph, told, graph.plan.edges[index]) for index in graph.plan.incoming[node.id]]
        fate = _fate(node, into, told, tasks.get(node.id))
        if _was_beaten(graph, node.id, tasks) and not _has_ended(tasks.get(node.id)):
            fate = DEAD
        outgoing = [graph.plan.edges[index] for index in graph.plan.outgoing[node.id]]
        if fate is None:
            told.ran.add(node.id)
            _end(node, tasks[node.id], outgoing, told)
        else:
            told.carried.update({edge.index: fate for edge in outgoing})
    return told


def _was_beaten(graph: Graph, name: str, tasks: Mapping[str, TaskRow]) -> bool:
    """A join that stops the others has fired, and all ways on from the node lead to it."""
    return any(
        node.cancels_rest
        and name != node.id
        and (row := tasks.get(node.id)) is not None
        and row.state is TaskState.SUCCEEDED
        and _leads_only_to(graph, name, node.id)
        for node in graph.plan.nodes.values()
    )


def _leads_only_to(graph: Graph, name: str, join: str) -> bool:
    targets = [graph.plan.edges[index].target for index in graph.plan.outgoing[name]]
    return name == join or (bool(targets) and all(_leads_only_to(graph, target, join) for target in targets))


def _goes_on_always(graph: Graph, name: str) -> bool:
    """Its own failure may have made the join fire that would have excused it, had another been first."""
    return any(graph.plan.edges[index].on is EdgeKind.ALWAYS for index in graph.plan.outgoing[name])


def _has_ended(row: TaskRow | None) -> bool:
    return row is not None and row.state in (TaskState.SUCCEEDED, TaskState.FAILED)


def _seen_by(graph: Graph, told: Told, edge: Edge) -> Carried:
    """At N a failed token counts as dead when each node it names was handled and N can be reached from that edge."""
    token = told.carried[edge.index]
    if token.kind == "failed" and all(
        handler is not None and _leads_to(graph, graph.plan.edges[handler].target, edge.target)
        for handler in token.names.values()
    ):
        token = told.carried[edge.index] = DEAD
    return token


def _leads_to(graph: Graph, start: str, goal: str) -> bool:
    return start == goal or any(
        _leads_to(graph, graph.plan.edges[index].target, goal) for index in graph.plan.outgoing[start]
    )


def _fate(node: Node, into: list[Carried], told: Told, row: TaskRow | None) -> Carried | None:
    """None: it runs; else what it passes on."""
    live = sum(token.kind == "live" for token in into)
    names = {name: handler for token in into for name, handler in token.names.items()}
    blocked = Carried("failed", names) if names else DEAD
    if not into:
        return None
    if node.type is NodeType.JOIN and node.need is not None:
        if any(token.faulty for token in into) and len(into) > 1:
            told.unsure.add(node.id)
            runs = row is not None and row.state is not TaskState.CANCELLED
        else:
            runs = live >= node.need
        if live < node.need < len(into):
            told.unfired.add(node.id)
        return None if runs else blocked
    if any(token.faulty for token in into):
        was_skipped_before = bool(names) and row is not None and row.state is TaskState.CANCELLED
        return blocked if was_skipped_before else None
    return None if live and not names else blocked


def _end(node: Node, row: TaskRow, outgoing: list[Edge], told: Told) -> None:
    if row.state is TaskState.SUCCEEDED:
        chosen = _chosen(node) if node.type is NodeType.SWITCH else None
        for edge in outgoing:
            if edge.on is EdgeKind.SUCCESS and node.type is NodeType.SWITCH:
                told.carried[edge.index] = LIVE if edge.index == chosen else DEAD
            else:
                fits = edge.on in (EdgeKind.SUCCESS, EdgeKind.ALWAYS)
                told.carried[edge.index] = _weigh(edge, row) if fits else DEAD
        return
    assert row.state is TaskState.FAILED, f"{node.id} is {row.state}"
    handler: Handler = None
    for edge in outgoing:
        if edge.on is EdgeKind.ALWAYS:
            told.carried[edge.index] = _weigh(edge, row)
        elif edge.on is not EdgeKind.SUCCESS:
            taken = handler is None and _matches(edge, row) and _weigh(edge, row) is not DEAD
            told.carried[edge.index] = _weigh(edge, row) if taken else DEAD
            handler = edge.index if taken else handler
    told.handlers[node.id] = handler
    for edge in outgoing:
        if edge.on is EdgeKind.SUCCESS:
            told.carried[edge.index] = DEAD if node.optional else Carried("failed", {node.id: handler})


def _chosen(node: Node) -> int | None:
    return next((case.edge for case in node.cases if case.when.source == HOLDS), node.default_edge)


def _matches(edge: Edge, row: TaskRow) -> bool:
    assert row.error is not None
    if edge.on is EdgeKind.TIMEOUT and row.failure_class != "timeout":
        return False
    return edge.errors == () or row.failure_class in edge.errors or row.error["type"] in edge.errors


def _weigh(edge: Edge, row: TaskRow) -> Carried:
    match edge.when.source if edge.when else HOLDS:
        case condition if condition == HOLDS:
            return LIVE
        case condition if condition == FAILS:
            return DEAD
        case condition if condition == FAULTY:
            return FAULT
        case _:
            assert row.error is not None
            return LIVE if row.error["type"] == "Boom" else DEAD


def expected_disposition(graph: Graph, told: Told, path: str) -> str:
    """What is to be thought of a failure."""
    if told.handlers[path] is not None:
        return "handled"
    if graph.plan.nodes[path].optional:
        return "optional"
    onward = [edge.target for edge in graph.plan.edges if edge.source == path and edge.on is EdgeKind.SUCCESS]
    if not onward or not all(_ends_in_a_spare_branch(graph, target) for target in onward):
        return "unhandled"
    named = {
        graph.plan.edges[index].target
        for index, token in told.carried.items()
        if token.kind == "failed" and path in token.names
    }
    return "unhandled" if named & told.unfired else "tolerated"


def _ends_in_a_spare_branch(graph: Graph, path: str) -> bool:
    """Every way on ends in a join that can do without one of its branches."""
    node = graph.plan.nodes[path]
    if node.type is NodeType.JOIN and node.need is not None and node.need < len(graph.plan.incoming[path]):
        return True
    targets = [graph.plan.edges[index].target for index in graph.plan.outgoing[path]]
    return bool(targets) and all(_ends_in_a_spare_branch(graph, target) for target in targets)


def check_against_the_rules(world: World) -> None:
    """A run that ended without being cut short is as the rules say, and so are items and iterations."""
    _check(world, world.graph, "")
    for path, row in world.db.scopes.items():
        if not (row.stopped or row.failing or was_only_looked_at(world, path)) and _is_of_now(world, path):
            _check(world, world.graph.body(path), path)


def _is_of_now(world: World, scope: str) -> bool:
    """It, and what is around it, was begun since its map or repeat was; not left from before a retry."""
    return all(index < world.db.loops[loop].started for loop, index in map(loop_of, scopes_around(scope)))


def _check(world: World, graph: Graph, scope: str) -> None:
    tasks = {name: row for name in graph.plan.nodes if (row := world.db.tasks.get(inside(scope, name))) is not None}
    told = tell(graph, tasks)
    ran = {path for path, row in tasks.items() if _has_ended(row) and path not in {*graph.undoes, FINALLY}}
    assert ran == told.ran
    for path in graph.gathers:
        node = graph.plan.nodes[path]
        is_raced = _was_beaten(graph, path, tasks) or (node.cancels_rest and path in told.ran)
        row = world.db.tokens[inside(scope, path)]
        for slot, index in enumerate(graph.plan.incoming[path]):
            token = told.carried[index]
            if is_raced:  # whether a token was dead or failed when it came depends on which came first
                assert bool(row.live >> slot & 1) == (token.kind == "live"), f"edge {index} to {path}: {token.kind}"
                continue
            assert getattr(row, token.kind) >> slot & 1, f"edge {index} to {path} should be {token.kind}"
            assert dict(row.names.get(str(slot), [])) == dict(token.names)
    if not told.unsure:
        for path, handler in told.handlers.items():
            assert tasks[path].handled_by == handler
            expected = {expected_disposition(graph, told, path)}
            if _was_beaten(graph, path, tasks) and expected == {"unhandled"}:
                expected = {"tolerated"} | ({"unhandled"} if _goes_on_always(graph, path) else set())
            if world.run.epoch > 1 and any(_leads_to(graph, path, join) for join in told.unfired):
                expected.add("unhandled")  # it counted before a retry, and no retry made its join fire
            assert tasks[path].disposition in expected, path


def check_the_outcome(world: World) -> None:
    """What came of all but `finally`; and if that succeeded, what came of `finally`."""
    expected, last = _concluded(world), world.db.tasks.get(FINALLY)
    assert (last is not None) == world.graph.has_finally
    if last is not None and expected == "succeeded":
        expected = last.state
    assert world.run.state == expected


def _concluded(world: World) -> str:
    """The `finish` node's, if one ran; else cancelled, if a user cancelled it; else failed, if the deadline passed or a
    task failed and was neither handled, tolerated nor optional, or the output does not fit; else succeeded, if any task
    succeeded that undoes none."""
    run = world.run
    later = {*world.graph.undoes, FINALLY}
    rows = [row for path, row in world.db.tasks.items() if not scope_of(path) and path not in later]
    if run.finish_path is not None:
        return world.graph.node(run.finish_path).outcome
    if run.cancelling:
        return "cancelled"
    if run.expired or any(row.disposition == "unhandled" for row in rows):
        return "failed"
    fits = not misfits(world.graph.plan.output_schema, None)  # without a finish node the output is null
    return "succeeded" if fits and any(row.state is TaskState.SUCCEEDED for row in rows) else "failed"
