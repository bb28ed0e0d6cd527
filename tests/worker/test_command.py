"""Starting workers: from modules, by name, with what they serve."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2

from headway.runtime.settings import SettingsError, load
from headway.worker import NothingToServe, Registry, Worker, WorkerSettings, run_worker
from headway.worker._command import load_registry
from headway.worker._importing import ModuleRefused
from tests.worker.conftest import Bench, nothing
from tests.worker.test_draining import start_process, until_logged


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A current folder of the test's own, importable; what was imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_a_module_may_name_a_registry_of_its_own(folder: Path) -> None:
    (folder / "shop_handlers.py").write_text(
        "from headway.worker import Registry\n"
        "own = Registry()\n"
        "@own.handler('shop.ship', queue='shipping')\n"
        "def ship(order): return order\n"
    )

    registry = load_registry(["shop_handlers:own"])

    found = registry.find("shop.ship")
    assert found is not None
    assert found.queue == "shipping"


@pytest.mark.parametrize("name", ["no_such_module", "json:loads", "json:missing"])
def test_a_module_that_cannot_be_used_is_refused(folder: Path, name: str) -> None:
    del folder

    with pytest.raises(ModuleRefused):
        load_registry([name])


@pytest.mark.parametrize(
    ("source", "place", "said"),
    [
        ("import os\ndef ship(:\n  pass\n", ":2", "SyntaxError: invalid syntax"),
        ("import os\n\nship()\n", ":3", "NameError: name 'ship' is not defined"),
    ],
)
def test_a_module_with_a_fault_is_refused_with_the_place_of_it(
    source: str, place: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "faulty_handlers.py").write_text(source)

    code = run_worker(["faulty_handlers"])

    first, *rest = capsys.readouterr().err.splitlines()
    assert code == 2
    assert first == f"headway worker: cannot import 'faulty_handlers': {folder / 'faulty_handlers.py'}{place}"
    assert rest[-1] == said
    assert "headway/worker" not in "".join(rest)
    assert "importlib" not in "".join(rest)


def test_a_fault_deep_in_what_a_module_calls_is_told_with_the_frames_of_its_author(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rates.py").write_text("import json\n\ndef load():\n    return json.loads('{')\n")
    (folder / "shop_calls.py").write_text("import rates\n\nRATES = rates.load()\n")

    code = run_worker(["shop_calls"])

    first, *rest = capsys.readouterr().err.splitlines()
    assert code == 2
    assert first == f"headway worker: cannot import 'shop_calls': {folder / 'rates.py'}:4"
    assert rest[0] == "Traceback (most recent call last):"
    assert [line.split(",")[0] for line in rest if line.startswith("  File")][:2] == [
        f'  File "{folder / "shop_calls.py"}"',
        f'  File "{folder / "rates.py"}"',
    ]
    assert rest[-1].startswith("json.decoder.JSONDecodeError: ")
    assert "headway/worker" not in "".join(rest)


def test_a_refused_handler_is_told_at_the_line_of_its_author(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "odd_handlers.py").write_text(
        "from headway.worker import handler\n\n@handler('shop.ship', queue='A B')\ndef ship(order): return order\n"
    )

    code = run_worker(["odd_handlers"])

    first, *rest = capsys.readouterr().err.splitlines()
    assert code == 2
    assert first.startswith(f"headway worker: cannot import 'odd_handlers': {folder / 'odd_handlers.py'}:")
    assert "handler 'shop.ship' cannot have the queue 'A B'" in rest[-1]
    assert "_registry.py" not in "".join(rest)


def test_a_name_that_is_registered_twice_names_both_places(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("first_shop", "second_shop"):
        (folder / f"{module}.py").write_text(
            "from headway.worker import Registry\nown = Registry()\n"
            "@own.handler('shop.ship')\ndef ship(order): return order\n"
        )

    code = run_worker(["first_shop:own", "second_shop:own"])

    said = capsys.readouterr().err
    assert code == 2
    assert "handler 'shop.ship' is registered twice: ship (" in said
    for module in ("first_shop", "second_shop"):
        assert f"{folder / module}.py, line 3)" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("shop_there", "neither shop_there.py nor shop_there/ is in {folder}, on PYTHONPATH, or installed for"),
        ("shop_there.handlers", "there is no module 'shop_there'"),
        ("shop_here.handlers", "there is no module 'shop_here.handlers': 'shop_here' is {folder}/shop_here.py"),
        ("shop_here.py", "'shop_here.py' is a file: name the module, shop_here"),
        ("src/shop_here.py", "name the module, shop_here, and its folder with PYTHONPATH=src"),
    ],
)
def test_a_module_that_is_not_there_is_told_with_the_remedy(
    name: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "shop_here.py").write_text("")

    code = run_worker([name])

    told = capsys.readouterr().err
    assert code == 2
    assert said.format(folder=folder) in told
    assert "Traceback" not in told


def test_a_module_that_lacks_another_is_told_with_its_line_and_the_remedy(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "shop_lacks.py").write_text("import os\nimport no_such_library\n")

    code = run_worker(["shop_lacks"])

    first, *rest = capsys.readouterr().err.splitlines()
    assert code == 2
    assert first == f"headway worker: cannot import 'shop_lacks': {folder / 'shop_lacks.py'}:2"
    assert rest[-2] == "ModuleNotFoundError: No module named 'no_such_library'"
    assert rest[-1] == f"'no_such_library' is not installed for {sys.executable}, nor in a folder on PYTHONPATH"


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("", 'write @handler("NAME", queue="QUEUE") above one'),
        (
            "from headway.worker import Registry\nown = Registry()\n@own.handler('a')\ndef a(given): return given\n",
            "it has a Registry: name shop_empty:own",
        ),
    ],
)
@pytest.mark.parametrize("builtins", [[], ["http"]])
def test_a_module_without_handlers_is_refused_by_its_file(
    source: str, remedy: str, builtins: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "shop_empty.py").write_text(source)

    code = run_worker(["shop_empty"], builtins=builtins)

    said = capsys.readouterr().err
    assert code == 2
    assert said.startswith(f"headway worker: nothing to serve: 'shop_empty' ({folder / 'shop_empty.py'}) registers no")
    assert remedy in said


async def test_the_line_that_a_worker_serves_names_its_queues_and_handlers_as_far_as_a_line_goes(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="headway.worker")
    for number in range(23):
        bench.registry.handler(f"run_{number:02}", queue="shipping")(nothing)

    async with bench.worker(queues=None):
        await _until_said(caplog, "serving")

    (line,) = [record for record in caplog.records if record.getMessage() == "serving"]
    assert vars(line)["queues"] == ["shipping"]
    assert vars(line)["handlers"] == [f"run_{number:02}" for number in range(20)]
    assert vars(line)["more_handlers"] == 3
    assert "more_queues" not in vars(line)


def test_a_worker_without_anything_to_serve_ends_with_two_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_worker() == 2
    assert "nothing to serve" in capsys.readouterr().err


def test_an_unknown_built_in_handler_is_refused() -> None:
    with pytest.raises(ValueError, match="known are http, python"):
        Worker(builtins=["ftp"])


def test_a_worker_that_serves_python_without_leave_to_run_it_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_worker(builtins=["python"]) == 2
    assert "allow that with --allow-python" in capsys.readouterr().err
    Worker(builtins=["python"], allow_python=True)


@pytest.mark.parametrize("url", ["notaurl", "http://127.0.0.1:6379", "redis://", "redis://127.0.0.1:port/0"])
def test_what_is_no_address_of_a_redis_is_a_fault_of_the_settings(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_REDIS_URL", url)

    assert run_worker(builtins=["http"]) == 2
    said = capsys.readouterr().err
    assert "HEADWAY_REDIS_URL: must match the form that its meaning gives" in said
    assert "redis://host:port/number" in said


@pytest.mark.parametrize("url", ["redis://h", "rediss://:secret@h:6380/1", "unix:///run/redis.sock"])
def test_addresses_of_a_redis_are_taken(url: str) -> None:
    assert load(WorkerSettings, {"HEADWAY_REDIS_URL": url}).redis_url == url


async def test_a_worker_says_once_whom_it_cannot_reach_and_serves_when_they_are_there(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="headway.worker")
    bench.registry.handler("run")(nothing)
    bench.dispatch("t1", "run")
    bench.coordinator.stop()

    async with bench.worker():
        await _until_said(caplog, "no coordinator answers")
        assert "serving" not in caplog.messages
        bench.coordinator.start()
        await bench.coordinator.until_reported("t1")

    (warning,) = [record for record in caplog.records if "no coordinator answers" in record.message]
    assert vars(warning)["address"] == bench.coordinator.address
    assert "serving" in caplog.messages


async def test_a_redis_that_is_not_there_is_named_without_its_password(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="headway.worker")

    async with bench.worker(settings={"redis_url": "redis://:secret@127.0.0.1:1/0"}):
        await _until_said(caplog, "no Redis answers")

    warning = next(record for record in caplog.records if "no Redis answers" in record.message)
    assert vars(warning)["address"] == "redis://127.0.0.1:1/0"
    assert "serving" not in caplog.messages


async def _until_said(caplog: pytest.LogCaptureFixture, words: str) -> None:
    async with asyncio.timeout(20):
        while words not in caplog.text:  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("queue", ["", "a/b", "{a}", "Capital", "a b", "a" * 64])
def test_a_queue_that_no_node_could_name_is_refused(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="there can be no queue"):
        Worker(queues=[queue])

    assert run_worker(queues=[queue], builtins=["http"]) == 2
    assert f"there can be no queue {queue!r}: its name matches [a-z0-9]" in capsys.readouterr().err


def test_a_namespace_that_cannot_be_is_refused_wherever_it_comes_from() -> None:
    with pytest.raises(ValueError, match="there can be no namespace 'a/b'"):
        Worker(namespace="a/b")
    with pytest.raises(SettingsError, match=r"HEADWAY_NAMESPACE='a/b': must match \[A-Za-z0-9"):
        load(WorkerSettings, {"HEADWAY_NAMESPACE": "a/b", "HEADWAY_REDIS_URL": "redis://localhost"})


async def test_a_worker_without_a_queue_is_refused(bench: Bench) -> None:
    with pytest.raises(NothingToServe):
        await Worker(Registry(), settings=bench.settings()).serve(asyncio.Event())


async def test_built_in_handlers_are_served_only_when_asked_for(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    bench.dispatch("t1", "headway.http", {"url": "http://127.0.0.1:1/"})

    async with bench.worker(queues=None):
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").failed.type == "UnknownHandler"


async def test_given_queues_replace_those_of_the_handlers(bench: Bench) -> None:
    bench.registry.handler("run", queue="own")(nothing)
    bench.dispatch("t1", "run", queue="other")

    async with bench.worker(queues=["other"]):
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").HasField("succeeded")


async def test_a_worker_answers_health_checks_when_it_is_given_an_address(bench: Bench, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/health"
    process = await start_process(bench, tmp_path, HEADWAY_WORKER_LISTEN=address)
    await until_logged(process, "serving")

    async with grpc.aio.insecure_channel(address) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        answer = await check(health_pb2.HealthCheckRequest())
    process.terminate()
    await process.communicate()

    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert process.returncode == 0
