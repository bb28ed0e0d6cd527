"""A run in memory, over the pure core: every row is at hand, and time stands still until somebody moves it.

The calls answer as the coordinator would. What a real coordinator keeps apart from history (leases) is written here as
`store` writes it; everything else comes from `decide`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from headway.coordinator.core.actions import Action
from headway.coordinator.core.admission import (
    Answer,
    RunGate,
    child_applies,
    earliest,
    lease_answer,
    lease_has_expired,
    look_again_at,
    renew_answer,
    report_answer,
    stop_applies,
    timer_applies,
)
from headway.coordinator.core.decide import Need, decide
from headway.coordinator.core.document import Document
from headway.coordinator.core.events import (
    ChildFinished,
    Failure,
    LeaseExpired,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodeSkipped,
    RunCancelled,
    RunEvent,
    RunPaused,
    RunResumed,
    RunRetried,
    RunStarted,
    SignalReceived,
    TimerFired,
)
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.handovers import CancelChild, ChildEnded, StartChild, read
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import RunClosed, RunNotFinished, RunStopping
from headway.coordinator.core.refusals import RunPaused as PausedOtherwise
from headway.coordinator.core.rows import BeatRow, ChildRow, Parent, PayloadKey, RunRow, TaskRow, TokenRow
from headway.coordinator.core.state import Draft, State, TimerKey
from headway.coordinator.zones import instant_of

START = datetime(2030, 1, 1, tzinfo=UTC)


class EngineBroken(Exception):
    """The core did what it may never do: {problem}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What happened, and what it caused: a row of the run's history."""

    seq: int
    at: datetime
    event: RunEvent
    actions: tuple[Action, ...]


