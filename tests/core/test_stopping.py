"""What stops a run: its first unhandled failure, a cancel, its deadline, a finish node."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.coordinator.core.admission import Answer
from headway.coordinator.core.decide._ending import MESSAGE, NAMED_PATHS
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import RunClosed
from tests.core.flows import workflow
from tests.core.invariants import begin
from tests.core.simulator import EPOCH, World

# At the first unhandled failure (`on_failure: stop`, the default) running tasks may end, what has not started is
# cancelled, and only always edges still start; with `drain` other branches go on to their end.

BRANCHES = """
    on_failure: {on_failure}
    nodes:
      bad: {{type: call, handler: a}}
      clean: {{type: call, handler: a, retry: {{max_attempts: 2}}}}
      running: {{type: call, handler: a, retry: {{max_attempts: 3}}}}
      after: {{type: call, handler: a}}
      close: {{type: call, handler: a}}
      unstarted: {{type: call, handler: a}}
      waiting: {{type: wait_for_event, event: approval, timeout: 1h}}
    edges:
      - {{from: bad, to: clean, on: always}}
      - [running, after]
      - {{from: running, to: close, on: always}}
"""


def test_the_first_unhandled_failure_stops_what_has_not_started() -> None:
    world = begin(BRANCHES.format(on_failure="stop"))
    world.lease("running")

    world.fail_task("bad")

    assert world.states() == {
        "bad": "failed",
        "clean": "ready",
        "running": "running",
        "unstarted": "cancelled",
        "waiting": "cancelled",
    }
    assert world.task("unstarted").cause == "failure"
    assert world.renew("running") == (Answer.RENEWED, False)


def test_running_tasks_may_end_and_only_always_edges_still_start() -> None:
    world = begin(BRANCHES.format(on_failure="stop"))
    world.lease("running")
    world.fail_task("bad")

    world.succeed("running")

    assert world.states()["after"] == "cancelled"
    assert world.states()["close"] == "ready"
    world.run_task("close")
    world.run_task("clean")
    assert world.state is RunState.FAILED


def test_a_running_task_that_fails_while_the_run_fails_is_not_tried_again() -> None:
    world = begin(BRANCHES.format(on_failure="stop"))
    world.lease("running")
    world.fail_task("bad")

    world.fail("running")

    assert world.states()["running"] == "failed"


def test_what_an_always_edge_started_is_tried_again_even_while_the_run_fails() -> None:
    world = begin(BRANCHES.format(on_failure="stop"))
    world.fail_task("bad")

    world.fail_task("clean", final=False)
    assert world.states()["clean"] == "retrying"
    world.fire(world.next_timer())
    world.lease("clean")
    world.lose("clean")

    assert world.states()["clean"] == "ready"
    world.run_task("clean")
    assert world.task("clean").losses == 1
    assert world.state is RunState.FAILED


def test_what_an_always_edge_made_ready_before_the_failure_still_starts() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          clean: {type: call, handler: a}
          bad: {type: call, handler: a}
        edges:
          - {from: a, to: clean, on: always}
    """)
    world.run_task("a")

    world.fail_task("bad")

    assert world.states()["clean"] == "ready"


def test_with_drain_the_other_branches_go_on_to_their_end() -> None:
    world = begin(BRANCHES.format(on_failure="drain"))

    world.fail_task("bad")
    for path in ("running", "after", "close", "clean", "unstarted"):
        world.run_task(path)
    world.signal("approval")

    assert set(world.states().values()) == {"failed", "succeeded"}
    assert world.state is RunState.FAILED


# Cancelling: nothing new is dispatched; holders are told; their reports are still ACCEPTED, with no successors; after
# the grace an attempt is closed as *unknown*. The run is final only when every attempt is closed.

TWO = """
    nodes:
      one: {type: call, handler: a, retry: {max_attempts: 3}}
      two: {type: call, handler: a}
      three: {type: call, handler: a}
      after: {type: call, handler: a}
      clean: {type: call, handler: a}
    edges:
      - [one, after]
      - {from: one, to: clean, on: always}
"""


def test_cancelling_keeps_the_truth() -> None:
    world = begin(TWO)
    world.lease("one")
    world.lease("two")

    world.cancel(grace_ms=5_000)

    assert world.states() == {"one": "running", "two": "running", "three": "cancelled"}
    assert world.renew("one") == (Answer.RENEWED, True)
    assert world.succeed("one", {"done": True}) is Answer.ACCEPTED
    assert world.output("one") == {"done": True}
    assert world.states()["after"] == world.states()["clean"] == "cancelled"
    assert not world.run.is_final
    assert world.stopped("two") is Answer.ACCEPTED
    assert world.task("two").cause == "cancel"
    assert world.state is RunState.CANCELLED


def test_after_the_grace_an_attempt_is_closed_as_unknown() -> None:
    world = begin(TWO)
    world.lease("one")
    world.cancel(grace_ms=5_000)

    world.advance(seconds=5)
    assert world.fire(("", "cancel_grace", 0))

    assert world.task("one").cause == "unknown"
    assert world.state is RunState.CANCELLED
    assert world.succeed("one") is Answer.RUN_CLOSED


def test_a_failure_during_the_cancel_is_not_tried_again() -> None:
    world = begin(TWO)
    world.lease("one")
    world.cancel()

    world.fail("one")

    assert world.states()["one"] == "failed"
    assert world.state is RunState.CANCELLED


