# ruff: noqa: E501 - a source on one line is easier to count columns in
"""Each thing that can be wrong with a workflow's source is found at its place, by its kind, with something to do."""

import orjson
import pytest

from headway.coordinator.core.compiler import Code, Fault, compile_workflow
from headway.coordinator.core.compiler.fault_reference import MEANINGS
from headway.coordinator.core.compiler.python_code import complaint_about
from headway.coordinator.zones import zone_names
from tests.core.faulty import TABLE, WORKER


@pytest.mark.parametrize(("source", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_is_found_where_it_stands(source: str, expected: list[tuple[int, int, str]]) -> None:
    result = compile_workflow(source, zone_names())

    told = [fault for fault in result.faults if fault.code is not Code.CHECKS_WAIT]
    found = [(fault.line, fault.column, fault.code.value) for fault in told]
    assert sorted(found) == sorted(expected), "\n".join(str(fault) for fault in result.faults)
    assert (result.plan is None) == any(not fault.warning for fault in result.faults)


def test_every_kind_of_fault_is_in_the_table() -> None:
    shown = {code for _, _, faults in TABLE for _, _, code in faults}

    assert {code.value for code in Code} - shown == {"too_many", "checks_wait", "not_deployed"}


def test_every_fault_in_the_table_has_a_remedy() -> None:
    faults = [fault for _, source, _ in TABLE for fault in compile_workflow(source, zone_names()).faults]

    assert [str(fault) for fault in faults if not fault.remedy and fault.code is not Code.CHECKS_WAIT] == []


def test_every_kind_of_fault_has_a_meaning_in_the_reference() -> None:
    assert list(MEANINGS) == list(Code)


@pytest.mark.parametrize(
    ("zone", "remedy"),
    [
        ("Europe/Viena", "did you mean Europe/Vienna?"),
        ("europe/vienna", "did you mean Europe/Vienna?"),
        ("Vienna", "did you mean Europe/Vienna?"),
        ("New York", "did you mean America/New_York?"),
        ("Amrica/Nwe_York", "did you mean America/New_York?"),
        ("Europe/Wien", "zones are named as in the tz database, such as Europe/Berlin"),
        ("PST", "zones are named as in the tz database, such as Europe/Berlin"),
        ("CEST", "zones are named as in the tz database, such as Europe/Berlin"),
        ("GMT+2", "zones are named as in the tz database, such as Europe/Berlin"),
        ("Middle/Nowhere_At_All", "zones are named as in the tz database, such as Europe/Berlin"),
    ],
)
def test_a_zone_that_does_not_exist_names_the_nearest(zone: str, remedy: str) -> None:
    source = f"workflow: w\nnodes:\n  a: {{type: wait, until: '2030-01-31T09:00:00', zone: {zone}}}\n"

    (fault,) = compile_workflow(source, zone_names()).faults

    assert (fault.message, fault.remedy) == (f"there is no time zone '{zone}'", remedy)


def only_fault(source: str) -> Fault:
    (fault,) = compile_workflow(source).faults
    return fault


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            f"workflow: w\nnods: {{}}\nnodes: {{a: {WORKER}}}\n",
            "2:1: error: unknown key nods in a workflow; did you mean nodes?",
        ),
        (
            f"workflow: w\nnodes: {{a: {WORKER}, b: {WORKER}, c: {WORKER}}}\nedges: [[a, b, c, a]]\n",
            "3:19: error: a cycle: a → b → c → a; remove one of its edges; what is to be done again is the body of a node {type: repeat, until: …, max_iterations: 3, body: …}",
        ),
        (
            f'workflow: w\nnodes: {{a: {WORKER}, b: {WORKER}}}\nedges: [{{from: a, to: b, when: "${{input.x > 1}}"}}]\n',
            "3:32: error: a condition is an expression already; ${ } does not belong here; write input.x > 1",
        ),
        (
            "workflow: w\nnodes: {a: {type: wait, duration: 30}}\n",
            "2:35: error: duration is no duration: 30; write the unit: 30s",
        ),
        (
            f"workflow: w\nnodes: {{ShipIt: {WORKER}}}\n",
            "2:9: error: 'ShipIt' cannot name a node; small letters, digits and _, a letter first, at most 63: ship_it",
        ),
        (
            "workflow: w\nnodes: {a: {type: python, code: 'def run(input) return 1'}}\n",
            "2:49: error: the code is no Python: expected ':'; mend this line of the code",
        ),
        (
            "workflow: w\nnodes: {a: {type: python, code: 'def run(input): return ${input.x}'}}\n",
            "2:57: error: the code is no Python: invalid syntax; code holds no templates: values come in as input",
        ),
        (
            "workflow: w\nnodes: {a: {type: call, handler: h, queue: ''}}\n",
            "2:44: error: queue must be text, this is empty; write at least one character",
        ),
        (
            "workflow: w\nnodes: {a: {type: finish, outcome: ''}}\n",
            "2:36: error: outcome cannot be ''; known here: failed, succeeded",
        ),
        (
            "workflow: w\nnodes: {a: {type: call, handler: h, input: '${input.}'}}\n",
            '2:53: error: unexpected "."; write the field\'s name behind each . , or leave the . out',
        ),
        (
            "workflow: w\nnodes: {a: {type: call, handler: h, input: '${size(input.a, 3)}'}}\n",
            "2:51: error: the arguments of size do not fit; write size(value) or value.size()",
        ),
    ],
)
def test_says_what_is_wrong_and_what_to_do(source: str, line: str) -> None:
    assert str(only_fault(source)) == line


