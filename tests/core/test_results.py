"""Results of maps are rows: an expression loads those that it names, and no others."""

from __future__ import annotations

import pytest

from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from tests.core.flows import workflow
from tests.core.invariants import begin, check_replay
from tests.core.simulator import World

MAP = """
    nodes:
      m: {{type: map, over: "${{input}}", max_concurrency: 100, body: {{type: join}}, output: "{gives}"}}
      use: {{type: call, handler: use, input: {asks}}}
    edges: [[m, use]]
"""


def mapped(length: int, asks: str, gives: str = "${item}", *, thorough: bool = True) -> World:
    """A map over a list of maps, and what is read of its results."""
    world = World(workflow(MAP.format(asks=asks, gives=gives)), thorough=thorough)
    world.start([{"n": index, "of": {"a": [index]}} for index in range(length)])
    while world.state is RunState.RUNNING and "use" not in world.db.tasks:
        world.fire(world.next_timer())
    return world


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        ("'${nodes.m.output[2]}'", {"n": 2, "of": {"a": [2]}}),
        ("'${nodes.m.output[2].of.a}'", [2]),
        ("'${nodes.m.output[2].of[\"a\"]}'", [2]),
        ("'${nodes.m.output[2].of.a[0]}'", 2),
        ("'${nodes.m.output[1 + 1].n}'", 2),
        ("'${nodes.m.output[nodes.m.output[2].n + 1].n}'", 3),
        ("'${size(nodes.m.output)}'", 6),
        ("'${nodes.m.output.size() > 5 ? nodes.m.output[5].n : -1}'", 5),
        ("'${nodes.m.output[nodes.m.output.size() - 1].n}'", 5),
        ("'${[0, 3].map(place, nodes.m.output[place].n)}'", [0, 3]),
        ("'${has(nodes.m.output[1].of.b)}'", False),
        ("'${has(nodes.m.output) ? nodes.m.output[4].n : null}'", 4),
        ("'${nodes.m.output[99].n > 1 || nodes.m.output[3].n == 3}'", True),
        ("'number ${nodes.m.output[4].n} of ${size(nodes.m.output)}'", "number 4 of 6"),
        ("{all: '${nodes.m.output.map(each, each.n)}', one: '${nodes.m.output[1].n}'}", {"all": [*range(6)], "one": 1}),
        ("'${nodes.m.output.filter(each, each.n > 3).size() + nodes.m.output[1].n}'", 3),
    ],
)
def test_items_and_the_size_of_results_are_read(asks: str, expected: Json) -> None:
    world = mapped(6, asks)

    assert world.input("use") == expected
    check_replay(world)


@pytest.mark.parametrize(
    ("asks", "why"),
    [
        ("'${nodes.m.output[6]}'", "there is no item [6]: the list has 6"),
        ("'${nodes.m.output[0 - 1].n}'", "there is no item [-1]: the list has 6"),
        ("'${nodes.m.output[1].of.b}'", "nodes.m.output[1].of.b has no value"),
        ("'${nodes.m.output[1].n + nodes.m.output[7].n}'", "there is no item [7]: the list has 6"),
        ('\'${nodes.m.output["a" + "b"]}\'', "an item of a list is looked up by an integer, not by text"),
        ("'${nodes.m.output[1.5]}'", "an item of a list is looked up by an integer, not by a number"),
    ],
)
def test_what_is_not_there_is_said(asks: str, why: str) -> None:
    world = mapped(6, asks)

    error = world.task("use").error or {}
    assert error["type"] == "ExpressionError"
    assert str(error["message"]).startswith(f"{why}, in ")
    assert "nodes.m.output is a list" in str(error["message"])


@pytest.mark.parametrize(
    ("asks", "rows"),
    [
        ("'${nodes.m.output[7].n}'", {"m[7]"}),
        ("'${size(nodes.m.output)}'", set[str]()),
        ("'${nodes.m.output[7].n + nodes.m.output[250].n + size(nodes.m.output)}'", {"m[7]", "m[250]"}),
        ("'${[1, 9, 290].map(place, nodes.m.output[place].n)}'", {"m[1]", "m[9]", "m[290]"}),
    ],
)
def test_only_what_an_expression_names_is_loaded(asks: str, rows: set[str]) -> None:
    text = MAP.replace("type: join", "type: call, handler: h, input: '${{item}}'").format(asks=asks, gives="${item}")
    world = World(workflow(text), thorough=False).start([{"n": index} for index in range(300)])

    for index in range(300):
        world.run_task(f"m[{index}].step")

    assert world.input("use") is not None
    own = {"m[299]", "m[200]"}  # the item that ended last, and the chunk of the list that it is in
    assert {str(key[1]) for key in world.loaded if key[0] == "scope"} - own == rows
    assert {str(key[1]) for key in world.loaded if key[0] == "payload"} - own == rows
    assert ("results", "m") not in world.loaded
    assert world.questions <= 4


