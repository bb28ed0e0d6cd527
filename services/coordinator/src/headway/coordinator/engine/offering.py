"""Offers: a worker that attends says how many slots it has free, and what is dispatched to its queues is leased to it.

A decision claims an offered slot, leases the attempt in its own transaction, as it would for a report's answer, and
pushes the grant down the worker's stream once that has committed. Offers are of this process, and good for seconds.
"""

from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from headway.coordinator import clock
from headway.coordinator.engine.leasing import Granted

GOOD_FOR = 5.0  # seconds: half of what an eager lease lasts, which the worker counts from when it sent the offer
MOST_SLOTS = 1_000  # of one offer


class Handed(NamedTuple):
    """Attempts that were leased to a worker for slots that it offered.

    Attributes:
        offer: number of the latest offer that had been heard when they were leased.
        grants: attempt and grant of each.
    """

    offer: int
    grants: list[tuple[int, Granted]]


class Withdrawn(NamedTuple):
    """An offer of no slots was heard, and nothing of an earlier offer follows. `offer`: its number."""

    offer: int


Queue: TypeAlias = tuple[str, str]
"""Namespace and name."""
Tell: TypeAlias = Callable[[Handed | Withdrawn], bool]
"""Puts something into a worker's stream; False: it is full."""
Lose: TypeAlias = Callable[[str, Iterable[tuple[int, Granted]]], None]
"""Told what was leased to an owner that will never hear of it."""


class Offering:
    """What one stream of a worker offers."""

    __slots__ = ("_claimed", "_heard_at", "_is_withdrawn", "_left", "_pushed", "_tell", "offer", "owner", "queues")

    def __init__(self, owner: str, queues: Collection[Queue], tell: Tell) -> None:
        """Offer nothing yet."""
        self.owner = owner
        self.queues = queues
        self.offer = 0
        self._tell: Tell | None = tell
        self._heard_at = 0.0
        self._left = 0
        self._pushed = 0  # and claimed, since the stream began
        self._claimed = 0  # by decisions that have not committed yet
        self._is_withdrawn = False

    def hear(self, offer: int, slots: int, taken: int) -> bool:
        """An offer replaces the one before. True: there are slots.

        Args:
            offer: its number.
            slots: that are free; 0 withdraws.
            taken: how many attempts the stream had brought when it was made.
        """
        if self._tell is None:
            return False
        self.offer = offer
        self._heard_at = clock.monotonic()
        under_way = self._pushed - min(max(taken, 0), self._pushed)
        self._left = min(slots, MOST_SLOTS) - under_way
        self._is_withdrawn = slots <= 0
        self.settle(0)
        return self._left > 0

    def close(self) -> None:
        """The stream has ended."""
        self._left = 0
        self._tell = None

    def has_slots(self, since: float) -> bool:
        """There are slots left of an offer that is still good."""
        return self._left > 0 and self._heard_at + GOOD_FOR > since

    def claim(self, since: float) -> "Claim | None":
        """Claim a slot; None: the offer was heard too late, the leases would begin before it was made."""
        if self._heard_at > since:
            return None
        self._left -= 1
        self._pushed += 1
        self._claimed += 1
        return Claim(self)

    def give_back(self) -> bool:
        """Nothing came of a claim. True: there are slots."""
        self._left += 1
        self._pushed -= 1
        self.settle(1)
        return self._left > 0 and self._tell is not None

    def push(self, handed: Handed) -> bool:
        """Tell the worker; False: it cannot be told."""
        return self._tell is not None and self._tell(handed)

    def settle(self, claims: int) -> None:
        """So many claims are pushed or given back."""
        self._claimed -= claims
        if self._is_withdrawn and not self._claimed and self._tell is not None:
            self._is_withdrawn = False
            self._tell(Withdrawn(self.offer))


class Claim:
    """An offered slot that a decision under way means to fill. `offer`: as in Handed."""

    __slots__ = ("offer", "offering")

    def __init__(self, offering: Offering) -> None:
        """Note which offer it is of."""
        self.offering = offering
        self.offer = offering.offer

    @property
    def owner(self) -> str:
        """Whose slot it is."""
        return self.offering.owner


class Offers:
    """What is offered to this coordinator, by queue. Whoever offers slots for one gets its tasks in turn."""

    def __init__(self, lose: Lose) -> None:
        """Begin with none. `lose`: told what was leased and can be pushed to nobody."""
        self._lose = lose
        self._turns: dict[Queue, dict[Offering, None]] = {}

    @contextmanager
    def of(self, owner: str, queues: Collection[Queue], tell: Tell) -> Generator[Offering]:
        """What a worker offers for its queues, as long as the block runs, which is as long as its stream."""
        offering = Offering(owner, queues, tell)
        try:
            yield offering
        finally:
            offering.close()
            for queue in queues:
                self._leave(queue, offering)

    def hear(self, offering: Offering, offer: int, slots: int, taken: int) -> None:
        """A worker offers slots; the offer is as in `Offering.hear`."""
        if offering.hear(offer, slots, taken):
            self._join(offering)

    def claim(self, queue: Queue, since: float) -> Claim | None:
        """Claim a slot of the worker whose turn it is.

        Args:
            queue: that the task is for.
            since: when the batch began, on the monotonic clock.
        """
        turns = self._turns.get(queue, {})
        for _ in range(len(turns)):
            offering = next(iter(turns))
            self._leave(queue, offering)
            if offering.has_slots(since):
                self._turns.setdefault(queue, turns)[offering] = None  # at the end
                if (claim := offering.claim(since)) is not None:
                    return claim
        return None

    def give_back(self, claim: Claim) -> None:
        """Nothing came of a claim: the slot is for others."""
        if claim.offering.give_back():
            self._join(claim.offering)

    def _join(self, offering: Offering) -> None:
        for queue in offering.queues:
            self._turns.setdefault(queue, {}).setdefault(offering)

    def _leave(self, queue: Queue, offering: Offering) -> None:
        turns = self._turns.get(queue, {})
        turns.pop(offering, None)
        if not turns:
            self._turns.pop(queue, None)

    def push(self, leased: Iterable[tuple[Claim, int, Granted]]) -> None:
        """What was leased is durable: claim, attempt and grant of each go to the workers."""
        together: dict[tuple[Offering, int], list[tuple[int, Granted]]] = {}
        for claim, attempt, grant in leased:
            together.setdefault((claim.offering, claim.offer), []).append((attempt, grant))
        for (offering, offer), grants in together.items():
            if not offering.push(Handed(offer, grants)):
                self.lose(offering.owner, grants)
            offering.settle(len(grants))

    def lose(self, owner: str, grants: Iterable[tuple[int, Granted]]) -> None:
        """Whoever these were leased to has not heard of it and never will."""
        self._lose(owner, grants)
