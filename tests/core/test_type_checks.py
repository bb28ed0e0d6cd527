# ruff: noqa: E501 - what is said stands on one line
"""What is known of values before any run, and what is said where they cannot be used: at its place, with a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent
from typing import cast

import pytest

from headway.coordinator.core.cel import ExpressionError, ExpressionInvalid, compile_expression
from headway.coordinator.core.compiler import Code, Fault, compile_workflow
from headway.coordinator.core.compiler.language import COUNTS_IN_EXPRESSIONS
from headway.coordinator.core.decide._scope import counts_of
from headway.coordinator.core.rows import LoopRow

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


def told(source: str) -> list[Fault]:
    """What is wrong, but for fields that their schemas do not require."""
    return [each for each in compile_workflow(source).faults if each.code is not Code.MAY_BE_MISSING]


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
    return [fault for fault in told(source) if fault.code != "join_of_one"]


@pytest.mark.parametrize(
    "expression",
    [
        "input.amount > 5 && input.count <= 1.5",
        'input.name == "x" || input.note == null || input.note != "y"',
        'input.kind == "gift"',
        "input.sure ? true : input.any",
        "input.any ? true : nodes.other.output ? true : false",
        "(input.sure ? 1 : 2) == 1 && size(input.lines.filter(line, line.sure)) > 0",
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
        ("(input.amount ? 1 : 2) == 1", 15, "a condition must be true or false, this is a number"),
        ("(nodes.ask.output ? 1 : 2) == 1", 19, "a condition must be true or false, this is a map"),
        ("(input.sure ? (input.name ? 1 : 2) : 3) == 1", 27, "a condition must be true or false, this is text"),
        ("size(input.lines.filter(l, input.amount)) > 0", 24, "a condition must be true or false, this is a number"),
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


def test_in_the_where_of_a_map_what_stands_before_a_choice_is_checked() -> None:
    source = (
        f"{SCHEMA}nodes:\n  m:\n    type: map\n    over: [1]\n    where: '@'\n    body: {{type: call, handler: h}}\n"
    )

    (fault,) = told(source.replace("@", "input.amount ? true : false"))

    assert (fault.column, fault.message) == (26, "a condition must be true or false, this is a number")
    assert told(source.replace("@", "input.sure ? true : item > 1")) == []


def test_a_schema_of_an_answer_leaves_what_is_known_of_answers() -> None:
    source = f"{SCHEMA}nodes:\n  ask: {{type: http, request: {{url: u}}, output_schema: {{required: [body], properties: {{body: {{type: string}}}}}}}}\n"
    source += "  a: {type: call, handler: h, input: '${nodes.ask.output.@}'}\nedges: [[ask, a]]\n"

    assert [each.message for each in told(source.replace("@", "status_code"))] == [
        "the output of ask has no status_code"
    ]
    assert [each.message for each in told(source.replace("@", "body.x"))] == [
        "nodes.ask.output.body is text: it has no field x"
    ]
    assert told(source.replace("@", "status")) == []


def kinds(source: str) -> list[tuple[int, int, str]]:
    return [(fault.line, fault.column, fault.message) for fault in told(dedent(source))]


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
    assert told(source) == []


KNOWN = """\
workflow: w
input_schema:
  type: object
  properties:
    n: {type: integer}
    t: {type: string}
    l: {type: array, items: {type: string}}
    m: {type: object, additionalProperties: {type: string}}
    o: {type: object, required: [k], properties: {k: {type: integer}, z: {type: string}}, additionalProperties: false}
    e: {enum: [gift, order]}
    any: {}
output_schema: {type: object, required: [k], properties: {k: {type: integer}}, additionalProperties: false}
vars: {v: {type: integer}, w: {enum: [gift, card]}, free: {}}
nodes:
  before: {type: call, handler: h, output_schema: {type: object, required: [n], properties: {n: {type: integer}}}}
  pl: {type: wait_for_event, event: e, payload_schema: {type: object, properties: {q: {type: integer}}, additionalProperties: false}}
  two: {type: wait_for_event, event: e, count: 2, payload_schema: {type: object, properties: {q: {type: integer}}}}
  s: {type: set, values: {v: "${input.n}", free: "${input.t}"}}
  sw: {type: switch, cases: [{when: input.n > 1, to: p}], default: p}
  p: {type: wait, duration: 1s}
  de: {type: subflow, workflow: other, detach: true}
  m1: {type: map, over: "${input.l}", body: {type: call, handler: h, output_schema: {type: object, properties: {r: {type: string}}}}}
  mt: {type: map, over: "${input.l}", output: "${item}", body: {type: call, handler: h}}
  r1: {type: repeat, until: last.n > 1, max_iterations: 2, body: {type: call, handler: h, output_schema: {type: object, properties: {n: {type: integer}}}}}
  r2: {type: repeat, until: "true", max_iterations: 2, output: {a: "${input.n}"}, body: {type: call, handler: h}}
  a: @
  end: {type: finish, output: {k: 1}}
