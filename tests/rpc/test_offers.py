"""A worker that attends and offers slots is leased what is dispatched to its queues, past the queue."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import grpc
import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.core.records import decode_actions
from headway.coordinator.engine import deciding, eager, offering
from headway.coordinator.store import loading, saving
from headway.coordinator.store.errors import NotApplied, StoreUnavailable
from tests.rpc.test_eager import LENGTH, LONG
from tests.rpc.test_pausing import pause, resume
from tests.rpc.test_replay import check_replay
from tests.rpc.world import ONE, TWO, Coordinator, Dispatch, World, refusal_of, until

FAN = (
    "workflow: fan\nnodes:\n"
    "  a: {type: call, handler: h.a}\n"
    "  x: {type: call, handler: h.x}\n"
    "  y: {type: call, handler: h.y}\n"
    "  z: {type: call, handler: h.z}\n"
    "  elsewhere: {type: call, handler: h.e, queue: own}\n"
    "edges: [[a, x], [a, y], [a, z], [a, elsewhere]]\n"
)
BRIEF = (
    "workflow: brief\nnodes:\n"
    "  leased: {type: call, handler: h, lease: 9s}\n"
    "  timed: {type: call, handler: h, timeout: {attempt: 9s}}\n"
    "  both: {type: call, handler: h, lease: 10s, timeout: {attempt: 10s}}\n"
)
LARGE = (
    "workflow: large\nnodes:\n"
    "  whole: {type: call, handler: h, input: '${input}'}\n"
    "  less: {type: call, handler: h, input: '${input.less}'}\n"
)
MANY = (
    "workflow: many\nnodes:\n"
    "  each: {type: map, over: '${input}', max_concurrency: 200,\n"
    "    body: {type: call, handler: h.each, input: ['${item}', '${item}', '${item}']}}\n"
)


class Attending:
    """A worker's stream of Attend."""

    def __init__(self, coordinator: Coordinator, owner: str, *queues: str) -> None:
        self._coordinator = coordinator
        self._opening = tasks_pb2.AttendRequest(owner=owner, queues=queues or ("default",))
        self.call: Any = coordinator.tasks.Attend()
        self.offers = 0
        self.taken = 0

    async def open(self) -> None:
        await self.call.write(self._opening)
        await self.call.initial_metadata()

    async def offer(self, slots: int, *, taken: int | None = None) -> None:
        """Offer slots; return once the coordinator has heard of it."""
        before = heard(self._coordinator)
        self.offers += 1
        offer = tasks_pb2.Offer(number=self.offers, slots=slots, taken=self.taken if taken is None else taken)
        await self.call.write(tasks_pb2.AttendRequest(offer=offer))
        await until(lambda: heard(self._coordinator) > before, "the offer is heard")

    async def read(self) -> tasks_pb2.AttendResponse:
        async with asyncio.timeout(10):
            response: tasks_pb2.AttendResponse = await self.call.read()
        self.taken += len(response.granted)
        return response

    async def tasks(self, count: int) -> list[Dispatch]:
        """The next so many tasks that come, by path."""
        found: list[Dispatch] = []
        while len(found) < count:
            found += [Dispatch(t.grant.run_id, t.grant.path, t.attempt) for t in (await self.read()).granted]
        return sorted(found, key=lambda dispatch: dispatch.path)

    async def leave(self) -> None:
        self.call.cancel()
        await until(lambda: not self._coordinator.engine.offers._turns, "the stream is over")


HEARD: dict[int, int] = {}


