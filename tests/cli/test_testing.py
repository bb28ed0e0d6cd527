"""headway test: exit codes, what is told to people and to programs, without any coordinator."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.__main__ import run

ROOT = Path(__file__).parents[2]
FLOW = """
workflow: example
nodes:
  a: {type: python, input: "${input}", code: "def run(input): return 10 / input['n']"}
  ok: {type: switch, cases: [{when: "nodes.a.output > 1", to: much}], default: little}
  much: {type: set, values: {much: "true"}}
  little: {type: set, values: {much: "false"}}
edges:
  - [a, ok]
"""
TESTS = """
workflow: flows/example.yaml
mocks: {a: {real: true}}
cases:
  - {name: five is much, input: {n: 2}, expect: {path: [a, ok, much]}}
  - name: by nothing it cannot be divided
    input: {n: 0}
    expect: {outcome: failed, nodes: {a: {error: {type: ZeroDivisionError}}}}
"""
WRONG = "  - {name: a half is much, input: {n: 20}, expect: {path: [a, ok, much]}}\n"


def write(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "example.yaml").write_text(FLOW)
    path = tmp_path / "example.test.yaml"
    path.write_text(TESTS)
    return path


async def test_cases_that_pass_are_listed_with_what_they_covered(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await run(["test", str(file)])

    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        "  passed  five is much",
        "  passed  by nothing it cannot be divided",
        f"{file}: 2 of 3 edges followed (67 %)",
        "  never   ok → little",
        "2 passed, 0 failed",
    ]


async def test_a_workflow_is_no_test_file_and_its_own_name_says_where_tests_go(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await run(["test", str(file.parent / "flows" / "example.yaml")])

    assert code == 1
    said = "".join(capsys.readouterr())
    assert "this is a workflow, no test file — write its tests to example.test.yaml" in said
    assert "unknown key" not in said


async def test_a_case_that_fails_is_told_with_its_line_and_its_story(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(file, TESTS + WRONG)

    code = await run(["test", str(file)])

    assert code == 1
    assert capsys.readouterr().out.splitlines()[2:12] == [
        "  FAILED  a half is much",
        f"    {file}:9:59: path",
        "      expected  [a, ok, much]",
        "      got       [a, ok, little]",
        "    the run:",
        '      0s  the run starts with {"n":20}',
        "            → a waits for a worker",
        "      0s  report of a: 0.5",
        "            → a succeeded",
        "            → ok succeeded",
    ]


async def test_for_programs_it_is_one_document(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(file, TESTS + WRONG)

    code = await run(["test", str(file), "--json"])

    document = json.loads(capsys.readouterr().out)
    assert code == 1
    assert document["passed"] is False
    (only,) = document["files"]
    assert [case["passed"] for case in only["cases"]] == [True, True, False]
    assert only["cases"][2]["problems"] == [
        {"line": 9, "column": 59, "what": "path", "expected": "[a, ok, much]", "got": "[a, ok, little]"}
    ]
    assert only["coverage"] == {"edges": 3, "never": [], "percent": 100.0}


async def test_some_cases_can_be_chosen(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(file, TESTS + WRONG)

    assert await run(["test", str(file), "--filter", "FIVE"]) == 0
    assert "1 passed, 0 failed" in capsys.readouterr().out
    assert await run(["test", str(file), "--filter", "nine"]) == 2
    assert "no case has 'nine' in its name" in capsys.readouterr().err


async def test_too_little_coverage_fails(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(["test", str(file), "--coverage-min", "66"]) == 0
    assert await run(["test", str(file), "--coverage-min", "67"]) == 1
    assert "2 of 3 edges followed (67 %; at least 67 % are wanted)" in capsys.readouterr().out
    assert await run(["test", str(file), "--coverage-min", "67", "--filter", "five"]) == 2
    assert await run(["test", str(file), "--coverage-min", "101"]) == 2


async def test_faults_are_told_as_check_tells_them(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(file, TESTS.replace("path: [a, ok, much]", "path: [a, ok, mch]"))

    code = await run(["test", str(file)])

    assert code == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{file}:5:64: error: the workflow has no node mch — did you mean much?",
        "0 passed, 0 failed, 1 fault",
    ]


async def test_faults_of_the_workflow_name_its_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(file.parent / "flows" / "example.yaml", FLOW.replace("type: set", "type: sett", 1))

    code = await run(["test", str(file)])

    assert code == 1
    assert f"{file.parent / 'flows/example.yaml'}:6:16: error: " in capsys.readouterr().out


async def test_a_workflow_that_is_not_there_is_a_fault(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file.parent / "flows" / "example.yaml").unlink()

    assert await run(["test", str(file)]) == 1
    assert f"{file}:2:11: error: cannot read" in capsys.readouterr().out


async def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(["test", str(tmp_path / "nothing.yaml")]) == 2
    assert "cannot read" in capsys.readouterr().err


async def test_without_the_kit_it_says_what_to_install(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.cli.commands.testing.find_spec", lambda _name: None)

    assert await run(["test", str(file)]) == 2
    assert "the test kit is not on this machine: install headway[dev]" in capsys.readouterr().err


async def test_the_first_example_of_the_page_does_as_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/testing.md").read_text("utf-8")
    tests, passes, fails = block(page, 0), block(page, 1), block(page, 2)
    write(tmp_path / "hello.yaml", block((ROOT / "README.md").read_text("utf-8"), 0, begins="# hello.yaml"))
    monkeypatch.chdir(tmp_path)

    write(tmp_path / "hello.test.yaml", tests)
    code = await run(["test", "hello.test.yaml", "--coverage-min", "100"])
    assert (code, capsys.readouterr().out) == (0, passes.partition("\n")[2])

    write(tmp_path / "hello.test.yaml", tests.replace("duration: 5s", "duration: 4s"))
    assert await run(["test", "hello.test.yaml"]) == 1
    assert capsys.readouterr().out.startswith(fails)


def block(page: str, number: int, *, begins: str = "") -> str:
    """A block of code of a page."""
    blocks = [part.partition("\n")[2] for part in page.split("```")[1::2]]
    return [each for each in blocks if each.startswith(begins)][number]


def test_the_command_line_loads_the_kit_only_when_it_tests() -> None:
    assert importlib.util.find_spec("headway.coordinator") is not None
    program = (
        "import sys, headway.cli.__main__; "
        "sys.exit([name for name in sys.modules if name.startswith('headway.coordinator')] != [])"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_of_a_very_long_story_the_middle_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        tmp_path / "flow.yaml",
        "workflow: w\nnodes:\n"
        "  r: {type: repeat, until: 'false', max_iterations: 99, body: {type: call, handler: h}}\n",
    )
    write(tmp_path / "flow.test.yaml", "workflow: flow.yaml\nmocks: {h: {}}\ncases:\n  - {name: it, input: {}}\n")

    assert await run(["test", str(tmp_path / "flow.test.yaml")]) == 1

    told = capsys.readouterr().out
    lines = [line.strip() for line in told.splitlines()]
    (cut,) = [line for line in lines if "lines are left out here" in line]
    begin = lines.index("the run:") + 1
    assert "the run starts with {}" in lines[begin]
    assert lines.index(cut) - begin == 50
    assert len(lines) < 220
    assert "IterationsExhausted" in told
