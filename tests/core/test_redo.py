"""Retry of a finished run from nodes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.coordinator.core.machines import RunState
from headway.coordinator.core.refusals import NodeNotFound, NodeNotReached, NothingToRetry, RunNotFinished
from tests.core.invariants import begin, check_replay
from tests.core.redoing import ORDER, TWO_STEPS, finished
from tests.core.simulator import EPOCH


def test_the_redo_set_is_the_chosen_node_and_all_that_is_reachable_from_it() -> None:
    world = finished()

    opened = world.retry("left")

    assert (opened.chosen, opened.reset, opened.kept) == (("left",), ("both", "last"), ("a", "right"))
    assert world.states() == {
        "a": "succeeded", "left": "ready", "right": "succeeded", "both": "pending", "last": "pending",
    }  # fmt: skip
    assert world.run.epoch == 2


def test_parallel_branches_that_finished_stay() -> None:
    world = finished()
    before = world.task("right").attempt, world.output("right")

    world.retry("left")
    world.run_task("left", {"from": "left, again"})
    world.run_task("last")

    assert (world.task("right").attempt, world.output("right")) == before
    assert world.output("both") == {"left": {"from": "left, again"}, "right": {"from": "right"}}
    assert world.state is RunState.SUCCEEDED


def test_by_default_what_failed_or_was_stopped_starts_again() -> None:
    world = begin(ORDER, {"x": 1})
    world.run_task("a")
    world.lease("right")
    world.fail_task("left")
    world.succeed("right")
    assert world.state is RunState.FAILED

    opened = world.retry()

    assert (opened.chosen, opened.kept) == (("left",), ("a", "right"))
    world.run_task("left")
    world.run_task("last")
    assert world.state is RunState.SUCCEEDED
    assert world.run.unhandled_tasks == 0


def test_what_was_stopped_starts_again_whatever_the_retry_names() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
    """)
    world.run_task("a")
    world.cancel()

    opened = world.retry("a")

    assert opened.chosen == ("a", "b")


def test_a_dry_run_says_what_the_retry_does_and_changes_nothing() -> None:
    world = finished()
    before = world.run.seq, world.states()

    foreseen = world.dry_run("left")

    assert (world.run.seq, world.states()) == before
    opened = world.retry("left")
    assert (foreseen.starts, foreseen.reset, foreseen.kept) == (opened.chosen, opened.reset, opened.kept)


EITHER = """
    nodes:
      a: {type: call, handler: a}
      b: {type: call, handler: a}
      either: {type: join, need: any}
      after: {type: call, handler: a}
    edges:
      - [a, either]
      - [b, either]
      - [either, after]
"""


def test_a_join_whose_kept_tokens_suffice_is_not_walked_through() -> None:
    world = finished(EITHER)

    opened = world.retry("a")

    assert (opened.chosen, opened.reset, opened.kept) == (("a",), (), ("b", "either", "after"))
    assert world.db.tokens["either"].live == 0b10
    world.run_task("a")
    assert world.db.tokens["either"].live == 0b11
    assert world.task("after").attempt == 1
    assert world.state is RunState.SUCCEEDED


def test_a_join_whose_kept_tokens_do_not_suffice_is_redone() -> None:
    world = finished(EITHER)

    opened = world.retry("a", "b")

    assert opened.reset == ("either", "after")
    world.run_task("b")
    assert world.states()["after"] == "ready"


def test_a_join_that_was_stopped_after_it_had_enough_starts_at_once() -> None:
    world = begin("""
        nodes:
          bad: {type: call, handler: a}
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          either: {type: join, need: any}
          after: {type: call, handler: a}
        edges:
          - [a, either, after]
          - [b, either]
    """)
    world.lease("a")
    world.lease("b")
    world.fail_task("bad")
    world.succeed("a")
    world.fail("b")
    assert world.task("either").cause == "failure"

    opened = world.retry()

    assert "either" in opened.chosen
    assert world.states()["after"] == "ready"


def test_what_cannot_be_retried_is_refused_and_says_why() -> None:
    world = begin(TWO_STEPS)
    with pytest.raises(RunNotFinished):
        world.retry()
    world.fail_task("a")

    with pytest.raises(NodeNotFound, match="has no node nowhere"):
        world.retry("nowhere")
    with pytest.raises(NodeNotReached, match="Node b was never reached"):
        world.retry("b")
    with pytest.raises(NothingToRetry, match=r"No task of run 0+1 failed"):
        finished().retry()