def heard(coordinator: Coordinator) -> int:
    return HEARD.get(id(coordinator.engine.offers), 0)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the offers that each coordinator has heard."""
    hear = offering.Offers.hear

    def count(offers: offering.Offers, *arguments: Any) -> None:
        hear(offers, *arguments)
        HEARD[id(offers)] = HEARD.get(id(offers), 0) + 1

    monkeypatch.setattr(offering.Offers, "hear", count)


@pytest.fixture
async def attend(world: World) -> AsyncIterator[Callable[..., Any]]:
    """Opens streams, and closes them in the end."""
    streams: list[Attending] = []

    async def open_one(owner: str = "w1", *queues: str, slots: int = 0, at: Coordinator | None = None) -> Attending:
        streams.append(attending := Attending(at or world.first, owner, *queues))
        await attending.open()
        if slots:
            await attending.offer(slots)
        return attending

    yield open_one
    for stream in streams:
        stream.call.cancel()


async def columns(world: World, dispatch: Dispatch, *names: str) -> tuple[Any, ...]:
    record = await world.database.fetchrow(
        f"SELECT {', '.join(names)} FROM tasks WHERE run_id = $1 AND path = $2", dispatch.uuid, dispatch.path
    )
    assert record is not None
    return tuple(record)


# --- what is pushed


async def test_a_first_task_is_leased_to_a_worker_that_offers_a_slot(world: World, attend: Any) -> None:
    await world.first.deploy(ONE)
    worker = await attend(slots=1)

    run_id = await world.first.start("one", {"n": 1})

    response = await worker.read()
    (task,) = response.granted
    assert (task.task_id, task.attempt, response.offer, response.task_id) == (f"{run_id}:work", 1, 1, "")
    assert timedelta(seconds=9) < task.grant.lease.ToTimedelta() <= timedelta(seconds=10)
    assert (task.grant.handler, json.loads(task.grant.input), task.grant.try_number) == ("h.work", {"n": 1}, 1)
    assert task.grant.idempotency_key == f"{run_id}/work/1"
    assert await world.dispatches() == []
    dispatch = Dispatch(run_id, "work", 1)
    assert await columns(world, dispatch, "state", "owner", "eager_grants", "sweep_at") == ("running", "w1", 1, None)
    leased_at, started_at, ready_at, expires_at = await columns(
        world, dispatch, "leased_at", "started_at", "ready_at", "lease_expires_at"
    )
    assert leased_at == started_at == ready_at == expires_at - timedelta(seconds=10)


async def test_it_is_as_good_a_lease_as_any_other(world: World, attend: Any) -> None:
    await world.first.deploy(ONE)
    worker = await attend(slots=1)
    await world.first.start("one")
    (task,) = await worker.tasks(1)

    assert await world.first.lease(task, "w2") == "HELD"
    assert await world.first.lease(task, "w1", "another") == "HELD"
    assert await world.first.renew(task, "w2") == "LEASE_LOST"
    assert await world.first.reap(task) == "STALE"
    renewed = await world.first.renew_result(task)
    assert timedelta(seconds=59) < renewed.lease.ToTimedelta() <= timedelta(seconds=60)
    assert await world.first.succeed(task, 7) == "ACCEPTED"
    assert await world.first.succeed(task, 7) == "DUPLICATE"
    assert await world.first.state(task.run_id) == "SUCCEEDED"


async def test_the_history_is_as_if_a_lease_had_come_right_after(world: World, attend: Any) -> None:
    await world.first.deploy(TWO)

    async def history(run_id: str) -> list[tuple[Any, ...]]:
        rows = await world.database.fetch(
            "SELECT seq, type, path, attempt, actions FROM run_events WHERE run_id = $1 ORDER BY seq", UUID(run_id)
        )
        told = [(*tuple(row)[:4], repr(decode_actions(row["actions"]))) for row in rows]
        return [(*rest, re.sub(r"datetime\.datetime\(.*?utc\)", "an instant", actions)) for *rest, actions in told]

    by_queue = await world.first.start("two", {"n": 1})
    for _ in range(2):
        dispatch = await world.dispatch(by_queue)
        await world.first.grant(dispatch)
        await world.first.succeed(dispatch, 1)
    worker = await attend(slots=2)
    pushed = await world.first.start("two", {"n": 1})
    for _ in range(2):
        (task,) = await worker.tasks(1)
        await world.first.succeed(task, 1)

    assert await history(pushed) == await history(by_queue)
    assert len(await history(pushed)) == 3


async def test_the_history_replays_to_the_same_rows(world: World, attend: Any) -> None:
    """A run whose tasks are all pushed: one is lost, one fails and is tried again, and the run is redone."""
    await world.first.deploy(TWO)
    worker = await attend(slots=50)
    run_id = await world.first.start("two", {"n": 1})
    (lost,) = await worker.tasks(1)
    await world.let_lease_expire(lost)
    await world.first.reap(lost)
    (failing,) = await worker.tasks(1)
    await world.first.fail(failing)
    await world.first.fire(await world.let_timers_come_due(run_id))
    for _ in range(2):
        await world.first.succeed((await worker.tasks(1))[0], 1)
    await world.first.retry(run_id, "first")
    for _ in range(2):
        await world.first.succeed((await worker.tasks(1))[0], 2)

    assert await world.first.state(run_id) == "SUCCEEDED"
    assert await world.dispatches() == []
    await check_replay(world, run_id)


async def test_branches_of_a_fork_go_to_the_slots_and_the_rest_to_the_queue(world: World, attend: Any) -> None:
    await world.first.deploy(FAN)
    run_id = await world.first.start("fan")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    worker = await attend(slots=2)

    await world.first.succeed(first)

    pushed = await worker.tasks(2)
    queued = await world.dispatches(run_id)
    assert len({d.path for d in pushed} | {d.path for d in queued}) == 4
    assert "elsewhere" in {d.path for d in queued}, "nobody offers slots for its queue"


async def test_the_reporter_s_own_next_task_comes_with_the_answer(world: World, attend: Any) -> None:
    await world.first.deploy(FAN)
    first = await world.dispatch(await world.first.start("fan"))
    await world.first.grant(first)
    worker = await attend("w2", slots=5)
    item = tasks_pb2.ReportItem(
        task_id=first.task_id, attempt=1, succeeded=tasks_pb2.Succeeded(output=b"1"), next_grant_key="k"
    )

    response = await world.first.tasks.Report(tasks_pb2.ReportRequest(owner="w1", items=[item], queues=["default"]))

    own = response.results[0].next.grant.path
    assert own in {"x", "y", "z"}
    assert {own, *(d.path for d in await worker.tasks(2))} == {"x", "y", "z"}
    assert [d.path for d in await world.dispatches()] == ["elsewhere"]


async def test_a_retry_is_pushed_with_its_checkpoint(world: World, attend: Any) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two", {"n": 1})
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    failed = tasks_pb2.ReportItem(
        task_id=first.task_id, attempt=1, failed=tasks_pb2.Failed(type="Broken"), checkpoint=b'{"at":5}'
    )
    await world.first.report("w1", failed)
    worker = await attend("w2", slots=1)

    await world.first.fire(await world.let_timers_come_due(run_id))

    (task,) = (await worker.read()).granted
    assert (task.attempt, task.grant.try_number, json.loads(task.grant.checkpoint)) == (2, 2, {"at": 5})
    assert await world.dispatches() == []


async def test_what_comes_together_comes_in_messages_that_a_client_takes(world: World, attend: Any) -> None:
    small = await world.coordinator(message_limit=4 << 20)
    await small.deploy(MANY)
    worker = await attend(slots=200, at=small)

    await small.start("many", ["x" * 10_000] * 100)

    sizes: list[int] = []
    while worker.taken < 100:
        sizes.append((await worker.read()).ByteSize())
    assert len(sizes) > 1
    assert max(sizes) < 2.1 * (1 << 20)


# --- how many, and whose


async def test_no_more_is_pushed_than_slots_are_offered(world: World, attend: Any) -> None:
    await world.first.deploy(ONE)
    worker = await attend(slots=2)

    for _ in range(5):
        await world.first.start("one")

    await worker.tasks(2)
    assert len(await world.dispatches()) == 3
    await worker.offer(1)
    await world.first.start("one")
    await worker.tasks(1)
    assert await world.dispatches() == []


async def test_what_is_under_way_is_not_taken_for_free(world: World, attend: Any) -> None:
    """An offer that crosses two grants: of its three slots one is left."""
    await world.first.deploy(ONE)
    worker = await attend(slots=2)
    for _ in range(2):
        await world.first.start("one")

    await worker.offer(3, taken=0)
    for _ in range(3):
        await world.first.start("one")

    await worker.tasks(3)
    assert len(await world.dispatches()) == 2


@pytest.mark.parametrize("offer", [(-5, 0), (0, 0), (1, -7), (1, 99)], ids=str)
async def test_nonsense_is_taken_for_what_it_can_mean(offer: tuple[int, int], world: World, attend: Any) -> None:
    slots, taken = offer
    await world.first.deploy(ONE)
    worker = await attend()
    await worker.offer(slots, taken=taken)

    for _ in range(2):
        await world.first.start("one")

    assert len(await world.dispatches()) == 2 - max(slots, 0)


@pytest.mark.parametrize("queues", [("another",), ("default ", "DEFAULT")], ids=str)
async def test_who_offers_slots_for_other_queues_gets_nothing(
    queues: tuple[str, ...], world: World, attend: Any
) -> None:
    await world.first.deploy(ONE)
    worker = await attend("w1", *queues, slots=5)

    run_id = await world.first.start("one")

    assert await world.first.lease(await world.dispatch(run_id), "w2") == "GRANTED"
    assert worker.taken == 0


async def test_workers_take_turns(world: World, attend: Any) -> None:
    await world.first.deploy(ONE)
    workers = [await attend(owner, slots=slots) for owner, slots in (("w1", 1), ("w2", 5), ("w3", 5))]

    for _ in range(7):
        await world.first.start("one")

    taken = [len(await worker.tasks(count)) for worker, count in zip(workers, (1, 3, 3), strict=True)]
    assert taken == [1, 3, 3]
    assert await world.dispatches() == []


async def test_an_offer_is_good_at_its_own_coordinator_alone(world: World, attend: Any) -> None:
    second = await world.coordinator()
    await world.first.deploy(ONE)
    worker = await attend(slots=2, at=second)

    by_queue = await world.first.start("one")
    pushed = await second.start("one")

    assert [task.run_id for task in await worker.tasks(1)] == [pushed]
    assert (await world.dispatch(by_queue)).run_id == by_queue


async def test_a_run_gets_so_many_in_a_row_and_then_goes_by_its_queue(world: World, attend: Any) -> None:
    await world.first.deploy(LONG)
    worker = await attend(slots=2 * LENGTH)
    run_id = await world.first.start("long")

    queued: list[int] = []
    for place in range(LENGTH):
        waiting = await world.dispatches(run_id)
        if waiting:
            queued.append(place)
            await world.first.grant(waiting[0])
        (task,) = waiting or await worker.tasks(1)
        await world.first.succeed(task)

    assert queued == [eager.IN_A_ROW, 2 * eager.IN_A_ROW + 1]
    assert await world.first.state(run_id) == "SUCCEEDED"


# --- what is not


async def test_an_offer_that_is_too_old_is_no_good(world: World, attend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offering, "GOOD_FOR", 0.0)
    await world.first.deploy(ONE)
    await attend(slots=2)

    await world.first.start("one")

    assert len(await world.dispatches()) == 1


async def test_an_offer_that_is_heard_while_a_batch_is_decided_is_for_the_next(
    world: World, attend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease counts from the batch's instant, and the worker counts it from when it sent the offer."""
    await world.first.deploy(ONE)
    worker = await attend()
    reading, read_steps = asyncio.Event(), loading.read_steps

    async def offer_meanwhile(*arguments: Any) -> Any:
        found = await read_steps(*arguments)
        if not reading.is_set():
            reading.set()
            await worker.offer(2)
        return found

    monkeypatch.setattr(deciding, "read_steps", offer_meanwhile)
    await world.first.start("one")
    assert len(await world.dispatches()) == 1
    await world.first.start("one")
    await worker.tasks(1)


