"""Generates the pages of docs/ that follow from the code; `--check` fails, naming them, when they are stale."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from headway.cli import reference
from headway.coordinator.core import machines, refusals
from headway.coordinator.core.compiler.fault_reference import MEANINGS
from headway.coordinator.core.compiler.json_schema import json_schema
from headway.coordinator.core.compiler.language import NODES
from headway.coordinator.core.compiler.node_pages import page
from headway.coordinator.core.compiler.reference import fill, table
from headway.coordinator.engine import deciding
from headway.coordinator.rpc import refusing
from headway.coordinator.store import errors
from headway.coordinator.testkit import language as tests
from headway.runtime import settings

DOCS = Path(__file__).resolve().parent

SERVICES = {
    "coordinator": "headway.coordinator.settings:CoordinatorSettings",
    "relay": "headway.relay.settings:RelaySettings",
    "timers": "headway.timers.settings:TimersSettings",
    "worker": "headway.worker._settings:WorkerSettings",
}


def settings_page() -> str:
    """docs/settings.md: every variable that a service reads."""
    types: dict[str, type[Any]] = {}
    for service, place in SERVICES.items():
        module, _, name = place.partition(":")
        if importlib.util.find_spec(module) is not None:
            types[service] = getattr(importlib.import_module(module), name)
    lines = [
        "# Settings",
        "",
        "Services read them from the environment, once, when they start. A wrong one stops the start and says what to",
        "write instead. This page is generated from the code: `make docs`.",
        "",
        "| variable | type | default | meaning | read by |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{row.name}` | {row.type} | {f'`{row.default}`' if row.default not in {'', 'required'} else row.default} "
        f"| {row.meaning} | {', '.join(row.services)} |"
        for row in settings.rows(types)
    ]
    return "\n".join(lines) + "\n"


def architecture_page() -> str:
    """docs/architecture.md, with its tables and code."""
    return _filled("architecture.md", {"state machines": _state_machines(), "the loop": _loop()})


def operations_page() -> str:
    """docs/operations.md, with the table of reasons."""
    return _filled("operations.md", {"reasons": _reasons()})


def _filled(name: str, contents: dict[str, str]) -> str:
    """A page, with what stands between its marks made anew."""
    text = (DOCS / name).read_text(encoding="utf-8")
    for mark, content in contents.items():
        begin, end = f"<!-- generated: {mark} -->\n", "<!-- end of generated -->"
        head, _, rest = text.partition(begin)
        tail = rest.partition(end)[2]
        text = f"{head}{begin}{content}{end}{tail}"
    return text


def _reasons() -> str:
    """Every reason with its status and its message, the places of its facts in braces."""
    messages: dict[str, list[str]] = {"STORE_UNAVAILABLE": [errors.StoreUnavailable.__doc__ or ""]}
    for cls in _below(refusals.Refusal):
        told, message = messages.setdefault(cls.reason, []), (cls.__doc__ or "").split("\n", 1)[0]
        told += [] if message in told else [message]
    told_of = {reason: " Or: ".join(told) for reason, told in messages.items()}
    rows = [f"| `{reason}` | {status.name} | {told_of[reason]} |" for reason, status in refusing.STATUS.items()]
    return "\n".join(["", "| reason | status | message |", "| --- | --- | --- |", *rows, "", ""])


def _below(cls: type[Any]) -> list[type[Any]]:
    """The classes derived from one, in the order in which they are written."""
    return [each for direct in cls.__subclasses__() for each in (direct, *_below(direct))]


def _state_machines() -> str:
    """The transition tables as diagrams."""
    lines: list[str] = []
    for machine in (machines.RUN, machines.TASK):
        lines += ["", f"The {machine.name}:", "", "```mermaid", "stateDiagram-v2", f"    [*] --> {machine.initial}"]
        lines += [f"    {arrow.source} --> {arrow.target}: {arrow.name}" for arrow in machine.table]
        lines += [f"    {state} --> [*]" for state in machine.states if state in machine.final]
        lines += ["```"]
    for opening in machines.REOPENINGS.values():
        sources = ", ".join(sorted(opening.sources))
        lines += ["", f"`{opening.name}` reopens a run that is {sources}: it is running again, its epoch one higher."]
    return "\n".join([*lines, "", ""])


def _loop() -> str:
    """The shell's loop, from where it is written."""
    documented = deciding.__doc__ or ""
    return "\n```text" + documented.partition("short:\n")[2].replace("\n    ", "\n").rstrip() + "\n```\n\n"


def language_page() -> str:
    """docs/language.md, with its tables made anew from the tables of the language."""
    return fill((DOCS / "language.md").read_text(encoding="utf-8"))


def testing_page() -> str:
    """docs/testing.md, with the tables of the test kit."""
    parts = {
        "test file": tests.FILE,
        "case": tests.CASE,
        "mock": tests.MOCK,
        "heartbeat": tests.HEARTBEAT,
        "failure": tests.FAILURE,
        "act": tests.ACT,
        "crash": tests.CRASH,
        "expect": tests.EXPECT,
        "run": tests.RUN,
        "node": tests.NODE,
        "error": tests.ERROR,
        "call": tests.CALL,
    }
    return _filled("testing.md", {mark: table(fields) for mark, fields in parts.items()})


def checking_page() -> str:
    """docs/checking.md, with the kinds of faults."""
    rows = [f"| `{code.value}` | {meaning} |" for code, meaning in MEANINGS.items()]
    return _filled("checking.md", {"fault codes": "\n".join(["| code | meaning |", "| --- | --- |", *rows, ""])})


def schema_file() -> str:
    """docs/headway.schema.json: the language, for editors."""
    return json.dumps(json_schema(), ensure_ascii=False, indent=2) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "architecture.md": architecture_page,
    "checking.md": checking_page,
    "cli.md": reference.page,
    "headway.schema.json": schema_file,
    "language.md": language_page,
    "operations.md": operations_page,
    "settings.md": settings_page,
    "testing.md": testing_page,
    **{f"nodes/{node_type.value}.md": partial(page, node_type) for node_type in NODES},
}


def stale() -> list[str]:
    """The pages whose committed text is not what the code gives."""
    return [
        name
        for name, page in PAGES.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != page()
    ]


def main() -> int:
    """Writes the pages, or compares them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is stale")
    check = parser.parse_args().check
    found = stale()
    if check:
        for name in found:
            print(f"docs/{name} is out of date: run `make docs` and commit it", file=sys.stderr)
        return 1 if found else 0
    for name in found:
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
