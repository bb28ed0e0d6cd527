"""Identities on the wire: the one place that says how a run and a task are written.

A run's id is a UUID, written as 32 small hex digits. A task's id is its run's id, a colon, and its path in the run:
`<run id>:<path>`. The coordinator and the relay, which writes it into dispatches, make and read them here; to everybody
else, workers and clients, they are opaque.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import UUID

__all__ = ["MalformedId", "parse_run_id", "parse_task_id", "run_id_text", "task_id"]

_RUN_ID = re.compile(r"[0-9a-f]{32}")


class MalformedId(ValueError):
    """Not an identity that this system gave out."""


def run_id_text(run_id: UUID) -> str:
    """The run's id on the wire."""
    return run_id.hex


def parse_run_id(text: str, make: Callable[[str], UUID] = UUID) -> UUID:
    """Reads a run id, as the kind of UUID that `make` makes. Raises MalformedId."""
    if not _RUN_ID.fullmatch(text):
        raise MalformedId(text)
    return make(text)


def task_id(run_id: UUID, path: str) -> str:
    """The task's id on the wire."""
    return f"{run_id_text(run_id)}:{path}"


def parse_task_id(text: str, make: Callable[[str], UUID] = UUID) -> tuple[UUID, str]:
    """Reads a task id into run id and path. Raises MalformedId."""
    run, colon, path = text.partition(":")
    if not colon or not path or "\x00" in path:
        raise MalformedId(text)
    return parse_run_id(run, make), path
