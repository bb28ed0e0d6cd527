"""How late waits end."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from bench.checking import Expected, WrongResult, check_runs
from bench.load import await_records
from bench.pace import Pace, Samples
from bench.records import first_lines, quantile
from bench.rig import Rig
from bench.starting import start_each
from bench.workflow import waiting

PER_SECOND = 1000
CALLS_EVERY = 10  # of so many waits, one is followed by a handler, which tells when it began
PROBE = 200  # starts that tell how long the others will take
ALONE, CALLING = "wait_alone", "wait_and_call"


async def late(rig: Rig, pace: Pace) -> Samples:
    """From when a wait is due to the first line of the handler behind it, a thousand waits due every second."""
    for name in (ALONE, CALLING):
        await rig.client.deploy(waiting(name, calls=name == CALLING))
    rig.records.begin(0)
    count = int(PER_SECOND * pace.seconds / 2)
    began = time.monotonic()
    probe = await _start(rig, ALONE, [time.time_ns()] * PROBE)
    lead = 1.0 + 1.5 * count * (time.monotonic() - began) / PROBE
    first = time.time_ns() + int(lead * 1e9)
    due = [first + number * 10**9 // PER_SECOND for number in range(count)]
    alone = await _start(rig, ALONE, [at for number, at in enumerate(due) if number % CALLS_EVERY])
    calling = await _start(rig, CALLING, due[::CALLS_EVERY])
    if time.time_ns() > first:
        raise WrongResult(f"{count} waits could not be started in {lead:.0f} s, before the first was due")
    await await_records(rig.records, lambda: rig.records.finished >= len(calling))
    to_wall = time.time_ns() - time.monotonic_ns()
    await check_runs(rig.client, [*probe, *alone], Expected(output=None, tasks=1))
    await check_runs(rig.client, calling, Expected(output=None, tasks=2))
    begins = first_lines(rig.records.rows())
    lateness = [(begins[run] + to_wall - at) / 1e6 for run, at in calling.items()]
    return {"timer_late_ms_p99": [quantile(lateness, 0.99)]}


async def _start(rig: Rig, workflow: str, due: Sequence[int]) -> dict[str, int]:
    """Start a run for each instant in nanoseconds; answers the instants by run."""
    texts = [datetime.fromtimestamp(at / 1e9, UTC).isoformat() for at in due]
    return dict(zip(await start_each(rig.client, [(workflow, {"at": text}) for text in texts]), due, strict=True))
