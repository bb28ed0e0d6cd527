"""Timers: told when due, decided once under the run's lock, gone with what they were for."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headway.api.definitions.v1 import definitions_pb2
from headway.api.runs.v1 import runs_pb2
from headway.api.timers.v1 import timers_pb2
from tests.rpc.world import EVENT, ONE, SLEEP, TWO, Dispatch, World, refusal_of, until

LIMITED = (
    "workflow: limited\nnodes:\n"
    "  work: {type: call, handler: h, timeout: {attempt: 10s, total: 1m, queue: 20s}, retry: {max_attempts: 2}}\n"
)


async def named(world: World, run_id: str) -> list[timers_pb2.Timer]:
    """The timers of a run as the timers service names them, due or not."""
    return [
        timers_pb2.Timer(run_id=run_id, path=path, kind=kind, attempt=attempt)
        for path, kind, attempt in await world.timer_rows(run_id)
    ]


async def test_a_timer_that_is_not_due_is_stale_and_its_row_stays(world: World) -> None:
    await world.first.deploy(SLEEP)
    run_id = await world.first.start("sleeping")

    answers = await world.first.fire(await named(world, run_id))

    assert answers == ["STALE", "STALE"]
    assert await world.timer_rows(run_id) == [("", "run_deadline", 0), ("nap", "wait", 1)]
    assert len(await world.first.history(run_id)) == 1


async def test_a_timer_told_by_many_at_two_coordinators_fires_once(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(EVENT)
    run_id = await world.first.start("waiting")
    due = await world.let_timers_come_due(run_id)

    answers = await asyncio.gather(*(c.fire([*due, *due]) for c in (world.first, other) * 4))

    assert sorted(answer for told in answers for answer in told) == ["FIRED"] + ["STALE"] * 15
    assert await world.dispatches(run_id) == [Dispatch(run_id, "late", 1)]
    assert await world.timer_rows(run_id) == []
    assert [event.type for event in await world.first.history(run_id)] == ["RunStarted", "TimerFired"]


async def test_the_end_of_a_run_deletes_its_timers(world: World) -> None:
    await world.first.deploy(SLEEP)
    run_id = await world.first.start("sleeping")
    nap = [timer for timer in await world.let_timers_come_due(run_id) if timer.kind == "wait"]

    assert await world.first.fire(nap) == ["FIRED"]
    assert await world.first.state(run_id) == "SUCCEEDED"
    assert await world.timer_rows(run_id) == []


async def test_a_deadline_ends_the_run_and_all_its_timers(world: World) -> None:
    await world.first.deploy(SLEEP)
    run_id = await world.first.start("sleeping")
    deadline = [timer for timer in await world.let_timers_come_due(run_id) if timer.kind == "run_deadline"]

    assert await world.first.fire(deadline) == ["FIRED"]
    shown = await world.first.get(run_id)
    assert (shown.run.error.failure_class, shown.tasks[0].cause) == ("timeout", "deadline")
    assert await world.timer_rows(run_id) == []


@pytest.mark.parametrize(
    ("path", "kind", "attempt"),
    [
        ("work", "retry", 1),
        ("work", "queue_timeout", 7),
        ("work", "wait", 1),
        ("nowhere", "wait", 1),
        ("", "cancel_grace", 0),
    ],
)
async def test_a_timer_that_means_nothing_any_more_is_deleted(path: str, kind: str, attempt: int, world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    await world.database.execute(
        "INSERT INTO timers SELECT bucket, run_id, $1, $2, $3, now() - interval '1 hour' FROM runs", path, kind, attempt
    )

    answers = await world.first.fire(await named(world, run_id))

    assert answers == ["STALE"]
    assert await world.timer_rows(run_id) == []
    assert len(await world.first.history(run_id)) == 1
    assert await world.first.lease(dispatch) == "GRANTED"


async def test_a_retry_waits_for_its_timer_and_is_dispatched_by_it(world: World) -> None:
    await world.first.deploy(TWO)
    first = await world.dispatch(await world.first.start("two"))
    await world.first.grant(first)
    await world.first.fail(first)

    assert await world.dispatches() == []
    assert await world.timer_rows(first.run_id) == [("first", "retry", 2)]
    assert await world.first.fire(await named(world, first.run_id)) == ["STALE"]
    assert await world.first.fire(await world.let_timers_come_due(first.run_id)) == ["FIRED"]
    assert await world.dispatches() == [Dispatch(first.run_id, "first", 2)]
    assert await world.timer_rows(first.run_id) == []


async def test_the_pause_before_a_retry_is_what_the_handler_asked_for(world: World) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two")
    first = await world.dispatch(run_id)
    await world.first.grant(first)

    assert await world.first.fail(first, retry_after=timedelta(minutes=10)) == "ACCEPTED"

    failed_at = (await world.first.history(run_id))[-1].at.ToDatetime()
    assert (await world.first.task(run_id, "first")).due_at.ToDatetime() - failed_at == timedelta(minutes=10)


async def test_rules_count_failures_that_came_before_as_the_database_holds_them(world: World) -> None:
    await world.first.deploy(
        "workflow: ruled\nnodes:\n  work: {type: call, handler: h, retry: {max_attempts: 2, rules: "
        "[{errors: [RateLimited], max_attempts: 3}]}}\n"
    )
    run_id = await world.first.start("ruled")
    states: list[str] = []
    for error in ("RateLimited", "Broken", "RateLimited", "RateLimited"):
        dispatch = (await world.dispatches())[-1]
        await world.first.grant(dispatch)
        await world.first.fail(dispatch, type=error)
        states.append(runs_pb2.TaskState.Name((await world.first.task(run_id, "work")).state))
        await world.first.fire(await world.let_timers_come_due(run_id))

    assert states == [*["TASK_STATE_RETRYING"] * 3, "TASK_STATE_FAILED"]


async def test_a_wait_until_a_time_of_a_zone_is_asked_for_in_its_transaction(world: World) -> None:
    await world.first.deploy(
        "workflow: zoned\nnodes:\n  nap: {type: wait, until: '${input.at}', zone: Europe/Vienna}\n"
    )

    run_id = await world.first.start("zoned", {"at": "2030-01-31T09:00:00"})

    assert (await world.first.task(run_id, "nap")).due_at.ToJsonString() == "2030-01-31T08:00:00Z"


async def test_a_workflow_with_a_zone_that_does_not_exist_is_not_deployed(world: World) -> None:
    source = "workflow: zoned\nnodes:\n  nap: {type: wait, until: '${input.at}', zone: Europe/Viena}\n"

    refusal = await refusal_of(world.first.definitions.Deploy(definitions_pb2.DeployRequest(source=source)))

    assert refusal.reason == "DEFINITION_FAULTY"


async def test_a_task_that_no_worker_takes_times_out(world: World) -> None:
    await world.first.deploy(LIMITED)
    run_id = await world.first.start("limited")
    queue = [timer for timer in await world.let_timers_come_due(run_id) if timer.kind == "queue_timeout"]

    assert await world.first.fire(queue) == ["FIRED"]
    task = await world.first.task(run_id, "work")
    assert (task.error.failure_class, task.error.type) == ("timeout", "queue_timeout")
    assert await world.timer_rows(run_id) == []


async def test_a_queue_timeout_after_a_worker_took_the_task_means_nothing(world: World) -> None:
    await world.first.deploy(LIMITED)
    dispatch = await world.dispatch(await world.first.start("limited"))
    await world.first.grant(dispatch)
    queue = [t for t in await world.let_timers_come_due(dispatch.run_id) if t.kind == "queue_timeout"]

    assert await world.first.fire(queue) == ["STALE"]
    assert await world.first.succeed(dispatch) == "ACCEPTED"


async def test_an_attempt_that_takes_too_long_is_told_to_stop_and_then_tried_again(world: World) -> None:
    await world.first.deploy(LIMITED)
    dispatch = await world.dispatch(await world.first.start("limited"))
    grant = await world.first.grant(dispatch)
    await world.database.execute(
        "UPDATE tasks SET attempt_expires_at = clock_timestamp() - interval '1 second',"
        " lease_expires_at = clock_timestamp() - interval '1 second'"
    )

    renewed = await world.first.renew_result(dispatch)
    reaped = await world.first.reap(dispatch)

    assert grant.lease.seconds == 5
    assert renewed.cancel
    assert renewed.lease.ToTimedelta().total_seconds() == 0
    assert reaped == "FIRED"
    task = await world.first.task(dispatch.run_id, "work")
    assert (task.tries, task.losses, task.error.type) == (1, 0, "attempt_timeout")
    assert [left.outcome for left in task.attempts] == ["timeout"]


async def test_a_cancelled_run_closes_what_nobody_ended_after_its_grace(world: World) -> None:
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(await world.first.start("one"))
    await world.first.grant(dispatch)
    await world.first.cancel(dispatch.run_id)
    assert await world.timer_rows(dispatch.run_id) == [("", "cancel_grace", 0)]

    assert await world.first.fire(await world.let_timers_come_due(dispatch.run_id)) == ["FIRED"]
    assert await world.first.state(dispatch.run_id) == "CANCELLED"
    assert (await world.first.task(dispatch.run_id, "work")).cause == "unknown"
    assert await world.first.succeed(dispatch) == "RUN_CLOSED"


async def test_a_timer_told_twice_in_the_batch_that_sets_it_anew_fires_once_and_stays(world: World) -> None:
    await world.database.execute("UPDATE settings SET value = '1'")
    await world.first.engine._refresh()
    await world.first.deploy(SLEEP)
    run_id, other = [await world.first.start("sleeping") for _ in range(2)]
    due = [timer for timer in await world.let_timers_come_due(run_id) if timer.kind == "run_deadline"]
    lane = world.first.engine._decisions[0]

    async with world.hold("run_events"):
        calls: list[asyncio.Task[Any]] = [asyncio.ensure_future(world.first.signal(other, "x"))]
        await world.until_blocked()
        for backlog, call in enumerate((world.first.fire(due), world.first.retry(run_id), world.first.fire(due)), 1):
            calls.append(asyncio.ensure_future(call))
            await until(lambda backlog=backlog: lane.backlog == backlog, "it has queued")

    _, fired, retried, again = await asyncio.gather(*calls)
    assert (fired, retried.epoch, again) == (["FIRED"], 2, ["STALE"])
    assert await world.first.state(run_id) == "RUNNING"
    assert await world.timer_rows(run_id) == [("", "run_deadline", 0), ("nap", "wait", 2)]
