"""How many tasks a second, and what each costs."""

from bench.checking import Expected
from bench.load import Stretch, Work, keep_in_flight
from bench.machine import by_kind
from bench.pace import Pace, Samples
from bench.rig import Rig
from bench.workflow import PAD, STEPS, line

LINE = Work(
    workflow="line",
    input={"n": 0, "pad": PAD},
    last_step=STEPS - 1,
    expected=Expected(output=STEPS, tasks=STEPS + 1),
)


async def prepare(rig: Rig, pace: Pace) -> None:
    """Deploy the line, and run it until caches, connections and plans are there; once for each stack."""
    if LINE.workflow in rig.warm:
        return
    rig.warm.add(LINE.workflow)
    await rig.client.deploy(line(LINE.workflow))
    await keep_in_flight(rig, LINE, in_flight=20, seconds=pace.warm_up, warm_up=0.0)


async def one_coordinator(rig: Rig, pace: Pace) -> Samples:
    """The throughput, and what a task costs in CPU, write-ahead log and disk."""
    await prepare(rig, pace)
    await rig.database.execute("CHECKPOINT")
    before = await rig.database_bytes()
    stretch = await _at_peak(rig, pace)
    grown = await rig.database_bytes() - before
    cpu_us = by_kind(stretch.cpu_us())
    return {
        "tasks_per_s": [stretch.tasks_per_s],
        "coordinator_us_per_event": [cpu_us["coordinator"] * stretch.tasks / stretch.events],
        "wal_bytes_per_task": [(stretch.last.wal - stretch.first.wal) / stretch.tasks],
        "db_bytes_per_task": [grown / len(stretch.rows)],
        **{f"cpu_us_per_task.{kind}": [value] for kind, value in cpu_us.items()},
    }


async def two_coordinators(rig: Rig, pace: Pace) -> Samples:
    """The throughput of two, each with the load that one carries."""
    await prepare(rig, pace)
    return {"tasks_per_s_two": [(await _under(rig, pace, 2 * pace.in_flight)).tasks_per_s]}


async def by_the_broker(rig: Rig, pace: Pace) -> Samples:
    """The throughput when every task goes through outbox, relay and broker."""
    await prepare(rig, pace)
    return {"tasks_per_s_broker": [(await _at_peak(rig, pace)).tasks_per_s]}


async def overload(rig: Rig, pace: Pace) -> Samples:
    """The throughput at ten times the load at which it peaks, as a share of the peak."""
    await prepare(rig, pace)
    peak = await _at_peak(rig, pace)
    flooded = await _under(rig, pace, 10 * pace.in_flight)
    return {"overload_ratio": [flooded.tasks_per_s / peak.tasks_per_s]}


async def _at_peak(rig: Rig, pace: Pace) -> Stretch:
    return await _under(rig, pace, pace.in_flight)


async def _under(rig: Rig, pace: Pace, load: int) -> Stretch:
    return await keep_in_flight(rig, LINE, in_flight=load, seconds=pace.seconds, warm_up=pace.warm_up)
