"""Skip: a node gets its output by hand, and what follows goes on as after a success."""

from __future__ import annotations

import pytest

from headway.coordinator.core.admission import Answer
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.payloads import LIMIT
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import (
    InvalidArgument,
    NodeNotFound,
    NodeNotReached,
    NodeNotSkippable,
    Refusal,
    RunNotHeld,
)
from tests.core.invariants import begin, check_replay
from tests.core.simulator import World

CHAIN = """
    workflow: chain
    nodes:
      first:
        {type: call, handler: a, retry: {max_attempts: 2, initial: 10s, jitter: 0}, timeout: {total: 1h, queue: 1m}}
      second: {type: call, handler: a, input: "${nodes.first.output}"}
      rescue: {type: call, handler: a}
    edges:
      - [first, second]
      - {from: first, on: failure, errors: [Known], to: rescue}
"""


def failed() -> World:
    world = begin(CHAIN)
    world.fail_task("first")
    assert world.state is RunState.FAILED
    return world


def test_a_ready_node_of_a_paused_run_is_skipped() -> None:
    world = begin(CHAIN)
    world.pause(stop_clock=True)

    world.skip("first", {"by": "hand"}, reason="no worker")

    first = world.task("first")
    assert (first.state, first.cause, first.owner) == (TaskState.SUCCEEDED, "skipped", None)
    assert world.input("second") == {"by": "hand"}
    assert world.lease("second") is Answer.RUN_PAUSED
    assert world.run.steering.held == ()
    world.resume()
    world.run_task("second")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_a_node_that_waits_for_its_next_try_is_skipped() -> None:
    world = begin(CHAIN)
    world.lease("first")
    world.fail("first")
    world.pause()

    world.skip("first", 1)

    first = world.task("first")
    assert (first.state, first.failure_class, first.error, first.attempt) == (TaskState.SUCCEEDED, None, None, 2)
    assert world.output("first") == 1
    check_replay(world)


def test_a_wait_is_skipped() -> None:
    world = begin("""
        workflow: waits
        nodes:
          nap: {type: wait, duration: 1h}
          ask: {type: wait_for_event, event: answer, timeout: 1h}
    """)
    world.pause()

    world.skip("nap")
    world.skip("ask", 42)

    assert world.output("ask") == 42
    assert world.state is RunState.SUCCEEDED


def test_a_failed_run_goes_on_behind_the_node_that_was_skipped() -> None:
    world = failed()

    world.skip("first", {"by": "hand"})

    assert (world.run.epoch, world.state) == (2, RunState.RUNNING)
    assert (world.task("first").attempt, world.task("first").cause) == (2, "skipped")
    assert world.run.unhandled_tasks == 0
    world.run_task("second")
    assert world.state is RunState.SUCCEEDED
    assert "rescue" not in world.db.tasks
    check_replay(world)


def test_a_failure_that_an_edge_took_is_made_good_and_the_edge_s_branch_is_passed_over() -> None:
    world = begin(CHAIN)
    world.fail_task("first", "Known")
    world.fail_task("rescue")

    world.skip("first", "good")

    assert (world.task("rescue").state, world.task("rescue").cause) == (TaskState.CANCELLED, "not_chosen")
    world.run_task("second")
    assert world.state is RunState.SUCCEEDED


def test_other_failures_of_the_run_still_count() -> None:
    world = begin("""
        workflow: two_failures
        on_failure: drain
        nodes:
          left: {type: call, handler: a}
          right: {type: call, handler: a}
          after: {type: call, handler: a}
        edges: [[left, after]]
    """)
    world.fail_task("left")
    world.fail_task("right")

    world.skip("left")
    world.run_task("after")

    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["paths"] == ["right"]


