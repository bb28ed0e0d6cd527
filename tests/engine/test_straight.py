"""Decisions that are made without locks: whatever another does to the run meanwhile, it is as if it had come before.

Each race is staged: the coordinator that decides is stopped at a known step while another one, or a worker, does its
part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.engine import deciding
from tests.rpc.world import JOIN, ONE, TWO, Coordinator, Dispatch, World, succeeded
from tests.waiting import SECONDS

TIMED = (
    "workflow: timed\nnodes:\n"
    "  left: {type: call, handler: h.left, timeout: {total: 1h}}\n"
    "  right: {type: call, handler: h.right}\n"
    "  both: {type: join, need: 1}\n"
    "  after: {type: call, handler: h.after}\n"
    "edges: [[left, both, after], [right, both]]\n"
)
WRITING, LOADING = "save_straight", "load"


class Stop:
    """A step of `deciding` at which the first who comes there waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        self._reached = asyncio.Event()
        self._released = asyncio.Event()
        self._carry_on: Callable[..., Awaitable[Any]] = getattr(deciding, step)
        monkeypatch.setattr(deciding, step, self._pass)

    async def _pass(self, *arguments: Any, **options: Any) -> Any:
        if not self._reached.is_set():
            self._reached.set()
            await asyncio.wait_for(self._released.wait(), SECONDS)
        return await self._carry_on(*arguments, **options)

    async def until_reached(self) -> None:
        await asyncio.wait_for(self._reached.wait(), SECONDS)

    def release(self) -> None:
        self._released.set()


async def held_by_worker(world: World, source: str, workflow: str) -> dict[str, Dispatch]:
    """A run all of whose first tasks are held, by path."""
    await world.first.deploy(source)
    found = await world.dispatches(await world.first.start(workflow))
    await world.first.lease_all(found)
    return {dispatch.path: dispatch for dispatch in found}


async def event_types(world: World, run_id: str) -> list[str]:
    events = await world.database.fetch("SELECT seq, type FROM run_events WHERE run_id = $1 ORDER BY seq", UUID(run_id))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    return [event["type"] for event in events]


async def is_without_locks(world: World) -> bool:
    """No transaction of a coordinator is open: whoever is stopped holds nothing."""
    return not await world.one(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'headway-coordinator' AND state LIKE 'idle in transaction%'"
    )


