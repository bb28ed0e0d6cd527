"""Two that want the same row at the same instant. Each order is staged with locks, so that each is tested every time.

`stall("tasks")` stops a Lease or a Renew when it has locked its row and not yet written it; `hold("run_events")` stops
a decision after it has written its tasks and before it commits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator import clock
from tests.rpc.world import ONE, TWO, Coordinator, Dispatch, World, succeeded

T = TypeVar("T")


async def leased(world: World, owner: str = "a") -> Dispatch:
    """A run of one task that a worker holds."""
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(await world.first.start("one", {"n": 1}))
    await world.first.grant(dispatch, owner)
    return dispatch


def again(dispatch: Dispatch) -> Dispatch:
    return Dispatch(dispatch.run_id, dispatch.path, dispatch.attempt + 1)


@asynccontextmanager
async def running(call: Coroutine[Any, Any, T], world: World, *, table: str) -> AsyncIterator[asyncio.Task[T]]:
    """A call that is stopped within its transaction while the block runs."""
    async with world.stall(table) if table == "tasks" else world.hold(table):
        task = asyncio.ensure_future(call)
        await world.until_blocked()
        yield task


async def test_a_zombie_reports_after_its_lease_was_reaped_and_nothing_changes(world: World) -> None:
    first = await leased(world, "a")
    await world.let_lease_expire(first)
    assert await world.first.reap(first) == "FIRED"
    second = await world.dispatch(first.run_id)
    assert second == again(first)
    grant = await world.first.grant(second, "b")
    before = await world.rows_of(first.run_id)

    answer = await world.first.succeed(first, {"by": "a"}, "a")

    assert answer == "STALE_ATTEMPT"
    assert await world.rows_of(first.run_id) == before
    (listed,) = (await world.first.get(first.run_id)).stale_reports
    assert (listed.path, listed.attempt, listed.owner, listed.answer) == ("work", 1, "a", "STALE_ATTEMPT")
    assert grant.idempotency_key == f"{first.run_id}/work/1"
    assert await world.first.renew(first, "a") == "LEASE_LOST"
    assert await world.first.succeed(second, {"by": "b"}, "b") == "ACCEPTED"
    task = await world.first.task(first.run_id, "work")
    assert (task.output, task.losses, task.tries) == (b'{"by": "b"}', 1, 0)
    assert [(left.attempt, left.owner, left.outcome) for left in task.attempts] == [(1, "a", "lost")]


async def test_a_stale_report_that_comes_again_is_listed_once(world: World) -> None:
    first = await leased(world, "a")
    await world.let_lease_expire(first)
    await world.first.reap(first)

    answers = [await world.first.succeed(first, n, "a") for n in range(3)]

    assert answers == ["STALE_ATTEMPT"] * 3
    assert len((await world.first.get(first.run_id)).stale_reports) == 1


async def test_an_expired_lease_still_counts_until_its_reaper_has_committed(world: World) -> None:
    first = await leased(world)
    await world.let_lease_expire(first)

    renewed = await world.first.renew_result(first, "a")
    await world.let_lease_expire(first)
    reported = await world.first.succeed(first, None, "a")

    assert timedelta(seconds=59) < renewed.lease.ToTimedelta() <= timedelta(seconds=60)
    assert not renewed.cancel
    assert reported == "ACCEPTED"
    assert await world.first.state(first.run_id) == "SUCCEEDED"


async def test_a_lease_that_was_renewed_meanwhile_is_not_reaped(world: World) -> None:
    first = await leased(world)
    await world.let_lease_expire(first)
    await world.first.renew(first, "a")

    answer = await world.first.reap(first)

    assert answer == "STALE"
    assert (await world.first.task(first.run_id, "work")).attempt == 1
    assert len(await world.first.history(first.run_id)) == 1


async def test_a_renew_finds_the_row_locked_by_the_reaper_and_does_not_wait(world: World) -> None:
    first = await leased(world)
    await world.let_lease_expire(first)

    async with running(world.first.reap(first), world, table="run_events") as reaper:
        assert await world.first.renew(first, "a") == "BUSY"

    assert await reaper == "FIRED"
    assert await world.first.renew(first, "a") == "LEASE_LOST"


async def test_a_report_that_waits_for_a_renew_of_the_same_lease_is_accepted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    first = await leased(world)

    async with running(world.first.renew(first, "a"), world, table="tasks") as renew:
        report = asyncio.ensure_future(world.first.succeed(first, {"x": 1}, "a"))
        await world.until_blocked(2)

    assert await renew == "RENEWED"
    assert await report == "ACCEPTED"
    assert await world.first.state(first.run_id) == "SUCCEEDED"
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


async def test_a_reaper_that_waits_for_a_renew_finds_the_lease_renewed(world: World) -> None:
    first = await leased(world)
    await world.let_lease_expire(first)

    async with running(world.first.renew(first, "a"), world, table="tasks") as renew:
        reaper = asyncio.ensure_future(world.first.reap(first))
        await world.until_blocked(2)

    assert await renew == "RENEWED"
    assert await reaper == "STALE"
    assert (await world.first.task(first.run_id, "work")).losses == 0


async def test_a_report_that_waits_for_the_reaper_is_stale(world: World) -> None:
    other = await world.coordinator()
    first = await leased(world)
    await world.let_lease_expire(first)

    async with running(world.first.reap(first), world, table="run_events") as reaper:
        report = asyncio.ensure_future(other.succeed(first, None, "a"))
        await world.until_blocked(2)

    assert await reaper == "FIRED"
    assert await report == "STALE_ATTEMPT"
    assert len((await world.first.get(first.run_id)).stale_reports) == 1


async def test_a_reaper_that_waits_for_a_report_finds_the_task_done(world: World) -> None:
    other = await world.coordinator()
    first = await leased(world)
    await world.let_lease_expire(first)

    async with running(world.first.succeed(first, {"x": 1}, "a"), world, table="run_events") as report:
        reaper = asyncio.ensure_future(other.reap(first))
        await world.until_blocked(2)

    assert await report == "ACCEPTED"
    assert await reaper == "STALE"
    assert await world.first.state(first.run_id) == "SUCCEEDED"


async def test_of_two_reapers_one_finds_nothing_left_to_reap(world: World) -> None:
    other = await world.coordinator()
    first = await leased(world)
    await world.let_lease_expire(first)

    async with running(world.first.reap(first), world, table="run_events") as one:
        two = asyncio.ensure_future(other.reap(first))
        await world.until_blocked(2)

    assert (await one, await two) == ("FIRED", "STALE")
    assert await world.dispatches(first.run_id) == [again(first)]


async def test_a_lease_that_comes_while_a_cancel_commits_is_busy_and_then_closed(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)

    async with running(world.first.cancel(run_id), world, table="run_events") as cancel:
        assert await world.first.lease(dispatch) == "BUSY"

    assert await cancel == "CANCELLED"
    assert await world.first.lease(dispatch) == "RUN_CLOSED"


async def test_a_cancel_that_waits_for_a_lease_finds_a_holder_and_lets_it_end(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)

    async with running(world.first.lease(dispatch), world, table="tasks") as lease:
        cancel = asyncio.ensure_future(world.first.cancel(run_id))
        await world.until_blocked(2)

    assert await lease == "GRANTED"
    assert await cancel == "RUNNING"
    assert (await world.first.renew_result(dispatch)).cancel
    assert await world.first.succeed(dispatch, {"done": True}) == "ACCEPTED"
    assert await world.first.state(run_id) == "CANCELLED"
    assert (await world.first.task(run_id, "work")).output == b'{"done": true}'


async def test_a_message_that_was_delivered_twice_is_granted_once_even_to_one_worker(world: World) -> None:
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(await world.first.start("one"))

    answers = [await world.first.lease(dispatch, "w", key) for key in ("one", "two", "one", "two")]

    assert answers == ["GRANTED", "HELD", "GRANTED", "HELD"]


async def test_of_two_deliveries_in_one_batch_one_is_granted(world: World) -> None:
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(await world.first.start("one"))

    results = await world.first.lease_all([dispatch, dispatch])

    assert [result.HasField("grant") for result in results] == [True, False]


async def test_a_grant_that_is_asked_for_again_is_the_same_and_not_longer(world: World) -> None:
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(await world.first.start("one", {"n": 5}))
    first = await world.first.grant(dispatch, "w", "key")
    ends = await world.one("SELECT lease_expires_at FROM tasks")

    second = await world.first.grant(dispatch, "w", "key")

    assert second.lease.ToTimedelta() <= first.lease.ToTimedelta()
    assert (second.input, second.idempotency_key) == (first.input, first.idempotency_key)
    assert (first.input, first.idempotency_key) == (b'{"n": 5}', f"{dispatch.run_id}/work/1")
    assert await world.one("SELECT lease_expires_at FROM tasks") == ends


async def test_a_row_that_is_locked_is_busy_without_waiting(world: World) -> None:
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(await world.first.start("one"))

    async with world.locked("SELECT 1 FROM tasks WHERE run_id = $1 FOR UPDATE", dispatch.uuid):
        answers = [await world.first.lease(dispatch, "w"), await world.first.renew(dispatch, "w")]
        assert await world.blocked() == []

    assert answers == ["BUSY", "BUSY"]
    assert await world.first.lease(dispatch) == "GRANTED"


async def test_a_lease_does_not_need_the_lock_of_the_run(world: World) -> None:
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(await world.first.start("one"))

    async with world.locked("SELECT 1 FROM runs WHERE run_id = $1 FOR UPDATE", dispatch.uuid):
        assert await world.first.lease(dispatch) == "GRANTED"
        assert await world.first.renew(dispatch) == "RENEWED"


async def test_a_report_whose_answer_was_lost_is_a_duplicate_and_changes_nothing(world: World) -> None:
    await world.first.deploy(TWO)
    first = await world.dispatch(await world.first.start("two"))
    await world.first.grant(first)
    await world.first.succeed(first, {"n": 1})
    before = await world.rows_of(first.run_id)

    answers = [await world.first.succeed(first, {"n": 2}), await world.first.fail(first)]

    assert answers == ["DUPLICATE", "DUPLICATE"]
    assert await world.rows_of(first.run_id) == before


async def test_a_failure_reported_again_after_the_task_is_retrying_is_a_duplicate(world: World) -> None:
    await world.first.deploy(TWO)
    first = await world.dispatch(await world.first.start("two"))
    await world.first.grant(first)
    await world.first.fail(first)

    while_retrying = await world.first.fail(first)
    await world.first.fire(await world.let_timers_come_due(first.run_id))
    second = await world.dispatch(first.run_id)
    while_ready = await world.first.succeed(first, 1)
    await world.first.grant(second)
    while_running = await world.first.fail(first)

    assert [while_retrying, while_ready, while_running] == ["DUPLICATE"] * 3
    task = await world.first.task(first.run_id, "first")
    assert (task.attempt, task.tries) == (2, 1)
    assert not (await world.first.get(first.run_id)).stale_reports


async def test_a_report_repeated_after_the_run_is_over_is_a_duplicate_and_a_first_one_is_closed(world: World) -> None:
    first = await leased(world, "a")
    await world.first.succeed(first, None, "a")

    assert await world.first.succeed(first, None, "a") == "DUPLICATE"
    assert await world.first.succeed(again(first), None, "a") == "RUN_CLOSED"


async def test_a_report_repeated_after_the_run_was_retried_is_a_duplicate(world: World) -> None:
    first = await leased(world, "a")
    await world.first.fail(first, "a", final=True)
    await world.first.retry(first.run_id)

    assert await world.first.fail(first, "a", final=True) == "DUPLICATE"
    assert await world.first.state(first.run_id) == "RUNNING"


async def test_a_report_by_another_than_the_holder_is_lost(world: World) -> None:
    first = await leased(world, "a")

    assert await world.first.succeed(first, None, "b") == "LEASE_LOST"
    assert await world.first.task(first.run_id, "work")
    assert await world.first.state(first.run_id) == "RUNNING"


async def test_an_attempt_that_was_given_back_goes_to_the_queue_at_once_and_is_no_loss(world: World) -> None:
    first = await leased(world, "a")
    item = tasks_pb2.ReportItem(task_id=first.task_id, attempt=1, released=tasks_pb2.Released())

    answers = [(await world.first.report("a", item))[0] for _ in range(2)]

    assert answers == ["ACCEPTED", "DUPLICATE"]
    assert await world.dispatches(first.run_id) == [again(first)]
    assert (await world.first.task(first.run_id, "work")).losses == 0


@pytest.mark.parametrize("seconds", [-100, 100])
async def test_a_process_whose_clock_is_wrong_changes_nothing(
    seconds: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = clock.unix_nanoseconds
    monkeypatch.setattr(clock, "unix_nanoseconds", lambda: true() + seconds * 10**9)
    monkeypatch.setattr(clock, "monotonic", lambda: 1e9 + seconds)
    fixed = datetime.now(UTC) + timedelta(seconds=seconds)
    monkeypatch.setattr(time, "time_ns", lambda: int(fixed.timestamp() * 10**9))
    began = await world.one("SELECT clock_timestamp()")

    first = await leased(world)
    renewed = await world.first.renew_result(first, "a")
    too_early = await world.first.reap(first)
    await world.let_lease_expire(first)
    reaped = await world.first.reap(first)

    ended = await world.one("SELECT clock_timestamp()")
    assert timedelta(seconds=59) < renewed.lease.ToTimedelta() <= timedelta(seconds=60)
    assert (too_early, reaped) == ("STALE", "FIRED")
    events = await world.database.fetch("SELECT at FROM run_events ORDER BY seq")
    assert [began <= event["at"] <= ended for event in events] == [True, True]


async def test_event_time_never_goes_back_within_a_run(world: World) -> None:
    first = await leased(world)
    await world.database.execute("UPDATE runs SET last_event_at = clock_timestamp() + interval '1 hour'")

    await world.first.signal(first.run_id, "anything")

    events = await world.database.fetch("SELECT at FROM run_events ORDER BY seq")
    assert events[1]["at"] == await world.one("SELECT last_event_at FROM runs")
    assert events[1]["at"] > await world.one("SELECT clock_timestamp() + interval '59 minutes'")


async def test_retry_of_a_run_that_ends_just_now_waits_for_its_end(world: World) -> None:
    other: Coordinator = await world.coordinator()
    first = await leased(world)

    async with running(world.first.fail(first, "a", final=True), world, table="run_events") as report:
        retry = asyncio.ensure_future(other.retry(first.run_id, request_id=str(uuid4())))
        await world.until_blocked(2)

    assert await report == "ACCEPTED"
    assert (await retry).epoch == 2
    assert await world.dispatches(first.run_id) == [again(first)]


async def test_one_call_may_carry_reports_of_which_each_has_its_own_answer(world: World) -> None:
    first = await leased(world, "a")
    nowhere = Dispatch(first.run_id, "nowhere", 1)
    unknown = Dispatch(uuid4().hex[:28] + "0000", "work", 1)

    answers = await world.first.report(
        "a", succeeded(nowhere), succeeded(unknown), succeeded(again(first)), succeeded(first), succeeded(first)
    )

    assert answers == ["TASK_NOT_FOUND", "TASK_NOT_FOUND", "STALE_ATTEMPT", "ACCEPTED", "DUPLICATE"]
