"""Every statement against the real schema, and the rows they give against the classes that take them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints
from uuid import UUID

import asyncpg
import pytest
from msgspec.structs import replace

from headway.coordinator.core.document import Document
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.missing import Key
from headway.coordinator.core.plan import FailureClass
from headway.coordinator.core.rows import (
    AttemptRow,
    EffectRow,
    LoopRow,
    RunRow,
    ScopeRow,
    SignalRow,
    Steering,
    TaskRow,
    TokenRow,
    WaitRow,
)
from headway.coordinator.core.state import LATEST, Changes, State
from headway.coordinator.store.changes import EventRecord, Saving
from headway.coordinator.store.loading import Held, load, lock_steps, task_row
from headway.coordinator.store.saving import save
from headway.coordinator.store.statements import SQL

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
RUN_ID = UUID(int=7 << 16)
GRAPH: Any = None  # rows are loaded and saved without looking at the plan

RUN = RunRow(
    namespace="space",
    workflow="flow",
    version=3,
    key="key",
    trace="trace",
    created_at=NOW,
    last_event_at=NOW + timedelta(seconds=1),
    state=RunState.FAILED,
    epoch=4,
    seq=5,
    vars={"a": [1, 2.5, "x"]},
    cancelling=True,
    failing=False,
    expired=True,
    finish_path="end",
    open_tasks=0,
    succeeded_tasks=7,
    unhandled_tasks=8,
    error={"failure_class": "timeout", "message": "late", "paths": ["end"]},
    output_path="out",
    output_attempt=9,
    finished_at=NOW + timedelta(seconds=2),
    steering=Steering(cancel_reason="enough", held=(("step", "total_timeout", 0, 9),)),
)
TASK = TaskRow(
    path="step",
    namespace="space",
    queue="queue",
    handler="handler",
    lease_ms=1_001,
    attempt_timeout_ms=1_002,
    created_at=NOW,
    state=TaskState.RUNNING,
    attempt=3,
    generation=4,
    tries=5,
    losses=6,
    input=("source", 7, "output"),
    output_attempt=8,
    failure_class=None,
    error={"type": "Broken", "message": "m", "trace": "t", "details": {}},
    disposition=None,
    handled_by=9,
    cause=None,
    ready_at=NOW + timedelta(seconds=1),
    started_at=NOW + timedelta(seconds=2),
    finished_at=None,
    due_at=NOW + timedelta(seconds=3),
    owner="owner",
    leased_at=NOW + timedelta(seconds=4),
    lease_expires_at=NOW + timedelta(seconds=5),
    grant_key="grant",
    attempt_expires_at=NOW + timedelta(seconds=6),
    sweep_at=NOW + timedelta(seconds=7),
    reported=True,
)
FAILED = replace(
    TASK,
    path="failed",
    state=TaskState.FAILED,
    failure_class=FailureClass.VERDICT_FAIL,
    disposition="unhandled",
    finished_at=NOW,
    lease_expires_at=None,
    grant_key=None,
)
CANCELLED = replace(
    FAILED, path="cancelled", state=TaskState.CANCELLED, failure_class=None, disposition=None, cause="x"
)
TOKEN = TokenRow("join", live=1 << 70, dead=2, failed=4, always=8, names={"2": [("failed", None), ("step", 3)]})
SIGNAL = SignalRow(5, "name", Document(b"[1]"), NOW, None)
ATTEMPT = AttemptRow(
    path="step",
    attempt=2,
    owner="w",
    leased_at=NOW,
    ended_at=NOW + timedelta(seconds=1),
    outcome="failed",
    reported=True,
    failure_class=FailureClass.TIMEOUT,
    error={"type": "x"},
)
LOOP = LoopRow(
    path="map",
    attempt=2,
    total=31,
    source="other",
    started=24,
    open=4,
    succeeded=5,
    failed=7,
    cancelled=8,
    output_bytes=1 << 40,
    output=("map[4].step", 9, "output"),
    failures=["map[1]", "map[3]"],
    stop="failure",
    closing=True,
    cursor=10,
    redo_from=11,
    redo_failed=False,
)
SCOPE = ScopeRow(
    path="map[12]",
    loop="map",
    index=12,
    created_at=NOW,
    state=RunState.FAILED,
    attempt=3,
    failing=True,
    stopped=False,
    open_tasks=0,
    succeeded_tasks=4,
    unhandled_tasks=5,
    error={"failure_class": "timeout", "type": "Late", "message": "late", "paths": ["map[12].step"]},
    output=("map[12]", 6, "output"),
    output_bytes=7,
    finished_at=NOW + timedelta(seconds=1),
)
EVENT = EventRecord(seq=5, type="RunStarted", at=NOW, path="", attempt=0, event=b"{}", actions=b"[]")
LOCKS = ("lock_tasks", "lock_open_tasks", "lock_unhandled_tasks", "lock_all_tasks")


def all_changes() -> Changes:
    return Changes(
        run=RUN,
        tasks={row.path: row for row in (TASK, FAILED, CANCELLED)},
        tokens={"join": TOKEN},
        payloads={("step", 3, "output"): Document(b'{"a":1}')},
        timers={("step", "retry", 3): NOW},
        signals={5: SIGNAL},
        attempts=[ATTEMPT],
        loops={"map": LOOP},
        scopes={"map[12]": SCOPE},
        effects={place: EffectRow(place, f"map[{place}].step", 2) for place in (5, 7, 9)},
        waits={f"map[{place}].ask": WaitRow(f"map[{place}].ask", "go", place) for place in (2, 3, 5, 6, 8, 9)},
    )


async def stored(connection: asyncpg.Connection[asyncpg.Record], changes: Changes) -> None:
    saving = Saving(Held(RUN_ID, State(graph=GRAPH)), changes, [EVENT])
    async with connection.transaction():
        await save(connection, 0, [saving], NOW)


async def loaded(connection: asyncpg.Connection[asyncpg.Record], *keys: Key) -> State:
    async with connection.transaction():
        run, _ = (await lock_steps(connection, 0, {RUN_ID: []}, wait=False)).runs[RUN_ID]
        held = Held(RUN_ID, State(graph=GRAPH, run=run), run)
        await load(connection, 0, {RUN_ID: held}, {RUN_ID: keys})
    return held.state


@pytest.mark.parametrize("name", SQL)
async def test_each_statement_is_understood_by_the_schema(
    name: str, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    prepared = await database.prepare(SQL[name])

    assert prepared.get_query() == SQL[name]


def test_every_statement_names_its_columns() -> None:
    texts = {name: text for name, text in SQL.items() if "SELECT *" in text}

    assert not texts


@pytest.mark.parametrize("name", LOCKS)
async def test_statements_that_lock_tasks_give_every_column_in_the_order_of_the_row(
    name: str, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    prepared = await database.prepare(SQL[name])
    columns = [attribute.name for attribute in prepared.get_attributes()]
    table = await database.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'tasks'::regclass AND attnum > 0 AND NOT attisdropped"
    )

    assert {record["attname"] for record in table} == {*columns, "bucket"}
    assert set(TaskRow.__struct_fields__) - {"input"} == {*columns} - {
        "run_id",
        "input_path",
        "input_attempt",
        "input_role",
    }
    assert columns == [attribute.name for attribute in (await database.prepare(SQL["lock_tasks"])).get_attributes()]


async def test_lock_steps_gives_what_the_rows_have_in_their_order(database: asyncpg.Connection[asyncpg.Record]) -> None:
    prepared = await database.prepare(SQL["lock_steps"])
    of_tasks = [attribute.name for attribute in (await database.prepare(SQL["lock_tasks"])).get_attributes()]

    columns = [attribute.name for attribute in prepared.get_attributes()]

    assert columns[:3] == ["run_id", "is_there", "now"]
    assert tuple(columns[3:29]) == RunRow.__struct_fields__
    assert columns[29:] == of_tasks[1:]


@pytest.mark.parametrize("row", [RUN, TASK, LOOP, SCOPE], ids=["run", "task", "loop", "scope"])
def test_the_sample_rows_tell_every_column_from_every_other(row: RunRow | TaskRow | LoopRow | ScopeRow) -> None:
    hints = get_type_hints(type(row))
    values = [
        (str(hints[name]).removesuffix(" | None"), str(getattr(row, name)))
        for name in row.__struct_fields__
        if hints[name] is not bool and getattr(row, name) is not None
    ]

    assert len(values) == len(set(values))


async def test_what_is_saved_as_new_is_loaded_as_it_was(database: asyncpg.Connection[asyncpg.Record]) -> None:
    await stored(database, all_changes())

    state = await loaded(
        database, ("all",), ("payload", "step", 3, "output"), ("signals", "name"), ("attempt", "step", 2)
    )

    assert state.run == RUN
    assert state.tasks == {"step": TASK, "failed": FAILED, "cancelled": CANCELLED}
    assert state.tokens == {"join": TOKEN}
    assert state.payloads == {("step", 3, "output"): Document(b'{"a":1}')}
    assert [(s.seq, s.name, s.payload, s.received_at, s.taken_by) for s in state.signals["name"]] == [
        (5, "name", Document(b"[1]"), NOW, None)
    ]
    assert state.attempts == {("step", 2): ATTEMPT}


async def test_what_is_saved_as_changed_is_loaded_as_it_was(database: asyncpg.Connection[asyncpg.Record]) -> None:
    bare_run = RunRow(
        namespace="space",
        workflow="flow",
        version=3,
        key=RUN.key,
        trace=RUN.trace,
        created_at=NOW,
        last_event_at=NOW,
        state=RunState.RUNNING,
        seq=1,
    )
    bare_task = TaskRow(
        path="step",
        namespace="space",
        queue="queue",
        handler="handler",
        lease_ms=1_001,
        attempt_timeout_ms=1_002,
        created_at=NOW,
    )
    await stored(database, Changes(run=bare_run, tasks={"step": bare_task}))

    async with database.transaction():
        run, _ = (await lock_steps(database, 0, {RUN_ID: []}, wait=True)).runs[RUN_ID]
        held = Held(RUN_ID, State(graph=GRAPH, run=run), run)
        await load(database, 0, {RUN_ID: held}, {RUN_ID: [("task", "step")]})
        changes = Changes(run=RUN, tasks={"step": TASK})
        await save(database, 0, [Saving(held, changes, [replace(EVENT, seq=6)])], NOW)

    state = await loaded(database, ("task", "step"))
    assert state.run == RUN
    assert state.tasks == {"step": TASK}


async def test_maps_and_items_are_loaded_as_they_were_saved(database: asyncpg.Connection[asyncpg.Record]) -> None:
    await stored(database, all_changes())

    state = await loaded(database, ("loop", "map"), ("scope", "map[12]"), ("loop", "none"), ("scope", "map[13]"))
    changed = all_changed()
    async with database.transaction():
        run, _ = (await lock_steps(database, 0, {RUN_ID: []}, wait=True)).runs[RUN_ID]
        saving = Saving(Held(RUN_ID, State(graph=GRAPH), run), Changes(run=RUN, **changed), [replace(EVENT, seq=6)])
        await save(database, 0, [saving], NOW)
    again = await loaded(database, ("loop", "map"), ("scope", "map[12]"))

    assert state.loops == {"map": LOOP, "none": None}
    assert state.scopes == {"map[12]": SCOPE, "map[13]": None}
    assert (again.loops, again.scopes) == (changed["loops"], changed["scopes"])


def all_changed() -> dict[str, Any]:
    """Each column that changes, changed."""
    loop = replace(
        LOOP, attempt=3, total=41, source=None, started=30, open=5, succeeded=6, failed=8, cancelled=11, output_bytes=2,
        output=None, failures=[], stop=None, closing=False, cursor=None, redo_from=None, redo_failed=True,
    )  # fmt: skip
    scope = replace(
        SCOPE, state=RunState.RUNNING, attempt=4, failing=False, stopped=True, open_tasks=1, succeeded_tasks=5,
        unhandled_tasks=6, error=None, output=None, output_bytes=8, finished_at=None,
    )  # fmt: skip
    return {"loops": {"map": loop}, "scopes": {"map[12]": scope}}


async def test_a_page_of_items_is_loaded_in_order_from_its_first_on(
    database: asyncpg.Connection[asyncpg.Record],
) -> None:
    scopes = {
        f"map[{index}]": replace(SCOPE, path=f"map[{index}]", index=index, state=state, error=error)
        for index, (state, error) in enumerate(
            [(RunState.CANCELLED, None), (RunState.FAILED, {}), (RunState.SUCCEEDED, None)] * 3
        )
    }
    payloads = {("map[12]", 6, "output"): Document(b"[1]")}
    await stored(database, Changes(run=RUN, loops={"map": LOOP}, scopes=scopes, payloads=payloads))

    unfinished, stopped = (
        await loaded(database, ("unfinished", "map", 2)),
        await loaded(database, ("stopped", "map", 2)),
    )
    results = await loaded(database, ("results", "map"))

    assert [*unfinished.scopes] == ["map[3]", "map[4]", "map[6]", "map[7]"]
    assert [*stopped.scopes] == ["map[3]", "map[6]"]
    assert unfinished.pages == {("unfinished", "map", 2): None}
    assert results.results == {"map": dict.fromkeys(range(9), b"[1]")}


async def test_the_latest_effects_are_found_by_their_place_and_are_gone_when_they_are_taken(
    database: asyncpg.Connection[asyncpg.Record],
) -> None:
    await stored(database, all_changes())

    state = await loaded(database, ("effects", "", 9))
    assert state.effects == {7: EffectRow(7, "map[7].step", 2), 5: EffectRow(5, "map[5].step", 2)}

    async with database.transaction():
        run, _ = (await lock_steps(database, 0, {RUN_ID: []}, wait=True)).runs[RUN_ID]
        taken = Changes(run=RUN, effects={7: None, 3: None})
        await save(database, 0, [Saving(Held(RUN_ID, State(graph=GRAPH), run), taken, [replace(EVENT, seq=6)])], NOW)
    assert [*(await loaded(database, ("effects", "", LATEST))).effects] == [9, 5]


async def test_who_waits_for_a_signal_is_found_by_its_name_the_first_at_first(
    database: asyncpg.Connection[asyncpg.Record],
) -> None:
    await stored(database, all_changes())

    keys: tuple[Key, ...] = (("waits", "go", 0), ("waits", "go", 6), ("waits", "no", 0))
    first, rest, none = [(await loaded(database, key)).stored_waits[key] for key in keys]
    assert [row.place for row in first] == [2, 3, 5, 6]
    assert rest == [WaitRow("map[8].ask", "go", 8), WaitRow("map[9].ask", "go", 9)]
    assert none == []

    async with database.transaction():
        run, _ = (await lock_steps(database, 0, {RUN_ID: []}, wait=True)).runs[RUN_ID]
        over = Changes(run=RUN, waits={"map[2].ask": None, "gone": None})
        await save(database, 0, [Saving(Held(RUN_ID, State(graph=GRAPH), run), over, [replace(EVENT, seq=6)])], NOW)
    later = (await loaded(database, keys[0])).stored_waits[keys[0]]
    assert [row.place for row in later] == [3, 5, 6, 8]


async def test_what_a_repeat_drops_is_gone_with_all_that_hangs_on_it(
    database: asyncpg.Connection[asyncpg.Record],
) -> None:
    changes = all_changes()
    await stored(database, changes)

    async with database.transaction():
        run, _ = (await lock_steps(database, 0, {RUN_ID: []}, wait=True)).runs[RUN_ID]
        dropped = {"map[12]": ("step", "join")}
        saving = Saving(
            Held(RUN_ID, State(graph=GRAPH), run), Changes(run=RUN, dropped=dropped), [replace(EVENT, seq=6)]
        )
        await save(database, 0, [saving], NOW)

    state = await loaded(database, ("all",), ("scope", "map[12]"), ("attempt", "step", 2), ("loop", "map"))
    assert set(state.tasks) == {"failed", "cancelled"}
    assert (state.tokens, state.scopes, state.attempts) == ({}, {"map[12]": None}, {("step", 2): None})
    assert await database.fetchval("SELECT count(*) FROM outputs") == 0
    assert state.loops == {"map": LOOP}


async def test_a_task_that_was_looked_for_and_is_not_there_is_known_to_be_absent(
    database: asyncpg.Connection[asyncpg.Record],
) -> None:
    await stored(database, all_changes())

    state = await loaded(database, ("task", "nowhere"), ("token", "nowhere"), ("attempt", "step", 1))

    assert state.tasks == {"nowhere": None}
    assert state.tokens == {"nowhere": None}
    assert state.attempts == {("step", 1): None}


async def test_whole_run_keys_load_what_they_name(database: asyncpg.Connection[asyncpg.Record]) -> None:
    await stored(database, all_changes())

    open_tasks, unhandled = await loaded(database, ("open",)), await loaded(database, ("unhandled",))

    assert set(open_tasks.tasks) == {"step"}
    assert set(unhandled.tasks) == {"failed"}


async def test_task_row_reads_the_record_by_position_as_its_names_say(
    database: asyncpg.Connection[asyncpg.Record],
) -> None:
    await stored(database, all_changes())

    (record,) = await database.fetch(SQL["lock_tasks"], 0, [RUN_ID], ["step"])

    row = task_row(tuple(record)[1:])
    for name in set(record.keys()) - {"run_id", "input_path", "input_attempt", "input_role", "error"}:
        assert getattr(row, name) == record[name], name
