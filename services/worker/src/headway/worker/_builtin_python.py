"""The built-in handler `headway.python`: inline code, each time in a fresh process with limits.

The limits keep mistakes from harming the worker: they are no sandbox. Code runs with the worker's user and network, so
a worker serves it only when it is told to.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import orjson

from headway.worker._errors import Final, Retryable
from headway.worker._outcomes import OUTPUT_LIMIT, TRACE_LIMIT

PYTHON_HANDLER = "headway.python"
PYTHON_QUEUE = "python"

_CHILD = Path(__file__).with_name("_python_child.py")
_MIB = 1024 * 1024
_POLL = 0.05
_MOST_SWEEPS = 10
"""Looks for what code left behind: each may meet what was being started during the one before."""
_SLACK = 64 * 1024
"""Room for what is around an output in the child's answer."""


class PythonInvalidInput(Final):
    """The input is not `{code, input?, limits?}`."""


class PythonLimit(Final):
    """The code used more processor time or memory, or returned more, than it may."""


class PythonTimeout(Retryable):
    """The code did not end in time."""

    timed_out = True


class PythonDied(Retryable):
    """The process ended without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonLimits:
    """What one piece of inline code may use.

    Attributes:
        cpu: Seconds of processor time.
        memory: MiB of address space.
        wall: Seconds from start to end.
    """

    cpu: int = 10
    memory: int = 512
    wall: int = 30


MOST_LIMITS = PythonLimits(cpu=600, memory=4096, wall=3600)


class PythonHandler:
    """Runs inline code."""

    async def __call__(self, request: Any) -> object:
        """Run `run(input)` of the code in a child process; kill it when cancelled.

        Args:
            request: `{code, input?, limits?: {cpu?, memory?, wall?}}`: seconds, MiB, seconds.

        Returns:
            What `run` returned.

        Raises:
            TaskFailed: Over a limit, or what the code raised: retryable, with its own type and trace.
        """
        code, given, limits = _parse(request)
        folder = tempfile.mkdtemp(prefix="headway-python-")
        try:
            return await _run(code, given, limits, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


async def _run(code: str, given: object, limits: PythonLimits, folder: str) -> object:
    request = {
        "code": code,
        "input": given,
        "limits": {"cpu": limits.cpu, "memory": limits.memory * _MIB, "wall": limits.wall},
    }
    with _start(orjson.dumps(request), folder) as child:
        try:
            async with asyncio.timeout(limits.wall):
                answer, printed = await _read(child, folder)
        except TimeoutError:
            raise PythonTimeout(f"the code did not end within {limits.wall} s", details={"limit": "wall"}) from None
        except BaseException:
            await _kill(child, folder)
            raise
    return _outcome(child.returncode, answer, printed, limits)


def _start(request: bytes, folder: str) -> subprocess.Popen[bytes]:
    """Start the child.

    `subprocess` does it with vfork. The event loop may fork instead, as uvloop does: that copies the page tables of
    the whole worker, and for every child gRPC prints that it could not prepare for the fork.
    """
    with tempfile.TemporaryFile() as stdin:
        stdin.write(request)
        stdin.seek(0)
        return subprocess.Popen(  # noqa: S603  our own script
            [sys.executable, "-I", str(_CHILD)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            # Nothing of the worker's environment: it holds addresses and passwords.
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": folder, "TMPDIR": folder},
            start_new_session=True,
        )


async def _read(child: subprocess.Popen[bytes], folder: str) -> tuple[bytes, bytes]:
    """What the child writes to stdout and to stderr, until it has ended: what it started may hold both for longer."""
    if child.stdout is None or child.stderr is None:
        raise PythonDied("the process has no pipes")
    async with asyncio.TaskGroup() as group:
        ended = asyncio.Event()
        answer = group.create_task(_first(_chunks(child.stdout, ended), OUTPUT_LIMIT * 2 + _SLACK))
        printed = group.create_task(_last(_chunks(child.stderr, ended), TRACE_LIMIT))
        await _ended(child)
        await _kill(child, folder)  # first, so that nobody goes on writing
        ended.set()
    return answer.result(), printed.result()


async def _ended(child: subprocess.Popen[bytes]) -> None:
    """Wait for the child's own end, without a thread."""
    if not hasattr(os, "pidfd_open"):  # macOS
        while child.poll() is None:  # noqa: ASYNC110  there is nothing to wait on
            await asyncio.sleep(_POLL)
        return
    loop, gone, descriptor = asyncio.get_running_loop(), asyncio.Event(), os.pidfd_open(child.pid)
    loop.add_reader(descriptor, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _chunks(pipe: IO[bytes], ended: asyncio.Event) -> AsyncGenerator[bytes]:
    """Read a pipe to its end, or until `ended` is set and it is empty; closing it stays with its owner."""
    loop, readable, descriptor = asyncio.get_running_loop(), asyncio.Event(), pipe.fileno()
    os.set_blocking(descriptor, False)
    loop.add_reader(descriptor, readable.set)
    waker = asyncio.create_task(_pass_on(ended, readable))
    try:
        while True:
            await readable.wait()
            readable.clear()
            last = ended.is_set()
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(descriptor, _SLACK):
                    yield chunk
                last = True
            if last:
                return
    finally:
        waker.cancel()
        loop.remove_reader(descriptor)


async def _pass_on(cause: asyncio.Event, effect: asyncio.Event) -> None:
    await cause.wait()
    effect.set()


async def _first(chunks: AsyncGenerator[bytes], most: int) -> bytes:
    """Read to the end; keep up to `most` bytes and one more, as a sign that there was more."""
    kept = bytearray()
    async for chunk in chunks:
        kept += chunk[: most + 1 - len(kept)]
    return bytes(kept)


async def _last(chunks: AsyncGenerator[bytes], most: int) -> bytes:
    kept = b""
    async for chunk in chunks:
        kept = (kept + chunk)[-most:]
    return kept


async def _kill(child: subprocess.Popen[bytes], folder: str) -> None:
    """Kill the child and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    await asyncio.to_thread(_kill_strays, folder)
    await asyncio.to_thread(child.wait)


def _kill_strays(folder: str) -> None:
    """Kill what left the group for a session of its own, by the folder that was made for this code.

    Where there is no /proc, and for code that hides on purpose, the group is all that is killed.
    """
    for _ in range(_MOST_SWEEPS):
        found = False
        for process in Path("/proc").glob("[0-9]*"):
            # Not ours to look at, or gone.
            with contextlib.suppress(OSError):
                if _is_stray(process, folder):
                    os.kill(int(process.name), signal.SIGKILL)
                    found = True
        if not found:
            return


def _is_stray(process: Path, folder: str) -> bool:
    """Its place is the folder, or its environment names it; while it becomes another program it has none."""
    if (process / "cwd").readlink() == Path(folder).resolve():
        return True
    return b"\0HOME=" + os.fsencode(folder) + b"\0" in b"\0" + (process / "environ").read_bytes() + b"\0"


def _outcome(status: int, answer: bytes, printed: bytes, limits: PythonLimits) -> object:
    if status == -signal.SIGXCPU:
        raise PythonLimit(f"the code used more than {limits.cpu} s of processor time", details={"limit": "cpu"})
    try:
        result = cast("dict[str, Any]", orjson.loads(answer))
    except orjson.JSONDecodeError:
        if len(answer) > OUTPUT_LIMIT:
            raise PythonLimit(f"the output has more than {OUTPUT_LIMIT} bytes", details={"limit": "output"}) from None
        text = printed.decode("utf-8", "replace")
        raise PythonDied(f"the process ended with status {status}: {text}".strip(": ")) from None
    error = cast("dict[str, Any] | None", result.get("error"))
    if error is None:
        return result.get("output")
    if error.get("limit") == "memory":
        raise PythonLimit(f"the code used more than {limits.memory} MiB of memory", details={"limit": "memory"})
    kind = Final if error["final"] else Retryable
    failure = kind(str(error["message"]), type=str(error["type"]))
    failure.trace = str(error["trace"])
    raise failure


def _parse(request: Any) -> tuple[str, object, PythonLimits]:
    if not isinstance(request, dict):
        raise PythonInvalidInput("the input must be an object with at least code")
    fields = cast("dict[str, Any]", request)
    code = fields.get("code")
    if not isinstance(code, str):
        raise PythonInvalidInput("code must be text that defines run(input)")
    if unknown := sorted(set(fields) - {"code", "input", "limits"}):
        raise PythonInvalidInput(f"unknown keys: {', '.join(unknown)}; known are code, input, limits")
    limits = fields.get("limits") or {}
    if not isinstance(limits, dict):
        raise PythonInvalidInput("limits must be an object")
    return code, fields.get("input"), _limits(cast("dict[str, Any]", limits))


def _limits(given: dict[str, Any]) -> PythonLimits:
    values: dict[str, int] = {}
    for name, value in given.items():
        most: int | None = getattr(MOST_LIMITS, name, None)
        if most is None:
            raise PythonInvalidInput(f"unknown limit {name}; known are cpu (s), memory (MiB), wall (s)")
        if isinstance(value, bool) or not isinstance(value, int | float) or int(value) != value:
            raise PythonInvalidInput(f"limit {name} is {value!r}; it must be a whole number")
        if not 1 <= value <= most:
            raise PythonInvalidInput(f"limit {name} is {value}; it must be between 1 and {most}")
        values[name] = int(value)
    return PythonLimits(**values)
