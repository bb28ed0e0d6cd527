"""The outbox in PostgreSQL: what lies there, claiming it, deleting it.

The only room that knows asyncpg's rows and this service's SQL. It decides nothing and never publishes: a claim is a
transaction that the caller works in, between the rows' claim and their deletion.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

import asyncpg

from headway.relay.messages import Dispatch, Handover
from headway.runtime.queues import queue_name_of
from headway.runtime.sql import load_statements

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

__all__ = ["Backlog", "Claim", "Outbox", "Unpublished", "close_pool", "connect_pool"]

_SQL = load_statements(
    files("headway.relay"),
    "outbox.sql",
    expected=[
        "read_backlog",
        "count_outbox",
        "claim_dispatches",
        "claim_handovers",
        "delete_rows",
        "read_unpublished",
    ],
)

ACQUIRE_DEADLINE = 5.0  # seconds to get a connection, opening it included
STATEMENT_DEADLINE = 10.0  # seconds for a statement
_SERVER_SETTINGS = {
    "application_name": "headway-relay",
    # A relay cut off in the middle of a batch must not keep its rows from the others for ever.
    "idle_in_transaction_session_timeout": "60000",
    "jit": "off",
}

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How old the oldest row of a bucket is, in seconds; None: the bucket has none."""

    bucket: int
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpublished:
    """What still waits to be published.

    Attributes:
        behind: Some bucket has more rows than were looked at: the ages say too little.
        oldest_seconds: The age of each queue's oldest row, by `namespace/queue`.
    """

    behind: bool
    oldest_seconds: dict[str, float]


class Claim(Generic[Row]):
    """Rows that nobody else can claim until the transaction ends."""

    def __init__(self, connection: "PoolConnectionProxy[asyncpg.Record]", bucket: int, rows: list[Row]) -> None:
        self._connection = connection
        self._bucket = bucket
        self.rows = rows

    async def delete(self, outbox_ids: Sequence[UUID]) -> None:
        """Delete rows that were carried out; durable once the claim's transaction commits."""
        if outbox_ids:
            await self._connection.execute(_SQL["delete_rows"], self._bucket, outbox_ids)


class Outbox:
    """The table `outbox`, through a pool that is passed in."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        self._pool = pool

    async def backlog(self) -> list[Backlog]:
        """Look at all buckets in use, without locks."""
        records = await self._fetch("read_backlog")
        return [Backlog(bucket=record["bucket"], oldest_seconds=record["oldest_seconds"]) for record in records]

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
    async def claim_dispatches(
        self, bucket: int, limit: int, *, parked_rows: Sequence[UUID], parked_queues: Sequence[str]
    ) -> AsyncIterator[Claim[Dispatch]]:
        """Open a transaction that holds up to `limit` dispatches of a bucket; it commits when the block ends well."""
        async with self._pool.acquire(timeout=ACQUIRE_DEADLINE) as connection, connection.transaction():
            records = await connection.fetch(_SQL["claim_dispatches"], bucket, parked_rows, parked_queues, limit)
            yield Claim(connection, bucket, [_dispatch(record) for record in records])

    @asynccontextmanager
    async def claim_handovers(
        self, bucket: int, limit: int, *, parked_rows: Sequence[UUID]
    ) -> AsyncIterator[Claim[Handover]]:
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
        server_settings=_SERVER_SETTINGS,
        reset=_nothing_to_reset,
    )


async def close_pool(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    """Close a pool, by force when its connections do not end in time."""
    try:
        async with asyncio.timeout(ACQUIRE_DEADLINE):
            await pool.close()
    except TimeoutError:
        pool.terminate()


async def _nothing_to_reset(_connection: object) -> None:
    """Save a round trip per batch: no statement here leaves anything behind in the session."""


def _dispatch(record: asyncpg.Record) -> Dispatch:
    return Dispatch(
        outbox_id=record["outbox_id"],
        run_id=record["run_id"],
        namespace=record["namespace"],
        path=record["path"],
        attempt=record["attempt"],
        queue=record["queue"],
        handler=record["handler"],
        trace=record["trace"],
        age_seconds=record["age_seconds"],
    )


def _handover(record: asyncpg.Record) -> Handover:
    return Handover(outbox_id=record["outbox_id"], run_id=record["run_id"], body=record["body"])
