"""What is going to happen, and when; and which of several things at one instant happens first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from headway.coordinator.testkit.played import Choice


class Rank(IntEnum):
    """Of what happens at the same instant, what goes first unless somebody says otherwise."""

    DELIVERY = 0
    ACT = 1
    REPORT = 2
    LEASE_END = 3
    TIMER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that is going to happen.

    Attributes:
        label: in the words of the story.
        number: in the order in which things were planned.
        owner: the worker with whose attempt it ends; empty: none.
    """

    at: datetime
    rank: Rank
    number: int
    label: str
    do: Callable[[], None]
    owner: str = ""


class Chooser:
    """Chooses what happens first among things at the same instant.

    First as the test file's `order` says, then as a script of earlier choices says, then by rank. Trying all scripts,
    shortest first, tries all orders.
    """

    def __init__(self, order: Sequence[str] = (), script: Sequence[int] = ()) -> None:
        self.made: list[Choice] = []
        self._wanted = list(order)
        self._script = script

    @property
    def left(self) -> Sequence[str]:
        """What was to go first, and never had a choice."""
        return self._wanted

    def choose(self, items: Sequence[Item]) -> Item:
        """Take one of at least one."""
        ordered = sorted(items, key=lambda item: (item.rank, item.number))
        if len(ordered) == 1 or ordered[0].rank is Rank.DELIVERY:  # who takes a message first changes nothing
            return ordered[0]
        named = next((label for label in self._wanted if any(item.label == label for item in ordered)), None)
        if named is not None:
            self._wanted.remove(named)
            item = next(item for item in ordered if item.label == named)
            self.made.append(Choice(taken=0, label=item.label, options=1))
            return item
        place = len(self.made)
        taken = self._script[place] if place < len(self._script) else 0
        self.made.append(Choice(taken=taken, label=ordered[taken].label, options=len(ordered)))
        return ordered[taken]


def next_script(made: Sequence[Choice]) -> list[int] | None:
    """The choices to make next, after some were made; None: all were tried."""
    for place in range(len(made) - 1, -1, -1):
        if made[place].taken + 1 < made[place].options:
            return [*(choice.taken for choice in made[:place]), made[place].taken + 1]
    return None
