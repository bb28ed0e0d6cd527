"""Dispatches get from the outbox into the broker: all of them, quickly, and none is deleted before."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from headway.runtime.queues import stream_of
from tests.relay.world import World
from tests.waiting import until

HOUR = timedelta(hours=1)


async def test_a_committed_dispatch_becomes_a_message_with_all_its_fields(world: World) -> None:
    (outbox_id,) = await world.dispatch(trace="00-11111111111111111111111111111111-2222222222222222-01")
    row = await world.database.fetchrow("SELECT run_id FROM outbox")
    assert row is not None

    async with world.relay():
        await until(world.outbox_is_empty, "the row is deleted")

    (entry,) = await world.entries()
    assert entry == {
        "dispatch_id": str(outbox_id),
        "task_id": f"{row['run_id'].hex}:step_0",
        "attempt": "1",
        "handler": "do.it",
        "queue": "work",
        "namespace": "default",
        "trace": "00-11111111111111111111111111111111-2222222222222222-01",
    }


async def test_a_notification_wakes_the_relay_within_milliseconds(world: World) -> None:
    async with world.relay(poll_interval=HOUR):
        await world.dispatch()  # also waits until the relay listens, for it looks once it does
        await until(world.outbox_is_empty, "the relay runs")
        waits: list[float] = []
        for number in range(20):
            await world.dispatch()
            committed_at = time.monotonic()
            while len(await world.entries()) < number + 2:  # noqa: ASYNC110 - the time is what is measured
                await asyncio.sleep(0)
            waits.append(time.monotonic() - committed_at)

    assert sorted(waits)[len(waits) // 4] < 0.025  # a busy machine is slow now and then, by itself


async def test_without_notifications_the_poll_finds_the_rows(world: World) -> None:
    async with world.relay():
        await world.dispatch(notify=False)
        await until(world.outbox_is_empty, "the poll has found it")

    assert len(await world.entries()) == 1


async def test_a_bucket_that_comes_into_use_later_is_polled_too(world: World) -> None:
    async with world.relay():
        await world.database.execute("INSERT INTO buckets (bucket) VALUES (77)")
        await world.dispatch(bucket=77, notify=False)
        await until(world.outbox_is_empty, "the new bucket is drained")


async def test_a_backlog_goes_out_in_order_of_the_outbox_and_in_batches(world: World) -> None:
    expected = await world.dispatch(1_200)

    async with world.relay(batch=500, lanes=1):
        await until(world.outbox_is_empty, "the backlog is published")

    assert await world.dispatch_ids() == expected


async def test_two_relays_share_the_work_without_publishing_twice(world: World) -> None:
    expected = [*await world.dispatch(1_000, bucket=0), *await world.dispatch(1_000, bucket=1)]

    async with world.relay(batch=20), world.relay(batch=20):
        await until(world.outbox_is_empty, "the backlog is published")

    published = await world.dispatch_ids()
    assert sorted(published) == sorted(expected)


async def test_a_row_is_deleted_only_after_it_was_published(world: World) -> None:
    await world.redis.set(stream_of("default/work"), "not a stream")
    (outbox_id,) = await world.dispatch()

    async with world.relay():
        await world.dispatch(queue="other")
        await until(lambda: world.entries("default/other"), "the other queue goes on")
        await until(lambda: _left(world, [outbox_id]), "and the row stays")
        await world.redis.delete(stream_of("default/work"))
        await until(world.outbox_is_empty, "the row is published once the stream can be written")

    assert await world.dispatch_ids() == [outbox_id]


async def test_rows_that_can_never_be_published_do_not_hold_up_the_others(world: World) -> None:
    poison = await world.dispatch(30, path="")

    async with world.relay(batch=10):
        good = await world.dispatch(25)
        await until(lambda: _has(world, good), "the good rows are published")
        await until(lambda: _left(world, poison), "only the poison is left")


async def test_of_one_batch_what_can_be_published_is_published_once_and_the_rest_stays(world: World) -> None:
    await world.redis.set(stream_of("default/broken"), "not a stream")
    poison = await world.dispatch(3, path="")
    refused = await world.dispatch(3, queue="broken")
    good = [*await world.dispatch(3), *await world.dispatch(3, queue="other")]

    async with world.relay(lanes=1, poll_interval=HOUR):
        await until(lambda: _left(world, [*poison, *refused]), "the good rows are deleted")

    published = [*await world.dispatch_ids(), *await world.dispatch_ids("default/other")]
    assert published == good


async def test_a_broker_that_has_forgotten_its_scripts_is_told_them_again(world: World) -> None:
    async with world.relay():
        first = await world.dispatch(3)
        await until(world.outbox_is_empty, "published")
        await world.redis.script_flush()
        second = await world.dispatch(3)
        await until(world.outbox_is_empty, "published again")

    assert await world.dispatch_ids() == [*first, *second]


async def test_a_batch_larger_than_one_step_of_the_broker_goes_out_in_order(world: World) -> None:
    expected = await world.dispatch(1_200)

    async with world.relay(batch=10_000):
        await until(world.outbox_is_empty, "published")

    assert await world.dispatch_ids() == expected


async def test_a_relay_waits_for_nobody_else_s_rows(world: World) -> None:
    """SKIP LOCKED: a relay that hangs in the middle of a batch keeps its rows, and no others."""
    (held,) = await world.dispatch()
    other = await asyncpg.connect(world.database_url)
    try:
        async with other.transaction():
            await other.execute("SELECT outbox_id FROM outbox WHERE bucket = 0 FOR UPDATE")
            async with world.relay():
                (free,) = await world.dispatch()
                await until(lambda: _has(world, [free]), "the free row is published")
                await until(lambda: _left(world, [held]), "and nobody touched the other")
    finally:
        await other.close()


async def test_the_group_is_made_with_the_stream_so_that_no_message_is_before_it(world: World) -> None:
    await world.dispatch(3)

    async with world.relay():
        await until(world.outbox_is_empty, "published")

    read: Any = await world.redis.xreadgroup("workers", "w1", {stream_of("default/work"): ">"}, count=10)
    assert len(read[0][1]) == 3


@pytest.mark.parametrize("age", [0.0, 700.0])
async def test_rows_of_any_age_are_published_at_once(world: World, age: float) -> None:
    async with world.relay():
        await world.dispatch(age=age)
        await until(world.outbox_is_empty, "published")


async def _has(world: World, outbox_ids: list[UUID]) -> bool:
    return set(outbox_ids) <= set(await world.dispatch_ids())


async def _left(world: World, outbox_ids: list[UUID]) -> bool:
    return await world.outbox_ids() == outbox_ids
