"""Signals to the run of an idempotency key, and those that start it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from headway.api.runs.v1 import runs_pb2
from tests.rpc.world import EVENT, ONE, World, refusal_of


async def by_key(world: World, key: str, **fields: Any) -> runs_pb2.SignalResponse:
    fields = {"name": "approval", "payload": b"1", "request_id": str(uuid4())} | fields
    return await world.first.runs.Signal(runs_pb2.SignalRequest(key=key, **fields))


async def with_start(world: World, key: str | None = "k", data: object = None, **fields: Any) -> Any:
    start = runs_pb2.StartRequest(
        workflow=fields.pop("workflow", "waiting"),
        key=key,
        input=json.dumps(data or {}).encode(),
        request_id=fields.pop("request_id", str(uuid4())),
    )
    fields = {"name": "approval", "payload": b'{"by": "Ada"}'} | fields
    return await world.first.runs.SignalWithStart(runs_pb2.SignalWithStartRequest(start=start, **fields))


async def received(world: World, run_id: str) -> int:
    return sum(event.type == "SignalReceived" for event in await world.first.history(run_id))


async def test_a_signal_finds_the_run_of_a_key(world: World) -> None:
    await world.first.deploy(EVENT)
    run_id = await world.first.start("waiting", key="ORDER-7")

    answer = await by_key(world, "ORDER-7", workflow="waiting")

    assert (answer.run_id, answer.seq) == (run_id, 2)
    assert (await world.first.task(run_id, "ask")).output == b"1"


async def test_a_key_that_nobody_has_or_of_another_workflow_is_refused(world: World) -> None:
    await world.first.deploy(EVENT, ONE)
    run_id = await world.first.start("waiting", key="k")

    nobody, other = await refusal_of(by_key(world, "x")), await refusal_of(by_key(world, "k", workflow="one"))
    both = await refusal_of(by_key(world, "k", run_id=run_id))

    assert (nobody.reason, other.reason, both.metadata["field"]) == ("KEY_NOT_FOUND", "KEY_NOT_FOUND", "key")
    assert await received(world, run_id) == 0


async def test_a_signal_to_the_key_of_a_closed_run_is_refused(world: World) -> None:
    await world.first.deploy(EVENT)
    run_id = await world.first.start("waiting", key="k")
    await world.first.cancel(run_id)

    refusal = await refusal_of(by_key(world, "k"))

    assert (refusal.reason, refusal.metadata["run_id"]) == ("RUN_CLOSED", run_id)


async def test_a_signal_with_start_starts_the_run_once_and_signals_it_each_time(world: World) -> None:
    await world.first.deploy(EVENT)

    first = await with_start(world, data={"n": 1})
    second = await with_start(world, data={"n": 2})

    assert (first.run.existed, second.run.existed) == (False, True)
    assert first.run.run_id == second.run.run_id
    assert await received(world, first.run.run_id) == 2
    assert (await world.first.get(first.run.run_id)).run.input == b'{"n": 1}'


async def test_a_signal_with_start_that_is_repeated_is_answered_as_the_first_time(world: World) -> None:
    await world.first.deploy(EVENT)
    request_id = str(uuid4())

    answers = [await with_start(world, request_id=request_id) for _ in range(3)]

    assert answers[0] == answers[1] == answers[2]
    assert await received(world, answers[0].run.run_id) == 1


async def test_a_signal_with_start_counts_once_for_its_id_whoever_sends_it(world: World) -> None:
    await world.first.deploy(EVENT)

    first = await with_start(world, id="e1")
    again = await with_start(world, id="e1", payload=b'{"by": "Bob"}')
    by_key_again = await by_key(world, "k", id="e1")
    other = await with_start(world, id="e2")

    assert first.run.run_id == other.run.run_id
    assert first.seq == again.seq == by_key_again.seq != other.seq
    assert await received(world, first.run.run_id) == 2
    assert (await world.first.task(first.run.run_id, "ask")).output == b'{"by": "Ada"}'


async def test_a_signal_with_start_past_its_time_is_not_taken(world: World) -> None:
    await world.first.deploy(
        "workflow: late\nnodes:\n  work: {type: call, handler: h}\n  ask: {type: wait_for_event, event: approval}\n"
        "edges: [[work, ask]]\n"
    )
    gone = (await with_start(world, "a", workflow="late", ttl=timedelta(minutes=1))).run.run_id
    kept = (await with_start(world, "b", workflow="late", ttl=timedelta(minutes=3))).run.run_id
    await world.database.execute("UPDATE signals SET expires_at = expires_at - interval '2 minutes'")

    for run_id in (gone, kept):
        dispatch = await world.dispatch(run_id)
        await world.first.grant(dispatch)
        await world.first.succeed(dispatch)

    assert [await world.first.state(run_id) for run_id in (gone, kept)] == ["RUNNING", "SUCCEEDED"]
    assert (await world.first.task(gone, "ask")).state == runs_pb2.TASK_STATE_WAITING


async def test_of_many_that_start_and_signal_at_the_same_time_one_starts_and_all_signal(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(EVENT)

    async def one(number: int) -> Any:
        coordinator = (world.first, other)[number % 2]
        start = runs_pb2.StartRequest(workflow="waiting", key="k", input=b"%d" % number, request_id=str(uuid4()))
        request = runs_pb2.SignalWithStartRequest(start=start, name="approval", payload=b"1")
        return await coordinator.runs.SignalWithStart(request)

    answers = await asyncio.gather(*(one(number) for number in range(12)))

    assert len({answer.run.run_id for answer in answers}) == 1
    assert sum(not answer.run.existed for answer in answers) == 1
    assert len({answer.seq for answer in answers}) == 12
    assert await world.one("SELECT count(*) FROM runs") == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"key": None}, "INVALID_KEY"),
        ({"name": ""}, "INVALID_SIGNAL_NAME"),
        ({"payload": b"{"}, "INVALID_PAYLOAD"),
        ({"workflow": "nowhere"}, "WORKFLOW_NOT_FOUND"),
    ],
)
async def test_a_signal_with_start_that_is_wrong_starts_nothing(
    fields: dict[str, Any], reason: str, world: World
) -> None:
    await world.first.deploy(EVENT)

    assert (await refusal_of(with_start(world, **fields))).reason == reason
    assert await world.one("SELECT count(*) FROM runs") == 0


async def test_a_key_of_another_workflow_is_not_started_with(world: World) -> None:
    await world.first.deploy(EVENT, ONE)
    await world.first.start("one", key="k")

    assert (await refusal_of(with_start(world))).reason == "KEY_REUSED"
