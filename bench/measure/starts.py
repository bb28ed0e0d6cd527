"""How many runs a second are taken in."""

import asyncio
import time

import redis.asyncio

from bench.checking import WrongResult
from bench.pace import Pace, Samples
from bench.rig import Rig
from bench.workflow import PAD, unread
from headway.client import Client, RunFilter, RunState

CLIENTS = 64
WITHIN = 60.0  # seconds for the relay to publish the rest
STREAM = "headway:{default/nobody}:dispatch"  # docs/worker_protocol.md


async def starts(rig: Rig, pace: Pace) -> Samples:
    """Starts answered per second, one run each, by many callers at a time."""
    await rig.client.deploy(unread("unread"))
    until = time.monotonic() + pace.warm_up
    warm = await _start_until(rig.client, until)
    began = time.monotonic()
    answered = await _start_until(rig.client, began + pace.seconds)
    seconds = time.monotonic() - began
    await _check(rig, warm + answered)
    return {"starts_per_s": [len(answered) / seconds]}


async def _start_until(client: Client, until: float) -> list[str]:
    """Start runs until then; answers those that were answered."""
    answered: list[str] = []
    value = {"n": 0, "pad": PAD}

    async def call() -> None:
        while time.monotonic() < until:
            answered.append((await client.start("unread", value)).run_id)

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(call())
    return answered


async def _check(rig: Rig, answered: list[str]) -> None:
    """Every answered run is there, and each has been dispatched."""
    running = {run.run_id async for run in rig.client.list(RunFilter(states=(RunState.RUNNING,)), page_size=1000)}
    if running != set(answered):
        lost, strange = len(set(answered) - running), len(running - set(answered))
        raise WrongResult(f"{lost} of {len(answered)} started runs are not there, {strange} are that nobody started")
    give_up_at = time.monotonic() + WITHIN
    broker = redis.asyncio.Redis.from_url(rig.stack.redis_url)
    try:
        while (published := await broker.xlen(STREAM)) < len(answered):
            if time.monotonic() > give_up_at:
                raise WrongResult(f"{published} of {len(answered)} dispatches are published")
            await asyncio.sleep(0.1)
    finally:
        await broker.aclose()
