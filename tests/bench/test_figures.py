"""The table of figures, what is chosen of it, and the document."""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench import __main__ as bench
from bench import workflow
from bench.document import figures_of
from bench.figures import FIGURES, table
from bench.peers import __main__ as peers
from bench.plan import stages
from headway.coordinator.core.compiler import compile_workflow

README = Path(bench.__file__).parent / "README.md"


def chosen(only: str = "", *, quick: bool = False) -> list[str]:
    return [figure.name for figure in bench._chosen(only, quick=quick)]


def test_the_readme_has_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--list"]) == 0
    assert capsys.readouterr().out == f"{table()}\n"
    assert table().startswith("| figure | meaning |")
    assert table() in README.read_text(encoding="utf-8")


def test_no_figure_stands_twice() -> None:
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)


def test_in_a_hurry_only_what_is_quick_is_chosen_and_never_the_soak_unless_named() -> None:
    assert "growth_stored" in chosen()
    assert "growth_stored" not in chosen(quick=True)
    assert "soak" not in chosen()
    assert chosen("soak") == ["soak"]


def test_what_is_measured_along_is_chosen_along() -> None:
    assert set(chosen("tasks_per_s")) >= {"tasks_per_s", "cpu_us_per_task", "wal_bytes_per_task"}
    assert "hop_ms_p50" not in chosen("tasks_per_s")


@pytest.mark.parametrize("program", [bench.main, peers.main], ids=["bench", "peers"])
@pytest.mark.parametrize("option", ["--in-flight", "--seconds"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "x"])
def test_a_measure_of_nothing_is_wrong_usage(
    option: str, value: str, program: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        program([f"{option}={value}"])

    assert f"argument {option}: '{value}' is no" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--only", "soak"], ["--only", "hop_ms_p50, soak"], ["--soak=-1"], ["--repeats=0"]])
def test_a_soak_without_a_length_is_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench.main(words)

    assert "usage: python -m bench" in capsys.readouterr().err


@pytest.mark.parametrize("program", [bench, peers], ids=["bench", "peers"])
def test_an_interruption_is_one_line(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(work: Coroutine[Any, Any, None]) -> None:
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncio.run", interrupted)

    assert program.main(["--only", "hop_ms_p50" if program is bench else "pgbench"]) == 130
    assert capsys.readouterr().err == "bench: interrupted; nothing is left running\n"


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(SystemExit, match="task_per_s"):
        chosen("task_per_s")


def test_each_measurement_is_made_once_and_as_few_stacks_started_as_can_be() -> None:
    plan = stages(bench._chosen("", quick=False))
    measures = [measure for stage in plan for measure in stage.measures]
    assert len(measures) == len(set(measures))
    shared = [stage.on for stage in plan if not stage.alone]
    assert all(shared.count(on) == 1 for on in shared)
    assert all(len(stage.measures) == 1 for stage in plan if stage.alone)


def test_the_document_has_medians_and_spreads_and_groups_of_their_own() -> None:
    document = figures_of({"rate": [3.0, 1.0, 2.0], "cpu.coordinator": [5.0, 7.0], "cpu.relay": [1.0]})
    assert document == {
        "figures": {"rate": 2.0},
        "spread": {"rate": [1.0, 3.0]},
        "cpu": {"coordinator": 6.0, "relay": 1.0},
    }
    json.dumps(document)


@pytest.mark.parametrize(
    "source",
    [
        workflow.line("line"),
        workflow.line("line_1000", 1000),
        workflow.line("fading", retention="1m"),
        workflow.mapped("mapped", 100),
        workflow.wide("wide", 1000),
        workflow.unread("unread"),
        workflow.held("held", 1000, "10s"),
        workflow.waiting("alone", calls=False),
        workflow.waiting("calling", calls=True),
    ],
)
def test_every_workflow_compiles(source: str) -> None:
    assert compile_workflow(source).faults == ()
