"""Peers are checked as we are, and one that is missing is named with the reason."""

import json
import sys
from pathlib import Path

import pytest

from bench.checking import WrongResult
from bench.peers import installing
from bench.peers.installing import Missing
from bench.peers.on_postgres import OnPgbench, database
from bench.peers.programs import output_of, read_measured


def test_an_answer_is_read() -> None:
    measured = read_measured("x", json.dumps({"tasks_per_s": 10.5, "runs": 3, "right": 3, "hop_ms_p50": 2.0}))
    assert (measured.tasks_per_s, measured.hop_ms_p50) == (10.5, 2.0)


@pytest.mark.parametrize(("runs", "right"), [(3, 2), (0, 0)])
def test_a_run_that_went_wrong_fails_the_comparison(runs: int, right: int) -> None:
    with pytest.raises(WrongResult, match=f"{right} of {runs}"):
        read_measured("x", json.dumps({"tasks_per_s": 10.5, "runs": runs, "right": right}))


async def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(WrongResult, match="no such luck"):
        await output_of(["sh", "-c", "echo no such luck >&2; exit 3"])


def test_what_cannot_be_installed_is_missing_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Missing, match="no node"):
        installing.restate_folder()
    with pytest.raises(Missing, match=r"DBOS: /bin/false -m venv … failed"):
        installing.dbos_python()


@pytest.mark.slow
async def test_pgbench_writes_whole_runs() -> None:
    async with database() as url:
        measured = await OnPgbench(installing.pgbench(), url).measure(4, 2.0)
    assert measured.tasks_per_s > 10
