"""The outbox in PostgreSQL: what lies there, claiming it, deleting it.

The only room that knows asyncpg's rows and this service's SQL. It decides nothing and never publishes: a claim is a
transaction that the caller works in; what it has deleted is gone only when the caller's work is done.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from headway.relay.messages import Dispatch, Handover
from headway.runtime.queues import queue_name_of
from headway.runtime.sql import load_statements

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

__all__ = [
    "DATABASE_FAULTS",
    "Backlog",
    "Claim",
    "Outbox",
    "Taken",
    "Unpublished",
    "close_pool",
    "connect_listener",
    "connect_pool",
]

_SQL = load_statements(
    files("headway.relay"),
    "outbox.sql",
    expected=[
        "read_backlog",
        "count_outbox",
        "take_dispatches",
        "claim_handovers",
        "delete_rows",
        "read_unpublished",
        "plan_once",
        "limit_transactions",
    ],
)

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
STATEMENT_DEADLINE = 10.0  # seconds for a statement
AHEAD_SECONDS = 1.0  # that a transaction may have begun and wait for work
_BROKEN = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
# A relay that is frozen or cut off in the middle of a batch must not keep its rows from the others: the server ends its
# session after this. A batch may wait for the broker or the coordinator for ten seconds, so it is longer. A server that
# has received a statement but not the end of the message sequence counts as active, not as idle.
IDLE_SECONDS, TRANSACTION_SECONDS = 15, 20
_SERVER_SETTINGS = {
    "application_name": "headway-relay",
    "jit": "off",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    # Deletions alone are committed here: those that a crash of the server undoes are carried out twice, as they may be.
    "synchronous_commit": "off",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How old the oldest row of a bucket is, and its oldest hand-over, in seconds; None: the bucket has none."""

    bucket: int
    oldest_seconds: float | None
    handover_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpublished:
    """What still waits to be published.

    Attributes:
        behind: Some bucket has more rows than were looked at: the ages say too little.
        oldest_seconds: The age of each queue's oldest row, by `namespace/queue`.
    """

    behind: bool
    oldest_seconds: dict[str, float]


@dataclass(slots=True, kw_only=True)
class Taken:
    """Dispatches that were deleted, in a transaction that has not committed.

    Attributes:
        rows: In order; nobody else can take them.
        may_be_handovers: Hand-overs may lie in the bucket too.
        kept: Those that could not be published; the others are deleted, these are not.
    """

    rows: list[Dispatch]
    may_be_handovers: bool
    kept: set[UUID] = field(default_factory=set[UUID])


class Claim:
    """Hand-overs that nobody else can claim until the transaction ends."""

    def __init__(self, connection: "PoolConnectionProxy[asyncpg.Record]", bucket: int, rows: list[Handover]) -> None:
        self._connection = connection
        self._bucket = bucket
        self.rows = rows

    async def delete(self, outbox_ids: Sequence[UUID]) -> None:
        """Delete rows that were carried out; durable once the claim's transaction commits."""
        if outbox_ids:
            await self._connection.execute(_SQL["delete_rows"], self._bucket, outbox_ids)


