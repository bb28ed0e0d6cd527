"""The example on the page of each type of node compiles without a warning, and runs to its end."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.compiler.language import NODES
from headway.coordinator.core.compiler.node_pages import PAGES, page
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.plan import Json, NodeType
from tests.core.invariants import begin

GIVEN: Json = {"order_id": "A-1", "amount": 2_000, "due": "2030-01-31T09:00:00Z"}
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
