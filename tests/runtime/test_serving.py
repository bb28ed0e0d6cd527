from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from headway.runtime import health
from headway.runtime.serving import serve


async def status(channel: grpc.aio.Channel, service: str = "") -> str:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


async def test_health_tells_serving_and_then_draining() -> None:
    async with (
        serve("127.0.0.1:0", services=["example.v1.Example"]) as serving,
        grpc.aio.insecure_channel(f"127.0.0.1:{serving.port}") as channel,
    ):
        before = [await status(channel), await status(channel, "example.v1.Example")]

        await serving.drain()
        await serving.set_serving(True)
        after = [await status(channel), await status(channel, "example.v1.Example")]

        assert before == ["SERVING", "SERVING"]
        assert after == ["NOT_SERVING", "NOT_SERVING"]


async def test_reflection_lists_the_services() -> None:
    async with (
        serve("127.0.0.1:0", services=["example.v1.Example"]) as serving,
        grpc.aio.insecure_channel(f"127.0.0.1:{serving.port}") as channel,
    ):
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)  # pyright: ignore[reportArgumentType] - aio is right
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=5)

        names = {service.name async for answer in call for service in answer.list_services_response.service}

        assert {"example.v1.Example", "grpc.health.v1.Health"} <= names


async def test_a_port_has_one_owner() -> None:
    async with serve("127.0.0.1:0") as serving:
        with pytest.raises(OSError, match="cannot listen on"):
            async with serve(f"127.0.0.1:{serving.port}"):
                pass


async def test_the_health_check_tells_serving_from_draining_and_from_nothing() -> None:
    async with serve("127.0.0.1:0") as serving:
        address = f"127.0.0.1:{serving.port}"
        while_serving = await asyncio.to_thread(health.fault, address)
        await serving.drain()
        while_draining = await asyncio.to_thread(health.fault, address)
    afterwards = await asyncio.to_thread(health.fault, address, timeout_seconds=0.2)

    assert while_serving is None
    assert while_draining == "the answer is NOT_SERVING"
    assert (afterwards or "").startswith("no answer")
