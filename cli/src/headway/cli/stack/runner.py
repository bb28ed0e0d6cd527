"""The runner of a stack: every service of Headway on one machine, each in its own process.

Used by `headway dev`, the demo, the benchmark and the tests that kill processes. Nothing that it started outlives it.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from headway.cli.stack.folder import DataFolder
from headway.cli.stack.keeping import Kept, how_it_ended
from headway.cli.stack.migrating import migrate
from headway.cli.stack.process import Recipe, ServiceProcess
from headway.cli.stack.readiness import wait_until_serving
from headway.cli.stack.servers import Servers, keep_running, start_servers
from headway.cli.stack.shape import KINDS, Layout, Shape, kind_of

DRAIN = 10.0  # seconds that a process has to end after SIGTERM


class StackFault(Exception):
    """The stack, or a part of it, did not come up."""


class Stack:
    """Starts, stops and kills the services of one Headway.

    Processes are named by kind and number: coordinator-1, relay-1, timers-1, worker-1, … A process keeps its ports, its
    environment and its log file when it is started again::

        async with Stack(Path(".headway"), Shape(port=0, coordinators=2)) as stack:
            async with Client(stack.address) as client:
                ...
            await stack.kill("coordinator-1")
            await stack.start("coordinator-1")
    """

    def __init__(
        self,
        data: Path,
        shape: Shape | None = None,
        *,
        fresh: bool = False,
        restart: bool = False,
        on_line: Callable[[str, str], None] = lambda _name, _line: None,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Describe a stack; nothing is touched before `start`.

        Args:
            data: Folder of the data and the log files.
            shape: How many of each service, and their environment.
            fresh: Begin without the data of earlier starts.
            restart: Start a process that dies again, after a pause that doubles while it keeps dying.
            on_line: Called with a process's name and each line that it prints.
            say: Called with what a person should know.
        """
        self._data = data
        self._shape = shape or Shape()
        self._fresh = fresh
        self._restart = restart
        self._on_line = on_line
        self._say = say
        self._cleanup = AsyncExitStack()
        self._kept: dict[str, Kept] = {}
        self._layout: Layout | None = None
        self._servers: Servers | None = None
        self._life_line = -1

    async def __aenter__(self) -> Self:
        """Start everything, and wait until it serves."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        await self.stop()

    @property
    def address(self) -> str:
        """The coordinators' addresses, as `Client` and HEADWAY_COORDINATOR take them."""
        return self._known_layout().coordinators

    @property
    def addresses(self) -> dict[str, str]:
        """Where each process serves gRPC, if only health."""
        return dict(self._known_layout().listens)

    @property
    def database_url(self) -> str:
        """The database."""
        return self._known_servers().database_url

    @property
    def redis_url(self) -> str:
        """The broker."""
        return self._known_servers().redis_url

    @property
    def servers(self) -> Servers:
        """The database and the broker; where they are embedded, they can be killed and restarted too."""
        return self._known_servers()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every process, and of whoever wants to talk to the stack."""
        servers = self._known_servers()
        return self._known_layout().environment(servers.database_url, servers.redis_url)

    @property
    def pids(self) -> dict[str, int]:
        """The processes that run."""
        return {name: kept.process.pid for name, kept in self._kept.items() if kept.process.exit_code is None}

    def log_file(self, name: str) -> Path:
        """Where a process's lines are kept, over all its starts."""
        return self._known_layout().logs / f"{name}.log"

    async def start(self, name: str | None = None, *, within: float = 60.0) -> None:
        """Start everything and wait until it serves; or start one process (again) that is down, without waiting.

        Raises:
            FolderTaken: Another stack uses the data folder.
            FolderUnusable: The data folder cannot be made or written.
            PortTaken: A port that was asked for is in use.
            StackFault: It did not come up.
        """
        if name is not None:
            await self._launch(name)
            self._kept[name].prove()
            return
        try:
            await self._start_all(within)
        except BaseException:
            await self.stop()
            raise

    async def wait_ready(self, name: str | None = None, *, within: float = 60.0) -> None:
        """Wait until a process, or every process that should run, says that it serves.

        Raises:
            StackFault: It ended, or was not ready within so many seconds.
        """
        names = [each for each, kept in self._kept.items() if kept.is_wanted] if name is None else [name]
        waiting = set(names)
        try:
            async with asyncio.timeout(within), asyncio.TaskGroup() as group:
                for each in names:
                    group.create_task(self._wait_for(each, waiting))
        except TimeoutError:
            raise StackFault(f"not ready after {within:g} s: {', '.join(sorted(waiting))}") from None
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None

    async def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, and wait until it is gone; it stays down until `start(name)`."""
        await self._kept[name].kill()

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a process a signal, such as SIGTERM, SIGSTOP or SIGCONT."""
        self._kept[name].process.send(number)

    async def stop(self, name: str | None = None, *, patience: float = DRAIN) -> None:
        """Stop one process, or everything in good order.

        Args:
            name: The process; None: everything.
            patience: Seconds from SIGTERM to SIGKILL.
        """
        if name is not None:
            await self._kept[name].stop(patience)
            return
        for kind in reversed(KINDS):
            async with asyncio.TaskGroup() as group:
                for each, kept in self._kept.items():
                    if kind_of(each) == kind:
                        group.create_task(kept.stop(patience))
        await self._cleanup.aclose()

    async def _start_all(self, within: float) -> None:
        folder = DataFolder.hold(self._data)
        self._cleanup.callback(folder.release)
        if self._fresh:
            folder.empty()
        if not folder.has_database and not os.environ.get("HEADWAY_DATABASE_URL"):
            self._say(f"new data folder {folder.path}: nothing is deployed")
        self._layout = Layout.choose(self._shape, folder.logs())
        reading, writing = os.pipe()
        self._life_line = reading
        self._cleanup.callback(os.close, reading)
        self._cleanup.callback(os.close, writing)
        self._servers = await start_servers(folder.path, self._cleanup)
        await migrate(self.environment)
        for kind in KINDS:  # coordinators serve before anybody calls them: no noise of failed calls at the start
            names = [name for name in self._shape.names() if kind_of(name) == kind]
            for name in names:
                await self._launch(name)
            if kind == KINDS[0]:
                await self.wait_ready(within=within)
        await self.wait_ready(within=within)
        if self._restart:
            keeper = asyncio.create_task(keep_running(self._servers, self._say), name="keeper of the servers")
            self._cleanup.push_async_callback(_end, keeper)

    async def _launch(self, name: str) -> None:
        if name not in self._known_layout().listens:
            raise StackFault(f"the stack has no {name}; it has {', '.join(self._known_layout().listens)}")
        if name in self.pids:
            raise StackFault(f"{name} runs already")
        recipe = self._known_layout().recipe(name, self.environment)
        process = await self._launched(recipe)
        self._kept[name] = Kept(recipe, process, self._launched, restart=self._restart, say=self._say)

    async def _launched(self, recipe: Recipe) -> ServiceProcess:
        return await ServiceProcess.launch(recipe, self._life_line, self._on_line)

    async def _wait_for(self, name: str, waiting: set[str]) -> None:
        kept = self._kept[name]
        if not await wait_until_serving(self._known_layout().listens[name], lambda: kept.is_given_up):
            ended = how_it_ended(kept.process.exit_code or 0)
            raise StackFault(f"{name} {ended} before it was ready:\n{kept.process.last_words}")
        kept.prove()
        waiting.discard(name)

    def _known_layout(self) -> Layout:
        if self._layout is None:
            raise StackFault("the stack has not been started")
        return self._layout

    def _known_servers(self) -> Servers:
        if self._servers is None:
            raise StackFault("the stack has not been started")
        return self._servers


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
