"""`make bench`, or `python -m bench [--quick]`: prints one JSON document. bench/README.md says how to read it."""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import asyncpg

from bench.load import Records, keep_in_flight
from bench.workflow import source
from headway.cli.stack import Shape, Stack
from headway.client import Client

THROUGHPUT_IN_FLIGHT = 200
PACKAGES = ("grpcio", "asyncpg", "redis", "protobuf", "orjson", "cel-expr-python")


async def measure(seconds: float) -> dict[str, float]:
    """One repeat on a fresh stack: throughput with many runs in flight, hops with one and with fifty."""
    records = Records()
    server = await asyncio.start_server(records.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    shape = Shape(
        port=0,
        modules=("bench.worker",),
        queues=("bench",),
        concurrency=400,
        environment={"BENCH_RECORDS": f"127.0.0.1:{port}", "HEADWAY_LOG_LEVEL": "warning"},
    )
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with server, Stack(Path(folder), shape) as stack, Client(stack.address) as client:
            await _require_durability(stack.database_url)
            await client.deploy(source("line"))
            await keep_in_flight(client, "line", records, 20, seconds / 3)  # caches, connections, plans
            busy = await keep_in_flight(client, "line", records, THROUGHPUT_IN_FLIGHT, seconds)
            figures["tasks_per_s"] = busy.tasks_per_s
            for name, in_flight in (("hop", 1), ("hop50", 50)):
                stretch = await keep_in_flight(client, "line", records, in_flight, seconds)
                figures[f"{name}_ms_p50"] = _quantile(stretch.hops_ms, 0.50)
                figures[f"{name}_ms_p99"] = _quantile(stretch.hops_ms, 0.99)
    return figures


async def _require_durability(database_url: str) -> None:
    """A result without durability counts for nothing."""
    connection = await asyncpg.connect(database_url)
    try:
        for name in ("fsync", "synchronous_commit"):
            value = await connection.fetchval("SELECT current_setting($1)", name)
            if value != "on":
                raise SystemExit(f"{name} is {value}: the benchmark only counts with it on")
    finally:
        await connection.close()


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _document(repeats: Sequence[Mapping[str, float]], seconds: float) -> dict[str, object]:
    names = repeats[0].keys()
    return {
        "figures": {name: round(statistics.median(one[name] for one in repeats), 3) for name in names},
        "spread": {
            name: [round(min(one[name] for one in repeats), 3), round(max(one[name] for one in repeats), 3)]
            for name in names
        },
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "processor": platform.machine()},
        "versions": {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}},
        "settings": {
            "repeats": len(repeats),
            "seconds": seconds,
            "in_flight": THROUGHPUT_IN_FLIGHT,
            "fsync": "on",
            "synchronous_commit": "on",
            "coordinators": 1,
        },
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short repeat, under two minutes")
    parser.add_argument("--repeats", type=int, default=3, help="fresh stacks to measure (default 3)")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of each stretch (default 15)")
    arguments = parser.parse_args()
    repeats, seconds = (1, 6.0) if arguments.quick else (arguments.repeats, arguments.seconds)
    measured = [asyncio.run(measure(seconds)) for _ in range(repeats)]
    print(json.dumps(_document(measured, seconds), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
