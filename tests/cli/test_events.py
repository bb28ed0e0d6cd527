"""What happens in a run: watched as it comes, and read in its history."""

from __future__ import annotations

import pytest

from headway.api.runs.v1 import runs_pb2
from tests.cli.conftest import CommandLine
from tests.cli.runs import STATES, progress, run
from tests.client.scripted_coordinator import Plain, ScriptedCoordinator, Stream

pytestmark = pytest.mark.usefixtures("noon")


@pytest.mark.parametrize("state", sorted(STATES))
async def test_watching_ends_with_the_runs_success(
    state: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    message, code = STATES[state]
    coordinator.script("runs.Watch", Stream(messages=[progress(1, "RunStarted", message)]))
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(message, error="card declined")))

    result = await headway("watch", "r1")

    assert result.code == code
    assert "RunStarted" in result.out
    assert result.out.splitlines()[-1] == f"{state} after 3m12s: exec_failed at charge: card declined"


async def test_watching_goes_on_through_a_break_and_shows_each_event_once(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    done = runs_pb2.RUN_STATE_SUCCEEDED
    failure = b'{"failure":{"failure_class":"timeout","type":"attempt_timeout","message":"30 s"}}'
    coordinator.script(
        "runs.Watch",
        Stream(messages=[progress(1, "RunStarted", runs_pb2.RUN_STATE_RUNNING)], then=Plain()),
        Stream(messages=[progress(2, "NodeFailed", done, failure)]),
    )
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(done)))

    result = await headway("watch", "r1")

    lines = result.out.splitlines()
    assert [line.split()[1] for line in lines[:2]] == ["1", "2"]
    assert "timeout attempt_timeout: 30 s" in lines[1]
    assert [request.from_seq for request in coordinator.requests["runs.Watch"]] == [1, 2]


async def test_the_json_of_a_watch_holds_all_events_and_the_outcome(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    done = runs_pb2.RUN_STATE_SUCCEEDED
    coordinator.script(
        "runs.Watch", Stream(messages=[progress(1, "RunStarted", done), progress(2, "NodeCompleted", done)])
    )
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(done)))

    document = (await headway("watch", "r1", "--json")).document

    assert document["state"] == "succeeded"
    assert [event["seq"] for event in document["events"]] == [1, 2]
    assert document["events"][0]["at"] == "2026-01-02T12:00:00Z"


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        (
            b'["ReapLease",{"path":"charge","outcome":"lost"}],["DispatchTask",{"path":"charge","attempt":3}]',
            "lease lost; again as attempt 3",
        ),
        (
            b'["ReapLease",{"path":"charge","outcome":"released"}],["DispatchTask",{"path":"charge","attempt":3}]',
            "given back unrun; again as attempt 3",
        ),
        (
            (
                b'["FailTask",{"path":"charge","failure":{"failure_class":"timeout","type":"attempt_timeout",'
                b'"message":"after 30 ms"}}],["ScheduleRetry",{"path":"charge","due_at":"2026-01-02T12:00:05Z"}]'
            ),
            "timeout attempt_timeout: after 30 ms; next try at 2026-01-02T12:00:05Z",
        ),
        (
            b'["CancelTask",{"path":"charge","cause":"unknown"}],["CancelTask",{"path":"pack","cause":"cancel"}]',
            "closed (unknown)",
        ),
        (b'"of a newer server",["ReapLease"],["Later",{"path":"charge"}]', ""),
    ],
)
async def test_the_end_of_a_lease_says_what_became_of_the_attempt(
    actions: bytes, told: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    event = progress(1, "LeaseExpired", runs_pb2.RUN_STATE_RUNNING).event
    event.actions = b'[["ClaimTask",{"path":"charge","owner":"w1"}],' + actions + b"]"
    coordinator.script("runs.GetHistory", runs_pb2.GetHistoryResponse(events=[event]))

    _, line = (await headway("history", "r1")).out.splitlines()

    assert line.split("\t")[-1] == told


@pytest.mark.parametrize(
    ("kind", "event", "told"),
    [
        ("RunStarted", b'{"workflow":"w","version":2,"key":"K-7","input":{}}', "workflow=w version=2 key=K-7"),
        ("RunRetried", b'{"chosen":["charge","ship"]}', "from charge, ship"),
        ("RunRetried", b'{"chosen":[]}', ""),
        ("RunCancelled", b'{"reason":"too late"}', "reason=too late"),
        ("TimerFired", b'{"kind":"wait"}', "kind=wait"),
        ("NodeCompleted", b'"of a newer server"', ""),
    ],
)
async def test_an_events_line_tells_its_facts(
    kind: str, event: bytes, told: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    recorded = progress(1, kind, runs_pb2.RUN_STATE_RUNNING, event).event
    recorded.attempt = 2
    coordinator.script("runs.GetHistory", runs_pb2.GetHistoryResponse(events=[recorded]))
    coordinator.script(
        "runs.Watch",
        Stream(messages=[runs_pb2.WatchResponse(event=recorded, state=runs_pb2.RUN_STATE_SUCCEEDED)]),
    )
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(runs_pb2.RUN_STATE_SUCCEEDED)))

    _, line = (await headway("history", "r1")).out.splitlines()
    watched = (await headway("watch", "r1")).out.splitlines()[0]

    assert line.split("\t")[2:] == [kind, "charge", "2", told]
    assert watched.endswith(f"charge  attempt 2{'  ' * bool(told)}{told}")


async def test_history_prints_every_event(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    signal = progress(2, "SignalReceived", runs_pb2.RUN_STATE_RUNNING, b'{"name":"paid"}').event
    coordinator.script(
        "runs.GetHistory",
        runs_pb2.GetHistoryResponse(events=[progress(1, "RunStarted", runs_pb2.RUN_STATE_RUNNING).event], next_seq=2),
        runs_pb2.GetHistoryResponse(events=[signal]),
    )

    _, first, second = (await headway("history", "r1")).out.splitlines()

    assert first.split()[3] == "RunStarted"
    assert second.split()[0] == "2"
    assert second.endswith("name=paid")
