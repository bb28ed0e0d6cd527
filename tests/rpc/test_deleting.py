"""Deleting finished runs: on request, and those that are kept no longer. Nothing of them stays, nothing else goes."""

from __future__ import annotations

import asyncio
import re
from importlib.resources import files
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from headway.api.events.v1 import events_pb2
from headway.api.runs.v1 import runs_pb2
from headway.coordinator.engine import deleting as engine_deleting
from headway.coordinator.engine.children import Children
from headway.coordinator.engine.deleting import Deletions
from headway.coordinator.rpc.refusing import STATUS
from headway.coordinator.store.deleting import find_expired
from headway.coordinator.store.errors import StoreUnavailable
from headway.coordinator.store.statements import SQL
from tests.rpc.children import DETACHED, GIVEN, LEAF, PARENT, begun, carry, carry_all, failed_child, handovers
from tests.rpc.test_lists import end
from tests.rpc.world import EVENT, ONE, TWO, World, refusal_of
from tests.store.test_plans import FILL

KEPT = "workflow: kept\nretention: {succeeded: 1h, failed: 2d}\nnodes:\n  work: {type: call, handler: h.work}\n"


async def delete(world: World, run_id: str, **fields: Any) -> bool:
    return (await world.first.runs.Delete(runs_pb2.DeleteRequest(run_id=run_id, **fields))).deleted


async def rows(world: World, run_id: str) -> dict[str, int]:
    """How many rows each table has of a run, whichever tables there are; a tombstone counts for nothing."""
    tables = await world.database.fetch(
        "SELECT table_name FROM information_schema.columns WHERE column_name = 'run_id' AND table_schema = 'public'"
    )
    counts = {
        name: await world.one(f"SELECT count(*) FROM {name} WHERE run_id = $1", UUID(run_id)) for (name,) in tables
    }
    counts["runs"] -= await world.one("SELECT count(*) FROM runs WHERE run_id = $1 AND namespace = ''", UUID(run_id))
    return {name: count for name, count in counts.items() if count}


async def rich(world: World) -> str:
    """A finished run with rows in as many tables as one can have."""
    await world.first.deploy(TWO, EVENT)
    run_id = await world.first.start("two", key="k", labels={"a": "1"})
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    await world.first.succeed(dispatch)
    second = await world.dispatch(run_id)
    await world.first.signal(run_id, "anything")
    await world.first.grant(second)
    await world.let_lease_expire(second)
    await world.first.reap(second)
    assert await world.first.succeed(second) == "STALE_ATTEMPT"  # which is written down
    again = await world.dispatch(run_id)
    await world.first.grant(again)
    await world.first.fail(again, final=True)
    await world.first.retry(run_id)
    third = await world.dispatch(run_id)
    await world.first.grant(third)
    await world.first.succeed(third)
    return run_id


async def test_a_deleted_run_leaves_no_row_in_any_table_and_its_key_is_free(world: World) -> None:
    run_id = await rich(world)
    other = await world.first.start("two", key="other")
    before, kept = await rows(world, run_id), await rows(world, other)
    assert before.keys() >= {"runs", "tasks", "outputs", "attempts", "run_events", "signals", "requests", "start_keys",
                             "stale_reports", "run_labels"}  # fmt: skip

    assert await delete(world, run_id)

    assert await rows(world, run_id) == {}
    assert await rows(world, other) == kept
    assert not await delete(world, run_id)
    assert (await refusal_of(world.first.get(run_id))).reason == "RUN_NOT_FOUND"
    assert await world.first.start("two", {"another": 1}, key="k") != run_id


def test_every_table_of_a_run_is_named_when_runs_are_deleted() -> None:
    schema = "".join(re.findall(r"CREATE TABLE .*?\n\)", _schema(), re.DOTALL))
    tables = {
        name for name, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", schema, re.DOTALL) if " run_id" in body
    }

    assert tables - {"outbox", "start_keys"} == set(re.findall(r"DELETE FROM (\w+)", SQL["delete_runs"]))


def _schema() -> str:

    return files("headway.coordinator.store").joinpath("migrations/0001_first.sql").read_text()


