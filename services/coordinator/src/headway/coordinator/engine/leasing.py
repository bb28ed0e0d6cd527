"""The lease lane: one statement grants, or renews, what is clear; `admission` judges what it left alone.

The statement never waits and commits by itself, so the look sees what it did: of two deliveries in one batch the second
finds the first one's lease. The look changes nothing: what it would grant was locked before, or its input did not fit,
and is asked for again.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from datetime import timedelta
from typing import TypeAlias, TypeVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from headway.coordinator.core.admission import Answer, lease_answer, renew_answer
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.refusals import TaskNotFound
from headway.coordinator.engine import telemetry
from headway.coordinator.engine.lanes import Committed, Ticket
from headway.coordinator.ids import idempotency_key, run_id_text, task_id
from headway.coordinator.store import leasing as store
from headway.coordinator.store.beats import Beat, get_checkpoints, put_beats
from headway.coordinator.store.errors import translated
from headway.coordinator.store.pool import Connection, Seats

INPUT_BYTES = 8 << 20  # of inputs that are read for one batch


class _Ask(Struct, frozen=True, kw_only=True):
    run_id: UUID
    path: str
    attempt: int
    owner: str

    def missing(self) -> TaskNotFound:
        """What to answer when the task is not there."""
        return TaskNotFound(task_id=task_id(self.run_id, self.path))


class LeaseAsk(_Ask, frozen=True, kw_only=True):
    """A worker asks for an attempt. Answers a Granted, an Answer or a TaskNotFound."""

    grant_key: str
    trace: str


class RenewAsk(_Ask, frozen=True, kw_only=True):
    """A worker asks for more time. Answers a Renewed, an Answer or a TaskNotFound. `beat`: its handler's, if new."""

    beat: Beat | None = None


class Granted(Struct, frozen=True, kw_only=True):
    """A lease and what the handler needs."""

    lease: timedelta
    handler: str
    input: bytes
    idempotency_key: str
    generation: int
    trace: str
    run_id: UUID
    path: str
    try_number: int
    workflow: str
    namespace: str
    checkpoint: bytes = b""  # JSON that an earlier attempt left; empty: none


class Renewed(Struct, frozen=True, kw_only=True):
    """A lease that goes on. `cancel`: the handler is to stop."""

    lease: timedelta
    cancel: bool


Ask = TypeVar("Ask", LeaseAsk, RenewAsk)
Tickets: TypeAlias = Sequence[Ticket[Ask]]
Outcomes: TypeAlias = list[tuple[Ticket[LeaseAsk], object]]


class Leases:
    """Commits batches of lease requests for one bucket."""

    def __init__(self, bucket: int, seats: Seats) -> None:
        """Serve a bucket."""
        self._bucket = bucket
        self._seat = seats.seat()

    async def commit(self, tickets: Tickets[LeaseAsk]) -> Committed[LeaseAsk]:
        """Grant what can be granted."""
        first, others = _firsts(tickets, lambda ask: (ask.run_id, ask.path, ask.attempt))
        spans: list[telemetry.OpenSpan] | None = [] if telemetry.is_tracing() else None
        result: Committed[LeaseAsk] = Committed()
        with translated():
            async with self._seat as connection:
                asks = [ticket.item for ticket in first]
                granted = await store.grant(connection, self._bucket, asks, INPUT_BYTES)
                for place, ticket in enumerate(first):
                    if (record := granted.get(place)) is None:
                        others.append(ticket)
                    else:
                        result.outcomes.append((ticket, _granted(ticket.item, record, spans)))
                if others:
                    room = INPUT_BYTES - sum(len(record["data"] or b"") for record in granted.values())
                    asks = [ticket.item for ticket in others]
                    seen = await store.look_at_leases(connection, self._bucket, asks, room)
                    for place, ticket in enumerate(others):
                        result.outcomes.append((ticket, _judged_lease(ticket.item, seen.get(place), spans)))
                result.outcomes = await self._with_checkpoints(connection, result.outcomes)
        for record in granted.values():
            if record["waited"] is not None:
                telemetry.time_to_first_start.record(record["waited"], {"workflow": record["workflow"]})
        _count(result)
        for span in spans or ():
            span.end()
        return result

    async def _with_checkpoints(self, connection: Connection, outcomes: Outcomes) -> Outcomes:
        """Put what earlier attempts left into the grants of later ones; a first attempt asks for nothing."""
        later = [
            (place, ticket.item, answer)
            for place, (ticket, answer) in enumerate(outcomes)
            if isinstance(answer, Granted) and ticket.item.attempt > 1
        ]
        asked = [(ask.run_id, ask.path, answer.generation) for _, ask, answer in later]
        found = await get_checkpoints(connection, self._bucket, asked)
        changed = list(outcomes)
        for number, (place, _, answer) in enumerate(later):
            if number in found:
                granted = replace(answer, checkpoint=found[number])
                changed[place] = (changed[place][0], granted)
        return changed


