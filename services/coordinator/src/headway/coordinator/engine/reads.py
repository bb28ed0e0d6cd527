"""Connections for what only looks: so few at a time that work under way finds one, however many ask.

Whoever would wait for longer than new work may is refused, and told when to come again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from headway.coordinator import clock
from headway.coordinator.core.refusals import Overloaded
from headway.coordinator.engine.lanes import LATEST, NEW_SECONDS, SOONEST
from headway.coordinator.store.pool import Connection, Pool

WAITING = 1_000  # reads that may wait; more are refused
PART = 4  # one connection of the pool in so many is for reads
SMOOTHING = 0.1  # how much of the time that a read takes is the latest one's
_Found = TypeVar("_Found")


class Reads:
    """The connections that reads take turns with; used like the pool."""

    def __init__(self, pool: Pool) -> None:
        """Take at most a quarter of a pool."""
        self._pool = pool
        self._most = max(pool.get_max_size() // PART, 1)
        self._places = asyncio.Semaphore(self._most)
        self.waiting = 0  # reads that wait for their turn
        self._pace = 0.0  # seconds that a read has taken of late

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """A connection, for as long as the block runs. Raises Overloaded when too many wait for one."""
        wait = self.waiting * self._pace / self._most
        if self.waiting >= WAITING or wait > NEW_SECONDS:
            pause = min(max(wait, SOONEST), LATEST)
            facts = {"backlog": str(self.waiting), "wait_ms": f"{wait * 1000:.0f}", "retry_ms": f"{pause * 1000:.0f}"}
            raise Overloaded(**facts)
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        began_at = clock.monotonic()
        try:
            async with self._pool.acquire() as connection:
                yield connection
        finally:
            self._places.release()
            self._pace += SMOOTHING * (clock.monotonic() - began_at - self._pace)


async def in_turn(read: Callable[[], Awaitable[_Found]]) -> _Found:
    """A read of whoever was let in before: where there is no room, it comes again."""
    while True:
        try:
            return await read()
        except Overloaded as refusal:
            pause = int(refusal.metadata["retry_ms"]) / 1000
        await asyncio.sleep(pause)