def test_a_node_that_its_tokens_passed_over_cannot_be_retried_either() -> None:
    world = finished(TWO_STEPS)
    world.retry("a")
    world.fail_task("a")
    assert world.task("b").cause == "blocked"

    with pytest.raises(NodeNotReached):
        world.retry("b")


def test_what_was_stopped_before_a_retry_reached_it_again_is_decided_by_its_tokens() -> None:
    world = finished(TWO_STEPS)
    world.retry("a")
    world.lease("a")
    world.cancel()

    world.fail("a")

    assert world.task("b").cause == "blocked"
    world.retry("a")
    world.run_task("a")
    world.run_task("b")
    assert world.state is RunState.SUCCEEDED


def test_an_always_edge_is_followed_in_a_retry_that_fails_again_as_in_the_first_run() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          clean: {type: call, handler: a}
        edges:
          - [a, b]
          - {from: a, to: clean, on: always}
    """)
    world.fail_task("a")
    world.run_task("clean")

    world.retry("a")
    world.fail_task("a")

    assert world.states() == {"a": "failed", "clean": "ready"}
    world.run_task("clean")
    assert world.state is RunState.FAILED


def test_a_retry_that_is_stopped_again_leaves_nothing_pending() -> None:
    cancelled, failed = finished(), finished(ORDER.replace("edges:", "  bad: {type: call, handler: a}\n    edges:"))
    cancelled.retry("left")
    failed.retry("left", "bad")

    cancelled.lease("left")
    cancelled.cancel()
    assert cancelled.states()["last"] == "pending"
    cancelled.stopped("left")
    failed.fail_task("bad")

    for world, cause in ((cancelled, "cancel"), (failed, "failure")):
        assert world.run.is_final
        assert [world.task(path).cause for path in ("left", "both", "last")] == [cause] * 3
        assert world.retry().chosen[0] == "left"


SWITCHED = """
    nodes:
      rate: {type: call, handler: a}
      gate: {type: switch, cases: [{when: "nodes.rate.output.score > 5", to: high}], default: low}
      high: {type: call, handler: a}
      mark: {type: set, values: {tier: "gold", seen: 1}}
      low: {type: call, handler: a}
      both: {type: join, need: any}
      tell:
        type: call
        handler: a
        input:
          high: "${has(nodes.high.output) ? nodes.high.output : null}"
          low: "${has(nodes.low.output) ? nodes.low.output : null}"
          tier: "${has(vars.tier) ? vars.tier : 'none'}"
          base: "${vars.base}"
    edges:
      - [start, rate, gate]
      - [high, mark, both, tell]
      - [low, both]
"""


def test_where_a_switch_takes_the_other_branch_nothing_of_the_old_one_is_in_scope() -> None:
    text = SWITCHED.replace("nodes:\n", "nodes:\n      start: {type: set, values: {base: 7}}\n", 1)
    world = begin(text)
    world.run_task("rate", {"score": 9})
    world.run_task("high", "h")
    assert world.input("tell") == {"high": "h", "low": None, "tier": "gold", "base": 7}
    world.run_task("tell")

    opened = world.retry("rate")

    assert opened.kept == ("start",)
    assert world.run.vars == {"base": 7}
    world.run_task("rate", {"score": 1})
    world.run_task("low", "l")
    assert world.input("tell") == {"high": None, "low": "l", "tier": "none", "base": 7}
    assert (world.task("high").state, world.task("high").cause) == ("cancelled", "not_chosen")
    world.run_task("tell")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_a_retry_of_a_cancelled_run_redoes_what_the_cancel_stopped_and_keeps_the_rest() -> None:
    world = begin(ORDER, {"x": 1})
    world.run_task("a", 1)
    world.run_task("left", 2)
    world.lease("right")
    world.cancel()
    world.stopped("right")
    assert world.state is RunState.CANCELLED

    foreseen = world.dry_run()
    opened = world.retry()

    assert (foreseen.starts, foreseen.kept) == (opened.chosen, opened.kept) == (("right",), ("a", "left"))
    world.run_task("right", 3)
    assert world.output("both") == {"left": 2, "right": 3}
    world.run_task("last")
    assert world.state is RunState.SUCCEEDED


def test_a_run_that_is_reopened_has_its_deadline_anew() -> None:
    world = begin("""
        deadline: 1h
        nodes: {a: {type: call, handler: a}}
    """)
    world.advance(minutes=50)
    world.fail_task("a")

    world.retry()

    assert world.db.timers == {("", "run_deadline", 0): EPOCH + timedelta(minutes=110)}
