"""What is due is told: all of it, on time, by whichever copy, whatever is down meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headway.api.timers.v1 import timers_pb2
from headway.timers import store
from tests.timers.world import FAILED, STALE, Item, World
from tests.waiting import until


async def test_timers_fire_in_the_order_in_which_they_are_due(world: World) -> None:
    items = await world.timers([0.6, 0.2, 0.4])

    async with world.service():
        await until(lambda: world.all_fired(items), "all have fired")

    told = [item for call in world.coordinator.calls for item in call]
    assert told == [items[1], items[2], items[0]]


async def test_overdue_timers_go_the_longest_overdue_first(world: World) -> None:
    items = await world.timers([-1.0, -3.0, -2.0])

    async with world.service():
        await until(lambda: world.all_fired(items), "all have fired")

    assert world.coordinator.calls[0] == [items[1], items[2], items[0]]


async def test_nothing_is_told_before_it_is_due_by_the_databases_clock(world: World) -> None:
    async with world.service():
        await until(lambda: _looks(world), "the service runs")
        items = [
            *await world.timers([0.02 * number for number in range(1, 40)]),
            *await world.timers([0.013 * number for number in range(1, 40)], bucket=1),
        ]
        await until(lambda: world.all_fired(items), "all have fired")

    assert world.coordinator.stale == 0


async def test_a_notification_brings_a_look_at_once_and_many_for_a_while(world: World) -> None:
    async with world.service(poll_interval=timedelta(hours=1)):
        await until(lambda: _listens(world), "the service listens")
        first = await world.timers([0.02, 0.3], notify=True)
        await until(lambda: world.all_fired(first), "they have fired")
        later = await world.timers([0.0, 0.2])
        await until(lambda: world.all_fired(later), "what was set meanwhile has fired too")


async def test_without_notifications_everything_is_found_all_the_same(world: World) -> None:
    async with world.service(poll_interval=timedelta(seconds=1.5)):
        await until(lambda: _listens(world), "the service listens")
        await asyncio.sleep(2.0)  # it looks often at first, and no longer now
        items = await world.timers([0.0, 1.6, 1.7])
        await until(lambda: world.all_fired(items), "all have fired")


async def test_expired_leases_are_told_and_others_are_not(world: World) -> None:
    expired = await world.leases(5)
    living = await world.leases(5, expires_in=60.0)

    async with world.service():
        await until(lambda: world.all_fired(expired), "the expired ones are told")

    assert not set(living) & {item for call in world.coordinator.calls for item in call}


async def test_ten_thousand_expired_leases_go_through_in_sets_and_hold_up_no_timer(world: World) -> None:
    leases = [*await world.leases(5_000), *await world.leases(5_000, bucket=1)]
    timers_have_fired = asyncio.Event()
    world.coordinator.before = lambda told: timers_have_fired.wait() if told[0][2] == "lease" else None

    async with world.service(lease_batch=100):
        await until(lambda: world.coordinator.calls, "leases are being told")
        timers = await world.timers([0.05] * 5)
        await until(lambda: world.all_fired(timers), "the timers have fired")
        timers_have_fired.set()
        await until(lambda: world.all_fired(leases), "all leases are told", seconds=120)

    pages = [call for call in world.coordinator.calls if call[0][2] == "lease"]
    assert len(pages) <= 110
    assert max(len(page) for page in pages) == 100


async def test_a_coordinator_that_is_down_is_told_after_it_is_back(world: World) -> None:
    await world.coordinator.stop()
    items = [*await world.timers([0.0] * 10), *await world.leases(10)]

    async with world.service():
        await until(lambda: _looks(world), "the service runs")
        await world.coordinator.start()
        await until(lambda: world.all_fired(items), "all are told")


async def test_an_overloaded_coordinator_is_asked_again(world: World) -> None:
    refusals = iter([grpc.StatusCode.RESOURCE_EXHAUSTED] * 3)
    world.coordinator.before = lambda _: next(refusals, None)
    items = await world.timers([0.0] * 10)

    async with world.service():
        await until(lambda: world.all_fired(items), "all are told in the end")


async def test_an_item_that_fails_is_retried_with_growing_waits_and_starves_no_other(world: World) -> None:
    failing = set(await world.timers([-10.0] * 20))
    others = await world.timers([*[-1.0] * 100, 1.5])
    tries: Counter[Item] = Counter()

    def answer(item: Item) -> timers_pb2.FireAnswer | None:
        tries[item] += 1
        return FAILED if item in failing and not (world.all_fired(others) and tries[item] >= 3) else None

    world.coordinator.answer = answer
    async with world.service(limit=10, batch=10):
        await until(lambda: world.all_fired(others), "the others have fired")
        await until(lambda: world.all_fired(list(failing)), "the failing ones are not forgotten")

    assert min(tries[item] for item in failing) >= 3
    assert max(tries[item] for item in failing) < 15


async def test_an_item_that_makes_every_call_fail_is_found_and_the_others_fire(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    items = await world.timers([-1.0] * 50)
    poison = items[20]
    world.coordinator.before = lambda told: grpc.StatusCode.INTERNAL if poison in told else None

    async with world.service():
        await until(lambda: world.all_fired([item for item in items if item != poison]), "the others have fired")

    assert poison not in world.coordinator.fired
    set_aside = [vars(record) for record in caplog.records if "could not decide" in record.message]
    assert {(told["run_id"], told["path"], told["kind"], told["attempt"]) for told in set_aside} == {poison}


async def test_a_call_that_hangs_holds_up_no_other(world: World) -> None:
    (slow,) = await world.timers([-1.0])
    release = asyncio.Event()
    world.coordinator.before = lambda told: release.wait() if slow in told else None

    async with world.service():
        await until(lambda: world.coordinator.calls, "the slow call is under way")
        others = await world.timers([0.05, 0.1, 0.15])
        await until(lambda: world.all_fired(others), "the others have fired")
        release.set()
        await until(lambda: world.all_fired([slow]), "the slow one has fired")


async def test_what_is_called_stale_and_stays_is_not_told_at_every_look(world: World) -> None:
    (stubborn,) = await world.timers([-1.0])
    world.coordinator.answer = lambda item: STALE if item == stubborn else None

    async with world.service(poll_interval=timedelta(milliseconds=5)):
        await until(lambda: len(world.coordinator.calls) >= 4, "it is told again")
        started_at, before = time.monotonic(), len(world.coordinator.calls)
        marks = await world.timers([0.1 * number for number in range(1, 11)])
        await until(lambda: world.all_fired(marks), "a second has passed")
        told = sum(stubborn in call for call in world.coordinator.calls[before:])

    assert told < (time.monotonic() - started_at) / 0.005 / 5


async def test_two_copies_fire_everything_once(world: World) -> None:
    async with world.service(), world.service():
        items = await world.timers([0.3 + 0.05 * number for number in range(40)])
        await until(lambda: world.all_fired(items), "all have fired")

    assert sorted(world.coordinator.fired) == sorted(items)


async def test_a_bucket_that_comes_into_use_later_is_looked_at(world: World) -> None:
    async with world.service():
        await until(lambda: _looks(world), "the service runs")
        await world.database.execute("INSERT INTO buckets (bucket) VALUES (99)")
        items = await world.timers([0.0], bucket=99)
        await until(lambda: world.all_fired(items), "it has fired")


async def test_the_database_session_may_be_killed_again_and_again(world: World) -> None:
    async with world.service() as running:
        for _ in range(3):
            await until(lambda: _looks(world), "the service runs")
            await world.database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headway-timers'"
                " AND datname = current_database()"
            )
            items = await world.timers([0.0])
            await until(lambda: world.all_fired(items), "it has fired")  # noqa: B023 - awaited in the loop
        assert not running.done()


async def test_an_unknown_answer_counts_as_failed_and_is_told_again(world: World) -> None:
    (item,) = await world.timers([0.0])
    tries: Counter[Item] = Counter()

    def answer(told: Item) -> timers_pb2.FireAnswer | None:
        tries[told] += 1
        return timers_pb2.FIRE_ANSWER_UNSPECIFIED if tries[told] == 1 else None

    world.coordinator.answer = answer
    async with world.service():
        await until(lambda: world.all_fired([item]), "it has fired")

    assert tries[item] == 2


async def test_a_drain_waits_for_the_call_under_way(world: World) -> None:
    items = await world.timers([0.0])
    release = asyncio.Event()
    world.coordinator.before = lambda _: release.wait()
    async with service_process(world) as process:
        await until(lambda: world.coordinator.calls, "the call is under way")
        process.send_signal(signal.SIGTERM)
        await line_with(process, b"timers drains")
        release.set()
        assert await asyncio.wait_for(process.wait(), 10) == 0

    assert world.all_fired(items)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_drain_succeeds_while_nothing_can_be_reached(world: World, number: signal.Signals) -> None:
    nowhere = {"HEADWAY_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "HEADWAY_COORDINATOR": "127.0.0.1:1"}
    async with service_process(world, **nowhere) as process:
        await line_with(process, b"trying again")
        process.send_signal(number)
        _, rest = await asyncio.wait_for(process.communicate(), 10)

    assert process.returncode == 0
    assert b"timers stopped" in rest


async def test_whatever_fails_while_something_is_away_it_is_told_once_for_each(world: World) -> None:
    await world.timers([0.0] * 10)
    async with service_process(world, HEADWAY_COORDINATOR="127.0.0.1:1", HEADWAY_TIMERS_RETRY_CAP="100ms") as process:
        await line_with(process, b"the coordinator does not serve; trying again")
        await asyncio.sleep(2)  # many tries
        process.terminate()
        _, rest = await asyncio.wait_for(process.communicate(), 20)

    assert [line for line in rest.splitlines() if b'"warning"' in line or b"serves again" in line] == []


async def test_a_process_that_is_killed_loses_nothing(world: World) -> None:
    items = await world.timers([0.0] * 10)
    world.coordinator.before = lambda _: asyncio.Event().wait()
    async with service_process(world) as dying:
        await until(lambda: world.coordinator.calls, "the call is under way")
        dying.kill()
    world.coordinator.before = lambda _: None

    async with service_process(world):
        await until(lambda: world.all_fired(items), "the next start fires them")


async def test_the_process_answers_health_checks_where_it_is_told_to(world: World, unused_tcp_port: int) -> None:
    address = f"127.0.0.1:{unused_tcp_port}"
    async with service_process(world, HEADWAY_TIMERS_LISTEN=address), grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=20, wait_for_ready=True)

    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_the_statements_walk_the_indexes_on_the_due_times(world: World) -> None:
    await world.leases(2_000, expires_in=600.0)
    await world.timers([600.0] * 2_000)
    await world.database.execute("ANALYZE")

    for statement, index in (("read_timers", "timers_due"), ("read_leases", "tasks_leased")):
        plan = await world.database.fetch(
            f"EXPLAIN {store._SQL[statement]}", timedelta(milliseconds=50), [], [], [], [], 1_000
        )
        assert f"using {index}" in "\n".join(row[0] for row in plan)


@asynccontextmanager
async def service_process(world: World, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `python -m headway.timers`; it is killed if the block leaves it alive."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headway.timers",
        env={
            **os.environ,
            "HEADWAY_DATABASE_URL": world.database_url,
            "HEADWAY_COORDINATOR": world.coordinator.address,
            "HEADWAY_LOG_FORMAT": "json",
            **environment,
        },
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(process: asyncio.subprocess.Process, text: bytes) -> None:
    """Wait until the process has logged a text."""
    assert process.stderr is not None
    async with asyncio.timeout(20):
        while text not in await process.stderr.readline():
            assert process.returncode is None


async def _listens(world: World) -> bool:
    return bool(
        await world.database.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headway-timers-listen'"
            " AND datname = current_database() AND upper(query) LIKE 'LISTEN%'"
        )
    )


async def _looks(world: World) -> bool:
    """Whether the service has a session that has read."""
    return bool(
        await world.database.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headway-timers'"
            " AND datname = current_database() AND query LIKE '%late_seconds%'"
        )
    )
