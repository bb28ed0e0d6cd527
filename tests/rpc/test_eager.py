"""The answer to a report may hand the worker a next task of the run, leased, past the queue."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import grpc
import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.engine import eager
from tests.rpc.eager import LENGTH, LINE, LONG, answer, granted, leased, report, report_all, wishing
from tests.rpc.world import JOIN, ONE, SWITCH, Dispatch, World, refusal_of

BRIEF = (
    "workflow: brief\nnodes:\n"
    "  a: {type: call, handler: h.a}\n"
    "  b: {type: call, handler: h.b, lease: 60s, timeout: {attempt: 4s}}\n"
    "  c: {type: call, handler: h.c, lease: 3s}\n"
    "edges: [[a, b, c]]\n"
)


FAN = (
    "workflow: fan\nnodes:\n"
    "  a: {type: call, handler: h.a}\n"
    "  x: {type: call, handler: h.x}\n"
    "  y: {type: call, handler: h.y, queue: own}\n"
    "  z: {type: call, handler: h.z}\n"
    "edges: [[a, x], [a, y], [a, z]]\n"
)


BRANCHES = (
    "workflow: branches\nnodes:\n"
    "  left: {type: call, handler: h.left}\n"
    "  right: {type: call, handler: h.right}\n"
    "  after: {type: call, handler: h.after}\n"
    "  tidy: {type: call, handler: h.tidy}\n"
    "edges:\n  - [left, after]\n  - {from: left, on: always, to: tidy}\n"
)


ENDING = (
    "workflow: ending\nnodes:\n"
    "  left: {type: call, handler: h.left}\n"
    "  right: {type: call, handler: h.right}\n"
    "  after: {type: call, handler: h.after}\n"
    "  end: {type: finish}\n"
    "edges: [[left, after], [right, end]]\n"
)


RESCUE = (
    "workflow: rescue\nnodes:\n"
    "  a: {type: call, handler: h.a}\n"
    "  b: {type: call, handler: h.b}\n"
    "edges: [{from: a, on: failure, to: b}]\n"
)


PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


async def by_path(world: World, run_id: str) -> list[Dispatch]:
    """What waits in the outbox of a run; those of one decision have no order."""
    return sorted(await world.dispatches(run_id), key=lambda dispatch: dispatch.path)


async def both_held(world: World, source: str, workflow: str) -> tuple[Dispatch, Dispatch]:
    """A run whose first two tasks, left and right, are held."""
    await world.first.deploy(source)
    left, right = await by_path(world, await world.first.start(workflow))
    await world.first.lease_all([left, right])
    return left, right


async def test_a_report_that_asks_gets_the_next_task_leased(world: World) -> None:
    await world.first.deploy(LINE)
    first = await leased(world, "line", {"n": 1})

    (result,) = await report_all(world.first, wishing(first, {"out": [1, 2]}, trace=PARENT))

    assert answer(result) == ("ACCEPTED", "b")
    following, grant = result.next, result.next.grant
    assert (following.task_id, following.attempt) == (f"{first.run_id}:b", 1)
    assert timedelta(seconds=9) < grant.lease.ToTimedelta() <= timedelta(seconds=10)
    assert json.loads(grant.input) == {"got": {"out": [1, 2]}}
    assert (grant.handler, grant.workflow, grant.namespace) == ("h.b", "line", "default")
    assert (grant.run_id, grant.path, grant.try_number) == (first.run_id, "b", 1)
    assert grant.idempotency_key == f"{first.run_id}/b/1"
    assert grant.traceparent == PARENT
    assert await world.one("SELECT count(*) FROM outbox") == 0
    row = await world.columns(granted(result), "state", "attempt", "owner", "grant_key", "sweep_at")
    assert row == ("running", 1, "w1", "next", None)
    leased_at, started_at, ready_at, expires_at = await world.columns(
        granted(result), "leased_at", "started_at", "ready_at", "lease_expires_at"
    )
    assert leased_at == started_at == ready_at == expires_at - timedelta(seconds=10)
    task = await world.first.task(first.run_id, "b")
    assert (task.owner, task.attempt) == ("w1", 1)


async def test_it_is_as_good_a_lease_as_any_other(world: World) -> None:
    await world.first.deploy(LINE)
    following = granted(await report(world.first, await leased(world, "line")))

    assert await world.first.lease(following, "w2") == "HELD"
    assert await world.first.lease(following, "w1", "another") == "HELD"
    assert await world.first.lease(following, "w1", "next") == "GRANTED"
    assert await world.first.renew(following, "w2") == "LEASE_LOST"
    assert await world.first.succeed(following, None, "w2") == "LEASE_LOST"
    assert await world.first.reap(following) == "STALE"


async def test_it_is_short_until_it_is_renewed(world: World) -> None:
    await world.first.deploy(LINE)
    following = granted(await report(world.first, await leased(world, "line")))

    renewed = await world.first.renew_result(following)

    assert timedelta(seconds=59) < renewed.lease.ToTimedelta() <= timedelta(seconds=60)
    leased_at, expires_at = await world.columns(following, "leased_at", "lease_expires_at")
    assert expires_at - leased_at > timedelta(seconds=59)


async def test_it_is_no_longer_than_the_node_allows(world: World) -> None:
    await world.first.deploy(BRIEF)
    first = await report(world.first, await leased(world, "brief"))
    second = await report(world.first, granted(first), key="k2")

    assert timedelta(seconds=3) < first.next.grant.lease.ToTimedelta() <= timedelta(seconds=4)
    leased_at, ends_at, expires_at = await world.columns(
        granted(first), "leased_at", "attempt_expires_at", "lease_expires_at"
    )
    assert (ends_at, expires_at) == (None, None)  # it was reported
    assert leased_at is not None
    assert timedelta(seconds=2) < second.next.grant.lease.ToTimedelta() <= timedelta(seconds=3)


async def test_the_time_out_of_an_attempt_counts_from_the_grant(world: World) -> None:
    await world.first.deploy(BRIEF)
    following = granted(await report(world.first, await leased(world, "brief")))

    renewed = await world.first.renew_result(following)

    leased_at, ends_at, expires_at = await world.columns(
        following, "leased_at", "attempt_expires_at", "lease_expires_at"
    )
    assert ends_at == expires_at == leased_at + timedelta(seconds=4)
    assert renewed.lease.ToTimedelta() <= timedelta(seconds=4)


async def test_a_run_goes_to_its_end_by_reports_alone(world: World) -> None:
    await world.first.deploy(LINE)
    held: Dispatch | None = await leased(world, "line")
    run_id, paths = held.run_id, list[str]()
    while held is not None:
        result = await report(world.first, held, held.path, key=f"after {held.path}")
        assert answer(result)[0] == "ACCEPTED"
        paths.append(held.path)
        held = granted(result) if result.HasField("next") else None

    assert paths == ["a", "b", "c", "d"]
    assert await world.first.state(run_id) == "SUCCEEDED"
    assert await world.one("SELECT count(*) FROM outbox") == 0
    assert await world.one("SELECT count(*) FROM run_events") == 5


async def test_a_task_that_is_redone_is_granted_at_the_attempt_that_it_is_at(world: World) -> None:
    await world.first.deploy(LINE)
    first = await leased(world, "line")
    await world.first.fail(granted(await report(world.first, first)), final=True)
    await world.first.retry(first.run_id, "a")
    again = await world.dispatch(first.run_id)
    await world.first.grant(again)

    result = await report(world.first, again, "another input", key="again")

    assert granted(result) == Dispatch(first.run_id, "b", 2)
    assert await world.columns(granted(result), "generation") == (2,)
    assert result.next.grant.idempotency_key == f"{first.run_id}/b/2"
    assert result.next.grant.try_number == 1
    assert answer(await report(world.first, granted(result), key="k2")) == ("ACCEPTED", "c")


async def test_what_comes_behind_a_control_node_is_granted_too(world: World) -> None:
    await world.first.deploy(SWITCH)
    first = await leased(world, "switched")

    assert answer(await report(world.first, first, {"score": 9})) == ("ACCEPTED", "high")
    assert await world.dispatches() == []


async def test_of_a_fan_out_one_is_granted_and_the_others_are_dispatched(world: World) -> None:
    await world.first.deploy(FAN)
    first = await leased(world, "fan")

    result = await report(world.first, first)

    assert answer(result) == ("ACCEPTED", "x")
    assert [d.path for d in await by_path(world, first.run_id)] == ["y", "z"]


async def test_of_a_fan_out_the_one_on_a_queue_that_the_worker_reads_is_granted(world: World) -> None:
    await world.first.deploy(FAN)
    first = await leased(world, "fan")

    result = await report(world.first, first, queues=("own", "some other"))

    assert answer(result) == ("ACCEPTED", "y")
    assert [d.path for d in await by_path(world, first.run_id)] == ["x", "z"]


async def test_inputs_by_reference_come_whole(world: World) -> None:
    """`c` is given the run's input, `d` an output of long ago: neither is read for the decision."""
    await world.first.deploy(LINE)
    given, output = {"ü": [1.5, None, "\u2028"]}, {"nested": {"a": [True]}}
    b = granted(await report(world.first, await leased(world, "line", given), output))
    to_c = await report(world.first, b, "b", key="k2")
    to_d = await report(world.first, granted(to_c), "c", key="k3")

    assert json.loads(to_c.next.grant.input) == given
    assert json.loads(to_d.next.grant.input) == output
    stored = "SELECT data FROM outputs WHERE run_id = $1 AND path = $2 AND role = $3"
    assert to_c.next.grant.input == await world.one(stored, b.uuid, "", b"i")
    assert to_d.next.grant.input == await world.one(stored, b.uuid, "a", b"o")


