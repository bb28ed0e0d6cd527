"""Pause and resume: nothing starts in between, and nothing is lost by it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.coordinator.core import actions as do
from headway.coordinator.core.admission import Answer
from headway.coordinator.core.explaining import Reason, ReasonKind, Scene, explain
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


POLL = """
    workflow: poll
    nodes:
      poll:
        type: repeat
        while: index < 5
        max_iterations: 3
        delay: 10s
        body: {type: join}
"""


def test_a_repeat_that_pauses_between_iterations_begins_none_while_the_run_is_paused() -> None:
    world = begin(POLL)
    world.pause()
    assert not world.db.timers
    assert world.task("poll").due_at == EPOCH + timedelta(seconds=10)

    world.advance(minutes=1)
    world.resume()

    assert world.db.timers == {("poll", "go_on", 1): EPOCH + timedelta(seconds=10)}
    assert world.db.loops["poll"].started == 1
    world.fire(world.next_timer())
    assert world.db.loops["poll"].started == 2
    assert world.task("poll").due_at == EPOCH + timedelta(seconds=70)
    check_replay(world)


def reason(world: World) -> Reason:
    """Why the one node that is live waits."""
    scene = Scene(graph=world.graph, now=world.now, run=world.run, tasks=tuple(world.db.tasks.values()))
    (found,) = explain(scene)
    return found


def test_a_repeat_that_pauses_between_iterations_is_told_with_the_time_at_which_it_goes_on() -> None:
    world = begin(POLL.replace("{type: join}", "{type: call, handler: a}"))
    world.run_task("poll[0].step")

    waits = reason(world)
    world.pause()
    held = reason(world)

    due = EPOCH + timedelta(seconds=10)
    assert (waits.kind, waits.until) == (ReasonKind.TIMER, due)
    assert waits.message == "It waits for its next iteration, which is in 10s (2030-01-01 00:00:10Z)."
    assert (held.kind, held.until) == (ReasonKind.PAUSED, due)


def test_an_iteration_that_ends_in_a_paused_run_is_followed_when_it_is_resumed() -> None:
    world = begin(POLL.replace("{type: join}", "{type: call, handler: a}"))
    world.lease("poll[0].step")
    world.pause(stop_clock=True)

    world.succeed("poll[0].step")
    assert not world.db.timers
    world.advance(seconds=4)
    world.resume()

    assert world.db.timers == {("poll", "go_on", 1): EPOCH + timedelta(seconds=10)}
    check_replay(world)


def test_no_item_begins_in_a_paused_run_nor_does_a_map_that_is_reached_in_it() -> None:
    world = begin("""
        workflow: maps
        nodes:
          many: {type: map, over: [1, 2, 3], max_concurrency: 1, body: {type: call, handler: a}}
          after: {type: map, over: [1, 2], body: {type: join}}
          one: {type: call, handler: a}
        edges: [[one, after]]
    """)
    world.lease("many[0].step")
    world.lease("one")
    world.pause()

    world.succeed("many[0].step")
    world.succeed("one")
    assert [world.db.loops[path].started for path in ("many", "after")] == [1, 0]

    world.resume()
    assert world.db.timers.keys() == {("many", "go_on", 1), ("after", "go_on", 1)}
    for key in sorted(world.db.timers):
        world.fire(key)
    assert world.task("after").state is TaskState.SUCCEEDED
    assert world.ready() == ["many[1].step"]
    check_replay(world)


def test_a_map_that_goes_on_by_itself_stands_still_in_a_paused_run() -> None:
    world = begin("""
        workflow: pages
        nodes:
          many: {type: repeat, while: index < 150, max_iterations: 200, body: {type: join}}
    """)
    assert world.db.loops["many"].started == 100

    world.pause()
    assert not world.db.timers
    world.resume()
    world.fire(world.next_timer())

    assert world.state is RunState.SUCCEEDED


def test_what_runs_at_the_end_begins_when_the_run_is_resumed() -> None:
    world = begin("""
        workflow: ends
        nodes:
          one: {type: call, handler: a}
        finally: {type: set, values: {done: true}}
    """)
    world.lease("one")
    world.pause()

    world.succeed("one")
    assert world.db.loops["finally"].started == 0
    world.resume()
    world.fire(world.next_timer())

    assert world.state is RunState.SUCCEEDED


def test_nothing_is_undone_in_a_paused_run() -> None:
    world = begin("""
        workflow: books
        nodes:
          book: {type: call, handler: a, compensate: cancel}
          cancel: {type: call, handler: a}
          pay: {type: call, handler: a}
        edges: [[book, pay]]
    """)
    world.run_task("book")
    world.lease("pay")
    world.pause()

    world.fail("pay", final=True)
    assert world.states() == {"book": "succeeded", "pay": "failed"}
    world.resume()

    assert world.ready() == ["cancel"]
    world.run_task("cancel")
    assert world.state is RunState.FAILED
    check_replay(world)
