"""Keeps a number of runs in flight, and gathers what the handlers tell."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field

from bench.worker import RECORD
from bench.workflow import PAD, STEPS
from headway.client import Client, RunState

GIVE_UP_SECONDS = 60.0


@dataclass(slots=True)
class Records:
    """What the handlers told: begin and end in nanoseconds, by run and step."""

    begins: dict[bytes, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    ends: dict[bytes, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    finished: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)

    async def serve(self, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        """Read one worker's records until it ends."""
        while True:
            try:
                run, step, begin, end = RECORD.unpack(await reader.readexactly(RECORD.size))
            except asyncio.IncompleteReadError:
                return
            self.begins[run][step] = begin
            self.ends[run][step] = end
            if step == STEPS - 1:
                self.finished.put_nowait(run)

    def completed_between(self, first: int, last: int) -> int:
        """How many handlers ended in a stretch of the monotonic clock."""
        return sum(first <= end < last for ends in self.ends.values() for end in ends.values())

    def hops_between(self, first: int, last: int) -> list[float]:
        """Milliseconds from the end of a handler to the first line of the next, for hops that began in the stretch."""
        hops: list[float] = []
        for run, ends in self.ends.items():
            begins = self.begins[run]
            for step, end in ends.items():
                following = begins.get(step + 1)
                if following is not None and first <= end < last:
                    hops.append((following - end) / 1e6)
        return hops


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What one stretch of load came to."""

    tasks_per_s: float
    hops_ms: list[float]
    runs: int


class WrongResult(Exception):
    """A run was lost, or did not end as it must: the measurement counts for nothing."""


async def keep_in_flight(client: Client, workflow: str, records: Records, in_flight: int, seconds: float) -> Stretch:
    """Keep runs in flight for some seconds after a short warm-up, let them end, and check every one.

    Raises:
        WrongResult: a run was lost or has another output than it must.
    """
    runs: list[str] = []
    request = {"n": 0, "pad": PAD}

    async def start() -> None:
        runs.append((await client.start(workflow, request)).run_id)

    warm_up = min(2.0, seconds / 3)
    began = time.monotonic()
    await asyncio.gather(*(start() for _ in range(in_flight)))
    starting: set[asyncio.Task[None]] = set()
    ended = 0
    first = last = 0
    while (elapsed := time.monotonic() - began) < warm_up + seconds:
        if not first and elapsed >= warm_up:
            first = time.monotonic_ns()
        try:
            await asyncio.wait_for(records.finished.get(), 0.2)
        except TimeoutError:
            continue
        ended += 1
        task = asyncio.create_task(start())
        starting.add(task)
        task.add_done_callback(starting.discard)
    last = time.monotonic_ns()
    await asyncio.gather(*starting)
    while ended < len(runs):
        await asyncio.wait_for(records.finished.get(), GIVE_UP_SECONDS)
        ended += 1
    await _check(client, runs)
    return Stretch(
        tasks_per_s=records.completed_between(first, last) / ((last - first) / 1e9),
        hops_ms=records.hops_between(first, last),
        runs=len(runs),
    )


async def _check(client: Client, runs: list[str]) -> None:
    """Every run succeeded, with the right output."""
    gate = asyncio.Semaphore(8)

    async def check(run_id: str) -> None:
        async with gate:
            outcome = await asyncio.wait_for(client.wait(run_id), GIVE_UP_SECONDS)
        if outcome.state is not RunState.SUCCEEDED or outcome.output != STEPS:
            raise WrongResult(f"run {run_id}: {outcome.state}, output {outcome.output!r} instead of {STEPS}")

    await asyncio.gather(*(check(run_id) for run_id in runs))
