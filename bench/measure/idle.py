"""What a stack costs that has nothing to do."""

import asyncio
import time

from bench.machine import LOAD, cpu_seconds
from bench.pace import Pace, Samples
from bench.rig import Rig

SETTLE, LONGEST = 3.0, 20.0  # seconds


async def idle(rig: Rig, pace: Pace) -> Samples:
    """The CPU of all its processes, in cores."""
    await asyncio.sleep(SETTLE)
    began, before = time.monotonic(), cpu_seconds(rig.processes)
    await asyncio.sleep(min(LONGEST, 2 * pace.seconds))
    seconds, after = time.monotonic() - began, cpu_seconds(rig.processes)
    used = {name: after[name] - value for name, value in before.items() if name != LOAD}
    return {"idle_cores": [sum(used.values()) / seconds]}
