"""Versions of a workflow: what a deploy changes, who is affected, and which version may go."""

from __future__ import annotations

import asyncio

import pytest

from headway.api.definitions.v1 import definitions_pb2 as pb
from headway.coordinator.engine import versions
from tests.rpc.world import Coordinator, World, refusal_of

V1 = "workflow: orders\nnodes:\n  work: {type: call, handler: h.work}\n"
V2 = (
    "workflow: orders\nnodes:\n  work: {type: call, handler: h.work, queue: fast}\n"
    "  after: {type: call, handler: h.a}\nedges: [[work, after]]\n"
)
V3 = "workflow: orders\ndeadline: 1h\nnodes:\n  work: {type: call, handler: h.work}\n"
OTHER = "workflow: other\nnodes:\n  work: {type: call, handler: h.work}\n"


async def deploy(coordinator: Coordinator, source: str, *, dry_run: bool = False) -> pb.DeployResponse:
    return await coordinator.definitions.Deploy(pb.DeployRequest(source=source, dry_run=dry_run))


async def set_deployed(coordinator: Coordinator, version: int, *, dry_run: bool = False) -> pb.Effect:
    request = pb.SetDeployedVersionRequest(workflow="orders", version=version, dry_run=dry_run)
    return (await coordinator.definitions.SetDeployedVersion(request)).effect


async def delete(coordinator: Coordinator, version: int) -> None:
    await coordinator.definitions.DeleteVersion(pb.DeleteVersionRequest(workflow="orders", version=version))


async def listed(coordinator: Coordinator) -> list[tuple[int, bool]]:
    found = await coordinator.definitions.List(pb.ListRequest(workflow="orders"))
    return [(each.version, each.deployed) for each in found.definitions]


def counts(open_runs: pb.OpenRuns) -> dict[int, int]:
    return {each.version: each.open_runs for each in open_runs.versions}


async def test_a_deploy_says_what_differs_and_whose_runs_stay_on_their_version(world: World) -> None:
    first = await deploy(world.first, V1)
    one, two = [await world.first.start("orders") for _ in range(2)]
    await world.first.deploy(OTHER)
    await world.first.start("other")
    done = await world.dispatch(two)
    await world.first.grant(done)
    await world.first.succeed(done)

    second = await deploy(world.first, V2)

    assert first.effect == pb.Effect(changes=pb.Changes(), open_runs=pb.OpenRuns(counted_all=True))
    assert (second.version, second.effect.previous_version) == (2, 1)
    changes = second.effect.changes
    assert list(changes.nodes_added) == ["after"]
    assert [(each.node, list(each.keys)) for each in changes.nodes_altered] == [("work", ["queue"])]
    assert list(changes.edges_added) == ["work → after"]
    assert counts(second.effect.open_runs) == {1: 1}
    assert second.effect.open_runs.counted_all
    assert (await world.first.get(one)).run.version == 1
    assert (await world.first.get(await world.first.start("orders"))).run.version == 2
    found = await world.first.definitions.List(pb.ListRequest(workflow="orders"))
    assert counts(found.open_runs) == {1: 1, 2: 1}


async def test_open_runs_are_counted_up_to_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "COUNTED_OPEN", 1)
    await world.first.deploy(V1, OTHER)
    for workflow in ("orders", "orders", "other"):
        await world.first.start(workflow)

    effect = (await deploy(world.first, V2)).effect

    assert counts(effect.open_runs) == {1: 1}
    assert not effect.open_runs.counted_all


@pytest.mark.parametrize("source", [V1, V2, V3])
async def test_a_dry_run_says_the_same_and_stores_nothing(source: str, world: World) -> None:
    await world.first.deploy(V1, V2)

    dry = await deploy(world.first, source, dry_run=True)

    assert await listed(world.first) == [(2, True), (1, False)]
    assert dry == await deploy(world.first, source)


async def test_a_dry_run_of_a_faulty_file_is_refused_like_a_deploy(world: World) -> None:
    request = pb.DeployRequest(source="workflow: w\nnodes: {}\n", dry_run=True)

    assert (await refusal_of(world.first.definitions.Deploy(request))).reason == "DEFINITION_FAULTY"


async def test_rolling_back_says_what_differs_and_can_be_tried_first(world: World) -> None:
    await world.first.deploy(V1, V2)

    dry = await set_deployed(world.first, 1, dry_run=True)
    before = await listed(world.first)
    real = await set_deployed(world.first, 1)
    again = await set_deployed(world.first, 1)

    assert before == [(2, True), (1, False)]
    assert dry == real
    assert list(real.changes.nodes_removed) == ["after"]
    assert (again.previous_version, again.changes) == (1, pb.Changes())
    assert await listed(world.first) == [(2, False), (1, True)]


