"""The example on the page of each type of node compiles without a warning, and runs to its end."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from headway.coordinator.core import decide
from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.compiler.language import NODES
from headway.coordinator.core.compiler.node_pages import PAGES, endings_of, page
from headway.coordinator.core.failure_types import FailureType
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.plan import Json, NodeType
from tests.core import scenarios
from tests.core.generated import Seeded, workflow
from tests.core.invariants import begin
from tests.core.simulator import World

GIVEN: Json = {"order_id": "A-1", "amount": 2_000, "due": "2030-01-31T09:00:00Z"}
DECIDING = Path(decide.__file__ or "").parent
SIGNALS: dict[str, Json] = {"approval": {"by": "somebody"}}


def test_every_type_of_node_has_a_page() -> None:
    assert list(PAGES) == list(NODES)


@pytest.mark.parametrize("node_type", NODES)
def test_its_example_uses_it_and_compiles_without_a_warning(node_type: NodeType) -> None:
    compiled = compile_workflow(PAGES[node_type].example)

    assert [str(fault) for fault in compiled.faults] == []
    assert compiled.plan is not None
    assert node_type in {node.type for node in compiled.plan.nodes.values()}


@pytest.mark.parametrize("node_type", NODES)
def test_its_example_runs_to_its_end(node_type: NodeType) -> None:
    world = begin(PAGES[node_type].example, GIVEN)
    for name, payload in SIGNALS.items():
        world.signal(name, payload)

    for _ in range(20):
        if world.state is not RunState.RUNNING:
            break
        for path in world.ready():
            if world.task(path).state is TaskState.READY:  # a join may have stopped it meanwhile
                world.run_task(path, {"status": 200})
        for path in world.db.children:
            world.child(path, "succeeded", {})
        if world.waiting():
            world.fire(world.next_timer())

    assert world.state is RunState.SUCCEEDED
    assert {world.graph.node(path).type for path in world.db.tasks} >= {node_type}


@pytest.mark.parametrize("node_type", NODES)
def test_its_page_names_every_key_with_its_default(node_type: NodeType) -> None:
    keys = page(node_type).partition("## Keys")[2].partition("## Output")[0]

    for field in NODES[node_type].fields:
        if field.name != "type":
            (row,) = [line for line in keys.splitlines() if line.startswith(f"| `{field.name}` |")]
            assert field.doc in row
            assert field.default in row


def test_every_failure_that_the_engine_gives_is_on_a_page() -> None:
    told = {ending.type for node_type in NODES for ending in endings_of(node_type)}

    assert [each.value for each in FailureType if each not in told] == []


def test_the_engine_gives_no_failure_but_those_of_the_table() -> None:
    given = [
        f"{path.name}:{node.value.lineno}"
        for path in DECIDING.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "type" and isinstance(node.value, ast.Constant | ast.JoinedStr)
    ]

    assert given == []


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_what_fails_in_any_run_fails_as_its_page_tells(name: str) -> None:
    seen: set[str] = set()
    for seed in range(12):
        choices = Seeded(seed)
        world = World(workflow(choices, simple=name in scenarios.SIMPLE, most_nodes=4))
        scenarios.SCENARIOS[name](scenarios.begin(world), choices)
        for path, task in world.db.tasks.items():
            node = world.graph.node(path)
            found = str((task.error or {}).get("type"))
            told = {ending.type for ending in endings_of(node.type)}
            if found in {*FailureType} and node.type is not NodeType.REPEAT:  # its failure is that of what is in it
                assert found in told, (path, node.type, found)
                seen.add(found)
    assert len(seen) > 1
