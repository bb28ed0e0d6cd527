"""Where chance, identities and this process's monotonic clock come from. Event time is the database's alone."""

import os
import random
import time
from uuid import UUID

_chance = random.Random()  # noqa: S311 - jitter, not secrets


def chance() -> float:
    """A number from [0, 1)."""
    return _chance.random()


def monotonic() -> float:
    """Seconds on this process's monotonic clock: for measuring, never for deciding."""
    return time.monotonic()


def unix_nanoseconds() -> int:
    """Wall clock, for spans only."""
    return time.time_ns()


def new_uuid() -> UUID:
    """A time-ordered UUID (RFC 9562, version 7); the order is for locality only, nothing depends on the clock."""
    raw = bytearray((time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(10))
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return UUID(bytes=bytes(raw))
