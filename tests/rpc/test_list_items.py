"""Lists of leases, renewals, reports and timers: each item has its own answer, and a bad one harms no other."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from headway.api.runs.v1 import runs_pb2 as runs
from headway.api.tasks.v1 import tasks_pb2 as tasks
from headway.api.timers.v1 import timers_pb2 as timers
from tests.rpc.world import ONE, TWO, Dispatch, World

MIB = 1 << 20
UNKNOWN = "0123456789abcdef0123456789ab0000"


async def held(world: World, source: str = ONE) -> Dispatch:
    await world.first.deploy(source)
    dispatch = await world.dispatch(await world.first.start(source.split()[1]))
    await world.first.grant(dispatch)
    return dispatch


async def test_malformed_leases_are_refused_one_by_one(world: World) -> None:
    await world.first.deploy(ONE)
    good = await world.dispatch(await world.first.start("one"))
    numbers = count()

    def item(task_id: str = good.task_id, attempt: int = 1, key: str | None = None) -> tasks.LeaseItem:
        return tasks.LeaseItem(task_id=task_id, attempt=attempt, grant_key=f"{next(numbers)}" if key is None else key)

    items = [
        item("nonsense"),
        item(f"{good.run_id}:"),
        item(f"{good.run_id}:\x00"),
        item(f"{good.run_id}:nowhere"),
        item(f"{UNKNOWN}:work"),
        item(key=""),
        item(key="k" * 101),
        item(key="\x00"),
        item(attempt=-5),
        item(attempt=(1 << 63) - 1),
        item(),
    ]

    results = (await world.first.tasks.Lease(tasks.LeaseRequest(owner="w", items=items))).results

    assert [result.refusal.reason for result in results] == ["TASK_NOT_FOUND"] * 5 + ["INVALID_ARGUMENT"] * 3 + [""] * 3
    assert {result.refusal.metadata["field"] for result in results[5:8]} == {"grant_key"}
    assert [result.answer for result in results[8:]] == [
        tasks.LEASE_ANSWER_STALE_ATTEMPT,
        tasks.LEASE_ANSWER_STALE_ATTEMPT,
        tasks.LEASE_ANSWER_GRANTED,
    ]


async def test_malformed_renewals_are_refused_one_by_one(world: World) -> None:
    good = await held(world)
    ids = ["", "x:y", f"{good.run_id}:nowhere", f"{UNKNOWN}:work", good.task_id]

    response = await world.first.tasks.Renew(
        tasks.RenewRequest(owner="w1", items=[tasks.RenewItem(task_id=task_id, attempt=1) for task_id in ids])
    )

    assert [result.refusal.reason for result in response.results] == ["TASK_NOT_FOUND"] * 4 + [""]
    assert response.results[4].answer == tasks.RENEW_ANSWER_RENEWED


async def test_malformed_reports_are_refused_one_by_one_before_anything_is_written(world: World) -> None:
    good = await held(world)
    done = tasks.Succeeded(output=b"1")

    def item(**changed: Any) -> tasks.ReportItem:
        fields: dict[str, Any] = {"task_id": good.task_id, "attempt": 1, "succeeded": done}
        return tasks.ReportItem(**(fields | changed))

    items = [
        item(task_id="nonsense"),
        item(task_id=f"{good.run_id}:no\x00where"),
        item(attempt=0),
        item(attempt=-1),
        tasks.ReportItem(task_id=good.task_id, attempt=1),
        tasks.ReportItem(task_id=good.task_id, attempt=1, failed=tasks.Failed(retry_after=timedelta(seconds=-1))),
        tasks.ReportItem(task_id=good.task_id, attempt=1, failed=tasks.Failed(retry_after=timedelta(days=9_999))),
        item(succeeded=tasks.Succeeded(output=b"x" * (MIB + 1))),
        item(succeeded=tasks.Succeeded(output=b"{")),
        item(succeeded=tasks.Succeeded(output=b'"\\u0000"')),
        item(succeeded=tasks.Succeeded(output=b"[1234567890123456789012]")),
        item(succeeded=tasks.Succeeded(output=b"[" * 200 + b"]" * 200)),
        tasks.ReportItem(task_id=good.task_id, attempt=1, failed=tasks.Failed(details=b"[]")),
        tasks.ReportItem(task_id=good.task_id, attempt=1, failed=tasks.Failed(details=b'"' + b"x" * 16_384 + b'"')),
    ]

    answers = await world.first.report("w1", *items)

    assert answers == [
        *["TASK_NOT_FOUND"] * 2,
        *["INVALID_ARGUMENT"] * 5,
        "PAYLOAD_TOO_LARGE",
        *["INVALID_PAYLOAD"] * 5,
        "PAYLOAD_TOO_LARGE",
    ]
    assert await world.one("SELECT count(*) FROM run_events") == 1
    assert await world.first.succeed(good) == "ACCEPTED"


async def test_the_largest_payload_passes_and_comes_back_whole(world: World) -> None:
    largest = b'"' + b"x" * (MIB - 2) + b'"'
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(
        (await world.first.runs.Start(runs.StartRequest(workflow="one", input=largest, request_id=str(uuid4())))).run_id
    )

    grant = await world.first.grant(dispatch)
    item = tasks.ReportItem(task_id=dispatch.task_id, attempt=1, succeeded=tasks.Succeeded(output=largest))

    assert grant.input == largest
    assert await world.first.report("w1", item) == ["ACCEPTED"]
    shown = await world.first.get(dispatch.run_id)
    assert shown.run.input == largest
    assert shown.tasks[0].output == b""  # over what is shown with its run


async def test_a_handlers_error_is_cut_and_its_nuls_are_replaced(world: World) -> None:
    good = await held(world)

    answer = await world.first.fail(
        good,
        type="T\x00" + "y" * 500,
        message="m\x00" + "y" * 10_000,
        trace="t\x00" + "y" * 100_000,
        details=b'{"code": 7}',
        failure_class=77,
        final=True,
    )

    assert answer == "ACCEPTED"
    error = (await world.first.task(good.run_id, "work")).error
    assert [len(text.encode()) for text in (error.type, error.message, error.trace)] == [200, 4_096, 16_384]
    assert (error.type[:2], error.message[:2], error.trace[:2]) == ("T\ufffd", "m\ufffd", "t\ufffd")
    assert (error.failure_class, error.details) == ("exec_failed", b'{"code":7}')


@pytest.mark.parametrize("trace", ["\x00", "nonsense", "00-" + "z" * 32 + "-" + "0" * 16 + "-01", "x" * 100_000])
async def test_a_trace_that_is_none_never_makes_a_request_fail(trace: str, world: World) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two", traceparent=trace)
    dispatch = await world.dispatch(run_id)
    lease = tasks.LeaseItem(task_id=dispatch.task_id, attempt=1, grant_key="k", traceparent=trace)

    granted = (await world.first.tasks.Lease(tasks.LeaseRequest(owner="w", items=[lease]))).results[0]
    report = tasks.ReportItem(
        task_id=dispatch.task_id, attempt=1, succeeded=tasks.Succeeded(output=b"1"), traceparent=trace
    )

    assert granted.grant.traceparent == ""
    assert await world.first.report("w", report) == ["ACCEPTED"]
    assert await world.one("SELECT trace FROM outbox") == ""


async def test_a_trace_passes_through_untouched_when_tracing_is_off(world: World) -> None:
    await world.first.deploy(ONE)
    trace = f"00-{'a' * 32}-{'b' * 16}-01"

    await world.first.start("one", traceparent=trace)

    assert await world.one("SELECT trace FROM outbox") == trace


async def test_timers_that_name_nothing_are_answered_item_by_item(world: World) -> None:
    good = await held(world)
    answers = await world.first.fire(
        timers=[
            timers.Timer(run_id="nonsense", path="", kind="wait", attempt=0),
            timers.Timer(run_id=good.run_id, path="\x00", kind="wait", attempt=1),
            timers.Timer(run_id=good.run_id, path="work", kind="\x00", attempt=1),
            timers.Timer(run_id=good.run_id, path="work", kind="tea", attempt=1),
            timers.Timer(run_id=good.run_id, path="nowhere", kind="wait", attempt=-1),
            timers.Timer(run_id=UNKNOWN, path="", kind="run_deadline", attempt=0),
        ],
        leases=[
            timers.ExpiredLease(run_id="nonsense", path="work", attempt=1),
            timers.ExpiredLease(run_id=good.run_id, path="a\x00b", attempt=1),
            timers.ExpiredLease(run_id=good.run_id, path="nowhere", attempt=1),
            timers.ExpiredLease(run_id=good.run_id, path="work", attempt=7),
        ],
    )

    assert answers == [*["FAILED"] * 3, *["STALE"] * 3, *["FAILED"] * 2, *["STALE"] * 2]
    assert await world.one("SELECT count(*) FROM run_events") == 1
