"""Kills processes of a running stack with SIGKILL, at moments when it hurts, and starts new ones."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from examples.order_fulfilment.checks import Kill
from examples.order_fulfilment.steps import Step, read
from headway.cli.stack import Stack
from headway.client import Client, TaskState

LOOK_EVERY = 0.02  # seconds
BUSY_ENOUGH = 2  # steps under way
OUTAGE = 0.5  # seconds that a killed coordinator stays away


class Havoc:
    """Kills, and keeps book of it."""

    def __init__(self, stack: Stack, client: Client, diary: Path, say: Callable[[str], None]) -> None:
        """Get ready; `diary` is the workers' (see steps.py), `say` is told of each kill."""
        self._stack = stack
        self._client = client
        self._diary = diary
        self._say = say
        self._one_at_a_time = asyncio.Lock()
        self.kills: list[Kill] = []

    async def kill_worker(self) -> None:
        """Kill a worker in the middle of its work, and start a new one."""
        async with self._one_at_a_time:
            await self._kill_worker()

    async def _kill_worker(self) -> None:
        while True:
            name = await self._busy_worker()
            kill = await self._kill(name)
            cut_off = [step for step in read(self._diary) if step.process == kill.process and step.end is None]
            await self._stack.start(name)
            await self._stack.wait_ready(name)
            if cut_off:
                paths = ", ".join(f"{path} x{count}" for path, count in Counter(s.path for s in cut_off).items())
                self._say(f"killed {name} (pid {kill.process}) while it ran {paths}; a new one is up")
                return
            self.kills.remove(kill)  # it finished in the last millisecond: once more

    async def kill_coordinator(self) -> None:
        """Kill the coordinator while workers run steps, leave it away for a moment, and start a new one."""
        async with self._one_at_a_time:
            await self._kill_coordinator()

    async def _kill_coordinator(self) -> None:
        while len(self._under_way()) < BUSY_ENOUGH:  # noqa: ASYNC110 - other processes write the diary
            await asyncio.sleep(LOOK_EVERY)
        name = next(each for each in self._stack.pids if each.startswith("coordinator"))
        kill = await self._kill(name)
        steps = len(self._under_way())
        await asyncio.sleep(OUTAGE)
        await self._stack.start(name)
        await self._stack.wait_ready(name)
        away = time.monotonic() - kill.instant
        what = f"{steps} step{'' if steps == 1 else 's'} ran"
        self._say(f"killed {name} (pid {kill.process}) while {what}; a new one was up after {away:.1f} s")

    async def _kill(self, name: str) -> Kill:
        kill = Kill(name=name, process=self._stack.pids[name], instant=time.monotonic())
        self.kills.append(kill)
        await self._stack.kill(name)
        return kill

    async def _busy_worker(self) -> str:
        """Wait until a worker runs several steps, one of which the coordinator too knows to be running."""
        while True:
            names = {pid: name for name, pid in self._stack.pids.items() if name.startswith("worker")}
            under_way = [step for step in self._under_way() if step.process in names]
            for process, count in Counter(step.process for step in under_way).most_common(1):
                mine = [step for step in under_way if step.process == process]
                if count >= BUSY_ENOUGH and await self._is_running(mine[-1]):
                    return names[process]
            await asyncio.sleep(LOOK_EVERY)

    async def _is_running(self, step: Step) -> bool:
        tasks = (await self._client.get(step.run_id)).tasks
        return any(
            task.path == step.path and task.attempt == step.attempt and task.state is TaskState.RUNNING
            for task in tasks
        )

    def _under_way(self) -> list[Step]:
        alive = set(self._stack.pids.values())
        return [step for step in read(self._diary) if step.end is None and step.process in alive]
