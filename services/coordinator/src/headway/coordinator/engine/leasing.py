"""One transaction of the lease lane: task rows are locked without waiting, judged by `admission`, and written."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from headway.coordinator.core.admission import Answer, earliest, lease_answer, renew_answer
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.refusals import TaskNotFound
from headway.coordinator.engine import telemetry
from headway.coordinator.engine.lanes import Committed, Ticket
from headway.coordinator.ids import idempotency_key, task_id
from headway.coordinator.store import leasing as store
from headway.coordinator.store.errors import translated
from headway.coordinator.store.loading import TaskView
from headway.coordinator.store.pool import Pool

TaskKey: TypeAlias = tuple[UUID, str]
INPUT_BYTES = 8 << 20  # of inputs that one transaction reads


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAsk:
    """A worker asks for an attempt. Answers a Granted, an Answer or a TaskNotFound."""

    run_id: UUID
    path: str
    attempt: int
    owner: str
    grant_key: str
    trace: str

    def missing(self) -> TaskNotFound:
        """What to answer when the task is not there."""
        return TaskNotFound(task_id=task_id(self.run_id, self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewAsk:
    """A worker asks for more time. Answers a Renewed, an Answer or a TaskNotFound."""

    run_id: UUID
    path: str
    attempt: int
    owner: str

    def missing(self) -> TaskNotFound:
        """What to answer when the task is not there."""
        return TaskNotFound(task_id=task_id(self.run_id, self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A lease and what the handler needs."""

    lease: timedelta
    handler: str
    input: bytes
    idempotency_key: str
    trace: str
    run_id: UUID
    path: str
    try_number: int
    workflow: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """A lease that goes on. `cancel`: the handler is to stop."""

    lease: timedelta
    cancel: bool


class Leases:
    """Commits batches of lease requests for one bucket."""

    def __init__(self, bucket: int, pool: Pool) -> None:
        """Serve a bucket."""
        self._bucket = bucket
        self._pool = pool

    async def commit(self, tickets: Sequence[Ticket[LeaseAsk]]) -> Committed[LeaseAsk]:
        """Grant what can be granted."""
        keys = _distinct([(ticket.item.run_id, ticket.item.path) for ticket in tickets])
        grants: dict[TaskKey, store.NewLease] = {}
        result: Committed[LeaseAsk] = Committed()
        spans: list[telemetry.OpenSpan] = []
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                locked = await store.lock_leases(connection, self._bucket, keys, INPUT_BYTES)
                unlocked = [key for key in keys if key not in locked]
                there = await store.existing(connection, self._bucket, unlocked) if unlocked else set[TaskKey]()
                for ticket in tickets:
                    answer = _lease(ticket.item, locked, there, grants, spans)
                    result.outcomes.append((ticket, answer))
                await store.grant(connection, self._bucket, grants.values())
        self._count(result, locked, grants)
        for span in spans:
            span.end()
        return result

    def _count(
        self, result: Committed[LeaseAsk], locked: dict[TaskKey, Any], grants: dict[TaskKey, store.NewLease]
    ) -> None:
        telemetry.batch_size.record(len(result.outcomes), {"lane": "leases"})
        for _, answer in result.outcomes:
            name = (
                Answer.GRANTED if isinstance(answer, Granted) else answer if isinstance(answer, Answer) else "REFUSED"
            )
            telemetry.leases.add(1, {"answer": str(name)})
        for key in grants:
            record = locked[key]
            if record["run_seq"] == 1 and record["started_at"] is None:
                waited = (record["now"] - record["run_created_at"]).total_seconds()
                telemetry.time_to_first_start.record(waited, {"workflow": record["workflow"]})


class Renewals:
    """Commits batches of renewals for one bucket."""

    def __init__(self, bucket: int, pool: Pool) -> None:
        """Serve a bucket."""
        self._bucket = bucket
        self._pool = pool

    async def commit(self, tickets: Sequence[Ticket[RenewAsk]]) -> Committed[RenewAsk]:
        """Prolong what is still held."""
        keys = _distinct([(ticket.item.run_id, ticket.item.path) for ticket in tickets])
        rows: dict[TaskKey, tuple[Any, ...]] = {}
        result: Committed[RenewAsk] = Committed()
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                locked = await store.lock_renewals(connection, self._bucket, keys)
                unlocked = [key for key in keys if key not in locked]
                there = await store.existing(connection, self._bucket, unlocked) if unlocked else set[TaskKey]()
                for ticket in tickets:
                    result.outcomes.append((ticket, _renew(ticket.item, locked, there, rows)))
                await store.renew(connection, self._bucket, list(rows.values()))
        telemetry.batch_size.record(len(result.outcomes), {"lane": "renewals"})
        return result


