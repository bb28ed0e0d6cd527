"""A retry of nodes that failed because the condition of an edge could not be told: it is told again."""

from __future__ import annotations

from tests.core.invariants import begin


def test_a_node_that_failed_for_an_unknown_condition_does_not_run_because_of_a_retry() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          keep: {type: set, values: {go: "${nodes.a.output}"}}
          b: {type: call, handler: a}
        edges:
          - [a, keep]
          - {from: keep, to: b, when: "vars.go"}
    """)
    world.run_task("a", "no boolean")
    assert world.states()["b"] == "failed"

    world.retry()
    assert world.states()["b"] == "failed"
    world.run.vars = {"go": False}
    world.retry("b")
    assert world.task("b").cause == "not_chosen"


def test_only_the_condition_that_could_not_be_told_is_told_again() -> None:
    world = begin("""
        nodes:
          s: {type: call, handler: a}
          keep: {type: set, values: {go: "${nodes.s.output.go}", odd: "${nodes.s.output.odd}"}}
          a: {type: call, handler: a}
          c: {type: call, handler: a}
          b: {type: call, handler: a}
        edges:
          - [s, keep, a]
          - [keep, c]
          - {from: a, to: b, when: "vars.go"}
          - {from: c, to: b, when: "vars.odd"}
    """)
    world.run_task("s", {"go": False, "odd": "no boolean"})
    world.run_task("a")
    world.run_task("c")
    assert world.states()["b"] == "failed"

    world.run.vars = {"go": True, "odd": False}
    world.retry("b")

    assert world.task("b").cause == "not_chosen"


def test_what_a_handler_says_of_an_edge_lets_no_condition_be_told_again() -> None:
    world = begin("""
        nodes:
          s: {type: call, handler: a}
          keep: {type: set, values: {go: "${nodes.s.output}"}}
          b: {type: call, handler: a}
        edges:
          - [s, keep]
          - {from: keep, to: b, when: "vars.go"}
    """)
    world.run_task("s", True)
    world.lease("b")
    world.fail("b", details={"edge": 1})

    world.run.vars = {"go": False}
    world.retry("b")

    assert world.ready() == ["b"]


def test_nor_does_one_whose_other_branch_failed() -> None:
    world = begin("""
        on_failure: drain
        nodes:
          a: {type: call, handler: a}
          c: {type: call, handler: a}
          b: {type: call, handler: a}
        edges:
          - {from: a, to: b, when: "nodes.a.output.ok"}
          - [c, b]
    """)
    world.run_task("a", {})
    world.fail_task("c")
    assert world.states()["b"] == "failed"

    world.retry("b")

    assert world.states()["b"] == "failed"
