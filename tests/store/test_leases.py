"""Lease and Renew in SQL: what the statements grant and renew is what `admission` says, and no more than that.

The rows are generated: every state of a task and of its run that the schema allows, asked for in every way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from headway.coordinator.core.admission import Answer, RunGate, lease_answer, renew_answer
from headway.coordinator.core.machines import FINAL_RUN_STATES, RunState, TaskState
from headway.coordinator.engine import leasing as lane
from headway.coordinator.engine.lanes import Call, Ticket
from headway.coordinator.store import leasing
from headway.coordinator.store.pool import Pool, Seats, open_pool

NOW = datetime.now(UTC)
ENDED = {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED}


@dataclass(frozen=True)
class Case:
    """A task in its run, and how it is asked for."""

    number: int
    run_state: RunState
    stop: str
    task_state: TaskState
    attempt: int
    owner: str
    grant_key: str

    @property
    def run_id(self) -> UUID:
        return UUID(int=(self.number + 1) << 16)

    @property
    def gate(self) -> RunGate:
        return RunGate(
            is_final=self.run_state in FINAL_RUN_STATES,
            is_stopping=self.stop in {"cancelling", "expired", "finish_path"},
            is_failing=self.stop == "failing",
            is_paused=self.is_paused,
        )

    @property
    def is_paused(self) -> bool:
        return self.stop == "paused_at" and self.run_state is RunState.RUNNING

    @property
    def row(self) -> leasing.LeasedRow:
        holds = self.task_state is TaskState.RUNNING
        return leasing.LeasedRow(self.task_state, 2, "holder" if holds else None, "key" if holds else None)

    @property
    def lease(self) -> Answer:
        return lease_answer(self.gate, self.row, attempt=self.attempt, owner=self.owner, grant_key=self.grant_key)

    @property
    def renewal(self) -> Answer:
        return renew_answer(self.gate, self.row, attempt=self.attempt, owner=self.owner)


def cases() -> Iterator[Case]:
    ways = product(
        RunState,
        ("", "cancelling", "expired", "finish_path", "failing", "paused_at"),
        TaskState,
        (1, 2, 3),
        ("holder", "other"),
        ("key", "another"),
    )
    for number, way in enumerate(ways):
        yield Case(number, *way)


CASES = list(cases())


@pytest.fixture
async def pool(database: asyncpg.Connection[asyncpg.Record], lasting_database_url: str) -> AsyncIterator[Pool]:
    """Connections as the coordinator opens them, to a database with a run and a task for each case, never analyzed."""
    await database.executemany(
        "INSERT INTO runs (bucket, run_id, namespace, workflow, version, state, epoch, seq, trace, vars, cancelling,"
        " failing, expired, finish_path, open_tasks, succeeded_tasks, unhandled_tasks, error, created_at,"
        " last_event_at, finished_at, paused_at, failure_class)"
        " VALUES (0, $1, 'default', 'flow', 1, $2, 1, 1, '', '{}', $3, $4, $5, $6, 0, 0, 0, $7, now(), now(), $8, $9,"
        " $10)",
        [
            (
                case.run_id,
                case.run_state.value,
                case.stop == "cancelling",
                case.stop == "failing",
                case.stop == "expired",
                "end" if case.stop == "finish_path" else None,
                b"{}" if case.run_state in {RunState.FAILED, RunState.CANCELLED} else None,
                NOW if case.run_state in FINAL_RUN_STATES else None,
                NOW if case.is_paused else None,
                {RunState.FAILED: "timeout", RunState.CANCELLED: "cancelled"}.get(case.run_state, ""),
            )
            for case in CASES
        ],
    )
    await database.execute(
        "INSERT INTO outputs (bucket, run_id, path, attempt, role, data)"
        " SELECT bucket, run_id, '', 0, 'i', '{\"n\": 1}' FROM runs"
    )
    await database.executemany(
        "INSERT INTO tasks (bucket, run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler,"
        " lease_ms, input_path, input_attempt, input_role, failure_class, disposition, cause, created_at, finished_at,"
        " owner, lease_expires_at, grant_key, reported)"
        " VALUES (0, $1, 'step', $2::text, 2, 1, 0, 0, 'default', 'q', 'h', 60000, '', 0, 'i',"
        " CASE WHEN $2 IN ('failed', 'retrying') THEN 'timeout' END, CASE WHEN $2 = 'failed' THEN 'unhandled' END,"
        " CASE WHEN $2 = 'cancelled' THEN 'x' END, now(), CASE WHEN $3 THEN now() END,"
        " $4, CASE WHEN $2 = 'running' THEN now() + interval '10 seconds' END, $5, false)",
        [
            (
                case.run_id,
                case.task_state.value,
                case.task_state in ENDED,
                case.row.owner,
                case.row.grant_key,
            )
            for case in CASES
        ],
    )
    pool = await open_pool(lasting_database_url, size=2)
    yield pool
    pool.terminate()  # the lanes keep their connections


def lease_ask(case: Case) -> lane.LeaseAsk:
    return lane.LeaseAsk(
        run_id=case.run_id, path="step", attempt=case.attempt, owner=case.owner, grant_key=case.grant_key, trace=""
    )


def renew_ask(case: Case) -> lane.RenewAsk:
    return lane.RenewAsk(run_id=case.run_id, path="step", attempt=case.attempt, owner=case.owner)


async def leased_rows(database: asyncpg.Connection[asyncpg.Record]) -> dict[UUID, Any]:
    rows = await database.fetch(
        "SELECT run_id, state, owner, grant_key, leased_at, started_at, sweep_at,"
        " lease_expires_at > now() + interval '50 seconds' AS is_long FROM tasks"
    )
    return {row["run_id"]: tuple(row)[1:] for row in rows}


async def test_the_statement_grants_what_admission_would_grant_and_nobody_holds(
    pool: Pool, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    before = await leased_rows(database)

    async with pool.acquire() as connection:
        granted = await leasing.grant(connection, 0, [lease_ask(case) for case in CASES], 1 << 20)

    expected = {case for case in CASES if case.lease is Answer.GRANTED and case.task_state is TaskState.READY}
    assert {CASES[place] for place in granted} == expected
    assert len(expected) == 20
    after = await leased_rows(database)
    assert {run_id for run_id, row in after.items() if row != before[run_id]} == {case.run_id for case in expected}
    for case in expected:
        state, owner, grant_key, leased_at, started_at, sweep_at, is_long = after[case.run_id]
        assert (state, owner, grant_key, sweep_at) == (
            "running",
            case.owner,
            case.grant_key,
            None,
        )
        assert leased_at == started_at
        assert is_long


async def test_every_request_for_a_lease_is_answered_as_admission_judges(pool: Pool) -> None:
    tickets = [Ticket(lease_ask(case), Call(1), 0) for case in CASES]

    committed = await lane.Leases(0, Seats(pool)).commit(tickets)

    answers = {ticket.item.run_id: answer for ticket, answer in committed.outcomes}
    assert len(answers) == len(committed.outcomes) == len(CASES)
    for case in CASES:
        answer = answers[case.run_id]
        assert (Answer.GRANTED if isinstance(answer, lane.Granted) else answer) is case.lease, case
        assert not isinstance(answer, lane.Granted) or answer.input == b'{"n": 1}'


async def test_the_statement_renews_what_admission_would_renew(
    pool: Pool, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    before = await leased_rows(database)

    async with pool.acquire() as connection:
        renewed = await leasing.renew(connection, 0, [renew_ask(case) for case in CASES])

    expected = {case for case in CASES if case.renewal is Answer.RENEWED}
    assert {CASES[place] for place in renewed} == expected
    assert {CASES[place] for place, record in renewed.items() if record["cancel"]} == {
        case for case in expected if case.gate.is_stopping
    }
    after = await leased_rows(database)
    changed = {run_id for run_id, row in after.items() if row != before[run_id]}
    assert changed == {case.run_id for case in expected}
    assert all(after[run_id] == (*before[run_id][:-1], True) for run_id in changed)


async def test_every_renewal_is_answered_as_admission_judges(pool: Pool) -> None:
    tickets = [Ticket(renew_ask(case), Call(1), 0) for case in CASES]

    committed = await lane.Renewals(0, Seats(pool)).commit(tickets)

    answers = {ticket.item.run_id: answer for ticket, answer in committed.outcomes}
    for case in CASES:
        answer = answers[case.run_id]
        assert (Answer.RENEWED if isinstance(answer, lane.Renewed) else answer) is case.renewal, case


async def test_what_is_locked_is_left_alone_and_the_rest_of_the_batch_is_granted(
    pool: Pool, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    free, locked = [case for case in CASES if case.lease is Answer.GRANTED and case.task_state is TaskState.READY][:2]
    tickets = [Ticket(lease_ask(case), Call(1), 0) for case in (locked, free)]

    async with database.transaction():
        await database.execute("SELECT FROM tasks WHERE run_id = $1 FOR UPDATE", locked.run_id)
        outcomes = {t.item.run_id: answer for t, answer in (await lane.Leases(0, Seats(pool)).commit(tickets)).outcomes}

    assert outcomes[locked.run_id] is Answer.BUSY
    assert isinstance(outcomes[free.run_id], lane.Granted)


async def test_of_several_deliveries_in_one_batch_each_is_judged_by_the_lease_of_the_first(pool: Pool) -> None:
    case = next(case for case in CASES if case.lease is Answer.GRANTED and case.task_state is TaskState.READY)
    asks = [
        lane.LeaseAsk(run_id=case.run_id, path="step", attempt=attempt, owner=owner, grant_key=key, trace="")
        for owner, key, attempt in (
            ("one", "a", 1),
            ("one", "a", 2),
            ("one", "a", 2),
            ("one", "b", 2),
            ("two", "a", 2),
            ("one", "a", 1),
        )
    ]

    tickets = [Ticket(ask, Call(1), 0) for ask in asks]
    committed = await lane.Leases(0, Seats(pool)).commit(tickets)

    answers = [dict(committed.outcomes)[ticket] for ticket in tickets]
    assert [isinstance(answer, lane.Granted) for answer in answers] == [False, True, True, False, False, False]
    assert [answers[place] for place in (0, 3, 4, 5)] == [
        Answer.STALE_ATTEMPT,
        Answer.HELD,
        Answer.HELD,
        Answer.STALE_ATTEMPT,
    ]
