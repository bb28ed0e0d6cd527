"""Reads rows under a run's lock, as the reducer asks for them."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import msgspec
import orjson
from msgspec import Struct, field

from headway.coordinator.core.document import Document
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.missing import Key
from headway.coordinator.core.paths import loop_of
from headway.coordinator.core.plan import FailureClass
from headway.coordinator.core.rows import (
    NOT_STEERED,
    AttemptRow,
    BeatRow,
    ChildRow,
    EffectRow,
    LoopRow,
    Parent,
    RunRow,
    ScopeRow,
    SignalRow,
    Steering,
    TaskRow,
    TokenRow,
    WaitRow,
)
from headway.coordinator.core.state import EFFECTS, FIRST_WAITS, PAGE, PAGES, WITH_UNDONE, State
from headway.coordinator.ids import child_id
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL
from headway.coordinator.zones import instant_of


class Held(Struct, eq=False):
    """A run under its lock.

    Attributes:
        was_run: its row when it was locked; None: there is no row yet.
        run_buckets: how many buckets new runs are spread over.
        was: its task rows when they were locked: what the guards of their changes are made of.
    """

    run_id: UUID
    state: State
    was_run: RunRow | None = None
    was: dict[str, TaskRow] = field(default_factory=dict)
    run_buckets: int = 1

    def take(self, row: TaskRow) -> None:
        """A task row was locked and read; decisions change copies only."""
        self.state.tasks[row.path] = self.was[row.path] = row


_IS_THERE, _RUN, _TASK = 1, 3, 29  # where these columns of lock_steps stand, and where those of the two rows begin
_RUN_COLUMNS, _TASK_COLUMNS = slice(_RUN, _TASK), slice(_TASK, None)
_RUN_STATES = {str(state): state for state in RunState}
_TASK_STATES = {str(state): state for state in TaskState}
_ROLES = {role[:1].encode(): role for role in ("input", "output", "list", "chosen")}  # stored as their first letter


def run_row(columns: tuple[Any, ...]) -> RunRow:
    """A row of `runs` as the reducer sees it. Columns in the order of lock_steps, which is that of the class."""
    row = RunRow(*columns)
    row.state = _RUN_STATES[row.state]
    row.vars = orjson.loads(columns[_VARS]) if columns[_VARS] != b"{}" else {}
    if row.error is not None:
        row.error = orjson.loads(columns[_RUN_ERROR])
    row.steering = steering_of(columns[_STEERING])
    if row.parent is not None:
        row.parent = parent_of(columns[_PARENT])
    return row


def steering_of(column: bytes | None) -> Steering:
    """What people asked of a run."""
    return NOT_STEERED if column is None else _read_steering(column)


def parent_of(column: bytes | None) -> Parent | None:
    """Whose child a run is."""
    return None if column is None else _read_parent(column)


_read_parent = msgspec.json.Decoder(Parent).decode
_PARENT = RunRow.__struct_fields__.index("parent")
_read_steering = msgspec.json.Decoder(Steering).decode
_STEERING = RunRow.__struct_fields__.index("steering")
_VARS = RunRow.__struct_fields__.index("vars")
_RUN_ERROR = RunRow.__struct_fields__.index("error")


def task_row(columns: tuple[Any, ...]) -> TaskRow:
    """A row of `tasks` as the reducer sees it. Columns in the order of lock_tasks, from `path` on."""
    (
        path, state, attempt, generation, tries, losses, namespace, queue, handler, lease_ms, timeout_ms,
        input_path, input_attempt, input_role, output_attempt, failure_class, error, disposition, handled_by, cause,
        created_at, ready_at, started_at, finished_at, due_at, owner, leased_at, lease_expires_at,
        grant_key, eager_grants, attempt_expires_at, sweep_at, reported,
    ) = columns  # fmt: skip
    return TaskRow(
        path, namespace, queue, handler, lease_ms, timeout_ms, created_at, _TASK_STATES[state], attempt, generation,
        tries, losses, None if input_path is None else (input_path, input_attempt, _ROLES[input_role]), output_attempt,
        None if failure_class is None else FailureClass(failure_class),
        None if error is None else orjson.loads(error),
        disposition, handled_by, cause, ready_at, started_at, finished_at, due_at, owner, leased_at,
        lease_expires_at, grant_key, eager_grants, attempt_expires_at, sweep_at, reported,
    )  # fmt: skip


def token_row(record: asyncpg.Record) -> TokenRow:
    """A row of `tokens` as the reducer sees it."""
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


def loop_row(record: asyncpg.Record) -> LoopRow:
    """A row of `get_loops`."""
    output = None if record["output_path"] is None else (record["output_path"], record["output_attempt"], "output")
    return LoopRow(
        **{name: record[name] for name in _LOOP_PLAIN}, output=output, failures=orjson.loads(record["failures"])
    )


def _scope_row(record: asyncpg.Record) -> ScopeRow:
    output = None if record["output_path"] is None else (record["output_path"], record["output_attempt"], "output")
    return ScopeRow(
        **{name: record[name] for name in _SCOPE_PLAIN},
        state=_RUN_STATES[record["state"]],
        error=None if record["error"] is None else orjson.loads(record["error"]),
        output=output,
    )


_LOOP_PLAIN = [name for name in LoopRow.__struct_fields__ if name not in ("output", "failures")]
_SCOPE_PLAIN = [name for name in ScopeRow.__struct_fields__ if name not in ("state", "error", "output")]


class Found(Struct):
    """What lock_steps or read_steps found.

    Attributes:
        runs: with their tasks that were named.
        busy: runs that are locked elsewhere.
        now: the database's time, taken when the locks were held: no wait for them makes event time go back.
    """

    runs: dict[UUID, tuple[RunRow, list[TaskRow]]]
    busy: set[UUID]
    now: datetime


Paths: TypeAlias = Mapping[UUID, Collection[str]]


async def lock_steps(connection: Connection, bucket: int, paths: Paths, *, wait: bool) -> Found:
    """Lock runs in order, and the task rows that their events name.

    Args:
        connection: in a transaction.
        bucket: of all the runs.
        paths: of the tasks, by run.
        wait: for a run that is locked elsewhere; then there is one run only. Else such runs are skipped.
    """
    if wait:
        for run_id in paths:
            await connection.execute(SQL["wait_for_run"], bucket, run_id)
    return await _find_steps(connection, "lock_steps", bucket, paths)


async def read_steps(connection: Connection, bucket: int, paths: Paths) -> Found:
    """Read the same without locks: whoever writes must see whether the runs still stand there."""
    return await _find_steps(connection, "read_steps", bucket, paths)


async def _find_steps(connection: Connection, statement: str, bucket: int, paths: Paths) -> Found:
    run_ids = sorted(paths)
    records = await connection.fetch(SQL[statement], bucket, run_ids, [",".join(paths[run_id]) for run_id in run_ids])
    found = Found({}, set(), records[0]["now"])
    for record in records:
        columns = tuple(record)
        run_id: UUID = columns[0]
        if columns[_RUN] is None:
            if columns[_IS_THERE]:
                found.busy.add(run_id)
            continue
        run = found.runs.get(run_id)
        if run is None:
            run = found.runs[run_id] = (run_row(columns[_RUN_COLUMNS]), [])
        if columns[_TASK] is not None:
            run[1].append(task_row(columns[_TASK_COLUMNS]))
    return found


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
        held[record["run_id"]].take(task_row(tuple(record)[1:]))


def _whole(statement: str) -> _Loader:
    async def load_whole(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
        run_ids = list({run_id for run_id, _ in asked})
        for record in await connection.fetch(SQL[statement], bucket, run_ids):
            run = held[record["run_id"]]
            if run.state.tasks.get(record["path"]) is None:
                run.take(task_row(tuple(record)[1:]))
        for run_id, key in asked:
            held[run_id].state.loaded.add(key)

    return load_whole


async def _load_all(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    await _whole("lock_all_tasks")(connection, bucket, held, asked)
    run_ids = list({run_id for run_id, _ in asked})
    for record in await connection.fetch(SQL["get_all_tokens"], bucket, run_ids):
        held[record["run_id"]].state.tokens.setdefault(record["path"], token_row(record))


async def _load_tokens(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    fresh = [(run_id, str(key[1])) for run_id, key in asked if key[1] not in held[run_id].state.tokens]
    if not fresh:
        return
    for run_id, path in fresh:
        held[run_id].state.tokens[path] = None
    arrays = [run_id for run_id, _ in fresh], [path for _, path in fresh]
    for record in await connection.fetch(SQL["get_tokens"], bucket, *arrays):
        held[record["run_id"]].state.tokens[record["path"]] = token_row(record)


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
        row = _signal_row(record)
        held[record["run_id"]].state.signals[row.name].append(row)


async def _load_taken(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    fresh = [(run_id, str(key[1])) for run_id, key in asked if key[1] not in held[run_id].state.taken]
    if not fresh:
        return
    for run_id, path in fresh:
        held[run_id].state.taken[path] = []
    arrays = [run_id for run_id, _ in fresh], [path for _, path in fresh]
    for record in await connection.fetch(SQL["get_taken_signals"], bucket, *arrays):
        held[record["run_id"]].state.taken[record["taken_by"]].append(_signal_row(record))


def _signal_row(record: asyncpg.Record) -> SignalRow:
    return SignalRow(
        record["seq"], record["name"], Document(record["payload"]), record["received_at"], record["taken_by"],
        record["taken_attempt"], record["expires_at"],
    )  # fmt: skip


async def _load_beats(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        held[run_id].state.beats[str(key[1])] = None
    arrays = [run_id for run_id, _ in asked], [key[1] for _, key in asked]
    for record in await connection.fetch(SQL["get_beats"], bucket, *arrays):
        row = BeatRow(record["attempt"], record["beat_at"], record["progress_at"])
        held[record["run_id"]].state.beats[record["path"]] = row


async def _load_instants(_connection: Connection, _bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        local, zone = str(key[1]), str(key[2])
        held[run_id].state.instants[local, zone] = instant_of(local, zone)


async def _load_timers(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    run_ids = list({run_id for run_id, _ in asked})
    for record in await connection.fetch(SQL["get_timers"], bucket, run_ids):
        timers = held[record["run_id"]].state.timers
        timers.setdefault((record["path"], record["kind"], record["attempt"]), record["due_at"])
    for run_id, key in asked:
        held[run_id].state.loaded.add(key)


async def _load_attempts(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        held[run_id].state.attempts[str(key[1]), int(key[2])] = None
    arrays = [run_id for run_id, _ in asked], [key[1] for _, key in asked], [key[2] for _, key in asked]
    for record in await connection.fetch(SQL["get_attempts"], bucket, *arrays):
        row = _attempt_row(record)
        held[record["run_id"]].state.attempts[row.path, row.attempt] = row


async def _load_loops(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    fresh = [(run_id, str(key[1])) for run_id, key in asked if key[1] not in held[run_id].state.loops]
    if not fresh:
        return
    for run_id, path in fresh:
        held[run_id].state.loops[path] = None
    arrays = [run_id for run_id, _ in fresh], [path for _, path in fresh]
    for record in await connection.fetch(SQL["get_loops"], bucket, *arrays):
        held[record["run_id"]].state.loops[record["path"]] = loop_row(record)


async def _load_scopes(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    fresh = [(run_id, str(key[1])) for run_id, key in asked if key[1] not in held[run_id].state.scopes]
    if not fresh:
        return
    for run_id, path in fresh:
        held[run_id].state.scopes[path] = None
    loops = [loop_of(path) for _, path in fresh]
    arrays = [run_id for run_id, _ in fresh], [loop for loop, _ in loops], [index for _, index in loops]
    for record in await connection.fetch(SQL["get_scopes"], bucket, *arrays):
        held[record["run_id"]].state.scopes[record["path"]] = _scope_row(record)


async def _load_page(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        page, loop, first = key[0], key[1], key[2]
        state = held[run_id].state
        records = await connection.fetch(
            SQL["get_scopes_in_order"],
            bucket,
            run_id,
            loop,
            first,
            sorted(PAGES[str(page)]),
            PAGE,
            page in WITH_UNDONE,
        )
        for record in records:
            if record["path"] not in state.scopes:
                state.scopes[record["path"]] = _scope_row(record)
        state.pages[key] = records[-1]["index"] if len(records) == PAGE else None


async def _load_effects(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        state = held[run_id].state
        for record in await connection.fetch(SQL["get_latest_effects"], bucket, run_id, key[2], EFFECTS):
            row = EffectRow(record["place"], record["path"], record["attempt"], record["gave"])
            state.effects.setdefault(row.place, row)
        state.loaded.add(key)


async def _load_waits(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        name, after = str(key[1]), int(key[2])
        most = None if after else FIRST_WAITS
        records = await connection.fetch(SQL["get_first_waits"], bucket, run_id, name, after, most)
        held[run_id].state.stored_waits[key] = [WaitRow(record["path"], name, record["place"]) for record in records]


async def _load_results(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        records = await connection.fetch(SQL["get_results"], bucket, run_id, key[1])
        held[run_id].state.results[str(key[1])] = {record["index"]: record["data"] for record in records}


async def _load_children(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    fresh = [(run_id, str(key[1])) for run_id, key in asked if key[1] not in held[run_id].state.children]
    if not fresh:
        return
    for run_id, path in fresh:
        held[run_id].state.children[path] = None
    arrays = [run_id for run_id, _ in fresh], [path for _, path in fresh]
    for record in await connection.fetch(SQL["get_latest_children"], bucket, *arrays):
        held[record["run_id"]].state.children[record["path"]] = child_row(record)


async def find_children(connection: Connection, bucket: int, run_id: UUID, paths: Sequence[str]) -> dict[str, ChildRow]:
    """The latest runs that some subflow nodes of a run started, by path."""
    if not paths:
        return {}
    records = await connection.fetch(SQL["get_latest_children"], bucket, [run_id] * len(paths), paths)
    return {record["path"]: child_row(record) for record in records}


def child_row(record: asyncpg.Record) -> ChildRow:
    """A row of `children` as the reducer sees it."""
    return ChildRow(
        path=record["path"],
        attempt=record["attempt"],
        child=record["child_run_id"].hex,
        workflow=record["workflow"],
        version=record["version"],
        detached=record["detached"],
        created_at=record["created_at"],
        state=record["state"],
        stop=record["stop"],
    )


async def _load_child_ids(_connection: Connection, _bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        path, attempt = str(key[1]), int(key[2])
        child = child_id(run_id, path, attempt, held[run_id].run_buckets)
        held[run_id].state.child_ids[path, attempt] = child.hex


async def _load_deadlines(connection: Connection, bucket: int, held: Mapping[UUID, Held], asked: Asked) -> None:
    for run_id, key in asked:
        state = held[run_id].state
        for record in await connection.fetch(SQL["get_run_timers"], bucket, run_id):
            state.timers.setdefault(("", record["kind"], 0), record["due_at"])
        state.loaded.add(key)


_LOADERS: Mapping[str, _Loader] = {
    "task": _load_tasks,
    "open": _whole("lock_open_tasks"),
    "unhandled": _whole("lock_unhandled_tasks"),
    "all": _load_all,
    "token": _load_tokens,
    "payload": _load_payloads,
    "signals": _load_signals,
    "taken": _load_taken,
    "attempt": _load_attempts,
    "beat": _load_beats,
    "instant": _load_instants,
    "timers": _load_timers,
    "loop": _load_loops,
    "scope": _load_scopes,
    **dict.fromkeys(PAGES, _load_page),
    "results": _load_results,
    "effects": _load_effects,
    "waits": _load_waits,
    "child": _load_children,
    "child_id": _load_child_ids,
    "deadline": _load_deadlines,
}
_ORDER = tuple(_LOADERS)
