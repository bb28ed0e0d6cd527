"""Tasks that came with the answer to a report, where the worker dies, or others come in between."""

from __future__ import annotations

import asyncio

from headway.api.tasks.v1 import tasks_pb2
from tests.rpc.eager import LINE, answer, granted, leased, one_bucket, report, report_all
from tests.rpc.world import JOIN, ONE, Dispatch, World, until


async def test_a_lease_that_runs_out_is_a_loss_and_the_task_is_dispatched(world: World) -> None:
    await world.first.deploy(LINE)
    b = granted(await report(world.first, await leased(world, "line")))
    assert await world.first.reap(b) == "STALE"
    await world.let_lease_expire(b)

    assert await world.first.reap(b) == "FIRED"

    second = await world.dispatch(b.run_id)
    assert second == Dispatch(b.run_id, "b", 2)
    assert await world.columns(b, "state", "attempt", "losses", "tries", "eager_grants") == ("ready", 2, 1, 0, 0)
    assert answer(await report(world.first, b, key="k2")) == ("STALE_ATTEMPT", None)
    assert await world.first.renew(b) == "LEASE_LOST"
    grant = await world.first.grant(second, "w2")
    assert grant.idempotency_key == f"{b.run_id}/b/1"
    assert answer(await report(world.first, b, key="k2")) == ("STALE_ATTEMPT", None)
    assert answer(await report(world.first, second, owner="w2", key="k3")) == ("ACCEPTED", "c")
    (left,) = (await world.first.task(b.run_id, "b")).attempts
    assert (left.attempt, left.owner, left.outcome) == (1, "w1", "lost")


async def test_a_late_report_counts_until_the_reaper_has_come(world: World) -> None:
    await world.first.deploy(LINE)
    b = granted(await report(world.first, await leased(world, "line")))
    await world.let_lease_expire(b)

    assert answer(await report(world.first, b, key="k2")) == ("ACCEPTED", "c")
    assert await world.first.reap(b) == "STALE"
    assert await world.columns(b, "losses") == (0,)


async def test_a_task_that_is_given_back_is_dispatched(world: World) -> None:
    await world.first.deploy(LINE)
    b = granted(await report(world.first, await leased(world, "line")))
    released = tasks_pb2.ReportItem(task_id=b.task_id, attempt=1, released=tasks_pb2.Released(), next_grant_key="k2")

    (result,) = await report_all(world.first, released)

    assert answer(result) == ("ACCEPTED", None)
    assert await world.dispatches(b.run_id) == [Dispatch(b.run_id, "b", 2)]
    assert await world.columns(b, "losses", "eager_grants") == (0, 0)


async def test_a_cancel_in_the_same_transaction_wins(world: World) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE, LINE)
    blocker, first = await leased(world, "one"), await leased(world, "line")
    lane = world.first.engine._decisions[0]

    async with world.hold("run_events"):
        calls = [asyncio.ensure_future(world.first.succeed(blocker))]
        await world.until_blocked()
        told = asyncio.ensure_future(report(world.first, first))
        await until(lambda: lane.backlog == 1, "the report has queued")
        cancel = asyncio.ensure_future(world.first.cancel(first.run_id))
        await until(lambda: lane.backlog == 2, "the cancel has queued behind it")

    await asyncio.gather(*calls)
    assert answer(await told) == ("ACCEPTED", None)
    assert await cancel == "CANCELLED"
    transactions = "SELECT count(DISTINCT xmin::text) FROM run_events WHERE run_id = $1 AND seq > 1"
    assert await world.one(transactions, first.uuid) == 1
    assert await world.dispatches() == []
    assert await world.columns(Dispatch(first.run_id, "b", 1), "state", "lease_expires_at") == ("cancelled", None)


async def test_a_cancel_that_comes_later_is_told_to_the_holder(world: World) -> None:
    await world.first.deploy(LINE)
    b = granted(await report(world.first, await leased(world, "line")))

    assert await world.first.cancel(b.run_id) == "RUNNING"

    assert (await world.first.renew_result(b)).cancel
    assert answer(await report(world.first, b, "kept", key="k2")) == ("ACCEPTED", None)
    assert await world.first.state(b.run_id) == "CANCELLED"


async def test_two_coordinators_that_hear_of_both_branches_grant_the_join_s_successor_once(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(JOIN)
    runs = [await world.first.start("joined") for _ in range(30)]
    found = await world.dispatches()
    await world.first.lease_all(found)
    held = {(d.run_id, d.path): d for d in found}

    for run_id in runs:
        results = await asyncio.gather(
            report(world.first, held[run_id, "left"], key="by left"),
            report(other, held[run_id, "right"], key="by right"),
        )
        assert sorted(answer(result) for result in results if result.HasField("next")) == [("ACCEPTED", "after")]
        (key,) = await world.columns(Dispatch(run_id, "after", 1), "grant_key")
        assert key == ("by left" if results[0].HasField("next") else "by right")

    assert await world.dispatches() == []


async def test_a_report_repeated_at_both_at_once_counts_once(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(LINE)

    for _ in range(10):
        first = await leased(world, "line")
        results = await asyncio.gather(*(report(coordinator, first) for coordinator in (world.first, other) * 3))
        answers = sorted(answer(result)[0] for result in results)
        assert answers == ["ACCEPTED", *["DUPLICATE"] * 5]
        assert {granted(result) for result in results} == {Dispatch(first.run_id, "b", 1)}

    assert await world.one("SELECT count(*) FROM tasks WHERE path = 'b'") == 10
    assert await world.dispatches() == []
