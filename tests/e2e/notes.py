"""What the handlers of `stubborn` wrote down, and what may not be seen in it."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A handler that ran to its end: the task's attempt, by whom, from when to when."""

    task: str
    attempt: int
    worker: int
    begin: float
    end: float


def read_intervals(file: Path) -> list[Interval]:
    """Pair begins with ends; a handler whose process was killed has no end and holds nothing any more."""
    begun: dict[tuple[str, int, int], float] = {}
    intervals: list[Interval] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        note = json.loads(line)
        key = (note["task"], note["attempt"], note["worker"])
        if note["what"] == "begin":
            begun[key] = note["at"]
        else:
            task, attempt, worker = key
            begin = begun.pop(key)
            intervals.append(Interval(task=task, attempt=attempt, worker=worker, begin=begin, end=note["at"]))
    return intervals


def overlaps(intervals: list[Interval]) -> list[tuple[Interval, Interval]]:
    """Pairs of one task that ran at the same time."""
    by_task: dict[str, list[Interval]] = {}
    for interval in intervals:
        by_task.setdefault(interval.task, []).append(interval)
    found: list[tuple[Interval, Interval]] = []
    for same in by_task.values():
        ordered = sorted(same, key=lambda interval: interval.begin)
        found += [(one, other) for one, other in pairwise(ordered) if other.begin < one.end]
    return found
