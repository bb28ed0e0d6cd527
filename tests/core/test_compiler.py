"""What sources compile to, which references need a guard, and that any text at all gives a plan or faults."""

import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.coordinator.core.compiler import compile_workflow, reference
from headway.coordinator.core.plan import (
    EdgeKind,
    Expression,
    Literal,
    Node,
    NodeType,
    Object,
    OnFailure,
    Place,
    Plan,
    Reference,
    RetryPolicy,
    Text,
    TimeOuts,
)
from headway.coordinator.core.plan_codec import decode_plan, encode_plan

DOCS = Path(__file__).parents[2] / "docs"
WORKER = "{type: call, handler: h}"


def compiled(source: str) -> Plan:
    result = compile_workflow(source)
    assert result.plan is not None, "\n".join(str(fault) for fault in result.faults)
    return result.plan


def workflow(nodes: dict[str, str], edges: str = "[]") -> str:
    lines = "".join(f"  {name}: {node}\n" for name, node in nodes.items())
    return f"workflow: w\nnodes:\n{lines}edges: {edges}\n"


def reads(template: str) -> str:
    return f"{{type: call, handler: h, input: '${{{template}}}'}}"


def example() -> str:
    page = (DOCS / "language.md").read_text(encoding="utf-8")
    return page.partition("```yaml\n")[2].partition("```")[0]


def test_the_example_of_the_documentation_compiles() -> None:
    plan = compiled(example())

    assert compile_workflow(example()).faults == ()
    assert list(plan.nodes) == ["reserve", "risk", "gate", "approve", "ship", "sold_out", "refund"]
    reserve = plan.nodes["reserve"]
    assert (reserve.handler, reserve.queue) == ("headway.http", "http")
    assert reserve.retry == RetryPolicy(max_attempts=5, initial_ms=1_000, factor=2, max_ms=60_000)
    assert reserve.timeouts == TimeOuts(attempt_ms=30_000)
    assert reserve.input == Object(
        entries={
            "method": Literal(value="POST"),
            "url": Literal(value="https://stock.example.com/reserve"),
            "body": Object(
                entries={"order": Reference(path=("input", "order_id"), place=Place(line=4, column=109))},
            ),
        }
    )
    assert plan.nodes["approve"].timeouts.total_ms == 172_800_000
    assert plan.input_schema == {"type": "object", "required": ["order_id", "amount"]}


def test_case_edges_follow_the_written_ones() -> None:
    plan = compiled(example())

    gate = plan.nodes["gate"]
    assert [(case.when.source, case.edge) for case in gate.cases] == [("nodes.risk.output.score > 0.8", 5)]
    assert gate.default_edge == 6
    assert [(edge.index, edge.source, edge.target) for edge in plan.edges[5:]] == [
        (5, "gate", "approve"),
        (6, "gate", "ship"),
    ]
    assert plan.outgoing["gate"] == (5, 6)
    assert plan.incoming["ship"] == (2, 6)
    assert plan.incoming["reserve"] == ()


def test_cases_to_one_target_share_an_edge() -> None:
    source = workflow(
        {
            "s": "{type: switch, cases: [{when: input.x, to: a}, {when: input.y, to: a}], default: a}",
            "t": "{type: switch, cases: [{when: input.x, to: a}], default: none}",
            "a": WORKER,
        }
    )

    plan = compiled(source)

    assert [case.edge for case in plan.nodes["s"].cases] == [0, 0]
    assert plan.nodes["s"].default_edge == 0
    assert plan.nodes["t"].default_edge is None
    assert len(plan.edges) == 2


def test_failure_edges_know_what_they_reach() -> None:
    source = workflow(
        {"primary": WORKER, "fallback": WORKER, "use": WORKER},
        "[[primary, use], [fallback, use], {from: primary, on: failure, errors: [timeout, Broken], to: fallback}]",
    )

    success, _, failure = compiled(source).edges

    assert success.reach == frozenset()
    assert (failure.on, failure.errors, failure.reach) == (
        EdgeKind.FAILURE,
        ("timeout", "Broken"),
        frozenset({"fallback", "use"}),
    )


