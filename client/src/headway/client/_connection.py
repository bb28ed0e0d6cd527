"""The channel, and the one way in which calls are tried, repeated and given up.

A call is repeated only where repeating is known to be safe and useful: on UNAVAILABLE (the request may not have
arrived; a mutation carries its request_id) and on RESOURCE_EXHAUSTED when the server says when to come back. Every try
has a deadline.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import grpc

from headway.client._address import grpc_target
from headway.client._refusals import DeadlinePassed, HeadwayError, Unreachable, has_reason, refusal, retry_hint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

DEFAULT_MESSAGE_LIMIT = 16 * 1024 * 1024

_CONNECT_TIMEOUT = 5.0

_SERVICE_CONFIG = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})

# A stream that is cut off by its deadline has only lasted its stretch.
_ENDS_OF_A_STRETCH = frozenset({grpc.StatusCode.DEADLINE_EXCEEDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a call is tried.

    Attributes:
        try_timeout: Deadline of each try.
        give_up_after: No try begins later than this after the first one failed. Zero: each call is tried once.
        give_up_unreached_after: The same while no server is reached at all. None: no sooner than `give_up_after`.
        first_pause: About the pause before the second try; each further pause is twice as long.
        longest_pause: Where the doubling ends.
        stretch: How long a watch trusts one stream before it opens the next one: a connection that died without a
            word is noticed then.
    """

    try_timeout: timedelta = timedelta(seconds=10)
    give_up_after: timedelta = timedelta(seconds=30)
    give_up_unreached_after: timedelta | None = None
    first_pause: timedelta = timedelta(milliseconds=100)
    longest_pause: timedelta = timedelta(seconds=5)
    stretch: timedelta = timedelta(minutes=1)


class Outage:
    """One stretch of failed tries: how long to pause next, and when to give up."""

    def __init__(self, patience: Patience, address: str) -> None:
        """Begin with nothing failed."""
        self._patience = patience
        self._address = address
        self._failures = 0
        self._began_at = 0.0

    def end(self) -> None:
        """Note that the server answers again."""
        self._failures = 0

    def pause_after(self, error: grpc.aio.AioRpcError) -> float:
        """Seconds to wait before the next try.

        Raises:
            HeadwayError: There is no next try: the call was refused, its deadline passed, or patience has run out.
        """
        hint = retry_hint(error)
        repeatable = error.code() is grpc.StatusCode.UNAVAILABLE or (
            error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and hint is not None
        )
        if not repeatable:
            raise self._explain(error) from error
        now = time.monotonic()
        if self._failures == 0:
            self._began_at = now
        pause = self._jittered(hint)
        if now + pause > self._began_at + self._longest(error).total_seconds():
            raise self._explain(error) from error
        self._failures += 1
        return pause

    def _longest(self, error: grpc.aio.AioRpcError) -> timedelta:
        unreached = self._patience.give_up_unreached_after
        return self._patience.give_up_after if unreached is None or has_reason(error) else unreached

    def _jittered(self, hint: timedelta | None) -> float:
        doubled = self._patience.first_pause * 2 ** min(self._failures, 30)
        pause = min(doubled, self._patience.longest_pause).total_seconds() * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
        return pause if hint is None else hint.total_seconds() * random.uniform(1.0, 1.25) + pause  # noqa: S311 - as above

    def _explain(self, error: grpc.aio.AioRpcError) -> HeadwayError:
        if error.code() is grpc.StatusCode.UNAVAILABLE and not has_reason(error):
            return Unreachable(self._address, error.details() or "unavailable")
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlinePassed(self._address, self._patience.try_timeout.total_seconds())
        return refusal(error)


class Connection:
    """A channel to one or more coordinators, used by one event loop."""

    def __init__(
        self,
        address: str,
        *,
        patience: Patience,
        message_limit: int,
        credentials: grpc.ChannelCredentials | None,
    ) -> None:
        """Make the channel; it connects at the first call.

        Raises:
            ValueError: The address is not one.
        """
        self.address = address
        self.patience = patience
        self.message_limit = message_limit
        options: list[tuple[str, str | int]] = [
            ("grpc.max_send_message_length", message_limit),
            ("grpc.max_receive_message_length", message_limit),
            # A coordinator that was restarted is found again at once, not after gRPC's default of up to two minutes.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # Despite its name, how long connecting may take.
            ("grpc.min_reconnect_backoff_ms", int(_CONNECT_TIMEOUT * 1000)),
            ("grpc.service_config", _SERVICE_CONFIG),
            # A connection whose other end has vanished is noticed within half a minute; servers allow pings this often.
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.ping_timeout_ms", 10_000),  # else a ping may go unanswered for a minute
            # Repeating is decided here alone.
            ("grpc.enable_retries", 0),
            # A proxy from the environment is meant for the web, not for the coordinator next door.
            ("grpc.enable_http_proxy", 0),
        ]
        target = grpc_target(address)
        self.channel = (
            grpc.aio.insecure_channel(target, options=options)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options=options)
        )

    async def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        await self.channel.close()

    async def call(
        self, method: Callable[..., grpc.aio.UnaryUnaryCall[RequestT, ResponseT]], request: RequestT
    ) -> ResponseT:
        """Call until answered.

        Raises:
            Refused: The server refused.
            DeadlinePassed: A try got no answer in time.
            Unreachable: No try reached a server.
        """
        outage = Outage(self.patience, self.address)
        timeout = self.patience.try_timeout.total_seconds()
        while True:
            try:
                return await method(request, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                pause = outage.pause_after(error)
            await asyncio.sleep(pause)

    async def stream(
        self,
        method: Callable[..., grpc.aio.UnaryStreamCall[RequestT, ResponseT]],
        request: Callable[[], RequestT],
    ) -> AsyncIterator[ResponseT]:
        """Read a stream to its end, through as many connections as that takes.

        Args:
            method: The call.
            request: Makes the request of the next connection: it knows how far the caller has read.

        Raises:
            Refused: The server refused.
            Unreachable: The stream broke, and no server has answered since.
        """
        outage = Outage(self.patience, self.address)
        stretch = self.patience.stretch.total_seconds()
        while True:
            began_at = time.monotonic()
            call = method(request(), timeout=stretch)
            try:
                async for response in call:
                    outage.end()
                    yield response
            except grpc.aio.AioRpcError as error:
                if time.monotonic() - began_at > 2 * _CONNECT_TIMEOUT:  # it was connected, and quiet
                    outage.end()
                pause = 0.0 if error.code() in _ENDS_OF_A_STRETCH else outage.pause_after(error)
            else:
                return
            finally:
                call.cancel()
            await asyncio.sleep(pause)
