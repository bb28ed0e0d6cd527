"""Maps: items are begun as far as they may be under way, end as runs do, and are counted in the map's own row."""

from __future__ import annotations

import pytest

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide import PATIENCE
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import NodeNotFound, NodeNotReached
from tests.core.flows import workflow
from tests.core.invariants import begin, check_replay
from tests.core.simulator import World

RESIZE = """
    nodes:
      resize:
        type: map
        over: "${input.images}"
        max_concurrency: 2
        body: {type: call, handler: resize, input: "${item}"}
      done: {type: call, handler: done, input: {all: "${nodes.resize.output}", n: "${nodes.resize.counts.succeeded}"}}
    edges:
      - [resize, done]
"""


def run_ready(world: World, output: Json = None) -> None:
    for path in world.ready():
        world.run_task(path, output if output is not None else {"of": path})


def test_items_are_begun_as_others_end_and_results_come_in_their_order() -> None:
    world = begin(RESIZE, {"images": ["a", "b", "c"]})
    assert world.ready() == ["resize[0].step", "resize[1].step"]
    assert world.input("resize[1].step") == "b"

    world.run_task("resize[1].step", 1)
    assert world.ready() == ["resize[0].step", "resize[2].step"]
    world.run_task("resize[2].step", 2)
    world.run_task("resize[0].step", 0)

    assert world.results("resize") == [0, 1, 2]
    assert world.input("done") == {"all": [0, 1, 2], "n": 3}
    world.run_task("done")
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_an_empty_list_is_done_at_once() -> None:
    world = begin(RESIZE, {"images": []})

    assert world.input("done") == {"all": [], "n": 0}


def test_the_entries_of_a_map_are_gone_through() -> None:
    world = begin(RESIZE, {"images": {"k": 1, "l": 2}})

    items = [{"key": "k", "value": 1}, {"key": "l", "value": 2}]
    assert [world.input(path) for path in world.ready()] == items


def test_what_is_no_list_fails_the_map() -> None:
    world = begin(RESIZE, {"images": 7})

    assert world.state is RunState.FAILED
    assert world.task("resize").error == {
        "type": "NotAList", "message": "`over` must give a list or a map, not 7", "trace": "", "details": {},
    }  # fmt: skip


def test_what_an_item_failed_by_is_cut_short_in_its_maps_failure() -> None:
    world = begin(RESIZE, {"images": [1]})

    world.fail_task("resize[0].step", "B" * 10_000)

    message = (world.task("resize").error or {})["message"]
    assert str(message).startswith("1 of 1 items failed: resize[0]; the first: BBB")
    assert len(str(message)) < 500
    assert str(message).endswith("B …")


def test_a_failure_beyond_what_is_tolerated_stops_the_others_and_fails_the_map() -> None:
    world = begin(RESIZE, {"images": [1, 2, 3, 4]})
    world.lease("resize[1].step")

    world.fail_task("resize[0].step")
    assert world.states() == {"resize": "waiting", "resize[0].step": "failed", "resize[1].step": "running"}
    world.succeed("resize[1].step", "late")

    assert world.state is RunState.FAILED
    assert (world.task("resize").error or {})["message"] == (
        "1 of 4 items failed: resize[0]; the first: Boom: resize[0].step: resize[0].step broke"
    )
    check_replay(world)


@pytest.mark.parametrize(("percent", "state"), [(50, "succeeded"), (49, "failed")])
def test_as_many_failures_as_the_percentage_says_are_tolerated(percent: int, state: str) -> None:
    tolerated = RESIZE.replace("max_concurrency: 2", f"tolerate: {{percent: {percent}}}")
    world = begin(tolerated, {"images": [1, 2, 3, 4]})

    for index in range(2):
        world.fail_task(f"resize[{index}].step")
    for path in world.ready():
        world.run_task(path)

    assert world.states()["resize"] == state


def test_tolerated_failures_give_null() -> None:
    world = begin(RESIZE.replace("max_concurrency: 2", "tolerate: 1"), {"images": [1, 2, 3]})

    world.fail_task("resize[1].step")
    run_ready(world, "ok")

    assert world.input("done") == {"all": ["ok", None, "ok"], "n": 2}


def test_a_retry_takes_up_what_failed_and_what_was_not_begun() -> None:
    world = begin(RESIZE, {"images": [1, 2, 3, 4]})
    world.run_task("resize[0].step", "first")
    world.fail_task("resize[1].step")
    assert world.states()["resize[2].step"] == "cancelled"
    assert world.state is RunState.FAILED

    world.retry()
    assert world.ready() == ["resize[1].step", "resize[2].step"]
    world.run_task("resize[1].step", "again")
    world.run_task("resize[2].step", "third")
    world.run_task("resize[3].step", "last")

    assert world.input("done") == {"all": ["first", "again", "third", "last"], "n": 4}
    assert world.task("resize[0].step").attempt == 1
    check_replay(world)