def test_every_kind_of_node_becomes_what_the_plan_says() -> None:
    source = """
workflow: w
deadline: 1h30m
on_failure: drain
nodes:
  c: {type: call, handler: a.b, input: [1, "x ${input.y}"], lease: 10s, optional: true, timeout: 1m}
  p: {type: python, code: "def run(input): return '${no template}'"}
  j: {type: join, need: any}
  k: {type: join, need: 2}
  v: {type: set, values: {total: "${input.a + 1}", word: on, date: 2030-01-31, number: 1_000}}
  d: {type: wait, duration: 500ms}
  u: {type: wait, until: "${input.at}"}
  e: {type: wait_for_event, event: paid}
  f: {type: finish, outcome: failed, output: null, message: "no: $${x}"}
edges:
  - [c, j, v, f]
  - [p, j]
  - [c, k]
  - [p, k]
"""

    plan = compiled(source)

    nodes = plan.nodes
    assert (plan.deadline_ms, plan.on_failure) == (5_400_000, OnFailure.DRAIN)
    assert (nodes["c"].queue, nodes["c"].lease_ms, nodes["c"].optional) == ("default", 10_000, True)
    assert nodes["c"].timeouts == TimeOuts(total_ms=60_000)
    assert nodes["p"].input == Literal(value={"code": "def run(input): return '${no template}'", "input": None})
    assert (nodes["j"].need, nodes["k"].need) == (1, 2)
    assert nodes["v"].values["word"] == Literal(value="on")
    assert nodes["v"].values["date"] == Literal(value="2030-01-31")
    assert nodes["v"].values["number"] == Literal(value="1_000")
    assert nodes["d"].wait_ms == 500
    assert nodes["u"].until == Reference(path=("input", "at"), place=Place(line=12, column=29))
    assert nodes["e"] == Node(id="e", type=NodeType.WAIT_FOR_EVENT, event="paid")
    assert (nodes["f"].outcome, nodes["f"].output) == ("failed", Literal(value=None))
    assert nodes["f"].message == Literal(value="no: ${x}")


def template(text: str) -> object:
    source = "workflow: w\nnodes:\n  a: {type: call, handler: h, input: " + orjson.dumps(text).decode() + "}\n"
    return compiled(source).nodes["a"].input


def test_texts_become_templates() -> None:
    place = Place(line=3, column=41)
    amount = Reference(path=("input", "a"), place=place)

    assert template("plain") == Literal(value="plain")
    assert template("${input.a}") == amount
    assert template("${input.a}!") == Text(parts=(amount, "!"))
    assert template("$${input.a} and $5") == Literal(value="${input.a} and $5")
    assert template("$$${input.a}") == Literal(value="$${input.a}")
    assert template("it's ${input.a}, isn't it") == Text(
        parts=("it's ", Reference(path=("input", "a"), place=Place(line=3, column=46)), ", isn't it")
    )


def test_braces_and_quotes_within_an_expression_belong_to_it() -> None:
    found: Any = template('${ {"a}": "}"}["a}"] + input.b }')

    assert found.expression == Expression(
        source='{"a}": "}"}["a}"] + input.b', reads=(("input", "b"),), place=Place(line=3, column=38)
    )


def test_anchors_stand_for_what_they_name() -> None:
    plan = compiled("workflow: w\nnodes:\n  a: &worker {type: call, handler: h}\n  b: *worker\nedges: [[a, b]]\n")

    assert plan.nodes["b"].handler == "h"


def test_keys_of_ones_own_stand_at_the_top_and_say_nothing() -> None:
    own = "x-retry: &retry {max_attempts: 7}\nx-any: [{type: nonsense, when: '${'}]\n"
    plan = compiled(f"workflow: w\n{own}nodes:\n  a: {{type: call, handler: h, retry: *retry}}\n")
    within = compile_workflow("workflow: w\nnodes:\n  a: {type: call, handler: h, x-a: 1}\n").faults
    nearly = compile_workflow("workflow: w\nbase: 1\nnodes:\n  a: {type: call, handler: h}\n").faults

    assert plan.nodes["a"].retry.max_attempts == 7
    assert [fault.code.value for fault in (*within, *nearly)] == ["unknown_key", "unknown_key"]
    assert nearly[0].remedy.endswith("; a key of your own begins with x-")


