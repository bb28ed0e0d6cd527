"""Group commit: whatever has queued while the last transaction ran goes into the next one.

There is no timer and no minimum (but for look-ups): an idle lane serves a single item at once, a busy one serves many
together. One lane is one bucket's stream of transactions of one kind.

A lane takes no more than it can carry. Work under way goes before work that would begin something new, and new work is
refused first: by how much of it waits, and by how long it would wait. A transaction that had too much to do, or that
the database ended, is followed by smaller ones, until they come through whole; what waits too long then is refused.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

from headway.coordinator import clock
from headway.coordinator.core.refusals import EventUndecidable, Overloaded, bare
from headway.coordinator.engine.unserved import level_of
from headway.coordinator.store.errors import StoreConflict, StoreEnded, StoreUnavailable
from headway.runtime.outages import Outage

BATCH = 256  # items in one transaction
BATCH_BYTES = 8 << 20  # of their payloads: a transaction holds them all in memory
BACKLOG = 20_000  # items that may wait; more are refused
BACKLOG_BYTES = 128 << 20  # of their payloads
NEW_BACKLOG = 5_000  # items of new work that may wait
NEW_BYTES = 32 << 20  # of all payloads that wait, before new work is refused
NEW_SECONDS = 2.0  # that new work may have to wait, as far as can be told
NEW_PART = 8  # of a transaction that has work under way, one in so many items is new
NEW_LEAST = 8  # items of new work that a transaction takes however little is under way
NEW_BETWEEN = 64  # items of new work in a transaction of its own, between two that have work under way
SOONEST, LATEST = 0.2, 5.0  # seconds after which those who were refused are asked to come again
BESIDE = 48  # items under way that wait, before a second transaction begins beside the one that runs
SKIPS = 4  # of an item, before the lane waits for its run's lock whatever else it could do
CONFLICT_TRIES = 5  # of a single item, before it is given up as unavailable
LONGEST_WAIT = 8.0  # seconds, in a lane whose transactions have too much to do, before an item is refused
LOST_TRIES = 5  # of an item whose transaction's connection was lost each time, before that is an error
LOST_KNOWN = 10_000  # items of which that is counted
LOST_NAMED = 3  # of them in one line of the log
_log = logging.getLogger(__name__)

Item = TypeVar("Item")


class Call:
    """Items that came together and are answered together."""

    __slots__ = ("_missing", "done", "results", "since")

    def __init__(self, size: int) -> None:
        """Expect `size` results."""
        self.results: list[Any] = [None] * size
        self._missing = size
        self.since = clock.monotonic()
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
        size: bytes of its payload.
        skips: how often its run was locked elsewhere.
        waits: now it waits for the lock.
    """

    item: Item
    call: Call
    index: int
    size: int = 0
    skips: int = 0
    waits: bool = False

    def settle(self, result: object) -> None:
        """Answer the item."""
        self.call.settle(self.index, result)


@dataclass(slots=True)
class Committed(Generic[Item]):
    """What a transaction made of its tickets.

    Attributes:
        outcomes: the answer to each, or the exception that stands for it.
        skipped: their runs were locked elsewhere.
        left: in their order; there was more to do than one transaction may.
    """

    outcomes: list[tuple[Ticket[Item], object]] = field(default_factory=list)
    skipped: list[Ticket[Item]] = field(default_factory=list)
    left: list[Ticket[Item]] = field(default_factory=list)


Commit = Callable[[Sequence[Ticket[Item]]], Awaitable[Committed[Item]]]


