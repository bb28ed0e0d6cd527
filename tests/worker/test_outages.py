"""What a worker says while the coordinator or Redis is away: that it begins, that it is over, and what was lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from tests.worker.conftest import Bench, nothing

MANY = 30


@asynccontextmanager
async def holding(bench: Bench, caplog: pytest.LogCaptureFixture, *, lease: float) -> AsyncGenerator[asyncio.Event]:
    """A worker in the midst of many attempts; they end when the event is set."""
    caplog.set_level("INFO", logger="headway")
    started, go_on = asyncio.Semaphore(0), asyncio.Event()

    @bench.registry.handler("hold")
    async def hold(_: Any) -> None:
        started.release()
        await go_on.wait()

    bench.coordinator.lease_seconds = lease
    for number in range(MANY):
        bench.dispatch(f"t{number}", "hold")
    async with bench.worker(concurrency=MANY):
        for _ in range(MANY):
            await started.acquire()
        yield go_on


def told(caplog: pytest.LogCaptureFixture, words: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if words in record.getMessage()]


async def until_told(caplog: pytest.LogCaptureFixture, words: str, times: int = 1) -> None:
    async with asyncio.timeout(20):
        while len(told(caplog, words)) < times:  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.01)


async def test_an_outage_with_many_attempts_is_two_lines_and_none_is_lost(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with holding(bench, caplog, lease=6.0) as go_on:
        bench.coordinator.stop()
        await until_told(caplog, "the coordinator does not serve")
        await asyncio.sleep(2.5)  # renewals are due, and fail
        bench.coordinator.start()
        await until_told(caplog, "the coordinator serves again")
        go_on.set()
        await bench.coordinator.until_reported(*(f"t{number}" for number in range(MANY)))

    begun, ended = (
        told(caplog, "the coordinator does not serve; trying again"),
        told(caplog, "the coordinator serves again"),
    )
    assert (len(begun), len(ended)) == (1, 1)
    assert vars(begun[0])["attempts_held"] == MANY
    assert vars(begun[0])["address"] == bench.coordinator.address
    assert 0 < vars(begun[0])["first_lease_ends_in_seconds"] <= 6
    assert "no attempt is lost before its lease has run out" in vars(begun[0])["meanwhile"]
    assert (vars(ended[0])["attempts_kept"], vars(ended[0])["attempts_lost"]) == (MANY, 0)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        begun[0].getMessage()
    ]


async def test_attempts_that_an_outage_costs_are_named_and_counted(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with holding(bench, caplog, lease=1.0):
        bench.coordinator.stop()
        await until_told(caplog, "lease lost: it ran out unanswered; its handler is stopped", MANY)
        bench.coordinator.start()
        await until_told(caplog, "the coordinator serves again")

    lost = told(caplog, "lease lost")
    assert {vars(record)["task_id"] for record in lost} == {f"t{number}" for number in range(MANY)}
    assert len(lost) == MANY
    (ended,) = told(caplog, "the coordinator serves again")
    assert (vars(ended)["attempts_kept"], vars(ended)["attempts_lost"]) == (0, MANY)


async def test_a_worker_without_work_says_so_too(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="headway")
    bench.registry.handler("run")(nothing)

    async with bench.worker():
        await bench.coordinator.until(lambda: bool(bench.coordinator.attending))
        bench.coordinator.stop()
        await until_told(caplog, "the coordinator does not serve")
        bench.coordinator.start()
        bench.dispatch("t1", "run")
        await bench.coordinator.until_reported("t1")
        await until_told(caplog, "the coordinator serves again")

    assert [len(told(caplog, f"the coordinator {words}")) for words in ("does not serve", "serves again")] == [1, 1]


async def test_calls_that_fail_now_and_then_are_one_outage(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="headway")
    bench.registry.handler("run")(nothing)
    bench.coordinator.script.aborts["lease"].extend([grpc.StatusCode.RESOURCE_EXHAUSTED] * 3)
    bench.coordinator.script.aborts["report"].extend([grpc.StatusCode.UNAVAILABLE] * 3)

    async with bench.worker():
        for number in range(5):
            bench.dispatch(f"t{number}", "run")
            await bench.coordinator.until_reported(f"t{number}")
        await until_told(caplog, "the coordinator serves again")

    assert len(told(caplog, "the coordinator does not serve")) == 1
    assert len(told(caplog, "the coordinator serves again")) == 1


async def test_a_redis_that_is_away_is_two_lines(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="headway")
    bench.registry.handler("run")(nothing)

    async with bench.worker():
        await asyncio.to_thread(bench.blocked_reader)
        bench.redis.config_set("maxclients", 1)
        bench.redis.client_kill_filter(_type="normal", skipme=True)
        await until_told(caplog, "Redis does not serve")
        await asyncio.sleep(0.5)
        bench.redis.config_set("maxclients", 10_000)
        bench.dispatch("t1", "run")
        await bench.coordinator.until_reported("t1")
        await until_told(caplog, "Redis serves again")

    assert len(told(caplog, "Redis does not serve; trying again")) == 1
    assert len(told(caplog, "Redis serves again")) == 1
