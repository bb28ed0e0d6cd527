"""What parents and children tell each other at the same time, or crossed, in several transactions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from headway.api.definitions.v1 import definitions_pb2
from headway.api.events.v1 import events_pb2
from headway.coordinator.engine import lanes
from headway.coordinator.engine.children import Children
from headway.coordinator.engine.starting import Starts
from tests.rpc.children import (
    DETACHED,
    GIVEN,
    LEAF,
    PARENT,
    begun,
    carry,
    carry_all,
    failed_child,
    handovers,
    looked_at_the_parent,
)
from tests.rpc.world import World


async def test_two_deliveries_of_a_start_in_two_transactions_at_once_start_one_run(world: World) -> None:
    other = await world.coordinator()
    _, child = await begun(world, LEAF, PARENT)
    starts = await handovers(world)

    async with world.stall("runs", "AFTER INSERT"):
        one = asyncio.create_task(carry(world, *starts, keep=True))
        await world.until_blocked()
        two = asyncio.create_task(carry(world, *starts, keep=True, by=other))
        await world.until_blocked(2)  # the second waits for the key that the first has taken

    assert await one == await two == [events_pb2.DELIVER_ANSWER_APPLIED]
    await carry_all(world)
    assert await world.one("SELECT count(*) FROM runs WHERE parent IS NOT NULL") == 1
    assert len(await world.dispatches(child)) == 1


@pytest.mark.parametrize("first", ["StartChild", "CancelChild"])
async def test_a_start_and_a_stop_in_two_transactions_at_once_leave_no_orphan(world: World, first: str) -> None:
    other = await world.coordinator()
    parent, child = await begun(world, LEAF, PARENT)
    starts = await handovers(world)
    await world.first.cancel(parent)
    cancels = await handovers(world, "CancelChild")
    ahead, behind = (starts, cancels) if first == "StartChild" else (cancels, starts)

    async with world.stall("runs", "AFTER INSERT"):
        one = asyncio.create_task(carry(world, *ahead, keep=True))
        await world.until_blocked()
        two = asyncio.create_task(carry(world, *behind, keep=True, by=other))
        await world.until_blocked(2)
    await asyncio.gather(one, two)
    await carry_all(world)

    assert await world.one("SELECT count(*) FROM runs WHERE parent IS NOT NULL") == 1
    assert [await world.first.state(each) for each in (child, parent)] == ["CANCELLED"] * 2


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
@pytest.mark.parametrize("is_known", [True, False])
async def test_a_stop_overtakes_a_start_that_has_looked_at_the_parent_already(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str, *, is_known: bool
) -> None:
    sources = [PARENT.replace("input: {n", "timeout: 1m, input: {n"), *([LEAF] if is_known else [])]
    parent, child = await begun(world, *sources)
    (start,) = await handovers(world)

    async with looked_at_the_parent(world, monkeypatch, start):
        if how == "cancelled":
            await world.first.cancel(parent)
        else:
            due = await world.let_timers_come_due(parent)
            await world.first.fire([timer for timer in due if timer.kind == "total_timeout"])
        await carry(world, *await handovers(world, "CancelChild"))
        await world.first.deploy(LEAF)
    await carry_all(world)

    assert await world.one("SELECT count(*) FROM runs WHERE state = 'running'") == 0
    assert await world.dispatches(child) == []
    assert await world.first.state(parent) == ("CANCELLED" if how == "cancelled" else "FAILED")
    assert await world.one("SELECT count(*) FROM runs WHERE parent IS NOT NULL") == is_known


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
@pytest.mark.parametrize("version", [0, 1])
async def test_a_stop_is_not_lost_when_all_versions_are_deleted_while_the_start_is_on_its_way(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str, version: int
) -> None:
    source = PARENT.replace("input: {n", f"timeout: 1m, {f'version: {version}, ' if version else ''}input: {{n")
    parent, child = await begun(world, source, LEAF)
    (start,) = await handovers(world)
    other = await world.coordinator()
    chosen, go = asyncio.Event(), asyncio.Event()
    choose = Starts._choose_versions

    async def stop_then(self: Starts, every: Any) -> None:
        await choose(self, every)
        if not every[0].ask.is_cancelled:
            chosen.set()
            await go.wait()

    monkeypatch.setattr(Starts, "_choose_versions", stop_then)
    starting = asyncio.create_task(carry(world, start, keep=True, by=other))
    await chosen.wait()
    if how == "cancelled":
        await world.first.cancel(parent)
    else:
        due = await world.let_timers_come_due(parent)
        await world.first.fire([timer for timer in due if timer.kind == "total_timeout"])
    await world.database.execute("UPDATE definitions SET deployed = false WHERE workflow = 'leaf'")
    await world.first.definitions.DeleteVersion(definitions_pb2.DeleteVersionRequest(workflow="leaf", version=1))
    await carry(world, *await handovers(world, "CancelChild"))
    go.set()
    await starting
    await carry_all(world)

    assert await world.first.state(child) == "CANCELLED"
    assert await world.dispatches(child) == []
    assert await world.first.state(parent) == ("CANCELLED" if how == "cancelled" else "FAILED")


@pytest.mark.parametrize("first", ["CancelChild", "looked", "StartChild"])
async def test_a_stop_overtakes_the_order_to_go_on_and_the_child_stays_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    parent, child = await failed_child(world)
    await world.first.retry(parent)
    (again,) = await handovers(world, "StartChild")

    if first == "looked":
        async with looked_at_the_parent(world, monkeypatch, again):
            await world.first.cancel(parent)
            await carry(world, *await handovers(world, "CancelChild"))
    else:
        await world.first.cancel(parent)
        cancels = await handovers(world, "CancelChild")
        for given in (cancels, [again]) if first == "CancelChild" else ([again], cancels):
            await carry(world, *given, keep=True)
            await carry(world, *given)
    await carry_all(world)

    assert await world.first.state(parent) == "CANCELLED"
    went_on = first == "StartChild"
    assert await world.first.state(child) == ("CANCELLED" if went_on else "FAILED")
    assert (await world.first.get(child)).run.epoch == 1 + went_on
    await world.first.retry(parent)  # it can be taken up later
    await carry_all(world)
    assert await world.first.state(child) == "RUNNING"


async def test_a_stop_that_comes_again_after_the_child_went_on_does_not_stop_it(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT)
    await carry_all(world)
    dispatch = await world.dispatch(child)
    await world.first.lease(dispatch)
    await world.first.cancel(parent)
    (late,) = await handovers(world, "CancelChild")
    await world.first.fail(dispatch, final=True)  # before it heard of the stop
    await carry(world, late, keep=True)
    await carry_all(world)
    await world.first.retry(parent)
    await carry_all(world)

    await carry(world, late)

    assert await world.first.state(child) == "RUNNING"
    assert not (await world.first.get(child)).run.cancelling


async def test_while_there_is_no_room_for_starts_ends_and_stops_are_still_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(LEAF, PARENT)
    ending = await world.first.start("parent", GIVEN)
    await carry_all(world)
    (dispatch,) = await world.dispatches()
    await world.first.lease(dispatch)
    await world.first.succeed(dispatch, 5)
    await world.first.start("parent", GIVEN)
    start, end = sorted(await handovers(world), key=lambda each: each.type, reverse=True)
    monkeypatch.setattr(lanes, "NEW_BACKLOG", 0)

    answers = await carry(world, start, end, keep=True)

    assert answers == [events_pb2.DELIVER_ANSWER_LATER, events_pb2.DELIVER_ANSWER_APPLIED]
    assert json.loads((await world.first.task(ending, "child")).output) == 5
    assert await world.one("SELECT count(*) FROM runs WHERE workflow = 'leaf'") == 1
    monkeypatch.undo()
    assert await carry(world, start) == [events_pb2.DELIVER_ANSWER_APPLIED]
    assert await world.first.state(start.run_id) == "RUNNING"


async def test_hand_overs_of_one_call_share_transactions(world: World) -> None:
    await world.first.deploy(LEAF, DETACHED)
    for _ in range(60):
        await world.first.start("parent", GIVEN)
    starts = await handovers(world, "StartChild")
    assert len(starts) == 60
    committed = "SELECT count(DISTINCT xmin::text) FROM runs WHERE workflow = 'leaf'"

    assert set(await carry(world, *starts)) == {events_pb2.DELIVER_ANSWER_APPLIED}

    assert await world.one(committed) < 30


async def test_orders_for_different_children_in_one_call_are_carried_out_at_the_same_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(LEAF, PARENT)
    parents = [await world.first.start("parent", GIVEN) for _ in range(3)]
    starts = await handovers(world)
    together = asyncio.Barrier(len(starts))
    look = Children._wanted

    async def look_together(self: Children, *message: Any) -> Any:
        await together.wait()
        return await look(self, *message)

    monkeypatch.setattr(Children, "_wanted", look_together)
    async with asyncio.timeout(20):
        answers = await carry(world, *starts)

    assert answers == [events_pb2.DELIVER_ANSWER_APPLIED] * len(parents)
    assert [await world.first.state(each.run_id) for each in starts] == ["RUNNING"] * len(parents)
