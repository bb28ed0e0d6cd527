"""The workers of one run: each does as its mock says, and breaks as the case says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from headway.coordinator.core.actions import StopTask
from headway.coordinator.core.admission import SILENCES, Answer
from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.compiler.language import OWN_HANDLERS
from headway.coordinator.core.document import Document
from headway.coordinator.core.events import Failure
from headway.coordinator.core.lookups import Lookup, descend
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.plan import FailureClass, Json, VariablePath
from headway.coordinator.core.rows import TaskRow
from headway.coordinator.core.state import TimerKey
from headway.coordinator.core.templates import render
from headway.coordinator.testkit.agenda import Rank
from headway.coordinator.testkit.bodies import in_run
from headway.coordinator.testkit.cases import Heartbeat, Result
from headway.coordinator.testkit.language import Crash
from headway.coordinator.testkit.played import Call
from headway.coordinator.testkit.simulation import Simulation
from headway.coordinator.testkit.stage import Stage, Unplayable
from headway.coordinator.testkit.telling import nth

PYTHON = "headway.python"
_MILLISECOND = timedelta(milliseconds=1)
_AGAIN = timedelta(seconds=1)  # until a worker sends a report again


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """Code that was run for real returned this."""

    output: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """Code that was run for real failed so.

    Attributes:
        final: trying again cannot help.
        timed_out: it took too long.
    """

    type: str
    message: str
    details: Mapping[str, Json]
    final: bool
    timed_out: bool = False
    trace: str = ""


RunPython: TypeAlias = Callable[[Json], Returned | Raised]
"""Runs the code of a `python` node for real, given `{code, input}`."""


@dataclass(slots=True, kw_only=True)
class _Hold:
    """One worker with one attempt."""

    path: str
    name: str  # its address, for people
    attempt: int
    owner: str
    leased_at: datetime
    renewal: timedelta
    result: Result
    generation: int
    is_dead: bool = False

    def renewed_until(self, now: datetime) -> datetime:
        """When it renewed last."""
        return self.leased_at + self.renewal * ((now - self.leased_at) // self.renewal)

    def told(self, until: datetime, tells: Callable[[Heartbeat], bool] = lambda _: True) -> tuple[datetime, int] | None:
        """The latest heartbeat of some kind until then: when it was given, and its place in the mock; None: none."""
        elapsed_ms = (until - self.leased_at) // _MILLISECOND
        given = [
            (self.leased_at + timedelta(milliseconds=after_ms), place)
            for place, heartbeat in enumerate(self.result.heartbeats)
            if tells(heartbeat) and (after_ms := heartbeat.latest(elapsed_ms)) is not None
        ]
        return max(given, default=None)


class Workers:
    """Of one run, whose node of this address asked for it."""

    def __init__(self, stage: Stage, simulation: Simulation, address: str, run_python: RunPython | None) -> None:
        """Wait for work."""
        self._stage = stage
        self._simulation = simulation
        self._address = address
        self._run_python = run_python
        self._holds: dict[str, _Hold] = {}
        self._checkpoints: dict[str, tuple[int, Json]] = {}
        self._earlier: dict[str, int] = {}  # attempts at nodes in earlier runs that the same node asked for
        self._is_stopping = False

    def fire(self, key: TimerKey) -> None:
        """A timer of the run is due."""
        path, kind, attempt = key
        hold = self._holds.get(path) if kind in SILENCES else None
        if hold is not None and hold.attempt == attempt:
            self._renew(hold)
        if self._simulation.fire(key) and hold is not None:
            self._let_go(hold)

    def look(self) -> None:
        """Take what there is to do, and learn that the run stops."""
        simulation = self._simulation
        dispatches, simulation.dispatches = simulation.dispatches, []
        for path, attempt in dispatches:
            self._deliver(path, attempt)
        if simulation.run.is_stopping and not self._is_stopping:
            for hold in self._holds.values():
                self._tell(hold)
        self._is_stopping = simulation.run.is_stopping

    def stop(self, order: StopTask) -> None:
        """A holder is told to stop."""
        if order.path in self._holds:
            self._tell(self._holds[order.path])

    def number_of(self, path: str, attempt: int) -> int:
        """Which attempt at a node this is, earlier runs that the same node asked for included."""
        address = in_run(self._address, path)
        number = self._earlier.setdefault(path, self._stage.tries(address)) + attempt
        self._stage.count(address, number)
        return number

    def outcome(self, path: str, result: Result, given: Json) -> Document | tuple[Failure, bool]:
        """What a mock gives: the output, or the failure and whether it is final. Raises Unplayable."""
        lookup = _lookup_in(given)
        try:
            if result.failure is None:
                return Document.of(render(result.output, lookup))
            mocked = result.failure
            message = Document.of(render(mocked.message, lookup))
            details = {name: render(value, lookup) for name, value in mocked.details.items()}
        except ExpressionError as error:
            place, what = error.place or result.place, in_run(self._address, path)
            raise Unplayable(place, f"the mock of {what} cannot be computed: {error}") from None
        failure = Failure(
            failure_class=mocked.failure_class,
            type=mocked.type,
            message=message.value if isinstance(message.value, str) else message.raw.decode(),
            details=details,
        )
        return failure, mocked.final

    def _renew(self, hold: _Hold) -> None:
        """The latest renewal brought the signs of life that were given before it."""
        if hold.is_dead:
            return
        at = hold.renewed_until(self._simulation.now)
        self._simulation.renew(hold.path, attempt=hold.attempt, owner=hold.owner, at=at)
        told, progress = hold.told(at), hold.told(at, lambda heartbeat: heartbeat.progress)
        if told is not None:
            progress_at = None if progress is None else progress[0]
            self._simulation.beat(hold.path, attempt=hold.attempt, beat_at=told[0], progress_at=progress_at)
        self._keep_checkpoint(hold, at)

    def _keep_checkpoint(self, hold: _Hold, until: datetime) -> None:
        told = hold.told(until, lambda heartbeat: heartbeat.checkpoint is not None)
        checkpoint = None if told is None else hold.result.heartbeats[told[1]].checkpoint
        if checkpoint is not None:
            self._checkpoints[hold.path] = (hold.generation, checkpoint.value)

    def _checkpoint_for(self, row: TaskRow) -> Json:
        generation, checkpoint = self._checkpoints.get(row.path, (row.generation, None))
        return checkpoint if generation == row.generation else None

    def _deliver(self, path: str, attempt: int) -> None:
        """A message for an attempt was written: a worker takes it, at once unless the mock says otherwise."""
        stage, row, name = self._stage, self._simulation.task(path), in_run(self._address, path)
        number = self.number_of(path, attempt)
        result = stage.result_of(name, row.handler, number)
        if result is None:
            is_own = row.handler.startswith(OWN_HANDLERS)
            what, names = (
                ("comes of it", name) if is_own else (f"its handler {row.handler} does", f"{name} or {row.handler}")
            )
            raise Unplayable(stage.case.place, f"{name} ran, and nothing says what {what}", f"add a mock for {names}")
        at = self._simulation.now + timedelta(milliseconds=result.queued_ms)
        crash = stage.case.crashes.get((name, number))
        self._plan(at, Rank.DELIVERY, f"delivery of {name}", lambda: self._take(path, attempt, result, crash))

    def _take(self, path: str, attempt: int, result: Result, crash: Crash | None) -> None:
        simulation, name = self._simulation, in_run(self._address, path)
        owner = f"worker-{len(self._stage.calls) + 1}"
        answer = simulation.lease(path, attempt=attempt, owner=owner, grant_key=owner)
        if answer is not Answer.GRANTED:
            self._note(f"the message for {nth(name, attempt)} is not wanted any more: {answer}")
            return
        self._stage.began.setdefault(name)
        row = simulation.task(path)
        given = self._given(row)
        call = Call(path=name, handler=row.handler, input=given, checkpoint=self._checkpoint_for(row))
        self._stage.calls.append(call)
        hold = _Hold(
            path=path,
            name=name,
            attempt=attempt,
            owner=owner,
            leased_at=simulation.now,
            renewal=timedelta(milliseconds=row.lease_ms) / 3,
            result=result,
            generation=row.generation,
        )
        self._holds[path] = hold
        if crash is Crash.DELIVERED_TWICE:
            again = simulation.lease(path, attempt=attempt, owner="another-worker", grant_key="another-delivery")
            self._note(f"a second worker asks for {nth(name, attempt)}: {again}")
        if row.attempt_expires_at is not None:
            label = f"attempt time-out of {name}"
            self._plan(row.attempt_expires_at, Rank.LEASE_END, label, lambda: self._expire(hold), hold)
        if not result.hangs:
            self._work(hold, row, given, crash)
        if simulation.run.is_stopping:
            self._tell(hold)

    def _work(self, hold: _Hold, row: TaskRow, given: Json, crash: Crash | None) -> None:
        """Plan how the attempt ends."""
        report = self._reporter(hold, row, given)
        at = self._simulation.now + timedelta(milliseconds=hold.result.takes_ms)
        label = f"report of {hold.name}"
        match crash:
            case Crash.WORKER_DIES:
                self._plan(at, Rank.REPORT, f"death of {hold.name}'s worker", lambda: self._die(hold, None), hold)
            case Crash.REPORT_LATE:
                self._plan(at, Rank.REPORT, f"freezing of {hold.name}'s worker", lambda: self._die(hold, report), hold)
            case Crash.REPORT_LOST:
                self._plan(at + _AGAIN, Rank.REPORT, label, report)
            case Crash.REPORT_TWICE:
                self._plan(at, Rank.REPORT, label, report)
                self._plan(at + _AGAIN, Rank.REPORT, f"second report of {hold.name}", report)
            case _:
                self._plan(at, Rank.REPORT, label, report)

    def _reporter(self, hold: _Hold, row: TaskRow, given: Json) -> Callable[[], None]:
        """What the worker reports in the end."""
        is_real = hold.result.real
        outcome = self._run(hold.result, row) if is_real else self.outcome(row.path, hold.result, given)

        def report() -> None:
            simulation = self._simulation
            self._keep_checkpoint(hold, simulation.now)
            if isinstance(outcome, Document):
                answer = simulation.succeed(hold.path, outcome, attempt=hold.attempt, owner=hold.owner)
            else:
                failure, final = outcome
                answer = simulation.fail(hold.path, failure, final=final, attempt=hold.attempt, owner=hold.owner)
            if answer is not Answer.ACCEPTED:
                self._note(f"the report of {nth(hold.name, hold.attempt)} changes nothing: {answer}")
            self._let_go(hold)

        return report

    def _run(self, result: Result, row: TaskRow) -> Document | tuple[Failure, bool]:
        if row.handler != PYTHON:
            message = f"{in_run(self._address, row.path)} is no python node: only their code can be run for real"
            raise Unplayable(result.place, message, "write output: …")
        if self._run_python is None:
            raise Unplayable(result.place, "no code can be run here", "write output: …")
        outcome = self._run_python(self._stored(row))
        if isinstance(outcome, Returned):
            return Document.of(outcome.output)
        failure = Failure(
            failure_class=FailureClass.TIMEOUT if outcome.timed_out else FailureClass.EXEC_FAILED,
            type=outcome.type,
            message=outcome.message,
            trace=outcome.trace,
            details=dict(outcome.details),
        )
        return failure, outcome.final

    def _stored(self, row: TaskRow) -> Json:
        return None if row.input is None else self._simulation.payload(row.input)

    def _given(self, row: TaskRow) -> Json:
        """What a handler is given; of a python node, what `run` is."""
        stored = self._stored(row)
        return stored.get("input") if row.handler == PYTHON and isinstance(stored, dict) else stored

    def _tell(self, hold: _Hold) -> None:
        """The run stops: the holder learns it when it next renews."""
        row = self._simulation.task(hold.path)
        if hold.is_dead or row.state is not TaskState.RUNNING or row.attempt != hold.attempt:
            return
        at = hold.renewed_until(self._simulation.now) + hold.renewal
        self._plan(at, Rank.REPORT, f"stop of {hold.name}", lambda: self._stop(hold), hold)

    def _stop(self, hold: _Hold) -> None:
        self._simulation.stopped(hold.path, attempt=hold.attempt, owner=hold.owner)
        self._let_go(hold)

    def _die(self, hold: _Hold, late_report: Callable[[], None] | None) -> None:
        """The worker renews no more; what it would report comes, if at all, after its lease was lost."""
        simulation = self._simulation
        row = simulation.task(hold.path)
        if row.state is not TaskState.RUNNING or row.attempt != hold.attempt:
            return
        self._renew(hold)
        hold.is_dead = True
        self._note(f"the worker of {nth(hold.name, hold.attempt)} is silent from now on")
        ends_at = row.lease_expires_at or simulation.now
        self._plan(ends_at, Rank.LEASE_END, f"lost lease of {hold.name}", lambda: self._expire(hold), hold)
        if late_report is not None:
            self._plan(ends_at + _AGAIN, Rank.REPORT, f"late report of {hold.name}", late_report)

    def _expire(self, hold: _Hold) -> None:
        self._renew(hold)
        if self._simulation.expire(hold.path, attempt=hold.attempt):
            self._let_go(hold)

    def _let_go(self, hold: _Hold) -> None:
        if self._holds.get(hold.path) is hold:
            del self._holds[hold.path]
            self._stage.let_go(hold.owner)

    def _plan(self, at: datetime, rank: Rank, label: str, do: Callable[[], None], hold: _Hold | None = None) -> None:
        """Let something happen; with `hold`: unless the attempt is over by then."""
        self._stage.plan(at, rank, label, do, "" if hold is None else hold.owner)

    def _note(self, text: str) -> None:
        self._stage.note(self._address, self._simulation.graph.plan.workflow, text)


def _lookup_in(given: Json) -> Lookup:
    def lookup(path: VariablePath) -> Json:
        return descend(given, path, 1)

    return lookup
