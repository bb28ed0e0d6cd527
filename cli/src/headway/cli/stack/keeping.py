"""Keeping one process of the stack: started, started again when it dies unasked, stopped for good."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable

from headway.cli.stack.process import Recipe, ServiceProcess

FIRST_PAUSE = 0.5  # seconds before a process that died is started again
LONGEST_PAUSE = 10.0  # seconds; the pause doubles while it keeps dying
STEADY = 30.0  # seconds after which a process counts as having lived


class Kept:
    """A process that should run, until it is stopped or killed on purpose."""

    def __init__(
        self,
        recipe: Recipe,
        process: ServiceProcess,
        launch: Callable[[Recipe], Awaitable[ServiceProcess]],
        *,
        restart: bool,
        say: Callable[[str], None],
    ) -> None:
        """Keep a process that has just been launched.

        One that ends before it has served for the first time cannot start: it is given up, whatever `restart` says.

        Args:
            recipe: How it is launched again.
            process: The process.
            launch: Launches it.
            restart: Whether to launch it again when it dies.
            say: Called with what a person should know.
        """
        self._recipe = recipe
        self._launch = launch
        self._restart = restart
        self._say = say
        self._unwanted = asyncio.Event()
        self._is_proven = False
        self.process = process
        self._task = asyncio.create_task(self._keep(), name=f"keeper of {recipe.name}")

    @property
    def is_wanted(self) -> bool:
        """True unless it was stopped or killed on purpose."""
        return not self._unwanted.is_set()

    @property
    def is_given_up(self) -> bool:
        """True when it has ended and is not going to be started again by itself."""
        return self.process.exit_code is not None and not (self._restart and self._is_proven and self.is_wanted)

    def prove(self) -> None:
        """Note that it can start: from now on its end is an accident."""
        self._is_proven = True

    async def stop(self, patience: float) -> None:
        """End it: SIGTERM, and SIGKILL after so many seconds."""
        self._unwanted.set()
        await self.process.stop(patience)
        await self._task

    async def kill(self) -> None:
        """End it with SIGKILL."""
        self._unwanted.set()
        self.process.send(signal.SIGKILL)
        await self._task

    async def _keep(self) -> None:
        pause = FIRST_PAUSE / 2
        while True:
            began_at = time.monotonic()
            code = await self.process.wait()
            if not self.is_wanted or (self._restart and not self._is_proven):
                return  # whoever waits for its first start tells what it said
            if not self._restart:
                self._say(f"{self._recipe.name} {how_it_ended(code)}")
                return
            steady = time.monotonic() - began_at > STEADY
            pause = FIRST_PAUSE if steady else min(pause * 2, LONGEST_PAUSE)
            self._say(f"{self._recipe.name} {how_it_ended(code)}; starting it again in {pause:g} s")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._unwanted.wait()
                    return
            self.process = await self._launch(self._recipe)
            if not self.is_wanted:  # stopped while it was being launched
                self.process.send(signal.SIGKILL)


def how_it_ended(code: int) -> str:
    """The end of a process in words; negative: by a signal."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
