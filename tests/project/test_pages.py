"""What people read tells the truth: commands and flags are real, links lead somewhere, all events are named."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.cli.parser import build_parser
from headway.coordinator.core import events

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True).split()]
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"(?:^|\$ |&& )headway ((?:--\S+ |db )*[a-z][a-z-]*)((?: [^#&|;]*)?)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def flags_by_command() -> dict[str, set[str]]:
    """What each command takes; by `""` what stands before any."""
    found = {"": set(build_parser()._option_string_actions)}
    waiting = [((), build_parser())]
    while waiting:
        words, parser = waiting.pop()
        for action in parser._actions:
            if isinstance(action.choices, dict):
                waiting += [((*words, word), each) for word, each in action.choices.items()]
        found[" ".join(words)] = found[""] | set(parser._option_string_actions)
    return found


FLAGS = flags_by_command()


def said(page: Path) -> Iterator[tuple[str, str]]:
    """The commands that a page names, and what stands behind each."""
    text = page.read_text(encoding="utf-8")
    code = [line for block in FENCED.findall(text) for line in block.splitlines()]
    code += INLINE.findall(FENCED.sub("", text).replace("\n", " "))
    for line in code:
        for command, rest in COMMAND.findall(line):
            yield re.sub(r"--\S+ ", "", command), f"{command} {rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_and_flags_that_a_page_names_are_real(page: Path) -> None:
    unreal = [
        f"headway {words}"
        for command, words in said(page)
        if command not in FLAGS or not set(FLAG.findall(words)) <= FLAGS[command]
    ]

    assert unreal == []


def test_pages_name_many_commands_and_every_one_has_its_help() -> None:
    named = {command for page in PAGES for command, _ in said(page)}

    assert len(named) > 20
    assert named <= FLAGS.keys()


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken: list[str] = []
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_there = "://" in link or (target.exists() and (not anchor or anchor in anchors(target)))
        if not is_there:
            broken.append(link)

    assert broken == []


def test_the_page_of_words_names_every_event() -> None:
    page = (ROOT / "docs/concepts.md").read_text(encoding="utf-8")
    row = re.search(r"^\| \*\*event\*\* \| what happened to a run: (.*) \|$", page, re.MULTILINE)
    assert row is not None

    named = [name for name, cls in vars(events).items() if isinstance(cls, type) and events.Event in cls.__bases__]

    assert sorted(row[1].split(", ")) == sorted(named)
