"""pause and resume: what is sent and what people read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headway.api.runs.v1 import runs_pb2
from tests.cli.conftest import CommandLine
from tests.client.scripted_coordinator import ScriptedCoordinator


@pytest.mark.parametrize(
    ("was_paused", "told"), [(False, "run r1 is paused; what runs may end"), (True, "run r1 was paused already")]
)
async def test_pause_says_whether_anything_changed(
    was_paused: bool,  # noqa: FBT001
    told: str,
    headway: CommandLine,
    coordinator: ScriptedCoordinator,
) -> None:
    coordinator.script("runs.Pause", runs_pb2.PauseResponse(was_paused=was_paused))

    result = await headway("pause", "r1", "--reason", "a look", "--pause-clock")

    assert result.out.splitlines()[0] == told
    request = coordinator.requests["runs.Pause"][0]
    assert (request.run_id, request.reason, request.pause_clock) == ("r1", "a look", True)
    assert request.request_id
    assert (await headway("pause", "r1", "--json")).document == {"run_id": "r1", "was_paused": was_paused}


@pytest.mark.parametrize(("was_resumed", "told"), [(False, "run r1 goes on\n"), (True, "run r1 was not paused\n")])
async def test_resume_says_whether_anything_changed(
    was_resumed: bool,  # noqa: FBT001
    told: str,
    headway: CommandLine,
    coordinator: ScriptedCoordinator,
) -> None:
    coordinator.script("runs.Resume", runs_pb2.ResumeResponse(was_resumed=was_resumed))

    assert (await headway("resume", "r1")).out == told
    assert (await headway("resume", "r1", "--json")).document == {"run_id": "r1", "was_resumed": was_resumed}


async def test_show_tells_that_a_run_is_paused_and_why(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    run = runs_pb2.Run(
        run_id="r1",
        state=runs_pb2.RUN_STATE_RUNNING,
        paused_at=datetime(2030, 1, 2, tzinfo=UTC),
        pause_reason="a look",
        clock_paused=True,
        cancel_reason="enough",
    )
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run))

    lines = (await headway("show", "r1")).out.splitlines()

    assert "state     running (paused)" in lines
    assert "paused    2030-01-02 00:00:00Z, its time-outs standing still: a look" in lines
    assert "cancelled enough" in lines


async def test_skip_sends_the_output_and_says_how_it_goes_on(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Skip", runs_pb2.SkipResponse(reopened=True, epoch=2), runs_pb2.SkipResponse())
    running, at = runs_pb2.RUN_STATE_RUNNING, datetime(2030, 1, 2, tzinfo=UTC)
    coordinator.script(
        "runs.Get",
        runs_pb2.GetResponse(run=runs_pb2.Run(run_id="r1", state=running)),
        runs_pb2.GetResponse(run=runs_pb2.Run(run_id="r1", state=running, paused_at=at)),
        runs_pb2.GetResponse(run=runs_pb2.Run(run_id="r1", state=runs_pb2.RUN_STATE_SUCCEEDED)),
    )

    reopened = await headway("skip", "r1", "charge", "--output", '{"paid": true}', "--reason", "in cash")
    as_document = await headway("skip", "r1", "charge", "--json")
    paused, last = [(await headway("skip", "r1", "charge")).out.splitlines() for _ in range(2)]

    request = coordinator.requests["runs.Skip"][0]
    assert (request.node, request.output, request.reason) == ("charge", b'{"paid":true}', "in cash")
    assert reopened.out.splitlines() == ["node charge of run r1 is skipped", "the run goes on: headway watch r1"]
    assert paused[1:] == ["let the run go on with: headway resume r1"]
    assert last[1:] == ["nothing is left to be done: the run has succeeded"]
    assert as_document.document == {"run_id": "r1", "node": "charge", "reopened": False}
