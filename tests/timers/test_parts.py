"""Parts of the timers service by hand: batches from hand to hand, and what is made of the coordinator's answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import grpc
import pytest

from headway.api.timers.v1 import timers_pb2
from headway.timers.batches import Batches
from headway.timers.coordinator import (
    Coordinator,
    CoordinatorBusyError,
    CoordinatorLateError,
    CoordinatorRefusedError,
    Outcome,
    _translated,
)
from headway.timers.store import Due, DueKey
from headway.timers.telemetry import Telemetry
from headway.timers.watching import HURRY, STEP_BACK, Lookout, Teller

FIRED, STALE, FAILED = Outcome.FIRED, Outcome.STALE, Outcome.FAILED


class Longest(random.Random):
    """Every pause is as long as it may be."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def due(number: int) -> Due:
    return Due(bucket=0, key=DueKey(UUID(int=number), "nap", "wait", 1), due_at=0.0)


def batch(*numbers: int) -> list[Due]:
    return [due(number) for number in numbers]


def keys(*numbers: int) -> set[DueKey]:
    return {due(number).key for number in numbers}


class Answering:
    """A coordinator by script: outcomes for each call, or what it fails with."""

    def __init__(self, *answers: Sequence[Outcome] | Exception) -> None:
        self._answers = iter(answers)

    async def fire(self, _keys: Sequence[DueKey]) -> Sequence[Outcome]:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def teller(*answers: Sequence[Outcome] | Exception) -> tuple[Teller, Batches]:
    batches = Batches()
    given: Any = SimpleNamespace(coordinator=Answering(*answers))
    made = Teller(
        batches=batches, coordinator=given.coordinator, telemetry=Telemetry(), what="timers", batch=8, chance=Longest(),
        clock=lambda: 0.0,
    )  # fmt: skip
    return made, batches


async def test_one_batch_waits_to_be_taken_and_no_more() -> None:
    batches = Batches()
    await batches.put(batch(1, 2))
    second = asyncio.create_task(batches.put(batch(3)))
    await asyncio.sleep(0)
    assert batches.in_hand == keys(1, 2)

    first = await batches.take()
    await second
    assert first == batch(1, 2)
    assert batches.in_hand == keys(1, 2, 3)
    with batches.telling(batch(1, 2)):
        assert batches.in_hand == keys(1, 2, 3)
    assert batches.in_hand == keys(3)

    await batches.close()
    assert await batches.take() is None


async def test_what_was_answered_too_late_comes_again_later_and_fewer_at_a_time() -> None:
    telling, batches = teller(CoordinatorLateError("slow"), [FIRED, FIRED])
    await batches.put(batch(1, 2))

    with pytest.raises(CoordinatorLateError):
        await telling.step()

    assert telling.size.size == 4
    assert telling.aside() == keys(1, 2)
    await batches.put(batch(1, 2))
    await telling.step()
    assert telling.size.size == 8
    assert telling.aside() == set()


async def test_who_was_told_that_all_was_stale_lets_another_go_first_until_something_fires() -> None:
    telling, batches = teller([STALE, FAILED], [STALE, STALE], [STALE, FIRED])
    seen: list[float] = []

    for _ in range(3):
        await batches.put(batch(1, 2))
        await telling.step()
        seen.append(telling.step_back)

    assert seen == [0.0, STEP_BACK[1], 0.0]


async def test_what_failed_waits_longer_each_time_and_begins_anew_once_it_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    telling, batches = teller([FAILED], [FAILED], [STALE], [FAILED], [FIRED], [FAILED])

    for _ in range(6):
        await batches.put(batch(1))
        await telling.step()

    assert [vars(record)["retry_in_seconds"] for record in caplog.records] == [1.0, 2.0, 1.0, 1.0]
    assert telling.aside() == keys(1)


async def test_a_call_that_is_refused_is_told_in_halves_and_in_order() -> None:
    refused = CoordinatorRefusedError("no")
    telling, _ = teller(refused, [FIRED], refused, [STALE], refused)

    outcomes = await telling._tell([each.key for each in batch(1, 2, 3)])

    assert outcomes == [FIRED, STALE, FAILED]


