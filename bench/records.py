"""What the handlers tell: which run, which step, from when to when. Taken in bulk, looked into afterwards."""

import asyncio
import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

RECORD = struct.Struct("=16sqqq")
"""Run id, step, begin and end; the instants in nanoseconds of the machine's monotonic clock, which all share."""

_WORDS = RECORD.size // 8
_STEP = 2  # the word of a record that holds the step


class Row(NamedTuple):
    """One handler's begin and end."""

    run: bytes
    step: int
    begin: int
    end: int


class Records:
    """What was told in one stretch of load.

    Attributes:
        told: How many records.
        finished: How many runs have come to their last step.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._blocks: list[bytes] = []
        self._last_step = 0
        self._changed = asyncio.Event()
        self.finished = 0
        self.told = 0

    def begin(self, last_step: int) -> None:
        """Forget everything, and count the runs whose handler of this step has ended."""
        self._blocks.clear()
        self._last_step = last_step
        self.finished = self.told = 0

    def take(self, block: bytes) -> None:
        """Take whole records. Costs next to nothing: the machine is shared with what is measured."""
        self._blocks.append(block)
        self.told += len(block) // RECORD.size
        self.finished += memoryview(block).cast("q")[_STEP::_WORDS].tolist().count(self._last_step)
        self._changed.set()

    async def change(self, within: float) -> None:
        """Wait for the next records, for so many seconds at most."""
        self._changed.clear()
        try:
            async with asyncio.timeout(within):
                await self._changed.wait()
        except TimeoutError:
            return

    def rows(self) -> list[Row]:
        """Everything that was told, as it came."""
        return [Row(*values) for values in RECORD.iter_unpack(b"".join(self._blocks))]


class Receiver(asyncio.Protocol):
    """One worker's connection: cuts what comes into whole records."""

    def __init__(self, records: Records) -> None:
        """Give what comes to these records."""
        self._records = records
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        """Take what is whole; keep the rest."""
        data = self._rest + data
        whole = len(data) - len(data) % RECORD.size
        self._rest = data[whole:]
        if whole:
            self._records.take(data[:whole])


def completed_between(rows: Iterable[Row], first: int, last: int) -> int:
    """How many handlers ended in a stretch of the monotonic clock."""
    return sum(first <= row.end < last for row in rows)


def hops_ms(rows: Iterable[Row], first: int, last: int) -> list[float]:
    """Milliseconds from a handler's last line to the next one's first, for hops that began in the stretch."""
    return [
        (after.begin - before.end) / 1e6
        for before, after in pairwise(sorted(rows))
        if after.run == before.run and after.step == before.step + 1 and first <= before.end < last
    ]


def first_lines(rows: Iterable[Row]) -> dict[str, int]:
    """When the first handler of each run began, by the run's id."""
    begins: dict[bytes, int] = {}
    for row in rows:
        begins[row.run] = min(row.begin, begins.get(row.run, row.begin))
    return {run.hex(): begin for run, begin in begins.items()}


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them lies. At least one is needed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
