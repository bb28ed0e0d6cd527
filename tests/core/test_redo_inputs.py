"""A retry and what its nodes are given: kept inputs or new ones, and the generation that tells them apart."""

from __future__ import annotations

import pytest

from headway.coordinator.core.plan import Json
from tests.core.invariants import begin
from tests.core.redoing import TWO_STEPS, finished

VARIABLES = """
    nodes:
      a: {type: call, handler: a}
      keep: {type: set, values: {x: "${nodes.a.output}"}}
      use: {type: call, handler: a, input: {x: "${vars.x}"}}
    edges:
      - [a, keep, use]
"""


@pytest.mark.parametrize("anew", [False, True])
def test_a_chosen_node_keeps_its_input_unless_asked_to_render_it_anew(anew: bool) -> None:  # noqa: FBT001
    world = begin(VARIABLES)
    world.run_task("a", 1)
    world.run_task("use")
    world.run.vars = {"x": 2}  # as a branch that was redone meanwhile would have left it

    world.retry("use", render_inputs=anew)

    assert world.input("use") == {"x": 2 if anew else 1}
    assert world.task("use").generation == (3 if anew else 2)


def test_what_follows_a_chosen_node_is_rendered_anew() -> None:
    world = finished()

    world.retry("a")
    world.run_task("a", {"from": "a, again"})

    assert world.input("left") == {"from": "a, again"}


def test_the_generation_stays_over_retries_and_losses() -> None:
    world = begin("nodes: {a: {type: call, handler: a, retry: {max_attempts: 3}, input: 1}}")

    world.fail_task("a", final=False)
    world.fire(world.next_timer())
    world.lease("a")
    world.lose("a")
    world.fail_task("a")
    world.retry("a")
    world.run_task("a")

    assert (world.task("a").attempt, world.task("a").generation) == (4, 1)


def test_the_generation_grows_when_a_success_is_repeated() -> None:
    world = finished()

    world.retry("left")

    assert [world.task(path).generation for path in ("a", "right", "left")] == [1, 1, 2]


@pytest.mark.parametrize(("again", "generation"), [({"n": 1}, 1), ({"n": 2}, 2)])
def test_the_generation_of_what_failed_grows_only_when_its_input_is_another_one(
    again: dict[str, Json], generation: int
) -> None:
    world = begin(TWO_STEPS)
    world.run_task("a", {"n": 1})
    world.fail_task("b")

    world.retry("a")
    world.run_task("a", again)

    assert world.task("b").generation == generation