def test_a_cancel_stops_open_items() -> None:
    world = begin(RESIZE, {"images": [1, 2, 3, 4]})
    world.lease("resize[0].step")

    world.cancel(grace_ms=1_000)
    assert world.states() == {"resize": "waiting", "resize[0].step": "running", "resize[1].step": "cancelled"}
    world.fire(world.next_timer())

    assert world.state is RunState.CANCELLED
    assert world.task("resize[0].step").cause == "unknown"
    check_replay(world)


def test_a_map_goes_over_the_results_of_another_without_putting_them_together() -> None:
    world = begin(
        """
        nodes:
          a: {type: map, over: "${input}", body: {type: call, handler: a, input: "${item}"}}
          b: {type: map, over: "${nodes.a.output}", body: {type: call, handler: b, input: "${item}"}}
        edges:
          - [a, b]
        """,
        [1, 2],
    )
    run_ready(world)

    assert world.input("b[1].step") == {"of": "a[1].step"}
    run_ready(world)
    assert world.state is RunState.SUCCEEDED


NESTED = """
    nodes:
      a:
        type: map
        over: "${input}"
        output: "${nodes.b.output}"
        body:
          nodes:
            b:
              type: map
              over: "${item}"
              body:
                nodes:
                  c:
                    type: repeat
                    max_iterations: 3
                    until: "last.done"
                    body:
                      type: call
                      handler: c
                      input: {a: "${loops.a.index}", b: "${item}", n: "${index}", last: "${last}"}
          edges: []
      after: {type: call, handler: after, input: "${nodes.a.output}"}
    edges:
      - [a, after]
"""


def test_maps_and_repeats_nest() -> None:
    world = begin(NESTED, [["x", "y"], ["z"]])
    assert world.ready() == ["a[0].b[0].c[0].step", "a[0].b[1].c[0].step", "a[1].b[0].c[0].step"]
    assert world.input("a[0].b[1].c[0].step") == {"a": 0, "b": "y", "n": 0, "last": None}

    run_ready(world, {"done": False})
    assert world.input("a[0].b[1].c[1].step") == {"a": 0, "b": "y", "n": 1, "last": {"done": False}}
    run_ready(world, {"done": True})

    assert world.input("after") == [[{"done": True}, {"done": True}], [{"done": True}]]
    run_ready(world)
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_the_largest_maps_begin_in_pages() -> None:
    world = World(workflow(RESIZE.replace("max_concurrency: 2", "max_concurrency: 1000")), thorough=False)
    world.start({"images": list(range(250))})
    assert len(world.ready()) == 100

    world.fire(world.next_timer())
    world.fire(world.next_timer())
    assert len(world.ready()) == 250
    world.cancel()
    while world.db.timers and not world.run.is_final:
        world.fire(world.next_timer())

    assert world.state is RunState.CANCELLED
    check_replay(world)


def test_items_of_inner_maps_are_begun_in_pages_too() -> None:
    world = World(
        workflow("""
            nodes:
              outer:
                type: map
                over: "${input}"
                body:
                  nodes:
                    inner: {type: map, over: [1, 2, 3], body: {type: call, handler: a}}
        """),
        thorough=False,
    )

    world.start(list[Json](range(60)))
    begun = [len(world.actions(do.OpenScope))]
    while world.db.timers:
        world.fire(world.next_timer())
        begun.append(len(world.actions(do.OpenScope)))

    assert max(begun) == 100
    assert sum(begun) == 60 + 180
    assert len(world.ready()) == 180
    check_replay(world)


def test_a_map_that_is_stopped_twice_in_one_transaction_stops_all_its_items() -> None:
    world = World(
        workflow("""
            nodes:
              m: {type: map, over: "${input}", max_concurrency: 1000, body: {type: call, handler: a}}
              other: {type: call, handler: a}
        """),
        thorough=False,
    ).start(list[Json](range(250)))
    world.fire(world.next_timer())
    world.fire(world.next_timer())
    world.lease("m[0].step")
    world.lease("other")

    world.fail("m[0].step", final=True)
    world.share = True
    world.fail("other", final=True)
    world.share = False
    while world.db.timers:
        world.fire(world.next_timer())

    assert world.ready() == []
    assert world.state is RunState.FAILED
    check_replay(world)


@pytest.mark.parametrize("length", [10, 1_000])
def test_an_item_costs_as_much_in_a_long_list_as_in_a_short_one(length: int) -> None:
    world = World(workflow(RESIZE), thorough=False).start({"images": list(range(length))})
    costs: list[tuple[int, int]] = []

    for index in range(length - 1):
        world.run_task(f"resize[{index}].step", index)
        costs.append((world.looked_up, world.questions))

    assert set(costs) <= {(5, 1), (4, 0)}


