"""What `headway show` tells of a run: its tasks, its items, its failures, its outputs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.api.runs.v1 import runs_pb2
from tests.cli.conftest import CommandLine
from tests.cli.runs import NOON, run, stamp
from tests.client.scripted_coordinator import ScriptedCoordinator

pytestmark = pytest.mark.usefixtures("noon")


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


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--state", "failed"), "--state choose items of a map or repeat; name it: headway show RUN PATH"),
        (("--from", "0", "--limit", "5"), "--from, --limit choose items of a map or repeat; name it"),
        (("each[0]", "--limit", "5"), "--limit choose items of a map or repeat; each[0] is neither"),
    ],
)
async def test_show_refuses_to_choose_items_of_what_has_none(
    words: tuple[str, ...], what: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    result = await headway("show", "r1", *words)

    assert (result.code, result.out) == (2, "")
    assert what in result.err
    assert coordinator.requests == {}


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


async def test_show_tells_the_trace_that_a_run_is_in(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    traced = run(runs_pb2.RUN_STATE_RUNNING)
    traced.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    coordinator.script("runs.Get", *[runs_pb2.GetResponse(run=traced)] * 2)

    assert f"trace     {traced.trace_id}" in (await headway("show", "r1")).out.splitlines()
    assert (await headway("show", "r1", "--json")).document["run"]["trace_id"] == traced.trace_id


@pytest.mark.parametrize("given", ["null", "{}", "7"])
async def test_show_prints_the_input_whatever_it_is(
    given: str, headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    begun = run(runs_pb2.RUN_STATE_RUNNING)
    begun.input = given.encode()
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=begun))

    assert f"input     {given}" in (await headway("show", "r1")).out.splitlines()


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
