"""Identities on the wire. They are opaque to everybody else.

A run's id is a UUID whose last 16 bits are its bucket, written as 32 hex digits. A task's id is its run's id, a colon
and its path.
"""

import hashlib
from uuid import UUID

KEY_BUCKETS = 256  # of start_keys; fixed for ever
MAX_BUCKETS = 1 << 15


class MalformedId(ValueError):
    """Not an identity that this system gave out."""


def run_id_in(bucket: int, seed: UUID) -> UUID:
    """The run id that a seed gives in a bucket: the same seed, the same id."""
    return UUID(bytes=seed.bytes[:14] + bucket.to_bytes(2, "big"))


def bucket_of(run_id: UUID) -> int:
    """The bucket that a run is in, for ever."""
    return int.from_bytes(run_id.bytes[14:], "big")


def parse_run_id(text: str) -> UUID:
    """Read a run id. Raises MalformedId."""
    if len(text) != 32:
        raise MalformedId(text)
    try:
        run_id = UUID(hex=text)
    except ValueError as error:
        raise MalformedId(text) from error
    if bucket_of(run_id) >= MAX_BUCKETS:
        raise MalformedId(text)
    return run_id


def task_id(run_id: UUID, path: str) -> str:
    """The task's id on the wire."""
    return f"{run_id.hex}:{path}"


def parse_task_id(text: str) -> tuple[UUID, str]:
    """Read a task id into run id and path. Raises MalformedId."""
    run, colon, path = text.partition(":")
    if not colon or not path or "\x00" in path:
        raise MalformedId(text)
    return parse_run_id(run), path


def key_bucket(namespace: str, key: str) -> int:
    """The fixed bucket of an idempotency key."""
    return hashlib.sha256(f"{namespace}\x00{key}".encode()).digest()[0] % KEY_BUCKETS


def idempotency_key(run_id: UUID, path: str, generation: int) -> str:
    """What a handler gives to others so that its effect happens once."""
    return f"{run_id.hex}/{path}/{generation}"
