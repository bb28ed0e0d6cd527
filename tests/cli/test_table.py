"""Tables: they fit the terminal, what is copied from them stays whole, and elsewhere nothing is cut."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headway.cli.output import Output
from headway.cli.table import Cell, Column, fit
from headway.cli.telling import (
    RUN_COLUMNS,
    TASK_COLUMNS,
    item_row,
    outputs,
    run_error_line,
    run_row,
    span,
    task_row,
)
from headway.client import Item, Run, RunError, RunState, Task, TaskError, TaskState

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
RUN_ID = "0198c0de4b7f7a00a1b2c3d4e5f60718"
OWNERS = [f"a-host-with-a-long-name.example.org-417{number}-{number}f3a1c{'0' * 10}" for number in range(2)]


class Terminal(io.StringIO):
    """Standard output as a terminal."""

    def isatty(self) -> bool:
        return True


def failed_run() -> Run:
    return Run(
        run_id=RUN_ID,
        namespace="default",
        workflow="order_fulfilment",
        version=12,
        state=RunState.FAILED,
        epoch=1,
        cancelling=False,
        created_at=NOON - timedelta(minutes=3, seconds=12),
        finished_at=NOON,
        error=RunError(failure_class="exec_failed", message="charge: CardDeclined: no funds", paths=("charge",)),
        output=None,
        last_seq=9,
        key=None,
        input=None,
    )


def failed_task(owner: str) -> Task:
    return Task(
        task_id="t",
        path="reserve_stock",
        type="wait_for_event",
        state=TaskState.FAILED,
        attempt=3,
        tries=2,
        losses=0,
        generation=0,
        queue="shop",
        handler="shop.reserve",
        owner=owner,
        lease_expires_at=None,
        created_at=NOON - timedelta(seconds=5),
        started_at=None,
        finished_at=NOON,
        error=TaskError(failure_class="exec_failed", type="OutOfStock", message="none left", trace="", details=None),
        cause="",
        due_at=None,
        attempts=(),
        output=None,
        disposition="",
        waits_for="",
        items=None,
        ready_at=NOON - timedelta(seconds=5),
    )


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_run_is_one_line_that_fits_with_its_id_whole_and_its_error_told(width: int) -> None:
    lines = [line.plain for line in fit(RUN_COLUMNS, [run_row(failed_run(), NOON)], width).lines]

    assert [len(line) <= width for line in lines] == [True, True]
    assert lines[1].startswith(f"{RUN_ID}  ")
    assert "exec_" in lines[1]


def test_a_terminal_too_narrow_for_a_run_id_does_not_break_it_and_names_what_is_left_out() -> None:
    fitted = fit(RUN_COLUMNS, [run_row(failed_run(), NOON)], 20)

    assert fitted.lines[1].plain.startswith(RUN_ID)
    assert fitted.left_out == ("VERSION", "DURATION", "ERROR", "STARTED")


@pytest.mark.parametrize("width", [80, 120])
def test_a_tasks_owner_is_shortened_to_what_tells_workers_apart(width: int) -> None:
    rows = [task_row(failed_task(owner), NOON) for owner in OWNERS]

    lines = [line.plain for line in fit(TASK_COLUMNS, rows, width).lines]

    assert max(map(len, lines)) <= width
    assert ["4170-0f3a1c" in lines[1], "4171-1f3a1c" in lines[2]] == [True, True]


def test_an_owner_of_another_make_keeps_its_end() -> None:
    row = task_row(failed_task("typescript-worker-in-the-basement-9"), NOON)

    assert row[5] == Cell(text="typescript-worker-in-the-basement-9", short="…e-basement-9")


def test_an_empty_column_leaves_first_and_without_a_word() -> None:
    columns = [Column(name="A"), Column(name="B", leaves=1), Column(name="C", leaves=2)]

    fitted = fit(columns, [["aaaa", "bbbb", ""]], 10)

    assert [line.plain for line in fitted.lines] == ["A     B", "aaaa  bbbb"]
    assert fitted.left_out == ()


def test_nothing_is_cut_or_padded_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [task_row(failed_task(owner), NOON) for owner in (OWNERS[0], "w\t1")]

    Output(as_json=False).table(TASK_COLUMNS, rows)

    heads, first, second = capsys.readouterr().out.splitlines()
    assert heads.split("\t")[:3] == ["PATH", "TYPE", "STATE"]
    assert first.split("\t")[5] == OWNERS[0]
    assert second.split("\t")[5:7] == [r"w\t1", "5.0s"]


def test_a_terminal_gets_lines_of_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")

    Output(as_json=False).table(RUN_COLUMNS, [run_row(failed_run(), NOON)] * 2)

    heads, *rows = terminal.getvalue().splitlines()
    assert heads.split()[:2] == ["RUN", "WORKFLOW"]
    assert [row.split()[0] for row in rows[:2]] == [RUN_ID, RUN_ID]
    assert rows[2] == "(VERSION, DURATION: no room; a wider terminal or --json shows more)"


@pytest.mark.parametrize(
    ("flags", "state", "short"),
    [
        ({}, "running", "running"),
        ({"cancelling": True}, "running (cancelling)", "cancelling"),
        ({"cancelling": True, "compensating": True}, "running (compensating)", "compensating"),
        ({"compensating": True}, "running (compensating)", "compensating"),
        ({"cancelling": True, "concluded": RunState.CANCELLED}, "running (finally, then cancelled)", "finally"),
        ({"compensating": True, "paused_at": NOON}, "running (compensating) (paused)", "paused"),
    ],
)
def test_a_runs_state_is_told_with_its_flags_and_where_there_is_no_room_by_one_of_them(
    flags: dict[str, Any], state: str, short: str
) -> None:
    cell = run_row(replace(failed_run(), state=RunState.RUNNING, **flags), NOON)[3]

    assert isinstance(cell, Cell)
    assert (str(cell.text), str(cell.short)) == (state, short)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-1, "0ms"),
        (0.34, "340ms"),
        (4.25, "4.2s"),
        (60, "1m00s"),
        (192, "3m12s"),
        (7_500, "2h05m"),
        (273_600, "3d04h"),
    ],
)
def test_a_duration_is_told_in_the_two_largest_units_that_matter(seconds: float, told: str) -> None:
    assert span(timedelta(seconds=seconds)) == told


@pytest.mark.parametrize(
    ("message", "paths", "told"),
    [
        ("charge: KeyError", ("charge",), "timeout at charge: KeyError"),
        ("charge: KeyError", ("charge", "ship"), "timeout at charge, ship: charge: KeyError"),
        ("no\n task  succeeded", (), "timeout: no task succeeded"),
    ],
)
def test_a_runs_error_names_each_place_once(message: str, paths: tuple[str, ...], told: str) -> None:
    assert run_error_line(RunError(failure_class="timeout", message=message, paths=paths)) == told


def test_an_item_tells_its_error_with_its_place_and_how_long_it_took() -> None:
    error = RunError(failure_class="exec_failed", message="crop: no room", paths=("each[2].crop",))
    item = Item(
        path="each[2]",
        index=2,
        place=2,
        state=RunState.FAILED,
        created_at=NOON - timedelta(minutes=2),
        finished_at=NOON - timedelta(minutes=1),
        error=error,
        output=None,
    )

    told = item_row(item, NOON, 80)

    assert (told[0], told[2], told[3]) == ("each[2]", "1m00s", "exec_failed at each[2].crop: crop: no room")


def test_outputs_are_cut_to_what_is_left_beside_the_longest_path() -> None:
    tasks = [replace(failed_task("w"), path=path, output="x" * 200) for path in ("a", "a" * 40)]

    assert [len(line) <= 100 for line in outputs(tasks, 100)] == [True, True]