async def test_what_may_not_be_held_for_long_goes_by_its_queue(world: World, attend: Any) -> None:
    """The worker counts the lease from its offer, which may be some seconds old."""
    await world.first.deploy(BRIEF)
    worker = await attend(slots=5)

    await world.first.start("brief")

    assert [task.path for task in await worker.tasks(1)] == ["both"]
    assert sorted(d.path for d in await world.dispatches()) == ["leased", "timed"]


async def test_a_large_input_goes_by_its_queue(world: World, attend: Any) -> None:
    await world.first.deploy(LARGE)
    worker = await attend(slots=1)

    large = await world.first.start("large", {"less": "x" * (eager.INPUT_BYTES - 1)})
    small = await world.first.start("large", {"less": "y"})

    (task,) = await worker.tasks(1)
    assert task.run_id == small, "the slot that was claimed for what is too large is free again"
    assert {(d.run_id, d.path) for d in await world.dispatches()} > {(large, "whole"), (large, "less")}


async def test_nothing_of_a_paused_run_is_pushed_until_it_is_resumed(world: World, attend: Any) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    await pause(world.first, run_id)
    worker = await attend(slots=5)

    await world.first.succeed(first)
    assert await columns(world, Dispatch(run_id, "second", 1), "state") == ("ready",)
    assert await world.dispatches() == []
    await resume(world.first, run_id)

    assert [task.path for task in await worker.tasks(1)] == ["second"]
    assert await world.dispatches() == []


