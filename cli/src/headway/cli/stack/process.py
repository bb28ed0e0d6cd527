"""One child process: started bound to our life, its lines read, killed and waited for."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from headway.cli.stack import launcher

GUARD = "kernel" if sys.platform == "linux" else "pipe"

_CHUNK = 64 * 1024
_LAST_LINES = 2.0  # seconds to wait for them
_TAIL = 40  # lines kept to explain a death

OnLine: TypeAlias = Callable[[str, str], None]
"""Called with a process's name and a line that it printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a process of the stack is started, the first time and again.

    Attributes:
        name: Unique in the stack, such as "coordinator-1".
        argv: The interpreter's arguments, such as ("-m", "headway.relay").
        environment: All of it.
        health: Where it answers gRPC health checks.
        log: Where its lines are kept.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    health: str
    log: Path


class ServiceProcess:
    """A running, or ended, process of the stack."""

    def __init__(
        self, process: subprocess.Popen[bytes], recipe: Recipe, reader: asyncio.StreamReader, on_line: OnLine
    ) -> None:
        """Take over a started process; use `launch`."""
        self._process = process
        self._recipe = recipe
        self._on_line = on_line
        self._group_is_gone = False
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._pump = asyncio.create_task(self._read(reader), name=f"log of {recipe.name}")
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        # Not asyncio's own waiting: that goes on while anything that the process started holds the pipe of its lines.
        threading.Thread(target=self._await_end, name=f"end of {recipe.name}", daemon=True).start()

    @classmethod
    async def launch(cls, recipe: Recipe, life_line: int, on_line: OnLine, *, guard: str = GUARD) -> "ServiceProcess":
        """Start it.

        Args:
            recipe: What to start.
            life_line: The reading end of a pipe whose writing end only this process has.
            on_line: Called with the name and each line that it prints.
            guard: How it is bound to this process's life; see `launcher`.
        """
        reading, writing = os.pipe()
        reader = asyncio.StreamReader()
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
            )
            try:
                process = _popen(recipe, life_line, writing, guard)
            except BaseException:
                transport.close()
                raise
        finally:
            os.close(writing)
        return cls(process, recipe, reader, on_line)

    @property
    def pid(self) -> int:
        """Its process id; also its group's."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        return self._process.returncode

    @property
    def last_words(self) -> str:
        """The last lines that it printed."""
        return "\n".join(self._tail)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; one that has ended takes none."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def wait(self) -> int:
        """Wait until it has ended and its last line is read; nothing that it started stays behind."""
        code = await asyncio.shield(self._ended)
        if not self._group_is_gone:  # only once: later, the number may be another group's
            self._group_is_gone = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        await asyncio.wait({self._pump}, timeout=_LAST_LINES)
        self._pump.cancel()  # what left its group may hold the pipe still
        return code

    async def stop(self, patience: float) -> int:
        """End it: SIGTERM, and SIGKILL when it has not ended after so many seconds."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(patience):
                return await self.wait()
        except TimeoutError:
            self._on_line(self._recipe.name, f"did not end within {patience:g} s and is killed")
            self.send(signal.SIGKILL)
            return await self.wait()

    def _await_end(self) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody asks any more
            self._loop.call_soon_threadsafe(self._ended.set_result, code)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        with self._recipe.log.open("ab") as log:
            while chunk := await reader.read(_CHUNK):
                log.write(chunk)
                log.flush()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._tell(line)
        if rest:
            self._tell(rest)

    def _tell(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        self._tail.append(text)
        self._on_line(self._recipe.name, text)


def _popen(recipe: Recipe, life_line: int, output: int, guard: str) -> subprocess.Popen[bytes]:
    # Called in the thread of the event loop: the kernel's guard counts the life of the thread that starts a process.
    return subprocess.Popen(  # noqa: S603 - our own words
        [
            *(sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), str(life_line), guard),
            *(sys.executable, *recipe.argv),
        ],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=dict(recipe.environment),
        pass_fds=(life_line,),
        start_new_session=True,  # Ctrl-C is for the stack, which stops its processes in good order
    )
