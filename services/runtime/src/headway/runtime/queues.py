"""Queues at the broker: what namespaces and queues may be called, and the key of a queue's stream.

The stream's key is built of both names, so neither may hold what the key is built with: `/`, `{` or `}`. Knows no
client library. The message and its stream are a contract (docs/worker_protocol.md).
"""

from __future__ import annotations

import re

__all__ = [
    "GROUP",
    "NAMESPACE_PATTERN",
    "QUEUE_PATTERN",
    "is_namespace",
    "is_queue",
    "queue_name_of",
    "split_queue_name",
    "stream_of",
]

GROUP = "workers"
"""The consumer group that all workers of a queue read through."""

NAMESPACE_PATTERN = r"[A-Za-z0-9_.-]{1,63}"
QUEUE_PATTERN = r"[a-z0-9][a-z0-9_.-]{0,62}"
"""As the compiler takes them: a worker of any other queue would wait for ever."""


def is_namespace(text: str) -> bool:
    """True for what a namespace may be called."""
    return re.fullmatch(NAMESPACE_PATTERN, text) is not None


def is_queue(text: str) -> bool:
    """True for what a queue may be called."""
    return re.fullmatch(QUEUE_PATTERN, text) is not None


def queue_name_of(namespace: str, queue: str) -> str:
    """Namespace and queue as one name."""
    return f"{namespace}/{queue}"


def split_queue_name(queue_name: str) -> tuple[str, str]:
    """A name's namespace and queue."""
    namespace, _, queue = queue_name.partition("/")
    return namespace, queue


def stream_of(queue_name: str) -> str:
    """The key of a queue's stream; the braces keep all keys of a queue in one slot of a Redis Cluster."""
    return f"headway:{{{queue_name}}}:dispatch"