async def test_a_run_that_is_not_over_stays(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")

    refusal = await refusal_of(delete(world, run_id))

    assert refusal.reason == "RUN_NOT_FINISHED"
    assert await world.first.state(run_id) == "RUNNING"


async def test_a_run_of_another_namespace_is_not_there(world: World) -> None:
    run_id = await rich(world)

    assert not await delete(world, run_id, namespace="b")
    assert await world.first.state(run_id) == "SUCCEEDED"


async def test_what_comes_late_for_a_deleted_run_is_told_that_there_is_none(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    await world.first.cancel(run_id, request_id=str(uuid4()))
    await world.first.succeed(dispatch)
    await delete(world, run_id)

    assert await world.first.succeed(dispatch) == "TASK_NOT_FOUND"
    assert (await refusal_of(world.first.retry(run_id))).reason == "RUN_NOT_FOUND"


# --- parents and children


async def test_a_child_goes_on_when_its_parent_is_deleted_and_tells_nobody(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT.replace("input: {n", "timeout: 1m, input: {n"))
    await carry_all(world)
    dispatch = await world.dispatch(child)
    await world.first.grant(dispatch)
    due = await world.let_timers_come_due(parent)
    await world.first.fire([timer for timer in due if timer.kind == "total_timeout"])
    (stop,) = await handovers(world, "CancelChild")

    assert await delete(world, parent)
    await carry(world, stop)
    await world.first.succeed(dispatch)
    (told,) = await handovers(world, "ChildFinished")
    assert await carry(world, told) == [events_pb2.DELIVER_ANSWER_APPLIED]

    assert await world.first.state(child) == "CANCELLED"
    assert (await world.first.get(child)).run.parent.run_id == parent
    listed = runs_pb2.ListRequest(filter=runs_pb2.RunFilter(parent_run_id=parent))
    assert list((await world.first.runs.List(listed)).runs) == []
    assert await rows(world, parent) == {}


async def test_a_parent_that_waits_for_a_child_is_not_deleted(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT)
    await carry_all(world)
    await world.first.cancel(parent)
    assert await world.first.state(child) == "RUNNING"

    assert (await refusal_of(delete(world, parent))).reason == "RUN_NOT_FINISHED"


async def test_a_start_that_comes_after_its_parent_was_deleted_starts_nothing(world: World) -> None:
    parent, child = await begun(world, LEAF, DETACHED)
    (start,) = await handovers(world)
    await world.first.cancel(parent)
    (stop,) = await handovers(world, "CancelChild")
    assert await delete(world, parent)

    await carry(world, start)
    assert await world.one("SELECT count(*) FROM runs") == 0
    await carry(world, stop)

    assert await world.first.state(child) == "CANCELLED"
    assert await handovers(world) == []


async def work(world: World, run_id: str) -> None:
    """Do what a leaf has to do."""
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    await world.first.succeed(dispatch, 7)


async def test_what_a_deleted_child_gave_is_still_its_parents(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT)
    await carry_all(world)
    await work(world, child)
    await carry_all(world)

    assert await delete(world, child)

    task = await world.first.task(parent, "child")
    assert (task.output, task.child_run_id) == (b"7", child)
    await world.dispatches(parent)
    await world.first.cancel(parent)
    assert await world.first.state(parent) == "CANCELLED"


async def tell_nobody(*_: object) -> bool:
    return False


@pytest.mark.parametrize("order", ["start", "start, detached", "go on"])
async def test_a_child_stays_until_its_parent_was_told_so_that_no_order_that_comes_again_begins_it_again(
    world: World, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if order == "go on":
        parent, child = await failed_child(world)
        await world.first.retry(parent)
    else:
        parent, child = await begun(world, LEAF, DETACHED if "detached" in order else PARENT)
    (start,) = await handovers(world, "StartChild")
    with monkeypatch.context() as patched:
        patched.setattr(Children, "_tell", tell_nobody)  # as if it died before it told that it has started
        await carry(world, start)
    await work(world, child)

    refusal = await refusal_of(delete(world, child))
    await carry(world, start)
    assert (refusal.reason, refusal.metadata["parent"]) == ("END_NOT_TOLD", parent)
    assert await world.first.state(child) == "SUCCEEDED"

    await carry(world, *await handovers(world, "ChildFinished"))
    assert await delete(world, child)
    await carry(world, start)
    assert await world.one("SELECT count(*) FROM runs") == 1
    assert await world.one("SELECT count(*) FROM children") == (2 if order == "go on" else 1)


async def test_a_child_that_was_cancelled_by_itself_stays_until_its_parent_was_told(world: World) -> None:
    parent, child = await begun(world, LEAF, PARENT)
    await carry_all(world)
    await world.dispatches(child)
    await world.first.cancel(child)
    lost = await handovers(world, "ChildFinished")
    assert (await refusal_of(delete(world, child))).reason == "END_NOT_TOLD"
    await world.first.cancel(parent)

    await carry(world, *await handovers(world, "CancelChild"))
    await carry(world, *lost)
    await carry_all(world)

    assert await world.first.state(parent) == "CANCELLED"
    assert await delete(world, child)
    assert await delete(world, parent)


async def test_a_deletion_of_many_leaves_out_children_whose_parents_were_not_told(world: World) -> None:
    _, child = await begun(world, LEAF, PARENT)
    await carry_all(world)
    await work(world, child)
    other = await world.first.start("leaf", GIVEN)
    await work(world, other)

    for dry_run in (True, False):
        request = runs_pb2.BulkRequest(
            request_id=str(uuid4()),
            filter=runs_pb2.RunFilter(workflow="leaf"),
            delete=runs_pb2.BulkDelete(),
            dry_run=dry_run,
        )
        answers = (await world.first.runs.Bulk(request)).results
        assert {each.run_id: each.refusal.reason for each in answers} == {child: "END_NOT_TOLD", other: ""}
    assert (bool(await rows(world, child)), bool(await rows(world, other))) == (True, False)


MIDDLE = """
workflow: middle
nodes: {deep: {type: subflow, workflow: leaf, input: {n: 1}}}
"""
OUTER = """
workflow: outer
nodes: {child: {type: subflow, workflow: middle}}
"""


async def latest_child(world: World, parent: str) -> str:
    """The run of its only subflow node."""
    query = "SELECT child_run_id FROM children WHERE run_id = $1 ORDER BY attempt DESC LIMIT 1"
    child: UUID = await world.one(query, UUID(parent))
    return child.hex


async def all_failed(world: World) -> tuple[str, str, str]:
    """Three runs in one another, which have failed."""
    await world.first.deploy(LEAF, MIDDLE, OUTER)
    outer = await world.first.start("outer")
    await carry_all(world)
    middle = await latest_child(world, outer)
    leaf = await latest_child(world, middle)
    dispatch = await world.dispatch(leaf)
    await world.first.grant(dispatch)
    await world.first.fail(dispatch, final=True)
    await carry_all(world)
    assert [await world.first.state(each) for each in (outer, middle, leaf)] == ["FAILED"] * 3
    return outer, middle, leaf


async def test_a_retry_starts_another_run_for_a_child_that_was_deleted(world: World) -> None:
    parent, child = await failed_child(world)
    assert await delete(world, child)

    told = await world.first.retry(parent, dry_run=True)
    assert list(told.children) == []
    assert await world.first.retry(parent) == told
    await carry_all(world)
    other = await latest_child(world, parent)
    assert other != child
    dispatch = await world.dispatch(other)
    granted = await world.first.grant(dispatch)
    await world.first.succeed(dispatch, 5)
    await carry_all(world)

    assert granted.idempotency_key == f"{other}/work/1"
    assert (await world.first.task(parent, "child")).output == b"5"
    assert await world.one("SELECT count(*) FROM runs WHERE run_id = $1", UUID(child)) == 0
    listed = runs_pb2.ListRequest(filter=runs_pb2.RunFilter(parent_run_id=parent))
    assert [each.run_id for each in (await world.first.runs.List(listed)).runs] == [other]


@pytest.mark.parametrize("then", ["succeed", "cancel"])
@pytest.mark.parametrize("asked_before", [True, False])
@pytest.mark.parametrize("gone", [{"middle"}, {"leaf"}, {"middle", "leaf"}])
async def test_whatever_was_deleted_a_retry_ends_the_parent_and_so_does_a_cancel(
    world: World, gone: set[str], *, asked_before: bool, then: str
) -> None:
    outer, middle, leaf = await all_failed(world)
    if asked_before:
        (told,) = (await world.first.retry(outer, dry_run=True)).children
        assert told.run_id == middle
    for name in gone:
        assert await delete(world, {"middle": middle, "leaf": leaf}[name])

    answer = await world.first.retry(outer)
    await carry_all(world)

    assert [each.run_id for each in answer.children] == ([] if "middle" in gone else [middle])
    new_middle = await latest_child(world, outer)
    new_leaf = await latest_child(world, new_middle)
    assert (new_middle != middle) == ("middle" in gone)
    assert new_leaf != leaf
    for run_id, child in ((outer, new_middle), (new_middle, new_leaf)):
        (reason,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))).reasons
        assert reason.child_run_id == child
        assert await world.first.state(child) == "RUNNING"
    if then == "cancel":
        await world.first.cancel(outer)
    else:
        dispatch = await world.dispatch(new_leaf)
        await world.first.grant(dispatch)
        await world.first.succeed(dispatch, 5)
    await carry_all(world)
    wanted = "CANCELLED" if then == "cancel" else "SUCCEEDED"
    assert [await world.first.state(each) for each in (outer, new_middle, new_leaf)] == [wanted] * 3


@pytest.mark.parametrize("first", ["CancelChild", "StartChild"])
@pytest.mark.parametrize("gone", [{"middle"}, {"leaf"}, {"middle", "leaf"}])
async def test_a_cancel_that_crosses_the_order_to_go_on_to_a_child_that_was_deleted_ends_the_parent(
    world: World, gone: set[str], first: str
) -> None:
    outer, middle, leaf = await all_failed(world)
    for name in gone:
        assert await delete(world, {"middle": middle, "leaf": leaf}[name])
    await world.first.retry(outer)
    again = await handovers(world)
    await world.first.cancel(outer)
    stops = await handovers(world, "CancelChild")

    for given in (again, stops) if first == "StartChild" else (stops, again):
        await carry(world, *given, keep=True)
        await carry(world, *given)
    await carry_all(world)

    assert await world.first.state(outer) == "CANCELLED"
    assert await world.one("SELECT count(*) FROM runs WHERE state IN ('pending', 'running')") == 0
    assert await world.one("SELECT count(*) FROM children WHERE state = 'open'") == 0


async def test_a_child_that_is_gone_is_replaced_once_however_often_and_late_that_is_told(world: World) -> None:
    parent, child = await failed_child(world)
    await delete(world, child)
    await world.first.retry(parent)
    (again,) = await handovers(world, "StartChild")

    for _ in range(2):
        await carry(world, again, keep=True)
    await carry_all(world)
    other = await latest_child(world, parent)
    await carry(world, again)

    assert await handovers(world) == []
    assert await world.first.state(other) == "RUNNING"
    types = [event.type for event in await world.first.history(parent)]
    assert types.count("ChildFinished") == 2  # its failure, and that it is gone


async def test_what_replaces_a_child_that_is_gone_is_asked_for_when_a_paused_parent_is_resumed(world: World) -> None:
    parent, child = await failed_child(world)
    await delete(world, child)
    await world.first.retry(parent)
    await world.first.runs.Pause(runs_pb2.PauseRequest(run_id=parent, request_id=str(uuid4())))

    await carry_all(world)
    (reason,) = (await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=parent))).reasons
    assert "when the run is resumed" in reason.message
    await world.first.runs.Resume(runs_pb2.ResumeRequest(run_id=parent, request_id=str(uuid4())))
    await carry_all(world)

    other = await latest_child(world, parent)
    assert other != child
    assert await world.first.state(other) == "RUNNING"


