"""Deletes finished runs, and finds those that are kept no longer.

A run's key is freed before the run is gone, in a transaction of its own, as it is in a bucket of its own: whoever uses
the key then starts another run. Were it freed afterwards, a start in between would be made under the old run's id, and
lose its key. A run that turns out not to be deleted gets its key back, unless somebody has it by then.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

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


async def delete_ended(pool: Pool, ends: Ends) -> set[UUID]:
    """Delete runs that are finished and still where they were seen: a transaction for each bucket. Those deleted."""
    deleted: set[UUID] = set()
    with translated():
        async with pool.acquire() as connection:
            freed = await _free_keys(connection, ends)
            for bucket, part in _by_bucket(ends).items():
                async with connection.transaction():
                    epochs = [ends[run_id]["epoch"] for run_id in part]
                    held = [each["run_id"] for each in await connection.fetch(SQL["lock_ended"], bucket, part, epochs)]
                    if held:
                        await connection.execute(SQL["delete_runs"], bucket, held)
                deleted.update(held)
            await _give_back(connection, [record for record in freed if record["run_id"] not in deleted])
    return deleted


async def _free_keys(connection: Connection, ends: Ends) -> list[Any]:
    parts: dict[tuple[int, str], list[tuple[str, UUID]]] = {}
    for run_id, end in ends.items():
        if end["key"] is not None:
            parts.setdefault((key_bucket(end["namespace"], end["key"]), end["namespace"]), []).append(
                (end["key"], run_id)
            )
    freed: list[Any] = []
    for (bucket, namespace), rows in sorted(parts.items()):
        keys, run_ids = [key for key, _ in rows], [run_id for _, run_id in rows]
        freed += await connection.fetch(SQL["free_start_keys"], bucket, namespace, keys, run_ids)
    return freed


async def _give_back(connection: Connection, freed: Sequence[Any]) -> None:
    """Give keys back to the runs that are there; it is waited for those that another is deleting."""
    run_ids = [record["run_id"] for record in freed]
    there: set[UUID] = set()
    for bucket, part in _by_bucket(run_ids).items():
        there.update(each["run_id"] for each in await connection.fetch(SQL["wait_for_ends"], bucket, part))
    for record in freed:
        if record["run_id"] in there:
            bucket = key_bucket(record["namespace"], record["key"])
            row = [record["namespace"]], [record["key"]], [record["run_id"]], [record["digest"]]
            await connection.fetch(SQL["claim_start_keys"], bucket, *row)


def _by_bucket(run_ids: Iterable[UUID]) -> dict[int, list[UUID]]:
    parts: dict[int, list[UUID]] = {}
    for run_id in sorted(run_ids):
        parts.setdefault(bucket_of(run_id), []).append(run_id)
    return parts
