"""Tasks, counted from their rows: what the projector counts step by step must come to the same."""

from __future__ import annotations

from collections.abc import Iterable

from headway.coordinator.core.machines import OPEN_TASK_STATES, TaskState
from headway.coordinator.core.outcome import Tally
from headway.coordinator.core.rows import TaskRow


def tally(tasks: Iterable[TaskRow]) -> Tally:
    """Count tasks, as the row of their run, item or iteration does."""
    rows = list(tasks)
    return Tally(
        open=sum(row.state in OPEN_TASK_STATES for row in rows),
        succeeded=sum(row.state is TaskState.SUCCEEDED for row in rows),
        unhandled=sum(row.state is TaskState.FAILED and row.disposition == "unhandled" for row in rows),
    )
