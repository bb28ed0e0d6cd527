"""Each kind of expectation holds when it is right, and goes red when it is wrong: a test that cannot fail is none."""

from __future__ import annotations

from typing import get_args

import pytest

from headway.coordinator.core.actions import Action
from headway.coordinator.core.events import RunEvent
from headway.coordinator.testkit import telling
from tests.testkit.kit import report_on, the_case, wrongs

FLOW = """
    nodes:
      a: {type: call, handler: do.a, input: {n: "${input.n}", more: {x: 1, y: [1, 2]}}, retry: {max_attempts: 2}}
      gate: {type: switch, cases: [{when: "nodes.a.output.ok", to: b}], default: c}
      b: {type: call, handler: do.b}
      c: {type: call, handler: do.c}
      done: {type: finish, output: {sum: "${nodes.a.output.sum}", tags: [x, y]}}
    edges:
      - [a, gate]
      - [b, done]
      - [c, done]
"""
MOCKS = """
    input: {n: 1}
    mocks:
      do.a:
        - {fails: {type: Busy, message: come again, details: {wait: 3}}, takes: 1s}
        - {output: {ok: true, sum: 3}, takes: 2s}
      do.b: {takes: 1m}
    expect: {%s}
"""
SAME = [  # what is expected, right and wrong; how it is called; what was got
    ("outcome: succeeded", "outcome: failed", "outcome", "succeeded"),
    ("outcome: ended", "outcome: running", "outcome", "succeeded"),
    ("output: {sum: 3.0, tags: [x, y]}", "output: {sum: 3}", "output", '{"sum":3,"tags":["x","y"]} (.tags)'),
    ("output_has: {sum: 3}", "output_has: {sum: 4}", "output_has", '{"sum":3,"tags":["x","y"]} (.sum)'),
    ("output_has: {tags: [x, y]}", "output_has: {tags: [x]}", "output_has", '{"sum":3,"tags":["x","y"]} (.tags)'),
    ("path: [a, gate, b, done]", "path: [a, gate, b]", "path", "[a, gate, b, done]"),
    ("path_has: [a, done]", "path_has: [done, a]", "path_has", "[a, gate, b, done]"),
    ("never: [c]", "never: [c, b]", "never", "b ran"),
    ("nodes: {b: {state: succeeded}}", "nodes: {b: {state: failed}}", "b.state", '"succeeded"'),
    ("nodes: {c: {state: not_reached}}", "nodes: {b: {state: not_reached}}", "b.state", '"succeeded"'),
    ("nodes: {a: {output: {ok: true, sum: 3}}}", "nodes: {a: {output: {ok: 1, sum: 3}}}", "a.output",
     '{"ok":true,"sum":3} (.ok)'),
    ("nodes: {a: {output_has: {sum: 3}}}", "nodes: {a: {output_has: {total: 3}}}", "a.output_has",
     '{"ok":true,"sum":3} (.total)'),
    ("nodes: {b: {output: null}}", "nodes: {b: {output: 1}}", "b.output", "null"),
    ("nodes: {a: {attempts: 2}}", "nodes: {a: {attempts: 1}}", "a.attempts", "2"),
    ("calls: [{handler: do.a}]", "calls: [{handler: do.c}]", "calls of do.c", "no call"),
    ("calls: [{node: a, times: 2}]", "calls: [{node: b, times: 0}]", "calls of b", "1 call; called with null"),
    ("calls: [{handler: do.c, times: 0}]", "calls: [{handler: do.a, times: 0}]", "calls of do.a",
     '2 calls; called with {"n":1,"more":{"x":1,"y":[1,2]}}, {"n":1,"more":{"x":1,"y":[1,2]}}'),
    ("calls: [{node: b, input: null}]", "calls: [{node: b, input: {}}]", "calls of b",
     "no call with {}; called with null"),
    ("calls: [{node: a, input_has: {more: {x: 1}}}]", "calls: [{node: b, input_has: {more: {x: 1}}}]", "calls of b",
     'no call with at least {"more":{"x":1}}; called with null'),
    ("duration: 1m4s", "duration: 1m3s", "duration", "1m4s"),
    ("within: 1m4s", "within: 1m3s", "within", "1m4s"),
    ("within: 5m", "within: 10ms", "within", "1m4s"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "what", "got"), SAME, ids=[each[0] for each in SAME])
def test_an_expectation_holds_when_it_is_right_and_fails_when_it_is_wrong(
    right: str, wrong: str, what: str, got: str
) -> None:
    assert the_case(FLOW, MOCKS % right).problems == ()

    (problem,) = the_case(FLOW, MOCKS % wrong).problems

    assert (problem.what, problem.got) == (what, got)
    assert problem.line == 10, "it names the line of the test file"


ERRORS = [
    ("error: {class: exec_failed}", "error: {class: timeout}", "error.class", '"exec_failed"'),
    ("error: {says: card}", "error: {says: bank}", "error.says", '"a: Declined: the card is lost"'),
    ('error: {message: "a: Declined: the card is lost"}', "error: {message: lost}", "error.message",
     '"a: Declined: the card is lost"'),
    ("error: {paths: [a]}", "error: {paths: [b]}", "error.paths", '["a"] ([0])'),
    ("nodes: {a: {error: {type: Declined}}}", "nodes: {a: {error: {type: Lost}}}", "a.error.type", '"Declined"'),
    ("nodes: {a: {error: {class: exec_failed}}}", "nodes: {a: {error: {class: timeout}}}", "a.error.class",
     '"exec_failed"'),
    ("nodes: {a: {error: {message: the card is lost}}}", "nodes: {a: {error: {message: x}}}", "a.error.message",
     '"the card is lost"'),
    ("nodes: {a: {error: {says: is lost}}}", "nodes: {a: {error: {says: x}}}", "a.error.says", '"the card is lost"'),
    ("nodes: {a: {error: {details: {code: 1}}}}", "nodes: {a: {error: {details: {code: 2}}}}", "a.error.details",
     '{"code":1,"bank":"x"} (.code)'),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "what", "got"), ERRORS, ids=[each[0] for each in ERRORS])
