# ruff: noqa: E501, ISC004 - a source on one line is easier to read
"""What need not be there, by its schema or before the first iteration, and what is said where it is read all the same."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import Code, compile_workflow
from headway.coordinator.core.machines import RunState
from tests.core.invariants import begin

SCHEMA = (
    "{type: object, required: [n, o, lines], properties: {n: {type: integer}, note: {type: string}, "
    "o: {type: object, required: [sure], properties: {deep: {type: string}, sure: {type: string}}}, "
    "lines: {type: array, items: {type: object, required: [id], properties: {id: {}, sku: {type: string}}}}}}"
)
WORKER = "{type: call, handler: h}"


def reads(template: str) -> str:
    return f'{{type: call, handler: h, input: "{template}"}}'


def told(nodes: str, edges: str = "[]", *, schema: str = SCHEMA, more: str = "") -> list[str]:
    source = f"workflow: w\ninput_schema: {schema}\n{more}nodes:\n{nodes}edges: {edges}\n"
    found = [fault for fault in compile_workflow(source).faults if fault.code is not Code.ISOLATED_NODE]
    assert {fault.code for fault in found} <= {Code.MAY_BE_MISSING, Code.MAY_LEAD_NOWHERE}, found
    return [fault.message.partition(" may be")[0] for fault in found if fault.code is Code.MAY_BE_MISSING]


@pytest.mark.parametrize(
    ("template", "missing"),
    [
        ("${input.note}", ["input.note"]),
        ("x ${input.note} y", ["input.note"]),
        ("${input.note + 'x'}", ["input.note"]),
        ("${input.o.deep}", ["input.o.deep"]),
        ("${input.n} ${input.o.sure} ${input.lines}", []),
        ("${input.unspoken}", []),
        ("${has(input.note) ? input.note : null}", []),
        ("${has(input.o.deep) && input.o.deep == 'x'}", []),
        ("${'note' in input ? input.note : null}", []),
        ("${has(input.note)}", []),
        ("${input}", []),
    ],
)
def test_a_field_that_is_not_required_is_warned_of_where_it_is_read_without_asking(
    template: str, missing: list[str]
) -> None:
    assert told(f"  a: {reads(template)}\n") == missing


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (f"  a: {WORKER}\n  b: {reads('${input.note}')}\n", "[{from: a, to: b, when: has(input.note)}]"),
        (f"  a: {WORKER}\n  b: {reads('${input.o.deep}')}\n", "[{from: a, to: b, when: has(input.o.deep)}]"),
        (f"  a: {WORKER}\n  b: {reads('${input.note}')}\n", "[{from: a, to: b, when: \"'note' in input\"}]"),
        (
            "  a: {type: switch, cases: [{when: '!has(input.note)', to: b}], default: c}\n"
            f"  b: {WORKER}\n  c: {reads('${input.note}')}\n",
            "[]",
        ),
        ("  a: {type: map, over: '${input.lines}', where: has(item.sku), output: '${item.sku}', "
         f"body: {reads('${item.sku}')}}}\n", "[]"),
        (
            f"  a: {WORKER}\n  b: {{type: map, over: '${{input.lines}}', body: {reads('${input.note} ${item.id}')}}}\n",
            "[{from: a, to: b, when: has(input.note)}]",
        ),
    ],
)  # fmt: skip
def test_what_was_asked_on_every_way_is_read_without_a_warning(nodes: str, edges: str) -> None:
    assert told(nodes, edges) == []


def test_what_was_asked_on_one_way_only_may_be_missing_on_the_other() -> None:
    nodes = f"  a: {WORKER}\n  b: {WORKER}\n  c: {reads('${input.note}')}\n"

    assert told(nodes, "[{from: a, to: c, when: has(input.note)}, [b, c]]") == ["input.note"]


def test_an_item_is_known_by_the_list_and_an_inner_one_is_another() -> None:
    inner = f"{{type: map, over: '${{input.lines}}', body: {reads('${item.sku}')}}}"
    outer = f"  a: {{type: map, over: '${{input.lines}}', where: has(item.sku), body: {inner}}}\n"

    assert told(f"  a: {{type: map, over: '${{input.lines}}', body: {reads('${item.sku}')}}}\n") == ["item.sku"]
    assert told(outer) == ["item.sku"]


def test_outputs_and_payloads_are_known_by_their_schemas() -> None:
    schema = "{type: object, required: [ok], properties: {ok: {}, by: {}}}"
    nodes = (
        f"  a: {{type: call, handler: h, output_schema: {schema}}}\n"
        f"  b: {{type: wait_for_event, event: e, payload_schema: {schema}}}\n"
        f"  c: {reads('${nodes.a.output.ok} ${nodes.a.output.by} ${nodes.b.output.ok} ${nodes.b.output.by}')}\n"
    )

    assert told(nodes, "[[a, b, c]]") == ["nodes.a.output.by", "nodes.b.output.by"]


def test_labels_are_told_too_and_one_field_is_one_warning() -> None:
    source = (
        f"workflow: w\ninput_schema: {SCHEMA}\nlabels: {{l: '${{input.note}}'}}\n"
        f"nodes:\n  a: {reads('${input.note}')}\n  b: {reads('${input.note}')}\nedges: [[a, b]]\n"
    )

    assert [str(fault) for fault in compile_workflow(source).faults] == [
        "3:16: warning: input.note may be missing, and what reads it fails then: its schema does not require it "
        "(line 5, 6 reads it, too); write has(input.note) ? input.note : null, or list note under required"
    ]


@pytest.mark.parametrize(
    "schema",
    [
        "{type: object}",
        "{type: object, properties: {note: {}}, anyOf: [{required: [note]}, {required: [x]}]}",
        "{type: object, properties: {note: {}}, if: {}, then: {required: [note]}}",
        "{type: object, properties: {note: {}}, allOf: [{required: [note]}]}",
        "{$ref: '#/$defs/i', $defs: {i: {type: object, required: [note], properties: {note: {}}}}}",
    ],
)
def test_what_a_schema_may_require_elsewhere_is_not_warned_of(schema: str) -> None:
    assert told(f"  a: {reads('${input.note}')}\n", schema=schema) == []


def test_the_run_fails_as_the_warning_says_and_not_with_its_remedy() -> None:
    source = "workflow: w\ninput_schema: {{type: object, properties: {{note: {{}}}}}}\nnodes:\n  a: {{type: finish, output: '${{{}}}'}}\n"
    bare, guarded = source.format("input.note"), source.format("has(input.note) ? input.note : null")

    (fault,) = compile_workflow(bare).faults

    assert fault.remedy.startswith("write has(input.note) ? input.note : null")
    assert compile_workflow(guarded).faults == ()
    assert begin(bare, {}).state is RunState.FAILED
    assert begin(guarded, {}).state is RunState.SUCCEEDED


# The first iteration

REPEAT = "workflow: w\nnodes:\n  r: {{type: repeat, {}, max_iterations: 2, body: {}}}\n"


def errors(ends: str, body: str) -> list[tuple[str, str]]:
    found = compile_workflow(REPEAT.format(ends, body)).faults
    return [(fault.code.value, fault.remedy) for fault in found]


@pytest.mark.parametrize(
    ("ends", "template", "remedies"),
    [
        ("while: last.more", "x", ["write index == 0 || last.more …, so that it begins"]),
        ("until: last.done", "${last.x}", ["write has(last.x) ? last.x : null"]),
        ("until: last.done", "${last.x + 1}", ["write has(last.x) ? last.x : null"]),
        ("until: last.done", "${last}", []),
        ("until: last.done", "${has(last.x) ? last.x : 1}", []),
        ("until: last.done", "${last == null ? 0 : last.x}", []),
        ("until: last.done", "${index > 0 ? last.x : 0}", []),
        ("while: index == 0 || last.more", "x", []),
        ("while: last == null || last.more", "x", []),
    ],
)
def test_a_field_of_the_last_iteration_is_asked_for_before_there_was_one(
    ends: str, template: str, remedies: list[str]
) -> None:
    assert errors(ends, reads(template)) == [("may_be_missing", remedy) for remedy in remedies]


def test_behind_a_condition_on_the_iteration_it_is_there() -> None:
    body = (
        "{nodes: {a: {type: switch, cases: [{when: @, to: b}], default: c}, "
        f"b: {reads('${last.x}')}, c: {WORKER}}}}}"
    )

    assert errors("until: last.done", body.replace("@", "index > 0")) == []
    assert errors("until: last.done", body.replace("@", "last != null")) == []
    assert errors("until: last.done", body.replace("@", "has(last.x)")) == []
    assert len(errors("until: last.done", body.replace("@", "input.x"))) == 1


def test_in_a_map_within_a_repeat_it_is_that_of_the_repeat() -> None:
    body = f"{{nodes: {{m: {{type: map, over: [1], body: {reads('@')}}}}}}}"

    assert errors("until: true, output: {x: 1}", body.replace("@", "${last.x}")) == [
        ("may_be_missing", "write has(last.x) ? last.x : null")
    ]
    assert errors("until: true, output: {x: 1}", body.replace("@", "${has(last.x) ? last.x : item}")) == []


def test_a_condition_before_the_first_iteration_that_reads_a_field_is_refused() -> None:
    assert begin(REPEAT.format("while: last == null || last.more", WORKER), {}).state is RunState.RUNNING
    assert compile_workflow(REPEAT.format("while: last.more", WORKER)).plan is None


# Defaults


def test_a_default_fills_nothing_in_and_its_remedy_gives_it() -> None:
    source = "workflow: w\ninput_schema: {{type: object, properties: {{n: {{type: integer{}}}}}}}\nnodes:\n  a: {{type: finish, output: '${{{}}}'}}\n"

    (fault,) = compile_workflow(source.format(", default: 3", "input.n")).faults

    assert (fault.message, fault.warning) == ("default is not filled in: without a value, n stays absent", True)
    guarded = fault.remedy.partition("write ")[2]
    assert guarded == "has(input.n) ? input.n : 3"
    assert compile_workflow(source.format("", guarded)).faults == ()
    assert begin(source.format(", default: 3", "input.n"), {}).state is RunState.FAILED


# What is left unchecked


@pytest.mark.parametrize(
    "source",
    [
        f"workflow: w\nNodes:\n  a: {WORKER}\nedges: [[a, b]]\n",
        f"workflow: w\nnodes:\n  - a: {WORKER}\nedges: [[a, b]]\n",
        f"workflow: w\nnodes:\n  m: {{type: map, over: [1], body: {{nods: {{a: {WORKER}}}, edges: [[a, b]]}}}}\n",
    ],
)
def test_where_nodes_cannot_be_read_the_last_line_says_that_checks_wait(source: str) -> None:
    assert compile_workflow(source).faults[-1].code is Code.CHECKS_WAIT


def test_a_value_that_yaml_cannot_read_hides_nothing_and_gives_rise_to_nothing() -> None:
    source = (
        "workflow: w\nnodes:\n  a: {type: call, handler: h, timeout: ${input.t}}\n  b: {type: switch, cases: [{when: true, to: ${x}}], default: none}\n"
        f"  m: {{type: map, over: ${{input.l}}, body: {WORKER}}}\n  n: {{type: ${{x}}}}\n  c: {{type: call, handlr: h}}\nedges: [[a, m], [n, ${{x}}]]\n"
    )

    assert [(fault.line, fault.code.value) for fault in compile_workflow(source).faults if not fault.warning] == [
        *((line, "unquoted_template") for line in (3, 4, 5, 6)),
        (7, "unknown_key"),
        (8, "unquoted_template"),
    ]


def test_a_large_file_is_not_read_again_for_each_value_that_yaml_cannot_read() -> None:
    source = "workflow: w\nnodes:\n" + "".join(f"  n{n}: {{type: call, handler: ${{x}}}}\n" for n in range(3_000))

    faults = compile_workflow(source).faults

    assert 1 <= len(faults) <= 4
    assert faults[-1].code is Code.CHECKS_WAIT