# Which references need a guard

NOT_NULL = "has(nodes.a.output) == true && nodes.a.output != null"

SURE = [
    ("a chain", {"a": WORKER, "b": WORKER, "c": reads("nodes.a.output")}, "[[a, b, c]]"),
    (
        "a fork and its join",
        {"a": WORKER, "b": WORKER, "c": reads("nodes.a.output + nodes.b.output")},
        "[[a, c], [b, c]]",
    ),
    (
        "before a switch",
        {
            "a": WORKER,
            "s": "{type: switch, cases: [{when: input.x, to: b}], default: c}",
            "b": reads("nodes.a.output"),
            "c": WORKER,
            "d": reads("nodes.a.output"),
        },
        "[[a, s], [b, d], [c, d]]",
    ),
    (
        "behind a switch that always goes somewhere",
        {
            "s": "{type: switch, cases: [{when: input.x, to: b}], default: c}",
            "b": WORKER,
            "c": WORKER,
            "d": WORKER,
            "x": WORKER,
            "e": reads("nodes.d.output"),
        },
        "[[b, d, e], [c, d], [x, e]]",
    ),
    (
        "behind a failure that is handled elsewhere",
        {"a": WORKER, "b": WORKER, "c": reads("nodes.a.output + nodes.b.output"), "h": WORKER},
        "[[a, c], [b, c], {from: a, on: failure, to: h}]",
    ),
    (
        "behind primary or fallback",
        {"p": WORKER, "f": WORKER, "u": WORKER, "v": reads("nodes.u.output")},
        "[[p, u, v], [f, u], {from: p, on: failure, to: f}]",
    ),
    (
        "a join's own output",
        {"a": WORKER, "b": WORKER, "j": "{type: join, need: any}", "c": reads("nodes.j.output")},
        "[[a, j, c], [b, j]]",
    ),
    (
        "guarded by has",
        {"a": WORKER, "b": reads("has(nodes.a.output) ? nodes.a.output : 1")},
        "[{from: a, on: failure, to: b}]",
    ),
    (
        "guarded by the state",
        {"a": WORKER, "b": reads('nodes.a.state == "failed" || nodes.a.output')},
        "[{from: a, on: always, to: b}]",
    ),
    (
        "behind an edge that asks whether it is there",
        {"a": WORKER, "j": WORKER, "b": reads("nodes.a.output.x"), "c": reads("nodes.a.output")},
        "[{from: a, on: always, to: j}, {from: j, to: b, when: has(nodes.a.output)}, [b, c]]",
    ),
    (
        "behind a case that asks whether it is there",
        {
            "a": WORKER,
            "s": "{type: switch, cases: [{when: input.x && has(nodes.a.output.id), to: b}], default: none}",
            "b": reads("nodes.a.output.id"),
        },
        "[{from: a, on: always, to: s}]",
    ),
    (
        "behind the default, when a case asks whether it is missing",
        {
            "a": WORKER,
            "s": "{type: switch, cases: [{when: '!has(nodes.a.output)', to: n}, {when: nodes.a.output.y == 1, to: b}], "
            "default: c}",
            "n": WORKER,
            "b": reads("nodes.a.output"),
            "c": reads("nodes.a.output"),
            "d": WORKER,
        },
        "[{from: a, on: always, to: s}, [b, d], [c, d]]",
    ),
    (
        "behind its state",
        {"a": WORKER, "j": WORKER, "b": reads("nodes.a.output")},
        "[{from: a, on: always, to: j}, {from: j, to: b, when: nodes.a.state == 'succeeded'}]",
    ),
    (
        "behind what is not null",
        {"a": WORKER, "j": WORKER, "b": reads("nodes.a.output")},
        f"[{{from: a, on: always, to: j}}, {{from: j, to: b, when: '{NOT_NULL}'}}]",
    ),
    (
        "behind a choice of which one way cannot hold",
        {"a": WORKER, "j": WORKER, "b": reads("nodes.a.output")},
        "[{from: a, on: always, to: j}, {from: j, to: b, when: 'has(nodes.a.output) ? nodes.a.output.x : false'}]",
    ),
    (
        "on every way, by different things",
        {"a": WORKER, "j": WORKER, "k": WORKER, "b": reads("nodes.a.output")},
        "[{from: a, on: always, to: j}, {from: j, to: k, when: has(nodes.a.output)}, [a, b], [k, b]]",
    ),
    (
        "behind a join of all branches, one of which tells",
        {
            "a": WORKER,
            "s": WORKER,
            "b": WORKER,
            "c": WORKER,
            "j": "{type: join, need: 2}",
            "d": reads("nodes.a.output"),
        },
        "[{from: a, on: always, to: s}, {from: s, to: b, when: has(nodes.a.output)}, [s, c, j], [b, j, d]]",
    ),
    (
        "in a body, by what is told before it",
        {
            "a": WORKER,
            "s": WORKER,
            "m": "{type: map, over: [1], body: " + reads("nodes.a.output") + "}",
        },
        "[{from: a, on: always, to: s}, {from: s, to: m, when: has(nodes.a.output)}]",
    ),
    (
        "in a body, by a condition in it",
        {
            "a": WORKER,
            "m": "{type: map, over: [1], body: {nodes: {s: {type: switch, cases: [{when: has(nodes.a.output), to: b}], "
            "default: none}, b: " + reads("nodes.a.output") + "}}}",
        },
        "[{from: a, on: always, to: m}]",
    ),
    (
        "in a body within a body, by what is told between them",
        {
            "a": WORKER,
            "m": "{type: map, over: [1], body: {nodes: {s: {type: switch, cases: [{when: has(nodes.a.output), to: b}], "
            "default: none}, b: {type: map, over: [1], body: " + reads("nodes.a.output") + "}}}}",
        },
        "[{from: a, on: always, to: m}]",
    ),
    (
        "a variable that was asked for before the body",
        {
            "s": "{type: switch, cases: [{when: input.x, to: b}], default: c}",
            "b": "{type: set, values: {x: 1}}",
            "c": WORKER,
            "d": WORKER,
            "e": "{type: map, over: [1], body: " + reads("vars.x") + "}",
        },
        "[[b, d], [c, d], {from: d, to: e, when: has(vars.x)}]",
    ),
    (
        "a variable that was asked for",
        {
            "s": "{type: switch, cases: [{when: input.x, to: b}], default: c}",
            "b": "{type: set, values: {x: 1}}",
            "c": WORKER,
            "d": WORKER,
            "e": reads("vars.x"),
        },
        "[[b, d], [c, d], {from: d, to: e, when: has(vars.x) && vars.x > 1}]",
    ),
    (
        "a variable that a repeat asks for before each iteration",
        {
            "r": "{type: repeat, while: 'has(vars.x)', max_iterations: 2, body: {nodes: {a: "
            + reads("vars.x")
            + ", b: {type: set, values: {x: 1}}}, edges: [[a, b]]}}",
            "s": "{type: set, values: {x: 1}}",
        },
        "[{from: s, on: always, to: r}]",
    ),
    (
        "an error that was asked for",
        {"a": WORKER, "b": reads("error.message")},
        "[{from: a, on: always, to: b, when: has(error.class)}]",
    ),
    ("only the state", {"a": WORKER, "b": reads("nodes.a.state")}, "[{from: a, on: always, to: b}]"),
    ("a variable", {"a": "{type: set, values: {x: 1}}", "b": reads("vars.x")}, "[[a, b]]"),
]
UNSURE = [
    (
        "one way of a switch",
        {
            "s": "{type: switch, cases: [{when: input.x, to: b}], default: c}",
            "b": WORKER,
            "c": WORKER,
            "d": reads("nodes.b.output"),
        },
        "[[b, d], [c, d]]",
    ),
    (
        "behind a switch that may go nowhere",
        {
            "s": "{type: switch, cases: [{when: input.x, to: b}], default: none}",
            "b": WORKER,
            "x": WORKER,
            "d": reads("nodes.b.output"),
        },
        "[[b, d], [x, d]]",
    ),
    (
        "behind a condition",
        {"a": WORKER, "b": WORKER, "x": WORKER, "d": reads("nodes.b.output")},
        "[{from: a, to: b, when: input.x}, [b, d], [x, d]]",
    ),
    (
        "a primary that has a fallback",
        {"p": WORKER, "f": WORKER, "u": reads("nodes.p.output")},
        "[[p, u], [f, u], {from: p, on: failure, to: f}]",
    ),
    (
        "its fallback",
        {"p": WORKER, "f": WORKER, "u": reads("nodes.f.output")},
        "[[p, u], [f, u], {from: p, on: failure, to: f}]",
    ),
    (
        "a branch of a join of any",
        {"a": WORKER, "b": WORKER, "j": "{type: join, need: any}", "c": reads("nodes.a.output")},
        "[[a, j, c], [b, j]]",
    ),
    (
        "told on one way of two",
        {"a": WORKER, "j": WORKER, "k": WORKER, "b": reads("nodes.a.output")},
        "[{from: a, on: always, to: j}, {from: j, to: k, when: has(nodes.a.output)}, [j, b], [k, b]]",
    ),
    (
        "told by one side of an or",
        {"a": WORKER, "j": WORKER, "b": reads("nodes.a.output")},
        "[{from: a, on: always, to: j}, {from: j, to: b, when: has(nodes.a.output) || input.x}]",
    ),
    (
        "told not to be there",
        {"a": WORKER, "j": WORKER, "b": reads("nodes.a.output")},
        "[{from: a, on: always, to: j}, {from: j, to: b, when: '!has(nodes.a.output)'}]",
    ),
    (
        "told by a branch of a join of any",
        {
            "a": WORKER,
            "s": WORKER,
            "b": WORKER,
            "c": WORKER,
            "j": "{type: join, need: any}",
            "d": reads("nodes.a.output"),
        },
        "[{from: a, on: always, to: s}, {from: s, to: b, when: has(nodes.a.output)}, [s, c, j], [b, j, d]]",
    ),
    (
        "told of a failure further up",
        {"a": WORKER, "b": WORKER, "c": reads("error.message")},
        "[{from: a, on: always, to: b, when: has(error.class)}, {from: b, on: always, to: c}]",
    ),
    (
        "told by a later case",
        {
            "a": WORKER,
            "s": "{type: switch, cases: [{when: input.x, to: b}, {when: has(nodes.a.output), to: c}], default: none}",
            "b": reads("nodes.a.output"),
            "c": WORKER,
        },
        "[{from: a, on: always, to: s}]",
    ),
    (
        "two cases that lead to one node",
        {
            "a": WORKER,
            "s": "{type: switch, cases: [{when: has(nodes.a.output), to: b}, {when: input.x, to: b}], default: none}",
            "b": reads("nodes.a.output"),
        },
        "[{from: a, on: always, to: s}]",
    ),
    ("behind always", {"a": WORKER, "b": reads("nodes.a.output")}, "[{from: a, on: always, to: b}]"),
    (
        "a variable of one way",
        {
            "s": "{type: switch, cases: [{when: input.x, to: b}], default: c}",
            "b": "{type: set, values: {x: 1}}",
            "c": WORKER,
            "d": reads("vars.x"),
        },
        "[[b, d], [c, d]]",
    ),
]


