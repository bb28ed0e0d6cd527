"""How soon the tasks of a killed worker are given to others, and what the others notice meanwhile."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

from bench.checking import Expected, WrongResult, check_runs
from bench.load import GIVE_UP_SECONDS, Keeper, await_records
from bench.measure.throughput import LINE, prepare
from bench.pace import Pace, Samples
from bench.records import hops_ms, quantile
from bench.rig import Rig
from bench.starting import start_each
from bench.workflow import held

RUNS, WIDTH = 10, 1000  # of them and in each: 10,000 tasks
LEASE = "10s"
OTHERS = 10  # runs that go on meanwhile
LAST_RENEWALS = 1.0  # seconds in which what the worker sent before its death may still arrive
AFTERWARDS = 1.0  # seconds for which the others are still watched
LOOK_EVERY = 0.25

Instants = Mapping[tuple[str, str], datetime]
"""By run and path."""


async def recovery(rig: Rig, pace: Pace) -> Samples:
    """The longest time from the end of a lease until its task is READY again, and the hops of others meanwhile."""
    await prepare(rig, pace)
    await rig.client.deploy(held("held", WIDTH, LEASE))
    rig.records.begin(LINE.last_step)
    runs = await start_each(rig.client, [("held", {})] * RUNS)
    async with _worker(rig, slots=RUNS * WIDTH, hold=True) as worker:
        await await_records(rig.records, lambda: rig.records.told >= RUNS * WIDTH)
        rig.records.begin(LINE.last_step)
        over = asyncio.Event()
        keeper = Keeper(rig, LINE, OTHERS)
        others = asyncio.create_task(keeper.keep(lambda: not over.is_set()))
        await asyncio.sleep(pace.warm_up)
        worker.kill()
        await worker.wait()
    try:
        await asyncio.sleep(LAST_RENEWALS)
        ends = await _lease_ends(rig, runs)
        await _all_lost(rig, runs)
        await asyncio.sleep(AFTERWARDS)
    finally:
        over.set()
    await others
    ready = await _ready_again(rig, runs)
    line_runs = await keeper.started()
    await await_records(rig.records, lambda: rig.records.finished >= len(line_runs))
    await check_runs(rig.client, line_runs, LINE.expected)
    from_wall = time.monotonic_ns() - time.time_ns()
    first, last = (int(at.timestamp() * 1e9) + from_wall for at in (min(ends.values()), max(ready.values())))
    hops = hops_ms(rig.records.rows(), first, last + int(AFTERWARDS * 1e9))
    async with _worker(rig, slots=WIDTH, hold=False):
        await check_runs(rig.client, runs, Expected(output=None, tasks=WIDTH))
    return {
        "recovery_s": [max((ready[task] - end).total_seconds() for task, end in ends.items())],
        "recovery_hop_ms_p99": [quantile(hops, 0.99)],
    }


@asynccontextmanager
async def _worker(rig: Rig, *, slots: int, hold: bool) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker of the held tasks, which is killed at the end if it lives."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headway.worker", "bench.worker", "--queue", "hold", "--concurrency", str(slots),
        env={**rig.environment, "BENCH_HOLD": "yes" if hold else "no"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _lease_ends(rig: Rig, runs: list[str]) -> Instants:
    """When the dead worker's leases end.

    Raises:
        WrongResult: Some task is not leased.
    """
    ends: dict[tuple[str, str], datetime] = {}
    for run_id in runs:
        for task in (await rig.client.get(run_id)).tasks:
            if task.lease_expires_at is None:
                raise WrongResult(f"run {run_id}: {task.path} is {task.state} and not leased")
            ends[run_id, task.path] = task.lease_expires_at
    return ends


async def _all_lost(rig: Rig, runs: list[str]) -> None:
    """Wait until every task has been taken from the dead worker."""
    try:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            for run_id in runs:
                while True:
                    tasks = (await rig.client.get(run_id)).tasks
                    if all(task.losses for task in tasks):
                        break
                    await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        raise WrongResult("tasks stay with a worker that is dead") from None


async def _ready_again(rig: Rig, runs: list[str]) -> Instants:
    """When each task was READY again, by the histories."""
    return {
        (run_id, event.path): event.at
        for run_id in runs
        async for event in rig.client.history(run_id, page_size=1000)
        if event.type == "LeaseExpired" and event.at is not None
    }
