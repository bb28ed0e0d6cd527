# ruff: noqa: E501 - a source on one line is easier to read
"""A remedy that says what to write is one that can be followed to the letter: with it, the workflow compiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headway.coordinator.core.cel import ExpressionInvalid, compile_expression, meant_expression
from headway.coordinator.core.compiler import Fault, compile_workflow
from headway.coordinator.core.compiler.language import RESERVED_NAMES
from headway.coordinator.core.failure_types import TYPES_OF_NODES

# An expression as another language spells it, and how it is spelt here; empty: there is nothing to write instead.
EXPRESSIONS = {
    "${input.amount} > 500": "input.amount > 500",
    "${input.a} == ${input.b}": "input.a == input.b",
    "${input.a + 1} > 3": "(input.a + 1) > 3",
    "${{ input.x > 1 }}": "input.x > 1",
    "{{inputs.parameters.x}} == 'gold'": "input.x == 'gold'",
    "'{{inputs.parameters.x}}' == 'gold'": "input.x == 'gold'",
    "input.name or 'you'": "has(input.name) ? input.name : 'you'",
    "input.name || 'you'": "has(input.name) ? input.name : 'you'",
    "input['name'] or 'you'": "has(input.name) ? input.name : 'you'",
    "(input.name or 'you') == 'you'": "(has(input.name) ? input.name : 'you') == 'you'",
    "input.a > input.b or null": "",
    "input.x ?: 'd'": "has(input.x) ? input.x : 'd'",
    "input.x ?? 'd'": "has(input.x) ? input.x : 'd'",
    "input.x ?? input.y": "has(input.x) ? input.x : input.y",
    "input.x ?? 3 > 2": "(has(input.x) ? input.x : 3) > 2",
    "input.a?.b": "has(input.a.b) ? input.a.b : null",
    "input.a?.b?.c ?? 'd'": "has(input.a.b.c) ? input.a.b.c : 'd'",
    "default(input.x, 'd')": "has(input.x) ? input.x : 'd'",
    "coalesce(input.x, [])": "has(input.x) ? input.x : []",
    "input.x | default('d')": "has(input.x) ? input.x : 'd'",
    "input.get('k', 'd')": "has(input.k) ? input.k : 'd'",
    "input.get('k')": "has(input.k) ? input.k : null",
    "len(input.l) > 0": "size(input.l) > 0",
    "input.l.length() > 0": "size(input.l) > 0",
    "input.l | length": "size(input.l)",
    "isEmpty(input.l)": "size(input.l) == 0",
    "str(input.n)": "string(input.n)",
    "input.n.toString()": "string(input.n)",
    "float(input.n) > 1": "double(input.n) > 1",
    "parseInt(input.n) == 3": "int(input.n) == 3",
    "input.n === 3 && input.m !== 4": "input.n == 3 && input.m != 4",
    "input.a <> 'x'": "input.a != 'x'",
    "input.a = 'x'": "input.a == 'x'",
    "=input.a > 3": "input.a > 3",
    "input.a and not input.b": "input.a && !input.b",
    "input.a AND input.b": "input.a && input.b",
    "not input.a == 3": "!(input.a == 3)",
    "not (input.a > 3 or input.b)": "!(input.a > 3 || input.b)",
    "input.a not in ['x', 'y']": "!(input.a in ['x', 'y'])",
    "input.a is None": "input.a == null",
    "input.a is not None": "input.a != null",
    "input.a eq 3 and input.b gt 2": "input.a == 3 && input.b > 2",
    "input.a is defined": "has(input.a)",
    "defined(input.a)": "has(input.a)",
    "'a' if input.x else 'b'": "input.x ? 'a' : 'b'",
    "nodes.a.output.n if nodes.a.output else None": "has(nodes.a.output) ? nodes.a.output.n : null",
    "input.x if input.x else 0": "has(input.x) ? input.x : 0",
    "1 if !nodes.a.output else 2": "!has(nodes.a.output) ? 1 : 2",
    "input.s.includes('x')": "input.s.contains('x')",
    "contains(input.s, 'x')": "input.s.contains('x')",
    "input.s.startswith('x')": "input.s.startsWith('x')",
    "input.a.hasOwnProperty('k')": "'k' in input.a",
    "input.l[-1]": "input.l[size(input.l) - 1]",
    "input.l.map(x => x.id)": "input.l.map(x, x.id)",
    "input.l.some(x => x.n > 1)": "input.l.exists(x, x.n > 1)",
    "[x.id for x in input.l]": "input.l.map(x, x.id)",
    "[x.id for x in input.l if x.n > 1]": "input.l.filter(x, x.n > 1).map(x, x.id)",
    "input.list.filter(x => x > 3).length": "size(input.list.filter(x, x > 3))",
    "input.list.filter(x => (x.n + 1) > 3).map(x => x.n).length > 2": "size(input.list.filter(x, (x.n + 1) > 3).map(x, x.n)) > 2",
    "$.nodes.a.output.n === 5": "nodes.a.output.n == 5",
    "any(x.n > 1 for x in input.l)": "input.l.exists(x, x.n > 1)",
    "$.amount > 5": "input.amount > 5",
    "inputs.amount === 5": "input.amount == 5",
    "input.s[0:3]": "",
    "input.s.upper()": "",
    "input.a = gold": "",
    "input.a | upper": "",
    "input.a == 'x or y'": "",
}


@pytest.mark.parametrize(("written", "here"), EXPRESSIONS.items())
def test_an_expression_of_another_language_is_given_back_as_it_is_spelt_here(written: str, here: str) -> None:
    assert meant_expression(written) == here

    if here:
        compile_expression(here)


@pytest.mark.parametrize("written", [each for each, here in EXPRESSIONS.items() if here])
def test_in_a_template_the_remedy_is_the_whole_expression(written: str) -> None:
    template = 'workflow: w\nnodes:\n  a: {type: call, handler: h, input: "${@}"}\n'
    if "${" in written or "{{" in written or "nodes." in written:
        return  # braces end the template, and there is no other node

    (fault,) = compile_workflow(template.replace("@", written)).faults

    assert compile_workflow(template.replace("@", fault.remedy.removeprefix("write "))).faults == ()


@pytest.mark.parametrize("key", ["when", "until", "while", "where", "filter"])
@pytest.mark.parametrize(
    "written", ["${input.n} > 5", "${input.a} == ${input.b}", "{{ input.a }} == input.b", "input.a ?? true"]
)
def test_a_condition_is_told_without_its_templates_wherever_it_stands(key: str, written: str) -> None:
    node = {
        "when": "{type: switch, cases: [{when: @, to: z}], default: none}",
        "until": "{type: repeat, max_iterations: 2, until: @, body: {type: call, handler: h}}",
        "while": "{type: repeat, max_iterations: 2, while: @, body: {type: call, handler: h}}",
        "where": "{type: map, over: [1], where: @, body: {type: call, handler: h}}",
        "filter": "{type: wait_for_event, event: e, filter: @}",
    }[key]
    source = f"workflow: w\nnodes:\n  z: {{type: call, handler: h}}\n  a: {node}\n"

    (fault,) = errors(source.replace("@", f'"{written}"'))

    assert errors(source.replace("@", f'"{fault.remedy.removeprefix("write ")}"')) == []


def test_texts_stay_as_they_are() -> None:
    assert meant_expression("input.a === 'not a === b'") == "input.a == 'not a === b'"


def test_what_takes_long_to_look_through_is_not_looked_through() -> None:
    assert meant_expression("input.a or " * 200 + "'x'") == ""
    with pytest.raises(ExpressionInvalid):
        compile_expression("input.a or " * 200 + "'x'")


WORKERS = "  a: {type: call, handler: h}\n  b: {type: call, handler: h}\n"

# Workflows with one slip between « and »; what the remedy says to write stands there afterwards.
SLIPS = {
    "a time-out of the run": f"workflow: w\n«timeout: 5m»\nnodes:\n{WORKERS}edges: [[a, b]]\n",
    "seconds of the run": f"workflow: w\n«timeoutSeconds: 90»\nnodes:\n{WORKERS}edges: [[a, b]]\n",
    "minutes of a node": "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    «timeout-minutes: 2»\n",
    "retries": "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    «max_retries: 3»\n",
    "attempts": "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    «maximumAttempts: 3»\n",
    "an ISO duration": "workflow: w\nnodes: {a: {type: wait, duration: «PT5S»}}\n",
    "one failure": f"workflow: w\nnodes:\n{WORKERS}edges: [{{from: a, to: b, on: failure, «errors: Timeout»}}]\n",
    "several failures": f"workflow: w\nnodes:\n{WORKERS}edges:\n  - from: a\n    to: b\n    on: failure\n    «errors: Timeout, Lost»\n",
    "an arrow": f"workflow: w\nnodes:\n{WORKERS}edges:\n  - «a -> b»\n",
    "a comma": f"workflow: w\nnodes:\n{WORKERS}edges:\n  - «a, b»\n",
    "a colon": f"workflow: w\nnodes:\n{WORKERS}edges:\n  - «a: b»\n",
    "one edge": f"workflow: w\nnodes:\n{WORKERS}edges: «[a, b]»\n",
    "a list of one": "workflow: w\nnodes:\n  a: {type: switch, cases: [{when: true, «to: [b]»}], default: none}\n  b: {type: join}\n",
    "quotes within quotes": 'workflow: w\nnodes:\n  a:\n    type: finish\n    outcome: failed\n    message: «"say "hi""»\n',
    "an apostrophe": "workflow: w\nnodes:\n  a:\n    type: finish\n    outcome: failed\n    message: «'it's gone'»\n",
    "a quote at the beginning": f'workflow: w\nnodes:\n{WORKERS}edges:\n  - from: a\n    to: b\n    when: «"x" == input.x»\n',
    "quotes within braces": 'workflow: w\nnodes:\n  a: {type: call, handler: h, input: {text: «"say "hi""»}}\n',
    "an open quote": 'workflow: w\nnodes:\n  a:\n    type: call\n    handler: «"h»\n    input: {n: "${input.n}"}\n',
    "a template of JSONPath": "workflow: w\nnodes: {a: {type: call, handler: h, input: '«$.input.x»'}}\n",
    "a template of Ruby": "workflow: w\nnodes: {a: {type: call, handler: h, input: 'Hi «#{input.x}»'}}\n",
    "a template of Python": "workflow: w\nnodes: {a: {type: call, handler: h, input: 'Hi «{input.x}»'}}\n",
    "a template of FEEL": "workflow: w\nnodes: {a: {type: call, handler: h, input: '«=input.x»'}}\n",
    "a template of Mistral": "workflow: w\nnodes: {a: {type: call, handler: h, input: '«<% $.x %>»'}}\n",
    "a choice of Python": f"workflow: w\nnodes:\n{WORKERS}  c: {{type: call, handler: h, input: '${{«nodes.a.output.n if nodes.a.output else None»}}'}}\nedges: [[a, c], {{from: a, to: b, on: failure}}, [b, c]]\n",
    "a payload": "workflow: w\nnodes:\n  w: {type: wait_for_event, event: e}\n  a: {type: call, handler: h, input: '${«nodes.w.payload.by»}'}\nedges: [[w, a]]\n",
    "the first of several payloads": "workflow: w\nnodes:\n  w: {type: wait_for_event, event: e, count: 2, payload_schema: {type: object, properties: {by: {type: string}}}}\n  a: {type: call, handler: h, input: '${«nodes.w.payload.by»}'}\nedges: [[w, a]]\n",
    "a body": "workflow: w\nnodes:\n  ask: {type: http, request: {url: u}}\n  a: {type: call, handler: h, input: '${«nodes.ask.body.x»}'}\nedges: [[ask, a]]\n",
    "a status code": "workflow: w\nnodes:\n  ask: {type: http, request: {url: u}}\n  a: {type: call, handler: h, input: '${«nodes.ask.status_code»}'}\nedges: [[ask, a]]\n",
    "a share": "workflow: w\nnodes:\n  m:\n    type: map\n    over: [1]\n    «tolerate: 20%»\n    body: {type: call, handler: h}\n",
    "a share in quotes": "workflow: w\nnodes:\n  m:\n    type: map\n    over: [1]\n    «tolerate: '12.5 %'»\n    body: {type: call, handler: h}\n",
    "a share of one": "workflow: w\nnodes:\n  m:\n    type: map\n    over: [1]\n    «tolerate: 0.2»\n    body: {type: call, handler: h}\n",
    "a status": "workflow: w\nnodes:\n  ask: {type: http, request: {url: u}}\n  b: {type: call, handler: h}\nedges: [{from: ask, to: b, on: failure, «errors: [404]»}]\n",
    "two statuses": "workflow: w\nnodes:\n  ask: {type: http, request: {url: u}}\n  b: {type: call, handler: h}\nedges: [{from: ask, to: b, on: failure, «errors: ['404', '410']»}]\n",
    "no wait for a child": "workflow: w\nnodes:\n  a:\n    type: subflow\n    workflow: other\n    «wait: false»\n",
    "a path of JSON to an output": f"workflow: w\nnodes:\n{WORKERS}  c: {{type: call, handler: h, input: '«$.nodes.b.output»'}}\nedges: [[b, c]]\n",
    "retry: true": "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    «retry: true»\n",
    "retry: false": "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    «retry: false»\n",
    "retries: true": "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    «retries: true»\n",
    "no default": "workflow: w\nnodes:\n  a:\n    type: switch\n    cases: [{when: true, to: b}]\n    «default: null»\n  b: {type: join}\n",
    "an end for a default": "workflow: w\nnodes:\n  a:\n    type: switch\n    cases: [{when: true, to: b}]\n    «default: end»\n  b: {type: join}\n",
    "one of several": f"workflow: w\nnodes:\n{WORKERS}  c:\n    type: join\n    «need: one»\nedges: [[a, c], [b, c]]\n",
    "an index": "workflow: w\nnodes: {r: {type: repeat, max_iterations: 2, until: true, body: {type: call, handler: h, input: '${«loop.index»}'}}}\n",
    "a step of one of two maps": "workflow: w\nnodes:\n  one: {type: map, over: [1], body: {type: call, handler: h}}\n  a: {type: call, handler: h, input: '${«nodes.step.output»}'}\n  two: {type: map, over: [1], body: {type: call, handler: h}}\nedges: [[one, a, two]]\n",
    "a step of the other": "workflow: w\nnodes:\n  two: {type: map, over: [1], body: {type: call, handler: h}}\n  a: {type: call, handler: h, input: '${«nodes.step.output»}'}\n  one: {type: map, over: [1], body: {type: call, handler: h}}\nedges: [[one, a, two]]\n",
    "how long a text is": "workflow: w\ninput_schema: {type: object, required: [s], properties: {s: {type: string}}}\nnodes: {a: {type: call, handler: h, input: '${«input.s.length»}'}}\n",
    "an own field of a map": "workflow: w\nnodes: {m: {type: map, over: [1], body: {type: call, handler: h, input: '${«nodes.m.item»}'}}}\n",
}  # fmt: skip


# Of some of them, all that is to be written: another remedy would compile as well, and do something else.
MEANT = {
    "a payload": "nodes.w.output.by",
    "the first of several payloads": "nodes.w.output[0].by",
    "a body": "nodes.ask.output.body.x",
    "a share": "tolerate: {percent: 20}",
    "a share in quotes": "tolerate: {percent: 12.5}",
    "a share of one": "tolerate: {percent: 20}",
    "a status": "errors: [HttpStatus], when: error.status == 404",
    "two statuses": 'errors: [HttpStatus], when: "error.status in [404, 410]"',
    "no wait for a child": "detach: true",
    "a path of JSON to an output": "${nodes.b.output}",
    "retry: true": "retry: {max_attempts: 3}",
    "retry: false": "retry: {max_attempts: 1}",
    "retries: true": "retry: {max_attempts: 3}",
    "no default": "default: none",
    "an end for a default": "default: none",
    "one of several": "need: any",
    "an index": "index",
    "a step of one of two maps": "nodes.one.output",
    "a step of the other": "nodes.one.output",
}


def told_to_write(source: str) -> str:
    told = [each.remedy for each in compile_workflow(source).faults if each.remedy.startswith("write ")]
    (remedy,) = dict.fromkeys(told)
    return remedy.removeprefix("write ").partition(", the ")[0]


@pytest.mark.parametrize("marked", SLIPS.values(), ids=SLIPS)
def test_what_the_remedy_says_to_write_compiles(marked: str) -> None:
    before, _, rest = marked.partition("«")
    wrong, _, behind = rest.partition("»")

    written = told_to_write(before + wrong + behind)

    assert [str(each) for each in errors(before + written + behind)] == []


@pytest.mark.parametrize(("name", "meant"), MEANT.items(), ids=MEANT)
def test_what_the_remedy_says_to_write_is_what_was_meant(name: str, meant: str) -> None:
    assert told_to_write(SLIPS[name].replace("«", "").replace("»", "")) == meant


def test_where_to_go_after_a_time_out_is_told_as_an_edge() -> None:
    source = f"workflow: w\nnodes:\n  c: {{type: call, handler: h, timeout: 30s@}}\n{WORKERS}edges:\n  - [c, a]\n"

    (fault,) = errors(source.replace("@", ", on_timeout: b"))

    edge = fault.remedy.removeprefix("write an edge ")
    assert edge == "{from: c, to: b, on: timeout}"
    assert errors(f"{source.replace('@', '')}  - {edge}\n") == []


def test_the_reference_lists_all_names_that_are_taken() -> None:
    reference = (Path(__file__).parents[2] / "docs" / "language.md").read_text("utf-8")
    told = reference.partition("those that mean something else:")[2].partition(".")[0]

    assert set(re.findall(r"`(\w+)`", told)) == RESERVED_NAMES


@pytest.mark.parametrize("key", ["errors: [404]", "errors: ['404']"])
def test_a_retry_rule_is_told_that_it_cannot_tell_statuses_apart(key: str) -> None:
    node = f"{{type: http, request: {{url: u}}, retry: {{max_attempts: 3, rules: [{{{key}, max_attempts: 1}}]}}}}"

    (fault,) = compile_workflow(f"workflow: w\nnodes:\n  a: {node}\n").faults

    assert fault.remedy.startswith("write HttpStatus, which is any status")


def errors(source: str) -> list[Fault]:
    return [fault for fault in compile_workflow(source).faults if not fault.warning]


@pytest.mark.parametrize(
    ("node", "named", "remedy"),
    [
        ("{type: http, request: {url: u}}", "HTTPStatus", "did you mean HttpStatus?"),
        (
            "{type: http, request: {url: u}}",
            "OutOfStock",
            "name one of timeout, exec_failed, verdict_fail, HttpStatus, HttpUnreachable, HttpTimeout, HttpError, HttpInvalidRequest, HttpResponseTooLarge",
        ),
        ("{type: http, request: {url: u}}", "LeaseLost", ""),
        ("{type: python, code: 'def run(input): return 1'}", "PythonDead", "did you mean PythonDied?"),
        ("{type: python, code: 'def run(input): return 1'}", "TypeError", ""),
        ("{type: python, code: 'Timeout = ValueError; run = lambda input: 1'}", "Timeout", ""),
        ("{type: call, handler: h}", "exec_faild", "did you mean exec_failed?"),
        ("{type: call, handler: h}", "HttpTimeOut", ""),
        ("{type: call, handler: h}", "OutOfStock", ""),
        ("{type: map, over: [1], body: {type: call, handler: h}}", "ItemFailed", "did you mean ItemsFailed?"),
    ],
)
def test_a_failure_is_warned_of_only_where_it_can_hardly_be_one(node: str, named: str, remedy: str) -> None:
    source = f"workflow: w\nnodes:\n  a: {node}\n  b: {{type: call, handler: h}}\nedges: [{{from: a, to: b, on: failure, errors: [{named}]}}]\n"

    told = compile_workflow(source).faults

    assert [fault.remedy for fault in told] == ([remedy] if remedy else [])
    assert all(fault.warning for fault in told)


def test_the_types_of_own_nodes_are_those_of_the_reference() -> None:
    reference = (Path(__file__).parents[2] / "docs" / "language.md").read_text("utf-8")

    for names in TYPES_OF_NODES.values():
        assert [name for name in names if f"`{name}`" not in reference] == []
