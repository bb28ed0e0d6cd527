"""Whether memory grows under a load that goes on and on."""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence

from bench.checking import WrongResult, check_runs
from bench.load import await_records
from bench.machine import by_kind, resident_bytes
from bench.measure.throughput import LINE, prepare
from bench.pace import Pace, Samples
from bench.rig import Rig

RUNS_PER_S = 100  # a thousand tasks per second
SAMPLES = 120
MOST_GROWTH = 0.05  # of a service's memory, from the end of the first third to the end
MOST_DEAD_SHARE = 0.2  # of a table's rows: from there on autovacuum takes it up
MOST_DEAD_ROWS = 120 * 1000  # and as many as two minutes leave behind: it looks once a minute, and takes its time
MIB = 2**20
DEAD = """
SELECT relname::text AS name, n_dead_tup AS dead, n_live_tup AS live
FROM pg_stat_user_tables
WHERE n_live_tup + n_dead_tup > 0
"""


async def soak(rig: Rig, pace: Pace) -> Samples:
    """Memory of each service over time, its slope, and the most dead rows by table, under a thousand tasks per second.

    Raises:
        WrongResult: A service's memory grew by more than a twentieth after the first third, a table kept more dead rows
            than autovacuum is to leave, or a run went wrong.
    """
    await prepare(rig, pace)
    rig.records.begin(LINE.last_step)
    seconds = pace.soak_minutes * 60
    over = asyncio.Event()
    load = asyncio.create_task(_load(rig, over))
    held: dict[str, list[tuple[float, float]]] = {}
    dead: dict[str, float] = {}
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < seconds and not load.done():
        sizes = by_kind({name: resident_bytes(pid) / MIB for name, pid in rig.stack.pids.items()})
        for kind, size in sizes.items():
            held.setdefault(kind, []).append((elapsed, size))
        for table in await rig.database.fetch(DEAD):
            dead[table["name"]] = max(dead.get(table["name"], 0.0), float(table["dead"]))
            if table["dead"] > MOST_DEAD_SHARE * table["live"] + MOST_DEAD_ROWS:
                over.set()
                await load
                raise WrongResult(f"{table['name']} keeps {table['dead']} dead rows beside {table['live']} live ones")
        print(f"{elapsed:.0f} s: {_told(sizes)}", file=sys.stderr, flush=True)
        await asyncio.sleep(seconds / SAMPLES)
    over.set()
    runs = await load
    await await_records(rig.records, lambda: rig.records.finished >= len(runs))
    await check_runs(rig.client, runs, LINE.expected)
    growth = {kind: growth_of(samples) for kind, samples in held.items()}
    if max(growth.values()) > MOST_GROWTH:
        raise WrongResult(f"memory grew by more than {MOST_GROWTH:.0%} after the first third: {_told(growth, '.1%')}")
    return {
        "soak.minutes": [pace.soak_minutes],
        "soak.tasks": [rig.records.told],
        **{f"soak.mib.{kind}": [samples[-1][1]] for kind, samples in held.items()},
        **{f"soak.growth.{kind}": [share] for kind, share in growth.items()},
        **{f"soak.mib_per_h.{kind}": [slope(_settled(samples)) * 3600] for kind, samples in held.items()},
        **{f"soak.dead_rows.{table}": [rows] for table, rows in dead.items()},
    }


def growth_of(samples: Sequence[tuple[float, float]]) -> float:
    """By which share a size grew from the end of the first third to the end, along the straight line through it.

    Args:
        samples: Instant and size.
    """
    settled = _settled(samples)
    lasted = settled[-1][0] - settled[0][0]
    mean = sum(size for _, size in settled) / len(settled)
    grown = slope(settled) * lasted
    return grown / (mean - grown / 2)


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line that fits best."""
    middle = sum(at for at, _ in samples) / len(samples)
    spread = sum((at - middle) ** 2 for at, _ in samples)
    return sum((at - middle) * size for at, size in samples) / spread if spread else 0.0


def _settled(samples: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    return samples[len(samples) // 3 :]


async def _load(rig: Rig, over: asyncio.Event) -> list[str]:
    """Start runs at an even rate until it is over; answers them."""
    runs: list[str] = []
    began = time.monotonic()

    async def start() -> None:
        runs.append((await rig.client.start(LINE.workflow, LINE.input)).run_id)

    asked = 0
    async with asyncio.TaskGroup() as group:
        while not over.is_set():
            owed = int((time.monotonic() - began) * RUNS_PER_S) - asked
            for _ in range(owed):
                group.create_task(start())
            asked += owed
            await asyncio.sleep(0.02)
    return runs


def _told(values: Mapping[str, float], form: str = ".0f") -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())
