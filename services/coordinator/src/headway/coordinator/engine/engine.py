"""The coordinator's shell: routes what is asked to its bucket's lanes, and runs the lanes.

It may loop, wait, retry and translate; it may not choose: what an event means is `core`'s.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from headway.coordinator import clock
from headway.coordinator.core.refusals import Overloaded
from headway.coordinator.engine import telemetry
from headway.coordinator.engine.attending import Connect, Presence, StopOrders
from headway.coordinator.engine.deciding import Decisions
from headway.coordinator.engine.lanes import CONFLICT_TRIES, Lane, whole
from headway.coordinator.engine.leasing import Granted, LeaseAsk, Leases, Renewals, RenewAsk
from headway.coordinator.engine.offering import Offers
from headway.coordinator.engine.plans import Plans
from headway.coordinator.engine.reads import Reads
from headway.coordinator.engine.submissions import ReportReleased, Submission, told
from headway.coordinator.engine.unserved import level_of
from headway.coordinator.ids import MAX_BUCKETS, bucket_of, run_id_in
from headway.coordinator.store.errors import STORE_ERRORS, StoreConflict, StoreUnavailable, translated
from headway.coordinator.store.pool import Pool, Seat, Seats
from headway.coordinator.store.saving import save_dispatches
from headway.coordinator.store.statements import SQL
from headway.runtime.backoff import Backoff
from headway.runtime.loops import Loops, Step
from headway.runtime.outages import Peer

LOOK_SECONDS = 1.0  # how often, at the most, a bucket that we do not know makes us look
SETTINGS_SECONDS = 5.0  # how old live settings and gauges may be
SWEEP_PAGE = 5_000  # tasks of one call: a call has to end before its deadline
BEGINNING = (UUID(int=0), "")
Swept: TypeAlias = tuple[UUID, str]
"""Run and path of a task that was dispatched again; a sweep goes by bucket, and in a bucket by run and path."""
Item = TypeVar("Item", Submission, LeaseAsk, RenewAsk)
_log = logging.getLogger(__name__)

DATABASE = Peer(
    name="the database",
    meanwhile="calls are refused as STORE_UNAVAILABLE and tried again by who makes them; what was committed stands",
    faults=(StoreUnavailable, OSError),
)


class Watchers:
    """Tells those who watch a run in this process that it may have new events; others' commits are polled for."""

    def __init__(self) -> None:
        """Begin with nobody watching."""
        self._events: dict[UUID, set[asyncio.Event]] = {}

    def add(self, run_id: UUID) -> asyncio.Event:
        """Watch a run; the event is set after each commit that concerns it."""
        event = asyncio.Event()
        self._events.setdefault(run_id, set()).add(event)
        return event

    def remove(self, run_id: UUID, event: asyncio.Event) -> None:
        """Watch it no more."""
        watching = self._events.get(run_id, set())
        watching.discard(event)
        if not watching:
            self._events.pop(run_id, None)

    def tell(self, run_ids: Iterable[UUID]) -> None:
        """These runs have new events."""
        if self._events:
            for run_id in run_ids:
                for event in self._events.get(run_id, ()):
                    event.set()


