"""A page of a list costs about a page, however many runs are stored: counted, not timed."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest

from headway.coordinator.core.machines import RunState
from headway.coordinator.ids import KEY_BUCKETS
from headway.coordinator.store import listing
from headway.coordinator.store.listing import Place, RunFilter
from headway.coordinator.store.pool import Pool, open_pool
from headway.coordinator.store.statements import SQL

RUNS = 50_000
PAGE = 50
NOW = datetime(2026, 6, 1, tzinfo=UTC)
# 10 workflows of 3 versions each; of 1,000 runs 989 succeeded, 6 failed, 3 were cancelled, 2 run.
FILLED = """
INSERT INTO definitions (namespace, workflow, version, digest, source, plan, deployed, created_at)
SELECT 'default', 'flow' || w, v, w || '-' || v, '', '', v = 3, now()
FROM generate_series(0, 9) AS w, generate_series(1, 3) AS v;

INSERT INTO runs (bucket, run_id, namespace, workflow, version, state, epoch, seq, key, trace, vars, cancelling,
    failing, expired, open_tasks, succeeded_tasks, unhandled_tasks, error, failure_class, created_at, last_event_at,
    finished_at)
SELECT 0, (lpad(to_hex(n), 28, '0') || '0000')::uuid, 'default', 'flow' || n % 10, 1 + n * 3 / {runs}, state, 1, 5,
       'ORDER-' || n, '', '{{}}', false, false, false, CASE WHEN state = 'running' THEN 1 ELSE 0 END, 1, 0,
       CASE WHEN failure <> '' THEN '{{}}'::bytea END, failure, at, at,
       CASE WHEN state <> 'running' THEN at + interval '1 minute' END
FROM (
    SELECT n, timestamptz '2026-01-01 00:00Z' + n * interval '1 minute' AS at,
           CASE WHEN n % 1000 < 2 THEN 'running' WHEN n % 1000 < 5 THEN 'cancelled' WHEN n % 1000 < 11 THEN 'failed'
                ELSE 'succeeded' END AS state,
           CASE WHEN n % 1000 < 2 THEN '' WHEN n % 1000 < 5 THEN 'cancelled' WHEN n % 1000 < 7 THEN 'timeout'
                WHEN n % 1000 < 11 THEN 'exec_failed' ELSE '' END AS failure
    FROM generate_series(1, {runs}) AS n
) AS made;

INSERT INTO run_labels (bucket, run_id, name, value, namespace, created_at)
SELECT bucket, run_id, 'customer', (extract(epoch FROM created_at)::bigint / 60 % 1000)::text, namespace, created_at
FROM runs
UNION ALL
SELECT bucket, run_id, 'shop', 'corner', namespace, created_at FROM runs;

INSERT INTO start_keys (bucket, namespace, key, run_id, digest, created_at)
SELECT ('x' || substr(md5(key), 1, 2))::bit(8)::integer, namespace, key, run_id, '', created_at FROM runs;
"""
ALL_RUN = "UPDATE runs SET state = 'running', failure_class = '', error = NULL, finished_at = NULL"
FILTERS: Mapping[str, dict[str, Any]] = {
    "everything": {},
    "a workflow": {"workflow": "flow3"},
    "an old version": {"workflow": "flow3", "version": 1},
    "what succeeded": {"states": frozenset({RunState.SUCCEEDED})},
    "what failed": {"states": frozenset({RunState.FAILED})},
    "what runs": {"states": frozenset({RunState.RUNNING})},
    "what runs for long": {"states": frozenset({RunState.RUNNING}), "created": (listing.FIRST, NOW - timedelta(100))},
    "a class of failure": {"failure_class": "timeout"},
    "a workflow's cancelled": {"workflow": "flow2", "failure_class": "cancelled"},
    "a day long ago": {"created": (NOW - timedelta(140), NOW - timedelta(139))},
    "what ended in an hour": {"finished": (NOW - timedelta(140), NOW - timedelta(140) + timedelta(hours=1))},
    "what failed in a day": {
        "states": frozenset({RunState.FAILED}),
        "finished": (NOW - timedelta(140), NOW - timedelta(139)),
    },
    "what started and ended then": {"created": (listing.FIRST, NOW), "finished": (NOW - timedelta(140), listing.LAST)},
    "a label": {"labels": (("customer", "42"),)},
    "a label of all": {"labels": (("shop", "corner"),)},
    "two labels": {"labels": (("customer", "42"), ("shop", "corner"))},
    "a label of all, on a failure": {"labels": (("shop", "corner"),), "failure_class": "timeout"},
    "a label on what succeeded": {"labels": (("customer", "42"),), "states": frozenset({RunState.SUCCEEDED})},
    "keys that begin so": {"key_prefix": "ORDER-123"},
    "keys that begin so, failed": {"key_prefix": "ORDER-", "states": frozenset({RunState.FAILED})},
    "what is paused": {"paused": True},
    "what is paused, with a label of all": {"paused": True, "labels": (("shop", "corner"),)},
    "the beginning of an id": {"id_prefix": "0" * 25},
}
# What a page may read, in blocks of 8 KiB: a look-up is about four, a page of runs at the most one each.
LIMITS = {
    "a label of all, on a failure": 7_000,  # looks at many, as no index holds both
    "what is paused": 50,
    "what is paused, with a label of all": 100,
    "keys that begin so, failed": 7_000,
    "keys that begin so": 7_000,
    "what started and ended then": 4_000,
}
# By what an index finds runs before it goes on in the order of the list.
BEFORE_THE_ORDER: Mapping[str, tuple[str, ...]] = {"run_labels_by_value": ("name", "value"), "runs_paused": ()}
USUAL = 2_000  # 30 versions in 7 standings, a look-up each, when nothing narrows them down
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """A database of its own with many runs, and connections that tell what they read."""
    pool = await open_pool(database_url, size=1)
    async with pool.acquire() as connection:
        await connection.execute(FILLED.format(runs=RUNS))
        await connection.execute("ANALYZE")
    yield pool
    await pool.close()


class Counting:
    """A pool whose one connection counts the blocks that its statements read."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.blocks = 0
        self.scans: list[str] = []

    async def fetch(self, query: str, *arguments: Any) -> list[Any]:
        (explained,) = await self.connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", *arguments)
        (plan,) = json.loads(explained[0])
        top = plan["Plan"]
        self.blocks += top["Shared Hit Blocks"] + top["Shared Read Blocks"]
        self.scans += re.findall(r'"Node Type": "Seq Scan".*?"Relation Name": "(\w+)"', json.dumps(top))
        return await self.connection.fetch(query, *arguments)


