"""What is warned of when it is known what the workflows are that subflow nodes run."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.compiler.children import check_children
from headway.coordinator.core.compiler.types import Child
from headway.coordinator.core.plan import Json

TAKES: Json = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"type": "integer", "minimum": 1}, "kind": {"enum": ["gift", "order"]}},
    "additionalProperties": False,
}
GIVES: Json = {"type": "object", "properties": {"total": {"type": "integer"}}, "additionalProperties": False}
CHILDREN: dict[tuple[str, int], Child] = {("leaf", 0): (TAKES, GIVES), ("leaf", 2): (None, None)}
SOURCE = """\
workflow: w
input_schema: {type: object, properties: {t: {type: string}, n: {type: integer}, any: {}}}
nodes:
  a: @
  b: {type: call, handler: h, input: "${nodes.a.output.total}"}
edges: [[a, b]]
"""


def said(node: str, then: str = "nodes.a.output.total") -> list[tuple[int, str, bool]]:
    source = SOURCE.replace("@", node).replace("nodes.a.output.total", then)
    compiled = compile_workflow(source)
    assert compiled.plan is not None
    faults = check_children(source, compiled.plan, compiled.faults, compiled.named, CHILDREN)
    return [(fault.line, fault.message, fault.warning) for fault in faults]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("{n: '${input.t}'}", "$.n must be a number, this is text"),
        ("{n: 'x-${input.n}'}", "$.n must be a number, this is text"),
        ("'${input.t}'", "$ must be a map, this is text"),
        ("{m: '${input.n}'}", "$.n is required"),
        ("{n: '${input.n}', m: 1}", "$.m may not be there"),
        ("{n: '${input.n}', kind: card}", "$.kind is never what it must be"),
        ("{n: 0}", "$.n 0 is less than the minimum of 1"),
        ("{n: text}", "$.n must be of type integer, not string"),
        ("{}", "$.n is required"),
    ],
)
def test_an_input_that_cannot_fit_is_warned_of(given: str, problem: str) -> None:
    (found,) = said(f"{{type: subflow, workflow: leaf, input: {given}}}")

    assert found == (4, f"the input breaks input_schema of leaf: {problem}", True)


@pytest.mark.parametrize(
    "node",
    [
        "{type: subflow, workflow: leaf, input: {n: '${input.n}', kind: '${input.t}'}}",
        "{type: subflow, workflow: leaf, input: '${input.any}'}",
        "{type: subflow, workflow: leaf, input: {n: 1}}",
        "{type: subflow, workflow: leaf, version: 2}",
        "{type: subflow, workflow: unknown, input: 5}",
    ],
)
def test_what_may_fit_is_left_alone(node: str) -> None:
    assert said(node) == []


def test_a_child_without_an_input_is_given_an_empty_map() -> None:
    assert len(said("{type: subflow, workflow: leaf}")) == 1


@pytest.mark.parametrize(
    ("then", "message"),
    [
        ("nodes.a.output.sum", "the output of a has no sum"),
        ("nodes.a.output.total.x", "nodes.a.output.total is a number: it has no field x"),
        ("nodes.a.output.total + input.t", "+ is used on a number and text"),
    ],
)
def test_a_read_of_what_the_childs_output_has_not_is_warned_of(then: str, message: str) -> None:
    assert said("{type: subflow, workflow: leaf, input: {n: 1}}", then) == [(5, message, True)]


def test_an_output_schema_of_the_nodes_own_goes_before_the_childs() -> None:
    node = "{type: subflow, workflow: leaf, input: {n: 1}, output_schema: {type: object, required: [sum]}}"

    assert said(node, "nodes.a.output.sum") == []


@pytest.mark.parametrize("named", ['workflow: "a\\0b"', "workflow: Leaf", "workflow: leaf, version: first"])
def test_a_workflow_whose_name_cannot_be_read_is_not_looked_up(named: str) -> None:
    compiled = compile_workflow(SOURCE.replace("@", f"{{type: subflow, {named}}}"))

    assert compiled.plan is None
    assert compiled.named == ()


def test_what_was_said_of_the_workflow_alone_is_not_said_again() -> None:
    node = "{type: subflow, workflow: leaf, input: {n: '${input.tt}'}}"

    assert len(compile_workflow(SOURCE.replace("@", node)).faults) == 1
    assert said(node) == []
