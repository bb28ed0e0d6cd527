"""Plays one case: workers that do as the mocks say, a clock that jumps to what is due next, and what breaks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import TypeAlias

from headway.coordinator.core.actions import AwaitTask, CompleteTask, FailTask, OpenChild, StopChild, StopTask
from headway.coordinator.core.admission import SILENCES, Answer
from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.document import Document
from headway.coordinator.core.events import Failure
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.plan import FailureClass, Json, Place, VariablePath
from headway.coordinator.core.refusals import Refusal
from headway.coordinator.core.rows import STARTED, TaskRow
from headway.coordinator.core.schemas import misfits
from headway.coordinator.core.state import TimerKey
from headway.coordinator.core.templates import Lookup, descend, render
from headway.coordinator.testkit.agenda import Chooser, Item, Rank
from headway.coordinator.testkit.bodies import place_of
from headway.coordinator.testkit.cases import Act, Case, Heartbeat, Mock, Result
from headway.coordinator.testkit.language import Crash, Refused
from headway.coordinator.testkit.played import Call, Note, Played, Trouble
from headway.coordinator.testkit.simulation import Simulation
from headway.coordinator.testkit.telling import TIMERS, nth

PYTHON = "headway.python"
MOST_STEPS = 20_000  # far more than any workflow of the allowed size takes
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


class _Unplayable(Exception):
    """The case cannot be played on."""

    def __init__(self, place: Place, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.trouble = Trouble(message=message, remedy=remedy, line=place.line, column=place.column)


def play(case: Case, graph: Graph, chooser: Chooser, run_python: RunPython | None = None) -> Played:
    """Play a case to its end.

    Args:
        case: to play.
        graph: of its workflow.
        chooser: of what goes first.
        run_python: runs the code of `python` nodes whose mock is `real`; None: it cannot be run here.
    """
    problems = misfits(graph.plan.input_schema, case.input.value)
    if problems:
        path, problem = problems[0]
        return Played(simulation=None, started_at=case.starts_at, refusal=f"{path}: {problem}")
    return _Player(case, graph, chooser, run_python).play()


class _Player:
    """Plays one run."""

    def __init__(self, case: Case, graph: Graph, chooser: Chooser, run_python: RunPython | None) -> None:
        chance = Random(case.seed).random if case.seed is not None else lambda: 0.0  # noqa: S311 - seeded: no secret
        self._case = case
        self._graph = graph
        self._chooser = chooser
        self._run_python = run_python
        self._simulation = Simulation(graph, now=case.starts_at, chance=chance)
        self._planned: list[Item] = []
        self._number = 0
        self._seen = 0  # entries of the history that were looked at
        self._began: list[str] = []
        self._calls: list[Call] = []
        self._notes: list[Note] = []
        self._holds: dict[str, _Hold] = {}
        self._checkpoints: dict[str, tuple[int, Json]] = {}
        self._is_stopping = False

    def play(self) -> Played:
        troubles: list[Trouble] = []
        try:
            self._simulation.start(self._case.input)
            for act in self._case.acts:
                at = self._case.starts_at + timedelta(milliseconds=act.after_ms)
                self._plan(at, Rank.ACT, act.label, lambda act=act: self._act(act))
            self._look()
            self._go_on()
        except _Unplayable as unplayable:
            troubles.append(unplayable.trouble)
        return Played(
            simulation=self._simulation,
            started_at=self._case.starts_at,
            began=tuple(self._began),
            calls=tuple(self._calls),
            notes=tuple(self._notes),
            choices=tuple(self._chooser.made),
            troubles=tuple(troubles),
        )

    # --- time

    def _go_on(self) -> None:
        simulation, until_ms = self._simulation, self._case.until_ms
        until = None if until_ms is None else self._case.starts_at + timedelta(milliseconds=until_ms)
        for _ in range(MOST_STEPS):
            upcoming = [*self._planned, *self._timers()]
            if not upcoming:
                return
            at = max(simulation.now, min(item.at for item in upcoming))
            if until is not None and at > until:
                simulation.now = until
                return
            item = self._chooser.choose([item for item in upcoming if item.at <= at])
            if item in self._planned:
                self._planned.remove(item)
            simulation.now = at
            item.do()
            self._look()
        raise _Unplayable(self._case.place, f"after {MOST_STEPS} steps it is still not over")

    def _timers(self) -> list[Item]:
        return [
            Item(
                at=due_at,
                rank=Rank.TIMER,
                number=place,
                label=TIMERS.get(kind, kind) + (f" of {path}" if path else ""),
                do=lambda key=(path, kind, attempt): self._fire(key),
            )
            for place, ((path, kind, attempt), due_at) in enumerate(sorted(self._simulation.timers.items()))
        ]

    def _fire(self, key: TimerKey) -> None:
        path, kind, attempt = key
        hold = self._holds.get(path) if kind in SILENCES else None
        if hold is not None and hold.attempt == attempt:
            self._renew(hold)
        if self._simulation.fire(key) and hold is not None:
            self._let_go(hold)

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

    def _plan(self, at: datetime, rank: Rank, label: str, do: Callable[[], None], hold: _Hold | None = None) -> None:
        """Let something happen; with `hold`: unless the attempt is over by then."""
        self._number += 1
        owner = "" if hold is None else hold.owner
        self._planned.append(Item(at=at, rank=rank, number=self._number, label=label, do=do, owner=owner))

    def _note(self, text: str) -> None:
        self._notes.append(Note(seq=self._simulation.run.seq, at=self._simulation.now, text=text))

    def _look(self) -> None:
        """Take up what the latest events have caused."""
        simulation = self._simulation
        for entry in simulation.history[self._seen :]:
            for action in entry.actions:
                if isinstance(action, AwaitTask | CompleteTask | FailTask):
                    self._begin(action.path)
                elif isinstance(action, OpenChild):
                    self._start_child(action)
                elif isinstance(action, StopChild):
                    self._plan(
                        simulation.now, Rank.REPORT, f"end of {action.path}", partial(self._stop_child, action.path)
                    )
                elif isinstance(action, StopTask) and action.path in self._holds:
                    self._tell(self._holds[action.path])
        self._seen = len(simulation.history)
        dispatches, simulation.dispatches = simulation.dispatches, []
        for path, attempt in dispatches:
            self._deliver(path, attempt)
        if simulation.run.is_stopping and not self._is_stopping:
            for hold in self._holds.values():
                self._tell(hold)
        self._is_stopping = simulation.run.is_stopping

    def _begin(self, path: str) -> None:
        if path not in self._began:
            self._began.append(path)

    # --- users

    def _act(self, act: Act) -> None:
        what = f"the {act.label}"
        try:
            act.do(self._simulation)
        except Refusal as refusal:
            self._note(f"{what} is refused: {refusal.reason}")
            if act.refused is Refused.NEVER:
                remedy = "if it should be, say so: refused: must, or may"
                raise _Unplayable(act.place, f"{what} was refused: {refusal}", remedy) from None
        else:
            if act.refused is Refused.MUST:
                raise _Unplayable(act.place, f"{what} should have been refused, and was taken")

    # --- runs of subflow nodes

    def _start_child(self, opened: OpenChild) -> None:
        """A subflow node asks for a run: it ends as its mock says."""
        row = self._simulation.task(opened.path)
        result = self._result(row, opened.attempt)
        given = self._given(row)
        self._calls.append(Call(path=opened.path, handler=opened.workflow, attempt=opened.attempt, input=given))
        if not result.hangs or opened.detached:
            at = self._simulation.now + timedelta(milliseconds=0 if opened.detached else result.takes_ms)
            end = partial(self._end_child, opened, self._outcome(result, row, given))
            self._plan(at, Rank.REPORT, f"end of {opened.path}", end)

    def _end_child(self, opened: OpenChild, outcome: Document | tuple[Failure, bool]) -> None:
        if self._simulation.task(opened.path).attempt != opened.attempt:
            return
        if opened.detached:
            self._simulation.end_child(opened.path, STARTED)
        elif isinstance(outcome, Document):
            self._simulation.end_child(opened.path, RunState.SUCCEEDED, output=outcome)
        else:
            failure, _ = outcome
            error: dict[str, Json] = {
                "failure_class": failure.failure_class,
                "message": f"{failure.type}: {failure.message}",
                "paths": [],
            }
            self._simulation.end_child(opened.path, RunState.FAILED, error=error)

    def _stop_child(self, path: str) -> None:
        self._simulation.end_child(path, RunState.CANCELLED)

    # --- workers

    def _deliver(self, path: str, attempt: int) -> None:
        """A message for an attempt was written: a worker takes it, at once unless the mock says otherwise."""
        row = self._simulation.task(path)
        result = self._result(row, attempt)
        at = self._simulation.now + timedelta(milliseconds=result.queued_ms)
        self._plan(at, Rank.DELIVERY, f"delivery of {path}", lambda: self._take(path, attempt, result))

    def _result(self, row: TaskRow, attempt: int) -> Result:
        mock = _mock_of(self._case, row)
        if mock is None:
            is_named = row.handler and not row.handler.startswith("headway.")
            names = f"{row.path} or {row.handler}" if is_named else row.path
            what = f"its handler {row.handler} does" if row.handler else "its run gives"
            message = f"{row.path} ran, and nothing says what {what}"
            raise _Unplayable(self._case.place, message, f"add a mock for {names}")
        return mock[min(attempt, len(mock)) - 1]

    def _take(self, path: str, attempt: int, result: Result) -> None:
        simulation = self._simulation
        owner = f"worker-{len(self._calls) + 1}"
        answer = simulation.lease(path, attempt=attempt, owner=owner, grant_key=owner)
        if answer is not Answer.GRANTED:
            self._note(f"the message for {nth(path, attempt)} is not wanted any more: {answer}")
            return
        self._begin(path)
        row = simulation.task(path)
        given = self._given(row)
        checkpoint = self._checkpoint_for(row)
        self._calls.append(Call(path=path, handler=row.handler, attempt=attempt, input=given, checkpoint=checkpoint))
        hold = _Hold(
            path=path,
            attempt=attempt,
            owner=owner,
            leased_at=simulation.now,
            renewal=timedelta(milliseconds=row.lease_ms) / 3,
            result=result,
            generation=row.generation,
        )
        self._holds[path] = hold
        crash = self._case.crashes.get((path, attempt))
        if crash is Crash.DELIVERED_TWICE:
            again = simulation.lease(path, attempt=attempt, owner="another-worker", grant_key="another-delivery")
            self._note(f"a second worker asks for {nth(path, attempt)}: {again}")
        if row.attempt_expires_at is not None:
            label = f"attempt time-out of {path}"
            self._plan(row.attempt_expires_at, Rank.LEASE_END, label, lambda: self._expire(hold), hold)
        if not result.hangs:
            self._work(hold, row, given, crash)
        if simulation.run.is_stopping:
            self._tell(hold)

    def _work(self, hold: _Hold, row: TaskRow, given: Json, crash: Crash | None) -> None:
        """Plan how the attempt ends."""
        report = self._reporter(hold, row, given)
        at = self._simulation.now + timedelta(milliseconds=hold.result.takes_ms)
        label = f"report of {hold.path}"
        match crash:
            case Crash.WORKER_DIES:
                self._plan(at, Rank.REPORT, f"death of {hold.path}'s worker", lambda: self._die(hold, None), hold)
            case Crash.REPORT_LATE:
                self._plan(at, Rank.REPORT, f"freezing of {hold.path}'s worker", lambda: self._die(hold, report), hold)
            case Crash.REPORT_LOST:
                self._plan(at + _AGAIN, Rank.REPORT, label, report)
            case Crash.REPORT_TWICE:
                self._plan(at, Rank.REPORT, label, report)
                self._plan(at + _AGAIN, Rank.REPORT, f"second report of {hold.path}", report)
            case _:
                self._plan(at, Rank.REPORT, label, report)

    def _reporter(self, hold: _Hold, row: TaskRow, given: Json) -> Callable[[], None]:
        """What the worker reports in the end."""
        outcome = self._outcome(hold.result, row, given)

        def report() -> None:
            simulation = self._simulation
            self._keep_checkpoint(hold, simulation.now)
            if isinstance(outcome, Document):
                answer = simulation.succeed(hold.path, outcome, attempt=hold.attempt, owner=hold.owner)
            else:
                failure, final = outcome
                answer = simulation.fail(hold.path, failure, final=final, attempt=hold.attempt, owner=hold.owner)
            if answer is not Answer.ACCEPTED:
                self._note(f"the report of {nth(hold.path, hold.attempt)} changes nothing: {answer}")
            self._let_go(hold)

        return report

    def _outcome(self, result: Result, row: TaskRow, given: Json) -> Document | tuple[Failure, bool]:
        """The output, or the failure and whether it is final."""
        try:
            if result.real:
                return self._run(result, row)
            lookup = _lookup_in(given)
            if result.failure is None:
                return Document.of(render(result.output, lookup))
            mocked = result.failure
            message = Document.of(render(mocked.message, lookup))
            details = {name: render(value, lookup) for name, value in mocked.details.items()}
        except ExpressionError as error:
            raise _Unplayable(
                error.place or result.place, f"the mock of {row.path} cannot be computed: {error}"
            ) from None
        failure = Failure(
            failure_class=mocked.failure_class,
            type=mocked.type,
            message=message.value if isinstance(message.value, str) else message.raw.decode(),
            details=details,
        )
        return failure, mocked.final

    def _run(self, result: Result, row: TaskRow) -> Document | tuple[Failure, bool]:
        if row.handler != PYTHON:
            message = f"{row.path} is no python node: only their code can be run for real"
            raise _Unplayable(result.place, message, "write output: …")
        if self._run_python is None:
            raise _Unplayable(result.place, "no code can be run here", "write output: …")
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
        self._plan(at, Rank.REPORT, f"stop of {hold.path}", lambda: self._stop(hold), hold)

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
        self._note(f"the worker of {nth(hold.path, hold.attempt)} is silent from now on")
        ends_at = row.lease_expires_at or simulation.now
        self._plan(ends_at, Rank.LEASE_END, f"lost lease of {hold.path}", lambda: self._expire(hold), hold)
        if late_report is not None:
            self._plan(ends_at + _AGAIN, Rank.REPORT, f"late report of {hold.path}", late_report)

    def _expire(self, hold: _Hold) -> None:
        self._renew(hold)
        if self._simulation.expire(hold.path, attempt=hold.attempt):
            self._let_go(hold)

    def _let_go(self, hold: _Hold) -> None:
        if self._holds.get(hold.path) is hold:
            del self._holds[hold.path]
            self._planned = [item for item in self._planned if item.owner != hold.owner]


def _mock_of(case: Case, row: TaskRow) -> Mock | None:
    """The mock of a task: the case's own before the file's; by its path, place, node or handler."""
    place = place_of(row.path)
    names = (row.path, place, place.rpartition(".")[2], row.handler)
    return next((mocks[name] for mocks in case.mocks for name in names if name in mocks), None)


def _lookup_in(given: Json) -> Lookup:
    def lookup(path: VariablePath) -> Json:
        return descend(given, path, 1)

    return lookup


__all__ = ["Raised", "Returned", "RunPython", "play"]
