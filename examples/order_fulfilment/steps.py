"""A diary of which process ran which step when, so that it can be checked that no step had two holders at once.

Each line is written in one go, to one file that all workers append to. Instants are seconds on the machine's monotonic
clock, which all processes of a machine share. A process that is killed leaves a step without an end.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headway.worker import Context

DIARY = "HEADWAY_DEMO_STEPS"  # environment variable: the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One attempt of one step, run by one process.

    Attributes:
        process: Process id of the worker.
        begin: When the handler began.
        end: When it ended; None: it never did.
        lease_end: When its lease ran out, as the worker knew it last.
    """

    task_id: str
    run_id: str
    path: str
    attempt: int
    process: int
    begin: float
    end: float | None
    lease_end: float


@contextmanager
def recorded(context: Context) -> Iterator[None]:
    """Write down the begin and the end of what runs within."""
    facts = {"task_id": context.task_id, "run_id": context.run_id, "path": context.path, "attempt": context.attempt}
    _write(facts | {"begin": time.monotonic()}, context)
    try:
        yield
    finally:
        _write(facts | {"end": time.monotonic()}, context)


def read(diary: Path) -> list[Step]:
    """Return the steps in a diary, in the order in which they began."""
    begun: dict[tuple[str, int, int], Step] = {}
    lines = diary.read_text(encoding="utf-8").splitlines() if diary.exists() else []
    for line in lines:
        entry = json.loads(line)
        key = (entry["task_id"], entry["attempt"], entry["process"])
        known = begun.get(key)
        begun[key] = Step(
            task_id=entry["task_id"],
            run_id=entry["run_id"],
            path=entry["path"],
            attempt=entry["attempt"],
            process=entry["process"],
            begin=known.begin if known else entry["begin"],
            end=entry.get("end"),
            lease_end=entry["lease_end"],
        )
    return list(begun.values())


def _write(facts: Mapping[str, object], context: Context) -> None:
    diary = os.environ.get(DIARY)
    if not diary:
        return
    entry = {**facts, "process": os.getpid(), "lease_end": context.lease.deadline}
    line = json.dumps(entry, separators=(",", ":")) + "\n"
    file = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
