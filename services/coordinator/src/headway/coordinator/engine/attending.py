"""Workers that attend: who is there is written down now and then, and who holds a lease of a stopping run is told.

Nothing depends on either: Renew tells holders too, and no decision reads who is there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import TypeAlias
from uuid import UUID

from headway.coordinator import clock
from headway.coordinator.engine.unserved import level_of
from headway.coordinator.ids import run_id_text
from headway.coordinator.store import attending as store
from headway.coordinator.store.attending import STOPPING_CHANNEL
from headway.coordinator.store.errors import STORE_ERRORS, StoreUnavailable, translated
from headway.coordinator.store.pool import Pool
from headway.runtime.listening import Listener, ListeningConnection
from headway.runtime.outages import Outage

NOTE_SECONDS = 60.0  # from one note of a worker to the next
LOOK_SECONDS = 5.0  # how often it is seen who must be noted again
GATHER_SECONDS = 0.2  # for workers that come at the same time: they are noted together
RETRY_SECONDS = 2.0
RUNS_NAMED = 20  # in a line of the log
MOST_HEARD = 10_000  # stops that wait to be looked up; Renew tells the rest
_log = logging.getLogger(__name__)

Connect: TypeAlias = Callable[[], Awaitable[ListeningConnection]]
"""Opens a connection for LISTEN."""
Stop: TypeAlias = tuple[UUID, str, int]
"""Run, path and attempt of a handler that is to stop."""
Told: TypeAlias = tuple[UUID, str]
"""What is being stopped: a task by run and path; no path: whatever in the run is to stop."""
Tell: TypeAlias = Callable[[Stop], object]
"""Puts a stop into a worker's stream, if there is room."""
_Worker: TypeAlias = tuple[str, str]  # namespace, owner


class Presence:
    """Which workers are there, written down once a minute for each at the most."""

    def __init__(self, pool: Pool, outage: Outage) -> None:
        """Know of none."""
        self._pool = pool
        self._outage = outage
        self._noted_at: dict[_Worker, float] = {}
        self._queues: dict[_Worker, tuple[str, ...]] = {}
        self._attending: dict[_Worker, int] = {}
        self._left: set[_Worker] = set()
        self._due: set[_Worker] = set()
        self._changed = asyncio.Event()
        self._looked_at = clock.monotonic()

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
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            if self._looked_at + LOOK_SECONDS <= clock.monotonic():
                self._looked_at = clock.monotonic()
                self._look()
            if self._due or self._left:
                await asyncio.sleep(GATHER_SECONDS)
                await self._write()

    def _look(self) -> None:
        """Who attends is noted again in time; of others, what is old is forgotten."""
        before = clock.monotonic() - NOTE_SECONDS
        for worker, noted_at in [*self._noted_at.items()]:
            if noted_at <= before and worker not in self._attending:
                self._forget(worker)
        self._due.update(worker for worker in self._attending if self._noted_at.get(worker, before) <= before)

    def _forget(self, worker: _Worker) -> None:
        self._noted_at.pop(worker, None)
        self._queues.pop(worker, None)

    async def _write(self) -> None:
        self._changed.clear()
        left, self._left = self._left - self._attending.keys(), set()
        due, self._due = self._due - left, set()
        present = [(*worker, self._queues[worker]) for worker in sorted(due)]
        for worker in left:  # who comes again meanwhile is noted anew
            self._forget(worker)
        now = clock.monotonic()
        try:
            if due:
                await store.note_workers(self._pool, present)
                self._noted_at.update((worker, now) for worker in due if worker in self._queues)
            if left:
                seen_until = await store.read_clock(self._pool)
                for worker in left:
                    await store.note_leaving(self._pool, *worker, seen_until)
        except STORE_ERRORS as error:  # who attends is noted at the next look; who left grows old
            facts = {"noting": len(due), "leaving": len(left)}
            _log.log(level_of(error, self._outage), "who is there was not noted: %s", error, extra=facts)
            for worker in due - self._attending.keys() - self._noted_at.keys():
                self._forget(worker)  # to be noted when it calls again


class StopOrders:
    """Tells attending holders of leases at once that their run is being stopped, whichever coordinator decided it."""

    def __init__(self, pool: Pool, connect: Connect | None, outage: Outage) -> None:
        """Hear by a connection of `connect`; None: never, and Renew alone tells."""
        self._pool = pool
        self._outage = outage
        self._tells: dict[str, set[Tell]] = {}
        self._heard: set[Told] = set()
        self._told = asyncio.Event()
        self._listener = connect and Listener(
            connect=connect, channel=STOPPING_CHANNEL, notified=self._notified, listening=self._is_listening
        )

    @property
    def hears(self) -> bool:
        """There is a connection to hear by."""
        return self._listener is not None

    @contextmanager
    def of(self, owner: str, tell: Tell) -> Generator[None]:
        """Tell an owner what it is to stop, as long as the block runs."""
        self._tells.setdefault(owner, set()).add(tell)
        try:
            yield
        finally:
            self._tells[owner].discard(tell)
            if not self._tells[owner]:
                del self._tells[owner]

    async def listen(self) -> None:
        """Hear what stops, for ever; only where it `hears`."""
        if self._listener is None:
            raise LookupError("nothing to listen on")
        try:
            while True:
                try:
                    with translated():
                        await self._listener.step()
                except StoreUnavailable as error:
                    self._outage.failed(str(error))
                    await asyncio.sleep(RETRY_SECONDS)
                except STORE_ERRORS as error:
                    _log.warning("what stops is not heard of at once: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    self._outage.succeeded()
        finally:
            self._listener.close()

    async def tell(self) -> None:
        """Find the holders of what was heard of, and tell those that attend here; for ever."""
        while True:
            await self._told.wait()
            self._told.clear()
            heard, self._heard = self._heard, set()
            try:
                await self._tell(heard)
            except STORE_ERRORS as error:
                run_ids = sorted({run_id_text(run_id) for run_id, _ in heard})
                _log.log(
                    level_of(error, self._outage),
                    "holders of %d leases or runs that stop were not told: %s",
                    len(heard),
                    error,
                    extra={"runs": run_ids[:RUNS_NAMED]},
                )

    async def _tell(self, heard: Iterable[Told]) -> None:
        for run_id, path, attempt, owner in await store.get_holders(self._pool, heard):
            for tell in self._tells.get(owner, ()):
                tell((run_id, path, attempt))

    def _notified(self, payload: str) -> None:
        if not self._tells or len(self._heard) >= MOST_HEARD:
            return
        run_id, _, path = payload.partition(":")
        try:
            self._heard.add((UUID(run_id), path))
        except ValueError:
            _log.warning("a notification that names no run", extra={"payload": payload[:100]})
        else:
            self._told.set()

    async def _is_listening(self) -> None:
        """Nothing to catch up with: what was missed, Renew tells."""
