"""docs/cli.md says what the command line does."""

from __future__ import annotations

from pathlib import Path

from headway.cli import reference
from headway.cli.commands import COMMANDS

PAGE = Path(__file__).parents[2] / "docs/cli.md"


def test_the_page_is_what_the_code_gives() -> None:
    assert PAGE.read_text("utf-8") == reference.page(), "write it anew: python -m headway.cli.reference > docs/cli.md"


def test_every_command_has_its_section() -> None:
    page = reference.page()

    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        f"## headway {' '.join(command.name)}" for command in COMMANDS
    ]
