"""Durations as the language spells them: `500ms`, `30s`, `1m30s`, `2h`, `2d`; and as expressions do: `1.5s`."""

import re

_SPELT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_DECIMAL = re.compile(r"(\d+(?:\.\d{1,9})?)s")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000, 1)
_LONGEST_TEXT = 40  # characters, far beyond any duration


def parse_duration(text: str) -> int | None:
    """Returns the milliseconds of `1m30s`, or None when it is no duration."""
    found = _SPELT.fullmatch(text)
    if found is None or not text or len(text) > _LONGEST_TEXT:
        return None
    return sum(int(count) * unit for count, unit in zip(found.groups(default="0"), _UNITS_MS, strict=True))


def parse_computed_duration(text: str) -> int | None:
    """The same, for text that an expression made: seconds may have decimals."""
    found = _DECIMAL.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    return parse_duration(text) if found is None else round(float(found[1]) * 1_000)


def spell_duration(milliseconds: int) -> str:
    """Returns the shortest spelling: 90000 is 1m30s."""
    spelt = ""
    for letter, unit in zip(("d", "h", "m", "s", "ms"), _UNITS_MS, strict=True):
        count, milliseconds = divmod(milliseconds, unit)
        spelt += f"{count}{letter}" if count else ""
    return spelt or "0s"
