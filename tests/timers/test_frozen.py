"""A copy of the timers service that is frozen holds up neither the others nor the database."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import asyncpg
import pytest

from headway.timers import store
from tests.timers.test_telling import _looks, service_process
from tests.timers.world import World
from tests.waiting import until

OLDEST = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'headway-timers' AND datname = current_database() AND xact_start IS NOT NULL
"""


@pytest.mark.parametrize("then", ["SELECT pg_sleep(30)", "SELECT 1"])
async def test_a_session_in_which_nothing_comes_any_more_is_ended(
    world: World, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Whether a statement is under way for the server, as when the rest of a message never comes, or it is idle."""
    monkeypatch.setattr(store, "IDLE_SECONDS", 1)
    monkeypatch.setattr(store, "TRANSACTION_SECONDS", 1)
    pool = await store.connect_pool(world.database_url)
    connection = await pool.acquire()
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.fetch("SELECT run_id FROM timers")
    assert await world.database.fetchval(OLDEST) == 1
    holding = asyncio.create_task(_fetch(connection, then))

    await until(lambda: _is_ended(world), "its session is ended")

    await asyncio.wait([holding])
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)):
        await connection.fetch("SELECT 1")
    pool.terminate()


def test_a_session_is_not_ended_while_a_look_may_still_take() -> None:
    assert store.STATEMENT_DEADLINE < store.TRANSACTION_SECONDS


async def test_while_one_copy_is_frozen_another_tells_everything(world: World) -> None:
    async with service_process(world) as frozen:
        await until(lambda: _looks(world), "it looks")
        frozen.send_signal(signal.SIGSTOP)
        try:
            async with world.service():
                items = await world.timers([-1.0, 0.1, 0.3])
                leases = await world.leases(5)
                await until(lambda: world.all_fired([*items, *leases]), "all are told", seconds=5)
        finally:
            frozen.send_signal(signal.SIGCONT)


async def _fetch(connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], statement: str) -> None:
    with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
        await connection.fetch(statement)


async def _is_ended(world: World) -> bool:
    return not await world.database.fetchval(OLDEST)
