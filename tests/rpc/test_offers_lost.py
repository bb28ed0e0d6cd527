"""What is leased to workers that offer slots, where batches fail, streams break and offers are withdrawn."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.engine import deciding
from headway.coordinator.store import saving
from headway.coordinator.store.errors import NotApplied, StoreUnavailable
from tests.rpc.world import ONE, Dispatch, World, refusal_of, until

pytestmark = pytest.mark.usefixtures("counted")


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
    assert await world.columns(Dispatch(run_id, "work", 2), "owner", "losses", "tries") == ("w2", 0, 0)
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
    assert await world.columns(Dispatch(run_id, "work", 1), "state", "attempt") == ("running", 1)
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
