"""Commands on many runs, and signals by key: what is sent, what is told, how they end."""

from __future__ import annotations

import io
from uuid import UUID

import pytest

from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from tests.cli.conftest import CommandLine
from tests.client.scripted_coordinator import ScriptedCoordinator

REFUSAL = tasks_pb2.Refusal(reason="RUN_CLOSED", message="Run r2 is over")
PAGES = (
    runs_pb2.BulkResponse(results=[runs_pb2.BulkResult(run_id="r1")], next_page_token="t"),
    runs_pb2.BulkResponse(results=[runs_pb2.BulkResult(run_id="r2", refusal=REFUSAL)]),
)


async def test_a_cancel_by_filter_goes_through_all_pages_and_tells_what_became_of_each(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Bulk", *PAGES)

    result = await headway(
        "cancel",
        "--workflow",
        "w",
        "--state",
        "running",
        "--yes",
        "--reason",
        "old",
        "--grace",
        "5s",
        "--no-compensation",
    )

    assert result.code == 1
    assert [line.split()[:2] for line in result.out.splitlines()[1:]] == [["r1", "cancel"], ["r2", "Run"], ["1", "of"]]
    first, second = coordinator.requests["runs.Bulk"]
    assert (first.filter.workflow, list(first.filter.states)) == ("w", [runs_pb2.RUN_STATE_RUNNING])
    assert (first.cancel.reason, first.cancel.grace.seconds, first.dry_run) == ("old", 5, False)
    assert first.cancel.no_compensation
    assert (second.page_token, second.request_id) == ("t", first.request_id)


async def test_a_pause_a_resume_and_a_skip_by_filter_carry_what_those_of_one_run_carry(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Bulk", PAGES[1], PAGES[1], PAGES[1])
    which = ("--workflow", "w", "--label", "customer=42", "--yes")

    paused = await headway("pause", *which, "--reason", "outage", "--pause-clock")
    resumed = await headway("resume", *which, "--paused")
    skipped = await headway("skip", "charge", *which, "--output", '{"ok": true}', "--reason", "by hand")

    assert [each.code for each in (paused, resumed, skipped)] == [1, 1, 1]
    pause, resume, skip = coordinator.requests["runs.Bulk"]
    assert (pause.pause.reason, pause.pause.pause_clock) == ("outage", True)
    assert resume.WhichOneof("operation") == "resume"
    assert (skip.skip.node, skip.skip.output, skip.skip.reason) == ("charge", b'{"ok":true}', "by hand")
    assert [each.filter.paused for each in (pause, resume, skip)] == [False, True, False]
    assert all(dict(each.filter.labels) == {"customer": "42"} for each in (pause, resume, skip))


async def test_a_retry_by_filter_goes_on_under_the_request_id_given(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Bulk", PAGES[1])
    request_id = str(UUID(int=7))

    result = await headway(
        "retry", "--failure-class", "timeout", "--from", "a", "--render-inputs", "--yes", "--request-id", request_id,
        "--json",
    )  # fmt: skip

    assert result.document == {
        "request_id": request_id,
        "dry_run": False,
        "results": [{"run_id": "r2", "refusal": "RUN_CLOSED"}],
    }
    (request,) = coordinator.requests["runs.Bulk"]
    assert (request.request_id, list(request.retry.from_nodes), request.dry_run) == (request_id, ["a"], False)
    assert request.retry.render_inputs


async def test_without_yes_and_a_terminal_nothing_is_done_to_many(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Bulk", *PAGES)

    result = await headway("delete", "--workflow", "w")

    assert result.code == 2
    assert "delete 1 run (1 more would be refused)?" in result.err
    assert {request.dry_run for request in coordinator.requests["runs.Bulk"]} == {True}


@pytest.mark.parametrize(
    ("typed", "goes_on"), [("y\n", True), (" YES \n", True), ("\n", False), ("no\n", False), ("", False)]
)
async def test_at_a_terminal_it_asks_first_and_only_a_yes_goes_on(
    typed: str,
    goes_on: bool,  # noqa: FBT001
    headway: CommandLine,
    coordinator: ScriptedCoordinator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = runs_pb2.BulkResponse(results=[runs_pb2.BulkResult(run_id=run_id) for run_id in ("r1", "r2")])
    coordinator.script("runs.Bulk", *[answer] * 2)
    terminal = io.StringIO(typed)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)

    result = await headway("delete", "--workflow", "w")

    assert result.err.startswith("delete 2 runs? [y/N] ")
    assert [request.dry_run for request in coordinator.requests["runs.Bulk"]] == [True, False][: 1 + goes_on]
    if goes_on:
        (first, second) = coordinator.requests["runs.Bulk"]
        assert first.request_id == second.request_id
        assert (result.code, result.out.splitlines()[1:]) == (0, ["r1  delete", "r2  delete", "2 of 2 runs"])
        assert result.out.startswith(f"if this is broken off, go on with --request-id {second.request_id}\n")
    else:
        assert (result.code, result.out) == (2, "")
        assert result.err.endswith("headway: nothing was done\n")


async def test_a_dry_run_asks_for_nothing_and_does_nothing(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Bulk", runs_pb2.BulkResponse(results=[runs_pb2.BulkResult(run_id="r1")]))

    result = await headway("delete", "--workflow", "w", "--dry-run")

    assert (result.code, result.out.splitlines()) == (0, ["r1  would delete", "1 of 1 runs (nothing was done)"])
    assert (await headway("delete", "--workflow", "w", "--dry-run", "--json")).document["dry_run"] is True


@pytest.mark.parametrize("words", [("cancel",), ("delete",), ("pause",), ("resume",), ("skip", "charge")])
async def test_a_dry_run_of_one_run_says_whether_it_would_be_refused_and_does_nothing(
    words: tuple[str, ...], headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    run_id = "0" * 31 + "7"
    results = [runs_pb2.BulkResult(run_id=run_id, refusal=refusal) for refusal in (None, REFUSAL)]
    coordinator.script("runs.Bulk", *[runs_pb2.BulkResponse(results=[each]) for each in results])
    command, *rest = words

    would = await headway(command, run_id, *rest, "--dry-run")
    refused = await headway(command, run_id, *rest, "--dry-run")

    assert (would.code, would.out.splitlines()[0]) == (0, f"{run_id}  would {command}")
    assert (refused.code, refused.out.splitlines()[0]) == (1, f"{run_id}  Run r2 is over")
    assert {*coordinator.requests} == {"runs.Bulk"}
    for request in coordinator.requests["runs.Bulk"]:
        assert (request.dry_run, request.filter.run_id_prefix, len(request.filter.states)) == (True, run_id, 5)


async def test_a_dry_run_of_a_run_that_is_not_there_is_refused(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Bulk", runs_pb2.BulkResponse())

    result = await headway("cancel", "0" * 32, "--dry-run")

    assert result.code == 2
    assert f"there is no run {'0' * 32} in namespace default" in result.err


async def test_what_goes_on_with_many_is_not_said_of_one(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    result = await headway("cancel", "r1", "--request-id", str(UUID(int=7)))

    assert (result.code, "--request-id goes on with what was done to many" in result.err) == (2, True)
    assert not coordinator.requests


@pytest.mark.parametrize(
    "arguments",
    [
        ("cancel",),
        ("cancel", "r1", "--workflow", "w"),
        ("delete",),
        ("retry", "--yes"),
        ("pause",),
        ("resume", "r1", "--workflow", "w"),
        ("skip", "charge"),
        ("skip", "r1", "charge", "--workflow", "w"),
    ],
)
async def test_one_run_or_a_filter_is_named_and_not_both(
    arguments: tuple[str, ...], headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    result = await headway(*arguments)

    assert (result.code, "one of the two" in result.err) == (2, True)
    assert not coordinator.requests


async def test_delete_says_whether_there_was_anything(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Delete", runs_pb2.DeleteResponse(deleted=True), runs_pb2.DeleteResponse())

    first, second = await headway("delete", "r1"), await headway("delete", "r1")

    assert [(each.code, each.out) for each in (first, second)] == [
        (0, "run r1 is deleted\n"),
        (1, "run r1 is not there\n"),
    ]


async def test_a_signal_goes_to_the_run_of_a_key_or_starts_it(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Signal", runs_pb2.SignalResponse(run_id="r1", seq=4))
    coordinator.script(
        "runs.SignalWithStart",
        runs_pb2.SignalWithStartResponse(run=runs_pb2.StartResponse(run_id="r2"), seq=2),
    )

    by_key = await headway(
        "signal", "--key", "K", "--workflow", "w", "approval", "--payload", "1", "--id", "e1", "--ttl", "5s"
    )
    started = await headway(
        "signal", "--key", "K", "--workflow", "w", "--start", "--input", "[1]", "approval", "--id", "e2", "--ttl", "6s"
    )
    document = (await headway("signal", "--key", "K", "--workflow", "w", "--start", "approval", "--json")).document

    assert by_key.out == "run r1 has received approval (event 4)\n"
    assert started.out == "run r2 was started and has received approval (event 2)\n"
    assert document["existed"] is False
    (signal,), (start, _) = coordinator.requests["runs.Signal"], coordinator.requests["runs.SignalWithStart"]
    assert (signal.key, signal.workflow, signal.name, signal.payload) == ("K", "w", "approval", b"1")
    assert (signal.id, signal.ttl.seconds) == ("e1", 5)
    assert (start.start.key, start.start.workflow, start.start.input, start.name) == ("K", "w", b"[1]", "approval")
    assert (start.id, start.ttl.seconds) == ("e2", 6)


@pytest.mark.parametrize(
    "arguments",
    [
        ("approval",),
        ("r1", "approval", "--key", "k"),
        ("--start", "r1", "approval"),
        ("--start", "--key", "k", "approval"),
    ],
)
async def test_a_signal_names_one_run(
    arguments: tuple[str, ...], headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    result = await headway("signal", *arguments)

    assert result.code == 2
    assert not coordinator.requests
