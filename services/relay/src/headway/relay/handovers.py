"""Hand-overs: claim, deliver to the coordinator, delete what was applied, commit.

Apart from the dispatches in tasks and connections, so that it may wait for the coordinator as long as it must. May not
delete a row that the coordinator has not settled.
"""

import logging
import random
from collections.abc import Callable, Iterable
from datetime import timedelta
from uuid import UUID

from headway.relay.coordinator import Coordinator, CoordinatorRefusedError, Delivery, Fate
from headway.relay.messages import Handover, NotPublishableError, handover_event
from headway.relay.store import Outbox
from headway.relay.telemetry import Telemetry
from headway.relay.wakes import Wakes
from headway.runtime.backoff import Backoff
from headway.runtime.ids import run_id_text
from headway.runtime.parked import BatchSize, Parked

__all__ = ["HandoverCarrier"]

_log = logging.getLogger(__name__)

MOST_HANDOVERS = 256  # EventsService.Deliver takes no more
MOST_BYTES = 3 * 1024 * 1024  # of events in one call: below the smallest message limit in use; one event may exceed it
PARKING = Backoff(initial=timedelta(seconds=1))  # how long what fails by itself is left alone


class HandoverCarrier:
    """Carries hand-overs from the outbox to the coordinator.

    Args:
        outbox: Where they lie.
        coordinator: Where they go.
        wakes: Which buckets to look at.
        telemetry: Metrics.
        chance: Spreads the tries.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        outbox: Outbox,
        coordinator: Coordinator,
        wakes: Wakes,
        telemetry: Telemetry,
        chance: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._outbox = outbox
        self._coordinator = coordinator
        self._wakes = wakes
        self._telemetry = telemetry
        self._parked: Parked[UUID] = Parked(backoff=PARKING, chance=chance, clock=clock)
        self._size = BatchSize(MOST_HANDOVERS)

    async def step(self) -> None:
        """Deliver one batch of the next due bucket; waits for one, returns without one when the wakes are closed."""
        bucket = await self._wakes.take()
        if bucket is None:
            return
        with self._wakes.in_hand(bucket):
            if await self.deliver_batch(bucket):
                self._wakes.wake(bucket)

    async def deliver_batch(self, bucket: int) -> bool:
        """Deliver a batch of a bucket's hand-overs; answers whether to look again at once."""
        limit = self._size.size
        async with self._outbox.claim_handovers(bucket, limit, parked_rows=self._parked.waiting()) as claim:
            deliveries = self._readable(claim.rows)
            fates = await self._deliver(list(deliveries.values()))
            done = [outbox_id for outbox_id, fate in zip(deliveries, fates, strict=False) if fate is Fate.DONE]
            await claim.delete(done)
        for (outbox_id, delivery), fate in zip(deliveries.items(), fates, strict=False):
            if fate is Fate.DONE:
                self._parked.forget(outbox_id)
            elif fate is Fate.LATER:
                self._parked.park(outbox_id)
                self._telemetry.failed(1, "overload")
            else:
                facts = {"run_id": delivery.run_id, "type": delivery.type}
                self._set_aside(outbox_id, "the coordinator could not decide it", **facts)
        self._telemetry.delivered(len(done))
        return len(claim.rows) == limit or len(fates) < len(deliveries)

    async def _deliver(self, deliveries: list[Delivery]) -> list[Fate]:
        """Deliver as many as fit into a call; the fates may be fewer than the deliveries."""
        some = list(_within(deliveries, MOST_BYTES))
        if not some:
            return []
        try:
            fates = await self._coordinator.deliver(some)
        except CoordinatorRefusedError as error:
            facts = {"handovers": len(some), "first": some[0].request_id, "run_id": some[0].run_id}
            _log.warning("delivering fails", extra={**facts, "reason": str(error)})
            self._size.shrink()
            return [Fate.KEPT] if len(some) == 1 else []
        self._size.grow()
        return fates

    def _readable(self, rows: Iterable[Handover]) -> dict[UUID, Delivery]:
        """Read the rows' bodies; a row that cannot be read is set aside."""
        deliveries: dict[UUID, Delivery] = {}
        for row in rows:
            try:
                kind, event = handover_event(row.body)
            except NotPublishableError as error:
                self._set_aside(row.outbox_id, str(error), run_id=run_id_text(row.run_id))
                continue
            deliveries[row.outbox_id] = Delivery(
                request_id=str(row.outbox_id), run_id=run_id_text(row.run_id), type=kind, event=event, trace=row.trace
            )
        return deliveries

    def _set_aside(self, outbox_id: UUID, reason: str, **facts: str) -> None:
        seconds = self._parked.park(outbox_id)
        self._telemetry.failed(1, "handover")
        _log.error(
            "a hand-over is not delivered; it stays in the outbox",
            extra={"outbox_id": str(outbox_id), **facts, "reason": reason, "retry_in_seconds": round(seconds, 3)},
        )


def _within(deliveries: Iterable[Delivery], most_bytes: int) -> Iterable[Delivery]:
    """Take from the front what fits, and one in any case."""
    total = 0
    for place, delivery in enumerate(deliveries):
        total += len(delivery.event)
        if place and total > most_bytes:
            return
        yield delivery
