"""A scripted coordinator, a real Redis, and workers between the two."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import redis

from headway.runtime.queues import GROUP, stream_of
from headway.worker import Registry, Worker, WorkerSettings
from tests.worker.scripted_coordinator import ScriptedCoordinator


def nothing(_: Any) -> None:
    """A handler."""


@dataclass
class Bench:
    """What a test of a worker has at hand."""

    coordinator: ScriptedCoordinator
    redis_url: str
    redis: Any
    registry: Registry = field(default_factory=Registry)

    def settings(self, **changes: Any) -> WorkerSettings:
        defaults: dict[str, Any] = {
            "coordinator": self.coordinator.address,
            "redis_url": self.redis_url,
            "drain_timeout": timedelta(seconds=10),
        }
        return WorkerSettings(**{**defaults, **changes})

    def dispatch(
        self, task_id: str, handler: str, given: object = None, *, queue: str = "default", **offer: Any
    ) -> bytes:
        """Offer a task at the coordinator and put its message into the queue."""
        self.coordinator.offer(task_id, handler, given, **offer)
        return self.publish(task_id, queue=queue, handler=handler)

    def publish(self, task_id: str, *, queue: str = "default", handler: str = "", attempt: int = 1) -> bytes:
        """Put a message into the queue, as the relay does."""
        return self.redis.xadd(stream_of(f"default/{queue}"), self.message(task_id, queue, handler, attempt))

    def message(self, task_id: str, queue: str = "default", handler: str = "", attempt: int = 1) -> dict[str, str]:
        """The fields of a task's message."""
        return {
            "dispatch_id": f"d-{task_id}",
            "task_id": task_id,
            "attempt": str(attempt),
            "handler": handler,
            "queue": queue,
            "namespace": "default",
            "trace": "",
        }

    def blocked_reader(self) -> None:
        """Block until some client waits for a message."""
        for _ in range(1000):
            if self.redis.info("clients")["blocked_clients"]:
                return
            threading.Event().wait(0.01)
        raise AssertionError("nobody reads")

    def left(self, queue: str = "default") -> int:
        """How many messages the queue holds, acknowledged ones not counted."""
        return self.redis.xlen(stream_of(f"default/{queue}"))

    def pending(self, queue: str = "default") -> int:
        """How many messages were delivered and not acknowledged."""
        return self.redis.xpending(stream_of(f"default/{queue}"), GROUP)["pending"]

    @asynccontextmanager
    async def worker(
        self, *, settings: dict[str, Any] | None = None, drained_within: float = 15, **options: Any
    ) -> AsyncGenerator[asyncio.Event]:
        """Run a worker during the block, then drain it. Yields its drain event."""
        drain = asyncio.Event()
        options.setdefault("queues", ["default"])
        worker = Worker(self.registry, settings=self.settings(**(settings or {})), **options)
        serving = asyncio.create_task(worker.serve(drain))
        try:
            yield drain
            drain.set()
            async with asyncio.timeout(drained_within):
                await serving
        finally:
            serving.cancel()
            await asyncio.wait({serving})


@pytest.fixture
def coordinator() -> Generator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator()
    scripted.start()
    yield scripted
    scripted.stop()


@pytest.fixture
def bench(coordinator: ScriptedCoordinator, redis_url: str) -> Generator[Bench]:
    with redis.Redis.from_url(redis_url, protocol=2) as connection:
        yield Bench(coordinator, redis_url, connection)
