"""Repeats: one iteration after the other, until a condition, a limit or a failure ends them."""

from __future__ import annotations

import pytest

from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import IterationDropped, NodeNotReached
from tests.core.flows import workflow
from tests.core.invariants import begin, check_replay
from tests.core.simulator import World

POLL = """
    nodes:
      poll:
        type: repeat
        until: last.done
        max_iterations: 3
        delay: 10s
        keep_last: 1
        body: {type: call, handler: ask, input: {n: "${index}", last: "${last}"}}
      done: {type: call, handler: done, input: "${nodes.poll.output}"}
    edges:
      - [poll, done]
"""


def test_it_pauses_between_iterations_and_keeps_the_latest_rows() -> None:
    world = begin(POLL)
    assert world.input("poll[0].step") == {"n": 0, "last": None}

    world.run_task("poll[0].step", {"done": False})
    assert world.ready() == []
    world.fire(world.next_timer())
    assert world.input("poll[1].step") == {"n": 1, "last": {"done": False}}
    world.run_task("poll[1].step", {"done": False})
    world.fire(world.next_timer())
    assert sorted(world.db.scopes) == ["poll[1]", "poll[2]"]
    world.run_task("poll[2].step", {"done": True})

    assert world.input("done") == {"done": True}
    check_replay(world)


def test_more_iterations_than_allowed_are_a_failure_that_can_be_handled() -> None:
    world = begin(
        POLL.replace("- [poll, done]", "- {from: poll, on: failure, to: done}").replace(
            'input: "${nodes.poll.output}"', 'input: "${error.type}"'
        )
    )
    for index in range(3):
        world.run_task(f"poll[{index}].step", {"done": False})
        world.fire(world.next_timer())

    assert world.input("done") == "IterationsExhausted"


def test_while_is_asked_before_the_first_iteration() -> None:
    world = begin("""
        nodes:
          never: {type: repeat, while: "false", max_iterations: 3, body: {type: call, handler: a}}
          two:
            type: repeat
            while: index < 2
            max_iterations: 3
            output: "${nodes.a.output}"
            body:
              nodes:
                a: {type: call, handler: a}
                b: {type: call, handler: b}
              edges:
                - [a, b]
          done: {type: call, handler: d, input: ["${nodes.never.output}", "${nodes.two.output}"]}
        edges:
          - [never, two, done]
    """)
    for index in range(2):
        world.run_task(f"two[{index}].a", index)
        world.run_task(f"two[{index}].b")

    assert world.input("done") == [None, 1]


def test_a_failed_iteration_is_the_repeats_failure_and_a_retry_goes_on_with_it() -> None:
    world = begin(POLL)
    world.run_task("poll[0].step", {"done": False})
    world.fire(world.next_timer())
    world.fail_task("poll[1].step", "Unreachable")
    assert world.state is RunState.FAILED
    error = world.task("poll").error or {}
    assert (error["type"], error["details"]) == ("Unreachable", {"iteration": 1})

    world.retry()

    assert world.ready() == ["poll[1].step"]
    world.run_task("poll[1].step", {"done": True})
    world.run_task("done")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


@pytest.mark.parametrize("keep", [1, 2])
def test_at_the_end_too_as_many_iterations_stay_as_are_to_be_kept_and_the_one_before_them(keep: int) -> None:
    world = begin(POLL.replace("max_iterations: 3", "max_iterations: 5").replace("keep_last: 1", f"keep_last: {keep}"))
    for index in range(5):
        assert len(world.db.scopes) <= keep + 1
        world.run_task(f"poll[{index}].step", {"done": index == 4})
        if index < 4:
            world.fire(world.next_timer())

    assert list(world.db.scopes) == [f"poll[{index}]" for index in range(4 - keep, 5)]
    world.run_task("done")
    with pytest.raises(IterationDropped, match=r"rows of poll\[0\] were dropped \(keep_last: \d\)"):
        world.retry("poll[0].step")
    for named in (f"poll[{4 - keep}].step", f"poll[{4 - keep}]"):  # they are there for the next one
        with pytest.raises(IterationDropped, match=rf"rows of poll\[{3 - keep}\] .* name a later iteration"):
            world.retry(named)
    with pytest.raises(NodeNotReached):
        world.retry("poll[5].step")
    world.retry("poll[4].step")
    assert world.ready() == ["poll[4].step"]
    check_replay(world)


