"""Heartbeats: what renewals bring of a handler's progress, what is shown of it, and what the next attempt gets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2 as tasks
from headway.api.timers.v1 import timers_pb2
from tests.rpc.world import Dispatch, World

BEATING = (
    "workflow: beating\nnodes:\n"
    "  work: {type: call, handler: h, retry: {max_attempts: 3, initial: 1s}, timeout: {heartbeat: 60s}}\n"
)


async def held(world: World) -> Dispatch:
    await world.first.deploy(BEATING)
    dispatch = await world.dispatch(await world.first.start("beating"))
    await world.first.grant(dispatch)
    return dispatch


async def beat(world: World, dispatch: Dispatch, owner: str = "w1", **fields: Any) -> str:
    fields.setdefault("age", timedelta())
    item = tasks.RenewItem(task_id=dispatch.task_id, attempt=dispatch.attempt, beat=tasks.Beat(**fields))
    result = (await world.first.tasks.Renew(tasks.RenewRequest(owner=owner, items=[item]))).results[0]
    return result.refusal.reason or tasks.RenewAnswer.Name(result.answer).removeprefix("RENEW_ANSWER_")


async def progress(world: World, dispatch: Dispatch) -> runs_pb2.Progress:
    return (await world.first.task(dispatch.run_id, "work")).progress


async def again(world: World, dispatch: Dispatch) -> tasks.Grant:
    """The next attempt's grant."""
    await world.first.fire(await world.let_timers_come_due(dispatch.run_id))
    return await world.first.grant(await world.dispatch(dispatch.run_id))


async def test_what_a_heartbeat_tells_is_shown_and_what_it_leaves_out_stays(world: World) -> None:
    dispatch = await held(world)

    assert await beat(world, dispatch, percent=40, message="half of it", progress_age=timedelta()) == "RENEWED"
    assert await beat(world, dispatch, percent=60, progress_age=timedelta()) == "RENEWED"
    assert await beat(world, dispatch) == "RENEWED"

    shown = await progress(world, dispatch)
    assert (shown.percent, shown.message, shown.HasField("at")) == (60, "half of it", True)
    assert len(await world.first.history(dispatch.run_id)) == 1


async def test_a_checkpoint_outlives_a_lost_lease(world: World) -> None:
    dispatch = await held(world)
    await beat(world, dispatch, checkpoint=b'{"page": 7}', progress_age=timedelta())

    await world.let_lease_expire(dispatch)
    assert await world.first.reap(dispatch) == "FIRED"
    grant = await world.first.grant(await world.dispatch(dispatch.run_id), owner="w2", key="second")

    assert grant.checkpoint == b'{"page": 7}'
    assert not (await world.first.task(dispatch.run_id, "work")).HasField("progress")  # another attempt's
    repeated = await world.first.grant(Dispatch(dispatch.run_id, "work", 2), owner="w2", key="second")
    assert repeated.checkpoint == b'{"page": 7}'


async def test_a_report_brings_the_checkpoint_that_no_renewal_brought(world: World) -> None:
    dispatch = await held(world)
    await beat(world, dispatch, checkpoint=b"1", progress_age=timedelta())
    item = tasks.ReportItem(
        task_id=dispatch.task_id, attempt=1, failed=tasks.Failed(type="Broken"), checkpoint=b'{"page": 8}'
    )

    assert await world.first.report("w1", item) == ["ACCEPTED"]

    assert (await again(world, dispatch)).checkpoint == b'{"page": 8}'


async def test_an_attempt_given_back_leaves_its_checkpoint(world: World) -> None:
    dispatch = await held(world)
    item = tasks.ReportItem(task_id=dispatch.task_id, attempt=1, released=tasks.Released(), checkpoint=b"3")

    assert await world.first.report("w1", item) == ["ACCEPTED"]

    assert (await again(world, dispatch)).checkpoint == b"3"


async def test_who_does_not_hold_the_attempt_tells_nothing(world: World) -> None:
    dispatch = await held(world)

    assert await beat(world, dispatch, owner="somebody", checkpoint=b"1") == "LEASE_LOST"

    assert await world.one("SELECT count(*) FROM beats") == 0


