"""Maps and repeats over the real store: what is written, what is shown, and what an item costs."""

from __future__ import annotations

import json
from itertools import pairwise
from uuid import UUID

import pytest

from headway.api.runs.v1 import runs_pb2
from headway.coordinator.rpc.refusing import STATUS
from tests.rpc.world import Coordinator, Dispatch, World, refusal_of, succeeded

MAP = """
workflow: mapped
nodes:
  resize:
    type: map
    over: "${input}"
    max_concurrency: 200
    tolerate: {percent: 10}
    body: {type: call, handler: h.resize, input: "${item}"}
  again: {type: map, over: "${nodes.resize.output}", body: {type: call, handler: h.again, input: "${item}"}}
  after: {type: call, handler: h.after, input: {n: "${nodes.resize.counts.succeeded}"}}
edges:
  - [resize, after]
  - {from: resize, to: again, when: "nodes.resize.counts.total < 100"}
"""


async def work_all(world: World, run_id: str, output: object = None) -> None:
    """Do all that is dispatched, as long as something is."""
    while dispatches := await world.dispatches(run_id):
        for first in range(0, len(dispatches), 100):
            part = dispatches[first : first + 100]
            await world.first.lease_all(part)
            answers = await world.first.report("w1", *[succeeded(d, output or {"of": d.path}) for d in part])
            assert answers == ["ACCEPTED"] * len(part)
        await world.first.fire(await world.let_timers_come_due(run_id))


async def in_order(world: World, run_id: str) -> list[Dispatch]:
    """What is dispatched, by item."""
    return sorted(await world.dispatches(run_id), key=lambda each: int(each.path.partition("[")[2].partition("]")[0]))


async def items_of(
    coordinator: Coordinator, run_id: str, path: str, state: runs_pb2.RunState = runs_pb2.RUN_STATE_UNSPECIFIED
) -> list[runs_pb2.Item]:
    request = runs_pb2.ListItemsRequest(run_id=run_id, path=path, page_size=1_000, state=state)
    return list((await coordinator.runs.ListItems(request)).items)


async def test_a_map_of_a_thousand_items_is_gone_through_and_shown_in_pages(world: World) -> None:
    await world.first.deploy(MAP)
    run_id = await world.first.start("mapped", list(range(1_000)))
    assert await world.one("SELECT count(*) FROM tasks") == 101  # the map, and a page of items

    await work_all(world, run_id)

    assert await world.first.state(run_id) == "SUCCEEDED"
    shown = await world.first.get(run_id)
    assert [task.path for task in shown.tasks] == ["resize", "after"]
    assert shown.tasks[0].items == runs_pb2.ItemCounts(total=1_000, succeeded=1_000)
    items = await items_of(world.first, run_id, "resize")
    assert [item.index for item in items] == list(range(1_000))
    assert json.loads(items[617].output) == {"of": "resize[617].step"}
    part = await world.first.get(run_id, "resize[617]")
    assert [task.path for task in part.tasks] == ["resize[617].step"]
    assert await world.one("SELECT data FROM outputs WHERE path = 'after' AND role = 'i'") == b'{"n":1000}'


@pytest.mark.parametrize("length", [20, 400])
async def test_an_item_costs_as_many_rows_and_bytes_in_a_long_list_as_in_a_short_one(length: int, world: World) -> None:
    await world.first.deploy(MAP.replace("max_concurrency: 200", "max_concurrency: 10"))
    run_id = await world.first.start("mapped", list(range(length)))

    await work_all(world, run_id)

    items = "path LIKE 'resize[%'"
    rows = {"tasks": 1, "scopes": 1, "outputs": 2}  # of outputs: the item's input and its result
    for table, of_each in rows.items():
        but = " AND role <> 'l'" if table == "outputs" else ""
        assert await world.one(f"SELECT count(*) FROM {table} WHERE {items}{but}") == of_each * length, table
    assert await world.one("SELECT count(*) FROM outputs WHERE role = 'l'") <= 1 + length // 100
    steps = await world.database.fetch(f"SELECT octet_length(actions) AS size FROM run_events WHERE {items}")
    sizes = sorted(step["size"] for step in steps)
    assert len(sizes) == length
    assert sizes[-2] < 1_100  # the one that ends the map begins what follows it


