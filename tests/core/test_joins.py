"""Joins any and need n, and the failures that they excuse."""

from __future__ import annotations

import itertools

import pytest

from headway.coordinator.core.actions import CountFailure, ExcuseFailure
from headway.coordinator.core.machines import RunState
from tests.core import invariants
from tests.core.simulator import World

QUORUM = """
    on_failure: {on_failure}
    nodes:
      a: {{type: call, handler: a}}
      b: {{type: call, handler: a}}
      c: {{type: call, handler: a}}
      slow: {{type: call, handler: a}}
      quorum: {{type: join, need: {need}}}
      after: {{type: call, handler: a, input: "${{nodes.quorum.output}}"}}
    edges:
      - [a, quorum]
      - [b, quorum]
      - [c, quorum]
      - [quorum, after]
"""


def begin(need: int, on_failure: str = "stop") -> World:
    return invariants.begin(QUORUM.format(need=need, on_failure=on_failure))


@pytest.mark.parametrize("need", [1, 2, 3])
@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_a_join_fires_at_its_nth_live_token_exactly_once(need: int, order: tuple[str, ...]) -> None:
    world = begin(need)

    for place, path in enumerate(order, start=1):
        assert ("quorum" in world.states()) == (place > need)
        world.run_task(path, path)
    created = [entry for entry in world.history if any(getattr(each, "path", "") == "after" for each in entry.given)]

    assert world.states()["quorum"] == "succeeded"
    assert len(created) == 1
    assert world.input("after") == {path: path for path in sorted(order[:need])}


def test_a_late_branch_of_a_join_that_fired_changes_nothing_behind_it() -> None:
    world = begin(1)
    world.run_task("a")
    world.run_task("after")

    world.fail_task("b")
    world.run_task("c")

    assert world.task("b").disposition == "tolerated"
    assert world.states()["slow"] == "ready"
    world.run_task("slow")
    assert world.state is RunState.SUCCEEDED


def test_a_failure_is_tolerated_while_the_join_can_fire_and_counts_when_it_cannot() -> None:
    world = begin(2)

    world.fail_task("a")
    assert world.task("a").disposition == "tolerated"
    assert not world.run.failing
    world.fail_task("b")

    assert world.actions(CountFailure) == [CountFailure(path="a"), CountFailure(path="b")]
    assert world.run.failing
    assert world.states() == {"a": "failed", "b": "failed", "c": "cancelled", "slow": "cancelled"}
    assert world.run.error is not None
    assert world.run.error["paths"] == ["a", "b"]


def test_a_failure_that_comes_when_the_join_is_out_of_reach_counts_at_once() -> None:
    world = invariants.begin("""
        on_failure: drain
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          c: {type: call, handler: a}
          quorum: {type: join, need: 2}
        edges:
          - {from: a, to: quorum, when: "false"}
          - {from: b, to: quorum, when: "false"}
          - [c, quorum]
    """)
    world.run_task("a")
    world.run_task("b")

    world.fail_task("c")

    assert world.task("c").disposition == "unhandled"
    assert world.state is RunState.FAILED


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_whether_a_join_out_of_reach_is_blocked_or_dead_does_not_depend_on_who_came_first(
    order: tuple[str, ...],
) -> None:
    world = invariants.begin("""
        on_failure: drain
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          c: {type: call, handler: a}
          two: {type: join, need: 2}
          goods: {type: call, handler: a}
          ship: {type: call, handler: a}
        edges:
          - [a, two]
          - {from: b, to: two, when: "false"}
          - {from: c, to: two, when: "false"}
          - [two, ship]
          - [goods, ship]
    """)
    world.run_task("goods")

    for path in order:
        if path == "a":
            world.fail_task(path)
        else:
            world.run_task(path)

    assert "ship" not in world.states()
    assert world.state is RunState.FAILED


def test_a_join_of_one_branch_excuses_nothing() -> None:
    world = invariants.begin("""
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
          one: {type: join, need: any}
        edges:
          - [a, one]
    """)
    world.run_task("b")

    world.fail_task("a")

    assert world.task("a").disposition == "unhandled"
    assert world.state is RunState.FAILED


def test_a_failure_two_steps_before_such_a_join_is_excused_like_one_right_before_it() -> None:
    world = invariants.begin("""
        nodes:
          a: {type: call, handler: a}
          a2: {type: call, handler: a}
          b: {type: call, handler: a}
          either: {type: join, need: any}
        edges:
          - [a, a2, either]
          - [b, either]
    """)

    world.fail_task("a")
    world.run_task("b")

    assert world.task("a").disposition == "tolerated"
    assert world.output("either") == {"b": None}
    assert world.state is RunState.SUCCEEDED


def test_a_join_that_the_retry_of_a_branch_brings_to_fire_excuses_the_other_failures_again() -> None:
    world = begin(2, on_failure="drain")
    world.fail_task("a")
    world.fail_task("b")
    world.run_task("c")
    world.run_task("slow")
    assert world.state is RunState.FAILED

    world.retry("b")
    assert world.actions(ExcuseFailure) == [ExcuseFailure(path="a")]
    world.run_task("b")
    world.run_task("after")

    assert world.task("a").disposition == "tolerated"
    assert world.state is RunState.SUCCEEDED


def test_a_failure_that_another_join_counts_is_not_excused_by_the_one_that_a_retry_brings_to_fire() -> None:
    world = invariants.begin("""
        on_failure: drain
        nodes:
          shared: {type: call, handler: a}
          here: {type: call, handler: a}
          there: {type: call, handler: a}
          one: {type: join, need: any}
          other: {type: join, need: any}
        edges:
          - [shared, one]
          - [shared, other]
          - [here, one]
          - [there, other]
    """)
    for name in ("shared", "here", "there"):
        world.fail_task(name)

    world.retry("here")

    assert world.actions(ExcuseFailure) == []
    world.run_task("here")
    assert world.output("one") == {"here": None}
    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["paths"] == ["shared", "there"]
    invariants.check_replay(world)
