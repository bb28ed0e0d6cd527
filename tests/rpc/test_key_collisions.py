"""A key names one run, whoever deletes, retries and starts at the same time: each interleaving is staged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from headway.coordinator.engine.deleting import Deletions
from headway.coordinator.engine.submissions import Start
from headway.coordinator.ids import key_bucket
from headway.coordinator.store import deleting, starting
from tests.rpc.children import LEAF, begun, carry, carry_all, handovers
from tests.rpc.test_child_keys import KEYED, error_of, fail_work, holder
from tests.rpc.test_deleting import age, delete, deletions, latest_child, rows
from tests.rpc.test_lists import end
from tests.rpc.world import ONE, Coordinator, World, refusal_of, until

KEPT = "workflow: one\nretention: {succeeded: 1h}\nnodes:\n  work: {type: call, handler: h.work}\n"


async def ended(world: World, **fields: Any) -> str:
    """A run with key k that has succeeded."""
    await world.first.deploy(KEPT)
    run_id = await world.first.start("one", key="k", **fields)
    await end(world, run_id)
    return run_id


async def runs_of_k(world: World) -> list[str]:
    """The runs that have the key k."""
    records = await world.database.fetch("SELECT run_id FROM runs WHERE key = 'k'")
    return [record["run_id"].hex for record in records]


async def only(world: World, run_id: str) -> bool:
    """The run is the only one with the key k, which stands for it and for no other."""
    return await runs_of_k(world) == [run_id] and await holder(world, "k") == run_id


def asked(**fields: Any) -> runs_pb2.StartRequest:
    fields.setdefault("request_id", str(uuid4()))
    return runs_pb2.StartRequest(workflow="one", key="k", **fields)


async def by_start(coordinator: Coordinator, request: runs_pb2.StartRequest) -> runs_pb2.StartResponse:
    return await coordinator.runs.Start(request)


async def by_list(coordinator: Coordinator, request: runs_pb2.StartRequest) -> runs_pb2.StartResponse:
    (result,) = (await coordinator.runs.StartMany(runs_pb2.StartManyRequest(items=[request]))).results
    return result.started


async def by_signal(coordinator: Coordinator, request: runs_pb2.StartRequest) -> runs_pb2.StartResponse:
    return (await coordinator.runs.SignalWithStart(runs_pb2.SignalWithStartRequest(start=request, name="go"))).run


WAYS = [by_start, by_list, by_signal]
Way = Callable[[Coordinator, runs_pb2.StartRequest], Any]


class Gate:
    """Where starts stop, each once it has come there."""

    def __init__(self) -> None:
        self.waiting = 0
        self.is_open = asyncio.Event()

    async def pass_through(self) -> None:
        self.waiting += 1
        await self.is_open.wait()

    async def reached(self, count: int = 1) -> None:
        await until(lambda: self.waiting >= count, f"{count} starts have come to the gate")


@asynccontextmanager
async def keys_read(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gate]:
    """While the block runs, a coordinator's starts have read their keys, and insert no run."""
    gate, submit = Gate(), coordinator.engine.submit

    async def gated(items: Any, **how: Any) -> Any:
        if any(isinstance(item, Start) for item in items):
            await gate.pass_through()
        return await submit(items, **how)

    monkeypatch.setattr(coordinator.engine, "submit", gated)
    try:
        yield gate
    finally:
        gate.is_open.set()


@asynccontextmanager
async def found_there(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gate]:
    """While the block runs, starts whose run is there already have found that, and do not look what it is."""
    gate, find_started = Gate(), starting.find_started

    async def gated(*arguments: Any) -> Any:
        await gate.pass_through()
        return await find_started(*arguments)

    monkeypatch.setattr("headway.coordinator.engine.starting.find_started", gated)
    try:
        yield gate
    finally:
        gate.is_open.set()


async def delete_halfway(world: World, run_id: str) -> None:
    """Delete a run, and stop before its key is freed, as one does who dies."""
    async with world.watcher() as watching, world.hold("start_keys"):
        deleting_it = asyncio.create_task(deletions(world).delete([UUID(run_id)], "default"))
        await watching.until_blocked()
        deleting_it.cancel()
        await asyncio.gather(deleting_it, return_exceptions=True)


