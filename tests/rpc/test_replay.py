"""Replaying what was recorded of real runs gives the rows that the database holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import orjson
import pytest
from msgspec.structs import replace

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.core.actions import Action, BufferSignal, StorePayload
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan_codec import decode_plan
from headway.coordinator.core.replay import HistoryBroken, Recorded, replay
from headway.coordinator.core.rows import EffectRow, WaitRow
from headway.coordinator.core.state import State
from headway.coordinator.store.loading import Held, load, lock_steps
from tests.rpc.world import EVENT, JOIN, SLEEP, SWITCH, TWO, Dispatch, World, succeeded

FLAKY = (
    "workflow: flaky\nnodes:\n"
    "  first: {type: call, handler: h, retry: {max_attempts: 2, initial: 1s}}\n"
    "  note: {type: set, values: {seen: '${nodes.first.output}'}}\n"
    "  risky: {type: call, handler: h, input: {seen: '${vars.seen}'}}\n"
    "  rescue: {type: call, handler: h, input: '${error.message}'}\n"
    "  end: {type: finish, outcome: succeeded, output: '${nodes.rescue.output}'}\n"
    "edges:\n  - [first, note, risky]\n  - {from: risky, on: failure, to: rescue}\n  - [rescue, end]\n"
)


ROLES = {b"i": "input", b"o": "output", b"l": "list", b"c": "chosen"}
LEASE = ("state", "owner", "leased_at", "started_at", "sweep_at", "lease_expires_at", "grant_key")


async def work(world: World, run_id: str, output: object = None, *, path: str | None = None) -> Dispatch:
    """Do the next task, or the one named."""
    found = next(d for d in await world.dispatches(run_id) if path in (None, d.path))
    await world.first.grant(found)
    assert await world.first.succeed(found, output) == "ACCEPTED"
    return found


async def fail(world: World, run_id: str, **fields: Any) -> Dispatch:
    found = (await world.dispatches(run_id))[0]
    await world.first.grant(found)
    assert await world.first.fail(found, **fields) == "ACCEPTED"
    return found


async def succeeds(world: World) -> str:
    run_id = await world.first.start("joined", {"n": 1})
    left, right = await world.dispatches(run_id)
    await world.first.lease_all([left, right])
    await world.first.report("w1", *(_done(d) for d in (left, right)))
    await work(world, run_id, {"last": True})
    return run_id


def _done(dispatch: Dispatch) -> tasks_pb2.ReportItem:
    return tasks_pb2.ReportItem(
        task_id=dispatch.task_id, attempt=dispatch.attempt, succeeded=tasks_pb2.Succeeded(output=b"[1]")
    )


async def fails_retries_and_is_handled(world: World) -> str:
    run_id = await world.first.start("flaky")
    await fail(world, run_id, message="once", trace="t", details=b'{"a":1}')
    await world.first.fire(await world.let_timers_come_due(run_id))
    await work(world, run_id, {"x": [1, 2]})
    await fail(world, run_id, message="broken", final=True)
    await work(world, run_id, "saved")
    return run_id


async def fails_for_good_and_is_redone(world: World) -> str:
    run_id = await world.first.start("two")
    await work(world, run_id, 1)
    await fail(world, run_id, final=True)
    await world.first.retry(run_id)
    await work(world, run_id, 2)
    await world.first.retry(run_id, "first", render_inputs=True)
    await work(world, run_id, 3)
    await work(world, run_id, 4)
    return run_id


async def loses_its_lease_and_gives_another_back(world: World) -> str:
    run_id = await world.first.start("two")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    await world.let_lease_expire(first)
    await world.first.reap(first)
    await world.first.succeed(first)
    second = await world.dispatch(run_id)
    await world.first.grant(second, "w2")
    item = tasks_pb2.ReportItem(task_id=second.task_id, attempt=second.attempt, released=tasks_pb2.Released())
    await world.first.report("w2", item)
    return run_id


async def is_cancelled_while_a_worker_holds_a_task(world: World) -> str:
    run_id = await world.first.start("joined")
    left, right = await world.dispatches(run_id)
    await world.first.grant(left)
    await world.first.cancel(run_id, reason="enough")
    await world.first.succeed(left, {"kept": 1})
    assert await world.first.lease(right) == "RUN_CLOSED"
    return run_id


async def is_cancelled_and_closed_after_its_grace(world: World) -> str:
    run_id = await world.first.start("two")
    await world.first.grant(await world.dispatch(run_id))
    await world.first.cancel(run_id)
    await world.first.fire(await world.let_timers_come_due(run_id))
    return run_id


async def takes_signals(world: World) -> str:
    run_id = await world.first.start("waiting")
    for name in ("other", "approval", "approval", "other"):
        await world.first.signal(run_id, name, {"by": name})
    return run_id


async def times_out_and_waits(world: World) -> str:
    run_id = await world.first.start("waiting")
    await world.first.fire(await world.let_timers_come_due(run_id))
    return run_id


async def goes_on(world: World, dispatch: Dispatch, output: object = None) -> Dispatch:
    """Report a success; the next task comes with the answer."""
    item = succeeded(dispatch, output)
    item.next_grant_key = f"after {dispatch.path}"
    request = tasks_pb2.ReportRequest(owner="w1", items=[item], queues=["default"])
    (result,) = (await world.first.tasks.Report(request)).results
    assert result.HasField("next"), result
    return Dispatch(dispatch.run_id, result.next.grant.path, result.next.attempt)


async def is_granted_its_tasks_by_reports(world: World) -> str:
    run_id = await world.first.start("flaky", {"n": 1})
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    risky = await goes_on(world, first, {"x": 1})
    await world.first.renew(risky)
    await world.first.succeed(risky)
    return run_id


async def fails_under_a_lease_by_a_report(world: World) -> str:
    run_id = await world.first.start("flaky")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    await world.first.fail(await goes_on(world, first), final=True)
    await work(world, run_id, "saved")
    return run_id


async def loses_a_lease_by_a_report(world: World) -> str:
    run_id = await world.first.start("two")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    second = await goes_on(world, first)
    await world.let_lease_expire(second)
    await world.first.reap(second)
    return run_id


async def is_cancelled_under_a_lease_by_a_report(world: World) -> str:
    run_id = await world.first.start("two")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    await goes_on(world, first)
    await world.first.cancel(run_id)
    await world.first.fire(await world.let_timers_come_due(run_id))
    return run_id


async def is_redone_under_leases_by_reports(world: World) -> str:
    run_id = await world.first.start("two")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    await world.first.fail(await goes_on(world, first), final=True)
    await world.first.retry(run_id, "first")
    again = await world.dispatch(run_id)
    await world.first.grant(again)
    await world.first.succeed(await goes_on(world, again))
    return run_id


async def sleeps(world: World) -> str:
    return await world.first.start("sleeping")


async def switches(world: World) -> str:
    run_id = await world.first.start("switched")
    await work(world, run_id, {"score": 3})
    return run_id


NESTED = """
workflow: nested
nodes:
  a:
    type: map
    over: "${input}"
    max_concurrency: 2
    body:
      nodes:
        left: {type: call, handler: h, input: "${item}"}
        right: {type: call, handler: h}
        both: {type: join}
        b:
          type: repeat
          until: "last == 'done'"
          max_iterations: 3
          keep_last: 1
          body: {type: call, handler: h, input: {n: "${index}", last: "${last}", of: "${item}"}}
      edges: [[left, both, b], [right, both]]
  after: {type: call, handler: h, input: "${nodes.a.output}"}
