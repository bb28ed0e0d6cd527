"""When the look-out looks and hands over, to the millisecond: on a loop that leaps, without a database."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from headway.timers.batches import Batches
from headway.timers.coordinator import Outcome
from headway.timers.store import Due, DueKey
from headway.timers.telemetry import Telemetry
from headway.timers.watching import HURRY, PAUSE, Lookout, Teller
from tests.timers import leaping

SLACK = 1e-6  # of sums of floats
LIMIT = 1_000


@dataclass
class Rows:
    """What is set, when it was looked at, and when it was told; a double of the database and of the coordinator."""

    answers_after: float = 0.0
    due: dict[DueKey, float] = field(default_factory=dict)
    looks: list[float] = field(default_factory=list)
    told: dict[DueKey, float] = field(default_factory=dict)
    stale: int = 0

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def set(self, *delays: float) -> list[DueKey]:
        keys = [DueKey(UUID(int=1), f"wait_{len(self.due) + number}", "wait", 1) for number in range(len(delays))]
        self.due.update(zip(keys, (self.now() + delay for delay in delays), strict=True))
        return keys

    async def read(self, skipped: Collection[DueKey], *, ahead: float) -> list[Due]:
        self.looks.append(self.now())
        found = [
            Due(bucket=0, key=key, due_at=at)
            for key, at in self.due.items()
            if at <= self.now() + ahead and key not in self.told and key not in skipped
        ]
        return found[:LIMIT]

    async def fire(self, keys: Sequence[DueKey]) -> list[Outcome]:
        await asyncio.sleep(self.answers_after)
        outcomes = [Outcome.STALE if key in self.told else Outcome.FIRED for key in keys]
        self.told = {**dict.fromkeys(keys, self.now()), **self.told}
        self.stale += outcomes.count(Outcome.STALE)
        return outcomes

    def lateness(self, keys: Sequence[DueKey]) -> list[float]:
        return [self.told[key] - self.due[key] for key in keys]


@asynccontextmanager
async def looking(rows: Rows, *, every: float, seed: int = 7) -> AsyncIterator[Lookout]:
    """A look-out and one lane, for as long as the block lasts."""
    clock = asyncio.get_running_loop().time
    both: Any = rows
    batches = Batches()
    teller = Teller(
        batches=batches,
        coordinator=both,
        telemetry=Telemetry(),
        what="timers",
        batch=500,
        chance=random.Random(seed),
        clock=clock,
    )
    lookout = Lookout(
        reader=both,
        batches=batches,
        teller=teller,
        poll_interval=timedelta(seconds=every),
        limit=LIMIT,
        clock=clock,
    )
    loops = [asyncio.create_task(_keep(step)) for step in (lookout.step, teller.step)]
    try:
        yield lookout
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.wait(loops)


async def _keep(step: Any) -> None:
    while True:
        await step()


def test_what_is_known_is_told_when_it_is_due_never_before_and_at_most_a_pause_later() -> None:
    async def play() -> list[float]:
        rows = Rows()
        keys = rows.set(*(0.013 * number for number in range(300)), *(0.02 * number for number in range(200)))
        async with looking(rows, every=1.0):
            await asyncio.sleep(5)
        return rows.lateness(keys)

    lateness = leaping.run(play())

    assert len(lateness) == 500
    assert min(lateness) >= -SLACK
    assert max(lateness) <= PAUSE + SLACK


def test_what_no_notification_told_of_is_found_at_the_next_look() -> None:
    async def play() -> tuple[list[float], list[float]]:
        rows = Rows()
        async with looking(rows, every=1.5):
            await asyncio.sleep(10.1)
            unknown = rows.set(0.0)
            await asyncio.sleep(10)
        return rows.lateness(unknown), rows.looks

    lateness, looks = leaping.run(play())

    assert [later - look for look, later in pairwise(looks)] == pytest.approx([1.5] * (len(looks) - 1))
    assert 0 < lateness[0] <= 1.5 + SLACK


def test_a_notification_brings_a_look_at_once_and_many_for_as_long_as_until_the_usual_one() -> None:
    async def play() -> tuple[list[float], list[float]]:
        rows = Rows()
        async with looking(rows, every=1.0) as lookout:
            await asyncio.sleep(10.3)
            soon = rows.set(0.0, 0.005, 0.5)
            lookout.hurry()
            await asyncio.sleep(0.7)
            meanwhile = rows.set(0.0)
            await asyncio.sleep(10)
        return rows.lateness([*soon, *meanwhile]), rows.looks

    lateness, looks = leaping.run(play())

    assert max(lateness) <= HURRY + SLACK
    pauses = [later - look for look, later in pairwise(looks)]
    assert pauses[:10] == pytest.approx([1.0] * 10)
    hurried = [look for look in looks if 10.3 - SLACK <= look <= 11.3]
    assert hurried[0] == pytest.approx(10.3)
    assert len(hurried) == pytest.approx(1.0 / HURRY, abs=3)
    assert pauses[-8:] == pytest.approx([1.0] * 8)


def test_when_there_is_more_than_one_look_brings_the_next_is_at_once() -> None:
    async def play() -> list[float]:
        rows = Rows()
        keys = rows.set(*[0.0] * (3 * LIMIT))
        async with looking(rows, every=1.0):
            await asyncio.sleep(5)
        return rows.lateness(keys)

    assert max(leaping.run(play())) < 0.1


def test_two_copies_let_each_other_go_first_and_the_one_left_is_on_time() -> None:
    async def play() -> tuple[int, list[float]]:
        rows = Rows(answers_after=0.003)
        async with looking(rows, every=1.0, seed=1) as lookout:
            async with looking(rows, every=1.0, seed=2):
                both = rows.set(*(0.05 * number for number in range(200)))
                await asyncio.sleep(11)
            stale = rows.stale
            alone = rows.set(*(0.05 * number for number in range(200)))
            lookout.hurry()
            await asyncio.sleep(11)
        return stale, rows.lateness([*both, *alone])

    stale, lateness = leaping.run(play())

    assert stale <= 100  # of 200, though both are always as quick
    assert max(lateness) < 0.05
