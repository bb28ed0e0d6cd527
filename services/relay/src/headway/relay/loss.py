"""Finding out that the broker has lost dispatches, and having them dispatched again.

Proof of loss is that the epoch marker is gone: everything is swept, then the marker is set, in that order, so that a
crash in between sweeps again. Without proof the coordinator is told how far each queue has been delivered; which tasks
are lost is for it to conclude. May not publish, and may not conclude anything from a broker that is itself in doubt.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from headway.relay.broker import BROKER_FAULTS, Broker, Identity
from headway.relay.coordinator import Coordinator
from headway.relay.publishing import Lags
from headway.relay.store import Outbox
from headway.relay.telemetry import Telemetry
from headway.runtime.queues import split_queue_name

__all__ = ["LossWatch", "ProgressSweep"]

_log = logging.getLogger(__name__)

SWEEPER_SECONDS = 15.0  # how long a relay may be at a sweep without a sign of life
MOST_QUEUES = 500  # in one call
MOST_UNPUBLISHED = 5_000  # rows of a bucket that are looked at; more: the outbox is behind
SLACK_SECONDS = 1.0  # for the time between measuring and the coordinator's reading its clock


class LossWatch:
    """Checks the epoch marker, and sweeps on proof of loss.

    Args:
        broker: Whose marker it is.
        coordinator: Who dispatches again.
        telemetry: Metrics.
        make_sweeper: Makes an identity for each sweep; it becomes the marker.
    """

    def __init__(
        self, *, broker: Broker, coordinator: Coordinator, telemetry: Telemetry, make_sweeper: Callable[[], str]
    ) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._telemetry = telemetry
        self._make_sweeper = make_sweeper
        self._sweeper: str | None = None
        self._known: Identity | None = None

    async def step(self) -> None:
        """Check once; a loss is dealt with to its end, or until something fails."""
        identity = await self._broker.identity()
        if identity != self._known:
            self._broker.forget()
            await self._broker.ensure_groups()
            self._known = identity
        if identity.epoch is None:
            await self._recover()

    async def _recover(self) -> None:
        self._sweeper = sweeper = self._sweeper or self._make_sweeper()
        if not await self._broker.claim_sweep(sweeper, SWEEPER_SECONDS):
            return  # another relay is at it; should it die, its claim lapses
        keeper = asyncio.create_task(self._keep_claim(sweeper))
        try:
            dispatched = await self._sweep()
        finally:
            keeper.cancel()
        if await self._broker.set_epoch(sweeper):
            # A broker that is new has lost nothing.
            level = logging.WARNING if dispatched else logging.INFO
            _log.log(level, "the broker had no epoch marker: swept", extra={"tasks": dispatched})
            self._sweeper = None

    async def _sweep(self) -> int:
        """Sweep everything, page by page; a page that fails begins it anew."""
        dispatched = 0
        cursor: str | None = ""
        while cursor is not None:
            sweep = await self._coordinator.sweep_everything(cursor)
            self._telemetry.swept(sweep.dispatched, broker_lost=True)
            dispatched += sweep.dispatched
            cursor = sweep.cursor or None
        return dispatched

    async def _keep_claim(self, sweeper: str) -> None:
        """Keep the claim alive during the sweep. When that fails it lapses, and what was swept is swept again."""
        with contextlib.suppress(*BROKER_FAULTS):
            kept = True
            while kept:
                await asyncio.sleep(SWEEPER_SECONDS / 3)
                kept = await self._broker.keep_sweep(sweeper, SWEEPER_SECONDS)


class ProgressSweep:
    """Tells the coordinator how far the queues are, so that it finds what was lost without proof.

    Args:
        broker: What is measured.
        outbox: What is not yet published is not lost.
        coordinator: Who concludes.
        lags: How late was published into each queue.
        telemetry: Metrics.
        interval: Seconds between two turns, of all relays together.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        broker: Broker,
        outbox: Outbox,
        coordinator: Coordinator,
        lags: Lags,
        telemetry: Telemetry,
        interval: float,
        clock: Callable[[], float],
    ) -> None:
        self._broker = broker
        self._outbox = outbox
        self._coordinator = coordinator
        self._lags = lags
        self._telemetry = telemetry
        self._interval = interval
        self._clock = clock

    async def step(self) -> None:
        """Take a turn, if no other relay has taken it."""
        if await self._broker.take_sweep_turn(self._interval * 0.9):
            await self.sweep()

    async def sweep(self) -> None:
        """Measure once and tell, page by page, until nothing more seems lost."""
        measured_at = self._clock()
        ages = await self.delivered_ages()
        names = sorted(ages)
        for start in range(0, len(names), MOST_QUEUES):
            part = names[start : start + MOST_QUEUES]
            cursor: str | None = ""
            while cursor is not None:
                # What was measured ages while it is told: dispatches that came since may not have been read.
                passed = self._clock() - measured_at
                told = {split_queue_name(name): ages[name] + passed for name in part}
                sweep = await self._coordinator.sweep_delivered(told, cursor)
                cursor = sweep.cursor or None
                self._telemetry.swept(sweep.dispatched, broker_lost=False)
                if sweep.dispatched:
                    _log.warning("dispatches seem lost: dispatched again", extra={"tasks": sweep.dispatched})

    async def delivered_ages(self) -> dict[str, float]:
        """Measure, per `namespace/queue`, the age in seconds beyond which every READY task's dispatch was delivered.

        The outbox is read before the broker: a row that leaves it in between is then seen at least once. While the
        outbox is behind, or the broker's marker is missing or changes, nothing is said about any queue.
        """
        identity = await self._broker.identity()
        unpublished = await self._outbox.unpublished(MOST_UNPUBLISHED)
        if identity.epoch is None or unpublished.behind:
            return {}
        undelivered = await self._broker.undelivered_ages(sorted(await self._broker.queues()))
        if await self._broker.identity() != identity:
            return {}
        return {
            name: self._task_age(name, age, unpublished.oldest_seconds.get(name)) for name, age in undelivered.items()
        }

    def _task_age(self, name: str, undelivered: float, unpublished: float | None) -> float:
        """Turn the ages of the oldest entry and row into an age that their tasks do not exceed."""
        ages: list[float] = []
        if undelivered:
            ages.append(undelivered + self._lags.worst(name))
        else:
            self._lags.clear(name)
        if unpublished is not None:
            ages.append(unpublished)
        return max(ages) + SLACK_SECONDS if ages else 0.0
