"""What a run that does not succeed undoes: the nodes that `compensate:` names, what completed last first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headway.coordinator.core import actions as do
from headway.coordinator.core.admission import Answer
from headway.coordinator.core.decide._ending import NAMED_PATHS
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import NodeUndoes
from tests.core.invariants import begin, check_replay, check_the_order_of_undoing, check_what_is_undone
from tests.core.simulator import World

if TYPE_CHECKING:
    from collections.abc import Callable

TRIP = """
    workflow: trip
    nodes:
      hotel: {type: call, handler: h, compensate: no_hotel}
      car: {type: call, handler: h, compensate: no_car}
      flight: {type: call, handler: h}
      no_hotel: {type: call, handler: h, input: "${nodes.hotel.output.id}", retry: {max_attempts: 2, jitter: 0}}
      no_car: {type: call, handler: h, input: "${nodes.car.output.id}"}
    edges: [[hotel, car, flight]]
"""
READS_HOTEL = "${nodes.hotel.output.id}"
GUARDED = "${has(nodes.hotel.output) ? nodes.hotel.output.id : 0}"
BESIDE = """
    workflow: beside
    nodes:
      a: {type: call, handler: h, compensate: no_a}
      b: {type: call, handler: h, compensate: no_b}
      no_a: {type: call, handler: h}
      no_b: {type: call, handler: h}
"""


def booked() -> World:
    """Hotel and car are booked, a second apart."""
    world = begin(TRIP)
    world.run_task("hotel", {"id": "H"})
    world.advance(seconds=1)
    world.run_task("car", {"id": "C"})
    return world


def undone(world: World) -> list[Json]:
    """Everything is undone, as it comes; what was undone, as the undoing nodes are told."""
    told: list[Json] = []
    while not world.run.is_final:
        (path,) = world.ready()
        told.append(world.input(path) if world.task(path).input else None)
        world.run_task(path)
    return told


def test_a_run_that_fails_undoes_what_completed_what_came_last_first() -> None:
    world = booked()

    world.fail_task("flight", "Full")

    assert world.ready() == ["no_car"]
    assert world.state is RunState.RUNNING
    assert world.run.is_compensating
    assert world.input("no_car") == "C"
    world.run_task("no_car")
    assert world.ready() == ["no_hotel"]
    assert world.input("no_hotel") == "H"
    world.run_task("no_hotel")
    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["message"] == "flight: Full: flight broke"


def test_a_run_that_succeeds_undoes_nothing() -> None:
    world = booked()

    world.run_task("flight")

    assert world.state is RunState.SUCCEEDED
    assert set(world.states()) == {"hotel", "car", "flight"}


def test_what_did_not_complete_is_not_undone() -> None:
    world = begin(TRIP)
    world.run_task("hotel", {"id": "H"})

    world.fail_task("car")

    assert world.ready() == ["no_hotel"]


def test_what_completed_last_is_undone_first_whatever_order_it_stands_in() -> None:
    world = begin(BESIDE)
    world.lease("a")
    world.lease("b")
    world.succeed("b")
    world.advance(seconds=1)
    world.succeed("a")
    assert world.state is RunState.SUCCEEDED

    world = begin(BESIDE)
    world.lease("a")
    world.lease("b")
    world.cancel()
    world.succeed("b")
    world.advance(seconds=1)
    world.succeed("a")
    assert world.ready() == ["no_a"]


def test_a_cancelled_run_undoes_what_completed_and_ends_cancelled() -> None:
    world = booked()

    world.cancel()

    undone(world)
    assert world.state is RunState.CANCELLED
    assert world.states() | {"no_hotel": "succeeded", "no_car": "succeeded"} == world.states()


def test_a_cancel_without_compensation_undoes_nothing() -> None:
    world = booked()

    world.cancel(compensate=False)

    assert world.state is RunState.CANCELLED
    assert "no_car" not in world.states()


def test_a_cancel_while_it_is_undone_changes_nothing() -> None:
    world = booked()
    world.fail_task("flight")
    world.lease("no_car")

    world.cancel()

    assert world.succeed("no_car") is Answer.ACCEPTED
    undone(world)
    assert world.state is RunState.FAILED


def test_a_cancel_without_compensation_breaks_it_off() -> None:
    world = booked()
    world.fail_task("flight")
    world.lease("no_car")

    world.cancel(compensate=False, grace_ms=5_000)

    assert world.renew("no_car")[1]  # its holder is told to stop
    world.fire(world.next_timer())
    assert world.state is RunState.CANCELLED
    assert world.states()["no_car"] == "cancelled"
    assert "no_hotel" not in world.states()


def test_it_has_retries_of_its_own_and_what_fails_for_good_is_named_and_does_not_keep_the_rest() -> None:
    world = booked()
    world.fail_task("flight", "Full")

    world.fail_task("no_car", "Unreachable")

    world.fail_task("no_hotel", "Unreachable", final=False)
    assert world.states()["no_hotel"] == "retrying"
    world.fire(world.next_timer())
    world.run_task("no_hotel")
    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["message"] == "flight: Full: flight broke; not undone: car (no_car failed)"
    assert world.run.error["paths"] == ["flight", "no_car"]


def test_what_was_lost_while_the_run_was_stopped_is_undone_for_nobody_knows() -> None:
    world = begin(TRIP)
    world.lease("hotel")
    world.cancel(grace_ms=1_000)

    world.fire(world.next_timer())

    assert world.states()["hotel"] == "cancelled"
    assert world.states()["no_hotel"] == "failed"  # there is no output to read: an expression of it cannot be evaluated
    assert world.state is RunState.CANCELLED


def test_what_nobody_knew_of_and_was_undone_is_done_anew_by_a_retry() -> None:
    world = begin(TRIP.replace(READS_HOTEL, GUARDED))
    world.lease("hotel")
    world.cancel(grace_ms=1_000)
    world.fire(world.next_timer())
    world.run_task("no_hotel")

    world.retry()

    assert (world.ready(), world.task("hotel").generation) == (["hotel"], 2)


def test_of_many_failures_and_what_could_not_be_undone_the_error_names_some() -> None:
    names = [f"f{number}" for number in range(NAMED_PATHS)]
    others = ", ".join(f"{name}: {{type: call, handler: h}}" for name in names)
    undone = "a: {type: call, handler: h, compensate: no_a}, no_a: {type: call, handler: h}"
    world = begin(f"on_failure: drain\nnodes: {{{undone}, {others}}}")
    world.run_task("a")

    for name in (*names, "no_a"):
        world.fail_task(name)

    assert world.run.error is not None
    assert "not undone: a (no_a failed)" in str(world.run.error["message"])
    assert world.run.error["paths"] == sorted(names)


CHARGED = """
    workflow: charged
    nodes:
      charge: {{type: call, handler: h, compensate: refund, {says}}}
      refund: {{type: call, handler: h, input: "${{nodes.charge.state}}"}}
