"""The rules of tokens, a sentence each."""

from __future__ import annotations

import pytest

from headway.coordinator.core.machines import RunState
from tests.core.invariants import begin

# A node that succeeded: success and always edges whose `when` holds are live, the rest dead.


def test_success_edges_whose_condition_holds_are_live_and_the_rest_are_dead() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          yes: {type: call, handler: a}
          no: {type: call, handler: a}
          sorry: {type: call, handler: a}
          clean: {type: call, handler: a}
        edges:
          - {from: a, to: "yes", when: "nodes.a.output.n == 1"}
          - {from: a, to: "no", when: "nodes.a.output.n == 2"}
          - {from: a, to: sorry, on: failure}
          - {from: a, to: clean, on: always}
    """)

    world.run_task("a", {"n": 1})

    assert world.states() == {"a": "succeeded", "yes": "ready", "clean": "ready"}


# A node that failed for good: its first matching failure or timeout edge is live (it is handled), always edges are
# live, success edges carry failed.


def test_the_first_matching_failure_edge_in_written_order_takes_the_failure() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          next: {type: call, handler: a}
          timed_out: {type: call, handler: a}
          bust: {type: call, handler: a}
          boom: {type: call, handler: a, input: "${error}"}
          any: {type: call, handler: a}
          clean: {type: call, handler: a}
        edges:
          - [a, next]
          - {from: a, to: clean, on: always}
          - {from: a, to: timed_out, on: timeout}
          - {from: a, to: bust, on: failure, errors: [Bust]}
          - {from: a, to: boom, on: failure, when: "error.type == 'Boom' && error.node == 'a'"}
          - {from: a, to: any, on: failure}
    """)

    world.fail_task("a", "Boom")

    assert world.states() == {"a": "failed", "boom": "ready", "clean": "ready"}
    assert world.task("a").disposition == "handled"
    assert world.input("boom") == {"node": "a", "class": "exec_failed", "type": "Boom", "message": "a broke"}
    assert not world.run.failing


def test_a_failure_that_no_edge_takes_is_not_handled() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          bust: {type: call, handler: a}
        edges:
          - {from: a, to: bust, on: failure, errors: [Bust]}
    """)

    world.fail_task("a", "Boom")

    assert world.task("a").disposition == "unhandled"
    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["paths"] == ["a"]


# A dead node passes dead on; a blocked one failed. A node with a failed token left is blocked and does not run.


def test_goods_are_never_shipped_without_a_reservation() -> None:
    world = begin("""
        on_failure: drain
        nodes:
          reserve: {type: call, handler: a}
          risk: {type: call, handler: a}
          gate: {type: call, handler: a}
          ship: {type: call, handler: a}
        edges:
          - [reserve, gate, ship]
          - [risk, gate]
    """)

    world.fail_task("reserve")
    world.run_task("risk")

    assert world.states() == {"reserve": "failed", "risk": "succeeded"}
    assert world.state is RunState.FAILED


def test_not_even_when_the_failed_reservation_was_handled_somewhere_else() -> None:
    world = begin("""
        nodes:
          reserve: {type: call, handler: a}
          risk: {type: call, handler: a}
          ship: {type: call, handler: a}
          sorry: {type: call, handler: a}
        edges:
          - [reserve, ship]
          - [risk, ship]
          - {from: reserve, to: sorry, on: failure}
    """)

    world.fail_task("reserve")
    world.run_task("risk")
    world.run_task("sorry")

    assert "ship" not in world.states()
    assert world.state is RunState.SUCCEEDED


def test_a_failed_required_branch_blocks_all_that_follows_however_far() -> None:
    world = begin("""
        on_failure: drain
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          c: {type: call, handler: a}
          d: {type: join}
          other: {type: call, handler: a}
        edges:
          - [a, b, c, d]
          - [other, d]
    """)

    world.run_task("other")
    world.fail_task("a")

    assert world.states() == {"a": "failed", "other": "succeeded"}
    assert world.db.tokens["d"].names == {"0": [("a", None)]}


# At a node N a failed token counts as dead when each node it names was handled and N can be reached from that edge.


def test_primary_else_fallback_then_use() -> None:
    text = """
        nodes:
          primary: {type: call, handler: a}
          fallback: {type: call, handler: a}
          use: {type: call, handler: a}
        edges:
          - [primary, use]
          - {from: primary, to: fallback, on: failure}
          - [fallback, use]
    """
    first, second, third = begin(text), begin(text), begin(text)

    first.run_task("primary")
    second.fail_task("primary")
    second.run_task("fallback")
    third.fail_task("primary")
    third.fail_task("fallback")

    assert first.states() == {"primary": "succeeded", "use": "ready"}
    assert second.states() == {"primary": "failed", "fallback": "succeeded", "use": "ready"}
    assert third.states() == {"primary": "failed", "fallback": "failed"}
    assert third.state is RunState.FAILED


def test_a_failure_that_was_made_good_stays_made_good_further_on() -> None:
    world = begin("""
        nodes:
          primary: {type: call, handler: a}
          refine: {type: call, handler: a}
          fallback: {type: call, handler: a}
          other: {type: call, handler: a}
          use: {type: call, handler: a}
        edges:
          - [primary, refine, use]
          - {from: primary, to: fallback, on: failure}
          - [fallback, use]
          - [other, use]
    """)

    world.fail_task("primary")
    world.run_task("fallback")
    world.run_task("other")

    assert world.states()["use"] == "ready"
    assert "refine" not in world.states()


# Otherwise it runs with at least one live token, once every edge has one; with none it is dead.


@pytest.mark.parametrize("case", [1, 2, 3])
def test_a_switch_into_a_join_never_hangs(case: int) -> None:
    world = begin(
        """
        nodes:
          gate:
            type: switch
            cases: [{when: "input.n == 1", to: left}, {when: "input.n == 2", to: right}]
            default: none
          left: {type: call, handler: a}
          right: {type: call, handler: a}
          both: {type: join}
          after: {type: call, handler: a}
        edges:
          - [left, both]
          - [right, both]
          - [both, after]
        """,
        {"n": case},
    )

    for path in world.ready():
        world.run_task(path, {"from": path})

    if case == 3:
        assert world.states() == {"gate": "succeeded"}
    else:
        taken = "left" if case == 1 else "right"
        assert world.states() == {"gate": "succeeded", taken: "succeeded", "both": "succeeded", "after": "ready"}
        assert world.output("both") == {taken: {"from": taken}}


def test_a_node_waits_until_every_edge_has_its_token() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          both: {type: call, handler: a}
        edges:
          - [a, both]
          - [b, both]
    """)

    world.run_task("a")
    assert "both" not in world.states()
    world.run_task("b")

    assert world.states()["both"] == "ready"


