"""An outage is told when it begins, now and then while it lasts, and when it is over."""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import timedelta

import pytest

from headway.runtime import outages
from headway.runtime.backoff import Backoff
from headway.runtime.loops import Loops, Step
from headway.runtime.outages import Outage, Peer

SHORT = Backoff(initial=timedelta(microseconds=1), cap=timedelta(microseconds=1))
LOG = logging.getLogger("test")


class AwayError(Exception):
    """The peer is away."""


PEER = Peer(name="the peer", meanwhile="all waits", faults=(AwayError,))


@pytest.fixture(autouse=True)
def _all_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def until_over(outage: Outage) -> None:
    async with asyncio.timeout(10):
        while outage.is_on:  # noqa: ASYNC110 - nobody is told of its end
            await asyncio.sleep(0.001)


async def test_however_much_fails_it_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(PEER, LOG, begun=lambda: {"held": 2}, ended=lambda: {"kept": 1}, quiet=timedelta(milliseconds=1))

    for _ in range(40):
        outage.failed("no route")
    outage.succeeded()
    await until_over(outage)

    begun, ended = caplog.records
    assert begun.getMessage() == "the peer does not serve; trying again"
    assert (begun.levelname, vars(begun)["fault"], vars(begun)["meanwhile"]) == ("WARNING", "no route", "all waits")
    assert vars(begun)["held"] == 2
    assert ended.getMessage() == "the peer serves again"
    assert (ended.levelname, vars(ended)["failed_calls"], vars(ended)["kept"]) == ("INFO", 40, 1)


async def test_a_success_between_failures_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(PEER, LOG, quiet=timedelta(milliseconds=200))

    outage.failed("one copy is down")
    first, second = outage.succeeded(), outage.succeeded()
    outage.failed("one copy is down")
    await asyncio.sleep(0.3)

    assert (first, second, outage.is_on, len(caplog.records)) == (True, False, True, 1)


async def test_a_success_without_an_outage_is_none(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(PEER, LOG)

    assert not outage.succeeded()
    assert caplog.records == []


async def test_an_outage_that_goes_on_is_told_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "REMIND", timedelta())
    outage = Outage(PEER, LOG)

    outage.failed("no route")
    outage.failed("still none")

    assert [record.getMessage() for record in caplog.records] == [
        "the peer does not serve; trying again",
        "the peer does not serve yet; trying again",
    ]
    assert vars(caplog.records[1])["fault"] == "still none"


async def test_all_loops_that_need_a_peer_tell_of_its_outage_once(caplog: pytest.LogCaptureFixture) -> None:
    loops = Loops(backoff=SHORT, chance=random.Random(1), peers=[PEER])
    tries = dict.fromkeys("abc", 0)

    def step_of(name: str) -> Step:
        async def step() -> None:
            tries[name] += 1
            if tries[name] <= 5:
                raise AwayError("no route")
            await asyncio.sleep(0.01)

        return step

    kept = [asyncio.create_task(loops.keep(name, step_of(name))) for name in tries]
    async with asyncio.timeout(10):
        while "the peer serves again" not in caplog.text:  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.01)
    loops.stop()
    await asyncio.gather(*kept)

    assert [record.getMessage() for record in caplog.records] == [
        "the peer does not serve; trying again",
        "the peer serves again",
    ]
    assert vars(caplog.records[1])["failed_calls"] == 15


async def test_what_is_no_outage_is_told_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    loops = Loops(backoff=SHORT, chance=random.Random(1), peers=[PEER])
    tries = 0

    async def step() -> None:
        nonlocal tries
        tries += 1
        loops.stop()
        raise ValueError("a fault")

    await loops.keep("trying", step)

    (record,) = caplog.records
    assert (record.getMessage(), bool(record.exc_info)) == ("trying failed; trying again", True)


async def test_of_a_peer_that_proves_itself_only_its_own_answer_ends_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proving = Peer(name="the peer", meanwhile="all waits", faults=(AwayError,), proves_itself=True)
    loops = Loops(backoff=SHORT, chance=random.Random(1), peers=[proving])
    answered = loops.answered(proving)
    tries = 0

    async def step() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise AwayError("no route")
        await asyncio.sleep(0.01)

    keeping = asyncio.create_task(loops.keep("trying", step))
    await asyncio.sleep(1.2)
    before = "the peer serves again" in caplog.text
    answered()
    await asyncio.sleep(1.2)
    loops.stop()
    await keeping

    assert tries > 1
    assert (before, "the peer serves again" in caplog.text) == (False, True)
