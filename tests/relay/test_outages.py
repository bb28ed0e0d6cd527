"""Whatever dies, every committed dispatch arrives, and the relay goes on by itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from redis.asyncio import Redis

from headway.cli.embedded import EmbeddedRedis
from tests.relay.world import World
from tests.waiting import until

# Stops a transaction that has deleted rows at its commit.
STALL = """
CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN OLD; END $$;
CREATE CONSTRAINT TRIGGER stall AFTER DELETE ON outbox DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION stall();
"""


@asynccontextmanager
async def relay_process(world: World, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `python -m headway.relay`; it is killed if the block leaves it alive."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headway.relay",
        env={
            **os.environ,
            "HEADWAY_DATABASE_URL": world.database_url,
            "HEADWAY_REDIS_URL": world.redis_url,
            "HEADWAY_COORDINATOR": world.coordinator.address,
            "HEADWAY_RELAY_POLL_INTERVAL": "50ms",
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


async def lines_until(process: asyncio.subprocess.Process, *texts: str) -> list[Any]:
    """Wait until the process has logged all of some texts; all that it logged meanwhile."""
    assert process.stderr is not None
    lines: list[Any] = []
    async with asyncio.timeout(60):
        while not all(any(text in line["message"] for line in lines) for text in texts):
            lines.append(json.loads(await process.stderr.readline()))
    return lines


async def test_a_relay_killed_between_publishing_and_committing_publishes_twice_and_loses_nothing(world: World) -> None:
    await world.database.execute(STALL)
    await world.database.execute("SELECT pg_advisory_lock(42)")
    expected = await world.dispatch(50)
    async with relay_process(world) as dying:
        await until(lambda: _published(world, 50), "all are published")
        assert len(await world.outbox_ids()) == 50, "nothing may be deleted before it is published"
        dying.kill()
    await until(lambda: _no_session(world), "its transaction is rolled back")
    await world.database.execute("SELECT pg_advisory_unlock(42)")
    assert len(await world.outbox_ids()) == 50

    async with relay_process(world):
        await until(world.outbox_is_empty, "another relay has carried them out")

    published = await world.dispatch_ids()
    assert len(published) == 100
    assert set(published) == set(expected)


@pytest.fixture
async def own_redis(world: World, tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    """A Redis that the test may kill; the world is moved to it."""
    server = EmbeddedRedis(tmp_path / "redis")
    await asyncio.to_thread(server.start)
    shared, world.redis, world.redis_url = world.redis, Redis.from_url(server.url, decode_responses=True), server.url
    try:
        yield server
    finally:
        await world.redis.aclose()
        world.redis = shared
        await asyncio.to_thread(server.__exit__, None, None, None)


async def test_redis_may_die_and_come_back(world: World, own_redis: EmbeddedRedis) -> None:
    async with world.relay():
        first = await world.dispatch(10)
        await until(world.outbox_is_empty, "published")
        await asyncio.to_thread(own_redis.kill)
        second = await world.dispatch(10)
        await until(lambda: _tries(world), "the relay tries in vain")
        assert len(await world.outbox_ids()) == 10
        await asyncio.to_thread(own_redis.restart)
        await until(world.outbox_is_empty, "published after the restart")

    assert set(await world.dispatch_ids()) >= {*second}
    assert first


async def test_redis_may_be_down_when_the_relay_starts(world: World, own_redis: EmbeddedRedis) -> None:
    await asyncio.to_thread(own_redis.kill)
    await world.dispatch(10)
    async with world.relay():
        await until(lambda: _tries(world), "the relay tries in vain")
        await asyncio.to_thread(own_redis.restart)
        await until(world.outbox_is_empty, "published once it is there")


async def test_every_database_session_may_be_killed_again_and_again(world: World) -> None:
    async with world.relay(poll_interval=timedelta(seconds=60)) as running:
        expected = await world.dispatch(20)
        await until(world.outbox_is_empty, "published")
        for _ in range(3):
            killed = await world.database.fetchval(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert killed
            await until(lambda: _listens(world), "the relay listens again")
            expected += await world.dispatch(20)
            await until(world.outbox_is_empty, "published")
        assert not running.done()

    assert set(await world.dispatch_ids()) == set(expected)


async def test_a_drain_finishes_the_batch_under_way(world: World) -> None:
    await world.database.execute(STALL)
    await world.database.execute("SELECT pg_advisory_lock(42)")
    await world.dispatch(10)
    async with relay_process(world) as process:
        await until(lambda: _published(world, 10), "the batch is under way")
        process.send_signal(signal.SIGTERM)
        await line_with(process, b"relay drains")
        await world.database.execute("SELECT pg_advisory_unlock(42)")
        assert await asyncio.wait_for(process.wait(), 10) == 0

    assert await world.outbox_is_empty()
    assert len(await world.entries()) == 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_drain_succeeds_while_nothing_can_be_reached(world: World, number: signal.Signals) -> None:
    nowhere = {
        "HEADWAY_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "HEADWAY_REDIS_URL": "redis://127.0.0.1:1/0",
        "HEADWAY_COORDINATOR": "127.0.0.1:1",
    }
    async with relay_process(world, **nowhere) as process:
        await line_with(process, b"trying again")
        process.send_signal(number)
        _, rest = await asyncio.wait_for(process.communicate(), 10)

    assert process.returncode == 0
    assert b"relay stopped" in rest


async def test_whatever_fails_while_something_is_away_it_is_told_once_for_each(world: World) -> None:
    nowhere = {
        "HEADWAY_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "HEADWAY_REDIS_URL": "redis://127.0.0.1:1/0",
    }
    async with relay_process(world, HEADWAY_RELAY_RETRY_CAP="100ms", **nowhere) as process:
        told = await lines_until(process, "Redis does not serve", "the database does not serve")
        await asyncio.sleep(1)  # each loop tries many times
        process.terminate()
        _, rest = await process.communicate()

    lines = [*told, *map(json.loads, rest.splitlines())]
    warnings = [line for line in lines if line["level"] == "warning"]
    assert sorted(line["message"] for line in warnings) == [
        "Redis does not serve; trying again",
        "the database does not serve; trying again",
    ]
    assert all("wait in the outbox" in line["meanwhile"] for line in warnings)


async def test_a_redis_that_comes_back_is_told_by_its_own_answer(world: World, own_redis: EmbeddedRedis) -> None:
    async with relay_process(world, HEADWAY_RELAY_RETRY_CAP="100ms") as process:
        await lines_until(process, "swept")
        await asyncio.to_thread(own_redis.kill)
        await world.dispatch(5)
        await lines_until(process, "Redis does not serve; trying again")
        await asyncio.to_thread(own_redis.restart)
        (again,) = [line for line in await lines_until(process, "Redis serves again") if line["level"] == "info"]
        await until(world.outbox_is_empty, "published")

    assert again["failed_calls"] >= 1


async def test_the_process_answers_health_checks_where_it_is_told_to(world: World, unused_tcp_port: int) -> None:
    address = f"127.0.0.1:{unused_tcp_port}"
    async with relay_process(world, HEADWAY_RELAY_LISTEN=address), grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=20, wait_for_ready=True)

    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def _published(world: World, count: int) -> bool:
    return len(await world.entries()) >= count


async def _sessions(world: World) -> list[asyncpg.Record]:
    return await world.database.fetch(
        "SELECT application_name, query, wait_event FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'headway-relay%'"
    )


async def _no_session(world: World) -> bool:
    """Whether the dead relay's sessions have ended; one that waits for a lock is told so by its server."""
    for session in await _sessions(world):
        if session["wait_event"] == "advisory":
            await world.database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event = 'advisory'"
            )
    return not await _sessions(world)


async def _listens(world: World) -> bool:
    return any(
        session["application_name"] == "headway-relay-listen" and "LISTEN" in session["query"].upper()
        for session in await _sessions(world)
    )


async def _tries(world: World) -> bool:
    """Whether a lane has claimed rows and given them back."""
    return any(session["query"].startswith("ROLLBACK") for session in await _sessions(world))
