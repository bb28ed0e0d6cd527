"""Whether a task costs more in a large run than in a small one, and with many finished runs stored than with none."""

import asyncio

from bench.checking import Expected, check_runs, final
from bench.load import Work, await_records, keep_in_flight, start_all
from bench.machine import LOAD
from bench.measure.reading import reading
from bench.measure.throughput import LINE, prepare
from bench.pace import Pace, Samples
from bench.rig import ONE, Rig, open_rig
from bench.stored import store
from bench.workflow import line, mapped, wide

SMALL, LARGE = 10, 1000  # nodes of a run
WIDE_RUNS, LONG_RUNS = 10, 10  # large ones
SMALL_MAP, LARGE_MAP = 10, 10_000  # items
MAP_RUNS = 2  # large ones, all in flight together
AT_ONCE = 100  # items of a map under way
STORED = 1_000_000  # runs
LAST_REPORTS = 0.5  # seconds between the last handler's end and the end of what it causes


async def parallel(rig: Rig, _pace: Pace) -> Samples:
    """CPU for each task of a thousand nodes into one join, against ten; two thousand tasks in flight in both."""
    costs: list[float] = []
    for width in (LARGE, SMALL):
        await rig.client.deploy(wide(f"wide_{width}", width))
        work = Work(
            workflow=f"wide_{width}", input={}, last_step=width - 1, expected=Expected(output=None, tasks=width + 1)
        )
        costs.append(await _cost_us(rig, work, runs=WIDE_RUNS * LARGE // width, in_flight=2 * LARGE // width))
    return {"growth_parallel": [costs[0] / costs[1]]}


async def sequential(rig: Rig, _pace: Pace) -> Samples:
    """CPU for each task of a line of a thousand, against ten; ten tasks in flight in both."""
    costs: list[float] = []
    for steps in (LARGE, SMALL):
        await rig.client.deploy(line(f"line_{steps}", steps))
        work = Work(
            workflow=f"line_{steps}",
            input={"n": 0, "pad": ""},
            last_step=steps - 1,
            expected=Expected(output=steps, tasks=steps + 1),
        )
        costs.append(await _cost_us(rig, work, runs=LONG_RUNS * LARGE // steps, in_flight=LONG_RUNS))
    return {"growth_sequential": [costs[0] / costs[1]]}


async def maps(rig: Rig, _pace: Pace) -> Samples:
    """CPU for each item of a map of ten thousand, against ten; as many items under way in both."""
    await rig.client.deploy(mapped("mapped", AT_ONCE))
    costs: list[float] = []
    for items in (LARGE_MAP, SMALL_MAP):
        work = Work(
            workflow="mapped",
            input={"items": [*range(items)]},
            last_step=items - 1,
            expected=Expected(output=None, tasks=1),
        )
        in_flight = MAP_RUNS * AT_ONCE // min(AT_ONCE, items)
        costs.append(await _cost_us(rig, work, runs=MAP_RUNS * LARGE_MAP // items, in_flight=in_flight))
    return {"growth_map": [costs[0] / costs[1]]}


async def stored(empty: Rig, pace: Pace) -> Samples:
    """CPU for each task at the peak's load, with a million finished two-node runs in the database, against none.

    And how long it takes to look at them.
    """
    await prepare(empty, pace)
    async with open_rig(ONE) as full:
        await full.client.deploy(line("two", steps=2))
        template = await full.client.start("two", LINE.input)
        await final(full.client, template.run_id)
        await store(full.database, template.run_id, STORED)
        await prepare(full, pace)
        read = await reading(full)
        ratios = [await _full_to_empty(full, empty, pace) for _ in range(pace.repeats)]
    return {"growth_stored": ratios, **read}


async def _full_to_empty(full: Rig, empty: Rig, pace: Pace) -> float:
    costs: list[float] = []
    for rig in (full, empty):
        stretch = await keep_in_flight(rig, LINE, in_flight=pace.in_flight, seconds=pace.seconds, warm_up=pace.warm_up)
        costs.append(sum(us for name, us in stretch.cpu_us().items() if name != LOAD))
    return costs[0] / costs[1]


async def _cost_us(rig: Rig, work: Work, *, runs: int, in_flight: int) -> float:
    """Microseconds of the whole stack's CPU for each task, over so many runs from start to end."""
    tasks = runs * (work.last_step + 1)
    rig.records.begin(work.last_step)
    first = await rig.mark()
    started = await start_all(rig, work, runs=runs, in_flight=in_flight)
    await await_records(rig.records, lambda: rig.records.told >= tasks)
    await asyncio.sleep(LAST_REPORTS)
    last = await rig.mark()
    await check_runs(rig.client, started, work.expected)
    return sum(last.cpu[name] - used for name, used in first.cpu.items() if name != LOAD) * 1e6 / tasks
