"""How long to wait before trying again, and how the drain shortens that."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

from headway.runtime.backoff import Backoff

OUTAGE = Backoff(initial=timedelta(milliseconds=100), cap=timedelta(seconds=30))
"""For Redis and the coordinator."""
BUSY = Backoff(initial=timedelta(milliseconds=50), cap=timedelta(seconds=1))
"""For rows that are locked just now."""

_CHANCE = random.Random()  # noqa: S311  spreading load needs no secrecy
_LONGEST_IN_DRAIN = 1.0
_SHORTEST = 0.005
"""Full jitter may say zero, and a loop must never spin."""


class Pauses:
    """Counts failures in a row of one thing, and says how long to wait after each. For one thread."""

    __slots__ = ("_failures", "_plan")

    def __init__(self, plan: Backoff = OUTAGE) -> None:
        self._plan = plan
        self._failures = 0

    def next(self) -> float:
        """Count a failure; return the pause, in seconds."""
        self._failures += 1
        return max(_SHORTEST, self._plan.delay(self._failures, _CHANCE))

    def reset(self) -> None:
        """Start again, after a success."""
        self._failures = 0


async def pause(seconds: float, drain: asyncio.Event) -> None:
    """Wait between tries. While draining at most a second; the drain's begin ends longer waits."""
    if drain.is_set():
        await asyncio.sleep(min(seconds, _LONGEST_IN_DRAIN))
        return
    try:
        async with asyncio.timeout(seconds):
            await drain.wait()
    except TimeoutError:
        pass
