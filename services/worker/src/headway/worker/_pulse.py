"""A handler's heartbeats, from where the handler gives them to where a renewal takes them along.

Written by the handler's thread and read by the one that renews, so under a lock of its own.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

from headway.api.tasks.v1 import tasks_pb2


class Pulse:
    """The heartbeats of one attempt, numbered, and up to which of them the coordinator was told."""

    __slots__ = ("_beat_at", "_lock", "_number", "_progress_at", "_told", "_values")

    def __init__(self) -> None:
        """Begin without any."""
        self._lock = threading.Lock()
        self._number = 0
        self._told = 0
        self._beat_at = 0.0
        self._progress_at: float | None = None
        self._values: dict[str, tuple[object, int]] = {}  # by field: its value, and the heartbeat that brought it

    def beat(self, **given: float | str | bytes | None) -> None:
        """Take a heartbeat: percent, message, checkpoint (JSON). None: as before. What is not new is no progress."""
        with self._lock:
            self._number += 1
            self._beat_at = time.monotonic()
            for field, value in given.items():
                if value is not None and self._values.get(field, (None, 0))[0] != value:
                    self._values[field] = (value, self._number)
                    self._progress_at = self._beat_at

    def untold(self) -> tuple[tasks_pb2.Beat | None, int]:
        """Return what the coordinator does not know, None if that is nothing; and its number, for `tell`."""
        now = time.monotonic()
        with self._lock:
            if self._number == self._told:
                return None, self._number
            beat = tasks_pb2.Beat(**self._fresh())
            beat.age.FromTimedelta(timedelta(seconds=now - self._beat_at))
            if self._progress_at is not None:
                beat.progress_age.FromTimedelta(timedelta(seconds=now - self._progress_at))
            return beat, self._number

    def tell(self, number: int) -> None:
        """The coordinator was told of all heartbeats up to this one."""
        with self._lock:
            self._told = number

    def untold_checkpoint(self) -> bytes:
        """Return the checkpoint that the coordinator does not know, as JSON; empty: there is none."""
        with self._lock:
            value, number = self._values.get("checkpoint", (b"", 0))
            return value if isinstance(value, bytes) and number > self._told else b""

    def _fresh(self) -> dict[str, Any]:
        return {field: value for field, (value, number) in self._values.items() if number > self._told}
