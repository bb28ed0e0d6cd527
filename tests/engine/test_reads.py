"""Reads take turns with a part of the connections: however many ask, work under way goes on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from headway.coordinator.core.refusals import Overloaded
from headway.coordinator.engine import lanes, reads
from headway.coordinator.store.pool import open_pool
from tests.engine.test_overload import Clock, pause_of
from tests.rpc.world import ONE, World, refusal_of, until

FLOOD = 40


async def test_a_flood_of_reads_leaves_connections_to_leases_renewals_and_reports(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    other = await world.coordinator()  # none of its lanes has a connection yet

    async with world.locked("LOCK TABLE stale_reports IN ACCESS EXCLUSIVE MODE"):
        flood = [asyncio.ensure_future(other.get(run_id)) for _ in range(FLOOD)]
        await world.until_blocked()
        async with asyncio.timeout(5):
            await other.grant(dispatch)
            assert await other.renew(dispatch) == "RENEWED"
            assert await other.succeed(dispatch) == "ACCEPTED"

    assert {(await each).run.run_id for each in flood} == {run_id}


@pytest.mark.parametrize("kind", ["too many wait", "the wait is too long"])
async def test_reads_that_find_no_room_are_told_when_to_come_again(
    kind: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    part, name, value = {
        "too many wait": (reads, "WAITING", 3),
        "the wait is too long": (world.first.engine.reads, "_pace", 1.0),
    }[kind]

    async with world.locked("LOCK TABLE stale_reports IN ACCESS EXCLUSIVE MODE"):
        flood = [asyncio.ensure_future(world.first.get(run_id)) for _ in range(4)]
        await world.until_blocked()
        await until(lambda: world.first.engine.reads.waiting == 3, "one reads, the others wait")
        with monkeypatch.context() as full:
            full.setattr(part, name, value)
            refusals = [
                await refusal_of(world.first.get(run_id)),
                await refusal_of(world.first.runs.List(runs_pb2.ListRequest())),
                await refusal_of(world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))),
                await refusal_of(world.first.history(run_id)),
            ]

    assert {(refusal.code, refusal.reason) for refusal in refusals} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    }
    for refusal in refusals:
        assert timedelta(seconds=lanes.SOONEST) <= pause_of(refusal) <= timedelta(seconds=lanes.LATEST)
    await asyncio.gather(*flood)


async def test_who_is_refused_follows_from_how_many_wait_and_how_long_reads_took_of_late(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = await open_pool(database_url, size=3 * reads.PART)
    turns, time = reads.Reads(pool), Clock(monkeypatch)

    async def read(seconds: float = 0.0) -> None:
        async with turns.acquire():
            time.now += seconds

    for _ in range(100):
        await read(1.0)
    async with AsyncExitStack() as held:
        for _ in range(3):
            await held.enter_async_context(turns.acquire())
        waiting = [asyncio.ensure_future(read()) for _ in range(7)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded) as caught:
            await read()
        waiting.pop().cancel()
        await asyncio.sleep(0)
        assert turns.waiting == 6

    assert float(caught.value.metadata["wait_ms"]) == pytest.approx(7 / 3 * 1_000, rel=0.01)
    assert caught.value.metadata["retry_ms"] == caught.value.metadata["wait_ms"]
    await asyncio.gather(*waiting)
    assert turns.waiting == 0
    await pool.close()


async def test_a_watch_that_was_let_in_outlasts_a_flood(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    watch = aiter(world.first.runs.Watch(runs_pb2.WatchRequest(run_id=run_id)))
    assert (await anext(watch)).event.type == "RunStarted"

    with monkeypatch.context() as flooded:
        flooded.setattr(reads, "WAITING", 0)
        await world.first.grant(dispatch)
        await world.first.succeed(dispatch)
        refused = await refusal_of(world.first.get(run_id))
        await asyncio.sleep(2 * lanes.SOONEST)  # the watch is refused meanwhile, and comes again

    assert refused.reason == "OVERLOADED"
    assert (await anext(watch)).event.type == "NodeCompleted"
