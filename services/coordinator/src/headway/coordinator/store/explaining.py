"""What `explain` reads: a run's open rows, or those that decided its end. No locks; all of one snapshot."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import orjson

from headway.coordinator.core.explaining import Readers, Scene, joins_behind
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.paths import loop_of
from headway.coordinator.core.plan import NodeType
from headway.coordinator.core.rows import ChildRow, LoopRow, RunRow, TaskRow, TokenRow
from headway.coordinator.ids import bucket_of
from headway.coordinator.store.errors import translated
from headway.coordinator.store.loading import find_children, loop_row, read_steps, task_row, token_row
from headway.coordinator.store.pool import Connection, Connections
from headway.coordinator.store.statements import SQL

OPEN_TASKS = 200  # that are explained
BUFFERED_SIGNALS = 1_000  # that are counted
FAILED_TASKS = 20  # that are told of a run that has failed and goes on
FAILED_ITEMS = 5  # of maps and repeats that failed, whose failures are told
GraphOf: TypeAlias = Callable[[Connection, tuple[str, str, int]], Awaitable[Graph]]
"""Finds the graph of a namespace's workflow's version."""


async def read_scene(connections: Connections, run_id: UUID, namespace: str, graph_of: GraphOf) -> Scene | None:
    """What is known of a run, or None when there is none in the namespace.

    Args:
        connections: to read with.
        run_id: the run.
        namespace: it must be in.
        graph_of: finds the run's graph, by the connection given.
    """
    bucket = bucket_of(run_id)
    with translated():
        async with (
            connections.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            found = await read_steps(connection, bucket, {run_id: ()})
            run, _ = found.runs.get(run_id, (None, ()))
            if run is None or run.namespace != namespace:
                return None
            graph = await graph_of(connection, (run.namespace, run.workflow, run.version))
            if run.is_final:
                tasks, untold = await _named(connection, bucket, run_id, run, graph)
                return Scene(graph=graph, now=found.now, run=run, tasks=tasks, untold=untold)
            records = await connection.fetch(SQL["read_open_tasks"], bucket, [run_id], OPEN_TASKS)
            tasks = tuple(task_row(tuple(record)[1:]) for record in records)
            count = len(tasks)
            if count == OPEN_TASKS:
                count = await connection.fetchval(SQL["count_open_tasks"], bucket, run_id)
            timers = await connection.fetch(SQL["get_run_timers"], bucket, run_id)
            children = await _children(connection, bucket, run_id, graph, tasks)
            unpublished, outbox_since = await _unpublished(connection, bucket, run_id, tasks)
            return Scene(
                graph=graph,
                now=found.now,
                run=run,
                tasks=tasks,
                open_tasks=count,
                failed=await _failed(connection, bucket, run_id, run),
                tokens=await _tokens(connection, bucket, run_id, joins_behind(graph, [row.path for row in tasks])),
                readers=await _readers(connection, namespace, tasks),
                left=await _left(connection, namespace, tasks),
                signals=await _signals(connection, bucket, run_id, graph, tasks),
                buffered=await _buffered(connection, bucket, run_id, graph, tasks),
                children=children,
                unpublished=unpublished,
                outbox_since=outbox_since,
                loops=await _loops(connection, bucket, run_id, graph, tasks),
                undelivered=await _undelivered(connection, run_id, children),
                timers={record["kind"]: record["due_at"] for record in timers},
            )


async def _failed(connection: Connection, bucket: int, run_id: UUID, run: RunRow) -> tuple[TaskRow, ...]:
    """What failed in a run that goes on, so that it fails: the first of it."""
    if not run.unhandled_tasks:
        return ()
    records = await connection.fetch(SQL["read_unhandled_tasks"], bucket, [run_id], FAILED_TASKS)
    return tuple(task_row(tuple(record)[1:]) for record in records)


async def _named(
    connection: Connection, bucket: int, run_id: UUID, run: RunRow, graph: Graph
) -> tuple[tuple[TaskRow, ...], int]:
    """The tasks that a run's error names, and of maps and repeats among them what failed in their items, all along.

    Returns them, and how many more tasks of the run and items of those maps and repeats failed.
    """
    named = [] if run.error is None else run.error["paths"]
    paths = [str(path) for path in named] if isinstance(named, list) else []
    is_by_failures = paths and not (run.cancelling or run.expired or run.finish_path is not None)
    untold = max(run.unhandled_tasks - len(paths), 0) if is_by_failures else 0
    found: list[TaskRow] = []
    while paths:
        rows = (await read_steps(connection, bucket, {run_id: paths})).runs[run_id][1]
        found += rows
        loops = [row.path for row in rows if row.state is TaskState.FAILED and graph.node(row.path).body is not None]
        paths, more = await _failed_in(connection, bucket, run_id, loops)
        untold += more
    return tuple(found), untold


async def _failed_in(connection: Connection, bucket: int, run_id: UUID, loops: Sequence[str]) -> tuple[list[str], int]:
    """What failed in the first items that failed, of some maps and repeats; and how many more items failed."""
    if not loops:
        return [], 0
    records = await connection.fetch(SQL["get_loops"], bucket, [run_id] * len(loops), loops)
    items = [str(item) for record in records for item in orjson.loads(record["failures"])][:FAILED_ITEMS]
    keys = [loop_of(item) for item in items]
    columns = [run_id] * len(keys), [loop for loop, _ in keys], [index for _, index in keys]
    scopes = await connection.fetch(SQL["get_scopes"], bucket, *columns)
    errors = [orjson.loads(record["error"]) for record in scopes if record["error"] is not None]
    more = sum(record["failed"] for record in records) - len(items)
    return [str(path) for error in errors for path in error["paths"]], more


async def _signals(
    connection: Connection, bucket: int, run_id: UUID, graph: Graph, tasks: tuple[TaskRow, ...]
) -> Mapping[str, str]:
    """The names, kept as inputs, of the signals that nodes wait for whose name an expression yielded."""
    waits = [row for row in tasks if row.input is not None and graph.node(row.path).event_name is not None]
    keys = [row.input for row in waits if row.input is not None]
    if not keys:
        return {}
    paths, attempts, roles = (list(column) for column in zip(*keys, strict=True))
    records = await connection.fetch(SQL["get_payloads"], bucket, [run_id] * len(keys), paths, attempts, roles)
    return {record["path"]: str(orjson.loads(record["data"])) for record in records}


async def _buffered(
    connection: Connection, bucket: int, run_id: UUID, graph: Graph, tasks: tuple[TaskRow, ...]
) -> Mapping[str, int]:
    """Where a node waits for a signal: those that nobody has taken, by name."""
    if not any(graph.node(row.path).type is NodeType.WAIT_FOR_EVENT for row in tasks):
        return {}
    records = await connection.fetch(SQL["count_buffered_signals"], bucket, run_id, BUFFERED_SIGNALS)
    return {record["name"]: record["signals"] for record in records}


async def _tokens(connection: Connection, bucket: int, run_id: UUID, paths: frozenset[str]) -> Mapping[str, TokenRow]:
    if not paths:
        return {}
    records = await connection.fetch(SQL["get_tokens"], bucket, [run_id] * len(paths), sorted(paths))
    return {record["path"]: token_row(record) for record in records}


async def _children(
    connection: Connection, bucket: int, run_id: UUID, graph: Graph, tasks: tuple[TaskRow, ...]
) -> Mapping[str, ChildRow]:
    paths = [row.path for row in tasks if row.state is TaskState.WAITING and graph.is_subflow(row.path)]
    return await find_children(connection, bucket, run_id, paths)


async def _unpublished(
    connection: Connection, bucket: int, run_id: UUID, tasks: tuple[TaskRow, ...]
) -> tuple[Mapping[str, datetime], datetime | None]:
    """By path, since when a dispatch has waited to be published; and since when one has that was not looked at."""
    if not any(row.state is TaskState.READY for row in tasks):
        return {}, None
    found = {
        record["path"]: record["since"] for record in await connection.fetch(SQL["find_unpublished"], bucket, run_id)
    }
    return found, found.pop(None, None)


async def _loops(
    connection: Connection, bucket: int, run_id: UUID, graph: Graph, tasks: tuple[TaskRow, ...]
) -> Mapping[str, LoopRow]:
    paths = [row.path for row in tasks if row.state is TaskState.WAITING and graph.node(row.path).body is not None]
    if not paths:
        return {}
    records = await connection.fetch(SQL["get_loops"], bucket, [run_id] * len(paths), paths)
    return {record["path"]: loop_row(record) for record in records}


async def _undelivered(
    connection: Connection, run_id: UUID, children: Mapping[str, ChildRow]
) -> Mapping[str, datetime]:
    """By child, since when something for it has waited to be delivered."""
    ids = {UUID(child.child): child.child for child in children.values() if child.is_open}
    found: dict[str, datetime] = {}
    if ids:
        for record in await connection.fetch(SQL["find_undelivered"], bucket_of(run_id), [*ids]):
            found[ids[record["run_id"]]] = record["since"]
    return found


async def _readers(connection: Connection, namespace: str, tasks: tuple[TaskRow, ...]) -> Mapping[str, Readers]:
    queues = sorted({row.queue for row in tasks if row.state is TaskState.READY})
    if not queues:
        return {}
    records = await connection.fetch(SQL["find_readers"], namespace, queues)
    return {record["queue"]: Readers(record["workers"], record["seen_at"]) for record in records}


async def _left(connection: Connection, namespace: str, tasks: tuple[TaskRow, ...]) -> Mapping[str, datetime]:
    """When those that hold leases left, of whom it is known, by owner."""
    owners = sorted({row.owner for row in tasks if row.state is TaskState.RUNNING and row.owner is not None})
    if not owners:
        return {}
    records = await connection.fetch(SQL["find_left"], namespace, owners)
    return {record["owner"]: record["left_at"] for record in records}
