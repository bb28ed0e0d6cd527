"""What the compiler takes for sure holds in every run of generated graphs, played by the rules of tokens."""

import random
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.coordinator.core.compiler.certainty import Certainty
from headway.coordinator.core.compiler.graph import Shape
from headway.coordinator.core.plan import Case, Edge, EdgeKind, Expression, Node, NodeType, Place

CONDITION = Expression(source="input.x", reads=(("input", "x"),), place=Place(line=1, column=1))
HANDLING = (EdgeKind.FAILURE, EdgeKind.TIMEOUT)


def a_condition(chance: random.Random, earlier: list[str]) -> Expression:
    """Something about the input, or whether a node has an output."""
    if not earlier or chance.random() < 0.4:
        return CONDITION
    path = ("nodes", chance.choice(earlier), "output")
    negation = chance.choice(["", "!"])
    return Expression(source=f"{negation}has({'.'.join(path)})", reads=(), tests=(path,), place=Place(line=1, column=1))


def a_graph(chance: random.Random, *, asks: bool) -> tuple[dict[str, Node], list[Edge]]:
    """A graph without cycles. `asks`: conditions ask for nodes, too."""
    names = [f"n{number}" for number in range(chance.randint(2, 9))]
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    switches = {name for name in names if chance.random() < 0.3}
    edges: list[Edge] = []
    for source, target in chance.sample(pairs, min(len(pairs), chance.randint(1, 14))):
        kinds = [EdgeKind.FAILURE, EdgeKind.ALWAYS] if source in switches else [EdgeKind.SUCCESS] * 4 + list(EdgeKind)
        kind = chance.choice(kinds)
        when = a_condition(chance, names[: names.index(target) * asks]) if chance.random() < 0.25 else None
        edges.append(Edge(index=len(edges), source=source, target=target, on=kind, when=when))
    nodes: dict[str, Node] = {}
    for at, name in enumerate(names):
        later = names[at + 1 :]
        if name in switches and later:
            targets = chance.sample(later, min(len(later), chance.randint(1, 3)))
            numbers = [*range(len(edges), len(edges) + len(targets))]
            edges += [
                Edge(index=number, source=name, target=target) for number, target in zip(numbers, targets, strict=True)
            ]
            default = numbers.pop() if len(numbers) > 1 and chance.random() < 0.7 else None
            cases = tuple(Case(when=a_condition(chance, names[: at * asks]), edge=number) for number in numbers)
            nodes[name] = Node(id=name, type=NodeType.SWITCH, cases=cases, default_edge=default)
        elif chance.random() < 0.2:
            nodes[name] = Node(id=name, type=NodeType.JOIN, need=chance.randint(1, 2))
        else:
            nodes[name] = Node(id=name, type=NodeType.CALL)
    incoming = {edge.target for edge in edges}
    return {
        name: node if name in incoming or not node.need else Node(id=name, type=NodeType.CALL)
        for name, node in nodes.items()
    }, edges


