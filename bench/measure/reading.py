"""How long people wait for what they look at, with very many runs stored."""

import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle

from bench.pace import Samples
from bench.records import quantile
from bench.rig import Rig
from headway.client import Run, RunFilter, RunState

PAGE = 50
CALLS = 200
FILTERS: Sequence[RunFilter | None] = (
    None,
    RunFilter(workflow="two"),
    RunFilter(states=(RunState.SUCCEEDED,)),
    RunFilter(workflow="two", states=(RunState.FAILED,)),
)


async def reading(rig: Rig) -> Samples:
    """A page of a list by one of several filters, a run with its tasks, and why a run stands where it does."""
    run_ids = [run.run_id for run in await _page(rig, None)]
    filters = cycle(FILTERS)
    ids = cycle(run_ids)

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "list_ms_p99": lambda: _page(rig, next(filters)),
        "show_ms_p99": lambda: rig.client.get(next(ids)),
        "why_ms_p99": lambda: rig.client.explain(next(ids)),
    }
    return {name: [await _slowest_of_most(call)] for name, call in calls.items()}


async def _page(rig: Rig, wanted: RunFilter | None) -> list[Run]:
    """The first page."""
    runs: list[Run] = []
    async for run in rig.client.list(wanted, page_size=PAGE):
        runs.append(run)
        if len(runs) == PAGE:
            break
    return runs


async def _slowest_of_most(call: Callable[[], Awaitable[object]]) -> float:
    taken: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - began) * 1e3)
    return quantile(taken, 0.99)