def test_a_lease_lost_or_given_back_during_the_cancel_has_no_successor() -> None:
    world = begin(TWO)
    world.lease("one")
    world.lease("two")
    world.cancel(grace_ms=3_600_000)

    world.release("two")
    world.lose("one")

    assert (world.task("one").cause, world.task("two").cause) == ("unknown", "cancel")
    assert world.state is RunState.CANCELLED


def test_a_message_that_comes_after_the_cancel_is_acknowledged() -> None:
    world = begin(TWO)
    world.lease("one")
    world.cancel()

    assert world.lease("two", attempt=1) is Answer.STALE_ATTEMPT
    world.succeed("one")
    assert world.lease("two", attempt=1) is Answer.RUN_CLOSED


def test_cancelling_twice_changes_nothing_the_second_time_and_a_finished_run_refuses() -> None:
    world = begin(TWO)
    world.lease("one")
    world.cancel(grace_ms=1_000)
    timers = dict(world.db.timers)

    world.advance(milliseconds=500)
    world.cancel(grace_ms=1_000)
    assert world.db.timers == timers
    world.succeed("one")

    with pytest.raises(RunClosed, match="is cancelled"):
        world.cancel()
    with pytest.raises(RunClosed, match=r"Run 0+1 is cancelled"):
        world.signal("approval")


# The deadline.


def test_the_deadline_stops_the_run_and_fails_it() -> None:
    world = begin("""
        deadline: 1m
        nodes:
          held: {type: call, handler: a}
          waiting: {type: wait, duration: 1h}
    """)
    world.lease("held")
    assert world.db.timers["", "run_deadline", 0] == EPOCH + timedelta(minutes=1)

    world.advance(minutes=1)
    world.renew("held")
    assert world.fire(("", "run_deadline", 0))

    assert world.task("waiting").cause == "deadline"
    assert world.renew("held") == (Answer.RENEWED, True)
    assert world.succeed("held") is Answer.ACCEPTED
    assert world.state is RunState.FAILED
    assert world.run.error == {"failure_class": "timeout", "message": "the run's deadline passed", "paths": []}


def test_a_deadline_that_passes_while_the_run_is_cancelled_leaves_it_cancelled() -> None:
    world = begin("""
        deadline: 1m
        nodes:
          held: {type: call, handler: a, lease: 10m}
    """)
    world.lease("held")
    world.cancel(grace_ms=600_000)

    world.advance(minutes=1)
    world.fire(("", "run_deadline", 0))

    assert world.db.timers == {("", "cancel_grace", 0): EPOCH + timedelta(minutes=10)}
    world.stopped("held")
    assert world.state is RunState.CANCELLED


# A finish node.

FINISH = """
    nodes:
      a: {type: call, handler: a}
      held: {type: call, handler: a}
      end: {type: finish, outcome: %s, output: "${nodes.a.output}"%s}
    edges:
      - [a, end]
"""


def test_a_finish_node_ends_the_run_with_its_output_and_stops_the_rest() -> None:
    world = begin(FINISH % ("succeeded", ""))
    world.lease("held")

    world.run_task("a", {"total": 7})

    assert world.renew("held") == (Answer.RENEWED, True)
    assert not world.run.is_final
    world.stopped("held")
    assert world.task("held").cause == "finish"
    assert world.state is RunState.SUCCEEDED
    assert (world.run.output_path, world.run.output_attempt) == ("end", 1)
    assert world.output("end") == {"total": 7}


def test_a_finish_node_can_fail_the_run_and_say_why() -> None:
    world = begin(FINISH % ("failed", ', message: "sold out of ${nodes.a.output}"'))

    world.run_task("a", "tea")

    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["message"] == "sold out of tea"
    assert world.run.error["paths"] == ["end"]


@pytest.mark.parametrize(("own", "minutes"), [("", 10), ("deadline: 1h", 10), ("deadline: 1m", 1)])
def test_a_run_ends_by_its_parents_deadline_unless_its_own_comes_first(own: str, minutes: int) -> None:
    world = World(workflow(f"workflow: child\n{own}\nnodes: {{a: {{type: call, handler: a}}}}"))

    world.start(deadline_at=EPOCH + timedelta(minutes=10))

    assert world.db.timers == {("", "run_deadline", 0): EPOCH + timedelta(minutes=minutes)}


# What a run's error names.


def test_the_earliest_failure_is_the_runs_error() -> None:
    world = begin("""
        on_failure: drain
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a}
    """)
    world.fail_task("b", "Second")
    world.advance(seconds=1)
    world.fail_task("a", "First")

    assert world.run.error == {"failure_class": "exec_failed", "message": "b: Second: b broke", "paths": ["b", "a"]}


def test_a_finish_nodes_message_is_cut() -> None:
    world = begin("nodes: {end: {type: finish, outcome: failed, message: '${input}'}}", "x" * 10_000)

    assert world.run.error is not None
    assert world.run.error["message"] == "x" * MESSAGE + " …"


def test_of_many_attempts_that_are_closed_some_are_named() -> None:
    items = list[Json](range(NAMED_PATHS + 5))
    world = begin(
        "nodes: {m: {type: map, over: '${input}', max_concurrency: 100, body: {type: call, handler: a}}}", items
    )
    for index in items:
        world.lease(f"m[{index}].step")
    world.cancel()

    while not world.run.is_final:
        assert world.fire(world.next_timer())

    assert world.run.error is not None
    assert "25 attempt(s) did not end in time" in str(world.run.error["message"])
    assert world.run.error["paths"] == [f"m[{index}].step" for index in items[:NAMED_PATHS]]
