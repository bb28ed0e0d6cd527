"""Starting runs: what is sent, what people read, how the command ends when it waits."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from headway.api.runs.v1 import runs_pb2
from tests.cli.conftest import CommandLine
from tests.cli.runs import STATES, progress, run
from tests.client.scripted_coordinator import Plain, ScriptedCoordinator, Stream

pytestmark = pytest.mark.usefixtures("noon")


async def test_start_prints_the_run_and_how_to_follow_it(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    answers = [runs_pb2.StartResponse(run_id="r1", version=2, existed=existed) for existed in (False, True)]
    coordinator.script("runs.Start", *answers)
    command = ("start", "orders", "--input", '{"order_id": 7}', "--key", "k", "--version", "2", "--label", "vip=yes")

    started, found = await headway(*command), await headway(*command)

    assert (started.code, found.code) == (0, 0)
    assert started.out.splitlines() == ["run r1 started (orders version 2)", "follow it with: headway watch r1"]
    assert found.out.splitlines()[0] == "run r1 was there already under the key (orders version 2)"
    request = coordinator.requests["runs.Start"][0]
    assert (request.input, request.key, request.version) == (b'{"order_id":7}', "k", 2)
    assert dict(request.labels) == {"vip": "yes"}


async def test_input_can_come_from_a_file_or_from_standard_input(
    headway: CommandLine, coordinator: ScriptedCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator.script("runs.Start", runs_pb2.StartResponse(run_id="r1"))
    (tmp_path / "input.json").write_text("[1]")
    monkeypatch.setattr("sys.stdin", io.StringIO("[2]"))

    await headway("start", "orders", "--input", f"@{tmp_path / 'input.json'}")
    await headway("start", "orders", "--input", "@-")

    assert [request.input for request in coordinator.requests["runs.Start"]] == [b"[1]", b"[2]"]


async def test_an_input_of_null_is_kept_and_one_that_is_left_out_is_an_empty_object(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Start", *[runs_pb2.StartResponse(run_id="r1")] * 2)
    coordinator.script("runs.SignalWithStart", *[runs_pb2.SignalWithStartResponse()] * 2)
    signal = ("signal", "paid", "--key", "k", "--workflow", "orders", "--start")

    await headway("start", "orders", "--input", "null")
    await headway("start", "orders")
    await headway(*signal, "--input", "null")
    await headway(*signal)

    assert [request.input for request in coordinator.requests["runs.Start"]] == [b"null", b"{}"]
    assert [request.start.input for request in coordinator.requests["runs.SignalWithStart"]] == [b"null", b"{}"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "is nested too deeply"),
        (b'"\xff"', "it is no text in UTF-8"),
        (b'"\\ud800"', "holds what is no text in UTF-8"),
        (b"[1,", "is no JSON"),
    ],
)
async def test_an_input_that_cannot_be_sent_is_wrong_usage(
    content: bytes, said: str, headway: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "input.json").write_bytes(content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), "utf-8"))

    for place in ("@-", f"@{tmp_path / 'input.json'}"):
        result = await headway("start", "orders", "--input", place)

        assert result.code == 2
        assert said in result.err


async def test_a_patient_command_outlasts_a_coordinator_that_is_being_started_again(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Start", *[Plain()] * 8, runs_pb2.StartResponse(run_id="r1", version=2))

    assert (await headway("start", "orders", "--patience", "5s")).code == 0


@pytest.mark.parametrize("text", ["{", "NaN", "@/nowhere/at/all"])
async def test_input_that_is_no_json_is_refused_before_any_call(
    text: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    result = await headway("start", "orders", "--input", text)

    assert result.code == 2
    assert "--input" in result.err
    assert coordinator.requests["runs.Start"] == []


@pytest.mark.parametrize("state", sorted(STATES))
async def test_waiting_ends_with_the_runs_success(
    state: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    message, code = STATES[state]
    coordinator.script("runs.Start", runs_pb2.StartResponse(run_id="r1", version=2, existed=True))
    coordinator.script("runs.Watch", Stream(messages=[progress(1, "RunStarted", message)]))
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(message)))

    people = await headway("start", "orders", "--wait")
    program = await headway("start", "orders", "--wait", "--json")

    assert people.code == program.code == code
    assert people.out.splitlines()[-1] == f"{state} after 3m12s"
    assert program.document["state"] == state
    assert program.document["run_id"] == "r1"
    assert program.document["existed"] is True
