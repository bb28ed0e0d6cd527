"""The read side: what is shown of runs. No locks; a read sees what has committed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

import asyncpg

from headway.coordinator.core.decide.redone import NAMED, Before, Ended, Items
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.rows import ChildRow
from headway.coordinator.ids import bucket_of
from headway.coordinator.store.deleting import get_ends
from headway.coordinator.store.errors import translated
from headway.coordinator.store.loading import find_children
from headway.coordinator.store.pool import Connections
from headway.coordinator.store.statements import SQL

OUTPUT_LIMIT = 64 * 1024  # bytes of a task's output that are shown with its run
STALE_REPORTS = 100  # the latest, that are shown with a run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run with what hangs on it; records as the statements name their columns."""

    run_id: UUID
    run: asyncpg.Record
    tasks: Sequence[asyncpg.Record]
    attempts: Sequence[asyncpg.Record]
    stale_reports: Sequence[asyncpg.Record]
    more_stale_reports: bool
    loops: Sequence[asyncpg.Record] = ()
    children: Mapping[str, ChildRow] = field(default_factory=dict[str, ChildRow])


async def get_version(connections: Connections, run_id: UUID, namespace: str) -> tuple[str, int] | None:
    """The workflow and the version of a run, or None when there is none in the namespace."""
    with translated():
        async with connections.acquire() as connection:
            record = await connection.fetchrow(SQL["get_run_version"], bucket_of(run_id), run_id, namespace)
    return None if record is None else (record["workflow"], record["version"])


async def get_run(
    connections: Connections,
    run_id: UUID,
    namespace: str,
    paths: Sequence[str] | None,
    subflows: Sequence[str] = (),
    output_limit: int = OUTPUT_LIMIT,
) -> RunView | None:
    """A run, or None when there is none in the namespace.

    Args:
        connections: to read with.
        run_id: the run.
        namespace: that it must be in.
        paths: of the tasks to show; None: all, of a run without maps and repeats.
        subflows: those of subflow nodes.
        output_limit: bytes of the largest outputs to read.
    """
    bucket = bucket_of(run_id)
    with translated():
        async with (
            connections.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            run = await connection.fetchrow(SQL["get_run"], bucket, run_id, namespace)
            if run is None:
                return None
            late = await connection.fetch(SQL["get_stale_reports"], bucket, run_id, STALE_REPORTS + 1)
            stale_reports, more = late[:STALE_REPORTS], len(late) > STALE_REPORTS
            children = await find_children(connection, bucket, run_id, subflows)
            if paths is None:
                return RunView(
                    run_id=run_id,
                    run=run,
                    tasks=await connection.fetch(SQL["get_run_tasks"], bucket, run_id, output_limit),
                    attempts=await connection.fetch(SQL["get_run_attempts"], bucket, run_id),
                    stale_reports=stale_reports,
                    more_stale_reports=more,
                    children=children,
                )
            return RunView(
                run_id=run_id,
                run=run,
                tasks=await connection.fetch(SQL["get_named_tasks"], bucket, run_id, paths, output_limit),
                attempts=await connection.fetch(SQL["get_named_attempts"], bucket, run_id, paths),
                stale_reports=stale_reports,
                more_stale_reports=more,
                loops=await connection.fetch(SQL["get_run_loops"], bucket, run_id, paths),
                children=children,
            )


async def look_before_retry(connections: Connections, run_id: UUID, graph: Graph) -> Before:
    """What the answer to a retry tells besides what its decision reads."""
    bucket = bucket_of(run_id)
    asked: list[UUID] = []
    items: Mapping[str, Items] = {}
    effects: list[Any] = []
    with translated():
        async with connections.acquire() as connection:
            if graph.has_subflows:
                records = await connection.fetch(SQL["find_ended_children"], bucket, run_id)
                asked = [record["child_run_id"] for record in records]
            if graph.bodies:
                items = _items_of(await connection.fetch(SQL["count_items"], bucket, run_id, [*graph.bodies], NAMED))
            if graph.can_undo:
                effects = await connection.fetch(SQL["count_effects"], bucket, run_id)
    there = await get_ends(connections, asked) if asked else {}
    return Before(
        gone=frozenset(child.hex for child in asked if child not in there),
        items=items,
        effects={record["node"]: record["count"] for record in effects},
    )


def _items_of(records: Iterable[asyncpg.Record]) -> Mapping[str, Items]:
    """By map or repeat; one that has begun no item has a record, too."""
    found: dict[str, Items] = {}
    for path, of_path in groupby(records, itemgetter("path")):
        first, *_ = rows = [*of_path]
        ended = tuple(
            Ended(RunState(row["state"]), row["undone"], row["count"], tuple(row["first"]))
            for row in rows
            if row["state"]
        )
        found[path] = Items(total=first["total"], started=first["started"], ended=ended)
    return found


async def get_items(
    connections: Connections, run_id: UUID, loop: str, state: str, from_index: int, limit: int, output_limit: int
) -> list[Any]:
    """Items of a map, or iterations of a repeat, from an index on; results up to so many bytes."""
    with translated():
        async with connections.acquire() as connection:
            return await connection.fetch(
                SQL["get_run_items"], bucket_of(run_id), run_id, loop, from_index, limit, output_limit, state
            )


async def get_run_state(connections: Connections, run_id: UUID, namespace: str) -> tuple[str, int] | None:
    """Its state and the number of its latest event, or None."""
    with translated():
        async with connections.acquire() as connection:
            record = await connection.fetchrow(SQL["get_run_state"], bucket_of(run_id), run_id, namespace)
    return None if record is None else (record["state"], record["seq"])


async def get_events(connections: Connections, run_id: UUID, from_seq: int, limit: int) -> list[Any]:
    """A stretch of a run's history."""
    with translated():
        async with connections.acquire() as connection:
            return await connection.fetch(SQL["get_events"], bucket_of(run_id), run_id, from_seq, limit)
