"""What is wrong with a test file is said with its place and a remedy, and nothing is run."""

from __future__ import annotations

import pytest

from headway.coordinator.testkit import WorkflowUnreadable, run_tests
from tests.testkit.kit import report_on

FLOW = """
    nodes: {charge: {type: call, handler: payments.charge}, ship: {type: wait, duration: 1s}}
    edges: [[charge, ship]]
"""
LOOP = """
    nodes: {each: {type: map, over: "${input}", body: {type: call, handler: do.it}}}
    finally: {type: call, handler: do.last}
"""
VAGUE = "does not say which item's or iteration's node is meant; write"
CASE = "cases: [{name: it, %s}]"
FAULTS = [
    ("case: []", "2:1: error: unknown key case in a test file; did you mean cases?"),
    ("cases: []", "2:8: error: there is no case; add `- name: …`"),
    ("cases: [it]", "2:9: error: cases must hold maps; write {key: value}"),
    ("cases: [{input: 1}]", "2:9: error: a case needs the key name; add name: text"),
    ("cases: [{name: a}, {name: a}]", "2:20: error: two cases have the name a; give each a name of its own"),
    (CASE % "until: 3", "2:27: error: until is no duration: 3; write the unit: 3s"),
    (
        CASE % "at: [{after: 1s}]",
        "2:25: error: an act needs one of signal, cancel, pause, resume, skip, retry; add one",
    ),
    (CASE % "at: [{resume: false}]", "2:34: error: resume can only be true; leave the act out"),
    (CASE % "at: [{cancel: true, output: 1}]", "2:48: error: output goes with skip; remove it"),
    (CASE % "at: [{skip: shp}]", "2:32: error: the workflow has no node shp; did you mean ship?"),
    (CASE % "at: [{retry: true, from: [shp]}]", "2:46: error: the workflow has no node shp; did you mean ship?"),
    (CASE % "mocks: {charge: {heartbeats: [{until: 3s}]}}", "2:58: error: until goes with every; remove it"),
    (
        CASE % "mocks: {charge: {heartbeats: [{each: 3s}]}}",
        "2:51: error: unknown key each in a heartbeat; known here: after, checkpoint, every, progress, until",
    ),
    (CASE % "at: [{signal: a, cancel: true}]", "2:45: error: signal and cancel exclude each other; keep one"),
    (CASE % "mocks: {charg: {}}", "2:28: error: the workflow has no node or handler charg; did you mean charge?"),
    (
        CASE % "mocks: {charge: 1}",
        (
            "2:36: error: the mock of charge must be a map; write {output: …} or {fails: …}, or "
            "a list of them, one for each attempt"
        ),
    ),
    (CASE % "mocks: {charge: {outputs: 1}}", "2:37: error: unknown key outputs in a mock; did you mean output?"),
    (CASE % "mocks: {charge: {output: 1, fails: {}}}", "2:55: error: output and fails exclude each other; keep one"),
    (
        CASE % "mocks: {charge: {output: '${nodes.a.output}'}}",
        "2:48: error: a mock does not know nodes; what the handler is given is `input`",
    ),
    (
        CASE % "mocks: {charge: {output: '${input.'}}",
        ("2:46: error: ${ is not closed; add }, or write $${ for the two characters themselves"),
    ),
    (
        CASE % "mocks: {charge: {fails: {class: broken}}}",
        "2:52: error: class cannot be broken; known here: exec_failed, timeout, verdict_fail",
    ),
    (
        CASE % "crashes: [{node: ship, crash: power}]",
        (
            "2:50: error: crash cannot be power; known here: delivered_twice, report_late, report_lost, report_twice, "
            "worker_dies"
        ),
    ),
    (
        CASE % "crashes: [{node: chrge, crash: worker_dies}]",
        "2:37: error: the workflow has no node chrge; did you mean charge?",
    ),
    (
        CASE % "expect: {outcome: done}",
        "2:38: error: outcome cannot be done; known here: cancelled, ended, failed, refused, running, succeeded",
    ),
    (
        CASE % "expect: {path: [charge, shipped]}",
        "2:44: error: the workflow has no node shipped; known here: charge, ship",
    ),
    (
        CASE % "expect: {never: [payments.charge]}",
        "2:37: error: the workflow has no node payments.charge; known here: charge, ship",
    ),
    (
        CASE % "expect: {nodes: {ship: {stat: failed}}}",
        "2:44: error: unknown key stat in what is expected of a node; did you mean state?",
    ),
    (
        CASE % "expect: {calls: [{handler: payments.chrge}]}",
        "2:47: error: the workflow has no handler payments.chrge; did you mean payments.charge?",
    ),
    (CASE % "expect: {calls: [{times: 1}]}", "2:37: error: an expected call needs one of handler, node; add one"),
    (
        CASE % "starts_at: 2030-01-01",
        ("2:31: error: starts_at must be an instant with its offset; write 2030-01-31T09:00:00+01:00"),
    ),
    (CASE % "limit: 0", "2:27: error: limit must be within 1 to 10000, this is 0; write at least 1"),
    (CASE % "limit: 3", "2:27: error: limit goes with interleavings: all; add that, or remove it"),
    (CASE % "interleavings: some", "2:35: error: interleavings cannot be some; known here: all, one"),
    ("cases: {name: it}", "2:8: error: cases must be a list, this is a map; write [ … ], or begin each item with `- `"),
    (
        "mocks: {nobody: {}}\ncases: [{name: it}]",
        "2:9: error: the workflow has no node or handler nobody; known here: charge, payments.charge",
    ),
    (CASE % "mocks: {charge: []}", "2:36: error: the mock of charge is empty; write {output: …} or {fails: …}"),
    (CASE % "mocks: {ship: {output: 1}}", "2:28: error: ship is a wait node: it calls nobody; known here: charge"),
    (CASE % "mocks: {charge: {hangs: true, takes: 3s}}", "2:57: error: hangs and takes exclude each other; keep one"),
    (
        CASE % "mocks: {charge: {fails: Boom}}",
        "2:44: error: fails must be a map, this is Boom; write `key: value` lines",
    ),
    (
        CASE % "mocks: {charge: {heartbeats: [{after: 5s, every: 1s, until: 3s}]}}",
        "2:80: error: until is before the first; write a later one",
    ),
    (
        CASE % "crashes: [{node: charge}]",
        (
            "2:30: error: a crash needs the key crash; add crash: worker_dies or report_late or report_lost or "
            "report_twice or delivered_twice"
        ),
    ),
    (
        CASE % "crashes: [{node: ship, crash: worker_dies}]",
        "2:37: error: ship is a wait node: it calls nobody; known here: charge",
    ),
    (
        CASE % "crashes: [{node: charge, crash: worker_dies}, {node: charge, crash: report_lost}]",
        "2:66: error: two crashes are around attempt 1 of charge; keep one",
    ),
    (
        CASE % "at: [{run: charge, cancel: true}]",
        "2:31: error: charge is no subflow node: it has no run; name a node that starts a run",
    ),
    (CASE % "expect: {calls: [{node: ship}]}", "2:44: error: ship is a wait node: it calls nobody; known here: charge"),
    (CASE % "expect: {within: 1s, duration: 5s}", "2:37: error: duration and within exclude each other; keep one"),
    (
        CASE % "expect: {output: 1, output_has: {a: 1}}",
        "2:52: error: output and output_has exclude each other; keep one",
    ),
    (
        CASE % "expect: {error: {type: Boom}}",
        "2:37: error: unknown key type in the expected error of a run; known here: class, message, paths, says",
    ),
    (CASE % "expect: {error: {class: timeouts}}", "2:44: error: class cannot be timeouts; did you mean timeout?"),
    (CASE % "expect: {error: {paths: [chrge]}}", "2:45: error: the workflow has no node chrge; did you mean charge?"),
    (
        CASE % "expect: {nodes: {charge: failed}}",
        "2:45: error: what is expected of charge must be a map; write {state: succeeded}",
    ),
    (
        CASE % "expect: {runs: {charge: {}}}",
        "2:36: error: charge is no subflow node: it has no run; name a node that starts a run",
    ),
]
OF_LOOPS = [
    (CASE % "expect: {path: [each.step]}", f"2:36: error: each.step {VAGUE} each[0].step, in quotes"),
    (CASE % "expect: {nodes: {each.step: {}}}", f"2:37: error: each.step {VAGUE} each[0].step, in quotes"),
    (CASE % "expect: {nodes: {finally.step: {}}}", f"2:37: error: finally.step {VAGUE} finally[0].step, in quotes"),
    (CASE % "expect: {nodes: {'each[0]': {}}}", f"2:37: error: each[0] {VAGUE} each, in quotes"),
    (CASE % "at: [{skip: 'each[x].step'}]", f"2:32: error: each[x].step {VAGUE} each[0].step, in quotes"),
    (CASE % "crashes: [{node: each.step, crash: worker_dies}]",
     f"2:37: error: each.step {VAGUE} each[0].step, in quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), FAULTS, ids=[each[0] for each in FAULTS])
def test_a_fault_is_said_with_its_place_and_a_remedy(text: str, fault: str) -> None:
    report = report_on(FLOW, text)

    assert fault in [str(each) for each in report.faults]
    assert report.cases == ()
    assert not report.passed


@pytest.mark.parametrize(("text", "fault"), OF_LOOPS, ids=[each[0] for each in OF_LOOPS])
def test_a_node_in_a_body_is_named_with_its_item_where_one_is_meant(text: str, fault: str) -> None:
    assert [str(each) for each in report_on(LOOP, text).faults] == [fault]


WAITS = "warning: further checks wait until what is found here is mended"
HIDING = [
    (
        "case: 1\ncases: [{name: it, mocks: {charg: {outputs: 1}}, expect: {path: [shp], never: [chrge]}}]",
        ["key case", "charg;", "key outputs", "node shp", "node chrge"],
    ),
    ("cases: [{name: it, mock: {charg: {}}, expect: {path: [shp]}}]", ["key mock ", "node shp", WAITS]),
    ("mocks: [{charg: {}}]\ncases: [{name: it}]", ["mocks must be a map", WAITS]),
    ("cases: [{name: it, at: [{skip: 3, run: ship}]}]", ["skip must be text", "ship is no subflow node"]),
    ("childs: [child.yaml]\ncases: [{name: it, expect: {path: [charge/x, shp]}}]", ["key childs", "node shp", WAITS]),
]


@pytest.mark.parametrize(("text", "said"), HIDING, ids=[each[0] for each in HIDING])
def test_names_are_checked_whatever_else_is_wrong_and_what_hides_some_is_said(text: str, said: list[str]) -> None:
    faults = sorted(map(str, report_on(FLOW, text).faults), key=lambda fault: WAITS in fault)

    assert len(faults) == len(said), faults
    assert all(part in fault for part, fault in zip(said, faults, strict=True)), faults


def test_faults_of_the_test_file_and_of_the_workflow_are_told_together() -> None:
    report = report_on("nodes: {a: {type: cal}}", "case: 1\n" + CASE % "input: 1")

    assert [str(fault) for fault in report.workflow.faults] == [
        "2:19: error: there is no node type cal; did you mean call?"
    ]
    assert [str(fault) for fault in report.faults] == [
        "2:1: error: unknown key case in a test file; did you mean cases?",
        f"2:1: {WAITS}",
    ]


def test_a_workflow_in_place_of_a_test_file_is_told_where_its_tests_go() -> None:
    flow = "workflow: trip\nnodes: {a: {type: call, handler: h}}\nedges: []\ninput_schema: {}\n"
    said = (
        "1:1: error: this is a workflow, no test file; write its tests to trip.test.yaml, which begins with "
        "`workflow: trip.yaml`"
    )

    reports = [run_tests(flow, lambda _: flow, name=name) for name in ("trip.yaml", "trip.test.yaml")]

    assert [[str(fault) for fault in report.faults] for report in reports] == [[said], [said]]


def test_keys_of_ones_own_stand_at_the_top_and_say_nothing() -> None:
    report = report_on(FLOW, "x-mocks: &mocks {charge: {output: 1}}\ncases: [{name: it, mocks: *mocks}]")

    assert report.faults == ()
    assert report.passed


def test_what_is_no_yaml_is_said_as_for_workflows() -> None:
    report = report_on(FLOW, "cases: [")

    assert [fault.code for fault in report.faults] == ["yaml_syntax", "checks_wait"]


def test_a_workflow_that_cannot_be_read_is_a_fault_where_it_is_named() -> None:
    def read(name: str) -> str:
        raise WorkflowUnreadable(f"cannot read {name}: no such file")

    report = run_tests("workflow: flow.yaml\ncases: [{name: it}]", read)

    assert [str(fault) for fault in report.faults] == [
        "1:11: error: cannot read flow.yaml: no such file; name it as it is seen from this file",
        f"1:11: {WAITS}",
    ]


def test_faults_of_the_workflow_are_told_apart() -> None:
    report = report_on("nodes: {a: {type: cal}}", CASE % "input: 1")

    assert (report.faults, report.cases) == ((), ())
    assert [str(fault) for fault in report.workflow.faults] == [
        "2:19: error: there is no node type cal; did you mean call?"
    ]


def test_a_time_zone_of_the_workflow_that_does_not_exist_is_one_of_its_faults() -> None:
    report = report_on("nodes: {a: {type: wait, until: '2030-01-31 09:00 Europe/Viena'}}", CASE % "input: 1")

    assert [str(fault) for fault in report.workflow.faults] == [
        "2:50: error: there is no time zone 'Europe/Viena'; did you mean Europe/Vienna?"
    ]
