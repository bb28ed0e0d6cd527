"""Brings a database's schema up to date: numbered migrations, forward only, one transaction each. All DDL is here."""

import re
from importlib import resources

import asyncpg

from headway.coordinator.store.errors import translated
from headway.coordinator.store.pool import Connection

_FILE = re.compile(r"(\d{4})_\w+\.sql")
_LOCK = 0x6865616477617900  # one migrator at a time; freed with the session


class SchemaTooNew(Exception):
    """The database has migrations that this version does not know: upgrade the program, not the database."""


def known_migrations() -> dict[int, str]:
    """Return the text of each migration by its number."""
    folder = resources.files("headway.coordinator.store").joinpath("migrations")
    found = {
        int(match[1]): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if (match := _FILE.fullmatch(entry.name))
    }
    return dict(sorted(found.items()))


async def migrate(database_url: str) -> list[int]:
    """Apply what is missing and return the numbers applied. Safe to run at the same time from several places.

    Raises:
        SchemaTooNew: the database is ahead of this program.
        StoreUnavailable, StoreRejected: the database cannot be reached, or refuses.
    """
    with translated():
        return await _migrate(database_url)


async def _migrate(database_url: str) -> list[int]:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations ("
            " number integer NOT NULL CONSTRAINT schema_migrations_pkey PRIMARY KEY, applied_at timestamptz NOT NULL)"
        )
        applied = {row["number"] for row in await connection.fetch("SELECT number FROM schema_migrations")}
        known = known_migrations()
        if unknown := applied - known.keys():
            raise SchemaTooNew(f"the database has migrations {sorted(unknown)}, which this version does not know")
        missing = [number for number in known if number not in applied]
        for number in missing:
            async with connection.transaction():
                await connection.execute(known[number])
                await connection.execute("INSERT INTO schema_migrations VALUES ($1, now())", number)
        return missing
    finally:
        await connection.close()


async def missing_migrations(connection: Connection) -> list[int]:
    """Return the numbers that a database still lacks; all of them when it was never migrated."""
    if await connection.fetchval("SELECT to_regclass('schema_migrations') IS NULL"):
        return list(known_migrations())
    applied = {row["number"] for row in await connection.fetch("SELECT number FROM schema_migrations")}
    return [number for number in known_migrations() if number not in applied]
