"""Golden transcripts: a few runs told from beginning to end. `UPDATE_GOLDEN=1 pytest tests/core/test_stories.py` writes
them anew; read the difference before you believe it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.coordinator.core.admission import Answer
from headway.coordinator.core.plan import Json
from tests.core import invariants
from tests.core.invariants import begin
from tests.core.simulator import World
from tests.core.telling import tell

GOLDEN = Path(__file__).parent / "golden"

ORDER = """
    workflow: order
    nodes:
      reserve: {type: call, handler: stock.reserve, input: "${input}", retry: {max_attempts: 2, initial: 1s, jitter: 0}}
      ship: {type: call, handler: shipping.create, input: {reservation: "${nodes.reserve.output}"}}
      sold_out: {type: call, handler: mail.sorry, input: {why: "${error.message}"}}
    edges:
      - [reserve, ship]
      - {from: reserve, on: failure, to: sold_out, when: "error.type == 'SoldOut'"}
"""


def an_order_that_is_tried_again_and_then_handled_by_its_failure_edge() -> World:
    world = begin(ORDER, {"order": 7})
    world.lease("reserve")
    world.advance(seconds=2)
    world.fail("reserve", "Unreachable")
    world.fire(world.next_timer())
    world.lease("reserve")
    world.advance(seconds=1)
    world.fail("reserve", "SoldOut")
    world.run_task("sold_out")
    return world


def a_worker_that_was_taken_for_dead_reports_after_its_lease_was_reaped() -> World:
    world = begin(ORDER, {"order": 7})
    world.lease("reserve", owner="zombie")
    world.lose("reserve")
    assert world.succeed("reserve", "stale", attempt=1, owner="zombie") is Answer.STALE_ATTEMPT
    world.lease("reserve", owner="fresh")
    assert world.succeed("reserve", "stale", attempt=2, owner="zombie") is Answer.LEASE_LOST
    assert world.succeed("reserve", "good", owner="fresh") is Answer.ACCEPTED
    world.run_task("ship")
    return world


def a_cancel_that_one_holder_hears_and_the_other_does_not() -> World:
    world = begin("""
        workflow: two_calls
        nodes:
          listens: {type: call, handler: a}
          deaf: {type: call, handler: a}
          unstarted: {type: call, handler: a}
          after: {type: call, handler: a}
        edges:
          - [listens, after]
    """)
    world.lease("listens")
    world.lease("deaf")
    world.advance(seconds=10)
    world.cancel(grace_ms=5_000)
    world.advance(seconds=1)
    world.stopped("listens")
    world.fire(world.next_timer())
    assert world.succeed("deaf") is Answer.RUN_CLOSED
    return world


def a_cancel_while_a_failed_trip_is_undone() -> World:
    world = begin("""
        workflow: trip
        nodes:
          hotel: {type: call, handler: hotel.book, compensate: no_hotel}
          car: {type: call, handler: car.book, compensate: no_car}
          flight: {type: call, handler: flight.book}
          no_hotel: {type: call, handler: hotel.cancel, input: "${nodes.hotel.output}"}
          no_car: {type: call, handler: car.cancel, input: "${nodes.car.output}", retry: {max_attempts: 2, jitter: 0}}
        edges: [[hotel, car, flight]]
    """)
    world.run_task("hotel", "H")
    world.advance(seconds=1)
    world.run_task("car", "C")
    world.fail_task("flight", "Full")
    world.lease("no_car")
    world.cancel()
    world.fail("no_car", "Unreachable")
    world.fire(world.next_timer())
    world.run_task("no_car")
    world.run_task("no_hotel")
    return world


def a_join_that_fires_at_the_first_branch_and_hears_of_the_others_later() -> World:
    world = begin("""
        workflow: race
        nodes:
          fast: {type: call, handler: a}
          slow: {type: call, handler: a}
          broken: {type: call, handler: a}
          first: {type: join, need: any}
          use: {type: call, handler: a, input: "${nodes.first.output}"}
        edges:
          - [fast, first, use]
          - [slow, first]
          - [broken, first]
    """)
    world.run_task("fast", "quick")
    world.fail_task("broken")
    world.run_task("slow", "late")
    world.run_task("use")
    return world


def a_join_that_stops_the_others_and_hears_of_one_late() -> World:
    world = begin("""
        workflow: race
        nodes:
          fast: {type: call, handler: a}
          late: {type: call, handler: a}
          listens: {type: call, handler: a}
          deaf: {type: call, handler: a}
          unstarted: {type: call, handler: a}
          after: {type: call, handler: a}
          shared: {type: call, handler: a}
          first: {type: join, need: any, rest: cancel}
          use: {type: call, handler: a, input: "${nodes.first.output}"}
          aside: {type: call, handler: a}
        edges:
          - [fast, first, use]
          - [late, after, first]
          - [listens, first]
          - [deaf, first]
          - [unstarted, first]
          - [shared, first]
          - [shared, aside]
    """)
    for path in ("late", "listens", "deaf"):
        world.lease(path)
    world.run_task("fast", "quick")
    world.advance(seconds=1)
    world.stopped("listens")
    world.succeed("late", "too late")
    world.lose("deaf")
    world.run_task("shared", "beside")
    world.run_task("aside")
    world.run_task("use")
    return world


def a_signal_that_comes_before_anybody_waits_for_it() -> World:
    world = begin("""
        workflow: approval
        nodes:
          prepare: {type: call, handler: a}
          approve: {type: wait_for_event, event: approval, timeout: 2d}
          go: {type: call, handler: a, input: "${nodes.approve.output}"}
        edges:
          - [prepare, approve, go]
    """)
    world.signal("approval", {"by": "Ada"})
    world.advance(minutes=1)
    world.run_task("prepare")
    world.run_task("go")
    return world


def a_retry_from_a_node_beside_a_branch_that_had_finished() -> World:
    world = begin("""
        workflow: branches
        nodes:
          split: {type: call, handler: a}
          left: {type: call, handler: a, input: "${nodes.split.output}"}
          right: {type: call, handler: a}
          both: {type: join}
          last: {type: call, handler: a, input: "${nodes.both.output}"}
        edges:
          - [split, left, both, last]
          - [split, right, both]
    """)
    world.run_task("split", 1)
    world.run_task("right", "r")
    world.fail_task("left")
    world.advance(hours=1)
    world.retry("left")
    world.run_task("left", "l")
    world.run_task("last")
    return world


def a_pause_over_a_timer_that_comes_due() -> World:
    world = begin("""
        workflow: paused
        deadline: 1h
        nodes:
          nap: {type: wait, duration: 10s}
          work: {type: call, handler: a}
          next: {type: call, handler: a}
          after: {type: call, handler: a}
        edges:
          - [nap, after]
          - [work, next]
    """)
    world.lease("work")
    world.advance(seconds=5)
    world.pause(stop_clock=True)
    world.advance(seconds=10)
    assert world.due() == []
    world.succeed("work", "recorded")
    assert world.lease("next") is Answer.RUN_PAUSED
    world.advance(seconds=5)
    world.resume()
    world.fire(world.next_timer())
    assert world.now == world.run.last_event_at
    for path in ("next", "after"):
        world.run_task(path)
    return world


def a_cancel_that_meets_a_report_on_its_way() -> World:
    world = begin("""
        workflow: crossed
        nodes:
          charge: {type: call, handler: a}
          ship: {type: call, handler: a}
        edges:
          - [charge, ship]
    """)
    world.lease("charge")
    world.advance(seconds=1)
    world.cancel(grace_ms=5_000, reason="ordered twice")
    world.share = True
    assert world.succeed("charge", "paid") is Answer.ACCEPTED
    assert world.succeed("charge", "paid") is Answer.DUPLICATE
    return world


def a_node_of_a_failed_run_is_skipped_and_its_run_goes_on() -> World:
    world = begin("""
        workflow: helped
        nodes:
          charge: {type: call, handler: a}
          stock: {type: call, handler: a}
          ship: {type: call, handler: a, input: "${nodes.charge.output}"}
          mail: {type: call, handler: a}
        edges:
          - [charge, ship, mail]
          - [stock, ship]
    """)
    world.run_task("stock", "there")
    world.fail_task("charge", "CardReader")
    world.advance(minutes=10)
    world.skip("charge", {"paid": "in cash"}, reason="the reader is broken")
    assert world.input("ship") == {"paid": "in cash"}
    world.run_task("ship")
    world.run_task("mail")
    return world


MAPPED = """
    workflow: thumbnails
    nodes:
      resize:
        type: map
        over: "${input}"
        max_concurrency: 2
        tolerate: 1
        output: "${nodes.crop.output}"
        body:
          nodes:
            crop: {type: call, handler: crop, input: "${item}"}
            upload: {type: call, handler: upload, input: "${nodes.crop.output}"}
          edges:
            - [crop, upload]
      publish: {type: call, handler: publish, input: "${nodes.resize.output}"}
    edges:
      - [resize, publish]
