"""What all runs of a case share: the clock, what is planned, what happened."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from random import Random

from headway.coordinator.core.plan import Place
from headway.coordinator.testkit.agenda import Chooser, Item, Rank
from headway.coordinator.testkit.bodies import in_run, place_of, split
from headway.coordinator.testkit.cases import Case, Mock, Result
from headway.coordinator.testkit.played import Call, Told, Trouble
from headway.coordinator.testkit.simulation import Surroundings


class Unplayable(Exception):
    """The case cannot be played on."""

    def __init__(self, place: Place, message: str, remedy: str = "") -> None:
        """Say why, where, and what helps."""
        super().__init__(message)
        self.trouble = Trouble(message=message, remedy=remedy, line=place.line, column=place.column)


class Stage:
    """Where the runs of a case are played.

    Attributes:
        surroundings: with the clock.
        began: nodes by their addresses, in the order in which they began.
        calls: of handlers, oldest first.
        log: what happened, oldest first.
        chooser: of what goes first.
    """

    def __init__(self, case: Case, chooser: Chooser) -> None:
        """Begin when the case does."""
        self.case = case
        self.chooser = chooser
        self.surroundings = Surroundings(now=case.starts_at)
        if case.seed is not None:
            self.surroundings.chance = Random(case.seed).random  # noqa: S311 - seeded: no secret
        self.began: dict[str, None] = {}
        self.calls: list[Call] = []
        self.log: list[Told] = []
        self._planned: list[Item] = []
        self._number = 0
        self._tries: dict[str, int] = {}
        self._turns: dict[Mock, dict[str, int]] = {}

    def plan(self, at: datetime, rank: Rank, label: str, do: Callable[[], None], owner: str = "") -> None:
        """Let something happen; with `owner`: unless that worker is let go before."""
        self._number += 1
        self._planned.append(Item(at=at, rank=rank, number=self._number, label=label, do=do, owner=owner))

    def let_go(self, owner: str) -> None:
        """What was planned for a worker does not happen."""
        self._planned = [item for item in self._planned if item.owner != owner]

    def next(self, timers: Iterable[Item]) -> Item | None:
        """Take what happens next, and turn the clock; None: nothing does, by the end of the case."""
        surroundings, until_ms = self.surroundings, self.case.until_ms
        until = None if until_ms is None else self.case.starts_at + timedelta(milliseconds=until_ms)
        upcoming = [*self._planned, *timers]
        if not upcoming:
            return None
        at = max(surroundings.now, min(item.at for item in upcoming))
        if until is not None and at > until:
            surroundings.now = until
            return None
        item = self.chooser.choose([item for item in upcoming if item.at <= at])
        if item in self._planned:
            self._planned.remove(item)
        surroundings.now = at
        return item

    def note(self, run: str, workflow: str, text: str) -> None:
        """Keep what leaves no trace in the history of a run."""
        self.log.append(Told(run=run, workflow=workflow, at=self.surroundings.now, what=text))

    def tries(self, address: str) -> int:
        """How many attempts at a node there were, in all runs that one node started."""
        return self._tries.get(address, 0)

    def count(self, address: str, number: int) -> None:
        """One of them begins."""
        self._tries[address] = number

    def result_of(self, address: str, handler: str, number: int) -> Result | None:
        """What its mock says of an attempt; None: there is no mock. Raises Unplayable: it has had all its turns."""
        mock = _mock_of(self.case, address, handler)
        if mock is None:
            return None
        turn = 0
        if not mock.for_all:
            taken = self._turns.setdefault(mock, {})
            turn = taken.setdefault(address, len(taken))
        if turn >= len(mock.turns):
            message = f"{address} is number {turn + 1}, and in_turn has {len(mock.turns)}"
            raise Unplayable(mock.place, message, "add what comes of it")
        attempts = mock.turns[turn]
        return attempts[min(number, len(attempts)) - 1]


def _mock_of(case: Case, address: str, handler: str) -> Mock | None:
    """The case's own before the file's; by address, place, node or handler."""
    place = place_of(address)
    run, path = split(place)
    names = (address, place, in_run(run, path.rpartition(".")[2]), handler)
    return next((mocks[name] for mocks in case.mocks for name in names if name in mocks), None)
