"""Any workflow: what comes of it in the kit is what the rules of tokens say, in whatever order things happen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.coordinator.core.document import Document
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.plan import RETRYABLE_NODES, FailureClass, Literal, NodeType, Place
from headway.coordinator.testkit.agenda import Chooser
from headway.coordinator.testkit.bodies import graphs_of, inside
from headway.coordinator.testkit.cases import Act, Case, Heartbeat, Mock, MockedFailure, Result
from headway.coordinator.testkit.language import Crash, Outcome, Refused
from headway.coordinator.testkit.played import Played
from headway.coordinator.testkit.playing import play
from headway.coordinator.testkit.simulation import START, Simulation
from tests.core import invariants
from tests.core.generated import ERRORS, INPUT, OUTPUTS, SIGNALS, Choices, Seeded, workflow
from tests.core.oracle import check_against_the_rules, check_the_outcome
from tests.core.simulator import World
from tests.core.test_any_run import MANY, MORE

_HERE = Place(line=1, column=1)


def mock(choices: Choices) -> Mock:
    attempts = tuple(result(choices) for _ in range(choices.whole(1, 3)))
    return Mock(place=_HERE, turns=(attempts,), for_all=True)


def result(choices: Choices) -> Result:
    failure = MockedFailure(
        failure_class=choices.of((FailureClass.EXEC_FAILED, FailureClass.VERDICT_FAIL)),
        type=choices.of(ERRORS),
        message=Literal(value="mocked"),
        details={},
        final=choices.of((False, True)),
    )
    return Result(
        place=_HERE,
        output=Literal(value=choices.of(OUTPUTS)),
        failure=choices.of((None, None, failure)),
        takes_ms=choices.of((0, 0, 100, 700)),
        queued_ms=choices.of((0, 0, 300)),
        heartbeats=tuple(
            Heartbeat(
                after_ms=choices.of((0, 50)),
                every_ms=choices.of((None, 90)),
                until_ms=choices.of((None, 200)),
                progress=choices.of((False, True)),
                checkpoint=choices.of((None, Document.of(1))),
            )
            for _ in range(choices.whole(0, 2))
        ),
    )


def deed(choices: Choices, nodes: Sequence[str]) -> Callable[[Simulation], None]:
    """What somebody may do to a run."""
    name, grace_ms, stop_clock = choices.of(SIGNALS), choices.of((0, 500, 30_000)), choices.of((False, True))
    node, chosen = choices.of(nodes), choices.of((False, True))
    signal: Callable[[Simulation], None] = lambda simulation: simulation.signal(name, Document.of(1))  # noqa: E731
    return choices.of(
        (
            signal,
            signal,
            signal,
            lambda simulation: simulation.cancel(grace_ms=grace_ms),
            lambda simulation: simulation.pause(stop_clock=stop_clock),
            Simulation.resume,
            lambda simulation: simulation.skip(node, Document.of({"by": "hand"})),
            lambda simulation: simulation.retry((node,) if chosen else (), render_inputs=stop_clock),
        )
    )


def act(after_ms: int, do: Callable[[Simulation], None]) -> Act:
    return Act(place=_HERE, after_ms=after_ms, label="act", do=do, refused=Refused.MAY)


def case(choices: Choices, graph: Graph, *, calm: bool) -> Case:
    """A run of a workflow; calm: nothing but work."""
    workers = [
        inside(body, node.id)
        for body, inner in graphs_of(graph).items()
        for node in inner.plan.nodes.values()
        if node.type in RETRYABLE_NODES
    ]
    nodes = [inside(body, name) for body, inner in graphs_of(graph).items() for name in inner.plan.nodes]
    acts: list[Act] = []
    crashes: dict[tuple[str, int], Crash] = {}
    for _ in range(0 if calm else choices.whole(0, 5)):
        acts.append(act(choices.of((0, 100, 700, 1_000)), deed(choices, nodes)))
        if workers:
            crashes[choices.of(workers), choices.whole(1, 2)] = choices.of(tuple(Crash))
    acts.append(act(60_000, Simulation.resume))
    return Case(
        place=_HERE,
        name="any",
        input=Document.of(INPUT),
        mocks=({node: mock(choices) for node in workers},),
        acts=tuple(acts),
        crashes=crashes,
        starts_at=START,
        until_ms=None,
        seed=choices.of((None, 1)),
        order=(),
        order_place=_HERE,
        every_order=False,
        limit=1,
        outcome=Outcome.SUCCEEDED,
        expectations=(),
    )


def as_world(played: Played, graph: Graph) -> World:
    """The rows, as the oracle reads them."""
    assert played.simulation is not None
    world = World(graph)
    world.now = played.simulation.now
    world.db.run = played.simulation.run
    for table in (field.name for field in fields(world.db) if field.name not in ("run", "signals", "timers")):
        rows = getattr(played.simulation._state, table)
        getattr(world.db, table).update({key: row for key, row in rows.items() if row is not None})
    world.db.timers.update(played.simulation.timers)
    return world


def child(choices: Choices, *, calm: bool) -> Graph:
    """What subflow nodes start; it starts nothing, so that there is an end to it."""
    while True:
        graph = workflow(choices, simple=calm, most_nodes=3)
        nodes = [node for inner in graphs_of(graph).values() for node in inner.plan.nodes.values()]
        if all(node.type is not NodeType.SUBFLOW for node in nodes):
            return graph


def without_runs(case: Case, graph: Graph) -> Case:
    """The runs of its subflow nodes are played, not mocked; workers in them do as handlers are said to do."""
    asking = {
        inside(body, node.id)
        for body, inner in graphs_of(graph).items()
        for node in inner.plan.nodes.values()
        if node.type is NodeType.SUBFLOW
    }
    (mocks,) = case.mocks
    done = Mock(place=_HERE, turns=((Result(place=_HERE, output=Literal(value=1)),),), for_all=True)
    handlers = {"do.it": next(iter(mocks.values()), done), "undo.it": done}
    kept = {name: mock for name, mock in mocks.items() if name not in asking}
    return replace(case, mocks=(kept, handlers))


@settings(MANY, max_examples=150 * MORE)
@given(seed=st.integers(0, 2**32), calm=st.booleans())
def test_so_it_is_when_the_runs_of_subflow_nodes_are_played(seed: int, calm: bool) -> None:  # noqa: FBT001 - drawn
    choices = Seeded(seed)
    graph, other = workflow(choices, simple=calm), child(choices, calm=calm)
    wanted = without_runs(case(choices, graph, calm=calm), graph)
    script = [choices.whole(0, 1) for _ in range(20)]

    played = play(wanted, graph, Chooser((), script), children={"other": other})

    assert played.troubles == ()
    world = as_world(played, graph)
    children = {address: run for address, run in played.simulations.items() if address}
    for address, run in children.items():
        parent = run.run.parent
        assert parent is not None
        row = played.task(address)
        if row is not None and row.attempt == parent.attempt and row.state is TaskState.SUCCEEDED and not row.cause:
            assert parent.detached or run.run.state is RunState.SUCCEEDED, address
    if played.outcome_of("") is not Outcome.RUNNING:
        check_the_outcome(world)
        if not invariants.was_stopped(world):
            check_against_the_rules(world)


@pytest.mark.parametrize("calm", [False, True], ids=["with crashes and users", "calm"])
@settings(MANY, max_examples=150 * MORE)
@given(seed=st.integers(0, 2**32))
def test_the_outcome_is_that_of_the_oracle(seed: int, calm: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    choices = Seeded(seed)
    graph = workflow(choices, simple=calm)
    wanted = case(choices, graph, calm=calm)
    script = [choices.whole(0, 1) for _ in range(20)]

    played = play(wanted, graph, Chooser((), script))

    assert played.troubles == ()
    world = as_world(played, graph)
    if played.outcome_of("") is Outcome.RUNNING:
        assert world.waiting()
        assert [*world.ready(), *world.running(), *world.db.timers] == [], "something would go on by itself"
        return
    check_the_outcome(world)
    if not invariants.was_stopped(world):
        invariants.check_every_edge_has_its_token(world)
        check_against_the_rules(world)
