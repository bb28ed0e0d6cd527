"""Coordinators in this process on a real database, and what plays the worker, the relay and the timers service.

The database is made once a session and emptied before each test. Collisions are staged, never hoped for: `hold` takes a
table lock under which a transaction stops at a known statement, and `until_blocked` waits until it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from headway.api.definitions.v1 import definitions_pb2, definitions_pb2_grpc
from headway.api.events.v1 import events_pb2_grpc
from headway.api.outbox.v1 import outbox_pb2_grpc
from headway.api.runs.v1 import runs_pb2, runs_pb2_grpc
from headway.api.tasks.v1 import tasks_pb2, tasks_pb2_grpc
from headway.api.timers.v1 import timers_pb2, timers_pb2_grpc
from headway.coordinator.engine.engine import Engine
from headway.coordinator.rpc import server
from headway.coordinator.store.attending import connect_listener
from headway.coordinator.store.pool import open_pool
from headway.runtime.serving import MESSAGE_LIMIT, serve
from tests import servers
from tests.orphans import orphans
from tests.waiting import until

ONE = "workflow: one\nnodes:\n  work: {type: call, handler: h.work, input: '${input}', lease: 60s}\n"
TWO = (
    "workflow: two\nnodes:\n"
    "  first: {type: call, handler: h.first, retry: {max_attempts: 3, initial: 1s, factor: 2, max: 1m}}\n"
    "  second: {type: call, handler: h.second, input: {got: '${nodes.first.output}'}}\n"
    "edges: [[first, second]]\n"
)
JOIN = (
    "workflow: joined\nnodes:\n"
    "  left: {type: call, handler: h.left}\n"
    "  right: {type: call, handler: h.right}\n"
    "  both: {type: join}\n"
    "  after: {type: call, handler: h.after, input: '${nodes.both.output}'}\n"
    "edges: [[left, both, after], [right, both]]\n"
)
SWITCH = (
    "workflow: switched\nnodes:\n"
    "  rate: {type: call, handler: h.rate}\n"
    "  gate: {type: switch, cases: [{when: 'nodes.rate.output.score > 5', to: high}], default: low}\n"
    "  high: {type: call, handler: h.high}\n"
    "  low: {type: call, handler: h.low}\n"
    "edges: [[rate, gate]]\n"
)
EVENT = (
    "workflow: waiting\nnodes:\n"
    "  ask: {type: wait_for_event, event: approval, timeout: 1h}\n"
    "  go: {type: call, handler: h.go, input: '${nodes.ask.output}'}\n"
    "  late: {type: call, handler: h.late}\n"
    "edges:\n  - [ask, go]\n  - {from: ask, on: timeout, to: late}\n"
)
SLEEP = "workflow: sleeping\ndeadline: 2h\nnodes:\n  nap: {type: wait, duration: 1h}\n"
SWEEP = "workflow: swept\nnodes:\n  work: {type: call, handler: h.work, queue: slow}\n"

EMPTY = """
DELETE FROM runs; DELETE FROM outputs; DELETE FROM tasks; DELETE FROM attempts; DELETE FROM beats; DELETE FROM tokens;
DELETE FROM run_events; DELETE FROM outbox; DELETE FROM timers; DELETE FROM signals; DELETE FROM requests;
DELETE FROM run_labels; DELETE FROM workers; DELETE FROM loops; DELETE FROM scopes; DELETE FROM children;
DELETE FROM effects; DELETE FROM waits;
DELETE FROM stale_reports; DELETE FROM start_keys; DELETE FROM definitions;
DELETE FROM buckets WHERE bucket > 1; UPDATE settings SET value = '2';
"""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """An outbox row, as the worker gets it: the right to ask for an attempt."""

    run_id: str
    path: str
    attempt: int

    @property
    def task_id(self) -> str:
        return f"{self.run_id}:{self.path}"

    @property
    def uuid(self) -> UUID:
        return UUID(self.run_id)


@dataclass(frozen=True, slots=True)
class Refused:
    """A gRPC error as a client reads it."""

    code: grpc.StatusCode
    reason: str
    metadata: dict[str, str]
    message: str
    details: status_pb2.Status | None


def refused(error: grpc.aio.AioRpcError) -> Refused:
    call: Any = error  # from_call wants a call; an error answers the same questions
    status: status_pb2.Status | None = rpc_status.from_call(call)
    info = error_details_pb2.ErrorInfo()
    if unpacked(status, info):
        assert info.domain == "headway"
    return Refused(error.code(), info.reason, dict(info.metadata), error.details() or "", status)


def unpacked(status: status_pb2.Status | None, into: Any) -> bool:
    """Read the detail of a message's type; False when there is none."""
    return status is not None and any(detail.Unpack(into) for detail in status.details)


