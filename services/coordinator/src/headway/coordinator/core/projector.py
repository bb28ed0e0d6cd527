"""The only writer of rows: it carries out actions on copies, each guarded by the tables of machines.py.

`Projector` is used twice: while deciding, so that a decision sees what it has done so far, and when a history is
replayed. It never looks at the plan's meaning, never evaluates anything, and knows no clock: `at` is the event's time.
"""

from collections.abc import Callable, Iterable
from copy import copy
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from headway.coordinator.core import actions as do
from headway.coordinator.core.events import Failure
from headway.coordinator.core.machines import (
    CANCEL_TRANSITION,
    OPEN_TASK_STATES,
    REDO_SOURCES,
    REOPENINGS,
    RUN,
    TASK,
    IllegalTransition,
    RunState,
    TaskState,
)
from headway.coordinator.core.paths import loop_of, scope_at, scope_of
from headway.coordinator.core.plan import Json, NodeType
from headway.coordinator.core.rows import (
    BEATEN,
    CONCLUDED,
    NOT_STEERED,
    PASSED_OVER,
    UNKNOWN,
    AttemptRow,
    ChildRow,
    Conclusion,
    EffectRow,
    LoopRow,
    RunRow,
    ScopeRow,
    SignalRow,
    TaskRow,
    WaitRow,
)
from headway.coordinator.core.state import Draft

MOST_STANDING = 20  # nodes that could not be undone that a run's row names
_PLACES_OF_AN_EVENT = 20  # bits
MOST_FAILURES = 20  # items that a map's row names
SWEEP_AFTER = timedelta(minutes=1)  # a READY task may be dispatched again, without proof of loss, after this
_TASK_STATES = {state.value: state for state in TaskState}
_FINISH = {RunState.SUCCEEDED: "succeed", RunState.FAILED: "fail", RunState.CANCELLED: "cancel"}
_TIME_OUTS_OF_ATTEMPTS = ("attempt_timeout", "heartbeat_timeout", "stall_timeout")
_LEFT_BY_STATE = {
    TaskState.SUCCEEDED: "succeeded",
    TaskState.FAILED: "failed",
    TaskState.CANCELLED: "cancelled",
}


