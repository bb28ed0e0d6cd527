"""What a decision stops for: rows that it reached and nobody loaded."""

from collections.abc import Iterable
from typing import TypeAlias

# ("run",) ("task", path) ("token", path) ("payload", path, attempt, role) ("attempt", path, n) ("signals", name)
# ("taken", path): signals that a node took;
# ("loop", path) ("scope", path) ("running" | "stopped" | "unfinished", map, n): a page of its items from the n-th on,
# ("results", map): what its items gave; ("effects", "", place): a page of those before it, latest first;
# ("waits", name, place): nodes that wait for a signal of that name, behind the place: FIRST_WAITS from 0 on, else all;
# ("child", path): the latest run that a subflow node started; ("deadline",): the run's own, if it has one;
# ("beat", path) ("instant", local time, zone) ("child_id", path, attempt): nothing that is stored, but what only the
# shell knows; and for the rare events that concern the whole run, ("open",): tasks not settled, ("unhandled",):
# failures that count, ("all",): tasks and tokens, ("timers",).
Key: TypeAlias = tuple[str, ...] | tuple[str, str, int] | tuple[str, str, int, str]


class Missing(Exception):
    """A decision reached rows that were not loaded."""

    def __init__(self, keys: Iterable[Key]) -> None:
        """Name them."""
        self.keys = frozenset(keys)
        super().__init__(f"not loaded: {sorted(self.keys, key=str)}")
