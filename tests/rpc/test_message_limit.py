"""Whatever the limit of messages, answers stay below it: what cannot be sent must not have been granted for good."""

from __future__ import annotations

import pytest

from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.rpc import messages
from headway.runtime.serving import MESSAGE_LIMIT
from tests.rpc.world import ONE, TWO, World, succeeded

SMALLEST = 4 * 1024 * 1024  # of HEADWAY_MESSAGE_LIMIT, and what gRPC's clients take
LARGE = "x" * 900_000
CHAIN = (
    "workflow: chain\nnodes:\n"
    "  a: {type: call, handler: h}\n"
    "  b: {type: call, handler: h, input: '${input}'}\n"
    "edges: [[a, b]]\n"
)


@pytest.mark.parametrize("limit", [SMALLEST, MESSAGE_LIMIT])
async def test_large_inputs_are_granted_in_answers_that_a_client_of_any_language_can_take(
    world: World, limit: int
) -> None:
    coordinator = await world.coordinator(message_limit=limit)
    await coordinator.deploy(ONE)
    for _ in range(6):
        await coordinator.start("one", LARGE)
    left = await world.dispatches()
    rounds = 0

    while left:
        results = await coordinator.lease_all(left, key="k")
        granted = [result.answer == tasks_pb2.LEASE_ANSWER_GRANTED for result in results]
        assert any(granted)
        left = [dispatch for dispatch, is_granted in zip(left, granted, strict=True) if not is_granted]
        rounds += 1

    assert 2 <= rounds <= 3


async def test_a_run_with_large_payloads_is_shown_within_the_smallest_limit(world: World) -> None:
    coordinator = await world.coordinator(message_limit=SMALLEST)
    await coordinator.deploy(TWO)
    run_id = await coordinator.start("two", LARGE)
    for _ in range(2):
        dispatch = await world.dispatch(run_id)
        await coordinator.grant(dispatch)
        await coordinator.succeed(dispatch, LARGE)

    shown = await coordinator.get(run_id)

    assert len(shown.run.input) == len(LARGE) + 2
    assert shown.ByteSize() < SMALLEST // 2 + 100_000


@pytest.mark.parametrize(("size", "nexts"), [(900, 2), (1_100, 0)])
async def test_a_next_task_is_leased_only_where_the_answer_has_room_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int, nexts: int
) -> None:
    monkeypatch.setattr(messages, "WORK_BYTES", 2_000)
    await world.first.deploy(CHAIN)
    for _ in range(2):
        await world.first.start("chain", "x" * (size - 2))
    dispatches = await world.dispatches()
    await world.first.lease_all(dispatches, key="k")

    items = [succeeded(dispatch) for dispatch in dispatches]
    for place, item in enumerate(items):
        item.next_grant_key = f"next-{place}"
    response = await world.first.tasks.Report(tasks_pb2.ReportRequest(owner="w1", queues=["default"], items=items))

    assert sum(result.HasField("next") for result in response.results) == nexts
    assert len(await world.dispatches()) == 2 - nexts


async def test_a_page_of_runs_with_long_labels_ends_where_its_bytes_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ONE)
    started = {await world.first.start("one", labels={"long": "x" * 200}) for _ in range(9)}
    monkeypatch.setattr(messages, "PAGE_BYTES", 1_000)
    listed: list[str] = []
    pages, token = 0, ""

    while pages == 0 or token:
        response = await world.first.runs.List(runs_pb2.ListRequest(page_token=token))
        assert response.ByteSize() < 1_500
        listed += [run.run_id for run in response.runs]
        pages, token = pages + 1, response.next_page_token

    assert pages > 2
    assert sorted(listed) == sorted(started)
