"""The relay's small rules, without any server, and its statements against the real schema."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headway.relay import store
from headway.relay.broker import CALL_DEADLINE
from headway.relay.coordinator import DELIVER_DEADLINE
from headway.relay.messages import DISPATCH_FIELDS, Dispatch, NotPublishableError, dispatch_values
from headway.relay.telemetry import Telemetry
from headway.relay.wakes import Wakes
from tests.relay.world import World
from tests.waiting import until

RUN = UUID("0190c5a8-0000-7000-8000-000000000001")
TRACE = "00-11111111111111111111111111111111-2222222222222222-01"


def row(**changes: object) -> Dispatch:
    values: dict[str, object] = {
        "outbox_id": RUN,
        "run_id": RUN,
        "namespace": "default",
        "path": "resize[12].crop",
        "attempt": 2**62,
        "queue": "work",
        "handler": "do.it",
        "trace": TRACE,
        "age_seconds": 0.0,
    }
    return Dispatch(**{**values, **changes})  # type: ignore[arg-type]


def test_a_task_id_names_the_run_and_the_path() -> None:
    entry = dict(zip(DISPATCH_FIELDS, dispatch_values(row(), ""), strict=True))

    assert entry["task_id"] == f"{RUN.hex}:resize[12].crop"


@pytest.mark.parametrize("missing", ["queue", "handler", "path", "namespace"])
def test_a_dispatch_that_no_worker_could_read_is_refused(missing: str) -> None:
    with pytest.raises(NotPublishableError):
        dispatch_values(row(**{missing: ""}), "")


async def test_wakes_of_a_bucket_coalesce_and_a_bucket_is_in_one_hand_only() -> None:
    wakes = Wakes()
    for bucket in (1, 1, 2, 1):
        wakes.wake(bucket)

    first, second = await wakes.take(), await wakes.take()
    assert (first, second) == (1, 2)
    wakes.wake(1)
    waiting = asyncio.create_task(wakes.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    with wakes.in_hand(1):
        pass
    assert await waiting == 1


async def test_a_bucket_whose_work_failed_is_due_again() -> None:
    wakes = Wakes()
    wakes.wake(1)
    assert await wakes.take() == 1

    with pytest.raises(RuntimeError), wakes.in_hand(1):
        raise RuntimeError

    assert await wakes.take() == 1


async def test_closed_wakes_end_the_wait() -> None:
    wakes = Wakes()
    waiting = asyncio.create_task(wakes.take())
    await asyncio.sleep(0)

    wakes.close()

    assert await waiting is None


async def test_every_statement_can_be_prepared_against_the_schema(world: World) -> None:
    for name, statement in store._SQL.items():
        await world.database.prepare(statement, name=name)


def test_no_statement_that_locks_or_writes_names_several_buckets() -> None:
    locking = {name for name, statement in store._SQL.items() if re.search(r"FOR UPDATE|DELETE", statement)}

    assert locking == {"take_dispatches", "claim_handovers", "delete_rows"}
    assert locking == {name for name in locking if "bucket = $1" in store._SQL[name]}


def test_a_session_is_not_ended_while_a_batch_may_still_wait_for_the_broker_or_the_coordinator() -> None:
    assert max(CALL_DEADLINE, DELIVER_DEADLINE) < store.IDLE_SECONDS < store.TRANSACTION_SECONDS
    assert store.STATEMENT_DEADLINE < store.TRANSACTION_SECONDS


def test_without_tracing_a_row_s_trace_is_passed_through() -> None:
    with Telemetry(tracing=False).publishing([row()]) as traces:
        assert traces == [TRACE]


def test_with_tracing_each_message_has_a_span_that_is_the_row_s_child(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("headway.runtime.telemetry.tracer", provider.get_tracer)

    with Telemetry(tracing=True).publishing([row()]) as traces:
        (message_trace,) = traces

    (span,) = exporter.get_finished_spans()
    assert span.name == "publish"
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}" == TRACE[3:-3]
    assert span.context is not None
    assert message_trace == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01"
    provider.shutdown()


async def test_the_age_of_a_dispatch_is_told_by_the_time_of_its_claim(world: World) -> None:
    pool = await store.connect_pool(world.database_url, 1)
    outbox = store.Outbox(pool)
    try:
        async with outbox.take_dispatches(0, 1, parked_rows=[], parked_queues=[]) as taken:
            assert not taken.rows
        await asyncio.sleep(0.2)  # the next transaction has begun
        await world.dispatch(age=7.0)
        async with outbox.take_dispatches(0, 1, parked_rows=[], parked_queues=[]) as taken:
            (found,) = taken.rows
    finally:
        await outbox.close()
        await store.close_pool(pool)

    assert 7.0 <= found.age_seconds < 20.0


async def test_no_transaction_stays_open_when_nothing_comes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "AHEAD_SECONDS", 0.5)
    pool = await store.connect_pool(world.database_url, 1)
    outbox = store.Outbox(pool)

    async def states() -> list[str]:
        rows = await world.database.fetch(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'headway-relay'"
        )
        return [row["state"] for row in rows]

    try:
        async with outbox.take_dispatches(0, 1, parked_rows=[], parked_queues=[]):
            pass
        assert await states() == ["idle in transaction"]
        await until(lambda: _idle(states), "it is ended")
        async with outbox.take_dispatches(0, 1, parked_rows=[], parked_queues=[]):
            pass
    finally:
        await outbox.close()
        await store.close_pool(pool)


async def _idle(states: Callable[[], Awaitable[list[str]]]) -> bool:
    return await states() == ["idle"]


async def test_the_pool_resets_nothing_and_loses_nothing_by_it(world: World) -> None:
    pool = await store.connect_pool(world.database_url, 1)
    try:
        with pytest.raises(asyncpg.DivisionByZeroError):
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute("SELECT 1 / 0")
        assert await store.Outbox(pool).depth() == 0
    finally:
        await store.close_pool(pool)
