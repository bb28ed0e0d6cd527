"""signal, cancel and retry: what is sent and what people read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from headway.cli.arguments import duration
from tests.cli.conftest import CommandLine
from tests.client.scripted_coordinator import Refusal, ScriptedCoordinator


async def test_signal_sends_name_and_payload(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Signal", runs_pb2.SignalResponse(run_id="r1", seq=9))

    result = await headway("signal", "r1", "approval", "--payload", '{"by": "ann"}', "--json")

    assert result.document == {"run_id": "r1", "name": "approval", "seq": 9, "is_repeat": False, "differs": False}
    request = coordinator.requests["runs.Signal"][0]
    assert (request.name, request.payload) == ("approval", b'{"by":"ann"}')


async def test_a_signal_whose_id_came_before_is_told_apart_and_another_payload_is_warned_of(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    same = runs_pb2.SignalResponse(run_id="r1", seq=9, is_repeat=True)
    other = runs_pb2.SignalResponse(run_id="r1", seq=9, is_repeat=True, differs=True)
    coordinator.script("runs.Signal", same, other, other)

    repeated = await headway("signal", "r1", "approval", "--id", "7")
    differing = await headway("signal", "r1", "approval", "--id", "7", "--payload", "1")
    document = (await headway("signal", "r1", "approval", "--id", "7", "--payload", "1", "--json")).document

    assert (repeated.code, repeated.err) == (0, "")
    assert repeated.out == differing.out == "run r1 had received approval 7 before (event 9)\n"
    assert "with another payload: this one was left out" in differing.err
    assert (document["is_repeat"], document["differs"]) == (True, True)


@pytest.mark.parametrize(
    ("fields", "when"),
    [
        ({"chosen": ["charge"]}, "when that has ended"),
        ({"reset": ["charge"]}, "when that has ended"),
        ({}, "at once: all else stays as it ended"),
    ],
)
async def test_a_retry_says_that_what_runs_at_the_end_runs_again(
    fields: dict[str, Any], when: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    answer = runs_pb2.RetryResponse(**fields, epoch=2, runs_finally=True)
    coordinator.script("runs.Retry", answer, answer)

    told = await headway("retry", "r1", "--dry-run")
    document = (await headway("retry", "r1", "--dry-run", "--json")).document

    assert f"  finally       runs again, {when}" in told.out
    assert document["runs_finally"] is True


async def test_a_refusal_is_one_sentence_and_exit_2(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script(
        "runs.Signal",
        Refusal(reason="RUN_CLOSED", code=grpc.StatusCode.FAILED_PRECONDITION, message="run r1 has succeeded"),
    )

    result = await headway("signal", "r1", "approval")

    assert result.code == 2
    assert result.out == ""
    assert result.err == "headway: run r1 has succeeded\n"
    coordinator.script("runs.Signal", Refusal(reason="RUN_NOT_FOUND", message="There is no run r1."))
    there_is_none = await headway("signal", "r1", "approval")
    assert there_is_none.err.startswith("headway: There is no run r1. `headway list` shows the runs")


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (runs_pb2.RUN_STATE_CANCELLED, "run r1 is cancelled"),
        (
            runs_pb2.RUN_STATE_RUNNING,
            (
                "run r1 is being cancelled; handlers that run are told, at the latest at their worker's next Renew, and"
                " closed as unknown after 90 s; child runs, nodes that undo others and `finally`, if there are any,"
                " come before its end"
            ),
        ),
    ],
)
async def test_cancel_tells_whether_it_is_over(
    state: runs_pb2.RunState, told: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Cancel", runs_pb2.CancelResponse(state=state))

    result = await headway("cancel", "r1", "--reason", "wrong", "--grace", "1m30s")

    assert result.code == 0
    assert result.out.splitlines()[0] == told
    request = coordinator.requests["runs.Cancel"][0]
    assert request.reason == "wrong"
    assert request.grace.ToTimedelta() == timedelta(seconds=90)
    assert not request.no_compensation


async def test_a_cancel_that_names_no_grace_tells_the_servers_and_may_undo_nothing(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Cancel", runs_pb2.CancelResponse(state=runs_pb2.RUN_STATE_RUNNING))

    result = await headway("cancel", "r1", "--no-compensation")

    assert "closed as unknown after 60 s" in result.out
    request = coordinator.requests["runs.Cancel"][0]
    assert (request.HasField("grace"), request.no_compensation) == (False, True)


async def test_retry_prints_what_is_redone_and_what_is_kept(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script(
        "runs.Retry", runs_pb2.RetryResponse(chosen=["charge"], reset=["ship", "mail"], kept=["reserve"], epoch=2)
    )

    result = await headway("retry", "r1", "--from", "charge", "--from", "ship", "--dry-run", "--render-inputs")
    done = await headway("retry", "r1")
    document = (await headway("retry", "r1", "--json")).document

    assert done.out.splitlines()[0] == "run r1 is reopened as epoch 2"
    assert (document["run_id"], document["dry_run"], document["epoch"]) == ("r1", False, 2)
    assert result.out.splitlines() == [
        "run r1 would be reopened as epoch 2",
        "  starts again  charge",
        "  reset         ship, mail",
        "  kept          reserve",
    ]
    request = coordinator.requests["runs.Retry"][0]
    assert list(request.from_nodes) == ["charge", "ship"]
    assert request.dry_run
    assert request.render_inputs


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10), ("500ms", 0.5), ("1h30m", 5400), ("2d", 172_800), ("1.5s", 1.5)]
)
def test_durations_are_read_as_they_are_written(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "10", "s", "10 s", "-1s", "1s!"])
async def test_what_is_no_duration_is_wrong_usage(text: str, headway: CommandLine) -> None:
    for typed in ((f"--grace={text}",), ("--grace", text)):
        result = await headway("cancel", "r1", *typed)

        assert result.code == 2
        assert "is no duration" in result.err


async def test_retry_names_the_runs_that_go_on(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    children = [
        runs_pb2.ReopenedChild(path="check", run_id="c1", workflow="probe", nodes=["first", "second"]),
        runs_pb2.ReopenedChild(path="pay", run_id="c2", workflow="payment"),
    ]
    coordinator.script("runs.Retry", runs_pb2.RetryResponse(chosen=["check", "pay"], epoch=2, children=children))

    told = await headway("retry", "r1", "--dry-run")
    document = (await headway("retry", "r1", "--dry-run", "--json")).document

    assert told.out.splitlines()[4:] == [
        "  check goes on in run c1 of probe, from first, second, which failed",
        "  pay goes on in run c2 of payment, from what was stopped",
    ]
    assert document["children"][1] == {"path": "pay", "run_id": "c2", "workflow": "payment", "nodes": []}


async def test_a_retry_tells_of_items_and_effects(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    items = [
        runs_pb2.RetriedItems(
            path="resize",
            total=1_000,
            failed=6,
            stopped=2,
            unbegun=12,
            kept=980,
            paths=[f"resize[{index}]" for index in range(8)],
        ),
        runs_pb2.RetriedItems(
            path="crop", total=9, undone=4, chosen=1, kept=4, paths=[f"crop[{index}]" for index in range(5)]
        ),
        runs_pb2.RetriedItems(path="trim", total=9, unbegun=2, kept=7),
        runs_pb2.RetriedItems(path="pack", anew=True, total=7),
    ]
    answer = runs_pb2.RetryResponse(
        chosen=["resize", "hotel"],
        reset=["pack", "pay"],
        epoch=2,
        items=items,
        undone=[
            runs_pb2.UndoneNode(path="hotel", by="no_hotel", state=runs_pb2.TASK_STATE_SUCCEEDED),
            runs_pb2.UndoneNode(path="car", by="no_car", state=runs_pb2.TASK_STATE_FAILED),
        ],
        standing=[runs_pb2.StandingEffect(path="pay", count=1), runs_pb2.StandingEffect(path="pack", count=3)],
        new_children=[runs_pb2.NewChild(path="ship", workflow="shipping")],
    )
    coordinator.script("runs.Retry", answer, answer)

    told = (await headway("retry", "r1", "--dry-run")).out.splitlines()
    document = (await headway("retry", "r1", "--dry-run", "--json")).document

    assert told[4:] == [
        (
            "  in resize     of 1000: 6 that failed and 2 that were stopped run again (resize[0], resize[1], resize[2],"
            " resize[3], resize[4], …); 12 that were not begun follow; 980 stay as they are"
        ),
        (
            "  in crop       of 9: 4 that were undone and 1 that were named run again (crop[0], crop[1], crop[2],"
            " crop[3], crop[4]); 4 stay as they are"
        ),
        "  in trim       of 9: 2 that were not begun follow; 7 stay as they are",
        "  in pack       all items run again, however many there are then (there were 7)",
        "  undone        hotel, by no_hotel: it is done anew, under a new idempotency key",
        "  undone        car, perhaps (failed), by no_car: it is done anew, under a new idempotency key",
        "  stands        pay: what it did stands, and it is done once more; should the run fail, all of it is undone",
        (
            "  stands        pack: what it did 3 times stands, and it is done once more;"
            " should the run fail, all of it is undone"
        ),
        "  ship starts another run of shipping",
    ]
    assert document["items"][0]["failed"] == 6
    assert document["items"][0]["paths"] == [f"resize[{index}]" for index in range(8)]
    assert document["undone"][1] == {"path": "car", "by": "no_car", "state": "failed"}
    assert document["standing"] == [{"path": "pay", "count": 1}, {"path": "pack", "count": 3}]
    assert document["new_children"] == [{"path": "ship", "workflow": "shipping"}]