def test_what_a_join_lacked_is_given_by_hand() -> None:
    world = begin("""
        workflow: joined
        nodes:
          left: {type: call, handler: a}
          right: {type: call, handler: a}
          both: {type: join}
          after: {type: call, handler: a, input: "${nodes.both.output}"}
        edges: [[left, both, after], [right, both]]
    """)
    world.run_task("left", "l")
    world.fail_task("right")

    world.skip("right", "by hand")

    assert world.input("after") == {"left": "l", "right": "by hand"}


def test_a_switch_is_told_where_to_go_and_a_set_node_what_to_set() -> None:
    world = begin("""
        workflow: decided
        nodes:
          rate: {type: call, handler: a}
          gate: {type: switch, cases: [{when: "nodes.rate.output.score > 1", to: high}], default: low}
          high: {type: call, handler: a}
          low: {type: set, values: {half: "${nodes.rate.output.score / 2}"}}
        edges: [[rate, gate]]
    """)
    world.run_task("rate", {})
    assert world.state is RunState.FAILED
    outputs: tuple[Json, ...] = (None, {"to": "rate"}, {"to": 3}, "high")
    for wrong in outputs:
        with pytest.raises(InvalidArgument, match="high, low"):
            world.skip("gate", wrong)

    world.skip("gate", {"to": "low"})

    assert (world.state, world.task("low").state) == (RunState.FAILED, TaskState.FAILED)
    with pytest.raises(InvalidArgument, match="an object"):
        world.skip("low", 7)
    world.skip("low", {"half": 7})
    assert world.run.vars == {"half": 7}
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def paused_with(path_state: str) -> World:
    world = begin(CHAIN)
    if path_state == "running":
        world.lease("first")
    elif path_state == "succeeded":
        world.run_task("first")
    elif path_state == "pending":
        world.run_task("first")
        world.run_task("second")
        world.retry("first")
    elif path_state == "failed":
        world.fail_task("first", "Known")
    elif path_state == "cancelled":
        world = begin("""
            nodes:
              bad: {type: call, handler: a}
              busy: {type: call, handler: a}
              aside: {type: call, handler: a}
        """)
        world.lease("busy")
        world.fail_task("bad")
    world.pause()
    return world


def ended_by_no_finish() -> World:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          end: {type: finish, output: {of: "${nodes.a.output.no}"}}
        edges: [[a, end]]
    """)
    world.run_task("a", {})
    return world


def failed_to_set() -> World:
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          low: {type: set, values: {half: "${nodes.a.output.no}"}}
        edges: [[a, low]]
    """)
    world.run_task("a", {})
    return world


@pytest.mark.parametrize(
    ("world", "path", "output", "refusal", "said"),
    [
        (begin(CHAIN), "first", None, RunNotHeld, "is running"),
        (paused_with("running"), "first", None, NodeNotSkippable, "a worker holds it"),
        (paused_with("succeeded"), "first", None, NodeNotSkippable, "a retry of the run can repeat it"),
        (paused_with("pending"), "second", None, NodeNotSkippable, "it waits for other nodes; skip those"),
        (paused_with("failed"), "first", None, NodeNotSkippable, "its failure was followed by other nodes"),
        (paused_with("cancelled"), "aside", None, NodeNotSkippable, "its run goes on without it"),
        (paused_with("ready"), "second", None, NodeNotReached, "second"),
        (paused_with("ready"), "nowhere", None, NodeNotFound, "nowhere"),
        (failed(), "second", None, NodeNotReached, "second"),
        (ended_by_no_finish(), "end", {}, InvalidArgument, "a finish node ends the run by what it says"),
        (failed_to_set(), "low", {"half": "x" * LIMIT}, InvalidArgument, "variables would have 10485"),
    ],
)
def test_what_cannot_be_skipped_is_refused_and_changes_nothing(
    world: World, path: str, output: Json, refusal: type[Refusal], said: str
) -> None:
    seq = world.run.seq

    with pytest.raises(refusal, match=said):
        world.skip(path, output)

    assert world.run.seq == seq


