"""Lease and Renew: each is one statement that never waits and commits by itself, and a look at what it left alone."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias
from uuid import UUID

import asyncpg
from msgspec import Struct

from headway.coordinator.core.admission import RunGate
from headway.coordinator.core.machines import FINAL_RUN_STATES, TaskState
from headway.coordinator.core.rows import UNCOMPENSATED
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL

Record: TypeAlias = asyncpg.Record
Found: TypeAlias = dict[int, Record]
"""Rows by the place, from 0, of what was asked for; not everything need have one."""


class Renewal(Protocol):
    """What `renew` needs to know."""

    @property
    def run_id(self) -> UUID: ...
    @property
    def path(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def owner(self) -> str: ...


class Request(Renewal, Protocol):
    """What `grant` needs to know."""

    @property
    def grant_key(self) -> str: ...


class LeasedRow(Struct, frozen=True):
    """The columns of a task's row by which Lease and Renew are judged."""

    state: TaskState
    attempt: int
    owner: str | None
    grant_key: str | None


async def grant(connection: Connection, bucket: int, requests: Sequence[Request], input_bytes: int) -> Found:
    """Grant what is clear: the run is open and not stopping, the task READY at that attempt, its row not locked.

    Args:
        connection: in no transaction.
        bucket: of all the runs.
        requests: at most one for each attempt.
        input_bytes: of inputs that are read; tasks whose inputs do not fit are left alone.

    Returns:
        What was granted: n, handler, data (None: no input), generation, tries, workflow, namespace, trace, left_ms,
        waited (seconds since the run's start, for the first lease in it).
    """
    records = await connection.fetch(
        SQL["grant_leases"],
        bucket,
        [request.run_id for request in requests],
        [request.path for request in requests],
        [request.attempt for request in requests],
        [request.owner for request in requests],
        [request.grant_key for request in requests],
        input_bytes,
    )
    return _by_place(records)


async def look_at_leases(connection: Connection, bucket: int, requests: Sequence[Request], input_bytes: int) -> Found:
    """Lock and read what is there now; `fits` says whether its input, if any is read, is among `input_bytes`."""
    records = await connection.fetch(
        SQL["look_at_leases"],
        bucket,
        [request.run_id for request in requests],
        [request.path for request in requests],
        [request.grant_key for request in requests],
        input_bytes,
    )
    return _by_place(records)


async def renew(connection: Connection, bucket: int, renewals: Sequence[Renewal]) -> Found:
    """Prolong leases that are held as they say and not locked: n, left_ms, cancel (the handler is to stop).

    Args:
        connection: in no transaction.
        bucket: of all the runs.
        renewals: at most one for each attempt and owner.
    """
    records = await connection.fetch(
        SQL["renew_leases"],
        bucket,
        [renewal.run_id for renewal in renewals],
        [renewal.path for renewal in renewals],
        [renewal.attempt for renewal in renewals],
        [renewal.owner for renewal in renewals],
    )
    return _by_place(records)


async def look_at_renewals(connection: Connection, bucket: int, renewals: Sequence[Renewal]) -> Found:
    """Lock and read what is there now."""
    records = await connection.fetch(
        SQL["look_at_renewals"],
        bucket,
        [renewal.run_id for renewal in renewals],
        [renewal.path for renewal in renewals],
    )
    return _by_place(records)


def gate(record: Record) -> RunGate:
    """What a look tells of a task's run."""
    return RunGate(
        is_final=record["run_state"] in FINAL_RUN_STATES,
        is_stopping=record["ending"] in (None, UNCOMPENSATED)
        and (record["cancelling"] or record["expired"] or record["finish_path"] is not None),
        is_failing=record["failing"],
        is_paused=record["paused_at"] is not None,
    )


def leased_row(record: Record) -> LeasedRow | None:
    """What a look tells of a task; None: its row is locked elsewhere."""
    if record["state"] is None:
        return None
    return LeasedRow(TaskState(record["state"]), record["attempt"], record["owner"], record["grant_key"])


def _by_place(records: Sequence[Record]) -> Found:
    return {record["n"] - 1: record for record in records}
