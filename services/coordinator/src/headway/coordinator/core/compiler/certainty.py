"""Which nodes have surely succeeded when another one runs.

A node that reads `nodes.x.output` needs x to have run and succeeded, on every way by which it can itself be reached.
Three things make that sure. Conditions on the way: behind an edge or a case with `has(nodes.x.output)` x succeeded.
What a node waits for, and is blocked by if it fails, is *forced*: if it runs at all, it succeeded. Whether it runs is
seen from *scenarios*: sets of choices, such as "gate went to ship" or "reserve failed and its failure was handled". A
node lives in the scenarios of its live edges; scenarios that differ only in all the ways in which one thing can be
chosen are one.

The answer errs on the side of doubt: conditions on edges are taken to be independent of each other, and a graph with
very many ways is not followed to the end. Doubt costs the author a `has(…)`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from headway.coordinator.core.cel import compile_expression, told_by
from headway.coordinator.core.compiler.graph import Shape
from headway.coordinator.core.plan import Edge, EdgeKind, Expression, Node, VariablePath

# (what is chosen, how): ("node reserve", "failed"), ("failure reserve", "4") for the edge that takes it,
# ("switch gate", "ship"), ("edge 4", "held"), ("join all", "held"). Of the nodes, only those with failure edges are
# chosen about: the failure of any other leads nowhere.
Choice: TypeAlias = tuple[str, str]
Scenario: TypeAlias = frozenset[Choice]
Ways: TypeAlias = frozenset[Scenario]

_MAX_SCENARIOS = 32
_SUCCEEDED, _FAILED, _HELD = "succeeded", "failed", "held"
_HANDLING = (EdgeKind.FAILURE, EdgeKind.TIMEOUT)
_ALONE = ("error", "last")  # of which all fields are there together
_ALWAYS: Ways = frozenset({frozenset[Choice]()})


class Certainty:
    """Answers for one acyclic graph."""

    def __init__(
        self, nodes: Mapping[str, Node], shape: Shape, at_start: frozenset[VariablePath] = frozenset()
    ) -> None:
        """Answers for a graph. `at_start`: what conditions have told before it begins."""
        self._nodes = nodes
        self._at_start = at_start
        self._shape = shape
        self._targets = {name: _targets_of(node, shape) for name, node in nodes.items() if node.cases}
        self._cases = {case.edge for node in nodes.values() for case in node.cases}
        self._cases |= {node.default_edge for node in nodes.values() if node.default_edge is not None}
        self._handlers = _handlers_of(shape)
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

    def is_told(self, what: VariablePath, when_runs: str) -> bool:
        """Returns whether conditions on every way to a node have told that something is there.

        Args:
            what: a node as `("nodes", name)`, which may be one outside of this graph, or a variable.
            when_runs: the node.
        """
        bit = self._told_bits.get(what)
        return bit is not None and bool(self._on_every_way[when_runs] & bit)

    def is_told_at(self, what: VariablePath, edge: Edge) -> bool:
        """Returns whether what an edge asks and says tells that something is there: an error, when it is followed."""
        return what in self._told_on_edges.get(edge.index, ())

    def exclude(self, one: str, other: str) -> bool:
        """Returns whether two nodes surely never both run: each way to the one rules out every way to the other."""
        ways, others = self._ways[one], self._ways[other]
        if ways is None or others is None:
            return False
        failed = {what for way in (*ways, *others) for what, how in way if how == _FAILED}
        sure = self._sure_outcomes(failed, one) | self._sure_outcomes(failed, other)
        return not any(_fit(way | another | sure) for way in ways for another in others)

    def _sure_outcomes(self, choices: Iterable[str], when_runs: str) -> Scenario:
        """Of choices about nodes, those that surely come out as a success whenever a node runs."""
        names = ((what, what.partition(" ")[2]) for what in choices)
        found = ((what, name) for what, name in names if self._shape.is_ancestor(name, when_runs))
        return frozenset((what, _SUCCEEDED) for what, name in found if self.has_succeeded(name, when_runs))

    def never_runs(self, name: str) -> bool:
        """Returns whether no way at all leads to a node."""
        return self._ways[name] == frozenset()

    def ways_of(self, edge: Edge) -> Ways | None:
        """Returns the scenarios in which an edge is live; None: too many to follow."""
        before, chosen = self._ways[edge.source], self._choices_of(edge)
        if before is None:
            return None
        return frozenset(() if chosen is None else (new for scenario in before if _fit(new := scenario | chosen)))

    def _decide(self, one: str, when_runs: str) -> bool:
        if self._on_every_way[when_runs] & self._shape.bit(one):
            return True
        forced = self._blockers.surely[when_runs]
        needed, ways = self._ways[one], self._ways[when_runs]
        if needed is None or not (forced & self._shape.bit(one) or one in self._handlers):
            return False
        # It runs in its scenarios only if nothing blocks it, and then it must succeed itself.
        in_its_way = self._blockers.perhaps[one] | self._shape.bit(one)
        outcome = {(f"node {name}", _SUCCEEDED) for name in self._handlers if in_its_way & self._shape.bit(name)}
        success = (scenario | outcome for scenario in needed if _fit(scenario | outcome))
        simple = self._simplify({frozenset(each for each in way if not self._is_sure(each, forced)) for way in success})
        if simple is None or ways is None:
            return simple == _ALWAYS
        return all(any(wanted <= way for wanted in simple) for way in ways)

    def _is_sure(self, choice: Choice, forced: int) -> bool:
        kind, _, name = choice[0].partition(" ")
        return kind == "node" and choice[1] == _SUCCEEDED and bool(forced & self._shape.bit(name))

    def _outcome(self, name: str, how: str) -> set[Choice]:
        return {(f"node {name}", how)} if name in self._handlers else set()

    @cached_property
    def _ways(self) -> dict[str, Ways | None]:
        """Per node the scenarios in which it runs; None: too many to follow."""
        ways: dict[str, Ways | None] = {}
        for name in self._shape.order:
            incoming = [self._shape.edges[index] for index in self._shape.incoming[name]]
            ways[name] = self._arrive(name, incoming, ways) if incoming else _ALWAYS
        return ways

    def _arrive(self, name: str, incoming: Iterable[Edge], ways: Mapping[str, Ways | None]) -> Ways | None:
        # One live edge is enough for any node but a join that needs more: whether it gets them is another choice.
        enough: set[Choice] = {(f"join {name}", _HELD)} if (self._nodes[name].need or 1) > 1 else set()
        merged: set[Scenario] = set()
        for edge in incoming:
            before, chosen = ways[edge.source], self._choices_of(edge)
            if before is None:
                return None
            if chosen is not None:
                merged |= {new for scenario in before if _fit(new := scenario | chosen | enough)}
        return self._simplify(merged)

    def _choices_of(self, edge: Edge) -> set[Choice] | None:
        """What must be chosen for the edge to be live, once its source has run; None: it never is."""
        if edge.on in _HANDLING:
            takers = self._handlers[edge.source]
            if edge.index not in takers:
                return None
            chosen = self._outcome(edge.source, _FAILED)
            return chosen | ({(f"failure {edge.source}", str(edge.index))} if len(takers) > 1 else set())
        chosen = self._outcome(edge.source, _SUCCEEDED) if edge.on is EdgeKind.SUCCESS else set[Choice]()
        if edge.index in self._cases and len(self._targets.get(edge.source, ())) > 1:
            chosen.add((f"switch {edge.source}", edge.target))
        if edge.when is not None:
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
        if kind in ("edge", "join"):
            return [(what, _HELD), (what, "not held")]
        if kind == "failure":
            return [(what, str(edge)) for edge in self._handlers[name]]
        return [(what, target) for target in self._targets[name]]

    @cached_property
    def _on_every_way(self) -> dict[str, int]:
        """Per node, as bits, what each live edge into it brings along: who succeeded, and what is told."""
        found: dict[str, int] = {}
        told = {index: self._bits_of(paths) for index, paths in self._told_on_edges.items()}
        at_start = self._bits_of(self._at_start)
        for name in self._shape.order:
            edges = [self._shape.edges[index] for index in self._shape.incoming[name]]
            live = (edge for edge in edges if self._choices_of(edge) is not None)
            brought = [found[edge.source] | self._success_bit(edge) | told.get(edge.index, 0) for edge in live]
            found[name] = _united(brought) if (self._nodes[name].need or 1) >= len(edges) else _common(brought)
            found[name] |= at_start
        return found

    def _bits_of(self, paths: Iterable[VariablePath]) -> int:
        return _united(self._told_bits.get(path, 0) for path in paths)

    @cached_property
    def _told_bits(self) -> dict[VariablePath, int]:
        """A bit for each thing that a condition tells of: that of the node, or one behind those of all nodes.

        An error is there, or not, for one node alone: it goes no further.
        """
        bits: dict[VariablePath, int] = {}
        first = len(self._nodes)
        for path in (*self._at_start, *(path for paths in self._told_on_edges.values() for path in paths)):
            if path[0] == "nodes" and len(path) == 2 and path[1] in self._nodes:  # noqa: PLR2004 - nodes.x
                bits[path] = self._shape.bit(path[1])
            elif path[0] != "error":
                bits.setdefault(path, 1 << first + len(bits))
        return bits

    @cached_property
    def _told_on_edges(self) -> dict[int, frozenset[VariablePath]]:
        """By edge, what is there when it is followed, as far as its condition tells, or the cases of its switch."""
        told = {
            edge.index: what_is_told(edge.when)
            for edge in self._shape.edges
            if edge.when is not None and _may_tell(edge.when)
        }
        for node in self._nodes.values():
            if any(_may_tell(case.when) for case in node.cases):
                told |= _told_by_cases(node)
        return {index: paths for index, paths in told.items() if paths}

    @cached_property
    def _blockers(self) -> "_Blockers":
        blockers = _Blockers(surely={}, perhaps={})
        for name in self._shape.order:
            edges = [self._shape.edges[index] for index in self._shape.incoming[name]]
            bits = [(edge.source, self._success_bit(edge)) for edge in edges]
            surely = [blockers.surely[source] | bit for source, bit in bits]
            saved = self._rescued(name, all)
            perhaps = _united(blockers.perhaps[source] | (bit & ~saved) for source, bit in bits)
            need = self._nodes[name].need
            united = need is None or need >= len(edges)
            blockers.surely[name] = (_united(surely) if united else _common(surely)) & ~self._rescued(name, any)
            # A failure that is made good here does not block; but a node between that it did block sends no live token.
            blockers.perhaps[name] = perhaps
        return blockers

    def _rescued(self, name: str, which: Callable[[Iterable[bool]], bool]) -> int:
        """Those whose failure counts as dead here, not as failed, if any, or all, of its failure edges lead here."""
        saved = 0
        for failed, takers in self._handlers.items():
            if self._shape.is_ancestor(failed, name):
                saved |= self._shape.bit(failed) if which(self._leads(edge, name) for edge in takers) else 0
        return saved

    def _leads(self, edge: int | None, name: str) -> bool:
        if edge is None:
            return False
        target = self._shape.edges[edge].target
        return target == name or self._shape.is_ancestor(target, name)

    def _success_bit(self, edge: Edge) -> int:
        return self._shape.bit(edge.source) if edge.on is EdgeKind.SUCCESS else 0


@dataclass(frozen=True, slots=True)
class _Blockers:
    """Per node, as bits, those whose failure surely, or perhaps, keeps it from running or from being reached."""

    surely: dict[str, int]
    perhaps: dict[str, int]


def what_is_told(condition: Expression, *, holds: bool = True) -> frozenset[VariablePath]:
    """Returns what is there, if a condition holds or does not: each by `guard_key`, and fields by their paths."""
    told = told_by(compile_expression(condition.source).syntax.root, holds=holds)
    keys = frozenset(key for path in told or () if _is_telling(path) for key in _keys_of(path))
    return keys | ({("last",)} if ("index",) in condition.reads else frozenset())  # 0 is told from what comes later


def _is_telling(path: VariablePath) -> bool:
    match path:
        case ("nodes", _, "output", *_) | ("vars" | "input" | "item", _, *_) | ("error" | "last", *_):
            return True
        case _:
            return False


def guard_key(path: VariablePath) -> VariablePath:
    """Returns what must be there so that a path can be read: a node, a variable, an error, an iteration before."""
    return path[:1] if path[0] in _ALONE else path[:2]


def _keys_of(path: VariablePath) -> Iterator[VariablePath]:
    """Yields all that is told by there being something at a path."""
    yield guard_key(path)
    if path[0] not in _ALONE:
        yield from (path[:length] for length in range(3, len(path) + 1))


def _may_tell(condition: Expression) -> bool:
    paths = (*condition.reads, *condition.tests)
    return any(_is_telling(path) or path[0] in ("nodes", "index", "input", "item") for path in paths)


def _told_by_cases(switch: Node) -> dict[int, frozenset[VariablePath]]:
    """By edge of a switch: its case holds, and those before it do not."""
    told: dict[int, frozenset[VariablePath]] = {}
    before: frozenset[VariablePath] = frozenset()
    for case in switch.cases:
        here = before | what_is_told(case.when)
        told[case.edge] = told.get(case.edge, here) & here
        before |= what_is_told(case.when, holds=False)
    if switch.default_edge is not None:
        told[switch.default_edge] = told.get(switch.default_edge, before) & before
    return told


def _targets_of(node: Node, shape: Shape) -> frozenset[str]:
    edges = [case.edge for case in node.cases] + ([] if node.default_edge is None else [node.default_edge])
    return frozenset(shape.edges[edge].target for edge in edges) | ({""} if node.default_edge is None else set())


def _handlers_of(shape: Shape) -> dict[str, list[int | None]]:
    """Per node with failure edges those that may be followed, in order, and None if perhaps none is."""
    handlers: dict[str, list[int | None]] = {}
    closed: set[str] = set()  # nodes with an edge that takes whatever failure is left
    for edge in shape.edges:
        if edge.on in _HANDLING and edge.source not in closed:
            handlers.setdefault(edge.source, []).append(edge.index)
            if edge.on is EdgeKind.FAILURE and edge.when is None and not edge.errors:
                closed.add(edge.source)
    return {name: found if name in closed else [*found, None] for name, found in handlers.items()}


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
