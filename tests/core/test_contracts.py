"""Contracts of outputs: one that breaks its schema is a failure of class verdict_fail that names the place."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.machines import RunState
from tests.core.invariants import begin

NODE = """
    nodes:
      ask:
        {type: call, handler: a, RETRY
         output_schema: {type: object, required: [total], properties: {total: {type: number}}}}
      use: {type: call, handler: a, input: "${nodes.ask.output.total}"}
      mend: {type: call, handler: a, input: {path: "${error.path}", faults: "${error.faults}"}}
    edges:
      - [ask, use]
      - {from: ask, on: failure, errors: [verdict_fail], to: mend}
"""


def test_an_output_that_keeps_the_contract_goes_on() -> None:
    world = begin(NODE.replace("RETRY", ""))

    world.run_task("ask", {"total": 7})

    assert world.states() == {"ask": "succeeded", "use": "ready"}


def test_an_output_that_breaks_it_is_a_verdict_that_names_the_place_and_an_edge_can_take_it() -> None:
    world = begin(NODE.replace("RETRY", ""))

    world.run_task("ask", {"total": "7"})

    row = world.task("ask")
    assert (row.failure_class, row.error and row.error["type"]) == ("verdict_fail", "OutputInvalid")
    assert row.error is not None
    assert (
        row.error["message"] == "the output of ask breaks its output_schema: $.total must be of type number, not string"
    )
    assert row.output_attempt is None
    fault = {"path": "$.total", "problem": "must be of type number, not string"}
    assert world.input("mend") == {"path": "$.total", "faults": [fault]}
    assert "use" not in world.states()


def test_a_broken_contract_is_tried_again_as_the_policy_says() -> None:
    world = begin(NODE.replace("RETRY", "retry: {max_attempts: 2},"))

    world.run_task("ask", {})
    assert world.states()["ask"] == "retrying"
    world.fire(world.next_timer())
    world.run_task("ask", {"total": 1})

    assert world.states()["ask"] == "succeeded"


RUN = """
    output_schema: {type: object, required: [total]}
    nodes:
      work: {type: call, handler: a}
      done: {type: finish, output: "${nodes.work.output}"}
    edges: [[work, done]]
"""


def test_a_run_whose_output_keeps_its_contract_succeeds() -> None:
    world = begin(RUN)

    world.run_task("work", {"total": 1})

    assert world.state is RunState.SUCCEEDED


def test_a_run_whose_output_breaks_its_contract_fails_with_the_verdict() -> None:
    world = begin(RUN)

    world.run_task("work", {"sum": 1})

    assert world.state is RunState.FAILED
    assert world.run.error == {
        "failure_class": "verdict_fail",
        "message": "done: OutputInvalid: the run's output breaks its output_schema: $.total is required",
        "paths": ["done"],
    }


def test_a_run_that_ends_without_its_finish_node_has_the_output_null() -> None:
    world = begin(
        """
        output_schema: {type: object}
        nodes:
          gate: {type: switch, cases: [{when: "input.ok", to: done}], default: none}
          done: {type: finish, output: "${input}"}
    """,
        {"ok": False},
    )

    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["failure_class"] == "verdict_fail"


def test_a_run_that_is_to_fail_is_not_held_to_the_contract_of_its_success() -> None:
    world = begin("""
        output_schema: {type: object}
        nodes: {sorry: {type: finish, outcome: failed, output: [1]}}
    """)

    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["failure_class"] == "exec_failed"


@pytest.mark.parametrize(
    ("node", "place"),
    [
        ("done: {type: finish, output: [1]}", (3, 38)),
        ("done: {type: finish}", (3, 9)),
        ("work: {type: call, handler: a}", (2, 16)),
    ],
)
def test_an_output_that_is_known_beforehand_and_breaks_the_contract_is_a_fault(
    node: str, place: tuple[int, int]
) -> None:
    result = compile_workflow(f"workflow: w\noutput_schema: {{type: object}}\nnodes: {{{node}}}\n")

    assert result.plan is None
    assert [(fault.line, fault.column, fault.code.value) for fault in result.faults] == [(*place, "contradiction")]


VARIABLES = """
    vars: {total: {type: number, minimum: 0}, name: {type: string}}
    nodes:
      first: {type: call, handler: a}
      count: {type: set, values: {total: "${nodes.first.output}", name: x}}
      mend: {type: call, handler: a, input: "${error.path}"}
    edges:
      - [first, count]
      - {from: count, on: failure, errors: [verdict_fail], to: mend}
"""


def test_a_variable_that_fits_its_schema_is_set() -> None:
    world = begin(VARIABLES)

    world.run_task("first", 7)

    assert world.run.vars == {"total": 7, "name": "x"}


def test_a_variable_that_breaks_its_schema_fails_its_node_and_nothing_is_set() -> None:
    world = begin(VARIABLES)

    world.run_task("first", -1)

    assert world.run.vars == {}
    row = world.task("count")
    assert row.error is not None
    assert (row.failure_class, row.error["type"]) == ("verdict_fail", "VariableInvalid")
    assert str(row.error["message"]).startswith("total breaks its schema: $ ")
    assert world.input("mend") == "$"


@pytest.mark.parametrize(
    ("values", "code"), [("{totl: 1}", "unknown_variable"), ("{total: -1}", "contradiction"), ("{total: 1}", "")]
)
def test_what_is_known_of_a_set_node_is_held_against_the_variables(values: str, code: str) -> None:
    schemas = "{total: {type: number, minimum: 0}}"
    source = f"workflow: w\nvars: {schemas}\nnodes: {{a: {{type: set, values: {values}}}}}\n"

    assert [fault.code.value for fault in compile_workflow(source).faults] == ([code] if code else [])
