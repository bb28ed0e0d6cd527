"""What runs at the end, and holders that are told to stop by themselves, through the services."""

from __future__ import annotations

import asyncio

from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from tests.rpc.eager import answer, report
from tests.rpc.test_attending import attend, is_listening
from tests.rpc.world import Dispatch, World

JOB = (
    "workflow: job\nnodes:\n"
    "  work: {type: call, handler: h}\n"
    "finally:\n"
    "  timeout: 10m\n"
    "  nodes:\n"
    '    tell: {type: call, handler: h, input: "${outcome.state} at ${outcome.nodes}"}\n'
    "    log: {type: call, handler: h}\n"
    "  edges: [[tell, log]]\n"
)
RACE = (
    "workflow: race\nnodes:\n"
    "  fast: {type: call, handler: h}\n"
    "  slow: {type: call, handler: h}\n"
    "  aside: {type: call, handler: h}\n"
    "  first: {type: join, need: any, rest: cancel}\n"
    "edges: [[fast, first], [slow, first]]\n"
)
TELL, LOG = "finally[0].tell", "finally[0].log"


async def taken(world: World, run_id: str, path: str) -> Dispatch:
    """A lease of the one task that waits for a worker."""
    dispatch = await world.dispatch(run_id)
    assert dispatch.path == path
    await world.first.grant(dispatch)
    return dispatch


async def job(world: World) -> tuple[str, Dispatch]:
    """A run whose only node is leased."""
    await world.first.deploy(JOB)
    run_id = await world.first.start("job")
    return run_id, await taken(world, run_id, "work")


async def test_it_runs_in_a_cancelled_run_and_its_holders_are_not_told_to_stop(world: World) -> None:
    run_id, work = await job(world)
    await world.first.cancel(run_id)
    assert await world.first.succeed(work, None) == "ACCEPTED"

    run = (await world.first.get(run_id)).run
    assert (run.state, run.concluded) == (runs_pb2.RUN_STATE_RUNNING, runs_pb2.RUN_STATE_CANCELLED)
    told = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))
    assert told.message == (
        "The run waits for 2 open tasks. Only what runs at the end does still run; the run then ends cancelled "
        "(cancelled by request)."
    )
    assert [reason.path for reason in told.reasons] == ["finally", TELL]
    tell = await taken(world, run_id, TELL)
    renewed = await world.first.renew_result(tell)
    assert (renewed.answer, renewed.cancel) == (tasks_pb2.RENEW_ANSWER_RENEWED, False)
    assert answer(await report(world.first, tell)) == ("ACCEPTED", LOG)  # with the answer

    assert await world.first.succeed(Dispatch(run_id, LOG, 1), None) == "ACCEPTED"
    run = (await world.first.get(run_id)).run
    assert (run.state, run.concluded) == (runs_pb2.RUN_STATE_CANCELLED, runs_pb2.RUN_STATE_UNSPECIFIED)


async def test_its_failure_fails_the_run_which_can_be_retried(world: World) -> None:
    run_id, work = await job(world)
    await world.first.succeed(work, None)
    tell = await taken(world, run_id, TELL)
    await world.first.fail(tell, final=True)
    run = (await world.first.get(run_id)).run
    assert run.state == runs_pb2.RUN_STATE_FAILED
    assert list(run.error.paths) == ["finally"]
    told = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))
    assert [reason.path for reason in told.reasons] == ["finally", TELL]
    shown = await world.first.task(run_id, "finally")
    assert (shown.type, shown.disposition, shown.HasField("items")) == ("finally", "", False)
    assert (await world.first.retry(run_id, dry_run=True)).runs_finally

    await world.first.retry(run_id)

    again = await taken(world, run_id, TELL)
    assert again.attempt == 2
    await world.first.succeed(again, None)
    await world.first.succeed(await taken(world, run_id, LOG), None)
    assert await world.first.state(run_id) == "SUCCEEDED"


async def test_a_cancel_without_compensation_tells_its_holder(world: World) -> None:
    await is_listening(world)
    run_id, work = await job(world)
    await world.first.succeed(work, None)
    tell = await taken(world, run_id, TELL)
    stream = await attend(world.first, "w1")

    await world.first.cancel(run_id, no_compensation=True)

    async with asyncio.timeout(10):
        order = await stream.read()
    assert order.task_id == tell.task_id
    assert (await world.first.renew_result(tell)).cancel
    item = tasks_pb2.ReportItem(task_id=tell.task_id, attempt=1, cancelled=tasks_pb2.Cancelled())
    await world.first.tasks.Report(tasks_pb2.ReportRequest(owner="w1", items=[item]))
    assert await world.first.state(run_id) == "CANCELLED"
    stream.cancel()


async def test_a_join_that_fires_tells_the_holders_that_it_stops_and_no_others(world: World) -> None:
    await is_listening(world)
    await world.first.deploy(RACE)
    run_id = await world.first.start("race")
    aside, fast, slow = sorted(await world.dispatches(run_id), key=lambda each: each.path)
    for dispatch in (aside, fast, slow):
        await world.first.grant(dispatch, owner=f"w-{dispatch.path}")
    streams = {path: await attend(world.first, f"w-{path}") for path in ("slow", "aside")}

    assert await world.first.succeed(fast, None, owner="w-fast") == "ACCEPTED"

    async with asyncio.timeout(10):
        order = await streams["slow"].read()
    assert order.task_id == slow.task_id
    assert (await world.first.renew_result(slow, owner="w-slow")).cancel
    assert not (await world.first.renew_result(aside, owner="w-aside")).cancel
    told = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))
    (reason,) = [each for each in told.reasons if each.path == "slow"]
    assert "is to stop (a join that it leads to fired without it)" in reason.message
    assert await world.first.fail(slow, final=True, owner="w-slow") == "ACCEPTED"
    assert await world.first.succeed(aside, None, owner="w-aside") == "ACCEPTED"
    assert await world.first.state(run_id) == "SUCCEEDED"
    for stream in streams.values():
        stream.cancel()
