"""Which nodes have surely succeeded when another one runs.

A node that reads `nodes.x.output` needs x to have run and succeeded, on every way by which it can itself be reached.
Two things make that sure. What a node waits for, and is blocked by if it fails, is *forced*: if it runs at all, it
succeeded. Whether it runs is seen from *scenarios*: sets of choices, such as "gate went to ship" or "reserve failed
and its failure was handled". A node lives in the scenarios of its live edges; scenarios that differ only in all the
ways in which one thing can be chosen are one.

The answer errs on the side of doubt: conditions on edges are taken to be independent of each other, and a graph with
very many ways is not followed to the end. Doubt costs the author a `has(…)`.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from headway.coordinator.core.compiler.graph import Shape
from headway.coordinator.core.plan import Edge, EdgeKind, Node

# (what is chosen, how): ("node reserve", "failed"), ("switch gate", "ship"), ("edge 4", "held"). Of the nodes, only
# those with failure edges are chosen about: the failure of any other leads nowhere.
Choice: TypeAlias = tuple[str, str]
Scenario: TypeAlias = frozenset[Choice]
Ways: TypeAlias = frozenset[Scenario]

_MAX_SCENARIOS = 32
_SUCCEEDED, _FAILED, _HELD = "succeeded", "failed", "held"
_HANDLING = (EdgeKind.FAILURE, EdgeKind.TIMEOUT)
_ALWAYS: Ways = frozenset({frozenset[Choice]()})


class Certainty:
    """Answers for one acyclic graph."""

    def __init__(self, nodes: Mapping[str, Node], shape: Shape) -> None:
        self._nodes = nodes
        self._shape = shape
        self._targets = {name: _targets_of(node, shape) for name, node in nodes.items() if node.cases}
        self._cases = {case.edge for node in nodes.values() for case in node.cases}
        self._cases |= {node.default_edge for node in nodes.values() if node.default_edge is not None}
        self._handled = {edge.source for edge in shape.edges if edge.on in _HANDLING}
        self._answers: dict[tuple[str, str], bool] = {}

    def has_succeeded(self, one: str, when_runs: str) -> bool:
        """Returns whether a node has surely succeeded whenever the other, a later one, runs."""
        key = (one, when_runs)
        if key not in self._answers:
            self._answers[key] = self._decide(one, when_runs)
        return self._answers[key]

    def has_succeeded_at(self, one: str, edge: Edge) -> bool:
        """Returns whether a node has surely succeeded whenever the condition of the edge is evaluated."""
        if one == edge.source:
            return edge.on is EdgeKind.SUCCESS
        return self.has_succeeded(one, edge.source)

    def _decide(self, one: str, when_runs: str) -> bool:
        forced = self._forced[when_runs]
        if not forced & self._shape.bit(one) and one not in self._handled:
            return False
        needed, ways = self._ways[one], self._ways[when_runs]
        if needed is None or ways is None:
            return needed == _ALWAYS and bool(forced & self._shape.bit(one))
        outcome = self._outcome(one, _SUCCEEDED)
        success = (scenario | outcome for scenario in needed)
        simple = self._simplify({frozenset(each for each in way if not self._is_sure(each, forced)) for way in success})
        return simple is not None and all(any(wanted <= way for wanted in simple) for way in ways)

    def _is_sure(self, choice: Choice, forced: int) -> bool:
        kind, _, name = choice[0].partition(" ")
        return kind == "node" and choice[1] == _SUCCEEDED and bool(forced & self._shape.bit(name))

    def _outcome(self, name: str, how: str) -> set[Choice]:
        return {(f"node {name}", how)} if name in self._handled else set()

    @cached_property
    def _ways(self) -> dict[str, Ways | None]:
        """Per node the scenarios in which it runs; None: too many to follow."""
        ways: dict[str, Ways | None] = {}
        for name in self._shape.order:
            incoming = [self._shape.edges[index] for index in self._shape.incoming[name]]
            ways[name] = self._arrive(incoming, ways) if incoming else _ALWAYS
        return ways

    def _arrive(self, incoming: Iterable[Edge], ways: Mapping[str, Ways | None]) -> Ways | None:
        merged: set[Scenario] = set()
        for edge in incoming:
            before = ways[edge.source]
            if before is None:
                return None
            chosen = self._choices_of(edge)
            merged |= {scenario | chosen for scenario in before if _fit(scenario | chosen)}
        return self._simplify(merged)

    def _choices_of(self, edge: Edge) -> set[Choice]:
        """What must be chosen for the edge to be live, once its source has run."""
        if edge.on is EdgeKind.ALWAYS:
            chosen: set[Choice] = set()
        else:
            chosen = self._outcome(edge.source, _SUCCEEDED if edge.on is EdgeKind.SUCCESS else _FAILED)
        if edge.index in self._cases and len(self._targets[edge.source]) > 1:
            chosen.add((f"switch {edge.source}", edge.target))
        if edge.when is not None or edge.errors or edge.on is EdgeKind.TIMEOUT:
            chosen.add((f"edge {edge.index}", _HELD))
        return chosen

    def _simplify(self, scenarios: set[Scenario]) -> Ways | None:
        """Joins scenarios that differ in all the choices of one kind, and drops those that another covers."""
        while len(scenarios) > 1:
            if len(scenarios) > _MAX_SCENARIOS:
                return None
            joined = next(self._joined(scenarios), None)
            if joined is None:
                break
            scenarios = {each for each in scenarios if not joined <= each} | {joined}
        return frozenset(each for each in scenarios if not any(other < each for other in scenarios))

    def _joined(self, scenarios: set[Scenario]) -> Iterator[Scenario]:
        """What is left of scenarios that differ only in how one thing is chosen."""
        for scenario in sorted(scenarios, key=sorted):
            for choice in sorted(scenario):
                rest = scenario - {choice}
                others = self._alternatives(choice[0])
                if all(any(each <= rest | {other} for each in scenarios) for other in others):
                    yield rest

    def _alternatives(self, what: str) -> list[Choice]:
        """All the ways in which something can be chosen. Nothing lives by a condition that does not hold."""
        kind, _, name = what.partition(" ")
        if kind == "node":
            return [(what, _SUCCEEDED), (what, _FAILED)]
        if kind == "edge":
            return [(what, _HELD), (what, "not held")]
        return [(what, target) for target in self._targets[name]]

    @cached_property
    def _forced(self) -> dict[str, int]:
        """Per node, as bits, those whose failure blocks it."""
        forced: dict[str, int] = {}
        rescued: dict[str, int] = {}  # those from whose failure edges it is reached: their failure counts as dead
        for name in self._shape.order:
            edges = [self._shape.edges[index] for index in self._shape.incoming[name]]
            saved, sets = 0, list[int]()
            for edge in edges:
                source = self._shape.bit(edge.source)
                saved |= rescued[edge.source] | (source if edge.on in _HANDLING else 0)
                sets.append(forced[edge.source] | (source if edge.on is EdgeKind.SUCCESS else 0))
            rescued[name] = saved
            forced[name] = (_united(sets) if self._nodes[name].need is None else _common(sets)) & ~saved
        return forced


def _targets_of(node: Node, shape: Shape) -> frozenset[str]:
    edges = [case.edge for case in node.cases] + ([] if node.default_edge is None else [node.default_edge])
    return frozenset(shape.edges[edge].target for edge in edges) | ({""} if node.default_edge is None else set())


def _fit(scenario: Scenario) -> bool:
    return len({what for what, _ in scenario}) == len(scenario)


def _united(sets: Iterable[int]) -> int:
    bits = 0
    for each in sets:
        bits |= each
    return bits


def _common(sets: list[int]) -> int:
    bits = sets[0] if sets else 0
    for each in sets[1:]:
        bits &= each
    return bits
