"""The timers service as a whole: one look-out, some lanes, how they are wired, how they end."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

import asyncpg

from headway.runtime.backoff import Backoff
from headway.runtime.loops import Loops
from headway.timers.batches import Batches
from headway.timers.coordinator import Coordinator
from headway.timers.settings import TimersSettings
from headway.timers.store import DueReader
from headway.timers.telemetry import Telemetry
from headway.timers.watching import Lookout, Teller

__all__ = ["Surroundings", "Timers"]

DRAIN_SHARE = 0.8  # of the time to drain: the rest is for closing


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
    """Wires the loops and runs them."""

    def __init__(self, settings: TimersSettings, around: Surroundings) -> None:
        self._settings = settings
        self._loops = Loops(backoff=Backoff(cap=settings.retry_cap), chance=around.chance)
        self._batches = Batches()
        self._teller = Teller(
            batches=self._batches,
            coordinator=around.coordinator,
            telemetry=Telemetry(),
            batch=settings.batch,
            chance=around.chance,
            clock=around.clock,
        )
        self._lookout = Lookout(
            reader=DueReader(around.pool, clock=around.clock, ahead=settings.poll_interval, limit=settings.limit),
            batches=self._batches,
            teller=self._teller,
            poll_interval=settings.poll_interval,
            limit=settings.limit,
            clock=around.clock,
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Look and tell until told to stop, then finish the calls under way.

        Args:
            stopping: Set when it is time to end.
        """
        async with asyncio.TaskGroup() as group:
            lanes = [
                group.create_task(self._loops.keep(f"telling lane {lane}", self._teller.step))
                for lane in range(self._settings.lanes)
            ]
            lookout = group.create_task(self._loops.keep("looking for what is due", self._lookout.step))
            await stopping.wait()
            self._loops.stop()
            lookout.cancel()
            await self._batches.close()
            _, late = await asyncio.wait(lanes, timeout=self._settings.drain_timeout.total_seconds() * DRAIN_SHARE)
            for lane in late:
                lane.cancel()
