"""Attend: workers that are there are known, and hear of a cancel at once, whichever coordinator took it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.engine import attending
from tests.rpc.world import ONE, TWO, Coordinator, World, refusal_of, until


async def attend(coordinator: Coordinator, owner: str = "w1", *queues: str) -> Any:
    """Open the stream; return once the coordinator has it."""
    call = coordinator.tasks.Attend(tasks_pb2.AttendRequest(owner=owner, queues=queues))
    await call.initial_metadata()
    return call


async def is_listening(world: World) -> None:
    async def listens() -> bool:
        listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"headway_stopping\"%'"
        return await world.one(listening) > 0

    await until(listens, "a coordinator listens")


async def test_a_holder_is_told_of_a_cancel_that_another_coordinator_took(world: World) -> None:
    second = await world.coordinator()
    await is_listening(world)
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch, owner="w1")
    stream = await attend(second, "w1")
    deaf = await attend(second, "another")

    assert await world.first.cancel(run_id) == "RUNNING"

    async with asyncio.timeout(10):
        order = await stream.read()
    assert (order.task_id, order.attempt) == (dispatch.task_id, 1)
    stream.cancel()
    deaf.cancel()


async def test_nobody_is_told_of_a_run_that_ends_at_once(world: World) -> None:
    await is_listening(world)
    await world.first.deploy(TWO)
    heard: list[str] = []
    await world.database.add_listener("headway_stopping", lambda *told: heard.append(str(told[-1])))
    run_id = await world.first.start("two")

    assert await world.first.cancel(run_id) == "CANCELLED"
    running = await world.first.start("two")
    await world.first.grant(await world.dispatch(running))
    await world.first.cancel(running)

    await until(lambda: heard, "the run with a holder is told")
    assert [told.replace("-", "") for told in heard] == [running]


async def test_who_attends_is_written_down_and_forgotten_when_it_leaves(world: World) -> None:
    stream = await attend(world.first, "w1", "b", "a")

    async def rows() -> list[tuple[object, ...]]:
        return [tuple(r) for r in await world.database.fetch("SELECT namespace, owner, queues FROM workers")]

    async def noted() -> bool:
        return await rows() == [("default", "w1", ["a", "b"])]

    async def gone() -> bool:
        return not await rows()

    await until(noted, "the worker is noted")
    stream.cancel()
    await until(gone, "the worker is forgotten")


async def test_a_worker_that_only_reports_is_seen_once_a_minute(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.first.deploy(ONE)

    async def report() -> None:
        run_id = await world.first.start("one")
        dispatch = await world.dispatch(run_id)
        await world.first.grant(dispatch)
        item = tasks_pb2.ReportItem(task_id=dispatch.task_id, attempt=1, succeeded=tasks_pb2.Succeeded(output=b"1"))
        await world.first.tasks.Report(tasks_pb2.ReportRequest(owner="w1", items=[item], queues=["default"]))

    await report()

    async def seen() -> object:
        return await world.one("SELECT seen_at FROM workers WHERE owner = 'w1' AND queues = ARRAY['default']")

    await until(seen, "the worker is seen")
    first = await seen()
    for _ in range(3):
        await report()
    presence = world.first.engine.presence
    assert not presence._due
    monkeypatch.setattr(attending, "NOTE_SECONDS", 0.0)
    await report()

    async def seen_again() -> bool:
        return await seen() != first

    await until(seen_again, "the worker is seen again")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"owner": ""}, "INVALID_OWNER"), ({"owner": "w", "queues": ["q"] * 1_001}, "INVALID_ARGUMENT")],
)
async def test_a_worker_without_a_name_is_refused(world: World, fields: dict[str, Any], reason: str) -> None:
    call = world.first.tasks.Attend(tasks_pb2.AttendRequest(**fields))

    refused = await refusal_of(call.read())

    assert refused.reason == reason


async def test_what_was_not_seen_for_an_hour_is_forgotten(world: World) -> None:
    await world.database.execute(
        "INSERT INTO workers VALUES ('default', 'old', '{q}', now() - $1::interval), ('default', 'new', '{q}', now())",
        timedelta(minutes=61),
    )

    stream = await attend(world.first, "w1", "a")

    async def owners() -> bool:
        return [r["owner"] for r in await world.database.fetch("SELECT owner FROM workers ORDER BY 1")] == ["new", "w1"]

    await until(owners, "the old worker is forgotten")
    stream.cancel()
