"""Runs that subflow nodes start, over the real store: what they tell each other comes twice, late or crossed."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from headway.api.runs.v1 import runs_pb2
from tests.rpc.children import (
    DETACHED,
    LEAF,
    MAPPED,
    PARENT,
    begun,
    carry,
    carry_all,
    child_state,
    failed_child,
    handovers,
)
from tests.rpc.world import World


async def test_a_child_runs_and_its_output_is_the_nodes_however_often_it_is_told(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT)

    for _ in range(2):
        await carry(world, *await handovers(world), keep=True)
    await world.database.execute("DELETE FROM outbox WHERE kind = 'handover'")
    dispatch = await world.dispatch(child)
    await world.first.lease(dispatch)
    await world.first.succeed(dispatch, {"sum": 7})
    for _ in range(2):
        await carry(world, *await handovers(world), keep=True)

    task = await world.first.task(parent, "child")
    assert json.loads(task.output) == {"sum": 7}
    assert await child_state(world) == "succeeded"
    types = [event.type for event in await world.first.history(parent)]
    assert types.count("ChildFinished") == 1
    (after,) = [each for each in await world.dispatches(parent) if each.path == "after"]
    await world.first.lease(after)
    await world.first.succeed(after)
    assert await world.first.state(parent) == "SUCCEEDED"


@pytest.mark.parametrize(
    ("written", "given"), [(", input: null", b"null"), (", input: '${input.none}'", b"null"), ("", b"{}")]
)
async def test_a_child_is_given_null_where_that_is_its_input_and_an_empty_object_where_none_is(
    written: str, given: bytes, world: World
) -> None:
    leaf = "workflow: leaf\nnodes:\n  work: {type: call, handler: h.work, input: '${input}'}\n"
    parent = f"workflow: parent\nnodes:\n  child: {{type: subflow, workflow: leaf{written}}}\n"
    await world.first.deploy(leaf, parent)
    await world.first.start("parent", {"none": None})

    (start,) = await handovers(world, "StartChild")
    await carry_all(world)

    assert (await world.first.get(start.run_id)).run.input == given
    assert (await world.first.grant(await world.dispatch(start.run_id))).input == given


async def test_a_child_that_fails_fails_its_node_and_is_named_with_its_failing_nodes(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT)
    await carry_all(world)
    dispatch = await world.dispatch(child)
    await world.first.lease(dispatch)
    await world.first.fail(dispatch, type="Boom", message="no")
    await carry_all(world)

    task = await world.first.task(parent, "child")

    assert task.error.type == "SubflowFailed"
    assert json.loads(task.error.details) == {"workflow": "leaf", "run_id": child, "nodes": ["work"]}
    assert await world.first.state(parent) == "FAILED"


async def test_a_retry_of_the_parent_goes_on_inside_the_child_that_failed(world: World) -> None:
    parent, child = await failed_child(world)

    await world.first.retry(parent)
    again = await handovers(world)
    await carry(world, *again, keep=True)
    await carry_all(world)
    dispatch = await world.dispatch(child)
    await world.first.lease(dispatch)
    await world.first.succeed(dispatch, 5)
    await carry_all(world)

    assert json.loads((await world.first.task(parent, "child")).output) == 5
    assert (await world.first.get(child)).run.epoch == 2


@pytest.mark.parametrize(("sources", "reason"), [((PARENT,), "WORKFLOW_NOT_FOUND"), ((), "INVALID_INPUT")])
async def test_a_child_that_cannot_start_fails_its_node_once(
    world: World, sources: tuple[str, ...], reason: str
) -> None:
    wrong = PARENT.replace('"${input.n}"', "many")
    parent, _ = await begun(world, *(sources or (LEAF, wrong)))

    await carry(world, *await handovers(world), keep=True)
    await carry_all(world)

    task = await world.first.task(parent, "child")
    assert task.error.type == "SubflowRefused"
    assert json.loads(task.error.details)["reason"] == reason
    assert await world.first.state(parent) == "FAILED"


@pytest.mark.parametrize("first", ["StartChild", "CancelChild"])
async def test_a_start_and_a_cancel_that_cross_leave_no_orphan(world: World, first: str) -> None:
    parent, child = await begun(world, LEAF, PARENT)
    starts = await handovers(world)
    await world.first.cancel(parent)
    cancels = await handovers(world, "CancelChild")
    assert await world.first.state(parent) == "RUNNING"

    for given in (starts, cancels) if first == "StartChild" else (cancels, starts):
        await carry(world, *given, keep=True)
        await carry(world, *given)
    await carry_all(world)

    assert await world.first.state(child) == "CANCELLED"
    assert await world.first.state(parent) == "CANCELLED"
    assert await world.dispatches(child) == [] or first == "StartChild"


async def test_a_deadline_is_passed_on(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT)
    await carry_all(world)

    due = "SELECT due_at FROM timers WHERE run_id = $1 AND kind = 'run_deadline'"

    assert await world.one(due, UUID(child)) == await world.one(due, UUID(parent)) is not None


async def test_a_detached_child_goes_its_own_way(world: World) -> None:
    parent, child = await begun(world, LEAF, DETACHED)
    await carry_all(world)

    assert json.loads((await world.first.get(parent)).run.output) == {"run_id": child}
    assert await world.first.state(parent) == "SUCCEEDED"
    dispatch = await world.dispatch(child)
    await world.first.lease(dispatch)
    await world.first.succeed(dispatch)
    assert await handovers(world) == []


async def test_a_child_started_too_late_for_its_parent_does_not_start(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT.replace("input: {n", "timeout: 1m, input: {n"))
    starts = await handovers(world)
    due = await world.let_timers_come_due(parent)
    await world.first.fire([timer for timer in due if timer.kind == "total_timeout"])
    await carry(world, *starts)

    await carry_all(world)

    assert await world.first.state(parent) == "FAILED"
    assert await world.first.state(child) == "CANCELLED"


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_a_dry_run_of_a_retry_names_the_child_that_goes_on_and_what_failed_in_it(
    world: World, *, is_stopped: bool
) -> None:
    if is_stopped:
        parent, child = await begun(world, LEAF, PARENT)
        await carry_all(world)
        await world.first.cancel(parent)
        await carry_all(world)
    else:
        parent, child = await failed_child(world)
    before = await world.rows_of(parent)

    told = await world.first.retry(parent, dry_run=True)

    (taken_up,) = told.children
    assert (taken_up.path, taken_up.run_id, taken_up.workflow) == ("child", child, "leaf")
    assert list(taken_up.nodes) == ([] if is_stopped else ["work"])
    assert await world.rows_of(parent) == before
    assert await world.first.retry(parent) == told


async def test_a_retry_that_starts_a_child_anew_takes_up_none(world: World) -> None:
    parent, _ = await failed_child(world)

    told = await world.first.retry(parent, "child", dry_run=True, render_inputs=True)

    assert list(told.chosen) == ["child"]
    assert list(told.children) == []
    assert [(each.path, each.workflow) for each in told.new_children] == [("child", "leaf")]


REPEATED = """
workflow: parent
nodes:
  before: {type: call, handler: h.before}
  each:
    type: repeat
    max_iterations: 3
    until: "last == 3"
    body: {type: subflow, workflow: leaf, input: {n: "${index + 1}"}}
  done: {type: finish, output: "${nodes.each.output}"}