async def test_a_retry_of_the_run_that_repeats_a_success_begins_without_a_checkpoint(world: World) -> None:
    dispatch = await held(world)
    await beat(world, dispatch, checkpoint=b"1")
    await world.first.succeed(dispatch)

    await world.first.retry(dispatch.run_id, "work")

    assert (await world.first.grant(await world.dispatch(dispatch.run_id))).checkpoint == b""


async def test_a_retry_of_the_run_after_a_failure_goes_on_from_the_checkpoint(world: World) -> None:
    dispatch = await held(world)
    await beat(world, dispatch, checkpoint=b"1")
    await world.first.fail(dispatch, final=True)

    await world.first.retry(dispatch.run_id, "work")

    assert (await world.first.grant(await world.dispatch(dispatch.run_id))).checkpoint == b"1"


async def test_a_next_task_that_comes_with_a_reports_answer_has_its_checkpoint(world: World) -> None:
    await world.first.deploy(
        "workflow: pair\nnodes:\n  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h, timeout: {heartbeat: 60s}}\n"
        "edges: [[a, b]]\n"
    )
    run_id = await world.first.start("pair")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    await world.first.succeed(first)
    second = await world.dispatch(run_id)
    await world.first.grant(second)
    await beat(world, second, checkpoint=b"5")
    await world.first.fail(second, final=True)
    await world.first.retry(run_id, "b")
    await world.dispatches()
    await world.first.grant(Dispatch(run_id, "b", 2))
    await world.first.fail(Dispatch(run_id, "b", 2), final=True)
    await world.first.retry(run_id, "a")
    again = await world.dispatch(run_id)
    await world.first.grant(again)

    item = tasks.ReportItem(task_id=again.task_id, attempt=again.attempt, next_grant_key="next")
    item.succeeded.output = b"1"
    request = tasks.ReportRequest(owner="w1", items=[item], queues=["default"])
    result = (await world.first.tasks.Report(request)).results[0]

    assert result.next.attempt == 3
    assert result.next.grant.checkpoint == b"5"


async def test_silence_that_a_heartbeat_broke_is_looked_at_again_later(world: World) -> None:
    dispatch = await held(world)
    timer = timers_pb2.Timer(run_id=dispatch.run_id, path="work", kind="heartbeat_timeout", attempt=1)
    await world.database.execute("UPDATE tasks SET leased_at = leased_at - interval '90 s'")
    await beat(world, dispatch, age=timedelta(seconds=10))
    await world.let_timers_come_due(dispatch.run_id)

    assert await world.first.fire([timer]) == ["FIRED"]

    due_in = await world.one("SELECT date_part('epoch', due_at - clock_timestamp()) FROM timers")
    assert 45 < due_in <= 50
    assert len(await world.first.history(dispatch.run_id)) == 1
    await world.database.execute("UPDATE beats SET beat_at = beat_at - interval '60 s'")
    await world.let_timers_come_due(dispatch.run_id)
    assert await world.first.fire([timer]) == ["FIRED"]
    task = await world.first.task(dispatch.run_id, "work")
    assert (task.error.type, task.error.details) == ("heartbeat_timeout", b'{"timeout":"heartbeat"}')
    assert await beat(world, dispatch) == "LEASE_LOST"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"percent": 101}, "INVALID_ARGUMENT"),
        ({"percent": float("nan")}, "INVALID_ARGUMENT"),
        ({"age": timedelta(seconds=-1)}, "INVALID_ARGUMENT"),
        ({"progress_age": timedelta(days=9_999)}, "INVALID_ARGUMENT"),
        ({"checkpoint": b"{"}, "INVALID_PAYLOAD"),
        ({"checkpoint": b'"' + b"x" * 32_768 + b'"'}, "PAYLOAD_TOO_LARGE"),
    ],
)
async def test_a_malformed_heartbeat_is_refused_and_changes_nothing(
    world: World, fields: dict[str, Any], reason: str
) -> None:
    dispatch = await held(world)

    assert await beat(world, dispatch, **fields) == reason

    assert await world.one("SELECT count(*) FROM beats") == 0