def test_a_retry_takes_up_failed_items_only_as_far_as_they_may_be_under_way() -> None:
    world = begin(
        RESIZE.replace("max_concurrency: 2", "max_concurrency: 2\n        tolerate: 4"), {"images": [1, 2, 3, 4]}
    )
    for index in range(4):
        world.fail_task(f"resize[{index}].step")
    world.run_task("done")
    assert world.state is RunState.SUCCEEDED

    world.retry("resize")
    assert world.ready() == ["resize[0].step", "resize[1].step"]
    world.fail_task("resize[1].step")
    assert world.ready() == ["resize[0].step", "resize[2].step"]
    for index in (0, 2, 3):
        world.run_task(f"resize[{index}].step", index)

    assert world.input("done") == {"all": [0, None, 2, 3], "n": 3}
    check_replay(world)


def test_a_retry_takes_up_chosen_items_only_as_far_as_they_may_be_under_way() -> None:
    world = begin(RESIZE, {"images": [1, 2, 3, 4, 5]})
    for index in range(5):
        world.run_task(f"resize[{index}].step", index)
    world.run_task("done")

    world.retry("resize[4].step", "resize[0].step", "resize[2].step", "resize[3].step")
    assert world.ready() == ["resize[0].step", "resize[2].step"]
    world.run_task("resize[2].step", "c")
    assert world.ready() == ["resize[0].step", "resize[3].step"]
    world.cancel()
    assert world.state is RunState.CANCELLED

    world.retry("resize[3].step")
    assert world.ready() == ["resize[3].step", "resize[4].step"]
    for path, output in (("resize[3].step", "d"), ("resize[4].step", "e"), ("resize[0].step", "a")):
        world.run_task(path, output)

    assert world.input("done") == {"all": ["a", 1, "c", "d", "e"], "n": 5}
    assert [world.task(f"resize[{index}].step").generation for index in range(5)] == [2, 1, 2, 2, 2]
    check_replay(world)


def test_more_chosen_items_than_one_decision_begins_follow_by_pages() -> None:
    world = World(workflow(RESIZE.replace("max_concurrency: 2", "max_concurrency: 1000")), thorough=False)
    world.start({"images": list(range(250))})
    for key in (world.next_timer(), world.next_timer()):
        world.fire(key)
    for path in world.ready():
        world.run_task(path, 1)
    world.run_task("done")

    world.retry(*(f"resize[{index}].step" for index in range(250)))
    assert len(world.ready()) == 100
    world.fire(world.next_timer())
    world.fire(world.next_timer())

    assert len(world.ready()) == 250
    check_replay(world)


def test_nodes_that_are_chosen_in_inner_maps_wait_for_their_turn_too() -> None:
    world = begin(
        """
        nodes:
          a:
            type: map
            over: "${input}"
            max_concurrency: 1
            output: "${nodes.b.output}"
            body:
              nodes:
                b: {type: map, over: "${item}", max_concurrency: 1, body: {type: call, handler: b, input: "${item}"}}
        """,
        [[1, 2, 3], [4, 5]],
    )
    while world.ready():
        run_ready(world)
    assert world.state is RunState.SUCCEEDED

    world.retry("a[1].b[0].step", "a[0].b[0].step", "a[0].b[2].step")
    order: list[str] = []
    while ready := world.ready():
        order += ready
        run_ready(world)

    assert order == ["a[0].b[0].step", "a[0].b[2].step", "a[1].b[0].step"]
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_failures_that_are_yet_to_be_redone_do_not_stop_a_retry() -> None:
    world = begin(
        RESIZE.replace("max_concurrency: 2", "max_concurrency: 2\n        tolerate: 2"), {"images": [1, 2, 3, 4]}
    )
    world.fail_task("resize[0].step")
    world.fail_task("resize[1].step")
    world.lease("resize[3].step")
    world.fail_task("resize[2].step")
    world.fail("resize[3].step", final=True)
    assert world.state is RunState.FAILED

    world.retry()
    world.fail_task("resize[0].step")
    assert world.ready() == ["resize[1].step", "resize[2].step"]
    while world.ready():
        run_ready(world, "again")

    assert world.input("done") == {"all": [None, "again", "again", "again"], "n": 3}
    check_replay(world)


