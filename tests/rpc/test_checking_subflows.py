"""What is said of the workflows that subflow nodes run when a definition is checked or deployed."""

from __future__ import annotations

from typing import Any

import pytest

from headway.api.definitions.v1 import definitions_pb2
from tests.rpc.children import (
    LEAF,
    PARENT,
)
from tests.rpc.world import World, refusal_of


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


@pytest.mark.parametrize("by", ["deploying", "checking"])
async def test_it_is_held_against_what_comes_beside_it_whatever_is_deployed(world: World, by: str) -> None:
    source = """
workflow: caller
input_schema: {properties: {deep: {type: boolean}}, required: [deep]}
nodes:
  one: {type: subflow, workflow: leaf, input: {n: text}}
  two: {type: subflow, workflow: leaf, version: 1, input: {n: text}}
  three: {type: subflow, workflow: missing}
  again: {type: subflow, workflow: caller, input: {deep: 7}}
"""
    faulty = "workflow: missing\nnodes: {a: {type: nothing}}\n"
    lenient = LEAF.replace("integer", "string")

    async def warnings(*beside: str) -> list[str]:
        fields: Any = {"source": source, "beside": beside}
        if by == "checking":
            checked = await world.first.definitions.Check(definitions_pb2.CheckRequest(**fields))
            assert checked.runs == ["caller", "leaf", "missing"]
            faults: Any = checked.faults
        else:
            faults = (await world.first.definitions.Deploy(definitions_pb2.DeployRequest(**fields))).warnings
        return [f"{each.line} {each.message.partition(' in ')[0].partition(':')[0]}" for each in faults if each.warning]

    itself = "8 the input breaks input_schema of caller"
    assert await warnings(LEAF, faulty) == [
        "5 the input breaks input_schema of leaf",
        "6 there is no version 1 of leaf",
        itself,
    ]
    assert await warnings(lenient) == [
        "6 there is no version 1 of leaf",
        "7 no workflow missing is deployed",
        itself,
    ]
    await world.first.deploy(lenient)
    assert await warnings(LEAF, faulty) == ["5 the input breaks input_schema of leaf", itself]
    assert await world.one("SELECT count(*) FROM definitions WHERE workflow = 'missing'") == 0


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


async def test_it_is_not_warned_of_workflows_that_will_be_deployed_beside_it(world: World) -> None:
    source = PARENT.replace("call, handler: h.after,", "subflow, workflow: other, version: 1,")

    async def warned_of(**fields: Any) -> list[str]:
        checked = await world.first.definitions.Check(definitions_pb2.CheckRequest(source=source, **fields))
        return [each.message.partition(" in ")[0] for each in checked.faults]

    await world.first.deploy(LEAF)
    assert await warned_of() == ["there is no version 1 of other"]
    assert await warned_of(namespace="shop") == ["no workflow leaf is deployed", "there is no version 1 of other"]
    other = LEAF.replace("workflow: leaf", "workflow: other")
    assert await warned_of(namespace="shop", beside=[LEAF, other]) == ["there is no version 1 of other"]
    assert (await refusal_of(warned_of(namespace="a/b"))).reason == "INVALID_ARGUMENT"
