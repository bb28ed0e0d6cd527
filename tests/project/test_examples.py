"""The examples' workflows pass their own tests, which follow every edge; those to start from are short."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.cli.__main__ import run

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTS = sorted(EXAMPLES.rglob("*.test.yaml"))
MOST_LINES = 60


@pytest.mark.parametrize("file", TESTS, ids=lambda path: path.stem.removesuffix(".test"))
async def test_the_example_passes_its_tests_and_they_follow_every_edge(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await run(["test", str(file), "--coverage-min", "100"])

    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("file", sorted((EXAMPLES / "workflows").glob("*.yaml")), ids=lambda path: path.name)
def test_a_workflow_to_start_from_is_short_and_has_tests(file: Path) -> None:
    if file.name.endswith(".test.yaml"):
        assert (file.parent / file.name.replace(".test.yaml", ".yaml")).exists()
    else:
        assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
        assert file.with_suffix(".test.yaml").exists()


def test_there_are_examples() -> None:
    assert len(TESTS) >= 5
