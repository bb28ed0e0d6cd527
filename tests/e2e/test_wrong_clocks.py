"""Machines whose clocks are an hour off: leases, timers and deadlines go by the database's clock alone."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from headway.cli.stack import Shape, Stack
from headway.client import Client, RunState

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

HOUR = 3600
LATEST = timedelta(minutes=1)  # on however slow a machine; a clock that counted would make it an hour, or nothing
WORK = """\
workflow: work
nodes:
  work: {type: call, handler: stubborn.step, queue: stubborn, lease: 2s, input: "${input}"}
"""
WAIT = "workflow: wait\nnodes:\n  nap: {type: wait, duration: 2s}\n"
LATE = "workflow: late\ndeadline: 2s\nnodes:\n  nap: {type: wait, duration: 30m}\n"
TRIES = """\
workflow: tries
nodes:
  work:
    type: call
    handler: stubborn.flaky
    queue: stubborn
    input: "${input}"
    retry: {max_attempts: 2, initial: 2s, jitter: 0}
"""


@pytest.fixture(scope="module")
def wrong_clock(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What to preload."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc is not installed")
    library = tmp_path_factory.mktemp("clock") / "wrong_clock.so"
    source = Path(__file__).with_name("wrong_clock.c")
    command = [compiler, "-shared", "-fPIC", "-o", library, source]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"wrong_clock.c cannot be built here: {built.stderr.strip().splitlines()[-1:]}")
    return str(library)


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
async def stack(tmp_path: Path, wrong_clock: str, request: pytest.FixtureRequest) -> AsyncIterator[Stack]:
    """Every process is an hour off, and one coordinator and one worker as far the other way."""

    def off(seconds: int) -> dict[str, str]:
        return {"LD_PRELOAD": wrong_clock, "WRONG_CLOCK": str(seconds)}

    shape = Shape(
        port=0,
        coordinators=2,
        workers=2,
        modules=("tests.e2e.stubborn",),
        queues=("stubborn",),
        environment={
            "STUBBORN_NOTES": str(tmp_path / "notes.jsonl"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        extra={
            **{kind: off(request.param) for kind in ("coordinator", "relay", "timers", "worker")},
            **{name: off(-request.param) for name in ("coordinator-2", "worker-2")},
        },
    )
    async with Stack(tmp_path / "data", shape) as running:
        for name in running.pids:
            assert abs(clock_of(running, name)) > timedelta(seconds=HOUR / 2), name
        yield running


def clock_of(stack: Stack, name: str) -> timedelta:
    """How far a process's clock is off, by the first line that it logged."""
    first = json.loads(stack.log_file(name).read_text(encoding="utf-8").splitlines()[0])
    return datetime.fromisoformat(first["at"]) - datetime.now(UTC)


async def _row(stack: Stack, query: str, *arguments: Any) -> asyncpg.Record:
    connection = await asyncpg.connect(stack.database_url)
    try:
        row = await connection.fetchrow(query, *arguments)
    finally:
        await connection.close()
    assert row is not None
    return row


async def _took(stack: Stack, run_id: str) -> timedelta:
    took: timedelta = (
        await _row(stack, "SELECT finished_at - created_at FROM runs WHERE run_id = $1::text::uuid", run_id)
    )[0]
    return took


async def test_timers_and_deadlines_come_due_when_the_database_says_so(stack: Stack) -> None:
    async with Client(stack.address) as client:
        for source in (WAIT, LATE, TRIES):
            await client.deploy(source)
        (began,) = await _row(stack, "SELECT clock_timestamp()")
        runs = [(await client.start(name, {"count": 0})).run_id for name in ("wait", "late", "tries") for _ in range(4)]
        async with asyncio.timeout(100):
            outcomes = [(await client.wait(run_id)).state for run_id in runs]
        (ended,) = await _row(stack, "SELECT clock_timestamp()")

    assert outcomes == [*[RunState.SUCCEEDED] * 4, *[RunState.FAILED] * 4, *[RunState.SUCCEEDED] * 4]
    for run_id in runs:
        assert timedelta(seconds=2) <= await _took(stack, run_id) < LATEST
    first, last = await _row(stack, "SELECT min(at), max(at) FROM run_events")
    assert began <= first <= last <= ended


async def test_a_lease_is_kept_while_its_holder_lives_and_lost_soon_after_it_died(stack: Stack) -> None:
    held = "SELECT owner, attempt, losses FROM tasks WHERE run_id = $1::text::uuid"
    async with Client(stack.address) as client:
        await client.deploy(WORK)
        kept = [(await client.start("work", {"count": 0, "seconds": 5})).run_id for _ in range(4)]
        async with asyncio.timeout(100):
            for run_id in kept:
                assert (await client.wait(run_id)).state is RunState.SUCCEEDED
        for run_id in kept:
            assert (await _row(stack, held, run_id))["losses"] == 0

        lost = (await client.start("work", {"count": 0, "seconds": 3})).run_id
        async with asyncio.timeout(60):
            while not (owner := (await _row(stack, held, lost))["owner"]):  # noqa: ASYNC110 - other processes do it
                await asyncio.sleep(0.05)
        (holder,) = (name for name, pid in stack.pids.items() if f"-{pid}-" in owner)
        os.kill(stack.pids[holder], signal.SIGKILL)
        async with asyncio.timeout(100):
            assert (await client.wait(lost)).state is RunState.SUCCEEDED

    row = await _row(stack, held, lost)
    assert (row["attempt"], row["losses"]) == (2, 1)
    assert row["owner"] != owner
    assert await _took(stack, lost) < LATEST
