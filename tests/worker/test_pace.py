"""Waiting between tries."""

from __future__ import annotations

import asyncio

from headway.worker._pace import BUSY, Pauses, pause


def test_pauses_grow_to_thirty_seconds_and_no_further_and_begin_anew_after_a_success() -> None:
    pauses = Pauses()

    longest = max(pauses.next() for _ in range(1000))
    pauses.reset()

    assert 20 < longest <= 30
    assert pauses.next() <= 0.1


def test_a_pause_is_never_so_short_that_a_loop_spins() -> None:
    assert min(Pauses(BUSY).next() for _ in range(1000)) > 0


async def test_the_beginning_of_a_drain_ends_a_long_pause() -> None:
    drain = asyncio.Event()
    pausing = asyncio.create_task(pause(3600, drain))
    await asyncio.sleep(0)

    drain.set()

    async with asyncio.timeout(5):
        await pausing


async def test_while_draining_no_pause_is_longer_than_a_second() -> None:
    drain = asyncio.Event()
    drain.set()

    async with asyncio.timeout(5):
        await pause(3600, drain)
