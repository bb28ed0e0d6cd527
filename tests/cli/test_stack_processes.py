"""Processes of a stack: bound to its life, kept alive, stopped in order; the data folder has one owner."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.cli.stack import FolderTaken, FolderUnusable, PortTaken, Shape
from headway.cli.stack.folder import DataFolder
from headway.cli.stack.keeping import Kept
from headway.cli.stack.process import Recipe, ServiceProcess
from headway.cli.stack.shape import Layout
from tests.cli.conftest import gone

STEADFAST = "import signal; print('up', flush=True); signal.pause()"
OBEDIENT = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); signal.pause()"
DEAF = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"


class Lines:
    """What processes printed, and a way to wait for it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def add(self, name: str, line: str) -> None:
        self._queue.put_nowait((name, line))

    async def next(self) -> tuple[str, str]:
        async with asyncio.timeout(20):
            return await self._queue.get()


@pytest.fixture
async def life_line() -> AsyncIterator[int]:
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


def recipe(tmp_path: Path, program: str, name: str = "relay-1") -> Recipe:
    return Recipe(
        name=name, argv=("-c", program), environment=dict(os.environ), health="", log=tmp_path / f"{name}.log"
    )


async def test_lines_are_told_with_the_processs_name_and_kept_in_its_log_file(tmp_path: Path, life_line: int) -> None:
    lines = Lines()

    process = await ServiceProcess.launch(recipe(tmp_path, "print('a'); print('b', end='')"), life_line, lines.add)

    assert await process.wait() == 0
    assert [await lines.next(), await lines.next()] == [("relay-1", "a"), ("relay-1", "b")]
    assert (tmp_path / "relay-1.log").read_text() == "a\nb"
    assert process.last_words == "a\nb"


async def test_stopping_lets_a_process_end_by_itself(tmp_path: Path, life_line: int) -> None:
    lines = Lines()
    process = await ServiceProcess.launch(recipe(tmp_path, OBEDIENT), life_line, lines.add)
    await lines.next()

    assert await process.stop(patience=20) == 0


async def test_stopping_kills_a_process_that_does_not_end(tmp_path: Path, life_line: int) -> None:
    lines = Lines()
    process = await ServiceProcess.launch(recipe(tmp_path, DEAF), life_line, lines.add)
    await lines.next()

    assert await process.stop(patience=0.05) == -signal.SIGKILL


async def test_what_a_process_started_does_not_outlive_it(tmp_path: Path, life_line: int) -> None:
    lines = Lines()
    program = (
        "import subprocess, sys; child = subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL);"
        "print(child.pid, flush=True); import signal; signal.pause()"
    )
    process = await ServiceProcess.launch(recipe(tmp_path, program), life_line, lines.add)
    _, grandchild = await lines.next()

    process.send(signal.SIGKILL)
    await process.wait()

    await gone(int(grandchild))


