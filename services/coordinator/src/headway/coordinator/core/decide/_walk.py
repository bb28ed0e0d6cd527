"""One decision under way: actions are carried out on the draft as they are given, and tokens walk until none is left.

The rules of tokens: a node that succeeded sends live tokens along its success and always edges whose condition holds; a
node that failed for good sends its first matching failure or time-out edge a live one, always edges too, and success
edges a failed one that names it. A node that is not chosen passes dead on, a blocked one failed.
"""

from collections import deque
from datetime import datetime, timedelta

from headway.coordinator.core import actions as do
from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.decide import _nodes
from headway.coordinator.core.decide._ending import settle
from headway.coordinator.core.decide._retrying import pause_before_retry
from headway.coordinator.core.decide._weighing import (
    DEAD,
    LIVE,
    Names,
    Token,
    expression_failure,
    failure_of,
    names_of,
    weigh,
    weigh_failure,
)
from headway.coordinator.core.document import Document
from headway.coordinator.core.events import Event, Failure
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.plan import (
    WORKER_NODES,
    Edge,
    EdgeKind,
    NodeType,
    OnFailure,
)
from headway.coordinator.core.projector import Projector
from headway.coordinator.core.rows import RunRow, TaskRow, TokenRow
from headway.coordinator.core.state import Draft, State

GRACE = timedelta(seconds=60)  # for holders to stop when nobody said otherwise: twice what a default lease renews in