def test_an_item_that_is_named_as_a_whole_is_done_again_from_what_failed_in_it() -> None:
    world = begin(RESIZE.replace("max_concurrency: 2", "tolerate: 2"), {"images": [1, 2, 3]})
    world.fail_task("resize[0].step")
    world.fail_task("resize[1].step")
    world.run_task("resize[2].step", "c")
    world.run_task("done")

    assert world.dry_run("resize[1]").starts == ("resize",)
    world.retry("resize[1]")

    assert world.ready() == ["resize[1].step"]
    world.run_task("resize[1].step", "b")
    assert world.input("done") == {"all": [None, "b", "c"], "n": 2}
    check_replay(world)


def test_an_item_that_succeeded_begins_anew_when_it_is_named_and_one_that_never_began_is_refused() -> None:
    world = begin(RESIZE, {"images": [1, 2, 3]})
    for index in range(3):
        world.run_task(f"resize[{index}].step", index)
    world.run_task("done")

    with pytest.raises(NodeNotReached, match=r"Node resize\[3\] was never reached"):
        world.retry("resize[3]")
    with pytest.raises(NodeNotFound, match=r"no node done\[0\]"):
        world.retry("done[0]")
    world.retry("resize[2]")

    assert world.ready() == ["resize[2].step"]


BODIES = {
    "a worker": "{type: call, handler: h}",
    "a join at once": "{nodes: {x: {type: join}, l: {type: join}, r: {type: join}, z: {type: join}}, "
    "edges: [[x, l, z], [x, r, z]]}",
    "a child": "{type: subflow, workflow: other}",
    "a signal": '{type: wait_for_event, event: "paper-${item}"}',
    "signals behind a join": "{nodes: {x: {type: join}, "
    'l: {type: wait_for_event, event: "ink-${item}"}, r: {type: wait_for_event, event: "glue-${item}"}}, '
    "edges: [[x, l], [x, r]]}",
    "a repeat": '{type: repeat, while: "index < 2", max_iterations: 3, body: {type: join}}',
    "a child in a repeat": '{type: repeat, while: "index < 2", max_iterations: 3, '
    "body: {type: subflow, workflow: other}}",
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("reopened", [None, "before it began", "when it had begun"])
def test_what_items_need_to_begin_is_asked_for_at_once_however_many_begin(body: str, reopened: str | None) -> None:
    if "a child" in body and reopened == "when it had begun":
        return  # a run waits for its children before it is over
    world = begin(
        f"""
        workflow: example
        nodes:
          first: {{type: call, handler: h}}
          many: {{type: map, over: "${{input}}", max_concurrency: 100, where: "item >= 0", body: {BODIES[body]}}}
        edges: [[first, many]]
    """,
        [*range(120)],
    )
    world.thorough = False
    world.watchers.clear()
    asked: list[int] = []
    world.watchers.append(lambda world: asked.append(world.questions))
    if reopened == "before it began":
        world.cancel()
        world.retry()
    world.run_task("first")
    if reopened == "when it had begun":
        world.cancel()
        world.retry()

    for _ in range(20):
        if world.db.timers and world.next_timer()[1] == "go_on":
            world.fire(world.next_timer())

    assert world.db.loops["many"].started >= 100
    assert max(asked) <= 10


def test_a_decision_that_asks_again_and_again_leaves_more_and_more_to_the_next() -> None:
    inner = '{type: map, over: [1, 2], where: "item > 3", body: {type: join}}'  # each asks for its own list
    world = begin(
        f"""
        workflow: example
        nodes:
          first: {{type: call, handler: h}}
          many:
            type: map
            over: "${{input}}"
            max_concurrency: 1000
            body:
              nodes: {{a: {{type: join}}, b: {inner}, c: {inner}, d: {inner}, e: {inner}}}
              edges: [[a, b, c, d, e]]
        edges: [[first, many]]
    """,
        [*range(200)],
    )
    world.thorough = False
    world.run_task("first")
    for _ in range(3):
        world.fire(world.next_timer())
    world.cancel()
    while not world.run.is_final:
        world.fire(world.next_timer())
    asked: list[int] = []
    world.watchers[:] = [lambda world: asked.append(world.questions)]

    world.retry()
    while not world.run.is_final:
        world.fire(world.next_timer())

    assert 2 * PATIENCE <= max(asked) <= 4 * PATIENCE
    assert world.state is RunState.SUCCEEDED
    assert world.db.loops["many"].succeeded == 200


def test_maps_in_many_items_of_a_map_share_the_room_of_a_decision_and_all_is_done() -> None:
    world = begin(
        """
        workflow: example
        nodes:
          many: {type: map, over: "${input}", body: {type: map, over: [1, 2], body: {type: join}}}
    """,
        [*range(120)],
    )
    for _ in range(200):
        if not world.run.is_final:
            world.fire(world.next_timer())

    assert world.state is RunState.SUCCEEDED
    assert world.db.loops["many"].succeeded == 120
