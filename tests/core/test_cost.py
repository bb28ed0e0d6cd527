"""Cost per event does not grow with the run: only what the event touches is loaded, and mostly at the first go."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headway.coordinator.core.decide import Need, decide
from headway.coordinator.core.decide._walk import Walk
from headway.coordinator.core.events import RunEvent, RunResumed
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Edge, Node, NodeType
from headway.coordinator.core.state import State
from tests.core.flows import computed, edge, plan, reference, workflow
from tests.core.invariants import begin
from tests.core.simulator import World


def call(name: str, given: str | None = None) -> Node:
    return Node(
        id=name,
        type=NodeType.CALL,
        handler="do.it",
        queue="default",
        input=None if given is None else reference(given),
    )


@pytest.mark.parametrize("length", [10, 300])
def test_a_step_of_a_long_chain_costs_as_much_as_one_of_a_short_chain(length: int) -> None:
    nodes = [call("n0"), *[call(f"n{place}", f"nodes.n{place - 1}.output") for place in range(1, length)]]
    edges = [edge(f"n{place}", f"n{place + 1}") for place in range(length - 1)]
    world = World(Graph(plan(nodes, edges)), thorough=False).start()
    costs: set[tuple[int, int]] = set()

    for place in range(length):
        world.run_task(f"n{place}", {"large": "output"})
        costs.add((world.looked_up, world.questions))

    assert world.state is RunState.SUCCEEDED
    assert costs == {(1, 0)}  # the task itself; what follows cannot be there yet, and its input is not looked at


def fan(width: int) -> Graph:
    nodes: list[Node] = [call("first"), *[call(f"b{place}") for place in range(width)]]
    nodes += [Node(id="all", type=NodeType.JOIN), call("last")]
    edges: list[Edge] = [edge("first", f"b{place}") for place in range(width)]
    edges += [edge(f"b{place}", "all") for place in range(width)]
    return Graph(plan(nodes, [*edges, edge("all", "last")]))


@pytest.mark.parametrize("width", [3, 500])
def test_a_branch_that_ends_before_the_others_costs_the_same_however_many_there_are(width: int) -> None:
    world = World(fan(width), thorough=False).start()
    world.run_task("first")
    costs: set[tuple[int, int]] = set()

    for place in range(width - 1):
        world.run_task(f"b{place}", place)
        costs.add((world.looked_up, world.questions))
    world.run_task(f"b{width - 1}", width - 1)

    assert costs == {(3, 0)}  # the task, the join's tokens, and the join
    assert world.states()["last"] == "ready"
    output = world.output("all")
    assert isinstance(output, dict)
    assert len(output) == width


ASK = """
    nodes:
      each:
        type: map
        over: "${input}"
        max_concurrency: 400
        body: {nodes: {ask: {type: wait_for_event, event: EVENT}}}
"""


@pytest.mark.parametrize("event", ["'${\"go\" + string(item)}'", "go7"])
@pytest.mark.parametrize("count", [20, 400])
def test_a_signal_finds_who_waits_for_it_without_a_look_at_the_others(count: int, event: str) -> None:
    world = World(workflow(ASK.replace("EVENT", event)), thorough=False).start(list(range(count)))
    while world.db.timers:
        assert world.fire(world.next_timer())
    assert len(world.waiting()) == count + 1

    world.signal("go7", "yes")

    assert world.output("each[7].ask" if "item" in event else "each[0].ask") == "yes"
    assert world.looked_up <= 16
    assert len(world.db.waits) == count - 1


def test_one_that_fits_only_the_last_finds_it() -> None:
    filtered = ASK.replace("event: EVENT", "event: go, filter: payload == item")
    world = begin(filtered, [*range(9)])

    world.signal("go", 8)
    world.signal("go", 0)
    world.signal("go", 5)

    left = {"each", *(f"each[{index}].ask" for index in (1, 2, 3, 4, 6, 7))}
    assert {*world.waiting()} == left


def test_a_wide_fan_out_neither_finishes_early_nor_forgets_a_branch_when_it_fails_at_the_end() -> None:
    world = World(fan(200), thorough=False).start()
    world.run_task("first")
    for place in range(199):
        world.run_task(f"b{place}")

    world.fail_task("b199")

    assert world.state is RunState.FAILED
    opened = world.retry()
    assert (opened.chosen, len(opened.kept)) == (("b199",), 200)
    world.run_task("b199")
    world.run_task("last")
    assert world.state is RunState.SUCCEEDED


def test_what_the_next_nodes_read_is_loaded_at_the_first_go() -> None:
    world = World(
        workflow("""
            nodes:
              a: {type: call, handler: a}
              b: {type: call, handler: a}
              both: {type: call, handler: a, input: {x: "${nodes.a.output}", y: "${nodes.b.output.n}", z: "${input.z}"}}
            edges:
              - [a, both]
              - [b, both]
        """)
    ).start({"z": 1})
    world.run_task("a", {"n": 1})

    world.run_task("b", {"n": 2})

    assert world.input("both") == {"x": {"n": 1}, "y": 2, "z": 1}
    assert world.questions <= 1  # for the outputs, whose attempts are known only from the rows


def test_a_deep_cascade_of_control_nodes_does_not_exhaust_the_stack() -> None:
    depth = 1_500  # more than Python's limit of recursion
    nodes = [Node(id=f"n{place}", type=NodeType.SET, values={"x": computed("1")}) for place in range(depth)]
    edges = [edge(f"n{place}", f"n{place + 1}") for place in range(depth - 1)]

    world = World(Graph(plan(nodes, edges)), thorough=False).start()

    assert world.state is RunState.SUCCEEDED


def test_dead_tokens_walk_a_deep_graph_in_one_decision() -> None:
    depth = 1_000
    nodes = [call(f"n{place}") for place in range(depth)]
    edges = [edge("n0", "n1", when="false"), *[edge(f"n{place}", f"n{place + 1}") for place in range(1, depth - 1)]]
    world = World(Graph(plan(nodes, edges)), thorough=False).start()

    world.run_task("n0")

    assert world.states() == {"n0": "succeeded"}
    assert world.state is RunState.SUCCEEDED


def test_what_passes_through_is_never_decoded() -> None:
    """A bare path passes a value on by reference; only what is looked at is decoded."""
    world = begin("""
        nodes:
          a: {type: call, handler: a}
          b: {type: call, handler: a, input: "${nodes.a.output}"}
          c: {type: call, handler: a, input: {whole: "${nodes.a.output}"}}
        edges:
          - [a, b]
          - [a, c]
    """)

    world.run_task("a", {"large": [1, 2, 3]})

    assert world.task("b").input == ("a", 1, "output")
    assert ("b", 1, "input") not in world.db.payloads
    assert world.input("c") == {"whole": {"large": [1, 2, 3]}}


def test_a_failure_that_rests_on_a_guess_is_one_only_when_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    def reduce(walk: Walk, _event: RunEvent) -> None:
        raise LookupError(len(walk.draft.untaken("paid")))

    monkeypatch.setattr("headway.coordinator.core.decide._events.reduce", reduce)
    event = RunResumed(at=datetime(2030, 1, 1, tzinfo=UTC), chance=0.5)
    state = State(graph=Graph(plan([call("a")], [])), run_id="0" * 32)

    assert decide(state, event) == Need(frozenset({("signals", "paid")}), 0)

    state.signals["paid"] = []
    with pytest.raises(LookupError, match="0"):
        decide(state, event)
