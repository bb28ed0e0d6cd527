"""How long it takes from one handler to the next, and from a start to the first."""

import time

from bench.checking import Expected, check_runs
from bench.load import Work, await_records, keep_in_flight
from bench.measure.throughput import LINE, prepare
from bench.pace import Pace, Samples
from bench.records import first_lines, hops_ms, quantile
from bench.rig import Rig
from bench.workflow import line

STARTS = 100
FEWER_STARTS = 40  # when in a hurry
HURRY = 8.0  # seconds of a stretch


async def hop(rig: Rig, pace: Pace) -> Samples:
    """From handler to handler, one run in flight."""
    return await _hops(rig, pace, "hop_ms", 1)


async def hop_50(rig: Rig, pace: Pace) -> Samples:
    """From handler to handler, fifty runs in flight."""
    return await _hops(rig, pace, "hop50_ms", 50)


async def hop_by_the_broker(rig: Rig, pace: Pace) -> Samples:
    """From handler to handler through outbox, relay and broker, one run in flight."""
    return await _hops(rig, pace, "hop_broker_ms", 1)


async def start(rig: Rig, pace: Pace) -> Samples:
    """From the call of Start to the first line of the first handler, one run after another."""
    work = Work(workflow="single", input={"n": 0, "pad": ""}, last_step=0, expected=Expected(output=1, tasks=2))
    await rig.client.deploy(line(work.workflow, steps=1))
    rig.records.begin(work.last_step)
    sent: dict[str, int] = {}
    for _ in range(STARTS if pace.seconds > HURRY else FEWER_STARTS):
        at = time.monotonic_ns()
        sent[(await rig.client.start(work.workflow, work.input)).run_id] = at
        await await_records(rig.records, lambda: rig.records.finished >= len(sent))
    await check_runs(rig.client, sent, work.expected)
    begins = first_lines(rig.records.rows())
    return {"start_ms_p50": [quantile([(begins[run] - at) / 1e6 for run, at in sent.items()], 0.5)]}


async def _hops(rig: Rig, pace: Pace, name: str, in_flight: int) -> Samples:
    await prepare(rig, pace)
    stretch = await keep_in_flight(rig, LINE, in_flight=in_flight, seconds=pace.seconds, warm_up=pace.warm_up)
    hops = hops_ms(stretch.rows, stretch.first.at, stretch.last.at)
    return {f"{name}_p50": [quantile(hops, 0.50)], f"{name}_p99": [quantile(hops, 0.99)]}
