"""On a young table every plan seems as good as another: the look-ups by key must be planned as such all the same."""

from __future__ import annotations

import re

import asyncpg
import pytest

from headway.coordinator.store.statements import SQL

BY_KEY = {
    "runs": "run_id",
    "tasks": "run_id",
    "outputs": "run_id",
    "tokens": "run_id",
    "attempts": "run_id",
    "beats": "run_id",
    "signals": "run_id",
    "requests": "run_id",
    "loops": "run_id",
    "scopes": "run_id",
    "timers": "run_id",
    "run_events": "run_id",
    "start_keys": "key",
    "run_labels": "run_id",
}
# What these read instead is shown by test_lists.py.
NOT_BY_KEY = {
    "find_by_creation",
    "find_by_end",
    "find_by_label",
    "find_expired",
    "sweep_lost",
    "sweep_aged",
    "ready_tasks",
    "count_open_runs",
    "find_runs_of_version",
    "empty_deleted",
}
SCAN = re.compile(r"(?:Scan|Scan Backward) using (\w+) on (\w+)")


@pytest.mark.parametrize("name", sorted(SQL.keys() - NOT_BY_KEY))
async def test_rows_named_by_key_are_found_by_their_key(
    name: str, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    count = max((int(number) for number in re.findall(r"\$(\d+)", SQL[name])), default=0)
    arguments = f"({', '.join(['NULL'] * count)})" if count else ""
    await database.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
    await database.execute(f"PREPARE asked AS {SQL[name]}")

    plan = [record[0] for record in await database.fetch(f"EXPLAIN EXECUTE asked{arguments}")]

    for place, line in enumerate(plan):
        if "Seq Scan on" in line:
            assert not any(f" {table} " in f"{line} " for table in BY_KEY), line
        if found := SCAN.search(line):
            key = BY_KEY.get(found[2])
            conditions = next((text for text in plan[place + 1 : place + 3] if "Index Cond" in text), "")
            assert key is None or re.search(rf"\b{key}\b", conditions), f"{line}\n{conditions}"
            assert found[1] not in {"runs_by_creation", "runs_by_end", "run_labels_by_value"}, line
