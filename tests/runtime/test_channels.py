"""Channels to several coordinators, some of which come and go."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headway.runtime.channels import open_blocking_channel, open_channel, target_of
from headway.runtime.serving import serve


class Health(health_pb2_grpc.HealthServicer):
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    async def Check(  # noqa: N802 - the contract's
        self, request: health_pb2.HealthCheckRequest, context: object
    ) -> health_pb2.HealthCheckResponse:
        del request, context
        self.calls += 1
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


@asynccontextmanager
async def coordinator(port: int = 0) -> AsyncIterator[tuple[Health, int]]:
    servicer, server = Health(), grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield servicer, port
    finally:
        await server.stop(0)


async def check(channel: grpc.aio.Channel, *, wait: bool = True, seconds: float = 10) -> None:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    await stub.Check(health_pb2.HealthCheckRequest(), timeout=seconds, wait_for_ready=wait)


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("coordinator:7710", "coordinator:7710"),
        ("10.0.0.1:7710, localhost:7711", "ipv4:10.0.0.1:7710,127.0.0.1:7711"),
        ("[::1]:7710,[::2]:7710", "ipv6:[::1]:7710,[::2]:7710"),
        ("ipv4:10.0.0.1:7710,10.0.0.2:7710", "ipv4:10.0.0.1:7710,10.0.0.2:7710"),
        ("dns:///coordinator:7710", "dns:///coordinator:7710"),
    ],
)
def test_several_addresses_of_coordinators_are_one_target_of_their_kind(address: str, target: str) -> None:
    assert target_of(address) == target


async def test_calls_are_spread_over_all_coordinators() -> None:
    async with (
        coordinator() as (first, one),
        coordinator() as (second, two),
        open_channel(f"127.0.0.1:{one},127.0.0.1:{two}") as channel,
    ):
        while not (first.calls and second.calls):
            await check(channel)
        first.calls = second.calls = 0
        for _ in range(20):
            await check(channel)

    assert (first.calls, second.calls) == (10, 10)


async def test_when_one_is_gone_the_others_are_called_and_one_that_comes_back_is_found() -> None:
    async with coordinator() as (first, one):
        async with coordinator() as (_, two):
            channel = open_channel(f"127.0.0.1:{one},127.0.0.1:{two}")
            await check(channel)
        for _ in range(10):
            await check(channel)
        assert first.calls >= 9
        async with coordinator(two) as (again, _):
            while not again.calls:
                await check(channel)
        await channel.close()


SERVER = """
import asyncio, sys
from headway.runtime.serving import serve

async def main() -> None:
    async with serve("127.0.0.1:0") as serving:
        print(serving.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_calls_under_way_to_a_coordinator_that_freezes_fail_soon_and_the_next_go_elsewhere() -> None:
    frozen = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, stdout=asyncio.subprocess.PIPE)
    assert frozen.stdout is not None
    try:
        async with (
            coordinator() as (living, port),
            open_channel(f"127.0.0.1:{int(await frozen.stdout.readline())},127.0.0.1:{port}") as channel,
        ):
            while living.calls != 2:  # until both have their turns
                living.calls = 0
                for _ in range(4):
                    await check(channel)
            frozen.send_signal(signal.SIGSTOP)
            frozen_at = time.monotonic()
            calls = await asyncio.gather(*(check(channel, seconds=30) for _ in range(4)), return_exceptions=True)
            failed_after = time.monotonic() - frozen_at
            for _ in range(4):
                await check(channel)
    finally:
        frozen.kill()
        await frozen.wait()

    errors = [call.code() for call in calls if isinstance(call, grpc.aio.AioRpcError)]
    assert errors == [grpc.StatusCode.UNAVAILABLE] * 2
    assert failed_after < 15  # 6 seconds to the ping and 3 to its answer, and some for a busy machine


async def test_a_channel_opened_before_there_is_a_coordinator_finds_it() -> None:
    async with coordinator() as (_, port):
        pass
    async with open_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await check(channel, wait=False)
        async with coordinator(port):
            await check(channel)


async def test_an_answer_may_be_larger_than_grpc_s_own_limit() -> None:
    large = b"x" * (8 << 20)

    async def echo(request: bytes, context: object) -> bytes:
        del context
        return request

    handler = grpc.method_handlers_generic_handler("test.Echo", {"Echo": grpc.unary_unary_rpc_method_handler(echo)})
    async with (
        serve("127.0.0.1:0", register=lambda server: server.add_generic_rpc_handlers([handler])) as serving,
        open_channel(f"127.0.0.1:{serving.port}") as channel,
    ):
        assert await channel.unary_unary("/test.Echo/Echo")(large, timeout=30) == large


async def test_threads_have_a_channel_of_the_same_kind() -> None:
    async with serve("127.0.0.1:0") as serving:
        with open_blocking_channel(f"127.0.0.1:{serving.port}") as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer = await asyncio.to_thread(stub.Check, health_pb2.HealthCheckRequest(), timeout=10)

    assert answer.status == health_pb2.HealthCheckResponse.SERVING