def test_the_iteration_before_one_that_failed_is_kept_for_it() -> None:
    world = begin(POLL)
    for index in range(2):
        world.run_task(f"poll[{index}].step", {"done": False, "n": index})
        world.fire(world.next_timer())
    world.fail_task("poll[2].step")
    assert list(world.db.scopes) == ["poll[1]", "poll[2]"]

    world.retry(render_inputs=True)

    assert world.input("poll[2].step") == {"n": 2, "last": {"done": False, "n": 1}}
    check_replay(world)


def test_a_retry_from_an_earlier_iteration_does_the_later_ones_again() -> None:
    world = begin(POLL.replace("keep_last: 1", "").replace("delay: 10s", ""))
    for index in range(3):
        world.run_task(f"poll[{index}].step", {"done": index == 2, "try": 1})
    world.run_task("done")

    world.retry("poll[1].step")
    assert world.ready() == ["poll[1].step"]
    world.run_task("poll[1].step", {"done": False, "try": 2})

    assert world.input("poll[2].step") == {"n": 2, "last": {"done": False, "try": 2}}
    world.run_task("poll[2].step", {"done": True, "try": 2})
    assert world.input("done") == {"done": True, "try": 2}
    check_replay(world)


@pytest.mark.parametrize("keep", ["keep_last: 1", "keep_last: 2", ""])
@pytest.mark.parametrize("again", [1, 2])
@pytest.mark.parametrize("named", ["{}", "{}.first"])
def test_an_iteration_that_is_done_again_sees_the_one_before_it_and_not_itself(
    again: int, keep: str, named: str
) -> None:
    world = begin(f"""
        nodes:
          poll:
            type: repeat
            until: last.done
            max_iterations: 3
            {keep}
            output: "${{nodes.second.output}}"
            body:
              nodes:
                first: {{type: call, handler: a}}
                second: {{type: call, handler: b, input: "${{last}}"}}
              edges: [[first, second]]
    """)
    before: dict[int, Json] = {0: None}
    for index in range(3):
        world.run_task(f"poll[{index}].first")
        before[index + 1] = {"done": index == 2, "of": index}
        world.run_task(f"poll[{index}].second", before[index + 1])
    if again == 1 and keep == "keep_last: 1":
        with pytest.raises(IterationDropped, match=r"rows of poll\[0\]"):
            world.retry(named.format("poll[1]"))
        return

    for _ in range(2):
        world.retry(named.format(f"poll[{again}]"))
        for index in range(again, 3):
            world.run_task(f"poll[{index}].first")
            assert world.input(f"poll[{index}].second") == before[index]
            before[index + 1] = {"done": index == 2, "of": index, "again": True}
            world.run_task(f"poll[{index}].second", before[index + 1])

    assert world.output("poll") == before[3]
    check_replay(world)


def test_a_condition_that_cannot_be_told_fails_it() -> None:
    world = begin(POLL)

    world.run_task("poll[0].step", {})

    assert world.state is RunState.FAILED
    assert (world.task("poll").error or {})["type"] == "ExpressionError"


def test_iterations_that_need_nobody_go_in_pages() -> None:
    world = begin("""
        nodes:
          spin:
            type: repeat
            until: index == 149
            max_iterations: 200
            output: "${index}"
            body: {type: join}
    """)
    assert world.db.loops["spin"].started == 100

    world.fire(world.next_timer())

    assert world.state is RunState.SUCCEEDED
    assert world.db.loops["spin"].succeeded == 150


def test_more_repeats_in_items_than_one_decision_takes_up_follow_by_pages() -> None:
    world = World(
        workflow("""
            nodes:
              m:
                type: map
                over: "${input}"
                max_concurrency: 1000
                body:
                  nodes:
                    r: {type: repeat, until: "true", max_iterations: 1, body: {type: call, handler: ask}}
        """),
        thorough=False,
    ).start(list[Json](range(150)))
    fire_all(world)
    world.fail_task("m[0].r[0].step")
    fire_all(world)
    assert world.state is RunState.FAILED

    world.retry()
    fire_all(world)

    assert len(world.ready()) == 150
    check_replay(world)


def fire_all(world: World) -> None:
    while world.db.timers:
        world.fire(world.next_timer())
