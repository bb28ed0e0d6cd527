"""What an open run waits for, as `headway show` tells it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from headway.api.runs.v1 import runs_pb2
from tests.cli.conftest import CommandLine
from tests.cli.runs import NOON, run, stamp
from tests.client.scripted_coordinator import ScriptedCoordinator

pytestmark = pytest.mark.usefixtures("noon")


async def test_what_a_paused_run_would_dispatch_waits_for_its_resume(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    paused = run(runs_pb2.RUN_STATE_RUNNING)
    paused.paused_at.CopyFrom(stamp(NOON))
    due_at = stamp(NOON - timedelta(minutes=1))
    held = [
        STUCK[0],
        runs_pb2.Task(path="charge", type="http", state=runs_pb2.TASK_STATE_RETRYING, tries=2, due_at=due_at),
        runs_pb2.Task(path="pause", type="wait", state=runs_pb2.TASK_STATE_WAITING, due_at=due_at),
        runs_pb2.Task(
            path="each", type="map", state=runs_pb2.TASK_STATE_WAITING, items=runs_pb2.ItemCounts(total=3, succeeded=1)
        ),
        runs_pb2.Task(
            path="poll",
            type="repeat",
            state=runs_pb2.TASK_STATE_WAITING,
            items=runs_pb2.ItemCounts(total=3, succeeded=1),
            due_at=due_at,
        ),
    ]
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=paused, tasks=held))

    shown = (await headway("show", "r1")).out.splitlines()

    begin = shown.index("waits for")
    assert shown[begin + 1 : begin + 6] == [
        "  pick: the run to be resumed: held by the pause",
        "  charge: the run to be resumed: held by the pause, and not before 2026-01-02 11:59:00Z",
        "  pause: the run to be resumed: held by the pause, and not before 2026-01-02 11:59:00Z",
        "  each: the next one, of 3 items; none begins while the run is paused",
        "  poll: the run to be resumed: held by the pause, and not before 2026-01-02 11:59:00Z",
    ]


async def test_a_paused_run_without_open_tasks_waits_for_its_resume(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    paused = run(runs_pb2.RUN_STATE_RUNNING)
    paused.paused_at.CopyFrom(stamp(NOON))
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=paused))

    assert (await headway("show", "r1", "--json")).document["waits_for"] == ["the run to be resumed: held by the pause"]


async def test_a_repeat_in_its_delay_tells_when_it_goes_on(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    poll = runs_pb2.Task(
        path="poll",
        type="repeat",
        state=runs_pb2.TASK_STATE_WAITING,
        items=runs_pb2.ItemCounts(total=9, succeeded=2),
        due_at=stamp(NOON + timedelta(seconds=30)),
    )
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(runs_pb2.RUN_STATE_RUNNING), tasks=[poll]))

    assert (await headway("show", "r1", "--json")).document["waits_for"] == [
        "poll: the next one, after 2 iterations, at 2026-01-02 12:00:30Z (in 30.0s)"
    ]


async def test_a_time_out_is_told_to_stand_still_with_the_clock_of_a_paused_run(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    paused = run(runs_pb2.RUN_STATE_RUNNING)
    paused.paused_at.CopyFrom(stamp(NOON))
    approve = runs_pb2.Task(
        path="approve",
        type="wait_for_event",
        state=runs_pb2.TASK_STATE_WAITING,
        waits_for="approval",
        due_at=stamp(NOON - timedelta(minutes=1)),
    )
    stopped = runs_pb2.Run.FromString(paused.SerializeToString())
    stopped.clock_paused = True
    coordinator.script("runs.Get", *[runs_pb2.GetResponse(run=each, tasks=[approve]) for each in (paused, stopped)])

    runs_on = (await headway("show", "r1", "--json")).document["waits_for"]
    stands = (await headway("show", "r1", "--json")).document["waits_for"]

    assert runs_on[0].startswith("approve: signal 'approval', until 2026-01-02 11:59:00Z")
    assert stands == ["approve: signal 'approval'; its time-out stands still while the run is paused"]


STUCK = [
    runs_pb2.Task(
        path="pick",
        type="call",
        state=runs_pb2.TASK_STATE_READY,
        queue="shipping",
        handler="shipping.pick",
        ready_at=stamp(NOON - timedelta(hours=2, minutes=5)),
    ),
    runs_pb2.Task(
        path="pack",
        type="call",
        state=runs_pb2.TASK_STATE_RUNNING,
        owner="w1",
        lease_expires_at=stamp(NOON - timedelta(seconds=40)),
    ),
    runs_pb2.Task(
        path="pause", type="wait", state=runs_pb2.TASK_STATE_WAITING, due_at=stamp(NOON + timedelta(days=3, hours=4))
    ),
    runs_pb2.Task(path="approve", type="wait_for_event", state=runs_pb2.TASK_STATE_WAITING, waits_for="approval"),
    runs_pb2.Task(
        path="charge",
        type="http",
        state=runs_pb2.TASK_STATE_RETRYING,
        tries=2,
        losses=1,
        due_at=stamp(NOON + timedelta(seconds=30)),
        error=runs_pb2.TaskError(failure_class="exec_failed", type="HTTPError", message="503\nsecond line"),
    ),
    runs_pb2.Task(path="done", type="set", state=runs_pb2.TASK_STATE_SUCCEEDED),
]


async def test_show_says_what_a_stuck_run_waits_for(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(runs_pb2.RUN_STATE_RUNNING), tasks=STUCK))

    result = await headway("show", "r1")

    lines = result.out.splitlines()
    begin = lines.index("waits for")
    assert lines[begin + 1 : begin + 6] == [
        "  pick: a worker of queue 'shipping' that knows handler 'shipping.pick', for 2h05m",
        "  pack: worker w1, whose lease ran out 40.0s ago: is the timers service up?",
        "  pause: its time, until 2026-01-05 16:00:00Z (in 3d04h)",
        "  approve: signal 'approval'",
        "  charge: its next try at 2026-01-02 12:00:30Z (in 30.0s), after 2 failed; last: exec_failed HTTPError: 503 …",
    ]
    assert lines[lines.index("charge retrying: exec_failed HTTPError") + 1 :] == ["  503", "  second line"]
    assert (await headway("show", "r1", "--json")).document["waits_for"][3] == "approve: signal 'approval'"


async def test_show_of_a_run_that_waits_for_very_much_tells_some_of_it(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    naps = [
        runs_pb2.Task(path=f"nap_{number}", type="wait", state=runs_pb2.TASK_STATE_WAITING) for number in range(2000)
    ]
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(runs_pb2.RUN_STATE_RUNNING), tasks=naps))

    lines = (await headway("show", "r1")).out.splitlines()

    begin = lines.index("waits for")
    assert lines[begin + 20 : begin + 23] == [
        "  nap_19: its time",
        "  … and 1980 more; `headway why r1` tells them by kind",
        "",
    ]
    assert len((await headway("show", "r1", "--json")).document["waits_for"]) == 2000


@pytest.mark.parametrize(
    ("task", "of_run", "told"),
    [
        (
            runs_pb2.Task(
                path="pack",
                state=runs_pb2.TASK_STATE_RUNNING,
                owner="w1",
                lease_expires_at=stamp(NOON + timedelta(seconds=30)),
                progress=runs_pb2.Progress(percent=40, message="half", at=stamp(NOON - timedelta(seconds=5))),
            ),
            {},
            "worker w1, whose lease lasts 30.0s more unless renewed; told 40 % half, 5.0s ago",
        ),
        (
            runs_pb2.Task(path="pack", state=runs_pb2.TASK_STATE_RUNNING, owner="w1"),
            {},
            "worker w1, which holds its lease",
        ),
        (runs_pb2.Task(path="both", type="join", state=runs_pb2.TASK_STATE_PENDING), {}, "branches that lead to it"),
        (
            runs_pb2.Task(
                path="nap", type="wait", state=runs_pb2.TASK_STATE_WAITING, due_at=stamp(NOON - timedelta(hours=1))
            ),
            {},
            "its time, until 2026-01-02 11:00:00Z (due 1h00m ago: is the timers service up?)",
        ),
        (
            runs_pb2.Task(path="finally", type="finally", state=runs_pb2.TASK_STATE_WAITING),
            {},
            "what runs at the end: headway show r1 finally",
        ),
        (
            runs_pb2.Task(
                path="each",
                type="map",
                state=runs_pb2.TASK_STATE_WAITING,
                items=runs_pb2.ItemCounts(total=9, succeeded=2, running=3),
            ),
            {},
            "3 of 9 items under way",
        ),
        (
            runs_pb2.Task(path="pay", type="subflow", state=runs_pb2.TASK_STATE_WAITING),
            {"paused_at": stamp(NOON)},
            "the run to be resumed: held by the pause",
        ),
        (
            runs_pb2.Task(path="pay", type="subflow", state=runs_pb2.TASK_STATE_WAITING, child_run_id="c1"),
            {"paused_at": stamp(NOON)},
            "run c1 to end",
        ),
        (runs_pb2.Task(path="over", type="call", state=runs_pb2.TASK_STATE_FAILED), {"finished_at": stamp(NOON)}, None),
    ],
)
async def test_what_a_run_waits_for_is_told_by_what_its_task_does(
    task: runs_pb2.Task,
    of_run: dict[str, Timestamp],
    told: str | None,
    headway: CommandLine,
    coordinator: ScriptedCoordinator,
) -> None:
    shown = run(runs_pb2.RUN_STATE_FAILED if told is None else runs_pb2.RUN_STATE_RUNNING)
    for name, instant in of_run.items():
        getattr(shown, name).CopyFrom(instant)
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=shown, tasks=[task]))

    waits_for = (await headway("show", "r1", "--json")).document["waits_for"]

    assert waits_for == ([] if told is None else [f"{task.path}: {told}"])
