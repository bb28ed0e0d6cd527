"""Deletes finished runs, and finds those that are kept no longer.

A run's key is in a bucket of its own, so that it cannot go in the run's transaction. The run goes first, and a
tombstone takes its place; then its key is freed, unless it stands for another run by now. So no key is freed for a run
that stays, and no start that has read the run's id from the key begins the run again: it meets the tombstone, and frees
the key itself if nobody has. A tombstone goes when no start can be under way for it any more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

import orjson

from headway.coordinator.core.machines import FINAL_RUN_STATES
from headway.coordinator.core.rows import Parent
from headway.coordinator.ids import bucket_of, key_bucket, run_id_text
from headway.coordinator.store.errors import translated
from headway.coordinator.store.listing import STANDINGS
from headway.coordinator.store.loading import parent_of
from headway.coordinator.store.pool import Connection, Connections, Pool
from headway.coordinator.store.statements import SQL

Ends = Mapping[UUID, Any]
"""Runs that are there, with columns namespace, key, state, epoch and parent."""
Standing: TypeAlias = tuple[str, str | None, UUID]
"""A namespace, a key in it, if any, and the run that it stands for."""


async def find_expired(pool: Pool, limit: int, but: Collection[UUID]) -> list[UUID]:
    """Finished runs whose definitions keep them no longer, at most so many, and none of `but`."""
    final = [(state, failure) for state, failure in STANDINGS if state in FINAL_RUN_STATES]
    columns = [state for state, _ in final], [failure for _, failure in final]
    with translated():
        async with pool.acquire() as connection:
            return [
                record["run_id"] for record in await connection.fetch(SQL["find_expired"], *columns, limit, list(but))
            ]


async def get_ends(connections: Connections, run_ids: Sequence[UUID]) -> Ends:
    """Those of the runs that are there."""
    ends: dict[UUID, Any] = {}
    with translated():
        async with connections.acquire() as connection:
            for bucket, part in _by_bucket(run_ids).items():
                ends |= {record["run_id"]: record for record in await connection.fetch(SQL["get_ends"], bucket, part)}
    return ends


async def find_untold(pool: Pool, ends: Ends) -> dict[UUID, str]:
    """Those whose parent still waits for them, and which run that is: by the parent's row, which is closed for good.

    Were such a run deleted, the order to start it, which may be on its way again, would be carried out again.
    """
    waiting: dict[int, list[Parent]] = {}
    for end in ends.values():
        if (parent := parent_of(end["parent"])) is not None:
            waiting.setdefault(bucket_of(UUID(parent.run_id)), []).append(parent)
    untold: dict[UUID, str] = {}
    if not waiting:
        return untold
    with translated():
        async with pool.acquire() as connection:
            for bucket, parents in waiting.items():
                columns = zip(*((UUID(each.run_id), each.path, each.attempt) for each in parents), strict=True)
                for row in await connection.fetch(SQL["find_wanted"], bucket, *map(list, columns)):
                    untold[row["child_run_id"]] = run_id_text(row["run_id"])
    return {run_id: untold[run_id] for run_id in ends if run_id in untold}


async def delete_ended(pool: Pool, ends: Ends, *, wait: bool = False) -> set[UUID]:
    """Delete runs that are finished and still where they were seen: a transaction for each bucket. Those deleted.

    `wait`: for those that others hold; else they are passed by.
    """
    lock = SQL["wait_for_ended" if wait else "lock_ended"]
    deleted: set[UUID] = set()
    with translated():
        async with pool.acquire() as connection:
            for bucket, part in _by_bucket(ends).items():
                async with connection.transaction():
                    epochs = [ends[run_id]["epoch"] for run_id in part]
                    held = [each["run_id"] for each in await connection.fetch(lock, bucket, part, epochs)]
                    if held:
                        await connection.execute(SQL["delete_runs"], bucket, held)
                deleted.update(held)
            keys = [(ends[run_id]["namespace"], ends[run_id]["key"], run_id) for run_id in deleted]
            await _free_keys(connection, keys)
    return deleted


async def free_keys(pool: Pool, standing: Sequence[Standing]) -> None:
    """Free keys that stand for runs that were deleted."""
    with translated():
        async with pool.acquire() as connection:
            await _free_keys(connection, standing)


async def clear_tombstones(pool: Pool, limit: int) -> int:
    """Delete tombstones that nothing can come for any more, at most so many; how many there were."""
    deleted = 0
    with translated():
        async with pool.acquire() as connection:
            tombstones = await connection.fetch(SQL["find_tombstones"], limit)
            standing = [_of_tombstone(each["run_id"], **orjson.loads(each["error"])) for each in tombstones]
            freed = await _free_keys(connection, standing)
            for bucket, part in _by_bucket(freed).items():
                await connection.execute(SQL["renew_tombstones"], bucket, part)
            unnamed = [each["run_id"] for each in tombstones if each["run_id"] not in freed]
            for bucket, part in _by_bucket(unnamed).items():
                deleted += len(await connection.fetch(SQL["delete_tombstones"], bucket, part))
    return deleted


async def _free_keys(connection: Connection, standing: Sequence[Standing]) -> set[UUID]:
    """Free keys, a transaction for each bucket, unless they stand for others by now; the runs that they stood for."""
    parts: dict[tuple[int, str], list[tuple[str, UUID]]] = {}
    for namespace, key, run_id in standing:
        if key is not None:
            parts.setdefault((key_bucket(namespace, key), namespace), []).append((key, run_id))
    freed: set[UUID] = set()
    for (bucket, namespace), rows in parts.items():
        keys, run_ids = [key for key, _ in rows], [run_id for _, run_id in rows]
        records = await connection.fetch(SQL["free_start_keys"], bucket, namespace, keys, run_ids)
        freed.update(record["run_id"] for record in records)
    return freed


def _of_tombstone(run_id: UUID, namespace: str, key: str) -> Standing:
    return namespace, key, run_id


def _by_bucket(run_ids: Iterable[UUID]) -> dict[int, list[UUID]]:
    parts: dict[int, list[UUID]] = {}
    for run_id in run_ids:
        parts.setdefault(bucket_of(run_id), []).append(run_id)
    return parts
