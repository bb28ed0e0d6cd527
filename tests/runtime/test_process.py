from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

PROGRAM = """
import asyncio, sys
from headway.runtime.process import run_service
from headway.runtime.settings import ProcessSettings

async def drains(settings, drain):
    print("ready", flush=True)
    await drain.wait()
    print("drained", flush=True)

async def hangs(settings, drain):
    print("ready", flush=True)
    await asyncio.Event().wait()

async def fails(settings, drain):
    raise RuntimeError("broken")

sys.exit(run_service("relay", ProcessSettings, globals()[sys.argv[1]]))
"""


@contextmanager
def service(main: str, **environment: str) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, main],
        env={**os.environ, "HEADWAY_LOG_FORMAT": "json", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def test_a_signal_drains() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with service("drains") as process:
            await_ready(process)

            process.send_signal(number)
            out, err = process.communicate(timeout=20)

            assert (out, process.returncode) == ("drained\n", 0)
            assert [json.loads(line)["message"] for line in err.splitlines()] == [
                "relay started",
                "relay drains",
                "relay stopped",
            ]


def test_who_does_not_drain_in_time_is_stopped() -> None:
    with service("hangs", HEADWAY_DRAIN_TIMEOUT="50ms") as process:
        await_ready(process)

        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)

        assert process.returncode == 1
        assert "relay did not drain within 0.05 seconds and is stopped" in err


def test_a_second_signal_ends_it_at_once() -> None:
    with service("hangs", HEADWAY_DRAIN_TIMEOUT="1h") as process:
        await_ready(process)
        assert process.stderr is not None

        process.send_signal(signal.SIGTERM)
        while "relay drains" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)

        assert process.wait(timeout=20) == 128 + signal.SIGINT


def test_a_failure_is_logged_and_told_by_the_exit_code() -> None:
    with service("fails") as process:
        _, err = process.communicate(timeout=20)

        assert process.returncode == 1
        assert "RuntimeError: broken" in json.loads(err.splitlines()[-1])["error"]


def test_wrong_settings_stop_the_start() -> None:
    with service("drains", HEADWAY_LOG_LEVEL="loud", HEADWAY_DRAIN_TIMEOUT="soon") as process:
        out, err = process.communicate(timeout=20)

        assert (out, process.returncode) == ("", 2)
        assert "HEADWAY_LOG_LEVEL='loud': write one of debug, info, warning, error" in err
        assert "HEADWAY_DRAIN_TIMEOUT='soon': write a duration" in err
