"""Joins that stop the others when they fire, and maps and repeats whose time is over."""

import pytest

from headway.coordinator.core.admission import Answer
from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.refusals import NothingToRetry
from tests.core.flows import workflow
from tests.core.invariants import begin, check_replay
from tests.core.simulator import World

RACE = """
    workflow: race
    nodes:
      fast: {type: call, handler: a}
      slow: {type: call, handler: a, retry: {max_attempts: 3, jitter: 0}, compensate: undo_slow}
      after_slow: {type: call, handler: a}
      shared: {type: call, handler: a}
      aside: {type: call, handler: a}
      first: {type: join, need: any, rest: cancel}
      use: {type: call, handler: a}
      undo_slow: {type: call, handler: a}
    edges:
      - [fast, first, use]
      - [slow, after_slow, first]
      - [shared, first]
      - [shared, aside]
"""


def test_only_what_leads_to_the_join_and_nowhere_else_is_stopped() -> None:
    graph = workflow(RACE)

    assert graph.rest == {"first": ("fast", "slow", "after_slow")}


def test_a_join_that_fires_cancels_what_has_not_started() -> None:
    world = begin(RACE)

    world.run_task("fast", "quick")

    assert world.task("slow").state is TaskState.CANCELLED
    assert world.task("shared").state is TaskState.READY
    world.run_task("shared")
    world.run_task("aside")
    world.run_task("use")
    assert world.state is RunState.SUCCEEDED
    assert "after_slow" not in world.db.tasks
    check_replay(world)


def test_a_holder_is_told_to_stop_and_nothing_follows_it() -> None:
    world = begin(RACE)
    world.lease("slow")
    assert world.renew("slow") == (Answer.RENEWED, False)

    world.run_task("fast")

    assert world.renew("slow") == (Answer.RENEWED, True)
    assert world.lease("shared") is Answer.GRANTED
    assert world.renew("shared") == (Answer.RENEWED, False)
    assert world.stopped("slow") is Answer.ACCEPTED
    assert world.task("slow").cause == "beaten"
    world.succeed("shared")
    world.run_task("aside")
    world.run_task("use")
    assert world.state is RunState.SUCCEEDED


def test_a_loser_that_fails_counts_for_nothing_and_is_not_tried_again() -> None:
    world = begin(RACE)
    world.lease("slow")
    world.run_task("fast")

    world.fail("slow")

    assert (world.task("slow").state, world.task("slow").disposition) == (TaskState.FAILED, "tolerated")
    for name in ("shared", "aside", "use"):
        world.run_task(name)
    assert world.state is RunState.SUCCEEDED


def test_a_loser_that_succeeds_all_the_same_has_succeeded_and_nothing_follows() -> None:
    world = begin(RACE)
    world.lease("slow")
    world.run_task("fast")

    world.succeed("slow", "late")

    assert world.task("slow").state is TaskState.SUCCEEDED
    assert (world.task("after_slow").state, world.task("after_slow").cause) == (TaskState.CANCELLED, "beaten")


def test_a_loser_that_fell_silent_is_left_alone_by_a_retry_for_which_the_join_stays_fired() -> None:
    world = begin(
        RACE.replace(", compensate: undo_slow", "").replace("      undo_slow: {type: call, handler: a}\n", "")
    )
    world.lease("slow")
    world.run_task("fast")
    world.run_task("shared")
    world.run_task("aside")
    world.fire(world.next_timer())
    assert world.task("slow").cause == "unknown"
    world.fail_task("use")

    assert world.retry().chosen == ("use",)


def test_a_loser_that_falls_silent_is_closed_after_the_grace_and_undone_when_the_run_fails() -> None:
    world = begin(RACE)
    world.lease("slow")
    world.run_task("fast")
    world.run_task("shared")
    world.run_task("aside")

    for _ in range(3):
        world.advance(seconds=20)
        world.renew("slow")
    assert world.next_timer() == ("slow", "cancel_grace", 1)
    world.fire(("slow", "cancel_grace", 1))

    assert (world.task("slow").state, world.task("slow").cause) == (TaskState.CANCELLED, "unknown")
    world.fail_task("use")
    world.run_task("undo_slow")
    assert world.state is RunState.FAILED


RESCUED = """
    workflow: rescued
    on_failure: drain
    nodes:
      fast: {type: call, handler: a}
      odd: {type: call, handler: a}
      last: {type: call, handler: a}
      first: {type: join, need: any, rest: cancel}
    edges:
      - [fast, first]
      - {from: odd, on: failure, errors: [Other], to: first}
"""


