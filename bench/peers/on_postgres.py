"""The peers that work on a PostgreSQL: DBOS, and pgbench with one transaction for each event."""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from bench.checking import WrongResult
from bench.peers.programs import Measured, output_of, read_measured
from bench.rig import DURABLE
from headway.cli.embedded import EmbeddedPostgres

HERE = Path(__file__).parent
WARM_UP = "2"  # seconds of pgbench before it counts
THREADS = "2"
FAULTS = """
SELECT count(*) FROM run WHERE seq <> (SELECT count(*) FROM event WHERE event.run_id = run.run_id)
    OR seq <> (SELECT count(*) FROM task WHERE task.run_id = run.run_id AND state = 'succeeded' AND output IS NOT NULL)
    OR (state = 'succeeded') <> (seq = 10)
"""


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    """A fresh PostgreSQL as the stack has it, with durability on; answers its URL."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres")
        await asyncio.to_thread(server.start)
        try:
            connection = await asyncpg.connect(server.url)
            for name in DURABLE:
                if await connection.fetchval("SELECT current_setting($1)", name) != "on":
                    raise SystemExit(f"{name} is not on: the comparison only counts with it")
            await connection.close()
            yield server.url
        finally:
            await asyncio.to_thread(server.remove_data)


@asynccontextmanager
async def dbos(python: Path) -> AsyncIterator["OnDbos"]:
    """DBOS, by the interpreter that has it, on a database of its own."""
    async with database() as url:
        yield OnDbos(python, url)


@asynccontextmanager
async def pgbench(program: Path) -> AsyncIterator["OnPgbench"]:
    """A pgbench on a database of its own."""
    async with database() as url:
        yield OnPgbench(program, url)


@dataclass(frozen=True, slots=True)
class OnDbos:
    """DBOS on a database."""

    python: Path
    url: str

    async def measure(self, in_flight: int, seconds: float) -> Measured:
        """Keep so many workflows in flight. Raises WrongResult."""
        command = [str(self.python), str(HERE / "dbos_line.py"), self.url, str(in_flight), str(seconds)]
        return read_measured("DBOS", (await output_of(command)).strip().splitlines()[-1])


@dataclass(frozen=True, slots=True)
class OnPgbench:
    """A pgbench on a database."""

    program: Path
    url: str

    async def measure(self, in_flight: int, seconds: float) -> Measured:
        """Let so many clients write events. Raises WrongResult."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute("DROP TABLE IF EXISTS run, task, event")
            await connection.execute((HERE / "events_schema.sql").read_text(encoding="utf-8"))
            await self._run(in_flight, WARM_UP)
            await connection.execute("TRUNCATE run, task, event")
            said = await self._run(in_flight, str(round(seconds)))
            events, faults = await connection.fetchval("SELECT count(*) FROM event"), await connection.fetchval(FAULTS)
        finally:
            await connection.close()
        processed = re.search(r"transactions actually processed: (\d+)", said)
        rate = re.search(r"tps = ([\d.]+)", said)
        if processed is None or rate is None or int(processed[1]) != events or faults:
            raise WrongResult(f"pgbench: {events} events, {faults} faulty runs; it said: {said}")
        return Measured(tasks_per_s=float(rate[1]))

    async def _run(self, clients: int, seconds: str) -> str:
        script = [
            "--no-vacuum",
            "--protocol=prepared",
            f"--file={HERE / 'events.sql'}",
            "-D",
            "step=10",
            "-D",
            "number=0",
        ]
        return await output_of(
            [str(self.program), *script, f"--client={clients}", f"--jobs={THREADS}", f"--time={seconds}", self.url]
        )
