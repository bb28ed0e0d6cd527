"""Channels to the coordinator: how its copies are found, how calls are spread, how soon a loss is noticed.

A channel connects when it is first used, and again after each loss; whether a call is repeated is the caller's.
"""

from __future__ import annotations

import json
from datetime import timedelta

import grpc
import grpc.aio

__all__ = ["open_blocking_channel", "open_channel", "target_of"]

SOON = timedelta(milliseconds=500)
"""The longest pause between two tries to connect. gRPC's own is two minutes; what is late here is a run that stands."""


def open_channel(address: str, *, longest_pause: timedelta = SOON) -> grpc.aio.Channel:
    """Opens a channel. Must run on the event loop that uses it.

    Args:
        address: The coordinator's, as HEADWAY_COORDINATOR writes it.
        longest_pause: Between two tries to connect. Where thousands connect, they must not all do it twice a second.
    """
    return grpc.aio.insecure_channel(target_of(address), options=_options(longest_pause))


def open_blocking_channel(address: str, *, longest_pause: timedelta = SOON) -> grpc.Channel:
    """Opens a channel for threads, as `open_channel`."""
    return grpc.insecure_channel(target_of(address), options=_options(longest_pause))


def target_of(address: str) -> str:
    """The gRPC target of an address: several IP addresses with commas between are one target of their kind.

    Calls are spread over those that answer. Anything without a comma is a target already.
    """
    if "," not in address or address.startswith(("ipv4:", "ipv6:")):
        return address
    parts = [part.strip().replace("localhost", "127.0.0.1") for part in address.split(",") if part.strip()]
    kind = "ipv6" if parts[0].startswith("[") else "ipv4"
    return f"{kind}:{','.join(parts)}"


def _options(longest_pause: timedelta) -> list[tuple[str, str | int]]:
    return [
        # An answer is as large as what was asked for; the coordinator's limit holds, and no second one here.
        ("grpc.max_receive_message_length", -1),
        ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
        # A proxy that the environment names is for the outside.
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", int(longest_pause.total_seconds() * 1000)),
        # How long one try to connect may take, in spite of its name: a host that is gone does not refuse.
        ("grpc.min_reconnect_backoff_ms", 1_000),
        # A connection that died without a word, or whose other end is frozen, is found out, and calls under way fail.
        # The second time-out is for an answer to the ping itself; its default is a minute, whatever the first one says.
        ("grpc.keepalive_time_ms", 6_000),
        ("grpc.keepalive_timeout_ms", 3_000),
        ("grpc.http2.ping_timeout_ms", 3_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