def _no_chance() -> float:
    return 0.0


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What runs share that know each other.

    Attributes:
        now: the virtual clock.
        chance: gives numbers from [0, 1), for jitter.
        runs: how many ids of runs were given out.
    """

    now: datetime = START
    chance: Callable[[], float] = field(default=_no_chance)
    runs: int = 0

    def run_id(self) -> str:
        """An id that no other run has."""
        self.runs += 1
        return f"{self.runs:032x}"


class Simulation:
    """One run from its start.

    Attributes:
        run_id: in hexadecimal digits.
        timers: what is set, and when it is due.
        dispatches: attempts for which a message was written, oldest first; whoever delivers one takes it out.
        handovers: what it tells other runs, each by its id, oldest first; likewise.
        history: oldest first.
    """

    def __init__(self, graph: Graph, surroundings: Surroundings | None = None, run_id: str = "") -> None:
        """Begin before the run's start.

        Args:
            graph: of the workflow.
            surroundings: what it shares with other runs; None: it is the only one.
            run_id: empty: a new one.
        """
        self.graph = graph
        self._surroundings = surroundings or Surroundings()
        self.run_id = run_id or self._surroundings.run_id()
        self.timers: dict[TimerKey, datetime] = {}
        self.dispatches: list[tuple[str, int]] = []
        self.handovers: list[tuple[str, StartChild | CancelChild | ChildEnded]] = []
        self.history: list[Entry] = []
        self._state = State(graph=graph, run_id=self.run_id, complete=True)

    # --- looking

    @property
    def now(self) -> datetime:
        """The virtual clock."""
        return self._surroundings.now

    @property
    def run(self) -> RunRow:
        """The run's row. Raises LookupError before its start."""
        if self._state.run is None:
            raise LookupError("the run has not started")
        return self._state.run

    @property
    def tasks(self) -> dict[str, TaskRow]:
        """The tasks' rows, in the order in which they were reached."""
        return {path: row for path, row in self._state.tasks.items() if row is not None}

    @property
    def tokens(self) -> dict[str, TokenRow]:
        """What the edges into nodes carry that have several."""
        return {path: row for path, row in self._state.tokens.items() if row is not None}

    def task(self, path: str) -> TaskRow:
        """A task's row. Raises LookupError when it was not reached."""
        row = self._state.tasks.get(path)
        if row is None:
            raise LookupError(path)
        return row

    def payload(self, key: PayloadKey) -> Json:
        """A stored payload."""
        return self._state.payloads[key].value

    def waits_for(self, path: str, attempt: int) -> ChildRow | None:
        """The run that an attempt of a subflow node waits for; None: none."""
        child = self._state.children.get(path)
        return child if child is not None and child.is_open and child.attempt == attempt else None

    # --- what users do

    def start(
        self,
        given: Document,
        *,
        labels: Mapping[str, str] | None = None,
        parent: Parent | None = None,
        deadline_at: datetime | None = None,
        is_cancelled: bool = False,
    ) -> None:
        """Start the run. Of a child: as events.RunStarted has it."""
        self._submit(
            RunStarted(
                at=self.now,
                chance=self._chance(),
                namespace="default",
                workflow=self.graph.plan.workflow,
                version=1,
                key=None,
                trace="",
                input=given,
                labels=labels or {},
                parent=parent,
                deadline_at=deadline_at,
                is_cancelled=is_cancelled,
            )
        )

    def signal(self, name: str, payload: Document) -> None:
        """Send a signal. Raises Refusal."""
        self._submit(SignalReceived(at=self._time(), chance=self._chance(), name=name, payload=payload))

    def cancel(self, *, grace_ms: int) -> None:
        """Cancel the run. Raises Refusal."""
        self._submit(RunCancelled(at=self._time(), chance=self._chance(), reason="", grace_ms=grace_ms))

    def pause(self, *, stop_clock: bool) -> None:
        """Pause the run; one that is paused so stays as it is. Raises Refusal."""
        run = self.run
        self._refuse_final("pause")
        if run.is_stopping:
            raise RunStopping(run_id=self.run_id)
        if not run.is_paused:
            self._submit(RunPaused(at=self._time(), chance=self._chance(), reason="", stop_clock=stop_clock))
        elif run.steering.clock_stopped != stop_clock:
            raise PausedOtherwise(run_id=self.run_id, clock="stopped" if run.steering.clock_stopped else "running")

    def resume(self) -> None:
        """Resume the run; one that is not paused stays as it is. Raises Refusal."""
        self._refuse_final("resume")
        if self.run.is_paused:
            self._submit(RunResumed(at=self._time(), chance=self._chance()))

    def skip(self, path: str, output: Document) -> None:
        """Give a node its output by hand. Raises Refusal."""
        self._submit(NodeSkipped(at=self._time(), chance=self._chance(), path=path, reason="", output=output))

    def retry(self, chosen: tuple[str, ...], *, render_inputs: bool) -> None:
        """Reopen the run from nodes; none: from all that failed. Raises Refusal."""
        if not self.run.is_final:
            raise RunNotFinished(run_id=self.run_id, state=self.run.state)
        self._submit(RunRetried(at=self._time(), chance=self._chance(), chosen=chosen, render_inputs=render_inputs))

    def _refuse_final(self, request: str) -> None:
        if self.run.is_final:
            raise RunClosed(run_id=self.run_id, state=self.run.state, request=request)

    # --- what other runs do

    def stop(self, order: CancelChild) -> None:
        """Its parent stops it, unless it is over for that, or was taken up since."""
        if stop_applies(self.run, order.parent):
            self._submit(
                RunCancelled(
                    at=self._time(),
                    chance=self._chance(),
                    reason=order.reason,
                    grace_ms=order.grace_ms,
                    compensate=order.compensate,
                    parent=order.parent,
                )
            )

    def take_up(self, order: StartChild) -> None:
        """Its parent goes on, and it goes on with it, or tells its end again."""
        if self.run.parent != order.parent:
            self._submit(
                RunRetried(at=self._time(), chance=self._chance(), parent=order.parent, deadline_at=order.deadline_at)
            )

    def end_child(self, end: ChildEnded) -> bool:
        """Learn of the end of the run that a subflow node asked for. False: nobody waits for it."""
        event = ChildFinished(
            at=self._time(),
            chance=self._chance(),
            path=end.path,
            attempt=end.attempt,
            child=end.child,
            state=end.state,
            error=end.error,
            output=Document(raw) if (raw := bytes(end.output)) else None,
        )
        if not child_applies(self.run, self._state.tasks.get(end.path), self._state.children.get(end.path), event):
            return False
        self._submit(event)
        return True

    # --- timers

    def fire(self, key: TimerKey) -> bool:
        """Tell of a timer that is due. False: it means nothing any more, and is gone."""
        path, kind, attempt = key
        event = TimerFired(at=self._time(), chance=self._chance(), path=path, kind=kind, attempt=attempt)
        draft = Draft(self._state)
        if not timer_applies(draft.run, draft.task(path) if path else None, event):
            del self.timers[key]
            return False
        again_at = look_again_at(draft, self.task(path), event) if path else None
        if again_at is not None:
            self.timers[key] = again_at
            return False
        self._submit(event)
        return True

    # --- workers

    def lease(self, path: str, *, attempt: int, owner: str, grant_key: str) -> Answer:
        """Ask for an attempt."""
        row = self.task(path)
        answer = lease_answer(self._gate(), row, attempt=attempt, owner=owner, grant_key=grant_key)
        if answer is Answer.GRANTED and row.state is TaskState.READY:
            timeout = row.attempt_timeout_ms
            ends_at = None if timeout is None else self.now + timedelta(milliseconds=timeout)
            row.state, row.sweep_at = TaskState.RUNNING, None
            row.owner = owner
            row.grant_key, row.leased_at, row.attempt_expires_at = grant_key, self.now, ends_at
            row.lease_expires_at = earliest(self.now + timedelta(milliseconds=row.lease_ms), ends_at)
            row.started_at = row.started_at or self.now
        return answer

    def renew(self, path: str, *, attempt: int, owner: str, at: datetime) -> Answer:
        """Ask for more time, at some instant not after now."""
        row = self.task(path)
        answer = renew_answer(self._gate(), row, attempt=attempt, owner=owner)
        wanted = earliest(at + timedelta(milliseconds=row.lease_ms), row.attempt_expires_at)
        if answer is Answer.RENEWED and wanted is not None:
            row.lease_expires_at = max(wanted, row.lease_expires_at or wanted)
        return answer

    def beat(self, path: str, *, attempt: int, beat_at: datetime, progress_at: datetime | None) -> None:
        """A renewal brought an attempt's latest signs of life."""
        self._state.beats[path] = BeatRow(attempt, beat_at, progress_at)

    def succeed(self, path: str, output: Document, *, attempt: int, owner: str) -> Answer:
        """Report that the handler returned."""
        event = NodeCompleted(
            at=self._time(), chance=self._chance(), path=path, attempt=attempt, owner=owner, output=output
        )
        return self._report(event)

    def fail(self, path: str, failure: Failure, *, final: bool, attempt: int, owner: str) -> Answer:
        """Report that the handler failed."""
        event = NodeFailed(
            at=self._time(),
            chance=self._chance(),
            path=path,
            attempt=attempt,
            owner=owner,
            failure=failure,
            final=final,
        )
        return self._report(event)

    def stopped(self, path: str, *, attempt: int, owner: str) -> Answer:
        """Report that the handler was stopped."""
        return self._report(
            NodeCancelled(at=self._time(), chance=self._chance(), path=path, attempt=attempt, owner=owner)
        )

    def expire(self, path: str, *, attempt: int) -> bool:
        """Be the reaper. False: that lease has not expired, or is not there any more."""
        event = LeaseExpired(at=self._time(), chance=self._chance(), path=path, attempt=attempt)
        if not lease_has_expired(self.task(path), event):
            return False
        self._submit(event)
        return True

    def _report(self, event: NodeCompleted | NodeFailed | NodeCancelled) -> Answer:
        draft = Draft(self._state)
        task = self.task(event.path)
        left = draft.attempt(event.path, event.attempt) if event.attempt < task.attempt else None
        answer = report_answer(draft.run, task, left, attempt=event.attempt, owner=event.owner)
        if answer is Answer.ACCEPTED:
            self._submit(event)
        return answer

    def _gate(self) -> RunGate:
        run = self.run
        return RunGate(
            is_final=run.is_final, is_stopping=run.is_stopping, is_failing=run.failing, is_paused=run.is_paused
        )

    # --- one decision

    def _chance(self) -> float:
        return self._surroundings.chance()

    def _time(self) -> datetime:
        return max(self.now, self.run.last_event_at)

    def _submit(self, event: RunEvent) -> None:
        """Decide an event and keep what comes of it. Raises Refusal."""
        verdict = decide(self._state, event)
        while isinstance(verdict, Need) and all(key[0] in ("instant", "child_id") for key in verdict.keys):
            for key in verdict.keys:
                if key[0] == "child_id":
                    path, attempt = str(key[1]), int(key[-1])
                    self._state.child_ids[path, attempt] = self._surroundings.run_id()
                else:
                    local, zone = str(key[1]), str(key[-1])
                    self._state.instants[local, zone] = instant_of(local, zone)
            verdict = decide(self._state, event)
        if isinstance(verdict, Need):
            raise EngineBroken(f"every row is here, and it asks for {sorted(verdict.keys, key=str)}")
        changes = verdict.changes
        self._state.absorb(changes)
        if changes.all_timers_gone:
            self.timers.clear()
        for key, due_at in changes.timers.items():
            if due_at is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = due_at
        self.dispatches.extend(changes.dispatches)
        self.handovers.extend((to, read(kind, body.raw)) for to, kind, body in changes.handovers)
        self.history.append(
            Entry(seq=self.run.seq, at=event.at, event=event, actions=tuple(verdict.actions)),
        )
