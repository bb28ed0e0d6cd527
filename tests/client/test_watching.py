"""Watching goes on where it broke: each event once, none missed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import grpc
import pytest

from headway.api.runs.v1 import runs_pb2
from headway.client import Client, Patience, RunNotFound, RunState, Unreachable
from tests.client.scripted_coordinator import Plain, Refusal, ScriptedCoordinator, Silence, Stream

RUNNING = runs_pb2.RUN_STATE_RUNNING
SUCCEEDED = runs_pb2.RUN_STATE_SUCCEEDED


def progress(*seqs: int, state: runs_pb2.RunState = RUNNING) -> list[runs_pb2.WatchResponse]:
    return [runs_pb2.WatchResponse(event=runs_pb2.Event(seq=seq, type="NodeCompleted"), state=state) for seq in seqs]


async def test_a_broken_watch_goes_on_from_the_event_after_the_last(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script(
        "runs.Watch",
        Stream(messages=progress(1, 2), then=Plain()),
        Plain(),
        Stream(messages=progress(3, state=SUCCEEDED)),
    )

    seen = [(each.event.seq, each.state) async for each in client.watch("r1")]

    assert seen == [(1, RunState.RUNNING), (2, RunState.RUNNING), (3, RunState.SUCCEEDED)]
    assert [request.from_seq for request in coordinator.requests["runs.Watch"]] == [1, 3, 3]


async def test_an_event_that_is_sent_twice_is_seen_once(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script(
        "runs.Watch",
        Stream(messages=progress(1, 2), then=Plain()),
        Stream(messages=progress(1, 2, 3, state=SUCCEEDED)),
    )

    assert [each.event.seq async for each in client.watch("r1")] == [1, 2, 3]


async def test_a_stretch_that_ends_at_its_deadline_is_no_failure(coordinator: ScriptedCoordinator) -> None:
    patience = Patience(stretch=timedelta(milliseconds=50), give_up_after=timedelta())
    coordinator.script("runs.Watch", Silence(), Silence(), Stream(messages=progress(1, state=SUCCEEDED)))

    async with Client(coordinator.address, patience=patience) as client:
        seen = [each.event.seq async for each in client.watch("r1")]

    assert seen == [1]
    assert len(coordinator.requests["runs.Watch"]) == 3


async def test_a_watch_survives_a_restart_of_the_server(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Watch", _endless(progress(1)), Stream(messages=progress(2, state=SUCCEEDED)))
    seen: list[int] = []

    async for each in client.watch("r1"):
        seen.append(each.event.seq)
        if each.event.seq == 1:
            await coordinator.stop()
            await coordinator.start()

    assert seen == [1, 2]
    assert [request.from_seq for request in coordinator.requests["runs.Watch"]] == [1, 2]


def _endless(messages: list[runs_pb2.WatchResponse]) -> Stream:
    return Stream(messages=messages, then=Silence())


async def test_a_watch_gives_up_when_no_server_comes_back(coordinator: ScriptedCoordinator) -> None:
    patience = Patience(give_up_after=timedelta(milliseconds=20), first_pause=timedelta(milliseconds=1))
    coordinator.script("runs.Watch", Plain())

    async with Client(coordinator.address, patience=patience) as client:
        with pytest.raises(Unreachable):
            await anext(client.watch("r1"))


async def test_watching_an_unknown_run_is_refused_at_once(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Watch", Refusal(reason="RUN_NOT_FOUND", code=grpc.StatusCode.NOT_FOUND))

    with pytest.raises(RunNotFound):
        await anext(client.watch("r1"))

    assert len(coordinator.requests["runs.Watch"]) == 1


async def test_waiting_ends_with_the_outcome(client: Client, coordinator: ScriptedCoordinator) -> None:
    error = runs_pb2.RunError(failure_class="timeout", message="too slow", paths=["a"])
    coordinator.script(
        "runs.Get",
        runs_pb2.GetResponse(run=runs_pb2.Run(run_id="r1", state=RUNNING, last_seq=4)),
        runs_pb2.GetResponse(run=runs_pb2.Run(run_id="r1", state=runs_pb2.RUN_STATE_FAILED, error=error)),
    )
    coordinator.script("runs.Watch", Stream(messages=progress(5, state=runs_pb2.RUN_STATE_FAILED)))

    outcome = await client.wait("r1")

    assert outcome.state is RunState.FAILED
    assert not outcome.succeeded
    assert outcome.error is not None
    assert outcome.error.paths == ("a",)
    assert coordinator.requests["runs.Watch"][0].from_seq == 5


async def test_waiting_for_a_finished_run_watches_nothing(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script(
        "runs.Get", runs_pb2.GetResponse(run=runs_pb2.Run(run_id="r1", state=SUCCEEDED, output=b'{"ok":true}'))
    )

    outcome = await client.wait("r1")

    assert outcome.succeeded
    assert outcome.output == {"ok": True}
    assert coordinator.requests["runs.Watch"] == []


async def test_a_wait_can_be_limited_from_outside(client: Client, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=runs_pb2.Run(run_id="r1", state=RUNNING)))
    coordinator.script("runs.Watch", Silence())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.wait("r1")


async def test_patience_begins_anew_with_each_event(coordinator: ScriptedCoordinator) -> None:
    pause = timedelta(milliseconds=20)
    patience = Patience(give_up_after=1.5 * pause, first_pause=pause, longest_pause=pause)
    breaks = [Stream(messages=progress(seq), then=Plain()) for seq in range(1, 9)]
    coordinator.script("runs.Watch", *breaks, Stream(messages=progress(9, state=SUCCEEDED)))

    async with Client(coordinator.address, patience=patience) as client:
        seen = [each.event.seq async for each in client.watch("r1")]

    assert seen == list(range(1, 10))
