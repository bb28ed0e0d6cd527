"""How a run ends: one pure function of what is left when nothing can happen any more."""

from msgspec import Struct

from headway.coordinator.core.machines import RunState
from headway.coordinator.core.rows import RunRow, ScopeRow


class Tally(Struct, frozen=True, kw_only=True):
    """The tasks of a run, counted.

    Attributes:
        open: not settled.
        succeeded: succeeded.
        unhandled: failed, and no failure edge, join or `optional` excuses it.
    """

    open: int
    succeeded: int
    unhandled: int


def tally_of(row: RunRow | ScopeRow) -> Tally:
    """The counts that the row of a run, of an item or of an iteration keeps."""
    return Tally(open=row.open_tasks, succeeded=row.succeeded_tasks, unhandled=row.unhandled_tasks)


def outcome(counts: Tally, *, finish: RunState | None, cancelled: bool, deadline_passed: bool) -> RunState | None:
    """Decide how the run ends.

    Args:
        counts: of its tasks.
        finish: what the finish node that ran says; None: none ran.
        cancelled: a user or parent cancelled it.
        deadline_passed: its deadline passed before it ended.

    Returns:
        The final state, or None while a task is open.
    """
    if counts.open:
        return None
    if finish is not None:
        return finish
    if cancelled:
        return RunState.CANCELLED
    if deadline_passed or counts.unhandled:
        return RunState.FAILED
    return RunState.SUCCEEDED if counts.succeeded else RunState.FAILED
