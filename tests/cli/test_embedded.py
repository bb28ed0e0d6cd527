"""The embedded servers live and die as their owner says, and keep what they were given."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import redis

from headway.cli.embedded import EmbeddedPostgres, EmbeddedRedis, EmbeddedServerError
from headway.cli.embedded import _unprivileged as unprivileged
from tests.servers import run

Server = EmbeddedPostgres | EmbeddedRedis

OWNER = """
import sys, time
from pathlib import Path
from headway.cli.embedded import EmbeddedPostgres, EmbeddedRedis

server = {"postgres": EmbeddedPostgres, "redis": EmbeddedRedis}[sys.argv[1]](Path(sys.argv[2]))
server.start()
print(server.pid, server._guardian.pid, flush=True)
time.sleep(600)
"""


async def query(url: str, statement: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def is_running(pid: int) -> bool:
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stdout.startswith("Z")


def await_that(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in 30 seconds"
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def nothing_is_left_behind(tmp_path: Path) -> Iterator[None]:
    """As root, a cluster lies elsewhere when pytest's folder is closed to others."""
    yield
    for cluster in list(tmp_path.glob("**/cluster")):
        EmbeddedPostgres(cluster.parent).remove_data()


@pytest.fixture(params=[EmbeddedPostgres, EmbeddedRedis], ids=["postgres", "redis"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    server: Server = request.param(tmp_path / "a folder")
    yield server
    server.stop()


def test_what_postgres_committed_survives_a_kill(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "data") as postgres:
        run(query(postgres.url, "CREATE TABLE kept (n int)"))
        run(query(postgres.url, "INSERT INTO kept VALUES (7)"))
        url = postgres.url

        postgres.kill()
        postgres.restart()

        assert postgres.url == url
        assert run(query(url, "SELECT n FROM kept")) == 7


def test_what_redis_wrote_survives_a_kill(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "data") as server, redis.Redis.from_url(server.url) as connection:
        connection.set("kept", 7)
        # On disk it is after a second at most (appendfsync everysec); in the kernel's hands, which outlive the process,
        # it is before SET is answered.
        server.kill()
        server.restart()

        assert connection.get("kept") == b"7"


def test_data_outlives_the_block(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "data") as postgres:
        run(query(postgres.url, "CREATE TABLE kept (n int)"))

    with EmbeddedPostgres(tmp_path / "data") as postgres:
        assert run(query(postgres.url, "SELECT count(*) FROM kept")) == 0


def test_a_folders_server_listens_where_it_did_before_unless_somebody_took_the_port(server: Server) -> None:
    server.start()
    url, port = server.url, server.port
    server.stop()
    later, latest = type(server)(server.data_dir), type(server)(server.data_dir)

    later.start()
    found = later.url
    later.stop()
    with socket.create_server(("127.0.0.1", port)):
        latest.start()
    moved = latest.port
    latest.stop()

    assert found == url
    assert moved not in {0, port}


def test_a_server_knows_whether_it_runs(server: Server) -> None:
    states = [server.running]
    server.start()
    states.append(server.running)
    os.kill(server.pid, signal.SIGKILL)
    await_that(lambda: not server.running)
    server.restart()
    states.append(server.running)
    server.stop()
    states.append(server.running)

    assert states == [False, True, True, False]
    with pytest.raises(EmbeddedServerError, match="is not running"):
        _ = server.pid


def test_a_folder_has_one_owner(server: Server) -> None:
    server.start()

    with pytest.raises(EmbeddedServerError, match=f"is in use by process {os.getpid()}"):
        type(server)(server.data_dir).start()

    assert is_running(server.pid)


def test_nobody_gets_in_without_the_password(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "postgres") as postgres, EmbeddedRedis(tmp_path / "redis") as server:
        with pytest.raises(asyncpg.InvalidPasswordError):
            run(query(f"postgresql://headway:guess@127.0.0.1:{postgres.port}/headway", "SELECT 1"))
        with (
            pytest.raises(redis.AuthenticationError),
            redis.Redis.from_url(f"redis://127.0.0.1:{server.port}/0") as connection,
        ):
            connection.ping()

        assert (tmp_path / "postgres" / "password").stat().st_mode & 0o077 == 0
        assert (tmp_path / "redis" / "server.conf").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_a_server_ends_with_its_killed_owner(kind: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, kind, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline().split()[0])

        owner.kill()

        await_that(lambda: not is_running(pid))


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_an_orphan_is_ended_by_the_next_start(kind: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, kind, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        orphan, guardian = (int(word) for word in owner.stdout.readline().split())
        os.kill(guardian, signal.SIGKILL)
        owner.kill()
    assert is_running(orphan)

    with {"postgres": EmbeddedPostgres, "redis": EmbeddedRedis}[kind](tmp_path / "data") as server:
        assert server.pid != orphan
        assert not is_running(orphan)


def test_a_stale_pid_file_that_names_a_stranger_is_no_hindrance(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "data") as postgres:
        postgres.kill()
        pid_file = tmp_path / "data" / "cluster" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")

        postgres.restart()

        assert run(query(postgres.url, "SELECT 1")) == 1


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "data", settings={"shared_buffers": "nonsense"})

    with pytest.raises(EmbeddedServerError, match='invalid value for parameter "shared_buffers"'):
        postgres.start()

    assert not postgres.running
    with EmbeddedPostgres(tmp_path / "data") as other:
        assert other.running


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_root_can_keep_its_data_where_nobody_else_can_go(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    cluster = closed / "data" / "cluster"

    with EmbeddedPostgres(closed / "data") as postgres:
        place = cluster.resolve()

        assert cluster.is_symlink()
        assert run(query(postgres.url, "SELECT current_setting('data_directory')")) == str(place)

    postgres.remove_data()
    assert not place.exists()
    assert not cluster.parent.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_programs_below_a_closed_folder_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, shelter = tmp_path / "closed", tmp_path / "shelter"
    (closed / "package" / "bin").mkdir(parents=True)
    closed.chmod(0o700)
    program = closed / "package" / "bin" / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o700)
    (closed / "package" / "unused.a").touch()
    monkeypatch.setattr(unprivileged, "_SHELTER", shelter)

    assert not unprivileged.reachable(closed / "package" / "bin")
    copy = unprivileged.sheltered_copy(closed, "package-1", ("package",))

    assert unprivileged.sheltered_copy(closed, "package-1", ("package",)) == copy
    assert sorted(path.name for path in copy.rglob("*")) == ["bin", "package", "program"]
    assert (copy / "package" / "bin" / "program").stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_a_shelter_whose_link_is_gone_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unprivileged, "_SHELTER", tmp_path / "shelter")
    folders = {
        name: unprivileged.sheltered_folder("postgres") for name in ("linked", "forgotten", "in use", "unfinished")
    }
    for name in ("linked", "forgotten", "in use"):
        unprivileged.link_to_sheltered(tmp_path / name, folders[name])
    (folders["in use"] / "postmaster.pid").touch()
    (tmp_path / "forgotten").unlink()
    (tmp_path / "in use").unlink()

    unprivileged.sheltered_folder("postgres")

    assert [name for name, folder in folders.items() if not folder.exists()] == ["forgotten"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_shelters_are_made_while_others_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unprivileged, "_SHELTER", tmp_path / "shelter")
    folder = unprivileged.sheltered_folder("postgres")
    # Listed, and gone when it is read.
    (tmp_path / "shelter" / "postgres-going.link").symlink_to(tmp_path / "gone")
    write = Path.write_text

    def write_with_somebody_in_between(path: Path, text: str, encoding: str) -> int:
        write(path, "", encoding)
        unprivileged.sheltered_folder("postgres")
        return write(path, text, encoding)

    monkeypatch.setattr(Path, "write_text", write_with_somebody_in_between)
    unprivileged.link_to_sheltered(tmp_path / "linked", folder)

    assert folder.is_dir()
    assert (tmp_path / "linked").resolve() == folder
