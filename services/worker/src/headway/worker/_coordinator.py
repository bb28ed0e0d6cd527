"""Lease and Report calls to the coordinator: one try each, with a deadline. The event loop's channel.

The renewal thread has a channel of its own (`open_renewal_channel`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import grpc
import grpc.aio
from google.protobuf.duration_pb2 import Duration

from headway.api.tasks.v1 import tasks_pb2, tasks_pb2_grpc
from headway.runtime.channels import open_blocking_channel, open_channel

logger = logging.getLogger(__name__)

_RETRIED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED}

MOST_QUEUES = 1000
"""Queues that a report may name: the limit of the contract."""
RECONNECT = timedelta(seconds=10)
"""The longest pause between two tries to connect: workers may be many, and have time."""


class CallFailed(Exception):
    """A call was not answered, or was refused as a whole.

    Attributes:
        retryable: True when repeating it may help.
    """

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        """Translate gRPC's error."""
        super().__init__(f"{error.code().name}: {error.details()}")
        self.retryable = error.code() in _RETRIED


def seconds_of(duration: Duration) -> float:
    """Return a duration in seconds.

    Raises:
        ValueError: It is longer than anybody can wait for.
    """
    seconds = duration.seconds + duration.nanos * 1e-9
    if abs(seconds) > threading.TIMEOUT_MAX:
        message = f"a duration of {seconds} seconds"
        raise ValueError(message)
    return seconds


def open_renewal_channel(address: str) -> grpc.Channel:
    """Open a channel for use outside the event loop."""
    return open_blocking_channel(address, longest_pause=RECONNECT)


class Attendance:
    """A stream of Attend. After a fault it is over."""

    def __init__(self, call: grpc.aio.StreamStreamCall[tasks_pb2.AttendRequest, tasks_pb2.AttendResponse]) -> None:
        """Talk by a call."""
        self._call = call

    async def heard(self) -> None:
        """Wait until the coordinator knows of this worker.

        Raises:
            CallFailed: It was not reached, or knows no such call.
        """
        try:
            await self._call.initial_metadata()
        except grpc.aio.AioRpcError as error:
            raise CallFailed(error) from error

    async def offer(self, offer: tasks_pb2.Offer) -> None:
        """Offer slots.

        Raises:
            CallFailed: The stream broke.
        """
        await self.say(tasks_pb2.AttendRequest(offer=offer))

    async def say(self, request: tasks_pb2.AttendRequest) -> None:
        """Send a message.

        Raises:
            CallFailed: The stream broke.
        """
        try:
            await self._call.write(request)
        except grpc.aio.AioRpcError as error:
            raise CallFailed(error) from error
        except asyncio.InvalidStateError:  # it is over: whoever listens is told why
            logger.debug("nobody listens to what is offered")

    async def responses(self) -> AsyncIterator[tasks_pb2.AttendResponse]:
        """What the coordinator tells, until the stream is over.

        Raises:
            CallFailed: The stream broke, or the coordinator knows no such call.
        """
        try:
            async for response in self._call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise CallFailed(error) from error


class Coordinator:
    """The coordinator's TasksService, as one owner calls it."""

    def __init__(self, address: str, *, owner: str, namespace: str, queues: Sequence[str], timeout: float) -> None:
        """Open a channel. Must run on the event loop.

        Args:
            address: The coordinator's, as HEADWAY_COORDINATOR writes it.
            owner: This worker's identity.
            namespace: Whose queues it reads.
            queues: Which it reads: a next task is granted only for one of them (of the first 1000, if they are more).
            timeout: Deadline of each call, in seconds.
        """
        self._channel = open_channel(address, longest_pause=RECONNECT)
        self._stub = tasks_pb2_grpc.TasksServiceStub(self._channel)
        self._owner = owner
        self._namespace = namespace
        self._queues = queues[:MOST_QUEUES]
        self._timeout = timeout

    async def reach(self, on_trouble: Callable[[], None]) -> None:
        """Connect, and try until that succeeds.

        Args:
            on_trouble: Called once, after the first try that failed.
        """
        told = False
        while (state := self._channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE and not told:
                told = True
                on_trouble()
            await self._channel.wait_for_state_change(state)

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
        request = tasks_pb2.ReportRequest(
            owner=self._owner, items=items, queues=self._queues, namespace=self._namespace
        )
        try:
            return (await self._stub.Report(request, timeout=self._timeout)).results
        except grpc.aio.AioRpcError as error:
            raise CallFailed(error) from error

    @asynccontextmanager
    async def attend(self) -> AsyncGenerator[Attendance]:
        """Tell that this worker is there, as long as the block runs.

        Raises:
            CallFailed: The coordinator was not reached.
        """
        call = self._stub.Attend()
        attendance = Attendance(call)
        try:
            await attendance.say(
                tasks_pb2.AttendRequest(owner=self._owner, namespace=self._namespace, queues=self._queues)
            )
            yield attendance
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()
