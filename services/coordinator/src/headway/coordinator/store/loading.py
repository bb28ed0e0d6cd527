"""Reads rows under a run's lock, as the reducer asks for them."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import asyncpg
import orjson

from headway.coordinator.core.document import Document
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.plan import FailureClass
from headway.coordinator.core.rows import AttemptRow, RunRow, SignalRow, TaskRow, TokenRow
from headway.coordinator.core.state import Key, State
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL


@dataclass(slots=True)
class Held:
    """A run under its lock.

    Attributes:
        was_seq: of its row when it was locked; None: there is no row yet.
        was: state and attempt of each task row when it was locked: the guards of its update.
    """

    run_id: UUID
    state: State
    was_seq: int | None
    was: dict[str, tuple[str, int]] = field(default_factory=dict)

    def take(self, row: TaskRow) -> None:
        """A task row was locked and read."""
        self.state.tasks[row.path] = row
        self.was[row.path] = (row.state, row.attempt)


def run_row(record: asyncpg.Record) -> RunRow:
    """A row of `runs` as the reducer sees it."""
    return RunRow(
        namespace=record["namespace"],
        workflow=record["workflow"],
        version=record["version"],
        key=record["key"],
        trace=record["trace"],
        created_at=record["created_at"],
        last_event_at=record["last_event_at"],
        state=RunState(record["state"]),
        epoch=record["epoch"],
        seq=record["seq"],
        vars=orjson.loads(record["vars"]),
        cancelling=record["cancelling"],
        failing=record["failing"],
        expired=record["expired"],
        finish_path=record["finish_path"],
        open_tasks=record["open_tasks"],
        succeeded_tasks=record["succeeded_tasks"],
        unhandled_tasks=record["unhandled_tasks"],
        error=None if record["error"] is None else orjson.loads(record["error"]),
        output_path=record["output_path"],
        output_attempt=record["output_attempt"],
        finished_at=record["finished_at"],
    )


def task_row(record: asyncpg.Record) -> TaskRow:
    """A row of `tasks` as the reducer sees it. Columns in the order of lock_tasks."""
    (
        _run_id, path, state, attempt, generation, tries, losses, namespace, queue, handler, lease_ms, timeout_ms,
        input_path, input_attempt, input_role, output_attempt, failure_class, error, disposition, handled_by, cause,
        created_at, ready_at, started_at, finished_at, due_at, owner, leased_at, lease_owner, lease_expires_at,
        grant_key, attempt_expires_at, sweep_at, reported,
    ) = record  # fmt: skip
    return TaskRow(
        path=path,
        namespace=namespace,
        queue=queue,
        handler=handler,
        lease_ms=lease_ms,
        attempt_timeout_ms=timeout_ms,
        created_at=created_at,
        state=TaskState(state),
        attempt=attempt,
        generation=generation,
        tries=tries,
        losses=losses,
        input=None if input_path is None else (input_path, input_attempt, input_role),
        output_attempt=output_attempt,
        failure_class=None if failure_class is None else FailureClass(failure_class),
        error=None if error is None else orjson.loads(error),
        disposition=disposition,
        handled_by=handled_by,
        cause=cause,
        ready_at=ready_at,
        started_at=started_at,
        finished_at=finished_at,
        due_at=due_at,
        owner=owner,
        leased_at=leased_at,
        lease_owner=lease_owner,
        lease_expires_at=lease_expires_at,
        grant_key=grant_key,
        attempt_expires_at=attempt_expires_at,
        sweep_at=sweep_at,
        reported=reported,
    )


class TaskView:
    """The columns of a task row that Lease and Renew judge by."""

    __slots__ = ("attempt", "grant_key", "lease_owner", "state")

    def __init__(self, record: asyncpg.Record) -> None:
        """Read them; a renewal has no grant_key."""
        self.state = TaskState(record["state"])
        self.attempt: int = record["attempt"]
        self.lease_owner: str | None = record["lease_owner"]
        self.grant_key: str | None = record.get("grant_key")


def _token_row(record: asyncpg.Record) -> TokenRow:
    bits = {name: int.from_bytes(record[name], "little") for name in ("live", "dead", "failed", "always")}
    names = {slot: [(node, edge) for node, edge in given] for slot, given in orjson.loads(record["names"]).items()}
    return TokenRow(record["path"], **bits, names=names)


def _attempt_row(record: asyncpg.Record) -> AttemptRow:
    return AttemptRow(
        path=record["path"],
        attempt=record["attempt"],
        owner=record["owner"],
        leased_at=record["leased_at"],
        ended_at=record["ended_at"],
        outcome=record["outcome"],
        reported=record["reported"],
        failure_class=None if record["failure_class"] is None else FailureClass(record["failure_class"]),
        error=None if record["error"] is None else orjson.loads(record["error"]),
    )


async def lock_runs(
    connection: Connection, bucket: int, run_ids: Iterable[UUID], *, wait: bool
) -> tuple[dict[UUID, RunRow], datetime]:
    """Lock runs in order.

    Args:
        connection: in a transaction.
        bucket: of all the runs.
        run_ids: which.
        wait: for those that are locked elsewhere; else they are skipped.

    Returns:
        The rows that could be locked, and the database's time: taken after the locks, so that no wait for them makes
        event time go back.
    """
    statement = SQL["lock_runs_waiting" if wait else "lock_runs"]
    records = await connection.fetch(statement, bucket, list(run_ids))
    now = records[0]["now"] if records and not wait else await clock(connection)
    return {row["run_id"]: run_row(row) for row in records}, now


async def existing_runs(connection: Connection, bucket: int, run_ids: Iterable[UUID]) -> set[UUID]:
    """Which runs are there, locked elsewhere or not."""
    return {row["run_id"] for row in await connection.fetch(SQL["existing_runs"], bucket, list(run_ids))}


async def clock(connection: Connection) -> datetime:
    """The database's time, now."""
    now: datetime = await connection.fetchval(SQL["clock"])
    return now


