"""The database and the broker of a stack: the real ones that the environment names, else embedded ones."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from headway.cli.embedded import EmbeddedPostgres, EmbeddedRedis, EmbeddedServerError

LOOK_EVERY = 1.0  # seconds


class ServerMissing(Exception):
    """The database or the broker did not come up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers of a stack; `postgres` and `redis` are None where a real one is used."""

    database_url: str
    redis_url: str
    postgres: EmbeddedPostgres | None
    redis: EmbeddedRedis | None


async def start_servers(folder: Path, cleanup: AsyncExitStack) -> Servers:
    """Start what the environment does not name; `cleanup` stops it.

    Raises:
        ServerMissing: An embedded server did not come up.
    """
    database_url, redis_url = os.environ.get("HEADWAY_DATABASE_URL"), os.environ.get("HEADWAY_REDIS_URL")
    postgres = redis = None
    try:
        if not redis_url:
            redis = EmbeddedRedis(folder / "redis")
            await _start(redis, cleanup)
            redis_url = redis.url
        if not database_url:
            postgres = EmbeddedPostgres(folder / "postgres")
            await _start(postgres, cleanup)
            database_url = postgres.url
    except EmbeddedServerError as error:
        raise ServerMissing(str(error)) from None
    return Servers(database_url=database_url, redis_url=redis_url, postgres=postgres, redis=redis)


async def _start(server: EmbeddedPostgres | EmbeddedRedis, cleanup: AsyncExitStack) -> None:
    await asyncio.to_thread(server.start)

    async def stop() -> None:
        await asyncio.to_thread(server.stop)

    cleanup.push_async_callback(stop)


async def keep_running(servers: Servers, say: Callable[[str], None]) -> None:
    """Start an embedded server again when it has died; for ever."""
    while True:
        await asyncio.sleep(LOOK_EVERY)
        for server in (servers.postgres, servers.redis):
            if server is None or _is_alive(server):
                continue
            say(f"{server.title} died; starting it again")
            try:
                await asyncio.to_thread(server.restart)
            except EmbeddedServerError as error:
                say(str(error))


def _is_alive(server: EmbeddedPostgres | EmbeddedRedis) -> bool:
    with contextlib.suppress(EmbeddedServerError, ProcessLookupError):
        os.kill(server.pid, 0)
        return True
    return False
