"""Maps that leave items out: what is not asked for is not begun, has no result, and is counted."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import NodeNotReached
from headway.coordinator.core.rows import ScopeRow
from tests.core.flows import workflow
from tests.core.invariants import begin, check_replay
from tests.core.simulator import World

BAD = """
    nodes:
      bad:
        type: map
        over: "${input}"
        where: "item.score > 5"
        max_concurrency: 2
        body: {type: call, handler: look, input: {item: "${item.score}", place: "${index}"}}
      done: {type: call, handler: done, input: {all: "${nodes.bad.output}", n: "${nodes.bad.counts}"}}
    edges: [[bad, done]]
"""


def scores(*values: Json) -> Json:
    return [{"score": value} for value in values]


def go_on(world: World, path: str) -> None:
    """Let a map look at more of its items, as long as it wants to."""
    while (path, "go_on", 1) in world.db.timers:
        world.fire((path, "go_on", 1))


def test_items_that_do_not_match_are_left_out_and_results_keep_their_order() -> None:
    world = begin(BAD, scores(9, 1, 2, 7, 8, 3))
    assert world.ready() == ["bad[0].step", "bad[1].step"]
    assert world.input("bad[1].step") == {"item": 7, "place": 3}

    world.run_task("bad[1].step", "b")
    assert world.input("bad[2].step") == {"item": 8, "place": 4}
    world.run_task("bad[0].step", "a")
    world.run_task("bad[2].step", "c")

    counts = {"total": 3, "succeeded": 3, "failed": 0, "cancelled": 0, "left_out": 3}
    assert world.input("done") == {"all": ["a", "b", "c"], "n": counts}
    check_replay(world)


def test_a_map_of_which_nothing_is_left_is_done_at_once() -> None:
    world = begin(BAD, scores(1, 2, 3))

    assert world.input("done") == {
        "all": [], "n": {"total": 0, "succeeded": 0, "failed": 0, "cancelled": 0, "left_out": 3},
    }  # fmt: skip
    check_replay(world)


def test_where_reads_index_and_what_comes_before_the_map() -> None:
    world = begin(
        """
        nodes:
          limits: {type: call, handler: limits}
          m:
            type: map
            over: "${input.list}"
            where: "index >= nodes.limits.output.from && item != input.but && loops.m.index < 4"
            body: {type: call, handler: h, input: "${item}"}
        edges: [[limits, m]]
        """,
        {"list": ["a", "b", "c", "d", "e"], "but": "c"},
    )
    world.run_task("limits", {"from": 1})

    assert [world.input(path) for path in world.ready()] == ["b", "d"]
    check_replay(world)


FILTERED = """
    nodes:
      all: {type: map, over: "${input}", max_concurrency: 1000, body: {type: join}, output: "${item * 2}"}
      large: {type: map, over: "${nodes.all.output}", where: "item > 10", body: {type: join}, output: "${item}"}
      even:
        type: map
        over: "${nodes.large.output}"
        where: "item % 4 == 0"
        body: {type: call, handler: h, input: "${item}"}
      end: {type: call, handler: end, input: {n: "${size(nodes.large.output)}", first: "${nodes.large.output[0]}"}}
    edges: [[all, large, even, end]]
