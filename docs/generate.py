"""Generates the pages of docs/ that follow from the code; `--check` fails, naming them, when they are stale."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
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
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
