"""Dispatches: claim, publish, delete, commit, bucket by bucket.

In that order and in one transaction, so that a crash anywhere publishes twice at worst. May not delete a row that the
broker has not taken, nor wait for the coordinator.
"""

import logging
import random
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from headway.relay.broker import Broker
from headway.relay.messages import Dispatch, NotPublishableError, dispatch_fields
from headway.relay.store import Claim, Outbox
from headway.relay.telemetry import Telemetry
from headway.relay.wakes import Wakes
from headway.runtime.backoff import Backoff
from headway.runtime.parked import Parked

__all__ = ["Lags", "Publisher"]

_log = logging.getLogger(__name__)

PARKING = Backoff(initial=timedelta(seconds=1))  # how long what fails by itself is left alone


class Lags:
    """How late this relay has published into each queue, at worst, since the queue was last seen empty.

    The outbox may have waited for the broker: an entry published ten seconds ago can be of a task that became ready
    ten minutes ago. Who concludes from an entry's age to its task's must add this.
    """

    def __init__(self) -> None:
        self._worst: dict[str, float] = {}

    def note(self, queue_name: str, seconds: float) -> None:
        """Note that a row this old was published."""
        if seconds > self._worst.get(queue_name, 0.0):
            self._worst[queue_name] = seconds

    def worst(self, queue_name: str) -> float:
        """Answer the worst lag noted, in seconds."""
        return self._worst.get(queue_name, 0.0)

    def clear(self, queue_name: str) -> None:
        """Start again: nothing in the queue is undelivered."""
        self._worst.pop(queue_name, None)


class Publisher:
    """Carries dispatches from the outbox to the broker.

    Args:
        outbox: Where they lie.
        broker: Where they go.
        wakes: Which buckets to look at.
        telemetry: Spans and metrics.
        batch: Most rows per transaction.
        chance: Spreads the tries.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        outbox: Outbox,
        broker: Broker,
        wakes: Wakes,
        telemetry: Telemetry,
        batch: int,
        chance: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._outbox = outbox
        self._broker = broker
        self._wakes = wakes
        self._telemetry = telemetry
        self._batch = batch
        self._rows: Parked[UUID] = Parked(backoff=PARKING, chance=chance, clock=clock)
        self._queues: Parked[str] = Parked(backoff=PARKING, chance=chance, clock=clock)
        self.lags = Lags()

    async def step(self) -> None:
        """Publish one batch of the next due bucket; waits for one, returns without one when the wakes are closed."""
        bucket = await self._wakes.take()
        if bucket is None:
            return
        with self._wakes.in_hand(bucket):
            if await self.publish_batch(bucket) == self._batch:
                self._wakes.wake(bucket)

    async def publish_batch(self, bucket: int) -> int:
        """Publish up to a batch of a bucket's rows; answers how many were claimed."""
        async with self._outbox.claim_dispatches(
            bucket, self._batch, parked_rows=self._rows.waiting(), parked_queues=self._queues.waiting()
        ) as claim:
            if not claim.rows:
                return 0
            published = await self._publish(claim)
            await claim.delete([row.outbox_id for row in published])
        self._telemetry.published(len(published))
        return len(claim.rows)

    async def _publish(self, claim: Claim[Dispatch]) -> list[Dispatch]:
        """Publish what can be published; the rest is set aside. Answers the rows that the broker has taken."""
        with self._telemetry.publishing(claim.rows) as traces:
            messages: list[tuple[Dispatch, dict[str, str]]] = []
            for row in claim.rows:
                try:
                    messages.append((row, dispatch_fields(row, traces[row.outbox_id])))
                except NotPublishableError as error:
                    self._set_row_aside(row, error)
            refusals = await self._exchange([(row.queue_name, fields) for row, fields in messages])
        taken = [row for (row, _), refusal in zip(messages, refusals, strict=True) if refusal is None]
        for row in taken:
            self.lags.note(row.queue_name, row.age_seconds)
            self._rows.forget(row.outbox_id)
            self._queues.forget(row.queue_name)
        refused = {row.queue_name: refusal for (row, _), refusal in zip(messages, refusals, strict=True) if refusal}
        self._set_queues_aside(refused, len(messages) - len(taken))
        return taken

    async def _exchange(self, messages: list[tuple[str, dict[str, str]]]) -> list[Exception | None]:
        if not messages:
            return []
        try:
            return await self._broker.publish(messages)
        except BaseException:
            self._broker.forget()  # the next connection may lead to another, empty server
            raise

    def _set_row_aside(self, row: Dispatch, error: NotPublishableError) -> None:
        self._rows.park(row.outbox_id)
        self._telemetry.failed(1, "row")
        _log.error(
            "a dispatch cannot be published; it stays in the outbox",
            extra={"outbox_id": str(row.outbox_id), "run_id": str(row.run_id), "path": row.path, "reason": str(error)},
        )

    def _set_queues_aside(self, refused: dict[str, Exception], rows: int) -> None:
        for queue_name, refusal in refused.items():
            seconds = self._queues.park(queue_name)
            _log.error(
                "the broker refuses a queue's dispatches; they stay in the outbox",
                extra={"queue": queue_name, "reason": str(refusal), "retry_in_seconds": round(seconds, 3)},
            )
        if refused:
            self._telemetry.failed(rows, "queue")