class Engine:
    """All lanes of one coordinator process. `start` in a running loop, `stop` at the end."""

    def __init__(self, pool: Pool, *, connect_listener: Connect | None = None) -> None:
        """Serve with a pool of connections.

        Args:
            pool: of connections.
            connect_listener: opens a connection for LISTEN; None: holders of leases learn by Renew alone that their run
                is being stopped.
        """
        self.pool = pool
        self.reads = Reads(pool)
        self._loops = Loops(backoff=Backoff(), chance=clock.CHANCE, peers=[DATABASE])
        self.outage = self._loops.outage(DATABASE)
        self.presence = Presence(pool, self.outage)
        self.stop_orders = StopOrders(pool, connect_listener, self.outage)
        self.offers = Offers(self._untold)
        self._seats = Seats(pool)
        self.plans = Plans()
        self.watchers = Watchers()
        self.run_buckets = 1
        self._ready = 0
        self._buckets: set[int] = set()  # that hold runs, as far as we know
        self._looked_at = -LOOK_SECONDS
        self._decisions: dict[int, Lane[Submission]] = {}
        self._leases: dict[int, Lane[LeaseAsk]] = {}
        self._renewals: dict[int, Lane[RenewAsk]] = {}
        self._lanes: list[Lane[Any]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_stop = ExitStack()

    async def start(self) -> None:
        """Read the live settings and begin to keep them fresh."""
        await self._refresh()
        self.keep(self._keep_fresh, "settings")
        self.keep(self.presence.keep, "presence")
        if self.stop_orders.hears:
            self.keep(self.stop_orders.listen, "stop orders, listening")
        self.keep(self.stop_orders.tell, "stop orders, telling")
        self._at_stop.callback(telemetry.watch_ready_tasks(lambda: self._ready))

    async def stop(self) -> None:
        """Stop the lanes; what they have not committed is rolled back by the database."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for lane in self._lanes:
            lane.forget()
        self._at_stop.close()
        await self._seats.close()

    @property
    def backlog(self) -> int:
        """Items that wait in all lanes."""
        return sum(lane.backlog for lane in self._lanes)

    async def submit(self, items: Sequence[Submission], *, new: bool = False, admitted: bool = False) -> list[Any]:
        """Decide; an answer or an exception for each, in order. Raises Overloaded when nothing was queued.

        Args:
            items: what is asked.
            new: they would begin something: they come after work under way, and are refused before it.
            admitted: `admit` said yes to them: they are not refused any more.
        """
        return await self._route(items, self._decisions, self._decision_lane, new=new, admitted=admitted)

    async def lease(self, items: Sequence[LeaseAsk]) -> list[Any]:
        """Lease; as `submit`."""
        return await self._route(items, self._leases, self._lease_lane)

    async def renew(self, items: Sequence[RenewAsk]) -> list[Any]:
        """Renew; as `submit`."""
        return await self._route(items, self._renewals, self._renewal_lane)

    def admit(self, starts: Iterable[tuple[UUID, int]], *, ahead: float) -> ExitStack:
        """Refuse starts before anything is done for them, or keep room for them until the answer is closed.

        Args:
            starts: the run's id and the bytes of its input, of each.
            ahead: seconds that they will wait for something else first.

        Raises:
            Overloaded: they would have to wait for too long.
        """
        wanted: dict[int, list[int]] = {}
        for run_id, size in starts:
            wanted.setdefault(bucket_of(run_id), []).append(size)
        with ExitStack() as room:
            for bucket, sizes in wanted.items():
                if bucket in self._decisions:
                    room.callback(self._decisions[bucket].admit(len(sizes), sum(sizes), ahead=ahead))
            return room.pop_all()

    def run_id_of(self, request_id: UUID) -> UUID:
        """The id of the run that a request starts: the same for the same request."""
        return run_id_in((request_id.int & 0xFFFFFFFF) % self.run_buckets, request_id)

    def seat(self) -> Seat:
        """A connection for a lane of one's own."""
        return self._seats.seat()

    def keep(self, work: Step, name: str) -> None:
        """Run something in the background until the engine stops; when it fails, that is logged, and it begins anew."""
        self._tasks.add(asyncio.get_running_loop().create_task(self._loops.keep(name, work), name=name))

    def serve(self, lane: Lane[Any]) -> None:
        """Run a lane until the engine stops."""
        self._lanes.append(lane)
        self.keep(lane.run, lane.name)
        if lane.beside:
            self.keep(lane.run_beside, f"{lane.name}, beside")

    async def sweep_lost(self, after: Swept | None = None) -> tuple[int, Swept | None]:
        """Dispatch a page of the READY tasks again, whatever their age: the broker lost everything.

        Args:
            after: What the page before answered; None: from the beginning.

        Returns:
            How many, and the last of them when the page was full.
        """
        count = 0
        for bucket in await self._used_buckets(after):
            behind = after if after is not None and bucket_of(after[0]) == bucket else BEGINNING
            last, swept = await self._sweep_page(bucket, "sweep_lost", *behind, SWEEP_PAGE - count)
            count += swept
            if count >= SWEEP_PAGE:
                return count, last
        return count, None

    async def sweep_aged(
        self, queues: Sequence[tuple[str, str, timedelta]], after: Swept | None = None
    ) -> tuple[int, Swept | None]:
        """Dispatch a page of the READY tasks again whose dispatch seems lost.

        Args:
            queues: (namespace, queue, delivered age): of tasks that are READY for longer, the dispatch has been read.
            after: What the page before answered; None: from the beginning.

        Returns:
            How many, and the last of them when the page was full.
        """
        count = 0
        for bucket in await self._used_buckets(after):
            with translated():
                async with self.pool.acquire() as connection:
                    now = await connection.fetchval(SQL["clock"])
            columns = [list(column) for column in zip(*((n, q, now - age) for n, q, age in queues), strict=True)]
            last, swept = await self._sweep_page(bucket, "sweep_aged", now, SWEEP_PAGE - count, *columns)
            count += swept
            if count >= SWEEP_PAGE:
                return count, last
        return count, None

    async def _sweep_page(self, bucket: int, statement: str, *arguments: Any) -> tuple[Swept | None, int]:
        """Sweep a page; a decision that wanted the same rows in another order may make it start over."""
        for _ in range(CONFLICT_TRIES - 1):
            with suppress(StoreConflict):
                return await self._try_page(bucket, statement, *arguments)
        return await self._try_page(bucket, statement, *arguments)

    async def _try_page(self, bucket: int, statement: str, *arguments: Any) -> tuple[Swept | None, int]:
        with translated():
            async with self.pool.acquire() as connection, connection.transaction():
                records = await connection.fetch(SQL[statement], bucket, *arguments)
                if not records:
                    return None, 0
                now = await connection.fetchval(SQL["clock"])
                swept = [(bucket, now, r["run_id"], r["path"], r["attempt"]) for r in records]
                await connection.executemany(SQL["set_swept"], swept)
                rows = [
                    (clock.new_uuid(), r["run_id"], r["namespace"], r["path"], r["attempt"], r["queue"], r["handler"],
                     r["trace"])
                    for r in records
                ]  # fmt: skip
                await save_dispatches(connection, bucket, now, rows)
        return (records[-1]["run_id"], records[-1]["path"]), len(records)

    # --- lanes

    async def _route(
        self,
        items: Sequence[Item],
        lanes: dict[int, Lane[Item]],
        make: Callable[[int], Lane[Item]],
        *,
        new: bool = False,
        admitted: bool = False,
    ) -> list[Any]:
        """Split by bucket, wait for all, put the results back in order."""
        places: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            places.setdefault(bucket_of(item.run_id), []).append(place)
        if not places.keys() <= self._buckets:
            await self._look_for_buckets()
        if len(places) == 1:
            (bucket,) = places
            if bucket in self._buckets:
                return await self._lane(bucket, lanes, make).submit(items, new=new, admitted=admitted)
        parts = {bucket: [items[place] for place in at] for bucket, at in places.items() if bucket in self._buckets}
        for bucket, part in parts.items():  # in all of them, before anything is queued in one
            lane = self._lane(bucket, lanes, make)
            if not admitted:
                lane.need_room(len(part), sum([lane.size(item) for item in part]), new=new)
        calls = {bucket: lanes[bucket].submit(part, new=new, admitted=admitted) for bucket, part in parts.items()}
        results: list[Any] = [None] * len(items)
        try:
            for bucket, at in places.items():
                answers = await calls[bucket] if bucket in calls else [items[place].missing() for place in at]
                for place, answer in zip(at, answers, strict=True):
                    results[place] = answer
        finally:
            for call in calls.values():
                call.cancel()  # of those that are not done: whoever asked is gone
        return results

    def _lane(self, bucket: int, lanes: dict[int, Lane[Item]], make: Callable[[int], Lane[Item]]) -> Lane[Item]:
        lane = lanes.get(bucket)
        if lane is None:
            lane = lanes[bucket] = make(bucket)
            self.serve(lane)
        return lane

    async def _look_for_buckets(self) -> None:
        """Another coordinator may have begun to use one; ids that somebody made up must not make us ask for each."""
        now = clock.monotonic()
        if now >= self._looked_at + LOOK_SECONDS:
            self._looked_at = now
            self._buckets.update(await self._used_buckets(None))

    def _decision_lane(self, bucket: int) -> Lane[Submission]:
        decisions = Decisions(
            bucket, self._seats, self.plans, self.watchers.tell, lambda: self.run_buckets, self.offers
        )
        return Lane(
            f"decisions-{bucket}",
            decisions.commit,
            outage=self.outage,
            group=lambda item: item.run_id,
            size=lambda item: item.size,
            tell=told,
            stays=lambda item: item.stays,
            beside=True,
        )

    def _lease_lane(self, bucket: int) -> Lane[LeaseAsk]:
        commit = Leases(bucket, self._seats).commit
        return Lane(f"leases-{bucket}", commit, outage=self.outage, group=lambda item: item.run_id)

    def _renewal_lane(self, bucket: int) -> Lane[RenewAsk]:
        commit = Renewals(bucket, self._seats).commit
        return Lane(f"renewals-{bucket}", commit, outage=self.outage, group=lambda item: item.run_id)

    # --- what was leased to those that will not hear of it

    def _untold(self, owner: str, grants: Iterable[tuple[int, Granted]]) -> None:
        asks = [
            ReportReleased(run_id=grant.run_id, path=grant.path, attempt=attempt, owner=owner)
            for attempt, grant in grants
        ]
        task = asyncio.get_running_loop().create_task(self._release(asks), name="releasing")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _release(self, asks: Sequence[ReportReleased]) -> None:
        """Give attempts back in the name of whoever does not know of them. What is not, its short lease gives back."""
        try:
            whole(await self.submit(asks))
        except (Overloaded, StoreUnavailable) as error:
            level = logging.DEBUG if self.outage.is_on else logging.WARNING
            _log.log(level, "what could not be pushed was not given back: %s", error, extra={"attempts": len(asks)})

    # --- live settings and gauges

    async def _used_buckets(self, after: Swept | None) -> list[int]:
        """The buckets, in order, from the one of `after`."""
        first = 0 if after is None else bucket_of(after[0])
        with translated():
            async with self.pool.acquire() as connection:
                buckets = [record["bucket"] for record in await connection.fetch(SQL["list_buckets"])]
        return [bucket for bucket in buckets if bucket >= first]

    async def _refresh(self) -> None:
        with translated():
            async with self.pool.acquire() as connection:
                wanted = self._run_buckets(await connection.fetchval(SQL["get_setting"], "run_buckets"))
                for bucket in range(wanted):
                    if bucket >= self.run_buckets:
                        await connection.execute(SQL["add_bucket"], bucket)
                buckets = [record["bucket"] for record in await connection.fetch(SQL["list_buckets"])]
                self._ready = sum([await connection.fetchval(SQL["ready_tasks"], bucket) for bucket in buckets])
        self.run_buckets = wanted
        self._buckets.update(buckets)

    def _run_buckets(self, value: str | None) -> int:
        """The setting's value; what an operator mistyped is not taken."""
        if value is not None and value.isdecimal() and 1 <= int(value) <= MAX_BUCKETS:
            return int(value)
        _log.error("setting run_buckets must be a number from 1 to %d, not %r", MAX_BUCKETS, value)
        return self.run_buckets

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(SETTINGS_SECONDS)
            try:
                await self._refresh()
            except STORE_ERRORS as error:
                _log.log(level_of(error, self.outage), "live settings were not read: %s", error)
            else:
                self.outage.succeeded()
