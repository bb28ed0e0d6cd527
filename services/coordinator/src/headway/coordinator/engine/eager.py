"""Eager leases: the answer to a report may carry a next task of the run, leased in the report's own transaction.

It saves the way through the outbox, the broker and a Lease call. It is short until the worker's next call: a worker
that died, or never got the answer, holds up its task no longer than that.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from msgspec import Struct

from headway.coordinator.core.admission import Answer, earliest
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.missing import Key, Missing
from headway.coordinator.core.rows import PayloadKey, RunRow, TaskRow
from headway.coordinator.core.state import Draft
from headway.coordinator.engine import telemetry
from headway.coordinator.engine.lanes import Ticket
from headway.coordinator.engine.leasing import Granted
from headway.coordinator.ids import idempotency_key
from headway.coordinator.store.changes import Saving

LEASE = timedelta(seconds=10)  # until a Renew prolongs it
IN_A_ROW = 20  # grants before a run's next task goes through its queue, behind those of other runs
UNREAD_RUNS = 32  # of a batch, whose inputs are read for this: they may be large
INPUT_BYTES = 32 << 10  # of a task's input: what is larger is worth the way through its queue
CHECKPOINT_BYTES = 32 << 10  # that a later attempt's may have
_MILLISECOND = timedelta(milliseconds=1)

Load: TypeAlias = Callable[[dict[UUID, set[Key]]], Awaitable[None]]


class Wish(Struct, frozen=True, kw_only=True):
    """A worker has a slot free for a next task.

    Attributes:
        grant_key: of the lease, should there be one.
        namespace: of the queues.
        queues: that it reads.
        room: bytes that the answer has for its input and its checkpoint.
    """

    grant_key: str
    namespace: str
    queues: frozenset[str]
    room: int


class Continued(Struct, frozen=True, kw_only=True):
    """A report's answer that carries a next task."""

    answer: Answer
    attempt: int
    grant: Granted


class Dispatched(NamedTuple):
    """What one decision put on queues: (path, attempt), in order, and the traceparent of what comes of it."""

    saving: Saving
    attempts: list[tuple[str, int]]
    trace: str


class Reporter(Protocol):
    """What a report tells of the worker and its task."""

    @property
    def owner(self) -> str: ...
    @property
    def path(self) -> str: ...


class _Candidate(Struct, eq=False):
    ticket: Ticket[Any]
    owner: str
    wish: Wish
    saving: Saving
    path: str
    trace: str
    in_a_row: int


class _Repeat(Struct, eq=False):
    ticket: Ticket[Any]
    owner: str
    wish: Wish
    saving: Saving