def test_an_item_that_is_passed_on_is_pointed_at_however_large_it_is() -> None:
    world = begin(
        """
        nodes:
          m: {type: map, over: [1, 2], body: {type: call, handler: large}}
          one: {type: call, handler: use, input: "${nodes.m.output[1]}"}
          part: {type: call, handler: use, input: "${nodes.m.output[0].text}"}
          all: {type: call, handler: use, input: "${nodes.m.output}", optional: true}
        edges: [[m, one], [m, part], [m, all]]
        """
    )
    large: Json = {"text": "x" * 900_000}
    world.run_task("m[0].step", large)
    world.run_task("m[1].step", large)

    assert world.task("one").input == ("m[1].step", 1, "output")
    assert world.input("part") == "x" * 900_000
    message = str((world.task("all").error or {})["message"])
    assert "nodes.m.output has 1800024 bytes of JSON, more than fit together" in message
    check_replay(world)


def test_one_expression_reads_as_much_of_results_as_could_be_put_together() -> None:
    world = begin(
        """
        nodes:
          m: {type: map, over: [1, 2], body: {type: call, handler: large}}
          use: {type: call, handler: use, input: "${nodes.m.output[0].n + nodes.m.output[1].n}"}
        edges: [[m, use]]
        """
    )
    for path in ("m[0].step", "m[1].step"):
        world.run_task(path, {"n": 1, "text": "x" * 900_000})

    message = str((world.task("use").error or {})["message"])
    assert message.startswith("what is read of nodes.m.output has 1800034 bytes of JSON, more than fit together")


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        ("'${nodes.m.output[1].n + nodes.m.output[2][\"n\"]}'", 3),
        ("'${nodes.m.output[1].of.a[0] + 1}'", 2),
        ("'${has(nodes.m.output[1].of.a) && !has(nodes.m.output[1].b)}'", True),
        ("'${nodes.m.output[2].n > 1 && nodes.m.output[1].text == null}'", "the texts that it reads are too long"),
        ("'${nodes.m.output[2].n > 1 && nodes.m.output[1] == null}'", "the texts that it reads are too long"),
    ],
)
def test_of_an_item_that_is_large_only_the_fields_that_are_named_count(asks: str, expected: Json) -> None:
    world = begin(
        """
        nodes:
          m: {type: map, over: [0, 1, 2], body: {type: call, handler: large}}
          use: {type: call, handler: use, input: ASKS}
        edges: [[m, use]]
        """.replace("ASKS", asks)
    )
    for index in range(3):
        world.run_task(f"m[{index}].step", {"n": index, "of": {"a": [index]}, "text": "x" * 300_000})

    if isinstance(expected, str):
        assert expected in str((world.task("use").error or {})["message"])
    else:
        assert world.input("use") == expected


JOINED = """
    nodes:
      a: {type: map, over: "${input}", body: {type: call, handler: a}}
      b: {type: map, over: "${input}", body: {type: call, handler: b}}
      c:
        type: map
        over: "${nodes.b.output}"
        max_concurrency: 40
        body: {type: call, handler: c, input: {a: "${nodes.a.output[index].v}", b: "${item}"}}
    edges: [[a, b, c]]
"""


def test_two_maps_are_joined_by_their_index_and_what_the_next_items_read_is_asked_for_at_once() -> None:
    world = World(workflow(JOINED), thorough=False).start(list(range(100)))
    for name in ("a", "b"):
        for index in range(100):
            world.run_task(f"{name}[{index}].step", {"v": f"{name}{index}"})

    assert world.input("c[39].step") == {"a": "a39", "b": {"v": "b39"}}
    assert world.questions <= 7
    world.run_task("c[7].step")
    assert world.input("c[40].step") == {"a": "a40", "b": {"v": "b40"}}
    assert world.questions <= 4
    assert {str(key[1]) for key in world.loaded if key[0] == "scope"} == {"c[7]", "a[40]", "b[40]"}


def test_items_that_read_more_than_fits_into_memory_begin_in_further_decisions() -> None:
    world = World(workflow(JOINED), thorough=False).start(list(range(6)))
    for name in ("a", "b"):
        for index in range(6):
            world.run_task(f"{name}[{index}].step", {"v": "v" * 500_000})

    steps = [len(world.ready())]
    while ("c", "go_on", 1) in world.db.timers:
        world.fire(("c", "go_on", 1))
        steps.append(len(world.ready()))

    assert steps == [2, 6]
    for path in world.ready():
        world.run_task(path)
    assert world.state is RunState.SUCCEEDED
    check_replay(world)
