"""What is tried again, with which request id, and when the client gives up."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import grpc
import pytest

from headway.api.definitions.v1 import definitions_pb2
from headway.api.runs.v1 import runs_pb2
from headway.client import (
    Client,
    DeadlinePassed,
    Patience,
    PayloadTooLarge,
    Refused,
    Unreachable,
    _connection,
    new_request_id,
)
from headway.client._connection import Connection, Outage
from tests.client.scripted_coordinator import Plain, Refusal, ScriptedCoordinator, Silence


class Clock:
    """The client's clock, which stands until it is set forward."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(_connection, "time", made)
    return made


MUTATIONS: list[tuple[str, Callable[[Client], Awaitable[object]], object]] = [
    ("runs.Start", lambda client: client.start("w"), runs_pb2.StartResponse(run_id="r1")),
    ("runs.Signal", lambda client: client.signal("r1", "paid"), runs_pb2.SignalResponse(seq=3)),
    ("runs.Cancel", lambda client: client.cancel("r1"), runs_pb2.CancelResponse()),
    ("runs.Retry", lambda client: client.retry("r1"), runs_pb2.RetryResponse()),
]


@pytest.mark.parametrize(("method", "call", "answer"), MUTATIONS)
async def test_every_try_of_a_mutation_carries_the_request_id_of_the_first(
    method: str,
    call: Callable[[Client], Awaitable[object]],
    answer: runs_pb2.StartResponse,
    client: Client,
    coordinator: ScriptedCoordinator,
) -> None:
    coordinator.script(method, Plain(), Plain(), answer)

    await call(client)

    ids = {request.request_id for request in coordinator.requests[method]}
    assert len(coordinator.requests[method]) == 3
    assert len(ids) == 1
    assert uuid.UUID(ids.pop()).version == 7


@pytest.mark.parametrize(("method", "call", "answer"), MUTATIONS)
async def test_two_calls_of_a_mutation_carry_two_request_ids(
    method: str,
    call: Callable[[Client], Awaitable[object]],
    answer: runs_pb2.StartResponse,
    client: Client,
    coordinator: ScriptedCoordinator,
) -> None:
    coordinator.script(method, answer)

    await call(client)
    await call(client)

    assert len({request.request_id for request in coordinator.requests[method]}) == 2


