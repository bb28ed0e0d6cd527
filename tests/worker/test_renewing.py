"""Leases are kept alive, lost and cancelled; whatever the event loop is busy with."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import grpc
import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.runtime.queues import stream_of
from headway.worker import Context
from tests.worker.conftest import Bench


def cancelling(bench: Bench) -> Callable[[tasks_pb2.RenewItem], tasks_pb2.RenewResult]:
    def answer(item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
        result = bench.coordinator.extend(item)
        result.cancel = True
        return result

    return answer


async def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(bench: Bench) -> None:
    @bench.registry.handler("burn")
    async def burn(_: Any) -> str:
        started = time.monotonic()
        # Longer than the lease, and not once yielding to the event loop.
        while time.monotonic() - started < 0.6 or len(bench.coordinator.renewals) < 4:
            pass
        return "kept"

    bench.coordinator.lease_seconds = 0.45
    bench.dispatch("t1", "burn")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").succeeded.output == b'"kept"'
    assert len(bench.coordinator.renewals) >= 4


async def test_a_lease_that_runs_out_unanswered_stops_its_handler_which_reports_nothing(bench: Bench) -> None:
    stopped_at: list[float] = []

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped_at.append(time.monotonic())

    bench.coordinator.lease_seconds = 0.5
    bench.coordinator.script.always_abort["renew"] = grpc.StatusCode.UNAVAILABLE
    dispatched_at = time.monotonic()
    bench.dispatch("t1", "wait")
    async with bench.worker(settings={"drain_timeout": timedelta(minutes=1)}, drained_within=30):
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 1)

    # The drain waited for the handler's end, and nothing but the lease ended it.
    assert stopped_at[0] - dispatched_at > 0.3
    assert bench.coordinator.reports == []
    assert bench.pending() == 1


async def test_a_renew_that_never_answers_does_not_keep_the_lease(bench: Bench) -> None:
    may_answer = threading.Event()
    stopped = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    def silent(item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
        may_answer.wait(10)
        return bench.coordinator.extend(item)

    bench.coordinator.lease_seconds = 0.5
    bench.coordinator.script.renew = silent
    bench.dispatch("t1", "wait")
    async with bench.worker():
        async with asyncio.timeout(5):
            await stopped.wait()
        may_answer.set()

    assert bench.coordinator.reports == []


async def test_a_lease_counts_from_before_the_request_so_one_that_took_longer_to_arrive_never_runs(
    bench: Bench,
) -> None:
    ran: list[Any] = []
    bench.registry.handler("run")(ran.append)

    def too_late(item: tasks_pb2.LeaseItem) -> tasks_pb2.LeaseResult:
        threading.Event().wait(0.3)  # the lease's own clock is what this is about
        return bench.coordinator.grant(item)

    bench.coordinator.lease_seconds = 0.2
    bench.coordinator.script.lease = too_late
    bench.dispatch("t1", "run")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.leases) == 1)

    assert ran == []
    assert (bench.coordinator.reports, bench.pending()) == ([], 1)


@pytest.mark.parametrize(
    "answer",
    [tasks_pb2.RENEW_ANSWER_LEASE_LOST, tasks_pb2.RENEW_ANSWER_RUN_CLOSED, tasks_pb2.RENEW_ANSWER_REFUSED],
)
async def test_a_refused_renew_stops_the_handler_which_reports_nothing(
    bench: Bench, answer: tasks_pb2.RenewAnswer
) -> None:
    stopped = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any, context: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            assert context.cancelled
            stopped.set()

    bench.coordinator.lease_seconds = 0.3
    bench.coordinator.script.renew = lambda _: tasks_pb2.RenewResult(answer=answer)
    bench.dispatch("t1", "wait")
    async with bench.worker():
        await stopped.wait()

    assert len(bench.coordinator.renewals) == 1
    assert bench.coordinator.reports == []
    assert bench.left() == 0


async def test_a_busy_renew_is_asked_again(bench: Bench) -> None:
    may_end = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        await may_end.wait()

    busy = [tasks_pb2.RenewResult(answer=tasks_pb2.RENEW_ANSWER_BUSY)] * 2
    bench.coordinator.lease_seconds = 3
    bench.coordinator.script.renew = lambda item: busy.pop() if busy else bench.coordinator.extend(item)
    bench.dispatch("t1", "wait")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) == 3)
        may_end.set()

    assert bench.coordinator.report_of("t1").HasField("succeeded")


async def test_a_cancel_flag_raises_cancelled_error_in_an_async_handler_and_is_reported(bench: Bench) -> None:
    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        await asyncio.Event().wait()

    bench.coordinator.lease_seconds = 0.6
    bench.coordinator.script.renew = cancelling(bench)
    bench.dispatch("t1", "wait")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").HasField("cancelled")
    assert bench.left() == 0


async def test_a_handler_that_finishes_although_it_was_cancelled_reports_its_result(bench: Bench) -> None:
    @bench.registry.handler("wait")
    async def wait(_: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    bench.coordinator.lease_seconds = 0.6
    bench.coordinator.script.renew = cancelling(bench)
    bench.dispatch("t1", "wait")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").succeeded.output == b'"done all the same"'


async def test_a_plain_handler_sees_the_cancel_flag_even_while_the_event_loop_is_blocked(bench: Bench) -> None:
    seen = threading.Event()

    @bench.registry.handler("poll")
    def poll(_: Any, context: Context) -> None:
        while not context.cancelled:
            pass
        seen.set()
        context.raise_if_cancelled()

    @bench.registry.handler("block")
    async def block(_: Any) -> bool:
        return seen.wait(10)  # blocks the event loop until the thread has seen the flag

    bench.coordinator.lease_seconds = 0.6
    bench.coordinator.script.renew = lambda item: (
        cancelling(bench)(item) if item.task_id == "t1" else bench.coordinator.extend(item)
    )
    bench.dispatch("t1", "poll")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.leases) == 1)
        bench.dispatch("t2", "block")
        await bench.coordinator.until_reported("t1", "t2")

    assert bench.coordinator.report_of("t1").HasField("cancelled")
    assert bench.coordinator.report_of("t2").succeeded.output == b"true"


async def test_a_cancellation_from_within_a_handler_is_a_failure_and_not_a_cancelled_task(bench: Bench) -> None:
    @bench.registry.handler("own")
    async def own(_: Any) -> None:
        raise asyncio.CancelledError

    bench.dispatch("t1", "own")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").failed.type == "CancelledError"


async def test_a_handler_that_runs_long_has_its_message_acknowledged_at_a_renew(bench: Bench) -> None:
    may_end = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        await may_end.wait()

    bench.coordinator.lease_seconds = 0.45
    bench.dispatch("t1", "wait")
    async with bench.worker(settings={"acknowledge_after": timedelta(milliseconds=200)}):
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) == 1)
        assert bench.left() == 1  # 0.15 s: not yet
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) == 4)
        assert bench.left() == 0
        may_end.set()

    assert bench.coordinator.report_of("t1").HasField("succeeded")


async def test_the_message_of_a_handler_that_has_not_run_for_long_stays(bench: Bench) -> None:
    may_end = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        await may_end.wait()

    bench.coordinator.lease_seconds = 0.45
    bench.dispatch("t1", "wait")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) == 4)
        assert bench.left() == 1
        may_end.set()

    assert bench.left() == 0


async def test_many_leases_are_renewed_in_one_call(bench: Bench) -> None:
    may_end = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        await may_end.wait()

    bench.coordinator.lease_seconds = 3
    for number in range(50):
        bench.dispatch(f"t{number}", "wait")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 50)
        may_end.set()

    assert len(bench.coordinator.renew_calls) <= 3


async def test_an_answer_to_renew_that_cannot_be_taken_ends_only_its_own_lease(bench: Bench) -> None:
    may_end = asyncio.Event()
    stopped: list[str] = []

    @bench.registry.handler("wait")
    async def wait(name: str) -> None:
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            stopped.append(name)
            may_end.set()
            raise

    def answer(item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
        result = bench.coordinator.extend(item)
        if item.task_id == "bad":
            result.lease.seconds = 2**62  # no duration
        return result

    bench.coordinator.lease_seconds = 0.6
    bench.coordinator.script.renew = answer
    for task in ("bad", "good"):
        bench.dispatch(task, "wait", task)
    async with bench.worker():
        await bench.coordinator.until_reported("good")

    assert stopped == ["bad"]
    assert {item.task_id for item in bench.coordinator.reports} == {"good"}
    assert [item.task_id for item in bench.coordinator.renewals].count("bad") == 1


async def test_a_handler_that_was_cancelled_before_its_first_step_never_runs(bench: Bench) -> None:
    ran: list[Any] = []
    bench.registry.handler("run")(ran.append)

    @bench.registry.handler("block")
    async def block(_: Any) -> None:
        # The other one is granted, and cannot begin: the event loop is busy until it is cancelled.
        bench.coordinator.wait(lambda: any(item.task_id == "t2" for item in bench.coordinator.renewals))
        threading.Event().wait(0.1)  # for the answer to arrive

    bench.coordinator.lease_seconds = 0.6
    bench.coordinator.script.renew = cancelling(bench)
    bench.coordinator.offer("t1", "block")
    bench.coordinator.offer("t2", "run")
    with bench.redis.pipeline(transaction=True) as together:
        for task in ("t1", "t2"):
            together.xadd(stream_of("default/default"), bench.message(task))
        together.execute()
    async with bench.worker():
        await bench.coordinator.until_reported("t1", "t2")

    assert len(bench.coordinator.lease_calls) == 1
    assert bench.coordinator.report_of("t2").HasField("cancelled")
    assert ran == []


async def test_a_task_that_is_reported_while_its_renew_is_under_way_is_renewed_no_more(bench: Bench) -> None:
    under_way = threading.Event()
    may_end = asyncio.Event()

    @bench.registry.handler("short")
    async def short(_: Any) -> bool:
        return await asyncio.to_thread(under_way.wait, 10)

    @bench.registry.handler("long")
    async def long(_: Any) -> None:
        await may_end.wait()

    def answer(item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
        if item.task_id == "t1":
            under_way.set()
            bench.coordinator.wait(lambda: bool(bench.coordinator.reports))
            threading.Event().wait(0.1)  # for the answer to that report to arrive
        return bench.coordinator.extend(item)

    bench.coordinator.lease_seconds = 0.6
    bench.coordinator.script.renew = answer
    bench.dispatch("t1", "short")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")
        bench.dispatch("t2", "long")
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 5)
        may_end.set()

    assert [item.task_id for item in bench.coordinator.renewals].count("t1") == 1
