"""Which references are surely there when they are read, and which need a guard."""

import pytest

from headway.coordinator.core.compiler import compile_workflow
from tests.core.sources import WORKER, compiled, reads, workflow

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


WHILE = """workflow: example
nodes:
  asked: {type: call, handler: h}
  again: {type: repeat, while: "%s", max_iterations: 3, body: {type: call, handler: h}}
  end: {type: finish, output: "${%s}"}
edges: [[asked, again, end]]
"""
NEVER = "again gives null when its while does not hold for the first time"


@pytest.mark.parametrize("condition", ["false", "input.more", "nodes.asked.output > index", "last != null"])
def test_what_a_repeat_gives_that_may_never_go_round_is_read_behind_a_guard(condition: str) -> None:
    result = compile_workflow(WHILE % (condition, "nodes.again.output.x.y"))

    (fault,) = result.faults
    assert result.plan is not None
    assert (fault.warning, fault.code, fault.message) == (True, "may_be_missing", NEVER)
    assert (fault.line, fault.column) == (5, 34)
    assert fault.remedy == "guard it: has(nodes.again.output.x.y) ? nodes.again.output.x.y : null"


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("index < 3", "nodes.again.output.x"),
        ("last == null || last.more", "nodes.again.output.x"),
        ("true", "nodes.again.output.x"),
        ("input.more", "nodes.again.output"),
        ("input.more", "nodes.again.counts.total"),
        ("input.more", "has(nodes.again.output.x) ? nodes.again.output.x : null"),
        ("input.more", "nodes.again.state"),
    ],
)
def test_what_goes_round_in_any_case_or_is_read_behind_a_guard_is_not_warned_of(condition: str, read: str) -> None:
    assert compile_workflow(WHILE % (condition, read)).faults == ()
