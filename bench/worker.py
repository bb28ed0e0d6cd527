"""The handlers of the benchmark: they do nothing, and tell when they began and ended."""

import asyncio
import os
import socket
import time
from typing import Any

from bench.records import RECORD
from headway.worker import Context, handler

FLUSH_AFTER = 0.005  # seconds that a record waits for others
HOLD = os.environ.get("BENCH_HOLD", "") != "no"

_told = bytearray()
_sockets: list[socket.socket] = []


@handler("bench.step", queue="bench")
async def step(value: dict[str, Any], context: Context) -> dict[str, Any]:
    """Return the input."""
    begin = time.monotonic_ns()
    _tell(context.run_id, value["step"], begin)
    return value


@handler("bench.hold", queue="hold")
async def hold(value: dict[str, Any], context: Context) -> dict[str, Any]:
    """Never end, unless BENCH_HOLD says no; then return the input."""
    _tell(context.run_id, value["step"], time.monotonic_ns())
    if HOLD:
        await asyncio.Event().wait()
    return value


def _tell(run_id: str, number: int, begin: int) -> None:
    """Nothing is woken while there is nothing to tell: an idle worker stays idle."""
    if not _told:
        asyncio.get_running_loop().call_later(FLUSH_AFTER, _flush)
    _told.extend(RECORD.pack(bytes.fromhex(run_id), number, begin, time.monotonic_ns()))


def _flush() -> None:
    if not _sockets:
        host, _, port = os.environ["BENCH_RECORDS"].rpartition(":")
        _sockets.append(socket.create_connection((host, int(port))))
    _sockets[0].sendall(_told)
    _told.clear()
