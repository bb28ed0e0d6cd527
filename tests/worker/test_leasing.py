"""From a message to a running handler."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import grpc
import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.runtime.backoff import Backoff
from headway.runtime.queues import stream_of
from headway.worker import Context, _leasing
from headway.worker._pace import BUSY, OUTAGE, Pauses
from tests.worker.conftest import Bench, nothing


async def test_a_dispatched_task_is_leased_run_and_reported_and_its_message_acknowledged(bench: Bench) -> None:
    @bench.registry.handler("double")
    async def double(number: int) -> dict[str, int]:
        return {"twice": number * 2}

    bench.dispatch("t1", "double", 21)
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    report = bench.coordinator.report_of("t1")
    assert report.succeeded.output == b'{"twice":42}'
    assert report.attempt == 1
    assert bench.left() == 0
    assert bench.pending() == 0


async def test_a_handler_with_a_second_parameter_gets_the_context_of_its_task(bench: Bench) -> None:
    seen: list[Context] = []

    @bench.registry.handler("look")
    async def look(_: Any, context: Context) -> None:
        seen.append(context)

    bench.dispatch("t1", "look", path="resize[12].crop", try_number=3, idempotency_key="run-1/x/0", traceparent="")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    context = seen[0]
    assert (context.run_id, context.path, context.workflow) == ("run-1", "resize[12].crop", "orders")
    assert (context.attempt, context.try_number, context.idempotency_key) == (1, 3, "run-1/x/0")
    assert not context.cancelled


async def test_plain_functions_run_in_threads_and_several_at_a_time(bench: Bench) -> None:
    together = threading.Barrier(3, timeout=10)
    loop_thread = threading.get_ident()

    @bench.registry.handler("meet")
    def meet(_: Any) -> bool:
        together.wait()
        return threading.get_ident() != loop_thread

    for number in range(3):
        bench.dispatch(f"t{number}", "meet")
    async with bench.worker():
        await bench.coordinator.until_reported("t0", "t1", "t2")

    assert {report.succeeded.output for report in bench.coordinator.reports} == {b"true"}


@pytest.mark.parametrize(
    "answer",
    [
        tasks_pb2.LEASE_ANSWER_HELD,
        tasks_pb2.LEASE_ANSWER_STALE_ATTEMPT,
        tasks_pb2.LEASE_ANSWER_RUN_CLOSED,
        tasks_pb2.LEASE_ANSWER_RUN_PAUSED,
        tasks_pb2.LEASE_ANSWER_REFUSED,
    ],
)
async def test_a_message_whose_lease_is_finally_refused_is_acknowledged_and_never_runs(
    bench: Bench, answer: tasks_pb2.LeaseAnswer
) -> None:
    ran: list[Any] = []
    bench.registry.handler("never")(ran.append)
    bench.coordinator.script.lease = lambda _: tasks_pb2.LeaseResult(answer=answer)

    bench.dispatch("t1", "never")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.leases) == 1)

    assert (ran, bench.left(), bench.pending()) == ([], 0, 0)


async def test_a_duplicate_message_asks_with_a_grant_key_of_its_own_and_is_acknowledged_when_held(bench: Bench) -> None:
    holder: list[str] = []
    may_end = asyncio.Event()

    @bench.registry.handler("hold")
    async def hold(_: Any) -> None:
        await may_end.wait()

    def one_holder(item: tasks_pb2.LeaseItem) -> tasks_pb2.LeaseResult:
        holder[:] = holder or [item.grant_key]
        if item.grant_key != holder[0]:
            return tasks_pb2.LeaseResult(answer=tasks_pb2.LEASE_ANSWER_HELD)
        return bench.coordinator.grant(item)

    bench.coordinator.script.lease = one_holder
    bench.dispatch("t1", "hold")
    bench.publish("t1")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.leases) == 2)
        may_end.set()

    assert len({item.grant_key for item in bench.coordinator.leases}) == 2
    assert len(bench.coordinator.reports) == 1
    assert bench.left() == 0


async def test_a_busy_answer_is_asked_again_with_the_same_grant_key(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    busy = [tasks_pb2.LeaseResult(answer=tasks_pb2.LEASE_ANSWER_BUSY)] * 2
    bench.coordinator.script.lease = lambda item: busy.pop() if busy else bench.coordinator.grant(item)

    bench.dispatch("t1", "run")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert len(bench.coordinator.leases) == 3
    assert len({item.grant_key for item in bench.coordinator.leases}) == 1


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED]
)
async def test_a_lease_whose_answer_was_lost_is_asked_again_with_the_same_grant_key(
    bench: Bench, code: grpc.StatusCode
) -> None:
    bench.registry.handler("run")(nothing)
    bench.coordinator.script.aborts["lease"].extend([code, code])

    bench.dispatch("t1", "run")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert len(bench.coordinator.lease_calls) == 3
    assert len({item.grant_key for item in bench.coordinator.leases}) == 1


async def test_a_lease_refused_as_a_whole_is_not_repeated_and_its_message_stays(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    bench.coordinator.script.always_abort["lease"] = grpc.StatusCode.INVALID_ARGUMENT

    bench.dispatch("t1", "run")
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.lease_calls) == 1)

    assert len(bench.coordinator.lease_calls) == 1
    assert bench.left() == 1


async def test_only_as_many_messages_are_read_as_there_are_free_slots(bench: Bench) -> None:
    may_end = asyncio.Event()

    @bench.registry.handler("hold")
    async def hold(_: Any) -> None:
        await may_end.wait()

    for number in range(5):
        bench.dispatch(f"t{number}", "hold")
    async with bench.worker(concurrency=2):
        await bench.coordinator.until(lambda: len(bench.coordinator.leases) == 2)
        assert bench.pending() == 2
        may_end.set()
        await bench.coordinator.until_reported(*(f"t{number}" for number in range(5)))

    assert bench.left() == 0


async def test_with_fewer_slots_than_queues_every_queue_gets_its_turn(bench: Bench) -> None:
    queues = ["a", "b", "c"]
    for queue in queues:
        bench.registry.handler(f"run.{queue}", queue=queue)(nothing)
        bench.dispatch(f"t-{queue}", f"run.{queue}", queue=queue)

    async with bench.worker(concurrency=1, queues=None):
        await bench.coordinator.until_reported("t-a", "t-b", "t-c")

    assert [bench.left(queue) for queue in queues] == [0, 0, 0]


async def test_what_queues_while_a_call_is_under_way_goes_together_in_the_next(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    tasks = [f"t{number}" for number in range(600)]
    for task in tasks:
        bench.dispatch(task, "run")

    async with bench.worker(concurrency=600):
        await bench.coordinator.until_reported(*tasks)

    assert max(len(call) for call in bench.coordinator.lease_calls) == 256
    assert max(len(call) for call in bench.coordinator.report_calls) <= 256
    assert len(bench.coordinator.report_calls) < 200
    assert bench.left() == 0


async def test_an_unknown_handler_fails_its_task_by_that_name(bench: Bench) -> None:
    bench.dispatch("t1", "os.system", "rm -rf /")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    failed = bench.coordinator.report_of("t1").failed
    assert failed.type == "UnknownHandler"
    assert failed.failure_class == tasks_pb2.FAILURE_CLASS_EXEC_FAILED
    assert failed.message.startswith("this worker has no handler named 'os.system': it has ")
    assert not failed.final


async def test_an_entry_that_is_no_dispatch_message_is_dropped_and_the_next_one_runs(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    bench.redis.xadd("headway:{default/default}:dispatch", {"task_id": "t0", "attempt": "first"})
    bench.redis.xadd("headway:{default/default}:dispatch", {"nonsense": b"\xff"})
    bench.dispatch("t1", "run")

    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.left() == 0
    assert [item.task_id for item in bench.coordinator.leases] == ["t1"]


async def test_messages_of_a_dead_consumer_are_taken_over(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    bench.dispatch("t1", "run")
    stream = "headway:{default/default}:dispatch"
    bench.redis.xgroup_create(stream, "workers", "0", mkstream=True)
    bench.redis.xreadgroup("workers", "a-dead-one", {stream: ">"})

    async with bench.worker(settings={"claim_idle": _soon()}):
        await bench.coordinator.until_reported("t1")

    assert bench.left() == 0


async def test_a_worker_does_not_take_over_its_own_running_message(bench: Bench) -> None:
    may_end = asyncio.Event()

    @bench.registry.handler("hold")
    async def hold(_: Any) -> None:
        await may_end.wait()

    bench.coordinator.lease_seconds = 0.6  # renewed every 0.2 s: the clock of this test
    bench.dispatch("t1", "hold")
    async with bench.worker(settings={"claim_idle": _soon()}):
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 4)
        may_end.set()

    assert len(bench.coordinator.leases) == 1


async def test_a_queue_that_was_lost_with_its_broker_is_made_again(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    bench.dispatch("t1", "run")

    async with bench.worker():
        await bench.coordinator.until_reported("t1")
        bench.redis.flushall()
        bench.dispatch("t2", "run")
        await bench.coordinator.until_reported("t2")


async def test_each_start_of_a_worker_is_an_owner_of_its_own(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)

    for task in ("t1", "t2"):
        bench.dispatch(task, "run")
        async with bench.worker():
            await bench.coordinator.until_reported(task)

    assert len(bench.coordinator.owners) == 2
    assert max(len(owner) for owner in bench.coordinator.owners) <= 200


def _soon() -> Any:
    return timedelta(milliseconds=150)


@pytest.mark.parametrize(
    "fields",
    [
        {"task_id": "bad", "attempt": str(2**63)},
        {"task_id": "bad", "attempt": "0"},
        {"task_id": "bad", "attempt": "-1"},
        {"task_id": "bad", "attempt": "1_0"},
        {"task_id": "bad", "attempt": "9" * 5000},
        {"task_id": "bad"},
        {"task_id": "", "attempt": "1"},
        {"task_id": "x" * 1001, "attempt": "1"},
        {"task_id": b"\xff", "attempt": "1"},
        {"task_id": "bad", "attempt": "1", "trace": b"\xff"},
    ],
)
async def test_an_entry_that_is_no_dispatch_message_is_warned_of_and_deleted_and_the_rest_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture, fields: dict[Any, Any]
) -> None:
    bench.registry.handler("run")(nothing)
    entry = bench.redis.xadd(stream_of("default/default"), fields)

    bench.dispatch("good", "run")
    async with bench.worker():
        await bench.coordinator.until_reported("good")

    warned = [record.__dict__["fault"] for record in caplog.records if "no dispatch message" in record.message]
    assert len(warned) == 1
    assert entry.decode() in warned[0]
    assert {item.task_id for item in bench.coordinator.leases} == {"good"}
    assert (bench.left(), bench.pending()) == (0, 0)


async def test_an_answer_that_cannot_be_taken_fails_only_its_item(bench: Bench) -> None:
    def answer(item: tasks_pb2.LeaseItem) -> tasks_pb2.LeaseResult:
        result = bench.coordinator.grant(item)
        if item.task_id == "bad":
            result.grant.lease.seconds = 2**62  # no duration: it cannot be read
        return result

    bench.registry.handler("run")(nothing)
    bench.coordinator.script.lease = answer
    bench.dispatch("bad", "run")
    bench.dispatch("good", "run")
    async with bench.worker():
        await bench.coordinator.until_reported("good")

    assert {item.task_id for item in bench.coordinator.reports} == {"good"}
    assert bench.pending() == 1


async def test_messages_that_are_written_together_are_read_and_leased_together(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    tasks = [f"t{number}" for number in range(20)]
    bench.dispatch("first", "run")
    async with bench.worker():
        await bench.coordinator.until_reported("first")
        # By now the worker's read waits for a message; not in a transaction, as the relay does it.
        await asyncio.to_thread(bench.blocked_reader)
        with bench.redis.pipeline(transaction=False) as pipeline:
            for task in tasks:
                bench.coordinator.offer(task, "run")
                pipeline.xadd(stream_of("default/default"), bench.message(task))
            pipeline.execute()
        await bench.coordinator.until_reported(*tasks)

    assert [len(call) for call in bench.coordinator.lease_calls] == [1, 20]


async def test_the_lines_of_a_handlers_logger_carry_its_task(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    @bench.registry.handler("log")
    async def log(_: Any, context: Context) -> None:
        context.logger.warning("something odd")

    bench.dispatch("t1", "log", path="crop")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    (line,) = (record.__dict__ for record in caplog.records if record.message == "something odd")
    assert (line["name"], line["run_id"], line["path"]) == ("headway.worker.handler", "run-1", "crop")
    assert (line["workflow"], line["attempt"]) == ("orders", 1)


@dataclass
class Paused:
    """The pauses that were to be made: by which plan, after how many failures in a row. None lasts."""

    after: list[tuple[Backoff, int]] = field(default_factory=list[tuple[Backoff, int]])
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Paused:
    noted = Paused()

    class Noting(Pauses):
        def next(self) -> float:
            super().next()
            noted.after.append((self._plan, self._failures))
            noted.changed.set()
            return 0.0

    monkeypatch.setattr(_leasing, "Pauses", Noting)
    return noted


async def test_pauses_between_busy_answers_grow(bench: Bench, paused: Paused) -> None:
    bench.registry.handler("run")(nothing)
    bench.dispatch("t1", "run")
    busy = [tasks_pb2.LeaseResult(answer=tasks_pb2.LEASE_ANSWER_BUSY)] * 3
    bench.coordinator.script.lease = lambda item: busy.pop() if busy else bench.coordinator.grant(item)

    async with bench.worker():
        await bench.coordinator.until_reported("t1")
        assert paused.after == [(BUSY, 1), (BUSY, 2), (BUSY, 3)]


async def test_pauses_of_an_outage_grow_until_a_call_is_answered(bench: Bench, paused: Paused) -> None:
    bench.registry.handler("run")(nothing)
    bench.coordinator.script.aborts["lease"].extend([grpc.StatusCode.UNAVAILABLE] * 2)
    bench.dispatch("t1", "run")

    async with bench.worker():
        await bench.coordinator.until_reported("t1")
        bench.coordinator.script.aborts["lease"].append(grpc.StatusCode.UNAVAILABLE)
        bench.dispatch("t2", "run")
        await bench.coordinator.until_reported("t2")
        assert paused.after == [(OUTAGE, 1), (OUTAGE, 2), (OUTAGE, 1)]


async def test_after_a_refusal_of_a_whole_call_it_is_not_gone_on_at_full_speed(bench: Bench, paused: Paused) -> None:
    bench.coordinator.script.aborts["lease"].append(grpc.StatusCode.INVALID_ARGUMENT)
    bench.dispatch("t1", "run")

    async with bench.worker():
        async with asyncio.timeout(10):
            await paused.changed.wait()
        assert paused.after == [(OUTAGE, 1)]


async def test_a_message_that_was_let_go_is_taken_over_by_the_same_worker_too(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    bench.coordinator.script.aborts["lease"].append(grpc.StatusCode.INVALID_ARGUMENT)
    bench.dispatch("t1", "run")

    async with bench.worker(settings={"claim_idle": timedelta(milliseconds=300)}):
        await bench.coordinator.until_reported("t1")

    assert len({item.grant_key for item in bench.coordinator.leases}) == 2
    assert bench.left() == 0


async def test_in_a_drain_what_is_busy_is_left_to_others(bench: Bench) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def busy(_: tasks_pb2.LeaseItem) -> tasks_pb2.LeaseResult:
        asked.set()
        may_answer.wait(10)
        return tasks_pb2.LeaseResult(answer=tasks_pb2.LEASE_ANSWER_BUSY)

    bench.coordinator.script.lease = busy
    bench.dispatch("t1", "run")
    async with bench.worker(drained_within=8) as drain:
        assert await asyncio.to_thread(asked.wait, 10)
        drain.set()
        may_answer.set()

    assert (len(bench.coordinator.leases), bench.pending()) == (1, 1)
