"""What the command line prints: documents for programs, tables and sentences for people.

With `--json`, standard output carries exactly one JSON document and nothing else; sentences go to standard error.
Colours and live lines appear only on a terminal. Text from elsewhere (names, messages of errors) is never read as
markup, and what would steer a terminal in it is made visible.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import IO, TypeAlias

from rich.console import Console
from rich.text import Text

from headway.cli.table import Cell, Column, Row, fit, plain_cell

Document: TypeAlias = "bool | int | float | str | list[Document] | dict[str, Document] | None"

_STEERING = re.compile("[\\x7f-\\x9f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff]")
PIPE_WIDTH = 500  # columns: lines that go to a program are not folded


class OutputLost(Exception):
    """Nothing more can be written; its text says why."""


class Output:
    """Where a command prints. Everything raises BrokenPipeError when the reader has left, and OutputLost."""

    def __init__(self, *, as_json: bool, as_lines: bool = False) -> None:
        """Print for people, or one JSON document, or (`as_lines`) one JSON document a line."""
        self.as_json = as_json
        self.as_lines = as_lines
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)
        self._on_terminal = sys.stdout.isatty()

    @property
    def for_people(self) -> bool:
        """True when tables and sentences are wanted."""
        return not (self.as_json or self.as_lines)

    def document(self, value: object) -> None:
        """Print the one document of `--json`."""
        _write(_json(value, indent=2))

    def line(self, value: object) -> None:
        """Print one document of `--json-lines`."""
        _write(_json(value))

    def say(self, text: str | Text = "", style: str = "", end: str = "\n") -> None:
        """Tell people something: on standard output, or on standard error when that carries JSON."""
        console = self._out if self.for_people else self._err
        with writing():
            console.print(_text(text, style), soft_wrap=True, end=end)

    def warn(self, text: str | Text, style: str = "") -> None:
        """Tell people something on standard error."""
        with writing():
            self._err.print(_text(text, style), soft_wrap=True)

    @property
    def width(self) -> int:
        """How many characters a line has room for."""
        return self._out.width

    def table(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Print a table: fitted to the terminal; elsewhere every cell in full, with tabs between."""
        rows = [[_seen(cell) for cell in row] for row in rows]
        if not self._on_terminal:
            heads = [column.name for column in columns]
            lines = [heads, *([plain_cell(cell).plain for cell in row] for row in rows)]
            _write("\n".join(map("\t".join, lines)))
            return
        fitted = fit(columns, rows, self._out.width)
        for line in fitted.lines:
            self.say(line)
        if fitted.left_out:
            self.say(f"({', '.join(fitted.left_out)}: no room; a wider terminal or --json shows more)", style="dim")

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Show that something is awaited, on a terminal, while the block runs."""
        if self.for_people and self._out.is_terminal:
            return self._out.status(_text(text))
        return nullcontext()


def plain(value: object) -> Document:
    """A value as JSON: dataclasses become objects, instants ISO 8601 text in UTC, durations seconds."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _json(value: object, indent: int | None = None) -> str:
    told = json.dumps(plain(value), ensure_ascii=sys.stdout.encoding.lower() != "utf-8", indent=indent)
    # JSON escapes no more than it must; a terminal is steered by these, too.
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", told)


def visible(text: str) -> str:
    """The text with control characters made visible: none of it steers a terminal or breaks a line."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _text(text: str | Text, style: str = "") -> Text:
    if isinstance(text, Text):
        return _visible_text(text, besides="\n")
    return Text("\n".join(map(visible, text.split("\n"))), style=style)


def _visible_text(text: Text, besides: str = "") -> Text:
    """As `visible`, of a text that has styles."""
    steering = [place for place, each in enumerate(text.plain) if not (each.isprintable() or each in besides)]
    if not steering:
        return text
    told = Text(style=text.style, end=text.end)
    for part in text.divide(sorted({*steering, *(place + 1 for place in steering)})):
        if part.plain not in besides:
            part.plain = visible(part.plain) if len(part.plain) == 1 else part.plain
        told.append_text(part)
    return told


def _seen(cell: str | Text | Cell) -> str | Text | Cell:
    """The cell with what would steer a terminal made visible."""
    if isinstance(cell, Cell):
        return Cell(text=_seen_text(cell.text), short=_seen_text(cell.short))
    return _seen_text(cell)


def _seen_text(told: str | Text) -> str | Text:
    return _visible_text(told) if isinstance(told, Text) else visible(told)


@contextmanager
def writing() -> Iterator[None]:
    """Raises OutputLost, or BrokenPipeError, when what is written in the block cannot be."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error.strerror or type(error).__name__) from None


def _write(text: str) -> None:
    with writing():
        print(text, file=sys.stdout, flush=True)


class _Console(Console):
    """One that leaves it to its caller what becomes of a process whose reader has left."""

    def on_broken_pipe(self) -> None:
        """Go on raising."""
        raise BrokenPipeError


def _console(stream: IO[str]) -> Console:
    width = None if stream.isatty() else PIPE_WIDTH
    return _Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
