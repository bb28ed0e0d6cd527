"""Listening to PostgreSQL's NOTIFY on a connection of its own, which is made again when it is lost.

NOTIFY only makes things quick. It may be missing (a pooler, a lost connection, another node), so nothing may depend on
it: whoever listens looks by itself as well. Knows no driver: the connection is passed in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

__all__ = ["Listener", "ListeningConnection"]

KEEPALIVE_SECONDS = 10.0  # a connection that died without a word is found out after this
_CALL_DEADLINE = 5.0


class ListeningConnection(Protocol):
    """What is asked of a connection; asyncpg's has it."""

    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...
    def add_termination_listener(self, callback: Callable[[Any], None], /) -> None: ...
    async def add_listener(self, channel: str, callback: Callable[[Any, Any, Any, object], None], /) -> None: ...
    async def execute(self, query: str, /) -> str: ...


class Listener:
    """Listens on a channel.

    Args:
        connect: Opens a connection; must not lead through a pooler that shares sessions.
        channel: Its name.
        notified: Called with each notification's payload.
        listening: Called once listening has begun (again): notifications may have been missed.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], Awaitable[ListeningConnection]],
        channel: str,
        notified: Callable[[str], None],
        listening: Callable[[], Awaitable[None]],
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._notified = notified
        self._listening = listening
        self._connection: ListeningConnection | None = None
        self._lost = asyncio.Event()

    async def step(self) -> None:
        """Connect, or keep watch over the connection until it is time for a sign of life.

        Raises:
            Exception: The connection could not be made, or is lost; the next step makes it again.
        """
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._listen()
            await self._listening()
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

    async def _listen(self) -> ListeningConnection:
        connection = await self._connect()
        try:
            self._lost = lost = asyncio.Event()
            connection.add_termination_listener(lambda _connection: lost.set())
            async with asyncio.timeout(_CALL_DEADLINE):
                await connection.add_listener(
                    self._channel, lambda _connection, _process, _channel, payload: self._notified(str(payload))
                )
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _sign_of_life(self, connection: ListeningConnection) -> None:
        try:
            async with asyncio.timeout(_CALL_DEADLINE):
                await connection.execute("SELECT 1")
        except BaseException:
            connection.terminate()
            raise
