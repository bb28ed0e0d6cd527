"""Writes what decisions changed, set-wise: one statement per table and batch, each change guarded by what was read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import orjson

from headway.coordinator.core.events import FORMAT
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.paths import loop_of
from headway.coordinator.core.rows import NOT_STEERED, ChildRow, LoopRow, RunRow, ScopeRow, TaskRow, TokenRow
from headway.coordinator.ids import run_id_text, task_id
from headway.coordinator.store.changes import Saving
from headway.coordinator.store.errors import NotApplied
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL
from headway.coordinator.store.steps import Steps
from headway.coordinator.store.timers import TimerKey, delete_timers


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleReport:
    """A row of `stale_reports`."""

    run_id: UUID
    path: str
    attempt: int
    owner: str
    answer: str


Rows = Sequence[tuple[Any, ...]]


async def save(connection: Connection, bucket: int, batch: Iterable[Saving], now: datetime) -> bool:
    """Save a batch in the open transaction that holds its runs' locks. All runs are of one bucket, each once.

    Returns:
        True when save_straight could have saved it as well.

    Raises:
        NotApplied: a guard did not hold.
    """
    savings = [saving for saving in batch if saving.events]
    steps = Steps(now)
    rest = [saving for saving in savings if not steps.take(saving)]
    await _save_rest(connection, bucket, rest, now)
    if not await steps.save(connection, bucket):
        raise NotApplied("save_steps: a run is not where it was read, although it is locked")
    for statement, rows in _sides(savings):
        await _put(connection, statement, bucket, rows)
    await _save_timers(connection, bucket, savings, rest)
    await _tell_stopping(connection, savings)
    await _delete_effects(connection, bucket, savings)
    await _delete_waits(connection, bucket, savings)
    await _save_handovers(connection, bucket, savings, now)
    await _delete_dropped(connection, bucket, savings)
    return not rest and not any(_has_sides(saving) for saving in savings)


async def save_straight(connection: Connection, bucket: int, batch: Iterable[Saving], now: datetime) -> bool:
    """Save a batch that was decided without locks, in a transaction of its own; False: nothing was saved.

    Raises:
        NotApplied: a task was not where its run says.
    """
    steps = Steps(now)
    for saving in batch:
        if saving.events and (_has_sides(saving) or not steps.take(saving)):
            return False
    try:
        return await steps.save(connection, bucket)
    except asyncpg.UniqueViolationError:  # somebody else started one of the runs
        return False


def _has_sides(saving: Saving) -> bool:
    """It changes what save_steps does not write."""
    changes = saving.changes
    beside = changes.timers or changes.tokens or changes.signals or changes.labels or changes.loops or changes.scopes
    return bool(beside or saving.requests or changes.children or changes.effects or changes.waits or saving.handovers)


async def _save_rest(connection: Connection, bucket: int, savings: Sequence[Saving], now: datetime) -> None:
    """What does not go straight on, table by table."""
    if not savings:
        return
    await _save_runs(connection, bucket, savings)
    await _save_tasks(connection, bucket, savings)
    for statement, rows in _inserts(savings):
        await _put(connection, statement, bucket, rows)
    events = [
        (s.held.run_id, e.seq, e.type, e.at, e.path, e.attempt, e.event, e.actions) for s in savings for e in s.events
    ]
    await connection.execute(SQL["insert_events"], bucket, FORMAT, *_columns(events))
    await save_dispatches(connection, bucket, now, [row for saving in savings for row in _dispatches(saving)])


async def save_dispatches(connection: Connection, bucket: int, now: datetime, rows: Rows) -> None:
    """Write outbox rows (outbox_id, run_id, namespace, path, attempt, queue, handler, trace) and wake the relays."""
    if rows:
        await connection.execute(SQL["insert_outbox"], bucket, now, *_columns(rows))


async def save_stale_reports(
    connection: Connection, bucket: int, reports: Iterable[StaleReport], now: datetime
) -> None:
    """Write down reports that changed nothing; the same one again is kept once."""
    rows = [(r.run_id, r.path, r.attempt, r.owner, r.answer) for r in reports]
    if rows:
        await connection.execute(SQL["insert_stale_reports"], bucket, now, *_columns(rows))


def _columns(rows: Rows) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def _put(connection: Connection, statement: str, bucket: int, rows: Rows) -> None:
    if rows:
        await connection.execute(SQL[statement], bucket, *_columns(rows))


async def guarded(connection: Connection, statement: str, bucket: int, rows: Rows) -> None:
    """Change rows by a guarded statement.

    Raises:
        NotApplied: not every row was as its guard says.
    """
    if not rows:
        return
    status: str = await connection.execute(SQL[statement], bucket, *_columns(rows))
    if int(status.rpartition(" ")[2]) != len(rows):
        raise NotApplied(f"{statement}: {status} for {len(rows)} rows")


def _json(value: object) -> bytes | None:
    return None if value is None else orjson.dumps(value)


async def _save_runs(connection: Connection, bucket: int, savings: Iterable[Saving]) -> None:
    new: list[tuple[Any, ...]] = []
    changed: list[tuple[Any, ...]] = []
    for saving in savings:
        row, held = saving.changes.run, saving.held
        if row is None:
            raise NotApplied("an event without a change of its run")
        if held.was_run is None:
            new.append(_new_run(held.run_id, row))
        else:
            changed.append(
                (held.run_id, held.was_run.seq, *_run_state(row), *_run_instants(row), _class_of(row), _parent_of(row))
            )
    await _put(connection, "insert_runs", bucket, new)
    await guarded(connection, "update_runs", bucket, changed)


def _run_state(row: RunRow) -> tuple[Any, ...]:
    """The columns that events change, but for those at the end."""
    return (
        row.state, row.epoch, row.seq, orjson.dumps(row.vars), row.cancelling, row.failing, row.expired,
        row.finish_path, row.open_tasks, row.succeeded_tasks, row.unhandled_tasks, _json(row.error), row.output_path,
        row.output_attempt, row.ending,
    )  # fmt: skip


def _run_instants(row: RunRow) -> tuple[Any, ...]:
    steering = None if row.steering == NOT_STEERED else msgspec.json.encode(row.steering)
    return row.last_event_at, row.finished_at, row.paused_at, steering


def _new_run(run_id: UUID, row: RunRow) -> tuple[Any, ...]:
    state, epoch, seq, *rest = _run_state(row)
    return (
        run_id, row.namespace, row.workflow, row.version, state, epoch, seq, row.key, row.trace, *rest,
        row.created_at, *_run_instants(row), _class_of(row), _parent_of(row),
    )  # fmt: skip


def _parent_of(row: RunRow) -> bytes | None:
    return None if row.parent is None else msgspec.json.encode(row.parent)


def _class_of(row: RunRow) -> str:
    """The class of the run's failure, as lists look for it."""
    return "" if row.error is None else str(row.error["failure_class"])


