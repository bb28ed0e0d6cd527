"""Dispatches that the broker has lost are written again: at once with proof, with doubling pauses without."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from headway.api.outbox.v1 import outbox_pb2
from headway.coordinator.engine import engine
from headway.coordinator.store.statements import SQL
from tests.rpc.world import EVENT, ONE, SWEEP, Dispatch, World, refusal_of

MINUTE = timedelta(minutes=1)


async def pages(world: World, **fields: Any) -> list[int]:
    """How many each page of a sweep dispatched."""
    response = await world.first.outbox.Sweep(outbox_pb2.SweepRequest(**fields))
    counts = [response.dispatched]
    while response.cursor:
        response = await world.first.outbox.Sweep(outbox_pb2.SweepRequest(**fields, cursor=response.cursor))
        counts.append(response.dispatched)
    return counts


async def lost(world: World) -> int:
    return sum(await pages(world, broker_lost=True))


async def aged(world: World, *, delivered: timedelta, queue: str = "slow", namespace: str = "default") -> int:
    age = Duration()
    age.FromTimedelta(delivered)
    progress = outbox_pb2.QueueProgress(namespace=namespace, queue=queue, delivered_age=age)
    response = await world.first.outbox.Sweep(outbox_pb2.SweepRequest(queues=[progress]))
    assert not response.cursor
    return response.dispatched


async def waiting_since(world: World, minutes: float, *, sweep_in: float) -> Dispatch:
    """A task whose dispatch was lost: ready for so many minutes, its sweep due in so many."""
    await world.first.deploy(SWEEP)
    dispatch = await world.dispatch(await world.first.start("swept"))
    await world.database.execute(
        "UPDATE tasks SET ready_at = clock_timestamp() - make_interval(secs => $1),"
        " sweep_at = clock_timestamp() + make_interval(secs => $2)",
        minutes * 60,
        sweep_in * 60,
    )
    return dispatch


async def next_sweep(world: World) -> float:
    """In how many minutes."""
    return float(await world.one("SELECT extract(epoch FROM sweep_at - clock_timestamp()) / 60 FROM tasks"))


async def test_with_proof_of_loss_every_ready_task_is_dispatched_again_in_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "SWEEP_PAGE", 3)
    await world.first.deploy(ONE)
    await asyncio.gather(*(world.first.start("one") for _ in range(10)))
    before = await world.dispatches()

    counts = await pages(world, broker_lost=True)

    again = await world.dispatches()
    assert counts == [3, 3, 3, 1]
    assert sorted(again, key=str) == sorted(before, key=str)


async def test_a_sweep_after_a_loss_looks_at_ready_tasks_only_however_many_are_done(world: World) -> None:
    await world.first.deploy(ONE)
    await world.first.start("one")
    await world.database.execute(
        "INSERT INTO tasks SELECT (jsonb_populate_record(t, made.row)).* FROM tasks AS t, LATERAL"
        " (SELECT jsonb_build_object('path', 'p' || i, 'state', state, 'finished_at', finished_at) AS row FROM"
        "  (SELECT i, 'succeeded' AS state, now() AS finished_at FROM generate_series(1, 20000) AS i"
        "   UNION ALL SELECT i, 'ready', NULL FROM generate_series(20001, 22000) AS i) AS rows) AS made"
    )
    await world.database.execute("ANALYZE tasks")

    async with world.first.engine.pool.acquire() as connection:
        await connection.execute(f"PREPARE sweep (smallint, uuid, text, bigint) AS {SQL['sweep_lost']}")
        plan = await connection.fetch("EXPLAIN EXECUTE sweep (0, '00000000-0000-0000-0000-000000000000', '', 5000)")
        await connection.execute("DEALLOCATE sweep")

    steps = "\n".join(line for (line,) in plan)
    assert "tasks_ready" in steps, steps
    assert "tasks_pkey" not in steps, steps


async def test_a_sweep_leaves_alone_what_is_held_over_or_waits_for_a_signal(world: World) -> None:
    await world.first.deploy(ONE, EVENT)
    held, done, cancelled = [await world.dispatch(await world.first.start("one")) for _ in range(3)]
    await world.first.start("waiting")
    await world.first.lease_all([held, done])
    await world.first.succeed(done)
    await world.first.cancel(cancelled.run_id)

    assert await lost(world) == 0
    assert await world.dispatches() == []


async def test_a_swept_dispatch_is_granted_and_the_lost_one_that_turns_up_is_held(world: World) -> None:
    await world.first.deploy(ONE)
    original = await world.dispatch(await world.first.start("one"))
    await lost(world)
    swept = await world.dispatch(original.run_id)

    assert await world.first.lease(swept) == "GRANTED"
    assert await world.first.lease(original) == "HELD"


async def test_without_proof_nothing_is_dispatched_again_before_its_minute_is_over(world: World) -> None:
    await world.first.deploy(SWEEP)
    await world.dispatch(await world.first.start("swept"))

    assert 0.9 < await next_sweep(world) <= 1
    assert await aged(world, delivered=timedelta()) == 0


async def test_what_became_ready_before_its_queue_was_read_to_the_end_is_dispatched_again(world: World) -> None:
    dispatch = await waiting_since(world, 1.1, sweep_in=-0.1)

    assert await aged(world, delivered=timedelta(minutes=1)) == 1
    assert await world.dispatches() == [dispatch]


@pytest.mark.parametrize(
    "fields",
    [
        {"delivered": timedelta(minutes=2)},
        {"delivered": timedelta(), "queue": "fast"},
        {"delivered": timedelta(), "namespace": "b"},
    ],
    ids=["not read that far", "another queue", "another namespace"],
)
async def test_what_may_still_be_in_its_queue_is_left_alone(fields: dict[str, timedelta], world: World) -> None:
    await waiting_since(world, 1.1, sweep_in=-0.1)

    assert await aged(world, **fields) == 0  # type: ignore[arg-type]
    assert await world.dispatches() == []


@pytest.mark.parametrize(("waited", "pause"), [(0.5, 1), (1, 1), (2, 2), (4, 4), (60, 60)])
async def test_each_sweep_without_proof_doubles_the_time_to_the_next(waited: float, pause: float, world: World) -> None:
    await waiting_since(world, waited, sweep_in=-0.01)

    assert await aged(world, delivered=timedelta()) == 1
    assert await next_sweep(world) == pytest.approx(pause, abs=0.05)
    assert await aged(world, delivered=timedelta()) == 0


async def test_a_full_page_says_where_the_next_one_begins(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SWEEP_PAGE", 2)
    await world.first.deploy(SWEEP)
    for _ in range(8):
        await world.first.start("swept")
    await world.dispatches()
    await world.database.execute("UPDATE tasks SET sweep_at = clock_timestamp() - interval '1 second'")

    counts = await pages(world, queues=[outbox_pb2.QueueProgress(namespace="default", queue="slow")])

    assert counts == [2, 2, 2, 2, 0]
    assert len(await world.dispatches()) == 8


async def test_a_sweep_that_deadlocks_with_a_decision_starts_over(world: World) -> None:
    await world.database.execute("UPDATE settings SET value = '1'")
    await world.first.engine._refresh()
    await world.first.deploy(ONE)
    dispatches = sorted([await world.dispatch(await world.first.start("one")) for _ in range(2)], key=str)
    low, high = (dispatch.uuid for dispatch in dispatches)
    lock = "SELECT 1 FROM tasks WHERE run_id = $1 FOR UPDATE"
    await world.database.execute("SET deadlock_timeout = '60s'")  # the sweep is the one that is sacrificed

    transaction = world.database.transaction()
    await transaction.start()
    await world.database.execute(lock, high)
    sweep = asyncio.ensure_future(lost(world))
    async with world.watcher() as watcher:
        await watcher.until_blocked()
    await world.database.execute(lock, low)  # waits for the sweep, which waits for us: a deadlock
    await transaction.rollback()

    assert await sweep == 2
    await world.database.execute("RESET deadlock_timeout")


async def test_nonsense_in_a_sweep_is_refused_or_left_out(world: World) -> None:
    request = outbox_pb2.SweepRequest(
        queues=[outbox_pb2.QueueProgress(namespace="a\x00", queue="", delivered_age=Duration(seconds=-5))]
    )
    endless = outbox_pb2.SweepRequest(
        queues=[outbox_pb2.QueueProgress(namespace="a", queue="b", delivered_age=Duration(seconds=1 << 62))]
    )

    nowhere = outbox_pb2.SweepRequest(broker_lost=True, cursor="page 2")

    assert (await world.first.outbox.Sweep(request)).dispatched == 0
    assert (await refusal_of(world.first.outbox.Sweep(nowhere))).metadata["field"] == "cursor"
    assert (await refusal_of(world.first.outbox.Sweep(endless))).metadata["field"] == "delivered_age"


async def test_a_setting_that_an_operator_mistyped_is_not_taken(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for value in ("0", "-1", "many", "99999", ""):
        await world.database.execute("UPDATE settings SET value = $1", value)
        await world.first.engine._refresh()

    assert world.first.engine.run_buckets == 2
    assert caplog.text.count("run_buckets must be a number") == 5
    await world.database.execute("DELETE FROM settings")
    await world.first.engine._refresh()
    await world.database.execute("INSERT INTO settings VALUES ('run_buckets', '4')")
    await world.first.engine._refresh()
    assert world.first.engine.run_buckets == 4
    assert await world.one("SELECT array_agg(bucket ORDER BY bucket) FROM buckets") == [0, 1, 2, 3]
