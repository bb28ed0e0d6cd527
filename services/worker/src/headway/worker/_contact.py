"""Whether the coordinator and the queues serve, as one line when that ends and one when it is so again.

Every call tells here how it went; calls that fail are repeated elsewhere. On the event loop only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from headway.runtime.outages import Facts, Outage, Peer
from headway.worker._delivery import Delivery
from headway.worker._ledger import Ledger

logger = logging.getLogger(__name__)

QUEUES = Peer(
    name="Redis",
    meanwhile="handlers go on, and are reported; no task is read from the queues, and none is lost there",
)
_COORDINATOR = Peer(
    name="the coordinator",
    meanwhile="handlers go on, and no attempt is lost before its lease has run out; leases, renewals and reports are"
    " tried again",
)


class Contact:
    """The coordinator, as this worker's calls find it, and the attempts that hang on that."""

    def __init__(self, ledger: Ledger, *, address: str, back: Callable[[], None]) -> None:
        """Believe that all is well.

        Args:
            ledger: Whose attempts are counted.
            address: The coordinator's, for the log.
            back: Called with the first success after a failure: what waits to be repeated need wait no longer.
        """
        self._ledger = ledger
        self._address = address
        self._back = back
        self._held: set[Delivery] = set()
        self._lost: set[Delivery] = set()
        self._outage = Outage(_COORDINATOR, logger, begun=self._begun, ended=self._ended)

    @property
    def is_lost(self) -> bool:
        """True while an outage lasts. Any thread may ask."""
        return self._outage.is_on

    def failed(self, fault: str) -> None:
        """A call failed in a way that may pass."""
        self._outage.failed(fault)

    def succeeded(self) -> None:
        """A call was answered."""
        if self._outage.is_on and self._outage.succeeded():
            self._back()

    def lost(self, delivery: Delivery) -> None:
        """An attempt's lease is lost."""
        if self._outage.is_on:
            self._lost.add(delivery)

    def _begun(self) -> Facts:
        self._held = {delivery for delivery in self._ledger.active if delivery.lease is not None}
        self._lost = set()
        facts: dict[str, object] = {"address": self._address, "attempts_held": len(self._held)}
        deadlines = [delivery.lease.deadline for delivery in self._held if delivery.lease is not None]
        if deadlines:
            facts["first_lease_ends_in_seconds"] = round(max(0.0, min(deadlines) - time.monotonic()), 1)
        return facts

    def _ended(self) -> Facts:
        facts = {"attempts_kept": len(self._held - self._lost), "attempts_lost": len(self._lost)}
        self._held, self._lost = set(), set()
        return facts