class Lane(Generic[Item]):
    """The queues and the loop that empties them, transaction by transaction."""

    def __init__(
        self,
        name: str,
        commit: Commit[Item],
        *,
        outage: Outage,
        group: Callable[[Item], object],
        size: Callable[[Item], int] = lambda _item: 0,
        tell: Callable[[Item], str] = str,
        stays: Callable[[Item], bool] = lambda _item: False,
        stride: float = 0.0,
        beside: bool = False,
    ) -> None:
        """Make a lane; `run` starts it.

        Args:
            name: for logs.
            commit: one transaction for some tickets; settles nothing itself.
            outage: the database's.
            group: what a skipped item waits for: items of one group wait together, alone.
            size: bytes of an item's payload.
            tell: what an item is, the same for each try of it; for logs.
            stays: an item is not refused however long it has waited.
            stride: seconds from the beginning of one transaction to that of the next, at the least, when something
                queued meanwhile. For what is so quick that hardly anything does.
            beside: `run_beside` is to be run as well.
        """
        self.name = name
        self._commit = commit
        self._outage = outage
        self._group = group
        self.size = size
        self._tell = tell
        self._stays = stays
        self._lost: dict[str, int] = {}  # by item: how often in a row its connection was lost
        self._stride = stride
        self.beside = beside
        self._bytes = 0  # of what has queued
        self._admitted = 0  # items of new work that will come, and their bytes
        self._admitted_bytes = 0
        self._queue: deque[Ticket[Item]] = deque()
        self._new: deque[Ticket[Item]] = deque()
        self._skipped: deque[Ticket[Item]] = deque()
        self._woken = asyncio.Event()
        self._many_wait = asyncio.Event()
        self._groups: set[object] = set()  # of the transaction that runs
        self._has_settled = True
        self._began_at: float | None = None  # the transaction that runs
        self._most = BATCH  # items of the next transaction: fewer, after one that had too much to do
        self._was_busy = False  # the last transaction had work under way
        self._new_taken = 0  # items of new work in the transaction that runs
        self._pace = 0.0  # seconds from one new item to the next, of late, when more waited than could be taken
        self._next_turn_at = 0.0  # of those who were refused

    def submit(
        self, items: Sequence[Item], *, new: bool = False, admitted: bool = False
    ) -> "asyncio.Future[list[Any]]":
        """Queue items; the future gives a result or an exception for each, in order. Cancel it to take them back.

        Args:
            items: what came together.
            new: they would begin something: they come after work under way, and are refused before it.
            admitted: `admit` said yes to them: they are not refused any more.

        Raises:
            Overloaded: too many wait; nothing was queued.
        """
        call = Call(len(items))
        measure = self.size
        tickets = [Ticket(item, call, index, measure(item)) for index, item in enumerate(items)]
        size = sum([ticket.size for ticket in tickets])
        if not admitted:
            self.need_room(len(tickets), size, new=new)
        (self._new if new else self._queue).extend(tickets)
        self._bytes += size
        self._woken.set()
        if len(self._queue) >= BESIDE:
            self._many_wait.set()
        return call.done

    def admit(self, count: int, size: int, *, ahead: float) -> Callable[[], None]:
        """Keep room for new work that something else has to be done for first.

        Args:
            count: of its items.
            size: their bytes.
            ahead: seconds that what has to be done first will have to wait.

        Returns:
            What gives the room back: to be called once, right before the items are submitted, or given up.

        Raises:
            Overloaded: there is none.
        """
        self.need_room(count, size, new=True, ahead=ahead)
        self._admitted += count
        self._admitted_bytes += size

        def give_back() -> None:
            self._admitted -= count
            self._admitted_bytes -= size

        return give_back

    def need_room(self, count: int, size: int, *, new: bool = False, ahead: float = 0.0) -> None:
        """Raise Overloaded when so many more items, of so many bytes, would be too many to wait, or too large.

        `ahead`: seconds that new ones will have waited when they come.
        """
        waiting = len(self._queue) + len(self._new)
        if waiting + count > BACKLOG or (waiting and self._bytes + size > BACKLOG_BYTES):
            raise self._overloaded(count)
        if new and (
            len(self._new) + self._admitted + count > NEW_BACKLOG
            or ((waiting or self._admitted) and self._bytes + self._admitted_bytes + size > NEW_BYTES)
            or ahead + self.wait > NEW_SECONDS
        ):
            raise self._overloaded(count)

    def forget(self) -> None:
        """Let go of what waits, once nobody serves it any more: whoever asked is gone, or asks elsewhere."""
        for waiting in (self._queue, self._new, self._skipped):
            waiting.clear()

    @property
    def backlog(self) -> int:
        """Items that wait."""
        return len(self._queue) + len(self._new) + len(self._skipped)

    @property
    def wait(self) -> float:
        """Seconds that new work would wait, as far as can be told: what waits, at the pace of late.

        A transaction that stands counts for as long as it has: nobody knows when it goes on.
        """
        stands = 0.0 if self._began_at is None else clock.monotonic() - self._began_at
        return stands + len(self._new) * self._pace

    def _overloaded(self, count: int) -> Overloaded:
        """The refusal. Those who are refused are asked to come again one after another, at the pace of late."""
        now = clock.monotonic()
        wait = self.wait
        self._next_turn_at = max(self._next_turn_at, now + wait - NEW_SECONDS / 2) + count * self._pace
        pause = min(max(self._next_turn_at - now, SOONEST), LATEST)
        return Overloaded(backlog=str(self.backlog), wait_ms=f"{wait * 1000:.0f}", retry_ms=f"{pause * 1000:.0f}")

    async def run(self) -> None:
        """Serve for ever; cancel to stop. What waits then is never answered: its callers are gone or will repeat."""
        while True:
            await self._woken.wait()
            while batch := self._take():
                self._began_at = began = clock.monotonic()
                has_left = bool(self._new)
                await self._serve(batch)
                seconds = clock.monotonic() - began
                self._note_pace(seconds, has_left=has_left)
                if self.backlog and seconds < self._stride:
                    await asyncio.sleep(self._stride - seconds)
            self._began_at = None
            self._woken.clear()

    async def run_beside(self) -> None:
        """Serve, beside `run`, what waits when much does: while one transaction is at the database, decide the next."""
        while True:
            await self._many_wait.wait()
            while batch := self._take_apart():
                await self._serve(batch)
                if self._skipped:
                    self._woken.set()
            self._many_wait.clear()

    def _take_apart(self) -> list[Ticket[Item]]:
        """Work under way of groups that are not in the transaction that runs; none when little waits."""
        if len(self._queue) < BESIDE:
            return []
        taken: list[Ticket[Item]] = []
        self._move(self._queue, taken, self._most, BATCH_BYTES)
        groups = self._groups.union(self._group(ticket.item) for ticket in self._skipped)
        batch = [ticket for ticket in taken if self._group(ticket.item) not in groups]
        if len(batch) < len(taken):
            left = [ticket for ticket in taken if self._group(ticket.item) in groups]
            self._queue.extendleft(reversed(left))
            self._bytes += sum([ticket.size for ticket in left])
        return batch

    def _note_pace(self, seconds: float, *, has_left: bool) -> None:
        """Learn from a transaction how fast new work goes on. When all was taken, it could have been more."""
        if self._new_taken:
            pace = seconds / self._new_taken
            if not has_left:
                self._pace = min(self._pace, pace)
            else:
                self._pace = (3 * self._pace + pace) / 4 if self._pace else pace

    def _take(self) -> list[Ticket[Item]]:
        """The next batch: what was skipped first, and what has queued.

        When the last batch settled nothing, the lane waits for one lock instead of asking again: whoever held it has
        committed then, and what else it held is free for the next batch. It also does when an item was skipped too
        often: two busy coordinators must not keep a run from each other for ever.
        """
        if self._most < BATCH:
            self._refuse_late()
        stuck = next((ticket for ticket in self._skipped if not self._has_settled or ticket.skips >= SKIPS), None)
        if stuck is not None:
            group = self._group(stuck.item)
            batch = [ticket for ticket in self._skipped if self._group(ticket.item) == group]
            self._skipped = deque(ticket for ticket in self._skipped if self._group(ticket.item) != group)
            for ticket in batch:
                ticket.waits = True
            self._new_taken = 0
        else:
            batch = self._fill()
        self._has_settled = False
        self._groups = {self._group(ticket.item) for ticket in batch}
        return batch

    def _refuse_late(self) -> None:
        """Those who asked long ago are told to come again, before they give up without having learnt why."""
        last = clock.monotonic() - LONGEST_WAIT
        for waiting in (self._skipped, self._queue, self._new):
            stay: list[Ticket[Item]] = []
            while waiting and waiting[0].call.since < last:
                ticket = waiting.popleft()
                if self._stays(ticket.item):
                    stay.append(ticket)
                    continue
                if waiting is not self._skipped:
                    self._bytes -= ticket.size
                ticket.settle(self._overloaded(1))
            waiting.extendleft(reversed(stay))

    def _fill(self) -> list[Ticket[Item]]:
        """Take what fits into one transaction, by number and by bytes; at least one. Leave out what was taken back."""
        batch: list[Ticket[Item]] = []
        most = self._most
        room = self._move(self._skipped, batch, most, BATCH_BYTES)
        room = self._move(self._queue, batch, most - min(NEW_LEAST, len(self._new), most // 2), room)
        under_way = len(batch)
        self._move(self._new, batch, min(under_way + self._part_of_new(under_way), most), room)
        self._new_taken = len(batch) - under_way
        self._was_busy = under_way > 0
        return batch

    def _part_of_new(self, under_way: int) -> int:
        """How many new items go along with so many that are under way."""
        if under_way:
            return max(NEW_LEAST, under_way // NEW_PART)
        return NEW_BETWEEN if self._was_busy else BATCH

    def _move(self, waiting: deque[Ticket[Item]], batch: list[Ticket[Item]], most: int, room: int) -> int:
        """Move tickets into a batch until it has so many, or no room for the next; return the bytes that are left."""
        while waiting and len(batch) < most:
            ticket = waiting[0]
            if batch and ticket.size > room:
                break
            waiting.popleft()
            if waiting is not self._skipped:
                self._bytes -= ticket.size
            if not ticket.call.done.cancelled():
                batch.append(ticket)
                room -= ticket.size
        return room

    async def _serve(self, batch: Sequence[Ticket[Item]], tries: int = 1) -> None:
        """Commit a batch; one that fails is bisected, so that a bad item harms only itself."""
        try:
            committed = await self._commit(batch)
        except StoreUnavailable as error:
            _log.log(level_of(error, self._outage), "lane %s: %s", self.name, error)
            if isinstance(error, StoreEnded):
                self._most = max(len(batch) // 2, 1)
                self._note_lost(batch)
            for ticket in batch:
                self._settle(ticket, bare(error))
        except Exception as error:  # noqa: BLE001 - the service's one broad catch: a poisoned batch must not end the lane
            await self._bisect(batch, error, tries)
        else:
            if self._outage.is_on:
                self._outage.succeeded()
            for ticket, outcome in committed.outcomes:
                if self._lost:
                    self._lost.pop(self._tell(ticket.item), None)
                self._settle(ticket, outcome)
            for ticket in committed.skipped:
                ticket.skips += 1
            self._skipped.extend(committed.skipped)
            if committed.left:
                self._put_back(committed.left)
                self._most = max(2 * len(committed.outcomes), 2)
            elif self._most < BATCH:
                self._most = min(2 * self._most, BATCH)

    def _put_back(self, left: Sequence[Ticket[Item]]) -> None:
        """They come first in the next transaction, and wait for nobody there."""
        for ticket in left:
            ticket.skips, ticket.waits = 0, False
        self._skipped.extendleft(reversed(left))

    def _note_lost(self, batch: Sequence[Ticket[Item]]) -> None:
        """Count the tries of items that those who sent them repeat: one that never goes through is not passed over."""
        if len(self._lost) > LOST_KNOWN:
            self._lost.clear()
        often: list[str] = []
        for ticket in batch:
            told = self._tell(ticket.item)
            tries = self._lost[told] = self._lost.get(told, 0) + 1
            if tries % LOST_TRIES == 0:
                often.append(f"{told} ({tries} times)")
        if often:
            named, more = ", ".join(often[:LOST_NAMED]), len(often) - LOST_NAMED
            rest = f" and {more} more" if more > 0 else ""
            _log.error("lane %s: the database was lost each time that this was tried: %s%s", self.name, named, rest)

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
            item = batch[0].item
            run_id = getattr(item, "run_id", None)
            extra = {"run_id": run_id.hex} if isinstance(run_id, UUID) else {}
            _log.error("lane %s: item left out: %r", self.name, item, exc_info=error, extra=extra)
            self._settle(batch[0], EventUndecidable(problem=f"{type(error).__name__}: {error}"))
            bare(error)


def whole(answers: list[Any]) -> list[Any]:
    """The answers, unless the whole is to be repeated: then raises StoreUnavailable or Overloaded."""
    for answer in answers:
        if isinstance(answer, StoreUnavailable | Overloaded):
            raise answer
    return answers
