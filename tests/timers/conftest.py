"""A world around the timers service, empty and real but for the coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.timers.world import ScriptedCoordinator, World


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    database = await asyncpg.connect(database_url)
    pool = await asyncpg.create_pool(
        database_url, min_size=1, server_settings={"application_name": "scripted-coordinator"}
    )
    coordinator = ScriptedCoordinator(pool)
    await coordinator.start()
    yield World(database_url, database, coordinator)
    await coordinator.stop()
    await pool.close()
    await database.close()
