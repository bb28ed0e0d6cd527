"""Running a peer's programs, and what they answer."""

import asyncio
import contextlib
import json
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.checking import WrongResult

END_WITHIN = 20.0  # seconds from SIGTERM to SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a peer came to under one load. `hop_ms_p50` is None where it was not asked for."""

    tasks_per_s: float
    hop_ms_p50: float | None = None


def read_measured(peer: str, text: str) -> Measured:
    """Read what a load program printed.

    Raises:
        WrongResult: Not every run came to the right end.
    """
    answer: dict[str, Any] = json.loads(text)
    if not answer["runs"] == answer["right"] > 0:
        raise WrongResult(f"{peer}: {answer['right']} of {answer['runs']} runs came to the right end")
    return Measured(tasks_per_s=answer["tasks_per_s"], hop_ms_p50=answer.get("hop_ms_p50"))


async def output_of(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a program to its end; answers what it printed.

    Raises:
        WrongResult: It failed.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )
    try:
        out, err = await process.communicate()
    finally:
        await _end(process)
    if process.returncode:
        raise WrongResult(f"{command[0]} failed: {err.decode(errors='replace').strip()[-500:]}")
    return out.decode()


@asynccontextmanager
async def running(command: Sequence[str], environment: Mapping[str, str] | None = None) -> AsyncIterator[None]:
    """Have a program run meanwhile."""
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet, env=environment)
    try:
        yield
    finally:
        await _end(process)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as held:
        listeners = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(END_WITHIN):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
