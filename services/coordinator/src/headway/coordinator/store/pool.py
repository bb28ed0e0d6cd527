"""Connections to PostgreSQL."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from headway.coordinator.store.errors import translated

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"


class Connections(Protocol):
    """A pool, or whatever gives out connections of one."""

    def acquire(self) -> AbstractAsyncContextManager[Connection]:
        """A connection, for as long as the block runs."""
        ...


STATEMENT_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 10.0
# A coordinator that is frozen or cut off in mid-transaction must not keep its locks: the others go on after this. A
# server that has received a statement but not the end of the message sequence counts as active, not as idle.
_IDLE_SECONDS, _TRANSACTION_SECONDS = 5, 20
_SESSION = {
    "application_name": "headway-coordinator",
    "jit": "off",
    "idle_in_transaction_session_timeout": f"{_IDLE_SECONDS}s",
    "lock_timeout": "8s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
# The hot statements are prepared once and must not be planned for each batch, nor for the tables' size of the moment.
# Citus refuses generic plans for most of them, so there the defaults stay.
_PLAIN = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}


async def open_pool(database_url: str, *, size: int) -> Pool:
    """Open a pool of up to `size` connections.

    Raises:
        StoreUnavailable, StoreRejected: the database cannot be reached, or does not let us in.
    """
    with translated():
        probe = await asyncpg.connect(database_url, timeout=CONNECT_TIMEOUT_SECONDS)
        try:
            on_citus = await probe.fetchval("SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')")
            limits_whole = await probe.fetchval("SELECT current_setting('transaction_timeout', true) IS NOT NULL")
        finally:
            await probe.close()
        limit = "transaction_timeout" if limits_whole else "statement_timeout"  # the former since PostgreSQL 17
        return await asyncpg.create_pool(
            database_url,
            min_size=min(2, size),
            max_size=size,
            reset=_leave_as_it_is,
            command_timeout=STATEMENT_TIMEOUT_SECONDS,
            timeout=CONNECT_TIMEOUT_SECONDS,
            max_inactive_connection_lifetime=0,
            max_cached_statement_lifetime=0,  # the hot ones would be prepared anew every few minutes
            server_settings=_SESSION | ({} if on_citus else _PLAIN) | {limit: f"{_TRANSACTION_SECONDS}s"},
        )


async def _leave_as_it_is(_connection: Connection) -> None:
    """No transaction changes a session's settings, so there is nothing to reset between two of them."""


class Seats:
    """Connections that lanes keep between their transactions: taking one from a pool costs more than a statement."""

    def __init__(self, pool: Pool) -> None:
        """Keep at most half of the pool: the rest is for all others."""
        self._pool = pool
        self._most = pool.get_max_size() // 2
        self._kept: list[Seat] = []

    def seat(self) -> "Seat":
        """A lane's connection; when half of the pool is kept already, one from the pool each time."""
        seat = Seat(self._pool, keeps=len(self._kept) < self._most)
        if seat.keeps:
            self._kept.append(seat)
        return seat

    async def close(self) -> None:
        """Give all of them back; no lane may be at work any more."""
        for seat in self._kept:
            await seat.give_back()


class Seat:
    """A connection for one transaction after the other: `async with seat as connection`."""

    def __init__(self, pool: Pool, *, keeps: bool) -> None:
        """Take none yet."""
        self._pool = pool
        self.keeps = keeps
        self._connection: PoolConnectionProxy[asyncpg.Record] | None = None

    async def __aenter__(self) -> Connection:
        """The connection; a new one when the last was lost."""
        if self._connection is not None and _is_lost(self._connection):
            await self.give_back()
        if self._connection is None:
            self._connection = await self._pool.acquire()
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        """Keep it, or give it back."""
        if not self.keeps:
            await self.give_back()

    async def give_back(self) -> None:
        """Let others have the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._pool.release(connection)


def _is_lost(connection: "PoolConnectionProxy[asyncpg.Record]") -> bool:
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:  # it broke, and the pool has taken it back
        return True