async def _save_tasks(connection: Connection, bucket: int, savings: Iterable[Saving]) -> None:
    new: list[tuple[Any, ...]] = []
    changed: list[tuple[Any, ...]] = []
    for saving in savings:
        run_id, was = saving.held.run_id, saving.held.was
        for path, row in saving.changes.tasks.items():
            before = was.get(path)
            if before is None:
                new.append(_new_task(run_id, row))
            else:
                changed.append((run_id, path, before.state, before.attempt, *_task_state(row)))
    await _put(connection, "insert_tasks", bucket, new)
    await guarded(connection, "update_tasks", bucket, changed)


def _task_state(row: TaskRow) -> tuple[Any, ...]:
    """The columns that events change."""
    input_path, input_attempt, input_role = row.input or (None, None, None)
    return (
        row.state, row.attempt, row.generation, row.tries, row.losses, input_path, input_attempt, input_role,
        row.output_attempt, row.failure_class, _json(row.error), row.disposition, row.handled_by, row.cause,
        row.ready_at, row.started_at, row.finished_at, row.due_at, row.owner, row.leased_at,
        row.lease_expires_at, row.grant_key, row.eager_grants, row.attempt_expires_at, row.sweep_at, row.reported,
    )  # fmt: skip


def _new_task(run_id: UUID, row: TaskRow) -> tuple[Any, ...]:
    state, attempt, generation, tries, losses, *rest = _task_state(row)
    (
        input_path, input_attempt, input_role, output_attempt, failure_class, error, disposition, handled_by, cause,
        *instants,
    ) = rest  # fmt: skip
    return (
        run_id, row.path, state, attempt, generation, tries, losses, row.namespace, row.queue, row.handler,
        row.lease_ms, row.attempt_timeout_ms, input_path, input_attempt, input_role, output_attempt, failure_class,
        error, disposition, handled_by, cause, row.created_at, *instants,
    )  # fmt: skip


