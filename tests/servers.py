"""The PostgreSQL and the Redis that tests run on: those of the environment, else containers, else embedded ones.

Nothing is started before a test asks for it, and each server once a session. Tests use the fixtures of conftest.py.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import socket
import warnings
from collections.abc import Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import redis

from headway.cli.embedded import EmbeddedPostgres, EmbeddedRedis

T = TypeVar("T")

POSTGRES_IMAGE = "postgres:17"
REDIS_IMAGE = "redis:7"

_numbers = itertools.count(1)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in a thread of its own, so that no test's event loop notices."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


async def migrate(url: str) -> None:
    """Brings a database's schema up to date, by the coordinator's own migrations."""
    await importlib.import_module("headway.coordinator.store.migrate").migrate(url)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server on which databases may be made."""

    url: str
    """A database of it, from which others are made."""
    embedded: EmbeddedPostgres | None = None

    def database_url(self, name: str) -> str:
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def create_database(self, template: str | None = None) -> str:
        """Makes a database, empty or as a template is; returns its name."""
        name = f"headway_test_{os.getpid()}_{next(_numbers)}"
        await self.execute(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        return name

    async def drop_database(self, name: str) -> None:
        """Drops it, ending whatever sessions a test has left."""
        await self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server, and whether all of it is ours."""

    url: str
    ours: bool
    embedded: EmbeddedRedis | None = None

    @contextmanager
    def empty_database(self) -> Generator[str]:
        """An empty database's URL; on somebody else's server one that was empty, and is emptied after."""
        if self.ours:
            with redis.Redis.from_url(self.url) as connection:
                connection.flushall()
            yield self.url
            return
        for number in range(15, 0, -1):
            url = urlunsplit(urlsplit(self.url)._replace(path=f"/{number}"))
            with redis.Redis.from_url(url) as connection:
                if connection.dbsize() == 0:
                    yield url
                    connection.flushdb()
                    return
        raise RuntimeError("the databases 1 to 15 of HEADWAY_REDIS_URL all hold data, which tests must not touch")


@contextmanager
def postgres(folder: Path) -> Generator[PostgresServer]:
    if url := os.environ.get("HEADWAY_DATABASE_URL"):
        yield PostgresServer(url)
    elif docker_answers():
        container = _container(
            POSTGRES_IMAGE, 5432, POSTGRES_USER="headway", POSTGRES_PASSWORD="headway", POSTGRES_DB="headway"
        )
        with container:
            url = f"postgresql://headway:headway@{_address(container, 5432)}/headway"
            run(_until_it_answers(url))
            yield PostgresServer(url)
    else:
        server = EmbeddedPostgres(folder / "postgres")
        try:
            server.start()
            yield PostgresServer(server.url, server)
        finally:
            server.remove_data()


@contextmanager
def redis_server(folder: Path) -> Generator[RedisServer]:
    if url := os.environ.get("HEADWAY_REDIS_URL"):
        yield RedisServer(url, ours=False)
    elif docker_answers():
        with _container(REDIS_IMAGE, 6379) as container:
            url = f"redis://{_address(container, 6379)}/0"
            run(asyncio.to_thread(_until_redis_answers, url))
            yield RedisServer(url, ours=True)
    else:
        server = EmbeddedRedis(folder / "redis")
        try:
            server.start()
            yield RedisServer(server.url, ours=True, embedded=server)
        finally:
            server.remove_data()


def docker_answers() -> bool:
    """Whether a Docker engine is there, within two seconds."""
    host = urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
    unix = host.scheme == "unix"
    try:
        with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as connection:
            connection.settimeout(2)
            connection.connect(host.path if unix else (host.hostname, host.port or 2375))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def _container(image: str, port: int, **environment: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its deprecations are not ours
        core: Any = importlib.import_module("testcontainers.core.container")
    container = core.DockerContainer(image).with_exposed_ports(port)
    for name, value in environment.items():
        container = container.with_env(name, value)
    return container


def _address(container: Any, port: int) -> str:
    return f"{container.get_container_host_ip()}:{container.get_exposed_port(port)}"


async def _until_it_answers(url: str, *, tries: int = 300) -> None:
    for _ in range(tries):
        try:
            await (await asyncpg.connect(url)).close()
        except (OSError, asyncpg.PostgresError):
            await asyncio.sleep(0.1)
        else:
            return
    raise TimeoutError(f"no PostgreSQL at {url}")


def _until_redis_answers(url: str) -> None:
    retry: Any = importlib.import_module("redis.retry").Retry
    backoff: Any = importlib.import_module("redis.backoff").ConstantBackoff
    with redis.Redis.from_url(
        url, retry=retry(backoff(0.1), 300), retry_on_error=[redis.ConnectionError]
    ) as connection:
        connection.ping()
