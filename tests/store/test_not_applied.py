"""A row that is not as it was read, although it was locked: whichever statements write it, nothing is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from msgspec.structs import replace

from headway.coordinator.core.document import Document
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.rows import RunRow, SignalRow, TaskRow, TokenRow
from headway.coordinator.core.state import Changes, State
from headway.coordinator.store.changes import EventRecord, Saving
from headway.coordinator.store.errors import NotApplied
from headway.coordinator.store.loading import Held
from headway.coordinator.store.saving import save
from headway.coordinator.store.steps import Steps

BEFORE = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
NOW = BEFORE + timedelta(seconds=5)
GRAPH: Any = None  # rows are saved without looking at the plan
RUNS = [UUID(int=number << 16) for number in (1, 2, 3)]
CHANGED = RUNS[1]  # in the middle of the batch
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
    lease_owner="w",
    lease_expires_at=NOW,
    grant_key="k",
)
DONE = replace(
    STEP,
    state=TaskState.SUCCEEDED,
    output_attempt=2,
    finished_at=NOW,
    lease_owner=None,
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
    input=("step", 2, "output"),
    ready_at=NOW,
    sweep_at=NOW + timedelta(minutes=1),
)
WRONG = {
    "a run's seq": "UPDATE runs SET seq = seq + 1 WHERE run_id = $1",
    "a run is gone": "DELETE FROM runs WHERE run_id = $1",
    "a task's state": "UPDATE tasks SET state = 'ready', lease_owner = NULL, lease_expires_at = NULL, grant_key = NULL"
    " WHERE run_id = $1",
    "a task's attempt": "UPDATE tasks SET attempt = attempt + 1 WHERE run_id = $1",
    "a task is gone": "DELETE FROM tasks WHERE run_id = $1",
}


def reported(run_id: UUID, *, straight: bool) -> Saving:
    """A worker's success, and all that can hang on it."""
    run = replace(RUN, seq=4, succeeded_tasks=1, last_event_at=NOW)
    if not straight:
        run.vars = {"by": "a set node"}
    return Saving(
        Held(run_id, State(graph=GRAPH), RUN, {"step": STEP}),
        Changes(
            run=run,
            tasks={"step": DONE, "next": NEXT},
            tokens={"join": TokenRow("join", live=1)},
            payloads={("step", 2, "output"): Document(b"1")},
            timers={("next", "queue_timeout", 1): NOW},
            signals={4: SignalRow(4, "name", Document(b"1"), NOW, None)},
        ),
        [EventRecord(seq=4, type="NodeCompleted", at=NOW, path="step", attempt=2, event=b"{}", actions=b"[]")],
        [(UUID(int=run_id.int + 1), "next", 1, "")],
        [(UUID(int=9), b"{}")],
    )


@pytest.fixture
async def runs(database: asyncpg.Connection[asyncpg.Record]) -> asyncpg.Connection[asyncpg.Record]:
    """Three runs whose task a worker holds."""
    started = [EventRecord(seq=3, type="SignalReceived", at=BEFORE, path="", attempt=0, event=b"{}", actions=b"[]")]
    held = [
        Saving(Held(run_id, State(graph=GRAPH)), Changes(run=RUN, tasks={"step": STEP}), started) for run_id in RUNS
    ]
    async with database.transaction():
        await save(database, 0, held, BEFORE)
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
    assert counts == dict.fromkeys(TABLES, 3) | {"tasks": 6, "run_events": 6, "attempts": 0}


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
