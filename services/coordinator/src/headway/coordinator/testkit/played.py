"""What came of a run that was played."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.coordinator.core.plan import Json
from headway.coordinator.core.rows import RunRow, TaskRow
from headway.coordinator.testkit.language import NOT_REACHED, Outcome
from headway.coordinator.testkit.simulation import Entry, Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A handler was called: what it was given."""

    path: str
    handler: str
    attempt: int
    input: Json
    checkpoint: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that left no trace in the history, behind the event of that number."""

    seq: int
    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One instant at which several things could happen: what did, in the words of the story, and out of how many."""

    taken: int
    label: str
    options: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a run could not be played on: the fault is the test file's, or that of code that was run for real."""

    message: str
    remedy: str
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A run as it stands in the end.

    Attributes:
        simulation: its rows; None: the run was refused.
        refusal: why it was refused.
        began: nodes in the order in which they began.
        calls: of handlers, oldest first.
        notes: what the history does not tell.
        choices: made between what happened at the same instant.
        troubles: what kept it from being played.
    """

    simulation: Simulation | None
    started_at: datetime
    refusal: str = ""
    began: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    notes: tuple[Note, ...] = ()
    choices: tuple[Choice, ...] = ()
    troubles: tuple[Trouble, ...] = ()

    @property
    def run(self) -> RunRow | None:
        """Its row."""
        return None if self.simulation is None else self.simulation.run

    @property
    def history(self) -> list[Entry]:
        """Its events."""
        return [] if self.simulation is None else self.simulation.history

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        return Outcome.REFUSED if self.run is None else Outcome(self.run.state)

    @property
    def output(self) -> Json:
        """The run's output; none is null."""
        if self.simulation is None or self.simulation.run.output_path is None:
            return None
        run = self.simulation.run
        return self.simulation.payload((run.output_path or "", run.output_attempt or 0, "output"))

    @property
    def error(self) -> dict[str, Json]:
        """The run's error, as test files spell it."""
        error = (self.run.error if self.run is not None else None) or {}
        return {"class": error.get("failure_class"), "message": error.get("message"), "paths": error.get("paths")}

    @property
    def duration(self) -> timedelta:
        """From its start to its end, or to where it was left."""
        if self.simulation is None:
            return timedelta()
        return (self.simulation.run.finished_at or self.simulation.now) - self.started_at

    def task(self, path: str) -> TaskRow | None:
        """A node's row; None: it was not reached."""
        return None if self.simulation is None else self.simulation.tasks.get(path)

    def state_of(self, path: str) -> str:
        """Where a node stands."""
        row = self.task(path)
        return NOT_REACHED if row is None else str(row.state)

    def output_of(self, path: str) -> Json:
        """A node's output; none is null."""
        row = self.task(path)
        if self.simulation is None or row is None or row.output_attempt is None:
            return None
        return self.simulation.payload((path, row.output_attempt, "output"))

    def error_of(self, path: str) -> dict[str, Json]:
        """A node's error, as test files spell it."""
        row = self.task(path)
        error = (row.error if row is not None else None) or {}
        failure_class = None if row is None or row.failure_class is None else str(row.failure_class)
        return {"class": failure_class} | {name: error.get(name) for name in ("type", "message", "details")}
