"""The command line, run in this process against a scripted coordinator."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from headway.cli.__main__ import run
from tests.cli.runs import NOON
from tests.client.scripted_coordinator import ScriptedCoordinator


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output; fails if there is anything else."""
        return json.loads(self.out)


class CommandLine:
    """Runs commands."""

    def __init__(self, address: Callable[[], str], capsys: pytest.CaptureFixture[str]) -> None:
        self._address = address
        self._capsys = capsys

    async def __call__(self, *arguments: str) -> Result:
        self._capsys.readouterr()
        if arguments[0] not in {"dev", "db", "schema"}:
            arguments = (*arguments, "--address", self._address())
        code = await run(arguments)
        assert not callable(code)
        out, err = self._capsys.readouterr()
        return Result(code=int(code), out=out, err=err)


@pytest.fixture
async def coordinator() -> AsyncIterator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator()
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
def headway(coordinator: ScriptedCoordinator, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(lambda: coordinator.address, capsys)


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are given at noon."""
    monkeypatch.setattr("headway.cli.clock.now", lambda: NOON)


async def gone(pid: int) -> None:
    """Wait until a process that is not our child has ended (or is a zombie that nobody collects)."""
    async with asyncio.timeout(20):
        while _is_running(pid):  # noqa: ASYNC110 - not our child: it can only be asked for
            await asyncio.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except ProcessLookupError:
        return False
    return bool(state.stdout.strip()) and not state.stdout.strip().startswith("Z")