async def refusal_of(call: Any) -> Refused:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return refused(caught.value)


class Coordinator:
    """One coordinator with its own pool, engine and server, and the stubs that call it."""

    def __init__(self, engine: Engine, channel: grpc.aio.Channel, address: str) -> None:
        self.engine = engine
        self.channel = channel
        self.address = address
        self.definitions = definitions_pb2_grpc.DefinitionsServiceStub(channel)
        self.runs = runs_pb2_grpc.RunsServiceStub(channel)
        self.tasks = tasks_pb2_grpc.TasksServiceStub(channel)
        self.timers = timers_pb2_grpc.TimersServiceStub(channel)
        self.events = events_pb2_grpc.EventsServiceStub(channel)
        self.outbox = outbox_pb2_grpc.OutboxServiceStub(channel)

    # --- applications

    async def deploy(self, *sources: str) -> None:
        for source in sources:
            await self.definitions.Deploy(definitions_pb2.DeployRequest(source=source))

    async def start(self, workflow: str, given: object = None, **fields: Any) -> str:
        request = runs_pb2.StartRequest(
            workflow=workflow,
            input=b"" if given is None else json.dumps(given).encode(),
            request_id=fields.pop("request_id", str(uuid4())),
            **fields,
        )
        return (await self.runs.Start(request)).run_id

    async def get(self, run_id: str, scope: str = "") -> runs_pb2.GetResponse:
        return await self.runs.Get(runs_pb2.GetRequest(run_id=run_id, scope=scope))

    async def state(self, run_id: str) -> str:
        return runs_pb2.RunState.Name((await self.get(run_id)).run.state).removeprefix("RUN_STATE_")

    async def task(self, run_id: str, path: str) -> runs_pb2.Task:
        return next(task for task in (await self.get(run_id)).tasks if task.path == path)

    async def history(self, run_id: str) -> list[runs_pb2.Event]:
        return list((await self.runs.GetHistory(runs_pb2.GetHistoryRequest(run_id=run_id))).events)

    async def signal(self, run_id: str, name: str, payload: object = None, **fields: Any) -> int:
        fields.setdefault("request_id", str(uuid4()))
        request = runs_pb2.SignalRequest(run_id=run_id, name=name, payload=json.dumps(payload).encode(), **fields)
        return (await self.runs.Signal(request)).seq

    async def cancel(self, run_id: str, **fields: Any) -> str:
        fields.setdefault("request_id", str(uuid4()))
        answer = await self.runs.Cancel(runs_pb2.CancelRequest(run_id=run_id, **fields))
        return runs_pb2.RunState.Name(answer.state).removeprefix("RUN_STATE_")

    async def retry(self, run_id: str, *nodes: str, **fields: Any) -> runs_pb2.RetryResponse:
        fields.setdefault("request_id", str(uuid4()))
        return await self.runs.Retry(runs_pb2.RetryRequest(run_id=run_id, from_nodes=nodes, **fields))

    # --- workers

    async def lease_all(
        self, dispatches: Iterable[Dispatch], owner: str = "w1", key: str | None = None
    ) -> list[tasks_pb2.LeaseResult]:
        items = [
            tasks_pb2.LeaseItem(task_id=d.task_id, attempt=d.attempt, grant_key=key or uuid4().hex) for d in dispatches
        ]
        return list((await self.tasks.Lease(tasks_pb2.LeaseRequest(owner=owner, items=items))).results)

    async def grant(self, dispatch: Dispatch, owner: str = "w1", key: str | None = None) -> tasks_pb2.Grant:
        (result,) = await self.lease_all([dispatch], owner, key)
        assert result.answer == tasks_pb2.LEASE_ANSWER_GRANTED, result
        return result.grant

    async def lease(self, dispatch: Dispatch, owner: str = "w1", key: str | None = None) -> str:
        (result,) = await self.lease_all([dispatch], owner, key)
        return tasks_pb2.LeaseAnswer.Name(result.answer).removeprefix("LEASE_ANSWER_")

    async def renew_result(self, dispatch: Dispatch, owner: str = "w1") -> tasks_pb2.RenewResult:
        item = tasks_pb2.RenewItem(task_id=dispatch.task_id, attempt=dispatch.attempt)
        return (await self.tasks.Renew(tasks_pb2.RenewRequest(owner=owner, items=[item]))).results[0]

    async def renew(self, dispatch: Dispatch, owner: str = "w1") -> str:
        answer = (await self.renew_result(dispatch, owner)).answer
        return tasks_pb2.RenewAnswer.Name(answer).removeprefix("RENEW_ANSWER_")

    async def report(self, owner: str, *items: tasks_pb2.ReportItem) -> list[str]:
        response = await self.tasks.Report(tasks_pb2.ReportRequest(owner=owner, items=items))
        return [
            result.refusal.reason
            if result.answer == tasks_pb2.REPORT_ANSWER_REFUSED
            else tasks_pb2.ReportAnswer.Name(result.answer).removeprefix("REPORT_ANSWER_")
            for result in response.results
        ]

    async def succeed(self, dispatch: Dispatch, output: object = None, owner: str = "w1") -> str:
        return (await self.report(owner, succeeded(dispatch, output)))[0]

    async def fail(self, dispatch: Dispatch, owner: str = "w1", **fields: Any) -> str:
        fields.setdefault("type", "Broken")
        failed = tasks_pb2.Failed(**fields)
        item = tasks_pb2.ReportItem(task_id=dispatch.task_id, attempt=dispatch.attempt, failed=failed)
        return (await self.report(owner, item))[0]

    # --- timers

    async def fire(
        self, timers: Sequence[timers_pb2.Timer] = (), leases: Sequence[timers_pb2.ExpiredLease] = ()
    ) -> list[str]:
        response = await self.timers.Fire(timers_pb2.FireRequest(timers=timers, leases=leases))
        return [timers_pb2.FireAnswer.Name(answer).removeprefix("FIRE_ANSWER_") for answer in response.answers]

    async def reap(self, dispatch: Dispatch) -> str:
        lease = timers_pb2.ExpiredLease(run_id=dispatch.run_id, path=dispatch.path, attempt=dispatch.attempt)
        return (await self.fire(leases=[lease]))[0]


