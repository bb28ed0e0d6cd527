"""Attempts: leases, reports, tries and losses, back-off, and every time-out of a task."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.coordinator.core import actions as do
from headway.coordinator.core.admission import Answer
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import RetryPolicy
from headway.coordinator.core.rows import BeatRow
from tests.core import invariants
from tests.core.simulator import EPOCH, World


def begin(node: str, edges: str = "") -> World:
    text = f"""
        nodes:
          a: {{type: call, handler: a, {node}}}
          late: {{type: call, handler: a}}
        edges:
          - {{from: a, to: late, on: timeout}}
          {edges}
    """
    return invariants.begin(text)


# Back-off.


def test_the_pause_grows_by_the_factor_up_to_its_cap() -> None:
    world = begin("retry: {max_attempts: 6, initial: 1s, factor: 3, max: 20s, jitter: 0}")
    pauses: list[float] = []

    for _ in range(5):
        world.fail_task("a", final=False)
        key = world.next_timer()
        assert key == ("a", "retry", world.task("a").attempt)
        pauses.append((world.db.timers[key] - world.run.last_event_at).total_seconds())
        assert world.task("a").due_at == world.db.timers[key]
        assert world.fire(key)

    assert pauses == [1, 3, 9, 20, 20]
    world.fail_task("a", final=False)
    assert world.states()["a"] == "failed"
    assert world.task("a").tries == 6


@pytest.mark.parametrize(("chance", "pause"), [(0.0, 10.0), (0.5, 7.5), (0.999, 5.005)])
def test_chance_takes_a_share_of_up_to_jitter_off_the_pause(chance: float, pause: float) -> None:
    world = begin("retry: {max_attempts: 2, initial: 10s, max: 10s, jitter: 0.5}")
    world.chance = chance

    world.fail_task("a", final=False)

    assert world.task("a").due_at == EPOCH + timedelta(seconds=pause)


def test_no_policy_that_can_be_deployed_is_too_much_for_the_arithmetic() -> None:
    world = begin("retry: {max_attempts: 1000, initial: 1s, factor: 100, max: 1m, jitter: 0}")
    world.db.tasks["a"].tries = 998

    world.fail_task("a", final=False)

    assert world.task("a").due_at == EPOCH + timedelta(minutes=1)


def test_a_failure_that_is_final_is_not_tried_again() -> None:
    world = begin("retry: {max_attempts: 5}")

    world.fail_task("a", final=True)

    assert world.states()["a"] == "failed"


# tries and losses are apart from each other and from attempt.


def test_a_lost_lease_is_no_failure() -> None:
    world = begin("retry: {max_attempts: 2, max_losses: 5}")

    world.lease("a")
    world.lose("a")
    world.lease("a")
    world.release("a")
    world.fail_task("a", final=False)

    row = world.task("a")
    assert (row.attempt, row.tries, row.losses, str(row.state)) == (4, 1, 1, "retrying")
    assert [left.outcome for _, left in sorted(world.db.attempts.items())] == ["lost", "released", "failed"]


def test_too_many_lost_leases_are_a_failure() -> None:
    world = begin("retry: {max_attempts: 9, max_losses: 1}")
    world.lease("a")
    world.lose("a")
    world.lease("a")

    world.lose("a")

    error = world.task("a").error
    assert error is not None
    assert (world.task("a").failure_class, error["type"]) == ("exec_failed", "LeaseLost")
    assert world.task("a").attempt == 2


def test_publishing_again_and_leasing_again_are_no_new_attempt() -> None:
    world = begin("lease: 10s")

    world.lease("a", grant_key="first")
    world.lease("a", grant_key="second")
    world.renew("a")

    assert world.task("a").attempt == 1
    assert world.task("a").grant_key == "first"


def test_started_at_is_set_by_the_first_lease_and_kept() -> None:
    world = begin("retry: {max_attempts: 2}")
    world.advance(seconds=3)
    world.lease("a")
    world.advance(seconds=3)
    world.fail("a")
    world.fire(world.next_timer())

    world.run_task("a")

    assert world.task("a").started_at == EPOCH + timedelta(seconds=3)
    assert world.task("a").leased_at is not None
    assert world.task("a").leased_at > EPOCH + timedelta(seconds=6)  # type: ignore[operator]


# Stale reports change nothing. Answers, in this order: DUPLICATE, RUN_CLOSED, STALE_ATTEMPT, LEASE_LOST, else ACCEPTED.


def test_a_report_is_answered_in_the_order_of_the_contract() -> None:
    world = begin("retry: {max_attempts: 3}")
    world.lease("a", owner="w1")
    world.lose("a")
    world.lease("a", owner="w2")
    seq = world.run.seq

    assert world.succeed("a", attempt=1, owner="w1") is Answer.STALE_ATTEMPT
    assert world.succeed("a", attempt=2, owner="w1") is Answer.LEASE_LOST
    assert world.run.seq == seq
    assert world.fail("a", attempt=2, owner="w2") is Answer.ACCEPTED
    assert world.fail("a", attempt=2, owner="w2") is Answer.DUPLICATE
    world.fire(world.next_timer())
    assert world.succeed("a", attempt=2, owner="w2") is Answer.DUPLICATE
    world.lease("a", owner="w1")
    assert world.succeed("a", attempt=3, owner="w1") is Answer.ACCEPTED
    assert world.state is RunState.SUCCEEDED
    assert world.succeed("a", attempt=3, owner="w1") is Answer.DUPLICATE
    assert world.succeed("a", attempt=1, owner="w1") is Answer.RUN_CLOSED


def test_the_holder_keeps_its_right_until_the_reaper_has_committed() -> None:
    world = begin("lease: 10s")
    world.lease("a")

    world.advance(hours=1)

    assert world.renew("a") == (Answer.RENEWED, False)
    world.advance(hours=1)
    assert world.succeed("a") is Answer.ACCEPTED
    assert not world.expire("a", attempt=1)


def test_a_lease_that_was_renewed_meanwhile_is_not_reaped() -> None:
    world = begin("lease: 10s")
    world.lease("a")
    world.advance(seconds=9)
    world.renew("a")

    world.advance(seconds=2)

    assert not world.expire("a")
    assert world.states()["a"] == "running"


# Time-outs.


def test_an_attempt_that_takes_too_long_is_a_failure_and_tried_again() -> None:
    world = begin("lease: 60s, timeout: {attempt: 10s}, retry: {max_attempts: 2, initial: 1s, jitter: 0}")
    world.lease("a")
    world.advance(seconds=8)
    world.renew("a")
    assert world.task("a").lease_expires_at == EPOCH + timedelta(seconds=10)

    world.lose("a")
    assert world.states()["a"] == "retrying"
    assert world.db.attempts["a", 1].outcome == "timeout"
    world.fire(world.next_timer())
    world.lease("a")
    world.lose("a")

    error = world.task("a").error
    assert error is not None
    assert (world.task("a").failure_class, error["type"]) == ("timeout", "attempt_timeout")
    assert world.states()["late"] == "ready"


def test_an_attempt_that_no_worker_takes_times_out_in_its_queue() -> None:
    world = begin("timeout: {queue: 10s}, retry: {max_attempts: 5}")

    assert world.next_timer() == ("a", "queue_timeout", 1)
    assert world.fire(("a", "queue_timeout", 1))

    assert world.states() == {"a": "failed", "late": "ready"}


def test_the_time_in_the_queue_is_per_attempt_and_ends_with_the_lease() -> None:
    world = begin("lease: 60s, timeout: {queue: 10s}")
    world.advance(seconds=9)
    world.lease("a")

    world.advance(seconds=5)
    assert not world.fire(("a", "queue_timeout", 1))
    world.release("a")

    assert world.db.timers == {("a", "queue_timeout", 2): EPOCH + timedelta(seconds=24)}


@pytest.mark.parametrize("where", ["ready", "running", "retrying"])
def test_the_total_time_covers_the_queue_the_work_and_the_pauses(where: str) -> None:
    world = begin("lease: 60s, timeout: {total: 10s}, retry: {max_attempts: 9, initial: 60s}")
    if where != "ready":
        world.lease("a")
    if where == "retrying":
        world.fail("a")
    assert world.states()["a"] == where

    world.advance(seconds=10)
    assert world.fire(("a", "total_timeout", 0))

    error = world.task("a").error
    assert error is not None
    assert error["details"] == {"timeout": "total"}
    assert world.states() == {"a": "failed", "late": "ready"}
    assert not world.db.timers
    if where == "running":
        assert world.succeed("a") is Answer.LEASE_LOST


def test_a_lease_that_runs_out_with_its_attempt_ends_in_the_time_out_even_in_a_cancelled_run() -> None:
    world = begin("lease: 60s, timeout: {attempt: 10s}")
    world.lease("a")
    world.cancel(grace_ms=60_000)

    world.lose("a")

    assert world.states()["a"] == "failed"
    assert world.state is RunState.CANCELLED


def test_a_cancelled_handler_in_a_run_that_nobody_stops_is_a_failure() -> None:
    world = begin("retry: {max_attempts: 2}")
    world.lease("a")

    world.stopped("a")

    assert world.states()["a"] == "retrying"
    failed = world.actions(do.FailTask)
    assert len(failed) == 1


def test_the_defaults_of_the_retry_policy_are_those_of_the_reference() -> None:
    policy = RetryPolicy()

    assert (policy.max_attempts, policy.initial_ms, policy.factor, policy.max_ms) == (1, 1_000, 2.0, 60_000)
    assert (policy.jitter, policy.max_losses) == (0.2, 10)


# The policy: how pauses grow, rules by failure, the budget, and what the handler asks for.


def pauses(policy: str, *failures: str) -> list[float | None]:
    """The pause after each failure, in seconds; None: given up."""
    world = begin(f"retry: {{jitter: 0, {policy}}}")
    found: list[float | None] = []
    for error in failures:
        world.fail_task("a", error, final=False)
        if world.states()["a"] == "failed":
            return [*found, None]
        key = world.next_timer()
        found.append((world.db.timers[key] - world.run.last_event_at).total_seconds())
        assert world.fire(key)
    return found


def test_pauses_grow_linearly_or_not_at_all() -> None:
    assert pauses("max_attempts: 9, backoff: linear, initial: 2s, max: 5s", *["Boom"] * 4) == [2, 4, 5, 5]
    assert pauses("max_attempts: 9, backoff: fixed, initial: 2m", *["Boom"] * 3) == [120, 120, 120]


RULES = (
    "max_attempts: 2, initial: 1s, rules: ["
    "{errors: [RateLimited], max_attempts: 4, backoff: fixed, initial: 30s}, {errors: [Declined], max_attempts: 1}]"
)


def test_the_first_rule_that_names_a_failure_decides_about_it_and_counts_it_alone() -> None:
    assert pauses(RULES, "RateLimited", "Boom", "RateLimited", "RateLimited", "RateLimited") == [30, 1, 30, 30, None]
    assert pauses(RULES, "RateLimited", "RateLimited", "Boom", "Boom") == [30, 30, 1, None]
    assert pauses(RULES, "Declined") == [None]


def test_a_rule_can_name_a_class_of_failures() -> None:
    world = begin("lease: 60s, timeout: {attempt: 10s}, retry: {rules: [{errors: [timeout], max_attempts: 2}]}")
    world.lease("a")

    world.lose("a")

    assert world.states()["a"] == "retrying"
    world.fire(world.next_timer())
    world.fail_task("a", final=False)
    assert world.states()["a"] == "failed"


def test_what_was_lost_or_given_back_between_counts_for_no_rule() -> None:
    world = begin(f"retry: {{jitter: 0, {RULES}}}")
    for _ in range(3):
        world.lease("a")
        world.lose("a")
        world.lease("a")
        world.release("a")
        world.fail_task("a", "RateLimited", final=False)
        assert world.fire(world.next_timer())

    world.fail_task("a", "RateLimited", final=False)

    assert world.states()["a"] == "failed"


def test_a_retry_of_the_run_counts_anew() -> None:
    world = begin(f"retry: {{jitter: 0, budget: 1m, {RULES}}}")
    world.fail_task("a", "Declined", final=False)
    world.advance(hours=1)
    world.run_task("late") if "late" in world.ready() else None
    assert world.state is RunState.FAILED

    world.retry("a")
    world.fail_task("a", "RateLimited", final=False)

    assert world.states()["a"] == "retrying"


def test_no_attempt_begins_after_the_budget() -> None:
    assert pauses("max_attempts: 9, initial: 10s, max: 1h, budget: 30s", *["Boom"] * 3) == [10, 20, None]


def test_the_budget_counts_from_the_first_attempts_beginning() -> None:
    world = begin("lease: 60s, retry: {max_attempts: 9, initial: 10s, jitter: 0, budget: 30s}")
    world.advance(minutes=5)  # in the queue
    world.lease("a")
    world.advance(seconds=15)
    world.fail("a")
    assert world.states()["a"] == "retrying"
    world.fire(world.next_timer())

    world.lease("a")
    world.fail("a")

    assert world.states()["a"] == "failed"


def test_the_handler_may_ask_for_another_pause_but_not_for_another_try() -> None:
    world = begin("retry: {max_attempts: 2, initial: 10s}")
    world.chance = 0.9
    world.lease("a")

    world.fail("a", retry_after_ms=90_000)

    assert world.task("a").due_at == EPOCH + timedelta(seconds=90)
    world.fire(world.next_timer())
    world.lease("a")
    world.fail("a", retry_after_ms=1)
    assert world.states()["a"] == "failed"


def test_the_input_is_rendered_once_and_kept_across_attempts() -> None:
    world = invariants.begin(
        """
        nodes:
          first: {type: set, values: {n: 1}}
          a: {type: call, handler: a, input: "${vars.n}", retry: {max_attempts: 3}}
          change: {type: call, handler: a}
          second: {type: set, values: {n: 2}}
        edges:
          - [first, a]
          - [first, change, second]
        """
    )
    world.fail_task("a", final=False)
    world.run_task("change")
    assert world.run.vars == {"n": 2}

    world.fire(world.next_timer())
    world.lease("a")
    world.lose("a")

    assert world.input("a") == 1
    assert [key for key in world.db.payloads if key[2] == "input" and key[0] == "a"] == [("a", 1, "input")]


# Signs of life.

BEATING = "lease: 10s, timeout: {heartbeat: 30s}, retry: {max_attempts: 2, jitter: 0}"


def look(world: World, key: tuple[str, str, int]) -> bool:
    """Let time pass until the timer comes due, the holder renewing its lease meanwhile, and fire it."""
    while world.now < world.db.timers[key]:
        world.now = min(world.db.timers[key], world.now + timedelta(seconds=5))
        if world.task("a").lease_expires_at is not None:
            world.renew("a")
    return world.fire(key)


def test_a_handler_that_gives_no_sign_of_life_for_too_long_times_out_and_is_tried_again() -> None:
    world = begin(BEATING)
    world.lease("a")

    assert look(world, ("a", "heartbeat_timeout", 1))

    left = world.db.attempts["a", 1]
    assert world.now == EPOCH + timedelta(seconds=30)
    assert (left.outcome, left.failure_class) == ("timeout", "timeout")
    assert left.error is not None
    assert (left.error["type"], left.error["details"]) == ("heartbeat_timeout", {"timeout": "heartbeat"})
    assert world.states()["a"] == "retrying"
    assert world.succeed("a", attempt=1) is Answer.STALE_ATTEMPT
    assert ("a", "heartbeat_timeout", 1) not in world.db.timers


def test_each_heartbeat_gives_it_as_much_time_again_and_writes_no_history() -> None:
    world = begin(BEATING)
    world.lease("a")
    world.advance(seconds=9)
    world.beat("a")
    seq = world.run.seq

    assert not look(world, ("a", "heartbeat_timeout", 1))

    assert world.run.seq == seq
    assert world.db.timers["a", "heartbeat_timeout", 1] == EPOCH + timedelta(seconds=39)
    assert look(world, ("a", "heartbeat_timeout", 1))


def test_time_in_the_queue_is_no_silence() -> None:
    world = begin(BEATING)
    assert not look(world, ("a", "heartbeat_timeout", 1))
    world.advance(seconds=7)
    world.lease("a")
    leased_at = world.now

    assert not look(world, ("a", "heartbeat_timeout", 1))
    assert world.db.timers["a", "heartbeat_timeout", 1] == leased_at + timedelta(seconds=30)


def test_a_worker_that_died_is_lost_and_not_silent() -> None:
    world = begin(BEATING)
    world.lease("a")

    world.advance(seconds=30)
    assert not world.fire(("a", "heartbeat_timeout", 1))
    world.lose("a")

    row = world.task("a")
    assert (str(row.state), row.tries, row.losses) == ("ready", 0, 1)
    assert not world.fire(("a", "heartbeat_timeout", 1))
    assert set(world.db.timers) == {("a", "heartbeat_timeout", 2)}


def test_heartbeats_without_progress_do_not_save_a_handler_that_stalls() -> None:
    world = begin("lease: 10s, timeout: {stall: 30s}")
    world.lease("a")
    world.advance(seconds=9)
    world.beat("a", progress=True)
    for _ in range(4):
        world.advance(seconds=5)
        world.beat("a")

    assert not look(world, ("a", "stall_timeout", 1))
    world.beat("a")
    assert look(world, ("a", "stall_timeout", 1))

    assert world.now == EPOCH + timedelta(seconds=39)
    error = world.task("a").error
    assert error is not None
    assert error["details"] == {"timeout": "stall"}
    assert world.states() == {"a": "failed", "late": "ready"}


def test_signs_of_life_of_an_attempt_before_do_not_count_for_the_next() -> None:
    world = begin(BEATING)
    world.lease("a")
    world.beat("a")
    world.lose("a")
    world.db.beats["a"] = BeatRow(1, world.now + timedelta(hours=1), None)
    world.lease("a")

    while not look(world, ("a", "heartbeat_timeout", 2)):
        pass

    assert world.db.attempts["a", 2].outcome == "timeout"


def test_a_lease_is_short_enough_for_heartbeats_to_come_in_time() -> None:
    graph = invariants.begin(
        """
        nodes:
          short: {type: call, handler: a, timeout: {heartbeat: 30s, stall: 2m}}
          long: {type: call, handler: a, timeout: {heartbeat: 1h}}
          least: {type: call, handler: a, timeout: {heartbeat: 1s}}
        """
    ).graph

    assert [graph.node(name).lease_ms for name in ("short", "long", "least")] == [15_000, 90_000, 1_000]