async def test_another_map_goes_over_the_results(world: World) -> None:
    await world.first.deploy(MAP)
    run_id = await world.first.start("mapped", [1, 2, 3])

    await work_all(world, run_id)

    query = "SELECT data FROM outputs WHERE path = 'again[1].step' AND role = 'i'"
    assert json.loads(await world.one(query)) == {"of": "resize[1].step"}
    assert await world.one("SELECT count(*) FROM outputs WHERE role = 'l'") == 1  # of the first map's list


async def test_failures_are_listed_by_state_and_name_their_tasks(world: World) -> None:
    await world.first.deploy(MAP)
    run_id = await world.first.start("mapped", list(range(30)))
    dispatches = await in_order(world, run_id)
    await world.first.lease_all(dispatches)
    assert await world.first.fail(dispatches[7], final=True, message="no image") == "ACCEPTED"
    for other in (*dispatches[:7], *dispatches[8:]):
        assert await world.first.succeed(other, 1) == "ACCEPTED"

    (failed,) = await items_of(world.first, run_id, "resize", state=runs_pb2.RUN_STATE_FAILED)

    assert failed.path == "resize[7]"
    assert failed.error.message == "resize[7].step: no image"
    assert list(failed.error.paths) == ["resize[7].step"]
    assert (await world.first.task(run_id, "resize")).state == runs_pb2.TASK_STATE_SUCCEEDED


@pytest.mark.parametrize("named", ["resize[1].step", "resize[1]"])
async def test_a_node_of_an_item_is_retried_alone(world: World, named: str) -> None:
    await world.first.deploy(MAP)
    run_id = await world.first.start("mapped", list(range(3)))
    dispatches = await in_order(world, run_id)
    await world.first.lease_all(dispatches)
    await world.first.succeed(dispatches[0], "kept")
    await world.first.succeed(dispatches[2], "kept")
    await world.first.fail(dispatches[1], final=True)
    assert await world.first.state(run_id) == "FAILED"

    await world.first.retry(run_id, named, dry_run=True)
    await world.first.retry(run_id, named)

    assert await world.dispatches(run_id) == [Dispatch(run_id, "resize[1].step", 2)]
    assert await world.one("SELECT count(*) FROM tasks WHERE attempt > 1") == 2  # the map's, and the item's


async def test_what_is_no_map_or_item_is_refused(world: World) -> None:
    await world.first.deploy(MAP)
    run_id = await world.first.start("mapped", [1])

    for call, reason in (
        (world.first.get(run_id, "resize[1"), "NODE_NOT_FOUND"),
        (world.first.get(run_id, "after[0]"), "NODE_NOT_FOUND"),
        (world.first.runs.ListItems(runs_pb2.ListItemsRequest(run_id=run_id, path="after")), "INVALID_ARGUMENT"),
        (world.first.runs.ListItems(runs_pb2.ListItemsRequest(run_id=run_id, path="x" * 1_000)), "NODE_NOT_FOUND"),
        (world.first.retry(run_id, "resize[zero].step"), "RUN_NOT_FINISHED"),
    ):
        refusal = await refusal_of(call)
        assert (refusal.code, refusal.reason) == (STATUS[reason], reason)


async def test_a_cancel_of_many_open_items_goes_in_pages(world: World) -> None:
    await world.first.deploy(MAP)
    run_id = await world.first.start("mapped", list(range(250)))
    await world.first.fire(await world.let_timers_come_due(run_id))
    assert await world.one("SELECT count(*) FROM scopes WHERE state = 'running'") == 200

    await world.first.cancel(run_id)
    assert await world.one("SELECT count(*) FROM scopes WHERE state = 'running'") == 100
    timers = await world.database.fetch("SELECT path, kind FROM timers WHERE run_id = $1", UUID(run_id))
    assert ("resize", "go_on") in [tuple(timer) for timer in timers]
    while await world.first.state(run_id) != "CANCELLED":
        await world.database.execute("DELETE FROM timers WHERE kind = 'cancel_grace'")
        await world.first.fire(await world.let_timers_come_due(run_id))

    assert await world.one("SELECT count(*) FROM tasks WHERE state = 'ready'") == 0


