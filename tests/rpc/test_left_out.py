"""What an answer has no room for is left out, says so, and can be had another way."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from headway.coordinator.ids import bucket_of
from headway.coordinator.rpc import messages
from headway.coordinator.store import reading
from tests.rpc.world import ONE, Coordinator, World, refusal_of, succeeded

MIB = 1 << 20
SMALLEST = 4 * MIB  # of HEADWAY_MESSAGE_LIMIT
ABREAST = "workflow: abreast\nnodes:\n" + "".join(f"  n{each}: {{type: call, handler: h}}\n" for each in range(25))
AGAIN = "workflow: again\nnodes:\n  a: {type: call, handler: h, retry: {max_attempts: 9, initial: 1ms, max: 1ms}}\n"
MAP = (
    "workflow: mapped\nnodes:\n"
    "  each: {type: map, over: '${input}', tolerate: {percent: 90}, body: {type: call, handler: h}}\n"
)
PASSED_ON = (
    "workflow: passed_on\nnodes:\n  work: {type: call, handler: h}\n"
    "  end: {type: finish, output: '${nodes.work.output}'}\nedges: [[work, end]]\n"
)
LARGEST = "x" * (MIB - 2)


async def work(world: World, run_id: str, output: object) -> None:
    dispatches = await world.dispatches(run_id)
    await world.first.lease_all(dispatches)
    await world.first.report("w1", *[succeeded(each, output) for each in dispatches])


async def one_task(coordinator: Coordinator, run_id: str, path: str) -> runs_pb2.GetResponse:
    return await coordinator.runs.Get(runs_pb2.GetRequest(run_id=run_id, path=path))


async def test_outputs_that_do_not_fit_are_told_with_their_size_and_each_is_had_by_its_path(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ABREAST)
    run_id = await world.first.start("abreast")
    await work(world, run_id, "x" * 998)
    monkeypatch.setattr(messages, "PAGE_BYTES", 5_000)

    shown = (await world.first.get(run_id)).tasks
    without = [task for task in shown if not task.output]

    assert len(without) == 25 - 4
    assert [task.output_left_out for task in shown] == [0] * 4 + [1_000] * 21
    (alone,) = (await one_task(world.first, run_id, without[-1].path)).tasks
    assert (alone.path, len(alone.output), alone.output_left_out) == (without[-1].path, 1_000, 0)


async def test_the_largest_output_is_told_with_its_size_and_had_whole_within_the_smallest_limit(world: World) -> None:
    coordinator = await world.coordinator(message_limit=SMALLEST)
    await coordinator.deploy(PASSED_ON)
    run_id = await coordinator.start("passed_on", LARGEST)
    await work(world, run_id, LARGEST)

    in_run, _ = (await coordinator.get(run_id)).tasks
    alone = await one_task(coordinator, run_id, "work")

    assert (in_run.output, in_run.output_left_out) == (b"", MIB)
    assert (len(alone.tasks[0].output), alone.tasks[0].output_left_out) == (MIB, 0)
    assert (len(alone.run.input), len(alone.run.output)) == (MIB, MIB)


async def test_an_output_of_none_is_none_that_is_left_out(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    before = await world.first.task(run_id, "work")
    await work(world, run_id, None)

    after = await world.first.task(run_id, "work")

    assert (before.output, before.output_left_out) == (b"", 0)
    assert (after.output, after.output_left_out) == (b"null", 0)


async def test_of_many_attempts_the_latest_keep_their_errors_and_the_others_say_that_they_do_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(AGAIN)
    run_id = await world.first.start("again")
    for each in range(7):
        await world.first.fire(await world.let_timers_come_due(run_id))
        dispatch = await world.dispatch(run_id)
        await world.first.grant(dispatch)
        await world.first.fail(dispatch, message=f"no. {each}", trace="t" * 1_000)
    monkeypatch.setattr(messages, "PAGE_BYTES", 3_500)

    task = await world.first.task(run_id, "a")
    errors = [attempt.error for attempt in task.attempts]

    assert [attempt.attempt for attempt in task.attempts] == [1, 2, 3, 4, 5, 6, 7]
    assert [error.left_out for error in errors] == [True] * 5 + [False] * 2
    assert [error.message for error in errors] == [""] * 5 + ["no. 5", "no. 6"]
    assert {(error.type, error.failure_class) for error in errors} == {("Broken", "exec_failed")}
    assert (task.error.message, task.error.left_out) == ("no. 6", False)
    history = await world.first.runs.GetHistory(runs_pb2.GetHistoryRequest(run_id=run_id, page_size=3))
    assert any(json.loads(event.event).get("failure", {}).get("message") == "no. 0" for event in history.events)


async def test_the_last_failure_of_a_task_goes_before_outputs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.first.deploy(ABREAST)
    run_id = await world.first.start("abreast")
    *others, last = sorted(await world.dispatches(run_id), key=lambda each: each.path)
    await world.first.lease_all([*others, last])
    await world.first.report("w1", *[succeeded(each, "x" * 998) for each in others])
    await world.first.fail(last, message="on fire", trace="t" * 1_000)
    monkeypatch.setattr(messages, "PAGE_BYTES", 2_500)

    shown = {task.path: task for task in (await world.first.get(run_id)).tasks}
    monkeypatch.setattr(messages, "PAGE_BYTES", 500)
    none = {task.path: task for task in (await world.first.get(run_id)).tasks}

    assert (shown[last.path].error.message, sum(bool(task.output) for task in shown.values())) == ("on fire", 1)
    assert (none[last.path].error.type, none[last.path].error.left_out) == ("Broken", True)


async def test_results_of_items_that_are_left_out_of_large_pages_are_on_small_ones(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(MAP)
    run_id = await world.first.start("mapped", list(range(8)))
    await work(world, run_id, "x" * 998)
    monkeypatch.setattr(messages, "PAGE_BYTES", 2_000)
    monkeypatch.setattr(reading, "OUTPUT_LIMIT", 100)

    async def page(first: int, size: int) -> list[runs_pb2.Item]:
        request = runs_pb2.ListItemsRequest(run_id=run_id, path="each", from_index=first, page_size=size)
        return list((await world.first.runs.ListItems(request)).items)

    large, small = await page(0, 1_000), await page(3, 2)

    assert [(item.output, item.output_left_out) for item in large] == [(b"", 1_000)] * 8
    assert [(item.index, len(item.output), item.output_left_out) for item in small] == [(3, 1_000, 0), (4, 1_000, 0)]


async def test_the_largest_result_of_an_item_is_had_within_the_smallest_limit(world: World) -> None:
    coordinator = await world.coordinator(message_limit=SMALLEST)
    await coordinator.deploy(MAP)
    run_id = await coordinator.start("mapped", [1])
    await work(world, run_id, LARGEST)

    request = runs_pb2.ListItemsRequest(run_id=run_id, path="each", page_size=2)
    (item,) = (await coordinator.runs.ListItems(request)).items

    assert len(item.output) == MIB


@pytest.mark.parametrize("count", [2, 3])
async def test_whether_there_were_earlier_stale_reports_is_told(
    world: World, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "STALE_REPORTS", 2)
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    for each in range(count):
        await world.database.execute(
            "INSERT INTO stale_reports (bucket, run_id, path, attempt, owner, answer, at)"
            " VALUES ($1, $2, 'work', $3, 'w', 'STALE_ATTEMPT', $4)",
            *(bucket_of(UUID(run_id)), UUID(run_id), each, datetime.now(UTC) + timedelta(seconds=each)),
        )

    shown = await world.first.get(run_id)

    assert [late.attempt for late in shown.stale_reports] == [count - 2, count - 1]
    assert shown.more_stale_reports is (count > 2)


async def test_of_many_items_that_failed_some_are_explained_and_the_others_counted(world: World) -> None:
    await world.first.deploy(MAP)
    run_id = await world.first.start("mapped", list(range(8)))
    for dispatch in sorted(await world.dispatches(run_id), key=lambda each: each.path):
        await world.first.grant(dispatch)
        await world.first.fail(dispatch)

    found = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))

    assert [each.path for each in found.reasons] == ["each", *[f"each[{index}].step" for index in range(5)]]
    assert found.left_out == 3


async def test_of_many_tasks_that_failed_some_are_explained_and_the_others_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ABREAST)
    run_id = await world.first.start("abreast")
    dispatches = await world.dispatches(run_id)
    await world.first.lease_all(dispatches)
    for dispatch in dispatches:
        await world.first.fail(dispatch, trace="t" * 1_000)

    found = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))
    monkeypatch.setattr(messages, "PAGE_BYTES", 3_500)
    short = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))

    assert (len(found.reasons), found.left_out) == (20, 5)
    assert not any(each.error.left_out for each in found.reasons)
    assert [each.error.left_out for each in short.reasons] == [False] * 3 + [True] * 17
    assert {each.error.type for each in short.reasons} == {"Broken"}


async def test_a_long_error_of_a_run_shows_that_it_was_cut(world: World) -> None:
    await world.first.deploy(
        "workflow: ends\nnodes:\n  end: {type: finish, outcome: failed, message: '${input.m}'}\n",
    )
    whole = await world.first.start("ends", {"m": "m" * messages.ERROR_LIMIT})
    cut = await world.first.start("ends", {"m": "m" * messages.ERROR_LIMIT + "n"})

    told = [(await world.first.get(run_id)).run.error.message for run_id in (whole, cut)]

    assert told == ["m" * messages.ERROR_LIMIT, "m" * messages.ERROR_LIMIT + " …"]


async def test_a_path_names_one_task_that_the_workflow_has(world: World) -> None:
    await world.first.deploy(MAP)
    run_id = await world.first.start("mapped", [1])

    both = await refusal_of(world.first.runs.Get(runs_pb2.GetRequest(run_id=run_id, scope="each[0]", path="each")))
    nowhere = await refusal_of(one_task(world.first, run_id, "x" * 1_000))
    no_run = await refusal_of(one_task(world.first, uuid4().hex, "each"))

    assert (both.code, both.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "path")
    assert (nowhere.reason, no_run.reason) == ("NODE_NOT_FOUND", "RUN_NOT_FOUND")
    assert [task.path for task in (await one_task(world.first, run_id, "each[0].step")).tasks] == ["each[0].step"]
    (each,) = (await one_task(world.first, run_id, "each")).tasks
    assert (each.path, each.items.total) == ("each", 1)
    assert not (await one_task(world.first, run_id, "each[7].step")).tasks
