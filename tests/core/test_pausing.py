"""Pause and resume: nothing starts in between, and nothing is lost by it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.coordinator.core import actions as do
from headway.coordinator.core.admission import Answer
from headway.coordinator.core.machines import IllegalTransition, RunState, TaskState
from headway.coordinator.core.refusals import RunNotFinished
from tests.core.invariants import begin, check_replay
from tests.core.simulator import EPOCH, World

CHAIN = """
    workflow: chain
    nodes:
      first: {type: call, handler: a, retry: {max_attempts: 2, initial: 10s, jitter: 0}}
      second: {type: call, handler: a}
    edges: [[first, second]]
"""
TIMED = """
    workflow: timed
    deadline: 1m
    nodes:
      work: {type: call, handler: a, timeout: {queue: 10s, total: 30s}}
      ask: {type: wait_for_event, event: answer, timeout: 20s}
"""


def held(world: World) -> dict[tuple[str, str], int]:
    return {(path, kind): left_ms for path, kind, _, left_ms in world.run.steering.held}


def test_a_ready_task_is_held_and_given_out_again_when_the_run_goes_on() -> None:
    world = begin(CHAIN)

    world.pause(reason="looking at it")

    assert world.run.steering.pause_reason == "looking at it"
    assert world.lease("first") is Answer.RUN_PAUSED
    assert world.dispatches == [("first", 1)]

    world.advance(seconds=5)
    world.resume()

    assert world.dispatches == [("first", 1), ("first", 1)]
    assert world.task("first").ready_at == EPOCH + timedelta(seconds=5)
    world.run_task("first")
    world.run_task("second")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_what_runs_may_end_and_what_follows_waits() -> None:
    world = begin(CHAIN)
    world.lease("first")
    world.pause()

    assert world.renew("first") == (Answer.RENEWED, False)
    assert world.succeed("first", "done") is Answer.ACCEPTED
    assert world.task("second").state is TaskState.READY
    assert world.dispatches == [("first", 1)]

    world.resume()

    assert world.dispatches == [("first", 1), ("second", 1)]


def test_a_lost_lease_is_recorded_and_its_next_attempt_held() -> None:
    world = begin(CHAIN)
    world.lease("first")
    world.pause()

    world.lose("first")

    assert (world.task("first").attempt, world.task("first").losses) == (2, 1)
    assert world.lease("first") is Answer.RUN_PAUSED
    world.resume()
    assert world.dispatches[-1] == ("first", 2)


@pytest.mark.parametrize("before", [True, False])
def test_a_next_try_that_comes_due_happens_once_afterwards(before: bool) -> None:  # noqa: FBT001
    world = begin(CHAIN)
    world.lease("first")
    if before:
        world.fail("first")
        world.pause()
    else:
        world.pause()
        world.fail("first")

    assert world.db.timers == {}
    world.advance(seconds=60)
    world.resume()
    assert world.db.timers == {("first", "retry", 2): EPOCH + timedelta(seconds=10)}
    assert world.fire(("first", "retry", 2))
    assert not world.fire(("first", "retry", 2))
    assert world.dispatches[-1] == ("first", 2)


def test_a_signal_is_taken_meanwhile_and_what_follows_waits() -> None:
    world = begin("""
        workflow: asks
        nodes:
          ask: {type: wait_for_event, event: answer}
          go: {type: call, handler: a}
        edges: [[ask, go]]
    """)
    world.pause()

    world.signal("answer", 42)

    assert world.output("ask") == 42
    assert world.lease("go") is Answer.RUN_PAUSED


def test_time_outs_run_on_unless_the_clock_is_stopped_too() -> None:
    world = begin(TIMED)
    world.pause()

    assert {kind for _, kind, _ in world.db.timers} == {"total_timeout", "event_timeout", "run_deadline"}
    world.advance(seconds=25)
    assert world.fire(("ask", "event_timeout", 1))
    assert world.task("ask").state is TaskState.FAILED


def test_with_the_clock_stopped_time_outs_keep_what_is_left_of_them() -> None:
    world = begin(TIMED)
    world.advance(seconds=5)
    world.pause(stop_clock=True)

    assert world.db.timers == {}
    assert held(world) == {
        ("", "run_deadline"): 55_000,
        ("work", "total_timeout"): 25_000,
        ("ask", "event_timeout"): 15_000,
    }

    world.advance(hours=1)
    world.resume()

    now = EPOCH + timedelta(hours=1, seconds=5)
    assert world.db.timers == {
        ("", "run_deadline", 0): now + timedelta(seconds=55),
        ("work", "total_timeout", 0): now + timedelta(seconds=25),
        ("work", "queue_timeout", 1): now + timedelta(seconds=10),
        ("ask", "event_timeout", 1): now + timedelta(seconds=15),
    }
    assert world.task("ask").due_at == now + timedelta(seconds=15)
    assert held(world) == {}
    check_replay(world)


def test_a_time_out_that_stands_still_goes_with_its_task() -> None:
    world = begin(TIMED)
    world.lease("work")
    world.pause(stop_clock=True)

    world.succeed("work")
    world.signal("answer")

    assert world.state is RunState.SUCCEEDED
    assert not world.run.is_paused
    assert held(world) == {}


def test_a_time_out_that_begins_while_the_clock_stands_has_all_of_it_left() -> None:
    world = begin("""
        workflow: later
        nodes:
          first: {type: call, handler: a}
          second: {type: call, handler: a, timeout: {total: 30s}}
        edges: [[first, second]]
    """)
    world.lease("first")
    world.pause(stop_clock=True)
    world.advance(minutes=5)
    world.succeed("first")

    assert held(world) == {("second", "total_timeout"): 30_000}


def test_a_cancel_ends_a_paused_run() -> None:
    world = begin(CHAIN)
    world.lease("first")
    world.pause()

    world.cancel(grace_ms=1_000, reason="enough")

    assert world.renew("first") == (Answer.RENEWED, True)
    world.fire(world.next_timer())
    assert world.state is RunState.CANCELLED
    assert world.run.error is not None
    assert str(world.run.error["message"]).startswith("cancelled by request: enough; 1 attempt(s) did not end in time")
    assert world.run.error["paths"] == ["first"]
    assert not world.run.is_paused
    with pytest.raises(RunNotFinished):
        begin(CHAIN).retry()
    world.retry()
    assert not world.run.is_paused
    assert world.run.steering.cancel_reason == ""


def test_a_deadline_that_passes_stops_a_paused_run() -> None:
    world = begin(TIMED)
    world.pause()

    world.advance(minutes=2)
    world.fire(("", "run_deadline", 0))

    assert world.state is RunState.FAILED
    assert not world.run.is_paused


def test_pausing_or_resuming_twice_is_no_transition() -> None:
    world = begin(CHAIN)
    with pytest.raises(IllegalTransition):
        world.resume()
    world.pause()
    with pytest.raises(IllegalTransition):
        world.pause()
    world.resume()
    assert [type(action) for action in world.actions()] == [do.ResumeRun, do.DispatchTask]
