"""Brings a database's schema up to date: numbered migrations, forward only, one transaction each. All DDL is here."""

import re
from hashlib import sha256
from importlib import resources

import asyncpg

from headway.coordinator.store.errors import translated
from headway.coordinator.store.pool import Connection, Pool

_FILE = re.compile(r"(\d{4})_\w+\.sql")
_LOCK = 0x6865616477617900  # one migrator at a time; freed with the session


class SchemaTooNew(Exception):
    """The database has migrations that this version does not know: upgrade the program, not the database."""


class SchemaChanged(Exception):
    """The database has a migration whose text was another one: it was made by a version that was never released."""

    def __init__(self, changed: list[int]) -> None:
        """Name the migrations, and what to do."""
        super().__init__(
            f"its migrations {changed} are those of another development version;"
            " begin anew with `headway dev --fresh`, or with an empty database"
        )


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
        SchemaChanged: the database was made by another development version.
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
            " number integer NOT NULL CONSTRAINT schema_migrations_pkey PRIMARY KEY, applied_at timestamptz NOT NULL,"
            " digest text NOT NULL)"
        )
        known = known_migrations()
        applied = await _applied(connection)
        if unknown := applied - known.keys():
            raise SchemaTooNew(f"the database has migrations {sorted(unknown)}, which this version does not know")
        missing = [number for number in known if number not in applied]
        for number in missing:
            async with connection.transaction():
                await connection.execute(known[number])
                await connection.execute(
                    "INSERT INTO schema_migrations VALUES ($1, now(), $2)", number, digest(known[number])
                )
        return missing
    finally:
        await connection.close()


async def fault_of_schema(pool: Pool) -> str:
    """What has to be done before a database can be used; '' when it can be.

    Raises:
        StoreUnavailable, StoreRejected: the database cannot be reached, or refuses.
    """
    with translated():
        async with pool.acquire() as connection:
            try:
                missing = await missing_migrations(connection)
            except SchemaChanged as error:
                return str(error)
    return f"it lacks migrations {missing}: run `headway db upgrade`" if missing else ""


async def missing_migrations(connection: Connection) -> list[int]:
    """Return the numbers that a database still lacks; all of them when it was never migrated.

    Raises:
        SchemaChanged: the database was made by another development version.
    """
    if await connection.fetchval("SELECT to_regclass('schema_migrations') IS NULL"):
        return list(known_migrations())
    applied = await _applied(connection)
    return [number for number in known_migrations() if number not in applied]


def digest(migration: str) -> str:
    """What tells a migration's text from another one."""
    return sha256(migration.encode()).hexdigest()


async def _applied(connection: Connection) -> set[int]:
    # (As JSON, because the column is younger than the first databases of developers.)
    rows = await connection.fetch("SELECT number, to_jsonb(m) ->> 'digest' AS digest FROM schema_migrations AS m")
    known = {number: digest(text) for number, text in known_migrations().items()}
    changed = sorted(row["number"] for row in rows if row["number"] in known and row["digest"] != known[row["number"]])
    if changed:
        raise SchemaChanged(changed)
    return {row["number"] for row in rows}
