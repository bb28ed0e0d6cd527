"""Threads for plain handlers.

Daemons, unlike those of concurrent.futures: a handler that never ends must not keep the process from exiting after its
drain.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class DaemonThreads(Executor):
    """Up to `most` threads, started when first needed. What is submitted beyond that waits."""

    def __init__(self, most: int) -> None:
        """Start without a thread."""
        self._most = most
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Run `fn` in a thread. Never waits."""
        future: Future[Result] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  whatever it is belongs to whoever waits
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._serve, name=f"handler-{self._threads}", daemon=True).start()
        self._work.put(work)
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  Executor's signature
        """Let idle threads end. Never waits for busy ones."""
        with self._lock:
            for _ in range(self._threads):
                self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._lock:
                self._idle += 1