def test_nor_does_one_count_whose_failure_no_edge_takes() -> None:
    world = begin(RESCUED)
    world.lease("odd")
    world.run_task("fast")

    world.fail("odd", final=True)

    assert world.task("odd").disposition == "tolerated"
    world.run_task("last")
    assert world.state is RunState.SUCCEEDED


def test_nor_one_that_had_failed_before_the_join_fired() -> None:
    world = begin(RESCUED)
    world.fail_task("odd")
    assert world.task("odd").disposition == "unhandled"

    world.run_task("fast")

    assert world.task("odd").disposition == "tolerated"
    world.run_task("last")
    assert world.state is RunState.SUCCEEDED


def test_a_retry_from_the_join_does_not_take_up_the_losers() -> None:
    world = begin(RACE)
    world.run_task("fast")
    world.run_task("shared")
    world.run_task("aside")
    world.fail_task("use")
    assert world.state is RunState.FAILED

    opened = world.retry()

    assert opened.chosen == ("use",)
    world.run_task("use")
    assert world.state is RunState.SUCCEEDED


RESCUED_OR_NOT = RESCUED.replace("edges:", "  instead: {type: call, handler: a}\n    edges:").replace(
    "- [fast, first]", "- [fast, first]\n      - {from: fast, on: failure, to: instead}"
)


DUEL = """
    workflow: duel
    nodes:
      fast: {type: call, handler: a}
      slow: {type: call, handler: a, compensate: undo_slow}
      after_slow: {type: call, handler: a}
      first: {type: join, need: any, rest: cancel}
      use: {type: call, handler: a}
      undo_slow: {type: call, handler: a}
    edges:
      - [fast, first, use]
      - [slow, after_slow, first]
"""


def _raced_and_failed(text: str = DUEL, of_slow: str = "ready") -> World:
    """The winner is through, and what follows the join has failed."""
    world = begin(text)
    if of_slow != "ready":
        world.lease("slow")
    world.run_task("fast")
    if of_slow == "succeeds":
        world.succeed("slow", "late")
    elif of_slow == "fails":
        world.fail("slow", final=True)
    world.fail_task("use", final=True)
    if "undo_slow" in world.db.tasks:
        world.run_task("undo_slow")
    assert world.state is RunState.FAILED
    return world


def test_a_retry_from_the_winner_runs_the_race_again_and_a_loser_may_win_it() -> None:
    world = _raced_and_failed()

    foreseen = world.dry_run("fast")
    opened = world.retry("fast")

    assert foreseen.starts == opened.chosen == ("fast", "slow")
    world.fail_task("fast", final=True)
    assert world.state is RunState.RUNNING
    world.run_task("slow")
    world.run_task("after_slow")
    assert world.task("fast").disposition == "tolerated"
    world.run_task("use")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_the_winner_that_wins_again_beats_the_others_again() -> None:
    world = _raced_and_failed()

    world.retry("fast")
    world.run_task("fast")

    assert (world.task("slow").state, world.task("slow").cause) == (TaskState.CANCELLED, "beaten")
    world.run_task("use")
    assert world.state is RunState.SUCCEEDED


def test_what_a_loser_came_to_late_is_taken_up_where_it_stopped() -> None:
    world = _raced_and_failed(of_slow="succeeds")

    opened = world.retry("fast")

    assert opened.chosen == ("fast", "slow")  # what slow did was undone, so it is done anew
    assert opened.reset == ("after_slow", "first", "use")
    world.fail_task("fast", final=True)
    world.run_task("slow")
    world.run_task("after_slow")
    world.run_task("use")
    assert world.state is RunState.SUCCEEDED


def test_a_node_that_was_not_begun_behind_a_loser_begins_when_the_race_is_run_again() -> None:
    plain = DUEL.replace(", compensate: undo_slow", "").replace("      undo_slow: {type: call, handler: a}\n", "")
    world = _raced_and_failed(plain, of_slow="succeeds")

    opened = world.retry("fast")

    assert opened.chosen == ("fast", "after_slow")
    world.fail_task("fast", final=True)
    world.run_task("after_slow")
    assert world.task("slow").attempt == 1
    world.run_task("use")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_a_join_that_another_branch_keeps_fired_needs_no_race() -> None:
    world = begin(RACE)
    world.run_task("shared")
    world.run_task("aside")
    world.fail_task("use", final=True)

    opened = world.retry("shared")

    assert opened.chosen == ("fast", "slow", "shared")
    world.run_task("fast")
    world.run_task("use")
    world.run_task("shared")
    world.fail_task("aside", final=True)
    again = world.retry("shared")
    assert again.chosen == ("shared",)
    assert again.reset == ("aside",)


