"""What is known of values before any run, and what is said where they cannot be used: at its place, with a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent

import pytest

from headway.coordinator.core.cel import ExpressionError, ExpressionInvalid, compile_expression
from headway.coordinator.core.compiler import Fault, compile_workflow

SCHEMA = """
workflow: w
input_schema:
  type: object
  additionalProperties: false
  properties:
    amount: {type: number}
    count: {type: integer}
    name: {type: string}
    kind: {enum: [gift, order]}
    note: {type: [string, "null"]}
    lines: {type: array}
    sure: {type: boolean}
    customer: {$ref: "#/$defs/person"}
    open: {type: object, properties: {colour: {type: string}}}
    either: {anyOf: [{type: string}, {type: number}]}
    any: {}
  $defs:
    person: {type: object, additionalProperties: false, properties: {name: {type: string}, age: {type: integer}}}
"""


def faults(expression: str, *, condition: bool = True) -> list[Fault]:
    nodes = (
        f"  gate: {{type: switch, cases: [{{when: '{expression}', to: a}}], default: none}}\n"
        "  a: {type: call, handler: h}\n"
        if condition
        else f"  a: {{type: call, handler: h, input: '${{{expression}}}'}}\n"
    )
    nodes += "  ask: {type: http, request: {url: x}}\n  all: {type: join}\n"
    edges = f"edges:\n  - [ask, all, {'gate' if condition else 'a'}]\n  - [other, all]\n"
    source = f"{SCHEMA}nodes:\n{nodes}  other: {{type: call, handler: h}}\n{edges}"
    return [fault for fault in compile_workflow(source).faults if fault.code != "join_of_one"]


@pytest.mark.parametrize(
    "expression",
    [
        "input.amount > 5 && input.count <= 1.5",
        'input.name == "x" || input.note == null || input.note != "y"',
        'input.kind == "gift"',
        "input.sure ? true : input.any",
        'input.customer.age > 18 && input.customer.name.startsWith("A")',
        'input.open.colour == "red" && input.open.whatever == 5',
        'input.either == 5 && input.either == "x" && input.either > 5',
        "input.lines.exists(line, line.amount > input.amount)",
        'input.any > 5 && input.any.deep.down == "x"',
        "size(input.lines) + size(input.name) > int(input.name)",
        'has(input.note) && "a" in input.lines',
        "nodes.ask.output.status >= 500 && nodes.ask.output.body.id == 7",
        "nodes.all.output.ask.status == 200 && nodes.all.output.other.x == 1",
        'nodes.ask.state == "succeeded" && run.version > 1 && run.id != ""',
        "input.amount == null",
        'timestamp("2030-01-31T09:00:00Z") < timestamp(input.name)',
    ],
)
def test_what_may_be_meant_is_left_alone(expression: str) -> None:
    assert faults(expression) == []


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        ("input.amont > 5", 1, "the input has no amont"),
        ("input.customer.agee > 5", 1, "the input has no customer.agee"),
        ("input.amount.value > 5", 1, "input.amount is a number: it has no field value"),
        ("input.lines.first == 1", 1, "input.lines is a list: it has no field first"),
        ('input.amount > "5"', 14, "> is used on a number and text"),
        ("input.name < input.count", 12, "< is used on text and a number"),
        ("input.lines > 5", 13, "> takes true or false or a number or text, this is a list"),
        ('input.amount == "5"', 14, "== is used on a number and text, which are never equal"),
        ("input.sure != 1", 12, "!= is used on true or false and a number, which are never equal"),
        ('input.kind == "gft"', 12, '== compares with "gft", which this never is'),
        ('nodes.ask.state == "suceeded"', 17, '== compares with "suceeded", which this never is'),
        ('input.name + 1 == "x1"', 12, "+ is used on text and a number"),
        ("input.name * 2 > 1", 12, "* takes a number, this is text"),
        ("input.amount && true", 14, "&& takes true or false, this is a number"),
        ("!input.name", 1, "! takes true or false, this is text"),
        ('input.lines.exists(l, input.amount == "5")', 36, "== is used on a number and text, which are never equal"),
        ("nodes.ask.output.staus == 200", 1, "the output of ask has no staus"),
        ('nodes.ask.output.status == "200"', 25, "== is used on a number and text, which are never equal"),
        ("nodes.all.output.akk == null", 1, "the output of all has no akk"),
        ("nodes.all.output.ask.state == 1", 1, "the output of all has no ask.state"),
        ('run.version == "1"', 13, "== is used on a number and text, which are never equal"),
        ("input.amount", 1, "a condition must be true or false, this is a number"),
        ("input.sure ? 1 : 2", 1, "a condition must be true or false, this is a number"),
    ],
)
def test_what_cannot_be_is_a_fault_at_its_place(expression: str, column: int, message: str) -> None:
    (fault,) = faults(expression)

    begin = len("  gate: {type: switch, cases: [{when: '")
    assert (fault.column - begin, fault.message, fault.warning) == (column, message, False)


def test_a_name_that_is_nearly_one_of_an_open_schema_is_a_warning() -> None:
    (fault,) = faults('input.open.color == "red"')

    assert (fault.message, fault.remedy, fault.warning) == (
        "the input does not speak of open.color",
        "did you mean colour?",
        True,
    )


def test_templates_are_checked_like_conditions_but_need_not_be_true_or_false() -> None:
    assert faults("input.amount", condition=False) == []
    assert [fault.code for fault in faults("input.amount * input.name", condition=False)] == ["type_mismatch"]
    assert [fault.code for fault in faults("input.amont", condition=False)] == ["unknown_reference"]


def kinds(source: str) -> list[tuple[int, int, str]]:
    return [(fault.line, fault.column, fault.message) for fault in compile_workflow(dedent(source)).faults]


def test_variables_are_known_by_what_sets_them() -> None:
    source = """\
    workflow: w
    nodes:
      set: {type: set, values: {text: "a ${input.x}", count: 1, map: {a: "${input.x}"}, any: "${input.x}"}}
      a: {type: call, handler: h, input: "${vars.text * 2} ${vars.count.x} ${vars.map.a} ${vars.any * 2}"}
    edges: [[set, a]]
    """

    assert kinds(source) == [
        (4, 51, "* takes a number, this is text"),
        (4, 58, "vars.count is a number: it has no field x"),
    ]


def test_what_a_request_and_a_wait_are_given_must_be_of_their_kind() -> None:
    source = """\
    workflow: w
    input_schema: {properties: {n: {type: integer}, t: {type: string}}}
    nodes:
      a: {type: http, request: {url: "${input.n}", headers: "${input.t}", query: "${input.any}"}}
      b: {type: wait, until: "${input.n + 1}"}
      c: {type: http, request: {url: "${input.t}", headers: {x: "${input.n}"}}}
    edges: [[a, b, c]]
    """

    assert kinds(source) == [
        (4, 37, "url must be text, this is a number"),
        (4, 60, "headers must be a map, this is text"),
        (5, 29, "until must be text, this is a number"),
    ]


def test_the_place_of_an_expression_that_is_folded_is_that_of_its_beginning() -> None:
    source = """\
    workflow: w
    input_schema: {properties: {n: {type: integer}}}
    nodes:
      s:
        type: switch
        default: none
        cases:
          - when: >-
              input.n > 1 &&
              input.n > "5"
            to: a
      a: {type: call, handler: h}
    """

    assert [message for _, _, message in kinds(source)] == ["> is used on a number and text"]
    assert kinds(source)[0][0] in (8, 9)


def test_conditions_of_edges_are_checked_and_broken_schemas_say_nothing() -> None:
    source = """\
    workflow: w
    input_schema: {type: objekt, additionalProperties: false}
    nodes: {a: {type: call, handler: h}, b: {type: call, handler: h}}
    edges: [{from: a, to: b, on: failure, when: 'error.class == "time_out" && input.x'}]
    """

    assert [message for _, _, message in kinds(source)][1:] == ['== compares with "time_out", which this never is']


def brackets(begin: str, inner: str, end: str) -> Callable[[int], str]:
    return lambda depth: begin * depth + inner + end * depth


DEEP: dict[str, Callable[[int], str]] = {
    "sum": lambda depth: "+".join(["input.a"] * depth),
    "parentheses": brackets("(", "input.a", ")"),
    "signs": brackets("-(", "input.a", ")"),
    "lists": brackets("[", "input.a", "]"),
    "choices": brackets("input.a == 1 ? 2 : ", "3", ""),
    "fields": lambda depth: "input" + ".a" * depth,
    "items": lambda depth: "input" + "[0]" * depth,
    "division in a loop": lambda depth: f"[1].map(x, {brackets('x / (', '1', ')')(depth)})",
    "calls": brackets("string(", "1", ")"),
}


@pytest.mark.parametrize("form", DEEP)
def test_an_expression_that_is_nested_too_deeply_is_found_before_it_runs(form: str) -> None:
    (fault,) = faults(DEEP[form](60), condition=False)

    assert (fault.code, fault.message) == ("expression_invalid", "the expression is nested too deeply")


@pytest.mark.parametrize("form", DEEP)
def test_what_compiles_is_never_too_deep_to_be_evaluated(form: str) -> None:
    evaluated = 0
    for depth in range(1, 60):
        try:
            compiled = compile_expression(DEEP[form](depth))
        except ExpressionInvalid:
            break
        evaluated += 1
        message = ""
        try:
            compiled.evaluate({"input": {"a": 1}})
        except ExpressionError as error:
            message = error.message
        assert not re.search("deep|recursion", message, re.IGNORECASE), (depth, message)

    assert 8 < evaluated < 59


def test_the_details_of_an_error_have_any_names() -> None:
    source = """
workflow: w
nodes:
  a: {type: call, handler: h}
  b: {type: call, handler: h, input: "${error.code}"}
edges: [{from: a, on: failure, to: b}]
"""
    assert compile_workflow(source).faults == ()
