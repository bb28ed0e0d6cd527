"""Waiting until a service says, by gRPC health, that it serves."""

import asyncio
from collections.abc import Callable

import grpc
from grpc_health.v1 import health_pb2

_PAUSE = 0.05  # seconds between questions
_ANSWER_WITHIN = 2.0  # seconds


async def wait_until_serving(address: str, has_ended: Callable[[], bool]) -> bool:
    """Ask until the service answers SERVING; returns False when its process has ended instead.

    Args:
        address: `host:port`.
        has_ended: Tells whether the process is gone.
    """
    options = [
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 200),
        ("grpc.enable_http_proxy", 0),
    ]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        while not has_ended():
            try:
                answer = await check(health_pb2.HealthCheckRequest(), timeout=_ANSWER_WITHIN)
            except grpc.aio.AioRpcError:
                pass
            else:
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return True
            await asyncio.sleep(_PAUSE)
    return False
