"""What sources compile to."""

from pathlib import Path
from typing import Any

import orjson
import pytest

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
    Reference,
    RetryPolicy,
    Text,
    TimeOuts,
)
from tests.core.sources import WORKER, compiled, workflow

DOCS = Path(__file__).parents[2] / "docs"


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


def test_what_sets_a_variable_after_a_failure_is_apart_from_what_waits_for_the_success_and_for_more() -> None:
    one = "{type: set, values: {x: 1}}"
    nodes = {"a": WORKER, "b": WORKER, "good": one, "bad": one}

    apart = compile_workflow(workflow(nodes, "[[a, good], [b, good], {from: a, to: bad, on: failure}]"))
    together = compile_workflow(workflow(nodes, "[[b, good], {from: a, to: bad, on: failure}]"))

    assert [fault.code.value for fault in apart.faults] == []
    assert [fault.code.value for fault in together.faults] == ["unordered_set"]


def test_behind_an_edge_that_takes_some_failures_another_takes_the_rest() -> None:
    edges = "[{from: a, to: some, on: failure, errors: [Other]}, {from: a, to: rest, on: failure}]"
    source = workflow({"a": WORKER, "some": WORKER, "rest": WORKER}, edges)

    assert compile_workflow(source).faults == ()


@pytest.mark.parametrize(("on", "codes"), [("success", []), ("always", ["may_be_missing"])])
def test_the_condition_of_an_edge_may_read_what_its_source_gave_if_that_succeeded(on: str, codes: list[str]) -> None:
    edges = f"[{{from: a, to: b, on: {on}, when: nodes.a.output.x == 1}}, [a, c]]"
    source = workflow({"a": WORKER, "b": WORKER, "c": WORKER}, edges)

    assert [fault.code.value for fault in compile_workflow(source).faults if not fault.warning] == codes
