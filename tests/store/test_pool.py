"""What a coordinator's sessions are held to by the server, when the coordinator itself can do nothing any more."""

from __future__ import annotations

import asyncio
import contextlib

import asyncpg
import pytest

from headway.coordinator.store import pool
from headway.coordinator.store.pool import Connection, open_pool

LOCK = "SELECT 1 FROM buckets WHERE bucket = 0 FOR UPDATE"


async def _fetch(connection: Connection, statement: str) -> None:
    with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
        await connection.fetch(statement)


@pytest.mark.parametrize("hold", ["SELECT pg_sleep(30)", "SELECT 1"])
async def test_locks_of_a_transaction_that_does_not_end_are_taken_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch, hold: str
) -> None:
    """Whether its statement is under way for the server, as when the rest of a message never comes, or it is idle."""
    monkeypatch.setattr(pool, "_TRANSACTION_SECONDS", 1)
    monkeypatch.setitem(pool._SESSION, "idle_in_transaction_session_timeout", "1s")
    connections = await open_pool(database_url, size=1)
    holder, other = await connections.acquire(), await asyncpg.connect(database_url)
    await holder.execute("BEGIN")
    await holder.fetch(LOCK)
    holding = asyncio.create_task(_fetch(holder, hold))
    await asyncio.sleep(0)

    async with asyncio.timeout(10):
        assert await other.fetch(LOCK) != []

    await asyncio.wait([holding])
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)):
        await holder.fetch("SELECT 1")
    await other.close()
    connections.terminate()
