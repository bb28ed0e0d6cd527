"""The shape of the graph: order, cycles, who leads to whom."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from headway.coordinator.core.plan import Edge

_End: TypeAlias = Callable[[Edge], str]


class Shape:
    """Nodes and edges, and what follows from them. Sets of nodes are kept as bits of integers."""

    def __init__(self, nodes: Sequence[str], edges: Sequence[Edge]) -> None:
        self.edges = edges
        self.outgoing: Mapping[str, tuple[int, ...]] = _indexes(nodes, edges, lambda edge: edge.source)
        self.incoming: Mapping[str, tuple[int, ...]] = _indexes(nodes, edges, lambda edge: edge.target)
        self.back_edges = tuple(self._find_back_edges(nodes))
        self._nodes = nodes
        self._bit = {name: 1 << number for number, name in enumerate(nodes)}
        self.order: tuple[str, ...] = () if self.back_edges else tuple(self._sort(nodes))
        self._ancestors = self._close(self.order, self.incoming, lambda edge: edge.source)
        self._descendants = self._close(tuple(reversed(self.order)), self.outgoing, lambda edge: edge.target)

    def bit(self, name: str) -> int:
        """Returns the bit that stands for a node in sets kept as integers."""
        return self._bit[name]

    def is_ancestor(self, one: str, other: str) -> bool:
        """Returns whether a path leads from one to the other. Without cycles only."""
        return bool(self._ancestors[other] & self._bit[one])

    def unrelated(self, name: str, others: Sequence[str]) -> Iterator[str]:
        """Yields those of the others that a node neither leads to nor is led to from. Without cycles only."""
        related = self._ancestors[name] | self._descendants[name]
        return (each for each in others if not related & self._bit[each])

    def reach(self, name: str) -> frozenset[str]:
        """Returns the node and all that it leads to. Without cycles only."""
        bits = self._descendants[name]
        return frozenset(each for each in self._nodes if bits & self._bit[each]) | {name}

    def cycle_through(self, edge: Edge) -> list[str]:
        """Returns the nodes of a shortest cycle that the edge closes, its target first."""
        before: dict[str, str] = {edge.target: ""}
        queue = [edge.target]
        for name in queue:
            if name == edge.source:
                break
            for index in self.outgoing[name]:
                target = self.edges[index].target
                if target not in before:
                    before[target] = name
                    queue.append(target)
        path = [edge.source]
        while path[-1] != edge.target:
            path.append(before[path[-1]])
        return path[::-1]

    def _find_back_edges(self, nodes: Sequence[str]) -> Iterator[int]:
        """Depth first, without recursion; an edge to a node that is still open closes a cycle."""
        done: set[str] = set()
        open_nodes: set[str] = set()
        for root in nodes:
            if root in done:
                continue
            stack = [(root, iter(self.outgoing[root]))]
            open_nodes.add(root)
            while stack:
                name, rest = stack[-1]
                index = next(rest, None)
                if index is None:
                    stack.pop()
                    open_nodes.discard(name)
                    done.add(name)
                    continue
                target = self.edges[index].target
                if target in open_nodes:
                    yield index
                elif target not in done:
                    open_nodes.add(target)
                    stack.append((target, iter(self.outgoing[target])))

    def _sort(self, nodes: Sequence[str]) -> Iterator[str]:
        waiting = {name: len(self.incoming[name]) for name in nodes}
        ready = [name for name in nodes if not waiting[name]]
        for name in ready:
            yield name
            for index in self.outgoing[name]:
                target = self.edges[index].target
                waiting[target] -= 1
                if not waiting[target]:
                    ready.append(target)

    def _close(self, order: Sequence[str], edges_of: Mapping[str, tuple[int, ...]], end: _End) -> dict[str, int]:
        closed: dict[str, int] = {}
        for name in order:
            bits = 0
            for index in edges_of[name]:
                other = end(self.edges[index])
                bits |= closed[other] | self._bit[other]
            closed[name] = bits
        return closed


def _indexes(nodes: Sequence[str], edges: Sequence[Edge], end: _End) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {name: [] for name in nodes}
    for edge in edges:
        found[end(edge)].append(edge.index)
    return {name: tuple(indexes) for name, indexes in found.items()}
