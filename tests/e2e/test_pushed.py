"""A worker that dies with a pushed attempt in hand loses nothing, and holds it up for ten seconds at the most."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from headway.cli.stack import Shape, Stack
from headway.client import Client, RunState
from tests.e2e.notes import overlaps, read_intervals

SOURCE = "workflow: pushed\nnodes:\n  work: {type: call, handler: stubborn.step, queue: stubborn, input: '${input}'}\n"
LEASE = 10.0  # of what is pushed, until it is renewed
REAPING = 4.0  # for the reaper to look, and the next attempt to be done on a busy machine
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    shape = Shape(
        port=0,
        modules=("tests.e2e.stubborn",),
        queues=("stubborn",),
        environment={
            "STUBBORN_NOTES": str(tmp_path / "notes.jsonl"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "HEADWAY_LOG_LEVEL": "warning",
        },
    )
    async with Stack(tmp_path / "data", shape) as running:
        yield running


async def _task(stack: Stack, run_id: str) -> dict[str, Any]:
    connection = await asyncpg.connect(stack.database_url)
    try:
        row = await connection.fetchrow(
            "SELECT state, owner, attempt, losses, eager_grants FROM tasks WHERE run_id = $1::text::uuid", run_id
        )
    finally:
        await connection.close()
    assert row is not None
    return dict(row)


async def _is_pushed(stack: Stack, client: Client, seconds: float) -> str:
    """Start runs, while the worker is frozen, until one's task is pushed to it; return that run."""
    for _ in range(50):
        await asyncio.sleep(0.5)  # it is idle, and offers
        stack.send("worker-1", signal.SIGSTOP)
        run_id = (await client.start("pushed", {"count": 0, "seconds": seconds})).run_id
        task = await _task(stack, run_id)
        if task["eager_grants"]:
            assert task["state"] == "running"
            return run_id
        stack.send("worker-1", signal.SIGCONT)
        await client.wait(run_id)
    pytest.fail("nothing was ever pushed")


async def test_a_worker_killed_with_a_pushed_attempt_in_hand_loses_nothing(stack: Stack) -> None:
    async with Client(stack.address) as client:
        await client.deploy(SOURCE)
        run_id = await _is_pushed(stack, client, 0.01)
        at = time.monotonic()
        await stack.kill("worker-1")
        await stack.start("worker-1")
        async with asyncio.timeout(60):
            outcome = await client.wait(run_id)
        seconds = time.monotonic() - at

    assert outcome.state is RunState.SUCCEEDED
    task = await _task(stack, run_id)
    assert (task["attempt"], task["losses"]) == (2, 1)
    assert seconds < LEASE + REAPING


async def test_a_worker_that_slept_through_its_lease_does_not_run_what_was_pushed(stack: Stack) -> None:
    async with Client(stack.address) as client:
        await client.deploy(SOURCE)
        run_id = await _is_pushed(stack, client, 0.01)
        await asyncio.sleep(LEASE + REAPING)
        stack.send("worker-1", signal.SIGCONT)
        async with asyncio.timeout(60):
            outcome = await client.wait(run_id)

    assert outcome.state is RunState.SUCCEEDED
    intervals = read_intervals(Path(stack.environment["STUBBORN_NOTES"]))
    assert [i.attempt for i in intervals if i.task.startswith(run_id)] == [2]
    assert overlaps(intervals) == []