def _inserts(savings: Sequence[Saving]) -> Iterable[tuple[str, Rows]]:
    """What is only ever added with runs and tasks."""
    yield (
        "insert_payloads",
        [(s.held.run_id, *key, data.raw) for s in savings for key, data in s.changes.payloads.items()],
    )
    yield "insert_attempts", [
        (s.held.run_id, a.path, a.attempt, a.owner, a.leased_at, a.ended_at, a.outcome, a.reported, a.failure_class,
         _json(a.error))
        for s in savings for a in s.changes.attempts
    ]  # fmt: skip


def _sides(savings: Sequence[Saving]) -> Iterable[tuple[str, Rows]]:
    """What is put or added beside runs and tasks, guarded by the run's lock alone."""
    yield "put_tokens", [(s.held.run_id, *_token(row)) for s in savings for row in s.changes.tokens.values()]
    yield "put_signals", [
        (s.held.run_id, row.seq, row.name, row.payload.raw, row.received_at, row.taken_by,
         row.taken_attempt, row.expires_at)
        for s in savings for row in s.changes.signals.values()
    ]  # fmt: skip
    yield "insert_labels", [
        (s.held.run_id, name, value, s.changes.run.namespace, s.changes.run.created_at)
        for s in savings if s.changes.run is not None for name, value in s.changes.labels.items()
    ]  # fmt: skip
    yield "put_loops", [(s.held.run_id, *_loop(row)) for s in savings for row in s.changes.loops.values()]
    yield "put_scopes", [(s.held.run_id, *_scope(row)) for s in savings for row in s.changes.scopes.values()]
    effects = [(s.held.run_id, place, row) for s in savings for place, row in s.changes.effects.items()]
    waits = [(s.held.run_id, row) for s in savings for row in s.changes.waits.values() if row is not None]
    yield "put_waits", [(run_id, row.path, row.name, row.place) for run_id, row in waits]
    yield (
        "put_effects",
        [(run_id, place, row.path, row.attempt, row.gave) for run_id, place, row in effects if row is not None],
    )
    yield "put_children", [(s.held.run_id, *_child(row)) for s in savings for row in s.changes.children.values()]
    yield (
        "insert_requests",
        [
            (s.held.run_id, request_id, applied.call, applied.fingerprint, orjson.dumps(applied.answer))
            for s in savings for request_id, applied in s.requests
        ],
    )  # fmt: skip


