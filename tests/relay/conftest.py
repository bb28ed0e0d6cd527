"""A world around the relay, empty and real but for the coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
from redis.asyncio import Redis

from tests.relay.world import ScriptedCoordinator, World


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    database = await asyncpg.connect(database_url)
    redis = Redis.from_url(redis_url, decode_responses=True)
    coordinator = ScriptedCoordinator()
    await coordinator.start()
    yield World(database_url, redis_url, database, redis, coordinator)
    await coordinator.stop()
    await redis.aclose()
    await database.close()
