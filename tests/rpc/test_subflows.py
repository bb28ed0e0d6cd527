"""Runs that subflow nodes start, over the real store: what they tell each other comes twice, late or crossed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from headway.api.definitions.v1 import definitions_pb2
from headway.api.events.v1 import events_pb2
from headway.api.runs.v1 import runs_pb2
from headway.coordinator.engine import lanes
from headway.coordinator.engine.children import Children
from headway.coordinator.engine.starting import Starts
from tests.rpc.world import Coordinator, World, refusal_of

LEAF = """
workflow: leaf
input_schema: {type: object, required: [n], properties: {n: {type: integer}}}
nodes:
  work: {type: call, handler: h.work, input: "${input}"}
  done: {type: finish, output: "${nodes.work.output}"}
edges: [[work, done]]
"""
PARENT = """
workflow: parent
deadline: 1h
nodes:
  child: {type: subflow, workflow: leaf, input: {n: "${input.n}"}}
  after: {type: call, handler: h.after, input: "${nodes.child.output}"}
edges: [[child, after]]
"""
DETACHED = """
workflow: parent
nodes:
  child: {type: subflow, workflow: leaf, input: {n: 1}, detach: true}
  done: {type: finish, output: "${nodes.child.output}"}
edges: [[child, done]]
"""
GIVEN = {"n": 1}


async def handovers(world: World, kind: str = "") -> list[events_pb2.Handover]:
    """What the relay would deliver next, oldest first."""
    query = "SELECT outbox_id, run_id, body FROM outbox WHERE kind = 'handover' ORDER BY created_at, outbox_id"
    rows = await world.database.fetch(query)
    bodies = [(row, json.loads(row["body"])) for row in rows]
    return [
        events_pb2.Handover(
            request_id=str(row["outbox_id"]),
            run_id=row["run_id"].hex,
            type=body["type"],
            event=json.dumps(body["event"]).encode(),
        )
        for row, body in bodies
        if kind in ("", body["type"])
    ]


async def carry(
    world: World, *given: events_pb2.Handover, keep: bool = False, by: Coordinator | None = None
) -> list[Any]:
    """Deliver hand-overs, and take them off the outbox."""
    request = events_pb2.DeliverRequest(handovers=given)
    answers = list((await (by or world.first).events.Deliver(request)).answers)
    if not keep:
        ids = [UUID(each.request_id) for each in given]
        await world.database.execute("DELETE FROM outbox WHERE outbox_id = ANY ($1::uuid[])", ids)
    assert events_pb2.DELIVER_ANSWER_FAILED not in answers
    return answers


async def carry_all(world: World) -> None:
    """Be the relay until nothing is left to hand over."""
    while given := await handovers(world):
        await carry(world, *given)


async def begun(world: World, *sources: str) -> tuple[str, str]:
    """A parent, and its child's id, before the child started."""
    await world.first.deploy(*sources)
    parent = await world.first.start("parent", GIVEN)
    (start,) = await handovers(world, "StartChild")
    return parent, start.run_id


async def failed_child(world: World) -> tuple[str, str]:
    """A parent that has failed, and its child, which has failed too."""
    parent, child = await begun(world, LEAF, PARENT)
    await carry_all(world)
    dispatch = await world.dispatch(child)
    await world.first.lease(dispatch)
    await world.first.fail(dispatch)
    await carry_all(world)
    return parent, child


@asynccontextmanager
async def looked_at_the_parent(
    world: World, monkeypatch: pytest.MonkeyPatch, start: events_pb2.Handover
) -> AsyncIterator[None]:
    """Another coordinator delivers a start; when it has looked at the parent's row, it stands still for the block."""
    other = await world.coordinator()
    looked, go = asyncio.Event(), asyncio.Event()
    look = Children._wanted

    async def stop_then(self: Children, *message: Any) -> Any:
        found = await look(self, *message)
        looked.set()
        await go.wait()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Children, "_wanted", stop_then)
        starting = asyncio.create_task(carry(world, start, keep=True, by=other))
        await looked.wait()
    try:
        yield
    finally:
        go.set()
        await starting


async def child_state(world: World) -> str:
    return await world.one("SELECT state FROM children ORDER BY attempt DESC LIMIT 1")


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


# --- collisions


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


# --- what a retry takes up


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


# --- in maps and repeats, undone, and looked at

MAPPED = """
workflow: parent
nodes:
  before: {type: call, handler: h.before}
  each:
    type: map
    over: "${input.list}"
    max_concurrency: 2
    body: {type: subflow, workflow: leaf, input: {n: "${item}"}}
  done: {type: finish, output: "${nodes.each.output}"}
edges: [[before, each, done]]
"""
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