class Projector:
    """Carries out actions on a draft."""

    __slots__ = ("at", "draft", "touched")

    def __init__(self, draft: Draft, at: datetime) -> None:
        """Write on `draft`, at the event's time."""
        self.draft = draft
        self.at = at
        self.touched: dict[str, None] = {}  # scopes in which a task was settled

    def apply(self, action: do.Action) -> None:
        """Carry out one action.

        Raises:
            IllegalTransition: the row is not where the action says; nothing was written by it.
            Missing: it concerns rows that were not loaded.
        """
        _CARRY_OUT[type(action)](self, action)

    def count_event(self) -> None:
        """Give the event its sequence number."""
        run = self.draft.write_run()
        run.seq += 1
        run.last_event_at = self.at

    # --- runs

    def _create_run(self, action: do.CreateRun) -> None:
        self.draft.changes.run = RunRow(
            namespace=action.namespace,
            workflow=action.workflow,
            version=action.version,
            key=action.key,
            trace=action.trace,
            created_at=self.at,
            last_event_at=self.at,
        )

    def _label_run(self, action: do.LabelRun) -> None:
        self.draft.changes.labels.update(action.labels)

    def _start_run(self, _action: do.StartRun) -> None:
        run = self.draft.write_run()
        run.state = RunState(RUN.move(run.state, "start").target)

    def _mark_run(self, action: do.MarkRun) -> None:
        run = self.draft.write_run()
        setattr(run, action.flag, True if action.path is None else action.path)
        if action.reason:
            run.steering = replace(run.steering, cancel_reason=action.reason)

    def _pause_run(self, action: do.PauseRun) -> None:
        run = self.draft.write_run()
        if run.state is not RunState.RUNNING or run.is_paused:
            raise IllegalTransition("run", "paused" if run.is_paused else run.state, "pause")
        run.paused_at = self.at
        run.steering = replace(run.steering, pause_reason=action.reason, clock_stopped=action.clock_stopped)

    def _resume_run(self, _action: do.ResumeRun) -> None:
        run = self.draft.write_run()
        if not run.is_paused:
            raise IllegalTransition("run", run.state, "resume")
        self._end_pause(run)

    @staticmethod
    def _end_pause(run: RunRow) -> None:
        run.paused_at = None
        run.steering = replace(run.steering, pause_reason="", clock_stopped=False, held=())

    def _set_variables(self, action: do.SetVariables) -> None:
        run = self.draft.write_run()
        run.vars = run.vars | action.values

    def _reset_variables(self, action: do.ResetVariables) -> None:
        self.draft.write_run().vars = action.values

    def _conclude_run(self, action: do.ConcludeRun) -> None:
        run = self.draft.write_run()
        if run.state is not RunState.RUNNING or run.conclusion is not None:
            raise IllegalTransition("run", run.state, "conclude")
        run.ending = CONCLUDED
        run.steering = replace(run.steering, conclusion=Conclusion(state=action.state, error=action.error))

    def _finish_run(self, action: do.FinishRun) -> None:
        run = self.draft.write_run()
        is_begun = run.state is not RunState.PENDING or action.state is not RunState.CANCELLED
        transition = _FINISH[action.state] if is_begun else "cancel_before_start"
        run.state = RunState(RUN.move(run.state, transition).target)
        run.error = action.error
        run.output_path, run.output_attempt = action.output_path, action.output_attempt
        run.finished_at = self.at
        if run.steering.conclusion is not None:
            run.steering = replace(run.steering, conclusion=None)
        if run.is_paused:
            self._end_pause(run)
        self.draft.changes.timers.clear()
        self.draft.changes.all_timers_gone = True

    def _reopen_run(self, action: do.ReopenRun) -> None:
        run = self.draft.write_run()
        if run.state not in REOPENINGS[action.opening].sources:
            raise IllegalTransition("run", run.state, action.opening)
        run.state = RunState.RUNNING
        run.epoch += 1
        run.cancelling = run.failing = run.expired = False
        run.finish_path = run.ending = run.error = run.output_path = run.output_attempt = run.finished_at = None
        run.steering = NOT_STEERED

    # --- tasks

    def _move(self, row: TaskRow, transition: str) -> None:
        """Take an arrow and keep the run's counts."""
        arrow = TASK.move(row.state, transition, ends_lease=True)
        self._enter(row, _TASK_STATES[arrow.target])
        if arrow.ends_lease:
            row.lease_expires_at = row.grant_key = row.attempt_expires_at = None
            row.eager_grants = 0

    def _counts(self, path: str) -> RunRow | ScopeRow:
        """The row that counts a task: its run's, or that of its item or iteration.

        What goes on in one that is over undoes something: the run waits for it.
        """
        if "." in path and self._scope(path).state is RunState.RUNNING:
            return self.draft.write_scope(scope_of(path))
        return self.draft.write_run()

    def _scope(self, path: str) -> ScopeRow:
        scope = self.draft.scope(scope_of(path))
        if scope is None:
            raise LookupError(path)
        return scope

    def _enter(self, row: TaskRow, state: TaskState) -> None:
        counts: RunRow | ScopeRow = self.draft.write_run()
        if "." in row.path:
            counts = self._counts(row.path)
            if state not in OPEN_TASK_STATES and isinstance(counts, ScopeRow):
                self.touched[counts.path] = None
        counts.open_tasks += (state in OPEN_TASK_STATES) - (row.state in OPEN_TASK_STATES)
        if "." not in row.path or isinstance(counts, ScopeRow):  # else it says nothing of how the run ends
            counts.succeeded_tasks += (state is TaskState.SUCCEEDED) - (row.state is TaskState.SUCCEEDED)
        row.state = state
        row.finished_at = None if state in OPEN_TASK_STATES else self.at
        if state is not TaskState.READY:
            row.sweep_at = None

    def _create_task(self, action: do.CreateTask) -> None:
        if self.draft.task(action.path) is not None:
            raise IllegalTransition("task", "already there", "create")
        run = self.draft.run
        self._counts(action.path).open_tasks += 1
        self.draft.changes.tasks[action.path] = TaskRow(
            path=action.path,
            namespace=run.namespace,
            queue=action.queue,
            handler=action.handler,
            lease_ms=action.lease_ms,
            attempt_timeout_ms=action.attempt_timeout_ms,
            created_at=self.at,
        )

    def _set_input(self, action: do.SetInput) -> None:
        row = self.draft.write_task(action.path)
        row.input, row.generation = action.input, action.generation

    def _set_generation(self, action: do.SetGeneration) -> None:
        self.draft.write_task(action.path).generation = action.generation

    def _dispatch_task(self, action: do.DispatchTask) -> None:
        row = self.draft.write_task(action.path)
        if row.state is not TaskState.READY:
            self._move(row, "retry_ready" if row.state is TaskState.RETRYING else "dependencies_satisfied")
            row.due_at = row.failure_class = row.error = None
        if row.attempt != action.attempt:
            raise IllegalTransition("task", row.state, "dispatch")
        row.ready_at = self.at
        if action.held:
            row.sweep_at = None
        else:
            row.sweep_at = self.at + SWEEP_AFTER
            self.draft.changes.dispatches.append((action.path, action.attempt))

    def _hold_task(self, action: do.HoldTask) -> None:
        row = self.draft.write_task(action.path)
        if row.state is not TaskState.READY:
            raise IllegalTransition("task", row.state, "hold")
        row.sweep_at = None

    def _postpone_task(self, action: do.PostponeTask) -> None:
        row = self.draft.write_task(action.path)
        if row.state is not TaskState.WAITING:
            raise IllegalTransition("task", row.state, "postpone")
        row.due_at = action.due_at

    def _await_task(self, action: do.AwaitTask) -> None:
        row = self.draft.write_task(action.path)
        self._move(row, "retry_waiting" if row.state is TaskState.RETRYING else "wait")
        row.ready_at, row.due_at = self.at, action.due_at
        row.failure_class = row.error = None

    def _claim_task(self, action: do.ClaimTask) -> None:
        row = self.draft.write_task(action.path)
        if row.state is not TaskState.RUNNING:  # only in a replay: the live row was claimed by Lease
            self._move(row, "claim")
        row.owner, row.leased_at = action.owner, action.leased_at
        row.started_at = action.started_at or action.leased_at

    def _complete_task(self, action: do.CompleteTask) -> None:
        row = self.draft.write_task(action.path)
        self._move(row, action.via)
        row.due_at = row.failure_class = row.error = None
        row.cause = action.cause
        row.reported = action.reported
        row.output_attempt = row.attempt if action.has_output else None

    def _fail_task(self, action: do.FailTask) -> None:
        row = self.draft.write_task(action.path)
        self._move(row, action.via)
        row.due_at = None
        row.tries += 1
        row.reported = action.reported
        row.failure_class = action.failure.failure_class
        row.error = _error_of(action.failure)
        row.disposition, row.handled_by = action.disposition, action.handled_by
        row.cause = UNKNOWN if action.unknown else None
        if action.disposition == "unhandled":
            self._counts(action.path).unhandled_tasks += 1

    def _count_failure(self, action: do.CountFailure) -> None:
        row = self.draft.write_task(action.path)
        if row.disposition != "tolerated":
            raise IllegalTransition("task", str(row.disposition), "count_failure")
        row.disposition = "unhandled"
        self._counts(action.path).unhandled_tasks += 1

    def _excuse_failure(self, action: do.ExcuseFailure) -> None:
        row = self.draft.write_task(action.path)
        if row.disposition != "unhandled":
            raise IllegalTransition("task", str(row.disposition), "excuse_failure")
        row.disposition = "tolerated"
        self._counts(action.path).unhandled_tasks -= 1

    def _schedule_retry(self, action: do.ScheduleRetry) -> None:
        row = self.draft.write_task(action.path)
        timed_out = row.error is not None and row.error.get("type") in _TIME_OUTS_OF_ATTEMPTS
        self._leave_attempt(row, "timeout" if timed_out else "failed")
        self._move(row, "schedule_retry")
        row.due_at = action.due_at

    def _reap_lease(self, action: do.ReapLease) -> None:
        row = self.draft.write_task(action.path)
        self._move(row, "reap_lease")
        row.reported = action.outcome == "released"
        self._leave_attempt(row, action.outcome)
        row.losses += action.outcome == "lost"

    def _cancel_task(self, action: do.CancelTask) -> None:
        row = self.draft.write_task(action.path)
        transition = CANCEL_TRANSITION.get(row.state)
        if transition is None:
            raise IllegalTransition("task", row.state, "cancel")
        self._move(row, transition)
        row.due_at = row.failure_class = row.error = None
        if "." in action.path and action.cause not in PASSED_OVER and row.cause != BEATEN:
            counts = self._counts(action.path)
            if isinstance(counts, ScopeRow):
                counts.stopped = True
        row.cause = UNKNOWN if action.unknown else action.cause
        row.reported = action.reported

    def _stop_task(self, action: do.StopTask) -> None:
        row = self.draft.write_task(action.path)
        if row.state not in (TaskState.RUNNING, TaskState.READY):  # ready only in a replay: Lease wrote no history
            raise IllegalTransition("task", row.state, "stop")
        row.cause = action.cause

    def _redo_task(self, action: do.RedoTask) -> None:
        row = self.draft.write_task(action.path)
        if row.state not in REDO_SOURCES:
            raise IllegalTransition("task", row.state, "redo")
        self._leave_attempt(row, "unknown" if row.cause == "unknown" else _LEFT_BY_STATE[row.state])
        if row.disposition == "unhandled":
            self._counts(action.path).unhandled_tasks -= 1
        self._enter(row, TaskState.PENDING)
        row.tries = row.losses = 0
        row.generation = action.generation
        row.output_attempt = row.failure_class = row.error = row.disposition = row.handled_by = row.cause = None
        row.ready_at = None

    def _leave_attempt(self, row: TaskRow, outcome: str) -> None:
        """Write down the attempt that is left behind and begin the next."""
        self.draft.changes.attempts.append(
            AttemptRow(
                path=row.path,
                attempt=row.attempt,
                owner=row.owner,
                leased_at=row.leased_at,
                ended_at=row.finished_at or self.at,
                outcome=outcome,
                reported=row.reported,
                failure_class=row.failure_class,
                error=row.error,
            )
        )
        row.attempt += 1
        row.owner = row.leased_at = None
        row.reported = False

    # --- what hangs on them

    def _store_payload(self, action: do.StorePayload) -> None:
        self.draft.changes.payloads[action.path, action.attempt, action.role] = action.data

    def _schedule_timer(self, action: do.ScheduleTimer) -> None:
        self.draft.changes.timers[action.path, action.kind, action.attempt] = action.due_at

    def _cancel_timer(self, action: do.CancelTimer) -> None:
        self.draft.changes.timers[action.path, action.kind, action.attempt] = None
        if self.draft.run.steering.held:
            self._let_go(action.path, action.kind, action.attempt)

    def _hold_timer(self, action: do.HoldTimer) -> None:
        key = action.path, action.kind, action.attempt
        self.draft.changes.timers[key] = None
        self._let_go(*key)
        run = self.draft.write_run()
        run.steering = replace(run.steering, held=(*run.steering.held, (*key, action.left_ms)))

    def _let_go(self, path: str, kind: str, attempt: int) -> None:
        """Forget a time-out that stands still."""
        run = self.draft.write_run()
        held = tuple(each for each in run.steering.held if each[:3] != (path, kind, attempt))
        run.steering = replace(run.steering, held=held)

    def _set_token(self, action: do.SetToken) -> None:
        row = self.draft.write_token(action.path)
        bit = 1 << action.slot
        if (row.live | row.dead | row.failed) & bit:
            raise IllegalTransition("edge", f"slot {action.slot} of {action.path} has a token", "set_token")
        setattr(row, action.token, getattr(row, action.token) | bit)
        row.always |= bit if action.always else 0
        if action.names:
            row.names[str(action.slot)] = list(action.names)

    def _erase_tokens(self, action: do.EraseTokens) -> None:
        row = self.draft.write_token(action.path)
        keep = ~sum(1 << slot for slot in action.slots)
        row.live, row.dead, row.failed, row.always = (
            bits & keep for bits in (row.live, row.dead, row.failed, row.always)
        )
        for slot in action.slots:
            row.names.pop(str(slot), None)

    def _buffer_signal(self, action: do.BufferSignal) -> None:
        self.draft.untaken(action.name)  # what is there must be known, or the new one could be taken for the oldest
        seq = self.draft.run.seq
        self.draft.changes.signals[seq] = SignalRow(
            seq, action.name, action.payload, self.at, expires_at=action.expires_at
        )

    def _take_signal(self, action: do.TakeSignal) -> None:
        row = next((row for row in self.draft.untaken(action.name) if row.seq == action.seq), None)
        if row is None:
            row = next((row for row in self.draft.taken(action.path) if row.seq == action.seq), None)
        if row is None:
            raise IllegalTransition("signal", "taken or unknown", "take")
        taken = copy(row)
        taken.taken_by, taken.taken_attempt = action.path, action.attempt
        self.draft.changes.signals[row.seq] = taken

    # --- what can be undone

    def _note_effect(self, action: do.NoteEffect) -> None:
        effects = self.draft.changes.effects
        place = self._place_behind(effects)
        row = self.draft.task(action.path)
        if row is None:
            raise LookupError(action.path)
        gave = "nothing" if row.output_attempt is None else "output"
        gave = gave if row.state is TaskState.SUCCEEDED else "unknown"
        effects[place] = EffectRow(place, action.path, row.attempt, gave)

    def _place_behind(self, places: Iterable[int]) -> int:
        """The next place of this event, in the order of all events."""
        return max(self.draft.run.seq << _PLACES_OF_AN_EVENT, 1 + max(places, default=0))

    def _begin_undoing(self, action: do.BeginUndoing) -> None:
        run = self.draft.write_run()
        effect = EffectRow(action.place, action.path, action.attempt, action.gave)
        run.steering = replace(run.steering, undoing=effect)

    def _take_effect(self, action: do.TakeEffect) -> None:
        self.draft.changes.effects[action.place] = None
        if action.undone:
            self._want_anew(action.path)

    def _doubt_undoing(self, action: do.DoubtUndoing) -> None:
        effect = self.draft.run.steering.undoing
        if effect is None:
            raise LookupError(action.path)
        if effect.gave == "unknown":
            self.draft.changes.effects[effect.place] = replace(effect, gave="apart")
        self._want_anew(action.path)

    def _want_anew(self, path: str) -> None:
        """The items and iterations around say that something in them was undone."""
        scope = scope_of(path)
        while scope:
            row = self.draft.write_scope(scope)
            row.undone = self.draft.write_loop(row.loop).undone = True
            scope = scope_of(row.loop)

    def _leave_standing(self, action: do.LeaveStanding) -> None:
        run = self.draft.write_run()
        count, named = run.steering.not_undone + 1, (*run.steering.standing, action.path)[:MOST_STANDING]
        run.steering = replace(run.steering, not_undone=count, standing=named)

    # --- who waits for which signal

    def _expect_signal(self, action: do.ExpectSignal) -> None:
        waits = self.draft.changes.waits
        place = self._place_behind(row.place for row in waits.values() if row is not None)
        waits[action.path] = WaitRow(action.path, action.name, place)

    def _expect_nothing(self, action: do.ExpectNothing) -> None:
        self.draft.changes.waits[action.path] = None

    # --- runs around and inside

    def _adopt_run(self, action: do.AdoptRun) -> None:
        self.draft.write_run().parent = action.parent

    def _open_child(self, action: do.OpenChild) -> None:
        before = self.draft.child(action.path)
        if before is not None and before.is_open:
            raise IllegalTransition("child", before.state, "open")
        self.draft.changes.children[action.path] = ChildRow(
            path=action.path,
            attempt=action.attempt,
            child=action.child,
            workflow=action.workflow,
            version=action.version,
            detached=action.detached,
            created_at=self.at,
        )

    def _stop_child(self, action: do.StopChild) -> None:
        self._open_row(action).stop = action.cause

    def _close_child(self, action: do.CloseChild) -> None:
        self._open_row(action).state = action.state

    def _open_row(self, action: do.StopChild | do.CloseChild) -> ChildRow:
        row = self.draft.write_child(action.path)
        if row.attempt != action.attempt or not row.is_open:
            raise IllegalTransition("child", row.state, type(action).__name__)
        return row

    def _hand_over(self, action: do.HandOver) -> None:
        self.draft.changes.handovers.append((action.to, action.kind, action.body))

    # --- maps and repeats

    def _open_loop(self, action: do.OpenLoop) -> None:
        self.draft.changes.loops[action.path] = LoopRow(
            action.path, attempt=action.attempt, total=action.total, source=action.source
        )

    def _stop_loop(self, action: do.StopLoop) -> None:
        row = self.draft.write_loop(action.path)
        row.stop, row.cursor = action.cause, 0
        row.closing = row.closing or action.closing

    def _move_cursor(self, action: do.MoveCursor) -> None:
        self.draft.write_loop(action.path).cursor = action.cursor

    def _reopen_loop(self, action: do.ReopenLoop) -> None:
        row = self.draft.write_loop(action.path)
        row.stop, row.closing, row.cursor = None, False, None
        if action.started < row.started:  # a repeat goes back to an iteration; all before it succeeded
            row.succeeded, row.failed, row.cancelled, row.failures = action.started, 0, 0, []
        row.started, row.redo_from = action.started, action.redo_from
        row.redo_failed, row.redo_chosen = action.redo_failed, action.redo_chosen
        row.undone = row.undone and action.redo_from is not None

    def _open_scope(self, action: do.OpenScope) -> None:
        loop_path, index = loop_of(action.path)
        loop = self.draft.write_loop(loop_path)
        if index != loop.started:
            raise IllegalTransition("scope", f"the next one of {loop_path} is {loop.started}", "open")
        loop.started += 1
        loop.open += 1
        if self.draft.scope(action.path) is None:
            self.draft.changes.scopes[action.path] = ScopeRow(
                action.path, loop_path, index, self.at, place=action.place
            )
            return
        row = self.draft.write_scope(action.path)
        row.place = action.place
        self._begin_scope(row)

    def _leave_out(self, action: do.LeaveOut) -> None:
        self.draft.write_loop(action.path).left_out += action.count

    def _begin_scope(self, row: ScopeRow) -> None:
        """Anew; what it counts follows its tasks."""
        row.state, row.attempt = RunState.RUNNING, row.attempt + 1
        row.failing = row.stopped = row.undone = False
        row.error = row.output = row.finished_at = None
        row.output_bytes = 0

    def _reopen_scope(self, action: do.ReopenScope) -> None:
        row = self.draft.write_scope(action.path)
        loop = self.draft.write_loop(row.loop)
        if row.state is RunState.RUNNING:
            raise IllegalTransition("scope", row.state, "reopen")
        setattr(loop, row.state, getattr(loop, row.state) - 1)
        loop.open += 1
        loop.output_bytes -= row.output_bytes
        if row.path in loop.failures:
            loop.failures.remove(row.path)
        if row.state is RunState.SUCCEEDED and self.draft.state.graph.node(row.loop).type is NodeType.REPEAT:
            before = self.draft.scope(scope_at(row.loop, row.index - 1)) if row.index else None
            loop.output = None if before is None else before.output
        self._begin_scope(row)

    def _fail_scope(self, action: do.FailScope) -> None:
        self.draft.write_scope(action.path).failing = True

    def _close_scope(self, action: do.CloseScope) -> None:
        row = self.draft.write_scope(action.path)
        if row.state is not RunState.RUNNING or row.open_tasks:
            raise IllegalTransition("scope", row.state, "close")
        loop = self.draft.write_loop(row.loop)
        row.state, row.error, row.finished_at = action.state, action.error, self.at
        row.output, row.output_bytes = action.output, action.output_bytes
        loop.open -= 1
        setattr(loop, action.state, getattr(loop, action.state) + 1)
        loop.output_bytes += action.output_bytes
        if action.state is RunState.SUCCEEDED:
            loop.output = action.output
        elif action.state is RunState.FAILED and len(loop.failures) < MOST_FAILURES:
            loop.failures.append(row.path)

    def _drop_scope(self, action: do.DropScope) -> None:
        self.draft.changes.drop(action.path, action.paths)