@dataclass
class Play:
    """One way in which a run may go.

    Attributes:
        succeeded: what became of each node that ran.
        before: what was decided before each node ran.
        tokens: per edge "live", "dead", or the nodes that failed.
    """

    nodes: dict[str, Node]
    shape: Shape
    chance: random.Random
    succeeded: dict[str, bool] = field(default_factory=dict[str, bool])
    before: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    handled_by: dict[str, Edge] = field(default_factory=dict[str, Edge])
    tokens: dict[int, str | frozenset[str]] = field(default_factory=dict[int, str | frozenset[str]])

    def run(self) -> None:
        for name in self.shape.order:
            incoming = [self.shape.edges[index] for index in self.shape.incoming[name]]
            fate, waited = self.fate(name, incoming)
            self.before[name] = {edge.source for edge in waited}.union(*(self.before[edge.source] for edge in waited))
            if fate == "live":
                self.succeeded[name] = self.chance.random() < 0.6
                self.leave(name)
            else:
                for index in self.shape.outgoing[name]:
                    self.tokens[index] = fate

    def fate(self, name: str, incoming: list[Edge]) -> tuple[str | frozenset[str], list[Edge]]:
        if not incoming:
            return "live", []
        tokens = {edge.index: self.counted(self.tokens[edge.index], name) for edge in incoming}
        live = [edge for edge in incoming if tokens[edge.index] == "live"]
        failed = frozenset[str]().union(*(token for token in tokens.values() if isinstance(token, frozenset)))
        need = self.nodes[name].need
        if need is not None:
            if len(live) >= need:
                return "live", self.chance.sample(live, need)
            return failed or "dead", incoming
        if failed:
            return failed, incoming
        return "live" if live else "dead", incoming

    def counted(self, token: str | frozenset[str], name: str) -> str | frozenset[str]:
        """A failed token counts as dead where every failure in it was handled by a way that leads here."""
        if isinstance(token, str):
            return token
        rescued = all(one in self.handled_by and name in self.shape.reach(self.handled_by[one].target) for one in token)
        return "dead" if rescued else token

    def holds(self, condition: Expression, name: str) -> bool:
        """Whether a condition holds when a node is done."""
        if not condition.tests:
            return self.chance.random() < 0.5
        one = condition.tests[0][1]
        is_there = self.succeeded.get(one, False) and (one == name or one in self.before[name])
        return is_there is not condition.source.startswith("!")

    def leave(self, name: str) -> None:
        node, ok = self.nodes[name], self.succeeded[name]
        cases = {case.edge for case in node.cases} | ({node.default_edge} if node.default_edge is not None else set())
        otherwise = -1 if node.default_edge is None else node.default_edge
        taken = next((case.edge for case in node.cases if self.holds(case.when, name)), otherwise)
        for index in self.shape.outgoing[name]:
            edge = self.shape.edges[index]
            holds = edge.when is None or self.holds(edge.when, name)
            self.tokens[index] = "dead"
            if edge.on is EdgeKind.SUCCESS and not ok:
                self.tokens[index] = frozenset({name})
            elif index in cases:
                self.tokens[index] = "live" if index == taken else "dead"
            elif edge.on in HANDLING:
                matches = holds and (edge.on is EdgeKind.FAILURE or self.chance.random() < 0.5)
                if not ok and matches and name not in self.handled_by:
                    self.handled_by[name] = edge
                    self.tokens[index] = "live"
            elif holds:
                self.tokens[index] = "live"


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=1041945)  # a failure that is made good blocks a node between
def test_what_is_sure_holds_in_every_run(seed: int) -> None:
    chance = random.Random(seed)
    nodes, edges = a_graph(chance, asks=True)
    shape = Shape(tuple(nodes), tuple(edges))
    certainty = Certainty(nodes, shape)
    sure = [
        (one, other)
        for one in nodes
        for other in nodes
        if shape.is_ancestor(one, other) and certainty.has_succeeded(one, other)
    ]

    for _ in range(30):
        play = Play(nodes=nodes, shape=shape, chance=chance)
        play.run()

        for one, other in sure:
            if other in play.succeeded:
                assert play.succeeded.get(one), (one, other, nodes, edges)
                assert one in play.before[other], (one, other, nodes, edges)


def test_few_doubts_are_idle() -> None:
    """Of what held in all of many runs, nearly all is taken for sure: hardly anybody writes a guard for nothing."""
    idle = held = 0
    for seed in range(150):
        chance = random.Random(seed)
        nodes, edges = a_graph(chance, asks=False)
        shape = Shape(tuple(nodes), tuple(edges))
        certainty = Certainty(nodes, shape)
        pairs = {(one, other) for one in nodes for other in nodes if shape.is_ancestor(one, other)}
        ran: set[str] = set()
        for _ in range(300):
            play = Play(nodes=nodes, shape=shape, chance=chance)
            play.run()
            ran |= set(play.succeeded)
            pairs -= {
                (one, other)
                for one, other in pairs
                if other in play.succeeded and not (play.succeeded.get(one) and one in play.before[other])
            }
        seen = {(one, other) for one, other in pairs if other in ran}
        held += len(seen)
        idle += sum(not certainty.has_succeeded(one, other) for one, other in seen)

    assert idle / held < 0.08  # measured: 0.05, on graphs stranger than people draw