edges: [[before, pl, two, s, sw], [p, de, m1, mt, r1, r2, a], [r2, end]]
"""
CALL = "{type: call, handler: h, input: %s}"
IN_MAP = "{type: map, over: %s, body: {type: call, handler: h, input: %s}}"
IN_REPEAT = "{type: repeat, until: %s, max_iterations: 2, body: {nodes: {b: {type: call, handler: h, input: %s, output_schema: {type: object, properties: {n: {type: integer}}, additionalProperties: false}}}}}"
# What every key with expressions must yield; and what is known wherever one stands.
CANNOT_BE: list[tuple[str, str]] = [
    ("{type: map, over: '${input.n}', body: {type: call, handler: h}}", "over must be a list or a map, this is a number"),
    ("{type: map, over: 'x-${input.t}', body: {type: call, handler: h}}", "over must be a list or a map, this is text"),
    ("{type: wait, duration: '${input.n}'}", "duration must be text, this is a number"),
    ("{type: wait, duration: '${input.n * 60}'}", "duration must be text, this is a number"),
    ("{type: wait, duration: ['${input.t}']}", "duration must be text, this is a list"),
    ("{type: wait, until: '${input.m}'}", "until must be text, this is a map"),
    ("{type: wait, until: '${input.t}', zone: '${input.n}'}", "zone must be text, this is a number"),
    ("{type: wait_for_event, event: '${input.n}'}", "event must be text, this is a number"),
    ("{type: wait_for_event, event: e, filter: input.n}", "a condition must be true or false, this is a number"),
    ("{type: wait_for_event, event: e, filter: payload.q, payload_schema: {properties: {q: {type: integer}}}}",
     "a condition must be true or false, this is a number"),
    ("{type: wait_for_event, event: e, filter: payload.z == 1, payload_schema: {properties: {q: {type: integer}}, additionalProperties: false}}",
     "the payload has no z"),
    ("{type: wait_for_event, event: '${payload.z}', payload_schema: {properties: {}, additionalProperties: false}}",
     "payload is there only in the filter of a wait_for_event node"),
    ("{type: map, over: [{l: [1]}], body: {type: map, over: '${item.m}', body: {type: call, handler: h}}}", "item has no m"),
    ("{type: http, request: {url: '${input.n}'}}", "url must be text, this is a number"),
    ("{type: http, request: {url: u, headers: '${input.l}'}}", "headers must be a map, this is a list"),
    ("{type: http, request: {url: u, query: 'x${input.t}'}}", "query must be a map, this is text"),
    ("{type: http, request: {url: u, headers: {a: '${input.n}', b: '${input.l}'}}}",
     "the header b must be true or false or a number or text, this is a list"),
    ("{type: http, request: {url: u, headers: {a: 1, b: [2]}}}", "the header b must be text or a number"),
    ("{type: subflow, workflow: other, key: '${input.l}'}", "key must be a number or text, this is a list"),
    ("{type: set, values: {v: '${input.t}'}}", "v breaks its schema in vars: $ must be a number, this is text"),
    ("{type: set, values: {v: 'x${input.n}'}}", "v breaks its schema in vars: $ must be a number, this is text"),
    ("{type: set, values: {w: '${input.l}'}}", "w breaks its schema in vars: $ must be text, this is a list"),
    ("{type: finish, output: '${input.n}'}", "the output of a breaks output_schema: $ must be a map, this is a number"),
    ("{type: finish, output: {k: '${input.t}'}}", "the output of a breaks output_schema: $.k must be a number, this is text"),
    ("{type: finish, output: {j: '${input.n}'}}", "the output of a breaks output_schema: $.k is required"),
    ("{type: finish, output: {k: 1, j: '${input.n}'}}", "the output of a breaks output_schema: $.j may not be there"),
    ("{type: finish, output: '${nodes.before.output}'}", "the output of a breaks output_schema: $.n may not be there"),
    (IN_REPEAT % ("index", "1"), "a condition must be true or false, this is a number"),
    (IN_REPEAT % ("last.n", "1"), "a condition must be true or false, this is a number"),
    (IN_REPEAT % ("last.m == 1", "1"), "last has no m"),
    (IN_REPEAT % ("nodes.b.output.m == 1", "1"), "the output of b has no m"),
    ("{type: repeat, until: last.m == 1, max_iterations: 2, body: {nodes: {b: {type: call, handler: h, compensate: u, output_schema: {type: object, properties: {n: {}}, additionalProperties: false}}, u: {type: call, handler: h}}}}",
     "last has no m"),
    (IN_REPEAT % ("'true'", "'${last.n + input.t}'"), "+ is used on a number and text"),
    (IN_REPEAT % ("'true'", "'${index + input.t}'"), "+ is used on a number and text"),
    (IN_REPEAT % ("'true'", "'${loops.a.index.x}'"), "loops.a.index is a number: it has no field x"),
    ("{type: repeat, while: last.n, max_iterations: 2, body: {type: call, handler: h, output_schema: {type: object, properties: {n: {type: integer}}}}}",
     "a condition must be true or false, this is a number"),
    (IN_MAP % ("'${input.l}'", "'${item + 1}'"), "+ is used on text and a number"),
    (IN_MAP % ("'${input.l}'", "'${item.x}'"), "item is text: it has no field x"),
    (IN_MAP % ("'${input.l}'", "'${loops.a.item.x}'"), "loops.a.item is text: it has no field x"),
    (IN_MAP % ("[1, 2]", "'${item.x}'"), "item is a number: it has no field x"),
    (IN_MAP % ("[{a: 1}, {b: 2}]", "'${item.c}'"), "item has no c"),
    (IN_MAP % ("'${input.m}'", "'${item.kee}'"), "item has no kee"),
    (IN_MAP % ("'${nodes.m1.output}'", "'${item.r * 2}'"), "* takes a number, this is text"),
    ("{type: map, over: '${input.l}', output: '${nodes.step.output.z}', body: {type: http, request: {url: u}}}",
     "the output of step has no z"),
    (CALL % "'${run.epoch + input.t}'", "+ is used on a number and text"),
    (CALL % "'${nodes.pl.output.z}'", "the output of pl has no z"),
    (CALL % "'${nodes.two.output.q}'", "nodes.two.output is a list: it has no field q"),
    (CALL % "'${nodes.m1.output.foo}'", "nodes.m1.output is a list: it has no field foo"),
    (CALL % "'${nodes.m1.counts.fialed}'", "what is counted has no fialed"),
    (CALL % "'${nodes.r2.output.b}'", "the output of r2 has no b"),
    (CALL % "'${nodes.r2.output.a + input.t}'", "+ is used on a number and text"),
    (CALL % "'${nodes.s.output.x}'", "the output of s has no x"),
    (CALL % "'${nodes.s.output.free * 2}'", "* takes a number, this is text"),
    (CALL % "'${nodes.sw.output.too}'", "the output of sw has no too"),
    (CALL % "'${nodes.p.output.x}'", "nodes.p.output is null: it has no field x"),
    (CALL % "'${nodes.de.output.id}'", "the output of de has no id"),
    (CALL % "'${vars.v + input.t}'", "+ is used on a number and text"),
    (CALL % "'${vars.free * 2}'", "* takes a number, this is text"),
]  # fmt: skip
MAY_BE = [
    "{type: map, over: '${input.m}', body: {type: call, handler: h, input: '${item.key + item.value.x}'}}",
    "{type: map, over: '${input.any}', body: {type: call, handler: h, input: '${item.x + 1}'}}",
    "{type: map, over: '${nodes.m1.output}', body: {type: call, handler: h, input: '${item == null ? 1 : 2}'}}",
    "{type: map, over: '${nodes.mt.output}', body: {type: http, request: {url: u, query: '${item}'}}}",
    "{type: map, over: [a, {b: 1}], body: {type: call, handler: h, input: '${item.b}'}}",
    "{type: wait, duration: '${string(input.n)}s'}",
    "{type: wait, duration: '${input.any}'}",
    "{type: wait_for_event, event: 'e-${input.n}', filter: payload.x == 1}",
    "{type: subflow, workflow: other, key: '${input.n}'}",
    "{type: subflow, workflow: other, key: '${nodes.p.output}'}",
    "{type: http, request: {url: u, headers: '${nodes.p.output}', query: '${nodes.p.output}'}}",
    "{type: http, request: {url: u, headers: {a: '${input.n > 1}'}}}",
    "{type: http, request: {url: u, query: '${nodes.sw.output.to}'}}",
    "{type: set, values: {v: '${input.any}', w: '${input.e}', free: '${input.l}'}}",
    "{type: finish, output: {k: '${input.any}'}}",
    "{type: finish, output: '${input.any}'}",
    "{type: finish, output: '${input.o}'}",
    "{type: finish, outcome: failed, output: {why: '${input.t}'}}",
    IN_REPEAT % ("last == null || last.n > 1", "'${last == null ? 0 : last.n + 1}'"),
    CALL % "'${nodes.r1.output.n + nodes.m1.counts.total}'",
    CALL % "'${nodes.sw.output.to == null ? nodes.de.output.run_id : input.t}'",
    CALL % "'${nodes.two.output[0].q + 1}'",
    "{type: repeat, until: last.m == 1, max_iterations: 2, body: {nodes: {b: {type: call, handler: h}, c: {type: http, request: {url: u}}, d: {type: call, handler: h}}, edges: [[b, c], [b, d]]}}",
    "{type: repeat, until: 'true', max_iterations: 2, output: '${vars.free * 2}', body: {type: set, values: {free: '${input.n}'}}}",
    CALL % "'${nodes.before.state == \"not_reached\"}'",
]


@pytest.mark.parametrize(("node", "message"), CANNOT_BE)
def test_what_cannot_be_is_met_in_every_key(node: str, message: str) -> None:
    assert [fault.message for fault in told(KNOWN.replace("@", node))] == [message]


@pytest.mark.parametrize("node", MAY_BE)
def test_what_may_be_is_left_alone_in_every_key(node: str) -> None:
    assert [str(fault) for fault in told(KNOWN.replace("@", node))] == []


def test_expressions_of_labels_are_checked_like_others() -> None:
    source = KNOWN.replace("workflow: w\n", "workflow: w\nlabels: {a: '${input.o.zz}', b: '${input.n + input.t}'}\n")

    (one, other) = told(source.replace("@", CALL % "1"))
    assert (one.line, one.message) == (2, "the input has no o.zz")
    assert (other.line, other.message) == (2, "+ is used on a number and text")


def test_what_is_counted_is_what_a_map_tells() -> None:
    loop = LoopRow(path="m", attempt=1, total=0)

    assert tuple(cast("dict[str, int]", counts_of(loop))) == COUNTS_IN_EXPRESSIONS


def test_labels_are_no_lists() -> None:
    labels = "{a: '${input.l}', b: '${input.n}', c: '${null}', d: '${input.n > 1}'}"
    source = KNOWN.replace("workflow: w\n", f"workflow: w\nlabels: {labels}\n")

    (fault,) = told(source.replace("@", CALL % "1"))
    assert (fault.line, fault.column, fault.remedy) == (2, 16, "write one label for each value")
    assert fault.message == "the label a must be true or false or a number or text, this is a list"


def test_in_finally_it_is_known_what_a_run_may_have_come_to() -> None:
    source = """\
    workflow: w
    nodes: {a: {type: call, handler: h}}
    finally:
      nodes:
        of: {type: switch, default: none, cases: [{when: outcome.class == "timeout" || outcome.class == "cancelled", to: b}]}
        b: {type: call, handler: h, input: "${outcome.state == 'succeeded' ? outcome.class == null : outcome.class == 'broken'}"}
        c: {type: http, request: {url: u, query: "${outcome.class}"}}
      edges: [[b, c]]
    """

    assert kinds(source) == [(6, 112, '== compares with "broken", which this never is')]


def test_a_join_of_any_may_lack_a_branch() -> None:
    source = """\
    workflow: w
    output_schema: {type: object, properties: {one: {}}, additionalProperties: false}
    nodes:
      one: {type: call, handler: h}
      two: {type: call, handler: h}
      either: {type: join, need: any}
      end: {type: finish, output: "${nodes.either.output}"}
    edges: [[one, either, end], [two, either]]
    """

    assert kinds(source) == []


def test_finally_gives_no_index_and_that_is_said_once() -> None:
    source = """\
    workflow: w
    nodes: {a: {type: call, handler: h}}
    finally: {nodes: {b: {type: call, handler: h, input: "${index.x}"}}}
    """

    assert [message for _, _, message in kinds(source)] == ["index is there only in the body of a map or repeat"]


def test_what_the_map_further_out_gives_is_known_by_its_name() -> None:
    source = """\
    workflow: w
    nodes:
      outer:
        type: map
        over: [{kind: gift, count: 2}]
        body:
          nodes:
            inner:
              type: map
              over: "${loops.outer.item.kind}"
              body: {type: call, handler: h, input: "${loops.outer.item.cnt}"}
    """

    assert kinds(source) == [
        (10, 20, "over must be a list or a map, this is text"),
        (11, 52, "loops.outer.item has no cnt"),
    ]


def test_of_a_value_in_which_an_expression_is_wrong_nothing_more_is_said() -> None:
    source = """\
    workflow: w
    nodes:
      a: {type: http, request: {url: u, headers: "${[nodes.nowhere.output]}"}}
      b: {type: http, request: {url: u, headers: "${[1]}"}}
    """

    assert [(fault.line, fault.code.value) for fault in compile_workflow(dedent(source)).faults] == [
        (3, "unknown_reference"),
        (4, "type_mismatch"),
    ]
