"""How much of the database finished runs occupy, and what is left of it once retention has removed them."""

import asyncio
import time

from bench.checking import Expected, WrongResult, check_runs
from bench.load import Work, await_records, start_all
from bench.measure.throughput import LINE, prepare
from bench.pace import Pace, Samples
from bench.rig import Rig
from bench.workflow import STEPS, line

RUNS = 2000
KEPT = "1m"  # the least that there is
GIVE_UP_SECONDS = 300.0
LOOK_EVERY = 1.0  # seconds
FADING = Work(
    workflow="fading",
    input=LINE.input,
    last_step=LINE.last_step,
    expected=Expected(output=STEPS, tasks=STEPS + 1),
)


async def retention(rig: Rig, pace: Pace) -> Samples:
    """Bytes of the database for each finished task, while its run is kept and after retention has removed it.

    Raises:
        WrongResult: A run went wrong, or is not removed.
    """
    await prepare(rig, pace)
    await rig.client.deploy(line(FADING.workflow, retention=KEPT))
    await rig.database.execute("VACUUM")
    empty = await rig.database_bytes()
    rig.records.begin(FADING.last_step)
    runs = await start_all(rig, FADING, runs=RUNS, in_flight=pace.in_flight)
    await await_records(rig.records, lambda: rig.records.finished >= RUNS)
    await check_runs(rig.client, runs, FADING.expected)
    full = await rig.database_bytes()
    await _await_removal(rig)
    await rig.database.execute("VACUUM")
    left = await rig.database_bytes()
    tasks = RUNS * STEPS
    return {
        "db_bytes_per_task_kept": [(full - empty) / tasks],
        "db_bytes_per_task_removed": [(left - empty) / tasks],
    }


async def _await_removal(rig: Rig) -> None:
    there = "SELECT count(*) FROM runs WHERE workflow = $1"
    give_up_at = time.monotonic() + GIVE_UP_SECONDS
    while await rig.database.fetchval(there, FADING.workflow):
        if time.monotonic() > give_up_at:
            raise WrongResult(f"retention of {KEPT} has not removed the runs in {GIVE_UP_SECONDS:.0f} s")
        await asyncio.sleep(LOOK_EVERY)
