"""How long to wait before trying again: exponential, capped, with full jitter.

Full jitter (uniform between nothing and the exponential bound) spreads a fleet that failed together best: "Exponential
Backoff And Jitter", AWS Architecture Blog, 2015. Chance is passed in, so that a test can seed it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The plan of waits: at most initial, then factor times as much each time, never above cap."""

    initial: timedelta = timedelta(milliseconds=100)
    factor: float = 2.0
    cap: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        if self.initial <= timedelta(0) or self.factor < 1 or self.cap < self.initial:
            raise ValueError(f"initial must be positive, factor at least 1, and cap at least initial: {self}")

    def bound(self, failures: int) -> timedelta:
        """The longest wait after so many failures in a row; failures is at least 1."""
        # The exponent is capped too: 2.0 ** 1100 overflows, and a fleet may fail for days.
        exponent = min(max(failures, 1) - 1, 64)
        return timedelta(seconds=min(self.cap.total_seconds(), self.initial.total_seconds() * self.factor**exponent))

    def delay(self, failures: int, chance: random.Random) -> float:
        """The wait after so many failures in a row, in seconds: uniform between 0 and `bound(failures)`."""
        return chance.uniform(0.0, self.bound(failures).total_seconds())
