"""What fails is set aside for longer each time, and calls shrink while their peer chokes."""

from __future__ import annotations

import random
from datetime import timedelta

from headway.runtime.backoff import Backoff
from headway.runtime.parked import BatchSize, Parked


def test_what_fails_again_waits_longer_and_is_forgotten_when_it_succeeds() -> None:
    now = 0.0
    parked: Parked[str] = Parked(
        backoff=Backoff(initial=timedelta(seconds=1)), chance=random.Random(3), clock=lambda: now
    )

    delays = [parked.park("a") for _ in range(40)]

    assert max(delays[:1]) <= 1.0
    assert max(delays) <= 30.0 and max(delays) > 10.0  # noqa: PT018 - one fact
    assert parked.waiting() == ["a"]
    now = 31.0
    assert parked.waiting() == []
    parked.forget("a")
    assert parked.park("a") <= 1.0


def test_what_is_set_aside_is_bounded() -> None:
    parked: Parked[int] = Parked(
        backoff=Backoff(initial=timedelta(hours=1), cap=timedelta(hours=1)),
        chance=random.Random(1),
        clock=lambda: 0.0,
        most=3,
    )

    for key in range(10):
        parked.park(key)

    assert parked.waiting() == [7, 8, 9]


def test_a_batch_shrinks_to_one_and_grows_to_its_most() -> None:
    size = BatchSize(10)

    sizes = [(size.shrink(), size.size)[1] for _ in range(5)] + [(size.grow(), size.size)[1] for _ in range(5)]

    assert sizes == [5, 2, 1, 1, 1, 2, 4, 8, 10, 10]


class Longest(random.Random):
    """Every pause is as long as it may be."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def test_what_fails_again_soon_after_its_time_has_come_waits_longer_and_much_later_it_begins_anew() -> None:
    now = 0.0
    backoff = Backoff(initial=timedelta(seconds=1), cap=timedelta(seconds=30))
    parked: Parked[str] = Parked(backoff=backoff, chance=Longest(), clock=lambda: now)
    assert parked.park("a") == 1.0

    now = 100.0
    assert parked.waiting() == []
    assert parked.park("a") == 2.0

    now = 1_000.0
    assert parked.waiting() == []
    assert parked.park("a") == 1.0