def test_an_error_is_compared_field_by_field(right: str, wrong: str, what: str, got: str) -> None:
    case = """
        input: {n: 1}
        mocks: {a: {fails: {type: Declined, message: the card is lost, details: {code: 1, bank: x}}}}
        expect: {outcome: failed, %s}
    """
    once = FLOW.replace(", retry: {max_attempts: 2}", "")
    assert the_case(once, case % right).problems == ()

    assert [(what, got) for what, _, got in wrongs(the_case(once, case % wrong))] == [(what, got)]


def test_without_expectations_the_run_must_succeed() -> None:
    case = "input: {n: 1}\nmocks: {do.a: {fails: {final: true}}}"

    assert wrongs(the_case(FLOW, case)) == [("outcome", "succeeded", "failed: a: Failed: mocked")]


def test_an_input_that_does_not_fit_is_refused() -> None:
    flow = "input_schema: {type: object, required: [n]}\n" + "nodes: {a: {type: wait, duration: 1s}}"

    assert the_case(flow, "expect: {outcome: refused}").passed
    assert wrongs(the_case(flow, "expect: {outcome: succeeded}")) == [
        ("outcome", "succeeded", "refused: The input does not fit the workflow's input_schema: $.n: is required.")
    ]


def test_a_run_that_waits_for_somebody_is_running() -> None:
    flow = "nodes: {ok: {type: wait_for_event, event: ok}}"

    assert the_case(flow, "expect: {outcome: running, nodes: {ok: {state: waiting}}}").passed
    assert wrongs(the_case(flow, "expect: {outcome: ended}")) == [("outcome", "ended", "running")]
    assert wrongs(the_case(flow, "expect: {outcome: succeeded}")) == [("outcome", "succeeded", "running")]


def test_a_handler_without_a_mock_is_named_with_the_remedy() -> None:
    (problem,) = the_case(FLOW, "input: {n: 1}").problems

    assert problem.what == "a ran, and nothing says what its handler do.a does"
    assert problem.expected == "add a mock for a or do.a"


def test_a_failing_case_tells_the_run_and_a_passing_one_does_not() -> None:
    failing = the_case(FLOW, MOCKS % "outcome: failed")

    assert failing.story == (
        '  0s  the run starts with {"n":1}',
        "        → a waits for a worker",
        "  1s  report of a: Busy",
        "        → a failed: Busy: come again",
        "        → a is to be tried again",
        "  2s  retry of a",
        "        → a (attempt 2) waits for a worker",
        '  4s  report of a (attempt 2): {"ok":true,"sum":3}',
        "        → a succeeded",
        "        → gate succeeded",
        "        → b waits for a worker",
        "1m4s  report of b: null",
        "        → b succeeded",
        "        → done succeeded",
        "        → done ends the run",
        "        → the run has succeeded",
    )
    assert the_case(FLOW, MOCKS % "outcome: succeeded").story == ()


def test_coverage_is_over_all_cases_of_a_file() -> None:
    mocks = "mocks: {do.a: {output: {ok: '${input.n == 1}', sum: 1}}, do.b: {}, do.c: {}}\n"
    one = "  - {name: one, input: {n: 1}}\n"
    two = "  - {name: two, input: {n: 2}}\n"

    half, whole = report_on(FLOW, mocks + "cases:\n" + one), report_on(FLOW, mocks + "cases:\n" + one + two)

    assert half.workflow.coverage is not None
    assert half.workflow.coverage.never == ("c → done", "gate → c")
    assert half.workflow.coverage.percent == 60
    assert whole.workflow.coverage is not None
    assert whole.workflow.coverage.percent == 100


def test_every_event_and_action_is_told_in_words_or_left_out() -> None:
    assert set(get_args(RunEvent)) == set(telling.EVENTS)
    assert set(get_args(Action)) == set(telling.ACTIONS) | telling.UNTOLD


def test_a_node_of_a_body_that_never_runs_runs_in_no_item() -> None:
    flow = "nodes: {each: {type: map, over: '${input}', body: {type: call, handler: do.it}}}"
    case = "input: %s\nmocks: {do.it: {}}\nexpect: {never: [%s], path_has: [each]}"

    assert the_case(flow, case % ([], "each.step")).passed
    assert the_case(flow, case % ([1], "'each[1].step'")).passed
    assert wrongs(the_case(flow, case % ([1], "each.step"))) == [
        ("never", "each.step does not run", "each[0].step ran")
    ]


def test_an_order_that_names_what_never_had_a_choice_is_told() -> None:
    flow = "nodes: {a: {type: call, handler: do.a}, b: {type: call, handler: do.a}}"
    case = "mocks: {do.a: {takes: 1s}}\norder: [report of %s]"

    assert the_case(flow, case % "b").passed
    (problem,) = the_case(flow, case % "c").problems
    assert problem.what == "report of c never happens at the same instant as something else"
    assert problem.expected == "what went first where there was a choice: report of a"
    assert (problem.line, problem.column) == (5, 12)