async def test_fewer_answers_than_items_say_nothing_about_any() -> None:
    channel: Any = SimpleNamespace(unary_unary=lambda *_, **__: None)
    coordinator = Coordinator(channel)

    async def fire(_request: timers_pb2.FireRequest, **_: float) -> timers_pb2.FireResponse:
        return timers_pb2.FireResponse(answers=[timers_pb2.FIRE_ANSWER_FIRED])

    stub: Any = SimpleNamespace(Fire=fire)
    coordinator._timers = stub

    assert await coordinator.fire([due(1).key]) == [FIRED]
    with pytest.raises(CoordinatorRefusedError, match="1 answers to 2 items"):
        await coordinator.fire([due(1).key, due(2).key])


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, CoordinatorBusyError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, CoordinatorBusyError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, CoordinatorLateError),
        (grpc.StatusCode.INTERNAL, CoordinatorRefusedError),
    ],
)
def test_how_a_call_failed_tells_what_to_do_next(code: grpc.StatusCode, kind: type[Exception]) -> None:
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "so it is")

    assert type(_translated(error)) is kind


class Reading:
    """A reader by script: what each look finds; keeps how far ahead was looked, and what was passed over."""

    def __init__(self, *found: list[Due]) -> None:
        self.aheads: list[float] = []
        self.skipped: list[set[DueKey]] = []
        self._found = iter(found)

    async def read(self, skipped: set[DueKey], *, ahead: float) -> list[Due]:
        self.skipped.append(skipped)
        self.aheads.append(ahead)
        return next(self._found)


class Watch:
    """A look-out with a clock that stands until it is set forward, and what takes what it hands over."""

    def __init__(self, *found: list[Due], every: float = 3600.0, limit: int = 10) -> None:
        self.now = 0.0
        self.reading = Reading(*found)
        self.teller, self.batches = teller()
        given: Any = SimpleNamespace(reader=self.reading)
        self.lookout = Lookout(
            reader=given.reader, batches=self.batches, teller=self.teller, poll_interval=timedelta(seconds=every),
            limit=limit, clock=lambda: self.now,
        )  # fmt: skip
        self.taken: list[list[UUID]] = []

    async def look(self) -> None:
        """Look once, and take all that is handed over."""
        taking = asyncio.create_task(self._take())
        async with asyncio.timeout(10):
            await self.lookout.step()
        await asyncio.sleep(0)
        await self.batches.close()
        await taking

    async def _take(self) -> None:
        while (found := await self.batches.take()) is not None:
            self.taken.append([each.key.run_id for each in found])


def at(number: int, bucket: int, due_at: float) -> Due:
    return Due(bucket=bucket, key=due(number).key, due_at=due_at)


def ids(*numbers: int) -> list[UUID]:
    return [UUID(int=number) for number in numbers]


async def test_a_look_that_was_full_is_followed_by_another_at_once() -> None:
    watch = Watch([at(1, 0, -2.0), at(2, 0, -1.0)], limit=2)

    await watch.look()  # else it waited for the next one for an hour

    assert watch.taken == [ids(1, 2)]


async def test_what_is_due_goes_bucket_by_bucket_the_longest_overdue_first() -> None:
    found = [at(1, 1, -1.0), at(2, 0, -2.0), at(3, 1, -3.0), at(4, 0, -4.0)]
    watch = Watch(found, limit=2)
    watch.teller.size.shrink()
    watch.teller.size.shrink()

    await watch.look()

    assert watch.taken == [ids(4, 2), ids(3, 1)]


async def test_what_is_in_hand_is_passed_over() -> None:
    watch = Watch([at(2, 0, -1.0)], limit=1)
    await watch.batches.put(batch(1))

    await watch.look()

    assert watch.reading.skipped == [keys(1)]
    assert watch.taken == [ids(1), ids(2)]


async def test_many_notifications_bring_one_look_at_once_and_often_ones_for_as_long_as_a_usual_look_takes() -> None:
    full = [at(1, 0, -1.0)]
    watch = Watch(full, full, every=2.0, limit=1)
    hurried = watch.lookout._hurried

    watch.lookout.hurry()
    assert hurried.is_set()
    hurried.clear()
    watch.now = 1.5
    watch.lookout.hurry()
    assert not hurried.is_set()
    watch.now = 3.0  # the latest of them counts
    await watch.lookout.step()
    watch.now = 3.5
    assert await watch.batches.take() == full
    await watch.lookout.step()

    assert watch.reading.aheads == [HURRY, 2.0]
    watch.lookout.hurry()
    assert hurried.is_set()


async def test_who_lets_another_go_first_looks_again_before_it_tells() -> None:
    found = [at(1, 0, 0.0)]
    watch = Watch(found, found, limit=1)
    watch.teller.step_back = 0.01

    await watch.lookout.step()
    assert watch.batches.in_hand == set()

    watch.now = 0.02
    await watch.look()
    assert watch.taken == [ids(1)]