class Walk:
    """The draft, the actions so far, and the tokens that have not arrived yet."""

    __slots__ = ("_queue", "actions", "at", "chance", "draft", "graph", "projector")

    def __init__(self, state: State, event: Event) -> None:
        """Begin with nothing decided."""
        self.graph = state.graph
        self.draft = Draft(state)
        self.projector = Projector(self.draft, event.at)
        self.at = event.at
        self.chance = event.chance
        self.actions: list[do.Action] = []
        self._queue: deque[tuple[Edge, Token]] = deque()

    def emit(self, action: do.Action) -> None:
        """Give an order, and see its effect at once."""
        self.projector.apply(action)
        self.actions.append(action)

    @property
    def run(self) -> RunRow:
        """The run as decided so far."""
        return self.draft.run

    def row(self, path: str) -> TaskRow:
        """A task that exists."""
        found = self.draft.task(path)
        if found is None:
            raise LookupError(path)
        return found

    def finish(self) -> None:
        """Let all tokens arrive; end the run if nothing can happen any more."""
        while self._queue:
            edge, token = self._queue.popleft()
            self._arrive(edge, token)
        if self.run.epoch > 1 and (self.run.is_stopping or self.run.failing):
            self._close_unreached()
        settle(self)

    # --- tokens

    def _arrive(self, edge: Edge, token: Token) -> None:
        path = edge.target
        if token.names and self._is_made_good(path, token.names):
            token = DEAD
        always = edge.on is EdgeKind.ALWAYS
        if path not in self.graph.gathers:
            if token.kind == "live":
                self.start(path, by_always=always, fault=token.fault)
            else:
                self._pass_on(path, token)
            return
        slot = self.graph.slot[edge.index]
        self.emit(
            do.SetToken(path=path, slot=slot, token=token.kind, always=always and token is not DEAD, names=token.names)
        )
        if self.graph.is_count_join(path):
            self._count_token(path, token)
        elif token.fault is not None:
            self.start(path, by_always=always, fault=token.fault)
        else:
            self._gather(path)

    def resume(self, path: str, *, keep_input: bool) -> None:
        """A node that is redone, by the tokens that it kept: it starts, is passed over, or waits for the others."""
        row = self._tokens(path)
        if self.graph.is_count_join(path):
            starts = row.live.bit_count() >= self.graph.need(path)
        else:
            starts = bool(row.live) and not row.failed and self._has_all(row)
        if starts:
            self.start(path, by_always=bool(row.always & row.live), keep_input=keep_input)
        elif self._has_all(row):
            self._pass_on(path, Token("failed", names_of(row)) if row.failed else DEAD)

    def weigh_again(self, edge: Edge) -> None:
        """The source stays as it is, but what the edge carries is not known yet."""
        row = self.row(edge.source)
        self._queue.append((edge, weigh(self, edge, failure_of(row) if row.state is TaskState.FAILED else None)))

    def _gather(self, path: str) -> None:
        """A node that waits for every edge."""
        row = self._tokens(path)
        if not self._has_all(row) or self._is_decided(path):
            return
        if row.failed:
            self._pass_on(path, Token("failed", names_of(row)))
        elif row.live:
            self.start(path, by_always=bool(row.always & row.live))
        else:
            self._pass_on(path, DEAD)

    def _count_token(self, path: str, token: Token) -> None:
        """A join that fires at its n-th live token, exactly when that one arrives.

        When n is out of reach, the failures that it would have excused count at once; but what it passes on is known
        only when every edge has its token: it must not depend on which came first.
        """
        row, need = self._tokens(path), self.graph.need(path)
        if self.within_reach(row) < need:
            if self.graph.excuses(path):
                self._count_failures(names_of(row))
            if self._has_all(row) and not self._is_decided(path):
                self._pass_on(path, Token("failed", names_of(row)) if row.failed else DEAD)
        elif token.fault is not None:
            self.start(path, by_always=bool(row.always & row.live), fault=token.fault)
        elif token.kind == "live" and row.live.bit_count() == need:
            self.start(path, by_always=bool(row.always & row.live))

    def within_reach(self, row: TokenRow) -> int:
        """How many live tokens there are, and may still come."""
        return len(self.graph.incoming[row.path]) - row.dead.bit_count() - row.failed.bit_count()

    def _has_all(self, row: TokenRow) -> bool:
        return (row.live | row.dead | row.failed) == (1 << len(self.graph.incoming[row.path])) - 1

    def _count_failures(self, names: Names) -> None:
        """A join that can no longer fire: the failures it would have excused count."""
        self.draft.require_tasks(name for name, _ in names)
        for name, _ in names:
            if self.row(name).disposition == "tolerated":
                self.emit(do.CountFailure(path=name))
                self._fail_run()

    def _is_decided(self, path: str) -> bool:
        """True when the node was started or stopped before this token came (a condition that failed it, say)."""
        row = self.draft.task(path)
        return row is not None and row.state is not TaskState.PENDING

    def _tokens(self, path: str) -> TokenRow:
        row = self.draft.token(path)
        return row if row is not None else TokenRow(path)

    def _is_made_good(self, path: str, names: Names) -> bool:
        """True when each failure named was handled by an edge that can lead here."""
        edges = self.graph.plan.edges
        return all(handled_by is not None and path in edges[handled_by].reach for _, handled_by in names)

    def _pass_on(self, path: str, token: Token) -> None:
        """A node that does not run: not chosen (dead) or blocked (failed)."""
        if self.run.epoch > 1:  # a retry of the run left it pending
            row = self.draft.task(path)
            if row is not None and row.state is TaskState.PENDING:
                cause = "not_chosen" if token.kind == "dead" else "blocked"
                self.emit(do.CancelTask(path=path, cause=cause, reported=False))
        self._queue.extend((edge, token) for edge in self.graph.outgoing[path])

    # --- nodes begin

    def start(
        self, path: str, *, by_always: bool = False, fault: Failure | None = None, keep_input: bool = False
    ) -> None:
        """A node has the tokens that it needs."""
        run = self.run
        if run.epoch == 1 and path not in self.graph.gathers:
            self.draft.assume_absent(path)  # its only token comes once
        row = self.draft.task(path)
        if row is None:
            _nodes.create(self, path)
        elif row.state is not TaskState.PENDING:
            return  # it was started, or stopped, before this token came
        if fault is not None:
            self.fail(path, "decide_failed", fault, retryable=False)
        elif run.is_stopping or (run.failing and not by_always):
            self.emit(do.CancelTask(path=path, cause=run.stop_cause, reported=False))
        else:
            try:
                _nodes.begin(self, path, keep_input=keep_input)
            except ExpressionError as error:
                self.fail(path, "decide_failed", expression_failure(error), retryable=False)

    # --- nodes end

    def complete(
        self,
        path: str,
        via: str,
        output: Document | None,
        *,
        reported: bool = False,
        chosen: int | None = None,
        cause: str | None = None,
    ) -> None:
        """A node succeeded. `chosen`: of a switch, the case edge that goes live. `cause`: of an unusual success."""
        if output is not None:
            attempt = self.row(path).attempt
            self.emit(do.StorePayload(path=path, attempt=attempt, role="output", data=output))
        self.emit(do.CompleteTask(path=path, via=via, has_output=output is not None, reported=reported, cause=cause))
        self.cancel_timers(path)
        is_switch = self.graph.node(path).type is NodeType.SWITCH
        for edge in self.graph.outgoing[path]:
            if edge.on is EdgeKind.SUCCESS and is_switch:
                self._queue.append((edge, LIVE if edge.index == chosen else DEAD))
            elif edge.on is EdgeKind.SUCCESS or edge.on is EdgeKind.ALWAYS:
                self._queue.append((edge, weigh(self, edge, None)))
            else:
                self._queue.append((edge, DEAD))

    def complete_within_limit(self, path: str, via: str, output: Document) -> None:
        """A wait is over, if what it gathered can be stored."""
        failure = _nodes.too_large_to_keep(f"the output of {path}", output)
        if failure is None:
            self.complete(path, via, output)
        else:
            self.fail(path, "wait_failed", failure, retryable=False)

    def fail(
        self,
        path: str,
        via: str,
        failure: Failure,
        *,
        retryable: bool,
        reported: bool = False,
        asked_ms: int | None = None,
    ) -> None:
        """A node failed: it is tried again, or its tokens go out. `asked_ms`: the pause that its handler asks for."""
        run = self.run
        may_retry = retryable and self.graph.node(path).type in WORKER_NODES and not run.is_stopping
        pause = pause_before_retry(self, path, failure, asked_ms) if may_retry else None
        if pause is not None and (not run.failing or self.is_cleanup(path)):
            self._retry(path, via, failure, self.at + pause, reported=reported)
            return
        handler, tokens = weigh_failure(self, path, failure)
        disposition = self._disposition(path, handler)
        self.emit(
            do.FailTask(
                path=path, via=via, failure=failure, disposition=disposition, handled_by=handler, reported=reported
            )
        )
        self.cancel_timers(path)
        self._queue.extend(tokens)
        if disposition == "unhandled":
            self._fail_run()

    def _retry(self, path: str, via: str, failure: Failure, due_at: datetime, *, reported: bool) -> None:
        self.cancel_timers(path, only_attempt=True)
        self.emit(
            do.FailTask(path=path, via=via, failure=failure, disposition=None, handled_by=None, reported=reported)
        )
        self.emit(do.ScheduleRetry(path=path, due_at=due_at))
        self.set_alarm(path, "retry", due_at)

    def _disposition(self, path: str, handler: int | None) -> str:
        if handler is not None:
            return "handled"
        if self.graph.node(path).optional:
            return "optional"
        return "tolerated" if path in self.graph.tolerant else "unhandled"

    def cancel_timers(self, path: str, *, only_attempt: bool = False) -> None:
        """Delete what could still fire for a task; `only_attempt`: for the attempt that is left behind."""
        node, attempt = self.graph.node(path), self.row(path).attempt
        for kind, _ in _nodes.attempt_timers(node.timeouts):
            self.emit(do.CancelTimer(path=path, kind=kind, attempt=attempt))
        if node.type in WORKER_NODES:
            if node.timeouts.total_ms is not None and not only_attempt:
                self.emit(do.CancelTimer(path=path, kind="total_timeout", attempt=0))
        elif node.type is NodeType.WAIT_FOR_EVENT and node.timeouts.total_ms is not None:
            self.emit(do.CancelTimer(path=path, kind="event_timeout", attempt=attempt))

    def set_alarm(self, path: str, kind: str, due_at: datetime) -> None:
        """A task goes on by itself at its row's due time; of a paused run, the timer is set when it is resumed."""
        if not self.run.is_paused:
            self.emit(do.ScheduleTimer(path=path, kind=kind, attempt=self.row(path).attempt, due_at=due_at))

    def set_deadline(self, path: str, kind: str, attempt: int, after_ms: int) -> None:
        """Set a time-out, counted from now; it stands still while the run's clock does."""
        run = self.run
        if run.is_paused and run.steering.clock_stopped:
            self.emit(do.HoldTimer(path=path, kind=kind, attempt=attempt, left_ms=after_ms))
        else:
            due_at = self.at + timedelta(milliseconds=after_ms)
            self.emit(do.ScheduleTimer(path=path, kind=kind, attempt=attempt, due_at=due_at))

    # --- the run stops, and ends

    def arm_deadline(self) -> None:
        """Set the run's deadline, if it has one, counted from now."""
        deadline_ms = self.graph.plan.deadline_ms
        if deadline_ms is not None:
            self.set_deadline("", "run_deadline", 0, deadline_ms)

    def cancel_run_timers(self) -> None:
        """Delete what could still stop the run."""
        if self.graph.plan.deadline_ms is not None:
            self.emit(do.CancelTimer(path="", kind="run_deadline", attempt=0))
        if self.run.is_stopping:
            self.emit(do.CancelTimer(path="", kind="cancel_grace", attempt=0))

    def _fail_run(self) -> None:
        if self.graph.plan.on_failure is OnFailure.STOP and not self.run.failing:
            self.emit(do.MarkRun(flag="failing"))
            self.stop_rest()

    def stop_rest(self, grace: timedelta = GRACE) -> None:
        """Cancel what has not started; holders are told by Renew, and have `grace` when the run is stopping."""
        stopping = self.run.is_stopping
        for row in self.open_tasks():
            if row.state in (TaskState.RUNNING, TaskState.PENDING):
                continue  # pending: a retry left it so, and its tokens decide when they come
            if stopping or not self.is_cleanup(row.path):
                self._stop(row)
        if stopping and self.run.open_tasks:
            self.emit(do.ScheduleTimer(path="", kind="cancel_grace", attempt=0, due_at=self.at + grace))

    def open_tasks(self) -> list[TaskRow]:
        """Every task that is not settled, by path."""
        rows = [row for row in self.draft.known_tasks().values() if row.is_open]
        if len(rows) != self.run.open_tasks:
            self.draft.require("open")
        return sorted(rows, key=lambda row: row.path)

    def is_cleanup(self, path: str) -> bool:
        """True for a task that is to run in a run that fails, too: an always edge started it, or it undoes another."""
        if path in self.graph.undoes:
            return True
        into = self.graph.incoming[path]
        if not any(edge.on is EdgeKind.ALWAYS for edge in into):
            return False
        if path not in self.graph.gathers:
            return True
        row = self._tokens(path)
        return bool(row.always & row.live)

    def _close_unreached(self) -> None:
        """Nodes that a retry left pending and that nothing can reach any more, because the run was stopped again."""
        if not self.run.open_tasks:
            return
        rows = self.open_tasks()
        if all(row.state is TaskState.PENDING for row in rows):
            for row in rows:
                self._stop(row)

    def _stop(self, row: TaskRow) -> None:
        if row.state is TaskState.RETRYING:
            self.emit(do.CancelTimer(path=row.path, kind="retry", attempt=row.attempt))
        elif row.state is TaskState.WAITING and self.graph.node(row.path).type is NodeType.WAIT:
            self.emit(do.CancelTimer(path=row.path, kind="wait", attempt=row.attempt))
        self.emit(do.CancelTask(path=row.path, cause=self.run.stop_cause, reported=False))
        self.cancel_timers(row.path)
