"""The built-in `python` handler, with real processes."""

from __future__ import annotations

import os
import select
import tempfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from headway.api.tasks.v1 import tasks_pb2
from tests.worker.conftest import Bench


async def run_code(bench: Bench, given: Any) -> tasks_pb2.ReportItem:
    bench.dispatch("t1", "headway.python", given, queue="python")
    async with bench.worker(queues=None, builtins=["python"], allow_python=True):
        await bench.coordinator.until_reported("t1")
    assert bench.left("python") == 0
    return bench.coordinator.report_of("t1")


def dies(pid: int) -> bool:
    """Waits for a process's end: a kill has been sent, and takes effect a moment later."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 10)[0])
    finally:
        os.close(process)


async def test_inline_code_gets_its_input_and_returns_its_output(bench: Bench) -> None:
    code = "import math\ndef run(input):\n    print('hello')\n    return {'root': math.isqrt(input['n']), 'é': 'ü'}"

    report = await run_code(bench, {"code": code, "input": {"n": 49}})

    assert orjson.loads(report.succeeded.output) == {"root": 7, "é": "ü"}


async def test_what_inline_code_raises_is_retryable_and_has_its_own_trace(bench: Bench) -> None:
    failed = (await run_code(bench, {"code": "def run(input):\n    return input['missing']", "input": {}})).failed

    assert (failed.type, failed.message, failed.final) == ("KeyError", "'missing'", False)
    assert 'File "<code>", line 2, in run' in failed.trace
    assert "_python_child" not in failed.trace


@pytest.mark.parametrize(
    ("code", "kind"),
    [("def run(input:", "SyntaxError"), ("x = 1", "NameError"), ("def run(input): return {1}", "InvalidOutput")],
)
async def test_code_that_can_never_work_is_a_final_failure(bench: Bench, code: str, kind: str) -> None:
    failed = (await run_code(bench, {"code": code})).failed

    assert (failed.type, failed.final) == (kind, True)


@pytest.mark.parametrize(
    ("body", "limits", "kind", "limit"),
    [
        ("while True: pass", {"cpu": 1}, "PythonLimit", "cpu"),
        ("return len(bytearray(1024 ** 3))", {"memory": 128}, "PythonLimit", "memory"),
        ("import time; time.sleep(60)", {"wall": 1}, "PythonTimeout", "wall"),
        ("return 'x' * 4 * 1024 ** 2", {}, "PythonLimit", "output"),
    ],
)
async def test_code_over_a_limit_is_stopped(
    bench: Bench, body: str, limits: dict[str, int], kind: str, limit: str
) -> None:
    failed = (await run_code(bench, {"code": f"def run(input):\n    {body}", "limits": limits})).failed

    assert failed.type == kind
    assert orjson.loads(failed.details) == {"limit": limit}


async def test_code_that_ends_its_process_is_a_failure(bench: Bench) -> None:
    failed = (await run_code(bench, {"code": "import os\ndef run(input): os._exit(7)"})).failed

    assert (failed.type, failed.final) == ("PythonDied", False)
    assert "status 7" in failed.message


async def test_code_does_not_see_the_workers_environment_or_folder(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", "secret")
    code = "import os\ndef run(input):\n    files = os.listdir()\n    open('left', 'w').close()\n"
    code += "    return [sorted(os.environ), os.getcwd(), files]"

    names, folder, files = orjson.loads((await run_code(bench, {"code": code})).succeeded.output)

    assert not [name for name in names if name.startswith("HEADWAY")]
    assert files == []
    assert not os.access(folder, os.F_OK)  # it is removed, with all that the code left in it


async def test_a_cancelled_task_kills_the_process_and_all_that_it_started(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pids = Path(folder) / "pids"
        code = (
            "import os, subprocess, sys, time\n"
            "def run(input):\n"
            "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
            "    with open(input + '.new', 'w') as file: file.write(f'{os.getpid()} {child.pid}')\n"
            "    os.rename(input + '.new', input)\n"
            "    time.sleep(60)\n"
        )
        bench.coordinator.lease_seconds = 0.6

        def cancel(item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
            result = bench.coordinator.extend(item)
            result.cancel = pids.exists()
            return result

        bench.coordinator.script.renew = cancel
        report = await run_code(bench, {"code": code, "input": str(pids)})
        parent, child = map(int, pids.read_text().split())

    assert report.HasField("cancelled")
    assert dies(parent)
    assert dies(child)


@pytest.mark.parametrize("started", [{}, {"start_new_session": True}, {"start_new_session": True, "env": {}}])
async def test_code_is_done_when_its_process_is_and_what_it_started_is_killed(
    bench: Bench, started: dict[str, object]
) -> None:
    code = (
        "import subprocess, sys\n"
        "def run(input):\n"
        "    sleep = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "    return subprocess.Popen(sleep, **input).pid\n"
    )

    given = {"code": code, "input": started, "limits": {"wall": 10}}
    pid = orjson.loads((await run_code(bench, given)).succeeded.output)

    assert dies(pid)


async def test_code_that_forks_answers_once(bench: Bench) -> None:
    report = await run_code(bench, {"code": "import os\ndef run(input):\n    os.fork()\n    return [1]"})

    assert report.succeeded.output == b"[1]"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('\\ud800\\0')", "\\ud800\ufffd"),
        (
            "class E(ValueError):\n        def __str__(self): raise KeyError\n    E.__name__ = 'ValueError'; raise E",
            "KeyError",
        ),
    ],
)
async def test_an_error_whose_text_is_hard_to_tell_is_reported_all_the_same(
    bench: Bench, body: str, message: str
) -> None:
    failed = (await run_code(bench, {"code": f"def run(input):\n    {body}"})).failed

    assert (failed.type, failed.final) == ("ValueError", False)
    assert message in failed.message


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ("{'a': [2**64]}", "output.a[0] is an integer beyond 64 bits"),
        ("{1: 'one'}", "output has a key that is not text: 1"),
        ("[float('nan')]", "output[0] is nan, which JSON cannot hold"),
        ("'\\ud800'", "output is text with a lone surrogate"),
        ("'\\0'", "output contains a NUL character"),
        ("object()", "output is not JSON"),
        ("(lambda a: a.append(a) or a)([])", "is nested deeper than 200"),
    ],
)
async def test_output_that_cannot_be_stored_is_refused_as_that_of_a_handler(
    bench: Bench, output: str, fault: str
) -> None:
    failed = (await run_code(bench, {"code": f"def run(input): return {output}"})).failed

    assert (failed.type, failed.final) == ("InvalidOutput", True)
    assert fault in failed.message


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        {"code": 1},
        {"code": "", "more": 1},
        {"code": "", "limits": {"cpu": 0}},
        {"code": "", "limits": {"x": 1}},
    ],
)
async def test_input_that_is_no_code_is_a_final_failure(bench: Bench, given: Any) -> None:
    failed = (await run_code(bench, given)).failed

    assert (failed.type, failed.final) == ("PythonInvalidInput", True)
