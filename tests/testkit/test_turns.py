"""Mocks in turn: what comes of one task after the other, in iterations, items and runs."""

from __future__ import annotations

from tests.testkit.kit import family_case, report_on, the_case, wrongs

ASKED = """
    nodes:
      poll:
        type: repeat
        until: last == 'done'
        max_iterations: 9
        body: {type: call, handler: ask, retry: {max_attempts: 3, initial: 1s, jitter: 0}}
"""
ALL = "nodes: {all: {type: map, over: '${[1, 2, 3]}', body: {type: call, handler: score}}}"


def test_each_iteration_has_its_turn_whatever_attempts_it_takes() -> None:
    case = the_case(
        ASKED,
        """
        mocks:
          ask:
            in_turn:
              - {output: running}
              - [{fails: {type: Away}}, {output: running}]
              - {output: done}
        expect:
          duration: 1s
          nodes: {"poll[1].step": {attempts: 2}, "poll[2].step": {output: done}}
          calls: [{handler: ask, times: 4}]
        """,
    )

    assert wrongs(case) == []


def test_items_have_theirs_in_the_order_in_which_they_begin() -> None:
    case = the_case(
        ALL,
        """
        mocks: {all.step: {in_turn: [{output: a, takes: 3s}, {output: b}, {output: c}]}}
        expect: {nodes: {"all[0].step": {output: a}, "all[1].step": {output: b}, "all[2].step": {output: c}}}
        """,
    )

    assert wrongs(case) == []


def test_nodes_of_one_handler_share_its_turns() -> None:
    case = the_case(
        "nodes: {a: {type: call, handler: h}, b: {type: call, handler: h}}\nedges: [[a, b]]",
        "mocks: {h: {in_turn: [{output: 1}, {output: 2}]}}\nexpect: {nodes: {a: {output: 1}, b: {output: 2}}}",
    )

    assert wrongs(case) == []


def test_runs_of_a_subflow_node_have_turns() -> None:
    flows = {
        "outer": "nodes: {all: {type: map, over: '${[1, 2]}', body: {type: subflow, workflow: inner}}}",
        "inner": "nodes: {a: {type: call, handler: h}}",
    }
    case = family_case(
        flows,
        """
        mocks: {all.step: {in_turn: [{output: 1}, {output: 2}]}}
        expect: {nodes: {"all[0].step": {output: 1}, "all[1].step": {output: 2}}}
        """,
    )

    assert wrongs(case) == []


def test_a_task_more_than_there_are_turns_fails_the_case_at_its_mock() -> None:
    case = the_case(ALL, "mocks: {score: {in_turn: [{output: 1}, {output: 2}]}}")

    (problem,) = case.problems
    assert not case.passed
    assert "all[2].step is number 3, and in_turn has 2" in str(problem)
    assert problem.line == 4


def test_every_order_of_a_case_begins_with_the_first_turn() -> None:
    case = the_case(
        "nodes: {a: {type: call, handler: h}, b: {type: call, handler: h}}",
        "interleavings: all\nmocks: {h: {in_turn: [{output: 1}, {output: 2}]}}",
    )

    assert case.passed


def test_what_is_said_in_turn_says_nothing_else_and_something() -> None:
    faults = report_on(
        ALL,
        """
        mocks:
          all: {in_turn: []}
        cases:
          - name: it
            mocks: {score: {in_turn: [{output: 1}], takes: 3s}, all.step: {in_turn: [{in_turn: [{}]}, 7]}}
        """,
    ).faults

    told = [fault.message for fault in faults]
    assert "in_turn is empty" in told
    assert "in_turn and takes exclude each other" in told
    assert "unknown key in_turn in a mock" in told
    assert "the mock of all.step must be a map" in told
