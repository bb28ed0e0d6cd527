"""Fixtures for all tests: a fresh database, an empty Redis. See servers.py for where they come from."""

from __future__ import annotations

import faulthandler
from collections.abc import Generator

import pytest

from tests import servers

SECONDS_TO_EXIT = 60


def pytest_unconfigure() -> None:
    """Of a process that does not exit after its last test, say which thread keeps it, and end it as failed."""
    faulthandler.dump_traceback_later(SECONDS_TO_EXIT, exit=True)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[servers.PostgresServer]:
    """The session's PostgreSQL. For a server that a test may kill, start an EmbeddedPostgres of its own."""
    with servers.postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[servers.RedisServer]:
    """The session's Redis. For a server that a test may kill, start an EmbeddedRedis of its own."""
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_template(postgres_server: servers.PostgresServer) -> Generator[str]:
    """The name of a database that has been migrated once; every test's database is a copy of it."""
    name = servers.run(postgres_server.create_database())
    try:
        servers.run(servers.migrate(postgres_server.database_url(name)))
        yield name
    finally:
        servers.run(postgres_server.drop_database(name))


@pytest.fixture
def database_url(postgres_server: servers.PostgresServer, migrated_template: str) -> Generator[str]:
    """A database of this test's own, with the schema and without rows."""
    name = servers.run(postgres_server.create_database(migrated_template))
    try:
        yield postgres_server.database_url(name)
    finally:
        servers.run(postgres_server.drop_database(name))


@pytest.fixture
def empty_database_url(postgres_server: servers.PostgresServer) -> Generator[str]:
    """A database of this test's own, without the schema: for tests of the migrations."""
    name = servers.run(postgres_server.create_database())
    try:
        yield postgres_server.database_url(name)
    finally:
        servers.run(postgres_server.drop_database(name))


@pytest.fixture
def redis_url(redis_server: servers.RedisServer) -> Generator[str]:
    """A Redis database that is empty."""
    with redis_server.empty_database() as url:
        yield url