# --- what goes wrong


async def test_a_batch_that_fails_pushes_nothing_and_frees_what_it_claimed(
    world: World, attend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ONE)
    worker = await attend(slots=1)
    save = saving.save_straight

    async def fail(*_arguments: Any) -> bool:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(deciding, "save_straight", fail)
    refused = await refusal_of(world.first.start("one"))
    assert refused.code is grpc.StatusCode.UNAVAILABLE
    monkeypatch.setattr(deciding, "save_straight", save)
    run_id = await world.first.start("one")

    assert [task.run_id for task in await worker.tasks(1)] == [run_id]
    assert await world.one("SELECT count(*) FROM runs") == 1


async def test_what_is_decided_again_under_locks_is_pushed_once(
    world: World, attend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ONE)
    worker = await attend(slots=2)

    async def not_applied(*_arguments: Any) -> bool:
        raise NotApplied("somebody was faster")

    monkeypatch.setattr(deciding, "save_straight", not_applied)
    runs = [await world.first.start("one") for _ in range(2)]

    assert {task.run_id for task in await worker.tasks(2)} == {*runs}
    assert await world.dispatches() == []


async def test_what_was_leased_to_a_stream_that_broke_meanwhile_is_given_back_at_once(
    world: World, attend: Any
) -> None:
    await world.first.deploy(ONE)
    worker = await attend("w1", slots=1)

    async with world.hold("run_events"):
        starting = asyncio.ensure_future(world.first.start("one"))
        await world.until_blocked()
        await worker.leave()
        other = await attend("w2", slots=1)

    run_id = await starting
    assert await other.tasks(1) == [Dispatch(run_id, "work", 2)]
    assert await columns(world, Dispatch(run_id, "work", 2), "owner", "losses", "tries") == ("w2", 0, 0)
    assert [event.type for event in await world.first.history(run_id)] == ["RunStarted", "LeaseReleased"]


