"""Identities as the coordinator makes them. How they look on the wire: headway.runtime.ids.

A run's id is a UUID whose last 16 bits are its bucket.
"""

import hashlib
from collections.abc import Iterator
from uuid import UUID

from asyncpg.pgproto import pgproto

from headway.runtime import ids
from headway.runtime.ids import MalformedId, run_id_text, task_id

__all__ = [
    "KEY_BUCKETS",
    "MAX_BUCKETS",
    "MalformedId",
    "bucket_of",
    "child_id",
    "idempotency_key",
    "key_bucket",
    "parse_run_id",
    "parse_task_id",
    "run_id_in",
    "run_id_text",
    "task_id",
]

KEY_BUCKETS = 256  # of start_keys; fixed for ever
MAX_BUCKETS = 1 << 15
_make = pgproto.UUID  # what rows bring: equal to any UUID, and much quicker


def run_id_in(bucket: int, seed: UUID) -> UUID:
    """The run id that a seed gives in a bucket: the same seed, the same id."""
    return _make(seed.bytes[:14] + bucket.to_bytes(2, "big"))


def child_id(run_id: UUID, path: str, attempt: int, buckets: int) -> UUID:
    """The id of the run that an attempt of a subflow node starts: the same each time it is worked out.

    Args:
        run_id: of the parent.
        path: of the node's task.
        attempt: of that task.
        buckets: that new runs are spread over.
    """
    digest = hashlib.sha256(f"{run_id.hex}/{path}/{attempt}".encode()).digest()
    return run_id_in(int.from_bytes(digest[14:18], "big") % buckets, UUID(bytes=run_id.bytes[:6] + digest[:10]))


def seeds(request_id: UUID) -> Iterator[UUID]:
    """What the ids of a request's runs are made from: each begins when the one before was deleted."""
    seed = request_id
    while True:
        yield seed
        seed = UUID(bytes=seed.bytes[:6] + hashlib.sha256(seed.bytes).digest()[:10])


def is_seeded_by(run_id: UUID, seed: UUID) -> bool:
    """True when the run's id was made from this seed."""
    return run_id.bytes[:14] == seed.bytes[:14]


def bucket_of(run_id: UUID) -> int:
    """The bucket that a run is in, for ever."""
    return int.from_bytes(run_id.bytes[14:], "big")


def parse_run_id(text: str) -> UUID:
    """Read a run id. Raises MalformedId."""
    return _in_a_bucket(ids.parse_run_id(text, _make))


def parse_task_id(text: str) -> tuple[UUID, str]:
    """Read a task id into run id and path. Raises MalformedId."""
    run_id, path = ids.parse_task_id(text, _make)
    return _in_a_bucket(run_id), path


def key_bucket(namespace: str, key: str) -> int:
    """The fixed bucket of an idempotency key."""
    return hashlib.sha256(f"{namespace}\x00{key}".encode()).digest()[0] % KEY_BUCKETS


def idempotency_key(run_id: UUID, path: str, generation: int) -> str:
    """What a handler gives to others so that its effect happens once."""
    return f"{run_id_text(run_id)}/{path}/{generation}"


def _in_a_bucket(run_id: UUID) -> UUID:
    if bucket_of(run_id) >= MAX_BUCKETS:
        raise MalformedId(run_id_text(run_id))
    return run_id
