"""Many runs in one call: how they are cut into lists, tried again, and answered one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from headway.client import Client, InvalidInput, NewRun, Overloaded, Patience, Refused, Started, Unreachable
from tests.client.conftest import IMPATIENT
from tests.client.scripted_coordinator import Plain, Refusal, ScriptedCoordinator

METHOD = "runs.StartMany"
LIMIT = 4_000


def started(request: runs_pb2.StartManyRequest) -> runs_pb2.StartManyResponse:
    """Each item's request id as its run."""
    return runs_pb2.StartManyResponse(
        results=[
            runs_pb2.StartResult(started=runs_pb2.StartResponse(run_id=item.request_id, version=3))
            for item in request.items
        ]
    )


@pytest.fixture
async def small(coordinator: ScriptedCoordinator) -> AsyncIterator[Client]:
    """A client whose messages are small."""
    async with Client(coordinator.address, patience=IMPATIENT, message_limit=LIMIT) as made:
        yield made


async def test_runs_are_sent_as_start_sends_them(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script(METHOD, started)
    coordinator.script("runs.Start", runs_pb2.StartResponse())
    new = NewRun("orders", {"n": [1]}, key="order-7", version=4)

    await client.start_many([new, NewRun("other")])
    await client.start("orders", {"n": [1]}, key="order-7", version=4, request_id=new.request_id)

    (request,) = coordinator.requests[METHOD]
    assert request.items[0] == coordinator.requests["runs.Start"][0]
    assert (request.items[1].namespace, request.items[1].workflow, request.items[1].input) == ("shop", "other", b"{}")
    assert not request.items[1].HasField("key")


async def test_more_runs_than_a_call_takes_go_in_several_and_are_answered_in_order(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script(METHOD, started)
    runs = [NewRun("w", n) for n in range(600)]

    results = await client.start_many(runs)

    assert [len(request.items) for request in coordinator.requests[METHOD]] == [256, 256, 88]
    assert results == [Started(run_id=new.request_id, existed=False, version=3) for new in runs]
    assert len({new.request_id for new in runs}) == 600


async def test_runs_that_do_not_fit_into_half_a_message_go_in_several(
    small: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script(METHOD, started)
    sizes = [700, 700, 700, 2_500, 10, 10]

    results = await small.start_many([NewRun("w", "x" * size) for size in sizes])

    requests = coordinator.requests[METHOD]
    assert [len(request.items) for request in requests] == [2, 1, 1, 2]
    assert len(results) == len(sizes)
    assert all(request.ByteSize() <= LIMIT for request in requests)
    assert all(a.ByteSize() + b.items[0].ByteSize() > LIMIT / 2 for a, b in pairwise(requests))


async def test_no_run_is_no_call(client: Client, coordinator: ScriptedCoordinator) -> None:
    assert await client.start_many([]) == []
    assert coordinator.requests[METHOD] == []


async def test_a_refused_run_stands_among_the_others_as_what_start_would_have_raised(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    refusal = tasks_pb2.Refusal(reason="INVALID_INPUT", message="as told", metadata={"path": "$.n"})
    unknown = tasks_pb2.Refusal(reason="NOT_YET_INVENTED")
    good = runs_pb2.StartResult(started=runs_pb2.StartResponse(run_id="r", existed=True, version=2))
    coordinator.script(
        METHOD,
        runs_pb2.StartManyResponse(
            results=[good, runs_pb2.StartResult(refusal=refusal), runs_pb2.StartResult(refusal=unknown)]
        ),
    )

    first, second, third = await client.start_many([NewRun("w")] * 3)

    assert first == Started(run_id="r", existed=True, version=2)
    assert isinstance(second, InvalidInput)
    assert (second.message, second.metadata, second.code) == ("as told", {"path": "$.n"}, grpc.StatusCode.UNKNOWN)
    assert type(third) is Refused


@pytest.mark.parametrize(
    "failure", [Plain(), Refusal(reason="OVERLOADED", code=grpc.StatusCode.RESOURCE_EXHAUSTED, retry_after=0.001)]
)
async def test_a_list_that_fails_is_tried_again_unchanged_and_alone(
    failure: Plain | Refusal, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script(METHOD, started, failure, failure, started)

    results = await client.start_many([NewRun("w") for _ in range(300)])

    first, *tries = coordinator.requests[METHOD]
    assert (len(first.items), [len(request.items) for request in tries]) == (256, [44, 44, 44])
    assert tries[0] == tries[1] == tries[2]
    assert len(results) == 300


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Plain(), Unreachable),
        (Refusal(reason="OVERLOADED", code=grpc.StatusCode.RESOURCE_EXHAUSTED, retry_after=3600), Overloaded),
    ],
)
async def test_a_call_that_failed_is_repeated_with_the_same_request_ids(
    failure: Plain | Refusal, error: type[Exception], coordinator: ScriptedCoordinator
) -> None:
    coordinator.script(METHOD, failure, started)
    runs = [NewRun("w"), NewRun("w", key="k")]

    async with Client(coordinator.address, patience=Patience(give_up_after=IMPATIENT.first_pause / 10)) as client:
        with pytest.raises(error):
            await client.start_many(runs)
        results = await client.start_many(runs)

    first, second = coordinator.requests[METHOD]
    assert first == second
    assert [result.run_id for result in results if isinstance(result, Started)] == [new.request_id for new in runs]
