"""An event loop on which time is not waited for: what it shows depends on no machine's speed."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Leaping(selectors.DefaultSelector):
    """Where others would sleep, time leaps to the end of the sleep."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everything waits, and nothing will come")
        self.now += timeout
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that does no I/O; the loop's time begins at 0 and goes on only while everything waits."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(coroutine)
