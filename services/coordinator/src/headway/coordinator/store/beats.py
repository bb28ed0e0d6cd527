"""Signs of life of handlers: beside the decisions, with Renew, Lease and the reports that end an attempt."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL


class Beat(Struct, frozen=True, kw_only=True):
    """A handler's latest heartbeat, as a renewal brings it.

    Attributes:
        age_ms: how long ago it was.
        progress_age_ms: how long ago its percent, message or checkpoint was last new; None: never in this attempt.
        percent, message, checkpoint: None: as before. The checkpoint is JSON.
    """

    age_ms: int
    progress_age_ms: int | None = None
    percent: float | None = None
    message: str | None = None
    checkpoint: bytes | None = None


async def put_beats(connection: Connection, bucket: int, given: Iterable[tuple[UUID, str, int, str, Beat]]) -> None:
    """Keep heartbeats: (run, path, attempt, owner, beat), one for each attempt; those of others change nothing."""
    rows = [
        (run_id, path, attempt, owner, beat.age_ms, beat.progress_age_ms, beat.percent, beat.message, beat.checkpoint)
        for run_id, path, attempt, owner, beat in given
    ]
    if rows:
        await connection.execute(SQL["put_beats"], bucket, *_columns(rows))


async def put_checkpoints(
    connection: Connection, bucket: int, rows: Sequence[tuple[UUID, str, int, int, bytes]], now: datetime
) -> None:
    """Keep checkpoints that came with reports: (run, path, generation, attempt, JSON), one for each task."""
    if rows:
        await connection.execute(SQL["put_checkpoints"], bucket, now, *_columns(rows))


async def get_checkpoints(
    connection: Connection, bucket: int, asked: Sequence[tuple[UUID, str, int]]
) -> dict[int, bytes]:
    """Checkpoints for (run, path, generation), by the place, from 0, of what was asked for."""
    if not asked:
        return {}
    records = await connection.fetch(SQL["get_checkpoints"], bucket, *_columns(asked))
    return {record["n"] - 1: record["checkpoint"] for record in records}


def _columns(rows: Sequence[tuple[object, ...]]) -> Iterable[tuple[object, ...]]:
    return zip(*rows, strict=True)
