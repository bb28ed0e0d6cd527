"""The fixtures keep tests apart."""

from __future__ import annotations

import asyncpg
import pytest
import redis.asyncio


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_has_a_database_of_its_own(empty_database_url: str, turn: int) -> None:
    connection = await asyncpg.connect(empty_database_url)
    try:
        await connection.execute("CREATE TABLE left_behind (turn int)")

        await connection.execute("INSERT INTO left_behind VALUES ($1)", turn)
    finally:
        await connection.close()


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_finds_redis_empty(redis_url: str, turn: int) -> None:
    async with redis.asyncio.Redis.from_url(redis_url) as connection:
        size = await connection.dbsize()
        await connection.set("left_behind", turn)

        assert size == 0


async def test_embedded_servers_are_as_durable_as_real_ones(empty_database_url: str) -> None:
    connection = await asyncpg.connect(empty_database_url)
    try:
        settings = [
            await connection.fetchval(f"SHOW {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")
        ]

        assert settings == ["on", "on", "on"]
    finally:
        await connection.close()
