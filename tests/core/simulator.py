"""A run in memory: the shell around the pure core, its workers, its timers and its clock, over the tables of `tables`.

`World` gives a decision only what it asks for, as the real shell does. The plays (`lease`, `report`, `fire`, …) answer
as the coordinator would; what may not happen raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headway.coordinator.core import actions as do
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
    timer_applies,
)
from headway.coordinator.core.decide import Decision, Need, decide, wants
from headway.coordinator.core.decide.redo_plan import RedoPlan, plan_redo
from headway.coordinator.core.document import EMPTY, Document
from headway.coordinator.core.events import (
    ChildFinished,
    Failure,
    LeaseExpired,
    LeaseReleased,
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
from headway.coordinator.core.labels import labels_of
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.missing import Key, Missing
from headway.coordinator.core.plan import FailureClass, Json
from headway.coordinator.core.records import encode_actions, encode_event
from headway.coordinator.core.refusals import RunNotFinished
from headway.coordinator.core.rows import (
    BeatRow,
    RunRow,
    TaskRow,
)
from headway.coordinator.core.state import Draft, State, TimerKey
from tests.core.tables import Tables, copied

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
RUN_ID = "00000000000000000000000000000001"
MOST_QUESTIONS = 100  # rounds of Need in one decision: far more than any graph here can cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of `run_events`, with the objects that it was made of."""

    seq: int
    at: datetime
    event: RunEvent
    given: tuple[do.Action, ...]
    actions: bytes
    encoded_event: bytes


