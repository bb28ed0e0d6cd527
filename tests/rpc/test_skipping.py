"""Skip over the wire: what it stores, what it refuses, and that repeating it is harmless."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from tests.rpc.test_pausing import events, pause, resume, started
from tests.rpc.test_replay import check_replay
from tests.rpc.world import JOIN, ONE, TWO, Coordinator, Dispatch, World, refusal_of


async def skip(coordinator: Coordinator, run_id: str, node: str, output: object = None, **fields: Any) -> Any:
    fields.setdefault("request_id", str(uuid4()))
    request = runs_pb2.SkipRequest(run_id=run_id, node=node, output=json.dumps(output).encode(), **fields)
    return await coordinator.runs.Skip(request)


async def failed(world: World) -> str:
    run_id = await started(world, TWO, "two")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    await world.first.fail(dispatch, final=True)
    return run_id


async def test_a_node_of_a_paused_run_is_skipped_and_told_as_such(world: World) -> None:
    run_id = await started(world, TWO, "two")
    await pause(world.first, run_id)
    once = str(uuid4())

    first = await skip(world.first, run_id, "first", {"by": "hand"}, reason="no worker", request_id=once)
    again = await skip(world.first, run_id, "first", {"by": "hand"}, reason="no worker", request_id=once)

    assert first == again == runs_pb2.SkipResponse(reopened=False, epoch=1)
    task = await world.first.task(run_id, "first")
    assert (task.state, task.cause, json.loads(task.output)) == (
        runs_pb2.TASK_STATE_SUCCEEDED, "skipped", {"by": "hand"},
    )  # fmt: skip
    history = await world.first.history(run_id)
    assert [event.type for event in history] == ["RunStarted", "RunPaused", "NodeSkipped"]
    assert json.loads(history[-1].event)["reason"] == "no worker"
    assert history[-1].path == "first"
    await resume(world.first, run_id)
    late = [dispatch for dispatch in await world.dispatches(run_id) if dispatch.path == "first"]
    assert [await world.first.lease(dispatch) for dispatch in late] == ["STALE_ATTEMPT"] * len(late)
    await check_replay(world, run_id)


async def test_a_paused_run_ends_with_the_skip_of_its_last_node_that_a_worker_runs(world: World) -> None:
    source = (
        "workflow: ended\nnodes:\n  work: {type: call, handler: h}\n"
        "  done: {type: finish, output: '${nodes.work.output}'}\nedges: [[work, done]]\n"
    )
    run_id = await started(world, source, "ended")
    await pause(world.first, run_id)

    await skip(world.first, run_id, "work", {"by": "hand"})

    run = (await world.first.get(run_id)).run
    assert (runs_pb2.RunState.Name(run.state), json.loads(run.output)) == ("RUN_STATE_SUCCEEDED", {"by": "hand"})
    await check_replay(world, run_id)


async def test_a_failed_run_is_reopened_by_it(world: World) -> None:
    run_id = await failed(world)

    answer = await skip(world.first, run_id, "first", 7)

    assert (answer.reopened, answer.epoch) == (True, 2)
    second = await world.dispatch(run_id)
    assert second == Dispatch(run_id, "second", 1)
    grant = await world.first.grant(second)
    assert json.loads(grant.input) == {"got": 7}
    await world.first.succeed(second)
    assert await world.first.state(run_id) == "SUCCEEDED"
    await check_replay(world, run_id)


async def test_refusals_name_the_state_and_the_remedy(world: World) -> None:
    run_id = await started(world, ONE, "one")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    going = await refusal_of(skip(world.first, run_id, "work"))
    await pause(world.first, run_id)
    held = await refusal_of(skip(world.first, run_id, "work"))
    nowhere = await refusal_of(skip(world.first, run_id, "nowhere"))
    bad = await refusal_of(
        world.first.runs.Skip(runs_pb2.SkipRequest(run_id=run_id, node="work", output=b"{", request_id=str(uuid4())))
    )

    assert (going.code, going.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_NOT_HELD")
    assert "pause it first" in going.message
    assert (held.reason, held.metadata["state"]) == ("NODE_NOT_SKIPPABLE", "running")
    assert "a worker holds it" in held.message
    assert (nowhere.code, nowhere.reason) == (grpc.StatusCode.NOT_FOUND, "NODE_NOT_FOUND")
    assert bad.reason == "INVALID_PAYLOAD"


@pytest.mark.parametrize("first_comes", ["skip", "retry"])
async def test_a_skip_against_a_retry_reopens_the_run_once(first_comes: str, world: World) -> None:
    second = await world.coordinator()
    run_id = await failed(world)
    calls = {"skip": lambda c: skip(c, run_id, "first"), "retry": lambda c: c.retry(run_id)}
    other = "retry" if first_comes == "skip" else "skip"

    async with world.stall("runs"):
        winner = asyncio.ensure_future(calls[first_comes](world.first))
        await world.until_blocked()
        loser = asyncio.ensure_future(calls[other](second))
        await world.until_blocked(2)
    await winner
    refused = await refusal_of(loser)

    assert refused.reason == ("RUN_NOT_FINISHED" if other == "retry" else "RUN_NOT_HELD")
    assert (await events(world, run_id))[2:] == ["NodeSkipped" if first_comes == "skip" else "RunRetried"]
    await check_replay(world, run_id)


async def test_a_branch_is_given_by_hand_while_the_other_runs(world: World) -> None:
    run_id = await started(world, JOIN, "joined")
    left, _ = sorted(await world.dispatches(run_id), key=lambda dispatch: dispatch.path)
    await world.first.grant(left)
    await pause(world.first, run_id)

    await skip(world.first, run_id, "right", "r")
    await world.first.succeed(left, "l")
    await resume(world.first, run_id)

    after = await world.dispatch(run_id)
    assert json.loads((await world.first.grant(after)).input) == {"left": "l", "right": "r"}
