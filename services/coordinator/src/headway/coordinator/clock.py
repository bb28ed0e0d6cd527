"""Where chance, identities and this process's monotonic clock come from. Event time is the database's alone."""

import random
import time
from uuid import UUID

CHANCE = random.Random()  # noqa: S311 - jitter, not secrets


def chance() -> float:
    """A number from [0, 1)."""
    return CHANCE.random()


def monotonic() -> float:
    """Seconds on this process's monotonic clock: for measuring, never for deciding."""
    return time.monotonic()


def unix_nanoseconds() -> int:
    """Wall clock, for spans only."""
    return time.time_ns()


def new_uuid() -> UUID:
    """A time-ordered UUID (RFC 9562, version 7); the order is for locality only, nothing depends on the clock."""
    milliseconds = time.time_ns() // 1_000_000 & (1 << 48) - 1
    noise = CHANCE.getrandbits(74)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | noise >> 62 << 64 | 0x2 << 62 | noise & (1 << 62) - 1)
