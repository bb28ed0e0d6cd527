"""Whatever dies, every run makes headway: kill -9 of each service under 200 runs, then of the servers too.

The servers are always embedded ones of the test's own, because they are killed as well.
"""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio

from headway.cli.stack import Shape, Stack
from headway.client import Client, RunState
from headway.coordinator.core.actions import FinishRun
from headway.coordinator.core.records import decode_actions
from tests.e2e.notes import Interval, overlaps, read_intervals
from tests.orphans import orphans

RUNS = 200
PATIENCE = 120.0  # seconds until a run counts as stuck
SOURCE = Path(__file__).with_name("stubborn.yaml")
STEPS = 12
COUNTED = ("input", *(f"nodes.s{step}.output" for step in range(STEPS)))
LINE = (
    "workflow: line\nnodes:\n"
    + "".join(
        f"  s{step}: {{type: call, handler: stubborn.step, queue: stubborn, lease: 2s,"
        f" input: {{count: '${{{COUNTED[step]}.count}}'}}}}\n"
        for step in range(STEPS)
    )
    + f"  done: {{type: finish, output: '${{{COUNTED[STEPS]}.count}}'}}\n"
    f"edges: [[{', '.join(f's{step}' for step in range(STEPS))}, done]]\n"
)
SERVICES = ("worker-1", "coordinator-1", "relay-1", "timers-1")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]


