"""docs/cli.md says what the command line does."""

from __future__ import annotations

import pytest

from headway.cli import reference
from headway.cli.commands import COMMANDS
from headway.cli.parser import parse


def test_every_command_has_its_section() -> None:
    page = reference.page()

    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        f"## headway {' '.join(command.name)}" for command in COMMANDS
    ]


@pytest.mark.parametrize(
    "usage",
    ["headway show RUN [PATH]", "headway signal [RUN] NAME", "headway skip [RUN] NODE", "headway worker [MODULE…]"],
)
def test_what_may_be_left_out_stands_in_brackets(usage: str) -> None:
    assert f"```text\n{usage} [--" in reference.page()


def test_an_option_with_two_names_has_both() -> None:
    assert "| `--until WHEN`, `--older-than` | started before" in reference.page()


@pytest.mark.parametrize(
    "typed",
    [
        "--patience 9s --namespace tenant --json skip r1 charge --output {}",
        "skip r1 charge --output {} --patience 9s --namespace tenant --json",
        "--patience 1s skip --json r1 --namespace tenant --output {} charge --patience 9s",
    ],
)
def test_arguments_and_options_stand_in_any_order_and_common_ones_before_the_command_too(typed: str) -> None:
    command, session = parse(typed.split())

    assert (getattr(command, "run_id", None), getattr(command, "node", None)) == ("r1", "charge")
    assert (session.patience.total_seconds(), session.namespace, session.output.as_json) == (9, "tenant", True)
