"""Whatever the statistics say of the tables, rows that are named by key are looked up by their whole key.

On a young table, or on one that was empty when it was looked at last, every plan seems as good as another.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from headway.coordinator.store.statements import SQL

RUN_KEY = ("bucket", "run_id")
# What every look-up in a table has to compare, and in which of its indexes.
BY_KEY = {
    "runs": RUN_KEY,
    "tasks": RUN_KEY,
    "outputs": RUN_KEY,
    "tokens": RUN_KEY,
    "attempts": RUN_KEY,
    "beats": RUN_KEY,
    "signals": RUN_KEY,
    "requests": RUN_KEY,
    "stale_reports": RUN_KEY,
    "loops": RUN_KEY,
    "scopes": RUN_KEY,
    "effects": RUN_KEY,
    "waits": RUN_KEY,
    "timers": RUN_KEY,
    "run_events": RUN_KEY,
    "run_labels": RUN_KEY,
    "start_keys": ("bucket", "namespace", "key"),
}
# And in those that every step goes through, in a large run too, the rest of the key too.
HOT = {
    "grant_leases",
    "look_at_leases",
    "renew_leases",
    "look_at_renewals",
    "get_scopes",
    "delete_scope",
    "delete_wait",
}
BY_WHOLE_KEY = BY_KEY | {
    "tasks": (*RUN_KEY, "path"),
    "outputs": (*RUN_KEY, "path", "attempt", "role"),
    "scopes": (*RUN_KEY, "loop", "index"),
    "waits": (*RUN_KEY, "path"),
}
ALSO_BY_KEY = {"signals_waiting", "waits_by_name"}
# What these read instead is shown by test_lists.py.
NOT_BY_KEY = {
    "find_by_creation",
    "find_by_end",
    "find_by_label",
    "find_paused",
    "find_expired",
    "find_tombstones",
    "sweep_lost",
    "sweep_aged",
    "ready_tasks",
    "count_open_runs",
    "find_runs_of_version",
    "empty_deleted",
}
NAMES = sorted(SQL.keys() - NOT_BY_KEY)
ROWS = 1_000
FILL = f"""
INSERT INTO runs (bucket, run_id, namespace, workflow, version, state, failure_class, epoch, seq, trace, vars,
                  cancelling, failing, expired, open_tasks, succeeded_tasks, unhandled_tasks, error, created_at,
                  last_event_at, finished_at)
SELECT 0, ('00000000-0000-0000-0000-' || lpad(n::text, 8, '0') || '0000')::uuid, 'default', 'flow', 1,
       CASE n % 2 WHEN 0 THEN 'running' ELSE 'failed' END, CASE n % 2 WHEN 0 THEN '' ELSE 'timeout' END, 1, 1, '',
       '{{}}', false, false, false, 0, 0, 0, CASE n % 2 WHEN 1 THEN '{{}}'::bytea END, now(), now(),
       CASE n % 2 WHEN 1 THEN now() END
FROM generate_series(1, {ROWS}) AS s (n);
INSERT INTO tasks (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler, lease_ms,
                   created_at, sweep_at, owner, grant_key, lease_expires_at, reported)
SELECT bucket, run_id, path, t.state, 1, 1, 0, 0, namespace, 'q', 'h', 60000, created_at, created_at, holder, holder,
       CASE WHEN holder IS NOT NULL THEN created_at END, false
FROM runs, (VALUES ('a', 'ready', NULL), ('b', 'running', 'holder')) AS t (path, state, holder);
INSERT INTO outputs (bucket, run_id, path, attempt, role, data)
SELECT bucket, run_id, path, 1, 'o', '1' FROM tasks;
INSERT INTO tokens (bucket, run_id, path, live, dead, failed, always, names)
SELECT bucket, run_id, path, '', '', '', '', '{{}}' FROM tasks;
INSERT INTO attempts (bucket, run_id, path, attempt, ended_at, outcome, reported)
SELECT bucket, run_id, path, 1, now(), 'lost', false FROM tasks;
INSERT INTO loops (bucket, run_id, path, attempt, total, started, open, succeeded, failed, cancelled, output_bytes,
                   failures, closing, redo_failed)
SELECT bucket, run_id, path, 1, 1, 1, 1, 0, 0, 0, 0, '[]', false, false FROM tasks;
INSERT INTO scopes (bucket, run_id, path, loop, index, state, attempt, failing, stopped, open_tasks, succeeded_tasks,
                    unhandled_tasks, output_bytes, created_at)