# --- retention


def deletions(world: World) -> Deletions:
    return Deletions(world.first.engine)


async def age(world: World, run_id: str, hours: float) -> None:
    await world.database.execute(
        "UPDATE runs SET finished_at = now() - $2 * interval '1 hour' WHERE run_id = $1", UUID(run_id), hours
    )


async def test_runs_are_deleted_when_their_definition_keeps_them_no_longer(world: World) -> None:
    await world.first.deploy(KEPT, ONE)
    ids = {name: await world.first.start("kept") for name in ("old", "young", "failed", "long failed", "cancelled")}
    ids |= {"open": await world.first.start("kept"), "for ever": await world.first.start("one")}
    for name in ("old", "young", "failed", "long failed", "for ever"):
        await end(world, ids[name], fail="failed" in name)
    await world.first.cancel(ids["cancelled"])
    for name, hours in {
        "old": 2,
        "young": 0.5,
        "failed": 47,
        "long failed": 49,
        "cancelled": 999,
        "for ever": 9999,
    }.items():
        await age(world, ids[name], hours)

    assert await deletions(world).sweep() == 2

    there = {name for name, run_id in ids.items() if await rows(world, run_id)}
    assert there == ids.keys() - {"old", "long failed"}


async def test_batches_go_on_until_nothing_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.coordinator.engine.deleting.BATCH", 2)
    await world.first.deploy(KEPT)
    ids = [await world.first.start("kept", key=f"k{number}") for number in range(5)]
    for run_id in ids:
        await end(world, run_id)
        await age(world, run_id, 2)

    assert await deletions(world).sweep() == 5
    assert await world.one("SELECT count(*) FROM start_keys") == 0


