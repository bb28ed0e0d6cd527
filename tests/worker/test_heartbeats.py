"""What a handler gives to `heartbeat`, and what of it renewals and reports take along."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.worker import Context, InvalidCheckpoint
from headway.worker._pulse import Pulse
from tests.worker.conftest import Bench


async def test_the_next_renewal_takes_a_heartbeat_along_and_what_was_told_is_not_told_again(bench: Bench) -> None:
    @bench.registry.handler("work")
    async def work(_: Any, context: Context) -> None:
        context.heartbeat(percent=25, message="a quarter", checkpoint={"page": 1})
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) > 1)
        context.heartbeat(percent=50, message="a quarter")
        told = len(bench.coordinator.renewals)
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) > told + 2)

    bench.coordinator.lease_seconds = 0.3
    bench.dispatch("t1", "work")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    first, second = [item.beat for item in bench.coordinator.renewals if item.HasField("beat")]
    assert (first.percent, first.message, first.checkpoint) == (25, "a quarter", b'{"page":1}')
    assert first.age.ToTimedelta() < timedelta(seconds=1)
    assert second.percent == 50
    assert not second.HasField("message")
    assert second.checkpoint == b""
    assert bench.coordinator.report_of("t1").checkpoint == b""


async def test_a_heartbeat_that_no_renewal_could_tell_goes_with_the_next(bench: Bench) -> None:
    @bench.registry.handler("work")
    async def work(_: Any, context: Context) -> None:
        context.heartbeat(checkpoint=1)
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) > 2)

    def busy_at_first(item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
        if len(bench.coordinator.renewals) < 2:
            return tasks_pb2.RenewResult(answer=tasks_pb2.RENEW_ANSWER_BUSY)
        return bench.coordinator.extend(item)

    bench.coordinator.script.renew = busy_at_first
    bench.coordinator.lease_seconds = 1.5
    bench.dispatch("t1", "work")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    told = [item.beat.checkpoint for item in bench.coordinator.renewals]
    assert told[:2] == [b"1", b"1"]
    assert told[2] == b""


async def test_a_failure_takes_the_checkpoint_along_that_no_renewal_told(bench: Bench) -> None:
    @bench.registry.handler("work")
    def work(_: Any, context: Context) -> None:
        context.heartbeat(checkpoint=[1])
        context.heartbeat(checkpoint=[1, 2])
        raise KeyError

    bench.dispatch("t1", "work")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").checkpoint == b"[1,2]"


async def test_a_handler_finds_what_an_earlier_attempt_left(bench: Bench) -> None:
    found: list[object] = []

    @bench.registry.handler("work")
    def work(_: Any, context: Context) -> None:
        found.append(context.checkpoint)

    bench.dispatch("t1", "work", checkpoint=b'{"page": 7}')
    bench.dispatch("t2", "work")
    async with bench.worker():
        await bench.coordinator.until_reported("t1", "t2")

    assert sorted(map(str, found)) == ["None", "{'page': 7}"]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"percent": 101}, "ValueError"),
        ({"percent": float("nan")}, "ValueError"),
        ({"checkpoint": object()}, "InvalidCheckpoint"),
        ({"checkpoint": "x" * 40_000}, "InvalidCheckpoint"),
    ],
)
async def test_what_cannot_be_told_fails_the_handler(bench: Bench, fields: dict[str, Any], error: str) -> None:
    @bench.registry.handler("work")
    async def work(_: Any, context: Context) -> None:
        context.heartbeat(**fields)
        await asyncio.sleep(0)

    bench.dispatch("t1", "work")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").failed.type == error


def test_a_heartbeat_with_nothing_new_is_no_progress() -> None:
    pulse = Pulse()
    pulse.beat(percent=None, message=None, checkpoint=None)
    beat, number = pulse.untold()
    assert beat is not None
    assert not beat.HasField("progress_age")

    pulse.tell(number)
    pulse.beat(percent=10, message=None, checkpoint=None)
    progressed, _ = pulse.untold()
    pulse.beat(percent=10, message=None, checkpoint=None)
    repeated, _ = pulse.untold()

    assert progressed is not None
    assert repeated is not None
    assert repeated.progress_age.ToTimedelta() >= progressed.progress_age.ToTimedelta()
    assert repeated.percent == 10  # not told yet


def test_threads_may_give_heartbeats_while_they_are_taken() -> None:
    pulse = Pulse()
    threads = [
        threading.Thread(
            target=lambda: [pulse.beat(percent=n % 100, message=str(n), checkpoint=b"1") for n in range(500)]
        )
        for _ in range(4)
    ]

    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        beat, number = pulse.untold()
        assert beat is None or number > 0
        pulse.tell(number)
    for thread in threads:
        thread.join()

    pulse.tell(pulse.untold()[1])
    assert pulse.untold() == (None, 2_000)


def test_an_invalid_checkpoint_is_final() -> None:
    assert InvalidCheckpoint("no").final