# --- a run that is not deleted


async def test_a_start_between_a_delete_and_the_retry_that_keeps_the_run_is_answered_by_that_run(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(KEPT)
    run_id = await world.first.start("one", key="k")
    await end(world, run_id, fail=True)
    ends = await deleting.get_ends(world.first.engine.pool, [UUID(run_id)])

    async with world.watcher() as watching, world.hold("attempts"):
        retrying = asyncio.create_task(world.first.retry(run_id))
        await watching.until_blocked()
        deleting_it = asyncio.create_task(deleting.delete_ended(world.first.engine.pool, ends))

        async def is_past() -> bool:
            return deleting_it.done() or len(await watching.blocked()) > 1

        await until(is_past, "the delete has passed the run by, or waits for it")
        assert await other.start("one", key="k") == run_id

    assert await deleting_it == set()
    assert (await retrying).epoch == 2
    assert (await refusal_of(delete(world, run_id))).reason == "RUN_NOT_FINISHED"
    assert await only(world, run_id)


async def test_a_delete_waits_for_whoever_holds_the_run_and_it_is_gone(world: World) -> None:
    run_id = await ended(world)

    async with world.locked("SELECT 1 FROM runs FOR UPDATE"):
        deleting_it = asyncio.create_task(delete(world, run_id))
        await world.until_blocked()

    assert await deleting_it
    assert await rows(world, run_id) == {}


# --- a run that is deleted while it is started


@pytest.mark.parametrize("way", WAYS)
async def test_a_start_that_read_its_key_before_the_run_was_deleted_begins_another(
    world: World, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    other = await world.coordinator()
    run_id = await ended(world)

    async with keys_read(other, monkeypatch) as gate:
        start = asyncio.create_task(way(other, asked()))
        await gate.reached()
        assert await delete(world, run_id)

    answer = await start
    assert answer.run_id != run_id
    assert not answer.existed
    assert await rows(world, run_id) == {}
    assert await only(world, answer.run_id)


async def test_starts_that_read_their_key_before_the_run_was_deleted_begin_one_run_between_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.coordinator()
    run_id = await ended(world)

    async with keys_read(other, monkeypatch) as there, keys_read(world.first, monkeypatch) as here:
        starts = [
            asyncio.create_task(by_start(coordinator, asked()))
            for coordinator in (world.first, other)
            for _ in range(5)
        ]
        await here.reached(5)
        await there.reached(5)
        assert await delete(world, run_id)

    answers = await asyncio.gather(*starts)
    (begun_by_all,) = {answer.run_id for answer in answers}
    assert [answer.existed for answer in answers].count(False) == 1
    assert begun_by_all != run_id
    assert await only(world, begun_by_all)


@pytest.mark.parametrize("way", WAYS)
async def test_a_repeat_under_way_when_its_run_is_deleted_begins_a_run_with_another_id(
    world: World, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    other = await world.coordinator()
    request = asked()
    run_id = await ended(world, request_id=request.request_id)

    async with keys_read(other, monkeypatch) as gate:
        start = asyncio.create_task(way(other, request))
        await gate.reached()
        assert await delete(world, run_id)

    answer = await start
    assert answer.run_id != run_id
    assert await only(world, answer.run_id)
    assert await way(world.first, request) == answer


async def test_a_start_whose_run_is_deleted_once_it_was_found_to_be_there_begins_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await ended(world)

    async with found_there(monkeypatch) as gate:
        start = asyncio.create_task(by_start(world.first, asked()))
        await gate.reached()
        assert await delete(world, run_id)

    answer = await start
    assert (answer.run_id != run_id, answer.existed) == (True, False)
    assert await only(world, answer.run_id)


async def test_a_start_that_read_its_key_before_retention_took_the_run_begins_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.coordinator()
    run_id = await ended(world)
    await age(world, run_id, 2)

    async with keys_read(other, monkeypatch) as gate:
        start = asyncio.create_task(by_start(other, asked()))
        await gate.reached()
        assert await deletions(world).sweep() == 1

    assert await only(world, (await start).run_id)
    assert await rows(world, run_id) == {}


async def test_a_signal_that_started_nothing_since_the_run_was_there_starts_another_when_that_is_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await ended(world)
    submit = world.first.engine.submit

    async def gated(items: Any, **how: Any) -> Any:
        if not isinstance(items[0], Start):
            monkeypatch.setattr(world.first.engine, "submit", submit)
            assert await delete(world, run_id)
        return await submit(items, **how)

    monkeypatch.setattr(world.first.engine, "submit", gated)
    answer = await by_signal(world.first, asked())

    assert answer.run_id != run_id
    assert await only(world, answer.run_id)
    assert [event.type for event in await world.first.history(answer.run_id)] == ["RunStarted", "SignalReceived"]


# --- half deletes


@pytest.mark.parametrize("given", [b"", b"[1]"], ids=["the same", "another request"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_key_that_stands_for_a_deleted_run_is_free(world: World, way: Way, given: bytes) -> None:
    run_id = await ended(world)
    await delete_halfway(world, run_id)
    assert await holder(world, "k") == run_id
    signal = runs_pb2.SignalRequest(key="k", name="go", request_id=str(uuid4()))
    assert (await refusal_of(world.first.runs.Signal(signal))).reason == "KEY_NOT_FOUND"

    answer = await way(world.first, asked(input=given))

    assert answer.run_id != run_id
    assert await only(world, answer.run_id)
    assert not await delete(world, run_id)
    assert await only(world, answer.run_id)


async def test_a_late_half_of_a_delete_frees_no_key_of_another_run(world: World) -> None:
    run_id = await ended(world)
    other = await world.coordinator()

    async with world.watcher() as watching, world.locked("SELECT 1 FROM start_keys FOR UPDATE"):
        deleting_it = asyncio.create_task(delete(world, run_id))
        await watching.until_blocked()
        start = asyncio.create_task(other.start("one", key="k"))
        await watching.until_blocked(2)

    assert await deleting_it
    assert await only(world, await start)


async def test_a_child_takes_the_key_of_a_deleted_run(world: World) -> None:
    await world.first.deploy(LEAF)
    former = await world.first.start("leaf", {"n": 7}, key="order-1")
    await end(world, former)
    await delete_halfway(world, former)

    _, child = await begun(world, KEYED)
    await carry_all(world)

    assert await holder(world, "order-1") == child
    assert await world.first.state(child) == "RUNNING"


# --- tombstones


async def test_a_tombstone_is_shown_to_nobody_and_goes_after_a_day(world: World) -> None:
    run_id = await ended(world)
    assert await delete(world, run_id)

    assert await world.one("SELECT count(*) FROM runs") == 1
    for request in (runs_pb2.ListRequest(), runs_pb2.ListRequest(filter=runs_pb2.RunFilter(key="k"))):
        assert list((await world.first.runs.List(request)).runs) == []
    for call in (world.first.get(run_id), world.first.retry(run_id), world.first.signal(run_id, "go")):
        assert (await refusal_of(call)).reason == "RUN_NOT_FOUND"
    assert not await delete(world, run_id)
    assert await deletions(world).sweep() == 0

    for hours in (0, 23):
        await age(world, run_id, hours)
        await deletions(world).clear()
        assert await world.one("SELECT count(*) FROM runs") == 1
    await age(world, run_id, 25)
    await deletions(world).clear()
    assert await world.one("SELECT count(*) FROM runs") == 0


async def test_a_tombstone_that_a_key_stands_for_frees_it_and_stays_another_day(world: World) -> None:
    run_id = await ended(world)
    await delete_halfway(world, run_id)
    await age(world, run_id, 25)

    await deletions(world).clear()
    assert await world.one("SELECT count(*) FROM start_keys") == 0
    assert await world.one("SELECT count(*) FROM runs") == 1
    await deletions(world).clear()
    assert await world.one("SELECT count(*) FROM runs") == 1
    await age(world, run_id, 25)
    await Deletions((await world.coordinator()).engine).clear()

    assert await world.one("SELECT count(*) FROM runs") == 0


async def test_more_tombstones_than_one_look_takes_are_cleared_away(world: World) -> None:
    run_id = await ended(world)
    assert await delete(world, run_id)
    await age(world, run_id, 25)
    await world.database.execute("CREATE TEMP TABLE one AS TABLE runs")
    for number in range(120):
        await world.database.execute("UPDATE one SET bucket = 0, run_id = $1", UUID(int=number << 16))
        await world.database.execute("INSERT INTO runs TABLE one")
    await world.database.execute("DROP TABLE one")

    await deletions(world).clear()

    assert await world.one("SELECT count(*) FROM runs") == 0


async def test_a_start_that_was_frozen_between_key_and_run_until_the_tombstone_is_gone_begins_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.coordinator()
    run_id = await ended(world)
    request = asked()

    async with keys_read(other, monkeypatch) as gate:
        start = asyncio.create_task(by_start(other, request))
        await gate.reached()
        assert await delete(world, run_id)
        await age(world, run_id, 25)
        await deletions(world).clear()
        assert await runs_of_k(world) == []
        monkeypatch.setattr("headway.coordinator.engine.submissions.LONGEST_START", timedelta())

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await start
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert await runs_of_k(world) == []
    monkeypatch.undo()
    again = await by_start(other, request)
    assert again.run_id != run_id
    assert await only(world, again.run_id)


# --- request ids


async def test_a_repeat_after_its_run_was_deleted_begins_another_once(world: World) -> None:
    request = asked()
    run_id = await ended(world, request_id=request.request_id)
    assert await delete(world, run_id)

    first = await by_start(world.first, request)

    assert (first.run_id != run_id, first.existed) == (True, False)
    assert await by_start(world.first, request) == first
    assert (await by_start(world.first, asked())).existed
    assert await only(world, first.run_id)


async def test_a_request_id_that_was_used_without_a_key_is_refused_with_one_which_stays_free(world: World) -> None:
    await world.first.deploy(ONE)
    request = asked()
    await world.first.start("one", request_id=request.request_id)

    assert (await refusal_of(by_start(world.first, request))).reason == "KEY_REUSED"
    assert await world.one("SELECT count(*) FROM start_keys") == 0


async def test_a_request_id_of_a_deleted_run_with_a_key_is_refused_without_one(world: World) -> None:
    request = asked()
    assert await delete(world, await ended(world, request_id=request.request_id))

    refusal = await refusal_of(world.first.start("one", request_id=request.request_id))

    assert refusal.reason == "KEY_REUSED"
    assert await runs_of_k(world) == []


# --- children


async def test_a_child_whose_key_an_application_took_meanwhile_is_not_waited_for(world: World) -> None:
    parent, child = await begun(world, LEAF, KEYED)
    claim = "INSERT INTO start_keys VALUES ($1, 'default', 'order-1', $2, '', now())"  # and the child is not there yet
    await world.database.execute(claim, key_bucket("default", "order-1"), UUID(child))
    request = runs_pb2.StartRequest(workflow="leaf", key="order-1", request_id=str(uuid4()), input=b'{"n": 1}')
    begun_first = await by_signal(world.first, request)

    await carry_all(world)

    kind, details = await error_of(world, parent)
    assert (kind, details["run_id"]) == ("SubflowKeyTaken", begun_first.run_id)


async def test_a_retry_starts_another_run_for_a_child_with_a_key_that_was_deleted(world: World) -> None:
    parent, child = await begun(world, LEAF, KEYED)
    await carry_all(world)
    await fail_work(world, child)
    assert await delete(world, child)

    await world.first.retry(parent)
    await carry_all(world)

    other = await latest_child(world, parent)
    assert other != child
    assert await holder(world, "order-1") == other
    assert await world.first.state(other) == "RUNNING"


@pytest.mark.parametrize("first", ["CancelChild", "StartChild"])
async def test_a_cancel_that_crosses_the_order_to_go_on_to_a_deleted_child_with_a_key_ends_the_parent(
    world: World, first: str
) -> None:
    parent, child = await begun(world, LEAF, KEYED)
    await carry_all(world)
    await fail_work(world, child)
    assert await delete(world, child)
    await world.first.retry(parent)
    again = await handovers(world)
    await world.first.cancel(parent)
    stops = await handovers(world, "CancelChild")

    for given in (again, stops) if first == "StartChild" else (stops, again):
        await carry(world, *given, keep=True)
        await carry(world, *given)
    await carry_all(world)

    assert await world.first.state(parent) == "CANCELLED"
    assert await world.one("SELECT count(*) FROM runs WHERE state IN ('pending', 'running')") == 0