async def test_a_task_without_an_input_is_granted_null(world: World) -> None:
    await world.first.deploy(FAN)

    result = await report(world.first, await leased(world, "fan"))

    assert result.next.grant.input == b"null"


@pytest.mark.parametrize(("more", "expected"), [(0, "d"), (1, None)])
async def test_a_large_input_comes_by_a_lease_of_its_own(more: int, expected: str | None, world: World) -> None:
    await world.first.deploy(LINE)
    output = "x" * (eager.INPUT_BYTES - 2 + more)  # with its quotes as large as may be
    a = await leased(world, "line")
    await world.first.succeed(a, output)
    b = await world.dispatch(a.run_id)
    await world.first.grant(b)
    to_c = await report(world.first, b, key="k2")

    to_d = await report(world.first, granted(to_c), key="k3")

    assert answer(to_d) == ("ACCEPTED", expected)
    dispatched = await world.dispatches(a.run_id)
    assert dispatched == [Dispatch(a.run_id, "d", 1)] * more
    for dispatch in dispatched:
        assert len((await world.first.grant(dispatch)).input) == eager.INPUT_BYTES + 1


async def test_many_reports_of_one_call_get_one_each(world: World) -> None:
    await world.first.deploy(LINE)
    held = [await leased(world, "line", {"n": n}) for n in range(12)]

    results = await report_all(world.first, *(wishing(d, d.run_id, key=f"after {d.run_id}") for d in held))

    assert [answer(result) for result in results] == [("ACCEPTED", "b")] * 12
    assert [granted(result).run_id for result in results] == [d.run_id for d in held]
    assert [json.loads(result.next.grant.input) for result in results] == [{"got": d.run_id} for d in held]
    assert await world.dispatches() == []


