"""From the look-out to the lanes: one batch waits to be taken, no more, so that calls never pile up.

Plain asyncio state of one process; no I/O.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headway.timers.store import Due, DueKey

__all__ = ["Batches"]


class Batches:
    """Hands batches over, and knows what is in somebody's hands."""

    def __init__(self) -> None:
        self._waiting: Sequence[Due] | None = None
        self._changed = asyncio.Condition()
        self._closed = False
        self._in_hand: set[DueKey] = set()

    @property
    def in_hand(self) -> frozenset[DueKey]:
        """What waits to be told, or is being told."""
        return frozenset(self._in_hand)

    async def put(self, batch: Sequence[Due]) -> None:
        """Hand a batch over; waits while another one waits."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting is None)
            self._in_hand.update(due.key for due in batch)
            self._waiting = batch
            self._changed.notify_all()

    async def take(self) -> Sequence[Due] | None:
        """Wait for a batch; pass it to `telling`. None: closed."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or self._waiting is not None)
            batch, self._waiting = (None if self._closed else self._waiting), None
            self._changed.notify_all()
            return batch

    @contextmanager
    def telling(self, batch: Sequence[Due]) -> Iterator[None]:
        """Let go of a batch that was taken at the end of the work on it, however it ends."""
        try:
            yield
        finally:
            self._in_hand.difference_update(due.key for due in batch)

    async def close(self) -> None:
        """End the work: `take` answers None from now on."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()