class _Ahead:
    """Connections on which the next transaction has begun already: what comes soon after a batch saves two round trips.

    A transaction that has only begun holds nobody up. One that nothing comes for is ended.
    """

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        self._pool = pool
        self._begun: list[
            tuple[float, PoolConnectionProxy[asyncpg.Record]]
        ] = []  # since when; the latest is used first
        self._ending: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def transaction(self) -> "AsyncIterator[PoolConnectionProxy[asyncpg.Record]]":
        """A transaction, which commits when the block ends well."""
        connection = await self._connection()
        try:
            yield connection
            await connection.execute("COMMIT AND CHAIN")
        except BaseException:
            await self._end(connection)
            raise
        self._begun.append((asyncio.get_running_loop().time(), connection))
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_idle())

    async def close(self) -> None:
        """End what has begun, and give the connections back."""
        if self._ending is not None:
            self._ending.cancel()
        while self._begun:
            await self._end(self._begun.pop()[1])

    async def _connection(self) -> "PoolConnectionProxy[asyncpg.Record]":
        while self._begun:
            _, connection = self._begun.pop()
            if not _is_lost(connection):
                return connection
            await self._pool.release(connection)
        connection = await self._pool.acquire(timeout=ACQUIRE_DEADLINE)
        try:
            await connection.execute("BEGIN")
        except BaseException:
            await self._pool.release(connection)
            raise
        return connection

    async def _end_idle(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._begun:
                await asyncio.sleep(AHEAD_SECONDS / 2)
                while self._begun and self._begun[0][0] + AHEAD_SECONDS < loop.time():
                    await self._end(self._begun.pop(0)[1])
        finally:  # however it ends, the next batch begins it anew
            self._ending = None

    async def _end(self, connection: "PoolConnectionProxy[asyncpg.Record]") -> None:
        is_sound = False
        try:
            await connection.execute("ROLLBACK")
            is_sound = True
        except _BROKEN:
            pass  # the server ends what the connection had begun
        finally:
            if not is_sound and not _is_lost(connection):
                connection.terminate()
            await self._pool.release(connection)


class Outbox:
    """The table `outbox`, through a pool that is passed in."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        self._pool = pool
        self._ahead = _Ahead(pool)

    async def close(self) -> None:
        """Give all connections back to the pool."""
        await self._ahead.close()

    async def backlog(self) -> list[Backlog]:
        """Look at all buckets in use, without locks."""
        records = await self._fetch("read_backlog")
        return [Backlog(**record) for record in records]

    async def depth(self) -> int:
        """Count all rows."""
        return int((await self._fetch("count_outbox"))[0]["rows"])

    async def unpublished(self, most: int) -> Unpublished:
        """Find how old the oldest unpublished dispatch of each queue is, looking at `most` rows of each bucket."""
        oldest: dict[str, float] = {}
        rows: dict[int, int] = {}
        for record in await self._fetch("read_unpublished", most):
            name = queue_name_of(record["namespace"], record["queue"])
            oldest[name] = max(oldest.get(name, 0.0), record["oldest_seconds"])
            rows[record["bucket"]] = rows.get(record["bucket"], 0) + record["rows"]
        return Unpublished(behind=any(count >= most for count in rows.values()), oldest_seconds=oldest)

    @asynccontextmanager
    async def take_dispatches(
        self, bucket: int, limit: int, *, parked_rows: Sequence[UUID], parked_queues: Sequence[str]
    ) -> AsyncIterator[Taken]:
        """Open a transaction that deletes up to `limit` dispatches of a bucket; it commits when the block ends well.

        When the block keeps some, the transaction is undone and the others are deleted by themselves: between the two
        another relay may publish them again.
        """
        async with self._ahead.transaction() as connection:
            records = await connection.fetch(_SQL["take_dispatches"], bucket, parked_rows, parked_queues, limit)
            taken = Taken(
                rows=[Dispatch(*record[:-1]) for record in records],
                may_be_handovers=not records or records[0]["beside_handovers"],
            )
            yield taken
            if taken.kept:
                await connection.execute("ROLLBACK AND CHAIN")
                done = [row.outbox_id for row in taken.rows if row.outbox_id not in taken.kept]
                await connection.execute(_SQL["delete_rows"], bucket, done)

    @asynccontextmanager
    async def claim_handovers(self, bucket: int, limit: int, *, parked_rows: Sequence[UUID]) -> AsyncIterator[Claim]:
        """Open a transaction that holds up to `limit` hand-overs of a bucket; it commits when the block ends well."""
        async with self._pool.acquire(timeout=ACQUIRE_DEADLINE) as connection, connection.transaction():
            records = await connection.fetch(_SQL["claim_handovers"], bucket, parked_rows, limit)
            yield Claim(connection, bucket, [_handover(record) for record in records])

    async def _fetch(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        async with self._pool.acquire(timeout=ACQUIRE_DEADLINE) as connection:
            return await connection.fetch(_SQL[statement], *arguments)


async def connect_pool(database_url: str, size: int) -> "asyncpg.Pool[asyncpg.Record]":
    """Make a pool; it opens connections when they are wanted, so the database may be down now.

    Args:
        database_url: `postgresql://…`.
        size: Most connections.
    """
    return await asyncpg.create_pool(
        database_url,
        min_size=0,
        max_size=size,
        timeout=ACQUIRE_DEADLINE,
        command_timeout=STATEMENT_DEADLINE,
        # A dispatch that comes after a quiet hour finds a connection, with its statements prepared.
        max_inactive_connection_lifetime=0,
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
        server_settings={"application_name": "headway-relay-listen"},
    )


async def close_pool(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    """Close a pool, by force when its connections do not end in time."""
    try:
        async with asyncio.timeout(ACQUIRE_DEADLINE):
            await pool.close()
    except TimeoutError:
        pool.terminate()


def _is_lost(connection: "PoolConnectionProxy[asyncpg.Record]") -> bool:
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:  # it broke, and the pool has taken it back
        return True


async def _begin_session(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await connection.execute(_SQL["plan_once"])
    await connection.execute(_SQL["limit_transactions"], f"{TRANSACTION_SECONDS}s")


async def _nothing_to_reset(_connection: object) -> None:
    """Save a round trip per batch: no statement here leaves anything behind in the session."""


def _handover(record: asyncpg.Record) -> Handover:
    return Handover(outbox_id=record["outbox_id"], run_id=record["run_id"], body=record["body"], trace=record["trace"])
