"""Dispatches: delete, publish, commit, bucket by bucket.

In one transaction, so that a crash anywhere publishes twice at worst. May not commit the deletion of a row that the
broker has not taken, nor wait for the coordinator.
"""

import logging
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from headway.relay.broker import Broker
from headway.relay.messages import Dispatch, NotPublishableError, dispatch_values
from headway.relay.store import Outbox
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
        handovers: Woken for a bucket in which hand-overs may lie.
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
        handovers: Wakes,
        telemetry: Telemetry,
        batch: int,
        chance: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._outbox = outbox
        self._broker = broker
        self._wakes = wakes
        self._handovers = handovers
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
        """Publish up to a batch of a bucket's rows; answers how many were taken."""
        async with self._outbox.take_dispatches(
            bucket, self._batch, parked_rows=self._rows.waiting(), parked_queues=self._queues.waiting()
        ) as taken:
            if taken.may_be_handovers:
                self._handovers.wake(bucket)
            if not taken.rows:
                return 0
            taken.kept = await self._publish(taken.rows)
        self._telemetry.published(len(taken.rows) - len(taken.kept))
        return len(taken.rows)

    async def _publish(self, rows: Sequence[Dispatch]) -> set[UUID]:
        """Publish what can be published and set the rest aside; answers the rows that the broker has not taken."""
        kept: set[UUID] = set()
        queues: dict[str, list[tuple[Dispatch, tuple[str, ...]]]] = {}
        with self._telemetry.publishing(rows) as traces:
            for row, trace in zip(rows, traces, strict=True):
                try:
                    values = dispatch_values(row, trace)
                except NotPublishableError as error:
                    self._set_row_aside(row, error)
                    kept.add(row.outbox_id)
                else:
                    queues.setdefault(row.queue_name, []).append((row, values))
            refused = await self._exchange(
                {queue_name: [values for _, values in some] for queue_name, some in queues.items()}
            )
        for queue_name, some in queues.items():
            if queue_name in refused:
                kept.update(row.outbox_id for row, _ in some)
                self._set_queue_aside(queue_name, refused[queue_name], len(some))
                continue
            self.lags.note(queue_name, max(row.age_seconds for row, _ in some))
            self._queues.forget(queue_name)
            for row, _ in some:
                self._rows.forget(row.outbox_id)
        return kept

    async def _exchange(self, messages: dict[str, list[tuple[str, ...]]]) -> dict[str, Exception]:
        if not messages:
            return {}
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

    def _set_queue_aside(self, queue_name: str, refusal: Exception, rows: int) -> None:
        seconds = self._queues.park(queue_name)
        self._telemetry.failed(rows, "queue")
        _log.error(
            "the broker refuses a queue's dispatches; they stay in the outbox",
            extra={"queue": queue_name, "reason": str(refusal), "retry_in_seconds": round(seconds, 3)},
        )
