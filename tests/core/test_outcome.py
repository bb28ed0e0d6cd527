"""The outcome of a run is derived by one pure function; the run's row keeps its counts.

Once nothing is pending, ready, running, retrying or waiting: the `finish` node's, if one ran; else cancelled, if a
user or parent cancelled it; else failed, if the deadline passed or a task of the root scope failed and was neither
handled, tolerated nor optional; else succeeded, if any task succeeded; an empty run is not a success.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.outcome import outcome, tally_of
from headway.coordinator.core.rows import RunRow, TaskRow
from tests.core.simulator import EPOCH
from tests.core.tallies import tally


@dataclass(frozen=True)
class Ended:
    state: TaskState
    disposition: str | None = None
    cause: str | None = None


def _row(ended: Ended) -> TaskRow:
    return TaskRow(
        path="a",
        namespace="default",
        queue="",
        handler="",
        lease_ms=1,
        attempt_timeout_ms=None,
        created_at=EPOCH,
        state=ended.state,
        disposition=ended.disposition,
        cause=ended.cause,
    )


UNSETTLED = [Ended(TaskState(name)) for name in ("pending", "ready", "running", "waiting", "retrying")]
SETTLED = [
    Ended(TaskState.SUCCEEDED),
    *[Ended(TaskState.FAILED, disposition=how) for how in ("handled", "tolerated", "optional", "unhandled")],
    *[Ended(TaskState.CANCELLED, cause=why) for why in ("cancel", "finish", "failure", "unknown", "blocked")],
]
tasks = st.lists(st.sampled_from(SETTLED), max_size=6)
finishes = st.sampled_from([None, None, RunState.SUCCEEDED, RunState.FAILED])


def told(ended: list[Ended], finish: RunState | None, cancelled: bool, deadline_passed: bool) -> str:  # noqa: FBT001
    """The sentence above, clause by clause."""
    if finish is not None:
        return str(finish)
    if cancelled:
        return "cancelled"
    if deadline_passed:
        return "failed"
    for each in ended:
        if each.state == "failed" and each.disposition not in ("handled", "tolerated", "optional"):
            return "failed"
    return "succeeded" if "succeeded" in [each.state for each in ended] else "failed"


@given(tasks, finishes, st.booleans(), st.booleans())
def test_the_outcome_is_as_the_sentence_says(
    ended: list[Ended],
    finish: RunState | None,
    cancelled: bool,  # noqa: FBT001
    deadline_passed: bool,  # noqa: FBT001
) -> None:
    counts = tally(_row(each) for each in ended)

    found = outcome(counts, finish=finish, cancelled=cancelled, deadline_passed=deadline_passed)

    assert found == told(ended, finish, cancelled, deadline_passed)


@given(tasks, st.lists(st.sampled_from(UNSETTLED), min_size=1, max_size=3), finishes, st.booleans(), st.booleans())
def test_there_is_none_while_anything_can_still_happen(
    ended: list[Ended],
    unsettled: list[Ended],
    finish: RunState | None,
    cancelled: bool,  # noqa: FBT001
    deadline_passed: bool,  # noqa: FBT001
) -> None:
    counts = tally(_row(each) for each in [*ended, *unsettled])

    assert outcome(counts, finish=finish, cancelled=cancelled, deadline_passed=deadline_passed) is None


def test_an_empty_run_is_not_a_success() -> None:
    assert outcome(tally([]), finish=None, cancelled=False, deadline_passed=False) is RunState.FAILED


def test_tasks_that_the_engine_stopped_never_make_a_run_cancelled() -> None:
    stopped = [Ended(TaskState.SUCCEEDED), Ended(TaskState.CANCELLED, cause="failure")]

    found = outcome(tally(map(_row, stopped)), finish=None, cancelled=False, deadline_passed=False)

    assert found is RunState.SUCCEEDED


@given(st.lists(st.sampled_from([*UNSETTLED, *SETTLED]), max_size=8))
def test_the_tally_counts_what_it_says(ended: list[Ended]) -> None:
    by_state = Counter(str(each.state) for each in ended)

    counts = tally(map(_row, ended))

    assert counts.open == sum(by_state[name] for name in ("pending", "ready", "running", "waiting", "retrying"))
    assert counts.succeeded == by_state["succeeded"]
    assert counts.unhandled == sum(each.disposition == "unhandled" for each in ended)


def test_the_counts_of_the_row_are_those_of_the_tally() -> None:
    row = RunRow(
        namespace="default",
        workflow="w",
        version=1,
        key=None,
        trace="",
        created_at=EPOCH,
        last_event_at=EPOCH,
        open_tasks=1,
        succeeded_tasks=2,
        unhandled_tasks=3,
    )

    assert (tally_of(row).open, tally_of(row).succeeded, tally_of(row).unhandled) == (1, 2, 3)