async def test_a_page_of_every_filter_reads_about_a_page(pool: Pool) -> None:
    read: dict[str, int] = {}
    async with pool.acquire() as connection:
        for name, fields in FILTERS.items():
            wanted = RunFilter(namespace="default", **fields)
            after: Place | None = None
            for _ in range(2):  # the second page as well as the first
                counting: Any = Counting(connection)
                after = (await listing._find(counting, wanted, after, PAGE)).after
                read[name] = max(counting.blocks, read.get(name, 0))
                assert not {"runs", "run_labels", "start_keys"} & {*counting.scans}, name
                if after is None:
                    break

    assert {name: blocks for name, blocks in read.items() if blocks > LIMITS.get(name, USUAL)} == {}


async def test_a_few_paused_runs_are_found_among_many_that_run(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await connection.execute(
            "UPDATE runs SET state = 'running', failure_class = '', error = NULL, finished_at = NULL"
        )
        paused = await connection.fetch(
            "UPDATE runs SET paused_at = last_event_at WHERE key IN ('ORDER-7', 'ORDER-25000', 'ORDER-49000') "
            "RETURNING run_id"
        )
        await connection.execute("VACUUM ANALYZE runs")
        counting: Any = Counting(connection)

        page = await listing._find(counting, RunFilter(namespace="default", paused=True), None, PAGE)

    assert ({*page.run_ids}, page.after) == ({record["run_id"] for record in paused}, None)
    assert counting.blocks < 50


async def test_a_step_of_a_run_writes_to_no_index_of_runs(database: Connection) -> None:
    """A pause is the only thing that the index of paused runs is written for."""
    await database.execute(FILLED.format(runs=10))
    await database.execute(ALL_RUN)
    await database.execute("VACUUM runs")
    await database.execute("UPDATE runs SET paused_at = last_event_at WHERE key = 'ORDER-1'")
    before = await _updates(database)

    for _ in range(3):
        await database.execute("UPDATE runs SET seq = seq + 1, open_tasks = 2, last_event_at = now()")

    assert await _updates(database) == (before[0] + 30, before[1] + 30)


async def _updates(database: Connection) -> tuple[int, int]:
    """How many rows of `runs` were updated, and how many of these updates no index has heard of."""
    await database.execute("SELECT pg_stat_force_next_flush()")
    row = await database.fetchrow("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'runs'")
    assert row is not None
    return row["n_tup_upd"], row["n_tup_hot_upd"]


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("find_by_creation", "runs_by_creation"),
        ("find_by_end", "runs_by_end"),
        ("find_by_label", "run_labels_by_value"),
        ("find_paused", "runs_paused"),
    ],
)
async def test_on_a_young_table_streams_are_read_by_their_index(
    statement: str, index: str, database: Connection
) -> None:
    count = max(int(number) for number in re.findall(r"\$(\d+)", SQL[statement]))
    await database.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
    await database.execute(f"PREPARE asked AS {SQL[statement]}")

    plan = [record[0] for record in await database.fetch(f"EXPLAIN EXECUTE asked({', '.join(['NULL'] * count)})")]

    scans = [(place, line) for place, line in enumerate(plan) if re.search(r" on (runs|run_labels)\b", line)]
    assert scans
    for place, line in scans:
        assert index in line, line
        condition = plan[place + 1]
        for column in ("namespace", *BEFORE_THE_ORDER.get(index, ("workflow", "version", "state"))):
            assert re.search(rf"\b{column} = ", condition), condition
        assert "ROW(" in condition, condition


def test_all_standings_that_the_schema_allows_are_looked_for() -> None:
    assert len(set(listing.STANDINGS)) == len(listing.STANDINGS)
    assert {state for state, _ in listing.STANDINGS} == {*RunState}
    assert KEY_BUCKETS == 256


@pytest.mark.parametrize(
    ("beginning", "behind"), [("a", "b"), ("ORDER-", "ORDER."), ("\ud7ff", "\ue000"), ("a\U0010ffff", "b")]
)
def test_the_least_text_behind_a_beginning(beginning: str, behind: str) -> None:
    assert listing._behind_all_with(beginning) == behind


def test_places_of_lists_are_ordered_as_the_index_is() -> None:
    early, late = Place(listing.Order.CREATION, NOW, UUID(int=1)), Place(listing.Order.CREATION, NOW, UUID(int=2))

    assert listing._is_behind(early, late)
    assert not listing._is_behind(late, early)