def test_a_retry_of_what_failed_leaves_a_loser_that_failed_alone_while_its_join_stays_fired() -> None:
    world = _raced_and_failed(of_slow="fails")
    assert world.task("slow").disposition == "tolerated"

    opened = world.retry()

    assert opened.chosen == ("use",)
    assert "slow" in opened.kept


def test_a_run_in_which_nothing_but_losers_failed_has_nothing_to_retry() -> None:
    world = begin(DUEL)
    world.lease("slow")
    world.run_task("fast")
    world.fail("slow", final=True)
    world.lease("use")
    world.cancel()
    world.succeed("use")
    assert world.state is RunState.CANCELLED

    with pytest.raises(NothingToRetry):
        world.retry()


def test_a_failure_that_did_not_count_because_of_the_join_counts_when_the_race_is_run_again_without_a_winner() -> None:
    world = begin(RESCUED_OR_NOT)
    world.fail_task("odd", final=True)
    world.run_task("fast")
    world.fail_task("last", final=True)
    assert (world.state, world.task("odd").disposition) == (RunState.FAILED, "tolerated")

    world.retry("fast", "last")

    assert world.task("odd").disposition == "unhandled"
    world.fail_task("fast", final=True)
    world.run_task("instead")
    world.run_task("last")
    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["paths"] == ["odd"]
    check_replay(world)


def test_failures_before_a_join_in_a_race_that_is_run_again_stay_tolerated_as_long_as_it_may_be_won() -> None:
    world = begin("""
        workflow: race
        on_failure: drain
        nodes:
          fast: {type: call, handler: a}
          slow: {type: call, handler: a}
          slower: {type: call, handler: a}
          either: {type: join, need: any, rest: cancel}
          first: {type: join, need: any, rest: cancel}
          use: {type: call, handler: a}
        edges:
          - [fast, first, use]
          - [slow, either, first]
          - [slower, either]
    """)
    world.fail_task("slow")
    world.fail_task("slower")
    world.run_task("fast")
    world.fail_task("use")

    world.retry("fast")

    assert [world.task(name).disposition for name in ("slow", "slower")] == ["tolerated"] * 2
    world.run_task("fast")
    world.run_task("use")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_a_failure_that_counted_because_the_run_was_failing_when_its_join_fired_counts_no_more_after_a_retry() -> None:
    world = begin("""
        workflow: race
        nodes:
          odd: {type: call, handler: a}
          sure: {type: call, handler: a}
          first: {type: join, need: any, rest: cancel}
        edges:
          - {from: odd, on: failure, errors: [Other], to: first}
          - {from: sure, on: always, to: first}
    """)
    world.lease("sure")
    world.fail_task("odd")
    world.succeed("sure")
    assert (world.task("first").state, world.task("odd").disposition) == (TaskState.SUCCEEDED, "unhandled")
    assert world.state is RunState.FAILED

    assert world.retry().chosen == ("odd",)

    assert (world.task("odd").state, world.task("odd").cause) == (TaskState.CANCELLED, "beaten")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_rest_without_a_need_is_a_fault() -> None:
    text = RACE.replace("need: any, ", "")

    faults = compile_workflow(text).faults

    assert any("rest goes with need" in str(fault) for fault in faults)


SLOW_MAP = """
    workflow: slow_map
    nodes:
      each:
        type: map
        over: [1, 2, 3]
        max_concurrency: 2
        timeout: 10s
        body: {type: call, handler: a, retry: {max_attempts: 5}}
      late: {type: call, handler: a, input: "${error.timeout}"}
    edges:
      - {from: each, on: timeout, to: late}
"""


def _time_out(world: World) -> None:
    while "late" not in world.db.tasks:
        key = world.next_timer()
        world.fire(key)
        if key == ("each", "total_timeout", 0):
            return


