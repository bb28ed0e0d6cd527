"""Whether every run did what it should: asked through the API, once the measured stretch is over."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from headway.client import Client, Json, RunDetails, RunState, TaskState

GIVE_UP_SECONDS = 120.0
AT_A_TIME = 16


class WrongResult(Exception):
    """A run was lost, or did not end as it must: the measurement counts for nothing."""


def innermost(error: BaseException) -> BaseException:
    """The first error within groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """How every run ends: succeeded, with this output and so many tasks, all of them succeeded."""

    output: Json
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the runs came to.

    Attributes:
        runs: How many.
        tasks: How many the runs had in all, `finish` and the like included.
        events: How many entries their histories have in all.
    """

    runs: int
    tasks: int
    events: int


async def check_runs(client: Client, runs: Iterable[str], expected: Expected) -> Checked:
    """Wait until every run is final, and look at each.

    Raises:
        WrongResult: A run is lost, has another outcome, another output or other tasks than it must.
    """
    details = await inspect(client, runs)
    for each in details:
        fault = fault_of(each, expected)
        if fault:
            raise WrongResult(f"run {each.run.run_id}: {fault}")
    return Checked(
        runs=len(details),
        tasks=sum(len(each.tasks) for each in details),
        events=sum(each.run.last_seq for each in details),
    )


def fault_of(details: RunDetails, expected: Expected) -> str:
    """What is wrong with a run that is over; empty: nothing."""
    run = details.run
    if run.state is not RunState.SUCCEEDED:
        return f"it is {run.state}, not succeeded: {run.error}"
    if run.output != expected.output:
        return f"its output is {run.output!r}, not {expected.output!r}"
    succeeded = sum(task.state is TaskState.SUCCEEDED for task in details.tasks)
    if not succeeded == len(details.tasks) == expected.tasks:
        return f"{succeeded} of its {len(details.tasks)} tasks succeeded, not {expected.tasks}"
    return ""


async def inspect(client: Client, runs: Iterable[str]) -> list[RunDetails]:
    """Every run with its tasks, once it is final.

    Raises:
        WrongResult: One does not become final.
    """
    left = iter(list(runs))
    seen: list[RunDetails] = []

    async def look() -> None:
        seen.extend([await final(client, run_id) for run_id in left])

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_A_TIME):
            group.create_task(look())
    return seen


async def final(client: Client, run_id: str) -> RunDetails:
    """The run, once it is final."""
    try:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            details = await client.get(run_id)
            while not details.run.state.is_final:
                await client.wait(run_id)
                details = await client.get(run_id)
            return details
    except TimeoutError:
        raise WrongResult(f"run {run_id} does not end") from None