async def test_what_was_not_sent_when_a_stream_broke_is_given_back_at_once(
    world: World, attend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ONE)
    worker = await attend("w1", slots=2)
    told: list[Any] = []
    monkeypatch.setattr("headway.coordinator.rpc.tasks._Stream.get", lambda stream: told.append(stream) or never())
    await worker.leave()
    worker = await attend("w1", slots=2)

    run_id = await world.first.start("one")
    assert await columns(world, Dispatch(run_id, "work", 1), "state", "attempt") == ("running", 1)
    await worker.leave()

    async def is_back() -> bool:
        return await world.dispatches(run_id) == [Dispatch(run_id, "work", 2)]

    await until(is_back, "the attempt is dispatched again")
    assert told


async def never() -> None:
    await asyncio.Event().wait()


async def test_who_never_heard_of_its_lease_holds_a_task_up_for_ten_seconds_at_the_most(
    world: World, attend: Any
) -> None:
    await world.first.deploy(ONE)
    worker = await attend("w1", slots=1)
    await world.first.start("one")
    (task,) = await worker.tasks(1)
    left = "SELECT lease_expires_at <= clock_timestamp() + interval '10 seconds' FROM tasks WHERE run_id = $1"
    assert await world.one(left, task.uuid)

    await world.let_lease_expire(task)
    await world.first.reap(task)

    assert await world.dispatch(task.run_id) == Dispatch(task.run_id, "work", 2)


async def test_a_withdrawal_is_answered_and_nothing_follows(world: World, attend: Any) -> None:
    await world.first.deploy(ONE)
    worker = await attend(slots=5)

    await worker.offer(0)
    answer = await worker.read()
    await world.first.start("one")

    assert (answer.offer, len(answer.granted), answer.task_id) == (2, 0, "")
    assert len(await world.dispatches()) == 1


async def test_a_withdrawal_is_answered_behind_what_was_claimed_before_it(world: World, attend: Any) -> None:
    await world.first.deploy(ONE)
    worker = await attend(slots=5)

    async with world.hold("run_events"):
        starting = asyncio.ensure_future(world.first.start("one"))
        await world.until_blocked()
        await worker.offer(0)
    await starting

    pushed, answer = await worker.read(), await worker.read()
    assert (len(pushed.granted), pushed.offer) == (1, 1)
    assert (len(answer.granted), answer.offer) == (0, 2)


async def test_a_worker_that_has_nothing_more_to_say_still_hears(world: World) -> None:
    """Like one that calls it as if only the answers were a stream."""
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    call = world.first.channel.unary_stream(
        "/headway.api.tasks.v1.TasksService/Attend",
        request_serializer=tasks_pb2.AttendRequest.SerializeToString,
        response_deserializer=tasks_pb2.AttendResponse.FromString,
    )(tasks_pb2.AttendRequest(owner="w1", queues=["default"]))
    await call.initial_metadata()

    async def listens() -> bool:
        return await world.one("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"headway_stopping\"%'")

    await until(listens, "the coordinator listens")
    await world.first.cancel(run_id)

    async with asyncio.timeout(10):
        order: Any = await call.read()
    assert (order.task_id, order.attempt) == (dispatch.task_id, 1)
    call.cancel()


async def test_a_stream_that_ends_leaves_nothing_behind(world: World, attend: Any) -> None:
    worker = await attend("w1", "a", "b", slots=3)
    assert len(world.first.engine.offers._turns) == 2

    await worker.leave()

    assert world.first.engine.offers._turns == {}
