"""The one place where the command line reads this machine's clock: to say how long ago something was."""

from datetime import UTC, datetime


def now() -> datetime:
    """The present instant, by this machine; differs from the database's by whatever their clocks differ."""
    return datetime.now(UTC)  # noqa: TID251 - shown to people, decides nothing
