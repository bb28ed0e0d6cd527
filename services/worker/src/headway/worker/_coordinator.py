"""Lease and Report calls to the coordinator: one try each, with a deadline. The event loop's channel.

The renewal thread has a channel of its own (`open_channel`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import grpc
import grpc.aio

from headway.api.tasks.v1 import tasks_pb2, tasks_pb2_grpc

_RETRIED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED}

_CHANNEL_OPTIONS: list[tuple[str, str | int]] = [
    # A batch of grants is as large as its inputs; the worker's concurrency bounds it, not this limit.
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 10_000),
    # A proxy that the environment names is for the outside.
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
]


class CallFailed(Exception):
    """A call was not answered, or was refused as a whole.

    Attributes:
        retryable: True when repeating it may help.
    """

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        """Translate gRPC's error."""
        super().__init__(f"{error.code().name}: {error.details()}")
        self.retryable = error.code() in _RETRIED


def target_of(address: str) -> str:
    """The gRPC target of an address: several IP addresses with commas between are one target of their kind.

    Calls are spread over those that answer. Anything without a comma is a target already.
    """
    if "," not in address or address.startswith(("ipv4:", "ipv6:")):
        return address
    parts = [part.strip().replace("localhost", "127.0.0.1") for part in address.split(",") if part.strip()]
    kind = "ipv6" if parts[0].startswith("[") else "ipv4"
    return f"{kind}:{','.join(parts)}"


def open_channel(address: str) -> grpc.Channel:
    """Open a channel for use outside the event loop."""
    return grpc.insecure_channel(target_of(address), options=_CHANNEL_OPTIONS)


class Coordinator:
    """The coordinator's TasksService, as one owner calls it."""

    def __init__(self, address: str, *, owner: str, timeout: float) -> None:
        """Open a channel. Must run on the event loop.

        Args:
            address: The coordinator's, as HEADWAY_COORDINATOR writes it.
            owner: This worker's identity.
            timeout: Deadline of each call, in seconds.
        """
        self._channel = grpc.aio.insecure_channel(target_of(address), options=_CHANNEL_OPTIONS)
        self._stub = tasks_pb2_grpc.TasksServiceStub(self._channel)
        self._owner = owner
        self._timeout = timeout

    async def lease(self, items: Sequence[tasks_pb2.LeaseItem]) -> Sequence[tasks_pb2.LeaseResult]:
        """Ask for attempts; return the answers in order.

        Raises:
            CallFailed: The call as a whole failed.
        """
        request = tasks_pb2.LeaseRequest(owner=self._owner, items=items)
        try:
            return (await self._stub.Lease(request, timeout=self._timeout)).results
        except grpc.aio.AioRpcError as error:
            raise CallFailed(error) from error

    async def report(self, items: Sequence[tasks_pb2.ReportItem]) -> Sequence[tasks_pb2.ReportResult]:
        """Report the end of attempts; return the answers in order.

        Raises:
            CallFailed: The call as a whole failed.
        """
        request = tasks_pb2.ReportRequest(owner=self._owner, items=items)
        try:
            return (await self._stub.Report(request, timeout=self._timeout)).results
        except grpc.aio.AioRpcError as error:
            raise CallFailed(error) from error

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()
