"""Natural batching: what has queued while the previous call was under way goes together in the next one.

No timer and no minimum: alone, an item leaves at the end of the loop turn; under load, batches grow by themselves.
Knows nothing of what it carries.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, ParamSpec, TypeVar

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

MOST_ITEMS = 256
"""Items in one call: the limit of the contract."""
MOST_BYTES = 3 * 1024 * 1024
"""Bytes in one call, so that it fits the smallest message limit that a coordinator may have, 4 MiB, with its frame."""
_PAUSE_AFTER_FAULT = 0.2
"""Before the next batch, in seconds: a fault in every batch must not read and give up the whole queue at full speed."""


class Batcher(Generic[Item]):
    """Hands queued items to `send`, in order, in batches; at most `in_flight` calls at a time.

    `send` owns a batch: it retries, puts items back (`put_back`) or gives them up. What it does with
    one item it does in a `step`, so that a fault there fails that item alone; should it raise all the same, the whole
    batch is given up. Nothing that one item holds ends the carrying.
    """

    def __init__(
        self,
        send: Callable[[list[Item]], Awaitable[None]],
        *,
        give_up: Callable[[Item], None],
        size_of: Callable[[Item], int] | None = None,
        in_flight: int = 2,
    ) -> None:
        """Make an idle batcher; `run` starts it.

        Args:
            send: Carries a batch.
            give_up: Told of each item that a fault in the worker itself has failed. May be told twice of the same.
            size_of: Bytes of an item; without it, only the number of items limits a batch.
            in_flight: How many calls at a time.
        """
        self._send = send
        self._give_up = give_up
        self._size_of = size_of
        self._in_flight = in_flight
        self._queue: deque[Item] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._unfinished = 0

    def put(self, item: Item) -> None:
        """Queue an item. Never waits."""
        self._begin(1)
        self._queue.append(item)

    def put_back(self, items: list[Item]) -> None:
        """Queue items again, ahead of all others, in their order."""
        self._begin(len(items))
        self._queue.extendleft(reversed(items))

    @property
    def unfinished(self) -> int:
        """How many items are queued or under way."""
        return self._unfinished

    async def join(self) -> None:
        """Wait until nothing is queued or under way."""
        await self._idle.wait()

    async def run(self) -> None:
        """Carry items until cancelled."""
        async with asyncio.TaskGroup() as calls:
            for _ in range(self._in_flight):
                calls.create_task(self._carry())

    def step(
        self, item: Item, call: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result | None:
        """Do a step for one item; if it raises, that item is given up, and nothing else."""
        try:
            return call(*args, **kwargs)
        except Exception:
            logger.exception("a fault in the worker: one item is given up")
            self._fail(item)
            return None

    def _fail(self, item: Item) -> None:
        try:
            self._give_up(item)
        except Exception:
            logger.exception("an item could not be given up")

    async def _carry(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._queue:
                waiting: asyncio.Future[None] = loop.create_future()
                self._waiting.append(waiting)
                await waiting
            batch = self._take()
            try:
                await self._send(batch)
            except Exception:
                logger.exception("a fault in the worker: a batch is given up", extra={"items": len(batch)})
                for item in batch:
                    self._fail(item)
                await asyncio.sleep(_PAUSE_AFTER_FAULT)
            finally:
                self._end(len(batch))

    def _take(self) -> list[Item]:
        queue = self._queue
        batch: list[Item] = []
        size = 0
        while queue and len(batch) < MOST_ITEMS:
            if self._size_of is not None:
                size += self._size_of(queue[0])
                if batch and size > MOST_BYTES:
                    break
            batch.append(queue.popleft())
        if queue:
            self._wake()
        return batch

    def _begin(self, count: int) -> None:
        self._unfinished += count
        self._idle.clear()
        if not self._queue:  # else somebody was woken for it, or takes it when a call ends
            self._wake()

    def _end(self, count: int) -> None:
        self._unfinished -= count
        if not self._unfinished:
            self._idle.set()

    def _wake(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
