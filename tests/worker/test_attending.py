"""A worker attends: it is seen, and hears at once what it has to stop."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.worker.conftest import Bench


async def test_a_worker_tells_who_it_is_and_what_it_reads(bench: Bench) -> None:
    async with bench.worker():
        await bench.coordinator.until(lambda: bool(bench.coordinator.attending))

    owner, namespace, *queues = bench.coordinator.attending[0]
    assert owner
    assert namespace == "default"
    assert queues == ["default"]


async def test_a_stop_order_stops_the_handler_long_before_the_next_renew(bench: Bench) -> None:
    running = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        running.set()
        await asyncio.Event().wait()

    bench.coordinator.lease_seconds = 3_600
    bench.dispatch("t1", "wait")
    async with bench.worker():
        await running.wait()
        bench.coordinator.stop_orders.put(("another", 1))
        bench.coordinator.stop_orders.put(("t1", 7))
        bench.coordinator.stop_orders.put(("t1", 1))
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").HasField("cancelled")
    assert bench.coordinator.renewals == []


async def test_a_stream_that_broke_is_opened_again(bench: Bench) -> None:
    async with bench.worker():
        await bench.coordinator.until(lambda: len(bench.coordinator.attending) == 1)
        bench.coordinator.stop_orders.put(None)
        await bench.coordinator.until(lambda: len(bench.coordinator.attending) == 2)


async def test_who_is_told_to_stop_again_goes_on_to_clean_up(bench: Bench) -> None:
    running, cleaned = asyncio.Event(), asyncio.Event()
    told_again = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            bench.coordinator.stop_orders.put(("t1", 1))
            bench.coordinator.stop_orders.put(("t2", 1))
            await told_again.wait()
            cleaned.set()

    @bench.registry.handler("last")
    async def last(_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told_again.set()

    bench.coordinator.lease_seconds = 3_600
    bench.dispatch("t1", "wait")
    bench.dispatch("t2", "last")
    async with bench.worker():
        await running.wait()
        bench.coordinator.stop_orders.put(("t1", 1))
        await bench.coordinator.until_reported("t1")

    assert cleaned.is_set()
    assert bench.coordinator.report_of("t1").HasField("cancelled")