@pytest.mark.parametrize("by", ["deploying", "a dry run", "checking"])
async def test_it_is_warned_of_workflows_that_are_not_there_for_subflow_nodes(world: World, by: str) -> None:
    source = """
workflow: caller
nodes:
  one: {type: subflow, workflow: leaf, input: {n: 1}}
  two:
    type: map
    over: "${input}"
    body: {type: subflow, workflow: leaf, version: 2, input: {n: 1}}
  again: {type: subflow, workflow: caller}
"""

    async def warnings() -> list[tuple[int, str, str]]:
        if by == "checking":
            request = definitions_pb2.CheckRequest(source=source)
            warnings: Any = (await world.first.definitions.Check(request)).faults
        else:
            asked = definitions_pb2.DeployRequest(source=source, dry_run=by == "a dry run")
            warnings = (await world.first.definitions.Deploy(asked)).warnings
        assert all(each.warning for each in warnings)
        return [(each.line, each.code, each.message) for each in warnings]

    nothing_there = await warnings()
    await world.first.deploy(LEAF)
    one_version = await warnings()
    await world.first.deploy(LEAF.replace("h.work", "h.other"))

    no_version = (8, "not_deployed", "there is no version 2 of leaf in namespace default")
    assert nothing_there == [(4, "not_deployed", "no workflow leaf is deployed in namespace default"), no_version]
    assert one_version == [no_version]
    assert await warnings() == []


async def test_a_deploy_does_not_warn_of_what_is_deployed_beside_it(world: World) -> None:
    source = (
        "workflow: caller\nnodes: {one: {type: subflow, workflow: leaf}, two: {type: subflow, workflow: missing}}\n"
    )

    answer = await world.first.definitions.Deploy(definitions_pb2.DeployRequest(source=source, beside=["leaf"]))

    assert [each.message for each in answer.warnings if each.code == "not_deployed"] == [
        "no workflow missing is deployed in namespace default"
    ]


@pytest.mark.parametrize("by", ["deploying", "checking"])
async def test_it_is_warned_of_inputs_and_reads_that_do_not_go_with_the_child(world: World, by: str) -> None:
    source = """
workflow: caller
nodes:
  one: {type: subflow, workflow: leaf, input: {n: text}}
  two: {type: subflow, workflow: leaf, version: 1, input: {n: "x-${input.x}"}}
  three: {type: subflow, workflow: leaf, version: 2, input: {n: "x-${input.x}"}}
  use: {type: call, handler: h, input: "${nodes.two.output.total} ${nodes.three.output.total}"}
edges: [[one, two, three, use]]
"""
    first = LEAF.replace("nodes:", "output_schema: {properties: {sum: {}}, additionalProperties: false}\nnodes:")
    await world.first.deploy(first)
    await world.first.deploy(
        LEAF.replace("input_schema", "output_schema: {}\ninput_schema").replace("integer", "string")
    )

    if by == "checking":
        warnings: Any = (await world.first.definitions.Check(definitions_pb2.CheckRequest(source=source))).faults
    else:
        warnings = (await world.first.definitions.Deploy(definitions_pb2.DeployRequest(source=source))).warnings

    assert [(each.line, each.message, each.warning) for each in warnings] == [
        (5, "the input breaks input_schema of leaf: $.n must be a number, this is text", True),
        (7, "the output of two has no total", True),
    ]


async def test_it_is_warned_of_children_whatever_else_is_wrong(world: World) -> None:
    source = PARENT.replace("h.after,", "h.after, colour: red,").replace("n: ", "m: ")

    async def said() -> list[tuple[str, bool]]:
        checked = await world.first.definitions.Check(definitions_pb2.CheckRequest(source=source))
        assert checked.workflow == ""
        return [(each.code, each.warning) for each in checked.faults]

    before = await said()
    await world.first.deploy(LEAF)

    assert before == [("not_deployed", True), ("unknown_key", False)]
    assert await said() == [("type_mismatch", True), ("unknown_key", False)]


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


async def test_it_is_not_warned_of_workflows_that_will_be_deployed_beside_it(world: World) -> None:
    source = PARENT.replace("call, handler: h.after,", "subflow, workflow: other, version: 1,")

    async def warned_of(**fields: Any) -> list[str]:
        checked = await world.first.definitions.Check(definitions_pb2.CheckRequest(source=source, **fields))
        return [each.message.partition(" in ")[0] for each in checked.faults]

    await world.first.deploy(LEAF)
    assert await warned_of() == ["there is no version 1 of other"]
    assert await warned_of(namespace="shop") == ["no workflow leaf is deployed", "there is no version 1 of other"]
    assert await warned_of(namespace="shop", beside=["leaf", "other"]) == ["there is no version 1 of other"]
    assert (await refusal_of(warned_of(namespace="a/b"))).reason == "INVALID_ARGUMENT"


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
