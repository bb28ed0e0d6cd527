"""Which requests and events apply, judged by the rows under their lock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from headway.coordinator.core.admission import (
    Answer,
    RunGate,
    earliest,
    lease_answer,
    lease_has_expired,
    renew_answer,
    report_answer,
    timer_applies,
)
from headway.coordinator.core.events import LeaseExpired, TimerFired
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.rows import AttemptRow, RunRow, TaskRow
from tests.core.simulator import EPOCH

OPEN = RunGate(is_final=False, is_stopping=False, is_failing=False, is_paused=False)
FINAL = replace(OPEN, is_final=True)
STOPPING = replace(OPEN, is_stopping=True)
FAILING = replace(OPEN, is_failing=True)
RUN = RunRow(
    namespace="default", workflow="w", version=1, key=None, trace="", created_at=EPOCH, last_event_at=EPOCH,
    state=RunState.RUNNING,
)  # fmt: skip
TASK = TaskRow(
    path="a", namespace="default", queue="q", handler="h", lease_ms=1, attempt_timeout_ms=None, created_at=EPOCH,
    attempt=3,
)  # fmt: skip
READY = replace(TASK, state=TaskState.READY)
HELD = replace(TASK, state=TaskState.RUNNING, owner="w1", grant_key="k1", lease_expires_at=EPOCH + timedelta(seconds=9))


@pytest.mark.parametrize(
    ("gate", "task", "attempt", "key", "answer"),
    [
        (OPEN, READY, 3, "k1", Answer.GRANTED),
        (FAILING, READY, 3, "k1", Answer.GRANTED),
        (OPEN, HELD, 3, "k1", Answer.GRANTED),
        (OPEN, HELD, 3, "k2", Answer.HELD),
        (OPEN, replace(HELD, owner="w2"), 3, "k1", Answer.HELD),
        (STOPPING, HELD, 3, "k1", Answer.GRANTED),
        (STOPPING, READY, 3, "k1", Answer.RUN_CLOSED),
        (FINAL, READY, 3, "k1", Answer.RUN_CLOSED),
        (FINAL, HELD, 2, "k1", Answer.RUN_CLOSED),
        (OPEN, READY, 2, "k1", Answer.STALE_ATTEMPT),
        (OPEN, HELD, 2, "k1", Answer.STALE_ATTEMPT),
        (OPEN, READY, 4, "k1", Answer.STALE_ATTEMPT),
        *[
            (OPEN, replace(TASK, state=state), 3, "k1", Answer.STALE_ATTEMPT)
            for state in TaskState
            if state not in (TaskState.READY, TaskState.RUNNING)
        ],
    ],
)
def test_a_lease_has_one_holder(gate: RunGate, task: TaskRow, attempt: int, key: str, answer: Answer) -> None:
    assert lease_answer(gate, task, attempt=attempt, owner="w1", grant_key=key) is answer


@pytest.mark.parametrize(
    ("gate", "task", "attempt", "owner", "answer"),
    [
        (OPEN, HELD, 3, "w1", Answer.RENEWED),
        (STOPPING, HELD, 3, "w1", Answer.RENEWED),
        (OPEN, HELD, 3, "w2", Answer.LEASE_LOST),
        (OPEN, HELD, 2, "w1", Answer.LEASE_LOST),
        (OPEN, READY, 3, "w1", Answer.LEASE_LOST),
        (FINAL, HELD, 3, "w1", Answer.RUN_CLOSED),
    ],
)
def test_only_the_holder_renews(gate: RunGate, task: TaskRow, attempt: int, owner: str, answer: Answer) -> None:
    assert renew_answer(gate, task, attempt=attempt, owner=owner) is answer


def _left(*, reported: bool) -> AttemptRow:
    return AttemptRow(
        path="a", attempt=2, owner="w1", leased_at=EPOCH, ended_at=EPOCH, outcome="failed", reported=reported
    )


_OVER = replace(RUN, state=RunState.FAILED)
_REPORTED = replace(TASK, state=TaskState.SUCCEEDED, reported=True)


@pytest.mark.parametrize(
    ("run", "task", "left", "attempt", "owner", "answer"),
    [
        (RUN, HELD, None, 3, "w1", Answer.ACCEPTED),
        (RUN, HELD, None, 3, "w2", Answer.LEASE_LOST),
        (RUN, READY, None, 3, "w1", Answer.LEASE_LOST),
        (RUN, HELD, _left(reported=False), 2, "w1", Answer.STALE_ATTEMPT),
        (RUN, HELD, None, 4, "w1", Answer.STALE_ATTEMPT),
        (RUN, HELD, _left(reported=True), 2, "w1", Answer.DUPLICATE),
        (_OVER, HELD, _left(reported=True), 2, "w1", Answer.DUPLICATE),
        (_OVER, _REPORTED, None, 3, "w1", Answer.DUPLICATE),
        (_OVER, HELD, None, 2, "w1", Answer.RUN_CLOSED),
        (_OVER, HELD, None, 3, "w2", Answer.RUN_CLOSED),
    ],
)
def test_reports_are_answered_in_the_order_of_the_contract(
    run: RunRow, task: TaskRow, left: AttemptRow | None, attempt: int, owner: str, answer: Answer
) -> None:
    assert report_answer(run, task, left, attempt=attempt, owner=owner) is answer


@pytest.mark.parametrize(
    ("task", "attempt", "seconds", "applies"),
    [
        (HELD, 3, 9, True),
        (HELD, 3, 8.999, False),
        (HELD, 2, 99, False),
        (READY, 3, 99, False),
        (None, 3, 99, False),
    ],
)
def test_the_reaper_applies_only_to_what_is_running_of_that_attempt_and_expired(
    task: TaskRow | None,
    attempt: int,
    seconds: float,
    applies: bool,  # noqa: FBT001
) -> None:
    event = LeaseExpired(at=EPOCH + timedelta(seconds=seconds), path="a", attempt=attempt)

    assert lease_has_expired(task, event) is applies


@pytest.mark.parametrize(
    ("kind", "states", "of_attempt"),
    [
        ("wait", {TaskState.WAITING}, True),
        ("event_timeout", {TaskState.WAITING}, True),
        ("retry", {TaskState.RETRYING}, True),
        ("queue_timeout", {TaskState.READY}, True),
        ("total_timeout", {state for state in TaskState if replace(TASK, state=state).is_open}, False),
    ],
)
def test_a_timer_of_a_task_means_something_only_in_its_state_and_attempt(
    kind: str,
    states: set[TaskState],
    of_attempt: bool,  # noqa: FBT001
) -> None:
    right = TimerFired(at=EPOCH, path="a", kind=kind, attempt=3)
    other = TimerFired(at=EPOCH, path="a", kind=kind, attempt=2)

    assert {state for state in TaskState if timer_applies(RUN, replace(TASK, state=state), right)} == states
    assert any(timer_applies(RUN, replace(TASK, state=state), other) for state in TaskState) is not of_attempt
    assert not timer_applies(RUN, None, right)
    assert not any(timer_applies(_OVER, replace(TASK, state=state), right) for state in TaskState)


def test_the_runs_own_timers_mean_something_while_it_is_what_they_are_for() -> None:
    deadline = TimerFired(at=EPOCH, path="", kind="run_deadline", attempt=0)
    grace = TimerFired(at=EPOCH, path="", kind="cancel_grace", attempt=0)

    assert timer_applies(RUN, None, deadline)
    assert not timer_applies(replace(RUN, expired=True), None, deadline)
    assert not timer_applies(RUN, None, grace)
    for stopped in (replace(RUN, cancelling=True), replace(RUN, expired=True), replace(RUN, finish_path="a")):
        assert timer_applies(stopped, None, grace)
    assert not timer_applies(_OVER, None, deadline)


def test_the_earliest_of_those_that_are_set() -> None:
    later = EPOCH + timedelta(seconds=1)

    assert earliest(later, None, EPOCH) == EPOCH
    assert earliest(None, None) is None
