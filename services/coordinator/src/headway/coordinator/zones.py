"""What the clocks of the world's zones show, by the pinned copy of the IANA database that comes as a package.

The machine's own copy is never read: two coordinators of one release decide alike. What was decided is recorded as an
instant, so that no history depends on it.
"""

from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones, reset_tzpath

reset_tzpath(())


@cache
def zone_names() -> frozenset[str]:
    """Returns the names of all zones."""
    return frozenset(available_timezones())


def instant_of(local: str, zone: str) -> datetime | None:
    """When the clocks of a zone show a time, in UTC.

    On the day when clocks go forward, a time that they skip is as long after the jump as it is behind its beginning; on
    the day when they go back, a time that they show twice is the first one.

    Args:
        local: ISO 8601 date and time without an offset.
        zone: name in the IANA database, such as Europe/Vienna.

    Returns:
        The instant; None: there is no such zone, or the instant is beyond the calendar.
    """
    try:
        return datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return None
