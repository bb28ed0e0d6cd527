"""Statements by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.runtime.sql import load_statements


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs.sql").write_text(
        "-- Of runs.\n\n-- name: lock_run\n-- Why: so.\nSELECT run_id\nFROM runs\nWHERE run_id = $1;\n\n"
        "-- name: count_runs\nSELECT count(*) FROM runs;\n",
        encoding="utf-8",
    )
    (tmp_path / "tasks.sql").write_text("-- name: lock_run\nSELECT 1;\n", encoding="utf-8")
    return tmp_path


def test_a_statement_comes_without_its_comments_and_its_semicolon(folder: Path) -> None:
    assert load_statements(folder, "runs.sql") == {
        "lock_run": "SELECT run_id\nFROM runs\nWHERE run_id = $1",
        "count_runs": "SELECT count(*) FROM runs",
    }


def test_a_statement_that_is_there_twice_is_refused(folder: Path) -> None:
    with pytest.raises(LookupError, match=r"tasks\.sql: the statement lock_run is there twice"):
        load_statements(folder, "runs.sql", "tasks.sql")


@pytest.mark.parametrize("expected", [["lock_run"], ["lock_run", "count_runs", "one_more"]])
def test_a_statement_that_is_missing_or_unused_is_refused(expected: list[str], folder: Path) -> None:
    with pytest.raises(LookupError, match="expected"):
        load_statements(folder, "runs.sql", expected=expected)