PARENT = """
import asyncio, os, signal, sys
from pathlib import Path
from headway.cli.stack.process import Recipe, ServiceProcess

async def main():
    reading, _writing = os.pipe()
    argv, log = ("-c", {program!r}), Path({log!r})
    recipe = Recipe(name="relay-1", argv=argv, environment=dict(os.environ), health="", log=log)
    up = asyncio.Event()
    process = await ServiceProcess.launch(recipe, reading, lambda *_: up.set(), guard={guard!r})
    await up.wait()
    print(process.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


KERNEL = pytest.param("kernel", marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it"))


@pytest.mark.parametrize("guard", [KERNEL, "pipe"])
def test_no_process_outlives_a_stack_that_was_killed(guard: str, tmp_path: Path) -> None:
    program = PARENT.format(program=DEAF, log=str(tmp_path / "log"), guard=guard)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())

    parent.kill()
    parent.wait()
    parent.stdout.close()

    asyncio.run(gone(child))


async def test_a_process_that_dies_unasked_is_started_again_and_told(
    tmp_path: Path, life_line: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.cli.stack.keeping.FIRST_PAUSE", 0.01)
    lines, said = Lines(), Lines()
    made = recipe(tmp_path, OBEDIENT)

    async def launch(again: Recipe) -> ServiceProcess:
        return await ServiceProcess.launch(again, life_line, lines.add)

    kept = Kept(made, await launch(made), launch, restart=True, say=lambda text: said.add("", text))
    kept.prove()
    await lines.next()
    first = kept.process.pid
    kept.process.send(signal.SIGKILL)

    assert (await said.next())[1] == "relay-1 was killed by SIGKILL; starting it again in 0.01 s"
    assert await lines.next() == ("relay-1", "up")
    assert kept.process.pid != first
    assert not kept.is_given_up
    await kept.stop(patience=20)
    assert kept.is_given_up


async def test_a_process_that_was_killed_on_purpose_stays_down(tmp_path: Path, life_line: int) -> None:
    lines = Lines()
    made = recipe(tmp_path, STEADFAST)

    async def launch(again: Recipe) -> ServiceProcess:
        return await ServiceProcess.launch(again, life_line, lines.add)

    kept = Kept(made, await launch(made), launch, restart=True, say=pytest.fail)
    await lines.next()

    await kept.kill()

    assert kept.process.exit_code == -signal.SIGKILL
    assert kept.is_given_up


async def test_a_process_that_pauses_before_its_next_start_can_be_stopped(tmp_path: Path, life_line: int) -> None:
    said = Lines()
    made = recipe(tmp_path, "raise SystemExit(3)")

    async def launch(again: Recipe) -> ServiceProcess:
        return await ServiceProcess.launch(again, life_line, lambda *_: None)

    kept = Kept(made, await launch(made), launch, restart=True, say=lambda text: said.add("", text))
    kept.prove()
    assert (await said.next())[1] == "relay-1 ended with exit code 3; starting it again in 0.5 s"

    await kept.stop(patience=20)

    assert kept.is_given_up


async def test_a_process_that_ends_before_it_has_served_is_given_up(tmp_path: Path, life_line: int) -> None:
    made = recipe(tmp_path, "print('cannot import nosuch'); raise SystemExit(2)")

    async def launch(again: Recipe) -> ServiceProcess:
        return await ServiceProcess.launch(again, life_line, lambda *_: None)

    kept = Kept(made, await launch(made), launch, restart=True, say=pytest.fail)
    assert await kept.process.wait() == 2

    assert kept.is_given_up
    await kept.stop(patience=20)


def test_a_data_folder_has_one_owner_who_is_named(tmp_path: Path) -> None:
    held = DataFolder.hold(tmp_path / "data")

    with pytest.raises(FolderTaken, match=f"in use by another `headway dev` \\(process {os.getpid()}\\); .* --data"):
        DataFolder.hold(tmp_path / "data")

    held.release()
    DataFolder.hold(tmp_path / "data").release()


@pytest.mark.parametrize("place", ["/proc/none", "file", "file/below"])
def test_what_cannot_be_a_data_folder_is_said_with_a_remedy(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FolderUnusable, match=r"cannot be the data folder: .*; choose another one with --data"):
        DataFolder.hold(tmp_path / place)


def test_fresh_removes_what_a_stack_put_there_and_nothing_else(tmp_path: Path) -> None:
    elsewhere = tmp_path / "sheltered"
    elsewhere.mkdir()
    data = tmp_path / "data"
    (data / "postgres").mkdir(parents=True)
    (data / "postgres/cluster").symlink_to(elsewhere)
    (data / "redis").mkdir()
    (data / "mine.txt").write_text("kept")

    held = DataFolder.hold(data)
    held.empty()
    held.release()

    assert sorted(each.name for each in data.iterdir()) == ["lock", "mine.txt"]
    assert not elsewhere.exists()


def test_a_port_in_use_is_named_before_anything_is_started(tmp_path: Path) -> None:
    layout = Layout.choose(Shape(port=0), tmp_path)
    port = int(layout.coordinators.rpartition(":")[2])
    with (
        socket_on(port),
        pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is in use; choose another with --port"),
    ):
        Layout.choose(Shape(port=port), tmp_path)


def test_no_outgoing_connection_can_take_a_port_that_was_chosen(tmp_path: Path) -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    for _ in range(20):
        layout = Layout.choose(Shape(port=0, coordinators=3, workers=3), tmp_path)
        ports = [int(listen.rpartition(":")[2]) for listen in layout.listens.values()]
        assert len(ports) > 2
        assert [port for port in ports if not 1024 <= port < lowest] == []


def socket_on(port: int) -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def test_a_process_gets_the_stacks_environment_then_its_kinds_then_its_own(tmp_path: Path) -> None:
    shape = Shape(
        port=0,
        coordinators=2,
        modules=("shop.handlers",),
        environment={"A": "all", "B": "all", "C": "all"},
        extra={"worker": {"B": "kind", "C": "kind"}, "worker-1": {"C": "own"}},
    )
    layout = Layout.choose(shape, tmp_path)

    environment = layout.environment("postgresql://d", "redis://r")
    worker = layout.recipe("worker-1", environment)
    coordinator = layout.recipe("coordinator-2", environment)

    assert [worker.environment[name] for name in "ABC"] == ["all", "kind", "own"]
    assert worker.environment["HEADWAY_COORDINATOR"] == f"{layout.listens['coordinator-1']},{coordinator.health}"
    assert worker.argv[-2:] == ("--", "shop.handlers")
    assert coordinator.environment["HEADWAY_COORDINATOR_LISTEN"] == layout.listens["coordinator-2"]
    assert coordinator.environment["HEADWAY_DATABASE_URL"] == "postgresql://d"
    assert len(set(layout.listens.values())) == 5
