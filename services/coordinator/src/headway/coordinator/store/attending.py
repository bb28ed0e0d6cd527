"""Workers that are there, as rows; and the connection on which a coordinator hears of runs that are being stopped."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from headway.coordinator.ids import bucket_of
from headway.coordinator.store.errors import translated
from headway.coordinator.store.pool import CONNECT_TIMEOUT_SECONDS, Pool
from headway.coordinator.store.statements import SQL

STOPPING_CHANNEL = "headway_stopping"  # payload: a run's id, or a task's
Present: TypeAlias = tuple[str, str, tuple[str, ...]]
"""Namespace, owner and queues of a worker."""
Holding: TypeAlias = tuple[UUID, str, int, str]
"""Run, path, attempt and owner of a lease."""


async def connect_listener(database_url: str) -> "asyncpg.Connection[asyncpg.Record]":
    """Open a connection of its own, for LISTEN. Raises StoreUnavailable, StoreRejected."""
    with translated():
        return await asyncpg.connect(
            database_url, timeout=CONNECT_TIMEOUT_SECONDS, server_settings={"application_name": "headway-coordinator"}
        )


async def note_workers(pool: Pool, workers: Collection[Present]) -> None:
    """Write down that they are there."""
    with translated():
        async with pool.acquire() as connection:
            await connection.execute(
                SQL["note_workers"],
                [namespace for namespace, _, _ in workers],
                [owner for _, owner, _ in workers],
                ["\n".join(queues) for _, _, queues in workers],
            )


async def note_leaving(pool: Pool, namespace: str, owner: str, seen_until: datetime) -> None:
    """Write down that a worker left, unless it was seen later than that."""
    with translated():
        async with pool.acquire() as connection:
            await connection.execute(SQL["note_leaving"], namespace, owner, seen_until)


async def read_clock(pool: Pool) -> datetime:
    """The database's time."""
    with translated():
        async with pool.acquire() as connection:
            now: datetime = await connection.fetchval(SQL["clock"])
    return now


async def get_holders(pool: Pool, stopping: Iterable[tuple[UUID, str]]) -> Sequence[Holding]:
    """Who is to stop: holders of the tasks that are named by run and path, or all in runs that are named without."""
    whole: dict[int, list[UUID]] = {}
    single: dict[int, list[tuple[UUID, str]]] = {}
    for run_id, path in stopping:
        if path:
            single.setdefault(bucket_of(run_id), []).append((run_id, path))
        else:
            whole.setdefault(bucket_of(run_id), []).append(run_id)
    found: list[Holding] = []
    with translated():
        async with pool.acquire() as connection:
            for bucket, run_ids in whole.items():
                found += map(_holding, await connection.fetch(SQL["get_holders"], bucket, run_ids))
            for bucket, tasks in single.items():
                columns = [list(column) for column in zip(*tasks, strict=True)]
                found += map(_holding, await connection.fetch(SQL["get_holders_of_tasks"], bucket, *columns))
    return found


def _holding(record: Any) -> Holding:
    return record["run_id"], record["path"], record["attempt"], record["owner"]
