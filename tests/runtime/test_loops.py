"""A loop goes on whatever its step does, and ends when it is told to."""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import timedelta

import pytest

from headway.runtime.backoff import Backoff
from headway.runtime.loops import Loops

SHORT = Backoff(initial=timedelta(microseconds=1), cap=timedelta(microseconds=1))
LONG = Backoff(initial=timedelta(hours=1), cap=timedelta(hours=1))


async def test_a_step_that_fails_is_tried_again_and_its_trace_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    loops = Loops(backoff=SHORT, chance=random.Random(1))
    tries = 0

    async def step() -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise OSError("the network is down")
        loops.stop()

    with caplog.at_level(logging.WARNING):
        await loops.keep("trying", step)

    assert tries == 4
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False]
    assert {record.getMessage() for record in caplog.records} == {"trying failed; trying again"}


@pytest.mark.parametrize("fails", [True, False], ids=["after a failure", "between two steps"])
async def test_a_loop_that_waits_ends_at_once_when_it_is_told_to(fails: bool) -> None:  # noqa: FBT001 - a parameter
    loops = Loops(backoff=LONG, chance=random.Random(1))
    done = asyncio.Event()

    async def step() -> None:
        done.set()
        if fails:
            raise OSError

    loop = asyncio.create_task(loops.keep("waiting", step, every=3600))
    await done.wait()
    loops.stop()

    async with asyncio.timeout(10):
        await loop


async def test_failures_are_counted_anew_after_a_step_that_went_well(caplog: pytest.LogCaptureFixture) -> None:
    loops = Loops(backoff=SHORT, chance=random.Random(1))
    fates = iter([False, False, True, False])

    async def step() -> None:
        fate = next(fates, None)
        if fate is None:
            loops.stop()
        elif not fate:
            raise OSError

    await loops.keep("trying", step)

    assert [vars(record)["failures"] for record in caplog.records] == [1, 2, 1]
