"""Bringing databases up to date."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from headway.coordinator.store.migrate import (
    SchemaChanged,
    SchemaTooNew,
    fault_of_schema,
    known_migrations,
    migrate,
    missing_migrations,
)
from headway.coordinator.store.pool import open_pool


async def missing(url: str) -> list[int]:
    connection = await asyncpg.connect(url)
    try:
        return await missing_migrations(connection)
    finally:
        await connection.close()


async def test_a_plain_database_lacks_every_migration_and_a_second_run_finds_nothing_to_do(
    empty_database_url: str,
) -> None:
    before = await missing(empty_database_url)

    first, second = await migrate(empty_database_url), await migrate(empty_database_url)

    assert before == first == list(known_migrations())
    assert second == []
    assert await missing(empty_database_url) == []


async def test_several_migrators_at_once_apply_each_migration_once(empty_database_url: str) -> None:
    results = await asyncio.gather(*(migrate(empty_database_url) for _ in range(4)))

    assert sorted(results) == [[], [], [], list(known_migrations())]


async def test_a_database_from_the_future_is_left_alone(empty_database_url: str) -> None:
    await migrate(empty_database_url)
    connection = await asyncpg.connect(empty_database_url)
    try:
        await connection.execute("INSERT INTO schema_migrations VALUES (9999, now(), '')")

        with pytest.raises(SchemaTooNew, match="9999"):
            await migrate(empty_database_url)

        assert await connection.fetchval("SELECT count(*) FROM schema_migrations") == len(known_migrations()) + 1
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "change",
    ["UPDATE schema_migrations SET digest = 'of another text'", "ALTER TABLE schema_migrations DROP COLUMN digest"],
    ids=["another text", "from before digests"],
)
async def test_a_database_of_another_development_version_is_refused_with_the_remedy(
    change: str, empty_database_url: str
) -> None:
    await migrate(empty_database_url)
    connection = await asyncpg.connect(empty_database_url)
    try:
        await connection.execute(change)

        with pytest.raises(SchemaChanged, match=r"another development version; begin anew with `headway dev --fresh`"):
            await migrate(empty_database_url)
        with pytest.raises(SchemaChanged):
            await missing_migrations(connection)
    finally:
        await connection.close()


async def test_a_coordinator_knows_what_keeps_it_from_using_a_database(empty_database_url: str) -> None:
    pool = await open_pool(empty_database_url, size=1)
    try:
        assert (await fault_of_schema(pool)).startswith("it lacks migrations [1]: run `headway db upgrade`")
        await migrate(empty_database_url)
        assert await fault_of_schema(pool) == ""
        await pool.execute("UPDATE schema_migrations SET digest = ''")
        assert "another development version" in await fault_of_schema(pool)
    finally:
        await pool.close()


def test_migrations_are_numbered_without_a_gap() -> None:
    assert list(known_migrations()) == list(range(1, len(known_migrations()) + 1))
