"""The SQL of this service, by name. Loading fails when a file names a statement twice or one that is used is missing."""

import re
from collections.abc import Iterator
from importlib import resources
from typing import Final

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_FILES = ("runs", "tasks", "outbox", "definitions")


def _read(file: str) -> Iterator[tuple[str, str]]:
    text = resources.files("headway.coordinator.store").joinpath("sql", f"{file}.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    return zip(parts[::2], (part.strip().rstrip(";") for part in parts[1::2]), strict=True)


def _load() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in _FILES:
        for name, text in _read(file):
            if name in found:
                raise ValueError(f"{file}.sql: statement {name} is there twice")
            found[name] = text
    return found


SQL: Final = _load()
