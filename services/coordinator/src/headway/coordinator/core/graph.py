"""A plan with what can be worked out from it once, so that walking it is look-ups only. Never stored."""

from collections.abc import Mapping

from headway.coordinator.core.plan import Edge, EdgeKind, Node, NodeType, Plan


class Graph:
    """A plan, indexed.

    Attributes:
        slot: by edge index, its place among the incoming edges of its target.
        gathers: nodes with several incoming edges: their tokens are kept in rows.
        undone_by: by node, the node that undoes it, in the order in which they come to run.
        undoes: the other way round.
        waits: by signal name, the nodes that wait for it.
        has_computed_waits: some node waits for a signal whose name an expression yields.
        tolerant: nodes whose failure, when no failure edge takes it, only counts once a join any or need can no longer
            fire: every way on from them ends in such a join.
    """

    __slots__ = (
        "gathers",
        "has_computed_waits",
        "incoming",
        "outgoing",
        "plan",
        "slot",
        "starts",
        "tolerant",
        "undoes",
        "undone_by",
        "waits",
    )

    def __init__(self, plan: Plan) -> None:
        """Index the plan."""
        self.plan = plan
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
        self.starts = tuple(node for node in plan.nodes if not self.incoming[node] and node not in self.undoes)
        self.gathers = frozenset(node for node, into in self.incoming.items() if len(into) > 1)
        waits: dict[str, list[str]] = {}
        for node in plan.nodes.values():
            if node.type is NodeType.WAIT_FOR_EVENT and node.event:
                waits.setdefault(node.event, []).append(node.id)
        self.waits: Mapping[str, tuple[str, ...]] = {name: tuple(ids) for name, ids in waits.items()}
        self.has_computed_waits = any(node.event_name is not None for node in plan.nodes.values())
        self.tolerant = self._find_tolerant()
        self.undone_by: Mapping[str, str] = (
            {path: undone_by[path] for path in self._in_order() if path in undone_by} if undone_by else {}
        )

    def node(self, path: str) -> Node:
        """The node behind a task's path."""
        return self.plan.nodes[path]

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