async def test_a_version_that_no_run_needs_can_be_deleted_and_its_number_is_not_given_again(world: World) -> None:
    await world.first.deploy(V1, V2, V3, V1)

    await delete(world.first, 3)
    await delete(world.first, 3)

    assert await listed(world.first) == [(2, False), (1, True)]
    for call in (
        world.first.definitions.Get(pb.GetRequest(workflow="orders", version=3)),
        set_deployed(world.first, 3),
        world.first.start("orders", version=3),
        (await world.coordinator()).start("orders", version=3),
    ):
        assert (await refusal_of(call)).reason == "WORKFLOW_NOT_FOUND"
    assert (await deploy(world.first, V3)).version == 4


async def test_a_version_that_was_started_by_number_is_not_found_in_memory_once_it_is_deleted(world: World) -> None:
    await world.first.deploy(V1, V2)
    run_id = await world.first.start("orders", version=1)
    await world.database.execute("UPDATE runs SET version = 2")

    await delete(world.first, 1)

    assert (await refusal_of(world.first.start("orders", version=1))).reason == "WORKFLOW_NOT_FOUND"
    assert (await world.first.get(run_id)).run.version == 2


async def test_the_deployed_version_cannot_be_deleted(world: World) -> None:
    await world.first.deploy(V1)

    refusal = await refusal_of(delete(world.first, 1))

    assert (refusal.reason, refusal.metadata) == ("VERSION_DEPLOYED", {"workflow": "orders", "version": "1"})


async def test_a_version_with_runs_cannot_be_deleted_even_when_they_are_over(world: World) -> None:
    await world.first.deploy(V1)
    runs = [await world.first.start("orders") for _ in range(versions.NAMED + 2)]
    for run_id in runs:
        await world.first.cancel(run_id)
    await world.first.deploy(V2)

    refusal = await refusal_of(delete(world.first, 1))

    assert refusal.reason == "VERSION_NEEDED"
    assert refusal.metadata["count"] == str(len(runs))
    assert refusal.metadata["runs"] == ", ".join([*reversed(runs[2:]), "…"])
    assert (1, False) in await listed(world.first)


async def test_a_start_that_had_found_its_version_keeps_it_when_it_is_deleted_meanwhile(world: World) -> None:
    await world.first.deploy(V1, V2)

    async with world.hold("run_events"):
        start = asyncio.ensure_future(world.first.start("orders", version=1))
        await world.until_blocked()
        await delete(world.first, 1)
    run_id = await start

    fresh = await world.coordinator()
    dispatch = await world.dispatch(run_id)
    await fresh.grant(dispatch)
    assert await fresh.succeed(dispatch) == "ACCEPTED"
    assert await fresh.state(run_id) == "SUCCEEDED"
    assert await listed(world.first) == [(2, True)]
    assert (await refusal_of(world.first.start("orders", version=1))).reason == "WORKFLOW_NOT_FOUND"


async def test_what_was_deleted_long_ago_keeps_its_number_only_unless_a_run_was_quicker(world: World) -> None:
    await world.first.deploy(V1, V2, V3, V2)
    async with world.hold("run_events"):
        start = asyncio.ensure_future(world.first.start("orders", version=1))
        await world.until_blocked()
        await delete(world.first, 1)
    run_id = await start
    await delete(world.first, 3)
    await world.database.execute("UPDATE definitions SET deleted_at = deleted_at - interval '2 days'")

    await delete(world.first, 3)

    kept = await world.database.fetch("SELECT version FROM definitions WHERE plan <> '' ORDER BY version")
    assert [record["version"] for record in kept] == [1, 2]
    assert await (await world.coordinator()).state(run_id) == "RUNNING"
    assert (await deploy(world.first, V3)).version == 4


async def test_a_delete_and_a_rollback_to_the_same_version_come_one_after_the_other(world: World) -> None:
    await world.first.deploy(V1, V2)

    async with world.locked("SELECT pg_advisory_xact_lock(hashtextextended('default/orders', 0))"):
        calls = [asyncio.ensure_future(call) for call in (delete(world.first, 1), set_deployed(world.first, 1))]
        await world.until_blocked(2)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)

    refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert len(refused) == 1
    assert len([each for each in await listed(world.first) if each[1]]) == 1
