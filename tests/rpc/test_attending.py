"""Attend: workers that are there are known, and hear of a cancel at once, whichever coordinator took it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.api.timers.v1 import timers_pb2
from headway.coordinator.core.state import PAGE
from headway.coordinator.engine import attending
from headway.coordinator.engine.attending import Presence
from headway.coordinator.store import attending as store
from headway.coordinator.store.errors import StoreUnavailable
from tests.rpc.world import ONE, TWO, Coordinator, Dispatch, World, refusal_of, until


async def attend(coordinator: Coordinator, owner: str = "w1", *queues: str) -> Any:
    """Open the stream; return once the coordinator has it."""
    call = coordinator.tasks.Attend()
    await call.write(tasks_pb2.AttendRequest(owner=owner, queues=queues))
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
        return [
            tuple(r)
            for r in await world.database.fetch("SELECT namespace, owner, queues FROM workers WHERE left_at IS NULL")
        ]

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
        return await world.one(
            "SELECT seen_at FROM workers WHERE left_at IS NULL AND owner = 'w1' AND queues = ARRAY['default']"
        )

    await until(seen, "the worker is seen")
    first = await seen()
    for _ in range(3):
        await report()
    presence = world.first.engine.presence
    assert not presence._due
    assert await seen() == first
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
    call = world.first.tasks.Attend()
    await call.write(tasks_pb2.AttendRequest(**fields))

    refused = await refusal_of(call.read())

    assert refused.reason == reason


async def test_what_was_not_seen_for_an_hour_is_forgotten(world: World) -> None:
    await world.database.execute(
        "INSERT INTO workers VALUES ('default', 'old', '{q}', now() - $1::interval), ('default', 'new', '{q}', now())",
        timedelta(minutes=61),
    )

    stream = await attend(world.first, "w1", "a")

    async def owners() -> bool:
        return [
            r["owner"] for r in await world.database.fetch("SELECT owner FROM workers WHERE left_at IS NULL ORDER BY 1")
        ] == ["new", "w1"]

    await until(owners, "the old worker is forgotten")
    stream.cancel()


WIDE = """
workflow: wide
nodes:
  each: {type: map, over: "${input}", max_concurrency: 1000, timeout: 1h, body: {type: call, handler: h.each}}
"""


async def test_all_holders_in_a_map_whose_time_is_over_are_told_however_many_they_are(world: World) -> None:
    """They are stopped a page at a time, in decisions of their own."""
    count = 2 * PAGE + 20
    await is_listening(world)
    await world.first.deploy(WIDE)
    run_id = await world.first.start("wide", [*range(count)])
    held: list[Dispatch] = []
    while len(held) < count:  # they are begun a page at a time, too
        held += (new := await world.dispatches(run_id))
        await world.first.lease_all(new)
        await fire(world, run_id, "go_on")
    stream = await attend(world.first, "w1")

    await fire(world, run_id, "total_timeout")
    told = {(await asyncio.wait_for(stream.read(), 10)).task_id for _ in range(PAGE)}
    while len(told) < count:
        await fire(world, run_id, "go_on")
        told |= {(await asyncio.wait_for(stream.read(), 10)).task_id for _ in range(min(PAGE, count - len(told)))}

    assert told == {dispatch.task_id for dispatch in held}
    stream.cancel()


async def fire(world: World, run_id: str, kind: str) -> None:
    """Fire the timers of a kind, as if they were due; leave the others."""
    make_due = "UPDATE timers SET due_at = now() - interval '1 second' WHERE run_id = $1 AND kind = $2"
    rows = await world.database.fetch(f"{make_due} RETURNING path, attempt", UUID(run_id), kind)
    await world.first.fire([timers_pb2.Timer(run_id=run_id, kind=kind, **dict(row)) for row in rows])


async def test_who_attends_stays_noted_however_many_others_call_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attending, "NOTE_SECONDS", 0.2)
    monkeypatch.setattr(attending, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(attending, "GATHER_SECONDS", 0.01)
    stream = await attend(world.first, "w1", "a")
    seen: set[object] = set()

    async def is_seen_thrice() -> bool:
        world.first.engine.presence.note("default", f"other-{uuid4().hex}", ["b"])
        seen.add(await world.one("SELECT seen_at FROM workers WHERE left_at IS NULL AND owner = 'w1'"))
        return len(seen - {None}) >= 3

    await until(is_seen_thrice, "it is noted again and again")
    assert len(world.first.engine.presence._queues) < 300, "what is old is forgotten meanwhile"
    stream.cancel()


async def test_a_worker_whose_note_failed_is_noted_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attending, "LOOK_SECONDS", 0.1)
    failed = asyncio.Event()
    note_workers = store.note_workers

    async def fail_once(*arguments: Any) -> None:
        if not failed.is_set():
            failed.set()
            raise StoreUnavailable("the database is away")
        await note_workers(*arguments)

    monkeypatch.setattr(store, "note_workers", fail_once)
    stream = await attend(world.first, "w1", "a")

    async def is_noted() -> bool:
        return bool(await world.one("SELECT count(*) FROM workers WHERE left_at IS NULL AND owner = 'w1'"))

    await until(is_noted, "it is noted in the end")
    assert failed.is_set()
    stream.cancel()


async def test_workers_that_come_again_while_they_are_dropped_are_noted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = [await attend(world.first, owner, "a") for owner in ("w1", "w2")]

    async def noted(*expected: tuple[str, list[str]]) -> bool:
        rows = await world.database.fetch("SELECT owner, queues FROM workers WHERE left_at IS NULL ORDER BY 1")
        return [tuple(row) for row in rows] == [*expected]

    await until(lambda: noted(("w1", ["a"]), ("w2", ["a"])), "both are noted")
    dropping, again = asyncio.Event(), asyncio.Event()
    note_leaving = store.note_leaving

    async def drop_slowly(*arguments: Any) -> None:
        dropping.set()
        await again.wait()
        await note_leaving(*arguments)

    monkeypatch.setattr(store, "note_leaving", drop_slowly)
    for stream in streams:
        stream.cancel()
    await dropping.wait()
    back = [await attend(world.first, owner, "b") for owner in ("w1", "w2")]
    again.set()

    await until(lambda: noted(("w1", ["b"]), ("w2", ["b"])), "both are noted anew")
    for stream in back:
        stream.cancel()


async def test_what_runs_in_the_background_begins_anew_when_it_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await attend(world.first, "w1", "a")
    broken = asyncio.Event()
    look = Presence._look

    def break_once(presence: Presence) -> None:
        if not broken.is_set():
            broken.set()
            raise LookupError("a fault of our own")
        look(presence)

    monkeypatch.setattr(attending, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(Presence, "_look", break_once)
    await broken.wait()
    other = await attend(world.first, "w2", "b")

    async def is_noted() -> bool:
        return bool(await world.one("SELECT count(*) FROM workers WHERE left_at IS NULL AND owner = 'w2'"))

    await until(is_noted, "others are noted")
    stream.cancel()
    other.cancel()
