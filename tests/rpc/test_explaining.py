"""Explain: for each live node one reason with its facts; for a run that is over, what decided it."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from tests.rpc.world import EVENT, JOIN, ONE, SLEEP, SWEEP, TWO, Coordinator, World, refusal_of

FORKED = (
    "workflow: forked\nnodes:\n"
    "  fast: {type: call, handler: h}\n  slow: {type: call, handler: h, queue: far}\n"
    "  both: {type: join}\n  one: {type: join, need: any}\n"
    "edges: [[fast, both], [slow, both], [fast, one], [slow, one]]\n"
)
PICKY = "workflow: picky\nnodes:\n  ask: {type: wait_for_event, event: approval, filter: 'payload.by == \"ann\"'}\n"


async def explain(coordinator: Coordinator, run_id: str) -> runs_pb2.ExplainResponse:
    return await coordinator.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))


async def reason(coordinator: Coordinator, run_id: str) -> runs_pb2.Reason:
    (found,) = (await explain(coordinator, run_id)).reasons
    return found


def kind(found: runs_pb2.Reason) -> str:
    return runs_pb2.ReasonKind.Name(found.kind).removeprefix("REASON_KIND_")


async def see(world: World, queue: str, ago: timedelta, owner: str = "w") -> None:
    await world.database.execute(
        "INSERT INTO workers VALUES ('default', $1, ARRAY[$2], now() - $3::interval)", owner, queue, ago
    )


async def test_a_task_in_a_queue_is_told_with_those_who_read_it(world: World) -> None:
    await world.first.deploy(SWEEP)
    run_id = await world.first.start("swept")

    nobody = await reason(world.first, run_id)
    await see(world, "other", timedelta())
    await see(world, "slow", timedelta(minutes=4), "gone")
    long_ago = await reason(world.first, run_id)
    await see(world, "slow", timedelta(seconds=100), "here")
    there = await reason(world.first, run_id)
    await world.database.execute("UPDATE workers SET left_at = now() WHERE owner = 'here'")
    left = await reason(world.first, run_id)

    assert (kind(nobody), nobody.queue, nobody.handler) == ("NO_WORKER", "slow", "h.work")
    assert "no worker of that queue was seen within the last hour" in nobody.message
    assert not nobody.HasField("worker_seen_at")
    assert (kind(long_ago), long_ago.workers) == ("NO_WORKER", 0)
    assert "no worker reads that queue now: the last was seen 4m" in long_ago.message
    assert (kind(there), there.workers) == ("QUEUED", 1)
    assert "1 worker of that queue was seen lately (1m 40s ago)" in there.message
    assert "or what reads the queue is frozen, or does not reach Redis" in there.message
    assert (kind(left), left.workers) == ("NO_WORKER", 0)
    assert "no worker reads that queue now: the last was seen 1m 40s" in left.message
    assert there.since == (await world.first.task(run_id, "work")).created_at


async def test_a_lease_is_told_with_its_holder_and_its_end(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch, owner="w9")

    leased = await reason(world.first, run_id)
    await world.let_lease_expire(dispatch)
    expired = await reason(world.first, run_id)

    assert (kind(leased), leased.owner, leased.attempt) == ("LEASED", "w9", 1)
    assert 50 < leased.until.seconds - leased.since.seconds <= 61
    assert kind(expired) == "LEASE_EXPIRED"


@pytest.mark.parametrize(("renewed_ago", "is_silent"), [(timedelta(seconds=35), False), (timedelta(seconds=50), True)])
async def test_of_a_holder_that_does_not_renew_it_is_told_when_it_was_heard_of(
    world: World, renewed_ago: timedelta, *, is_silent: bool
) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    await world.first.grant(await world.dispatch(run_id), owner="w9")
    await world.database.execute(
        "UPDATE tasks SET lease_ms = 90000, leased_at = now() - interval '10 minutes',"
        " lease_expires_at = now() - $1::interval + interval '90 seconds', attempt_expires_at = NULL",
        renewed_ago,
    )

    found = await reason(world.first, run_id)

    assert kind(found) == "LEASED"
    assert ("but was last heard of 50s ago" in found.message) is is_silent
    assert ("another worker takes the attempt up then" in found.message) is is_silent
    assert "its lease ends in " in found.message


async def test_of_a_holder_whose_connection_ended_that_is_told_until_it_comes_back(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    await world.first.grant(await world.dispatch(run_id), owner="w9")
    await see(world, "default", timedelta(), "w9")
    there = await reason(world.first, run_id)
    await world.database.execute("UPDATE workers SET left_at = now()")
    left = await reason(world.first, run_id)
    await world.database.execute("UPDATE workers SET left_at = now() - interval '1 hour'")
    came_back_before = await reason(world.first, run_id)

    assert "connection" not in there.message
    assert "has run attempt 1 for 0s, but its connection ended 0s ago" in left.message
    assert "connection" not in came_back_before.message


async def test_waits_name_their_time_or_their_signal(world: World) -> None:
    await world.first.deploy(SLEEP, EVENT)
    asleep, asking = await world.first.start("sleeping"), await world.first.start("waiting")

    timer = await reason(world.first, asleep)
    signal = await reason(world.first, asking)
    whole = await explain(world.first, asleep)

    assert (kind(timer), kind(signal), signal.signal) == ("TIMER", "SIGNAL", "approval")
    assert timer.until == (await world.first.task(asleep, "nap")).due_at
    assert 3_500 < signal.until.seconds - signal.since.seconds <= 3_600
    assert "Its deadline is in 1h 59m" in whole.message


async def test_a_wait_names_the_signals_that_came_and_fit_nothing(world: World) -> None:
    await world.first.deploy(PICKY)
    run_id = await world.first.start("picky")
    for count in (1, 2):
        await world.first.signal(run_id, "approval", {"by": count})
    await world.first.signal(run_id, "aproval", {"by": "ann"})
    for number in range(7):
        await world.first.signal(run_id, f"other{number}")
    await world.first.signal(run_id, "gone", ttl=timedelta(seconds=1))
    await world.database.execute("UPDATE signals SET expires_at = now() - interval '1 s' WHERE name = 'gone'")

    waits = await reason(world.first, run_id)
    await world.first.signal(run_id, "approval", {"by": "ann"})

    assert " Of that name 2 came whose payload does not fit its filter or schema. " in waits.message
    others = ", ".join(f"{name!r} (1)" for name in ("aproval", "other0", "other1", "other2", "other3"))
    assert waits.message.endswith(f" Others came that nothing waits for now: {others} and 3 names more.")
    assert await world.first.state(run_id) == "SUCCEEDED"


async def test_a_join_names_the_branches_that_it_waits_for(world: World) -> None:
    await world.first.deploy(FORKED)
    run_id = await world.first.start("forked")
    fast, _ = sorted(await world.dispatches(run_id), key=lambda found: found.path)
    await world.first.grant(fast)
    await world.first.succeed(fast)

    both, slow = (await explain(world.first, run_id)).reasons

    assert (both.path, kind(both)) == ("both", "BRANCHES")
    assert [(edge.from_node, edge.on) for edge in both.branches] == [("slow", "success")]
    assert (slow.path, kind(slow)) == ("slow", "NO_WORKER")  # `one` has fired: nobody waits for it


async def test_a_pending_node_of_a_reopened_run_waits_for_its_branches(world: World) -> None:
    await world.first.deploy(JOIN)
    run_id = await world.first.start("joined")
    for dispatch in await world.dispatches(run_id):
        await world.first.grant(dispatch)
        await world.first.succeed(dispatch)
    after = await world.dispatch(run_id)
    await world.first.grant(after)
    await world.first.succeed(after)
    await world.first.retry(run_id, "left")

    found = {each.path: each for each in (await explain(world.first, run_id)).reasons}

    assert [(edge.from_node) for edge in found["both"].branches] == ["left"]
    assert [(edge.from_node) for edge in found["after"].branches] == ["both"]


async def test_a_retry_is_told_with_the_error_and_the_time(world: World) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    await world.first.fail(dispatch, type="Flaky", message="no answer")

    found = await reason(world.first, run_id)

    assert (kind(found), found.error.type, found.error.message) == ("RETRY", "Flaky", "no answer")
    assert found.until == (await world.first.task(run_id, "first")).due_at


async def test_a_run_that_is_being_stopped_names_whom_it_waits_for_and_for_how_long(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    await world.first.grant(await world.dispatch(run_id), owner="deaf")
    await world.first.cancel(run_id, grace={"seconds": 600})

    whole = await explain(world.first, run_id)
    (found,) = whole.reasons

    assert (kind(found), found.owner) == ("STOPPING", "deaf")
    due_at = await world.one("SELECT due_at FROM timers WHERE kind = 'cancel_grace' AND run_id = $1", UUID(run_id))
    assert found.until.ToMicroseconds() == int(due_at.timestamp() * 1_000_000 + 0.5)
    assert "being stopped (cancelled)" in whole.message


async def test_a_run_that_failed_names_the_node_and_its_error(world: World) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two", {"a": 1})
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch, owner="w3")
    await world.first.fail(dispatch, owner="w3", type="Broken", message="it broke", final=True, details=b'{"a": 1}')

    whole = await explain(world.first, run_id)
    (found,) = whole.reasons

    assert whole.message == "The run has failed: first: Broken: it broke."
    assert (kind(found), found.path, found.owner, found.attempt) == ("FAILED", "first", "w3", 1)
    assert (found.error.failure_class, json.loads(found.error.details)) == ("exec_failed", {"a": 1})
    assert whole.run.state == runs_pb2.RUN_STATE_FAILED
    assert not whole.run.input


async def test_a_run_that_succeeded_has_nothing_to_explain(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    await world.first.succeed(dispatch)

    whole = await explain(world.first, run_id)

    assert (whole.message, len(whole.reasons), whole.left_out) == ("The run has succeeded.", 0, 0)


async def test_of_many_open_tasks_some_are_told_and_the_rest_counted(world: World) -> None:
    nodes = "".join(f"  n{number}: {{type: call, handler: h}}\n" for number in range(205))
    await world.first.deploy(f"workflow: wide\nnodes:\n{nodes}")
    run_id = await world.first.start("wide")

    whole = await explain(world.first, run_id)

    assert (len(whole.reasons), whole.left_out) == (200, 5)


DRAINED = (
    "workflow: drained\non_failure: drain\nnodes:\n"
    "  pay: {type: call, handler: h}\n  ship: {type: call, handler: h, queue: far}\n"
    "  note: {type: call, handler: h, optional: true}\n"
)


async def drained(world: World, source: str) -> str:
    """A run in which `ship` is under way, `note` and `pay` have failed."""
    await world.first.deploy(source)
    run_id = await world.first.start("drained")
    dispatches = {dispatch.path: dispatch for dispatch in await world.dispatches(run_id)}
    for dispatch in dispatches.values():
        await world.first.grant(dispatch)
    assert "fail" not in (await explain(world.first, run_id)).message
    for path in ("note", "pay"):
        await world.first.fail(dispatches[path], final=True, message=f"no {path}")
    return run_id


@pytest.mark.parametrize(
    ("on_failure", "says"),
    [
        ("drain", "It fails when they are over, for pay failed (exec_failed Broken: no pay)."),
        ("stop", "It has failed, for pay failed (exec_failed Broken: no pay), and only lets end what runs"),
    ],
)
async def test_a_run_that_has_failed_and_goes_on_says_so_and_where(world: World, on_failure: str, says: str) -> None:
    run_id = await drained(world, DRAINED.replace("drain\n", f"{on_failure}\n"))

    found = await explain(world.first, run_id)

    assert says in found.message
    assert [(each.path, kind(each)) for each in found.reasons] == [("pay", "FAILED"), ("ship", "LEASED")]
    assert found.reasons[0].error.message == "no pay"
    assert found.left_out == 0


async def test_a_run_that_a_finish_node_may_end_yet_says_so_and_one_that_is_cancelled_does_not(world: World) -> None:
    run_id = await drained(world, f"{DRAINED}  over: {{type: finish}}\nedges: [[ship, over]]\n")

    doomed = await explain(world.first, run_id)
    await world.first.cancel(run_id)
    cancelled = await explain(world.first, run_id)

    assert "for pay failed (exec_failed Broken: no pay), unless a finish node ends it." in doomed.message
    assert [each.path for each in cancelled.reasons] == ["ship"]


async def test_a_run_of_another_namespace_is_not_found(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")

    for request in (runs_pb2.ExplainRequest(run_id="nonsense"), runs_pb2.ExplainRequest(run_id=run_id, namespace="x")):
        refused = await refusal_of(world.first.runs.Explain(request))
        assert (refused.code, refused.reason) == (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")


async def test_after_the_grace_the_run_says_which_attempts_it_closed(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    await world.first.grant(await world.dispatch(run_id), owner="deaf")
    await world.first.cancel(run_id, reason="enough", grace={"seconds": 5})
    assert await world.first.fire(await world.let_timers_come_due(run_id)) == ["FIRED"]

    whole = await explain(world.first, run_id)
    (found,) = whole.reasons

    assert whole.message == (
        "The run was cancelled: cancelled by request: enough; 1 attempt(s) did not end in time and were closed:"
        " what they did is unknown."
    )
    assert (kind(found), found.path, found.owner) == ("CLOSED", "work", "deaf")
    assert list(whole.run.error.paths) == ["work"]
    assert (await world.first.task(run_id, "work")).cause == "unknown"


async def test_get_tells_a_failure_that_a_join_could_do_without(world: World) -> None:
    await world.first.deploy(FORKED.replace("[fast, both], [slow, both], ", "").replace("  both: {type: join}\n", ""))
    run_id = await world.first.start("forked")
    dispatches = {dispatch.path: dispatch for dispatch in await world.dispatches(run_id)}
    for path in ("slow", "fast"):
        await world.first.grant(dispatches[path])
    await world.first.fail(dispatches["slow"], final=True)
    await world.first.succeed(dispatches["fast"])

    assert (await world.first.task(run_id, "slow")).disposition == "tolerated"
    assert (await world.first.task(run_id, "fast")).disposition == ""
    assert await world.first.state(run_id) == "SUCCEEDED"


PARENT = "workflow: parent\nnodes: {child: {type: subflow, workflow: one, input: {}}}\n"


async def test_a_child_that_was_not_told_to_start_yet_is_said_to_wait_for_its_message(world: World) -> None:
    await world.first.deploy(ONE, PARENT)
    run_id = await world.first.start("parent")

    (reason,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))).reasons

    assert reason.child_run_id
    assert f"It waits for run {reason.child_run_id} of one, which was not told yet that it starts" in reason.message
    await world.database.execute("DELETE FROM outbox")
    (reason,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))).reasons
    assert "not told yet" not in reason.message


async def test_a_child_that_was_not_told_to_stop_yet_is_said_to_wait_for_its_message(world: World) -> None:
    await world.first.deploy(ONE, PARENT)
    run_id = await world.first.start("parent")
    await world.database.execute("DELETE FROM outbox")
    await world.first.cancel(run_id)

    (reason,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))).reasons

    assert "which was not told yet that it is to stop (" in reason.message


WIDE = (
    "workflow: wide\nnodes:\n"
    "  each: {type: map, over: '${input}', max_concurrency: 100, body: {type: wait_for_event, event: go}}\n"
    + "".join(f"  wait_{number}: {{type: wait, duration: 1h}}\n" for number in range(195))
)


async def test_of_more_open_tasks_than_are_told_the_runs_own_come_first_and_the_rest_is_counted(world: World) -> None:
    await world.first.deploy(WIDE)
    run_id = await world.first.start("wide", list(range(100)))

    found = await explain(world.first, run_id)

    assert sum("[" not in each.path for each in found.reasons) == 196
    assert (len(found.reasons), found.left_out) == (200, 96)
    assert "waits for 296 open tasks" in found.message


NESTED = (
    "workflow: nested\nnodes:\n"
    "  each: {type: map, over: '${input}', body: {type: map, over: '${item}', body: {type: call, handler: h}}}\n"
)


async def test_of_a_map_that_failed_it_is_told_what_failed_in_its_items(world: World) -> None:
    await world.first.deploy(NESTED)
    run_id = await world.first.start("nested", [[1]])
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    await world.first.fail(dispatch, message="on fire\nin the back")

    found = await explain(world.first, run_id)

    assert [each.path for each in found.reasons] == ["each", "each[0].step", "each[0].step[0].step"]
    assert "on fire in the back" in found.reasons[-1].message


async def test_a_dispatch_that_nobody_publishes_is_told_before_workers_are_blamed(world: World) -> None:
    await world.first.deploy(SWEEP)
    run_id = await world.first.start("swept")
    await see(world, "slow", timedelta(seconds=10))

    fresh = await reason(world.first, run_id)
    await world.database.execute("UPDATE outbox SET created_at = now() - interval '2 minutes'")
    lies = await reason(world.first, run_id)
    await world.database.execute("DELETE FROM outbox")
    published = await reason(world.first, run_id)

    assert (kind(fresh), kind(lies), kind(published)) == ("QUEUED", "UNPUBLISHED", "QUEUED")
    assert "It waits until one has a free slot" in published.message
    assert "its dispatch has lain in the outbox since" in lies.message
    assert "The relay is down, far behind, or does not reach Redis" in lies.message
    assert 115 < (await world.database.fetchval("SELECT extract(epoch FROM now())")) - lies.since.seconds < 150


async def test_what_is_overdue_is_laid_to_the_timers_service(world: World) -> None:
    await world.first.deploy(SLEEP, TWO)
    asleep, failed = await world.first.start("sleeping"), await world.first.start("two")
    dispatch = await world.dispatch(failed)
    await world.first.grant(dispatch)
    await world.first.fail(dispatch, type="Flaky", message="no answer")

    in_time = [await reason(world.first, run_id) for run_id in (asleep, failed)]
    await world.database.execute("UPDATE tasks SET due_at = now() - interval '3 minutes' WHERE due_at IS NOT NULL")
    await world.database.execute("UPDATE timers SET due_at = now() - interval '3 minutes' WHERE kind = 'run_deadline'")
    overdue = [await reason(world.first, run_id) for run_id in (asleep, failed)]
    whole = await explain(world.first, asleep)

    said = "That is overdue: the timers service is down, or does not reach a coordinator"
    assert [said in each.message for each in in_time] == [False, False]
    assert [said in each.message for each in overdue] == [True, True]
    assert "It waits for its time, which was 3m" in overdue[0].message
    assert "and was to be tried again 3m" in overdue[1].message
    assert "Its deadline was 3m" in whole.message


async def test_a_lease_that_ran_out_long_ago_is_laid_to_the_timers_service(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch, owner="w9")
    await world.let_lease_expire(dispatch)
    await world.database.execute("UPDATE tasks SET lease_expires_at = now() - interval '1 minute'")

    found = await reason(world.first, run_id)

    assert kind(found) == "LEASE_EXPIRED"
    assert "That is overdue: the timers service is down" in found.message


async def test_a_map_whose_room_is_used_up_says_so(world: World) -> None:
    await world.first.deploy(
        "workflow: narrow\nnodes:\n  each:\n    type: map\n    over: [1, 2, 3, 4, 5]\n    max_concurrency: 2\n"
        "    body: {type: call, handler: h}\n"
    )
    run_id = await world.first.start("narrow")

    found = {each.path: each for each in (await explain(world.first, run_id)).reasons}

    assert kind(found["each"]) == "ITEMS"
    assert found["each"].message == (
        "It waits for its items: 2 of 5 are under way, as many as max_concurrency lets: others begin when one of these"
        " ends (each[…]); 0 have ended."
    )
