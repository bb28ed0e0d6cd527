"""The handler that does nothing, and tells the benchmark when it began and ended.

A record is run id, step, begin and end; the instants are nanoseconds of the machine's monotonic clock, which all
processes share.
"""

import asyncio
import os
import socket
import struct
import time
from typing import Any

from headway.worker import Context, handler

RECORD = struct.Struct("!16sqqq")  # run id, step, begin, end
FLUSH_SECONDS = 0.05

_buffer = bytearray()
_socket: socket.socket | None = None
_flusher: "asyncio.Task[None] | None" = None


@handler("bench.step", queue="bench")
async def step(value: dict[str, Any], context: Context) -> dict[str, Any]:
    """Return the input."""
    begin = time.monotonic_ns()
    global _flusher  # noqa: PLW0603 - one per process, begun in the loop that runs the handlers
    if _flusher is None:
        _flusher = asyncio.get_running_loop().create_task(_flush_for_ever())
    _buffer.extend(RECORD.pack(bytes.fromhex(context.run_id), value["step"], begin, time.monotonic_ns()))
    return value


async def _flush_for_ever() -> None:
    """Send what has gathered; rarely enough to cost nothing, often enough to keep runs coming."""
    while True:
        if _buffer:
            _send(bytes(_buffer))
            _buffer.clear()
        await asyncio.sleep(FLUSH_SECONDS if len(_buffer) > RECORD.size * 50 else 0.002)


def _send(records: bytes) -> None:
    global _socket  # noqa: PLW0603 - one connection per process
    if _socket is None:
        host, _, port = os.environ["BENCH_RECORDS"].rpartition(":")
        _socket = socket.create_connection((host, int(port)))
    _socket.sendall(records)