def test_a_map_whose_time_is_over_stops_its_items_and_fails_with_class_timeout() -> None:
    world = begin(SLOW_MAP)
    world.lease("each[0].step")

    _time_out(world)

    assert world.task("each[1].step").state is TaskState.CANCELLED
    assert world.task("each").state is TaskState.WAITING
    assert world.renew("each[0].step") == (Answer.RENEWED, True)
    world.stopped("each[0].step")
    row = world.task("each")
    assert (row.state, row.failure_class, row.error and row.error["type"]) == (
        TaskState.FAILED, "timeout", "total_timeout",
    )  # fmt: skip
    assert world.db.payloads["late", 1, "input"].value == "total"
    world.run_task("late")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_a_holder_in_a_map_that_does_not_stop_is_closed_after_the_grace() -> None:
    world = begin(SLOW_MAP)
    world.lease("each[0].step")
    _time_out(world)

    for _ in range(3):
        world.advance(seconds=20)
        world.renew("each[0].step")
    assert world.fire(("each", "cancel_grace", 1))

    assert world.task("each[0].step").cause == "unknown"
    assert world.task("each").state is TaskState.FAILED


def test_a_repeat_that_is_done_in_time_leaves_no_timer() -> None:
    world = begin("""
        workflow: poll
        nodes:
          poll: {type: repeat, until: "last == 1", max_iterations: 5, timeout: 1m, body: {type: call, handler: a}}
          done: {type: call, handler: a}
        edges: [[poll, done]]
    """)
    assert ("poll", "total_timeout", 0) in world.db.timers

    world.run_task("poll[0].step", 1)

    assert world.db.timers == {}


def test_a_retry_of_a_map_that_timed_out_takes_up_the_items_that_were_stopped() -> None:
    world = begin(SLOW_MAP.replace("on: timeout", "on: timeout, errors: [nothing]"))
    world.run_task("each[0].step", "one")
    _time_out(world)
    assert world.state is RunState.FAILED

    world.retry()

    assert ("each", "total_timeout", 0) in world.db.timers
    world.run_task("each[1].step", "two")
    world.run_task("each[2].step", "three")
    assert world.results("each") == ["one", "two", "three"]
    assert world.state is RunState.SUCCEEDED


def test_a_map_of_hundreds_of_open_items_stops_by_pages() -> None:
    world = World(
        workflow("""
            nodes:
              each:
                type: map
                over: "${input}"
                max_concurrency: 250
                timeout: 10s
                body: {type: call, handler: a}
        """)
    ).start(list(range(250)))
    while (key := world.next_timer()) != ("each", "total_timeout", 0):
        world.fire(key)
    held = [f"each[{index}].step" for index in (0, 120, 249)]
    for path in held:
        world.lease(path)

    world.fire(key)
    while world.db.timers and world.next_timer()[1] == "go_on":
        world.fire(world.next_timer())

    assert [path for path, row in world.db.tasks.items() if row.state is TaskState.RUNNING] == held
    assert [world.renew(path)[1] for path in held] == [True, True, True]
    for path in held:
        world.stopped(path)
    assert world.state is RunState.FAILED
    check_replay(world)


def test_a_map_in_a_map_stops_with_the_outer_one() -> None:
    world = begin("""
        workflow: nested
        nodes:
          outer:
            type: map
            over: [1]
            timeout: 5s
            body:
              nodes:
                inner: {type: map, over: [1, 2], body: {type: call, handler: a}}
                clean: {type: call, handler: a}
              edges: [{from: inner, to: clean, on: always}]
    """)
    world.lease("outer[0].inner[0].step")

    world.fire(world.next_timer())
    assert world.renew("outer[0].inner[0].step") == (Answer.RENEWED, True)
    world.lose("outer[0].inner[0].step")

    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert "total time-out" in str(world.run.error["message"])
    assert world.task("outer[0].inner").state is TaskState.CANCELLED


FINISHED_RACE = """
    workflow: race
    nodes:
      fast: {type: call, handler: a}
      slow: {type: call, handler: a}
      later: {type: wait, duration: 1h}
      each: {type: map, over: [1, 2], body: {type: call, handler: a}}
      apart: {type: call, handler: a}
      first: {type: join, need: any, rest: cancel}
      done: {type: finish}
    edges:
      - [fast, first, done]
      - [slow, first]
      - [later, first]
      - [each, first]
"""


def test_what_a_join_has_beaten_says_so_though_the_run_is_finished_behind_it() -> None:
    world = begin(FINISHED_RACE)
    world.lease("slow")
    world.lease("apart")
    world.lease("each[0].step")
    world.lease("each[1].step")

    world.run_task("fast")
    for name in ("slow", "apart", "each[0].step", "each[1].step"):
        world.stopped(name)

    assert world.state is RunState.SUCCEEDED
    causes = {name: world.task(name).cause for name in ("slow", "later", "each", "apart")}
    assert causes == {"slow": "beaten", "later": "beaten", "each": "beaten", "apart": "finish"}
    check_replay(world)