"""


@pytest.mark.parametrize("limit", ["attempt", "total", "heartbeat", "stall"])
def test_what_ran_out_of_time_is_undone_for_nobody_knows(limit: str) -> None:
    world = begin(CHARGED.format(says=f"timeout: {{{limit}: 10s}}"))
    world.lease("charge")

    for _ in range(2):  # its worker is well
        world.advance(seconds=4)
        world.renew("charge")

    if limit == "attempt":
        world.lose("charge")
    else:
        world.fire(world.next_timer())

    assert world.states()["charge"] == "failed"
    assert world.ready() == ["refund"]
    assert world.input("refund") == "failed"
    undone(world)
    assert world.state is RunState.FAILED
    check_replay(world)


def test_what_lost_its_lease_for_good_is_undone_for_nobody_knows() -> None:
    world = begin(CHARGED.format(says="retry: {max_losses: 1}"))
    world.lease("charge")
    world.lose("charge")
    assert world.ready() == ["charge"]
    world.lease("charge")

    world.lose("charge")

    assert world.ready() == ["refund"]


def test_what_no_worker_ever_took_is_not_undone() -> None:
    world = begin(CHARGED.format(says="timeout: {queue: 10s}"))

    world.fire(world.next_timer())

    assert world.state is RunState.FAILED
    assert set(world.states()) == {"charge"}


def test_what_no_worker_took_again_is_undone_for_an_earlier_attempt() -> None:
    world = begin(CHARGED.format(says="timeout: {queue: 10s}"))
    world.lease("charge")
    world.lose("charge")

    world.fire(world.next_timer())

    assert world.ready() == ["refund"]


def test_of_several_attempts_the_word_of_the_last_counts() -> None:
    world = begin(CHARGED.format(says="timeout: {attempt: 10s}, lease: 10s, retry: {max_attempts: 2, jitter: 0}"))
    world.lease("charge")
    world.lose("charge")
    assert world.states()["charge"] == "retrying"
    world.fire(world.next_timer())

    world.fail_task("charge", "Declined")

    assert world.state is RunState.FAILED
    assert set(world.states()) == {"charge"}


TRIED_AGAIN = "lease: 10s, timeout: {queue: 1h}, retry: {max_attempts: 3, jitter: 0}"


def retrying() -> World:
    world = begin(CHARGED.format(says=TRIED_AGAIN.replace("queue", "attempt: 10s, queue")))
    world.lease("charge")
    world.lose("charge")  # its attempt's time is over with the lease
    assert world.states()["charge"] == "retrying"
    return world


def tried_again() -> World:
    world = retrying()
    world.fire(world.next_timer())
    return world


def lost() -> World:
    world = begin(CHARGED.format(says=TRIED_AGAIN))
    world.lease("charge")
    world.lose("charge")
    return world


def given_back() -> World:
    world = lost()
    world.lease("charge")
    world.release("charge")
    return world


@pytest.mark.parametrize("between", [retrying, tried_again, lost, given_back])
def test_what_is_cancelled_between_attempts_is_undone_when_the_last_may_have_taken_effect(
    between: Callable[[], World],
) -> None:
    world = between()
    assert world.states()["charge"] == ("retrying" if between is retrying else "ready")

    world.cancel()

    assert (str(world.task("charge").state), world.task("charge").cause) == ("cancelled", "unknown")
    assert world.ready() == ["refund"]
    undone(world)
    assert world.state is RunState.CANCELLED
    check_replay(world)
    before = world.task("charge").generation
    world.retry()
    assert (world.ready(), world.task("charge").generation) == (["charge"], before + 1)


@pytest.mark.parametrize("between", [lambda: begin(CHARGED.format(says=TRIED_AGAIN)), lost], ids=["first", "lost"])
def test_what_is_cancelled_between_attempts_is_not_undone_when_its_worker_told_of_a_failure(
    between: Callable[[], World],
) -> None:
    world = between()
    world.fail_task("charge", "Declined", final=False)
    assert world.states()["charge"] == "retrying"

    world.cancel()

    assert world.state is RunState.CANCELLED
    assert set(world.states()) == {"charge"}


def test_what_no_worker_took_again_after_it_had_told_of_a_failure_is_not_undone() -> None:
    world = begin(CHARGED.format(says=TRIED_AGAIN))
    world.fail_task("charge", "Declined", final=False)
    world.fire(world.next_timer())
    assert world.states()["charge"] == "ready"

    world.fire(world.next_timer())

    assert world.state is RunState.FAILED
    assert set(world.states()) == {"charge"}


def test_what_its_worker_gives_back_while_the_run_stops_is_undone_for_an_attempt_before() -> None:
    world = lost()
    world.lease("charge")
    world.cancel()

    world.release("charge")

    assert world.ready() == ["refund"]


def test_what_a_join_beats_between_attempts_is_undone_if_the_run_fails_and_does_not_stop_its_item() -> None:
    world = begin("""
        nodes:
          each:
            type: map
            over: "${[1]}"
            body:
              nodes:
                quick: {type: call, handler: h}
                slow: {type: call, handler: h, compensate: stop_it}
                first: {type: join, need: any, rest: cancel}
                stop_it: {type: call, handler: h}
              edges: [[quick, first], [slow, first]]
          last: {type: call, handler: h}
        edges: [[each, last]]
    """)
    world.lease("each[0].slow")
    world.lose("each[0].slow")

    world.run_task("each[0].quick")

    assert world.states()["each"] == "succeeded"
    world.fail_task("last")
    assert world.ready() == ["each[0].stop_it"]
    undone(world)
    assert world.state is RunState.FAILED


def test_a_failure_beside_undoes_what_waits_for_its_next_attempt_in_all_items_and_asks_for_them_at_once() -> None:
    world = begin("""
        nodes:
          each:
            type: map
            over: "${[1, 2, 3, 4, 5, 6]}"
            max_concurrency: 6
            body:
              nodes:
                book: {type: call, handler: h, compensate: no_book}
                no_book: {type: call, handler: h}
          beside: {type: call, handler: h}
    """)
    for number in range(6):
        world.lease(f"each[{number}].book")
    for number in range(6):
        world.lose(f"each[{number}].book")

    world.fail_task("beside")

    assert world.questions <= 6  # one of them for the attempts of all
    assert world.ready() == ["each[5].no_book"]
    undone(world)
    assert world.state is RunState.FAILED
    assert {path for path in world.states() if "no_book" in path} == {f"each[{n}].no_book" for n in range(6)}
    check_replay(world)


def test_what_timed_out_and_was_undone_is_done_again_with_a_new_idempotency_key() -> None:
    world = begin(CHARGED.format(says="timeout: {attempt: 10s}, lease: 10s"))
    world.lease("charge")
    world.lose("charge")
    undone(world)
    before = world.task("charge").generation

    world.retry()

    assert world.ready() == ["charge"]
    assert world.task("charge").generation > before
    world.lease("charge")
    world.lose("charge")
    undone(world)
    assert world.task("refund").attempt == 2


def test_what_timed_out_and_was_handled_is_undone_when_the_run_fails_later() -> None:
    world = begin("""
        nodes:
          charge: {type: call, handler: h, compensate: refund, timeout: {attempt: 10s}, lease: 10s}
          invoice: {type: call, handler: h}
          refund: {type: call, handler: h}
        edges: [{from: charge, to: invoice, on: timeout}]
    """)
    world.lease("charge")
    world.lose("charge")

    world.fail_task("invoice")

    assert world.ready() == ["refund"]


def test_a_deadline_does_not_stop_what_undoes() -> None:
    world = begin(TRIP.replace("workflow: trip", "workflow: trip\n    deadline: 10s"))
    world.run_task("hotel", {"id": "H"})
    world.fire(world.next_timer())

    assert world.run.is_compensating
    assert world.db.timers == {}
    undone(world)
    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["failure_class"] == "timeout"


def test_a_lease_lost_while_it_undoes_comes_again() -> None:
    world = booked()
    world.fail_task("flight")
    world.lease("no_car")

    world.lose("no_car")

    undone(world)
    assert world.task("no_car").attempt == 2


def test_a_finish_node_that_fails_the_run_has_it_undone() -> None:
    world = begin("""
        nodes:
          a: {type: call, handler: h, compensate: no_a}
          no_a: {type: call, handler: h}
          over: {type: finish, outcome: failed, message: "too late"}
        edges: [[a, over]]
    """)
    world.run_task("a")

    assert world.ready() == ["no_a"]
    undone(world)
    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["message"] == "too late"


def test_a_retry_does_again_what_was_undone_with_a_new_idempotency_key_and_it_can_be_undone_again() -> None:
    world = booked()
    world.fail_task("flight")
    undone(world)
    first = {path: world.task(path).generation for path in ("hotel", "no_hotel")}

    opened = world.retry()

    assert set(opened.chosen) | set(opened.reset) == {"hotel", "car", "flight"}
    assert world.ready() == ["hotel"]
    assert not world.run.is_compensating
    world.run_task("hotel", {"id": "H2"})
    world.run_task("car", {"id": "C2"})
    world.fail_task("flight")
    assert world.input("no_car") == "C2"
    undone(world)
    assert world.input("no_hotel") == "H2"
    assert world.task("hotel").generation > first["hotel"]
    assert world.task("no_hotel").generation > first["no_hotel"]


def test_what_a_retry_repeated_took_effect_twice_and_is_undone_twice_each_with_its_own_output() -> None:
    world = booked()
    world.run_task("flight")
    world.retry("car")
    world.run_task("car", {"id": "C2"})

    world.fail_task("flight")

    assert world.input("no_car") == "C2"
    keys = {world.task("no_car").generation}
    world.run_task("no_car")
    assert world.ready() == ["no_car"]
    assert world.input("no_car") == "C"
    keys.add(world.task("no_car").generation)
    world.run_task("no_car")
    assert world.ready() == ["no_hotel"]
    world.run_task("no_hotel")
    assert world.state is RunState.FAILED
    assert len(keys) == 2
    check_replay(world)

    opened = world.retry()
    assert set(opened.chosen) | set(opened.reset) == {"hotel", "car", "flight"}
    world.run_task("hotel", {"id": "H"})
    world.run_task("car", {"id": "C3"})
    world.fail_task("flight")
    assert world.input("no_car") == "C3"
    keys.add(world.task("no_car").generation)
    assert len(keys) == 3


def test_an_earlier_effect_is_undone_though_the_repetition_never_came() -> None:
    world = booked()
    world.run_task("flight")

    world.retry("hotel")
    world.fail_task("hotel")

    assert world.input("no_car") == "C"
    world.run_task("no_car")
    assert world.input("no_hotel") == "H"
    world.run_task("no_hotel")
    assert world.state is RunState.FAILED
    check_replay(world)


def test_what_nobody_knows_of_is_taken_up_by_the_next_attempt_and_undone_once() -> None:
    world = begin(TRIP)
    world.lease("hotel")
    world.cancel(compensate=False)
    world.fire(world.next_timer())
    assert world.state is RunState.CANCELLED

    world.retry()
    world.run_task("hotel", {"id": "H"})
    world.fail_task("car")

    assert world.input("no_hotel") == "H"
    world.run_task("no_hotel")
    assert world.state is RunState.FAILED


def test_a_retry_that_succeeds_forgets_what_could_not_be_undone() -> None:
    world = booked()
    world.fail_task("flight")
    world.fail_task("no_car")
    undone(world)

    world.retry()
    for path in ("hotel", "car", "flight"):
        world.run_task(path, {"id": "again"})

    assert world.state is RunState.SUCCEEDED


def test_what_undoes_is_not_retried_by_itself() -> None:
    world = booked()
    world.fail_task("flight")
    undone(world)

    with pytest.raises(NodeUndoes, match="retry car"):
        world.retry("no_car")


def test_an_undoing_of_what_could_not_be_computed_does_not_hang() -> None:
    world = begin(TRIP)
    world.run_task("hotel", "no map")

    world.fail_task("car")

    assert world.state is RunState.FAILED
    assert world.states()["no_hotel"] == "failed"
    assert [action.path for action in world.actions(do.MarkRun) if isinstance(action, do.MarkRun)] == [
        None,
        "compensating",
    ]


def test_a_run_that_reached_no_finish_node_and_owes_an_output_undoes_what_it_did() -> None:
    world = begin("""
        workflow: owing
        output_schema: {type: object}
        nodes:
          a: {type: call, handler: h, compensate: no_a}
          b: {type: call, handler: h, compensate: no_b}
          no_a: {type: call, handler: h}
          no_b: {type: call, handler: h}
          failed: {type: finish, output: {}}
        edges: [[a, b], {from: b, on: failure, to: failed}]
    """)

    world.run_task("a")
    world.run_task("b")

    assert world.ready() == ["no_b"]
    world.run_task("no_b")
    assert world.ready() == ["no_a"]
    world.run_task("no_a")
    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["failure_class"] == "verdict_fail"


def test_an_undoing_that_was_broken_off_before_a_worker_had_it_leaves_the_effect_and_a_retry_does_not_repeat_it() -> (
    None
):
    world = booked()
    world.fail_task("flight")
    world.cancel(compensate=False)
    assert world.state is RunState.CANCELLED
    assert [effect.path for _, effect in sorted(world.db.effects.items())] == ["hotel", "car"]

    opened = world.retry()
    assert (opened.chosen, opened.kept) == (("flight",), ("hotel", "car", "no_car"))
    world.cancel()

    assert world.input("no_car") == "C"
    world.run_task("no_car")
    assert world.input("no_hotel") == "H"
    undone(world)
    assert world.db.effects == {}
    check_the_order_of_undoing(world)
    check_what_is_undone(world)
    check_replay(world)


def test_an_undoing_that_was_broken_off_without_a_word_is_done_for_both_the_first_and_the_repetition() -> None:
    world = booked()
    world.fail_task("flight")
    world.lease("no_car")
    world.cancel(compensate=False, grace_ms=5_000)
    world.fire(world.next_timer())
    first = world.task("car").generation

    opened = world.retry()
    assert opened.chosen == ("car",)
    world.run_task("car", {"id": "C2"})
    assert world.task("car").generation > first
    world.cancel()

    assert undone(world) == ["C2", "C", "H"]
    undos = [each for each in world.actions(do.SetInput) if isinstance(each, do.SetInput)]
    assert len({(each.path, each.generation) for each in undos}) == len(undos)
    check_the_order_of_undoing(world)
    check_what_is_undone(world)
    check_replay(world)


def test_what_could_not_be_undone_stays_and_is_undone_when_the_run_fails_again() -> None:
    world = booked()
    world.fail_task("flight")
    world.fail_task("no_car", "Unreachable")
    undone(world)
    assert [effect.path for effect in world.db.effects.values()] == ["car"]

    world.retry()
    world.run_task("hotel", {"id": "H2"})
    world.run_task("car", {"id": "C2"})
    world.fail_task("flight")

    assert undone(world) == ["C2", "H2", "C"]  # what stands of the first time came before all of the second
    assert world.db.effects == {}
    assert world.run.error is not None
    assert "not undone" not in str(world.run.error["message"])
    check_the_order_of_undoing(world)
    check_replay(world)


def test_what_could_not_be_undone_is_known_though_an_earlier_effect_was_undone_after_it() -> None:
    world = begin(BESIDE)
    world.run_task("a")
    world.run_task("b")
    world.retry("a", "b")
    world.run_task("a")
    world.fail_task("b")
    world.fail_task("no_a", "Unreachable")
    world.run_task("no_b")
    world.run_task("no_a")
    assert [(effect.path, effect.attempt) for effect in world.db.effects.values()] == [("a", 2)]

    opened = world.retry()

    assert (opened.chosen, opened.kept) == (("b",), ("a", "no_a", "no_b"))
    world.cancel()
    world.run_task("no_a")
    assert world.state is RunState.CANCELLED
    assert world.db.effects == {}
    check_the_order_of_undoing(world)
    check_what_is_undone(world)
    check_replay(world)


def test_an_effect_nobody_knows_of_that_may_have_been_undone_is_not_that_of_the_next_attempt() -> None:
    world = begin(TRIP.replace(READS_HOTEL, GUARDED))
    world.lease("hotel")
    world.cancel()
    world.fire(world.next_timer())
    world.lease("no_hotel")
    world.cancel(compensate=False)
    world.fire(world.next_timer())
    first = world.task("hotel").generation

    world.retry()
    world.run_task("hotel", {"id": "H2"})
    assert world.task("hotel").generation > first
    world.cancel()

    assert undone(world) == ["H2", 0]
    check_the_order_of_undoing(world)
    check_replay(world)


def test_a_run_in_which_nothing_succeeded_has_failed_though_what_undoes_it_succeeds() -> None:
    world = begin("""
        workflow: lone
        nodes:
          a: {type: call, handler: h, timeout: 10s, optional: true, compensate: no_a}
          no_a: {type: call, handler: h}
    """)
    world.lease("a")
    world.fire(world.next_timer())

    undone(world)

    assert world.state is RunState.FAILED
    assert world.run.error is not None
    assert world.run.error["message"] == "no task succeeded"
    world.retry("a")
    world.fail_task("a")
    assert world.state is RunState.FAILED
    check_replay(world)


def test_an_undoing_that_lost_its_worker_and_was_broken_off_before_another_took_it_may_have_been_done() -> None:
    world = begin(TRIP)
    world.run_task("hotel", {"id": "H"})
    world.fail_task("car")
    world.lease("no_hotel")
    world.lose("no_hotel")
    assert world.states()["no_hotel"] == "ready"
    world.cancel(compensate=False)
    assert world.state is RunState.CANCELLED

    opened = world.retry()

    assert opened.chosen == ("hotel",)
    world.run_task("hotel", {"id": "H2"})
    world.cancel()
    assert undone(world) == ["H2", "H"]
    check_the_order_of_undoing(world)
