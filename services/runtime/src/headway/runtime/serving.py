"""gRPC servers: health and reflection on every one of them, NOT_SERVING before they stop.

A service whose work is not gRPC (relay, timers) serves just those two: `async with serve(settings.listen)`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

__all__ = ["MESSAGE_LIMIT", "Serving", "serve"]

MESSAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of the largest message, in and out, unless a setting says otherwise."""


@dataclass(slots=True)
class Serving:
    """A server that runs."""

    port: int
    """Where it listens; chosen by the system when the address's port was 0."""
    server: grpc.aio.Server
    _health: health.aio.HealthServicer
    _services: tuple[str, ...] = field(default=())

    async def set_serving(self, serving: bool) -> None:  # noqa: FBT001 - the name is the argument's
        """Tells health checks whether to send work here: all services at once."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._services):
            await self._health.set(name, status)

    async def drain(self) -> None:
        """NOT_SERVING from now on, whatever else is set: load balancers turn away while calls in flight go on."""
        await self._health.enter_graceful_shutdown()


@asynccontextmanager
async def serve(
    listen: str,
    *,
    services: Sequence[str] = (),
    register: Callable[[grpc.aio.Server], None] = lambda _: None,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    message_limit: int = MESSAGE_LIMIT,
    grace: timedelta = timedelta(seconds=10),
    options: Sequence[tuple[str, Any]] = (),
) -> AsyncGenerator[Serving]:
    """Runs a server while the block does.

    Args:
        listen: host:port; port 0 lets the system choose (see Serving.port).
        services: Full names of the services, for health and reflection.
        register: Adds their servicers to the server.
        interceptors: As for grpc.aio.server.
        message_limit: Bytes.
        grace: At the end: how long calls in flight may go on.
        options: Further channel arguments.

    Raises:
        OSError: The address cannot be listened on.
    """
    server = grpc.aio.server(
        interceptors=tuple(interceptors),
        options=[
            ("grpc.max_receive_message_length", message_limit),
            ("grpc.max_send_message_length", message_limit),
            # Two processes on one port would share its calls in silence.
            ("grpc.so_reuseport", 0),
            # Clients ping to notice dead connections; the default would answer them with GOAWAY.
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.keepalive_permit_without_calls", 1),
            *options,
        ],
    )
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    register(server)
    names = (*services, health.SERVICE_NAME)
    reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as error:
        raise OSError(f"cannot listen on {listen}: {error}") from error
    await server.start()
    serving = Serving(port, server, servicer, tuple(services))
    try:
        await serving.set_serving(True)
        yield serving
    finally:
        await serving.drain()
        await server.stop(grace.total_seconds())
