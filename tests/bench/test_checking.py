"""A run that went otherwise than it must is found."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.checking import Expected, WrongResult, check_runs, fault_of, innermost
from headway.client import Json, Run, RunDetails, RunState, Task, TaskState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EXPECTED = Expected(output=10, tasks=2)


def run(state: RunState = RunState.SUCCEEDED, output: Json = 10) -> Run:
    return Run(
        run_id="r", namespace="default", workflow="line", version=1, state=state, epoch=1, cancelling=False,
        created_at=NOW, finished_at=NOW, error=None, output=output, last_seq=3, key=None, input=None,
    )  # fmt: skip


def task(state: TaskState = TaskState.SUCCEEDED) -> Task:
    return Task(
        task_id="r:a", path="a", type="call", state=state, attempt=1, tries=0, losses=0, generation=1, queue="q",
        handler="h", owner="w", lease_expires_at=None, created_at=NOW, started_at=NOW, finished_at=NOW, error=None,
        cause="", due_at=None, attempts=(), output=None, disposition="", waits_for="", items=None,
    )  # fmt: skip


def details(of: Run, *tasks: Task) -> RunDetails:
    return RunDetails(run=of, tasks=tasks, stale_reports=())


RIGHT = details(run(), task(), task())


class Answers:
    """A client that has one answer for each run."""

    def __init__(self, answers: dict[str, RunDetails]) -> None:
        self._answers = answers

    async def get(self, run_id: str) -> RunDetails:
        return self._answers[run_id]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (RIGHT, ""),
        (replace(RIGHT, run=run(RunState.FAILED)), "failed"),
        (replace(RIGHT, run=run(output=9)), "output is 9"),
        (details(run(), task()), "1 of its 1 tasks"),
        (details(run(), task(), task(TaskState.CANCELLED)), "1 of its 2 tasks"),
        (details(run(), task(), task(), task()), "3 of its 3 tasks"),
    ],
)
def test_what_is_wrong_with_a_run(given: RunDetails, fault: str) -> None:
    found = fault_of(given, EXPECTED)
    assert fault in found
    assert bool(found) == bool(fault)


async def test_every_run_is_looked_at_and_events_are_added_up() -> None:
    client: Any = Answers({str(number): RIGHT for number in range(50)})
    checked = await check_runs(client, [str(number) for number in range(50)], EXPECTED)
    assert (checked.runs, checked.tasks, checked.events) == (50, 100, 150)


async def test_one_wrong_run_among_many_fails_the_measurement() -> None:
    answers = {str(number): RIGHT for number in range(50)} | {"33": replace(RIGHT, run=run(output=0))}
    client: Any = Answers(answers)
    with pytest.raises(WrongResult, match="output is 0"):
        await check_runs(client, answers, EXPECTED)


def test_the_error_within_groups_is_found() -> None:
    fault = WrongResult("lost")
    assert innermost(ExceptionGroup("a", [ExceptionGroup("b", [fault]), ValueError()])) is fault
