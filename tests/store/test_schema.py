"""What the schema itself refuses, whoever writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RUN_ID = UUID(int=1 << 16)
RUN: dict[str, Any] = {
    "bucket": 0,
    "run_id": RUN_ID,
    "namespace": "default",
    "workflow": "w",
    "version": 1,
    "state": "running",
    "epoch": 1,
    "seq": 1,
    "trace": "",
    "vars": b"{}",
    "cancelling": False,
    "failing": False,
    "expired": False,
    "open_tasks": 1,
    "succeeded_tasks": 0,
    "unhandled_tasks": 0,
    "created_at": NOW,
    "last_event_at": NOW,
}
TASK: dict[str, Any] = {
    "bucket": 0,
    "run_id": RUN_ID,
    "path": "work",
    "state": "ready",
    "attempt": 1,
    "generation": 1,
    "tries": 0,
    "losses": 0,
    "namespace": "default",
    "queue": "q",
    "handler": "h",
    "lease_ms": 90_000,
    "created_at": NOW,
    "reported": False,
}
LEASE = {"owner": "w", "lease_expires_at": NOW, "grant_key": "g"}
DEFINITION: dict[str, Any] = {
    "namespace": "default",
    "workflow": "w",
    "version": 1,
    "digest": "d1",
    "source": "",
    "plan": b"",
    "deployed": True,
    "created_at": NOW,
}
KEY: dict[str, Any] = {
    "bucket": 0,
    "namespace": "default",
    "key": "k",
    "run_id": RUN_ID,
    "digest": "d",
    "created_at": NOW,
}
OUTBOX: dict[str, Any] = {
    "bucket": 0,
    "outbox_id": RUN_ID,
    "kind": "dispatch",
    "run_id": RUN_ID,
    "namespace": "default",
    "path": "work",
    "attempt": 1,
    "queue": "q",
    "handler": "h",
    "trace": "",
    "created_at": NOW,
}
TIMER: dict[str, Any] = {"bucket": 0, "run_id": RUN_ID, "path": "", "kind": "retry", "attempt": 0, "due_at": NOW}
OUTPUT: dict[str, Any] = {
    "bucket": 0,
    "run_id": RUN_ID,
    "path": "",
    "attempt": 0,
    "role": b"i",
    "data": b"{}",
}


async def insert(connection: asyncpg.Connection[asyncpg.Record], table: str, row: dict[str, Any]) -> None:
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *row.values())


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ({"state": "running"}, "tasks_running_has_lease"),
        (LEASE, "tasks_running_has_lease"),
        ({"state": "running", "lease_expires_at": NOW}, "tasks_lease_whole"),
        ({"state": "running", "lease_expires_at": NOW, "grant_key": "g"}, "tasks_lease_whole"),
        ({"state": "failed", "finished_at": NOW, "disposition": "handled"}, "tasks_failed_has_class"),
        ({"failure_class": "timeout"}, "tasks_failed_has_class"),
        ({"state": "retrying"}, "tasks_failed_has_class"),
        ({"state": "retrying", "failure_class": "bad_luck"}, "tasks_failure_class"),
        ({"state": "failed", "failure_class": "timeout", "finished_at": NOW}, "tasks_failed_has_disposition"),
        ({"disposition": "handled"}, "tasks_failed_has_disposition"),
        ({"state": "cancelled", "finished_at": NOW}, "tasks_cancelled_has_cause"),
        ({"cause": "finish"}, "tasks_cancelled_has_cause"),
        ({"state": "succeeded"}, "tasks_final_has_end"),
        ({"finished_at": NOW}, "tasks_final_has_end"),
        ({"state": "resting"}, "tasks_state"),
        ({"attempt": 0}, "tasks_attempt_positive"),
        ({"generation": 0}, "tasks_attempt_positive"),
        ({"tries": -1}, "tasks_attempt_positive"),
    ],
)
async def test_a_task_that_contradicts_itself_is_refused(
    change: dict[str, Any], constraint: str, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    await insert(database, "runs", RUN)

    with pytest.raises(asyncpg.CheckViolationError) as caught:
        await insert(database, "tasks", TASK | change)

    assert caught.value.constraint_name == constraint


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ({"state": "asleep"}, "runs_state"),
        ({"state": "succeeded", "open_tasks": 0}, "runs_final_has_end"),
        ({"finished_at": NOW, "open_tasks": 0}, "runs_final_has_end"),
        ({"state": "failed", "finished_at": NOW, "open_tasks": 0}, "runs_error_when_not_succeeded"),
        ({"error": b"{}"}, "runs_error_when_not_succeeded"),
        ({"state": "succeeded", "finished_at": NOW}, "runs_final_has_no_open_tasks"),
        ({"open_tasks": -1}, "runs_counts_not_negative"),
        ({"unhandled_tasks": -1}, "runs_counts_not_negative"),
    ],
)
async def test_a_run_that_contradicts_itself_is_refused(
    change: dict[str, Any], constraint: str, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    with pytest.raises(asyncpg.CheckViolationError) as caught:
        await insert(database, "runs", RUN | change)

    assert caught.value.constraint_name == constraint


@pytest.mark.parametrize(
    ("table", "row", "constraint"),
    [
        ("start_keys", KEY | {"key": ""}, "start_keys_key_not_empty"),
        ("definitions", DEFINITION | {"version": 0}, "definitions_version_positive"),
        ("definitions", DEFINITION | {"namespace": ""}, "definitions_namespace"),
        ("definitions", DEFINITION | {"namespace": "a/b"}, "definitions_namespace"),
        ("definitions", DEFINITION | {"namespace": "a\n"}, "definitions_namespace"),
        ("definitions", DEFINITION | {"namespace": "a" * 64}, "definitions_namespace"),
        ("outbox", OUTBOX | {"kind": "letter"}, "outbox_kind"),
        ("outbox", OUTBOX | {"kind": "handover"}, "outbox_handover_has_body"),
        ("outbox", OUTBOX | {"body": b"{}"}, "outbox_handover_has_body"),
        ("outbox", OUTBOX | {"queue": ""}, "outbox_dispatch_is_addressed"),
        ("outbox", OUTBOX | {"handler": ""}, "outbox_dispatch_is_addressed"),
        ("timers", TIMER | {"kind": "tea"}, "timers_kind"),
        ("outputs", OUTPUT | {"role": b"x"}, "outputs_role"),
    ],
)
async def test_a_row_that_nobody_could_mean_is_refused(
    table: str, row: dict[str, Any], constraint: str, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    await insert(database, "runs", RUN)

    with pytest.raises(asyncpg.CheckViolationError) as caught:
        await insert(database, table, row)

    assert caught.value.constraint_name == constraint


@pytest.mark.parametrize(
    ("table", "row", "again", "constraint"),
    [
        ("runs", RUN, {}, "runs_pkey"),
        ("tasks", TASK, {"attempt": 2}, "tasks_pkey"),
        ("start_keys", KEY, {"digest": "other"}, "start_keys_pkey"),
        ("definitions", DEFINITION, {"version": 2, "digest": "d2"}, "definitions_one_deployed"),
        ("definitions", DEFINITION, {"version": 2, "deployed": False}, "definitions_content_once"),
        ("outputs", OUTPUT, {"data": b"[]"}, "outputs_pkey"),
        ("timers", TIMER, {}, "timers_pkey"),
    ],
)
async def test_what_there_is_once_cannot_be_there_twice(
    table: str, row: dict[str, Any], again: dict[str, Any], constraint: str,
    database: asyncpg.Connection[asyncpg.Record],
) -> None:  # fmt: skip
    if table != "runs":
        await insert(database, "runs", RUN)
    await insert(database, table, row)

    with pytest.raises(asyncpg.UniqueViolationError) as caught:
        await insert(database, table, row | again)

    assert caught.value.constraint_name == constraint


async def test_every_key_and_every_index_of_a_run_begins_with_its_bucket(
    database: asyncpg.Connection[asyncpg.Record],
) -> None:
    records = await database.fetch(
        """
        SELECT c.relname AS table, i.relname AS index, a.attname AS first_column
        FROM pg_index AS x
        JOIN pg_class AS c ON c.oid = x.indrelid
        JOIN pg_class AS i ON i.oid = x.indexrelid
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = x.indkey[0]
        WHERE c.relnamespace = 'public'::regnamespace
          AND EXISTS (SELECT 1 FROM pg_attribute AS b WHERE b.attrelid = c.oid AND b.attname = 'bucket')
        """
    )

    elsewhere = {record["index"] for record in records if record["first_column"] != "bucket"}
    assert elsewhere == {
        "runs_by_creation",
        "runs_by_end",
        "runs_paused",
        "run_labels_by_value",
        "timers_due",
    }  # a key look-up must never seem as good by them: ADR 11
    assert len(records) > 12