@pytest.mark.parametrize(
    "code",
    [
        "def run(input): return input",
        "def run(given, more=1, *, named=2): return given",
        "def run(*given): return given",
        "run = lambda input: input",
        "import re\nif True:\n  def run(input): return re.match('\\d', input)",
        "class Handler:\n  def run(self, one, two): pass\ndef run(input): return 1",
        "from json import loads as run",
    ],
)
def test_code_that_can_run_is_no_fault(code: str) -> None:
    source = "workflow: w\nnodes: {a: {type: python, code: " + orjson.dumps(code).decode() + "}}\n"

    assert compile_workflow(source).faults == ()


@pytest.mark.parametrize("code", ["-" * 100_000 + "1", "(" * 5_000, "a\0b", "f(" * 90 + ")" * 90, "\ufeff", "x = '"])
def test_no_code_makes_the_compiler_fall_over(code: str) -> None:
    assert complaint_about(code) is not None


def kinds(source: str) -> list[str]:
    faults = compile_workflow(source).faults
    return [fault.code.value for fault in faults if fault.code is not Code.ISOLATED_NODE]


def test_names_are_checked_even_where_the_graph_is_not_known() -> None:
    reading = "'${nodes.zzz.output} ${nodes.a.outptu} ${vars.v} ${run.idd} ${nodes.b.output}'"
    names = ["unknown_reference", "unknown_reference", "unknown_variable", "unknown_reference"]
    nodes = f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\n  c: {{type: call, handler: h, input: {reading}}}\n"

    assert kinds(f"{nodes}edges: [[a, b, a]]\n") == [*names, "cycle", "checks_wait"]
    assert kinds(f"{nodes}edges: [[a, x]]\n") == [*names, "unknown_node", "checks_wait"]
    assert kinds(f"{nodes}  d: {{type: cal}}\nedges: [[b, c]]\n") == [*names, "unknown_node_type", "checks_wait"]
    assert kinds(f"{nodes}edges: [[a, b, c]]\n") == names


def test_expressions_of_what_was_refused_are_checked_too() -> None:
    source = (
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {{type: cal, input: '${{nodes.zzz.output}}'}}\n"
        "edges:\n  - {from: a, to: x, when: nodes.yyy.output == 1}\n"
    )

    assert kinds(source) == ["unknown_node_type", "unknown_reference", "unknown_node", "unknown_reference"]


def test_a_wrong_condition_hides_nothing_of_the_graph() -> None:
    source = (
        "workflow: w\nnodes:\n  s: {type: switch, cases: [{when: input.x = 1, to: a}], default: b}\n"
        f"  a: {WORKER}\n  b: {{type: call, handler: h, input: '${{nodes.a.output}}'}}\n"
    )

    assert kinds(source) == ["expression_invalid", "not_an_ancestor"]


def test_says_in_one_last_line_that_there_may_be_more() -> None:
    faults = compile_workflow("workflow: w\nnodes:\n  a: 1\n b: 2\n").faults

    assert [str(fault) for fault in faults[1:]] == [
        "4:2: warning: further checks wait until what is found here is mended"
    ]


def test_shows_no_more_faults_than_anybody_can_read() -> None:
    source = "workflow: w\n" + "".join(f"k{number}: 1\n" for number in range(1_000))

    faults = compile_workflow(source).faults

    assert len(faults) == 201
    assert any(fault.code is Code.TOO_MANY for fault in faults)


def test_a_million_exclamation_marks_are_refused_before_anything_reads_them_as_a_tag() -> None:
    assert kinds("workflow: w\nnodes:\n  a: " + "!" * 1_000_000) == ["yaml_tag", "checks_wait"]
    assert kinds('workflow: w\ndescription: "!' + "!" * 2_000 + '"\nnodes: {a: {type: call, handler: h}}\n') == []


def test_a_switch_without_cases_in_a_body_is_a_fault_and_what_follows_it_is_checked_all_the_same() -> None:
    source = (
        "workflow: w\nnodes:\n  each:\n    type: map\n    over: [1]\n    body:\n      nodes:\n"
        "        ask: {type: call, handler: h}\n        go: {type: switch, cases: [], default: on}\n"
        '        on: {type: call, handler: h, input: "${nodes.go.output}"}\n      edges: [[ask, go]]\n'
    )

    assert [(fault.line, fault.message) for fault in compile_workflow(source).faults] == [
        (9, "a switch has at least one case")
    ]