edges: [[before, each, done]]
"""


async def play(world: World, *, failing: object = None) -> dict[str, Any]:
    """Be the relay and a worker that gives back what it is given, until nothing is left to do; inputs by path."""
    inputs: dict[str, Any] = {}
    while True:
        await carry_all(world)
        dispatches = await world.dispatches()
        if not dispatches:
            return inputs
        for dispatch in dispatches:
            given = inputs[dispatch.path] = json.loads((await world.first.grant(dispatch)).input or b"null")
            n = given.get("n") if isinstance(given, dict) else None
            if n is not None and n == failing:
                await world.first.fail(dispatch, final=True)
            else:
                await world.first.succeed(dispatch, n)


async def children_of(world: World, parent: str) -> dict[str, str]:
    """The latest run of each subflow node."""
    rows = await world.database.fetch(
        "SELECT path, child_run_id FROM children WHERE run_id = $1 ORDER BY attempt, path", UUID(parent)
    )
    return {row["path"]: row["child_run_id"].hex for row in rows}


@pytest.mark.parametrize("source", [MAPPED, REPEATED])
async def test_items_and_iterations_that_are_runs_give_their_outputs_and_begin_anew_with_others(
    world: World, source: str
) -> None:
    await world.first.deploy(LEAF, source)
    parent = await world.first.start("parent", {"list": [1, 2, 3]})
    await play(world)
    wanted = [1, 2, 3] if source is MAPPED else 3
    assert json.loads((await world.first.get(parent)).run.output) == wanted
    first = await children_of(world, parent)
    assert list(first) == [f"each[{n}].step" for n in range(3)]

    await world.first.retry(parent, "before")
    await play(world)

    assert await world.first.state(parent) == "SUCCEEDED"
    assert json.loads((await world.first.get(parent)).run.output) == wanted
    assert set((await children_of(world, parent)).values()).isdisjoint(first.values())


@pytest.mark.parametrize("source", [MAPPED, REPEATED])
async def test_a_retry_goes_on_in_the_run_of_the_item_or_iteration_that_failed(world: World, source: str) -> None:
    await world.first.deploy(LEAF, source)
    parent = await world.first.start("parent", {"list": [1, 2, 3]})
    await play(world, failing=3)
    assert await world.first.state(parent) == "FAILED"
    first = await children_of(world, parent)

    told = await world.first.retry(parent, dry_run=True)
    await world.first.retry(parent)
    await play(world)

    assert await world.first.state(parent) == "SUCCEEDED"
    assert [(each.path, each.run_id) for each in told.children] == [("each[2].step", first["each[2].step"])]
    assert await children_of(world, parent) == first
    assert (await world.first.get(first["each[2].step"])).run.epoch == 2
    assert (await world.first.get(first["each[0].step"])).run.epoch == 1


@pytest.mark.parametrize("source", [MAPPED, REPEATED])
async def test_a_cancel_reaches_the_runs_of_items_and_iterations(world: World, source: str) -> None:
    await world.first.deploy(LEAF, source)
    parent = await world.first.start("parent", {"list": [1, 2, 3]})
    before = await world.dispatch(parent)
    await world.first.lease(before)
    await world.first.succeed(before)
    await carry_all(world)

    await world.first.cancel(parent)
    await carry_all(world)

    assert await world.first.state(parent) == "CANCELLED"
    assert await world.one("SELECT count(*) FROM runs WHERE state <> 'cancelled'") == 0
    assert await world.one("SELECT count(*) FROM children WHERE state = 'open'") == 0


UNDONE = """
workflow: parent
nodes:
  child: {type: subflow, workflow: leaf, input: {n: 1}, compensate: undo}
  after: {type: call, handler: h.after, input: {n: 2}}
  undo: {type: call, handler: h.undo, input: {n: 3, was: "${nodes.child.output}"}}
