"""Eager leases: what a decision dispatches may be leased in its own transaction.

The answer to a report may carry a next task of the run; what else is dispatched may go to workers that offer slots. It
saves the way through the outbox, the broker and a Lease call. It is short until the worker's next call: a worker that
died, or never got the answer, holds up its task no longer than that.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from msgspec import Struct

from headway.coordinator import clock
from headway.coordinator.core.admission import Answer, earliest
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.missing import Key, Missing
from headway.coordinator.core.rows import PayloadKey, RunRow, TaskRow
from headway.coordinator.core.state import Draft
from headway.coordinator.engine import telemetry
from headway.coordinator.engine.lanes import Ticket
from headway.coordinator.engine.leasing import Granted
from headway.coordinator.engine.offering import Claim, Offers
from headway.coordinator.ids import idempotency_key
from headway.coordinator.store.changes import Saving

LEASE = timedelta(seconds=10)  # until a Renew prolongs it
IN_A_ROW = 20  # grants before a run's next task goes through its queue, behind those of other runs
UNREAD = 32  # inputs that are read for this in a batch: they may be large
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
    """An answer that carries a next task. `span`: of the lease, to be ended once that has committed."""

    span: telemetry.OpenSpan
    answer: Answer
    attempt: int
    grant: Granted


class Dispatched(NamedTuple):
    """What one decision put on queues.

    Attributes:
        attempts: (path, attempt), in order.
        trace: traceparent of what comes of it.
        in_a_row: how many grants it were in a row, were one of them granted.
    """

    saving: Saving
    attempts: list[tuple[str, int]]
    trace: str
    in_a_row: int

    def wanting(self) -> Iterator[tuple[str, int, TaskRow]]:
        """Path, attempt and row of those that still want a worker."""
        run = self.saving.changes.run
        if run is None or run.is_paused:
            return
        for path, attempt in self.attempts:
            row = self.saving.changes.tasks.get(path)  # a repeat may have dropped it since
            if row is not None and row.state is TaskState.READY and row.attempt == attempt:
                yield path, attempt, row


class Reporter(Protocol):
    """What a report tells of the worker and its task."""

    @property
    def owner(self) -> str: ...


class _Candidate(Struct, eq=False):
    to: Ticket[Any] | Claim
    owner: str
    grant_key: str
    room: int
    path: str
    of: Dispatched


class _Repeat(Struct, eq=False):
    ticket: Ticket[Any]
    owner: str
    wish: Wish
    saving: Saving


class Eager:
    """The eager leases of one batch."""

    __slots__ = ("_candidates", "_claims", "_repeats", "granted")

    def __init__(self) -> None:
        """Begin with none."""
        self._candidates: list[_Candidate] = []
        self._repeats: list[_Repeat] = []
        self._claims: list[Claim] = []
        self.granted: dict[Ticket[Any] | Claim, Continued] = {}

    def consider(self, ticket: Ticket[Any], report: Reporter, wish: Wish, dispatched: Dispatched) -> None:
        """A report's decision dispatched tasks: one of them may go to the reporter."""
        saving = dispatched.saving
        run = saving.changes.run
        if dispatched.in_a_row > IN_A_ROW or run is None or run.namespace != wish.namespace:
            return
        for path, _ in dispatched.attempts:
            if saving.changes.tasks[path].queue in wish.queues:
                candidate = _Candidate(ticket, report.owner, wish.grant_key, wish.room, path, dispatched)
                self._candidates.append(candidate)
                return

    def repeat(self, ticket: Ticket[Any], report: Reporter, wish: Wish, saving: Saving) -> None:
        """A report came again: it gets the next task that its first answer granted, while that is still held."""
        self._repeats.append(_Repeat(ticket, report.owner, wish, saving))

    async def grant(self, now: datetime, load: Load) -> None:
        """Lease what the reporters wish for and is still wanted at the end of the batch.

        Args:
            now: the batch's instant.
            load: reads rows of runs in the batch's transaction. (Not kept: the batch would keep itself alive.)
        """
        await self._lease_all(self._candidates, now, load)
        for repeated in self._repeats:
            await self._grant_again(repeated, now, load)

    async def hand_out(
        self, dispatched: Iterable[Dispatched], offers: Offers, since: float, now: datetime, load: Load
    ) -> None:
        """Lease what else was dispatched, and is still wanted, to workers that offer slots for its queue.

        Args:
            dispatched: by the batch's decisions.
            offers: of which slots are claimed.
            since: when the batch began, on the monotonic clock.
            now: the batch's instant.
            load: as in `grant`.
        """
        candidates: list[_Candidate] = []
        for each in dispatched:
            for path, _, row in each.wanting() if each.in_a_row <= IN_A_ROW else ():
                if _is_long(row) and (claim := offers.claim((row.namespace, row.queue), since)) is not None:
                    self._claims.append(claim)
                    room = INPUT_BYTES + CHECKPOINT_BYTES
                    candidates.append(_Candidate(claim, claim.owner, clock.new_uuid().hex, room, path, each))
        if candidates:
            await self._lease_all(candidates, now, load)

    def push(self, offers: Offers) -> None:
        """It is durable: tell the workers that offered slots what was leased to them."""
        if self._claims:
            granted = [(claim, self.granted.pop(claim, None)) for claim in self._claims]
            offers.push((claim, each.attempt, each.grant) for claim, each in granted if each is not None)
            self._claims = [claim for claim, each in granted if each is None]
            self.give_back(offers)

    def give_back(self, offers: Offers) -> None:
        """Nothing is made of the slots that were claimed."""
        for claim in self._claims:
            offers.give_back(claim)
        self._claims.clear()

    async def _lease_all(self, candidates: Sequence[_Candidate], now: datetime, load: Load) -> None:
        unread: set[tuple[UUID, PayloadKey]] = set()
        for candidate in candidates:
            saving = candidate.of.saving
            key = saving.changes.tasks[candidate.path].input
            if key is not None and len(unread) < UNREAD and _payload(saving, key) is None:
                unread.add((saving.held.run_id, key))
        if unread:
            wanted: dict[UUID, set[Key]] = {}
            for run_id, key in unread:
                wanted.setdefault(run_id, set()).add(("payload", *key))
            await load(wanted)
        for candidate in candidates:
            saving = candidate.of.saving
            row, run = saving.changes.tasks[candidate.path], saving.changes.run
            document = NULL if row.input is None else _payload(saving, row.input)
            if (
                document is not None
                and len(document.raw) <= INPUT_BYTES
                and len(document.raw) + (CHECKPOINT_BYTES if row.attempt > 1 else 0) <= candidate.room
                and row.state is TaskState.READY
                and run is not None
                and not run.is_paused
            ):
                self.granted[candidate.to] = _lease(candidate, run, row, document.raw, now)

    def later_attempts(self) -> list[tuple[Ticket[Any] | Claim, Continued]]:
        """What was granted that may have a checkpoint of an attempt before."""
        return [(to, continued) for to, continued in self.granted.items() if continued.attempt > 1]

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


def _is_long(row: TaskRow) -> bool:
    """The lease may last as long as one that is counted from when its offer was sent has to."""
    return timedelta(milliseconds=min(row.lease_ms, row.attempt_timeout_ms or row.lease_ms)) >= LEASE


def _lease(candidate: _Candidate, run: RunRow, row: TaskRow, raw: bytes, now: datetime) -> Continued:
    """What a Lease right after the commit would do to the row."""
    timeout_ms = row.attempt_timeout_ms
    row.attempt_expires_at = None if timeout_ms is None else now + timeout_ms * _MILLISECOND
    row.lease_expires_at = earliest(now + min(LEASE, row.lease_ms * _MILLISECOND), row.attempt_expires_at) or now
    row.state = TaskState.RUNNING
    row.owner = candidate.owner
    row.leased_at = now
    row.started_at = row.started_at or now
    row.grant_key = candidate.grant_key
    row.eager_grants = candidate.of.in_a_row
    row.sweep_at = None
    return _continued(Answer.ACCEPTED, candidate.of.saving.held.run_id, run, row, raw, candidate.of.trace, now)


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
    return Continued(
        span=span,
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