"""


def a_retry_inside_a_map_that_tolerates_a_failure() -> World:
    world = begin(MAPPED, ["a.png", "b.png", "c.png", "d.png"])
    world.run_task("resize[0].crop", "a")
    world.run_task("resize[0].upload")
    world.fail_task("resize[1].crop", "NotAnImage")
    world.run_task("resize[2].crop", "c")
    world.fail_task("resize[2].upload", "Unreachable")
    world.advance(hours=1)
    world.retry("resize[2].upload")
    world.run_task("resize[2].upload")
    world.run_task("resize[3].crop", "d")
    world.run_task("resize[3].upload")
    world.run_task("publish")
    return world


def a_repeat_nested_in_a_map() -> World:
    world = begin(
        """
        workflow: exports
        nodes:
          each:
            type: map
            over: "${input}"
            body:
              nodes:
                begin: {type: call, handler: export.begin, input: "${item}"}
                poll:
                  type: repeat
                  until: "last.done"
                  max_iterations: 3
                  delay: 10s
                  body: {type: call, handler: export.ask, input: {job: "${nodes.begin.output}", try: "${index}"}}
              edges:
                - [begin, poll]
        """,
        ["x", "y"],
    )
    world.run_task("each[0].begin", 1)
    world.run_task("each[1].begin", 2)
    world.run_task("each[0].poll[0].step", {"done": False})
    world.run_task("each[1].poll[0].step", {"done": True})
    world.fire(world.next_timer())
    world.run_task("each[0].poll[1].step", {"done": True})
    return world


def a_cancel_of_a_run_inside_a_map() -> World:
    world = begin(MAPPED, ["a.png", "b.png", "c.png"])
    world.lease("resize[0].crop")
    world.advance(seconds=5)
    world.cancel(grace_ms=5_000)
    world.fire(world.next_timer())
    return world


def a_subflow_that_is_cancelled_by_its_parent() -> World:
    world = begin(
        """
        workflow: purchase
        nodes:
          pay: {type: subflow, workflow: payment, input: "${input}"}
          ship: {type: call, handler: shipping.create}
        edges: [[pay, ship]]
    """,
        {"order": 7},
    )
    world.advance(seconds=5)
    world.cancel(grace_ms=10_000)
    world.advance(seconds=10)
    world.fire(("", "cancel_grace", 0))
    world.advance(seconds=2)
    error: dict[str, Json] = {"failure_class": "cancelled", "message": "cancelled by request", "paths": []}
    assert world.child("pay", "cancelled", error=error)
    assert not world.child("pay", "cancelled", error=error)
    return world


RENTED = """
    workflow: rented
    deadline: 5m
    nodes:
      rent: {type: call, handler: machines.rent, compensate: give_back}
      work: {type: call, handler: jobs.run}
      give_back: {type: call, handler: machines.give_back}
    edges: [[rent, work]]
    finally:
      timeout: 1m
      nodes:
        tell: {type: call, handler: mail.tell, input: "${outcome.state}: ${outcome.message}"}
        log: {type: call, handler: log.write}
      edges: [[tell, log]]
