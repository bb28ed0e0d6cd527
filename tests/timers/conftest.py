"""A world around the timers service, empty and real but for the coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.timers.world import ScriptedCoordinator, World, apply_schema


@pytest.fixture
async def world(empty_database_url: str) -> AsyncIterator[World]:
    await apply_schema(empty_database_url)
    database = await asyncpg.connect(empty_database_url)
    pool = await asyncpg.create_pool(
        empty_database_url, min_size=1, server_settings={"application_name": "scripted-coordinator"}
    )
    coordinator = ScriptedCoordinator(pool)
    await coordinator.start()
    yield World(empty_database_url, database, coordinator)
    await coordinator.stop()
    await pool.close()
    await database.close()