async def test_no_more_are_found_at_once_than_are_asked_for_whichever_definitions_they_are_of(world: World) -> None:
    await world.first.deploy(KEPT, KEPT.replace("workflow: kept", "workflow: other"))
    for workflow in ("kept", "other") * 2:
        run_id = await world.first.start(workflow)
        await end(world, run_id)
        await age(world, run_id, 2)

    found = [len(await find_expired(world.first.engine.pool, most, [])) for most in (1, 3, 9)]

    assert found == [1, 3, 4]


async def test_children_whose_parents_were_not_told_stay_and_hold_up_no_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.coordinator.engine.deleting.BATCH", 1)
    _, child = await begun(world, LEAF.replace("workflow: leaf", "workflow: leaf\nretention: 1h"), PARENT)
    await carry_all(world)
    others = [await world.first.start("leaf", GIVEN) for _ in range(2)]
    for run_id, hours in zip((child, *others), (4, 3, 2), strict=True):
        await work(world, run_id)
        await age(world, run_id, hours)

    assert await deletions(world).sweep() == 2
    assert await world.first.state(child) == "SUCCEEDED"
    await carry_all(world)
    assert await deletions(world).sweep() == 1


async def test_a_run_that_somebody_holds_is_waited_for(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    await work(world, run_id)

    async with world.locked("SELECT 1 FROM runs WHERE run_id = $1 FOR UPDATE", UUID(run_id)):
        deleting = asyncio.ensure_future(delete(world, run_id))
        await world.until_blocked()
        assert not deleting.done()

    assert await deleting
    assert await rows(world, run_id) == {}


async def test_a_run_that_is_never_where_it_was_seen_is_to_be_deleted_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_deleted(*_: object, **__: object) -> set[UUID]:
        return set()

    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    await work(world, run_id)
    monkeypatch.setattr(engine_deleting, "delete_ended", none_deleted)

    refused = await refusal_of(delete(world, run_id))

    assert (refused.code, refused.reason) == (STATUS["STORE_UNAVAILABLE"], "STORE_UNAVAILABLE")


async def test_a_look_that_the_database_fails_is_followed_by_the_next_and_by_clearing_up(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = 0
    cleared: list[int] = []
    again = asyncio.Event()

    async def sweep(_: Deletions) -> int:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise StoreUnavailable("it is gone")
        return 0

    async def clear(_: Deletions) -> None:
        cleared.append(looks)
        again.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(engine_deleting, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(Deletions, "sweep", sweep)
    monkeypatch.setattr(Deletions, "clear", clear)

    deletions(world)
    await again.wait()

    assert cleared == [2]

    (said,) = [record for record in caplog.records if "does not serve" in record.getMessage()]
    assert (said.levelname, getattr(said, "fault", None)) == ("WARNING", "it is gone")


async def test_two_coordinators_that_delete_the_same_runs_delete_each_once(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(KEPT)
    ids = [await world.first.start("kept", key=f"k{number}") for number in range(20)]
    for run_id in ids:
        await end(world, run_id)
        await age(world, run_id, 2)

    counts = await asyncio.gather(deletions(world).sweep(), Deletions(other.engine).sweep())

    assert sum(counts) + await deletions(world).sweep() == 20
    assert await world.one("SELECT count(*) FROM start_keys") == 0


async def test_a_retry_that_comes_while_a_run_is_being_deleted_finds_none(world: World) -> None:
    await world.first.deploy(KEPT)
    run_id = await world.first.start("kept", key="k")
    await end(world, run_id, fail=True)
    async with world.watcher() as watching, world.hold("signals"):
        deleting_it = asyncio.create_task(delete(world, run_id))
        await watching.until_blocked()
        retrying = asyncio.create_task(refusal_of(world.first.retry(run_id)))
        await asyncio.sleep(0)

    assert await deleting_it
    assert (await retrying).reason == "RUN_NOT_FOUND"
    assert await rows(world, run_id) == {}


async def test_what_has_expired_is_found_by_the_index_on_ends(database: asyncpg.Connection[asyncpg.Record]) -> None:
    await database.execute(f"{FILL}; ANALYZE runs")
    await database.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
    await database.execute(f"PREPARE expired AS {SQL['find_expired']}")

    plan = [record[0] for record in await database.fetch("EXPLAIN EXECUTE expired(NULL, NULL, NULL, NULL)")]

    (place,) = [place for place, line in enumerate(plan) if re.search(r" on runs\b", line)]
    assert "using runs_by_end" in plan[place]
    assert re.search(r"workflow = .*version = .*state = .*failure_class = .*finished_at <", plan[place + 1])
