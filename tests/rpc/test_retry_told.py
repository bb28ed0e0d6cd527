"""What the answer to a retry tells before anything is done: items, effects, children, and what stays."""

from __future__ import annotations

from headway.api.runs.v1 import runs_pb2
from tests.rpc.test_compensation import TRIP, booked
from tests.rpc.test_subflows import LEAF, carry_all
from tests.rpc.world import World

ITEMS = """
workflow: items
nodes:
  each:
    type: map
    over: "${input}"
    max_concurrency: 4
    body: {type: call, handler: h, input: "${item}"}
  after: {type: map, over: [1, 2], body: {type: call, handler: h}}
  last: {type: call, handler: h}
edges: [[each, after, last]]
"""
BOOKED_ITEMS = """
workflow: booked_items
nodes:
  each:
    type: map
    over: "${input}"
    body:
      nodes:
        book: {type: call, handler: h, compensate: drop}
        drop: {type: call, handler: h}
        use: {type: call, handler: h}
      edges: [[book, use]]
"""


async def work(world: World, run_id: str, *failing: str) -> None:
    """Do all that is dispatched, as long as something is; tasks of these paths fail for good."""
    while dispatches := await world.dispatches(run_id):
        for dispatch in sorted(dispatches, key=lambda each: each.path):
            if await world.first.lease(dispatch) != "GRANTED":
                continue
            is_failing = dispatch.path in failing
            report = world.first.fail(dispatch, final=True) if is_failing else world.first.succeed(dispatch, 1)
            assert await report == "ACCEPTED"


async def items_run(world: World, *failing: str, count: int = 9) -> str:
    await world.first.deploy(ITEMS)
    run_id = await world.first.start("items", list(range(count)))
    await work(world, run_id, *failing)
    return run_id


async def test_of_a_map_it_tells_how_many_items_run_again_and_which(world: World) -> None:
    run_id = await items_run(world, "each[1].step")
    before = await world.rows_of(run_id)

    told = await world.first.retry(run_id, dry_run=True)

    (each,) = told.items
    assert (each.path, each.anew, each.total) == ("each", False, 9)
    assert (each.failed, each.stopped, each.undone, each.chosen) == (1, 3, 0, 0)
    assert (each.kept, each.unbegun) == (1, 4)
    assert list(each.paths) == ["each[1]", "each[2]", "each[3]", "each[4]"]
    assert await world.rows_of(run_id) == before
    assert await world.first.retry(run_id) == told
    await work(world, run_id)
    assert await world.first.state(run_id) == "SUCCEEDED"


async def test_items_that_were_left_out_are_none_of_those_that_it_tells_of(world: World) -> None:
    await world.first.deploy(ITEMS.replace("max_concurrency: 4", 'max_concurrency: 4\n    where: "item % 3 != 2"'))
    run_id = await world.first.start("items", list(range(9)))
    await work(world, run_id, "each[1].step")

    (each,) = (await world.first.retry(run_id, dry_run=True)).items

    assert (each.failed, each.stopped, each.kept) == (1, 3, 1)
    assert (each.unbegun, each.total) == (2, 7)  # two were not looked at yet
    await world.first.retry(run_id)
    await work(world, run_id)
    (each, _) = (await world.first.retry(run_id, "each[0].step", dry_run=True)).items
    assert (each.chosen, each.kept, each.unbegun, each.total) == (1, 5, 0, 6)


async def test_of_a_chosen_node_in_an_item_it_tells_that_item_and_what_begins_anew_behind_it(world: World) -> None:
    run_id = await items_run(world)

    told = await world.first.retry(run_id, "each[7].step", dry_run=True)

    each, after = told.items
    assert (each.path, each.chosen, each.failed, each.kept, each.unbegun) == ("each", 1, 0, 8, 0)
    assert list(each.paths) == ["each[7]"]
    assert (after.path, after.anew, after.total) == ("after", True, 2)
    assert (list(told.chosen), list(told.reset)) == (["each"], ["after", "last"])


POLLED = """
workflow: polled
nodes:
  poll: {type: repeat, until: "index == 2", max_iterations: 9, body: {type: call, handler: h}}
"""


async def test_of_a_repeat_it_tells_the_iterations_that_were_begun_and_none_that_might_be(world: World) -> None:
    await world.first.deploy(POLLED)
    broken, whole = [await world.first.start("polled") for _ in range(2)]
    await work(world, broken, "poll[1].step")
    await work(world, whole)

    (on,) = (await world.first.retry(broken, dry_run=True)).items
    (anew,) = (await world.first.retry(whole, "poll", dry_run=True)).items

    assert (on.path, on.anew, on.total) == ("poll", False, 2)
    assert (on.failed, on.kept, on.unbegun) == (1, 1, 0)
    assert (anew.path, anew.anew, anew.total) == ("poll", True, 3)


