"""The relay's surroundings in tests: rows in a real outbox, a scripted coordinator, relays to start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
from redis.asyncio import Redis

from headway.api.events.v1 import events_pb2, events_pb2_grpc
from headway.api.outbox.v1 import outbox_pb2, outbox_pb2_grpc
from headway.relay.__main__ import relay
from headway.relay.settings import RelaySettings
from headway.runtime.queues import stream_of

QUEUE = "default/work"

Fields = dict[str, str]


@dataclass
class ScriptedCoordinator(events_pb2_grpc.EventsServiceServicer, outbox_pb2_grpc.OutboxServiceServicer):
    """Answers as it is told and keeps what it was asked; a remote peer, so a double of it is fair."""

    fate: Callable[[events_pb2.Handover], events_pb2.DeliverAnswer] = lambda _: events_pb2.DELIVER_ANSWER_APPLIED
    sweep: Callable[[outbox_pb2.SweepRequest], Any] = lambda _: outbox_pb2.SweepResponse()
    fail_deliver_with: Callable[[events_pb2.DeliverRequest], grpc.StatusCode | None] = lambda _: None
    delivered: list[events_pb2.Handover] = field(default_factory=list)
    swept: list[outbox_pb2.SweepRequest] = field(default_factory=list)
    port: int = 0
    _server: grpc.aio.Server | None = None

    async def Deliver(self, request: events_pb2.DeliverRequest, context: Any) -> events_pb2.DeliverResponse:  # noqa: N802
        if (code := self.fail_deliver_with(request)) is not None:
            await context.abort(code, "by script")
        self.delivered.extend(request.handovers)
        return events_pb2.DeliverResponse(answers=[self.fate(handover) for handover in request.handovers])

    async def Sweep(self, request: outbox_pb2.SweepRequest, context: Any) -> outbox_pb2.SweepResponse:  # noqa: N802
        del context
        self.swept.append(request)
        answer = self.sweep(request)
        return await answer if inspect.isawaitable(answer) else answer

    @property
    def losses(self) -> int:
        return sum(request.broker_lost for request in self.swept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = grpc.aio.server()
        events_pb2_grpc.add_EventsServiceServicer_to_server(self, self._server)
        outbox_pb2_grpc.add_OutboxServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)


@dataclass
class World:
    """All that surrounds the relays of one test."""

    database_url: str
    redis_url: str
    database: asyncpg.Connection[asyncpg.Record]
    redis: Redis
    coordinator: ScriptedCoordinator

    def settings(self, **changes: Any) -> RelaySettings:
        values: dict[str, Any] = {
            "database_url": self.database_url,
            "redis_url": self.redis_url,
            "coordinator": self.coordinator.address,
            "poll_interval": timedelta(milliseconds=50),
            "epoch_interval": timedelta(milliseconds=50),
            "retry_cap": timedelta(milliseconds=500),
            "sweep_interval": timedelta(hours=1),
            "drain_timeout": timedelta(seconds=5),
        }
        return RelaySettings(**{**values, **changes})

    @asynccontextmanager
    async def relay(self, **changes: Any) -> AsyncIterator[asyncio.Task[None]]:
        """Run a relay while the block does; its end must be a clean drain."""
        drain = asyncio.Event()
        task = asyncio.create_task(relay(self.settings(**changes), drain))
        try:
            yield task
        finally:
            drain.set()
            async with asyncio.timeout(15):
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def dispatch(
        self,
        count: int = 1,
        *,
        bucket: int = 0,
        queue: str = "work",
        path: str = "step_0",
        trace: str = "",
        notify: bool = True,
        age: float = 0.0,
    ) -> list[UUID]:
        """Write dispatches as the coordinator does: rows, then one NOTIFY, in one transaction."""
        rows = [(bucket, time_ordered(), "dispatch", uuid4(), path, queue, trace, age) for _ in range(count)]
        async with self.database.transaction():
            await self.database.executemany(
                "INSERT INTO outbox (bucket, outbox_id, kind, run_id, namespace, path, attempt, queue, handler, trace,"
                " created_at) VALUES ($1, $2, $3, $4, 'default', $5, 1, $6, 'do.it', $7,"
                " now() - make_interval(secs => $8))",
                rows,
            )
            if notify:
                await self.database.execute("SELECT pg_notify('headway_outbox', $1)", str(bucket))
        return [row[1] for row in rows]

    async def handover(self, body: bytes, *, bucket: int = 0, notify: bool = True) -> UUID:
        outbox_id = time_ordered()
        async with self.database.transaction():
            await self.database.execute(
                "INSERT INTO outbox (bucket, outbox_id, kind, run_id, namespace, path, attempt, queue, handler, body,"
                " trace, created_at) VALUES ($1, $2, 'handover', $3, 'default', '', 0, '', '', $4, '', now())",
                bucket,
                outbox_id,
                uuid4(),
                body,
            )
            if notify:
                await self.database.execute("SELECT pg_notify('headway_outbox', $1)", str(bucket))
        return outbox_id

    async def outbox_ids(self) -> list[UUID]:
        return [
            row["outbox_id"] for row in await self.database.fetch("SELECT outbox_id FROM outbox ORDER BY outbox_id")
        ]

    async def outbox_is_empty(self) -> bool:
        return not await self.outbox_ids()

    async def entries(self, queue_name: str = QUEUE) -> list[Fields]:
        found: Any = await self.redis.xrange(stream_of(queue_name))
        return [fields for _, fields in found]

    async def dispatch_ids(self, queue_name: str = QUEUE) -> list[UUID]:
        return [UUID(fields["dispatch_id"]) for fields in await self.entries(queue_name)]


_latest = 0


def time_ordered() -> UUID:
    """Make a UUID, version 7, later than all before."""
    global _latest  # noqa: PLW0603 - one order for all rows of a test run
    _latest = max(_latest + 1, time.time_ns() // 1000)
    return UUID(int=(_latest // 1000 << 80) | (7 << 76) | (_latest % 1000 << 64) | (2 << 62) | (uuid4().int >> 66))
