"""From a handler's end to a durable outcome, or to giving up on it. On the event loop only.

A report may ask for a next task of its run; what its answer then grants goes on at once, past the queue.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from headway.api.tasks.v1 import tasks_pb2
from headway.worker import _outcomes
from headway.worker._batching import Batcher
from headway.worker._contact import Contact
from headway.worker._coordinator import CallFailed, Coordinator
from headway.worker._delivery import Delivery
from headway.worker._ledger import Ledger
from headway.worker._pace import Pauses, pause

logger = logging.getLogger(__name__)


class Reporting:
    """Reports in batches, and repeats until answered, as long as the lease holds. Any answer but REFUSED settles."""

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
            coordinator: Whom to tell.
            contact: Told how the calls go.
            ledger: What is told of deliveries that are settled or given up.
            granted: Called with each next task that is granted, and the monotonic instant from which its lease counts.
            drain: Set when the worker shall stop: then pauses are short.
        """
        self._coordinator = coordinator
        self._ledger = ledger
        self._contact = contact
        self._granted = granted
        self._drain = drain
        self._pauses = Pauses()
        self.batcher: Batcher[Delivery] = Batcher(self._send, give_up=ledger.let_go, size_of=_size)

    def report(self, delivery: Delivery, item: tasks_pb2.ReportItem) -> None:
        """Queue a report for the next call."""
        delivery.report = item
        self.batcher.put(delivery)

    def report_and_ask(self, delivery: Delivery, item: tasks_pb2.ReportItem) -> None:
        """Queue a report that asks for a next task. Until its answer the delivery keeps its slot, for that task."""
        item.next_grant_key = self._ledger.new_grant_key()
        self.report(delivery, item)

    def release(self, delivery: Delivery) -> None:
        """Give an attempt back that never ran."""
        item = tasks_pb2.ReportItem(task_id=delivery.task_id, attempt=delivery.attempt, released=tasks_pb2.Released())
        self.report(delivery, item)

    async def _send(self, batch: list[Delivery]) -> None:
        sent_at = time.monotonic()
        held: list[Delivery] = []
        items: list[tasks_pb2.ReportItem] = []
        for delivery in batch:
            lease, item = delivery.lease, delivery.report
            if item is None or lease is None or lease.deadline <= sent_at:
                self._give_up(delivery, "its lease ran out")
            else:
                held.append(delivery)
                items.append(item)
        if not held:
            return
        try:
            results = await self._coordinator.report(items)
        except CallFailed as error:
            await self._failed(held, error)
            return
        self._pauses.reset()
        self._contact.succeeded()
        for delivery, result in zip(held, results, strict=False):
            self.batcher.step(delivery, self._answered, delivery, result, sent_at)
        if len(results) < len(held):
            await pause(self._pauses.next(), self._drain)
            self.batcher.put_back(held[len(results) :])

    async def _failed(self, batch: list[Delivery], error: CallFailed) -> None:
        if error.retryable:
            self._contact.failed(str(error))
            await pause(self._pauses.next(), self._drain)
            self.batcher.put_back(batch)
            return
        for delivery in batch:
            self._give_up(delivery, str(error))

    def _answered(self, delivery: Delivery, result: tasks_pb2.ReportResult, sent_at: float) -> None:
        if result.answer == tasks_pb2.REPORT_ANSWER_REFUSED:
            self._refused(delivery, result.refusal)
        elif delivery.holds_slot and result.HasField("next"):
            self._go_on(delivery, result.next, sent_at)
        else:
            self._ledger.settle(delivery)

    def _go_on(self, delivery: Delivery, task: tasks_pb2.NextTask, sent_at: float) -> None:
        """Settle a delivery; what was granted along with its answer takes its slot."""
        following = self._ledger.follow(delivery, task)
        self._ledger.settle(delivery)
        self.batcher.step(following, self._granted, following, task.grant, sent_at)

    def _refused(self, delivery: Delivery, refusal: tasks_pb2.Refusal) -> None:
        logger.error("report refused", extra=delivery.facts(refusal))
        if delivery.report_refused:
            self._give_up(delivery, "its failure was refused too")
            return
        delivery.report_refused = True
        self._ledger.free_slot(delivery)  # a failure asks for nothing
        item = tasks_pb2.ReportItem(
            task_id=delivery.task_id,
            attempt=delivery.attempt,
            failed=_outcomes.failure(type_name=refusal.reason, message=refusal.message, final=True),
            traceparent=delivery.report.traceparent if delivery.report is not None else "",
        )
        self.report(delivery, item)

    def _give_up(self, delivery: Delivery, why: str) -> None:
        if delivery.lease is None or not delivery.lease.lost:  # else it was told
            logger.error("report given up; the attempt is left to its lease", extra={**delivery.facts(), "fault": why})
            self._contact.lost(delivery)
        self._ledger.let_go(delivery)


def _size(delivery: Delivery) -> int:
    return 0 if delivery.report is None else delivery.report.ByteSize()