async def test_of_many_failed_items_the_first_twenty_are_named(world: World) -> None:
    await world.first.deploy(ITEMS.replace("max_concurrency: 4", "max_concurrency: 50\n    tolerate: {count: 24}"))
    run_id = await world.first.start("items", list(range(30)))
    await work(world, run_id, *[f"each[{index}].step" for index in range(1, 30)])

    (each,) = (await world.first.retry(run_id, dry_run=True)).items

    assert (each.failed + each.stopped, each.kept, each.unbegun) == (29, 1, 0)
    assert each.failed >= 25
    assert list(each.paths) == [f"each[{index}]" for index in range(1, 21)]


async def test_a_named_item_that_runs_again_anyway_is_counted_once(world: World) -> None:
    run_id = await items_run(world, "each[1].step")

    (each,) = (await world.first.retry(run_id, "each[0].step", "each[2].step", dry_run=True)).items

    assert (each.chosen, each.stopped, each.failed) == (1, 3, 0)  # each[2] was stopped; each[1] stays failed
    assert (each.kept, each.unbegun) == (1, 4)
    assert list(each.paths) == ["each[0]", "each[2]", "each[3]", "each[4]"]


async def test_a_run_that_was_undone_tells_what_is_done_anew_and_hides_what_undid_it(world: World) -> None:
    run_id = await booked(world)
    await work(world, run_id, "flight")
    assert await world.first.state(run_id) == "FAILED"

    told = await world.first.retry(run_id, dry_run=True)

    assert {each.path: (each.by, each.state) for each in told.undone} == {
        "hotel": ("no_hotel", runs_pb2.TASK_STATE_SUCCEEDED),
        "car": ("no_car", runs_pb2.TASK_STATE_SUCCEEDED),
    }
    assert list(told.standing) == []
    assert (list(told.chosen), list(told.reset), list(told.kept)) == (["hotel"], ["car", "flight"], [])


async def test_what_could_not_be_undone_is_told_to_stand(world: World) -> None:
    run_id = await booked(world)
    await work(world, run_id, "flight", "no_car")

    told = await world.first.retry(run_id, dry_run=True)

    assert {each.path: each.state for each in told.undone} == {"hotel": runs_pb2.TASK_STATE_SUCCEEDED}
    assert [(each.path, each.count) for each in told.standing] == [("car", 1)]


async def test_what_is_done_again_though_its_effect_stands_is_told(world: World) -> None:
    await world.first.deploy(TRIP)
    run_id = await world.first.start("trip")
    await work(world, run_id)

    told = await world.first.retry(run_id, "car", dry_run=True)

    assert [(each.path, each.count) for each in told.standing] == [("car", 1)]
    assert list(told.undone) == []
    assert list(told.kept) == ["hotel"]


async def test_what_retries_repeated_stands_as_often_as_it_was_done(world: World) -> None:
    await world.first.deploy(TRIP)
    run_id = await world.first.start("trip")
    await work(world, run_id)
    await world.first.retry(run_id, "car")
    await work(world, run_id)

    told = await world.first.retry(run_id, "car", dry_run=True)

    assert [(each.path, each.count) for each in told.standing] == [("car", 2)]


async def test_an_item_that_is_named_as_a_whole_is_told(world: World) -> None:
    run_id = await items_run(world)

    each, _ = (await world.first.retry(run_id, "each[7]", dry_run=True)).items

    assert (each.chosen, each.kept, list(each.paths)) == (1, 8, ["each[7]"])


async def test_effects_in_items_are_counted_by_their_map(world: World) -> None:
    await world.first.deploy(BOOKED_ITEMS)
    run_id = await world.first.start("booked_items", [1, 2, 3])
    await work(world, run_id)

    anew = await world.first.retry(run_id, "each", dry_run=True)
    one = await world.first.retry(run_id, "each[1].book", dry_run=True)
    behind = await world.first.retry(run_id, "each[1].use", dry_run=True)

    assert [(each.path, each.count) for each in anew.standing] == [("each", 3)]
    assert anew.items[0].anew
    assert [(each.path, each.count) for each in one.standing] == [("each", 1)]
    assert list(behind.standing) == []


