"""Which nodes have surely succeeded when another one runs.

A node that reads `nodes.x.output` needs x to have run and succeeded, on every way by which it can itself be reached.
The ways are kept as *scenarios*: sets of choices, such as "gate went to ship" or "reserve succeeded". A node lives in
the scenarios of its live edges; two scenarios that differ only in all the choices of one switch are one. What makes a
node wait, and be blocked if it fails, need not be chosen: it is *forced*.

The answer errs on the side of doubt: conditions on edges are taken to be independent of each other, and a graph with
very many ways is not followed to the end. Doubt costs the author a `has(…)`.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeAlias

from headway.coordinator.core.compiler.graph import Shape
from headway.coordinator.core.plan import Edge, EdgeKind, Node, NodeType

# (what is chosen, how): ("node reserve", "succeeded"), ("switch gate", "ship"), ("edge 4", "held")
Choice: TypeAlias = tuple[str, str]
Scenario: TypeAlias = frozenset[Choice]

_MAX_SCENARIOS = 48
_SUCCEEDED, _FAILED, _HELD = "succeeded", "failed", "held"
_HANDLING = (EdgeKind.FAILURE, EdgeKind.TIMEOUT)


class Certainty:
    """Answers for one acyclic graph."""

    def __init__(self, nodes: Mapping[str, Node], shape: Shape) -> None:
        self._nodes = nodes
        self._shape = shape
        self._cases = {edge for node in nodes.values() for edge in _case_edges(node)}

    def has_succeeded(self, one: str, when_runs: str) -> bool:
        """Returns whether a node has surely succeeded whenever the other runs."""
        forced = {(f"node {name}", _SUCCEEDED) for name in self._forced[when_runs]}
        return self._covers(when_runs, self._live[when_runs], one, forced)

    def has_succeeded_at(self, one: str, edge: Edge) -> bool:
        """Returns whether a node has surely succeeded whenever the condition of the edge is evaluated."""
        source = edge.source
        if one == source:
            return edge.on is EdgeKind.SUCCESS
        return self.has_succeeded(one, source)

    def _covers(self, name: str, ways: Iterable[Scenario] | None, one: str, forced: set[Choice]) -> bool:
        needed = self._live[one]
        if needed is None or ways is None:
            return one in self._forced[name] and needed == frozenset({frozenset[Choice]()})
        success = self._simplify({(scenario | {(f"node {one}", _SUCCEEDED)}) - forced for scenario in needed})
        return success is not None and all(any(wanted <= way for wanted in success) for way in ways)

    @cached_property
    def _live(self) -> dict[str, frozenset[Scenario] | None]:
        """Per node the scenarios in which it runs; None: too many to follow."""
        live: dict[str, frozenset[Scenario] | None] = {}
        for name in self._shape.order:
            incoming = [self._shape.edges[index] for index in self._shape.incoming[name]]
            ways = [live[edge.source] for edge in incoming]
            if not incoming:
                live[name] = frozenset({frozenset[Choice]()})
            elif any(way is None for way in ways):
                live[name] = None
            else:
                pairs = zip(incoming, ways, strict=True)
                merged = {new for edge, way in pairs for old in way or () for new in self._through(edge, old)}
                live[name] = self._simplify(merged)
        return live

    def _through(self, edge: Edge, scenario: Scenario) -> Iterable[Scenario]:
        """The scenario in which the edge is live, if it can be."""
        chosen = set(scenario)
        if edge.index in self._cases:
            chosen |= {(f"node {edge.source}", _SUCCEEDED), (f"switch {edge.source}", edge.target)}
        elif edge.on is EdgeKind.SUCCESS:
            chosen.add((f"node {edge.source}", _SUCCEEDED))
        elif edge.on in _HANDLING:
            chosen.add((f"node {edge.source}", _FAILED))
        if edge.when is not None or edge.errors or edge.on is EdgeKind.TIMEOUT:
            chosen.add((f"edge {edge.index}", _HELD))
        if len({what for what, _ in chosen}) == len(chosen):
            yield frozenset(chosen)

    def _simplify(self, scenarios: set[Scenario]) -> frozenset[Scenario] | None:
        """Joins scenarios that differ in all the choices of one kind, and drops those that another contains."""
        changed = True
        while changed:
            if len(scenarios) > _MAX_SCENARIOS:
                return None
            changed = False
            for scenario in sorted(scenarios, key=sorted):
                for choice in scenario:
                    rest = scenario - {choice}
                    if all(
                        any(each <= rest | {other} for each in scenarios) for other in self._alternatives(choice[0])
                    ):
                        scenarios = {each for each in scenarios if not rest <= each} | {rest}
                        changed = True
                        break
                if changed:
                    break
        return frozenset(each for each in scenarios if not any(other < each for other in scenarios))

    def _alternatives(self, what: str) -> list[Choice]:
        """All the ways in which something can be chosen; of an edge's condition, one is never in any scenario."""
        kind, _, name = what.partition(" ")
        if kind == "node":
            return [(what, _SUCCEEDED), (what, _FAILED)]
        if kind == "edge":
            return [(what, _HELD), (what, "not held")]
        node = self._nodes[name]
        targets = {self._shape.edges[edge].target for edge in _case_edges(node)}
        return [(what, target) for target in targets] + ([] if node.default_edge is not None else [(what, "nowhere")])

    @cached_property
    def _forced(self) -> dict[str, frozenset[str]]:
        """Per node those without whose success it is blocked, if they run at all."""
        forced: dict[str, frozenset[str]] = {}
        for name in self._shape.order:
            edges = [self._shape.edges[index] for index in self._shape.incoming[name]]
            sets = [forced[edge.source] | ({edge.source} if edge.on is EdgeKind.SUCCESS else set()) for edge in edges]
            waits_for_all = self._nodes[name].need is None
            united = (
                frozenset[str]().union(*sets)
                if waits_for_all
                else frozenset[str].intersection(*sets)
                if sets
                else frozenset[str]()
            )
            forced[name] = frozenset(each for each in united if not self._is_rescued(each, name))
        return forced

    def _is_rescued(self, failed: str, name: str) -> bool:
        """Whether a handled failure of the one counts as dead, not as failed, at the other."""
        edges = (self._shape.edges[index] for index in self._shape.outgoing[failed])
        return any(edge.on in _HANDLING and self._shape.leads_to(edge.target, name) for edge in edges)


def _case_edges(node: Node) -> list[int]:
    if node.type is not NodeType.SWITCH:
        return []
    edges = [case.edge for case in node.cases]
    return edges if node.default_edge is None else [*edges, node.default_edge]
