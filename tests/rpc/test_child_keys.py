"""Business keys of runs that subflow nodes start: nobody else has them, and they pass on from run to run of a node."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest

from headway.api.runs.v1 import runs_pb2
from tests.rpc.children import LEAF, MAPPED, PARENT, begun, carry, carry_all, handovers, looked_at_the_parent
from tests.rpc.test_deleting import MIDDLE, OUTER, delete, latest_child
from tests.rpc.world import World

KEYED = PARENT.replace("input: {n", 'key: "order-${input.n}", input: {n')
RETRIED = KEYED.replace("input: {n", "retry: {max_attempts: 2, initial: 1s}, input: {n")
KEYED_MIDDLE = MIDDLE.replace("input: {n", "key: deepest, input: {n")


async def holder(world: World, key: str) -> str:
    """Whose a key is."""
    run_id: UUID = await world.one("SELECT run_id FROM start_keys WHERE key = $1", key)
    return run_id.hex


async def fail_work(world: World, child: str) -> None:
    dispatch = await world.dispatch(child)
    await world.first.grant(dispatch)
    await world.first.fail(dispatch, final=True)
    await carry_all(world)


async def succeed_work(world: World, child: str, output: object = 5) -> None:
    dispatch = await world.dispatch(child)
    await world.first.grant(dispatch)
    await world.first.succeed(dispatch, output)
    await carry_all(world)


async def error_of(world: World, run_id: str) -> tuple[str, dict[str, Any]]:
    error = (await world.first.task(run_id, "child")).error
    return error.type, json.loads(error.details)


async def test_a_child_is_found_and_signalled_by_the_key_that_its_node_computes(world: World) -> None:
    parent, child = await begun(world, LEAF, KEYED)

    starts = await handovers(world)
    for _ in range(2):
        await carry(world, *starts)

    assert (await world.first.get(child)).run.key == "order-1"
    listed = runs_pb2.ListRequest(filter=runs_pb2.RunFilter(key="order-1"))
    assert [run.run_id for run in (await world.first.runs.List(listed)).runs] == [child]
    await world.first.runs.Signal(
        runs_pb2.SignalRequest(key="order-1", name="hello", request_id="00000000-0000-4000-8000-000000000001")
    )
    assert [event.type for event in await world.first.history(child)] == ["RunStarted", "SignalReceived"]
    assert await world.first.start("leaf", {"n": 1}, key="order-1") == child  # the same request, the same run
    await succeed_work(world, child)
    assert json.loads((await world.first.task(parent, "child")).output) == 5


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_key_that_another_run_has_fails_the_node_which_names_that_run(world: World, *, is_over: bool) -> None:
    await world.first.deploy(LEAF)
    other = await world.first.start("leaf", {"n": 7}, key="order-1")
    if is_over:
        await world.first.cancel(other)
    caught = KEYED.replace("edges: [", "edges: [{from: child, to: sorry, on: failure, errors: [SubflowKeyTaken]}, ")
    source = caught.replace("nodes:\n", 'nodes:\n  sorry: {type: call, handler: h.sorry, input: "${error.run_id}"}\n')
    parent, child = await begun(world, source)

    starts = await handovers(world)
    for _ in range(2):
        await carry(world, *starts, keep=True)
    await carry_all(world)

    assert await error_of(world, parent) == ("SubflowKeyTaken", {"workflow": "leaf", "key": "order-1", "run_id": other})
    assert await world.one("SELECT count(*) FROM runs WHERE run_id = $1", UUID(child)) == 0
    assert await holder(world, "order-1") == other
    (sorry,) = [each for each in await world.dispatches(parent) if each.path == "sorry"]
    assert json.loads((await world.first.grant(sorry)).input) == other


async def test_each_attempt_gets_the_key_of_the_one_before_when_that_is_over(world: World) -> None:
    parent, first = await begun(world, LEAF, RETRIED)
    (late,) = await handovers(world)
    await carry_all(world)
    await fail_work(world, first)
    await world.first.fire([timer for timer in await world.let_timers_come_due(parent) if timer.kind == "retry"])
    await carry(world, late)  # the start of the first attempt, once more
    await carry_all(world)
    second = await latest_child(world, parent)

    assert second != first
    assert await holder(world, "order-1") == second
    assert (await world.first.get(second)).run.key == "order-1"
    assert await delete(world, first)
    assert await holder(world, "order-1") == second
    await succeed_work(world, second)
    assert json.loads((await world.first.task(parent, "child")).output) == 5
    after = await world.dispatch(parent)
    await world.first.grant(after)
    await world.first.succeed(after)
    await world.first.retry(parent, "child", render_inputs=True)  # a child that had succeeded is followed, too
    await carry_all(world)
    assert await holder(world, "order-1") == await latest_child(world, parent) != second


async def test_a_start_that_comes_late_takes_no_key_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, first = await begun(world, LEAF, RETRIED)
    (late,) = await handovers(world)
    await carry(world, late)

    async with looked_at_the_parent(world, monkeypatch, late):
        await fail_work(world, first)
        await world.first.fire([timer for timer in await world.let_timers_come_due(parent) if timer.kind == "retry"])
        await carry_all(world)
        second = await latest_child(world, parent)
        await fail_work(world, second)
        assert await holder(world, "order-1") == second != first
    await carry_all(world)

    assert await holder(world, "order-1") == second
    assert (await error_of(world, parent))[0] == "SubflowFailed"


async def test_a_child_that_goes_on_keeps_its_key_and_one_that_was_deleted_leaves_it_to_the_next(world: World) -> None:
    parent, first = await begun(world, LEAF, KEYED)
    await carry_all(world)
    await fail_work(world, first)
    await world.first.retry(parent)
    await carry_all(world)
    assert await holder(world, "order-1") == first
    await fail_work(world, first)

    await delete(world, first)
    await world.first.retry(parent)
    await carry_all(world)

    second = await latest_child(world, parent)
    assert await holder(world, "order-1") == second != first
    assert await world.first.state(second) == "RUNNING"


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_key_passes_on_in_its_place_also_when_the_run_around_it_is_another(
    world: World, *, is_deleted: bool
) -> None:
    await world.first.deploy(LEAF, KEYED_MIDDLE, OUTER)
    outer = await world.first.start("outer")
    await carry_all(world)
    middle = await latest_child(world, outer)
    leaf = await latest_child(world, middle)
    await fail_work(world, leaf)
    assert await world.first.state(outer) == "FAILED"

    if is_deleted:
        await delete(world, middle)
    await world.first.retry(outer, "child", render_inputs=not is_deleted)
    await carry_all(world)

    other = await latest_child(world, outer)
    assert other != middle
    assert await holder(world, "deepest") == await latest_child(world, other) != leaf
    assert await world.first.state(other) == "RUNNING"


async def test_a_key_is_not_taken_from_a_run_of_the_node_that_is_not_over(world: World) -> None:
    parent, first = await begun(world, LEAF, KEYED.replace("input: {n", "timeout: 1m, input: {n"))
    await carry_all(world)
    dispatch = await world.dispatch(first)
    await world.first.grant(dispatch)  # whose end it waits for when it is stopped
    due = await world.let_timers_come_due(parent)
    await world.first.fire([timer for timer in due if timer.kind == "total_timeout"])
    await carry_all(world)
    assert await world.first.state(first) == "RUNNING"

    await world.first.retry(parent)
    await carry_all(world)
    assert (await error_of(world, parent))[0] == "SubflowKeyTaken"
    await world.first.succeed(dispatch)
    assert await world.first.state(first) == "CANCELLED"
    await world.first.retry(parent)
    await carry_all(world)

    assert await holder(world, "order-1") == await latest_child(world, parent) != first
    assert await world.first.state(parent) == "RUNNING"


async def test_of_items_with_one_key_at_the_same_time_one_has_its_run(world: World) -> None:
    source = MAPPED.replace("input: {n", "key: same, input: {n").replace("over:", "tolerate: {count: 1}\n    over:")
    await world.first.deploy(LEAF, source)
    parent = await world.first.start("parent", {"list": [1, 2]})
    before = await world.dispatch(parent)
    await world.first.grant(before)
    await world.first.succeed(before)
    starts = await handovers(world)
    assert len(starts) == 2
    other = await world.coordinator()

    async with world.stall("start_keys", "AFTER INSERT"):
        one = asyncio.create_task(carry(world, starts[0], keep=True))
        await world.until_blocked()
        two = asyncio.create_task(carry(world, starts[1], by=other, keep=True))
        await world.until_blocked(2)
    await asyncio.gather(one, two)
    await carry_all(world)

    assert await holder(world, "same") == starts[0].run_id
    errors = await world.database.fetch("SELECT path, error FROM tasks WHERE error IS NOT NULL")
    (error,) = [json.loads(each["error"]) for each in errors]
    assert (error["type"], error["details"]["run_id"]) == ("SubflowKeyTaken", starts[0].run_id)
    assert await world.first.state(starts[0].run_id) == "RUNNING"


@pytest.mark.parametrize("first", ["StartChild", "CancelChild"])
async def test_a_start_with_a_key_and_a_cancel_that_cross_leave_no_orphan(world: World, first: str) -> None:
    parent, child = await begun(world, LEAF, KEYED)
    starts = await handovers(world)
    await world.first.cancel(parent)
    cancels = await handovers(world, "CancelChild")

    for given in (starts, cancels) if first == "StartChild" else (cancels, starts):
        await carry(world, *given, keep=True)
        await carry(world, *given)
    await carry_all(world)

    assert await world.first.state(child) == "CANCELLED"
    assert await world.first.state(parent) == "CANCELLED"
    await world.first.retry(parent)
    await carry_all(world)
    assert await world.first.state(await latest_child(world, parent)) == "RUNNING"


@pytest.mark.parametrize(
    ("spelt", "key"),
    [
        ('"${input.n}"', "1"),
        ('"${input.n + 0.0}"', "1"),
        ('"${has(input.no) ? input.no : null}"', ""),
        ("plain", "plain"),
    ],
)
async def test_a_key_is_a_text_or_a_number_and_null_is_none(world: World, spelt: str, key: str) -> None:
    _, child = await begun(world, LEAF, PARENT.replace("input: {n", f"key: {spelt}, input: {{n"))
    await carry_all(world)

    assert (await world.first.get(child)).run.key == key
    assert await world.first.state(child) == "RUNNING"


@pytest.mark.parametrize("spelt", ['""', '"${input.listed}"', '"${input.sure}"', f'"${{input.n}}{"x" * 200}"'])
async def test_what_can_be_no_key_fails_the_node(world: World, spelt: str) -> None:
    await world.first.deploy(LEAF, PARENT.replace("input: {n", f"key: {spelt}, input: {{n"))
    parent = await world.first.start("parent", {"n": 1, "listed": [1], "sure": True})

    assert await error_of(world, parent) == ("SubflowRefused", {"workflow": "leaf", "reason": "INVALID_KEY"})
    assert await handovers(world) == []
    assert await world.first.state(parent) == "FAILED"


async def test_a_key_that_cannot_be_computed_fails_the_node(world: World) -> None:
    await world.first.deploy(LEAF, PARENT.replace("input: {n", 'key: "${input.no}", input: {n'))
    parent = await world.first.start("parent", {"n": 1})

    assert (await world.first.task(parent, "child")).error.type == "ExpressionError"
    assert await world.first.state(parent) == "FAILED"
