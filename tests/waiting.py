"""Waiting in tests: for what holds soon, never for a time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

SECONDS = 20.0  # how long anything may take before a test gives up


async def until(condition: Callable[[], Any], what: str, *, seconds: float = SECONDS) -> Any:
    """Wait until a condition, plain or async, holds; answers its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        await asyncio.sleep(0.002)
