"""The read side: what is shown of runs. No locks; a read sees what has committed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg

from headway.coordinator.core.rows import ChildRow
from headway.coordinator.ids import bucket_of
from headway.coordinator.store.deleting import get_ends
from headway.coordinator.store.errors import translated
from headway.coordinator.store.loading import find_children
from headway.coordinator.store.pool import Pool
from headway.coordinator.store.statements import SQL

OUTPUT_LIMIT = 64 * 1024  # bytes of a task's output that are shown with its run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run with what hangs on it; records as the statements name their columns."""

    run_id: UUID
    run: asyncpg.Record
    tasks: Sequence[asyncpg.Record]
    attempts: Sequence[asyncpg.Record]
    stale_reports: Sequence[asyncpg.Record]
    loops: Sequence[asyncpg.Record] = ()
    children: Mapping[str, ChildRow] = field(default_factory=dict[str, ChildRow])


async def get_version(pool: Pool, run_id: UUID, namespace: str) -> tuple[str, int] | None:
    """The workflow and the version of a run, or None when there is none in the namespace."""
    with translated():
        async with pool.acquire() as connection:
            record = await connection.fetchrow(SQL["get_run_version"], bucket_of(run_id), run_id, namespace)
    return None if record is None else (record["workflow"], record["version"])


async def get_run(
    pool: Pool, run_id: UUID, namespace: str, paths: Sequence[str] | None, subflows: Sequence[str] = ()
) -> RunView | None:
    """A run, or None when there is none in the namespace.

    Args:
        pool: of connections.
        run_id: the run.
        namespace: that it must be in.
        paths: of the tasks to show; None: all, of a run without maps and repeats.
        subflows: those of subflow nodes.
    """
    bucket = bucket_of(run_id)
    with translated():
        async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            run = await connection.fetchrow(SQL["get_run"], bucket, run_id, namespace)
            if run is None:
                return None
            stale_reports = await connection.fetch(SQL["get_stale_reports"], bucket, run_id)
            children = await find_children(connection, bucket, run_id, subflows)
            if paths is None:
                return RunView(
                    run_id=run_id,
                    run=run,
                    tasks=await connection.fetch(SQL["get_run_tasks"], bucket, run_id, OUTPUT_LIMIT),
                    attempts=await connection.fetch(SQL["get_run_attempts"], bucket, run_id),
                    stale_reports=stale_reports,
                    children=children,
                )
            return RunView(
                run_id=run_id,
                run=run,
                tasks=await connection.fetch(SQL["get_named_tasks"], bucket, run_id, paths, OUTPUT_LIMIT),
                attempts=await connection.fetch(SQL["get_named_attempts"], bucket, run_id, paths),
                stale_reports=stale_reports,
                loops=await connection.fetch(SQL["get_run_loops"], bucket, run_id, paths),
                children=children,
            )


async def find_gone_children(pool: Pool, run_id: UUID) -> frozenset[str]:
    """Ids, in hexadecimal digits, of runs that a retry would take up and that have been deleted."""
    with translated():
        async with pool.acquire() as connection:
            records = await connection.fetch(SQL["find_ended_children"], bucket_of(run_id), run_id)
    asked = [record["child_run_id"] for record in records]
    there = await get_ends(pool, asked) if asked else {}
    return frozenset(child.hex for child in asked if child not in there)


async def get_items(pool: Pool, run_id: UUID, loop: str, state: str, from_index: int, limit: int) -> list[Any]:
    """Items of a map, or iterations of a repeat, from an index on."""
    with translated():
        async with pool.acquire() as connection:
            return await connection.fetch(
                SQL["get_run_items"], bucket_of(run_id), run_id, loop, from_index, limit, OUTPUT_LIMIT, state
            )


async def get_run_state(pool: Pool, run_id: UUID, namespace: str) -> tuple[str, int] | None:
    """Its state and the number of its latest event, or None."""
    with translated():
        async with pool.acquire() as connection:
            record = await connection.fetchrow(SQL["get_run_state"], bucket_of(run_id), run_id, namespace)
    return None if record is None else (record["state"], record["seq"])


async def get_events(pool: Pool, run_id: UUID, from_seq: int, limit: int) -> list[Any]:
    """A stretch of a run's history."""
    with translated():
        async with pool.acquire() as connection:
            return await connection.fetch(SQL["get_events"], bucket_of(run_id), run_id, from_seq, limit)
