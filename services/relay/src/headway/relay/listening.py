"""Waking up: NOTIFY when it works, a look at all buckets when it does not.

NOTIFY only makes it quick. It may be missing (a pooler, a lost connection, another node), so nothing may depend on it:
the poll finds every row, a little later.
"""

import asyncio
import logging
from collections.abc import Sequence

import asyncpg

from headway.relay.store import ACQUIRE_DEADLINE, Outbox
from headway.relay.telemetry import Telemetry
from headway.relay.wakes import Wakes

__all__ = ["CHANNEL", "Listener", "Poll"]

_log = logging.getLogger(__name__)

CHANNEL = "headway_outbox"
KEEPALIVE_SECONDS = 10.0  # a connection that died without a word is found out after this
COUNT_EVERY = 15  # polls between two counts of the outbox
_CALL_DEADLINE = 5.0


class Listener:
    """A connection of its own that LISTENs, made again when it is lost.

    Args:
        database_url: `postgresql://…`; must not lead through a pooler that shares sessions.
        wakes: Who is woken.
        poll: Whose look is wanted once listening has begun (again): notifications may have been missed.
    """

    def __init__(self, *, database_url: str, wakes: Sequence[Wakes], poll: "Poll") -> None:
        self._database_url = database_url
        self._wakes = wakes
        self._poll = poll
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._lost = asyncio.Event()

    async def step(self) -> None:
        """Connect, or keep watch over the connection until it is time for a sign of life."""
        if self._connection is None or self._connection.is_closed():
            await self._connect()
            await self._poll.look()
            return
        try:
            async with asyncio.timeout(KEEPALIVE_SECONDS):
                await self._lost.wait()
        except TimeoutError:
            await self._sign_of_life(self._connection)
        else:
            raise ConnectionError("the listening connection was lost")

    def close(self) -> None:
        """Close the connection without ceremony."""
        if self._connection is not None:
            self._connection.terminate()

    async def _connect(self) -> None:
        connection = await asyncpg.connect(
            self._database_url,
            timeout=ACQUIRE_DEADLINE,
            command_timeout=_CALL_DEADLINE,
            server_settings={"application_name": "headway-relay-listen"},
        )
        try:
            self._lost = lost = asyncio.Event()
            connection.add_termination_listener(lambda _connection: lost.set())
            async with asyncio.timeout(_CALL_DEADLINE):
                await connection.add_listener(CHANNEL, self._notified)
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection

    async def _sign_of_life(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        try:
            await connection.execute("SELECT 1", timeout=_CALL_DEADLINE)
        except BaseException:
            connection.terminate()
            raise

    def _notified(self, _connection: object, _process: int, _channel: str, payload: object) -> None:
        try:
            bucket = int(str(payload))
        except ValueError:
            _log.warning("a notification that names no bucket", extra={"payload": str(payload)[:100]})
            return
        for wakes in self._wakes:
            wakes.wake(bucket)


class Poll:
    """Looks at all buckets in use, and at how full the outbox is.

    Args:
        outbox: What is looked at.
        wakes: Who is woken for each bucket that has rows.
        telemetry: Metrics.
    """

    def __init__(self, *, outbox: Outbox, wakes: Sequence[Wakes], telemetry: Telemetry) -> None:
        self._outbox = outbox
        self._wakes = wakes
        self._telemetry = telemetry
        self._looks = 0

    async def step(self) -> None:
        """Look once; now and then, count."""
        if self._looks % COUNT_EVERY == 0:
            self._telemetry.depth(await self._outbox.depth())
        self._looks += 1
        await self.look()

    async def look(self) -> None:
        """Wake for each bucket that has rows."""
        oldest = 0.0
        for backlog in await self._outbox.backlog():
            if backlog.oldest_seconds is not None:
                oldest = max(oldest, backlog.oldest_seconds)
                for wakes in self._wakes:
                    wakes.wake(backlog.bucket)
        self._telemetry.age(oldest)
