"""What is due, as PostgreSQL says it: read, never locked, never written.

The only room that knows asyncpg and this service's SQL. Every copy of the service reads the same; who is first to tell
is the coordinator's to sort out.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from uuid import UUID

import asyncpg

from headway.runtime.ids import run_id_text
from headway.runtime.sql import load_statements

__all__ = [
    "DATABASE_FAULTS",
    "LEASE",
    "Due",
    "DueKey",
    "DueReader",
    "close_pool",
    "connect_listener",
    "connect_pool",
]

_STATEMENTS = ["read_timers", "read_leases", "plan_once", "limit_transactions"]
_SQL = load_statements(files("headway.timers"), "due.sql", expected=_STATEMENTS)

LEASE = "lease"
"""The kind of an expired lease; every other kind is a timer's, as stored."""

DATABASE_FAULTS = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""What a call raises when the database is away, starts, ends, or is full; a time-out is an OSError."""
ACQUIRE_DEADLINE = 5.0  # seconds to get a connection, opening it included
STATEMENT_DEADLINE = 5.0  # seconds for a statement
# A process that is frozen in the middle of a look must not keep what it sees from being vacuumed: the server ends its
# session after this. A server that has received a statement but not the end of the message sequence is not idle.
IDLE_SECONDS, TRANSACTION_SECONDS = 5, 10
_SERVER_SETTINGS = {
    "application_name": "headway-timers",
    "jit": "off",
    "default_transaction_read_only": "on",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


@dataclass(frozen=True, slots=True)
class DueKey:
    """What tells one due thing from all others."""

    run_id: UUID
    path: str
    kind: str
    attempt: int

    def facts(self) -> dict[str, str | int]:
        """What it is, for logs."""
        return {"run_id": run_id_text(self.run_id), "path": self.path, "kind": self.kind, "attempt": self.attempt}


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A timer or a lease whose time has come, or is about to.

    Attributes:
        due_at: When it is due, on this process's monotonic clock; never before the database's clock says so.
    """

    bucket: int
    key: DueKey
    due_at: float


class DueReader:
    """Reads what is due, through a pool that is passed in.

    Args:
        pool: Connections to the database.
        leases: Look at leases, not at timers.
        clock: Monotonic seconds.
        limit: Most rows of each bucket.
    """

    def __init__(
        self, pool: "asyncpg.Pool[asyncpg.Record]", *, leases: bool, clock: Callable[[], float], limit: int
    ) -> None:
        self._pool = pool
        self._statement = _SQL["read_leases" if leases else "read_timers"]
        self._clock = clock
        self._limit = limit

    async def read(self, skipped: Collection[DueKey], *, ahead: float) -> list[Due]:
        """Read what is due, or will be soon, the earliest of each bucket first.

        Args:
            skipped: What not to look at.
            ahead: How far to look into the future, seconds.
        """
        async with self._pool.acquire(timeout=ACQUIRE_DEADLINE) as connection:
            records = await connection.fetch(
                self._statement,
                timedelta(seconds=ahead),
                [key.run_id for key in skipped],
                [key.path for key in skipped],
                [key.kind for key in skipped],
                [key.attempt for key in skipped],
                self._limit,
            )
        # Taken after the answer, so later than the statement's now(): nothing is told before its time.
        now = self._clock()
        return [_due(record, now) for record in records]


async def connect_pool(database_url: str) -> "asyncpg.Pool[asyncpg.Record]":
    """Make a pool of a connection per reader; they are opened when they are wanted, so the database may be down now.

    Args:
        database_url: `postgresql://…`.
    """
    return await asyncpg.create_pool(
        database_url,
        min_size=0,
        max_size=2,
        timeout=ACQUIRE_DEADLINE,
        command_timeout=STATEMENT_DEADLINE,
        max_cached_statement_lifetime=0,
        init=_begin_session,
        server_settings=_SERVER_SETTINGS | {"idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s"},
        reset=_nothing_to_reset,
    )


async def connect_listener(database_url: str) -> "asyncpg.Connection[asyncpg.Record]":
    """Open a connection of its own, for LISTEN."""
    return await asyncpg.connect(
        database_url,
        timeout=ACQUIRE_DEADLINE,
        command_timeout=STATEMENT_DEADLINE,
        server_settings={"application_name": "headway-timers-listen"},
    )


async def close_pool(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    """Close a pool, by force when its connections do not end in time."""
    try:
        async with asyncio.timeout(ACQUIRE_DEADLINE):
            await pool.close()
    except TimeoutError:
        pool.terminate()


async def _begin_session(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await connection.execute(_SQL["plan_once"])
    await connection.execute(_SQL["limit_transactions"], f"{TRANSACTION_SECONDS}s")


async def _nothing_to_reset(_connection: object) -> None:
    """Save a round trip per look: reading leaves nothing behind in the session."""


def _due(record: asyncpg.Record, now: float) -> Due:
    bucket, run_id, path, kind, attempt, late_seconds = record
    return Due(bucket=bucket, key=DueKey(run_id, path, kind, attempt), due_at=now - late_seconds)
