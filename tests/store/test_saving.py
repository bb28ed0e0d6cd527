"""Whichever statements write a batch: a row that is not as it was read is told, and what is dispatched is told once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from msgspec.structs import replace

from headway.coordinator.core.document import Document
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.rows import RUN_INPUT, RunRow, SignalRow, TaskRow, TokenRow
from headway.coordinator.core.state import Changes, State
from headway.coordinator.store.changes import Applied, EventRecord, Saving
from headway.coordinator.store.errors import NotApplied
from headway.coordinator.store.loading import Held
from headway.coordinator.store.saving import save, save_straight
from headway.coordinator.store.steps import Steps

BEFORE = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
NOW = BEFORE + timedelta(seconds=5)
GRAPH: Any = None  # rows are saved without looking at the plan
RUNS = [UUID(int=number << 16) for number in (1, 2, 3)]
CHANGED = RUNS[1]  # in the middle of the batch
NEW = UUID(int=4 << 16)
TABLES = ("runs", "tasks", "outputs", "tokens", "run_events", "outbox", "timers", "signals", "requests", "attempts")

RUN = RunRow(
    namespace="default",
    workflow="flow",
    version=1,
    key=None,
    trace="",
    created_at=BEFORE,
    last_event_at=BEFORE,
    state=RunState.RUNNING,
    seq=3,
    open_tasks=1,
)
STEP = TaskRow(
    path="step",
    namespace="default",
    queue="q",
    handler="h",
    lease_ms=1_000,
    attempt_timeout_ms=None,
    created_at=BEFORE,
    state=TaskState.RUNNING,
    attempt=2,
    ready_at=BEFORE,
    started_at=BEFORE,
    owner="w",
    leased_at=BEFORE,
    lease_expires_at=NOW,
    grant_key="k",
)
DONE = replace(
    STEP,
    state=TaskState.SUCCEEDED,
    output_attempt=2,
    finished_at=NOW,
    lease_expires_at=None,
    grant_key=None,
    reported=True,
)
NEXT = TaskRow(
    path="next",
    namespace="default",
    queue="q",
    handler="h",
    lease_ms=1_000,
    attempt_timeout_ms=None,
    created_at=NOW,
    state=TaskState.READY,
    input=("next", 1, "input"),
    ready_at=NOW,
    sweep_at=NOW + timedelta(minutes=1),
)
GATE = TaskRow(
    path="gate",
    namespace="default",
    queue="",
    handler="",
    lease_ms=0,
    attempt_timeout_ms=None,
    created_at=NOW,
    state=TaskState.SUCCEEDED,
    output_attempt=1,
    finished_at=NOW,
)
WRONG = {
    "a run's seq": "UPDATE runs SET seq = seq + 1 WHERE run_id = $1",
    "a run is gone": "DELETE FROM runs WHERE run_id = $1",
    "a task's state": "UPDATE tasks SET state = 'ready', lease_expires_at = NULL, grant_key = NULL WHERE run_id = $1",
    "a task's attempt": "UPDATE tasks SET attempt = attempt + 1 WHERE run_id = $1",
    "a task is gone": "DELETE FROM tasks WHERE run_id = $1",
}


def reported(run_id: UUID, *, straight: bool, bare: bool = False) -> Saving:
    """A worker's success, and all that can hang on it; bare: only what the one statement writes."""
    run = replace(RUN, seq=4, succeeded_tasks=1, last_event_at=NOW)
    if not straight:
        run.vars = {"by": "a set node"}
    saving = Saving(
        Held(run_id, State(graph=GRAPH), RUN, {"step": STEP}),
        Changes(
            run=run,
            tasks={"step": DONE, "next": NEXT, "gate": GATE},
            tokens={"join": TokenRow("join", live=1)},
            payloads={
                ("step", 2, "output"): Document(b"1"),
                ("next", 1, "input"): Document(b"2"),
                ("gate", 1, "output"): Document(b"3"),
            },
            timers={("next", "queue_timeout", 1): NOW},
            signals={4: SignalRow(4, "name", Document(b"1"), NOW, None)},
        ),
        [EventRecord(seq=4, type="NodeCompleted", at=NOW, path="step", attempt=2, event=b"{}", actions=b"[]")],
        [(UUID(int=run_id.int + 1), "next", 1, "")],
        [(UUID(int=9), Applied(call="Signal", fingerprint=b"", answer={}))],
    )
    if bare:
        for side in (saving.changes.tokens, saving.changes.timers, saving.changes.signals, saving.requests):
            side.clear()
    return saving


