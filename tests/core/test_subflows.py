"""Subflow nodes, over the pure core: whatever their runs do, and whenever that is told."""

from __future__ import annotations

import orjson

from headway.coordinator.core.decide._children import MAX_DEPTH
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.rows import Parent
from tests.core.invariants import begin
from tests.core.simulator import World

NESTED = """
    workflow: outer
    nodes:
      inner: {type: subflow, workflow: other, input: "${input}", retry: {max_attempts: 2, initial: 1s, jitter: 0}}
      after: {type: call, handler: a}
    edges: [[inner, after]]
"""
ERROR: dict[str, Json] = {"failure_class": "timeout", "message": "late", "paths": ["leaf"]}


def sent(world: World, kind: str) -> list[dict[str, object]]:
    """What was handed over of a kind."""
    return [orjson.loads(body.raw) for _, each, body in world.handovers if each == kind]


def test_the_budget_counts_from_the_first_run_that_it_starts_and_anew_after_a_retry() -> None:
    world = begin(NESTED.replace("max_attempts: 2", "max_attempts: 9, budget: 90s"), {"n": 1})

    for _ in range(2):
        for state in ("retrying", "failed"):
            world.advance(minutes=1)
            assert world.child("inner", "failed", error=dict(ERROR))
            assert world.states()["inner"] == state
            if state == "retrying":
                world.fire(world.next_timer())
        world.advance(hours=1)
        world.retry()


def test_each_attempt_is_a_run_of_its_own_and_the_last_failure_is_the_nodes() -> None:
    world = begin(NESTED, {"n": 1})
    first = world.db.children["inner"].child

    assert world.child("inner", "failed", error=dict(ERROR))
    world.fire(world.next_timer())
    second = world.db.children["inner"].child
    late = world.child("inner", "succeeded", {}, attempt=1, child=first)
    assert world.child("inner", "failed", error=dict(ERROR))

    assert first != second
    assert not late
    row = world.task("inner")
    assert (row.state, row.failure_class) == (TaskState.FAILED, "timeout")
    assert row.error is not None
    assert row.error["details"] == {"workflow": "other", "run_id": second, "nodes": ["leaf"]}
    assert [each["input"] for each in sent(world, "StartChild")] == [{"n": 1}, {"n": 1}]


def test_an_output_that_breaks_the_schema_of_its_node_fails_the_attempt() -> None:
    world = begin(NESTED.replace("workflow: other,", "workflow: other, output_schema: {type: integer},"))

    assert world.child("inner", "succeeded", "text")
    row = world.task("inner")
    assert (row.state, row.failure_class) == (TaskState.RETRYING, "verdict_fail")
    world.fire(world.next_timer())
    assert world.child("inner", "succeeded", 7)

    assert world.output("inner") == 7


def test_a_paused_run_asks_for_its_child_when_it_is_resumed_and_records_an_end_meanwhile() -> None:
    world = begin(
        NESTED.replace("inner:", "before: {type: call, handler: b}\n      inner:").replace("[[", "[[before, ")
    )
    world.lease("before")
    world.pause()
    world.succeed("before")
    assert sent(world, "StartChild") == []

    world.resume()
    world.pause()
    assert world.child("inner", "succeeded", 7)

    assert world.output("inner") == 7
    assert world.task("after").sweep_at is None


def test_a_run_too_many_inside_the_others_is_refused() -> None:
    world = begin(
        NESTED.replace("inner:", "before: {type: call, handler: b}\n      inner:").replace("[[", "[[before, ")
    )
    world.watchers.clear()
    world.run.parent = Parent(run_id="f" * 32, path="inner", attempt=1, place="f/inner", attempts=(1,) * MAX_DEPTH)
    world.run_task("before")

    error = world.task("inner").error

    assert error is not None
    assert error["type"] == "SubflowTooDeep"
    assert sent(world, "StartChild") == []


def test_a_cancelled_parent_waits_for_its_child_and_a_success_that_came_first_stands() -> None:
    world = begin(NESTED)
    world.cancel(compensate=False)
    (told,) = sent(world, "CancelChild")
    assert told["compensate"] is False
    assert world.state is RunState.RUNNING

    world.child("inner", "succeeded", 7)

    assert world.output("inner") == 7
    assert world.state is RunState.CANCELLED