SELECT bucket, run_id, path || '[0]', path, 0, 'running', 1, false, false, 1, 0, 0, 0, now() FROM tasks;
INSERT INTO effects (bucket, run_id, place, path, attempt, gave)
SELECT bucket, run_id, length(path), path, 1, 'output' FROM tasks
ON CONFLICT DO NOTHING;
INSERT INTO waits (bucket, run_id, path, name, place) SELECT bucket, run_id, path, path, 1 FROM tasks;
INSERT INTO beats (bucket, run_id, path, generation, attempt, beat_at)
SELECT bucket, run_id, path, 1, 1, now() FROM tasks;
INSERT INTO run_events (bucket, run_id, seq, at, attempt, format, path, type, event, actions)
SELECT bucket, run_id, 1, now(), 0, 1, '', 'started', '', '' FROM runs;
INSERT INTO timers (bucket, run_id, path, kind, attempt, due_at)
SELECT bucket, run_id, path, 'wait', 1, now() FROM tasks;
INSERT INTO signals (bucket, run_id, seq, name, payload, received_at)
SELECT bucket, run_id, 1, 'go', '1', now() FROM runs;
INSERT INTO requests SELECT bucket, run_id, run_id, 'Signal', '', '{{}}' FROM runs;
INSERT INTO stale_reports (bucket, run_id, path, attempt, owner, answer, at)
SELECT bucket, run_id, path, 1, 'holder', 'stale', now() FROM tasks;
INSERT INTO run_labels (bucket, run_id, name, value, namespace, created_at)
SELECT bucket, run_id, 'team', 'red', namespace, created_at FROM runs;
INSERT INTO start_keys (bucket, namespace, key, run_id, digest, created_at)
SELECT bucket, namespace, run_id::text, run_id, '', now() FROM runs;
"""


async def faults(database: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    """What is not looked up by key, as the coordinator's connections plan."""
    await database.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
    table_of = {
        record["indexrelid"]: record["indrelid"]
        for record in await database.fetch("SELECT indexrelid::regclass::text, indrelid::regclass::text FROM pg_index")
    }
    found = list[str]()
    for name in NAMES:
        count = max((int(number) for number in re.findall(r"\$(\d+)", SQL[name])), default=0)
        arguments = f"({', '.join(['NULL'] * count)})" if count else ""
        await database.execute(f"PREPARE asked AS {SQL[name]}")
        [plan] = json.loads(await database.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked{arguments}"))
        await database.execute("DEALLOCATE asked")
        keys = BY_WHOLE_KEY if name in HOT else BY_KEY
        for node in nodes(plan["Plan"]):
            index = node.get("Index Name")
            table = table_of[index] if index else node.get("Relation Name", "")
            compared = node.get("Index Cond", "")
            is_key = index == f"{table}_pkey" or index in ALSO_BY_KEY
            is_whole = all(re.search(rf"\b{column}\b", compared) for column in keys.get(table, ()))
            if table in keys and "Scan" in node["Node Type"] and not (is_key and is_whole):
                found.append(f"{name}: {node['Node Type']} on {table} by {index}: {compared}")
    return found


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All nodes of a plan but those that read what a bitmap of an index names: that index stands below them."""
    if plan["Node Type"] != "Bitmap Heap Scan":
        yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


@pytest.fixture
async def young(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection to a database that nobody has used."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def test_on_young_tables(young: asyncpg.Connection[asyncpg.Record]) -> None:
    assert await faults(young) == []


@pytest.mark.parametrize("look", ["ANALYZE", "VACUUM"])
@pytest.mark.parametrize("kept", [0, 2, 10, ROWS])
async def test_on_tables_that_held_so_many_rows_when_they_were_looked_at_last(
    kept: int, look: str, young: asyncpg.Connection[asyncpg.Record]
) -> None:
    await young.execute(FILL)
    for table in BY_KEY:
        await young.execute(f"CREATE TEMP TABLE all_{table} AS TABLE {table}")
        await young.execute(f"DELETE FROM {table} WHERE ctid <> ALL (ARRAY(SELECT ctid FROM {table} LIMIT {kept}))")
    await young.execute(f"{look} {', '.join(BY_KEY)}")
    for table in BY_KEY:
        await young.execute(f"INSERT INTO {table} SELECT * FROM all_{table} ON CONFLICT DO NOTHING")

    assert await faults(young) == []


@pytest.mark.parametrize("look", ["ANALYZE", "VACUUM"])
async def test_on_tables_in_which_nothing_was_under_way_when_they_were_looked_at_last(
    look: str, young: asyncpg.Connection[asyncpg.Record]
) -> None:
    await young.execute(FILL)
    await young.execute("CREATE TEMP TABLE under_way AS TABLE tasks")
    await young.execute(
        "UPDATE tasks SET state = 'succeeded', finished_at = now(), grant_key = NULL, lease_expires_at = NULL,"
        " sweep_at = NULL"
    )
    await young.execute(f"{look} {', '.join(BY_KEY)}")
    await young.execute("DELETE FROM tasks")
    await young.execute("INSERT INTO tasks SELECT * FROM under_way")

    assert await faults(young) == []