class World:
    """One run, from its start to its end and over again.

    Attributes:
        questions: how often the latest decision asked for more rows.
        looked_up: how many rows the latest decision looked for, wanted or asked for. loaded: by which keys.
        share: the next event is decided in the same transaction as the one before: on the rows already loaded.
        thorough: compare each decision with one that had every row, and look that its input was left alone.
    """

    def __init__(self, graph: Graph, *, thorough: bool = True) -> None:
        self.graph = graph
        self.now = EPOCH
        self.db = Tables()
        self.history: list[Entry] = []
        self.dispatches: list[tuple[str, int]] = []
        self.handovers: list[tuple[str, str, Document]] = []
        self.chance = 0.0
        self.questions = 0
        self.looked_up = 0
        self.loaded: set[Key] = set()
        self.share = False
        self.thorough = thorough
        self.watchers: list[Callable[[World], None]] = []
        self._held: State | None = None
        self._grants = 0

    # --- looking

    @property
    def run(self) -> RunRow:
        """The run's row."""
        assert self.db.run is not None
        return self.db.run

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        return self.run.state

    def task(self, path: str) -> TaskRow:
        """A task's row."""
        return self.db.tasks[path]

    def states(self) -> dict[str, str]:
        """Where each task stands."""
        return {path: str(row.state) for path, row in sorted(self.db.tasks.items())}

    def ready(self) -> list[str]:
        """Tasks that a worker could lease."""
        return self._in_state(TaskState.READY)

    def running(self) -> list[str]:
        """Tasks that a worker holds."""
        return self._in_state(TaskState.RUNNING)

    def waiting(self) -> list[str]:
        """Wait nodes that wait."""
        return self._in_state(TaskState.WAITING)

    def _in_state(self, state: TaskState) -> list[str]:
        return sorted(path for path, row in self.db.tasks.items() if row.state is state)

    def output(self, path: str) -> Json:
        """What a task that succeeded gave out."""
        attempt = self.task(path).output_attempt
        assert attempt is not None
        return self.db.payloads[path, attempt, "output"].value

    def input(self, path: str) -> Json:
        """What a task is given."""
        key = self.task(path).input
        assert key is not None
        return self.db.payloads[key].value

    def actions(self, kind: type | None = None) -> list[do.Action]:
        """What the latest event caused."""
        return [action for action in self.history[-1].given if kind is None or isinstance(action, kind)]

    # --- time

    def advance(self, **amount: float) -> None:
        """Let time pass, as `timedelta` spells it; nothing happens by itself."""
        self.now += timedelta(**amount)

    # --- the run's events

    def start(self, given: Json = None, *, deadline_at: datetime | None = None) -> World:
        """Start the run. `deadline_at`: of its parent."""
        document = EMPTY if given is None else Document.of(given)
        self._submit(
            RunStarted(
                at=self.now,
                chance=self.chance,
                namespace="default",
                workflow=self.graph.plan.workflow,
                version=1,
                key=None,
                trace="",
                input=document,
                labels=labels_of(self.graph.plan.labels, {}, document),
                deadline_at=deadline_at,
            )
        )
        return self

    def signal(self, name: str, payload: Json = None, *, ttl_ms: int | None = None) -> None:
        """Send a signal. Raises RunClosed."""
        self._submit(
            SignalReceived(
                at=self._event_time(), chance=self.chance, name=name, payload=Document.of(payload), ttl_ms=ttl_ms
            )
        )

    def cancel(self, *, grace_ms: int = 30_000, reason: str = "", compensate: bool = True) -> None:
        """Cancel the run. Raises RunClosed."""
        at = self._event_time()
        self._submit(RunCancelled(at=at, chance=self.chance, reason=reason, grace_ms=grace_ms, compensate=compensate))

    def pause(self, *, stop_clock: bool = False, reason: str = "") -> None:
        """Pause the run, which is neither paused nor stopping nor over."""
        self._submit(RunPaused(at=self._event_time(), chance=self.chance, reason=reason, stop_clock=stop_clock))

    def resume(self) -> None:
        """Resume the run, which is paused."""
        self._submit(RunResumed(at=self._event_time(), chance=self.chance))

    def skip(self, path: str, output: Json = None, *, reason: str = "") -> None:
        """Give a node its output. Raises Refusal."""
        document = Document.of(output)
        self._submit(NodeSkipped(at=self._event_time(), chance=self.chance, path=path, reason=reason, output=document))

    def retry(self, *chosen: str, render_inputs: bool = False) -> do.ReopenRun:
        """Retry the finished run. Raises Refusal."""
        if not self.run.is_final:
            raise RunNotFinished(run_id=RUN_ID, state=self.run.state)
        self._submit(RunRetried(at=self._event_time(), chance=self.chance, chosen=chosen, render_inputs=render_inputs))
        (opened,) = self.actions(do.ReopenRun)
        assert isinstance(opened, do.ReopenRun)
        return opened

    def dry_run(self, *chosen: str) -> RedoPlan:
        """What a retry would do. Raises Refusal."""
        state = self._fresh_state()
        while True:
            try:
                return plan_redo(Draft(state), self.graph, chosen)
            except Missing as missing:
                self._load(state, missing.keys)

    def child(
        self,
        path: str,
        state: str,
        output: Json = None,
        *,
        error: dict[str, Json] | None = None,
        attempt: int | None = None,
        child: str | None = None,
    ) -> bool:
        """Tell of the end of the run that a subflow node asked for. False: nobody waits for it."""
        row = self.db.children.get(path)
        event = ChildFinished(
            at=self._event_time(),
            chance=self.chance,
            path=path,
            attempt=(1 if row is None else row.attempt) if attempt is None else attempt,
            child=child or ("" if row is None else row.child),
            state=state,
            error=error,
            output=Document.of(output) if state == "succeeded" else None,
        )

        def judge(draft: Draft) -> object | None:
            return None if child_applies(draft.run, draft.task(path), draft.child(path), event) else False

        return self._submit(event, judge) is None

    # --- timers

    def due(self) -> list[TimerKey]:
        """Timers that are due, earliest first."""
        return sorted((key for key, at in self.db.timers.items() if at <= self.now), key=self._due_order)

    def fire(self, key: TimerKey) -> bool:
        """Tell of a timer. False: it is gone, not due, or means nothing any more."""
        path, kind, attempt = key
        at = self.db.timers.get(key)
        if at is None or at > self.now:
            return False
        event = TimerFired(at=self._event_time(), chance=self.chance, path=path, kind=kind, attempt=attempt)

        def judge(draft: Draft) -> object | None:
            task = draft.task(path) if path else None
            if not timer_applies(draft.run, task, event):
                return False
            return None if task is None else look_again_at(draft, task, event)

        answer = self._submit(event, judge)
        if answer is False:
            del self.db.timers[key]
        elif isinstance(answer, datetime):
            self.db.timers[key] = answer
        return answer is None

    def beat(self, path: str, *, progress: bool = False) -> None:
        """A renewal brings a heartbeat that was given just now."""
        assert self.renew(path)[0] is Answer.RENEWED
        row, before = self.task(path), self.db.beats.get(path)
        since = before.progress_at if before is not None and before.attempt == row.attempt else None
        self.db.beats[path] = BeatRow(row.attempt, self.now, self.now if progress else since)

    def next_timer(self) -> TimerKey:
        """The timer that is due first; time passes until then."""
        key = min(self.db.timers, key=self._due_order)
        self.now = max(self.now, self.db.timers[key])
        return key

    def _due_order(self, key: TimerKey) -> tuple[datetime, TimerKey]:
        return self.db.timers[key], key

    # --- workers

    def lease(
        self, path: str, *, attempt: int | None = None, owner: str = "worker", grant_key: str | None = None
    ) -> Answer:
        """Ask for an attempt, by default the one that the row stands at, as a delivery of its own."""
        row = self.db.tasks[path]
        self._held = None
        if grant_key is None:
            self._grants += 1
            grant_key = f"delivery-{self._grants}"
        asked = row.attempt if attempt is None else attempt
        answer = lease_answer(self._gate(), row, attempt=asked, owner=owner, grant_key=grant_key)
        if answer is Answer.GRANTED and row.state is TaskState.READY:
            timeout = row.attempt_timeout_ms
            ends_at = None if timeout is None else self.now + timedelta(milliseconds=timeout)
            row.state, row.sweep_at = TaskState.RUNNING, None
            row.owner = owner
            row.grant_key, row.leased_at, row.attempt_expires_at = grant_key, self.now, ends_at
            row.lease_expires_at = earliest(self.now + timedelta(milliseconds=row.lease_ms), ends_at)
            row.started_at = row.started_at or self.now
        self._watch()
        return answer

    def renew(self, path: str, *, attempt: int | None = None, owner: str = "worker") -> tuple[Answer, bool]:
        """Ask for more time; the second is the cancel flag."""
        row = self.db.tasks[path]
        self._held = None
        gate = self._gate()
        answer = renew_answer(gate, row, attempt=row.attempt if attempt is None else attempt, owner=owner)
        if answer is Answer.RENEWED:
            assert row.lease_expires_at is not None
            wanted = earliest(self.now + timedelta(milliseconds=row.lease_ms), row.attempt_expires_at)
            assert wanted is not None
            row.lease_expires_at = max(wanted, row.lease_expires_at)
        self._watch()
        return answer, answer is Answer.RENEWED and (gate.is_stopping or row.cause is not None)

    def succeed(self, path: str, output: Json = None, *, attempt: int | None = None, owner: str = "worker") -> Answer:
        """Report that the handler returned."""
        n = self.task(path).attempt if attempt is None else attempt
        document = Document.of(output)
        return self._report(
            NodeCompleted(at=self._event_time(), chance=self.chance, path=path, attempt=n, owner=owner, output=document)
        )

    def fail(
        self,
        path: str,
        type_: str = "Boom",
        *,
        final: bool = False,
        failure_class: FailureClass = FailureClass.EXEC_FAILED,
        details: dict[str, Json] | None = None,
        retry_after_ms: int | None = None,
        attempt: int | None = None,
        owner: str = "worker",
    ) -> Answer:
        """Report that the handler failed."""
        n = self.task(path).attempt if attempt is None else attempt
        failure = Failure(failure_class=failure_class, type=type_, message=f"{path} broke", details=details)
        return self._report(
            NodeFailed(
                at=self._event_time(),
                chance=self.chance,
                path=path,
                attempt=n,
                owner=owner,
                failure=failure,
                final=final,
                retry_after_ms=retry_after_ms,
            )
        )

    def stopped(self, path: str, *, attempt: int | None = None, owner: str = "worker") -> Answer:
        """Report that the handler was stopped."""
        n = self.task(path).attempt if attempt is None else attempt
        return self._report(NodeCancelled(at=self._event_time(), chance=self.chance, path=path, attempt=n, owner=owner))

    def release(self, path: str, *, attempt: int | None = None, owner: str = "worker") -> Answer:
        """Give an attempt back."""
        n = self.task(path).attempt if attempt is None else attempt
        return self._report(LeaseReleased(at=self._event_time(), chance=self.chance, path=path, attempt=n, owner=owner))

    def expire(self, path: str, *, attempt: int | None = None) -> bool:
        """Be the reaper. False: the lease has not expired, under its lock."""
        n = self.task(path).attempt if attempt is None else attempt
        event = LeaseExpired(at=self._event_time(), chance=self.chance, path=path, attempt=n)
        judged = self._submit(event, lambda draft: None if lease_has_expired(draft.task(path), event) else False)
        return judged is None

    def lose(self, path: str) -> None:
        """The holder falls silent; its lease runs out and is reaped."""
        expires_at = self.task(path).lease_expires_at
        assert expires_at is not None
        self.now = max(self.now, expires_at)
        assert self.expire(path)

    def run_task(self, path: str, output: Json = None) -> None:
        """Lease and succeed."""
        assert self.lease(path) is Answer.GRANTED
        assert self.succeed(path, output) is Answer.ACCEPTED

    def fail_task(self, path: str, type_: str = "Boom", *, final: bool = True) -> None:
        """Lease and fail."""
        assert self.lease(path) is Answer.GRANTED
        assert self.fail(path, type_, final=final) is Answer.ACCEPTED

    def _report(self, event: NodeCompleted | NodeFailed | NodeCancelled | LeaseReleased) -> Answer:
        def judge(draft: Draft) -> object | None:
            task = draft.task(event.path)
            assert task is not None
            left = draft.attempt(event.path, event.attempt) if event.attempt < task.attempt else None
            answer = report_answer(draft.run, task, left, attempt=event.attempt, owner=event.owner)
            return None if answer is Answer.ACCEPTED else answer

        judged = self._submit(event, judge)
        assert judged is None or isinstance(judged, Answer)
        return Answer.ACCEPTED if judged is None else judged

    def _gate(self) -> RunGate:
        run = self.run
        return RunGate(
            is_final=run.is_final, is_stopping=run.is_stopping, is_failing=run.failing, is_paused=run.is_paused
        )

    # --- one transaction

    def _event_time(self) -> datetime:
        return max(self.now, self.run.last_event_at)

    def _submit(self, event: RunEvent, judge: Callable[[Draft], object | None] = lambda _: None) -> object | None:
        """Decide an event and save it. Returns the judgement when the event does not apply. Raises Refusal."""
        state = self._held if self.share and self._held is not None else self._fresh_state()
        self._held = None
        self.looked_up = 0
        self.loaded.clear()
        if not isinstance(event, RunStarted):
            self._load(state, wants(self.graph, event))
        was_final = self.db.run is not None and self.run.is_final
        answer, decision = self._ask(state, event, judge)
        if decision is None:
            return answer
        assert not was_final or isinstance(event, RunRetried | NodeSkipped), "something happened to a run that was over"
        self.db.save(decision)
        self.handovers.extend(decision.changes.handovers)
        self.dispatches.extend(decision.changes.dispatches)
        state.absorb(decision.changes)
        self._held = state
        self._record(event, decision)
        self._watch()
        return None

    def _ask(
        self, state: State, event: RunEvent, judge: Callable[[Draft], object | None]
    ) -> tuple[object | None, Decision | None]:
        before: frozenset[Key] | None = None
        for question in range(MOST_QUESTIONS):
            try:
                answer = judge(Draft(state))
            except Missing as missing:
                verdict: Decision | Need = Need(missing.keys)
            else:
                if answer is not None:
                    return answer, None
                verdict = self._decide(state, event, question)
            if isinstance(verdict, Decision):
                self.questions = question
                return None, verdict
            assert verdict.keys != before, f"loaded, and still missing: {sorted(verdict.keys, key=str)}"
            before = verdict.keys
            self._load(state, verdict.keys)
        raise AssertionError(f"{event} asks and asks")

    def _decide(self, state: State, event: RunEvent, question: int) -> Decision | Need:
        if not self.thorough:
            return decide(state, event, questions=question)
        before = _copied(state)
        try:
            verdict = decide(state, event, questions=question)
        finally:
            assert _same(before, state), "the decision changed its input"
        if isinstance(verdict, Decision) and state.run is not None:
            complete = self._whole_state()
            complete.instants.update(state.instants)
            complete.child_ids.update(state.child_ids)
            whole = decide(complete, event, questions=question)
            assert isinstance(whole, Decision)
            assert whole.actions == verdict.actions, "the decision depends on what happens to be loaded"
            assert whole.changes == verdict.changes, "the changes depend on what happens to be loaded"
        return verdict

    def _fresh_state(self) -> State:
        run = copied(self.db.run)
        return State(graph=self.graph, run_id=RUN_ID, run=run, complete=run is None)

    def _whole_state(self) -> State:
        state = self._fresh_state()
        self.db.fill(state)
        return state

    def _load(self, state: State, keys: Iterable[Key]) -> None:
        self.loaded.update(keys)
        self.looked_up += self.db.load(state, keys)

    def results(self, path: str) -> Json:
        """What the items of a map gave, in order."""
        given = self.db.results_of(path)
        return [Document(given.get(index, b"null")).value for index in range(self.db.loops[path].results)]

    def _record(self, event: RunEvent, decision: Decision) -> None:
        self.history.append(
            Entry(
                seq=self.run.seq,
                at=event.at,
                event=event,
                given=tuple(decision.actions),
                actions=encode_actions(decision.actions),
                encoded_event=encode_event(event),
            )
        )

    def _watch(self) -> None:
        for watcher in self.watchers:
            watcher(self)


def _copied(state: State) -> tuple[object, ...]:
    return copied(
        (
            state.run, state.tasks, state.tokens, dict(state.payloads), state.signals, dict(state.attempts),
            state.timers, state.loops, state.scopes, state.results, state.loaded, state.effects, state.waits,
            state.stored_waits, state.pages,
        )
    )  # fmt: skip


def _same(before: tuple[object, ...], state: State) -> bool:
    return before == (
        state.run, state.tasks, state.tokens, state.payloads, state.signals, state.attempts, state.timers,
        state.loops, state.scopes, state.results, state.loaded, state.effects, state.waits, state.stored_waits,
        state.pages,
    )  # fmt: skip
