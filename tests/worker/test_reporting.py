"""What becomes of a handler's end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import grpc
import orjson
import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.worker import Final, Retryable, _reporting
from headway.worker._coordinator import Coordinator
from headway.worker._serving import Serving
from tests.worker.conftest import Bench

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class CardDeclined(Final):
    pass


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(error: BaseException) -> Callable[[Any], Any]:
    def handler(_: Any) -> None:
        raise error

    return handler


def returning(output: object) -> Callable[[Any], Any]:
    async def handler(_: Any) -> object:
        return output

    return handler


async def run_one(bench: Bench, function: Callable[[Any], Any]) -> tasks_pb2.ReportItem:
    bench.registry.handler("run")(function)
    bench.dispatch("t1", "run")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")
    assert bench.left() == 0
    return bench.coordinator.report_of("t1")


async def test_a_typed_error_carries_its_type_message_details_and_finality(bench: Bench) -> None:
    error = CardDeclined("no funds", details={"status": 402, "card": {"last": "4242"}})

    failed = (await run_one(bench, raising(error))).failed

    assert (failed.type, failed.message, failed.final) == ("CardDeclined", "no funds", True)
    assert orjson.loads(failed.details) == {"status": 402, "card": {"last": "4242"}}
    assert failed.failure_class == tasks_pb2.FAILURE_CLASS_EXEC_FAILED


async def test_a_retryable_error_may_name_its_type(bench: Bench) -> None:
    failed = (await run_one(bench, raising(Retryable("try later", type="Overloaded")))).failed

    assert (failed.type, failed.message, failed.final) == ("Overloaded", "try later", False)


@pytest.mark.parametrize(("after", "seconds"), [(30, 30.0), (0.25, 0.25), (-1, 0.0), (1e12, 3_650 * 86_400.0)])
async def test_a_retryable_error_may_ask_for_a_pause(bench: Bench, after: float, seconds: float) -> None:
    failed = (await run_one(bench, raising(Retryable("try later", after=after)))).failed

    assert failed.HasField("retry_after")
    assert failed.retry_after.ToTimedelta() == timedelta(seconds=seconds)


async def test_an_error_that_asks_for_no_pause_leaves_it_to_the_policy(bench: Bench) -> None:
    failed = (await run_one(bench, raising(Retryable("try later")))).failed

    assert failed.message == "try later"
    assert not failed.HasField("retry_after")


async def test_any_other_exception_is_retryable_and_carries_its_class_message_and_trace(bench: Bench) -> None:
    failed = (await run_one(bench, raising(KeyError("order_id")))).failed

    assert (failed.type, failed.message, failed.final) == ("KeyError", "'order_id'", False)
    assert "in handler" in failed.trace
    assert "_running.py" not in failed.trace


async def test_what_the_worker_itself_finds_wrong_carries_no_trace_of_its_inner_files(bench: Bench) -> None:
    failed = (await run_one(bench, lambda _: object())).failed

    assert (failed.type, failed.trace) == ("InvalidOutput", "")


async def test_a_failure_that_a_handler_raises_on_purpose_shows_where(bench: Bench) -> None:
    failed = (await run_one(bench, raising(Final("no")))).failed

    assert "in handler" in failed.trace


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), KeyboardInterrupt(), UnprintableError()])
async def test_whatever_a_handler_raises_fails_its_task_and_never_its_worker(
    bench: Bench, error: BaseException
) -> None:
    failed = (await run_one(bench, raising(error))).failed

    assert failed.type == type(error).__name__


class FailureOfNoText(Final):
    def __init__(self) -> None:
        super().__init__("no")
        self.message = 7  # what a careless subclass does


@pytest.mark.parametrize("error", [GeneratorExit(), SystemExit(3), KeyboardInterrupt(), FailureOfNoText()])
async def test_whatever_an_async_handler_raises_is_reported_and_its_lease_renewed_no_more(
    bench: Bench, error: BaseException
) -> None:
    async def handler(_: Any) -> None:
        raise error

    failed = (await run_one(bench, handler)).failed

    assert (failed.type, failed.failure_class) == (type(error).__name__, tasks_pb2.FAILURE_CLASS_EXEC_FAILED)


async def test_a_bug_in_finishing_stops_the_renewal_and_leaves_the_message(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()

    def broken(*_: object) -> None:
        reached.set()
        raise RuntimeError("a bug")

    monkeypatch.setattr(Serving, "_handler_ended", broken)
    bench.registry.handler("run")(returning(None))
    bench.dispatch("t1", "run")
    async with bench.worker(settings={"drain_timeout": timedelta(seconds=10)}, drained_within=5):
        await asyncio.wait_for(reached.wait(), 10)
        # The drain ends at once: nothing is held any more.

    assert (bench.coordinator.reports, bench.pending()) == ([], 1)


async def test_a_long_trace_is_cut_to_16_kib_and_keeps_its_end(bench: Bench) -> None:
    failed = (await run_one(bench, raising(ValueError("é" * 40_000 + "the end")))).failed

    assert 16_000 < len(failed.trace.encode()) <= 16 * 1024
    assert failed.trace.endswith("the end\n")
    assert len(failed.message.encode()) <= 16 * 1024


async def test_texts_that_protobuf_or_the_database_cannot_hold_are_replaced(bench: Bench) -> None:
    failed = (await run_one(bench, raising(Final("a\0b\ud800c", details={"key": "\0"})))).failed

    assert failed.message == "a\ufffdb?c"
    assert "details_dropped" in orjson.loads(failed.details)


async def test_details_over_their_limit_are_replaced_by_why(bench: Bench) -> None:
    failed = (await run_one(bench, raising(Final("no", details={"big": "x" * 20_000})))).failed

    assert failed.message == "no"
    assert list(orjson.loads(failed.details)) == ["details_dropped"]


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ({"a": [1, math.nan]}, "output.a[1] is nan, which JSON cannot hold"),
        ({"a": math.inf}, "output.a is inf, which JSON cannot hold"),
        ({"a": None, "n": 2**63}, "output.n is an integer beyond 64 bits"),
        (-(2**63) - 1, "output is an integer beyond 64 bits"),
        (["a\0b"], "output[0] contains a NUL character"),
        ({"k\0": 1}, "a key of output contains a NUL character"),
        ({1: "one"}, "output has a key that is not text: 1"),
        (object(), "output is not JSON: Type is not JSON serializable: object"),
        ("x" * 1024 * 1024, "the output has 1048578 bytes as JSON; the limit is 1048576"),
        ("\ud800", "output is not JSON"),
    ],
)
async def test_output_that_cannot_be_stored_is_a_final_failure_that_names_the_place(
    bench: Bench, output: object, fault: str
) -> None:
    failed = (await run_one(bench, returning(output))).failed

    assert failed.type == "InvalidOutput"
    assert fault in failed.message
    assert failed.final


async def test_output_that_refers_to_itself_is_a_final_failure(bench: Bench) -> None:
    output: list[Any] = []
    output.append(output)

    failed = (await run_one(bench, returning(output))).failed

    assert failed.type == "InvalidOutput"


@pytest.mark.parametrize(
    ("output", "stored"),
    [
        (None, b"null"),
        ({"null": "\\u0000"}, b'{"null":"\\\\u0000"}'),
        ([2**63 - 1, -(2**63), None], b"[9223372036854775807,-9223372036854775808,null]"),
        ((1, 2), b"[1,2]"),
    ],
)
async def test_output_at_the_edge_of_what_can_be_stored_is_stored(bench: Bench, output: object, stored: bytes) -> None:
    assert (await run_one(bench, returning(output))).succeeded.output == stored


async def test_a_refused_report_is_followed_by_a_failure_with_the_reason(bench: Bench) -> None:
    def refuse_success(item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        if not item.HasField("succeeded"):
            return bench.coordinator.accept(item)
        refusal = tasks_pb2.Refusal(reason="OUTPUT_TOO_DEEP", message="too deep")
        return tasks_pb2.ReportResult(answer=tasks_pb2.REPORT_ANSWER_REFUSED, refusal=refusal)

    bench.coordinator.script.report = refuse_success
    bench.registry.handler("run")(returning([[[]]]))
    bench.dispatch("t1", "run")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.reports) == 2)

    failed = bench.coordinator.report_of("t1").failed
    assert (failed.type, failed.message, failed.final) == ("OUTPUT_TOO_DEEP", "too deep", True)
    assert bench.left() == 0


async def test_a_report_is_repeated_until_it_is_answered(bench: Bench) -> None:
    bench.coordinator.script.aborts["report"].extend(
        [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED]
    )
    bench.registry.handler("run")(returning("kept"))
    bench.dispatch("t1", "run")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.report_calls) == 4)

    assert {item.succeeded.output for item in bench.coordinator.reports} == {b'"kept"'}
    assert bench.left() == 0


async def test_a_report_outlives_a_restart_of_the_coordinator(bench: Bench) -> None:
    started = asyncio.Event()
    ended = asyncio.Event()
    may_end = asyncio.Event()

    @bench.registry.handler("run")
    async def run(_: Any) -> str:
        started.set()
        await may_end.wait()
        ended.set()
        return "kept"

    bench.dispatch("t1", "run")
    async with bench.worker():
        await started.wait()
        await asyncio.to_thread(bench.coordinator.stop)
        may_end.set()
        await ended.wait()
        await asyncio.to_thread(bench.coordinator.start)
        await bench.coordinator.until_reported("t1")

    assert bench.left() == 0


async def test_an_undeliverable_report_leaves_its_message_unacknowledged(bench: Bench) -> None:
    bench.coordinator.lease_seconds = 0.6
    bench.coordinator.script.always_abort["report"] = grpc.StatusCode.UNAVAILABLE
    bench.coordinator.script.always_abort["renew"] = grpc.StatusCode.UNAVAILABLE
    bench.registry.handler("run")(returning("lost"))
    bench.dispatch("t1", "run")
    async with bench.worker(drained_within=5):
        await bench.coordinator.until(lambda: len(bench.coordinator.report_calls) >= 1)
        # The drain ends when the lease has: well before its own time-out.

    assert (bench.left(), bench.pending()) == (1, 1)


async def test_a_report_that_no_coordinator_takes_is_given_up_at_the_drains_deadline(bench: Bench) -> None:
    bench.coordinator.script.always_abort["report"] = grpc.StatusCode.UNAVAILABLE
    bench.registry.handler("run")(returning("lost"))
    bench.dispatch("t1", "run")
    async with bench.worker(settings={"drain_timeout": timedelta(seconds=1)}, drained_within=3):
        await bench.coordinator.until(lambda: len(bench.coordinator.report_calls) >= 1)

    assert (bench.left(), bench.pending()) == (1, 1)


async def test_a_report_refused_as_a_whole_is_not_repeated(bench: Bench) -> None:
    bench.coordinator.script.always_abort["report"] = grpc.StatusCode.INVALID_ARGUMENT
    bench.registry.handler("run")(returning("refused"))
    bench.dispatch("t1", "run")
    async with bench.worker(drained_within=5):
        await bench.coordinator.until(lambda: len(bench.coordinator.report_calls) == 1)

    assert len(bench.coordinator.report_calls) == 1
    assert bench.pending() == 1


async def test_a_report_that_an_answer_leaves_out_is_made_again_after_a_pause(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Coordinator.report
    pauses: list[float] = []

    async def cut_short(self: Coordinator, items: Sequence[tasks_pb2.ReportItem]) -> Sequence[tasks_pb2.ReportResult]:
        results = await report(self, items)
        return results if pauses else []

    async def noted(seconds: float, _drain: asyncio.Event) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(Coordinator, "report", cut_short)
    monkeypatch.setattr(_reporting, "pause", noted)
    bench.registry.handler("run")(returning(1))
    bench.dispatch("t1", "run")
    async with bench.worker(drained_within=5):
        await bench.coordinator.until(lambda: len(bench.coordinator.reports) == 2)

    assert len(pauses) == 1
    assert bench.left() == 0


async def test_a_failure_that_is_refused_as_the_result_was_is_left_to_its_lease(bench: Bench) -> None:
    refusal = tasks_pb2.Refusal(reason="MALFORMED", message="no")
    bench.coordinator.script.report = lambda _: tasks_pb2.ReportResult(
        answer=tasks_pb2.REPORT_ANSWER_REFUSED, refusal=refusal
    )
    bench.registry.handler("run")(returning("refused"))
    bench.dispatch("t1", "run", traceparent=TRACE)
    async with bench.worker(drained_within=5):
        await bench.coordinator.until(lambda: len(bench.coordinator.reports) == 2)

    assert [item.WhichOneof("outcome") for item in bench.coordinator.reports] == ["succeeded", "failed"]
    assert {item.traceparent for item in bench.coordinator.reports} == {TRACE}
    assert bench.pending() == 1


@pytest.mark.parametrize(
    "answer",
    [
        tasks_pb2.REPORT_ANSWER_DUPLICATE,
        tasks_pb2.REPORT_ANSWER_RUN_CLOSED,
        tasks_pb2.REPORT_ANSWER_STALE_ATTEMPT,
        tasks_pb2.REPORT_ANSWER_LEASE_LOST,
    ],
)
async def test_any_answer_to_a_report_settles_the_message(bench: Bench, answer: tasks_pb2.ReportAnswer) -> None:
    bench.coordinator.script.report = lambda _: tasks_pb2.ReportResult(answer=answer)

    await run_one(bench, returning(None))

    assert len(bench.coordinator.reports) == 1


async def test_a_lease_is_renewed_while_its_report_is_on_its_way(bench: Bench) -> None:
    bench.coordinator.lease_seconds = 0.45
    bench.coordinator.script.always_abort["report"] = grpc.StatusCode.RESOURCE_EXHAUSTED
    bench.registry.handler("run")(returning("kept"))
    bench.dispatch("t1", "run")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 4)
        del bench.coordinator.script.always_abort["report"]

    assert bench.left() == 0


async def test_messages_are_acknowledged_many_at_a_time(bench: Bench) -> None:
    def calls() -> int:
        return bench.redis.info("commandstats").get("cmdstat_xack", {"calls": 0})["calls"]

    bench.registry.handler("run")(returning(None))
    tasks = [f"t{number}" for number in range(60)]
    for task in tasks:
        bench.dispatch(task, "run")
    before = calls()
    async with bench.worker(concurrency=1):
        await bench.coordinator.until_reported(*tasks)

    assert bench.left() == 0
    assert calls() - before < 30


async def test_a_coordinator_that_takes_no_reports_is_asked_for_no_more_than_fits(bench: Bench) -> None:
    async def fail(_: Any) -> None:
        raise Final("no")

    bench.coordinator.script.always_abort["report"] = grpc.StatusCode.UNAVAILABLE
    bench.registry.handler("run")(fail)
    tasks = [f"t{number}" for number in range(100)]
    for task in tasks:
        bench.dispatch(task, "run")
    async with bench.worker(concurrency=4):
        await bench.coordinator.until(lambda: len(bench.coordinator.leases) >= 64)
        tries = len(bench.coordinator.report_calls)
        await bench.coordinator.until(lambda: len(bench.coordinator.report_calls) > tries)
        assert len(bench.coordinator.leases) <= 64 + 4
        del bench.coordinator.script.always_abort["report"]
        await bench.coordinator.until_reported(*tasks)

    assert bench.left() == 0