class Eager:
    """The eager leases of one batch."""

    __slots__ = ("_candidates", "_repeats", "granted")

    def __init__(self) -> None:
        """Begin with none."""
        self._candidates: list[_Candidate] = []
        self._repeats: list[_Repeat] = []
        self.granted: dict[Ticket[Any], Continued] = {}

    def consider(self, ticket: Ticket[Any], report: Reporter, wish: Wish, dispatched: Dispatched) -> None:
        """A report's decision dispatched tasks: one of them may go to the reporter."""
        saving = dispatched.saving
        before = saving.held.was.get(report.path)
        in_a_row = 1 + (before.eager_grants if before is not None else 0)
        run = saving.changes.run
        if in_a_row > IN_A_ROW or run is None or run.namespace != wish.namespace:
            return
        for path, _ in dispatched.attempts:
            if saving.changes.tasks[path].queue in wish.queues:
                self._candidates.append(
                    _Candidate(ticket, report.owner, wish, saving, path, dispatched.trace, in_a_row)
                )
                return

    def repeat(self, ticket: Ticket[Any], report: Reporter, wish: Wish, saving: Saving) -> None:
        """A report came again: it gets the next task that its first answer granted, while that is still held."""
        self._repeats.append(_Repeat(ticket, report.owner, wish, saving))

    async def grant(self, now: datetime, load: Load) -> None:
        """Lease what is still wanted at the end of the batch: a later event may have cancelled it.

        Args:
            now: the batch's instant.
            load: reads rows of runs in the batch's transaction. (Not kept: the batch would keep itself alive.)
        """
        unread: dict[UUID, set[Key]] = {}
        for candidate in self._candidates:
            key = candidate.saving.changes.tasks[candidate.path].input
            if key is not None and len(unread) < UNREAD_RUNS and _payload(candidate.saving, key) is None:
                unread.setdefault(candidate.saving.held.run_id, set()).add(("payload", *key))
        if unread:
            await load(unread)
        for candidate in self._candidates:
            row, run = candidate.saving.changes.tasks[candidate.path], candidate.saving.changes.run
            document = NULL if row.input is None else _payload(candidate.saving, row.input)
            if (
                document is not None
                and len(document.raw) <= INPUT_BYTES
                and len(document.raw) + (CHECKPOINT_BYTES if row.attempt > 1 else 0) <= candidate.wish.room
                and row.state is TaskState.READY
                and run is not None
                and not run.is_paused
            ):
                self.granted[candidate.ticket] = _lease(candidate, run, row, document.raw, now)
        for repeated in self._repeats:
            await self._grant_again(repeated, now, load)

    def later_attempts(self) -> list[tuple[Ticket[Any], Continued]]:
        """What was granted that may have a checkpoint of an attempt before."""
        return [(ticket, continued) for ticket, continued in self.granted.items() if continued.attempt > 1]

    async def _grant_again(self, repeated: _Repeat, now: datetime, load: Load) -> None:
        held = repeated.saving.held
        while True:
            try:
                continued = _granted_before(Draft(held.state), held.run_id, repeated.owner, repeated.wish, now)
            except Missing as missing:
                await load({held.run_id: set(missing.keys)})
            else:
                break
        if continued is not None:
            self.granted[repeated.ticket] = continued


def _payload(saving: Saving, key: PayloadKey) -> Document | None:
    return saving.changes.payloads.get(key) or saving.held.state.payloads.get(key)


def _lease(candidate: _Candidate, run: RunRow, row: TaskRow, raw: bytes, now: datetime) -> Continued:
    """What a Lease right after the commit would do to the row."""
    timeout_ms = row.attempt_timeout_ms
    row.attempt_expires_at = None if timeout_ms is None else now + timeout_ms * _MILLISECOND
    row.lease_expires_at = earliest(now + min(LEASE, row.lease_ms * _MILLISECOND), row.attempt_expires_at) or now
    row.state = TaskState.RUNNING
    row.owner = candidate.owner
    row.leased_at = now
    row.started_at = row.started_at or now
    row.grant_key = candidate.wish.grant_key
    row.eager_grants = candidate.in_a_row
    row.sweep_at = None
    return _continued(Answer.ACCEPTED, candidate.saving.held.run_id, run, row, raw, candidate.trace, now)


def _granted_before(draft: Draft, run_id: UUID, owner: str, wish: Wish, now: datetime) -> Continued | None:
    if draft.run.is_final:
        return None
    draft.require("open")
    for row in draft.known_tasks().values():
        if row.state is TaskState.RUNNING and row.grant_key == wish.grant_key and row.owner == owner:
            raw = b"null" if row.input is None else draft.payload(row.input).raw
            return _continued(Answer.DUPLICATE, run_id, draft.run, row, raw, draft.run.trace, now)
    return None


def _continued(
    answer: Answer, run_id: UUID, run: RunRow, row: TaskRow, raw: bytes, trace: str, now: datetime
) -> Continued:
    span = telemetry.begin(f"lease {row.path}", trace, **{"headway.run_id": run_id.hex, "headway.attempt": row.attempt})
    span.end()
    return Continued(
        answer=answer,
        attempt=row.attempt,
        grant=Granted(
            lease=max((row.lease_expires_at or now) - now, timedelta()),
            handler=row.handler,
            input=raw,
            idempotency_key=idempotency_key(run_id, row.path, row.generation),
            generation=row.generation,
            trace=span.traceparent,
            run_id=run_id,
            path=row.path,
            try_number=row.tries + 1,
            workflow=run.workflow,
            namespace=run.namespace,
        ),
    )
