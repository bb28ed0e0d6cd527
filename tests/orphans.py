"""Rows without the row that they belong to. No foreign key forbids them: only how transactions are made does."""

from __future__ import annotations

import asyncpg

# A start key claims its run before it is there.
_OF_A_RUN = """
SELECT c.relname
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
WHERE a.attname = 'run_id' AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
  AND c.relname NOT IN ('runs', 'start_keys')
ORDER BY c.relname
"""
_ONLY = {"outbox": "AND x.kind = 'dispatch'"}  # a hand-over may be for a run that is only to be started


async def orphans(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, int]:
    """How many rows of each table are without their run, and how many attempts without their task; none: empty."""
    found: dict[str, int] = {}
    for (table,) in await connection.fetch(_OF_A_RUN):
        found[table] = await connection.fetchval(
            f"SELECT count(*) FROM {table} AS x LEFT JOIN runs AS r USING (bucket, run_id)"
            f" WHERE r.run_id IS NULL {_ONLY.get(table, '')}"
        )
    found["attempts of no task"] = await connection.fetchval(
        "SELECT count(*) FROM attempts AS x LEFT JOIN tasks AS t USING (bucket, run_id, path) WHERE t.path IS NULL"
    )
    assert len(found) > 8, f"tables of runs were not found: {found}"
    return {table: count for table, count in found.items() if count}
