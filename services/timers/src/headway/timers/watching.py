"""Looking out for what is due, and telling the coordinator.

The look-out reads and hands batches to some lanes, each with one call to the coordinator under way. What fails by
itself is set aside, and the others go on. Nothing here decides: whether a timer fires is the coordinator's.
"""

import asyncio
import logging
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from headway.runtime.backoff import Backoff
from headway.runtime.parked import BatchSize, Parked
from headway.timers.batches import Batches
from headway.timers.coordinator import Coordinator, CoordinatorLateError, CoordinatorRefusedError, Outcome
from headway.timers.store import Due, DueKey, DueReader
from headway.timers.telemetry import Telemetry

__all__ = ["Lookout", "Teller"]

_log = logging.getLogger(__name__)

FAILED = Backoff(initial=timedelta(seconds=1), cap=timedelta(seconds=30))
# What was answered STALE is gone, as a rule; what is not is asked about again soon, but not at every look.
UNSURE = Backoff(initial=timedelta(milliseconds=100), cap=timedelta(seconds=1))
MOST_ASIDE = 50_000
HURRY = 0.02  # seconds between two looks while timers are set for soon
PAUSE = 0.004  # seconds between two hand-overs: what is due meanwhile shares a call
STEP_BACK = (0.005, 0.025)  # seconds, between; see Teller.step_back


class Teller:
    """Tells batches to the coordinator and remembers what to leave alone for a while.

    Args:
        batches: Where they come from.
        coordinator: Whom to tell.
        telemetry: Metrics.
        what: What it tells, for metrics: `timers` or `leases`.
        batch: Most items per call.
        chance: Spreads tries.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        batches: Batches,
        coordinator: Coordinator,
        telemetry: Telemetry,
        what: str,
        batch: int,
        chance: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._batches = batches
        self._coordinator = coordinator
        self._telemetry = telemetry
        self._what = what
        self._chance = chance
        self._clock = clock
        self._failed: Parked[DueKey] = Parked(backoff=FAILED, chance=chance, clock=clock, most=MOST_ASIDE)
        self._unsure: Parked[DueKey] = Parked(backoff=UNSURE, chance=chance, clock=clock, most=MOST_ASIDE)
        self.size = BatchSize(batch)
        self.step_back = 0.0
        """How long to let another copy go first, seconds: it was quicker the last time. So the copies need not agree
        on who tells, and rarely tell the same; when the other one dies, this one's next batch is not stale."""

    def aside(self) -> set[DueKey]:
        """Answer what is not to be told now."""
        aside = {*self._batches.in_hand, *self._failed.waiting(), *self._unsure.waiting()}
        self._telemetry.waiting(self._what, len(aside))
        return aside

    async def step(self) -> None:
        """Tell one batch; waits for one, returns without one when the batches are closed."""
        batch = await self._batches.take()
        if batch is None:
            return
        with self._batches.telling(batch):
            try:
                outcomes = await self._tell([due.key for due in batch])
            except CoordinatorLateError:
                # One item may hold the others up: they come again in other company, and fewer at a time.
                self.size.shrink()
                for due in batch:
                    self._unsure.park(due.key)
                raise
            self.size.grow()
            self._settle(batch, outcomes)

    async def _tell(self, keys: Sequence[DueKey]) -> list[Outcome]:
        """Tell, in halves when the whole is refused: in the end the one item that does it stands alone."""
        try:
            return await self._coordinator.fire(keys)
        except CoordinatorRefusedError as error:
            if len(keys) == 1:
                _log.error("telling fails", extra={**keys[0].facts(), "reason": str(error)})
                return [Outcome.FAILED]
        half = len(keys) // 2
        return [*await self._tell(keys[:half]), *await self._tell(keys[half:])]

    def _settle(self, batch: Sequence[Due], outcomes: Sequence[Outcome]) -> None:
        now = self._clock()
        for due, outcome in zip(batch, outcomes, strict=True):
            match outcome:
                case Outcome.FIRED:
                    self._telemetry.fired(due.key.kind, now - due.due_at)
                    self._failed.forget(due.key)
                    self._unsure.forget(due.key)
                case Outcome.STALE:
                    self._failed.forget(due.key)
                    self._unsure.park(due.key)
                case Outcome.FAILED:
                    seconds = self._failed.park(due.key)
                    _log.error(
                        "the coordinator could not decide what is due; it is told again",
                        extra={**due.key.facts(), "retry_in_seconds": round(seconds, 3)},
                    )
        counts = Counter(outcomes)
        for outcome, items in counts.items():
            self._telemetry.answered(outcome.name.lower(), items)
        if counts[Outcome.FIRED]:
            self.step_back = 0.0
        elif counts[Outcome.STALE] == len(batch):
            self.step_back = self._chance.uniform(*STEP_BACK)


class Lookout:
    """Looks for what is due, or will be before the next look, and hands each to the lanes when its time has come.

    Args:
        reader: Where to look.
        batches: Where it goes.
        teller: What to leave alone, and how much to hand over at once.
        poll_interval: The longest time between two looks.
        limit: As the reader's: a look that brings as many wants another at once.
        clock: Monotonic seconds, as the reader's.
    """

    def __init__(
        self,
        *,
        reader: DueReader,
        batches: Batches,
        teller: Teller,
        poll_interval: timedelta,
        limit: int,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._batches = batches
        self._teller = teller
        self._poll_seconds = poll_interval.total_seconds()
        self._limit = limit
        self._hurry_until = -math.inf
        self._hurried = asyncio.Event()

    def hurry(self) -> None:
        """Look at once, and then often for as long as what was set may be due before a look at the usual time."""
        now = self._clock()
        if now >= self._hurry_until:
            self._hurried.set()
        self._hurry_until = now + self._poll_seconds

    async def step(self) -> None:
        """Look once, and hand over what was found, each when it is due, until it is time to look again."""
        self._hurried.clear()
        every = min(HURRY, self._poll_seconds) if self._clock() < self._hurry_until else self._poll_seconds
        found = await self._reader.read(self._teller.aside(), ahead=every)
        look_at = self._clock() + every
        # There may be more behind what was found: then all of it is handed over first, and the next look is at once.
        is_full = max(Counter(item.bucket for item in found).values(), default=0) >= self._limit
        coming = deque(sorted(found, key=lambda item: item.due_at))
        pause = 0.0
        while coming and (is_full or coming[0].due_at < look_at):
            step_back = self._teller.step_back
            wait = coming[0].due_at + step_back - self._clock()
            if await self._is_hurried_within(max(pause, wait)) or (step_back and wait > 0):
                return  # to look again; and what another copy told meanwhile is not there any more
            now = self._clock()
            due: list[Due] = []
            while coming and coming[0].due_at <= now:
                due.append(coming.popleft())
            for batch in self._batched(due):
                await self._batches.put(batch)
            pause = PAUSE
        if not is_full:
            await self._is_hurried_within(look_at - self._clock())

    async def _is_hurried_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._hurried.wait()
        except TimeoutError:
            return False
        return True

    def _batched(self, due: Sequence[Due]) -> Iterator[Sequence[Due]]:
        """Cut into batches, items of a bucket together."""
        items = sorted(due, key=lambda item: (item.bucket, item.due_at))
        size = self._teller.size.size
        for start in range(0, len(items), size):
            yield items[start : start + size]
