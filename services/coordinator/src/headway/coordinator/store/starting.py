"""What a start asks the database before its run is inserted."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL

TRIES = 3  # at keys that are freed as they are found to be claimed
WorkflowKey: TypeAlias = tuple[str, str]
"""Namespace and workflow."""
VersionKey: TypeAlias = tuple[str, str, int]
"""Namespace, workflow and version."""
StartKey: TypeAlias = tuple[str, str]
"""Namespace and idempotency key."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The run id that a key stands for, the digest of the request that claimed it, and when that was asked for."""

    run_id: UUID
    digest: str
    asked_at: datetime | None = None


async def find_deployed(connection: Connection, keys: Collection[WorkflowKey]) -> dict[WorkflowKey, int]:
    """The deployed versions of those workflows that have one."""
    records = await connection.fetch(SQL["find_deployed"], *_columns(keys, 2))
    return {(record["namespace"], record["workflow"]): record["version"] for record in records}


async def find_versions(connection: Connection, keys: Collection[VersionKey]) -> set[VersionKey]:
    """Those versions that are stored and were not deleted."""
    records = await connection.fetch(SQL["find_versions"], *_columns(keys, 3))
    return {(record["namespace"], record["workflow"], record["version"]) for record in records}


async def claim_keys(connection: Connection, bucket: int, claims: dict[StartKey, Claim]) -> dict[StartKey, Claim]:
    """Claim keys of one bucket, each once and for ever; return whose they are now. Commits by itself."""
    held: dict[StartKey, Claim] = {}
    for _ in range(TRIES):
        rows = [(*key, claim.run_id, claim.digest) for key, claim in claims.items() if key not in held]
        if not rows:
            break
        held |= _claims(await connection.fetch(SQL["claim_start_keys"], bucket, *_columns(rows, 4)))
        held |= await find_keys(connection, bucket, [key for key in claims if key not in held])
    return held


async def find_keys(connection: Connection, bucket: int, keys: Collection[StartKey]) -> dict[StartKey, Claim]:
    """Those keys of one bucket that were claimed."""
    if not keys:
        return {}
    return _claims(await connection.fetch(SQL["find_start_keys"], bucket, *_columns(keys, 2)))


async def find_started(connection: Connection, bucket: int, run_ids: Sequence[UUID]) -> dict[UUID, Any]:
    """Those runs of one bucket that are there, with what they were started with."""
    records = await connection.fetch(SQL["find_started"], bucket, run_ids)
    return {record["run_id"]: record for record in records}


def _claims(records: Sequence[Any]) -> dict[StartKey, Claim]:
    return {
        (record["namespace"], record["key"]): Claim(record["run_id"], record["digest"], record["asked_at"])
        for record in records
    }


def _columns(rows: Collection[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[place] for row in rows] for place in range(width)]
