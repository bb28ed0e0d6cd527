"""What is measured on: a fresh stack of a given setting, with a client, the handlers' records and a look behind."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import asyncpg

from bench import machine
from bench.records import Receiver, Records
from headway.cli.stack import Shape, Stack
from headway.client import Client, Patience

DURABLE = ("fsync", "synchronous_commit")
SHOWN = ("server_version", *DURABLE, "full_page_writes", "shared_buffers", "wal_compression", "max_wal_size")
SLOTS = 1000  # handlers at a time in the worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How the stack of a measurement differs from one of each service.

    Attributes:
        coordinators: How many.
        workers: How many.
        worker: Environment of the workers.
    """

    coordinators: int = 1
    workers: int = 1
    worker: Mapping[str, str] = field(default_factory=dict[str, str])


ONE = Setting()
TWO = Setting(coordinators=2)
BROKER = Setting(worker={"HEADWAY_WORKER_EAGER": "false"})
UNREAD = Setting(workers=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where everything stood at an instant.

    Attributes:
        at: Nanoseconds of the monotonic clock.
        cpu: CPU seconds so far, by process.
        wal: Bytes of write-ahead log so far.
    """

    at: int
    cpu: Mapping[str, float]
    wal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """A stack under measurement. `warm` names the workflows that it has run before."""

    stack: Stack
    client: Client
    records: Records
    database: "asyncpg.Connection[asyncpg.Record]"
    environment: Mapping[str, str]
    warm: set[str] = field(default_factory=set[str])

    @property
    def processes(self) -> dict[str, int]:
        """The stack's processes by name, the servers included."""
        servers = {"postgres": self.stack.servers.postgres, "redis": self.stack.servers.redis}
        return self.stack.pids | {name: server.pid for name, server in servers.items() if server is not None}

    async def mark(self) -> Mark:
        """Note where everything stands."""
        at, cpu = time.monotonic_ns(), machine.cpu_seconds(self.processes)
        wal = await self.database.fetchval("SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint")
        return Mark(at=at, cpu=cpu, wal=wal)

    async def database_bytes(self) -> int:
        """How large the database is."""
        size: int = await self.database.fetchval("SELECT pg_database_size(current_database())")
        return size

    async def server_settings(self) -> dict[str, str]:
        """How the database is set where it matters."""
        return {name: await self.database.fetchval("SELECT current_setting($1)", name) for name in SHOWN}


@asynccontextmanager
async def open_rig(setting: Setting) -> AsyncIterator[Rig]:
    """Start a stack in a folder that is removed afterwards.

    Raises:
        SystemExit: The environment names a database or a broker, or durability is off: neither counts.
    """
    named = [name for name in ("HEADWAY_DATABASE_URL", "HEADWAY_REDIS_URL") if os.environ.get(name)]
    if named:
        raise SystemExit(f"the benchmark measures servers of its own: unset {' and '.join(named)}")
    records = Records()
    listener = await asyncio.get_running_loop().create_server(lambda: Receiver(records), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    environment = {"BENCH_RECORDS": f"127.0.0.1:{port}", "HEADWAY_LOG_LEVEL": "warning"}
    shape = Shape(
        port=0,
        coordinators=setting.coordinators,
        workers=setting.workers,
        modules=("bench.worker",),
        queues=("bench",),
        concurrency=SLOTS,
        environment=environment,
        extra={"worker": setting.worker},
    )
    patience = Patience(give_up_after=timedelta(minutes=5), try_timeout=timedelta(minutes=1))
    with tempfile.TemporaryDirectory() as folder:
        async with listener, Stack(Path(folder), shape) as stack, Client(stack.address, patience=patience) as client:
            database = await asyncpg.connect(stack.database_url)
            try:
                rig = Rig(
                    stack=stack,
                    client=client,
                    records=records,
                    database=database,
                    environment={**stack.environment, **environment},
                )
                await _require_durability(rig)
                yield rig
            finally:
                await database.close()


async def _require_durability(rig: Rig) -> None:
    settings = await rig.server_settings()
    off = [name for name in DURABLE if settings[name] != "on"]
    if off:
        raise SystemExit(f"{' and '.join(off)} is not on: the benchmark only counts with it")
