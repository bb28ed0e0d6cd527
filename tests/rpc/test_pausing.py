"""Pause and resume, with whatever comes at the same instant: nothing is dispatched in between, nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest

from headway.api.outbox.v1 import outbox_pb2
from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from tests.rpc.eager import one_bucket, report
from tests.rpc.test_replay import check_replay
from tests.rpc.world import EVENT, JOIN, ONE, SLEEP, TWO, Coordinator, Dispatch, World, refusal_of, succeeded, until

RETRIED = "workflow: retried\nnodes:\n  work: {type: call, handler: h, retry: {max_attempts: 3, initial: 30s}}\n"


async def pause(coordinator: Coordinator, run_id: str, **fields: Any) -> bool:
    """Returns whether it was paused already."""
    fields.setdefault("request_id", str(uuid4()))
    return (await coordinator.runs.Pause(runs_pb2.PauseRequest(run_id=run_id, **fields))).was_paused


async def resume(coordinator: Coordinator, run_id: str, **fields: Any) -> bool:
    """Returns whether it was resumed already."""
    fields.setdefault("request_id", str(uuid4()))
    return (await coordinator.runs.Resume(runs_pb2.ResumeRequest(run_id=run_id, **fields))).was_resumed


async def started(world: World, source: str, workflow: str) -> str:
    await world.first.deploy(source)
    return await world.first.start(workflow, {"n": 1})


async def events(world: World, run_id: str) -> list[str]:
    return [event.type for event in await world.first.history(run_id)]


async def sweep(world: World) -> int:
    return (await world.first.outbox.Sweep(outbox_pb2.SweepRequest(broker_lost=True))).dispatched


async def test_a_paused_run_is_shown_and_gives_no_lease_until_it_is_resumed(world: World) -> None:
    run_id = await started(world, ONE, "one")
    dispatch = await world.dispatch(run_id)

    assert not await pause(world.first, run_id, reason="hands off")

    shown = (await world.first.get(run_id)).run
    assert (shown.pause_reason, shown.clock_paused, shown.state) == ("hands off", False, runs_pb2.RUN_STATE_RUNNING)
    assert shown.HasField("paused_at")
    (listed,) = (await world.first.runs.List(runs_pb2.ListRequest())).runs
    assert listed.paused_at == shown.paused_at
    assert await world.first.lease(dispatch) == "RUN_PAUSED"
    assert await world.dispatches(run_id) == []

    assert not await resume(world.first, run_id)

    again = await world.dispatch(run_id)
    assert again == dispatch
    await world.first.grant(again)
    await world.first.succeed(again)
    assert await world.first.state(run_id) == "SUCCEEDED"
    assert not (await world.first.get(run_id)).run.HasField("paused_at")
    assert await events(world, run_id) == ["RunStarted", "RunPaused", "RunResumed", "NodeCompleted"]
    await check_replay(world, run_id)


async def test_explain_tells_what_the_pause_holds(world: World) -> None:
    run_id = await started(world, ONE, "one")
    asleep = await started(world, SLEEP, "sleeping")
    await pause(world.first, run_id, reason="hands off")
    await pause(world.first, asleep, pause_clock=True)

    ready = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))
    nap = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=asleep))

    assert [(each.path, each.kind) for each in ready.reasons] == [("work", runs_pb2.REASON_KIND_PAUSED)]
    assert "(hands off)" in ready.message
    assert nap.reasons[0].kind == runs_pb2.REASON_KIND_PAUSED
    assert nap.reasons[0].until == (await world.first.task(asleep, "nap")).due_at
    assert "standing still" in nap.message


async def test_explain_tells_that_a_time_out_stands_still_with_the_clock(world: World) -> None:
    runs_on, stands = await started(world, EVENT, "waiting"), await started(world, EVENT, "waiting")
    await pause(world.first, runs_on)
    await pause(world.first, stands, pause_clock=True)

    (running,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=runs_on))).reasons
    (standing,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=stands))).reasons

    assert (running.HasField("until"), "and fails in" in running.message) == (True, True)
    assert (standing.HasField("until"), standing.kind) == (False, runs_pb2.REASON_KIND_SIGNAL)
    assert standing.message == ("It waits for signal 'approval', its time-out standing still until the run is resumed.")


async def test_no_sweep_dispatches_what_a_pause_holds(world: World) -> None:
    held, other = await started(world, ONE, "one"), await started(world, ONE, "one")
    await world.dispatches()
    await pause(world.first, held)
    await world.database.execute("UPDATE tasks SET ready_at = now() - interval '1 day'")
    await world.database.execute("UPDATE tasks SET sweep_at = now() - interval '1 day' WHERE sweep_at IS NOT NULL")

    assert await sweep(world) == 1
    assert [dispatch.run_id for dispatch in await world.dispatches()] == [other]
    await world.database.execute("UPDATE tasks SET sweep_at = now() - interval '1 day' WHERE sweep_at IS NOT NULL")
    progress = outbox_pb2.QueueProgress(namespace="default", queue="default", delivered_age={"seconds": 1})
    response = await world.first.outbox.Sweep(outbox_pb2.SweepRequest(queues=[progress]))
    assert response.dispatched == 1
    assert [dispatch.run_id for dispatch in await world.dispatches()] == [other]

    await resume(world.first, held)
    await world.dispatches()
    assert await sweep(world) == 2


async def test_the_answer_to_a_report_brings_no_next_task_of_a_paused_run(world: World) -> None:
    run_id = await started(world, TWO, "two")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    await pause(world.first, run_id)

    result = await report(world.first, first)

    assert result.answer == tasks_pb2.REPORT_ANSWER_ACCEPTED
    assert not result.HasField("next")
    assert await world.dispatches(run_id) == []
    assert (await world.first.task(run_id, "second")).state == runs_pb2.TASK_STATE_READY
    await resume(world.first, run_id)
    assert await world.dispatch(run_id) == Dispatch(run_id, "second", 1)


async def test_a_report_and_a_pause_in_one_transaction_dispatch_nothing(world: World) -> None:
    await one_bucket(world)
    run_id = await started(world, TWO, "two")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    blocker = await started(world, ONE, "one")
    lane = world.first.engine._decisions[0]

    async with world.hold("run_events"):  # while another event is stopped, both wait for the next transaction
        stopped = asyncio.ensure_future(world.first.signal(blocker, "x"))
        await world.until_blocked()
        reported = asyncio.ensure_future(report(world.first, first))
        await until(lambda: lane.backlog == 1, "the report has queued")
        paused = asyncio.ensure_future(pause(world.first, run_id))
        await until(lambda: lane.backlog == 2, "the pause has queued behind it")
    await stopped
    assert not await paused
    result = await reported

    assert result.answer == tasks_pb2.REPORT_ANSWER_ACCEPTED
    assert not result.HasField("next")
    assert await world.dispatches(run_id) == []
    await resume(world.first, run_id)
    assert await world.dispatch(run_id) == Dispatch(run_id, "second", 1)
    await check_replay(world, run_id)


@pytest.mark.parametrize("first_comes", ["pause", "report"])
async def test_a_pause_against_a_report_on_another_coordinator(first_comes: str, world: World) -> None:
    second = await world.coordinator()
    run_id = await started(world, TWO, "two")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    calls = {
        "pause": lambda c: pause(c, run_id),
        "report": lambda c: c.succeed(dispatch),
    }
    other = "report" if first_comes == "pause" else "pause"

    async with world.stall("runs"):
        winner = asyncio.ensure_future(calls[first_comes](world.first))
        await world.until_blocked()
        loser = asyncio.ensure_future(calls[other](second))
        await world.until_blocked(2)
    await winner
    await loser

    order = ["RunPaused", "NodeCompleted"] if first_comes == "pause" else ["NodeCompleted", "RunPaused"]
    assert await events(world, run_id) == ["RunStarted", *order]
    for late in await world.dispatches(run_id):
        assert first_comes == "report"
        assert await world.first.lease(late) == "RUN_PAUSED"
    await resume(second, run_id)
    final = await world.dispatch(run_id)
    await world.first.grant(final)
    assert await world.first.succeed(final) == "ACCEPTED"
    assert await world.first.state(run_id) == "SUCCEEDED"
    await check_replay(world, run_id)


async def test_a_lease_that_wins_against_a_pause_runs_to_its_end(world: World) -> None:
    run_id = await started(world, ONE, "one")
    dispatch = await world.dispatch(run_id)

    async with world.stall("tasks"):
        leased = asyncio.ensure_future(world.first.lease(dispatch))
        await world.until_blocked()
        paused = asyncio.ensure_future(pause(world.first, run_id))
        await world.until_blocked(2)
    assert await leased == "GRANTED"
    assert not await paused

    assert await world.first.succeed(dispatch) == "ACCEPTED"
    assert await world.first.state(run_id) == "SUCCEEDED"


async def test_a_timer_that_comes_due_while_paused_fires_once_on_resume(world: World) -> None:
    run_id = await started(world, SLEEP, "sleeping")
    (deadline, nap) = await world.let_timers_come_due(run_id)
    assert {deadline.kind, nap.kind} == {"run_deadline", "wait"}
    nap = nap if nap.kind == "wait" else deadline
    await world.database.execute("UPDATE tasks SET due_at = now() - interval '1 second' WHERE path = 'nap'")
    await pause(world.first, run_id, pause_clock=True)

    assert await world.timer_rows(run_id) == []
    assert await world.first.fire([nap]) == ["STALE"]  # the timers service had seen it just before

    await resume(world.first, run_id)
    assert await world.timer_rows(run_id) == [("", "run_deadline", 0), ("nap", "wait", 1)]
    assert await world.first.fire([nap, nap]) in (["FIRED", "STALE"], ["STALE", "FIRED"])
    assert await world.first.state(run_id) == "SUCCEEDED"
    await check_replay(world, run_id)


async def test_a_try_that_comes_due_while_paused_waits_for_the_resume(world: World) -> None:
    run_id = await started(world, RETRIED, "retried")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    await pause(world.first, run_id)
    await world.first.fail(dispatch)

    assert await world.timer_rows(run_id) == []
    await resume(world.first, run_id)

    assert await world.timer_rows(run_id) == [("work", "retry", 2)]
    due_at = await world.one("SELECT due_at FROM timers WHERE run_id = $1", UUID(run_id))
    assert due_at == await world.one("SELECT due_at FROM tasks WHERE run_id = $1", UUID(run_id))


async def test_pausing_twice_and_resuming_twice_change_nothing(world: World) -> None:
    run_id = await started(world, ONE, "one")
    assert await resume(world.first, run_id)
    once = str(uuid4())
    assert not await pause(world.first, run_id, request_id=once)
    assert not await pause(world.first, run_id, request_id=once)
    assert await pause(world.first, run_id)
    refused = await refusal_of(
        world.first.runs.Pause(runs_pb2.PauseRequest(run_id=run_id, pause_clock=True, request_id=str(uuid4())))
    )
    assert (refused.code, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_PAUSED")
    again = str(uuid4())
    assert not await resume(world.first, run_id, request_id=again)
    assert not await resume(world.first, run_id, request_id=again)
    assert await resume(world.first, run_id)
    assert not await pause(world.first, run_id, request_id=once)  # a repeat of what was answered long ago

    assert await events(world, run_id) == ["RunStarted", "RunPaused", "RunResumed"]


async def test_two_coordinators_that_resume_at_the_same_instant_dispatch_once(world: World) -> None:
    second = await world.coordinator()
    run_id = await started(world, JOIN, "joined")
    await world.dispatches(run_id)
    await pause(world.first, run_id)

    async with world.hold("run_events"):
        one = asyncio.ensure_future(resume(world.first, run_id))
        await world.until_blocked()
        two = asyncio.ensure_future(resume(second, run_id))
        await world.until_blocked(2)

    assert [await one, await two] == [False, True]
    assert sorted(dispatch.path for dispatch in await world.dispatches(run_id)) == ["left", "right"]


async def test_a_paused_run_can_be_cancelled_and_is_not_paused_when_it_is_reopened(world: World) -> None:
    run_id = await started(world, ONE, "one")
    await pause(world.first, run_id)
    refused = await refusal_of(world.first.runs.Retry(runs_pb2.RetryRequest(run_id=run_id, request_id=str(uuid4()))))
    assert refused.reason == "RUN_NOT_FINISHED"

    assert await world.first.cancel(run_id, reason="no use") == "CANCELLED"

    shown = (await world.first.get(run_id)).run
    assert (shown.cancel_reason, shown.error.message) == ("no use", "cancelled by request: no use")
    assert not shown.HasField("paused_at")
    refused = await refusal_of(world.first.runs.Resume(runs_pb2.ResumeRequest(run_id=run_id, request_id=str(uuid4()))))
    assert refused.reason == "RUN_CLOSED"
    assert refused.message.endswith(" is cancelled: it takes no resume any more; `retry` reopens it.")
    await world.dispatches()
    await world.first.retry(run_id)
    assert (await world.first.get(run_id)).run.cancel_reason == ""
    await world.first.grant(await world.dispatch(run_id))


async def test_a_run_that_is_being_stopped_cannot_be_paused(world: World) -> None:
    run_id = await started(world, ONE, "one")
    await world.first.grant(await world.dispatch(run_id))
    await world.first.cancel(run_id)

    refused = await refusal_of(world.first.runs.Pause(runs_pb2.PauseRequest(run_id=run_id, request_id=str(uuid4()))))

    assert (refused.code, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_STOPPING")


async def test_a_signal_is_recorded_and_taken_while_paused(world: World) -> None:
    run_id = await started(world, EVENT, "waiting")
    await pause(world.first, run_id)

    await world.first.signal(run_id, "approval", {"by": "Ada"})

    assert await world.dispatches(run_id) == []
    assert (await world.first.task(run_id, "ask")).state == runs_pb2.TASK_STATE_SUCCEEDED
    await resume(world.first, run_id)
    assert await world.dispatch(run_id) == Dispatch(run_id, "go", 1)


async def test_many_reports_with_a_pause_among_them_lose_nothing(world: World) -> None:
    run_id = await started(world, JOIN, "joined")
    dispatches = await world.dispatches(run_id)
    for dispatch in dispatches:
        await world.first.grant(dispatch)

    answers, _, _ = await asyncio.gather(
        world.first.report("w1", *(succeeded(dispatch) for dispatch in dispatches)),
        pause(world.first, run_id),
        world.first.signal(run_id, "x"),
    )

    assert answers == ["ACCEPTED", "ACCEPTED"]
    await world.dispatches(run_id)
    await resume(world.first, run_id)
    assert [dispatch.path for dispatch in await world.dispatches(run_id)] == ["after"]
    await check_replay(world, run_id)


POLL = (
    "workflow: poll\nnodes:\n  poll: {type: repeat, while: index < 5, max_iterations: 5, delay: 1h, keep_last: 1,\n"
    "    body: {type: call, handler: h}}\n"
)


async def test_a_repeat_goes_on_once_when_its_pause_was_over_before_the_run_was_resumed(world: World) -> None:
    run_id = await started(world, POLL, "poll")
    first = await world.dispatch(run_id)
    await world.first.lease(first)
    await world.first.succeed(first, None)
    (seen,) = await world.let_timers_come_due(run_id)
    told = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))).reasons[0]

    await pause(world.first, run_id)
    assert await world.first.fire([seen]) == ["STALE"]
    held = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))).reasons[0]
    assert await world.dispatches(run_id) == []
    await resume(world.first, run_id)
    timers = await world.let_timers_come_due(run_id)

    assert (told.kind, held.kind) == (runs_pb2.REASON_KIND_TIMER, runs_pb2.REASON_KIND_PAUSED)
    assert told.until == held.until == (await world.first.task(run_id, "poll")).due_at
    assert await world.first.fire(timers) == ["FIRED"]
    assert [dispatch.path for dispatch in await world.dispatches(run_id)] == ["poll[1].step"]
    assert not (await world.first.task(run_id, "poll")).HasField("due_at")
    await check_replay(world, run_id)


async def test_a_retry_from_an_iteration_whose_rows_were_dropped_says_so(world: World) -> None:
    run_id = await started(world, POLL.replace("delay: 1h, ", "").replace("< 5", "< 3"), "poll")
    for index in range(3):
        dispatch = Dispatch(run_id, f"poll[{index}].step", 1)
        await world.first.lease(dispatch)
        await world.first.succeed(dispatch, None)
    assert await world.first.state(run_id) == "SUCCEEDED"
    assert await world.one("SELECT count(*) FROM scopes") == 2

    for node in ("poll[0].step", "poll[0]", "poll[1].step", "poll[1]"):
        refused = await refusal_of(world.first.retry(run_id, node))
        assert (refused.code, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ITERATION_DROPPED")
        assert refused.metadata == {"node": node, "scope": "poll[0]", "kept": "1"}
