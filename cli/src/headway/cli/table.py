"""Tables for people, made to fit a terminal: some columns always stand whole, the others give way. Pure.

What gives way goes in this order: cells take their short form, long cells are cut, whole columns are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich.cells import cell_len
from rich.text import Text

GAP = 2  # spaces between two columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its heading.
        cut_to: The narrowest that its cells may be cut to, for want of room; None: they are never cut.
        leaves: Its turn to be left out when cutting is not enough, from 1; None: never.
    """

    name: str
    cut_to: int | None = None
    leaves: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell that can also be told shorter."""

    text: str | Text
    short: str | Text


Row: TypeAlias = Sequence[str | Text | Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A table as it is printed, and the names of the columns that found no room."""

    lines: tuple[Text, ...]
    left_out: tuple[str, ...]


def fit(columns: Sequence[Column], rows: Sequence[Row], width: int) -> Fitted:
    """Lay out a table in so many terminal columns; it is wider only when what may never be cut is."""
    cells = _cells(rows, short=False)
    kept = list(range(len(columns)))
    widths = _widths(columns, cells, kept, width)
    if widths is None:
        cells = _cells(rows, short=True)
        widths = _widths(columns, cells, kept, width)
    left_out: list[str] = []
    for leaving in _leaving_order(columns, cells):
        if widths is not None:
            break
        kept.remove(leaving)
        if any(row[leaving].plain for row in cells):
            left_out.append(columns[leaving].name)
        widths = _widths(columns, cells, kept, width)
    if widths is None:
        widths = {index: columns[index].cut_to or _natural(columns[index], cells, index) for index in kept}
    heads = [Text(column.name, style="bold") for column in columns]
    lines = tuple(_line([row[index] for index in kept], [widths[index] for index in kept]) for row in (heads, *cells))
    return Fitted(lines=lines, left_out=tuple(left_out))


def plain_cell(cell: str | Text | Cell) -> Text:
    """A cell in full."""
    told = cell.text if isinstance(cell, Cell) else cell
    return told.copy() if isinstance(told, Text) else Text(told)


def _cells(rows: Sequence[Row], *, short: bool) -> list[list[Text]]:
    return [[plain_cell(cell.short if short and isinstance(cell, Cell) else cell) for cell in row] for row in rows]


def _natural(column: Column, cells: Sequence[Sequence[Text]], index: int) -> int:
    return max([cell_len(column.name), *(row[index].cell_len for row in cells)])


def _widths(
    columns: Sequence[Column], cells: Sequence[Sequence[Text]], kept: Sequence[int], width: int
) -> dict[int, int] | None:
    """The width of each kept column, the last that may be cut giving way first; None: they do not fit."""
    widths = {index: _natural(columns[index], cells, index) for index in kept}
    excess = sum(widths.values()) + GAP * (len(kept) - 1) - width
    for index in reversed(kept):
        narrowest = columns[index].cut_to
        if excess > 0 and narrowest is not None:
            given = min(excess, max(0, widths[index] - narrowest))
            widths[index] -= given
            excess -= given
    return None if excess > 0 else widths


def _leaving_order(columns: Sequence[Column], cells: Sequence[Sequence[Text]]) -> list[int]:
    """Columns that may be left out, the first to go first: what is empty, then in their turns."""

    def turn(index: int) -> tuple[bool, int]:
        return any(row[index].plain for row in cells), columns[index].leaves or 0

    return sorted((index for index, column in enumerate(columns) if column.leaves is not None), key=turn)


def _line(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for position, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        is_last = position == len(cells) - 1
        cell.truncate(width, overflow="ellipsis", pad=not is_last)
        line.append_text(cell)
        if not is_last:
            line.append(" " * GAP)
    return line