@pytest.mark.parametrize(("nodes", "edges"), [row[1:] for row in SURE], ids=[row[0] for row in SURE])
def test_what_is_surely_there_needs_no_guard(nodes: dict[str, str], edges: str) -> None:
    compiled(workflow(nodes, edges))


@pytest.mark.parametrize(("nodes", "edges"), [row[1:] for row in UNSURE], ids=[row[0] for row in UNSURE])
def test_what_may_be_missing_needs_a_guard(nodes: dict[str, str], edges: str) -> None:
    codes = {fault.code.value for fault in compile_workflow(workflow(nodes, edges)).faults if not fault.warning}

    assert codes == {"may_be_missing"}


# Any text, any graph

WORDS = ["workflow", "nodes", "edges", "type", "call", "switch", "join", "when", "to", "from", "on", "need", "cases"]
YAML_PIECES = st.sampled_from(
    [
        *WORDS,
        *(
            ": ",
            "\n",
            "  ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ", ",
            '"',
            "'",
            "|\n",
            ">",
            "&a ",
            "*a",
            "!x ",
            "? ",
            "#",
            "%",
            "@",
            "\t",
        ),
        *(
            "${",
            "}",
            "$${",
            "input.x",
            "nodes.a.output",
            "a",
            "b",
            "1",
            "1.5",
            "30s",
            "null",
            "true",
            "\\u",
            "\0",
            "é",
            "---\n",
        ),
    ]
)