"""


def test_what_is_left_is_gone_through_by_another_map_without_being_put_together() -> None:
    world = begin(FILTERED, list(range(12)))
    for name in ("all", "large"):
        go_on(world, name)

    assert [world.input(path) for path in world.ready()] == [12, 16, 20]
    for path in world.ready():
        world.run_task(path, path)
    assert world.input("end") == {"n": 6, "first": 12}
    assert world.results("even") == ["even[0].step", "even[1].step", "even[2].step"]
    check_replay(world)


def test_ten_thousand_items_are_looked_at_in_decisions_of_bounded_size() -> None:
    text = FILTERED.replace("item > 10", "item >= 19000").replace("max_concurrency: 1000, ", "")
    world = World(workflow(text), thorough=False).start(list(range(10_000)))
    go_on(world, "all")
    before = world.run.seq
    looked = [world.db.loops["large"].seen]
    while ("large", "go_on", 1) in world.db.timers:
        world.fire(("large", "go_on", 1))
        looked.append(world.db.loops["large"].seen)
        assert world.questions <= 16
        assert world.looked_up <= 2_500

    steps = [after - before for before, after in pairwise(looked)]
    assert max(steps) <= 1_000
    assert len(steps) <= 16
    assert world.run.seq - before == len(steps)
    assert (world.db.loops["large"].started, world.db.loops["large"].left_out) == (500, 9_500)
    go_on(world, "even")
    assert world.input("even[0].step") == 19_000


def test_an_item_of_which_it_cannot_be_told_has_failed() -> None:
    world = begin(BAD, [{"score": 9}, {"points": 3}, {"score": 1}])

    assert world.state is RunState.FAILED
    assert world.task("bad[0].step").cause == "failure"
    assert world.db.scopes["bad[1]"].error == {
        "failure_class": "exec_failed",
        "type": "ExpressionError",
        "message": "where: item.score has no value, in item.score > 5 (line 7, column 13); item.score is not there",
        "paths": [],
    }
    assert (world.task("bad").error or {})["message"] == (
        "1 of 3 items failed: bad[1]; the first: ExpressionError: where: item.score has no value, in item.score > 5 "
        "(line 7, column 13); item.score is not there"
    )
    check_replay(world)

    world.retry()
    assert world.state is RunState.FAILED
    assert world.db.scopes["bad[1]"].attempt == 2
    check_replay(world)


def test_items_of_which_it_cannot_be_told_are_tolerated_as_others_that_fail() -> None:
    text = BAD.replace("max_concurrency: 2", "tolerate: {percent: 50}")
    world = begin(text, [{"points": 3}, {"score": 1}, {"score": 6}, {"score": 7}])
    for path in world.ready():
        world.run_task(path, path)

    assert world.results("bad") == [None, "bad[1].step", "bad[2].step"]
    check_replay(world)


def test_a_retry_takes_up_what_failed_and_looks_at_the_rest() -> None:
    world = begin(BAD, scores(1, 7, 8, 2, 9, 3))
    world.run_task("bad[0].step", "a")
    world.fail_task("bad[1].step")
    assert world.state is RunState.FAILED
    assert world.states()["bad[2].step"] == "cancelled"

    world.retry()
    assert world.input("bad[1].step") == {"item": 8, "place": 2}
    world.run_task("bad[1].step", "b")
    world.run_task("bad[2].step", "c")

    assert world.results("bad") == ["a", "b", "c"]
    assert world.db.loops["bad"].left_out == 3
    check_replay(world)


def test_a_map_that_begins_anew_looks_at_all_items_again() -> None:
    world = begin(
        """
        nodes:
          limit: {type: call, handler: limit}
          m:
            type: map
            over: "${input}"
            where: "item > nodes.limit.output"
            body:
              nodes:
                before: {type: call, handler: h, input: "${[item, index]}"}
                after: {type: call, handler: h, input: "${[item, index]}"}
              edges: [[before, after]]
        edges: [[limit, m]]
        """,
        [1, 2, 3, 4],
    )
    world.run_task("limit", 2)
    assert [world.input(path) for path in world.ready()] == [[3, 2], [4, 3]]
    while ready := world.ready():
        world.run_task(ready[0])

    world.retry("limit")
    world.run_task("limit", 1)

    assert [world.input(path) for path in world.ready()] == [[2, 1], [3, 2], [4, 3]]
    assert world.db.loops["m"].left_out == 1
    for path in world.ready():
        world.run_task(path)
    assert [world.input(path) for path in world.ready()] == [[2, 1], [3, 2], [4, 3]]
    check_replay(world)


def test_a_map_that_is_retried_by_its_name_when_it_is_done_begins_anew() -> None:
    world = begin(BAD, scores(1, 7, 2))
    world.run_task("bad[0].step", "a")
    world.run_task("done")

    world.retry("bad")

    assert world.ready() == ["bad[0].step"]
    world.run_task("bad[0].step", "b")
    assert world.results("bad") == ["b"]
    check_replay(world)


@pytest.mark.parametrize("where", ["input.nothing", "item + 1"])
def test_a_condition_that_is_none_fails_the_items(where: str) -> None:
    world = begin(BAD.replace("item.score > 5", where), [1, 2])

    assert world.state is RunState.FAILED
    check_replay(world)


def test_items_of_nested_maps_are_told_by_their_places() -> None:
    world = begin(
        """
        nodes:
          a:
            type: map
            over: "${input}"
            where: "size(item) > 1"
            output: "${nodes.b.output}"
            body:
              nodes:
                b:
                  type: map
                  over: "${item}"
                  where: "item > loops.a.index"
                  body: {type: call, handler: h, input: "${[loops.a.index, index, item, size(loops.a.item)]}"}
        """,
        [[1], [1, 2, 3], [3, 1]],
    )

    assert {path: world.input(path) for path in world.ready()} == {
        "a[0].b[0].step": [1, 1, 2, 3],
        "a[0].b[1].step": [1, 2, 3, 3],
        "a[1].b[0].step": [2, 0, 3, 2],
    }
    for path in world.ready():
        world.run_task(path, 1)
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_an_item_that_is_undone_later_knows_its_place() -> None:
    world = begin(
        """
        nodes:
          m:
            type: map
            over: "${input}"
            where: "item > 1"
            body:
              nodes:
                book: {type: call, handler: book, compensate: cancel}
                cancel: {type: call, handler: cancel, input: "${[index, item]}"}
          then: {type: call, handler: then}
        edges: [[m, then]]
        """,
        [1, 2, 3],
    )
    for path in world.ready():
        world.run_task(path)
    world.fail_task("then")

    undone: Json = []
    while world.ready():
        (path,) = world.ready()
        undone.append(world.input(path))
        world.run_task(path)
    assert undone == [[2, 3], [1, 2]]
    assert world.state is RunState.FAILED
    check_replay(world)


def test_where_reads_the_results_of_other_maps_by_index() -> None:
    text = """
        nodes:
          flags: {type: map, over: "${input}", max_concurrency: 500, body: {type: call, handler: flag}}
          m:
            type: map
            over: "${input}"
            where: "nodes.flags.output[index].on"
            max_concurrency: 3
            body: {type: call, handler: h, input: "${[index, nodes.flags.output[index].why]}"}
        edges: [[flags, m]]
        """
    world = World(workflow(text), thorough=False).start(list(range(300)))
    go_on(world, "flags")
    while ready := world.ready():
        for path in ready:
            index = int(path.partition("[")[2].partition("]")[0])
            world.run_task(path, {"on": index % 50 == 49, "why": f"w{index}"})
        if "m" in world.db.tasks:
            break

    go_on(world, "m")
    assert [world.input(path) for path in world.ready()] == [[49, "w49"], [99, "w99"], [149, "w149"]]
    world.run_task("m[1].step")
    assert world.input("m[3].step") == [199, "w199"]
    assert world.questions <= 12
    check_replay(world)


def test_looks_at_large_results_are_spread_over_decisions() -> None:
    text = """
        nodes:
          large: {type: map, over: "${input}", body: {type: call, handler: large}}
          m: {type: map, over: "${nodes.large.output}", where: "item.n > 7", body: {type: call, handler: h}}
          n: {type: map, over: "${input}", where: "nodes.large.output[index].n > 8", body: {type: call, handler: h}}
        edges: [[large, m], [large, n]]
        """
    world = World(workflow(text), thorough=False).start(list(range(10)))
    for index in range(10):
        world.run_task(f"large[{index}].step", {"n": index, "text": "x" * 900_000})

    for name, left in (("m", 2), ("n", 1)):
        steps = [world.db.loops[name].seen]
        while (name, "go_on", 1) in world.db.timers:
            world.fire((name, "go_on", 1))
            steps.append(world.db.loops[name].seen)
        assert max(after - before for before, after in pairwise([0, *steps])) <= 5
        assert (world.db.loops[name].started, world.db.loops[name].failed) == (left, 0)
    check_replay(world)


def test_where_memory_ends_among_the_items_that_were_found_the_next_one_is_looked_at_again_and_no_other() -> None:
    text = """
        nodes:
          of: {type: map, over: "${input}", body: {type: call, handler: of}}
          m:
            type: map
            over: "${input}"
            where: "item % 2 == 1"
            body: {type: call, handler: h, input: {n: "${item}", of: "${nodes.of.output[index].text}"}}
        edges: [[of, m]]
        """
    world = World(workflow(text), thorough=False).start(list(range(14)))
    for index in range(14):
        world.run_task(f"of[{index}].step", {"text": "x" * 900_000})
    begun = [len(world.ready())]
    while ("m", "go_on", 1) in world.db.timers:
        world.fire(("m", "go_on", 1))
        begun.append(len(world.ready()))

    inputs = [world.input(path) for path in world.ready()]
    assert [given["n"] for given in inputs if isinstance(given, dict)] == [1, 3, 5, 7, 9, 11, 13]
    assert len(begun) > 1
    assert (world.db.loops["m"].started, world.db.loops["m"].left_out) == (7, 7)
    check_replay(world)


def test_what_is_read_besides_large_items_fits_into_memory_with_them() -> None:
    text = """
        nodes:
          some: {type: map, over: "${input}", body: {type: call, handler: some}}
          more: {type: map, over: "${input}", body: {type: call, handler: more}}
          m:
            type: map
            over: "${nodes.some.output}"
            where: "nodes.more.output[index].n > 8 && item.n > 8"
            body: {type: call, handler: h}
        edges: [[some, m], [more, m]]
        """
    world = World(workflow(text), thorough=False).start(list(range(12)))
    for name, size in (("some", 600_000), ("more", 900_000)):
        for index in range(12):
            world.run_task(f"{name}[{index}].step", {"n": index, "text": "x" * size})

    read: list[int] = []
    while ("m", "go_on", 1) in world.db.timers:
        world.fire(("m", "go_on", 1))
        keys = [key for key in world.loaded if key[0] == "payload" and str(key[1]).startswith("more[")]
        read.append(len(keys))
    assert max(read) <= 3
    assert world.ready() == ["m[0].step", "m[1].step", "m[2].step"]
    check_replay(world)


def test_a_paused_run_looks_at_nothing_and_goes_on_when_it_is_resumed() -> None:
    world = World(workflow(BAD), thorough=False).start(scores(*[1] * 2_500, 9))
    assert world.db.loops["bad"].seen == 1_000

    world.pause()
    if ("bad", "go_on", 1) in world.db.timers:
        world.fire(("bad", "go_on", 1))
    assert world.db.loops["bad"].seen == 1_000
    world.resume()
    go_on(world, "bad")

    assert world.ready() == ["bad[0].step"]
    assert world.input("bad[0].step") == {"item": 9, "place": 2_500}
    check_replay(world)


def test_an_item_is_retried_by_its_path_and_one_that_was_left_out_has_none() -> None:
    world = begin(BAD, scores(1, 7, 2, 8))
    for path in world.ready():
        world.run_task(path, path)
    world.run_task("done")

    with pytest.raises(NodeNotReached):
        world.retry("bad[2]")
    world.retry("bad[1]")

    assert world.ready() == ["bad[1].step"]
    assert world.input("bad[1].step") == {"item": 8, "place": 3}


@pytest.mark.parametrize(("size", "a_decision"), [(10, 20), (900_000, 5)])
def test_items_of_which_it_is_asked_again_are_looked_at_together_as_far_as_fits_into_memory(
    size: int, a_decision: int
) -> None:
    text = """
        nodes:
          of: {type: map, over: "${input}", body: {type: call, handler: of}}
          m:
            type: map
            over: "${input}"
            where: "nodes.of.output[index].n > 0"
            tolerate: 19
            max_concurrency: 30
            body: {type: call, handler: h}
        edges: [[of, m]]
        """
    world = World(workflow(text), thorough=False).start(list(range(20)))
    for index in range(20):
        world.run_task(f"of[{index}].step", {"text": "x" * size})
    go_on(world, "m")
    assert world.state is RunState.FAILED
    assert world.db.loops["m"].failed == 20

    world.retry()
    steps = [sum(row.attempt == 2 for row in items(world, "m"))]
    questions = [world.questions]
    while ("m", "go_on", 2) in world.db.timers:
        world.fire(("m", "go_on", 2))
        steps.append(sum(row.attempt == 2 for row in items(world, "m")))
        questions.append(world.questions)

    assert max(after - before for before, after in pairwise([0, *steps])) <= a_decision
    assert steps[-1] == 20
    assert max(questions) <= 8
    assert world.state is RunState.FAILED
    check_replay(world)


def test_an_item_of_which_it_turns_out_later_that_it_is_left_out_gives_null() -> None:
    world = begin(
        """
        nodes:
          m:
            type: map
            over: "${input}"
            where: "item != 2 || (run.epoch == 1 && item.n > 0)"
            tolerate: 1
            body: {type: call, handler: h}
          then: {type: call, handler: then, input: {all: "${nodes.m.output}", n: "${nodes.m.counts}"}}
        edges: [[m, then]]
        """,
        [1, 2, 3],
    )
    for path in world.ready():
        world.run_task(path, path)
    world.run_task("then")
    assert world.db.scopes["m[1]"].state is RunState.FAILED

    world.retry("m[1]")

    assert world.db.scopes["m[1]"].state is RunState.SUCCEEDED
    assert world.input("then") == {
        "all": ["m[0].step", None, "m[2].step"],
        "n": {"total": 3, "succeeded": 3, "failed": 0, "cancelled": 0, "left_out": 0},
    }
    check_replay(world)


def items(world: World, path: str) -> list[ScopeRow]:
    return [row for row in world.db.scopes.values() if row.loop == path]


def test_a_condition_that_is_an_item_and_no_condition_says_what_it_is() -> None:
    world = begin(BAD.replace("item.score > 5", "loops.bad.item[0]"), [["yes"]])

    message = str((world.db.scopes["bad[0]"].error or {})["message"])
    assert message.startswith("where: a condition must be true or false, this is text, in loops.bad.item[0]")
    assert "loops.bad.item[0] is text" in message
