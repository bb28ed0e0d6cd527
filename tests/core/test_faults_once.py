# ruff: noqa: E501 - what is said stands on one line
"""One cause, one fault, wherever it stands; and what is in scope is told as it is there."""

from __future__ import annotations

from itertools import product

import pytest

from headway.coordinator.core.compiler import Code, compile_workflow

WORKER = "{type: call, handler: h}"

# Keys that hold expressions, each with a workflow in which @ is the value: templates, and bare conditions.
TEMPLATES = {
    "input": "{type: call, handler: h, input: @}",
    "within input": "{type: call, handler: h, input: {deep: [@]}}",
    "input of python": "{type: python, code: 'def run(input): return 1', input: @}",
    "url": "{type: http, request: {url: @}}",
    "headers": "{type: http, request: {url: u, headers: @}}",
    "query": "{type: http, request: {url: u, query: @}}",
    "body": "{type: http, request: {url: u, body: @}}",
    "values": "{type: set, values: {v: @}}",
    "output": "{type: finish, output: @}",
    "message": "{type: finish, outcome: failed, message: @}",
    "duration": "{type: wait, duration: @}",
    "until": "{type: wait, until: @}",
    "zone": "{type: wait, until: '${input.at}', zone: @}",
    "event": "{type: wait_for_event, event: @}",
    "over": f"{{type: map, over: @, body: {WORKER}}}",
    "output of an item": f"{{type: map, over: [1], output: @, body: {WORKER}}}",
    "in the body of a map": "{type: map, over: [1], body: {type: call, handler: h, input: @}}",
    "output of an iteration": f"{{type: repeat, until: true, max_iterations: 2, output: @, body: {WORKER}}}",
    "input of a child": "{type: subflow, workflow: other, input: @}",
    "labels of a child": "{type: subflow, workflow: other, labels: {v: @}}",
}
CONDITIONS = {
    "filter": "{type: wait_for_event, event: e, filter: @}",
    "until": f"{{type: repeat, until: @, max_iterations: 2, body: {WORKER}}}",
    "while": f"{{type: repeat, while: @, max_iterations: 2, body: {WORKER}}}",
    "case": "{type: switch, cases: [{when: @, to: z}], default: none}",
    "edge": f"{WORKER}\nedges:\n  - {{from: a, to: z, when: @}}",
    "failure edge": f"{WORKER}\nedges:\n  - {{from: a, to: z, on: failure, when: @}}",
    "one of two edges": f"{WORKER}\nedges:\n  - {{from: a, to: z, when: @}}\n  - {{from: a, to: z, when: input.b == 2}}",
}
WRONG = {
    "an unknown name": "nonsense.x",
    "an unknown node": "nodes.zzz.output",
    "a wrong field": "nodes.z.outptu",
    "an unknown variable": "vars.zzz",
    "a loop that is not around": "loops.q.index",
    "a syntax error": "input.x +* 2",
    "an unknown function": "len(input.x)",
    "types that do not fit": "'a' - true",
    "an empty one": " ",
}


def said(source: str) -> list[str]:
    quiet = {Code.CHECKS_WAIT, Code.ISOLATED_NODE, Code.MAY_LEAD_NOWHERE}
    return [str(fault) for fault in compile_workflow(source).faults if fault.code not in quiet]


def workflow(node: str, value: str) -> str:
    first, _, rest = node.replace("@", value).partition("\n")
    return f"workflow: w\nnodes:\n  z: {WORKER}\n  a: {first}\n{rest}\n"


@pytest.mark.parametrize(("key", "wrong"), list(product(TEMPLATES, WRONG)))
def test_a_wrong_template_is_one_fault(key: str, wrong: str) -> None:
    assert len(said(workflow(TEMPLATES[key], f'"x-${{{WRONG[wrong]}}}"'))) == 1
    assert len(said(workflow(TEMPLATES[key], f'"${{{WRONG[wrong]}}}"'))) == 1