async def test_a_report_that_another_coordinator_took_meanwhile_is_a_duplicate(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.coordinator()
    first = (await held_by_worker(world, TWO, "two"))["first"]
    stop = Stop(monkeypatch, WRITING)

    slow = asyncio.ensure_future(world.first.succeed(first, {"by": "first"}))
    await stop.until_reached()
    assert await is_without_locks(world)
    quick = await other.succeed(first, {"by": "other"})
    stop.release()

    assert (quick, await slow) == ("ACCEPTED", "DUPLICATE")
    assert await world.dispatches() == [Dispatch(first.run_id, "second", 1)]
    assert (await world.first.task(first.run_id, "first")).output == b'{"by": "other"}'
    assert await event_types(world, first.run_id) == ["RunStarted", "NodeCompleted"]


async def test_a_cancel_that_came_meanwhile_comes_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = await world.coordinator()
    first = (await held_by_worker(world, TWO, "two"))["first"]
    stop = Stop(monkeypatch, WRITING)

    report = asyncio.ensure_future(world.first.succeed(first))
    await stop.until_reached()
    await other.cancel(first.run_id)
    stop.release()

    assert await report == "ACCEPTED"
    assert await world.dispatches() == []
    assert await world.first.state(first.run_id) == "CANCELLED"
    assert await event_types(world, first.run_id) == ["RunStarted", "RunCancelled", "NodeCompleted"]


async def test_a_lease_that_was_reaped_meanwhile_makes_the_report_stale(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.coordinator()
    first = (await held_by_worker(world, TWO, "two"))["first"]
    stop = Stop(monkeypatch, WRITING)

    report = asyncio.ensure_future(world.first.succeed(first))
    await stop.until_reached()
    await world.let_lease_expire(first)
    assert await other.reap(first) == "FIRED"
    stop.release()

    assert await report == "STALE_ATTEMPT"
    assert await world.dispatches() == [Dispatch(first.run_id, "first", 2)]
    assert len((await world.first.get(first.run_id)).stale_reports) == 1


async def test_a_lease_that_has_run_out_is_left_to_who_holds_the_lock(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (await held_by_worker(world, TWO, "two"))["first"]
    await world.let_lease_expire(first)

    async def never(*_arguments: Any) -> bool:
        raise AssertionError("written without locks")

    monkeypatch.setattr(deciding, WRITING, never)

    assert await world.first.succeed(first) == "ACCEPTED"


async def test_a_renewal_meanwhile_does_no_harm(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (await held_by_worker(world, TWO, "two"))["first"]
    stop = Stop(monkeypatch, WRITING)

    report = asyncio.ensure_future(world.first.succeed(first))
    await stop.until_reached()
    assert await world.first.renew(first) == "RENEWED"
    stop.release()

    assert await report == "ACCEPTED"
    assert await world.first.renew(first) == "LEASE_LOST"
    assert await world.one("SELECT count(*) FROM tasks WHERE path = 'first' AND lease_expires_at IS NULL") == 1


async def test_what_moved_on_meanwhile_does_not_harm_the_rest_of_the_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.database.execute("UPDATE settings SET value = '1'")  # one lane for all
    await world.first.engine._refresh()
    other = await world.coordinator()
    held = [(await held_by_worker(world, TWO, "two"))["first"] for _ in range(12)]
    stop = Stop(monkeypatch, WRITING)

    report = asyncio.ensure_future(world.first.report("w1", *(succeeded(dispatch, 1) for dispatch in held)))
    await stop.until_reached()
    await asyncio.gather(*(other.signal(dispatch.run_id, "anything") for dispatch in held[::3]))
    stop.release()

    assert await report == ["ACCEPTED"] * 12
    assert sorted(d.run_id for d in await world.dispatches()) == sorted(d.run_id for d in held)
    for place, dispatch in enumerate(held):
        between = ["SignalReceived"] if place % 3 == 0 else []
        assert await event_types(world, dispatch.run_id) == ["RunStarted", *between, "NodeCompleted"]


async def test_a_run_that_is_locked_meanwhile_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (await held_by_worker(world, TWO, "two"))["first"]
    stop = Stop(monkeypatch, WRITING)

    report = asyncio.ensure_future(world.first.succeed(first))
    await stop.until_reached()
    async with world.locked("SELECT 1 FROM runs WHERE run_id = $1 FOR UPDATE", first.uuid):
        stop.release()
        await world.until_blocked()
        assert not report.done()

    assert await report == "ACCEPTED"
    assert len(await world.dispatches()) == 1


async def test_a_start_that_another_coordinator_made_meanwhile_is_one_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.coordinator()
    await world.first.deploy(ONE)
    request_id = str(uuid4())
    stop = Stop(monkeypatch, WRITING)

    slow = asyncio.ensure_future(world.first.start("one", request_id=request_id))
    await stop.until_reached()
    quick = await other.start("one", request_id=request_id)
    stop.release()

    assert await slow == quick
    assert len(await world.dispatches()) == 1
    assert await event_types(world, quick) == ["RunStarted"]


async def test_a_next_task_that_was_granted_in_vain_is_granted_by_what_was_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.coordinator()
    first = (await held_by_worker(world, TWO, "two"))["first"]
    item = succeeded(first, 1)
    item.next_grant_key = "next"
    request = tasks_pb2.ReportRequest(owner="w1", items=[item], queues=["default"])
    stop = Stop(monkeypatch, WRITING)

    slow = asyncio.ensure_future(world.first.tasks.Report(request))
    await stop.until_reached()
    (quick,) = (await other.tasks.Report(request)).results
    stop.release()

    (late,) = (await slow).results
    assert (quick.answer, late.answer) == (tasks_pb2.REPORT_ANSWER_ACCEPTED, tasks_pb2.REPORT_ANSWER_DUPLICATE)
    assert quick.next.task_id == late.next.task_id == f"{first.run_id}:second"
    assert await world.dispatches() == []
    assert await world.one("SELECT count(*) FROM tasks WHERE grant_key = 'next'") == 1


async def test_where_going_without_locks_keeps_failing_it_is_given_up_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.database.execute("UPDATE settings SET value = '1'")  # one lane for all
    await world.first.engine._refresh()
    tries, fails = 0, True
    carry_on: Callable[..., Awaitable[bool]] = getattr(deciding, WRITING)

    async def contended(*arguments: Any) -> bool:
        nonlocal tries
        tries += 1
        return not fails and await carry_on(*arguments)

    monkeypatch.setattr(deciding, WRITING, contended)
    await world.first.deploy(ONE)
    for _ in range(40):
        await world.first.start("one")
    in_vain, tries, fails = tries, 0, False
    for _ in range(40):
        await world.first.start("one")

    assert 1 < in_vain < 30
    assert tries > 20


# --- what was read first is older than what is read then


async def both_loaded_late(
    world: World, source: str, workflow: str, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[..., Awaitable[Any]]
) -> tuple[dict[str, Dispatch], str]:
    """`left` is reported; between what its decision reads first and the tokens of the join something happens."""
    other = await world.coordinator()
    held = await held_by_worker(world, source, workflow)
    stop = Stop(monkeypatch, LOADING)

    report = asyncio.ensure_future(world.first.succeed(held["left"], "slow"))
    await stop.until_reached()
    await meanwhile(other, held)
    stop.release()
    return held, await report


async def test_the_other_branch_of_a_join_that_ended_meanwhile_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def meanwhile(other: Coordinator, held: dict[str, Dispatch]) -> None:
        assert await other.succeed(held["right"], "quick") == "ACCEPTED"

    held, answer = await both_loaded_late(world, JOIN, "joined", monkeypatch, meanwhile)

    assert answer == "ACCEPTED"
    assert await world.dispatches() == [Dispatch(held["left"].run_id, "after", 1)]
    assert (await world.first.task(held["left"].run_id, "both")).output == b'{"left":"slow","right":"quick"}'


async def test_the_same_branch_of_a_join_that_ended_meanwhile_makes_the_report_a_duplicate(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def meanwhile(other: Coordinator, held: dict[str, Dispatch]) -> None:
        assert await other.succeed(held["left"], "quick") == "ACCEPTED"

    held, answer = await both_loaded_late(world, JOIN, "joined", monkeypatch, meanwhile)

    assert answer == "DUPLICATE"
    assert await event_types(world, held["left"].run_id) == ["RunStarted", "NodeCompleted"]


async def test_a_task_that_timed_out_meanwhile_makes_the_report_late(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def meanwhile(other: Coordinator, held: dict[str, Dispatch]) -> None:
        assert await other.fire(await world.let_timers_come_due(held["left"].run_id)) == ["FIRED"]

    held, answer = await both_loaded_late(world, TIMED, "timed", monkeypatch, meanwhile)

    assert answer == "LEASE_LOST"
    assert await event_types(world, held["left"].run_id) == ["RunStarted", "TimerFired"]