PAPERS = """
workflow: papers
nodes:
  papers:
    type: map
    over: "${input}"
    body:
      nodes:
        paper: {type: wait_for_event, event: "paper-${item}"}
        is_last: {type: switch, cases: [{when: nodes.paper.output == 'enough', to: enough}], default: none}
        enough: {type: finish, output: "${item}"}
      edges: [[paper, is_last]]
  beside: {type: repeat, until: "false", max_iterations: 9, body: {type: wait_for_event, event: other}}
"""


NESTED = """
workflow: nested
nodes:
  outer:
    type: map
    over: "${input}"
    body:
      nodes:
        inner: {type: map, over: [1, 2, 3], body: {type: call, handler: h.each}}
"""


async def test_items_of_inner_maps_begin_and_stop_and_are_taken_up_in_pages(world: World) -> None:
    await world.first.deploy(NESTED)
    run_id = await world.first.start("nested", list(range(60)))
    for _ in range(5):
        await world.first.fire(await world.let_timers_come_due(run_id))
    assert len(await world.dispatches(run_id)) == 180

    await world.first.cancel(run_id)
    for _ in range(5):
        await world.first.fire(await world.let_timers_come_due(run_id))
    assert await world.first.state(run_id) == "CANCELLED"
    assert await world.one("SELECT count(*) FROM scopes WHERE state <> 'cancelled'") == 0

    await world.first.retry(run_id)
    await work_all(world, run_id)

    assert await world.first.state(run_id) == "SUCCEEDED"
    assert await world.one("SELECT count(*) FROM scopes WHERE state = 'succeeded'") == 60 + 180


async def test_items_wait_for_signals_of_their_own_which_why_names_and_one_of_them_ends_the_run(world: World) -> None:
    await world.first.deploy(PAPERS)
    run_id = await world.first.start("papers", ["a", "b", "c"])
    asked = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))
    assert {each.path: each.signal for each in asked.reasons if each.signal} == {
        **{f"papers[{index}].paper": f"paper-{name}" for index, name in enumerate("abc")},
        "beside[0].step": "other",
    }

    await world.first.signal(run_id, "other", 1)
    await world.first.signal(run_id, "paper-c", 3)
    assert (await world.first.task(run_id, "papers")).items.succeeded == 1
    await world.first.signal(run_id, "paper-b", "enough")

    assert await world.first.state(run_id) == "SUCCEEDED"
    assert await world.one("SELECT output_path FROM runs") == "papers[1].enough"
    assert json.loads((await world.first.get(run_id)).run.output) == "b"


READING = """
workflow: reading
nodes:
  m: {type: map, over: "${input}", max_concurrency: 200, body: {type: call, handler: h.m, input: "${item}"}}
  one: {type: call, handler: h.one, input: {a: "${nodes.m.output[2].of}", n: "${size(nodes.m.output)}"}}
  last: {type: call, handler: h.last, input: "${nodes.m.output[size(nodes.m.output) - 1]}"}
edges: [[m, one], [m, last]]
"""


