"""Group commit: whatever has queued while the last transaction ran goes into the next one.

There is no timer and no minimum: an idle lane serves a single item at once, a busy one serves many together. One lane
is one bucket's stream of transactions of one kind.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from headway.coordinator.core.refusals import EventUndecidable, Overloaded
from headway.coordinator.store.errors import StoreConflict, StoreUnavailable

BATCH = 256  # items in one transaction
BATCH_BYTES = 8 << 20  # of their payloads: a transaction holds them all in memory
BACKLOG = 20_000  # items that may wait; more are refused
BACKLOG_BYTES = 128 << 20  # of their payloads
SKIPS = 4  # of an item, before the lane waits for its run's lock whatever else it could do
CONFLICT_TRIES = 5  # of a single item, before it is given up as unavailable
_log = logging.getLogger(__name__)

Item = TypeVar("Item")


class Call:
    """Items that came together and are answered together."""

    __slots__ = ("_missing", "done", "results")

    def __init__(self, size: int) -> None:
        """Expect `size` results."""
        self.results: list[Any] = [None] * size
        self._missing = size
        self.done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def settle(self, index: int, result: object) -> None:
        """Take one result, or the exception that stands for it."""
        self.results[index] = result
        self._missing -= 1
        if not self._missing and not self.done.done():
            self.done.set_result(self.results)


@dataclass(slots=True, eq=False)
class Ticket(Generic[Item]):
    """One item in a lane.

    Attributes:
        skips: how often its run was locked elsewhere.
        waits: now it waits for the lock.
    """

    item: Item
    call: Call
    index: int
    skips: int = 0
    waits: bool = False

    def settle(self, result: object) -> None:
        """Answer the item."""
        self.call.settle(self.index, result)


@dataclass(slots=True)
class Committed(Generic[Item]):
    """What a transaction made of its tickets."""

    outcomes: list[tuple[Ticket[Item], object]] = field(default_factory=list)
    skipped: list[Ticket[Item]] = field(default_factory=list)


Commit = Callable[[Sequence[Ticket[Item]]], Awaitable[Committed[Item]]]


class Lane(Generic[Item]):
    """A queue and the loop that empties it, transaction by transaction."""

    def __init__(
        self,
        name: str,
        commit: Commit[Item],
        *,
        group: Callable[[Item], object],
        size: Callable[[Item], int] = lambda _item: 0,
    ) -> None:
        """Make a lane; `run` starts it.

        Args:
            name: for logs.
            commit: one transaction for some tickets; settles nothing itself.
            group: what a skipped item waits for: items of one group wait together, alone.
            size: bytes of an item's payload.
        """
        self.name = name
        self._commit = commit
        self._group = group
        self._size = size
        self._bytes = 0  # of what has queued
        self._queue: deque[Ticket[Item]] = deque()
        self._skipped: deque[Ticket[Item]] = deque()
        self._woken = asyncio.Event()
        self._has_settled = True

    def submit(self, items: Sequence[Item]) -> "asyncio.Future[list[Any]]":
        """Queue items; the future gives a result or an exception for each, in order.

        Raises:
            Overloaded: too many wait; nothing was queued.
        """
        self.need_room(items)
        call = Call(len(items))
        self._queue.extend(Ticket(item, call, index) for index, item in enumerate(items))
        self._bytes += sum(self._size(item) for item in items)
        self._woken.set()
        return call.done

    def need_room(self, items: Sequence[Item]) -> None:
        """Raise Overloaded when these would be too many, or too large, to wait."""
        waiting = len(self._queue)
        size = sum(self._size(item) for item in items)
        if waiting + len(items) > BACKLOG or (waiting and self._bytes + size > BACKLOG_BYTES):
            raise Overloaded(backlog=str(waiting))

    @property
    def backlog(self) -> int:
        """Items that wait."""
        return len(self._queue) + len(self._skipped)

    async def run(self) -> None:
        """Serve for ever; cancel to stop. What waits then is never answered: its callers are gone or will repeat."""
        while True:
            await self._woken.wait()
            while batch := self._take():
                await self._serve(batch)
            self._woken.clear()
            if self._queue or self._skipped:
                self._woken.set()

    def _take(self) -> list[Ticket[Item]]:
        """The next batch: what was skipped first, and what has queued.

        When the last batch settled nothing, the lane waits for one lock instead of asking again: whoever held it has
        committed then, and what else it held is free for the next batch. It also does when an item was skipped too
        often: two busy coordinators must not keep a run from each other for ever.
        """
        if self._skipped and (not self._has_settled or self._skipped[0].skips >= SKIPS):
            group = self._group(self._skipped[0].item)
            batch = [ticket for ticket in self._skipped if self._group(ticket.item) == group]
            self._skipped = deque(ticket for ticket in self._skipped if self._group(ticket.item) != group)
            for ticket in batch:
                ticket.waits = True
        else:
            batch = self._fill()
        self._has_settled = False
        return batch

    def _fill(self) -> list[Ticket[Item]]:
        """Take what fits into one transaction, by number and by bytes; at least one."""
        batch: list[Ticket[Item]] = []
        room = BATCH_BYTES
        for waiting in (self._skipped, self._queue):
            while waiting and len(batch) < BATCH:
                size = self._size(waiting[0].item)
                if batch and size > room:
                    return batch
                batch.append(waiting.popleft())
                room -= size
                self._bytes -= size if waiting is self._queue else 0
        return batch

    async def _serve(self, batch: Sequence[Ticket[Item]], tries: int = 1) -> None:
        """Commit a batch; one that fails is bisected, so that a bad item harms only itself."""
        try:
            committed = await self._commit(batch)
        except StoreUnavailable as error:
            _log.warning("lane %s: %s", self.name, error)
            for ticket in batch:
                self._settle(ticket, error)
        except Exception as error:  # noqa: BLE001 - the service's one broad catch: a poisoned batch must not end the lane
            await self._bisect(batch, error, tries)
        else:
            for ticket, outcome in committed.outcomes:
                self._settle(ticket, outcome)
            for ticket in committed.skipped:
                ticket.skips += 1
            self._skipped.extend(committed.skipped)

    def _settle(self, ticket: Ticket[Item], outcome: object) -> None:
        self._has_settled = True
        ticket.settle(outcome)

    async def _bisect(self, batch: Sequence[Ticket[Item]], error: Exception, tries: int) -> None:
        if len(batch) > 1:
            middle = len(batch) // 2
            _log.warning("lane %s: a batch of %d failed and is bisected: %s", self.name, len(batch), error)
            await self._serve(batch[:middle])
            await self._serve(batch[middle:])
        elif isinstance(error, StoreConflict) and tries < CONFLICT_TRIES:
            await self._serve(batch, tries + 1)
        elif isinstance(error, StoreConflict):
            self._settle(batch[0], StoreUnavailable(str(error)))
        else:
            _log.error("lane %s: item left out: %r", self.name, batch[0].item, exc_info=error)
            self._settle(batch[0], EventUndecidable(problem=f"{type(error).__name__}: {error}"))
