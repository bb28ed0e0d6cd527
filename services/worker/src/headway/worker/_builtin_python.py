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
_SLACK = 64 * 1024
"""Room for what is around an output in the child's answer."""


class PythonInvalidInput(Final):
    """The input is not `{code, input?, limits?}`."""


class PythonLimit(Final):
    """The code used more processor time or memory, or returned more, than it may."""


class PythonTimeout(Retryable):
    """The code did not end in time."""


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


DEFAULT_LIMITS = PythonLimits()
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
                answer, printed = await _read(child)
                await asyncio.to_thread(child.wait)
        except TimeoutError:
            raise PythonTimeout(f"the code did not end within {limits.wall} s", details={"limit": "wall"}) from None
        finally:
            await _kill(child)
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


async def _read(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What the child writes to stdout and to stderr, until it has closed both."""
    if child.stdout is None or child.stderr is None:
        raise PythonDied("the process has no pipes")
    async with asyncio.TaskGroup() as group:
        answer = group.create_task(_first(child.stdout, OUTPUT_LIMIT * 2 + _SLACK))
        printed = group.create_task(_last(child.stderr, TRACE_LIMIT))
    return answer.result(), printed.result()


async def _chunks(pipe: IO[bytes]) -> AsyncGenerator[bytes]:
    """Read a pipe to its end, on the event loop; closing it stays with its owner."""
    loop, readable, descriptor = asyncio.get_running_loop(), asyncio.Event(), pipe.fileno()
    os.set_blocking(descriptor, False)
    loop.add_reader(descriptor, readable.set)
    try:
        while True:
            await readable.wait()
            readable.clear()
            with contextlib.suppress(BlockingIOError):
                if not (chunk := os.read(descriptor, _SLACK)):
                    return
                yield chunk
    finally:
        loop.remove_reader(descriptor)


async def _first(pipe: IO[bytes], most: int) -> bytes:
    """Read to the end; keep up to `most` bytes and one more, as a sign that there was more."""
    kept = bytearray()
    async for chunk in _chunks(pipe):
        kept += chunk[: most + 1 - len(kept)]
    return bytes(kept)


async def _last(pipe: IO[bytes], most: int) -> bytes:
    kept = b""
    async for chunk in _chunks(pipe):
        kept = (kept + chunk)[-most:]
    return kept


async def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    await asyncio.to_thread(child.wait)


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
