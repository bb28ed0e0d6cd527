"""From a message to a lease, or to the answer that there is none. On the event loop only."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from headway.api.tasks.v1 import tasks_pb2
from headway.worker._batching import Batcher
from headway.worker._contact import Contact
from headway.worker._coordinator import CallFailed, Coordinator
from headway.worker._delivery import Delivery
from headway.worker._ledger import Ledger
from headway.worker._pace import BUSY, Pauses, pause

logger = logging.getLogger(__name__)

_MOVED_ON = frozenset(
    {
        tasks_pb2.LEASE_ANSWER_HELD,
        tasks_pb2.LEASE_ANSWER_STALE_ATTEMPT,
        tasks_pb2.LEASE_ANSWER_RUN_CLOSED,
        tasks_pb2.LEASE_ANSWER_RUN_PAUSED,
        tasks_pb2.LEASE_ANSWER_REFUSED,
    }
)


class Leasing:
    """Asks for leases in batches. A delivery keeps its grant key however often it asks."""

    def __init__(
        self,
        coordinator: Coordinator,
        ledger: Ledger,
        *,
        contact: Contact,
        granted: Callable[[Delivery, tasks_pb2.Grant, float], None],
        drain: asyncio.Event,
    ) -> None:
        """Start idle.

        Args:
            coordinator: Whom to ask.
            contact: Told how the calls go.
            ledger: What is told of deliveries that get no lease.
            granted: Called with each grant, and the monotonic instant from which its lease counts.
            drain: Set when the worker shall stop: then nothing is asked twice.
        """
        self._coordinator = coordinator
        self._ledger = ledger
        self._contact = contact
        self._granted = granted
        self._drain = drain
        self._loop = asyncio.get_running_loop()
        self._pauses = Pauses()
        self.batcher: Batcher[Delivery] = Batcher(self._send, give_up=ledger.let_go)

    def ask(self, delivery: Delivery) -> None:
        """Queue a delivery for the next call."""
        self.batcher.put(delivery)

    async def _send(self, batch: list[Delivery]) -> None:
        asked: list[Delivery] = []
        items: list[tasks_pb2.LeaseItem] = []
        for delivery in batch:
            item = self.batcher.step(delivery, _item, delivery)
            if item is not None:
                asked.append(delivery)
                items.append(item)
        if not items:
            return
        sent_at = time.monotonic()
        try:
            results = await self._coordinator.lease(items)
        except CallFailed as error:
            await self._failed(asked, error)
            return
        self._pauses.reset()
        self._contact.succeeded()
        for delivery, result in zip(asked, results, strict=False):
            self.batcher.step(delivery, self._answered, delivery, result, sent_at)
        for delivery in asked[len(results) :]:
            self._ask_later(delivery)

    async def _failed(self, batch: list[Delivery], error: CallFailed) -> None:
        if error.retryable:
            self._contact.failed(str(error))
            await pause(self._pauses.next(), self._drain)
        if error.retryable and not self._drain.is_set():
            self.batcher.put_back(batch)
            return
        for delivery in batch:
            self._ledger.let_go(delivery)
        if not error.retryable:
            facts = {"fault": str(error), "items": len(batch)}
            logger.error("Lease failed; its tasks go to whoever reads them next", extra=facts)
            # Or the whole queue would be read and let go at full speed.
            await pause(self._pauses.next(), self._drain)

    def _answered(self, delivery: Delivery, result: tasks_pb2.LeaseResult, sent_at: float) -> None:
        answer = result.answer
        if answer == tasks_pb2.LEASE_ANSWER_GRANTED:
            self._granted(delivery, result.grant, sent_at)
        elif answer in _MOVED_ON:
            if answer == tasks_pb2.LEASE_ANSWER_REFUSED:
                logger.error("lease refused", extra=delivery.facts(result.refusal))
            self._ledger.settle(delivery)
        else:
            self._ask_later(delivery)

    def _ask_later(self, delivery: Delivery) -> None:
        if self._drain.is_set():
            self._ledger.let_go(delivery)
            return
        if delivery.busy is None:
            delivery.busy = Pauses(BUSY)
        self._loop.call_later(delivery.busy.next(), self.ask, delivery)


def _item(delivery: Delivery) -> tasks_pb2.LeaseItem:
    return tasks_pb2.LeaseItem(
        task_id=delivery.task_id,
        attempt=delivery.attempt,
        grant_key=delivery.grant_key,
        traceparent=delivery.trace,
    )
