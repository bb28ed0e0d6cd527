"""Workflows that run others, and what plays the relay between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from headway.api.events.v1 import events_pb2
from headway.coordinator.engine.children import Children
from tests.rpc.world import Coordinator, World

LEAF = """
workflow: leaf
input_schema: {type: object, required: [n], properties: {n: {type: integer}}}
nodes:
  work: {type: call, handler: h.work, input: "${input}"}
  done: {type: finish, output: "${nodes.work.output}"}
edges: [[work, done]]
"""
PARENT = """
workflow: parent
deadline: 1h
nodes:
  child: {type: subflow, workflow: leaf, input: {n: "${input.n}"}}
  after: {type: call, handler: h.after, input: "${nodes.child.output}"}
edges: [[child, after]]
"""
DETACHED = """
workflow: parent
nodes:
  child: {type: subflow, workflow: leaf, input: {n: 1}, detach: true}
  done: {type: finish, output: "${nodes.child.output}"}
edges: [[child, done]]
"""
GIVEN = {"n": 1}


async def handovers(world: World, kind: str = "") -> list[events_pb2.Handover]:
    """What the relay would deliver next, oldest first."""
    query = "SELECT outbox_id, run_id, body FROM outbox WHERE kind = 'handover' ORDER BY created_at, outbox_id"
    rows = await world.database.fetch(query)
    bodies = [(row, json.loads(row["body"])) for row in rows]
    return [
        events_pb2.Handover(
            request_id=str(row["outbox_id"]),
            run_id=row["run_id"].hex,
            type=body["type"],
            event=json.dumps(body["event"]).encode(),
        )
        for row, body in bodies
        if kind in ("", body["type"])
    ]


async def carry(
    world: World, *given: events_pb2.Handover, keep: bool = False, by: Coordinator | None = None
) -> list[Any]:
    """Deliver hand-overs, and take them off the outbox."""
    request = events_pb2.DeliverRequest(handovers=given)
    answers = list((await (by or world.first).events.Deliver(request)).answers)
    if not keep:
        ids = [UUID(each.request_id) for each in given]
        await world.database.execute("DELETE FROM outbox WHERE outbox_id = ANY ($1::uuid[])", ids)
    assert events_pb2.DELIVER_ANSWER_FAILED not in answers
    return answers


async def carry_all(world: World) -> None:
    """Be the relay until nothing is left to hand over."""
    while given := await handovers(world):
        await carry(world, *given)


async def begun(world: World, *sources: str) -> tuple[str, str]:
    """A parent, and its child's id, before the child started."""
    await world.first.deploy(*sources)
    parent = await world.first.start("parent", GIVEN)
    (start,) = await handovers(world, "StartChild")
    return parent, start.run_id


async def failed_child(world: World) -> tuple[str, str]:
    """A parent that has failed, and its child, which has failed too."""
    parent, child = await begun(world, LEAF, PARENT)
    await carry_all(world)
    dispatch = await world.dispatch(child)
    await world.first.lease(dispatch)
    await world.first.fail(dispatch)
    await carry_all(world)
    return parent, child


@asynccontextmanager
async def looked_at_the_parent(
    world: World, monkeypatch: pytest.MonkeyPatch, start: events_pb2.Handover
) -> AsyncIterator[None]:
    """Another coordinator delivers a start; when it has looked at the parent's row, it stands still for the block."""
    other = await world.coordinator()
    looked, go = asyncio.Event(), asyncio.Event()
    look = Children._wanted

    async def stop_then(self: Children, *message: Any) -> Any:
        found = await look(self, *message)
        looked.set()
        await go.wait()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Children, "_wanted", stop_then)
        starting = asyncio.create_task(carry(world, start, keep=True, by=other))
        await looked.wait()
    try:
        yield
    finally:
        go.set()
        await starting


async def child_state(world: World) -> str:
    return await world.one("SELECT state FROM children ORDER BY attempt DESC LIMIT 1")


MAPPED = """
workflow: parent
nodes:
  before: {type: call, handler: h.before}
  each:
    type: map
    over: "${input.list}"
    max_concurrency: 2
    body: {type: subflow, workflow: leaf, input: {n: "${item}"}}
  done: {type: finish, output: "${nodes.each.output}"}
edges: [[before, each, done]]
"""
