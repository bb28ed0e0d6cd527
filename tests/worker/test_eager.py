"""A next task that comes with the answer to a report, past the queue."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import grpc
import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.worker import Context, Final
from headway.worker._coordinator import Coordinator
from tests.worker.conftest import Bench, nothing
from tests.worker.scripted_coordinator import ScriptedCoordinator

Answer = Callable[[tasks_pb2.ReportItem], tasks_pb2.ReportResult]

SUCCESSORS = {"t1": "t2", "t2": "t3"}


def granting(coordinator: ScriptedCoordinator, successors: dict[str, str]) -> Answer:
    """Answer reports of these tasks with the task that follows, whether or not they ask."""

    def answer(item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        following = successors.get(item.task_id)
        return coordinator.accept(item) if following is None else coordinator.grant_along(following)

    return answer


@pytest.fixture
def ran(bench: Bench) -> list[str]:
    """A handler "run" that notes its input, and tasks of which each is followed by the next: t1, t2, t3."""
    inputs: list[str] = []

    @bench.registry.handler("run")
    async def run(name: str) -> None:
        inputs.append(name)

    for task in ("t1", "t2", "t3"):
        bench.coordinator.offer(task, "run", task)
    bench.coordinator.script.report = granting(bench.coordinator, SUCCESSORS)
    return inputs


def asked(bench: Bench) -> dict[str, str]:
    """The grant keys that reports asked with, by task."""
    return {item.task_id: item.next_grant_key for item in bench.coordinator.reports}


async def test_a_chain_of_next_tasks_runs_in_one_slot_without_the_queue(bench: Bench, ran: list[str]) -> None:
    bench.publish("t1")
    bench.dispatch("waiting", "run", "waiting")
    async with bench.worker(concurrency=1):
        await bench.coordinator.until_reported("waiting")

    assert ran == ["t1", "t2", "t3", "waiting"]
    assert [item.task_id for item in bench.coordinator.leases] == ["t1", "waiting"]
    assert [item.task_id for item in bench.coordinator.reports] == ran
    assert bench.coordinator.served == {("default", "default")}
    assert (bench.left(), bench.pending()) == (0, 0)


async def test_each_report_of_a_success_asks_with_a_grant_key_of_its_own(bench: Bench, ran: list[str]) -> None:
    bench.publish("t1")
    async with bench.worker():
        await bench.coordinator.until_reported("t3")

    keys = [item.grant_key for item in bench.coordinator.leases] + list(asked(bench).values())
    assert len(ran) == 3
    assert len(set(keys)) == 4
    assert all(0 < len(key) <= 100 for key in keys)


async def test_a_repeated_report_asks_with_the_same_key_and_its_next_task_runs_once(
    bench: Bench, ran: list[str]
) -> None:
    bench.coordinator.script.aborts["report"].extend([grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED])

    def recorded_already(item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        result = granting(bench.coordinator, {"t1": "t2"})(item)
        result.answer = tasks_pb2.REPORT_ANSWER_DUPLICATE
        return result

    bench.coordinator.script.report = recorded_already
    bench.publish("t1")
    async with bench.worker():
        await bench.coordinator.until_reported("t2")

    assert [item.task_id for item in bench.coordinator.reports] == ["t1", "t1", "t1", "t2"]
    assert len({item.next_grant_key for item in bench.coordinator.reports[:3]}) == 1
    assert ran == ["t1", "t2"]
    assert bench.left() == 0


async def test_a_next_task_that_comes_when_the_drain_has_begun_is_released(bench: Bench, ran: list[str]) -> None:
    drains: list[asyncio.Event] = []
    loop = asyncio.get_running_loop()

    async def begin() -> None:
        drains[0].set()

    def grant_in_drain(item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
        return granting(bench.coordinator, SUCCESSORS)(item)

    bench.coordinator.script.report = grant_in_drain
    bench.publish("t1")
    async with bench.worker(drained_within=5) as drain:
        drains.append(drain)
        await bench.coordinator.until_reported("t2")

    assert bench.coordinator.report_of("t2").HasField("released")
    assert ran == ["t1"]
    assert bench.left() == 0


async def test_nothing_is_asked_for_while_draining(bench: Bench) -> None:
    started = asyncio.Event()
    may_end = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        started.set()
        await may_end.wait()

    bench.dispatch("t1", "wait")
    async with bench.worker() as drain:
        await started.wait()
        drain.set()
        may_end.set()
        await bench.coordinator.until_reported("t1")

    assert asked(bench) == {"t1": ""}


async def test_without_eager_nothing_is_asked_for_and_the_slot_is_free_when_the_handler_ends(bench: Bench) -> None:
    may_answer = threading.Event()
    bench.registry.handler("run")(nothing)
    bench.dispatch("t1", "run")
    bench.dispatch("t2", "run")

    def slowly(item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        may_answer.wait(10)
        return bench.coordinator.accept(item)

    bench.coordinator.script.report = slowly
    async with bench.worker(concurrency=1, settings={"eager": False}):
        # The first report is not answered yet, and the second task runs.
        await bench.coordinator.until_reported("t1", "t2")
        may_answer.set()

    assert asked(bench) == {"t1": "", "t2": ""}


async def test_with_eager_the_slot_is_kept_until_the_report_is_answered(bench: Bench) -> None:
    may_answer = threading.Event()
    bench.registry.handler("run")(nothing)
    bench.coordinator.lease_seconds = 0.6  # renewed every 0.2 s: the clock of this test
    bench.dispatch("t1", "run")
    bench.dispatch("t2", "run")

    def slowly(item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        may_answer.wait(10)
        return bench.coordinator.accept(item)

    bench.coordinator.script.report = slowly
    async with bench.worker(concurrency=1):
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 2)
        assert [item.task_id for item in bench.coordinator.leases] == ["t1"]
        may_answer.set()
        await bench.coordinator.until_reported("t2")


async def test_a_report_names_no_more_queues_than_the_contract_allows(coordinator: ScriptedCoordinator) -> None:
    queues = [f"q{number}" for number in range(1001)]
    calling = Coordinator(coordinator.address, owner="me", namespace="default", queues=queues, timeout=10)

    await calling.report([])
    await calling.close()

    assert coordinator.served == {("default", *queues[:1000])}


async def test_no_more_handlers_run_than_there_are_slots(bench: Bench) -> None:
    running = 0
    most = 0

    @bench.registry.handler("run")
    async def run(_: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    chains = [[f"c{chain}-{step}" for step in range(4)] for chain in range(5)]
    successors = {task: following for chain in chains for task, following in itertools.pairwise(chain)}
    for chain in chains:
        for task in chain:
            bench.coordinator.offer(task, "run")
        bench.publish(chain[0])
    bench.coordinator.script.report = granting(bench.coordinator, successors)
    for number in range(20):
        bench.dispatch(f"t{number}", "run")
    async with bench.worker(concurrency=2):
        await bench.coordinator.until(lambda: len(bench.coordinator.reports) == 40)

    assert most == 2
    assert len({item.task_id for item in bench.coordinator.reports}) == 40
    assert bench.left() == 0


async def test_a_next_task_whose_lease_ran_out_on_its_way_is_not_run_and_its_slot_is_free(
    bench: Bench, ran: list[str]
) -> None:
    def too_late(item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        result = granting(bench.coordinator, {"t1": "t2"})(item)
        if result.HasField("next"):
            result.next.grant.lease.FromMilliseconds(200)
            threading.Event().wait(0.3)  # the lease's own clock is what this is about
        return result

    bench.coordinator.script.report = too_late
    bench.publish("t1")
    async with bench.worker(concurrency=1):
        await bench.coordinator.until_reported("t1")
        bench.dispatch("t9", "run", "t9")
        await bench.coordinator.until_reported("t9")

    assert ran == ["t1", "t9"]
    assert {item.task_id for item in bench.coordinator.reports} == {"t1", "t9"}
    assert (bench.left(), bench.pending()) == (0, 0)


async def test_a_next_task_that_cannot_be_taken_harms_only_itself(bench: Bench, ran: list[str]) -> None:
    def poisoned(item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        result = granting(bench.coordinator, {"t1": "t2"})(item)
        if result.HasField("next"):
            result.next.grant.lease.seconds = 2**62  # no duration
        return result

    bench.coordinator.script.report = poisoned
    bench.publish("t1")
    async with bench.worker(concurrency=1):
        await bench.coordinator.until_reported("t1")
        bench.dispatch("t9", "run", "t9")
        await bench.coordinator.until_reported("t9")

    assert ran == ["t1", "t9"]
    assert (bench.left(), bench.pending()) == (0, 0)


def failing(_: Any) -> None:
    raise Final("no")


@pytest.mark.parametrize("handler", ["fail", "nobody.has.it"])
async def test_a_failure_asks_for_nothing_and_what_comes_unasked_is_not_run(
    bench: Bench, ran: list[str], handler: str
) -> None:
    bench.registry.handler("fail")(failing)
    bench.coordinator.offer("t1", handler)
    bench.publish("t1")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")
        bench.dispatch("t9", "run", "t9")
        await bench.coordinator.until_reported("t9")

    assert asked(bench)["t1"] == ""
    assert ran == ["t9"]
    assert bench.left() == 0


async def test_a_handler_that_was_cancelled_asks_for_nothing(bench: Bench) -> None:
    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        await asyncio.Event().wait()

    def cancelling(item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
        result = bench.coordinator.extend(item)
        result.cancel = True
        return result

    bench.coordinator.lease_seconds = 0.6
    bench.coordinator.script.renew = cancelling
    bench.dispatch("t1", "wait")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").HasField("cancelled")
    assert asked(bench) == {"t1": ""}


async def test_a_success_that_is_refused_gives_its_slot_back_and_its_failure_asks_for_nothing(bench: Bench) -> None:
    may_answer = threading.Event()
    bench.registry.handler("run")(nothing)
    bench.dispatch("t1", "run")
    bench.dispatch("t2", "run")

    def refuse_first(item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        if item.task_id != "t1":
            return bench.coordinator.accept(item)
        if item.HasField("succeeded"):
            refusal = tasks_pb2.Refusal(reason="OUTPUT_TOO_DEEP", message="too deep")
            return tasks_pb2.ReportResult(answer=tasks_pb2.REPORT_ANSWER_REFUSED, refusal=refusal)
        may_answer.wait(10)
        return bench.coordinator.accept(item)

    bench.coordinator.script.report = refuse_first
    async with bench.worker(concurrency=1):
        await bench.coordinator.until_reported("t2")
        may_answer.set()

    assert [item.next_grant_key != "" for item in bench.coordinator.reports if item.task_id == "t1"] == [True, False]
    assert bench.left() == 0


async def test_the_short_lease_of_a_next_task_is_renewed_every_third_of_it(bench: Bench, ran: list[str]) -> None:
    may_end = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        await may_end.wait()

    bench.coordinator.offer("t1", "run", "t1")
    bench.coordinator.lease_seconds = 0.6
    bench.coordinator.offer("t2", "wait")
    bench.publish("t1")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 4)
        may_end.set()
        await bench.coordinator.until_reported("t3")

    assert {item.task_id for item in bench.coordinator.renewals} == {"t2"}
    assert bench.coordinator.report_of("t2").HasField("succeeded")
    assert ran == ["t1", "t3"]


@pytest.mark.parametrize("answer", [tasks_pb2.RENEW_ANSWER_LEASE_LOST, tasks_pb2.RENEW_ANSWER_BUSY])
async def test_a_next_task_whose_lease_is_lost_stops_and_touches_no_queue(
    bench: Bench, ran: list[str], caplog: pytest.LogCaptureFixture, answer: tasks_pb2.RenewAnswer
) -> None:
    stopped = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any, context: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            assert context.cancelled
            stopped.set()

    bench.coordinator.lease_seconds = 0.5
    bench.coordinator.offer("t2", "wait")
    bench.coordinator.script.renew = lambda _: tasks_pb2.RenewResult(answer=answer)
    bench.publish("t1")
    async with bench.worker(concurrency=1):
        await stopped.wait()
        bench.dispatch("t9", "run", "t9")
        await bench.coordinator.until_reported("t9")

    assert ran == ["t1", "t9"]
    assert {item.task_id for item in bench.coordinator.reports} == {"t1", "t9"}
    assert (bench.left(), bench.pending()) == (0, 0)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_next_task_that_outlasts_the_drain_is_left_to_its_lease(bench: Bench, ran: list[str]) -> None:
    started = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    bench.coordinator.offer("t2", "wait")
    bench.publish("t1")
    async with bench.worker(settings={"drain_timeout": timedelta(seconds=1)}, drained_within=5):
        await started.wait()

    assert ran == ["t1"]
    assert {item.task_id for item in bench.coordinator.reports} == {"t1"}
    assert (bench.left(), bench.pending()) == (0, 0)