def started() -> Saving:
    """A run that was not there."""
    run = replace(RUN, seq=1, created_at=NOW, last_event_at=NOW)
    event = EventRecord(seq=1, type="RunStarted", at=NOW, path="", attempt=0, event=b"{}", actions=b"[]")
    return Saving(
        Held(NEW, State(graph=GRAPH)),
        Changes(
            run=run,
            tasks={"next": NEXT},
            payloads={RUN_INPUT: Document(b"{}"), ("next", 1, "input"): Document(b"2")},
        ),
        [event],
        [(UUID(int=NEW.int + 1), "next", 1, "")],
    )


def over(run_id: UUID) -> Saving:
    """A worker's success that ends its run."""
    saving = reported(run_id, straight=True, bare=True)
    changes = saving.changes
    assert changes.run is not None
    changes.run.state, changes.run.finished_at, changes.run.open_tasks = RunState.SUCCEEDED, NOW, 0
    changes.all_timers_gone = True
    del changes.tasks["next"], changes.payloads["next", 1, "input"]
    saving.dispatches.clear()
    return saving


def without_locks() -> list[Saving]:
    """A batch that the one statement writes whole."""
    return [*(reported(run_id, straight=True, bare=True) for run_id in RUNS[:2]), over(RUNS[2]), started()]


@pytest.fixture
async def runs(database: asyncpg.Connection[asyncpg.Record]) -> asyncpg.Connection[asyncpg.Record]:
    """Three runs with a deadline, of each of which a worker holds a task."""
    events = [EventRecord(seq=3, type="SignalReceived", at=BEFORE, path="", attempt=0, event=b"{}", actions=b"[]")]
    held = [Saving(Held(run_id, State(graph=GRAPH)), Changes(run=RUN, tasks={"step": STEP}), events) for run_id in RUNS]
    async with database.transaction():
        await save(database, 0, held, BEFORE)
    await database.execute(
        "INSERT INTO timers (bucket, run_id, path, kind, attempt, due_at)"
        " SELECT bucket, run_id, '', 'run_deadline', 0, now() FROM runs"
    )
    return database


async def rows(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, list[asyncpg.Record]]:
    return {table: await connection.fetch(f"SELECT * FROM {table} AS x ORDER BY x::text") for table in TABLES}


@pytest.mark.parametrize("straight", [True, False], ids=["straight", "general"])
async def test_what_is_as_it_was_read_is_saved(
    straight: bool,  # noqa: FBT001 - a parameter of the test
    runs: asyncpg.Connection[asyncpg.Record],
) -> None:
    batch = [reported(run_id, straight=straight) for run_id in RUNS]
    steps = Steps(NOW)

    async with runs.transaction():
        await save(runs, 0, batch, NOW)

    assert [steps.take(each) for each in batch] == [straight] * 3
    counts = {table: len(found) for table, found in (await rows(runs)).items()}
    assert counts == dict.fromkeys(TABLES, 3) | {"tasks": 9, "run_events": 6, "outputs": 9, "timers": 6, "attempts": 0}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("straight", [True, False], ids=["straight", "general"])
async def test_what_is_not_as_it_was_read_is_told_and_nothing_is_written(
    wrong: str,
    straight: bool,  # noqa: FBT001 - a parameter of the test
    runs: asyncpg.Connection[asyncpg.Record],
) -> None:
    await runs.execute(WRONG[wrong], CHANGED)
    before = await rows(runs)

    with pytest.raises(NotApplied):
        async with runs.transaction():
            await save(runs, 0, [reported(run_id, straight=straight) for run_id in RUNS], NOW)

    assert await rows(runs) == before


# --- decided without locks


async def test_a_batch_without_locks_is_saved_whole(runs: asyncpg.Connection[asyncpg.Record]) -> None:
    assert await save_straight(runs, 0, without_locks(), NOW)

    found = await rows(runs)
    assert {table: len(found[table]) for table in TABLES} == dict.fromkeys(TABLES, 0) | {
        "runs": 4,
        "tasks": 9,
        "run_events": 7,
        "outputs": 10,
        "outbox": 3,
        "timers": 2,
    }
    assert [timer["run_id"] for timer in found["timers"]] == RUNS[:2]