@pytest.mark.parametrize(
    ("path", "output", "said"),
    [
        ("ask", {"n": "1"}, "the output of ask breaks its output_schema: [$].n"),
        ("put", {"n": "1"}, "n breaks its schema: [$]"),
        ("put", {"m": 1}, "no variable m; it has n"),
    ],
)
def test_an_output_given_by_hand_breaks_no_contract(path: str, output: Json, said: str) -> None:
    world = begin("""
        vars: {n: {type: integer}}
        nodes:
          ask: {type: call, handler: a, output_schema: {properties: {n: {type: integer}}}}
          fail: {type: call, handler: a}
          put: {type: set, values: {n: "${input.n}"}}
        edges: [[ask, put]]
    """)
    if path == "put":
        world.run_task("ask", {"n": 1})
    else:
        world.fail_task("fail")

    with pytest.raises(InvalidArgument, match=said):
        world.skip(path, output)

    world.skip(path, {"n": 1})
    assert world.task(path).cause == "skipped"


def test_a_run_that_succeeded_or_was_cancelled_is_not_reopened_by_a_skip() -> None:
    world = begin(CHAIN)
    world.cancel()
    with pytest.raises(RunNotHeld, match="is cancelled"):
        world.skip("first")


ITEMS = """
    workflow: items
    nodes:
      m:
        type: map
        over: "${input}"
        tolerate: 1
        body:
          nodes:
            one: {type: call, handler: a}
            two: {type: call, handler: a, input: "${nodes.one.output}"}
          edges: [[one, two]]
      after: {type: call, handler: a, input: "${nodes.m.output}"}
    edges: [[m, after]]
"""


def failed_in_an_item() -> World:
    world = begin(ITEMS, ["a", "b", "c"])
    world.fail_task("m[0].one")
    world.fail_task("m[1].one")
    assert world.state is RunState.FAILED
    return world


def test_a_node_of_an_item_of_a_failed_run_is_skipped_and_its_item_goes_on() -> None:
    world = failed_in_an_item()

    world.skip("m[1].one", "by hand")

    assert (world.task("m[1].one").state, world.task("m[1].one").cause) == (TaskState.SUCCEEDED, "skipped")
    assert world.input("m[1].two") == "by hand"
    world.run_task("m[1].two", "b")
    world.run_task("m[2].one")  # it was stopped
    world.run_task("m[2].two", "c")
    assert world.input("after") == [None, "b", "c"]
    world.run_task("after")
    assert world.state is RunState.SUCCEEDED
    assert world.states()["m[0].one"] == "failed"  # tolerated, and left as it is
    check_replay(world)


def test_the_last_node_of_an_item_ends_it_and_perhaps_the_run_when_it_is_skipped() -> None:
    world = begin(ITEMS.replace("tolerate: 1", "tolerate: 0"), ["a"])
    world.run_task("m[0].one")
    world.fail_task("m[0].two")

    world.skip("m[0].two", 2)

    assert world.input("after") == [2]
    check_replay(world)


def test_a_node_of_an_iteration_of_a_failed_run_is_skipped() -> None:
    world = begin("""
        nodes:
          r:
            {type: repeat, max_iterations: 3, until: "index == 1", output: "${nodes.step.output}",
             body: {type: call, handler: h}}
    """)
    world.run_task("r[0].step")
    world.fail_task("r[1].step")

    world.skip("r[1].step", "done")

    assert world.output("r") == "done"
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_a_node_of_an_item_to_which_something_leads_that_starts_again_is_not_skipped() -> None:
    world = begin("""
        nodes:
          m:
            type: map
            over: [1]
            body:
              nodes:
                one: {type: call, handler: a, compensate: back}
                two: {type: call, handler: a}
                back: {type: call, handler: a}
              edges: [[one, two]]
    """)
    world.run_task("m[0].one")
    world.fail_task("m[0].two")
    world.run_task("m[0].back")
    assert world.state is RunState.FAILED

    with pytest.raises(NodeNotSkippable, match="lead to it start again"):
        world.skip("m[0].two")