class Renewals:
    """Commits batches of renewals for one bucket."""

    def __init__(self, bucket: int, seats: Seats) -> None:
        """Serve a bucket."""
        self._bucket = bucket
        self._seat = seats.seat()

    async def commit(self, tickets: Tickets[RenewAsk]) -> Committed[RenewAsk]:
        """Prolong what is still held."""
        first, others = _firsts(tickets, lambda ask: (ask.run_id, ask.path, ask.attempt, ask.owner))
        result: Committed[RenewAsk] = Committed()
        with translated():
            async with self._seat as connection:
                renewed = await store.renew(connection, self._bucket, [ticket.item for ticket in first])
                for place, ticket in enumerate(first):
                    if (record := renewed.get(place)) is None:
                        others.append(ticket)
                    else:
                        left = timedelta(milliseconds=record["left_ms"])
                        result.outcomes.append((ticket, Renewed(lease=left, cancel=record["cancel"])))
                beating = [first[place].item for place in renewed]
                beats = [(a.run_id, a.path, a.attempt, a.owner, a.beat) for a in beating if a.beat is not None]
                await put_beats(connection, self._bucket, beats)
                if others:
                    asks = [ticket.item for ticket in others]
                    seen = await store.look_at_renewals(connection, self._bucket, asks)
                    for place, ticket in enumerate(others):
                        result.outcomes.append((ticket, _judged_renewal(ticket.item, seen.get(place))))
        telemetry.batch_size.record(len(result.outcomes), {"lane": "renewals"})
        return result


def _firsts(tickets: Tickets[Ask], key: Callable[[Ask], Hashable]) -> tuple[list[Ticket[Ask]], list[Ticket[Ask]]]:
    """The first ticket of each key, and the others: one statement cannot change a row twice."""
    known: set[Hashable] = set()
    first: list[Ticket[Ask]] = []
    others: list[Ticket[Ask]] = []
    for ticket in tickets:
        found = key(ticket.item)
        (others if found in known else first).append(ticket)
        known.add(found)
    return first, others


def _judged_lease(ask: LeaseAsk, record: store.Record | None, spans: list[telemetry.OpenSpan] | None) -> object:
    if record is None:
        return ask.missing()
    if (task := store.leased_row(record)) is None:
        return Answer.BUSY
    answer = lease_answer(store.gate(record), task, attempt=ask.attempt, owner=ask.owner, grant_key=ask.grant_key)
    if answer is not Answer.GRANTED:
        return answer
    if task.state is TaskState.RUNNING and record["fits"]:  # the first answer was lost
        return _granted(ask, record, spans)
    return Answer.BUSY


def _judged_renewal(ask: RenewAsk, record: store.Record | None) -> object:
    if record is None:
        return ask.missing()
    if (task := store.leased_row(record)) is None:
        return Answer.BUSY
    answer = renew_answer(store.gate(record), task, attempt=ask.attempt, owner=ask.owner)
    return Answer.BUSY if answer is Answer.RENEWED else answer


def _granted(ask: LeaseAsk, record: store.Record, spans: list[telemetry.OpenSpan] | None) -> Granted:
    run_id = run_id_text(ask.run_id)
    trace: str = ask.trace or record["trace"]
    if spans is not None:
        attributes = {"headway.run_id": run_id, "headway.attempt": ask.attempt, "headway.owner": ask.owner}
        spans.append(telemetry.begin(f"lease {ask.path}", trace, **attributes))
        trace = spans[-1].traceparent
    return Granted(
        lease=timedelta(milliseconds=record["left_ms"]),
        handler=record["handler"],
        input=record["data"] or b"null",
        idempotency_key=idempotency_key(ask.run_id, ask.path, record["generation"]),
        generation=record["generation"],
        trace=trace,
        run_id=ask.run_id,
        path=ask.path,
        try_number=record["tries"] + 1,
        workflow=record["workflow"],
        namespace=record["namespace"],
    )


def _count(result: Committed[LeaseAsk]) -> None:
    telemetry.batch_size.record(len(result.outcomes), {"lane": "leases"})
    answers = Counter(
        Answer.GRANTED if isinstance(answer, Granted) else answer if isinstance(answer, Answer) else "REFUSED"
        for _, answer in result.outcomes
    )
    for answer, count in answers.items():
        telemetry.leases.add(count, {"answer": str(answer)})
