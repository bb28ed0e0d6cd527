"""Workers that attend: who is there is written down now and then, and who holds a lease of a stopping run is told.

Nothing depends on either: Renew tells holders too, and no decision reads who is there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from typing import TypeAlias
from uuid import UUID

from headway.coordinator import clock
from headway.coordinator.store import attending as store
from headway.coordinator.store.attending import STOPPING_CHANNEL
from headway.coordinator.store.errors import StoreConflict, StoreRejected, StoreUnavailable, translated
from headway.coordinator.store.pool import Pool
from headway.runtime.listening import Listener, ListeningConnection

NOTE_SECONDS = 60.0  # from one note of a worker to the next
LOOK_SECONDS = 5.0  # how often it is seen who must be noted again
GATHER_SECONDS = 0.2  # for workers that come at the same time: they are noted together
RETRY_SECONDS = 2.0
_STORE_ERRORS = (StoreUnavailable, StoreRejected, StoreConflict)
_log = logging.getLogger(__name__)

Connect: TypeAlias = Callable[[], Awaitable[ListeningConnection]]
"""Opens a connection for LISTEN."""
Stop: TypeAlias = tuple[UUID, str, int]
"""Run, path and attempt of a handler that is to stop."""
_Worker: TypeAlias = tuple[str, str]  # namespace, owner


class Presence:
    """Which workers are there, written down once a minute for each at the most."""

    def __init__(self, pool: Pool) -> None:
        """Know of none."""
        self._pool = pool
        self._noted_at: dict[_Worker, float] = {}
        self._queues: dict[_Worker, tuple[str, ...]] = {}
        self._attending: dict[_Worker, int] = {}
        self._left: set[_Worker] = set()
        self._due: set[_Worker] = set()
        self._changed = asyncio.Event()

    def note(self, namespace: str, owner: str, queues: Collection[str]) -> None:
        """A worker called, and says what it reads."""
        worker = (namespace, owner)
        noted_at = self._noted_at.get(worker)
        if noted_at is None or noted_at + NOTE_SECONDS <= clock.monotonic():
            self._queues[worker] = tuple(sorted(queues))
            self._due.add(worker)
            self._changed.set()

    @contextmanager
    def attend(self, namespace: str, owner: str, queues: Collection[str]) -> Generator[None]:
        """A worker is there while the block runs."""
        worker = (namespace, owner)
        self._attending[worker] = self._attending.get(worker, 0) + 1
        self._noted_at.pop(worker, None)
        self.note(namespace, owner, queues)
        try:
            yield
        finally:
            self._attending[worker] -= 1
            if not self._attending[worker]:
                del self._attending[worker]
                self._left.add(worker)
                self._changed.set()

    async def keep(self) -> None:
        """Write, for ever."""
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                self._look()
            if self._due or self._left:
                await asyncio.sleep(GATHER_SECONDS)
                await self._write()

    def _look(self) -> None:
        """Who attends is noted again in time; of others, what is old is forgotten."""
        before = clock.monotonic() - NOTE_SECONDS
        old = [worker for worker, noted_at in self._noted_at.items() if noted_at <= before]
        for worker in old:
            if worker in self._attending:
                self._due.add(worker)
            else:
                del self._noted_at[worker]
                self._queues.pop(worker, None)

    async def _write(self) -> None:
        self._changed.clear()
        left, self._left = self._left - self._attending.keys(), set()
        due, self._due = self._due - left, set()
        now = clock.monotonic()
        try:
            if due:
                await store.note_workers(self._pool, [(*worker, self._queues[worker]) for worker in sorted(due)])
                self._noted_at.update(dict.fromkeys(due, now))
            if left:
                seen_until = await store.read_clock(self._pool)
                for worker in left:
                    self._noted_at.pop(worker, None)
                    self._queues.pop(worker, None)
                    await store.drop_worker(self._pool, *worker, seen_until)
        except _STORE_ERRORS as error:  # whoever is there is noted at the next look; who left grows old
            _log.warning("who is there was not noted: %s", error)


class StopOrders:
    """Tells attending holders of leases at once that their run is being stopped, whichever coordinator decided it."""

    def __init__(self, pool: Pool, connect: Connect | None) -> None:
        """Hear by a connection of `connect`; None: never, and Renew alone tells."""
        self._pool = pool
        self._queues: dict[str, set[asyncio.Queue[Stop]]] = {}
        self._stopping: set[UUID] = set()
        self._told = asyncio.Event()
        self._listener = connect and Listener(
            connect=connect, channel=STOPPING_CHANNEL, notified=self._notified, listening=self._is_listening
        )

    @contextmanager
    def of(self, owner: str) -> Generator["asyncio.Queue[Stop]"]:
        """What an owner is to stop, as long as the block runs."""
        orders: asyncio.Queue[Stop] = asyncio.Queue()
        self._queues.setdefault(owner, set()).add(orders)
        try:
            yield orders
        finally:
            self._queues[owner].discard(orders)
            if not self._queues[owner]:
                del self._queues[owner]

    async def listen(self) -> None:
        """Hear of runs, for ever."""
        if self._listener is None:
            return
        try:
            while True:
                try:
                    with translated():
                        await self._listener.step()
                except _STORE_ERRORS as error:
                    _log.warning("runs that stop are not heard of at once: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._listener.close()

    async def tell(self) -> None:
        """Find the holders in the runs that were heard of, and tell those that attend here; for ever."""
        while True:
            await self._told.wait()
            self._told.clear()
            run_ids, self._stopping = self._stopping, set()
            try:
                await self._tell(run_ids)
            except _STORE_ERRORS as error:
                _log.warning("holders in %d runs that stop were not told: %s", len(run_ids), error)

    async def _tell(self, run_ids: Iterable[UUID]) -> None:
        for run_id, path, attempt, owner in await store.get_holders(self._pool, run_ids):
            for orders in self._queues.get(owner, ()):
                orders.put_nowait((run_id, path, attempt))

    def _notified(self, payload: str) -> None:
        if self._queues:
            self._stopping.add(UUID(payload))
            self._told.set()

    async def _is_listening(self) -> None:
        """Nothing to catch up with: what was missed, Renew tells."""
