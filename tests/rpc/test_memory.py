"""What was refused is let go of at once, not when the garbage collector comes: it counts objects, not bytes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any
from uuid import uuid4

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.engine import lanes
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.starting import StartAsk
from headway.coordinator.engine.submissions import Submission
from headway.coordinator.store.pool import open_pool
from tests.rpc.world import ONE, Dispatch, World, refusal_of, succeeded, until

MARK = b"1234567890"
PAYLOAD = b'{"x": "' + MARK * 100 + b'"}'
CALLS = 5
MOST_HOLDERS = 4  # of one object, that are told of
Call = Callable[[World], Awaitable[object]]


@contextmanager
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def held() -> list[object]:
    """Everything alive that holds a payload of these tests, found from its containers."""
    kinds = (
        Submission,
        StartAsk,
        runs_pb2.StartRequest,
        runs_pb2.StartManyRequest,
        runs_pb2.SignalRequest,
        tasks_pb2.ReportRequest,
    )
    return [each for each in gc.get_objects() if isinstance(each, kinds) and id(each) not in _of_others]


_of_others: dict[int, object] = {}


@pytest.fixture(autouse=True)
def others() -> Iterator[None]:
    """Objects of other tests, such as tables of requests, do not count; held here, so that no id comes again."""
    _of_others.update((id(each), each) for each in held())
    yield
    _of_others.clear()


async def all_freed() -> None:
    """Nothing is held, once the server's side of the calls has ended too, which is after their answers have come."""
    with suppress(AssertionError):
        await until(lambda: not held(), "what was refused is freed")
    assert [holders(each) for each in held()] == []


def holders(given: object, depth: int = 6) -> list[object]:
    """What an object is, and what holds it, and that: to be read when there should be none."""
    if not depth:
        return []
    by = [each for each in gc.get_referrers(given) if not isinstance(each, FrameType | list)][:MOST_HOLDERS]
    return [f"{type(given).__qualname__} {given!r:.100}", *(holders(each, depth - 1) for each in by)]


def start(**fields: Any) -> runs_pb2.StartRequest:
    return runs_pb2.StartRequest(request_id=str(uuid4()), input=PAYLOAD, **fields)


async def call_raw(world: World, method: str, request: bytes) -> object:
    """Call without a request on this side: an error keeps the frames that it came through, and what they hold."""
    async with grpc.aio.insecure_channel(world.first.address) as channel:
        call = channel.unary_unary(f"/headway.api.runs.v1.RunsService/{method}")
        return await refusal_of(call(request))


async def unknown_workflow(world: World) -> object:
    return await call_raw(world, "Start", start(workflow="nope").SerializeToString())


async def unknown_workflows(world: World) -> object:
    return await world.first.runs.StartMany(runs_pb2.StartManyRequest(items=[start(workflow="nope")]))


async def malformed(world: World) -> object:
    item = start(workflow="one")
    item.request_id = "no id"
    return await world.first.runs.StartMany(runs_pb2.StartManyRequest(items=[item]))


async def overloaded(world: World) -> object:
    request = runs_pb2.StartManyRequest(items=[start(workflow="one")]).SerializeToString()
    return await call_raw(world, "StartMany", request)


async def unknown_run(world: World) -> object:
    return await world.first.report("w1", succeeded(Dispatch(uuid4().hex[:-4] + "0000", "a", 1), PAYLOAD.decode()))


async def unknown_signal(world: World) -> object:
    unknown = runs_pb2.SignalRequest(run_id=uuid4().hex[:-4] + "0000", name="x", payload=PAYLOAD).SerializeToString()
    return await call_raw(world, "Signal", unknown)


async def test_an_engine_that_was_stopped_is_let_go_of(world: World) -> None:
    pool = await open_pool(world.url, size=2)
    engine = Engine(pool)
    await engine.start()
    left = weakref.ref(engine)

    await engine.stop()
    await pool.close()
    del engine

    gc.collect()
    assert left() is None


@pytest.mark.parametrize(
    "call", [unknown_workflow, unknown_workflows, malformed, overloaded, unknown_run, unknown_signal]
)
async def test_a_refused_request_is_freed_by_reference_counting_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    await world.first.deploy(ONE)
    for bucket in range(world.first.engine.run_buckets):  # each has a lane that can be full
        await world.first.start("one", request_id=f"5b0b2e0c-8f3c-4d0e-9f7e-{bucket:012}")
    if call is overloaded:
        monkeypatch.setattr(lanes, "NEW_BACKLOG", 0)
    await call(world)

    with uncollected():
        await all_freed()
        for _ in range(CALLS):
            await call(world)
        await all_freed()