@pytest.mark.parametrize("key", TEMPLATES)
def test_a_template_that_is_not_closed_is_one_fault(key: str) -> None:
    assert len(said(workflow(TEMPLATES[key], '"x-${input.x"'))) == 1


@pytest.mark.parametrize(("key", "wrong"), list(product(CONDITIONS, WRONG)))
def test_a_wrong_condition_is_one_fault(key: str, wrong: str) -> None:
    assert len(said(workflow(CONDITIONS[key], f'"{WRONG[wrong]}"'))) == 1


@pytest.mark.parametrize(("key", "value"), list(product(CONDITIONS, ['"${input.x}"', "{a: 1}", "[a]", "1 + 1"])))
def test_what_is_no_condition_is_one_fault(key: str, value: str) -> None:
    assert len(said(workflow(CONDITIONS[key], value))) == 1


@pytest.mark.parametrize(
    "source",
    [
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {{type: call, handler: h, input: '${{nodes.a.output}}'}}\nedgs: [[a, b]]\n",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {{type: call, handler: h, input: '${{nodes.a.output}}', needs: a}}\n",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {{type: call, handler: h, input: '${{nodes.a.output}}'}}\nedges: {{a: b}}\n",
        f"workflow: w\nnods:\n  a: {WORKER}\n  b: {WORKER}\nedges: [[a, b]]\n",
        "workflow: w\nnodes: [a, b]\nedges: [[a, b]]\n",
        "workflow: w\nnodes:\n  a: {type: call, handlr: h}\n",
        "workflow: w\nnodes:\n  a: {type: call, handler: *x}\n",
        "workflow: w\nnodes:\n  a: {type: call, handler: {{x}}}\n",
        "workflow: w\nnodes:\n  a: {type: call, handler: !x}\n",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, retry: {max_attempts: 99999999999999999999}}\n",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, timeout: .inf}\n",
        "workflow: w\nnodes:\n  a: *x\n",
        "workflow: w\nnodes: *x\nedges: [[a, b]]\n",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\nedges: [a, b]\n",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\nedges: [[a, *x]]\n",
        "workflow: w\nnodes:\n  a: {type: wait, durration: 5s}\n",
        f"workflow: w\nnodes:\n  m:\n    type: map\n    over: [1]\n    body:\n      nods: {{a: {WORKER}}}\n      edges: [[a, b]]\n",
        "workflow: w\nvars: {v: {type: nubmer}}\nnodes:\n  a: {type: set, values: {v: x}}\n",
    ],
)  # fmt: skip
def test_what_follows_from_a_fault_is_not_said(source: str) -> None:
    assert len(said(source)) == 1, said(source)


IN_BODY = f"""\
workflow: w
nodes:
  before: {WORKER}
  outer:
    type: map
    over: [1]
    body:
      nodes:
        first: {WORKER}
        inner:
          type: repeat
          until: last == 1
          max_iterations: 2
          body: {{type: call, handler: h, input: "@"}}
      edges: [[first, inner]]
edges: [[before, outer]]
"""


def scope_of(source: str) -> str:
    (line,) = said(source)
    return line.partition("in scope here: ")[2].partition(";")[0]


