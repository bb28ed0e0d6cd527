"""A retry and what is in maps and repeats that are passed over, begin anew or go on."""

from __future__ import annotations

import pytest

from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import NodeNotReached
from tests.core.invariants import begin, check_replay


def test_what_is_left_in_a_map_that_was_passed_over_since_cannot_be_chosen() -> None:
    world = begin("""
        nodes:
          first: {type: call, handler: a}
          each: {type: map, over: [1], body: {type: call, handler: a}}
        edges: [[first, each]]
    """)
    world.run_task("first")
    world.fail_task("each[0].step")
    world.retry("first")
    world.fail_task("first")
    assert world.task("each").cause == "blocked"

    with pytest.raises(NodeNotReached):
        world.retry("each[0].step")


def test_what_is_left_of_items_that_a_map_no_longer_has_cannot_be_chosen() -> None:
    world = begin("""
        nodes:
          first: {type: call, handler: a}
          each: {type: map, over: "${nodes.first.output}", body: {type: call, handler: a}}
          after: {type: call, handler: a}
        edges: [[first, each, after]]
    """)
    for items in ([1, 2], [1]):
        world.run_task("first", list[Json](items))
        for index in range(len(items)):
            world.run_task(f"each[{index}].step")
        world.fail_task("after")
        if len(items) == 2:
            world.retry("first")

    with pytest.raises(NodeNotReached):
        world.retry("each[1].step")


SETS_IN_A_REPEAT = """
    nodes:
      a: {type: call, handler: a}
      r:
        type: repeat
        max_iterations: 3
        until: "false"
        delay: 1m
        body:
          nodes:
            mark: {type: set, values: {seen: "${has(vars.seen) ? vars.seen + 1 : 1}"}}
            step: {type: call, handler: a}
          edges: [[mark, step]]
    edges: [[a, r]]
"""


def test_what_iterations_set_is_gone_when_a_retry_from_a_node_before_lets_the_repeat_begin_anew() -> None:
    world = begin(SETS_IN_A_REPEAT)
    world.run_task("a")
    world.fail_task("r[0].step")
    assert world.run.vars == {"seen": 1}

    world.retry("a")

    assert world.run.vars == {}
    check_replay(world)


def test_of_several_iterations_that_are_chosen_the_first_is_the_latest_one_then() -> None:
    world = begin("""
        nodes: {r: {type: repeat, max_iterations: 3, until: "index == 2", body: {type: call, handler: a}}}
    """)
    for index in range(3):
        world.run_task(f"r[{index}].step")

    world.retry("r[1].step", "r[0].step")

    assert world.ready() == ["r[0].step"]


def test_what_iterations_set_stays_when_a_repeat_that_was_stopped_in_its_delay_goes_on() -> None:
    world = begin(SETS_IN_A_REPEAT)
    world.run_task("a")
    world.run_task("r[0].step")
    world.cancel()

    world.retry()

    assert world.ready() == ["r[1].step"]
    assert world.run.vars == {"seen": 2}
    check_replay(world)
