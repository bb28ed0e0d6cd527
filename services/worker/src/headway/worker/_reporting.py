"""From a handler's end to a durable outcome, or to giving up on it. On the event loop only."""

from __future__ import annotations

import asyncio
import logging
import time

from headway.api.tasks.v1 import tasks_pb2
from headway.worker import _outcomes
from headway.worker._batching import Batcher
from headway.worker._coordinator import CallFailed, Coordinator
from headway.worker._delivery import Delivery
from headway.worker._ledger import Ledger
from headway.worker._pace import Pauses, pause

logger = logging.getLogger(__name__)


class Reporting:
    """Reports in batches, and repeats until answered, as long as the lease holds. Any answer but REFUSED settles."""

    def __init__(self, coordinator: Coordinator, ledger: Ledger, *, drain: asyncio.Event) -> None:
        """Start idle.

        Args:
            coordinator: Whom to tell.
            ledger: What is told of deliveries that are settled or given up.
            drain: Set when the worker shall stop: then pauses are short.
        """
        self._coordinator = coordinator
        self._ledger = ledger
        self._drain = drain
        self._pauses = Pauses()
        self.batcher: Batcher[Delivery] = Batcher(self._send, give_up=ledger.let_go, size_of=_size)

    def report(self, delivery: Delivery, item: tasks_pb2.ReportItem) -> None:
        """Queue a report for the next call."""
        delivery.report = item
        self.batcher.put(delivery)

    def release(self, delivery: Delivery) -> None:
        """Give an attempt back that never ran."""
        message = delivery.message
        item = tasks_pb2.ReportItem(task_id=message.task_id, attempt=message.attempt, released=tasks_pb2.Released())
        self.report(delivery, item)

    async def _send(self, batch: list[Delivery]) -> None:
        now = time.monotonic()
        held = [delivery for delivery in batch if delivery.lease is not None and delivery.lease.deadline > now]
        for delivery in batch:
            if delivery.lease is None or delivery.lease.deadline <= now:
                self._give_up(delivery, "its lease ran out")
        if not held:
            return
        try:
            results = await self._coordinator.report([d.report for d in held if d.report is not None])
        except CallFailed as error:
            await self._failed(held, error)
            return
        self._pauses.reset()
        for delivery, result in zip(held, results, strict=False):
            self.batcher.step(delivery, self._answered, delivery, result)
        if len(results) < len(held):
            await pause(self._pauses.next(), self._drain)
            self.batcher.put_back(held[len(results) :])

    async def _failed(self, batch: list[Delivery], error: CallFailed) -> None:
        logger.warning("Report failed", extra={"fault": str(error), "items": len(batch), "again": error.retryable})
        if error.retryable:
            await pause(self._pauses.next(), self._drain)
            self.batcher.put_back(batch)
            return
        for delivery in batch:
            self._give_up(delivery, str(error))

    def _answered(self, delivery: Delivery, result: tasks_pb2.ReportResult) -> None:
        if result.answer != tasks_pb2.REPORT_ANSWER_REFUSED:
            self._ledger.settle(delivery)
            return
        logger.error("report refused", extra=delivery.facts(result.refusal))
        if delivery.report_refused:
            self._give_up(delivery, "its failure was refused too")
            return
        delivery.report_refused = True
        refusal = result.refusal
        item = tasks_pb2.ReportItem(
            task_id=delivery.message.task_id,
            attempt=delivery.message.attempt,
            failed=_outcomes.failure(type_name=refusal.reason, message=refusal.message, final=True),
            traceparent=delivery.report.traceparent if delivery.report is not None else "",
        )
        self.report(delivery, item)

    def _give_up(self, delivery: Delivery, why: str) -> None:
        logger.error("report given up; its message stays", extra={**delivery.facts(), "fault": why})
        self._ledger.let_go(delivery)


def _size(delivery: Delivery) -> int:
    return 0 if delivery.report is None else delivery.report.ByteSize()