edges: [[a, after]]
"""


async def goes_through_nested_scopes_and_is_redone(world: World) -> str:
    await world.first.deploy(NESTED)
    run_id = await world.first.start("nested", [1, 2, 3])
    for name, output in (("left", 1), ("right", 2)):
        for index in (0, 1):
            await work_at(world, run_id, f"a[{index}].{name}", output)
    for index in range(3):
        await work_at(world, run_id, f"a[0].b[{index}].step", "done" if index == 2 else "more")
    failing = await taken(world, run_id, "a[1].b[0].step")
    await world.first.grant(failing)
    assert await world.first.fail(failing, final=True) == "ACCEPTED"
    assert await world.first.state(run_id) == "FAILED"
    await world.first.retry(run_id)
    await work_at(world, run_id, "a[1].b[0].step", "done")
    for name in ("left", "right"):
        await work_at(world, run_id, f"a[2].{name}", 1)
    await work_at(world, run_id, "a[2].b[0].step", "done")
    await work_at(world, run_id, "after", None)
    assert await world.first.state(run_id) == "SUCCEEDED"
    return run_id


async def taken(world: World, run_id: str, path: str) -> Dispatch:
    """The READY task's dispatch; others stay for later."""
    attempt = await world.one("SELECT attempt FROM tasks WHERE run_id = $1 AND path = $2", UUID(run_id), path)
    await world.database.execute("DELETE FROM outbox WHERE run_id = $1 AND path = $2", UUID(run_id), path)
    return Dispatch(run_id, path, attempt)


