"""Lease and Renew: task rows are locked without ever waiting, and without the run's lock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from headway.coordinator.core.admission import RunGate
from headway.coordinator.core.machines import FINAL_RUN_STATES
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.saving import guarded
from headway.coordinator.store.statements import SQL

TaskKey = tuple[UUID, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLease:
    """A lease to write."""

    run_id: UUID
    path: str
    attempt: int
    owner: str
    grant_key: str
    leased_at: datetime
    expires_at: datetime
    attempt_expires_at: datetime | None


def gate(record: asyncpg.Record) -> RunGate:
    """What Lease and Renew know of a task's run."""
    return RunGate(
        is_final=record["run_state"] in FINAL_RUN_STATES,
        is_stopping=record["cancelling"] or record["expired"] or record["finish_path"] is not None,
        is_failing=record["failing"],
    )


async def lock_leases(
    connection: Connection, bucket: int, keys: Sequence[TaskKey], input_bytes: int
) -> dict[TaskKey, Any]:
    """Lock task rows and read their inputs, as far as those fit together; skips what is locked."""
    arrays = [key[0] for key in keys], [key[1] for key in keys]
    records = await connection.fetch(SQL["lock_leases"], bucket, *arrays, input_bytes)
    return {(record["run_id"], record["path"]): record for record in records}


async def lock_renewals(connection: Connection, bucket: int, keys: Sequence[TaskKey]) -> dict[TaskKey, Any]:
    """Lock task rows whose leases go on; skips what is locked."""
    arrays = [key[0] for key in keys], [key[1] for key in keys]
    records = await connection.fetch(SQL["lock_renewals"], bucket, *arrays)
    return {(record["run_id"], record["path"]): record for record in records}


async def existing(connection: Connection, bucket: int, keys: Sequence[TaskKey]) -> set[TaskKey]:
    """Which tasks are there, locked elsewhere or not."""
    arrays = [key[0] for key in keys], [key[1] for key in keys]
    records = await connection.fetch(SQL["existing_tasks"], bucket, *arrays)
    return {(record["run_id"], record["path"]) for record in records}


async def grant(connection: Connection, bucket: int, leases: Iterable[NewLease]) -> None:
    """Write leases on rows that are locked.

    Raises:
        NotApplied: a row is not ready at that attempt although it is locked.
    """
    rows = [
        (lease.run_id, lease.path, lease.attempt, lease.owner, lease.grant_key, lease.leased_at, lease.expires_at,
         lease.attempt_expires_at)
        for lease in leases
    ]  # fmt: skip
    await guarded(connection, "grant_leases", bucket, rows)


async def renew(connection: Connection, bucket: int, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write new ends (run_id, path, attempt, owner, lease_expires_at) of leases that are locked."""
    await guarded(connection, "renew_leases", bucket, rows)
