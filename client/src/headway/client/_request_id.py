"""Request ids: UUIDs of version 7 (RFC 9562, section 5.7), so that those of one caller sort by time."""

from __future__ import annotations

import secrets  # noqa: TID251 - the edge where ids are made: an application has no other clock or chance than its own
import time
import uuid


def new_request_id() -> str:
    """A new request id: 48 bits of Unix time in milliseconds, version, 12 and 62 bits of chance around the variant."""
    milliseconds = time.time_ns() // 1_000_000  # noqa: TID251 - only orders ids; nothing is decided by it
    value = (milliseconds & ((1 << 48) - 1)) << 80
    value |= 0x7 << 76
    value |= secrets.randbits(12) << 64
    value |= 0b10 << 62
    value |= secrets.randbits(62)
    return str(uuid.UUID(int=value))