async def work_at(world: World, run_id: str, path: str, output: object) -> None:
    found = await taken(world, run_id, path)
    await world.first.grant(found)
    assert await world.first.succeed(found, output) == "ACCEPTED"


async def is_cancelled_in_a_map(world: World) -> str:
    await world.first.deploy(NESTED)
    run_id = await world.first.start("nested", [1, 2, 3])
    await world.first.grant(await taken(world, run_id, "a[0].left"))
    await world.first.cancel(run_id)
    await world.first.fire(await world.let_timers_come_due(run_id))
    assert await world.first.state(run_id) == "CANCELLED"
    return run_id


SCENES: list[Callable[[World], Awaitable[str]]] = [
    succeeds,
    fails_retries_and_is_handled,
    fails_for_good_and_is_redone,
    loses_its_lease_and_gives_another_back,
    is_cancelled_while_a_worker_holds_a_task,
    is_cancelled_and_closed_after_its_grace,
    takes_signals,
    times_out_and_waits,
    is_granted_its_tasks_by_reports,
    fails_under_a_lease_by_a_report,
    loses_a_lease_by_a_report,
    is_cancelled_under_a_lease_by_a_report,
    is_redone_under_leases_by_reports,
    sleeps,
    switches,
    goes_through_nested_scopes_and_is_redone,
    is_cancelled_in_a_map,
]


async def stored(world: World, run_id: str) -> tuple[Graph, State, dict[tuple[str, int, str], Document]]:
    """What the tables hold of a run."""
    uuid = UUID(run_id)
    bucket = uuid.bytes[-1]
    async with world.database.transaction():
        run, _ = (await lock_steps(world.database, bucket, {uuid: []}, wait=True)).runs[uuid]
        plan = await world.one(
            "SELECT plan FROM definitions WHERE workflow = $1 AND version = $2", run.workflow, run.version
        )
        graph = Graph(decode_plan(orjson.loads(plan)))
        held = Held(uuid, State(graph=graph, run=run), run)
        attempts = await world.database.fetch("SELECT path, attempt FROM attempts WHERE run_id = $1", uuid)
        names = await world.database.fetch("SELECT DISTINCT name FROM signals WHERE run_id = $1", uuid)
        scopes = await world.database.fetch("SELECT path FROM scopes WHERE run_id = $1", uuid)
        loops = await world.database.fetch("SELECT path FROM loops WHERE run_id = $1", uuid)
        whole = [("scope", r["path"]) for r in scopes] + [("loop", r["path"]) for r in loops]
        keys = [("attempt", r["path"], r["attempt"]) for r in attempts] + [("signals", r["name"]) for r in names]
        await load(world.database, bucket, {uuid: held}, {uuid: [("all",), *keys, *whole]})
    for row in await world.database.fetch("SELECT place, path, attempt, gave FROM effects WHERE run_id = $1", uuid):
        held.state.effects[row["place"]] = EffectRow(row["place"], row["path"], row["attempt"], row["gave"])
    for row in await world.database.fetch("SELECT path, name, place FROM waits WHERE run_id = $1", uuid):
        held.state.waits[row["path"]] = WaitRow(row["path"], row["name"], row["place"])
    outputs = await world.database.fetch("SELECT path, attempt, role, data FROM outputs WHERE run_id = $1", uuid)
    return graph, held.state, {(r["path"], r["attempt"], ROLES[r["role"]]): Document(r["data"]) for r in outputs}


