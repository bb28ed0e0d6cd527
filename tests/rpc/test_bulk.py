"""One thing done to many runs: which are meant, what becomes of each, and that it can be broken off at any time."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from headway.coordinator.core.machines import RunState
from headway.coordinator.rpc.bulk import OPERATIONS
from tests.rpc.test_lists import end
from tests.rpc.world import EVENT, ONE, World, refusal_of

CANCEL = {"cancel": runs_pb2.BulkCancel(reason="clean up")}
RETRY = {"retry": runs_pb2.BulkRetry()}
STATES = (runs_pb2.RUN_STATE_RUNNING, runs_pb2.RUN_STATE_SUCCEEDED, runs_pb2.RUN_STATE_FAILED)
Results = list[tuple[str, str]]


async def bulk(world: World, operation: dict[str, Any], size: int = 50, pages: int = 99, **fields: Any) -> Results:
    """Do it page by page; each run with the reason for which nothing was done."""
    results: Results = []
    wanted: dict[str, Any] = fields.pop("filter", {"workflow": "one"})
    given: dict[str, Any] = {**operation, "request_id": str(uuid4()), **fields}
    request = runs_pb2.BulkRequest(
        filter=runs_pb2.RunFilter(**wanted),
        page_size=size,
        **given,
    )
    for _ in range(pages):
        response = await world.first.runs.Bulk(request)
        results += [(result.run_id, result.refusal.reason) for result in response.results]
        request.page_token = response.next_page_token
        if not response.next_page_token:
            break
    return results


async def states(world: World, ids: list[str]) -> list[str]:
    return [await world.first.state(run_id) for run_id in ids]


async def test_a_bulk_cancel_stops_the_open_runs_that_are_meant_and_no_others(world: World) -> None:
    await world.first.deploy(ONE, EVENT)
    ids = [await world.first.start("one") for _ in range(5)]
    other = await world.first.start("waiting")
    await end(world, ids[1])

    results = await bulk(world, CANCEL, size=2)

    assert results == [(run_id, "") for run_id in (ids[4], ids[3], ids[2], ids[0])]
    assert await states(world, [*ids, other]) == ["CANCELLED", "SUCCEEDED", *["CANCELLED"] * 3, "RUNNING"]


async def test_a_dry_run_says_which_runs_are_meant_and_changes_nothing(world: World) -> None:
    await world.first.deploy(ONE)
    ids = [await world.first.start("one") for _ in range(3)]

    results = await bulk(world, CANCEL, size=2, dry_run=True)

    assert results == [(run_id, "") for run_id in ids[::-1]]
    assert await states(world, ids) == ["RUNNING"] * 3
    assert await world.one("SELECT count(*) FROM requests") == 0


async def test_each_run_is_judged_by_itself(world: World) -> None:
    await world.first.deploy(ONE)
    failed, good, running = [await world.first.start("one") for _ in range(3)]
    await end(world, failed, fail=True)
    await end(world, good)

    named = {"workflow": "one", "states": [runs_pb2.RUN_STATE_RUNNING, runs_pb2.RUN_STATE_SUCCEEDED,
                                           runs_pb2.RUN_STATE_FAILED]}  # fmt: skip
    results = await bulk(world, {"retry": runs_pb2.BulkRetry(render_inputs=True)}, filter=named)

    retried = next(event for event in await world.first.history(failed) if event.type == "RunRetried")
    assert b'"render_inputs":true' in retried.event
    assert results == [(running, "RUN_NOT_FINISHED"), (good, "NOTHING_TO_RETRY"), (failed, "")]
    assert await states(world, [failed, good, running]) == ["RUNNING", "SUCCEEDED", "RUNNING"]


@pytest.mark.parametrize(
    ("operation", "named", "reasons"),
    [
        ({"skip": runs_pb2.BulkSkip(node="nowhere")}, {}, ["NODE_NOT_FOUND"] * 2),
        ({"skip": runs_pb2.BulkSkip(node="work")}, {}, ["RUN_NOT_HELD", ""]),
        (RETRY, {"states": [*STATES]}, ["RUN_NOT_FINISHED", "NOTHING_TO_RETRY", ""]),
        ({"retry": runs_pb2.BulkRetry(from_nodes=["nowhere"])}, {}, ["NODE_NOT_FOUND"]),
        (CANCEL, {"states": [*STATES]}, ["", "RUN_CLOSED", "RUN_CLOSED"]),
        ({"pause": runs_pb2.BulkPause()}, {"states": [*STATES]}, ["", "RUN_CLOSED", "RUN_CLOSED"]),
        ({"resume": runs_pb2.BulkResume()}, {"states": [*STATES]}, ["", "RUN_CLOSED", "RUN_CLOSED"]),
        ({"delete": runs_pb2.BulkDelete()}, {"states": [*STATES]}, ["RUN_NOT_FINISHED", "", ""]),
    ],
)
async def test_a_dry_run_refuses_what_the_real_one_would_and_writes_nothing(
    operation: dict[str, Any], named: dict[str, Any], reasons: list[str], world: World
) -> None:
    await world.first.deploy(ONE)
    failed, good, _ = [await world.first.start("one") for _ in range(3)]
    await end(world, failed, fail=True)
    await end(world, good)
    wanted = {"workflow": "one", **named}
    before = await world.database.fetch("SELECT * FROM runs"), await world.database.fetch("SELECT * FROM tasks")

    dry = await bulk(world, operation, filter=wanted, dry_run=True)

    assert [reason for _, reason in dry] == reasons
    assert (
        await world.database.fetch("SELECT * FROM runs"),
        await world.database.fetch("SELECT * FROM tasks"),
    ) == before
    assert await bulk(world, operation, filter=wanted) == dry


@pytest.mark.parametrize(
    ("operation", "meant"),
    [
        (CANCEL, {"running"}),
        (RETRY, {"failed", "cancelled"}),
        ({"pause": runs_pb2.BulkPause()}, {"running"}),
        ({"skip": runs_pb2.BulkSkip(node="work")}, {"running", "failed"}),
        ({"delete": runs_pb2.BulkDelete()}, {"succeeded", "failed", "cancelled"}),
    ],
)
async def test_where_no_states_are_named_those_are_meant_in_which_it_can_be_done(
    operation: dict[str, Any], meant: set[str], world: World
) -> None:
    await world.first.deploy(ONE)
    ids = {name: await world.first.start("one") for name in ("running", "succeeded", "failed", "cancelled")}
    await end(world, ids["succeeded"])
    await end(world, ids["failed"], fail=True)
    await world.first.cancel(ids["cancelled"])

    found = await bulk(world, operation, dry_run=True)

    assert {run_id for run_id, _ in found} == {ids[name] for name in meant}


async def test_what_is_broken_off_goes_on_when_it_is_repeated_and_nothing_is_done_twice(world: World) -> None:
    await world.first.deploy(ONE)
    ids = [await world.first.start("one") for _ in range(6)]
    for run_id in ids:
        await end(world, run_id, fail=True)
    request_id = str(uuid4())

    first = await bulk(world, RETRY, size=2, pages=2, request_id=request_id)
    for run_id, _ in first[:1]:
        await end(world, run_id, fail=True)  # it failed again: the same request must not retry it again
    rest = await bulk(world, RETRY, size=2, request_id=request_id)

    assert [run_id for run_id, _ in first] == ids[:1:-1]
    assert rest == [(run_id, "") for run_id in (ids[5], ids[1], ids[0])]
    assert [(await world.first.get(run_id)).run.epoch for run_id in ids] == [2] * 6


async def test_two_that_do_the_same_at_the_same_time_do_it_once(world: World) -> None:
    await world.first.deploy(ONE)
    ids = [await world.first.start("one") for _ in range(8)]
    for run_id in ids:
        await end(world, run_id, fail=True)
    request_id = str(uuid4())

    both = await asyncio.gather(*(bulk(world, RETRY, size=3, request_id=request_id) for _ in range(2)))

    assert {run_id for results in both for run_id, _ in results} == {*ids}
    assert {reason for results in both for _, reason in results} == {""}
    assert [(await world.first.get(run_id)).run.epoch for run_id in ids] == [2] * 8


async def test_runs_are_paused_helped_over_a_node_and_resumed_each_judged_by_itself(world: World) -> None:
    await world.first.deploy(ONE)
    failed, first, second = [await world.first.start("one") for _ in range(3)]
    await end(world, failed, fail=True)
    await bulk(world, {"pause": runs_pb2.BulkPause(reason="held")}, filter={"run_id_prefix": first})
    node = (await world.first.get(first)).tasks[0].path
    skip = {"skip": runs_pb2.BulkSkip(node=node, output=b'{"by": "hand"}', reason="known")}

    skipped = await bulk(world, skip)
    paused = await bulk(world, {"pause": runs_pb2.BulkPause(reason="all", pause_clock=True)})
    held = (await world.first.get(second)).run
    resumed = await bulk(world, {"resume": runs_pb2.BulkResume()})

    assert skipped == [(second, "RUN_NOT_HELD"), (first, ""), (failed, "")]
    assert await states(world, [failed, first]) == ["SUCCEEDED", "SUCCEEDED"]
    assert paused == resumed == [(second, "")]
    assert (held.pause_reason, held.clock_paused) == ("all", True)
    assert [event.type for event in await world.first.history(second)][-2:] == ["RunPaused", "RunResumed"]


async def test_a_resume_means_paused_runs_and_a_filter_can_say_so(world: World) -> None:
    await world.first.deploy(ONE)
    first, running, second, failed = [await world.first.start("one", labels={"team": "red"}) for _ in range(4)]
    await end(world, failed, fail=True)
    for run_id in (first, second):
        await bulk(world, {"pause": runs_pb2.BulkPause()}, filter={"run_id_prefix": run_id})
    node = (await world.first.get(first)).tasks[0].path
    skip = {"skip": runs_pb2.BulkSkip(node=node, output=b"1")}

    skipped = await bulk(world, skip, dry_run=True, filter={"paused": True})
    resumed = await bulk(world, {"resume": runs_pb2.BulkResume()}, size=1, filter={"labels": {"team": "red"}})
    named = {"workflow": "one", "states": [runs_pb2.RUN_STATE_RUNNING, runs_pb2.RUN_STATE_FAILED]}
    judged = await bulk(world, {"resume": runs_pb2.BulkResume()}, filter=named)

    assert skipped == resumed == [(second, ""), (first, "")]
    assert judged == [(failed, "RUN_CLOSED"), (second, ""), (running, ""), (first, "")]


async def test_a_bulk_delete_removes_finished_runs(world: World) -> None:
    await world.first.deploy(ONE)
    ids = [await world.first.start("one") for _ in range(3)]
    await end(world, ids[0])

    results = await bulk(world, {"delete": runs_pb2.BulkDelete()})

    assert results == [(ids[0], "")]
    assert await world.one("SELECT count(*) FROM runs") == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"filter": {}}, "filter"),
        ({"operation": {}}, "operation"),
        ({"size": 201}, "page_size"),
        ({"operation": {"skip": runs_pb2.BulkSkip()}}, "skip.node"),
        ({"filter": {"failure_class": "x"}}, "filter.failure_class"),
    ],
)
async def test_what_would_mean_too_much_or_nothing_is_refused(fields: dict[str, Any], field: str, world: World) -> None:
    given: dict[str, Any] = {"operation": CANCEL, **fields}

    refusal = await refusal_of(bulk(world, **given))

    assert (refusal.code, refusal.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, field)


def test_every_operation_of_the_protocol_is_in_the_table() -> None:
    names = {field.name for field in runs_pb2.BulkRequest.DESCRIPTOR.oneofs_by_name["operation"].fields}

    assert names == {*OPERATIONS}
    assert all(operation.states <= {*RunState} for operation in OPERATIONS.values())
