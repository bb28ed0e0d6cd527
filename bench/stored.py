"""Finished runs in bulk: the rows of one that really ran, over and over, under other ids.

Nothing here knows the schema: whatever table has a bucket and a run's id is multiplied. So every row is the engine's
own work, but for its id; and the id's last 16 bits are the bucket, as everywhere.
"""

import sys
import time
from dataclasses import dataclass
from uuid import UUID

import asyncpg

AT_A_TIME = 50_000  # runs of one transaction
TABLES = """
SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = current_schema()::regnamespace
  AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
GROUP BY c.relname HAVING array_agg(a.attname::text) @> '{bucket,run_id}'
ORDER BY c.relname
"""
# Time-ordered, as the engine's: milliseconds before now, version and variant of a UUID, a number, the bucket.
FRESH_IDS = """
CREATE TEMPORARY TABLE fresh ON COMMIT DROP AS
SELECT place.bucket, (
         lpad(to_hex(extract(epoch FROM now())::bigint * 1000 - $2 + number), 12, '0')
         || '7000' || '8' || lpad(to_hex(number), 11, '0') || lpad(to_hex(place.bucket::integer), 4, '0')
       )::uuid AS run_id
FROM generate_series($1::bigint, $2::bigint) AS number
CROSS JOIN LATERAL (
    SELECT bucket FROM buckets ORDER BY bucket LIMIT 1 OFFSET number % (SELECT count(*) FROM buckets)
) AS place
"""


class NotMultipliable(Exception):
    """A row of the template holds the run's id besides the column for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that has rows of runs."""

    name: str
    columns: tuple[str, ...]

    def multiply(self) -> str:
        """The statement that copies one run's rows for each fresh id; its parameter is that run's id."""
        names = ", ".join(self.columns)
        values = ", ".join(f"fresh.{each}" if each in {"bucket", "run_id"} else f"t.{each}" for each in self.columns)
        return (
            f"INSERT INTO {self.name} ({names}) SELECT {values} FROM {self.name} t CROSS JOIN fresh WHERE t.run_id = $1"
        )


async def tables_of_runs(database: "asyncpg.Connection[asyncpg.Record]") -> list[Table]:
    """The tables with rows of runs."""
    return [Table(name=each["name"], columns=tuple(each["columns"])) for each in await database.fetch(TABLES)]


async def store(database: "asyncpg.Connection[asyncpg.Record]", run_id: str, count: int) -> None:
    """Store so many copies of a finished run, spread over the buckets; what waits for nothing is left as if it aged.

    Args:
        database: As a user that may switch triggers off: the foreign keys hold by construction.
        run_id: The run that really ran.
        count: How many.

    Raises:
        NotMultipliable: The run's id stands where it is not replaced.
    """
    template = UUID(run_id)
    tables = await tables_of_runs(database)
    await require_multipliable(database, tables, template)
    began = time.monotonic()
    await database.execute("SET session_replication_role = replica; SET synchronous_commit = off")
    for first in range(1, count + 1, AT_A_TIME):
        async with database.transaction():
            await database.execute(FRESH_IDS, first, min(first + AT_A_TIME - 1, count))
            await multiply(database, tables, template)
        print(f"stored {min(first + AT_A_TIME - 1, count)} runs: {time.monotonic() - began:.0f} s", file=sys.stderr)
    await database.execute("RESET session_replication_role; RESET synchronous_commit")
    await database.execute("VACUUM ANALYZE")
    await database.execute("CHECKPOINT")


async def multiply(database: "asyncpg.Connection[asyncpg.Record]", tables: list[Table], template: UUID) -> None:
    """Copy a run's rows for each row of the temporary table `fresh` (bucket, run_id)."""
    for table in tables:
        await database.execute(table.multiply(), template)


async def require_multipliable(
    database: "asyncpg.Connection[asyncpg.Record]", tables: list[Table], template: UUID
) -> None:
    """Refuse a run whose id stands in a column that is copied as it is, in whatever spelling.

    Raises:
        NotMultipliable: It does.
    """
    spellings = (template.bytes, template.hex.encode(), str(template).encode())
    for table in tables:
        others = [name for name in table.columns if name not in {"bucket", "run_id"}]
        rows = await database.fetch(f"SELECT {', '.join(others)} FROM {table.name} WHERE run_id = $1", template)
        for row in rows:
            held = [name for name in others if any(each in _bytes(row[name]) for each in spellings)]
            if held:
                raise NotMultipliable(f"{table.name}: {', '.join(held)}")


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
