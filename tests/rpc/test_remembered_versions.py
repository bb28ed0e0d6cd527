"""Starts take the deployed version from memory, and what is written is as if they had looked it up."""

from __future__ import annotations

import asyncio

from headway.api.definitions.v1 import definitions_pb2 as pb
from tests.rpc.world import Coordinator, World, refusal_of, until

V1 = "workflow: orders\nnodes:\n  work: {type: call, handler: h.work}\n"
V2 = "workflow: orders\nnodes:\n  work: {type: call, handler: h.other}\n"
STRICT = (
    "workflow: orders\ninput_schema: {type: object, required: [total]}\nnodes:\n  work: {type: call, handler: h.work}\n"
)


async def version_of(world: World, run_id: str) -> int:
    return await world.one("SELECT version FROM runs WHERE run_id = $1::uuid", run_id)


async def handlers(world: World) -> list[str]:
    return [record["handler"] for record in await world.database.fetch("SELECT handler FROM outbox ORDER BY handler")]


async def set_deployed(coordinator: Coordinator, version: int) -> None:
    await coordinator.definitions.SetDeployedVersion(pb.SetDeployedVersionRequest(workflow="orders", version=version))


async def remembering(world: World, source: str) -> Coordinator:
    """Another coordinator than the first, which has seen a version that both know now."""
    await world.first.deploy(source)
    second = await world.coordinator()
    for coordinator in (world.first, second):
        await coordinator.start("orders", {"total": 1})
    return second


async def test_a_start_that_knows_its_version_asks_for_it_only_as_it_writes(world: World) -> None:
    await remembering(world, V1)

    async with world.locked("LOCK TABLE definitions IN ACCESS EXCLUSIVE MODE"), world.watcher() as watcher:
        start = asyncio.ensure_future(world.first.start("orders"))
        (pid,) = await watcher.until_blocked()
        query = await watcher.one("SELECT query FROM pg_stat_activity WHERE pid = $1", pid)

    assert query.startswith("WITH held AS")
    assert await version_of(world, await start) == 1


async def test_the_next_start_sees_what_was_deployed_through_another_coordinator(world: World) -> None:
    second = await remembering(world, V1)

    await second.deploy(V2)
    after_deploy = await world.first.start("orders")
    await set_deployed(second, 1)
    after_rollback = await world.first.start("orders")
    await set_deployed(second, 2)
    after_return = await world.first.start("orders")

    assert [await version_of(world, run_id) for run_id in (after_deploy, after_rollback, after_return)] == [2, 1, 2]
    assert await world.one("SELECT count(*) FROM runs") == 5
    assert await handlers(world) == ["h.other"] * 2 + ["h.work"] * 3


async def test_a_version_that_was_deleted_since_is_not_taken_from_memory(world: World) -> None:
    await world.first.deploy(STRICT)
    second = await world.coordinator()
    refusal = await refusal_of(world.first.start("orders", {}))
    await second.deploy(V1)
    await second.definitions.DeleteVersion(pb.DeleteVersionRequest(workflow="orders", version=1))

    run_id = await world.first.start("orders", {"total": 1})

    assert refusal.reason == "INVALID_INPUT"
    assert await version_of(world, run_id) == 2


async def test_a_start_is_judged_by_the_schema_that_is_deployed_when_it_is_written(world: World) -> None:
    second = await remembering(world, V1)

    await second.deploy(STRICT)
    refusal = await refusal_of(world.first.start("orders", {}))
    fits = await world.first.start("orders", {"total": 2})

    assert refusal.reason == "INVALID_INPUT"
    assert await version_of(world, fits) == 2
    assert await world.one("SELECT count(*) FROM runs") == 3


async def test_a_start_is_not_refused_for_what_only_the_remembered_version_has_against_it(world: World) -> None:
    second = await remembering(world, STRICT)

    await second.deploy(V1)

    assert await version_of(world, await world.first.start("orders", {})) == 2


async def test_a_start_that_is_decided_under_locks_sees_it_as_well(world: World) -> None:
    second = await remembering(world, V1)
    of_one_bucket = [f"5b0b2e0c-8f3c-4d0e-9f7e-{number}00000000000" for number in range(3)]
    one, two = [await world.first.start("orders", request_id=request_id) for request_id in of_one_bucket[:2]]

    async with world.hold("run_events"), world.watcher() as watcher:
        calls = [asyncio.ensure_future(world.first.cancel(one))]
        await watcher.until_blocked()
        start = world.first.start("orders", request_id=of_one_bucket[2])
        calls += [asyncio.ensure_future(start), asyncio.ensure_future(world.first.cancel(two))]
        await until(lambda: world.first.engine.backlog == 2, "a start and a cancel wait for the next transaction")
        await second.deploy(V2)
    _, run_id, _ = await asyncio.gather(*calls)

    assert await version_of(world, run_id) == 2


async def test_a_start_that_is_sent_again_stays_on_the_version_that_it_was_begun_on(world: World) -> None:
    second = await remembering(world, V1)
    request_id = "5b0b2e0c-8f3c-4d0e-9f7e-0f0a3c1d2e4f"
    first = await world.first.start("orders", request_id=request_id)
    await second.deploy(V2)

    again = await world.first.start("orders", request_id=request_id)

    assert again == first
    assert await version_of(world, again) == 1
