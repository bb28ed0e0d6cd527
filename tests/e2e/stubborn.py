"""Handlers of the tests that kill processes: each writes down when it ran, by the machine's monotonic clock."""

import asyncio
import json
import os
import time
from typing import Any

from headway.worker import Context, Retryable, handler


def note(context: Context, what: str) -> None:
    """Append one line in one write: the file is shared by all workers, dead ones included."""
    line = {
        "what": what,
        "task": context.task_id,
        "attempt": context.attempt,
        "key": context.idempotency_key,
        "worker": os.getpid(),
        "at": time.monotonic(),
    }
    with open(os.environ["STUBBORN_NOTES"], "a", encoding="utf-8") as notes:  # noqa: PTH123 - one write, appended
        notes.write(json.dumps(line) + "\n")


@handler("stubborn.step", queue="stubborn")
async def step(value: dict[str, Any], context: Context) -> dict[str, Any]:
    """Work for a moment; count."""
    note(context, "begin")
    try:
        await asyncio.sleep(value.get("seconds", 0.05))
    finally:
        note(context, "end")
    return {"count": value["count"] + 1}


@handler("stubborn.flaky", queue="stubborn")
async def flaky(value: dict[str, Any], context: Context) -> dict[str, Any]:
    """Fail the first try."""
    note(context, "begin")
    note(context, "end")
    if context.try_number == 1:
        raise Retryable("the first try always fails")
    return {"count": value["count"] + 1}