async def test_a_request_id_of_the_caller_is_used(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Start", runs_pb2.StartResponse(run_id="r1"))
    mine = new_request_id()

    await client.start("w", request_id=mine)

    assert coordinator.requests["runs.Start"][0].request_id == mine


async def test_a_server_that_asks_for_time_is_asked_again(client: Client, coordinator: ScriptedCoordinator) -> None:
    overloaded = Refusal(reason="OVERLOADED", code=grpc.StatusCode.RESOURCE_EXHAUSTED, retry_after=0.001)
    coordinator.script("runs.Start", overloaded, runs_pb2.StartResponse(run_id="r1"))

    assert (await client.start("w")).run_id == "r1"


async def test_the_time_that_a_server_asks_for_is_given_and_little_more(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    overloaded = Refusal(reason="OVERLOADED", code=grpc.StatusCode.RESOURCE_EXHAUSTED, retry_after=0.4)
    coordinator.script("runs.Start", *[overloaded] * 2, runs_pb2.StartResponse(run_id="r1"))
    began = time.monotonic()

    await client.start("w")

    assert 0.8 <= time.monotonic() - began < 2


def test_clients_that_were_asked_for_the_same_time_do_not_come_back_at_once() -> None:
    outages = [Outage(Patience(first_pause=timedelta(milliseconds=1)), "") for _ in range(200)]

    pauses = [outage._jittered(timedelta(seconds=1)) for outage in outages]

    assert 1 <= min(pauses) < 1.05
    assert 1.2 < max(pauses) < 1.3


def unavailable() -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "down")


def test_patience_counts_from_the_first_try_that_failed(clock: Clock) -> None:
    outage = Outage(Patience(give_up_after=timedelta(seconds=5), longest_pause=timedelta(seconds=1)), "here")

    for _ in range(5):
        outage.pause_after(unavailable())
        clock.now += 1
    with pytest.raises(Unreachable):
        outage.pause_after(unavailable())

    outage.end()
    outage.pause_after(unavailable())


def test_pauses_double_up_to_the_longest_however_long_an_outage_lasts(clock: Clock) -> None:
    patience = Patience(
        give_up_after=timedelta(days=1), first_pause=timedelta(seconds=1), longest_pause=timedelta(seconds=5)
    )
    outage = Outage(patience, "here")

    pauses: list[float] = []
    for _ in range(1_100):
        pauses.append(outage.pause_after(unavailable()))
        clock.now += pauses[-1]

    bounds = [1, 2, 4, *[5] * 1_097]
    assert [pause for pause, most in zip(pauses, bounds, strict=True) if not most / 2 <= pause <= most] == []


@pytest.mark.parametrize(
    "code",
    [
        code
        for code in grpc.StatusCode
        if code not in {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
    ],
)
async def test_no_other_status_is_tried_again(
    code: grpc.StatusCode, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Start", Plain(code=code), runs_pb2.StartResponse(run_id="r1"))

    with pytest.raises(Refused):
        await client.start("w")

    assert len(coordinator.requests["runs.Start"]) == 1


async def test_a_try_without_an_answer_ends_at_its_deadline(coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Get", Silence())
    patience = Patience(try_timeout=timedelta(milliseconds=50))

    async with Client(coordinator.address, patience=patience) as client:
        with pytest.raises(DeadlinePassed, match=r"did not answer within 0\.05 s"):
            await client.get("r1")


async def test_a_server_that_is_gone_is_named_with_its_address(coordinator: ScriptedCoordinator) -> None:
    await coordinator.stop()
    patience = Patience(give_up_after=timedelta())

    async with Client(coordinator.address, patience=patience) as client:
        with pytest.raises(Unreachable, match=f"no coordinator answers at {coordinator.address}") as raised:
            await client.get("r1")

    assert raised.value.address == coordinator.address


async def test_a_server_that_nobody_reaches_is_given_up_sooner_than_one_that_is_overloaded(
    coordinator: ScriptedCoordinator,
) -> None:
    busy = Refusal(reason="OVERLOADED", code=grpc.StatusCode.UNAVAILABLE, message="later")
    coordinator.script("definitions.List", busy, busy, definitions_pb2.ListResponse())
    patience = Patience(
        give_up_after=timedelta(minutes=5), give_up_unreached_after=timedelta(), first_pause=timedelta(milliseconds=1)
    )

    async with Client(coordinator.address, patience=patience) as client:
        assert await client.list_definitions() == ()
        await coordinator.stop()
        async with asyncio.timeout(60):
            with pytest.raises(Unreachable):
                await client.list_definitions()


async def test_what_no_message_can_carry_is_refused_as_too_large(coordinator: ScriptedCoordinator) -> None:
    async with Client(coordinator.address, message_limit=1000) as client:
        with pytest.raises(PayloadTooLarge, match=r"the request has 1\d{3} bytes; the limit is 1000"):
            await client.start("w", "x" * 1000)


async def test_a_server_that_comes_back_is_found_by_the_same_call(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("definitions.List", definitions_pb2.ListResponse())
    await client.list_definitions()
    await coordinator.stop()
    await coordinator.start()

    assert await client.list_definitions() == ()


async def test_a_list_of_addresses_serves_while_one_of_them_answers(coordinator: ScriptedCoordinator) -> None:
    coordinator.script("definitions.List", definitions_pb2.ListResponse())

    async with Client(f"127.0.0.1:1,{coordinator.address}") as client:
        assert await client.list_definitions() == ()


@pytest.mark.parametrize(
    "address", ["", "nowhere", "127.0.0.1:", ":7710", "127.0.0.1:99999", "a:1,b:2", "127.0.0.1:1,[::1]:1"]
)
async def test_what_is_no_address_is_refused_before_any_call(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Client(address)


def test_request_ids_of_one_caller_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    instants = iter(range(1_700_000_000_000_000_000, 1_700_000_001_000_000_000, 1_000_000))
    monkeypatch.setattr("time.time_ns", lambda: next(instants))

    ids = [new_request_id() for _ in range(1000)]

    assert ids == sorted(ids)
    assert len(set(ids)) == 1000
    assert {(uuid.UUID(each).version, uuid.UUID(each).variant) for each in ids} == {(7, uuid.RFC_4122)}


async def test_a_refusal_from_elsewhere_is_no_answer_of_a_coordinator(coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Get", Refusal(reason="DOWN", code=grpc.StatusCode.UNAVAILABLE, domain="proxy"))

    async with Client(coordinator.address, patience=Patience(give_up_after=timedelta())) as client:
        with pytest.raises(Unreachable):
            await client.get("r1")


class Stretch:
    """A stream of a watch: it is quiet for so many seconds, tells something, and breaks."""

    def __init__(self, clock: Clock, *, quiet: float = 0.0, tells: tuple[str, ...] = ()) -> None:
        self.is_cancelled = False
        self._clock = clock
        self._quiet = quiet
        self._tells = tells

    async def __aiter__(self) -> AsyncIterator[str]:
        self._clock.now += self._quiet
        for each in self._tells:
            yield each
        raise unavailable()

    def cancel(self) -> None:
        self.is_cancelled = True


@pytest.mark.parametrize(("quiet", "is_heard"), [(60.0, True), (6.0, False)])
async def test_a_stream_that_was_quiet_for_longer_than_connecting_takes_was_connected(
    quiet: float, *, is_heard: bool, clock: Clock
) -> None:
    patience = Patience(give_up_after=timedelta(seconds=5), first_pause=timedelta(milliseconds=1))
    connection = Connection("127.0.0.1:1", patience=patience, message_limit=1_000, credentials=None)
    stretches = [Stretch(clock), Stretch(clock, quiet=quiet), Stretch(clock, tells=("done",))]
    left = iter(stretches)
    heard: list[str] = []

    def open_next(_request: None, *, timeout: float) -> Any:
        assert timeout == patience.stretch.total_seconds()
        return next(left)

    stream: Any = connection.stream(open_next, lambda: None)
    try:
        async for each in stream:
            heard.append(each)
            break
    except Unreachable:
        pass
    await stream.aclose()
    await connection.close()

    assert heard == ["done"] * is_heard
    assert [stretch.is_cancelled for stretch in stretches] == [True, True, is_heard]
