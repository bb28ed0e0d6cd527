"""One worker at work: its parts, put together; reading; and the drain at the end.

    read (free slots) → Lease in batches → handler → Report in batches → acknowledge in batches
                           ↑ BUSY, outage   │ ↑ Renew, in a thread  ↑│ outage
    attend ── offered slots ──→ granted ────┘ └─────── next task ──────┘

Everything happens on the event loop. What the renewal thread finds comes in through `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from headway.api.tasks.v1 import tasks_pb2
from headway.runtime.outages import Outage
from headway.worker._contact import QUEUES, Contact
from headway.worker._context import Lease
from headway.worker._coordinator import Attendance, CallFailed, Coordinator, open_renewal_channel, seconds_of
from headway.worker._delivery import Delivery
from headway.worker._leasing import Leasing
from headway.worker._ledger import Ledger
from headway.worker._offering import Offering
from headway.worker._pace import Pauses, pause
from headway.worker._registry import Registry, served
from headway.worker._renewing import RenewalEvents, Renewals
from headway.worker._reporting import Reporting
from headway.worker._running import Runner
from headway.worker._settings import WorkerSettings
from headway.worker._streams import QueueUnreachable, Streams
from headway.worker._threads import DaemonThreads

logger = logging.getLogger(__name__)

_LAST_WORDS = 2.0
"""Part of the drain time-out that is kept, in seconds, at most: for cancelled handlers to stop, and again for the last
acknowledgements. At its end the process is stopped."""
_FEWEST_UNREPORTED = 64


class Serving:
    """A worker, put together. Make it on the event loop, `run` it once."""

    def __init__(
        self, settings: WorkerSettings, *, registry: Registry, queues: Sequence[str], owner: str, drain: asyncio.Event
    ) -> None:
        """Open the channels; nothing is read yet.

        Args:
            settings: Where everything is, and the limits.
            registry: The handlers.
            queues: What to read.
            owner: Identity of this start of the worker.
            drain: Set from outside when the worker shall stop.
        """
        self._settings = settings
        self._queues = queues
        self._registry = registry
        self._drain = drain
        self._acknowledge_after = settings.acknowledge_after.total_seconds()
        self._loop = asyncio.get_running_loop()
        self._threads = DaemonThreads(settings.concurrency)
        self._coordinator = Coordinator(
            settings.coordinator,
            owner=owner,
            namespace=settings.namespace,
            queues=queues,
            timeout=settings.call_timeout.total_seconds(),
        )
        self._streams = Streams(
            settings.redis_url,
            namespace=settings.namespace,
            queues=queues,
            owner=owner,
            claim_idle=settings.claim_idle.total_seconds(),
        )
        self._renewals = Renewals(
            channel=lambda: open_renewal_channel(settings.coordinator),
            owner=owner,
            events=RenewalEvents(
                cancel=self._on_cancel,
                lost=self._on_lost,
                renewed=self._on_renewed,
                failed=self._on_renewing_failed,
                answered=self._on_renewing_answered,
            ),
        )
        self._queues_outage = Outage(QUEUES, logger, begun=lambda: {"address": self._streams.address})
        self._ledger = Ledger(
            slots=settings.concurrency,
            streams=self._streams,
            renewals=self._renewals,
            outage=self._queues_outage,
            drain=drain,
            freed=self._slot_freed,
        )
        self._offering = Offering(self._ledger, enabled=settings.eager, granted=self._granted, drain=drain)
        self._runner = Runner(registry, threads=self._threads, ended=self._handler_ended, give_up=self._ledger.let_go)
        self._contact = Contact(self._ledger, address=settings.coordinator, back=self._renewals.hurry)
        self._is_reached = asyncio.Event()
        self._leasing = Leasing(
            self._coordinator, self._ledger, contact=self._contact, granted=self._granted, drain=drain
        )
        self._reporting = Reporting(
            self._coordinator, self._ledger, contact=self._contact, granted=self._granted, drain=drain
        )

    async def run(self) -> None:
        """Work until the drain begins; then let handlers end within the drain time-out, and return."""
        self._renewals.start()
        batchers = (self._leasing.batcher, self._reporting.batcher, self._ledger.acknowledgements)
        try:
            async with asyncio.TaskGroup() as group:
                carriers = [group.create_task(batcher.run()) for batcher in batchers]
                reader = group.create_task(self._read())
                carriers.append(group.create_task(self._attend()))
                await self._drain.wait()
                await self._shut_down(reader)
                for carrier in carriers:
                    carrier.cancel()
        finally:
            self._renewals.stop()
            self._threads.shutdown()
            await self._coordinator.close()
            await self._streams.close()

    async def _read(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reach_coordinator())
            group.create_task(self._reach_redis())
        facts = served(self._queues, self._registry.handlers())
        logger.info("serving", extra={**facts, "slots": self._settings.concurrency})
        pauses = Pauses()
        # A coordinator that grants but takes no reports must not fill the memory with outputs.
        most_unreported = max(self._settings.concurrency, _FEWEST_UNREPORTED)
        # The drain cancels this task as well; but a connection that breaks just then may turn the cancellation into its
        # own error.
        while not self._drain.is_set():
            while self._ledger.free <= self._ledger.reserved or self._reporting.batcher.unfinished >= most_unreported:
                await self._ledger.wait_for_change()
            most = self._offering.begin_read()
            try:
                entries = await self._streams.read(most)
            except QueueUnreachable as error:
                self._queues_outage.failed(str(error))
                await pause(pauses.next(), self._drain)
                continue
            pauses.reset()
            self._queues_outage.succeeded()
            for fault in entries.malformed:
                self._ledger.drop(fault)
            for message in entries.messages:
                self._leasing.ask(self._ledger.take(message))
            brought = len(entries.messages)
            self._offering.end_read(brought, is_full=brought >= max(most // len(self._queues), 1))

    async def _reach_coordinator(self) -> None:
        await self._coordinator.reach(self._coordinator_is_missing)
        self._is_reached.set()

    async def _reach_redis(self) -> None:
        pauses = Pauses()
        told = False
        while not self._drain.is_set():
            try:
                await self._streams.prepare()
            except QueueUnreachable as error:
                if not told:
                    told = True
                    facts = {"address": self._streams.address, "fault": str(error)}
                    logger.warning("no Redis answers (HEADWAY_REDIS_URL); trying on", extra=facts)
                await pause(pauses.next(), self._drain)
            else:
                return

    async def _attend(self) -> None:
        """Hear at once what is to stop, and what was leased unasked. Without it, both come by other ways."""
        pauses = Pauses()
        await self._is_reached.wait()
        while not self._drain.is_set():
            try:
                async with self._coordinator.attend() as attendance, asyncio.TaskGroup() as group:
                    others = [
                        group.create_task(self._offering.offer(attendance.offer)),
                        group.create_task(self._heard(attendance, pauses)),
                    ]
                    async for response in attendance.responses():
                        pauses.reset()
                        self._told(response)
                    for other in others:
                        other.cancel()
            except* CallFailed as errors:
                self._not_attending(errors)
            await pause(pauses.next(), self._drain)

    async def _heard(self, attendance: Attendance, pauses: Pauses) -> None:
        await attendance.heard()
        pauses.reset()
        self._contact.succeeded()

    def _not_attending(self, errors: BaseExceptionGroup[CallFailed]) -> None:
        (error, *_) = errors.exceptions
        logger.debug("not attending", extra={"fault": str(error)})
        if isinstance(error, CallFailed) and error.retryable:
            self._contact.failed(str(error))

    def _slot_freed(self) -> None:
        self._offering.slot_freed()

    def _told(self, response: tasks_pb2.AttendResponse) -> None:
        if response.task_id:
            self._stop(response.task_id, response.attempt)
        elif response.granted:
            self._offering.take(response.granted, response.offer)
        else:
            self._offering.withdrawn(response.offer)

    def _stop(self, task_id: str, attempt: int) -> None:
        for delivery in self._ledger.active:
            lease = delivery.lease
            # Once: a second cancellation would break off what a handler does about the first.
            if (delivery.task_id, delivery.attempt) == (task_id, attempt) and lease is not None and not lease.cancelled:
                lease.cancelled = True
                self._runner.stop(delivery)

    def _coordinator_is_missing(self) -> None:
        facts = {"address": self._settings.coordinator}
        logger.warning("no coordinator answers (HEADWAY_COORDINATOR); trying on", extra=facts)

    def _granted(self, delivery: Delivery, grant: tasks_pb2.Grant, asked_at: float) -> None:
        duration = seconds_of(grant.lease)
        lease = Lease(deadline=asked_at + duration, duration=duration)
        now = time.monotonic()
        if lease.deadline <= now:
            # The answer took longer than the lease: somebody else may hold it by now.
            self._ledger.let_go(delivery)
            return
        delivery.lease = lease
        self._renewals.add(delivery, lease)
        if self._drain.is_set():
            self._ledger.free_slot(delivery)
            self._reporting.release(delivery)
        else:
            delivery.started_at = now
            self._runner.start(delivery, grant, lease)

    def _handler_ended(self, delivery: Delivery, item: tasks_pb2.ReportItem) -> None:
        lease = delivery.lease
        if lease is None or lease.lost or lease.deadline <= time.monotonic():
            self._ledger.let_go(delivery)
        elif self._settings.eager and item.HasField("succeeded") and not self._drain.is_set():
            self._reporting.report_and_ask(delivery, item)
        else:
            self._ledger.free_slot(delivery)
            self._reporting.report(delivery, item)

    # Called in the renewal thread or in gRPC's.

    def _on_cancel(self, delivery: Delivery) -> None:
        self._on_loop(lambda: self._runner.stop(delivery))

    def _on_lost(self, delivery: Delivery, *, answered: bool) -> None:
        self._on_loop(lambda: self._lost(delivery, answered=answered))

    def _on_renewed(self, delivery: Delivery) -> None:
        ran_for = time.monotonic() - delivery.started_at
        if delivery.entry is not None and ran_for >= self._acknowledge_after:
            self._on_loop(lambda: self._ledger.acknowledge(delivery))

    def _on_renewing_failed(self, fault: str) -> None:
        self._on_loop(lambda: self._contact.failed(fault))

    def _on_renewing_answered(self) -> None:
        if self._contact.is_lost:
            self._on_loop(self._contact.succeeded)

    def _on_loop(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the event loop is closed: there is nobody left to tell
            logger.debug("the event loop is closed")

    def _lost(self, delivery: Delivery, *, answered: bool) -> None:
        told = "it is somebody else's" if answered else "it ran out unanswered"
        logger.warning("lease lost: %s; its handler is stopped", told, extra=delivery.facts())
        self._contact.lost(delivery)
        if answered and delivery.report is None:
            # Refused for good: whoever holds the attempt now has a message of its own.
            self._ledger.acknowledge(delivery)
        self._runner.stop(delivery)

    # The drain.

    async def _shut_down(self, reader: asyncio.Task[None]) -> None:
        logger.info("draining", extra={"running": len(self._ledger.active)})
        reader.cancel()
        whole = self._settings.drain_timeout.total_seconds()
        last_words = min(_LAST_WORDS, whole / 4)
        try:
            async with asyncio.timeout(whole - 2 * last_words):
                await self._offering.leave()
                await self._take_cut_off_reads()
                await self._ledger.wait_until_empty()
        except TimeoutError:
            await self._abandon(last_words)
        try:
            async with asyncio.timeout(last_words):
                await self._ledger.acknowledgements.join()
                await self._streams.leave()
        except (TimeoutError, QueueUnreachable) as error:
            logger.warning("left without a word to the queues", extra={"fault": str(error)})

    async def _take_cut_off_reads(self) -> None:
        """Lease what a cut-off read may have been handed, so that it is released at once and not after a time-out."""
        try:
            entries = await self._streams.cut_off(self._settings.concurrency)
        except QueueUnreachable as error:
            logger.warning("could not look for messages cut off", extra={"fault": str(error)})
            return
        for fault in entries.malformed:
            self._ledger.drop(fault)
        for message in entries.messages:
            self._leasing.ask(self._ledger.take(message))

    async def _abandon(self, seconds: float) -> None:
        """Stop what still runs, and say nothing of it: the leases run out."""
        left = self._ledger.active
        logger.warning("drain time-out: the rest is left to the leases", extra={"running": len(left)})
        handlers = [delivery.handler_task for delivery in left if delivery.handler_task is not None]
        for delivery in left:
            if delivery.lease is not None:
                delivery.lease.cancelled = delivery.lease.lost = True
            self._runner.stop(delivery)
        if handlers:
            await asyncio.wait(handlers, timeout=seconds)
