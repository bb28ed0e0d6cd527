"""Slots that an idle worker offers: what is leased to it for them comes down the stream that it attends by.

On the event loop only. What is free has two parts that do not overlap: what the read that waits may bring, and what is
offered. While reads of the queues come back full nothing more is offered: what waits there goes first.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from headway.api.tasks.v1 import tasks_pb2
from headway.worker._delivery import Delivery
from headway.worker._ledger import Ledger

logger = logging.getLogger(__name__)

_QUIET = 0.02
"""Seconds for which a read has waited in vain before slots are offered."""
_ANEW = 2.0
"""Seconds after which an offer is made anew: it is good for five, and a lease counts from when its offer was sent."""
_REMEMBERED = 10.0
"""Seconds for which it is remembered when an offer was sent; the leases that came of it have run out then."""
_MOST_SLOTS = 1000
_MOST_KNOWN = 4000
_LAST_ANSWER = 1.0
"""Seconds that the answer to the withdrawal is waited for in a drain."""

Send = Callable[[tasks_pb2.Offer], Awaitable[None]]


class Offering:
    """What is offered on the stream, if there is one; the ledger knows how many slots are reserved for it."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        enabled: bool,
        granted: Callable[[Delivery, tasks_pb2.Grant, float], None],
        drain: asyncio.Event,
    ) -> None:
        """Offer nothing yet.

        Args:
            ledger: Whose slots are offered.
            enabled: False: nothing ever is.
            granted: Called with each grant, and the monotonic instant from which its lease counts.
            drain: Set when the worker shall stop: then nothing is offered any more.
        """
        self._ledger = ledger
        self._enabled = enabled
        self._granted = granted
        self._drain = drain
        self._reading = 0  # messages that the read that waits may bring
        self._quiet_since = math.inf
        self._is_behind = False
        self._changed = asyncio.Event()
        self._known: dict[tuple[str, int], None] = {}  # attempts that came, the latest last
        self._number = 0
        self._taken = 0
        self._sent_at: dict[int, float] = {}
        self._is_withdrawing = False

    # What the reader tells.

    def begin_read(self) -> int:
        """A read begins; return how many messages it may bring."""
        free = self._ledger.free
        count = free - self._ledger.reserved
        if self._enabled and not self._is_behind:
            count = min(count, free - free // 2)
        self._reading = count
        if math.isinf(self._quiet_since):
            self._quiet_since = time.monotonic()
            self._changed.set()
        return count

    def end_read(self, brought: int, *, is_full: bool) -> None:
        """A read has ended. `is_full`: more may wait in the queues."""
        self._reading = 0
        self._is_behind = is_full
        if brought:
            self._quiet_since = math.inf
            self._changed.set()

    # What the ledger tells.

    def slot_freed(self) -> None:
        """A slot is free again: perhaps there is more to offer."""
        if self._ledger.reserved * 4 <= self._ledger.free and not math.isinf(self._quiet_since):
            self._changed.set()

    # The stream.

    async def offer(self, send: Send) -> None:
        """Offer, as long as a stream lasts: cancelled at its end."""
        self._number = self._taken = 0
        self._is_withdrawing = False
        try:
            while True:
                offer, patience = self._next(time.monotonic())
                if offer is not None:
                    await send(offer)
                    continue
                try:
                    async with asyncio.timeout(patience):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                self._changed.clear()
        finally:
            self._sent_at.clear()
            self._ledger.reserve(0)

    def take(self, tasks: Sequence[tasks_pb2.NextTask], offer: int) -> None:
        """Enter attempts that were leased to this worker for slots that it offered."""
        sent_at = self._sent_at.get(offer, -math.inf)
        for task in tasks:
            self._taken += 1
            if self._is_known(task):
                continue
            delivery = self._ledger.take_offered(task)
            try:
                self._granted(delivery, task.grant, sent_at)
            except Exception:
                logger.exception("a fault in the worker: one attempt is given up", extra=delivery.facts())
                self._ledger.let_go(delivery)

    def withdrawn(self, offer: int) -> None:
        """No attempt follows of an offer before this one."""
        if self._is_withdrawing and offer == self._number:
            self._is_withdrawing = False
            self._ledger.reserve(0)
            self._changed.set()

    async def leave(self) -> None:
        """In a drain: withdraw what is offered, and wait until all that was leased for it has come, if not for long."""
        self._changed.set()
        try:
            async with asyncio.timeout(_LAST_ANSWER):
                await self._ledger.wait_until_none_is_reserved()
        except TimeoutError:
            logger.warning("the coordinator did not answer that nothing more follows")

    def _next(self, now: float) -> tuple[tasks_pb2.Offer | None, float | None]:
        """What to send now; or else after how many seconds to look again, None: when something changes."""
        free, reserved = self._ledger.free, self._ledger.reserved
        if self._is_withdrawing or not self._enabled:
            return None, None
        if reserved and (self._drain.is_set() or free - reserved < reserved // 2):
            self._is_withdrawing = True
            return self._make(0, now), None
        if self._drain.is_set() or not self._reading:
            return None, None
        if (rest := self._quiet_since + _QUIET - now) > 0:
            return None, None if math.isinf(rest) else rest
        slots = min(max(free // 2, reserved), free - self._reading, _MOST_SLOTS)
        age = now - self._sent_at.get(self._number, -math.inf)
        if slots > 0 and (reserved <= slots // 2 or age >= _ANEW):
            self._ledger.reserve(slots)
            return self._make(slots, now), None
        return None, _ANEW - age if slots > 0 else None

    def _make(self, slots: int, now: float) -> tasks_pb2.Offer:
        self._number += 1
        self._sent_at = {number: at for number, at in self._sent_at.items() if at + _REMEMBERED > now}
        self._sent_at[self._number] = now
        return tasks_pb2.Offer(number=self._number, slots=slots, taken=self._taken)

    def _is_known(self, task: tasks_pb2.NextTask) -> bool:
        attempt = (task.task_id, task.attempt)
        if attempt in self._known:
            return True
        self._known[attempt] = None
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return False