async def test_two_branches_of_one_call_get_their_join_s_successor_once(world: World) -> None:
    left, right = await both_held(world, JOIN, "joined")

    one, other = await report_all(world.first, wishing(left, 1, key="k1"), wishing(right, 2, key="k2"))

    assert (answer(one), answer(other)) == (("ACCEPTED", None), ("ACCEPTED", "after"))
    assert json.loads(other.next.grant.input) == {"left": 1, "right": 2}
    assert await world.columns(granted(other), "grant_key") == ("k2",)
    assert await world.dispatches() == []


@pytest.mark.parametrize(
    "fields",
    [
        {"queues": ("another",)},
        {"queues": ()},
        {"queues": ("default ", "DEFAULT")},
        {"namespace": "elsewhere"},
        {"key": ""},
    ],
    ids=str,
)
async def test_who_does_not_ask_for_it_gets_it_by_its_queue(fields: dict[str, Any], world: World) -> None:
    await world.first.deploy(LINE)
    first = await leased(world, "line")

    assert answer(await report(world.first, first, **fields)) == ("ACCEPTED", None)
    (dispatch,) = await world.dispatches(first.run_id)
    assert dispatch == Dispatch(first.run_id, "b", 1)
    assert await world.columns(dispatch, "state", "grant_key", "eager_grants") == ("ready", None, 0)
    assert await world.first.lease(dispatch, "w2") == "GRANTED"


