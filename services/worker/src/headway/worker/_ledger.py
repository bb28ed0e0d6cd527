"""What this worker was offered and has not yet settled: slots, and each message's end. On the event loop only."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable

from headway.api.tasks.v1 import tasks_pb2
from headway.runtime.outages import Outage
from headway.worker._batching import Batcher
from headway.worker._delivery import Delivery, Entry, Message
from headway.worker._pace import Pauses, pause
from headway.worker._renewing import Renewals
from headway.worker._streams import MalformedMessage, QueueUnreachable, Streams

logger = logging.getLogger(__name__)

_ACKNOWLEDGE_EVERY = 0.02
"""Seconds between two calls that acknowledge: nobody waits for them, and few with many entries cost least."""


class Ledger:
    """Deliveries until their end. A delivery leaves it in one of two ways: settled, or let go."""

    def __init__(
        self,
        *,
        slots: int,
        streams: Streams,
        renewals: Renewals,
        outage: Outage,
        drain: asyncio.Event,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        """Start empty.

        Args:
            slots: How many deliveries may be on their way to, or in, a handler, or ask for a next one.
            streams: Where messages are acknowledged.
            outage: The queues': told how acknowledging goes.
            renewals: What stops renewing the leases of deliveries that leave.
            drain: Set when the worker shall stop.
            freed: Called when a slot is free again.
        """
        self._free = slots
        self._reserved = 0
        self._freed = freed
        self._none_reserved = asyncio.Event()
        self._none_reserved.set()
        self._streams = streams
        self._renewals = renewals
        self._outage = outage
        self._drain = drain
        self._active: set[Delivery] = set()
        self._grant_keys = uuid.uuid4().hex[:16]  # noqa: TID251  an identity of this start
        self._keys_made = 0
        self._changed = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._pauses = Pauses()
        self.acknowledgements: Batcher[Entry] = Batcher(self._acknowledge, give_up=self._not_acknowledged, in_flight=1)

    @property
    def free(self) -> int:
        """How many slots are free."""
        return self._free

    @property
    def reserved(self) -> int:
        """How many of them are kept for what the coordinator may lease unasked."""
        return self._reserved

    @property
    def active(self) -> tuple[Delivery, ...]:
        """What is not settled."""
        return tuple(self._active)

    async def wait_for_change(self) -> None:
        """Wait until a slot is freed or a delivery leaves, after the last time that this returned."""
        await self._changed.wait()
        self._changed.clear()

    async def wait_until_empty(self) -> None:
        """Wait until every delivery has left and every acknowledgement is made."""
        await self._empty.wait()
        await self.acknowledgements.join()

    def take(self, message: Message) -> Delivery:
        """Enter a message that was just read: it gets a grant key and takes a slot."""
        entry, task_id, attempt, trace = message
        self._free -= 1
        return self._enter(
            Delivery(task_id=task_id, attempt=attempt, grant_key=self.new_grant_key(), entry=entry, trace=trace)
        )

    def reserve(self, slots: int) -> None:
        """Keep so many free slots for what the coordinator may lease unasked."""
        self._reserved = slots
        self._changed.set()
        if slots:
            self._none_reserved.clear()
        else:
            self._none_reserved.set()

    async def wait_until_none_is_reserved(self) -> None:
        """Wait until no slot is kept."""
        await self._none_reserved.wait()

    def take_offered(self, task: tasks_pb2.NextTask) -> Delivery:
        """Enter what was leased unasked: it takes a slot that was kept for it."""
        self._free -= 1
        self.reserve(max(self._reserved - 1, 0))
        return self._enter(Delivery(task_id=task.task_id, attempt=task.attempt, grant_key=""))

    def follow(self, delivery: Delivery, task: tasks_pb2.NextTask) -> Delivery:
        """Enter what was granted in the answer to a delivery's report: it takes over the slot that was kept for it."""
        delivery.holds_slot = False
        grant_key = "" if delivery.report is None else delivery.report.next_grant_key
        return self._enter(Delivery(task_id=task.task_id, attempt=task.attempt, grant_key=grant_key))

    def new_grant_key(self) -> str:
        """Make a grant key that nobody has had before."""
        self._keys_made += 1
        return f"{self._grant_keys}-{self._keys_made}"

    def free_slot(self, delivery: Delivery) -> None:
        """Let another delivery have its slot: its handler has ended, or will never run."""
        if delivery.holds_slot:
            delivery.holds_slot = False
            self._free += 1
            self._changed.set()
            self._freed()

    def settle(self, delivery: Delivery) -> None:
        """The outcome is durable, or the lease finally refused: acknowledge the message."""
        self.acknowledge(delivery)
        self._leave(delivery)

    def let_go(self, delivery: Delivery) -> None:
        """Nothing is known for sure: the message stays for whoever takes it over."""
        self._leave(delivery)
        if delivery.entry is not None:
            self._streams.let_go(delivery.entry)

    def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge the message now, if there is one; the delivery stays."""
        entry = delivery.entry
        if entry is not None and delivery in self._active:
            delivery.entry = None
            self.acknowledgements.put(entry)

    def drop(self, fault: MalformedMessage) -> None:
        """Acknowledge what is no dispatch message."""
        logger.warning("dropped an entry that is no dispatch message", extra={"fault": str(fault)})
        self.acknowledgements.put(fault.entry)

    def _enter(self, delivery: Delivery) -> Delivery:
        self._active.add(delivery)
        self._empty.clear()
        return delivery

    def _leave(self, delivery: Delivery) -> None:
        self.free_slot(delivery)
        self._renewals.remove(delivery)
        self._active.discard(delivery)
        self._changed.set()
        if not self._active:
            self._empty.set()

    def _not_acknowledged(self, entry: Entry) -> None:
        logger.error("acknowledging given up; the message stays", extra={"message_id": entry[1].decode()})

    async def _acknowledge(self, batch: list[Entry]) -> None:
        try:
            await self._streams.acknowledge(batch)
        except QueueUnreachable as error:
            self._outage.failed(str(error))
            await pause(self._pauses.next(), self._drain)
            self.acknowledgements.put_back(batch)
        else:
            self._pauses.reset()
            self._outage.succeeded()
            await pause(_ACKNOWLEDGE_EVERY, self._drain)
