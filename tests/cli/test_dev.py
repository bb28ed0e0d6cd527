"""`headway dev` and the stack under it, with every service for real."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from headway.cli.stack import Shape, Stack
from headway.client import Client, ReasonKind
from tests.cli.conftest import gone
from tests.waiting import until as until_true

pytestmark = pytest.mark.slow

WORKFLOW = """\
workflow: greeting
nodes:
  greet: {type: python, input: "${input}", code: "def run(input): return 'hello ' + input['name']"}
  wait: {type: wait_for_event, event: go_on}
  reply: {type: python, input: "${nodes.greet.output}", code: "def run(input): return input.upper()"}
  done: {type: finish, output: "${nodes.reply.output}"}
edges:
  - [greet, wait, reply, done]
"""


@pytest.fixture(autouse=True)
def embedded_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADWAY_DATABASE_URL", "HEADWAY_REDIS_URL", "HEADWAY_COORDINATOR"):
        monkeypatch.delenv(name, raising=False)


async def test_a_run_goes_on_where_it_was_after_every_service_was_killed(tmp_path: Path) -> None:
    async with Stack(tmp_path / "data", Shape(port=0)) as stack, Client(stack.address) as client:
        await client.deploy(WORKFLOW)
        started = await client.start("greeting", {"name": "ann"})
        async for progress in client.watch(started.run_id):
            if progress.event.type == "NodeCompleted":
                break

        for name in sorted(stack.pids):
            await stack.kill(name)
        assert stack.pids == {}
        for name in stack.addresses:
            await stack.start(name)
        await stack.wait_ready()
        await client.signal(started.run_id, "go_on")

        async with asyncio.timeout(90):
            outcome = await client.wait(started.run_id)
        assert outcome.output == "HELLO ANN"
        assert stack.log_file("worker-1").read_text().count("worker started") == 2


@contextmanager
def dev(data: Path) -> Generator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A `headway dev` that is up, and the document that it printed."""
    command = [sys.executable, "-m", "headway.cli", "dev", "--json", "--port", "0", "--data", str(data)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        lines = iter(process.stdout.readline, "")
        document = json.loads("".join(until("}\n", lines)) or process.stderr.read())
        yield process, document
    finally:
        process.kill()
        process.communicate()


def until(last: str, lines: Any) -> Generator[str]:
    for line in lines:
        yield line
        if line == last:
            return


def read_to(stream: IO[str] | None, words: str) -> str:
    assert stream is not None
    for line in stream:
        if words in line:
            return line
    raise AssertionError(f"it ended without saying {words!r}")


def servers_of(data: Path) -> list[int]:
    """The embedded servers' processes."""
    postmaster = data / "postgres/cluster/postmaster.pid"
    redis = subprocess.run(["pgrep", "-f", str(data / "redis")], capture_output=True, text=True, check=False)
    return [int(postmaster.read_text().split()[0]), *map(int, redis.stdout.split())]


def test_dev_restarts_what_dies_refuses_a_second_one_and_stops_everything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with dev(data) as (process, document):
        everything = [*document["pids"].values(), *servers_of(data)]
        assert sorted(document["pids"]) == ["coordinator-1", "relay-1", "timers-1", "worker-1"]

        second = subprocess.run(
            [sys.executable, "-m", "headway.cli", "dev", "--data", str(data)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 2
        assert f"in use by another `headway dev` (process {process.pid})" in second.stderr

        os.kill(document["pids"]["relay-1"], signal.SIGKILL)
        read_to(process.stderr, "relay-1 was killed by SIGKILL; starting it again")
        restarted = read_to(process.stderr, "relay started")
        everything.append(int(restarted.rpartition("pid=")[2]))

        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()

    assert process.returncode == 0
    assert "nothing is left running" in err
    for pid in everything:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def held(document: dict[str, Any], seconds: int) -> str:
    """The id of a run whose only handler sleeps, once it does."""

    async def start() -> str:
        async with Client(document["address"]) as client:
            await client.deploy(
                "workflow: held\nnodes:\n"
                f'  nap: {{type: python, code: "import time\\ndef run(input): time.sleep({seconds})"}}\n'
            )
            run_id = (await client.start("held")).run_id

            async def is_held() -> bool:
                return any(each.kind is ReasonKind.LEASED for each in (await client.explain(run_id)).reasons)

            await until_true(is_held, "a worker holds it")
            return run_id

    return asyncio.run(start())


def test_handlers_have_the_drain_timeout_to_end_when_dev_is_stopped(tmp_path: Path) -> None:
    with dev(tmp_path / "data") as (process, document):
        run_id = held(document, 13)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()

    assert process.returncode == 0
    assert "is killed" not in err
    with dev(tmp_path / "data") as (process, document):

        async def state() -> str:
            async with Client(document["address"]) as client:
                return (await client.get(run_id)).run.state.value

        assert asyncio.run(state()) == "succeeded"


def test_a_second_signal_kills_everything_at_once(tmp_path: Path) -> None:
    with dev(tmp_path / "data") as (process, document):
        held(document, 60)
        process.send_signal(signal.SIGINT)
        read_to(process.stderr, "again to kill")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait()

        for pid in document["pids"].values():
            asyncio.run(gone(pid))

    assert process.returncode == 128 + signal.SIGINT
    assert time.monotonic() - began < 5


def test_a_dev_that_was_killed_leaves_no_process_behind_and_can_be_started_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with dev(data) as (process, document):
        everything = [*document["pids"].values(), *servers_of(data)]
        process.kill()
        process.wait()

        for pid in everything:
            asyncio.run(gone(pid))

    urls = [document[name] for name in ("database_url", "redis_url")]
    with dev(data) as (process, document):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 0
    assert [document[name] for name in ("database_url", "redis_url")] == urls
    assert "new data folder" not in err


def test_dev_ends_with_what_a_worker_says_that_cannot_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headway.cli", "dev", "--port", "0", "--data", str(tmp_path / "data")]

    ended = subprocess.run(
        [*command, "--worker", "nosuch"], capture_output=True, text=True, check=False, timeout=100, cwd=tmp_path
    )

    assert ended.returncode == 2
    assert "worker-1 ended with exit code 2 before it was ready" in ended.stderr
    assert "there is no module 'nosuch'" in ended.stderr
    assert "starting it again" not in ended.stdout
    assert f"new data folder {tmp_path / 'data'}: nothing is deployed" in ended.stdout


async def test_a_service_that_cannot_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    shape = Shape(port=0, extra={"relay": {"HEADWAY_RELAY_LANES": "none"}})
    said: list[str] = []

    with pytest.raises(
        Exception, match=r"relay-1 ended with exit code 2 before it was ready:(?s:.*)HEADWAY_RELAY_LANES"
    ):
        await Stack(tmp_path / "data", shape, say=said.append).start()

    with contextlib.suppress(FileNotFoundError):
        assert servers_of(tmp_path / "data") == []