async def load(
    connection: Connection, bucket: int, held: Mapping[UUID, Held], wanted: Mapping[UUID, Iterable[Key]]
) -> None:
    """Put the rows asked for into their runs' states. What a state has already is left as it is.

    Args:
        connection: in the transaction that holds the runs' locks.
        bucket: of all the runs.
        held: the runs that are locked, by run id.
        wanted: keys by run.
    """
    by_kind: dict[str, list[tuple[UUID, Key]]] = defaultdict(list)
    for run_id, keys in wanted.items():
        for key in keys:
            by_kind[str(key[0])].append((run_id, key))
    for kind in _ORDER:  # tasks first: locks before anything is read
        if asked := by_kind.get(kind):
            await _LOADERS[kind](connection, bucket, held, asked)


Asked = Sequence[tuple[UUID, Key]]
_Loader = Callable[[Connection, int, Mapping[UUID, Held], Asked], Awaitable[None]]


async def _load_tasks(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    fresh = [(run_id, str(key[1])) for run_id, key in asked if key[1] not in held[run_id].state.tasks]
    if not fresh:
        return
    run_ids, paths = [run_id for run_id, _ in fresh], [path for _, path in fresh]
    for run_id, path in fresh:
        held[run_id].state.tasks[path] = None
    for record in await connection.fetch(SQL["lock_tasks"], bucket, run_ids, paths):
        held[record["run_id"]].take(task_row(record))


def _whole(statement: str) -> _Loader:
    async def load_whole(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
        run_ids = list({run_id for run_id, _ in asked})
        for record in await connection.fetch(SQL[statement], bucket, run_ids):
            run = held[record["run_id"]]
            if run.state.tasks.get(record["path"]) is None:
                run.take(task_row(record))
        for run_id, key in asked:
            held[run_id].state.loaded.add(key)

    return load_whole


async def _load_all(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    await _whole("lock_all_tasks")(connection, bucket, held, asked)
    run_ids = list({run_id for run_id, _ in asked})
    for record in await connection.fetch(SQL["get_all_tokens"], bucket, run_ids):
        held[record["run_id"]].state.tokens.setdefault(record["path"], _token_row(record))


async def _load_tokens(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    fresh = [(run_id, str(key[1])) for run_id, key in asked if key[1] not in held[run_id].state.tokens]
    if not fresh:
        return
    for run_id, path in fresh:
        held[run_id].state.tokens[path] = None
    arrays = [run_id for run_id, _ in fresh], [path for _, path in fresh]
    for record in await connection.fetch(SQL["get_tokens"], bucket, *arrays):
        held[record["run_id"]].state.tokens[record["path"]] = _token_row(record)


async def _load_payloads(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    fresh = [(run_id, *key[1:]) for run_id, key in asked if tuple(key[1:]) not in held[run_id].state.payloads]
    if not fresh:
        return
    arrays = [list(column) for column in zip(*fresh, strict=True)]
    for record in await connection.fetch(SQL["get_payloads"], bucket, *arrays):
        key = (record["path"], record["attempt"], record["role"])
        held[record["run_id"]].state.payloads[key] = Document(record["data"])


async def _load_signals(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    fresh = [(run_id, str(key[1])) for run_id, key in asked if key[1] not in held[run_id].state.signals]
    if not fresh:
        return
    for run_id, name in fresh:
        held[run_id].state.signals[name] = []
    arrays = [run_id for run_id, _ in fresh], [name for _, name in fresh]
    for record in await connection.fetch(SQL["get_signals"], bucket, *arrays):
        row = SignalRow(record["seq"], record["name"], Document(record["payload"]), record["received_at"])
        held[record["run_id"]].state.signals[row.name].append(row)


async def _load_attempts(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        held[run_id].state.attempts[str(key[1]), int(key[2])] = None
    arrays = [run_id for run_id, _ in asked], [key[1] for _, key in asked], [key[2] for _, key in asked]
    for record in await connection.fetch(SQL["get_attempts"], bucket, *arrays):
        row = _attempt_row(record)
        held[record["run_id"]].state.attempts[row.path, row.attempt] = row


_LOADERS: Mapping[str, _Loader] = {
    "task": _load_tasks,
    "open": _whole("lock_open_tasks"),
    "unhandled": _whole("lock_unhandled_tasks"),
    "all": _load_all,
    "token": _load_tokens,
    "payload": _load_payloads,
    "signals": _load_signals,
    "attempt": _load_attempts,
}
_ORDER = tuple(_LOADERS)
