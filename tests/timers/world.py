"""What surrounds the timers service in tests: real rows, a scripted coordinator, services to start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import asyncpg
import grpc

from headway.api.timers.v1 import timers_pb2, timers_pb2_grpc
from headway.timers.__main__ import timers
from headway.timers.settings import TimersSettings

FIRED, STALE, FAILED = timers_pb2.FIRE_ANSWER_FIRED, timers_pb2.FIRE_ANSWER_STALE, timers_pb2.FIRE_ANSWER_FAILED

BLANK: dict[str, Any] = {
    "text": "",
    "smallint": 0,
    "integer": 0,
    "bigint": 0,
    "boolean": False,
    "uuid": UUID(int=0),
    "bytea": b"",
    "timestamp with time zone": datetime(2020, 1, 1, tzinfo=UTC),
}

Item: TypeAlias = tuple[str, str, str, int]
"""Run, path, kind (`lease` for a lease) and attempt."""


FIRE_TIMERS = """
DELETE FROM timers
USING unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[]) AS named (run_id, path, kind, attempt)
WHERE timers.run_id = named.run_id AND timers.path = named.path AND timers.kind = named.kind
  AND timers.attempt = named.attempt AND timers.due_at <= now()
RETURNING named.*
"""

REAP_LEASES = """
WITH old AS (
    SELECT tasks.run_id, tasks.path, tasks.attempt
    FROM tasks
    JOIN unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[]) AS named (run_id, path, kind, attempt)
      USING (run_id, path, attempt)
    WHERE named.kind = 'lease' AND state = 'running' AND lease_expires_at <= now()
    FOR UPDATE OF tasks
)
UPDATE tasks
SET state = 'ready', attempt = tasks.attempt + 1, lease_expires_at = NULL, grant_key = NULL
FROM old
WHERE tasks.run_id = old.run_id AND tasks.path = old.path
RETURNING old.run_id, old.path, 'lease' AS kind, old.attempt
"""


@dataclass
class ScriptedCoordinator(timers_pb2_grpc.TimersServiceServicer):
    """Answers as it is told, keeps what it was asked, and deletes what it answers FIRED; a double of a remote peer."""

    pool: asyncpg.Pool[asyncpg.Record]
    answer: Callable[[Item], timers_pb2.FireAnswer | None] = lambda _: None
    """None: FIRED when it was there and due, else STALE, as the real one does."""
    before: Callable[[list[Item]], Any] = lambda _: None
    """Called with each request; answers None, a status to fail with, or something to wait for."""
    calls: list[list[Item]] = field(default_factory=list)
    fired: list[Item] = field(default_factory=list)
    stale: int = 0
    port: int = 0
    _server: grpc.aio.Server | None = None

    async def Fire(self, request: timers_pb2.FireRequest, context: Any) -> timers_pb2.FireResponse:  # noqa: N802
        items: list[Item] = [
            *[(timer.run_id, timer.path, timer.kind, timer.attempt) for timer in request.timers],
            *[(lease.run_id, lease.path, "lease", lease.attempt) for lease in request.leases],
        ]
        self.calls.append(items)
        hindrance = self.before(items)
        if inspect.isawaitable(hindrance):
            hindrance = await hindrance
        if isinstance(hindrance, grpc.StatusCode):
            await context.abort(hindrance, "by script")
        scripted = {item: self.answer(item) for item in items}
        done = await self._decide([item for item, answer in scripted.items() if answer is None])
        answers = [_given(scripted[item], item in done) for item in items]
        self.stale += answers.count(STALE)
        return timers_pb2.FireResponse(answers=answers)

    async def _decide(self, items: list[Item]) -> set[Item]:
        columns = [list(column) for column in zip(*items, strict=True)] or [[], [], [], []]
        async with self.pool.acquire() as connection:
            rows = await connection.fetch(FIRE_TIMERS, *columns)
            rows += await connection.fetch(REAP_LEASES, *columns)
        done: list[Item] = [(row["run_id"].hex, row["path"], row["kind"], row["attempt"]) for row in rows]
        self.fired.extend(done)
        return set(done)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = grpc.aio.server()
        timers_pb2_grpc.add_TimersServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)


@dataclass
class World:
    """All that surrounds the services of one test."""

    database_url: str
    database: asyncpg.Connection[asyncpg.Record]
    coordinator: ScriptedCoordinator

    def settings(self, **changes: Any) -> TimersSettings:
        values: dict[str, Any] = {
            "database_url": self.database_url,
            "coordinator": self.coordinator.address,
            "drain_timeout": timedelta(seconds=5),
        }
        return TimersSettings(**{**values, **changes})

    @asynccontextmanager
    async def service(self, **changes: Any) -> AsyncIterator[asyncio.Task[None]]:
        """Run the service while the block does; its end must be a clean drain."""
        drain = asyncio.Event()
        task = asyncio.create_task(timers(self.settings(**changes), drain))
        try:
            yield task
        finally:
            drain.set()
            async with asyncio.timeout(15):
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def run(self, bucket: int = 0) -> UUID:
        run_id = uuid4()
        await self.write("runs", [{"bucket": bucket, "run_id": run_id, "state": "running"}])
        return run_id

    async def write(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Insert rows; what they leave out and may not be NULL is blank, for it is of no concern here."""
        columns = await self.database.fetch(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = $1"
            " AND is_nullable = 'NO' AND column_default IS NULL",
            table,
        )
        blank = {column["column_name"]: BLANK[column["data_type"]] for column in columns}
        filled = [{**blank, **row} for row in rows]
        places = ", ".join(f"${place}" for place in range(1, len(filled[0]) + 1))
        await self.database.executemany(
            f"INSERT INTO {table} ({', '.join(filled[0])}) VALUES ({places})", [tuple(row.values()) for row in filled]
        )

    async def timers(self, due_in: list[float], *, bucket: int = 0, notify: bool = False) -> list[Item]:
        """Write a timer for each delay, in seconds from now by the database's clock."""
        run_id = await self.run(bucket)
        rows = [(bucket, run_id, f"wait_{number}", delay) for number, delay in enumerate(due_in)]
        await self.database.executemany(
            "INSERT INTO timers (bucket, run_id, path, kind, attempt, due_at)"
            " VALUES ($1, $2, $3, 'wait', 1, now() + make_interval(secs => $4))",
            rows,
        )
        if notify:
            await self.database.execute("NOTIFY headway_timers")
        return [(run_id.hex, path, "wait", 1) for _, _, path, _ in rows]

    async def leases(self, count: int, *, expires_in: float = -1.0, bucket: int = 0) -> list[Item]:
        run_id = await self.run(bucket)
        expires_at = await self.database.fetchval("SELECT now() + make_interval(secs => $1)", expires_in)
        task = {
            "bucket": bucket,
            "run_id": run_id,
            "state": "running",
            "attempt": 3,
            "generation": 1,
            "owner": "w1",
            "lease_expires_at": expires_at,
            "grant_key": "g",
        }
        await self.write("tasks", [{**task, "path": f"task_{number}"} for number in range(1, count + 1)])
        return [(run_id.hex, f"task_{number}", "lease", 3) for number in range(1, count + 1)]

    def all_fired(self, items: list[Item]) -> bool:
        return set(items) <= set(self.coordinator.fired)


def _given(scripted: timers_pb2.FireAnswer | None, done: bool) -> timers_pb2.FireAnswer:  # noqa: FBT001 - one use
    if scripted is not None:
        return scripted
    return FIRED if done else STALE
