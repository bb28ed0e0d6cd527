"""A relay that is frozen with rows in its hands keeps nobody waiting for longer than is written down."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Collection
from uuid import UUID

import asyncpg
import pytest

from headway.relay import store
from tests.relay.test_outages import relay_process
from tests.relay.world import World
from tests.waiting import until

# Stops whoever takes rows while it holds the first of them.
STALL = """
CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN OLD; END $$;
CREATE TRIGGER stall AFTER DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION stall();
"""


@pytest.fixture
async def pool(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncpg.Pool[asyncpg.Record]]:
    """A relay's pool with one session, whose limits are a second."""
    with monkeypatch.context() as quick:
        quick.setattr(store, "IDLE_SECONDS", 1)
        quick.setattr(store, "TRANSACTION_SECONDS", 1)
        pool = await store.connect_pool(world.database_url, 1)
        async with pool.acquire():
            pass
    yield pool
    pool.terminate()


@pytest.mark.parametrize("then", ["SELECT pg_sleep(30)", "SELECT 1"])
async def test_rows_that_a_relay_took_and_kept_are_free_again(
    world: World, pool: asyncpg.Pool[asyncpg.Record], then: str
) -> None:
    """Whether a statement is under way for the server, as when the rest of a message never comes, or it is idle."""
    kept = await world.dispatch(10)
    connection = await pool.acquire()
    await connection.execute("BEGIN")
    await connection.fetch(store._SQL["take_dispatches"], 0, [], [], 10)
    holding = asyncio.create_task(_fetch(connection, then))
    async with world.relay():
        others = await world.dispatch(10)

        await until(lambda: _are_published(world, others), "rows that nobody holds are published at once", seconds=0.8)
        await until(world.outbox_is_empty, "the rows that it kept are published", seconds=5)

    await asyncio.wait([holding])
    assert set(await world.dispatch_ids()) == {*kept, *others}
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)):
        await connection.fetch("SELECT 1")


@pytest.mark.slow
async def test_a_frozen_relay_holds_up_its_rows_for_the_time_written_down_and_goes_on_when_it_thaws(
    world: World,
) -> None:
    await world.database.execute(STALL)
    await world.database.execute("SELECT pg_advisory_lock(42)")
    kept = await world.dispatch(50)
    async with relay_process(world) as frozen:
        await until(lambda: _stalls(world), "it has taken the rows")
        frozen.send_signal(signal.SIGSTOP)
        frozen_at = time.monotonic()
        try:
            await world.database.execute("SELECT pg_advisory_unlock(42)")
            async with world.relay():
                others = await world.dispatch(10)
                await until(lambda: _are_published(world, others), "other rows are published at once", seconds=5)
                assert not set(kept) & set(await world.dispatch_ids())
                await until(world.outbox_is_empty, "its rows are published", seconds=store.TRANSACTION_SECONDS + 10)
            assert time.monotonic() - frozen_at < store.TRANSACTION_SECONDS + 5
        finally:
            frozen.send_signal(signal.SIGCONT)
        more = await world.dispatch(10)
        await until(world.outbox_is_empty, "it relays again", seconds=40)
        assert frozen.returncode is None

    assert set(await world.dispatch_ids()) == {*kept, *others, *more}


async def _fetch(connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], statement: str) -> None:
    with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
        await connection.fetch(statement)


async def _are_published(world: World, outbox_ids: Collection[UUID]) -> bool:
    return set(outbox_ids) <= set(await world.dispatch_ids())


async def _stalls(world: World) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
    return bool(await world.database.fetchval(waiting))
