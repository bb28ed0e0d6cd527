"""What came of a run that was played, and of those that it started."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headway.coordinator.core.plan import Json
from headway.coordinator.core.rows import RunRow, TaskRow
from headway.coordinator.testkit.bodies import split
from headway.coordinator.testkit.language import NOT_REACHED, Outcome
from headway.coordinator.testkit.simulation import Entry, Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A handler was called, or a run asked for: what it was given. `handler`: of a run, its workflow."""

    path: str
    handler: str
    input: Json
    checkpoint: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something that happened.

    Attributes:
        run: to the run of this subflow node; empty: to the one that is tried.
        workflow: of that run.
        what: an event of it, or what left no trace in the history, for people.
    """

    run: str
    workflow: str
    at: datetime
    what: Entry | str


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
    """A run as it stands in the end, and those that it started.

    Attributes:
        simulations: rows of runs by the node that started them, the latest of each; the run that is tried by ''.
            None: it was refused.
        refusal: why it was refused.
        began: nodes in the order in which they began.
        calls: of handlers, oldest first.
        log: what happened, oldest first.
        choices: made between what happened at the same instant.
        troubles: what kept it from being played.
    """

    started_at: datetime
    simulations: Mapping[str, Simulation] = field(default_factory=dict[str, Simulation])
    refusal: str = ""
    began: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    log: tuple[Told, ...] = ()
    choices: tuple[Choice, ...] = ()
    troubles: tuple[Trouble, ...] = ()

    @property
    def simulation(self) -> Simulation | None:
        """The run that is tried."""
        return self.simulations.get("")

    @property
    def run(self) -> RunRow | None:
        """Its row."""
        return self.run_of("")

    @property
    def duration(self) -> timedelta:
        """From its start to its end, or to where it was left."""
        if self.simulation is None:
            return timedelta()
        return (self.simulation.run.finished_at or self.simulation.now) - self.started_at

    # --- runs, by the address of the node that started them

    def run_of(self, address: str) -> RunRow | None:
        """A run's row; None: there was none."""
        simulation = self.simulations.get(address)
        return None if simulation is None else simulation.run

    def outcome_of(self, address: str) -> Outcome:
        """How a run ended."""
        run = self.run_of(address)
        return Outcome.REFUSED if run is None else Outcome(run.state)

    def result_of(self, address: str) -> Json:
        """A run's output; none is null."""
        simulation = self.simulations.get(address)
        if simulation is None or simulation.run.output_path is None:
            return None
        return simulation.payload((simulation.run.output_path, simulation.run.output_attempt or 0, "output"))

    def fault_of(self, address: str) -> dict[str, Json]:
        """A run's error, as test files spell it."""
        run = self.run_of(address)
        error = (run.error if run is not None else None) or {}
        return {"class": error.get("failure_class"), "message": error.get("message"), "paths": error.get("paths")}

    # --- nodes, by their addresses

    def task(self, address: str) -> TaskRow | None:
        """A node's row; None: it was not reached."""
        run, path = split(address)
        simulation = self.simulations.get(run)
        return None if simulation is None else simulation.tasks.get(path)

    def state_of(self, address: str) -> str:
        """Where a node stands."""
        row = self.task(address)
        return NOT_REACHED if row is None else str(row.state)

    def output_of(self, address: str) -> Json:
        """A node's output; none is null."""
        run, path = split(address)
        row = self.task(address)
        if row is None or row.output_attempt is None:
            return None
        return self.simulations[run].payload((path, row.output_attempt, "output"))

    def error_of(self, address: str) -> dict[str, Json]:
        """A node's error, as test files spell it."""
        row = self.task(address)
        error = (row.error if row is not None else None) or {}
        failure_class = None if row is None or row.failure_class is None else str(row.failure_class)
        return {"class": failure_class} | {name: error.get(name) for name in ("type", "message", "details")}
