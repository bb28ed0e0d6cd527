"""How a worker stops."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.worker import Context
from tests.worker.conftest import Bench, nothing


async def test_a_drain_lets_running_handlers_end_and_reads_no_more(bench: Bench) -> None:
    started = asyncio.Event()
    may_end = asyncio.Event()

    ran: list[str] = []

    @bench.registry.handler("wait")
    async def wait(name: str) -> None:
        started.set()
        await may_end.wait()
        ran.append(name)

    bench.dispatch("t1", "wait", "first")
    async with bench.worker() as drain:
        await started.wait()
        drain.set()
        await asyncio.sleep(0)  # one turn of the loop: the drain has begun
        bench.dispatch("t2", "wait", "second")
        may_end.set()

    assert ran == ["first"]
    # The broker may have handed it to the read that the drain cut off: then it was given back, else it stays.
    released = [item.task_id for item in bench.coordinator.reports if item.HasField("released")]
    assert released == ([] if bench.left() else ["t2"])


async def test_what_was_leased_but_never_ran_is_released(bench: Bench) -> None:
    ran: list[Any] = []
    bench.registry.handler("run")(ran.append)
    drains: list[asyncio.Event] = []
    loop = asyncio.get_running_loop()

    def grant_in_drain(item: tasks_pb2.LeaseItem) -> tasks_pb2.LeaseResult:
        asyncio.run_coroutine_threadsafe(_set(drains[0]), loop).result(10)
        return bench.coordinator.grant(item)

    bench.coordinator.script.lease = grant_in_drain
    async with bench.worker() as drain:
        drains.append(drain)
        bench.dispatch("t1", "run")
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").HasField("released")
    assert ran == []
    assert bench.left() == 0


async def test_handlers_that_outlast_the_drain_are_stopped_and_left_to_their_lease(bench: Bench) -> None:
    started = asyncio.Event()
    stopped = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any, context: Context) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert context.cancelled
            stopped.set()

    bench.dispatch("t1", "wait")
    async with bench.worker(settings={"drain_timeout": timedelta(seconds=1)}, drained_within=5):
        await started.wait()

    assert stopped.is_set()
    assert bench.coordinator.reports == []
    assert bench.pending() == 1


async def test_a_drain_ends_a_reconnect_to_redis(bench: Bench) -> None:
    """The broker hangs up on everyone; the pauses between tries grow; the drain waits for none of them."""
    connections = 0
    several = asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()
        if connections >= 3:
            several.set()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as broker:
        port = broker.sockets[0].getsockname()[1]
        settings = {"redis_url": f"redis://127.0.0.1:{port}/0"}
        async with bench.worker(settings=settings, drained_within=5):
            await several.wait()


async def test_a_drain_ends_a_reconnect_to_the_coordinator_and_leaves_the_messages(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    bench.coordinator.script.always_abort["lease"] = grpc.StatusCode.UNAVAILABLE
    bench.dispatch("t1", "run")

    async with bench.worker(drained_within=5):
        await bench.coordinator.until(lambda: len(bench.coordinator.lease_calls) >= 4)

    assert (bench.coordinator.reports, bench.pending()) == ([], 1)


async def test_a_worker_that_drained_leaves_no_consumer_behind_but_where_something_is_pending(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    bench.dispatch("t1", "run")
    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.redis.xinfo_consumers("headway:{default/default}:dispatch", "workers") == []


MODULE = """
import asyncio
from headway.worker import handler

@handler("wait", queue="waiting")
async def wait(given):
    await asyncio.Event().wait()

@handler("echo", queue="waiting")
def echo(given):
    return given
"""


async def start_process(bench: Bench, folder: Path, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
    (folder / "handlers_under_test.py").write_text(MODULE)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "headway.worker", "handlers_under_test", *arguments),
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HEADWAY_COORDINATOR": bench.coordinator.address,
            "HEADWAY_REDIS_URL": bench.redis_url,
            "HEADWAY_LOG_FORMAT": "json",
            **environment,
        },
        stderr=asyncio.subprocess.PIPE,
    )


async def until_logged(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stderr is not None
    while text not in (line := (await process.stderr.readline()).decode()):
        assert line, f"the process ended without saying {text!r}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_the_process_and_it_exits_with_zero(
    bench: Bench, tmp_path: Path, number: signal.Signals
) -> None:
    bench.dispatch("t1", "echo", {"a": 1}, queue="waiting")
    process = await start_process(bench, tmp_path)
    await bench.coordinator.until_reported("t1")

    process.send_signal(number)
    await process.communicate()

    assert process.returncode == 0
    assert bench.left("waiting") == 0


async def test_a_second_signal_ends_the_process_at_once(bench: Bench, tmp_path: Path) -> None:
    bench.coordinator.lease_seconds = 0.6
    bench.dispatch("t1", "wait", queue="waiting")
    process = await start_process(bench, tmp_path)
    await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 1)

    process.send_signal(signal.SIGTERM)
    await until_logged(process, "draining")
    process.send_signal(signal.SIGTERM)
    await process.communicate()

    assert process.returncode == 128 + signal.SIGTERM


async def test_a_signal_drains_a_process_that_cannot_reach_its_broker(bench: Bench, tmp_path: Path) -> None:
    process = await start_process(bench, tmp_path, HEADWAY_REDIS_URL="redis://127.0.0.1:1/0")
    await until_logged(process, "no Redis answers")

    process.send_signal(signal.SIGTERM)
    await process.communicate()

    assert process.returncode == 0


async def test_a_killed_workers_message_is_run_by_another(bench: Bench, tmp_path: Path) -> None:
    bench.coordinator.lease_seconds = 0.6
    bench.dispatch("t1", "wait", queue="waiting")
    first = await start_process(bench, tmp_path)
    await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 1)
    first.kill()
    await first.communicate()

    second = await start_process(bench, tmp_path, HEADWAY_WORKER_CLAIM_IDLE="0.2s")
    await bench.coordinator.until(lambda: len(bench.coordinator.owners) == 2)
    second.kill()
    await second.communicate()

    assert [item.task_id for item in bench.coordinator.leases] == ["t1", "t1"]


async def _set(event: asyncio.Event) -> None:
    event.set()