def _error_of(failure: Failure) -> dict[str, Json]:
    return {
        "type": failure.type,
        "message": failure.message,
        "trace": failure.trace,
        "details": dict(failure.details or {}),
    }


_CARRY_OUT: dict[type, Callable[[Projector, Any], None]] = {
    do.CreateRun: Projector._create_run,
    do.StartRun: Projector._start_run,
    do.MarkRun: Projector._mark_run,
    do.SetVariables: Projector._set_variables,
    do.FinishRun: Projector._finish_run,
    do.ReopenRun: Projector._reopen_run,
    do.StorePayload: Projector._store_payload,
    do.CreateTask: Projector._create_task,
    do.SetInput: Projector._set_input,
    do.DispatchTask: Projector._dispatch_task,
    do.AwaitTask: Projector._await_task,
    do.ClaimTask: Projector._claim_task,
    do.CompleteTask: Projector._complete_task,
    do.FailTask: Projector._fail_task,
    do.CountFailure: Projector._count_failure,
    do.ExcuseFailure: Projector._excuse_failure,
    do.ScheduleRetry: Projector._schedule_retry,
    do.ReapLease: Projector._reap_lease,
    do.CancelTask: Projector._cancel_task,
    do.RedoTask: Projector._redo_task,
    do.ScheduleTimer: Projector._schedule_timer,
    do.CancelTimer: Projector._cancel_timer,
    do.SetToken: Projector._set_token,
    do.EraseTokens: Projector._erase_tokens,
    do.BufferSignal: Projector._buffer_signal,
    do.TakeSignal: Projector._take_signal,
    do.PauseRun: Projector._pause_run,
    do.ResumeRun: Projector._resume_run,
    do.HoldTask: Projector._hold_task,
    do.HoldTimer: Projector._hold_timer,
    do.PostponeTask: Projector._postpone_task,
    do.ResetVariables: Projector._reset_variables,
    do.SetGeneration: Projector._set_generation,
    do.LabelRun: Projector._label_run,
    do.OpenLoop: Projector._open_loop,
    do.StopLoop: Projector._stop_loop,
    do.MoveCursor: Projector._move_cursor,
    do.ReopenLoop: Projector._reopen_loop,
    do.OpenScope: Projector._open_scope,
    do.LeaveOut: Projector._leave_out,
    do.ReopenScope: Projector._reopen_scope,
    do.FailScope: Projector._fail_scope,
    do.CloseScope: Projector._close_scope,
    do.ConcludeRun: Projector._conclude_run,
    do.StopTask: Projector._stop_task,
    do.DropScope: Projector._drop_scope,
    do.NoteEffect: Projector._note_effect,
    do.BeginUndoing: Projector._begin_undoing,
    do.DoubtUndoing: Projector._doubt_undoing,
    do.TakeEffect: Projector._take_effect,
    do.LeaveStanding: Projector._leave_standing,
    do.ExpectSignal: Projector._expect_signal,
    do.ExpectNothing: Projector._expect_nothing,
    do.AdoptRun: Projector._adopt_run,
    do.OpenChild: Projector._open_child,
    do.StopChild: Projector._stop_child,
    do.CloseChild: Projector._close_child,
    do.HandOver: Projector._hand_over,
}
