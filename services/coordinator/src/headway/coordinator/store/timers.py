"""Timers and applied requests, as a decision's transaction reads them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import orjson

from headway.coordinator.store.changes import Applied
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL

TimerKey: TypeAlias = tuple[UUID, str, str, int]  # (run, path, kind, attempt)


async def due_timers(connection: Connection, bucket: int, keys: Sequence[TimerKey], now: datetime) -> set[TimerKey]:
    """Which timers are there and due. Read under their runs' locks, so the answer holds until the commit."""
    if not keys:
        return set()
    columns = [list(column) for column in zip(*keys, strict=True)]
    records = await connection.fetch(SQL["due_timers"], bucket, *columns, now)
    return {(record["run_id"], record["path"], record["kind"], record["attempt"]) for record in records}


async def move_timers(connection: Connection, bucket: int, moved: Iterable[tuple[TimerKey, datetime]]) -> None:
    """Give timers a later time."""
    rows = [(*key, due_at) for key, due_at in moved]
    if rows:
        await connection.execute(SQL["put_timers"], bucket, *(list(column) for column in zip(*rows, strict=True)))


async def delete_timers(connection: Connection, bucket: int, keys: Iterable[TimerKey]) -> None:
    """Delete timers that fired or mean nothing any more; they may be gone already."""
    rows = [(bucket, *key) for key in keys]
    if rows:
        await connection.executemany(SQL["delete_timer"], rows)


async def find_requests(
    connection: Connection, bucket: int, requests: Iterable[tuple[UUID, UUID]]
) -> dict[tuple[UUID, UUID], Applied]:
    """Requests that were applied before, by (run, request)."""
    asked = list(requests)
    if not asked:
        return {}
    columns = [list(column) for column in zip(*asked, strict=True)]
    records = await connection.fetch(SQL["find_requests"], bucket, *columns)
    return {
        (record["run_id"], record["request_id"]): Applied(
            call=record["call"], fingerprint=record["fingerprint"], answer=orjson.loads(record["answer"])
        )
        for record in records
    }