"""


def a_cancel_during_finally_and_one_that_breaks_it_off() -> World:
    world = begin(RENTED)
    world.run_task("rent")
    world.run_task("work")
    world.lease("finally[0].tell")
    world.cancel()
    world.advance(seconds=2)
    world.cancel(compensate=False, grace_ms=5_000)
    world.stopped("finally[0].tell")
    return world


def a_finally_whose_own_time_is_over_in_a_run_whose_deadline_had_passed() -> World:
    world = begin(RENTED)
    world.lease("rent")
    world.fire(world.next_timer())
    world.stopped("rent")
    world.lease("finally[0].tell")
    world.fire(world.next_timer())
    world.advance(seconds=3)
    world.succeed("finally[0].tell")
    return world


def a_cancel_of_a_run_that_is_undone_and_then_its_finally() -> World:
    world = begin(RENTED)
    world.run_task("rent", "M1")
    world.fail_task("work", "Broken")
    world.lease("give_back")
    world.cancel()
    world.succeed("give_back")
    world.run_task("finally[0].tell")
    world.run_task("finally[0].log")
    return world


def a_cancel_while_the_items_of_a_map_are_undone() -> World:
    world = begin(
        """
        workflow: seats
        nodes:
          seats:
            type: map
            over: "${input}"
            body:
              nodes:
                book: {type: call, handler: seats.book, compensate: free}
                free: {type: call, handler: seats.free, input: "${item}"}
          pay: {type: call, handler: pay}
        edges: [[seats, pay]]
    """,
        ["a", "b", "c"],
    )
    for index in (1, 0, 2):
        world.run_task(f"seats[{index}].book", index)
        world.advance(seconds=1)
    world.fail_task("pay")
    world.lease("seats[2].free")
    world.cancel()
    world.succeed("seats[2].free")
    world.lease("seats[0].free")
    world.cancel(compensate=False, grace_ms=5_000)
    world.fire(world.next_timer())
    return world


def a_signal_that_comes_before_an_item_waits_for_it() -> World:
    world = begin(
        """
        workflow: papers
        nodes:
          papers:
            type: map
            over: "${input}"
            max_concurrency: 1
            body:
              nodes:
                ask: {type: call, handler: mail.ask}
                paper: {type: wait_for_event, event: "paper-${item}", timeout: 1h}
              edges: [[ask, paper]]
    """,
        ["a", "b"],
    )
    world.signal("paper-b", 2)
    world.run_task("papers[0].ask")
    world.signal("paper-a", 1)
    world.run_task("papers[1].ask")
    return world


TIMED = """
    workflow: timed
    nodes:
      step: {type: call, handler: h, timeout: TIMEOUT, retry: {max_attempts: 2, initial: 1s, jitter: 0}}
      late: {type: call, handler: mail.late, input: "${error.type}"}
      after: {type: call, handler: h, input: "${nodes.step.output}"}
    edges:
      - [step, after]
      - {from: step, on: timeout, to: late}
