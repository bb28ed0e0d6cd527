"""Telling of an outage once, however many calls it fails: a line when it begins, one when it is over.

Knows nothing of what fails, nor why. On the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Outage", "Peer"]

QUIET = timedelta(seconds=1)
"""How long nothing may fail, once something has succeeded, before an outage is over: else two copies of which one is
down, or a peer that takes every other call, would begin one after the other."""
REMIND = timedelta(minutes=5)
"""After how long an outage that goes on is told again."""

Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Something that a process needs and does not hold in its hands.

    Attributes:
        name: As a line begins: "the coordinator".
        meanwhile: What it means that it does not serve, and what goes on all the same.
        faults: What a call raises when it does not serve.
        proves_itself: Its calls tell that they were answered (`Loops.answered`); else the next step that succeeds where
            one had failed tells it. For steps that may succeed without a call.
    """

    name: str
    meanwhile: str
    faults: tuple[type[Exception], ...] = ()
    proves_itself: bool = False


class Outage:
    """A peer's outages, one after another.

    Args:
        peer: Whose.
        log: Where they are told.
        begun: Further facts for the first line, told when it is written.
        ended: Further facts for the last one.
        quiet: See QUIET.
    """

    def __init__(
        self,
        peer: Peer,
        log: logging.Logger,
        *,
        begun: Callable[[], Facts] = dict,
        ended: Callable[[], Facts] = dict,
        quiet: timedelta = QUIET,
    ) -> None:
        self._peer = peer
        self._log = log
        self._begun = begun
        self._ended = ended
        self._quiet = quiet.total_seconds()
        self._since = 0.0
        self._told_at = 0.0
        self._failures = 0
        self._ending: asyncio.TimerHandle | None = None

    @property
    def peer(self) -> Peer:
        """Whose outage it is."""
        return self._peer

    @property
    def is_on(self) -> bool:
        """True from the first failure until nothing has failed for a while. Any thread may ask."""
        return self._failures > 0

    def failed(self, fault: str) -> None:
        """Take note that a call failed; `fault` says how, for people."""
        now = time.monotonic()
        self._failures += 1
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._failures == 1:
            self._since = self._told_at = now
            facts = {"fault": fault, "meanwhile": self._peer.meanwhile, **self._begun()}
            self._log.warning("%s does not serve; trying again", self._peer.name, extra=facts)
        elif now - self._told_at >= REMIND.total_seconds():
            self._told_at = now
            self._log.warning("%s does not serve yet; trying again", self._peer.name, extra=self._so_far(fault, now))

    def succeeded(self) -> bool:
        """Take note that a call succeeded; True for the first one after a failure."""
        if not self._failures or self._ending is not None:
            return False
        self._ending = asyncio.get_running_loop().call_later(self._quiet, self._over)
        return True

    def _over(self) -> None:
        after = round(time.monotonic() - self._since, 1)
        facts = {"after_seconds": after, "failed_calls": self._failures, **self._ended()}
        self._failures, self._ending = 0, None
        self._log.info("%s serves again", self._peer.name, extra=facts)

    def _so_far(self, fault: str, now: float) -> Facts:
        return {"fault": fault, "for_seconds": round(now - self._since), "failed_calls": self._failures}
