"""Runs in runs, three deep, while the coordinators and the relay are killed: each ends once, and none is left over."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from headway.cli.stack import Shape, Stack
from headway.client import Client, RunState
from tests.e2e.notes import read_intervals
from tests.orphans import orphans

RELEASES = 6
SERVICES = ("well-a", "sick", "well-b")
DEPLOYS = RELEASES * len(SERVICES)
CHECKS = DEPLOYS + RELEASES  # of each sick one two
EFFECTS = DEPLOYS + 2 * DEPLOYS + RELEASES + RELEASES  # installed, asked twice, asked in vain, announced
KILLED = ("coordinator-1", "relay-1", "coordinator-2", "relay-1")
SETTLED = 0.1  # seconds
PATIENCE = 60.0  # seconds until a run counts as stuck
EXAMPLES = Path(__file__).parents[2] / "examples" / "workflows"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def _source(name: str) -> str:
    """An example, with shorter pauses and leases."""
    text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
    return (
        text.replace("duration: 1m", "duration: 700ms")
        .replace("initial: 1m", "initial: 300ms")
        .replace("type: call,", "type: call, lease: 2s,")
    )


@pytest.fixture
async def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    monkeypatch.delenv("HEADWAY_DATABASE_URL", raising=False)
    monkeypatch.delenv("HEADWAY_REDIS_URL", raising=False)
    shape = Shape(
        port=0,
        coordinators=2,
        modules=("tests.e2e.nested",),
        environment={
            "STUBBORN_NOTES": str(tmp_path / "notes.jsonl"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "HEADWAY_LOG_LEVEL": "warning",
            "HEADWAY_WORKER_CALL_TIMEOUT": "3s",
        },
    )
    async with Stack(tmp_path / "data", shape) as running:
        yield running


async def _until_a_handover_is_in_flight(stack: Stack, connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Freeze the coordinators while one has a hand-over that the relay has not heard the answer of."""
    coordinators = [name for name in stack.pids if name.startswith("coordinator")]
    held = """
        WITH free AS (SELECT outbox_id FROM outbox WHERE kind = 'handover' FOR UPDATE SKIP LOCKED)
        SELECT (SELECT count(*) FROM outbox WHERE kind = 'handover') - (SELECT count(*) FROM free)
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            if await connection.fetchval(held):
                for name in coordinators:
                    stack.send(name, signal.SIGSTOP)
                await asyncio.sleep(SETTLED)  # a row that is being deleted is gone by then; nobody can answer
                if await connection.fetchval(held):
                    return
                for name in coordinators:
                    stack.send(name, signal.SIGCONT)
            await asyncio.sleep(0)


async def _open_children(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    count: int = await connection.fetchval("SELECT count(*) FROM children WHERE state = 'open'")
    return count


async def _check_database(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Each attempt of a subflow node has one run, which is over and names it; nothing else is there."""
    asked = {
        (child.hex, parent.hex, path, attempt)
        for child, parent, path, attempt in await connection.fetch(
            "SELECT child_run_id, run_id, path, attempt FROM children"
        )
    }
    parents = await connection.fetch("SELECT run_id, parent FROM runs WHERE parent IS NOT NULL")
    named = [(run_id, json.loads(parent)) for run_id, parent in parents]
    begun = Counter((run_id.hex, UUID(p["run_id"]).hex, p["path"], p["attempt"]) for run_id, p in named)
    assert begun == Counter(asked)
    assert len({each[1:] for each in asked}) == len(asked) == DEPLOYS + CHECKS
    states = await connection.fetch("SELECT state, count(*) FROM runs GROUP BY state")
    assert {each["state"]: each["count"] for each in states} == {
        "succeeded": RELEASES + DEPLOYS + CHECKS - RELEASES,
        "failed": RELEASES,
    }
    assert await _open_children(connection) == 0
    assert await connection.fetchval("SELECT count(*) FROM timers") == 0
    assert await orphans(connection) == {}


async def test_runs_in_runs_end_once_when_coordinators_and_relay_are_killed_while_children_run(stack: Stack) -> None:
    chance = random.Random(3)
    connection = await asyncpg.connect(stack.database_url)
    async with Client(stack.address) as client:
        for name in ("nested_check", "nested_deploy", "nested_release"):
            await client.deploy(_source(name))
        given = [{"version": "2", "services": [f"{each}-{n}" for each in SERVICES]} for n in range(RELEASES)]
        runs = [(await client.start("nested_release", each)).run_id for each in given]
        waiting = asyncio.gather(*(client.wait(run_id) for run_id in runs))
        killed_with: list[int] = []

        for name in KILLED:
            await asyncio.sleep(chance.uniform(0.1, 0.8))
            if name.startswith("relay"):
                await _until_a_handover_is_in_flight(stack, connection)
            killed_with.append(await _open_children(connection))
            await stack.kill(name)
            for other in stack.pids:
                stack.send(other, signal.SIGCONT)
            await stack.start(name)
        async with asyncio.timeout(PATIENCE):
            outcomes = await waiting

    assert Counter(outcome.state for outcome in outcomes) == {RunState.SUCCEEDED: RELEASES}
    assert all(killed_with)
    await _check_database(connection)
    await connection.close()
    effects = Counter((each.task, each.attempt) for each in read_intervals(Path(stack.environment["STUBBORN_NOTES"])))
    assert set(effects.values()) == {1}
    assert len({task for task, _ in effects}) == EFFECTS
