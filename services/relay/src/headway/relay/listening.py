"""Waking up: NOTIFY when it works, a look at all buckets when it does not."""

import logging
from collections.abc import Callable, Sequence

from headway.relay.store import Outbox
from headway.relay.telemetry import Telemetry
from headway.relay.wakes import Wakes

__all__ = ["CHANNEL", "Poll", "waking"]

_log = logging.getLogger(__name__)

CHANNEL = "headway_outbox"
COUNT_EVERY = 15  # polls between two counts of the outbox


def waking(wakes: Wakes) -> Callable[[str], None]:
    """Make the function that takes a notification's payload, a bucket, and wakes for it."""

    def notified(payload: str) -> None:
        try:
            wakes.wake(int(payload))
        except ValueError:
            _log.warning("a notification that names no bucket", extra={"payload": payload[:100]})

    return notified


class Poll:
    """Looks at all buckets in use, and at how full the outbox is.

    Args:
        outbox: What is looked at.
        wakes: Who is woken for each bucket that has rows.
        telemetry: Metrics.
    """

    def __init__(self, *, outbox: Outbox, wakes: Sequence[Wakes], telemetry: Telemetry) -> None:
        self._outbox = outbox
        self._wakes = wakes
        self._telemetry = telemetry
        self._looks = 0

    async def step(self) -> None:
        """Look once; now and then, count."""
        if self._looks % COUNT_EVERY == 0:
            self._telemetry.depth(await self._outbox.depth())
        self._looks += 1
        await self.look()

    async def look(self) -> None:
        """Wake for each bucket that has rows."""
        oldest = oldest_handover = 0.0
        for backlog in await self._outbox.backlog():
            if backlog.oldest_seconds is not None:
                oldest = max(oldest, backlog.oldest_seconds)
                oldest_handover = max(oldest_handover, backlog.handover_seconds or 0.0)
                for wakes in self._wakes:
                    wakes.wake(backlog.bucket)
        self._telemetry.ages(oldest, oldest_handover)