def _token(row: TokenRow) -> tuple[Any, ...]:
    bits = (row.live, row.dead, row.failed, row.always)
    packed = [value.to_bytes((value.bit_length() + 7) // 8, "little") for value in bits]
    return (row.path, *packed, orjson.dumps(row.names))


def _child(row: ChildRow) -> tuple[Any, ...]:
    return (
        row.path, row.attempt, UUID(row.child), row.workflow, row.version, row.detached, row.created_at, row.state,
        row.stop,
    )  # fmt: skip


async def _save_handovers(connection: Connection, bucket: int, savings: Iterable[Saving], now: datetime) -> None:
    rows = [
        (outbox_id, to, s.changes.run.namespace, body, trace)
        for s in savings
        if s.changes.run is not None
        for outbox_id, to, body, trace in s.handovers
    ]
    if rows:
        await connection.execute(SQL["insert_handovers"], bucket, now, *_columns(rows))


def _loop(row: LoopRow) -> tuple[Any, ...]:
    path, attempt, _ = row.output or (None, None, None)
    return (
        row.path, row.attempt, row.total, row.source, row.started, row.open, row.succeeded, row.failed, row.cancelled,
        row.output_bytes, path, attempt, orjson.dumps(row.failures), row.stop, row.closing, row.cursor, row.redo_from,
        row.redo_failed, row.redo_chosen, row.undone, row.left_out,
    )  # fmt: skip


def _scope(row: ScopeRow) -> tuple[Any, ...]:
    path, attempt, _ = row.output or (None, None, None)
    return (
        row.path, row.loop, row.index, row.created_at, row.state, row.attempt, row.failing, row.stopped, row.open_tasks,
        row.succeeded_tasks, row.unhandled_tasks, _json(row.error), path, attempt, row.output_bytes, row.finished_at,
        row.undone, row.place,
    )  # fmt: skip


async def _delete_effects(connection: Connection, bucket: int, savings: Iterable[Saving]) -> None:
    taken = [(s.held.run_id, place) for s in savings for place, row in s.changes.effects.items() if row is None]
    if taken:
        await connection.executemany(SQL["delete_effect"], [(bucket, *key) for key in taken])


async def _delete_waits(connection: Connection, bucket: int, savings: Iterable[Saving]) -> None:
    over = [(s.held.run_id, path) for s in savings for path, row in s.changes.waits.items() if row is None]
    if over:
        await connection.executemany(SQL["delete_wait"], [(bucket, *key) for key in over])


async def _delete_dropped(connection: Connection, bucket: int, savings: Iterable[Saving]) -> None:
    """Iterations that their repeats do not keep; they may have been written by this very batch."""
    dropped = [(s.held.run_id, scope, paths) for s in savings for scope, paths in s.changes.dropped.items()]
    if not dropped:
        return
    scopes = [(bucket, run_id, *loop_of(scope)) for run_id, scope, _ in dropped]
    await connection.executemany(SQL["delete_scope"], scopes)
    for statement in (
        "delete_scope_tasks",
        "delete_scope_tokens",
        "delete_scope_attempts",
        "delete_scope_beats",
        "delete_scope_children",
    ):
        await connection.executemany(SQL[statement], [(bucket, run_id, paths) for run_id, _, paths in dropped])
    whole = [(bucket, run_id, (scope, *paths)) for run_id, scope, paths in dropped]
    await connection.executemany(SQL["delete_scope_outputs"], whole)


async def _save_timers(connection: Connection, bucket: int, savings: Sequence[Saving], rest: Sequence[Saving]) -> None:
    over = [saving.held.run_id for saving in rest if saving.changes.all_timers_gone and saving.held.was_run]
    if over:
        await connection.execute(SQL["delete_run_timers"], bucket, over)
    gone: list[TimerKey] = []
    put: list[tuple[Any, ...]] = []
    for saving in savings:
        for key, due_at in saving.changes.timers.items():
            if due_at is not None:
                put.append((saving.held.run_id, *key, due_at))
            elif not saving.changes.all_timers_gone:
                gone.append((saving.held.run_id, *key))
    await delete_timers(connection, bucket, gone)
    await _put(connection, "put_timers", bucket, put)


async def _tell_stopping(connection: Connection, savings: Sequence[Saving]) -> None:
    """Runs that stop while somebody holds a lease in them, and tasks whose holders are to stop by themselves."""
    stopping: list[str] = []
    for saving in savings:
        run_id, changes = saving.held.run_id, saving.changes
        if changes.timers.get(("", "cancel_grace", 0)) is not None:
            stopping.append(run_id_text(run_id))
        elif changes.timers or changes.loops:  # no holder is told without one of them
            rows = changes.tasks.items()
            told = (path for path, row in rows if row.state is TaskState.RUNNING and row.cause is not None)
            stopping += [task_id(run_id, path) for path in told]
    if stopping:
        await connection.execute(SQL["tell_stopping"], stopping)


def _dispatches(saving: Saving) -> Iterable[tuple[Any, ...]]:
    for outbox_id, path, attempt, trace in saving.dispatches:
        row = saving.changes.tasks[path]
        yield outbox_id, saving.held.run_id, row.namespace, path, attempt, row.queue, row.handler, trace