@pytest.fixture
async def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    monkeypatch.delenv("HEADWAY_DATABASE_URL", raising=False)
    monkeypatch.delenv("HEADWAY_REDIS_URL", raising=False)
    shape = Shape(
        port=0,
        coordinators=2,
        workers=2,
        modules=("tests.e2e.stubborn",),
        queues=("stubborn",),
        environment={
            "STUBBORN_NOTES": str(tmp_path / "notes.jsonl"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "HEADWAY_LOG_LEVEL": "warning",
            "HEADWAY_WORKER_CLAIM_IDLE": "2s",
            "HEADWAY_WORKER_CALL_TIMEOUT": "3s",
        },
    )
    async with Stack(tmp_path / "data", shape) as running:
        yield running


async def _start_runs(client: Client, prefix: str, source: str = "") -> list[str]:
    deployed = await client.deploy(source or SOURCE.read_text(encoding="utf-8"))
    gate = asyncio.Semaphore(20)

    async def start(number: int) -> str:
        async with gate:
            return (await client.start(deployed.workflow, {"count": 0}, key=f"{prefix}-{number}")).run_id

    return list(await asyncio.gather(*(start(number) for number in range(RUNS))))


async def _outcomes(stack: Stack, client: Client, runs: list[str]) -> Counter[tuple[RunState, object]]:
    gate = asyncio.Semaphore(20)

    async def wait(run_id: str) -> tuple[RunState, object]:
        async with gate:
            outcome = await client.wait(run_id)
        return outcome.state, outcome.output

    try:
        async with asyncio.timeout(PATIENCE):
            return Counter(await asyncio.gather(*(wait(run_id) for run_id in runs)))
    except TimeoutError:
        pytest.fail(f"not every run ended within {PATIENCE} s; still open: {await _open_tasks(stack)}")


async def _open_tasks(stack: Stack) -> list[dict[str, object]]:
    connection = await asyncpg.connect(stack.database_url)
    try:
        rows = await connection.fetch(
            "SELECT run_id::text, path, state, attempt, owner, ready_at - now() AS ready, sweep_at - now() AS sweep,"
            " lease_expires_at - now() AS lease, due_at - now() AS due FROM tasks"
            " WHERE state NOT IN ('succeeded', 'failed', 'cancelled') LIMIT 10"
        )
    finally:
        await connection.close()
    return [dict(row) for row in rows]


async def _unfinished(stack: Stack) -> int:
    connection = await asyncpg.connect(stack.database_url)
    try:
        count: int = await connection.fetchval("SELECT count(*) FROM runs WHERE state = 'running'")
    finally:
        await connection.close()
    return count


async def _check_database(stack: Stack) -> None:
    """Each run ended once; its history has no gap; nothing is left over, and no row is without its run."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        events = await connection.fetch("SELECT run_id, seq, actions FROM run_events ORDER BY run_id, seq")
        open_tasks = await connection.fetchval(
            "SELECT count(*) FROM tasks WHERE state NOT IN ('succeeded', 'failed', 'cancelled')"
        )
        timers = await connection.fetchval("SELECT count(*) FROM timers")
        without_run = await orphans(connection)
    finally:
        await connection.close()
    histories = [list(history) for _, history in groupby(events, key=lambda event: event["run_id"])]
    for history in histories:
        assert [event["seq"] for event in history] == list(range(1, len(history) + 1))
        ends = [a for event in history for a in decode_actions(event["actions"]) if isinstance(a, FinishRun)]
        assert len(ends) == 1
    assert (len(histories), open_tasks, timers) == (RUNS, 0, 0)
    assert without_run == {}


def _intervals(stack: Stack) -> list[Interval]:
    return read_intervals(Path(stack.environment["STUBBORN_NOTES"]))


async def test_every_run_ends_once_when_each_service_is_killed_at_random_moments(stack: Stack) -> None:
    chance = random.Random(20)
    async with Client(stack.address) as client:
        runs = await _start_runs(client, "killed")
        waiting = asyncio.create_task(_outcomes(stack, client, runs))
        kills = 0

        while kills < 12 and not waiting.done():
            name = SERVICES[kills % len(SERVICES)]
            await stack.kill(name)
            await asyncio.sleep(chance.uniform(0, 0.3))  # how long it is away
            await stack.start(name)
            await asyncio.sleep(chance.uniform(0.2, 0.6))
            kills += 1
        outcomes = await waiting

    assert outcomes == {(RunState.SUCCEEDED, 3): RUNS}
    assert kills >= len(SERVICES)
    await _check_database(stack)
    assert overlaps(_intervals(stack)) == []


async def test_every_run_ends_once_when_redis_is_flushed_and_postgresql_restarted(stack: Stack) -> None:
    postgres, broker = stack.servers.postgres, stack.servers.redis
    assert postgres is not None
    assert broker is not None
    async with Client(stack.address) as client:
        runs = await _start_runs(client, "servers")
        waiting = asyncio.create_task(_outcomes(stack, client, runs))

        async with redis.asyncio.Redis.from_url(stack.redis_url) as connection:
            await connection.flushall()
        await stack.kill("coordinator-2")
        await asyncio.to_thread(postgres.kill)
        await asyncio.to_thread(postgres.restart)
        await stack.start("coordinator-2")
        unfinished = await _unfinished(stack)
        async with redis.asyncio.Redis.from_url(stack.redis_url) as connection:
            await connection.flushall()
        outcomes = await waiting

    assert outcomes == {(RunState.SUCCEEDED, 3): RUNS}
    assert unfinished > 0
    await _check_database(stack)
    assert overlaps(_intervals(stack)) == []


async def test_a_coordinator_that_freezes_holds_up_nobody(stack: Stack) -> None:
    async with Client(stack.address) as client:
        runs = await _start_runs(client, "frozen")

        stack.send("coordinator-1", signal.SIGSTOP)
        try:
            async with asyncio.timeout(PATIENCE):
                while await _unfinished(stack):  # noqa: ASYNC110 - other processes move the rows
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pytest.fail(f"a frozen coordinator holds up runs; still open: {await _open_tasks(stack)}")
        finally:
            stack.send("coordinator-1", signal.SIGCONT)
        outcomes = await _outcomes(stack, client, runs)

    assert outcomes == {(RunState.SUCCEEDED, 3): RUNS}
    await _check_database(stack)
    assert overlaps(_intervals(stack)) == []


async def _freeze_with_next_tasks_in_hand(stack: Stack, worker: str) -> int:
    """Stop a worker when it holds leases that came with the answers to its reports; return how many. 0: it has none."""
    connection = await asyncpg.connect(stack.database_url)
    held = (
        "SELECT count(*) FROM tasks WHERE state = 'running' AND eager_grants > 0 AND lease_expires_at > now()"
        " AND owner LIKE $1"
    )
    try:
        for _ in range(150):  # until the leases of the one killed before have run out, and longer
            stack.send(worker, signal.SIGSTOP)
            await asyncio.sleep(0.05)  # what it had sent is decided
            count: int = await connection.fetchval(held, f"%-{stack.pids[worker]}-%")
            if count:
                return count
            stack.send(worker, signal.SIGCONT)
            await asyncio.sleep(0.1)
    finally:
        await connection.close()
    return 0


async def test_every_run_ends_once_when_workers_are_killed_with_next_tasks_in_hand(stack: Stack) -> None:
    async with Client(stack.address) as client:
        runs = await _start_runs(client, "in hand", LINE)
        waiting = asyncio.create_task(_outcomes(stack, client, runs))
        in_hand: list[int] = []

        for worker in ("worker-1", "worker-2", "worker-1", "worker-2"):
            in_hand.append(await _freeze_with_next_tasks_in_hand(stack, worker))
            await stack.kill(worker)
            await stack.start(worker)
        outcomes = await waiting

    assert outcomes == {(RunState.SUCCEEDED, STEPS): RUNS}
    assert sum(count > 0 for count in in_hand) > 1  # on a slow machine the runs may be over before the last kills
    await _check_database(stack)
    assert await _tasks(stack) == (RUNS * (STEPS + 1), "succeeded", True)
    assert overlaps(_intervals(stack)) == []


async def _tasks(stack: Stack) -> tuple[int, str, bool]:
    """How many there are, the states that they are in, and whether leases were lost."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        row = await connection.fetchrow(
            "SELECT count(*), string_agg(DISTINCT state, ', ') AS states, sum(losses) > 0 AS lost FROM tasks"
        )
    finally:
        await connection.close()
    assert row is not None
    return tuple(row)


def test_an_overlap_would_be_seen() -> None:
    one = Interval(task="t", attempt=1, worker=1, begin=0.0, end=2.0)
    other = Interval(task="t", attempt=2, worker=2, begin=1.0, end=3.0)
    later = Interval(task="t", attempt=3, worker=2, begin=3.5, end=4.0)

    found = overlaps([later, one, other])

    assert found == [(one, other)]
