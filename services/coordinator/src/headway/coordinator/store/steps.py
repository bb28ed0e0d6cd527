"""What most decisions change, as the columns of one statement: `save_steps` writes runs that go straight on.

A run goes *straight on* when every instant written is the batch's own and every change is one that save_steps spells
out. That is judged here, column by column, so that what the statement leaves out cannot differ from what the projector
wrote; whatever does not fit goes through the general statements of `saving`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from headway.coordinator.core.events import FORMAT
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.projector import SWEEP_AFTER
from headway.coordinator.core.rows import RUN_INPUT, PayloadKey, RunRow, TaskRow
from headway.coordinator.store.changes import EventRecord, Saving
from headway.coordinator.store.errors import NotApplied
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Sequence[Row]
MILLISECOND = timedelta(milliseconds=1)

_NEW_RUN = attrgetter(
    "state", "epoch", "vars", "cancelling", "failing", "expired", "finish_path", "ending", "unhandled_tasks", "error",
    "output_path", "output_attempt", "finished_at", "parent",
)  # fmt: skip
_AS_NEW = (RunState.RUNNING, 1, {}, False, False, False, None, None, 0, None, None, None, None, None)
_RUN_KEPT = attrgetter(
    "epoch",
    "vars",
    "cancelling",
    "failing",
    "expired",
    "ending",
    "unhandled_tasks",
    "error",
    "paused_at",
    "steering",
    "parent",
)
_TASK_KEPT = attrgetter(
    "attempt", "generation", "tries", "losses", "input", "failure_class", "error", "disposition", "handled_by", "cause",
    "ready_at", "started_at", "owner", "leased_at", "sweep_at",
)  # fmt: skip
_LEASE = attrgetter("due_at", "lease_expires_at", "grant_key", "eager_grants", "attempt_expires_at")
_NO_LEASE = (None, None, None, 0, None)
_NEW_TASK = attrgetter(
    "attempt", "generation", "tries", "losses", "failure_class", "error", "disposition", "handled_by", "cause",
)  # fmt: skip
_AS_NEW_TASK = (1, 1, 0, 0, None, None, None, None, None)
_UNTOUCHED = attrgetter("started_at", "owner", "leased_at")
_NEVER_LEASED = (None, None, None)


class Steps:
    """A batch's runs that go straight on, as they are gathered."""

    def __init__(self, now: datetime) -> None:
        """Begin with none; `now` is the batch's instant."""
        self._now = now
        self._sweep_at = now + SWEEP_AFTER
        self._versions: dict[Row, int] = {}
        self._specs: dict[Row, int] = {}
        self._started: list[Row] = []
        self._moved: list[Row] = []
        self._done: list[Row] = []
        self._fresh: list[Row] = []
        self._settled: list[Row] = []
        self._events: list[Row] = []
        self._over: list[UUID] = []

    def take(self, saving: Saving) -> bool:
        """Gather a run if it goes straight on; else nothing is kept of it."""
        run, events = saving.changes.run, saving.events
        if run is None or saving.changes.attempts or any(event.at != self._now for event in events):
            return False
        payloads = _Payloads(saving)
        moved = self._run(saving, run, payloads)
        if moved is None:
            return False
        tasks = self._tasks(saving, payloads)
        if tasks is None or payloads.left:
            return False
        (self._started if saving.held.was_run is None else self._moved).append(moved)
        for rows, row in tasks:
            rows.append(row)
        if saving.changes.all_timers_gone:
            self._over.append(saving.held.run_id)
        self._events.extend(_event(saving.held.run_id, event) for event in events)
        return True

    async def save(self, connection: Connection, bucket: int) -> bool:
        """Write what was gathered, or nothing.

        False: a run is locked elsewhere or is not where it was read, or one is to start on a version that must be the
        deployed one and is not.

        Raises:
            NotApplied: a task was not where its run says.
        """
        if not self._events:
            return True
        *versions, needs_deployed = _columns(list(self._versions), 4)
        try:
            whole: bool = await connection.fetchval(
                SQL["save_steps"], bucket, self._now,
                *versions, *_columns(list(self._specs), 6),
                *_columns(self._started, 7), *_columns(self._moved, 9), *_columns(self._done, 4),
                *_columns(self._fresh, 12), *_columns(self._settled, 4), FORMAT, *_columns(self._events, 7), self._over,
                needs_deployed,
            )  # fmt: skip
        except asyncpg.DivisionByZeroError as error:
            raise NotApplied("save_steps: a task that was reported is not running") from error
        return whole

    def _run(self, saving: Saving, run: RunRow, payloads: "_Payloads") -> Row | None:
        run_id, was, now = saving.held.run_id, saving.held.was_run, self._now
        if run.last_event_at != now:
            return None
        if was is None:
            if _NEW_RUN(run) != _AS_NEW or run.created_at != now or len(saving.events) != 1:
                return None
            version = _place(self._versions, (run.namespace, run.workflow, run.version, saving.needs_deployed))
            return (
                run_id, version, run.key, run.trace, run.open_tasks, run.succeeded_tasks, payloads.claim(RUN_INPUT),
            )  # fmt: skip
        if was.state is not RunState.RUNNING or _RUN_KEPT(run) != _RUN_KEPT(was):
            return None
        if run.state is not RunState.RUNNING and (run.state is not RunState.SUCCEEDED or run.finished_at != now):
            return None
        return (
            run_id, run.seq, run.seq - was.seq, run.state, run.open_tasks, run.succeeded_tasks, run.finish_path,
            run.output_path, run.output_attempt,
        )  # fmt: skip

    def _tasks(self, saving: Saving, payloads: "_Payloads") -> list[tuple[list[Row], Row]] | None:
        run_id, was = saving.held.run_id, saving.held.was
        dispatched = {(path, attempt): (outbox_id, trace) for outbox_id, path, attempt, trace in saving.dispatches}
        gathered: list[tuple[list[Row], Row]] = []
        for path, row in saving.changes.tasks.items():
            before = was.get(path)
            if before is not None:
                rows, values = self._done, self._done_task(run_id, row, before, payloads)
            elif row.state is TaskState.SUCCEEDED:
                rows, values = self._settled, self._settled_task(run_id, row, payloads)
            else:
                rows, values = self._fresh, self._fresh_task(run_id, row, payloads, dispatched.get((path, row.attempt)))
            if values is None:
                return None
            gathered.append((rows, values))
        return gathered

    def _done_task(self, run_id: UUID, row: TaskRow, was: TaskRow, payloads: "_Payloads") -> Row | None:
        """A worker's success."""
        if (
            was.state is not TaskState.RUNNING
            or row.state is not TaskState.SUCCEEDED
            or not row.reported
            or row.output_attempt != row.attempt
            or row.finished_at != self._now
            or _LEASE(row) != _NO_LEASE
            or _TASK_KEPT(row) != _TASK_KEPT(was)
        ):
            return None
        output = payloads.claim((row.path, row.attempt, "output"))
        return None if output is None else (run_id, row.path, row.attempt, output)

    def _fresh_task(
        self, run_id: UUID, row: TaskRow, payloads: "_Payloads", dispatched: tuple[UUID, str] | None
    ) -> Row | None:
        """A node of a worker that was reached: ready and dispatched, or leased already."""
        now = self._now
        if (
            _NEW_TASK(row) != _AS_NEW_TASK
            or row.created_at != now
            or row.ready_at != now
            or row.finished_at is not None
            or row.output_attempt is not None
            or row.due_at is not None
            or row.reported
        ):
            return None
        outbox_id = trace = lease_ms = None
        if row.state is TaskState.READY:
            if dispatched is None or _UNTOUCHED(row) != _NEVER_LEASED or _LEASE(row) != _NO_LEASE:
                return None
            if row.sweep_at != self._sweep_at:
                return None
            outbox_id, trace = dispatched
        elif row.state is TaskState.RUNNING and row.lease_expires_at is not None:
            lease_ms = (row.lease_expires_at - now) // MILLISECOND
            if not (row.leased_at == row.started_at == now) or row.sweep_at is not None:
                return None
        else:
            return None
        spec = _place(
            self._specs,
            (row.namespace, row.queue, row.handler, row.lease_ms, row.attempt_timeout_ms, row.owner),
        )
        own = payloads.claim((row.path, 1, "input"))
        if own is not None and row.input != (row.path, 1, "input"):
            return None
        input_path, input_attempt, input_role = row.input if row.input and own is None else (None, None, None)
        return (
            run_id, row.path, spec, input_path, input_attempt, input_role, own, row.grant_key, lease_ms,
            row.eager_grants, outbox_id, trace,
        )  # fmt: skip

    def _settled_task(self, run_id: UUID, row: TaskRow, payloads: "_Payloads") -> Row | None:
        """A control node, decided at once."""
        if (
            _NEW_TASK(row) != _AS_NEW_TASK
            or row.created_at != self._now
            or row.finished_at != self._now
            or row.ready_at is not None
            or row.input is not None
            or row.output_attempt not in (None, 1)
            or row.reported
            or row.sweep_at is not None
            or (row.queue, row.handler, row.attempt_timeout_ms) != ("", "", None)
            or _UNTOUCHED(row) != _NEVER_LEASED
            or _LEASE(row) != _NO_LEASE
        ):
            return None
        output = payloads.claim((row.path, 1, "output"))
        if (output is None) != (row.output_attempt is None):
            return None
        return run_id, row.path, _place(self._specs, (row.namespace, "", "", row.lease_ms, None, None)), output


class _Payloads:
    """A run's new payloads, claimed by the rows that they belong to."""

    __slots__ = ("_payloads", "left")

    def __init__(self, saving: Saving) -> None:
        self._payloads = saving.changes.payloads
        self.left = len(self._payloads)

    def claim(self, key: PayloadKey) -> bytes | None:
        document = self._payloads.get(key)
        if document is None:
            return None
        self.left -= 1
        return document.raw


def _place(places: dict[Row, int], value: Row) -> int:
    """Where a value stands in its small table, from 1."""
    return places.setdefault(value, len(places) + 1)


def _event(run_id: UUID, event: EventRecord) -> Row:
    return run_id, event.seq, event.type, event.path, event.attempt, event.event, event.actions


def _columns(rows: Rows, width: int) -> Iterable[Sequence[Any]]:
    return zip(*rows, strict=True) if rows else ((),) * width