async def test_single_results_and_their_number_are_read_without_the_others(world: World) -> None:
    await world.first.deploy(READING)
    run_id = await world.first.start("reading", list(range(300)))
    await world.first.fire(await world.let_timers_come_due(run_id))
    last = Dispatch(run_id, "m[299].step", 1)
    while others := [each for each in await world.dispatches(run_id) if each != last]:
        for first in range(0, len(others), 100):
            part = others[first : first + 100]
            await world.first.lease_all(part)
            await world.first.report("w1", *[succeeded(each, {"of": each.path}) for each in part])
    await world.first.lease_all([last])
    await world.database.execute("DELETE FROM scopes WHERE index NOT IN (2, 299)")  # what is not there is not read
    await world.database.execute("DELETE FROM outputs WHERE role = 'o' AND path <> 'm[2].step'")

    await world.first.report("w1", succeeded(last, {"of": last.path}))

    assert json.loads(await world.one("SELECT data FROM outputs WHERE path = 'one'")) == {"a": "m[2].step", "n": 300}
    assert await world.one("SELECT input_path FROM tasks WHERE path = 'last'") == "m[299].step"


SHRINKING = """
workflow: shrinking
nodes:
  least: {type: call, handler: h.least}
  some:
    type: map
    over: [1, 2, 3, 4, 5]
    where: "item >= nodes.least.output"
    body: {type: call, handler: h.some}
edges: [[least, some]]
"""


async def test_items_from_before_a_map_began_anew_with_fewer_are_not_listed(world: World) -> None:
    await world.first.deploy(SHRINKING)
    run_id = await world.first.start("shrinking")
    await work_all(world, run_id, 1)
    assert len(await items_of(world.first, run_id, "some")) == 5

    await world.first.retry(run_id, "least")
    await work_all(world, run_id, 4)

    items = await items_of(world.first, run_id, "some")
    assert [(item.path, item.index, item.place) for item in items] == [("some[0]", 0, 3), ("some[1]", 1, 4)]
    assert (await world.first.task(run_id, "some")).items.left_out == 3


WHERE = """
workflow: left_out
nodes:
  all: {type: map, over: "${input}", max_concurrency: 1000, body: {type: join}, output: {n: "${item}"}}
  some:
    type: map
    over: "${nodes.all.output}"
    where: "item.n % 1000 == 999"
    max_concurrency: 2
    body: {type: call, handler: h.some, input: {place: "${index}", item: "${item}"}}
  done: {type: call, handler: h.done, input: "${nodes.some.counts}"}
edges: [[all, some, done]]
"""


async def test_items_are_left_out_a_thousand_looks_a_decision_and_what_is_shown_says_so(world: World) -> None:
    await world.first.deploy(WHERE)
    run_id = await world.first.start("left_out", list(range(3_000)))
    looked: list[int] = []
    while (
        (await world.first.task(run_id, "all")).state != runs_pb2.TASK_STATE_SUCCEEDED
        or not looked
        or looked[-1] < 2_000
    ):
        await world.first.fire(await world.let_timers_come_due(run_id))
        looked.append(await world.one("SELECT started + left_out FROM loops WHERE path = 'some'") or 0)

    steps = [after - before for before, after in pairwise(looked) if after]
    assert max(steps) <= 1_000
    assert await world.one("SELECT count(*) FROM scopes WHERE loop = 'some'") == 2
    shown = (await world.first.task(run_id, "some")).items
    assert (shown.total, shown.running) == (3_000, 2)
    await work_all(world, run_id, {"ok": 1})

    assert await world.first.state(run_id) == "SUCCEEDED"
    shown = (await world.first.task(run_id, "some")).items
    assert shown == runs_pb2.ItemCounts(total=3_000, succeeded=3, left_out=2_997)
    items = await items_of(world.first, run_id, "some")
    assert [(item.path, item.index, item.place) for item in items] == [
        ("some[0]", 0, 999), ("some[1]", 1, 1_999), ("some[2]", 2, 2_999),
    ]  # fmt: skip
    given = await world.database.fetch("SELECT data FROM outputs WHERE path LIKE 'some[%' AND role = 'i' ORDER BY path")
    assert json.loads(given[1]["data"]) == {"place": 1_999, "item": {"n": 1_999}}
    counts = {"total": 3, "succeeded": 3, "failed": 0, "cancelled": 0, "left_out": 2_997}
    assert json.loads(await world.one("SELECT data FROM outputs WHERE path = 'done' AND role = 'i'")) == counts
