"""With --json, standard output is one JSON document, whatever happens; no output carries colours off a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from headway.api.definitions.v1 import definitions_pb2
from headway.api.runs.v1 import runs_pb2
from headway.cli.__main__ import run
from headway.cli.output import Output
from tests.cli.conftest import CommandLine
from tests.client.scripted_coordinator import Refusal, ScriptedCoordinator, Silence, Stream

RUN = runs_pb2.Run(run_id="r1", workflow="orders", version=1, state=runs_pb2.RUN_STATE_SUCCEEDED, output=b'"done"')
TASK = runs_pb2.Task(path="charge", type="call", state=runs_pb2.TASK_STATE_SUCCEEDED)
EVENT = runs_pb2.Event(seq=1, type="RunStarted", event=b"{}")

COMMANDS = [
    ("check", "FILE"),
    ("deploy", "FILE"),
    ("start", "orders"),
    ("start", "orders", "--wait"),
    ("list",),
    ("show", "r1"),
    ("history", "r1"),
    ("watch", "r1"),
    ("signal", "r1", "paid"),
    ("cancel", "r1"),
    ("retry", "r1"),
]


def script_success(coordinator: ScriptedCoordinator) -> None:
    coordinator.script("definitions.Check", definitions_pb2.CheckResponse(workflow="orders"))
    coordinator.script("definitions.Deploy", definitions_pb2.DeployResponse(workflow="orders", version=1, changed=True))
    coordinator.script("runs.Start", runs_pb2.StartResponse(run_id="r1", version=1))
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=[RUN]))
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=RUN, tasks=[TASK]))
    coordinator.script("runs.GetHistory", runs_pb2.GetHistoryResponse(events=[EVENT]))
    coordinator.script("runs.Watch", Stream(messages=[runs_pb2.WatchResponse(event=EVENT, state=RUN.state)]))
    coordinator.script("runs.Signal", runs_pb2.SignalResponse(seq=2))
    coordinator.script("runs.Cancel", runs_pb2.CancelResponse(state=runs_pb2.RUN_STATE_RUNNING))
    coordinator.script("runs.Retry", runs_pb2.RetryResponse(chosen=["charge"], epoch=2))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "orders.yaml"
    path.write_text("workflow: orders\n")
    return str(path)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_with_json_every_command_prints_one_document(
    command: tuple[str, ...], headway: CommandLine, coordinator: ScriptedCoordinator, file: str
) -> None:
    script_success(coordinator)

    result = await headway(*(file if word == "FILE" else word for word in command), "--json")

    assert result.code == 0, result.err
    assert isinstance(result.document, dict)
    assert "error" not in result.document or result.document["error"] is None


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_with_json_a_refusal_is_one_document_too(
    command: tuple[str, ...], headway: CommandLine, coordinator: ScriptedCoordinator, file: str
) -> None:
    for method in (
        *("Start", "List", "Get", "GetHistory", "Watch", "Signal", "Cancel", "Retry"),
        *("Check", "Deploy"),
    ):
        service = "definitions" if method in {"Check", "Deploy"} else "runs"
        coordinator.script(
            f"{service}.{method}",
            Refusal(reason="RUN_NOT_FOUND", code=grpc.StatusCode.NOT_FOUND, message="no run r1", metadata={"a": "b"}),
        )

    result = await headway(*(file if word == "FILE" else word for word in command), "--json")

    assert result.code == 2
    assert result.document == {
        "error": {"reason": "RUN_NOT_FOUND", "message": "no run r1", "code": "NOT_FOUND", "metadata": {"a": "b"}}
    }
    assert "no run r1" in result.err


@pytest.mark.parametrize(("option", "is_one_line"), [("--json", False), ("--json-lines", True)])
async def test_a_refusal_is_spread_over_lines_as_documents_are_unless_each_has_a_line(
    option: str, *, is_one_line: bool, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Watch", Refusal(reason="RUN_NOT_FOUND", code=grpc.StatusCode.NOT_FOUND))
    coordinator.script("runs.Get", Refusal(reason="RUN_NOT_FOUND", code=grpc.StatusCode.NOT_FOUND))

    result = await headway("watch", "r1", option)

    assert result.document["error"]["reason"] == "RUN_NOT_FOUND"
    assert (len(result.out.splitlines()) == 1) is is_one_line


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_an_unreachable_coordinator_is_said_in_one_sentence_with_a_remedy(
    command: tuple[str, ...],
    headway: CommandLine,
    coordinator: ScriptedCoordinator,
    file: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headway.cli.commands.definitions.find_spec", lambda _name: None)
    await coordinator.stop()

    result = await headway(*(file if word == "FILE" else word for word in command), "--patience", "0s")

    assert result.code == 2
    assert result.out == ""
    assert len(result.err.splitlines()) == 1
    assert f"no coordinator answers at {coordinator.address}" in result.err
    assert "HEADWAY_COORDINATOR" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(("is_given", "said"), [(False, True), (True, False)])
async def test_starting_one_here_is_the_remedy_unless_another_place_was_named(
    is_given: bool,  # noqa: FBT001 - a parameter of the test
    said: bool,  # noqa: FBT001 - a parameter of the test
    headway: CommandLine,
    coordinator: ScriptedCoordinator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not is_given:
        monkeypatch.setattr("headway.cli.__main__.DEFAULT_ADDRESS", coordinator.address)
    await coordinator.stop()

    result = await headway("list", "--patience", "0s")

    assert ("headway dev" in result.err) is said


async def test_a_database_that_is_not_there_is_said_once(
    headway: CommandLine, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", f"postgresql://a:b@127.0.0.1:{unused_tcp_port}/none")

    result = await headway("db", "upgrade")

    assert result.code == 2
    assert result.err.count("the database was not upgraded") == 1
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("options", [(), ("--json",), ("--help",)], ids=["for people", "--json", "--help"])
async def test_output_that_cannot_be_written_is_said_in_one_sentence(
    options: tuple[str, ...], coordinator: ScriptedCoordinator
) -> None:
    script_success(coordinator)

    with Path("/dev/full").open("w") as full:  # noqa: ASYNC230 - a device
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headway.cli", "list", "--address", coordinator.address, *options),
            stdout=full,
            stderr=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
        _, err = await process.communicate()

    assert process.returncode == 2
    assert err.decode() == "headway: what it prints cannot be written: No space left on device\n"


async def test_what_goes_wrong_ends_as_it_should_even_when_nobody_can_be_told() -> None:
    command = f"{sys.executable} -m headway.cli list --nope 2>/dev/full"
    process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()

    assert (process.returncode, out) == (2, b"")


async def test_a_terminal_that_knows_ascii_alone_gets_the_rest_spelt_out(coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Get", *[Refusal(reason="RUN_NOT_FOUND", code=grpc.StatusCode.NOT_FOUND, message="ö.")] * 2)
    out: list[bytes] = []
    for words in ("--help", "show r1 --json --address " + coordinator.address):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headway.cli", *words.split()),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
        out += [*await process.communicate()]

    assert (b"HOST:PORT[,\\u2026]" in out[0], out[1]) == (True, b"")
    assert json.loads(out[2])["error"]["message"] == "ö."
    assert out[3].startswith(b"headway: \\xf6.")


SLOW = """
import signal, sys, time
from headway.cli import entry

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may let it be ignored

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "headway.cli.__main__":
            print("importing", flush=True)
            time.sleep(60)

