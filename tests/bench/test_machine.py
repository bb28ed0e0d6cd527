"""What processes cost is counted whole: theirs, their children's, and what children have cost that are gone."""

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from bench import machine
from bench.machine import LOAD, by_kind, cpu_seconds, facts, resident_bytes, versions
from bench.measure.soak import growth_of, slope

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
THEN_WAIT = "print('done', flush=True)\ninput()\n"
IN_CHILD = f"""
import subprocess, sys
pipes = {{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}}
living = subprocess.Popen([sys.executable, "-c", {BURN + THEN_WAIT!r}], **pipes)
living.stdout.readline()
"""


@contextmanager
def process(code: str) -> Generator[int]:
    """A process that has done its work and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", code + THEN_WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdout.readline()
        yield started.pid
        started.stdin.close()
        started.kill()


@pytest.mark.parametrize(
    "code",
    [
        BURN,
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\n",
        IN_CHILD,
    ],
    ids=["its own", "of a child that is gone", "of a child that lives"],
)
def test_cpu_is_counted(code: str) -> None:
    with process(code) as pid:
        assert cpu_seconds({"it": pid})["it"] >= 0.28


def test_a_process_that_is_gone_counts_nothing_and_this_one_is_the_load() -> None:
    with process("") as pid:
        pass
    used = cpu_seconds({"gone": pid})
    assert used["gone"] == 0.0
    assert used[LOAD] > 0.0


def test_memory_is_counted_in_bytes() -> None:
    with process("") as small, process("held = b'x' * (64 << 20)\n") as large:
        assert 60 << 20 < resident_bytes(large) - resident_bytes(small) < 70 << 20


def test_kinds_are_added_up() -> None:
    assert by_kind({"worker-1": 1.0, "worker-2": 2.0, LOAD: 3.0}) == {"worker": 3.0, LOAD: 3.0}


def test_growth_is_that_after_the_first_third() -> None:
    warming_up = [(float(at), 100.0 + 10 * min(at, 10)) for at in range(31)]
    leaking = [(float(at), 100.0 + at) for at in range(31)]
    assert growth_of(warming_up) == pytest.approx(0.0)
    assert growth_of(leaking) == pytest.approx(20 / 110)
    assert slope(leaking) == pytest.approx(1.0)


def test_what_is_measured_is_named_where_git_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", versions()["commit"])

    monkeypatch.setenv("GIT_DIR", "/nowhere")

    assert versions()["commit"] == "unknown"


def test_the_interpreter_is_timed_at_its_least_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([80.04, 30.06, 31.0])
    monkeypatch.setattr(machine, "_loop_ms", lambda: next(rounds))
    assert facts()["interpreter_ms"] == 30.1
