"""Keeps a number of runs in flight for a while, and lets them end."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.checking import Checked, Expected, WrongResult, check_runs
from bench.records import Records, Row, completed_between
from bench.rig import Mark, Rig
from bench.starting import start_each
from headway.client import JsonInput

GIVE_UP_SECONDS = 120.0
BATCHES = 4  # of starts under way at a time
LOOK_EVERY = 0.05  # seconds, when nothing is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is started again and again.

    Attributes:
        workflow: Its name.
        input: Every run's.
        last_step: The step of the handler that ends a run.
        expected: How every run ends.
    """

    workflow: str
    input: Mapping[str, JsonInput]
    last_step: int
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What a stretch of load came to: what the handlers told, and where everything stood at both its ends."""

    rows: list[Row]
    first: Mark
    last: Mark
    checked: Checked

    @property
    def tasks(self) -> int:
        """Handlers that ended in it."""
        return completed_between(self.rows, self.first.at, self.last.at)

    @property
    def tasks_per_s(self) -> float:
        """Their rate."""
        return self.tasks / ((self.last.at - self.first.at) / 1e9)

    @property
    def events(self) -> float:
        """Entries that histories got in it, by the share that all runs have for each task."""
        return self.tasks * self.checked.events / len(self.rows)

    def cpu_us(self) -> dict[str, float]:
        """Microseconds of CPU for each task, by process."""
        used = {name: self.last.cpu[name] - seconds for name, seconds in self.first.cpu.items()}
        return {name: seconds * 1e6 / self.tasks for name, seconds in used.items()}


async def keep_in_flight(rig: Rig, work: Work, *, in_flight: int, seconds: float, warm_up: float) -> Stretch:
    """Keep runs in flight, let them end, and check every one.

    Args:
        rig: The stack.
        work: What to start.
        in_flight: How many runs are started and have not come to their last step.
        seconds: How long the stretch is that counts.
        warm_up: Seconds under the whole load before it begins.

    Raises:
        WrongResult: A run was lost or ended otherwise than it must.
    """
    rig.records.begin(work.last_step)
    keeper = Keeper(rig, work, in_flight)
    await keeper.keep(lambda: not keeper.is_full)
    await keeper.keep(_lasting(warm_up))
    first = await rig.mark()
    await keeper.keep(_lasting(seconds))
    last = await rig.mark()
    runs = await keeper.started()
    await await_records(rig.records, lambda: rig.records.finished >= len(runs))
    checked = await check_runs(rig.client, runs, work.expected)
    return Stretch(rows=rig.records.rows(), first=first, last=last, checked=checked)


async def start_all(rig: Rig, work: Work, *, runs: int, in_flight: int) -> list[str]:
    """Start so many runs, and no more than these at a time; `rig.records` has been begun. Answers the runs."""
    keeper = Keeper(rig, work, in_flight, most=runs)
    await keeper.keep(lambda: keeper.asked < runs)
    return await keeper.started()


async def await_records(records: Records, enough: Callable[[], bool]) -> None:
    """Wait until the handlers have told enough.

    Raises:
        WrongResult: Nothing was told for long.
    """
    told, since = records.told, time.monotonic()
    while not enough():
        await records.change(LOOK_EVERY)
        if records.told > told:
            told, since = records.told, time.monotonic()
        elif time.monotonic() > since + GIVE_UP_SECONDS:
            raise WrongResult(f"after {told} handlers and {records.finished} runs nothing goes on")


class Keeper:
    """Starts a run whenever one has come to its last step.

    Attributes:
        asked: How many runs it has begun to start.
    """

    def __init__(self, rig: Rig, work: Work, in_flight: int, *, most: int | None = None) -> None:
        """Start nothing yet; `rig.records` has been begun. `most` limits the runs in all."""
        self._rig = rig
        self._work = work
        self._in_flight = in_flight
        self._most = most
        self._runs: list[str] = []
        self._starting: list[asyncio.Task[None]] = []
        self.asked = 0

    @property
    def is_full(self) -> bool:
        """True once so many have been started as should be in flight."""
        return len(self._runs) >= self._in_flight

    async def keep(self, wanted: Callable[[], bool]) -> None:
        """Keep the number in flight as long as that is wanted."""
        while wanted():
            self._starting = [batch for batch in self._starting if not _is_over(batch)]
            missing = self._in_flight - (self.asked - self._rig.records.finished)
            if self._most is not None:
                missing = min(missing, self._most - self.asked)
            if missing > 0 and len(self._starting) < BATCHES:
                self.asked += missing
                self._starting.append(asyncio.create_task(self._start(missing)))
            await self._rig.records.change(LOOK_EVERY)

    async def started(self) -> list[str]:
        """All runs, once what was begun is started."""
        for batch in self._starting:
            await batch
        return self._runs

    async def _start(self, count: int) -> None:
        self._runs.extend(await start_each(self._rig.client, [(self._work.workflow, self._work.input)] * count))


def _lasting(seconds: float) -> Callable[[], bool]:
    """True for so many seconds from now."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until


def _is_over(batch: asyncio.Task[None]) -> bool:
    """True when it has ended; raises what it raised."""
    if not batch.done():
        return False
    batch.result()
    return True
