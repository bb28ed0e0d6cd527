"""Random workflows, and an oracle that says which of their nodes run, worked out from the rules and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Protocol, TypedDict, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan import (
    FINALLY,
    RETRYABLE_NODES,
    WORKER_NODES,
    Backoff,
    Case,
    Edge,
    EdgeKind,
    Json,
    Literal,
    Node,
    NodeType,
    Object,
    OnFailure,
    RetryPolicy,
    RetryRule,
    Template,
    Text,
    TimeOuts,
)
from tests.core.flows import computed, edge, expression, plan, reference

MOST_NODES = 8
SIGNALS = ("approval", "paid")
ERRORS = ("Boom", "Bust")
# Conditions whose value is known: they hold, do not hold, or cannot be computed.
HOLDS, FAILS, FAULTY = "input.n == 1", "input.n == 2", "input.nothing == 1"
CONDITIONS = (None, None, None, HOLDS, FAILS, FAULTY)
INPUT: Json = {"n": 1, "list": [1, 2]}
OUTPUTS: tuple[Json, ...] = (None, {"n": 1}, [1])
SCHEMAS: tuple[Json, ...] = (None, None, None, None, {"type": ["object", "null"]})  # of outputs: most fit
VARIABLES: tuple[Json, ...] = ({}, {"type": ["integer", "string"]})
PAYLOADS: tuple[Json, ...] = ({"by": "somebody"}, {"by": "somebody"}, {"by": "nobody"}, "text")

_TYPES = (
    *[NodeType.CALL] * 8,
    NodeType.HTTP,
    NodeType.PYTHON,
    *[NodeType.SWITCH] * 2,
    *[NodeType.JOIN] * 5,
    NodeType.SET,
    NodeType.WAIT,
    NodeType.SUBFLOW,
    *[NodeType.WAIT_FOR_EVENT] * 2,
    NodeType.FINISH,
    NodeType.MAP,
    NodeType.REPEAT,
)
_LOOPS = (NodeType.MAP, NodeType.REPEAT)
MOST_NESTING, MOST_IN_A_BODY = 3, 3


T = TypeVar("T")


class _Tries(TypedDict):
    backoff: Backoff
    factor: float
    max_ms: int
    jitter: float


class _Wait(TypedDict, total=False):
    wait_ms: int
    wait: Template
    until: Template
    zone: Template


class Choices(Protocol):
    """Where chance comes from: a seeded generator, or Hypothesis, which can make a failing example smaller."""

    def of(self, options: Sequence[T]) -> T: ...
    def whole(self, least: int, most: int) -> int: ...


class Seeded:
    """Chance from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def of(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def whole(self, least: int, most: int) -> int:
        return self._random.randint(least, most)


class Drawn:
    """Chance from Hypothesis."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def of(self, options: Sequence[T]) -> T:
        return options[self._draw(st.integers(0, len(options) - 1))]

    def whole(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))


@st.composite
def workflows(draw: DrawFn, *, simple: bool = False) -> Graph:
    """A workflow, for Hypothesis."""
    return workflow(Drawn(draw), simple=simple)


def workflow(choices: Choices, *, simple: bool = False, most_nodes: int = MOST_NODES, loops: int = 0) -> Graph:
    """A workflow with nodes of every type and edges of every kind.

    Args:
        choices: chance.
        simple: never stopped, no time-outs, no finish.
        most_nodes: in the workflow's own graph.
        loops: maps and repeats that it has at least, if it has as many nodes.
    """
    nodes, edges = _graph(choices, most_nodes, 0, simple=simple, loops=loops)
    nodes = _with_undos(choices, nodes)
    nodes += _finally(choices, simple=simple)
    ends = [node for node in nodes if node.type is NodeType.FINISH]
    owed = bool(ends) and all(node.output is not None or node.outcome == "failed" for node in ends)
    return Graph(
        plan(
            nodes,
            edges,
            deadline_ms=None if simple else choices.of((None, None, None, 4_000)),
            on_failure=OnFailure.DRAIN if simple else choices.of(tuple(OnFailure)),
            output_schema=choices.of((*[None] * 6, {"type": ["object", "null"]}, {"type": "object"} if owed else None)),
            variables=choices.of((None, {name: choices.of(VARIABLES) for name in _variables(nodes)})),
            labels=choices.of((None, {"n": reference("input.n"), "no": Literal(value=None)})),
        )
    )


def _variables(nodes: Sequence[Node]) -> list[str]:
    """What set nodes set, those in bodies included."""
    inner = [name for node in nodes if node.body is not None for name in _variables([*node.body.nodes.values()])]
    return [*(name for node in nodes for name in node.values), *inner]


def _graph(
    choices: Choices, most_nodes: int, depth: int, *, simple: bool, loops: int = 0, around: tuple[NodeType, ...] = ()
) -> tuple[list[Node], list[Edge]]:
    """Nodes and edges of the workflow itself, or of a body that lies so many deep, in maps and repeats."""
    types = [choices.of(_TYPES) for _ in range(choices.whole(1, most_nodes))]
    types[:loops] = [choices.of(_LOOPS) for _ in types[:loops]]
    if simple:
        types = [NodeType.CALL if each in (NodeType.FINISH, NodeType.WAIT_FOR_EVENT) else each for each in types]
    if NodeType.MAP in around:
        types = [NodeType.CALL if each is NodeType.SET else each for each in types]
    if depth == MOST_NESTING:
        types = [NodeType.CALL if each in _LOOPS else each for each in types]
    names = [f"{chr(97 + place)}{depth or ''}_{each.value}" for place, each in enumerate(types)]
    edges = _edges(choices, names, types)
    nodes: list[Node] = []
    for name, type_ in zip(names, types, strict=True):
        incoming = [each.source for each in edges if each.target == name]
        if type_ in _LOOPS:
            nodes.append(_loop(choices, name, type_, incoming, depth, simple=simple, around=around))
        else:
            nodes.append(_node(choices, name, type_, incoming, depth, simple=simple, around=around))
    return _number_cases(choices, nodes, edges)


def _finally(choices: Choices, *, simple: bool) -> list[Node]:
    """Now and then, what runs at the end."""
    if choices.of((True, True, False)):
        return []
    inner, edges = _graph(choices, MOST_IN_A_BODY, MOST_NESTING - 1, simple=True)
    seen: list[Template | None] = [computed("outcome.state + ' ' + string(size(outcome.nodes))"), reference("outcome")]
    inner[0] = replace(inner[0], input=choices.of(seen)) if inner[0].type in WORKER_NODES else inner[0]
    return [
        Node(
            id=FINALLY,
            type=NodeType.REPEAT,
            body=plan(inner, edges),
            optional=True,
            max_iterations=1,
            ends_when=expression("true"),
            timeouts=TimeOuts(total_ms=None if simple else choices.of((None, 900))),
        )
    ]


def _loop(
    choices: Choices,
    name: str,
    type_: NodeType,
    incoming: list[str],
    depth: int,
    *,
    simple: bool,
    around: tuple[NodeType, ...],
) -> Node:
    inner, edges = _graph(choices, MOST_IN_A_BODY, depth + 1, simple=simple, around=(*around, type_))
    first = inner[0].id
    if depth + 1 < MOST_NESTING:  # which finally lies in: nothing is undone there
        inner = _with_undos(choices, inner)
    outputs: list[Template | None] = [None, None, reference(f"nodes.{first}.output"), computed("index + 1")]
    node = Node(
        id=name,
        type=type_,
        body=plan(inner, edges),
        output=choices.of(outputs),
        optional=choices.of((False, False, False, True)),
        timeouts=TimeOuts(total_ms=None if simple else choices.of((None, None, 900))),
    )
    if type_ is NodeType.MAP:
        maps = [reference(f"nodes.{source}.output") for source in incoming if source.endswith("_map")]
        lists: list[Template] = [reference("input.list"), Literal(value=[]), Literal(value=[1, {"n": 1}, 3]), *maps]
        lists += [reference("input"), reference("input.n")]
        return replace(
            node,
            over=choices.of(lists),
            where=choices.of((None, None, *map(expression, (HOLDS, FAILS, FAULTY, "index == 1", "item != 1")))),
            max_concurrency=choices.whole(1, 3),
            tolerate=choices.of((0, 0, 1, 3)),
            tolerate_percent=choices.of((0, 0, 50)),
        )
    condition = choices.of(("ends", "ends", "while"))
    return replace(
        node,
        ends_when=expression(choices.of((HOLDS, FAILS, FAULTY, "index == 1"))) if condition == "ends" else None,
        again_while=expression(choices.of((HOLDS, FAILS, FAULTY, "index < 2"))) if condition == "while" else None,
        max_iterations=choices.whole(1, 3),
        wait_ms=choices.of((None, None, 300)),
        keep_last=choices.of((None, None, 1)) if all(_may_be_dropped(each) for each in inner) else None,
    )


def _edges(choices: Choices, names: list[str], types: list[NodeType]) -> list[Edge]:
    edges: list[Edge] = []
    for place, (name, type_) in enumerate(zip(names, types, strict=True)):
        if type_ is NodeType.FINISH or place == len(names) - 1:
            continue
        seen: set[object] = set()
        for _ in range(choices.of((0, 1, 1, 2, 2, 3, 4))):
            made = _edge(choices, name, type_, choices.of(names[place + 1 :]))
            key = (made.target, made.on, made.errors, made.when.source if made.when else None)
            if key not in seen:
                seen.add(key)
                edges.append(made)
    return edges


def _edge(choices: Choices, source: str, type_: NodeType, target: str) -> Edge:
    kinds = [*[EdgeKind.SUCCESS] * 4, EdgeKind.FAILURE, EdgeKind.FAILURE, EdgeKind.ALWAYS]
    if type_ in WORKER_NODES or type_ in _LOOPS or type_ in (NodeType.WAIT_FOR_EVENT, NodeType.SUBFLOW):
        kinds.append(EdgeKind.TIMEOUT)
    kind = choices.of(kinds)
    if kind is EdgeKind.SUCCESS and type_ is NodeType.SWITCH:
        return edge(source, target)  # a case
    condition = choices.of(CONDITIONS)
    errors: tuple[str, ...] = ()
    if kind is EdgeKind.FAILURE:
        errors = choices.of(((), (), ("Boom",), ("Bust", "timeout"), ("ExpressionError",)))
        condition = choices.of((*CONDITIONS, "error.type == 'Boom'"))
    return edge(source, target, kind, errors=errors, when=condition)


def _node(  # noqa: PLR0911 - one for each type
    choices: Choices,
    name: str,
    type_: NodeType,
    incoming: list[str],
    depth: int,
    *,
    simple: bool,
    around: tuple[NodeType, ...],
) -> Node:
    node = Node(id=name, type=type_)
    match type_:
        case NodeType.CALL | NodeType.HTTP | NodeType.PYTHON:
            return _worker_node(choices, node, incoming, simple=simple, around=around)
        case NodeType.JOIN if incoming:
            need = choices.of((None, 1, 1, 2, 2, 3))
            need = None if need is None else min(need, len(incoming))
            return replace(node, need=need, cancels_rest=need is not None and choices.of((True, False)))
        case NodeType.JOIN if depth:
            return replace(_worker_node(choices, node, incoming, simple=simple, around=around), type=NodeType.CALL)
        case NodeType.JOIN | NodeType.SET:
            given = choices.of((computed("input.n + 1"), reference("input.list"), Literal(value="v")))
            return replace(node, type=NodeType.SET, values={f"v_{name}": given})
        case NodeType.FINISH:
            output = choices.of((None, reference("input"), reference("input.nothing")))
            outcome = choices.of(("succeeded", "failed"))
            message = choices.of((None, reference("input.list"), computed("'n is ' + string(input.n)")))
            return replace(node, outcome=outcome, output=output, message=message if outcome == "failed" else None)
        case NodeType.WAIT:
            return replace(node, **choices.of(_WAITS))
        case NodeType.SUBFLOW:
            return replace(
                node,
                child_workflow="other",
                child_version=choices.of((0, 0, 3)),
                labels=choices.of(({}, {"n": reference("input.n")}, {"who": reference("input.nothing")})),
                key=choices.of((None, reference("input.n"), Literal(value=None))),
                output_schema=choices.of(SCHEMAS),
                input=choices.of(_inputs(incoming) + _inside(around)),
                optional=choices.of((False, False, True)),
                detach=choices.of((False, False, False, True)),
                retry=RetryPolicy(max_attempts=choices.whole(1, 2), initial_ms=100),
                timeouts=TimeOuts(total_ms=None if simple else choices.of((None, 1_500))),
            )
        case NodeType.WAIT_FOR_EVENT:
            total = choices.of((None, 800))
            count = choices.of((None, None, 2))
            named = replace(
                node,
                event=choices.of(SIGNALS),
                timeouts=TimeOuts(total_ms=total),
                count=count,
                payload_schema=choices.of((None, None, {"type": "object"})),
                reuse=choices.of((False, True)),
                filter=choices.of((None, None, expression("payload.by == 'somebody'"))),
            )
            spelt = choices.of((None, None, "index == 0 ? 'approval' : 'paid'")) if around else None
            return named if spelt is None else replace(named, event="", event_name=computed(spelt))
        case _:
            return node


def _worker_node(
    choices: Choices, node: Node, incoming: list[str], *, simple: bool, around: tuple[NodeType, ...]
) -> Node:
    attempt_ms = choices.of((None, None, 600, 2_500))
    is_short, is_long = attempt_ms == 600, attempt_ms == 2_500  # what could not come is a fault
    timeouts = TimeOuts(
        attempt_ms=attempt_ms,
        queue_ms=choices.of((None, None, 700)),
        total_ms=None if is_long else choices.of((None, None, 1_500)),
        heartbeat_ms=None if is_short else choices.of((None, None, 1_000)),
        stall_ms=None if is_short else choices.of((None, None, 1_200)),
    )
    return replace(
        node,
        handler="do.it",
        queue=choices.of(("default", "other")),
        input=_input(choices, node.type, choices.of(_inputs(incoming) + _inside(around))),
        output_schema=choices.of(SCHEMAS),
        optional=choices.of((False, False, False, True)),
        lease_ms=1_000,
        retry=_retry(choices),
        timeouts=TimeOuts() if simple else timeouts,
    )


def _input(choices: Choices, type_: NodeType, given: Template | None) -> Template | None:
    """As the compiler makes it of what stands in the nodes of a type."""
    given = given or Literal(value=None)
    if type_ is NodeType.PYTHON:
        return Object(entries={"code": Literal(value="def run(input): return 1"), "input": given})
    if type_ is not NodeType.HTTP:
        return given
    url = Text(parts=("https://example.com/", reference("input.n")))
    more: dict[str, Template] = {
        "headers": Literal(value={"accept": "text/plain"}),
        "query": Object(entries={"n": reference("input.n")}),
        "body": given,
        "expect": Literal(value=[200, 409]),
        "timeout": Literal(value=2.5),
    }
    named = choices.of(tuple(more))
    return Object(entries={"method": Literal(value="GET"), "url": url, named: more[named]})


def _tries(choices: Choices) -> _Tries:
    """How the pauses grow."""
    return {
        "backoff": choices.of(tuple(Backoff)),
        "factor": choices.of((1.0, 2.0, 100.0)),
        "max_ms": choices.of((60_000, 150)),
        "jitter": choices.of((0.2, 0.0, 1.0)),
    }


def _retry(choices: Choices) -> RetryPolicy:
    rule = RetryRule(
        errors=choices.of((("Boom",), ("timeout", "Bust"))),
        max_attempts=choices.whole(1, 3),
        initial_ms=50,
        **_tries(choices),
    )
    return RetryPolicy(
        max_attempts=choices.whole(1, 3),
        initial_ms=100,
        **_tries(choices),
        max_losses=choices.whole(1, 2),
        rules=choices.of(((), (), (rule,))),
        budget_ms=choices.of((None, None, 400)),
    )


def _may_be_dropped(node: Node) -> bool:
    """Its rows are not needed once its iteration is over."""
    return node.body is None and node.compensate is None and node.count is None


def _with_undos(choices: Choices, nodes: list[Node]) -> list[Node]:
    return [each for node in nodes for each in _with_undo(choices, node)]


def _with_undo(choices: Choices, node: Node) -> list[Node]:
    """A node, and now and then one that undoes it."""
    if node.type not in RETRYABLE_NODES or choices.of((True, True, False)):
        return [node]
    undo = Node(
        id=f"undo_{node.id}",
        type=NodeType.CALL,
        handler="undo.it",
        queue="default",
        input=choices.of((None, computed(f"nodes.{node.id}.state"), reference("input.nothing"))),
        lease_ms=1_000,
        retry=RetryPolicy(max_attempts=choices.whole(1, 2), initial_ms=100, max_losses=1),
    )
    return [replace(node, compensate=undo.id), undo]


_WAITS: Sequence[_Wait] = (
    {"wait_ms": 500},
    {"wait_ms": 500},
    {"wait": computed("string(input.n) + 's'")},
    {"until": Literal(value="2030-01-01T00:00:01Z")},
    {"until": computed("'2030-01-01T01:00:0' + string(input.n)"), "zone": Literal(value="Europe/Vienna")},
)


def _inside(around: tuple[NodeType, ...]) -> list[Template | None]:
    """What is in scope in maps and repeats only."""
    if not around:
        return []
    item = reference("item" if NodeType.MAP in around else "index")
    return [reference("index"), item, computed("index + 1"), computed("input.list[index]")]


def _inputs(incoming: list[str]) -> list[Template | None]:
    inputs: list[Template | None] = [None, reference("input"), computed("input.n + 1"), reference("input.list")]
    inputs += [reference(f"nodes.{source}.output") for source in incoming]
    inputs += [computed(f"nodes.{source}.state") for source in incoming]
    for source in (each for each in incoming if each.endswith("_map")):
        inputs += [computed(f"nodes.{source}.output[0]"), computed(f"size(nodes.{source}.output)")]
    return inputs


def _number_cases(choices: Choices, nodes: list[Node], edges: list[Edge]) -> tuple[list[Node], list[Edge]]:
    """Case edges of a switch follow the written ones; a case or the default goes to each."""
    switches = {node.id for node in nodes if node.type is NodeType.SWITCH}
    cases = [each for each in edges if each.source in switches and each.on is EdgeKind.SUCCESS]
    written = [each for each in edges if each not in cases]
    made: list[Node] = []
    for node in nodes:
        own = [len(written) + place for place, each in enumerate(cases) if each.source == node.id]
        if node.id not in switches:
            made.append(node)
            continue
        if not own:  # it has nowhere to go
            made.append(Node(id=node.id, type=NodeType.CALL, handler="do.it", queue="default", lease_ms=1_000))
            continue
        default = own[-1] if len(own) > 1 and choices.of((False, True)) else None
        conditional = own[:-1] if default is not None else own
        numbered = [(expression(choices.of((HOLDS, FAILS, FAILS, FAULTY))), index) for index in conditional]
        made.append(
            replace(node, cases=tuple(Case(when=when, edge=index) for when, index in numbered), default_edge=default)
        )
    return made, [*written, *cases]


def show(graph: Graph) -> str:
    """A workflow in a few lines, for whoever reads a failure."""
    lines = [f"deadline {graph.plan.deadline_ms}, {graph.plan.on_failure}"]
    for node in graph.plan.nodes.values():
        if node.body is not None:
            shown = show(Graph(node.body, graph)).replace("\n", "\n    ")
            lines.append(
                f"{node.id} over {node.over} where {node.where} {node.max_concurrency} tolerate {node.tolerate} "
                f"{node.max_iterations} "
                f"{node.ends_when} {node.again_while} {node.wait_ms} {node.keep_last} {node.output}\n    {shown}"
            )
            continue
        facts = [f"need {node.need}{' cancels the rest' * node.cancels_rest}"] if node.type is NodeType.JOIN else []
        facts += ["optional"] if node.optional else []
        facts += [f"cases {[(case.when.source, case.edge) for case in node.cases]}"] if node.cases else []
        lines.append(f"{node.id} {' '.join(facts)} {node.retry if node.type in WORKER_NODES else ''} {node.timeouts}")
    for each in graph.plan.edges:
        when = each.when.source if each.when else ""
        lines.append(f"{each.index}: {each.source} -> {each.target} on {each.on} {each.errors or ''} {when}")
    return "\n".join(lines)
