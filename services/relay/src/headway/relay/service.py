"""The relay as a whole: its loops, how they are wired, how they end.

Several lanes publish, one delivers hand-overs, and around them one loop each listens, polls, watches for loss, tells
how far the queues are, and prunes. All but the lanes may be broken off at any instant; a lane is let finish its batch.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import asyncpg

from headway.relay.broker import BROKER_DOWN, Broker
from headway.relay.coordinator import Coordinator, CoordinatorBusyError
from headway.relay.handovers import HandoverCarrier
from headway.relay.listening import CHANNEL, Poll, waking
from headway.relay.loss import LossWatch, ProgressSweep
from headway.relay.publishing import Publisher
from headway.relay.settings import RelaySettings
from headway.relay.store import DATABASE_FAULTS, Outbox, connect_listener
from headway.relay.telemetry import Telemetry
from headway.relay.wakes import Wakes
from headway.runtime.backoff import Backoff
from headway.runtime.listening import Listener
from headway.runtime.loops import Loops, Step
from headway.runtime.outages import Peer

__all__ = ["Relay", "Surroundings"]

DRAIN_SHARE = 0.8  # of the time to drain: the rest is for closing
SPARE_CONNECTIONS = 3  # for hand-overs, polling and sweeping, beside one per lane

COORDINATOR = Peer(
    name="the coordinator",
    meanwhile="what runs tell each other (subflows) waits in the outbox; dispatches go on",
    faults=(CoordinatorBusyError,),
    proves_itself=True,
)
BROKER = Peer(
    name="Redis",
    meanwhile="dispatches wait in the outbox: workers get no tasks by their queues; none is lost",
    faults=BROKER_DOWN,
    proves_itself=True,
)
DATABASE = Peer(
    name="the database",
    meanwhile="dispatches wait in the outbox: workers get no tasks by their queues; none is lost",
    faults=DATABASE_FAULTS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the relay is given from outside.

    Attributes:
        pool: Connections to the database, one per lane and SPARE_CONNECTIONS.
        broker: The dispatch streams.
        coordinator: The coordinator.
        chance: Spreads tries.
        clock: Monotonic seconds.
        make_sweeper: Makes an identity.
    """

    pool: "asyncpg.Pool[asyncpg.Record]"
    broker: Broker
    coordinator: Coordinator
    chance: random.Random
    clock: Callable[[], float]
    make_sweeper: Callable[[], str]


class Relay:
    """Wires the loops and runs them."""

    def __init__(self, settings: RelaySettings, around: Surroundings) -> None:
        self._settings = settings
        self._around = around
        telemetry = Telemetry(tracing=bool(settings.otlp_endpoint or settings.trace_file))
        self._outbox = outbox = Outbox(around.pool)
        self._dispatches, self._handovers = Wakes(), Wakes()
        peers = (COORDINATOR, BROKER, DATABASE)
        self._loops = Loops(backoff=Backoff(cap=settings.retry_cap), chance=around.chance, peers=peers)
        around.coordinator.answered = self._loops.answered(COORDINATOR)
        around.broker.answered = self._loops.answered(BROKER)
        self._publisher = Publisher(
            outbox=outbox,
            broker=around.broker,
            wakes=self._dispatches,
            handovers=self._handovers,
            telemetry=telemetry,
            batch=settings.batch,
            chance=around.chance,
            clock=around.clock,
        )
        self._carrier = HandoverCarrier(
            outbox=outbox,
            coordinator=around.coordinator,
            wakes=self._handovers,
            telemetry=telemetry,
            chance=around.chance,
            clock=around.clock,
        )
        self._poll = Poll(outbox=outbox, wakes=[self._dispatches, self._handovers], telemetry=telemetry)
        self._listener = Listener(
            connect=partial(connect_listener, settings.database_url),
            channel=CHANNEL,
            notified=waking(self._dispatches),  # they see it when hand-overs lie there too
            listening=self._poll.look,
        )
        self._loss = LossWatch(
            broker=around.broker,
            coordinator=around.coordinator,
            telemetry=telemetry,
            make_sweeper=around.make_sweeper,
        )
        self._progress = ProgressSweep(
            broker=around.broker,
            outbox=outbox,
            coordinator=around.coordinator,
            lags=self._publisher.lags,
            telemetry=telemetry,
            interval=settings.sweep_interval.total_seconds(),
            clock=around.clock,
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Relay until told to stop, then finish the batches under way.

        Args:
            stopping: Set when it is time to end.
        """
        try:
            async with asyncio.TaskGroup() as group:
                lanes, watches = self._start(group)
                await stopping.wait()
                await self._drain(lanes, watches)
        finally:
            self._listener.close()
            await self._outbox.close()

    def _start(self, group: asyncio.TaskGroup) -> "tuple[list[asyncio.Task[None]], list[asyncio.Task[None]]]":
        """Start the loops: those that finish their step at the end, and those that are broken off."""
        settings = self._settings

        def start(name: str, step: Step, every: timedelta = timedelta(0)) -> asyncio.Task[None]:
            return group.create_task(self._loops.keep(name, step, every=every.total_seconds()), name=name)

        lanes = [start(f"publishing lane {lane}", self._publisher.step) for lane in range(settings.lanes)]
        lanes.append(start("delivering hand-overs", self._carrier.step))
        watches = [
            start("listening", self._listener.step),
            start("polling", self._poll.step, settings.poll_interval),
            start("watching for loss", self._loss.step, settings.epoch_interval),
            start("sweeping", self._progress.step, settings.sweep_interval),
            start("pruning", self._prune, settings.prune_interval),
        ]
        return lanes, watches

    async def _drain(self, lanes: "list[asyncio.Task[None]]", watches: "list[asyncio.Task[None]]") -> None:
        self._loops.stop()
        self._dispatches.close()
        self._handovers.close()
        for watch in watches:
            watch.cancel()
        _, late = await asyncio.wait(lanes, timeout=self._settings.drain_timeout.total_seconds() * DRAIN_SHARE)
        for lane in late:
            lane.cancel()

    async def _prune(self) -> None:
        broker = self._around.broker
        await broker.prune_consumers(sorted(await broker.queues()), self._settings.consumer_idle.total_seconds())
