"""What the coordinator left out for room: people and programs are told, and how to get it."""

from __future__ import annotations

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from tests.cli.conftest import CommandLine
from tests.client.scripted_coordinator import Refusal, ScriptedCoordinator

SUCCEEDED = runs_pb2.TASK_STATE_SUCCEEDED
RUN = runs_pb2.Run(run_id="r1", workflow="orders", version=1, state=runs_pb2.RUN_STATE_RUNNING, epoch=1)
NO_LOOP = Refusal(reason="INVALID_ARGUMENT", code=grpc.StatusCode.INVALID_ARGUMENT, metadata={"field": "path"})


async def test_show_tells_outputs_that_are_left_out_and_where_they_are(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    tasks = [
        runs_pb2.Task(path="small", type="call", state=SUCCEEDED, output=b"1"),
        runs_pb2.Task(path="none", type="call", state=SUCCEEDED),
        runs_pb2.Task(path="large", type="call", state=SUCCEEDED, output_left_out=60_002),
    ]
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=RUN, tasks=tasks, more_stale_reports=True))

    shown = (await headway("show", "r1")).out.splitlines()
    document = (await headway("show", "r1", "--json")).document

    assert "  small  1" in shown
    assert "  large  (60,002 bytes, left out)" in shown
    assert "  what is left out is shown task by task: headway show r1 large --json" in shown
    assert shown[-1] == "earlier reports that came too late are left out"
    assert [(task["output"], task["output_left_out"]) for task in document["tasks"]] == [
        (1, 0),
        (None, 0),
        (None, 60_002),
    ]
    assert document["more_stale_reports"] is True


async def test_show_says_nothing_of_leaving_out_where_all_is_there(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    task = runs_pb2.Task(path="small", type="call", state=SUCCEEDED, output=b"1")
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=RUN, tasks=[task]))

    assert "left out" not in (await headway("show", "r1")).out


async def test_show_tells_errors_that_are_left_out_and_where_they_are(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    error = runs_pb2.TaskError(failure_class="exec_failed", type="KeyError", left_out=True)
    attempt = runs_pb2.Attempt(attempt=1, outcome="failed", error=error)
    state = runs_pb2.TASK_STATE_FAILED
    task = runs_pb2.Task(path="charge", type="call", state=state, attempt=2, error=error, attempts=[attempt])
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=RUN, tasks=[task]))

    shown = (await headway("show", "r1")).out
    (document,) = (await headway("show", "r1", "--json")).document["tasks"]

    assert "KeyError: (left out)" in shown
    assert "  its message and trace are left out; they are in: headway show r1 charge" in shown
    assert document["error"]["left_out"] is True
    assert document["attempts"][0]["error"]["left_out"] is True


async def test_show_of_a_task_that_is_no_map_asks_for_it_alone(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.ListItems", NO_LOOP)
    task = runs_pb2.Task(path="each[3].large", type="call", state=SUCCEEDED, output=b'"whole"')
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=RUN, tasks=[task]))

    shown = (await headway("show", "r1", "each[3].large")).out
    document = (await headway("show", "r1", "each[3].large", "--json")).document

    assert '  each[3].large  "whole"' in shown.splitlines()
    assert "waits for" not in shown
    assert [each["output"] for each in document["tasks"]] == ["whole"]
    assert document["waits_for"] == []
    assert {(each.scope, each.path) for each in coordinator.requests["runs.Get"]} == {("", "each[3].large")}


async def test_show_of_a_node_that_is_not_there_is_refused_without_asking_again(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.ListItems", Refusal(reason="NODE_NOT_FOUND", code=grpc.StatusCode.NOT_FOUND))

    result = await headway("show", "r1", "nowhere")

    assert (result.code, result.out) != (0, "")
    assert coordinator.requests["runs.Get"] == []


async def test_results_of_items_that_are_left_out_are_told_and_shown_from_an_index_on(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    items = [
        runs_pb2.Item(path="each[12]", index=12, place=12, state=runs_pb2.RUN_STATE_SUCCEEDED, output=b"1"),
        runs_pb2.Item(path="each[13]", index=13, place=13, state=runs_pb2.RUN_STATE_SUCCEEDED, output_left_out=70_000),
    ]
    coordinator.script("runs.ListItems", runs_pb2.ListItemsResponse(items=items))

    people = await headway("show", "r1", "each", "--from", "12")
    program = await headway("show", "r1", "each", "--from", "12", "--limit", "1", "--json")

    assert people.out.splitlines()[-1].endswith("\t(70,000 bytes, left out)")
    assert people.err == (
        "(what is left out is shown one at a time: headway show r1 each --from 13 --limit 1 --json)\n"
    )
    assert program.document["items"][0]["output_left_out"] == 0
    requests = coordinator.requests["runs.ListItems"]
    assert [(each.from_index, each.page_size) for each in requests] == [(12, 51), (12, 2)]


@pytest.mark.parametrize("text", ["-1", "x", "9999999999"])
async def test_an_index_that_is_none_is_refused(headway: CommandLine, text: str) -> None:
    result = await headway("show", "r1", "each", f"--from={text}")

    assert result.code == 2
    assert "--from" in result.err


@pytest.mark.parametrize(
    ("state", "what"),
    [(runs_pb2.RUN_STATE_RUNNING, "open tasks"), (runs_pb2.RUN_STATE_FAILED, "tasks and items that failed")],
)
async def test_why_says_what_it_counts_and_does_not_tell(
    headway: CommandLine, coordinator: ScriptedCoordinator, state: runs_pb2.RunState, what: str
) -> None:
    run = runs_pb2.Run(run_id="r1", workflow="orders", version=1, state=state)
    coordinator.script("runs.Explain", runs_pb2.ExplainResponse(run=run, left_out=7))

    assert f"  … and 7 more {what}" in (await headway("why", "r1")).out.splitlines()
