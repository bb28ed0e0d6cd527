"""The line of ten on DBOS. Runs by itself in DBOS's own environment: DATABASE_URL IN_FLIGHT SECONDS; prints JSON."""

import asyncio
import importlib
import json
import sys
import time
from typing import Any

STEPS = 10
PAD = "x" * 180
WARM_UP = 2.0

_dbos: Any = importlib.import_module("dbos")
DBOS: Any = _dbos.DBOS
_ends: list[float] = []


@DBOS.step()
async def step(value: dict[str, Any], number: int) -> dict[str, Any]:
    """Count, and pass the payload on."""
    counted = {"n": value["n"] + 1, "step": number, "pad": value["pad"]}
    _ends.append(time.monotonic())
    return counted


@DBOS.workflow()
async def line(value: dict[str, Any]) -> int:
    """Ten steps; the output is how many the counter went through."""
    for number in range(STEPS):
        value = await step(value, number)
    count: int = value["n"]
    return count


async def measure(in_flight: int, seconds: float) -> dict[str, object]:
    """Keep workflows in flight for a while; then ask the database how each has ended."""
    started: list[str] = []
    first = time.monotonic() + WARM_UP
    last = first + seconds

    async def keep() -> None:
        while time.monotonic() < last:
            handle = await DBOS.start_workflow_async(line, {"n": 0, "pad": PAD})
            started.append(handle.get_workflow_id())
            await handle.get_result()

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(keep())
    done = sum(first <= end < last for end in _ends)
    ended = await DBOS.list_workflows_async(load_input=False)
    right = {each.workflow_id for each in ended if each.status == "SUCCESS" and each.output == STEPS}
    return {"tasks_per_s": done / seconds, "runs": len(started), "right": len(right.intersection(started))}


async def main() -> None:
    """Measure and print."""
    url, in_flight, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    config = {"name": "bench", "system_database_url": url, "console_log_level": "ERROR", "log_level": "ERROR"}
    DBOS(config=config)
    DBOS.launch()
    try:
        print(json.dumps(await measure(in_flight, seconds)))
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main())