def _distinct(keys: list[TaskKey]) -> list[TaskKey]:
    return list(dict.fromkeys(keys))


def _absent(key: TaskKey, there: set[TaskKey]) -> Answer | TaskNotFound:
    return Answer.BUSY if key in there else TaskNotFound(task_id=task_id(*key))


def _lease(
    ask: LeaseAsk,
    locked: dict[TaskKey, Any],
    there: set[TaskKey],
    grants: dict[TaskKey, store.NewLease],
    spans: list[telemetry.OpenSpan],
) -> object:
    key = (ask.run_id, ask.path)
    record = locked.get(key)
    if record is None:
        return _absent(key, there)
    view = TaskView(record)
    if (earlier := grants.get(key)) is not None:  # granted to another delivery in this very batch
        same = (ask.attempt, ask.grant_key, ask.owner) == (earlier.attempt, earlier.grant_key, earlier.owner)
        if not same:
            return Answer.HELD if ask.attempt == earlier.attempt else Answer.STALE_ATTEMPT
        return _granted(ask, record, earlier.expires_at, spans)
    answer = lease_answer(store.gate(record), view, attempt=ask.attempt, owner=ask.owner, grant_key=ask.grant_key)
    if answer is not Answer.GRANTED:
        return answer
    if record["input"] is None and record["input_size"]:
        return Answer.BUSY  # its input did not fit beside the others': it is asked for again
    if view.state is TaskState.RUNNING:  # the first answer was lost
        return _granted(ask, record, record["lease_expires_at"], spans)
    now: datetime = record["now"]
    timeout_ms = record["attempt_timeout_ms"]
    ends_at = None if timeout_ms is None else now + timedelta(milliseconds=timeout_ms)
    expires_at = earliest(now + timedelta(milliseconds=record["lease_ms"]), ends_at) or now
    grants[key] = store.NewLease(
        run_id=ask.run_id,
        path=ask.path,
        attempt=ask.attempt,
        owner=ask.owner,
        grant_key=ask.grant_key,
        leased_at=now,
        expires_at=expires_at,
        attempt_expires_at=ends_at,
    )
    return _granted(ask, record, expires_at, spans)


def _granted(ask: LeaseAsk, record: Any, expires_at: datetime, spans: list[telemetry.OpenSpan]) -> Granted:
    span = telemetry.begin(
        f"lease {record['path']}",
        ask.trace or record["trace"],
        **{"headway.run_id": ask.run_id.hex, "headway.attempt": ask.attempt, "headway.owner": ask.owner},
    )
    spans.append(span)
    return Granted(
        lease=max(expires_at - record["now"], timedelta()),
        handler=record["handler"],
        input=record["input"] or b"null",
        idempotency_key=idempotency_key(ask.run_id, ask.path, record["generation"]),
        trace=span.traceparent,
        run_id=ask.run_id,
        path=ask.path,
        try_number=record["tries"] + 1,
        workflow=record["workflow"],
        namespace=record["namespace"],
    )


def _renew(
    ask: RenewAsk, locked: dict[TaskKey, Any], there: set[TaskKey], rows: dict[TaskKey, tuple[Any, ...]]
) -> object:
    key = (ask.run_id, ask.path)
    record = locked.get(key)
    if record is None:
        return _absent(key, there)
    gate = store.gate(record)
    answer = renew_answer(gate, TaskView(record), attempt=ask.attempt, owner=ask.owner)
    if answer is not Answer.RENEWED:
        return answer
    now: datetime = record["now"]
    expires_at = earliest(now + timedelta(milliseconds=record["lease_ms"]), record["attempt_expires_at"]) or now
    expires_at = max(expires_at, record["lease_expires_at"])  # never shorter than promised
    rows[key] = (ask.run_id, ask.path, ask.attempt, ask.owner, expires_at)
    timed_out = record["attempt_expires_at"] is not None and record["attempt_expires_at"] <= now
    return Renewed(lease=max(expires_at - now, timedelta()), cancel=gate.is_stopping or timed_out)
