"""Instants as the language spells them: with an offset, or with the name of a zone.

What a zone's clocks show is no matter of this room: it is asked for by the local time and the zone's name.
"""

import re
from datetime import UTC, datetime

_ZONE = re.compile(r"(.*\d)[ ]+([A-Za-z][A-Za-z0-9_+/-]{0,63})", re.DOTALL)


def split_zone(text: str) -> tuple[str, str]:
    """Returns what stands before the name of a zone, and the name, empty when there is none."""
    found = _ZONE.fullmatch(text)
    return (found[1], found[2]) if found is not None else (text, "")


def parse_instant(text: str) -> datetime | None:
    """Returns the instant of RFC 3339 text with an offset, in UTC, or None when it is none."""
    parsed = _parse(text)
    if parsed is None or parsed.tzinfo is None:
        return None
    try:
        return parsed.astimezone(UTC)
    except OverflowError:  # its instant is before the year 1 or after 9999
        return None


def is_local(text: str) -> bool:
    """Returns whether this is a date and time without an offset."""
    parsed = _parse(text)
    return parsed is not None and parsed.tzinfo is None


def _parse(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