def test_children_that_failed_say_so_and_are_not_undone() -> None:
    world = begin("""
        workflow: outer
        nodes:
          inner: {type: subflow, workflow: other, compensate: undo, retry: {max_attempts: 2, jitter: 0}}
          undo: {type: call, handler: h}
    """)
    world.child("inner", "failed", error=dict(ERROR))
    world.fire(world.next_timer())

    world.child("inner", "failed", error=dict(ERROR))

    assert world.state is RunState.FAILED
    assert set(world.states()) == {"inner"}


def test_a_retry_takes_up_the_child_that_was_stopped() -> None:
    world = begin(NESTED)
    world.cancel()
    world.child("inner", "cancelled", error=dict(ERROR))
    stopped = world.db.children["inner"]

    world.retry()

    again = world.db.children["inner"]
    assert (again.child, again.attempt, again.state) == (stopped.child, stopped.attempt + 1, "open")
    assert [each.get("again") for each in sent(world, "StartChild")] == [False, True]


def retried_in_the_child_that_failed() -> World:
    """A run that was retried, and asked its child to go on."""
    world = begin(NESTED.replace("max_attempts: 2", "max_attempts: 1"), {"n": 1})
    world.child("inner", "failed", error=dict(ERROR))
    world.retry()
    return world


def test_a_child_that_is_gone_is_followed_by_another_in_the_same_attempt_and_that_is_heard_once() -> None:
    world = retried_in_the_child_that_failed()
    gone = world.db.children["inner"]

    assert world.child("inner", "gone")
    other = world.db.children["inner"]
    assert not world.child("inner", "gone", attempt=gone.attempt, child=gone.child)

    assert (other.attempt, other.state) == (gone.attempt, "open")
    assert other.child != gone.child
    assert [(each.get("again"), each["input"]) for each in sent(world, "StartChild")] == [
        (False, {"n": 1}),
        (True, {"n": 1}),
        (False, {"n": 1}),
    ]
    assert world.child("inner", "succeeded", 7)
    assert world.output("inner") == 7


def test_a_child_that_is_gone_and_was_told_to_stop_ends_its_node() -> None:
    world = retried_in_the_child_that_failed()
    world.cancel()

    assert world.child("inner", "gone")

    assert world.state is RunState.CANCELLED
    assert [each.get("again") for each in sent(world, "StartChild")] == [False, True]


def test_a_child_that_is_gone_is_followed_by_another_when_the_run_is_resumed() -> None:
    world = retried_in_the_child_that_failed()
    world.watchers.clear()  # they expect an open child of every node that waits
    gone = world.db.children["inner"]
    world.pause()

    assert world.child("inner", "gone")
    assert world.db.children["inner"].child == gone.child
    world.resume()

    assert world.db.children["inner"].child != gone.child
    assert world.child("inner", "succeeded", 7)
    assert world.output("inner") == 7


def test_a_child_has_the_place_and_the_attempts_of_all_nodes_around_it() -> None:
    world = begin(
        NESTED.replace("inner:", "before: {type: call, handler: b}\n      inner:").replace("[[", "[[before, ")
    )
    world.run.parent = Parent(run_id="f" * 32, path="outer", attempt=3, place="f/outer", attempts=(3,))
    world.run_task("before")

    (start,) = sent(world, "StartChild")

    assert isinstance(start["parent"], dict)
    assert (start["parent"]["place"], start["parent"]["attempts"]) == ("f/outer/inner", [3, 1])


def test_a_run_follows_those_before_it_in_its_place_and_no_others() -> None:
    def child(place: str, *attempts: int) -> Parent:
        return Parent(run_id="f" * 32, path="inner", attempt=attempts[-1], place=place, attempts=attempts)

    assert child("f/inner", 2).follows(child("f/inner", 1))
    assert child("f/outer/inner", 2, 1).follows(child("f/outer/inner", 1, 5))
    assert not child("f/inner", 1).follows(child("f/inner", 2))
    assert not child("f/inner", 1).follows(child("f/inner", 1))
    assert not child("f/inner", 2).follows(child("e/inner", 1))