@pytest.mark.parametrize(
    ("source", "scope"),
    [
        (workflow(TEMPLATES["input"], "'${foo.x}'"), "input, run"),
        (f"workflow: w\nnodes:\n  z: {WORKER}\n  a: {{type: call, handler: h, input: '${{foo.x}}'}}\nedges: [[z, a]]\n", "nodes, input, run"),
        (f"workflow: w\nnodes:\n  z: {WORKER}\n  a: {{type: call, handler: h, input: '${{foo.x}}'}}\nedges: [{{from: z, to: a, on: failure}}]\n", "error, nodes, input, run"),
        (f"workflow: w\nnodes:\n  z: {WORKER}\n  a: {WORKER}\nedges: [{{from: z, to: a, on: failure, when: foo.x}}]\n", "error, nodes, input, run"),
        ("workflow: w\nnodes:\n  z: {type: set, values: {v: 1}}\n  a: {type: finish, output: '${foo.x}'}\nedges: [[z, a]]\n", "nodes, vars, input, run"),
        (workflow(CONDITIONS["filter"], "foo.x == 1"), "payload, input, run"),
        (workflow(TEMPLATES["over"], "'${foo.x}'"), "input, run"),
        (workflow(TEMPLATES["output of an item"], "'${foo.x}'"), "item, index, loops, nodes, input, run"),
        (workflow(CONDITIONS["until"], "foo.x == 1"), "index, last, loops, nodes, input, run"),
        (workflow(CONDITIONS["while"], "foo.x == 1"), "index, last, loops, input, run"),
        (IN_BODY.replace("@", "${foo.x}"), "index, last, item, loops, nodes, input, run"),
        (IN_BODY.replace("@", "x").replace("last == 1", "foo.x"), "index, last, item, loops, nodes, input, run"),
        (f"workflow: w\nnodes: {{z: {WORKER}}}\nfinally: {{type: call, handler: h, input: '${{foo.x}}'}}\n", "outcome, nodes, input, run"),
        (f"workflow: w\nlabels: {{a: '${{foo.x}}'}}\nnodes: {{z: {WORKER}}}\n", "input"),
    ],
)  # fmt: skip
def test_what_is_in_scope_is_told_as_it_is_there_innermost_first(source: str, scope: str) -> None:
    assert scope_of(source) == scope


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("${nodes.m.step.output}", "step is in the body of m: from outside it cannot be read; write nodes.m.output, the list of what the items give; output of m says what that is"),
        ("${nodes.step.output}", "step is in the body of m: from outside it cannot be read; write nodes.m.output, the list of what the items give; output of m says what that is"),
        ("${nodes.r.again.output}", "again is in the body of r: from outside it cannot be read; write nodes.r.output, what the last iteration gives; output of r says what that is"),
        ("${nodes.m.count}", "nodes.m.count is nothing: a map node has output, state and counts; write nodes.m.counts"),
        ("${nodes.a.output}", "a reads its own output, which is there only behind it; read it in a node that a leads to"),
        ("${nodes.later.output}", "later does not come before a: its output is not there yet; a leads to later: read it in a node behind later"),
        ("${nodes.aside.output}", "aside does not come before a: its output is not there yet; add an edge so that aside leads to a"),
        ("${nodes.finally.output}", "finally runs when all else is over: nothing can read it; read outcome, or a node outside of it, in its own nodes"),
        ("${nodes.tell.output}", "tell is in the body of finally: from outside it cannot be read; do it in a node of finally, which runs when all else is over"),
        ("${payload.x}", "payload is there only in the filter of a wait_for_event node; read nodes.name.output: a signal's payload is its node's output"),
        ("${vars.x}", "no node before a sets the variable x; add x to the values of a set node before it"),
        ("${loops.q.index}", "no map or repeat q is around this; read it in the body of one"),
        ("${True}", "unknown name True; write true"),
        ("${aside.x}", "unknown name aside; in scope here: nodes, input, run"),
        ("${m.x}", "unknown name m; write nodes.m.output.x"),
    ],
)  # fmt: skip
def test_the_remedy_is_one_that_helps(template: str, fault: str) -> None:
    source = (
        f"workflow: w\nnodes:\n  m: {{type: map, over: [1], body: {WORKER}}}\n"
        f"  r: {{type: repeat, until: true, max_iterations: 2, body: {{nodes: {{again: {WORKER}}}}}}}\n"
        f'  a: {{type: call, handler: h, input: "x-{template}"}}\n  later: {WORKER}\n  aside: {WORKER}\n'
        f"edges: [[m, r, a, later]]\nfinally: {{nodes: {{tell: {WORKER}}}}}\n"
    )

    (line,) = said(source)

    assert line.partition("error: ")[2] == fault
