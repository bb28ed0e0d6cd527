"""docs/cli.md says what the command line does."""

from __future__ import annotations

from headway.cli import reference
from headway.cli.commands import COMMANDS


def test_every_command_has_its_section() -> None:
    page = reference.page()

    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        f"## headway {' '.join(command.name)}" for command in COMMANDS
    ]