"""


def an_attempt_whose_time_is_over_reports_after_that_was_noticed() -> World:
    world = begin(TIMED.replace("TIMEOUT", "{attempt: 10s}"))
    world.lease("step", owner="slow")
    world.advance(seconds=10)
    assert world.expire("step")
    assert world.succeed("step", "late", attempt=1, owner="slow") is Answer.STALE_ATTEMPT
    world.fire(world.next_timer())
    assert world.succeed("step", "late", attempt=1, owner="slow") is Answer.STALE_ATTEMPT
    world.run_task("step", "in time")
    world.run_task("after")
    return world


def an_attempt_whose_time_is_over_reports_before_that_is_noticed() -> World:
    world = begin(TIMED.replace("TIMEOUT", "{attempt: 10s}"))
    world.lease("step", owner="slow")
    world.advance(seconds=11)
    assert world.succeed("step", "just so", owner="slow") is Answer.ACCEPTED
    assert not world.expire("step")
    assert world.succeed("step", "just so", owner="slow") is Answer.DUPLICATE
    world.run_task("after")
    return world


def a_node_whose_whole_time_is_over_reports_after_its_timer_fired() -> World:
    world = begin(TIMED.replace("TIMEOUT", "10s"))
    world.lease("step", owner="slow")
    world.fire(world.next_timer())
    assert world.succeed("step", "late", owner="slow") is Answer.LEASE_LOST
    assert world.fail("step", "Boom", owner="slow") is Answer.LEASE_LOST
    world.run_task("late")
    return world


def a_node_whose_whole_time_is_over_reports_before_its_timer_fires() -> World:
    world = begin(TIMED.replace("TIMEOUT", "10s"))
    world.lease("step", owner="slow")
    world.advance(seconds=11)
    assert world.due() == [("step", "total_timeout", 0)]
    assert world.succeed("step", "just so", owner="slow") is Answer.ACCEPTED
    assert not world.fire(("step", "total_timeout", 0))
    world.run_task("after")
    return world


STORIES: list[Callable[[], World]] = [
    a_subflow_that_is_cancelled_by_its_parent,
    an_order_that_is_tried_again_and_then_handled_by_its_failure_edge,
    a_worker_that_was_taken_for_dead_reports_after_its_lease_was_reaped,
    a_cancel_that_one_holder_hears_and_the_other_does_not,
    a_cancel_while_a_failed_trip_is_undone,
    a_join_that_fires_at_the_first_branch_and_hears_of_the_others_later,
    a_join_that_stops_the_others_and_hears_of_one_late,
    a_cancel_during_finally_and_one_that_breaks_it_off,
    a_finally_whose_own_time_is_over_in_a_run_whose_deadline_had_passed,
    a_cancel_of_a_run_that_is_undone_and_then_its_finally,
    a_signal_that_comes_before_anybody_waits_for_it,
    a_retry_from_a_node_beside_a_branch_that_had_finished,
    a_pause_over_a_timer_that_comes_due,
    a_cancel_that_meets_a_report_on_its_way,
    a_node_of_a_failed_run_is_skipped_and_its_run_goes_on,
    a_retry_inside_a_map_that_tolerates_a_failure,
    a_repeat_nested_in_a_map,
    a_cancel_of_a_run_inside_a_map,
    a_cancel_while_the_items_of_a_map_are_undone,
    a_signal_that_comes_before_an_item_waits_for_it,
    an_attempt_whose_time_is_over_reports_after_that_was_noticed,
    an_attempt_whose_time_is_over_reports_before_that_is_noticed,
    a_node_whose_whole_time_is_over_reports_after_its_timer_fired,
    a_node_whose_whole_time_is_over_reports_before_its_timer_fires,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_story_is_told_as_before(story: Callable[[], World]) -> None:
    golden = GOLDEN / f"{story.__name__}.txt"

    told = tell(story())

    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(told, encoding="utf-8")
    assert told == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_its_story() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {story.__name__ for story in STORIES}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_each_of_them_can_be_replayed(story: Callable[[], World]) -> None:
    invariants.check_replay(story())