@given(text=st.lists(YAML_PIECES, max_size=30).map("".join) | st.text(max_size=40))
def test_any_text_gives_a_plan_or_faults(text: str) -> None:
    result = compile_workflow(text)

    assert (result.plan is None) == any(not fault.warning for fault in result.faults)
    assert all(fault.line >= 1 and fault.column >= 1 for fault in result.faults)


JSON_TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from([*WORDS, "a", "b", "30s", "${input.x", "${nodes.a.output}"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*WORDS, "a", "b", "input", "values", "timeout", "retry", "request", "code"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(nodes=JSON_TREES, edges=JSON_TREES, schema=JSON_TREES)
def test_any_tree_in_the_place_of_nodes_and_edges_gives_a_plan_or_faults(nodes: Any, edges: Any, schema: Any) -> None:
    source = orjson.dumps({"workflow": "w", "nodes": nodes, "edges": edges, "input_schema": schema}).decode()

    result = compile_workflow(source)

    assert (result.plan is None) == any(not fault.warning for fault in result.faults)


@st.composite
def sources(draw: st.DrawFn) -> str:
    """Valid graphs: edges lead from earlier nodes to later ones."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 8)))]
    nodes = {
        name: draw(st.sampled_from([WORKER, "{type: join, need: any}", f"{{type: set, values: {{x_{name}: 1}}}}"]))
        for name in names
    }
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12)) if pairs else []
    edges: list[str] = []
    for one, other in chosen:
        kind = draw(st.sampled_from([EdgeKind.SUCCESS, EdgeKind.FAILURE, EdgeKind.ALWAYS]))
        when = draw(st.sampled_from(["", ", when: input.x > 1"]))
        edges.append(f"{{from: {one}, to: {other}, on: {kind.value}{when}}}")
    reached = {other for _, other in chosen}
    nodes |= {name: WORKER for name in names if name not in reached}
    return workflow(nodes, f"[{', '.join(edges)}]")


@given(source=sources())
def test_any_graph_without_cycles_compiles_and_can_be_stored(source: str) -> None:
    plan = compiled(source)

    assert decode_plan(orjson.loads(orjson.dumps(encode_plan(plan)))) == plan
    assert [edge.index for edge in plan.edges] == list(range(len(plan.edges)))
    for node in plan.nodes:
        assert all(plan.edges[index].source == node for index in plan.outgoing[node])
        assert all(plan.edges[index].target == node for index in plan.incoming[node])
    for edge in plan.edges:
        assert (edge.target in edge.reach) == (edge.on in (EdgeKind.FAILURE, EdgeKind.TIMEOUT))


@settings(deadline=None)
@given(size=st.just(2_000))
def test_the_largest_workflow_compiles_in_seconds(size: int) -> None:
    nodes = {f"n{number}": reads(f"nodes.n{number - 1}.output") if number else WORKER for number in range(size)}
    began = time.monotonic()

    compiled(workflow(nodes, f"[[{', '.join(nodes)}]]"))

    assert time.monotonic() - began < 30  # measured: 2 s


def set_behind_failures(count: int) -> str:
    """One variable, set twice behind each of many failures that are handled."""
    setter = "{type: set, values: {x: 1}}"
    nodes = {f"{kind}{n}": WORKER if kind == "n" else setter for n in range(count) for kind in "nfg"}
    ways = "{{from: n{0}, on: failure, to: f{0}}}, [n{0}, g{0}], [f{0}, n{1}], [g{0}, n{1}]"
    return workflow(nodes, f"[{', '.join(ways.format(n, n + 1) for n in range(count - 1))}]")


def nearly_named(count: int) -> str:
    """Edges to nodes whose names are nearly those of others."""
    name = "node" * 10
    edges = ", ".join(f"[{name}{n}, {name}x{n}]" for n in range(count))
    return workflow({f"{name}{n}": WORKER for n in range(count)}, f"[{edges}]")


def expressions(count: int, behind: str) -> str:
    items = ", ".join(f"'${{input.x + {n}{behind}}}'" for n in range(count))
    return workflow({"a": f"{{type: call, handler: h, input: [{items}]}}"})


@pytest.mark.parametrize(
    "source",
    [
        set_behind_failures(300),
        nearly_named(600),
        expressions(12_000, ""),
        expressions(12_000, " +"),
        workflow({"a": WORKER, "b": WORKER}, f"[{', '.join(['[a, b]'] * 5_000)}]"),
    ],
    ids=["set behind failures", "nearly named", "expressions", "wrong expressions", "one edge again and again"],
)
def test_what_is_made_to_take_long_takes_seconds(source: str) -> None:
    began = time.process_time()

    compile_workflow(source)

    assert time.process_time() - began < 20  # measured: up to 4 s, most of it reading YAML


# The reference


def test_the_page_of_the_language_is_fresh() -> None:
    page = (DOCS / "language.md").read_text(encoding="utf-8")

    assert reference.fill(page) == page, "make docs"


def test_a_requests_own_timeout_reaches_the_handler_in_seconds() -> None:
    source = 'workflow: w\nnodes: {a: {type: http, request: {url: "http://h", timeout: 1500ms}}}\n'

    plan = compile_workflow(source).plan

    assert plan is not None
    request = plan.nodes["a"].input
    assert isinstance(request, Literal)
    assert request.value == {"method": "GET", "url": "http://h", "timeout": 1.5}


@pytest.mark.parametrize(
    ("one", "other"),
    [("input.x", "!input.x"), ("a == 1 || b", "!(a == 1 || b)"), ("x > 1", "x <= 1"), ("x == 1", "x != 1")],
)
def test_conditions_one_of_which_surely_holds_lead_on(one: str, other: str) -> None:
    one, other = (each.replace("x", "input.x").replace("input.input", "input") for each in (one, other))
    one, other = (each.replace("a ==", "input.a ==").replace("|| b", "|| input.b") for each in (one, other))
    source = workflow({"s": WORKER, "t": WORKER, "u": WORKER})
    edges = f"[{{from: s, to: t, when: '{one}'}}, {{from: s, to: u, when: '{other}'}}]"

    assert compile_workflow(source.replace("edges: []", f"edges: {edges}")).faults == ()


def test_one_variable_may_be_set_one_after_another_or_on_ways_of_which_only_one_is_taken() -> None:
    source = workflow(
        {
            "gate": "{type: switch, cases: [{when: input.x, to: big}], default: small}",
            "big": "{type: set, values: {size: 1}}",
            "small": "{type: set, values: {size: 2}}",
            "work": WORKER,
            "sorry": "{type: set, values: {size: 3}}",
            "both": "{type: set, values: {size: '${vars.size}'}}",
        },
        "[[big, work], [small, work], [work, both], {from: work, to: sorry, on: failure}]",
    )

    result = compile_workflow(source)

    assert [fault.code.value for fault in result.faults if "both set" in fault.message] == []