async def test_a_report_that_does_not_count_is_granted_nothing(world: World) -> None:
    await world.first.deploy(LINE)
    first = await leased(world, "line")
    before = await world.rows_of(first.run_id)

    assert answer(await report(world.first, first, owner="w2")) == ("LEASE_LOST", None)
    assert answer(await report(world.first, Dispatch(first.run_id, "a", 2))) == ("STALE_ATTEMPT", None)
    assert await world.rows_of(first.run_id) == before


async def test_a_failure_s_successor_comes_by_its_queue(world: World) -> None:
    await world.first.deploy(RESCUE)
    first = await leased(world, "rescue")
    failed = tasks_pb2.ReportItem(
        task_id=first.task_id, attempt=1, failed=tasks_pb2.Failed(final=True), next_grant_key="next"
    )

    (result,) = await report_all(world.first, failed)

    assert answer(result) == ("ACCEPTED", None)
    assert await world.dispatches(first.run_id) == [Dispatch(first.run_id, "b", 1)]


async def test_a_run_that_is_cancelled_starts_nothing(world: World) -> None:
    left, _ = await both_held(world, BRANCHES, "branches")
    await world.first.cancel(left.run_id)

    assert answer(await report(world.first, left)) == ("ACCEPTED", None)
    assert await world.dispatches() == []
    assert await world.one("SELECT count(*) FROM tasks WHERE state = 'running'") == 1


async def test_a_run_that_is_finishing_starts_nothing(world: World) -> None:
    left, right = await both_held(world, ENDING, "ending")

    assert answer(await report(world.first, right)) == ("ACCEPTED", None)
    assert answer(await report(world.first, left)) == ("ACCEPTED", None)
    assert await world.dispatches() == []
    assert await world.first.state(left.run_id) == "SUCCEEDED"


async def test_of_a_run_that_is_failing_only_what_always_runs_is_granted(world: World) -> None:
    left, right = await both_held(world, BRANCHES, "branches")
    await world.first.fail(right, final=True)

    assert answer(await report(world.first, left)) == ("ACCEPTED", "tidy")
    assert await world.dispatches() == []
    assert await world.one("SELECT count(*) FROM tasks WHERE path = 'after' AND state <> 'cancelled'") == 0


async def test_too_many_queues_or_too_long_a_key_are_refused(world: World) -> None:
    await world.first.deploy(LINE)
    first = await leased(world, "line")

    refusal = await refusal_of(report(world.first, first, queues=[str(n) for n in range(1_001)]))
    result = await report(world.first, first, key="x" * 101)

    assert (refusal.code, refusal.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "queues")
    assert result.refusal.metadata["field"] == "next_grant_key"
    assert await world.one("SELECT count(*) FROM run_events") == 1


async def test_after_so_many_in_a_row_the_next_goes_through_its_queue_and_the_count_begins_anew(world: World) -> None:
    await world.first.deploy(LONG)
    held = await leased(world, "long")
    by_queue, in_a_row = list[str](), list[int]()
    while True:
        number = int(held.path[1:])
        in_a_row += await world.columns(held, "eager_grants")
        result = await report(world.first, held, key=f"after {number}")
        again = await report(world.first, held, key=f"after {number}")  # a repeated report counts no grant
        assert answer(again)[1] == answer(result)[1]
        if number + 1 == LENGTH:
            break
        if result.HasField("next"):
            held = granted(result)
            await world.first.renew(held)
        else:
            held = await world.dispatch(held.run_id)
            await world.first.grant(held)
            by_queue.append(held.path)

    assert by_queue == ["n21", "n42"]
    assert in_a_row == [number % (eager.IN_A_ROW + 1) for number in range(LENGTH)]
    assert await world.first.state(held.run_id) == "SUCCEEDED"


async def test_a_long_run_does_not_keep_a_worker_s_only_slot_from_another(world: World) -> None:
    """One slot, one queue, first come first served: what a report brings is done before the next message is read."""
    await world.first.deploy(LONG, ONE)
    queue = [await world.dispatch(await world.first.start("long"))]
    queue.append(await world.dispatch(await world.first.start("one")))
    done: list[str] = []
    while queue:
        held = queue.pop(0)
        await world.first.grant(held)
        while True:
            result = await report(world.first, held, key=f"{len(done)}")
            done.append(held.path)
            if not result.HasField("next"):
                break
            held = granted(result)
        queue += await world.dispatches()

    assert done.index("work") == 1 + eager.IN_A_ROW
    assert len(done) == LENGTH + 1