def succeeded(dispatch: Dispatch, output: object = None) -> tasks_pb2.ReportItem:
    return tasks_pb2.ReportItem(
        task_id=dispatch.task_id,
        attempt=dispatch.attempt,
        succeeded=tasks_pb2.Succeeded(output=json.dumps(output).encode()),
    )


@dataclass
class World:
    """The database and the coordinators on it. `first` is always there."""

    url: str
    database: asyncpg.Connection[asyncpg.Record]
    stack: AsyncExitStack
    first: Coordinator = field(init=False)

    async def coordinator(self, *, size: int = 6, message_limit: int = MESSAGE_LIMIT) -> Coordinator:
        """Start another coordinator; it stops with the test."""
        pool = await open_pool(self.url, size=size)
        self.stack.push_async_callback(pool.close)
        engine = Engine(pool, connect_listener=partial(connect_listener, self.url))
        await engine.start()
        self.stack.push_async_callback(engine.stop)
        serving = await self.stack.enter_async_context(
            serve(
                "127.0.0.1:0",
                services=server.SERVICES,
                register=lambda grpc_server: server.register(grpc_server, engine, message_limit),
                message_limit=message_limit,
                grace=timedelta(),
            )
        )
        address = f"127.0.0.1:{serving.port}"
        channel = await self.stack.enter_async_context(grpc.aio.insecure_channel(address))
        return Coordinator(engine, channel, address)

    # --- the relay

    async def dispatches(self, run_id: str | None = None) -> list[Dispatch]:
        """Take what waits in the outbox, in order."""
        records = await self.database.fetch(
            "DELETE FROM outbox WHERE $1::uuid IS NULL OR run_id = $1 RETURNING outbox_id, run_id, path, attempt",
            None if run_id is None else UUID(run_id),
        )
        return [
            Dispatch(r["run_id"].hex, r["path"], r["attempt"]) for r in sorted(records, key=lambda r: r["outbox_id"])
        ]

    async def dispatch(self, run_id: str) -> Dispatch:
        """Take the one dispatch of a run that waits."""
        (found,) = await self.dispatches(run_id)
        return found

    # --- time

    async def let_lease_expire(self, dispatch: Dispatch) -> None:
        await self.database.execute(
            "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 second'"
            " WHERE run_id = $1 AND path = $2",
            dispatch.uuid,
            dispatch.path,
        )

    async def timer_rows(self, run_id: str) -> list[tuple[str, str, int]]:
        records = await self.database.fetch(
            "SELECT path, kind, attempt FROM timers WHERE run_id = $1 ORDER BY path, kind", UUID(run_id)
        )
        return [tuple(record) for record in records]

    async def let_timers_come_due(self, run_id: str) -> list[timers_pb2.Timer]:
        """Make every timer of a run due, and return them as the timers service names them."""
        records = await self.database.fetch(
            "UPDATE timers SET due_at = clock_timestamp() - interval '1 second' WHERE run_id = $1"
            " RETURNING path, kind, attempt",
            UUID(run_id),
        )
        return [timers_pb2.Timer(run_id=run_id, **dict(record)) for record in records]

    # --- rows

    async def one(self, query: str, *arguments: Any) -> Any:
        return await self.database.fetchval(query, *arguments)

    async def columns(self, dispatch: Dispatch, *names: str) -> tuple[Any, ...]:
        """Some columns of a task's row."""
        query = f"SELECT {', '.join(names)} FROM tasks WHERE run_id = $1 AND path = $2"
        record = await self.database.fetchrow(query, dispatch.uuid, dispatch.path)
        assert record is not None
        return tuple(record)

    async def rows_of(self, run_id: str) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that is stored of a run, but for what reports of stale attempts may add."""
        return {
            table: [
                tuple(record)
                for record in await self.database.fetch(
                    f"SELECT * FROM {table} WHERE run_id = $1 ORDER BY 1, 2, 3", UUID(run_id)
                )
            ]
            for table in (
                "runs",
                "tasks",
                "attempts",
                "tokens",
                "outputs",
                "run_events",
                "timers",
                "signals",
                "outbox",
                "run_labels",
                "loops",
                "scopes",
                "effects",
                "waits",
            )
        }

    # --- collisions

    @asynccontextmanager
    async def hold(self, table: str) -> AsyncIterator[None]:
        """While the block runs, no transaction gets past its first write to a table; locking its rows still works."""
        async with self.locked(f"LOCK TABLE {table} IN SHARE MODE"):
            yield

    @asynccontextmanager
    async def stall(self, table: str, when: str = "BEFORE UPDATE") -> AsyncIterator[None]:
        """While the block runs, no statement gets past its first change of a row of a table; it has locked the row.

        `when`: AFTER INSERT: nor past inserting rows; their keys are taken.
        """
        await self.database.execute(
            "CREATE FUNCTION stalled() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;"
            f"CREATE TRIGGER stalled {when} ON {table} FOR EACH ROW EXECUTE FUNCTION stalled()"
        )
        try:
            async with self.locked("SELECT pg_advisory_xact_lock(1)"):
                yield
        finally:
            await self.database.execute(f"DROP TRIGGER stalled ON {table}; DROP FUNCTION stalled")

    @asynccontextmanager
    async def locked(self, statement: str, *arguments: Any) -> AsyncIterator[None]:
        """Hold what a statement locks, as another process would."""
        connection = await asyncpg.connect(self.url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(statement, *arguments)
            try:
                yield
            finally:
                await transaction.rollback()
        finally:
            await connection.close()

    @asynccontextmanager
    async def watcher(self) -> AsyncIterator[World]:
        """This world by a connection of its own, for while `database` is in a transaction."""
        connection = await asyncpg.connect(self.url)
        try:
            yield World(self.url, connection, self.stack)
        finally:
            await connection.close()

    async def blocked(self) -> list[int]:
        """Backends of this database that wait for a lock."""
        records = await self.database.fetch(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return [record["pid"] for record in records]

    async def until_blocked(self, backends: int = 1) -> list[int]:
        """Wait until as many backends are stopped by a lock; return them."""
        found: list[int] = []

        async def enough() -> bool:
            found[:] = await self.blocked()
            return len(found) >= backends

        await until(enough, f"{backends} backends are blocked")
        return found


@pytest.fixture(scope="session")
def lasting_database_url(postgres_server: servers.PostgresServer, migrated_template: str) -> Generator[str]:
    """A migrated database for the whole session: making one for each test would take longer than the tests."""
    name = servers.run(postgres_server.create_database(migrated_template))
    try:
        yield postgres_server.database_url(name)
    finally:
        servers.run(postgres_server.drop_database(name))


@pytest.fixture
async def database(lasting_database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection to the session's database, emptied."""
    connection = await asyncpg.connect(lasting_database_url)
    try:
        await connection.execute(EMPTY)
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def world(lasting_database_url: str, database: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[World]:
    """An empty database with one coordinator on it; afterwards no row in it is without its run."""
    async with AsyncExitStack() as stack:
        made = World(lasting_database_url, database, stack)
        made.first = await made.coordinator()
        with contextlib.suppress(asyncio.CancelledError):
            yield made
    assert await orphans(database) == {}