async def test_items_that_were_undone_run_again_and_are_counted_so(world: World) -> None:
    await world.first.deploy(BOOKED_ITEMS)
    run_id = await world.first.start("booked_items", [1, 2, 3])
    await work(world, run_id, "each[2].use")
    assert await world.first.state(run_id) == "FAILED"

    (each,) = (await world.first.retry(run_id, dry_run=True)).items

    assert each.failed == 1
    assert each.failed + each.undone + each.stopped + each.kept + each.unbegun == 3
    assert each.undone + each.stopped == 2
    assert list(each.paths) == ["each[0]", "each[1]", "each[2]"]


# --- within items

NESTED = """
workflow: nested
nodes:
  each:
    type: map
    over: "${input}"
    max_concurrency: 1
    body:
      nodes:
        child: {type: subflow, workflow: leaf, input: {n: 1}}
        inner: {type: map, over: "${item}", max_concurrency: 2, body: {type: call, handler: h}}
        use: {type: call, handler: h}
      edges: [[child, inner, use]]
"""


async def nested_run(world: World, *failing: str) -> str:
    await world.first.deploy(LEAF, NESTED)
    run_id = await world.first.start("nested", [[1, 2, 3, 4], [1, 2]])
    for _ in range(2):
        await carry_all(world)
        for record in await world.database.fetch("SELECT run_id FROM runs WHERE parent IS NOT NULL"):
            await work(world, record["run_id"].hex)
        await carry_all(world)
        await work(world, run_id, *failing)
    return run_id


async def test_a_map_in_an_item_that_goes_on_is_told_as_one_of_the_run_is(world: World) -> None:
    run_id = await nested_run(world, "each[0].inner[1].step")
    assert await world.first.state(run_id) == "FAILED"

    told = await world.first.retry(run_id, dry_run=True)

    outer, inner = told.items
    assert (outer.path, outer.failed, outer.kept, outer.unbegun) == ("each", 1, 0, 1)
    assert (inner.path, inner.anew, inner.total) == ("each[0].inner", False, 4)
    assert (inner.failed, inner.stopped, inner.kept, inner.unbegun) == (1, 1, 1, 1)
    assert list(inner.paths) == ["each[0].inner[1]", "each[0].inner[2]"]
    assert (list(told.children), list(told.new_children)) == ([], [])
    assert await world.first.retry(run_id) == told


async def test_of_a_chosen_node_in_a_map_in_an_item_that_item_is_told(world: World) -> None:
    run_id = await nested_run(world)
    assert await world.first.state(run_id) == "SUCCEEDED"

    outer, inner = (await world.first.retry(run_id, "each[1].inner[0].step", dry_run=True)).items

    assert (outer.path, outer.chosen, outer.kept, list(outer.paths)) == ("each", 1, 1, ["each[1]"])
    assert (inner.path, inner.chosen, inner.kept, inner.total) == ("each[1].inner", 1, 1, 2)
    assert list(inner.paths) == ["each[1].inner[0]"]


async def test_a_child_that_an_item_starts_anew_is_told_and_what_begins_anew_behind_it(world: World) -> None:
    run_id = await nested_run(world)

    told = await world.first.retry(run_id, "each[0].child", dry_run=True)

    assert [(each.path, each.workflow) for each in told.new_children] == [("each[0].child", "leaf")]
    outer, inner = told.items
    assert (outer.path, outer.chosen) == ("each", 1)
    assert (inner.path, inner.anew, inner.total) == ("each[0].inner", True, 4)
    assert await world.first.retry(run_id, "each[0].child") == told


async def test_what_is_in_a_map_that_begins_anew_is_not_told_apart(world: World) -> None:
    run_id = await nested_run(world)

    told = await world.first.retry(run_id, "each", dry_run=True)

    assert [(each.path, each.anew, each.total) for each in told.items] == [("each", True, 2)]
    assert list(told.new_children) == []


async def test_a_child_in_an_item_that_was_deleted_is_told_as_one_that_starts_anew(world: World) -> None:
    await world.first.deploy(LEAF, NESTED)
    run_id = await world.first.start("nested", [[1]])
    await carry_all(world)
    child = (await world.one("SELECT child_run_id FROM children")).hex
    await work(world, child, "work")
    await carry_all(world)
    assert await world.first.state(run_id) == "FAILED"

    before = await world.first.retry(run_id, dry_run=True)
    await world.first.runs.Delete(runs_pb2.DeleteRequest(run_id=child))
    after = await world.first.retry(run_id, dry_run=True)

    assert [(each.path, each.run_id) for each in before.children] == [("each[0].child", child)]
    assert list(before.new_children) == []
    assert list(after.children) == []
    assert [each.path for each in after.new_children] == ["each[0].child"]
