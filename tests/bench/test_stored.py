"""Runs stored in bulk are what the engine itself would have written."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from bench import stored
from bench.stored import NotMultipliable, multiply, require_multipliable, store, tables_of_runs
from headway.api.runs.v1 import runs_pb2
from headway.coordinator.ids import bucket_of, parse_run_id
from tests.rpc.world import TWO, World

INSTANTS = re.compile(rb"\xd6\xff.{4}|\xd7\xff.{8}", re.DOTALL)  # MessagePack's timestamps
FRESH = "CREATE TEMPORARY TABLE fresh AS SELECT $1::smallint AS bucket, $2::uuid AS run_id"

Rows = dict[str, list[dict[str, Any]]]


async def finished_run(world: World) -> UUID:
    """A run of two nodes that really ran."""
    run_id = await world.first.start("two", {"n": 0})
    for output in ({"n": 1}, {"n": 2}):
        dispatch = await world.dispatch(run_id)
        await world.first.lease(dispatch)
        assert await world.first.succeed(dispatch, output) == "ACCEPTED"
    assert await world.first.state(run_id) == "SUCCEEDED"
    return UUID(run_id)


async def rows_of(world: World, run_id: UUID) -> Rows:
    """A run's rows by table, in an order of their own."""
    found: Rows = {}
    for table in await tables_of_runs(world.database):
        records = await world.database.fetch(f"SELECT * FROM {table.name} WHERE run_id = $1", run_id)
        found[table.name] = sorted((timeless(dict(record)) for record in records), key=str)
    return found


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its instants: two runs never have the same."""
    return {name: without_instants(value) for name, value in row.items()}


def without_instants(value: Any) -> Any:
    if isinstance(value, datetime):
        return "an instant"
    return INSTANTS.sub(b"an instant", value) if isinstance(value, bytes) else value


async def remove(world: World, run_id: UUID) -> None:
    for table in await tables_of_runs(world.database):
        await world.database.execute(f"DELETE FROM {table.name} WHERE run_id = $1", run_id)


async def test_a_copy_has_column_by_column_what_the_engine_wrote_for_a_run_of_that_id(world: World) -> None:
    await world.first.deploy(TWO)
    template, other = await finished_run(world), await finished_run(world)
    wanted = await rows_of(world, other)
    await remove(world, other)
    await world.database.execute(FRESH.replace("$1", str(bucket_of(other))).replace("$2", f"'{other}'"))
    await multiply(world.database, await tables_of_runs(world.database), template)
    await world.database.execute("DROP TABLE fresh")

    copied = await rows_of(world, other)
    assert {name for name, rows in wanted.items() if rows} >= {"runs", "tasks", "outputs", "run_events"}
    assert copied == wanted


async def test_copying_there_and_back_changes_nothing_at_all(world: World) -> None:
    await world.first.deploy(TWO)
    template = await finished_run(world)
    before = await world.rows_of(template.hex)
    there = UUID(bytes=bytes(14) + template.bytes[14:])
    for source, target in ((template, there), (there, template)):
        await world.database.execute(FRESH.replace("$1", str(bucket_of(target))).replace("$2", f"'{target}'"))
        await multiply(world.database, await tables_of_runs(world.database), source)
        await world.database.execute("DROP TABLE fresh")
        await remove(world, source)

    assert await world.rows_of(template.hex) == before


async def test_stored_runs_are_finished_runs_of_the_api_in_the_bucket_of_their_ids(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "AT_A_TIME", 8)
    await world.first.deploy(TWO)
    template = await finished_run(world)
    await store(world.database, template.hex, 20)

    runs = (
        await world.first.runs.List(
            runs_pb2.ListRequest(filter=runs_pb2.RunFilter(states=[runs_pb2.RUN_STATE_SUCCEEDED]))
        )
    ).runs
    assert len(runs) == 21
    buckets = {bucket_of(parse_run_id(run.run_id)) for run in runs}
    assert buckets == {0, 1}
    original = await world.first.get(template.hex)
    for run in runs:
        copy = await world.first.get(run.run_id)
        assert [task.output for task in copy.tasks] == [task.output for task in original.tasks]
        assert await world.first.history(run.run_id) == await world.first.history(template.hex)
    for table in await tables_of_runs(world.database):
        assert (
            await world.one(
                f"SELECT count(*) FROM {table.name} WHERE bucket <> ('x' || right(run_id::text, 4))::bit(16)::int"
            )
            == 0
        )


async def test_a_run_whose_rows_name_it_elsewhere_is_refused(world: World) -> None:
    await world.first.deploy(TWO)
    run_id = await world.first.start("two")
    dispatch = await world.dispatch(run_id)
    await world.first.lease(dispatch)
    await world.first.succeed(dispatch, {"me": run_id})

    with pytest.raises(NotMultipliable, match="outputs: data"):
        await require_multipliable(world.database, await tables_of_runs(world.database), UUID(run_id))