@pytest.mark.parametrize("wrong", ["a run's seq", "a run is gone"])
async def test_a_run_that_moved_on_meanwhile_is_told_and_nothing_is_written(
    wrong: str, runs: asyncpg.Connection[asyncpg.Record]
) -> None:
    await runs.execute(WRONG[wrong], CHANGED)
    before = await rows(runs)

    assert not await save_straight(runs, 0, without_locks(), NOW)
    assert await rows(runs) == before


async def test_a_run_that_is_locked_elsewhere_is_not_waited_for_and_nothing_is_written(
    runs: asyncpg.Connection[asyncpg.Record], lasting_database_url: str
) -> None:
    before = await rows(runs)
    elsewhere = await asyncpg.connect(lasting_database_url)
    try:
        async with elsewhere.transaction():
            await elsewhere.execute("SELECT 1 FROM runs WHERE run_id = $1 FOR UPDATE", CHANGED)

            async with asyncio.timeout(10):
                assert not await save_straight(runs, 0, without_locks(), NOW)
    finally:
        await elsewhere.close()
    assert await rows(runs) == before


@pytest.mark.parametrize("wrong", ["a task's state", "a task's attempt", "a task is gone"])
async def test_a_task_that_is_not_where_its_run_says_is_told_and_nothing_is_written(
    wrong: str, runs: asyncpg.Connection[asyncpg.Record]
) -> None:
    await runs.execute(WRONG[wrong], CHANGED)
    before = await rows(runs)

    with pytest.raises(NotApplied):
        await save_straight(runs, 0, without_locks(), NOW)

    assert await rows(runs) == before


@pytest.mark.parametrize("side", ["tokens", "timers", "signals", "requests", "vars"])
async def test_what_the_one_statement_does_not_write_is_not_saved_without_locks(
    side: str, runs: asyncpg.Connection[asyncpg.Record]
) -> None:
    batch = without_locks()
    whole, changed = reported(CHANGED, straight=side != "vars"), batch[1]
    if side == "requests":
        changed.requests = whole.requests
    elif side == "vars":
        changed.changes.run = whole.changes.run
    else:
        setattr(changed.changes, side, getattr(whole.changes, side))
    before = await rows(runs)

    assert not await save_straight(runs, 0, batch, NOW)
    assert await rows(runs) == before


# --- the relays


@pytest.mark.parametrize("ways", [[True] * 3, [False] * 3, [True, False, True]], ids=["straight", "general", "both"])
async def test_the_relays_are_woken_once_when_something_was_dispatched(
    ways: list[bool], runs: asyncpg.Connection[asyncpg.Record], lasting_database_url: str
) -> None:
    woken: asyncio.Queue[str] = asyncio.Queue()
    relay = await asyncpg.connect(lasting_database_url)
    try:
        await relay.add_listener("headway_outbox", lambda *arguments: woken.put_nowait(arguments[-1]))

        async with runs.transaction():
            await save(runs, 0, [reported(run, straight=way) for run, way in zip(RUNS, ways, strict=True)], NOW)

        assert await asyncio.wait_for(woken.get(), 5) == "0"
        await runs.execute("SELECT pg_notify('headway_outbox', 'the end')")
        assert await asyncio.wait_for(woken.get(), 5) == "the end"
    finally:
        await relay.close()


@pytest.mark.parametrize("straight", [True, False], ids=["straight", "general"])
async def test_nobody_is_woken_when_nothing_was_dispatched(
    straight: bool,  # noqa: FBT001 - a parameter of the test
    runs: asyncpg.Connection[asyncpg.Record],
    lasting_database_url: str,
) -> None:
    woken: asyncio.Queue[str] = asyncio.Queue()
    relay = await asyncpg.connect(lasting_database_url)
    batch = [reported(run_id, straight=straight) for run_id in RUNS]
    for each in batch:
        each.dispatches.clear()
        del each.changes.tasks["next"], each.changes.payloads["next", 1, "input"]
    try:
        await relay.add_listener("headway_outbox", lambda *arguments: woken.put_nowait(arguments[-1]))

        async with runs.transaction():
            await save(runs, 0, batch, NOW)

        await runs.execute("SELECT pg_notify('headway_outbox', 'the end')")
        assert await asyncio.wait_for(woken.get(), 5) == "the end"
    finally:
        await relay.close()
