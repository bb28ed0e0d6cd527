"""What a test file says, once it is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import TypeAlias

from headway.coordinator.core.document import Document
from headway.coordinator.core.plan import FailureClass, Place, Template
from headway.coordinator.testkit.language import Crash, Outcome, Refused
from headway.coordinator.testkit.played import Played
from headway.coordinator.testkit.simulation import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class MockedFailure:
    """How a mocked handler fails."""

    failure_class: FailureClass
    type: str
    message: Template
    details: Mapping[str, Template]
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A sign of life of a handler, or one after the other.

    Attributes:
        after_ms: from the lease.
        every_ms: until the next one; None: there is one only.
        until_ms: from the lease, when they end; None: with the attempt.
        checkpoint: None: it has none.
    """

    after_ms: int
    every_ms: int | None
    until_ms: int | None
    progress: bool
    checkpoint: Document | None

    def latest(self, elapsed_ms: int) -> int | None:
        """When the latest was given until then, from the lease; None: none was."""
        last_ms = elapsed_ms if self.until_ms is None else min(elapsed_ms, self.until_ms)
        if last_ms < self.after_ms:
            return None
        return last_ms - (last_ms - self.after_ms) % self.every_ms if self.every_ms else self.after_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What comes of one attempt.

    Attributes:
        output: what the handler returns, unless there is a failure, it hangs or is real.
    """

    place: Place
    output: Template
    failure: MockedFailure | None = None
    hangs: bool = False
    real: bool = False
    takes_ms: int = 0
    queued_ms: int = 0
    heartbeats: tuple[Heartbeat, ...] = ()


Attempts: TypeAlias = tuple[Result, ...]  # by attempt; the last one stands for all later ones


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mock:
    """What workers do.

    Attributes:
        turns: what comes of one task after the other, in the order in which they begin; or of each, when there is one
            that is for all.
        for_all: the only one is for all.
    """

    place: Place
    turns: tuple[Attempts, ...]
    for_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What somebody does to the run.

    Attributes:
        run: to the run of this subflow node; empty: to the one that is tried.
        label: in the words of the story.
        do: does it. Raises Refusal.
    """

    place: Place
    after_ms: int
    run: str = ""
    label: str
    do: Callable[[Simulation], None]
    refused: Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What was expected, and what came of it instead; for people."""

    expected: str
    got: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One thing that must hold in the end.

    Attributes:
        what: in a few words.
        differs: None: it holds.
    """

    place: Place
    what: str
    differs: Callable[[Played], Difference | None]


class Naming(Enum):
    """What a name is to name."""

    NODE = auto()
    TASK = auto()  # what a node became in a run: in items and iterations, in which one
    HANDLER = auto()
    MOCKED = auto()  # a worker node, a subflow node or a handler
    CALLED = auto()  # a worker node or a subflow node
    WORKED = auto()  # the task of a worker node
    RUN = auto()  # by the subflow node that starts it


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A name that a test file takes from its workflows."""

    place: Place
    name: str
    naming: Naming


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run to try.

    Attributes:
        mocks: by node or handler: its own, then the file's.
        crashes: by node and attempt.
        until_ms: None: until nothing more happens by itself.
        seed: None: no jitter.
        every_order: try every order of what happens at the same instant, up to `limit`.
    """

    place: Place
    name: str
    input: Document
    mocks: tuple[Mapping[str, Mock], ...]
    acts: tuple[Act, ...]
    crashes: Mapping[tuple[str, int], Crash]
    starts_at: datetime
    until_ms: int | None
    seed: int | None
    order: tuple[str, ...]
    order_place: Place
    every_order: bool
    limit: int
    outcome: Outcome
    expectations: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFile:
    """A whole file.

    Attributes:
        hides_names: a part of it that may hold names could not be read.
    """

    __test__ = False  # pytest: the name begins like that of a class of tests

    workflow: str
    workflow_place: Place
    children: tuple[tuple[str, Place], ...]
    cases: tuple[Case, ...]
    mentions: tuple[Mention, ...] = field(default=())
    hides_names: bool = False
