from __future__ import annotations

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.runtime.backoff import Backoff


def test_the_bound_doubles_up_to_the_cap() -> None:
    backoff = Backoff(initial=timedelta(seconds=1), cap=timedelta(seconds=5))

    assert [backoff.bound(failures).total_seconds() for failures in (1, 2, 3, 4, 5)] == [1, 2, 4, 5, 5]


@given(failures=st.integers(min_value=1, max_value=10**9), seed=st.integers())
def test_no_delay_is_negative_or_above_the_cap(failures: int, seed: int) -> None:
    backoff = Backoff()

    assert 0 <= backoff.delay(failures, random.Random(seed)) <= 30


def test_chance_is_the_callers() -> None:
    backoff = Backoff()

    assert backoff.delay(5, random.Random(7)) == backoff.delay(5, random.Random(7))
    assert len({backoff.delay(5, random.Random(seed)) for seed in range(20)}) == 20


@pytest.mark.parametrize(
    ("initial", "factor", "cap"),
    [(0, 2, 30), (1, 0.5, 30), (5, 2, 1)],
    ids=["no start", "shrinking", "low cap"],
)
def test_senseless_plans_are_refused(initial: float, factor: float, cap: float) -> None:
    with pytest.raises(ValueError, match="initial must be positive"):
        Backoff(initial=timedelta(seconds=initial), factor=factor, cap=timedelta(seconds=cap))