async def replayed(world: World, run_id: str, graph: Graph, payloads: dict[tuple[str, int, str], Document]) -> State:
    uuid = UUID(run_id)
    events = await world.database.fetch("SELECT seq, at, actions FROM run_events WHERE run_id = $1 ORDER BY seq", uuid)
    signals = {
        r["seq"]: Document(r["payload"])
        for r in await world.database.fetch("SELECT seq, payload FROM signals WHERE run_id = $1", uuid)
    }

    def payload_of(seq: int, action: Action) -> Document:
        if isinstance(action, StorePayload):
            return payloads.get((action.path, action.attempt, action.role), NULL)  # a repeat may have dropped it
        assert isinstance(action, BufferSignal)
        return signals[seq]

    return replay(graph, [Recorded(seq=e["seq"], at=e["at"], actions=e["actions"]) for e in events], payload_of)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_replaying_the_history_of_a_real_run_gives_its_rows(
    scene: Callable[[World], Awaitable[str]], world: World
) -> None:
    await world.first.deploy(TWO, JOIN, SWITCH, EVENT, SLEEP, FLAKY)
    await check_replay(world, await scene(world))


async def check_replay(world: World, run_id: str) -> None:
    """The history of a run, under no lease just now, gives its rows."""
    graph, live, payloads = await stored(world, run_id)
    again = await replayed(world, run_id, graph, payloads)

    assert again.run == live.run
    assert {path: row for path, row in again.tasks.items() if row} == live.tasks
    assert {path: row for path, row in again.tokens.items() if row} == live.tokens
    assert again.loops == live.loops
    assert {path: row for path, row in again.waits.items() if row} == live.waits
    assert {place: effect for place, effect in again.effects.items() if effect} == live.effects
    assert {path: row for path, row in again.scopes.items() if row} == live.scopes
    assert again.attempts == live.attempts
    assert again.payloads == payloads
    assert _taken(again) == _taken(live)


def _taken(state: State) -> dict[str, list[tuple[int, Document]]]:
    return {name: [(row.seq, row.payload) for row in rows] for name, rows in state.signals.items() if rows}


async def test_a_run_under_a_lease_is_replayed_but_for_the_lease(world: World) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two")
    await world.first.grant(await world.dispatch(run_id))

    graph, live, payloads = await stored(world, run_id)
    again = await replayed(world, run_id, graph, payloads)

    row, leased = again.tasks["first"], live.tasks["first"]
    assert row is not None
    assert leased is not None
    assert replace(row, **{name: getattr(leased, name) for name in LEASE}) == leased


async def test_so_is_one_under_a_lease_by_a_report(world: World) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two")
    first = await world.dispatch(run_id)
    await world.first.grant(first)
    await goes_on(world, first)

    graph, live, payloads = await stored(world, run_id)
    again = await replayed(world, run_id, graph, payloads)

    row, leased = again.tasks["second"], live.tasks["second"]
    assert row is not None
    assert leased is not None
    assert leased.owner == "w1"
    assert replace(row, **{name: getattr(leased, name) for name in LEASE}, eager_grants=1) == leased


async def test_a_history_with_a_gap_is_not_replayed(world: World) -> None:
    await world.first.deploy(TWO)
    run_id = await loses_its_lease_and_gives_another_back(world)
    graph, _, payloads = await stored(world, run_id)
    await world.database.execute("DELETE FROM run_events WHERE seq = 2")

    with pytest.raises(HistoryBroken, match="gap at 2"):
        await replayed(world, run_id, graph, payloads)
