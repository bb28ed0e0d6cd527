"""Starting runs and looking at them: what is sent, what people read, how commands end."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from headway.api.runs.v1 import runs_pb2
from tests.cli.conftest import CommandLine
from tests.client.scripted_coordinator import Plain, ScriptedCoordinator, Stream

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
STATES = {
    "succeeded": (runs_pb2.RUN_STATE_SUCCEEDED, 0),
    "failed": (runs_pb2.RUN_STATE_FAILED, 1),
    "cancelled": (runs_pb2.RUN_STATE_CANCELLED, 1),
}


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.cli.clock.now", lambda: NOON)


def stamp(instant: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(instant)
    return message


def run(state: runs_pb2.RunState, *, error: str = "") -> runs_pb2.Run:
    made = runs_pb2.Run(
        run_id="r1",
        namespace="default",
        workflow="orders",
        version=2,
        state=state,
        epoch=1,
        created_at=stamp(NOON - timedelta(minutes=3, seconds=12)),
        input=b'{"order_id":7}',
        last_seq=1,
    )
    if error:
        made.error.CopyFrom(runs_pb2.RunError(failure_class="exec_failed", message=error, paths=["charge"]))
    if state not in {runs_pb2.RUN_STATE_RUNNING, runs_pb2.RUN_STATE_PENDING}:
        made.finished_at.CopyFrom(stamp(NOON))
    return made


def progress(seq: int, kind: str, state: runs_pb2.RunState, event: bytes = b"{}") -> runs_pb2.WatchResponse:
    return runs_pb2.WatchResponse(
        event=runs_pb2.Event(seq=seq, type=kind, path="charge", event=event, at=stamp(NOON)), state=state
    )


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


async def test_the_duration_of_a_reopened_run_is_said_to_contain_its_pause(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    reopened = run(runs_pb2.RUN_STATE_SUCCEEDED)
    reopened.epoch = 2
    reopened.labels["vip"] = "yes"
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=[run(runs_pb2.RUN_STATE_SUCCEEDED), reopened]))
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=reopened))

    _, first, second = (await headway("list")).out.splitlines()
    shown = (await headway("show", "r1")).out

    assert "3m12s, reopened" not in first
    assert "3m12s, reopened" in second
    assert "(3m12s, reopened)" in shown
    assert "state     succeeded  (reopened: epoch 2)" in shown
    assert "labels    vip=yes" in shown


async def test_list_reads_no_further_than_the_limit(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    page = runs_pb2.ListResponse(runs=[run(runs_pb2.RUN_STATE_FAILED, error="card declined")] * 2, next_page_token="t")
    coordinator.script("runs.List", page)

    result = await headway("list", "--limit", "3", "--workflow", "orders", "--state", "failed")

    assert result.code == 0
    header, *rows = result.out.splitlines()
    assert header.split() == ["RUN", "WORKFLOW", "VERSION", "STATE", "STARTED", "DURATION", "ERROR"]
    assert len(rows) == 3
    assert "exec_failed: card declined" in rows[0]
    assert [request.page_size for request in coordinator.requests["runs.List"]] == [4, 4]
    assert result.err == "(the first 3; --limit shows more)\n"
    assert list(coordinator.requests["runs.List"][0].filter.states) == [runs_pb2.RUN_STATE_FAILED]


async def test_the_json_of_a_list_and_of_items_says_whether_there_are_more(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    runs = [run(runs_pb2.RUN_STATE_FAILED) for _ in range(2)]
    items = [runs_pb2.Item(path=f"each[{index}]", state=runs_pb2.RUN_STATE_SUCCEEDED) for index in range(2)]
    coordinator.script("runs.List", *[runs_pb2.ListResponse(runs=runs)] * 2)
    coordinator.script("runs.ListItems", *[runs_pb2.ListItemsResponse(items=items)] * 2)

    for command in (("list",), ("show", "r1", "each")):
        for limit, more in ((1, True), (2, False)):
            document = (await headway(*command, "--limit", str(limit), "--json")).document
            assert document["more"] is more
            assert len(document["runs" if command == ("list",) else "items"]) == limit


async def test_the_json_of_a_list_leaves_out_what_a_list_does_not_carry(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    listed = run(runs_pb2.RUN_STATE_SUCCEEDED)
    listed.key = "order-7"
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=[listed]))

    (document,) = (await headway("list", "--json")).document["runs"]

    assert document["key"] == "order-7"
    assert {"input", "output"} & set(document) == set()


async def test_an_empty_list_says_so(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.List", runs_pb2.ListResponse())

    assert (await headway("list")).out == "no runs\n"
    assert (await headway("list", "--json")).document == {"runs": [], "more": False}


async def test_show_of_what_runs_at_the_end_tells_its_tasks_and_its_failure_and_no_iterations(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    last = runs_pb2.Task(
        path="finally",
        type="finally",
        state=runs_pb2.TASK_STATE_FAILED,
        attempt=2,
        created_at=stamp(NOON - timedelta(hours=3)),
        ready_at=stamp(NOON - timedelta(seconds=9)),
        finished_at=stamp(NOON - timedelta(seconds=2)),
        error=runs_pb2.TaskError(failure_class="exec_failed", type="OnFire", message="no\npaper"),
    )
    failed = run(runs_pb2.RUN_STATE_FAILED, error="no\npaper")
    coordinator.script("runs.Get", *[runs_pb2.GetResponse(run=failed, tasks=[last])] * 2)

    shown = (await headway("show", "r1")).out.splitlines()
    await headway("show", "r1", "finally")

    (row,) = [line.split("\t") for line in shown if line.startswith("finally\t")]
    assert row[1:3] == ["finally", "failed"]
    assert row[6:] == ["7.0s", "OnFire: no …"]  # of the latest attempt
    assert "error     exec_failed at charge: no paper" in shown
    assert "  its tasks: headway show r1 finally" in shown
    assert [request.scope for request in coordinator.requests["runs.Get"]] == ["", "finally[0]"]


async def test_an_item_that_has_not_begun_or_is_not_there_is_not_shown_as_an_empty_one(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(runs_pb2.RUN_STATE_RUNNING)))

    nothing = await headway("show", "r1", "each[9]")

    assert (nothing.code, nothing.out) == (2, "")
    assert nothing.err.startswith("headway: each[9] has not begun, or is not there; ")


async def test_show_says_how_many_items_were_undone_and_where_failed_ones_are_found(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    counts = runs_pb2.ItemCounts(total=9, succeeded=5, failed=1, cancelled=2, undone=5)
    error = runs_pb2.TaskError(failure_class="exec_failed", type="ItemsFailed", message="1 of 9")
    each = runs_pb2.Task(path="each", type="map", state=runs_pb2.TASK_STATE_FAILED, items=counts, error=error)
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(runs_pb2.RUN_STATE_FAILED, error="x"), tasks=[each]))
    items = [
        runs_pb2.Item(path="each[0]", state=runs_pb2.RUN_STATE_SUCCEEDED, undone=True),
        runs_pb2.Item(path="each[1]", state=runs_pb2.RUN_STATE_SUCCEEDED),
    ]
    coordinator.script("runs.ListItems", runs_pb2.ListItemsResponse(items=items))

    shown = (await headway("show", "r1")).out
    _, *rows = (await headway("show", "r1", "each", "--state", "succeeded", "--limit", "7")).out.splitlines()

    (request,) = coordinator.requests["runs.ListItems"]
    assert (request.path, request.state, request.page_size) == ("each", runs_pb2.RUN_STATE_SUCCEEDED, 8)
    assert "failed (5 of 9 done, 1 failed, 2 cancelled, 5 undone)" in shown
    assert "  what failed in it: headway show r1 each --state failed" in shown
    assert [row.split("\t")[1] for row in rows] == ["succeeded (undone)", "succeeded"]


async def test_show_says_how_many_items_are_left_out_and_where_others_are_in_the_list(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    counts = runs_pb2.ItemCounts(total=90, running=2, succeeded=5, left_out=60)
    each = runs_pb2.Task(path="each", type="map", state=runs_pb2.TASK_STATE_WAITING, items=counts)
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(runs_pb2.RUN_STATE_RUNNING), tasks=[each]))
    items = [
        runs_pb2.Item(path="each[0]", index=0, place=0, state=runs_pb2.RUN_STATE_SUCCEEDED),
        runs_pb2.Item(path="each[1]", index=1, place=17, state=runs_pb2.RUN_STATE_SUCCEEDED),
    ]
    coordinator.script("runs.ListItems", runs_pb2.ListItemsResponse(items=items))

    shown = (await headway("show", "r1")).out
    _, *rows = (await headway("show", "r1", "each")).out.splitlines()

    assert "waiting (5 of 30 done, 2 running, 60 left out)" in shown
    assert [row.split("\t")[0] for row in rows] == ["each[0]", "each[1] (item 17)"]


async def test_show_of_a_run_that_undoes_its_items_says_where_to_look(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    undoing = run(runs_pb2.RUN_STATE_RUNNING)
    undoing.compensating = True
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=undoing))

    shown = (await headway("show", "r1")).out

    assert "  what undoes its items, or its next decision: `headway why r1` says which" in shown


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


async def test_show_tells_the_trace_that_a_run_is_in(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    traced = run(runs_pb2.RUN_STATE_RUNNING)
    traced.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    coordinator.script("runs.Get", *[runs_pb2.GetResponse(run=traced)] * 2)

    assert f"trace     {traced.trace_id}" in (await headway("show", "r1")).out.splitlines()
    assert (await headway("show", "r1", "--json")).document["run"]["trace_id"] == traced.trace_id


async def test_a_large_input_or_output_is_cut_where_people_read_it_and_whole_in_json(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    large = run(runs_pb2.RUN_STATE_RUNNING)
    large.input = large.output = b'"' + b"x" * 10_000 + b'"'
    coordinator.script("runs.Get", *[runs_pb2.GetResponse(run=large)] * 2)

    shown = (await headway("show", "r1")).out
    document = (await headway("show", "r1", "--json")).document

    assert (len(shown) < 1_500, shown.count("(--json has all of it)")) == (True, 2)
    assert len(document["run"]["input"]) == 10_000
    assert len(document["run"]["output"]) == 10_000


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
        "  pack: worker w1, whose lease ran out 40.0s ago: the timers service is about to give it to another",
        "  pause: its time, until 2026-01-05 16:00:00Z (in 3d04h)",
        "  approve: signal 'approval'",
        "  charge: its next try at 2026-01-02 12:00:30Z (in 30.0s), after 2 failed; last: exec_failed HTTPError: 503 …",
    ]
    assert lines[lines.index("charge retrying: exec_failed HTTPError") + 1 :] == ["  503", "  second line"]
    assert (await headway("show", "r1", "--json")).document["waits_for"][3] == "approve: signal 'approval'"


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


@pytest.mark.parametrize(
    ("task", "state", "tries", "duration"),
    [
        (runs_pb2.Task(state=runs_pb2.TASK_STATE_FAILED, disposition="handled", tries=1), "failed (handled)", "1", "-"),
        (runs_pb2.Task(state=runs_pb2.TASK_STATE_FAILED, disposition="unhandled"), "failed", "0", "-"),
        (runs_pb2.Task(state=runs_pb2.TASK_STATE_CANCELLED, cause="beaten"), "cancelled (beaten)", "0", "-"),
        (runs_pb2.Task(state=runs_pb2.TASK_STATE_SUCCEEDED, undoes="pay"), "succeeded (undoes pay)", "0", "-"),
        (
            runs_pb2.Task(
                state=runs_pb2.TASK_STATE_RUNNING,
                ready_at=stamp(NOON - timedelta(minutes=9)),
                leased_at=stamp(NOON - timedelta(seconds=7)),
            ),
            "running",
            "0",
            "7.0s",
        ),
        (
            runs_pb2.Task(
                state=runs_pb2.TASK_STATE_RETRYING, tries=2, losses=1, leased_at=stamp(NOON - timedelta(minutes=9))
            ),
            "retrying",
            "2 (+1 lost)",
            "-",
        ),
    ],
)
async def test_a_tasks_line_tells_what_became_of_it(
    task: runs_pb2.Task, state: str, tries: str, duration: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    task.path = "step"
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(runs_pb2.RUN_STATE_RUNNING), tasks=[task]))

    shown = (await headway("show", "r1")).out.splitlines()

    (row,) = [line.split("\t") for line in shown if line.startswith("step\t")]
    assert (row[2], row[4], row[6]) == (state, tries, duration)


async def test_show_prints_the_table_of_tasks_and_the_failures_in_full(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    failed = runs_pb2.Task(
        path="charge",
        type="call",
        state=runs_pb2.TASK_STATE_FAILED,
        attempt=3,
        tries=2,
        losses=1,
        owner="w1",
        created_at=stamp(NOON - timedelta(seconds=5)),
        finished_at=stamp(NOON - timedelta(seconds=1)),
        error=runs_pb2.TaskError(
            failure_class="exec_failed",
            type="CardDeclined",
            message="no funds\nask the customer",
            trace="at line 7",
            details=b'{"code": 51}',
        ),
    )
    stale = runs_pb2.StaleReport(path="charge", attempt=2, owner="w0", answer="STALE_ATTEMPT", at=stamp(NOON))
    coordinator.script(
        "runs.Get",
        runs_pb2.GetResponse(
            run=run(runs_pb2.RUN_STATE_FAILED, error="no funds"), tasks=[failed], stale_reports=[stale]
        ),
    )

    lines = (await headway("show", "r1")).out.splitlines()

    assert "state     failed" in lines
    assert "error     exec_failed at charge: no funds" in lines
    assert "waits for" not in lines
    header = next(index for index, line in enumerate(lines) if line.startswith("PATH"))
    assert lines[header].split() == ["PATH", "TYPE", "STATE", "ATTEMPT", "TRIES", "OWNER", "DURATION", "ERROR"]
    assert lines[header + 1].split()[:8] == ["charge", "call", "failed", "3", "2", "(+1", "lost)", "w1"]
    begin = lines.index("charge failed: exec_failed CardDeclined")
    assert lines[begin + 1 : begin + 5] == ["  no funds", "  ask the customer", '  {"code": 51}', "  at line 7"]
    assert lines[-1].startswith("a report of w0 for charge attempt 2 came too late (STALE_ATTEMPT")


async def test_show_prints_each_output_in_one_line_and_the_runs_own(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    tasks = [
        runs_pb2.Task(path="greet", type="python", state=runs_pb2.TASK_STATE_SUCCEEDED, output=b'{"text":"hello"}'),
        runs_pb2.Task(path="long", type="python", state=runs_pb2.TASK_STATE_SUCCEEDED, output=b'"' + b"x" * 999 + b'"'),
        runs_pb2.Task(path="pause", type="wait", state=runs_pb2.TASK_STATE_SUCCEEDED),
    ]
    ended = run(runs_pb2.RUN_STATE_SUCCEEDED)
    ended.output = b"7"
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=ended, tasks=tasks))

    lines = (await headway("show", "r1")).out.splitlines()

    assert "output    7" in lines
    begin = lines.index("outputs")
    assert lines[begin + 1] == '  greet  {"text": "hello"}'
    assert lines[begin + 2].startswith('  long   "xxx')
    assert lines[begin + 2].endswith("x …")
    assert len(lines[begin + 2]) <= 120
    assert lines[begin + 3 :] == []


async def test_an_errors_place_is_not_named_twice(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=run(runs_pb2.RUN_STATE_FAILED, error="charge: KeyError")))

    assert "error     exec_failed at charge: KeyError" in (await headway("show", "r1")).out.splitlines()


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


async def test_a_list_says_which_runs_are_meant(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.List", runs_pb2.ListResponse())

    result = await headway(
        "list", "--version", "2", "--state", "failed", "--state", "cancelled", "--failure-class", "timeout",
        "--key", "ORDER-*", "--label", "customer=42", "--since", "2h", "--older-than", "2026-01-02T13:00:00+02:00",
        "--finished-since", "30m", "--finished-until", "1m",
    )  # fmt: skip

    assert result.code == 0
    assert coordinator.requests["runs.List"][0].filter == runs_pb2.RunFilter(
        version=2,
        states=[runs_pb2.RUN_STATE_FAILED, runs_pb2.RUN_STATE_CANCELLED],
        failure_class="timeout",
        key_prefix="ORDER-",
        labels={"customer": "42"},
        created_from=stamp(NOON - timedelta(hours=2)),
        created_until=stamp(NOON - timedelta(hours=1)),
        finished_from=stamp(NOON - timedelta(minutes=30)),
        finished_until=stamp(NOON - timedelta(minutes=1)),
    )


async def test_a_run_can_be_named_by_the_digits_that_its_id_begins_with(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    found = run(runs_pb2.RUN_STATE_SUCCEEDED)
    found.run_id = "0" * 31 + "1"
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=[found]))
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=found))

    result = await headway("show", "00")

    assert result.code == 0
    assert coordinator.requests["runs.List"][0].filter.run_id_prefix == "00"
    assert coordinator.requests["runs.Get"][0].run_id == found.run_id


async def test_digits_that_several_ids_begin_with_name_none_and_all_are_listed(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    runs = [run(runs_pb2.RUN_STATE_SUCCEEDED) for _ in range(2)]
    for number, each in enumerate(runs):
        each.run_id = f"{number:032x}"
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=runs), runs_pb2.ListResponse())

    several, none = await headway("cancel", "00"), await headway("show", "ff")
    many = [runs_pb2.Run(run_id=f"{number:032x}", workflow="w") for number in range(11)]
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=many))
    more = await headway("show", "00")

    assert (several.code, none.code) == (2, 2)
    assert all(each.run_id in several.err for each in runs)
    assert "no run's id begins with ff in namespace default; `headway list` shows" in none.err
    assert not coordinator.requests["runs.Cancel"]
    assert "…" not in several.err
    assert (more.err.count("  w  "), more.err.splitlines()[-1]) == (10, "  …")


async def test_parents_and_children_are_shown_and_listed(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    child = run(runs_pb2.RUN_STATE_RUNNING)
    child.parent.CopyFrom(runs_pb2.Parent(run_id="p1", path="each[3].step"))
    waits = runs_pb2.Task(path="deeper", type="subflow", state=runs_pb2.TASK_STATE_WAITING, child_run_id="c1")
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=child, tasks=[waits]))
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=[child]))

    shown = await headway("show", "r1")
    document = (await headway("show", "r1", "--json")).document
    await headway("list", "--parent", "p1")
    await headway("show", "r1", "each[3]")

    assert "parent    run p1, node each[3].step" in shown.out.splitlines()
    assert "  deeper: run c1 to end" in shown.out.splitlines()
    assert shown.out.splitlines()[-2:] == ["runs started", "  deeper  c1"]
    assert [request.scope for request in coordinator.requests["runs.Get"]] == ["", "", "each[3]"]
    assert (document["run"]["parent_run_id"], document["run"]["parent_path"]) == ("p1", "each[3].step")
    assert document["tasks"][0]["child_run_id"] == "c1"
    assert coordinator.requests["runs.List"][0].filter.parent_run_id == "p1"
