"""Connections to PostgreSQL."""

from typing import TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from headway.coordinator.store.errors import translated

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"

STATEMENT_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 10.0
# A coordinator that is frozen or cut off in mid-transaction must not keep its locks: the others go on after this.
_SESSION = {
    "application_name": "headway-coordinator",
    "jit": "off",
    "idle_in_transaction_session_timeout": "5s",
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
        finally:
            await probe.close()
        return await asyncpg.create_pool(
            database_url,
            min_size=min(2, size),
            max_size=size,
            reset=_leave_as_it_is,
            command_timeout=STATEMENT_TIMEOUT_SECONDS,
            timeout=CONNECT_TIMEOUT_SECONDS,
            max_inactive_connection_lifetime=0,
            server_settings=_SESSION | ({} if on_citus else _PLAIN),
        )


async def _leave_as_it_is(_connection: Connection) -> None:
    """No transaction changes a session's settings, so there is nothing to reset between two of them."""
