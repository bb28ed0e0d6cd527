"""What failed by itself and waits for its next try while all else goes on, and how much to take at a time.

Kept in memory only, and bounded: another copy of the service, or the next start, simply tries at once.
"""

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headway.runtime.backoff import Backoff

__all__ = ["BatchSize", "Parked"]

Key = TypeVar("Key", bound=Hashable)

_KEPT_AFTER_DUE = 120.0  # seconds; a key not parked again by then was carried out by another copy


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stay:
    failures: int
    until: float


class Parked(Generic[Key]):
    """Keys set aside after failures, each for longer than the last time.

    Args:
        backoff: For how long.
        chance: Spreads the tries.
        clock: Monotonic seconds.
        most: How many keys are kept; beyond it the oldest is let go, and is tried sooner than it should be.
    """

    def __init__(
        self, *, backoff: Backoff, chance: random.Random, clock: Callable[[], float], most: int = 10_000
    ) -> None:
        self._backoff = backoff
        self._chance = chance
        self._clock = clock
        self._most = most
        self._stays: dict[Key, _Stay] = {}

    def park(self, key: Key) -> float:
        """Set a key aside after a failure; answers for how many seconds."""
        known = self._stays.pop(key, None)
        failures = known.failures + 1 if known else 1
        delay = self._backoff.delay(failures, self._chance)
        self._stays[key] = _Stay(failures=failures, until=self._clock() + delay)
        while len(self._stays) > self._most:
            del self._stays[next(iter(self._stays))]
        return delay

    def forget(self, key: Key) -> None:
        """Drop a key that succeeded."""
        self._stays.pop(key, None)

    def waiting(self) -> list[Key]:
        """List the keys that are not to be tried yet."""
        if not self._stays:
            return []
        now = self._clock()
        for key in [key for key, stay in self._stays.items() if stay.until + _KEPT_AFTER_DUE < now]:
            del self._stays[key]
        return [key for key, stay in self._stays.items() if stay.until > now]


class BatchSize:
    """How many items to hand to a peer at once: halved when it chokes, doubled when it is well.

    An item that makes every call fail is so left alone in the end, and can be set aside.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = most

    @property
    def size(self) -> int:
        """Items to take now, at least one."""
        return self._size

    def shrink(self) -> None:
        """Take fewer: the call failed as a whole."""
        self._size = max(1, self._size // 2)

    def grow(self) -> None:
        """Take more again."""
        self._size = min(self._most, self._size * 2)
