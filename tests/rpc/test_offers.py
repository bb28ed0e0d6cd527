"""A worker that attends and offers slots is leased what is dispatched to its queues, past the queue."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.core.records import decode_actions
from headway.coordinator.engine import deciding, eager, offering
from headway.coordinator.store import loading
from tests.rpc.eager import LENGTH, LONG
from tests.rpc.test_pausing import pause, resume
from tests.rpc.test_replay import check_replay
from tests.rpc.world import ONE, TWO, Dispatch, World

pytestmark = pytest.mark.usefixtures("counted")


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
    assert await world.columns(dispatch, "state", "owner", "eager_grants", "sweep_at") == ("running", "w1", 1, None)
    leased_at, started_at, ready_at, expires_at = await world.columns(
        dispatch, "leased_at", "started_at", "ready_at", "lease_expires_at"
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
    assert await world.columns(Dispatch(run_id, "second", 1), "state") == ("ready",)
    assert await world.dispatches() == []
    await resume(world.first, run_id)

    assert [task.path for task in await worker.tasks(1)] == ["second"]
    assert await world.dispatches() == []