sys.meta_path.insert(0, Slow())
entry.main()
"""


WATCHING = """
import signal, sys
from headway.cli import entry

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may let it be ignored
sys.exit(entry.main())
"""


async def test_ctrl_c_while_it_is_being_imported_ends_it_without_a_word() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SLOW), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"importing\n"

    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()

    assert (process.returncode, err) == (-signal.SIGINT, b"")


async def test_ctrl_c_while_it_waits_ends_it_without_a_word_with_the_code_that_shells_know(
    coordinator: ScriptedCoordinator,
) -> None:
    script_success(coordinator)
    coordinator.script("runs.Watch", Stream(messages=[runs_pb2.WatchResponse(event=EVENT)], then=Silence()))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WATCHING, "watch", "r1", "--json-lines", "--address", coordinator.address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert json.loads(await process.stdout.readline())["event"]["seq"] == 1

    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()

    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("command", [("list",), ("show", "r1"), ("show", "r1", "--json")], ids=" ".join)
async def test_a_reader_that_leaves_is_no_failure(command: tuple[str, ...], coordinator: ScriptedCoordinator) -> None:
    script_success(coordinator)
    reader, writer = os.pipe()
    os.close(reader)

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headway.cli", *command, "--address", coordinator.address),
        stdout=writer,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(writer)
    _, err = await process.communicate()

    assert (process.returncode, err) == (0, b"")


async def test_a_command_whose_output_is_closed_does_what_it_is_to_do(coordinator: ScriptedCoordinator) -> None:
    script_success(coordinator)

    command = f"{sys.executable} -m headway.cli start orders --address {coordinator.address} >&-"
    process = await asyncio.create_subprocess_shell(command, stderr=asyncio.subprocess.PIPE)
    _, err = await process.communicate()

    assert (process.returncode, err) == (0, b"")
    assert len(coordinator.requests["runs.Start"]) == 1


async def test_a_refusal_names_what_to_do_where_its_message_does_not(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Get", Refusal(reason="RUN_NOT_FOUND", code=grpc.StatusCode.NOT_FOUND, message="no run."))

    result = await headway("show", "r1")

    assert result.err == "headway: no run. `headway list` shows the runs of a --namespace.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", ""), "the run's id is empty; `headway list` shows the runs"),
        (("start", "orders", "--input", "@"), "a lone @ names no file; write @FILE, or @- for standard input"),
        (("start", "orders", "--input", " "), "the text is empty; write null, {} or another JSON value"),
        (("start", "orders", "--input", "1" * 5_000), "the text holds a number of too many digits; write it as text"),
        (("start", "orders", "--input", "[NaN]"), "NaN is no JSON"),
        (("start", "orders", "--input", '{"n": -1e999}'), "-1e999 is no number that can be counted with"),
        (("start", "orders", "--version", "2147483648"), "'2147483648' is no whole number from 1 to 2147483647"),
        (("rollback", "orders", "--to", "9" * 5_000), "no whole number from 1 to 2147483647"),
        (("list", "--limit", "9" * 30), "no whole number from 1 to 2147483647"),
        (("signal", "r", "x", "--ttl", "3650001d"), "'3650001d' is too long; 3650000d are the most"),
        (("list", "--patience", "9" * 400 + "s"), "is too long"),
        (("list", "--workflow", "caf\udce9"), "caf\\udce9 is no text in UTF-8"),
        (("show", "\udcff", "--namespace", "x"), "\\udcff is no text in UTF-8"),
        (("list", "--since", "0001-01-01T00:00:00+14:00"), "lies outside of the years 1 to 9999"),
        (("check", ""), "cannot read a file without a name"),
        (("list", "--address", "http://127.0.0.1:7710"), "write it as host:port, without a scheme or a path"),
    ],
)
async def test_what_was_typed_wrong_is_said_with_what_to_write(
    arguments: tuple[str, ...], said: str, coordinator: ScriptedCoordinator, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await run([*([] if "--address" in arguments else ["--address", coordinator.address]), *arguments])

    assert code == 2
    assert said in capsys.readouterr().err


async def test_with_json_wrong_usage_is_one_document_too(headway: CommandLine) -> None:
    result = await headway("list", "--limit", "0", "--json")

    assert result.code == 2
    assert result.document["error"]["reason"] == "USAGE"


async def test_json_lines_prints_each_event_as_a_document(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    script_success(coordinator)
    messages = [
        runs_pb2.WatchResponse(event=runs_pb2.Event(seq=seq, type="NodeCompleted"), state=RUN.state) for seq in (1, 2)
    ]
    coordinator.script("runs.Watch", Stream(messages=messages))

    result = await headway("watch", "r1", "--json-lines")

    assert [json.loads(line)["event"]["seq"] for line in result.out.splitlines()] == [1, 2]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_off_a_terminal_nothing_is_coloured(
    command: tuple[str, ...], headway: CommandLine, coordinator: ScriptedCoordinator, file: str
) -> None:
    script_success(coordinator)

    result = await headway(*(file if word == "FILE" else word for word in command))

    assert result.code == 0, result.err
    assert "\x1b" not in result.out + result.err
    assert result.out.strip()


async def test_text_from_elsewhere_steers_no_terminal_and_is_no_markup(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    task = runs_pb2.Task(
        path="charge",
        state=runs_pb2.TASK_STATE_FAILED,
        error=runs_pb2.TaskError(failure_class="exec_failed", type="E", message="\x1b[2J[red]gone[/red] :boom:\r"),
    )
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=RUN, tasks=[task]))

    result = await headway("show", "r1")

    assert "\x1b" not in result.out
    assert "\r" not in result.out
    assert "\\x1b[2J[red]gone[/red] :boom:" in result.out


def test_the_installed_program_prints_pure_json_and_ends_with_2_when_nobody_answers() -> None:
    command = [sys.executable, "-m", "headway.cli", "list", "--json", "--address", "127.0.0.1:1"]

    ended = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONWARNINGS": "error"})

    assert ended.returncode == 2
    assert json.loads(ended.stdout)["error"]["reason"] == "UNREACHABLE"
    assert b"Traceback" not in ended.stderr


def test_with_json_sentences_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)

    output.say("starting …")
    output.document({"up": True})

    out, err = capsys.readouterr()
    assert json.loads(out) == {"up": True}
    assert err == "starting …\n"
