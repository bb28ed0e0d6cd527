"""The timers service as a whole: two look-outs, some lanes each, how they are wired, how they end."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import asyncpg

from headway.runtime.backoff import Backoff
from headway.runtime.listening import Listener
from headway.runtime.loops import Loops, Step
from headway.runtime.outages import Peer
from headway.timers.batches import Batches
from headway.timers.coordinator import Coordinator, CoordinatorBusyError, CoordinatorLateError
from headway.timers.settings import TimersSettings
from headway.timers.store import DATABASE_FAULTS, DueReader, connect_listener
from headway.timers.telemetry import Telemetry
from headway.timers.watching import Lookout, Teller

__all__ = ["CHANNEL", "Surroundings", "Timers"]

CHANNEL = "headway_timers"
"""Notified when a timer is set that is due before a look at the usual time."""

DRAIN_SHARE = 0.8  # of the time to drain: the rest is for closing
LEASE_INTERVAL = timedelta(seconds=1)  # between two looks at least: a lease is set for longer, and known before it ends
PEERS = (
    Peer(
        name="the coordinator",
        meanwhile="what is due (waits, retries, time-outs, expired leases) is late, and none of it is lost",
        faults=(CoordinatorBusyError, CoordinatorLateError),
    ),
    Peer(
        name="the database",
        meanwhile="nobody sees what is due; it is late, and none of it is lost",
        faults=DATABASE_FAULTS,
    ),
)
LEASE_LANES = 2  # a page is under way while the next one is made ready; more would only stand before other decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the service is given from outside.

    Attributes:
        pool: Connections to the database.
        coordinator: The coordinator.
        chance: Spreads tries.
        clock: Monotonic seconds.
    """

    pool: "asyncpg.Pool[asyncpg.Record]"
    coordinator: Coordinator
    chance: random.Random
    clock: Callable[[], float]


class Timers:
    """Wires the loops and runs them: those for timers, and those for leases, which hold each other up in nothing."""

    def __init__(self, settings: TimersSettings, around: Surroundings) -> None:
        self._settings = settings
        self._around = around
        self._loops = Loops(backoff=Backoff(cap=settings.retry_cap), chance=around.chance, peers=PEERS)
        self._telemetry = Telemetry()
        self._timers = self._watch(leases=False, batch=settings.batch, every=settings.poll_interval)
        self._leases = self._watch(
            leases=True, batch=settings.lease_batch, every=max(settings.poll_interval, LEASE_INTERVAL)
        )
        self._listener = Listener(
            connect=partial(connect_listener, settings.database_url),
            channel=CHANNEL,
            notified=lambda _: self._timers.lookout.hurry(),
            listening=self._hurry,
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Look and tell until told to stop, then finish the calls under way.

        Args:
            stopping: Set when it is time to end.
        """
        try:
            async with asyncio.TaskGroup() as group:

                def start(name: str, step: Step) -> asyncio.Task[None]:
                    return group.create_task(self._loops.keep(name, step), name=name)

                lanes = [
                    *(
                        start(f"telling timers, lane {lane}", self._timers.teller.step)
                        for lane in range(self._settings.lanes)
                    ),
                    *(start(f"telling leases, lane {lane}", self._leases.teller.step) for lane in range(LEASE_LANES)),
                ]
                watches = [
                    start("looking for timers", self._timers.lookout.step),
                    start("looking for leases", self._leases.lookout.step),
                    start("listening", self._listener.step),
                ]
                await stopping.wait()
                self._loops.stop()
                for watch in watches:
                    watch.cancel()
                await self._timers.batches.close()
                await self._leases.batches.close()
                _, late = await asyncio.wait(lanes, timeout=self._settings.drain_timeout.total_seconds() * DRAIN_SHARE)
                for lane in late:
                    lane.cancel()
        finally:
            self._listener.close()

    async def _hurry(self) -> None:
        self._timers.lookout.hurry()

    def _watch(self, *, leases: bool, batch: int, every: timedelta) -> "_Watch":
        around, limit = self._around, self._settings.limit
        batches = Batches()
        teller = Teller(
            batches=batches,
            coordinator=around.coordinator,
            telemetry=self._telemetry,
            what="leases" if leases else "timers",
            batch=batch,
            chance=around.chance,
            clock=around.clock,
        )
        lookout = Lookout(
            reader=DueReader(around.pool, leases=leases, clock=around.clock, limit=limit),
            batches=batches,
            teller=teller,
            poll_interval=every,
            limit=limit,
            clock=around.clock,
        )
        return _Watch(batches=batches, teller=teller, lookout=lookout)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """A look-out, and what tells what it finds."""

    batches: Batches
    teller: Teller
    lookout: Lookout