# `when` that cannot be evaluated fails its target.


def test_a_condition_that_cannot_be_evaluated_fails_the_node_behind_it() -> None:
    world = begin("""
        on_failure: drain
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          c: {type: call, handler: a}
        edges:
          - {from: a, to: b, when: "nodes.a.output.ok"}
          - {from: b, to: c, on: failure, errors: [ExpressionError]}
    """)

    world.run_task("a", {"ok": "not a boolean"})

    assert world.states() == {"a": "succeeded", "b": "failed", "c": "ready"}
    error = world.task("b").error
    assert error is not None
    assert error["type"] == "ExpressionError"
    assert world.task("b").disposition == "handled"


def test_such_a_condition_fails_a_node_that_still_waits_for_others_and_it_does_not_run_later() -> None:
    world = begin("""
        on_failure: drain
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          both: {type: call, handler: a}
        edges:
          - {from: a, to: both, when: "nodes.a.output.ok"}
          - [b, both]
    """)

    world.run_task("a", {})
    world.run_task("b")

    assert world.states() == {"a": "succeeded", "b": "succeeded", "both": "failed"}


# A failed optional node gives dead tokens: joins go on without it.


def test_an_optional_node_may_fail() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          extra: {type: call, handler: a, optional: true}
          both: {type: call, handler: a}
        edges:
          - [a, both]
          - [extra, both]
    """)

    world.fail_task("extra")
    world.run_task("a")
    world.run_task("both")

    assert world.task("extra").disposition == "optional"
    assert world.state is RunState.SUCCEEDED


def test_a_condition_that_cannot_be_evaluated_fails_its_target_and_says_where_and_on_what_types() -> None:
    world = begin(
        """
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          mend: {type: call, handler: a, input: {at: "${error.line}", what: "${error.message}"}}
        edges:
          - {from: a, to: b, when: "nodes.a.output.n > input.limit"}
          - {from: b, on: failure, errors: [ExpressionError], to: mend}
    """,
        {"limit": "7"},
    )

    world.run_task("a", {"n": 3})

    assert world.states() == {"a": "succeeded", "b": "failed", "mend": "ready"}
    row = world.task("b")
    assert (row.failure_class, row.disposition) == ("exec_failed", "handled")
    assert row.error is not None
    assert row.error["details"] == {
        "expression": "nodes.a.output.n > input.limit",
        "values": {"input.limit": "text", "nodes.a.output.n": "a number"},
        "line": 8,
        "column": 29,
        "edge": 0,
    }
    given = world.input("mend")
    assert isinstance(given, dict)
    assert given["at"] == 8
    assert str(given["what"]).endswith("(line 8, column 29); input.limit is text, nodes.a.output.n is a number")


def test_the_types_of_many_values_are_not_all_told_and_never_the_values() -> None:
    terms = " + ".join(f"input.v{n}" for n in range(30))
    world = begin(f"nodes: {{a: {{type: set, values: {{x: '${{{terms}}}'}}}}}}", {f"v{n}": "secret" for n in range(29)})

    error = world.task("a").error
    assert error is not None
    details = error["details"]
    assert isinstance(details, dict)
    assert isinstance(details["values"], dict)
    assert len(details["values"]) == 10
    assert "secret" not in str(error)
