"""A plan with what can be worked out from it once, so that walking it is look-ups only. Never stored."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from headway.coordinator.core.paths import inside
from headway.coordinator.core.plan import FINALLY, Edge, EdgeKind, Node, NodeType, Plan
from headway.coordinator.core.templates import asks_for_parts

_ITEM = re.compile(r"([a-z0-9_]+)\[(?:0|[1-9][0-9]{0,8})\]", re.ASCII)


class Spot(NamedTuple):
    """Where a task stands: in a graph, in the run itself or one of its scopes.

    Attributes:
        graph: the node's own: the workflow's, or that of the body it is in.
        scope: the item or iteration; empty: the run.
        name: of the node.
        node: the node.
        incoming, outgoing: the edges that lead to it, and away from it.
        gathers: its tokens are kept in a row.
        attempt_timers: those that are set with each attempt: kind and milliseconds.
    """

    graph: "Graph"
    scope: str
    name: str
    node: Node
    incoming: tuple[Edge, ...]
    outgoing: tuple[Edge, ...]
    gathers: bool
    attempt_timers: tuple[tuple[str, int], ...]

    def beside(self, name: str) -> str:
        """The path of another node of the same graph, in the same scope."""
        return inside(self.scope, name)


def _reads_items(node: Node) -> bool:
    return any(asks_for_parts(template) for template in (node.input, node.over) if template is not None)


class Graph:
    """A plan, indexed.

    Attributes:
        slot: by edge index, its place among the incoming edges of its target.
        gathers: nodes with several incoming edges, and joins that stop the others: their tokens are kept in rows.
        starts_that_read: nodes that begin with it and read single items, which may be results of another map.
        undone_by: by node, the node that undoes it, in the order in which they come to run.
        undoes: the other way round. can_undo: there are some, here or in bodies.
        waits: by signal name, the nodes that wait for it.
        has_scattered_waits: some node waits for a signal whose name an expression yields, or does so in a body: which
            ones do can only be seen by their rows.
        sets: variables that are set in it, in its bodies, too.
        sets_in: those that are set in its bodies, by their repeat.
        bodies: of the maps and repeats, by their node.
        subflows: nodes that start runs of other workflows. has_subflows: there are some, here or in bodies.
        outer: the graph that this is a body in; None: it is the workflow's own.
        last: the only node that nothing follows, but for those that end the run; None: there are several.
        rest: by join that stops the others when it fires, the nodes whose every way on leads to it.
        raced: the other way round, by node.
        tolerant: nodes whose failure, when no failure edge takes it, only counts once a join any or need can no longer
            fire: every way on from them ends in such a join.
    """

    __slots__ = (
        "bodies", "can_undo", "gathers", "has_scattered_waits", "has_subflows", "incoming", "last", "outer", "outgoing",
        "plan", "raced", "rest", "sets", "sets_in", "slot", "spots", "starts", "starts_that_read", "subflows",
        "tolerant", "undoes", "undone_by", "waits",
    )  # fmt: skip

    def __init__(self, plan: Plan, outer: "Graph | None" = None) -> None:
        """Index the plan; `outer`: it is a body in that one."""
        self.plan = plan
        self.outer = outer
        edges = plan.edges
        self.outgoing: Mapping[str, tuple[Edge, ...]] = {
            node: tuple(edges[index] for index in plan.outgoing.get(node, ())) for node in plan.nodes
        }
        self.incoming: Mapping[str, tuple[Edge, ...]] = {
            node: tuple(edges[index] for index in plan.incoming.get(node, ())) for node in plan.nodes
        }
        self.slot = {edge.index: slot for into in self.incoming.values() for slot, edge in enumerate(into)}
        undone_by = {node.id: node.compensate for node in plan.nodes.values() if node.compensate is not None}
        self.undoes: Mapping[str, str] = {undo: owner for owner, undo in undone_by.items()}
        later = {*self.undoes, FINALLY}
        self.starts = tuple(node for node in plan.nodes if not self.incoming[node] and node not in later)
        self.starts_that_read = tuple(name for name in self.starts if _reads_items(plan.nodes[name]))
        self.gathers = frozenset(
            node.id
            for node in plan.nodes.values()
            if len(into := self.incoming[node.id]) > 1 or (into and node.cancels_rest)
        )
        waits: dict[str, list[str]] = {}
        for node in plan.nodes.values():
            if node.type is NodeType.WAIT_FOR_EVENT and node.event:
                waits.setdefault(node.event, []).append(node.id)
        self.waits: Mapping[str, tuple[str, ...]] = {name: tuple(ids) for name, ids in waits.items()}
        self.tolerant = self._find_tolerant()
        self.rest: Mapping[str, tuple[str, ...]] = {
            node.id: self._leading_only_to(node.id) for node in plan.nodes.values() if node.cancels_rest
        }
        self.raced: Mapping[str, tuple[str, ...]] = {
            name: tuple(join for join, names in self.rest.items() if name in names)
            for name in {name for names in self.rest.values() for name in names}
        }
        self.undone_by: Mapping[str, str] = (
            {path: undone_by[path] for path in self._in_order() if path in undone_by} if undone_by else {}
        )
        self.spots = {name: self._spot_of(node) for name, node in plan.nodes.items()}
        self.bodies: Mapping[str, Graph] = {
            node.id: Graph(node.body, self) for node in plan.nodes.values() if node.body is not None
        }
        self.has_scattered_waits = any(node.event_name is not None for node in plan.nodes.values()) or any(
            body.waits or body.has_scattered_waits for body in self.bodies.values()
        )
        inner = {name: body.sets for name, body in self.bodies.items() if body.sets}
        self.sets_in: Mapping[str, frozenset[str]] = inner
        self.sets = frozenset(name for node in plan.nodes.values() for name in node.values).union(*inner.values())
        self.subflows = frozenset(node.id for node in plan.nodes.values() if node.type is NodeType.SUBFLOW)
        self.has_subflows = bool(self.subflows) or any(body.has_subflows for body in self.bodies.values())
        self.can_undo = bool(undone_by) or any(body.can_undo for body in self.bodies.values())
        going_on = [
            name for name, node in plan.nodes.items() if node.type is not NodeType.FINISH and name not in self.undoes
        ]
        ends = [name for name in going_on if not self.outgoing[name]]
        self.last = ends[0] if len(ends) == 1 else None

    def is_scattered_wait(self, path: str) -> bool:
        """True when a node that waits for signals is found by its row in `waits`, not by the plan."""
        return self.has_scattered_waits and ("." in path or self.node(path).event_name is not None)

    @property
    def has_finally(self) -> bool:
        """Something runs when all else is over."""
        return FINALLY in self.bodies

    def owner(self, path: str) -> str:
        """The task that a task undoes; empty: none."""
        if not self.can_undo:
            return ""
        spot = self.spot(path)
        owner = spot.graph.undoes.get(spot.name)
        return "" if owner is None else spot.beside(owner)

    def node(self, path: str) -> Node:
        """The node behind a task's path. Raises LookupError."""
        return self.spot(path).node

    def spot(self, path: str) -> Spot:
        """Where a task stands.

        Raises:
            LookupError: there is no such node.
        """
        found = self.spots.get(path)
        if found is not None:
            return found
        scope, _, name = path.rpartition(".")
        body = self.body(scope)
        if name not in body.spots:
            raise LookupError(path)
        return body.at(scope, name)

    def at(self, scope: str, name: str) -> Spot:
        """Where a node of this graph stands in a scope."""
        spot = self.spots[name]
        return spot._replace(scope=scope) if scope else spot

    def has(self, path: str) -> bool:
        """True when a task could be called that."""
        try:
            self.spot(path)
        except LookupError:
            return False
        return True

    def is_subflow(self, path: str) -> bool:
        """True when a task of that path starts a run of another workflow."""
        return self.has_subflows and self.node(path).type is NodeType.SUBFLOW

    def body(self, scope: str) -> "Graph":
        """The graph that a scope runs; this one for the run itself.

        Raises:
            LookupError: there is no such scope.
        """
        graph = self
        for step in scope.split(".") if scope else ():
            found = _ITEM.fullmatch(step)
            if found is None or found[1] not in graph.bodies:
                raise LookupError(scope)
            graph = graph.bodies[found[1]]
        return graph

    def _spot_of(self, node: Node) -> Spot:
        limits = node.timeouts
        given = (
            ("queue_timeout", limits.queue_ms),
            ("heartbeat_timeout", limits.heartbeat_ms),
            ("stall_timeout", limits.stall_ms),
        )
        timers = tuple((kind, limit_ms) for kind, limit_ms in given if limit_ms is not None)
        name = node.id
        return Spot(self, "", name, node, self.incoming[name], self.outgoing[name], name in self.gathers, timers)

    def is_count_join(self, path: str) -> bool:
        """A join that fires at its n-th live token."""
        node = self.plan.nodes[path]
        return node.type is NodeType.JOIN and node.need is not None

    def need(self, path: str) -> int:
        """How many live tokens such a join needs."""
        return self.plan.nodes[path].need or 1

    def excuses(self, path: str) -> bool:
        """A join that can do without one of its branches."""
        return self.is_count_join(path) and self.need(path) < len(self.incoming[path])

    def _leading_only_to(self, join: str) -> tuple[str, ...]:
        found = {join}
        for path in reversed(self._in_order()):  # successors first
            targets = [edge.target for edge in self.outgoing[path]]
            if targets and all(target in found for target in targets):
                found.add(path)
        return tuple(path for path in self.plan.nodes if path in found and path != join)

    def _find_tolerant(self) -> frozenset[str]:
        if not any(self.excuses(path) for path in self.plan.nodes):
            return frozenset()
        absorbed: dict[str, bool] = {}
        for path in reversed(self._in_order()):  # successors first
            targets = [edge.target for edge in self.outgoing[path]]
            absorbed[path] = bool(targets) and all(self.excuses(t) or absorbed[t] for t in targets)
        return frozenset(path for path in self.plan.nodes if self._is_tolerant(path, absorbed))

    def _is_tolerant(self, path: str, absorbed: Mapping[str, bool]) -> bool:
        onward = [edge.target for edge in self.outgoing[path] if edge.on is EdgeKind.SUCCESS]
        return bool(onward) and all(self.excuses(target) or absorbed[target] for target in onward)

    def _in_order(self) -> list[str]:
        missing = {path: len(into) for path, into in self.incoming.items()}
        ready, order = list(self.starts), []
        while ready:
            path = ready.pop()
            order.append(path)
            for edge in self.outgoing[path]:
                missing[edge.target] -= 1
                if not missing[edge.target]:
                    ready.append(edge.target)
        return order