edges: [[child, after]]
"""


async def test_a_child_that_succeeded_is_undone_by_its_parents_node_and_by_a_retry_done_anew(world: World) -> None:
    await world.first.deploy(LEAF, UNDONE)
    parent = await world.first.start("parent")
    inputs = await play(world, failing=2)
    first = await children_of(world, parent)

    assert await world.first.state(parent) == "FAILED"
    assert (await world.first.task(parent, "undo")).undoes == "child"
    assert inputs["undo"] == {"n": 3, "was": 1}
    told = await world.first.retry(parent)
    await play(world)
    assert await world.first.state(parent) == "SUCCEEDED"
    assert list(told.children) == []
    assert (await children_of(world, parent))["child"] != first["child"]


async def test_a_child_that_was_cancelled_has_nothing_that_its_parent_undoes(world: World) -> None:
    await world.first.deploy(LEAF, UNDONE)
    parent = await world.first.start("parent")
    await carry_all(world)

    await world.first.cancel(parent)
    await carry_all(world)

    assert await world.first.state(parent) == "CANCELLED"
    assert [task.path for task in (await world.first.get(parent)).tasks] == ["child"]


async def test_parent_and_child_are_seen_from_either_side(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT)
    await carry_all(world)

    seen = (await world.first.get(child)).run.parent
    assert (seen.run_id, seen.path, seen.detached) == (parent, "child", False)
    assert not (await world.first.get(parent)).run.HasField("parent")
    assert (await world.first.task(parent, "child")).child_run_id == child
    (reason,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=parent))).reasons
    assert (reason.kind, reason.child_run_id) == (runs_pb2.REASON_KIND_CHILD, child)
    assert f"headway why {child}" in reason.message
    await world.first.cancel(parent)
    (reason,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=parent))).reasons
    assert "not told yet that it is to stop" in reason.message
    await carry(world, *await handovers(world, "CancelChild"))
    (reason,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=parent))).reasons
    assert "was told to stop" in reason.message


async def test_children_are_listed_by_their_parent_latest_first_and_once_each_in_pages(world: World) -> None:
    await world.first.deploy(LEAF, MAPPED)
    parent = await world.first.start("parent", {"list": [1, 2, 3]})
    other = await world.first.start("parent", {"list": [4]})
    await play(world, failing=3)
    await world.first.retry(parent)
    await play(world)
    children = await children_of(world, parent)

    listed: list[str] = []
    token = ""
    while True:
        request = runs_pb2.ListRequest(filter=runs_pb2.RunFilter(parent_run_id=parent), page_size=2, page_token=token)
        page = await world.first.runs.List(request)
        listed += [run.run_id for run in page.runs]
        token = page.next_page_token
        if not token:
            break

    assert sorted(listed) == sorted(children.values())
    failed = runs_pb2.RunFilter(parent_run_id=other, states=[runs_pb2.RUN_STATE_FAILED])
    assert list((await world.first.runs.List(runs_pb2.ListRequest(filter=failed))).runs) == []
