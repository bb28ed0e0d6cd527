"""A broker that loses dispatches only delays: what is lost is found, and a backlog is not taken for a loss."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from redis.asyncio import Redis

from headway.api.outbox.v1 import outbox_pb2
from headway.relay.broker import EPOCH_KEY, QUEUES_KEY, SWEEPER_KEY, Broker
from headway.relay.coordinator import Coordinator
from headway.relay.loss import ProgressSweep
from headway.relay.publishing import Lags
from headway.relay.store import Outbox, close_pool, connect_pool
from headway.relay.telemetry import Telemetry
from headway.runtime.channels import open_channel
from headway.runtime.queues import stream_of
from tests.relay.world import World
from tests.waiting import until

STREAM = stream_of("default/work")
OFTEN = timedelta(milliseconds=50)


async def test_a_new_broker_is_swept_once_and_then_marked(world: World) -> None:
    async with world.relay(), world.relay():
        await until(lambda: world.redis.get(EPOCH_KEY), "the marker is set")
        await world.dispatch()
        await until(world.outbox_is_empty, "published")

    assert world.coordinator.losses == 1


@pytest.mark.parametrize(("dispatched", "level"), [(0, "INFO"), (3, "WARNING")])
async def test_only_a_loss_is_worth_a_warning(
    dispatched: int, level: str, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="headway.relay")
    world.coordinator.sweep = lambda _: outbox_pb2.SweepResponse(dispatched=dispatched)

    async with world.relay():
        await until(lambda: "no epoch marker" in caplog.text, "the sweep is told")

    assert [record.levelname for record in caplog.records if "no epoch marker" in record.message] == [level]


async def test_a_flushed_broker_is_swept_page_by_page_and_only_then_marked(world: World) -> None:
    marked_while_sweeping: list[Any] = []
    pages = {"": "a", "a": "b", "b": "c", "c": ""}

    async def sweep(request: outbox_pb2.SweepRequest) -> outbox_pb2.SweepResponse:
        marked_while_sweeping.append(await world.redis.get(EPOCH_KEY))
        return outbox_pb2.SweepResponse(dispatched=10, cursor=pages[request.cursor])

    async with world.relay():
        await until(lambda: world.redis.get(EPOCH_KEY), "the marker is set")
        world.coordinator.swept.clear()
        world.coordinator.sweep = sweep
        await world.redis.flushall()
        await until(lambda: world.redis.get(EPOCH_KEY), "the marker is set again")

    assert [(request.broker_lost, request.cursor) for request in world.coordinator.swept] == [
        (True, ""), (True, "a"), (True, "b"), (True, "c")
    ]  # fmt: skip
    assert marked_while_sweeping == [None] * 4


async def test_a_crash_between_sweep_and_marker_sweeps_again(world: World) -> None:
    swept, forever = asyncio.Event(), asyncio.Event()

    async def sweep(request: outbox_pb2.SweepRequest) -> outbox_pb2.SweepResponse:
        del request
        if world.coordinator.losses == 1:
            return outbox_pb2.SweepResponse(dispatched=1, cursor="a")
        swept.set()
        await forever.wait()
        return outbox_pb2.SweepResponse()

    world.coordinator.sweep = sweep
    async with world.relay() as crashing:
        await until(swept.is_set, "the sweep is under way")
        crashing.cancel()
    assert await world.redis.get(EPOCH_KEY) is None

    world.coordinator.sweep = lambda _: outbox_pb2.SweepResponse()
    async with world.relay():
        await world.redis.pexpire(SWEEPER_KEY, 1)  # time passes: the dead relay's claim lapses
        await until(lambda: world.redis.get(EPOCH_KEY), "another relay has swept and set the marker")

    assert [request.cursor for request in world.coordinator.swept] == ["", "a", ""]


async def test_a_second_loss_during_the_sweep_is_swept_too(world: World) -> None:
    async def sweep(request: outbox_pb2.SweepRequest) -> outbox_pb2.SweepResponse:
        del request
        if world.coordinator.losses == 1:
            await world.redis.flushall()
        return outbox_pb2.SweepResponse()

    world.coordinator.sweep = sweep
    async with world.relay():
        await until(lambda: world.redis.get(EPOCH_KEY), "the marker is set")

    assert world.coordinator.losses == 2


async def test_after_a_flush_workers_find_their_groups_again_without_new_dispatches(world: World) -> None:
    async with world.relay():
        await world.dispatch()
        await until(world.outbox_is_empty, "published")
        await until(lambda: world.redis.get(EPOCH_KEY), "the marker is set")
        await world.redis.flushall()
        await until(lambda: world.redis.exists(STREAM), "the stream and its group are there")

    assert [group["name"] for group in await world.redis.xinfo_groups(STREAM)] == ["workers"]


async def test_a_coordinator_that_is_down_delays_the_sweep_and_nothing_else(world: World) -> None:
    await world.coordinator.stop()
    async with world.relay():
        await world.dispatch()
        await until(world.outbox_is_empty, "dispatches go out meanwhile")
        assert await world.redis.get(EPOCH_KEY) is None
        await world.coordinator.start()
        await until(lambda: world.redis.get(EPOCH_KEY), "the marker is set in the end")

    assert world.coordinator.losses >= 1


async def test_a_queue_whose_entries_were_all_delivered_is_reported_with_no_age_but_the_measure_s(world: World) -> None:
    async with world.relay(sweep_interval=OFTEN):
        await world.dispatch(3)
        await until(world.outbox_is_empty, "published")
        await world.redis.xreadgroup("workers", "dead", {STREAM: ">"})
        await until(lambda: _age_below(world, 1.0), "all is delivered, though pending")

    (progress,) = world.coordinator.swept[-1].queues
    assert (progress.namespace, progress.queue) == ("default", "work")


async def test_a_backlog_is_reported_with_the_age_of_its_oldest_entry(world: World) -> None:
    await world.redis.xadd(STREAM, {"dispatch_id": "old"}, id=f"{await _now_ms(world.redis) - 120_000}-0")
    async with world.relay(sweep_interval=OFTEN):
        await world.dispatch(3)
        await until(lambda: (_latest_age(world) or 0) >= 120, "the backlog is two minutes old")
        await world.redis.xreadgroup("workers", "w1", {STREAM: ">"}, count=1)
        await until(lambda: 0 < (_latest_age(world) or 0) < 60, "the oldest was delivered, the others not")


async def test_what_was_published_late_is_not_taken_for_lost(world: World) -> None:
    """The broker was down for ten minutes: its entries are seconds old, their tasks ten minutes."""
    async with world.relay(sweep_interval=OFTEN):
        await world.dispatch(3, age=600)
        await until(world.outbox_is_empty, "published")
        world.coordinator.swept.clear()
        await until(lambda: _latest_age(world) is not None, "progress is told")

    assert all(
        queue.delivered_age.ToSeconds() >= 600 for request in world.coordinator.swept for queue in request.queues
    )


async def test_what_is_not_yet_published_is_not_taken_for_lost(world: World) -> None:
    """A row that another relay holds, ten minutes old: its queue has no entry that would say so."""
    other = await asyncpg.connect(world.database_url)
    await world.dispatch(age=600)
    try:
        async with other.transaction():
            await other.execute("SELECT outbox_id FROM outbox FOR UPDATE")
            async with world.relay(sweep_interval=OFTEN):
                await world.dispatch()
                await until(world.entries, "the other row is published")
                await world.redis.xreadgroup("workers", "w1", {STREAM: ">"})
                world.coordinator.swept.clear()
                await until(lambda: _latest_age(world) is not None, "progress is told")
                assert (_latest_age(world) or 0) >= 600
    finally:
        await other.close()


async def test_a_broker_without_marker_and_an_outbox_that_is_behind_say_nothing_of_any_queue(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.redis.sadd(QUEUES_KEY, "default/work")
    async with progress_sweep(world) as progress:
        assert await progress.delivered_ages() == {}
        await world.redis.set(EPOCH_KEY, "1")
        assert await progress.delivered_ages() == {"default/work": 0.0}
        monkeypatch.setattr("headway.relay.loss.MOST_UNPUBLISHED", 3)
        await world.dispatch(3)
        assert await progress.delivered_ages() == {}


async def test_one_turn_tells_the_progress_of_all_queues_page_by_page_and_the_measure_ages(world: World) -> None:
    pages = {"": "a", "a": "b", "b": ""}
    now = 100.0

    def sweep(request: outbox_pb2.SweepRequest) -> outbox_pb2.SweepResponse:
        nonlocal now
        now += 10.0
        return outbox_pb2.SweepResponse(dispatched=1, cursor=pages[request.cursor])

    world.coordinator.sweep = sweep
    await world.redis.set(EPOCH_KEY, "1")
    await world.redis.sadd(QUEUES_KEY, "default/one", "default/two")
    async with progress_sweep(world, clock=lambda: now) as progress:
        await progress.step()
        await progress.step()  # this turn is taken

    assert [request.cursor for request in world.coordinator.swept] == ["", "a", "b"]
    assert [
        [(queue.queue, queue.delivered_age.ToSeconds()) for queue in request.queues]
        for request in world.coordinator.swept
    ] == [[("one", age), ("two", age)] for age in (0, 10, 20)]


async def test_many_queues_are_told_in_several_calls(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.relay.loss.MOST_QUEUES", 2)
    world.coordinator.sweep = lambda request: outbox_pb2.SweepResponse(cursor="" if request.cursor else "a")
    await world.redis.set(EPOCH_KEY, "1")
    await world.redis.sadd(QUEUES_KEY, *(f"default/{name}" for name in "abc"))
    async with progress_sweep(world) as progress:
        await progress.step()

    assert [([queue.queue for queue in request.queues], request.cursor) for request in world.coordinator.swept] == [
        (["a", "b"], ""), (["a", "b"], "a"), (["c"], ""), (["c"], "a")
    ]  # fmt: skip


async def test_consumers_that_died_without_messages_are_pruned_and_no_others(world: World) -> None:
    await world.dispatch(1)
    async with world.relay():
        await until(world.outbox_is_empty, "published")
    await world.redis.xreadgroup("workers", "busy", {STREAM: ">"})
    await world.redis.xgroup_createconsumer(STREAM, "workers", "dead")

    async with world.relay(consumer_idle=timedelta(milliseconds=10), prune_interval=OFTEN):
        await until(lambda: _consumers(world.redis, ["busy"]), "the dead one is gone")

    async with world.relay(consumer_idle=timedelta(hours=1), prune_interval=OFTEN):
        await world.redis.xgroup_createconsumer(STREAM, "workers", "quiet")
        await world.dispatch()
        await until(world.outbox_is_empty, "published")
    assert await _consumers(world.redis, ["busy", "quiet"])


@pytest.mark.parametrize("name", ["default/none", "default/work"])
async def test_a_queue_without_a_stream_or_group_can_be_measured(world: World, name: str) -> None:
    await world.redis.xadd(STREAM, {"dispatch_id": "1"})
    broker = Broker(world.redis)

    ages = await broker.undelivered_ages([name])

    assert (ages[name] > 0) == (name == "default/work")


async def test_a_key_that_is_no_stream_is_left_out_of_the_measures(world: World) -> None:
    await world.redis.set(STREAM, "something else")

    assert await Broker(world.redis).undelivered_ages(["default/work", "default/other"]) == {"default/other": 0.0}


@asynccontextmanager
async def progress_sweep(world: World, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[ProgressSweep]:
    pool = await connect_pool(world.database_url, 1)
    try:
        async with open_channel(world.coordinator.address) as channel:
            yield ProgressSweep(
                broker=Broker(world.redis),
                outbox=Outbox(pool),
                coordinator=Coordinator(channel),
                lags=Lags(),
                telemetry=Telemetry(tracing=False),
                interval=1000.0,
                clock=clock,
            )
    finally:
        await close_pool(pool)


def _age_below(world: World, seconds: float) -> bool:
    age = _latest_age(world)
    return age is not None and age < seconds


def _latest_age(world: World) -> float | None:
    for request in reversed(world.coordinator.swept):
        for queue in request.queues:
            return queue.delivered_age.ToMilliseconds() / 1000
    return None


async def _now_ms(redis: Redis) -> int:
    seconds, microseconds = await redis.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


async def _consumers(redis: Redis, expected: list[str]) -> bool:
    return sorted(consumer["name"] for consumer in await redis.xinfo_consumers(STREAM, "workers")) == expected


async def test_a_sweep_that_takes_long_keeps_its_claim(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.relay.loss.SWEEPER_SECONDS", 1.0)
    release = asyncio.Event()

    async def sweep(request: outbox_pb2.SweepRequest) -> outbox_pb2.SweepResponse:
        del request
        await release.wait()
        return outbox_pb2.SweepResponse()

    world.coordinator.sweep = sweep
    async with world.relay(), world.relay():
        await until(lambda: world.coordinator.losses, "the sweep is under way")
        await world.redis.set("a_while", "", px=3000)
        await until(lambda: _gone(world.redis, "a_while"), "several claims' time has passed")
        release.set()
        await until(lambda: world.redis.get(EPOCH_KEY), "the marker is set")

    assert world.coordinator.losses == 1


async def _gone(redis: Redis, key: str) -> bool:
    return not await redis.exists(key)
