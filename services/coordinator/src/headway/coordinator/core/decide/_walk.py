"""One decision under way: actions are carried out on the draft as they are given, and tokens walk until none is left.

The rules of tokens: a node that succeeded sends live tokens along its success and always edges whose condition holds; a
node that failed for good sends its first matching failure or time-out edge a live one, always edges too, and success
edges a failed one that names it. A node that is not chosen passes dead on, a blocked one failed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from headway.coordinator.core import actions as do
from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.decide import _children, _loops, _nodes
from headway.coordinator.core.decide._ending import settle
from headway.coordinator.core.decide._failures import expression_failure, failure_of, too_large
from headway.coordinator.core.decide._places import LOOKS
from headway.coordinator.core.decide._retrying import pause_before_retry
from headway.coordinator.core.decide._weighing import (
    DEAD,
    LIVE,
    Names,
    Token,
    names_of,
    weigh,
    weigh_failure,
    within_reach,
)
from headway.coordinator.core.document import Document
from headway.coordinator.core.effort import Effort, TooMuchToDecide
from headway.coordinator.core.events import Event, Failure
from headway.coordinator.core.graph import Graph, Spot
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.paths import inside, scope_of
from headway.coordinator.core.plan import (
    FINALLY,
    LOOP_NODES,
    RETRYABLE_NODES,
    WORKER_NODES,
    Edge,
    EdgeKind,
    NodeType,
    OnFailure,
)
from headway.coordinator.core.projector import Projector
from headway.coordinator.core.rows import (
    ALL_STOPS,
    BEATEN,
    STOPPED,
    EffectRow,
    LoopRow,
    RunRow,
    ScopeRow,
    TaskRow,
    TokenRow,
    took_effect,
)
from headway.coordinator.core.state import Draft, State

MEMORY = 4 << 20  # bytes of results of maps that one decision reads for items that it begins
GRACE = timedelta(seconds=60)  # for holders to stop when nobody said otherwise: twice what a default lease renews in


class Halt(NamedTuple):
    """What keeps something from beginning.

    Attributes:
        stopping: nothing may begin.
        failing: nothing may begin but what follows an always edge.
        cause: why.
    """

    stopping: bool
    failing: bool
    cause: str


_BETWEEN = (TaskState.READY, TaskState.RETRYING)  # where a task is that nobody holds and that is tried again
_FREE = Halt(stopping=False, failing=False, cause="")


class Walk:
    """The draft, the actions so far, and the tokens that have not arrived yet.

    Attributes:
        room: items of maps and repeats that may still be begun, stopped or closed in this decision.
        overruns: how often results of maps did not fit into memory any more; then nothing more is looked at.
        looks: items of maps that may still be looked at in this decision, whether they are to be done.
        places: of items that are not begun yet, where they are in the list of a map that leaves some out.
        chosen: of a retry, the chosen nodes by their scope.
        instead: by path, what happens to a node that would start again at once.
        grace: how long what is stopped may take.
        deadline_at: of a child that starts or is reopened: its parent's.
        undoing: what the node that begins undoes; it sees what that gave.
    """

    __slots__ = (
        "_memory", "_queue", "actions", "at", "chance", "chosen", "deadline_at", "draft", "effort", "grace", "graph",
        "instead", "looks", "overruns", "places", "projector", "room", "undoing",
    )  # fmt: skip

    def __init__(self, state: State, event: Event, room: int) -> None:
        """Begin with nothing decided."""
        self.graph = state.graph
        self.draft = Draft(state, guesses=True)
        self.projector = Projector(self.draft, event.at)
        self.at = event.at
        self.chance = event.chance
        self.actions: list[do.Action] = []
        self.room = room
        self.looks = LOOKS
        self.overruns = 0
        self._memory = MEMORY
        self.effort = Effort()
        self.places: dict[str, int] = {}
        self.chosen: Mapping[str, tuple[str, ...]] = {}
        self.instead: Mapping[str, Callable[[str], None]] = {}
        self.grace = GRACE
        self.deadline_at: datetime | None = None
        self.undoing: EffectRow | None = None
        self._queue: deque[tuple[Graph, str, Edge, Token]] = deque()

    def has_memory_for(self, size: int) -> bool:
        """Whether results fit into memory with those that this decision has read."""
        if size > self._memory:
            self.overruns += 1
            return False
        self._memory -= size
        return True

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

    def loop(self, path: str) -> LoopRow:
        """A map or repeat that began."""
        found = self.draft.loop(path)
        if found is None:
            raise LookupError(path)
        return found

    def scope(self, path: str) -> ScopeRow:
        """An item or iteration that began."""
        found = self.draft.scope(path)
        if found is None:
            raise LookupError(path)
        return found

    def place(self, scope: str) -> int:
        """Where an item of a map is in the list, be it begun or not."""
        if scope in self.places:
            return self.places[scope]
        row = self.scope(scope)
        return row.index if row.place is None else row.place

    def finish(self) -> None:
        """Let all tokens arrive; end the scopes, and the run, in which nothing can happen any more."""
        self.come_to_rest()
        if self.run.epoch > 1 and (self.run.is_stopping or self.run.failing):
            self._close_unreached(self.graph, "")
        settle(self)

    def come_to_rest(self) -> None:
        """Let all tokens arrive, and end the scopes in which nothing can happen any more."""
        self._let_arrive()
        touched = self.projector.touched
        while touched:
            scope = max(touched, key=lambda each: each.count("["))
            del touched[scope]
            self._end_scope(scope)
            self._let_arrive()

    def _let_arrive(self) -> None:
        while self._queue:
            self._arrive(*self._queue.popleft())

    def _end_scope(self, path: str) -> None:
        if self.scope(path).state is not RunState.RUNNING:
            return
        if self.run.epoch > 1 and self.halt(path).failing:
            self._close_unreached(self.graph.body(path), path)
        if not self.scope(path).open_tasks:
            _loops.end(self, self.scope(path))

    def touch(self, scope: str) -> None:
        """Something happened in a scope after which it may be over."""
        self.projector.touched[scope] = None

    # --- tokens

    def _arrive(self, graph: Graph, scope: str, edge: Edge, token: Token) -> None:
        name = edge.target
        path = f"{scope}.{name}" if scope else name
        if token.names and _is_made_good(graph, name, token.names):
            token = DEAD
        always = edge.on is EdgeKind.ALWAYS
        if name not in graph.gathers:
            if token.kind == "live":
                self.start(path, by_always=always, fault=token.fault)
            else:
                self._pass_on(path, token)
            return
        slot = graph.slot[edge.index]
        self.emit(
            do.SetToken(path=path, slot=slot, token=token.kind, always=always and token is not DEAD, names=token.names)
        )
        if graph.is_count_join(name):
            self._count_token(graph.at(scope, name), token)
        elif token.fault is not None:
            self.start(path, by_always=always, fault=token.fault)
        else:
            self._gather(graph.at(scope, name))

    def resume(self, path: str, *, keep_input: bool) -> None:
        """A node that is redone, by the tokens that it kept: it starts, is passed over, or waits for the others."""
        row, spot = self._tokens(path), self.graph.spot(path)
        if spot.graph.is_count_join(spot.name):
            starts = row.live.bit_count() >= spot.graph.need(spot.name)
        else:
            starts = bool(row.live) and not row.failed and _has_all(spot, row)
        if starts:
            self.start(path, by_always=bool(row.always & row.live), keep_input=keep_input)
            self._stop_rest_of(spot)
        elif _has_all(spot, row):
            self._pass_on(path, Token("failed", names_of(row)) if row.failed else DEAD)

    def weigh_again(self, graph: Graph, scope: str, edge: Edge) -> None:
        """The source stays as it is, but what the edge carries is not known yet."""
        row = self.row(inside(scope, edge.source))
        failure = failure_of(row) if row.state is TaskState.FAILED else None
        self._queue.append((graph, scope, edge, weigh(self, scope, edge, failure)))

    def _send(self, spot: Spot, edge: Edge, token: Token) -> None:
        self._queue.append((spot.graph, spot.scope, edge, token))

    def _gather(self, spot: Spot) -> None:
        """A node that waits for every edge."""
        path = spot.beside(spot.name)
        row = self._tokens(path)
        if not _has_all(spot, row) or self._is_decided(path):
            return
        if row.failed:
            self._pass_on(path, Token("failed", names_of(row)))
        elif row.live:
            self.start(path, by_always=bool(row.always & row.live))
        else:
            self._pass_on(path, DEAD)

    def _count_token(self, spot: Spot, token: Token) -> None:
        """A join that fires at its n-th live token, exactly when that one arrives.

        When n is out of reach, the failures that it would have excused count at once; but what it passes on is known
        only when every edge has its token: it must not depend on which came first.
        """
        graph, path = spot.graph, spot.beside(spot.name)
        row, need = self._tokens(path), graph.need(spot.name)
        if within_reach(spot, row) < need:
            if graph.excuses(spot.name) and not self.is_beaten(path):
                self._count_failures(spot.scope, names_of(row))
            if _has_all(spot, row) and not self._is_decided(path):
                self._pass_on(path, Token("failed", names_of(row)) if row.failed else DEAD)
        elif token.fault is not None:
            self.start(path, by_always=bool(row.always & row.live), fault=token.fault)
        elif token.kind == "live" and row.live.bit_count() == need:
            self.start(path, by_always=bool(row.always & row.live))
            self._stop_rest_of(spot)

    def _stop_rest_of(self, spot: Spot) -> None:
        """A join that fired stops what leads to it and nowhere else, if it says so; no failure in that counts."""
        names = spot.graph.rest.get(spot.name)
        if names is None or self.row(spot.beside(spot.name)).state is not TaskState.SUCCEEDED:
            return
        paths = [spot.beside(name) for name in names]
        self.draft.require_tasks(paths)
        self.look_back(paths)
        for path in paths:
            row = self.draft.task(path)
            if row is None or row.state is TaskState.PENDING:
                continue  # pending: a retry left it so, and it is passed over when its tokens come
            if row.state is TaskState.RUNNING:
                if row.cause is None:
                    self.tell_to_stop(path, BEATEN)
                    self.set_grace(path)
            elif row.is_open:
                self.stop_task(row, BEATEN)
            elif row.disposition == "unhandled" and not self.halt(spot.scope).failing:
                self.emit(do.ExcuseFailure(path=path))

    def is_beaten(self, path: str) -> bool:
        """True when a join that stops the others, to which every way on leads, has fired."""
        spot = self.graph.spot(path)
        rows = (self.draft.task(spot.beside(join)) for join in spot.graph.raced.get(spot.name, ()))
        return any(row is not None and row.state is TaskState.SUCCEEDED for row in rows)

    def tell_to_stop(self, path: str, cause: str) -> None:
        """Let the holder of a lease know that it is to stop."""
        self.emit(do.StopTask(path=path, cause=cause))

    def set_grace(self, path: str, grace: timedelta = GRACE) -> None:
        """Close what is told to stop, if it has not ended by then."""
        attempt = self.row(path).attempt
        self.emit(do.ScheduleTimer(path=path, kind="cancel_grace", attempt=attempt, due_at=self.at + grace))

    def _count_failures(self, scope: str, names: Names) -> None:
        """A join that can no longer fire: the failures it would have excused count."""
        paths = [inside(scope, name) for name, _ in names]
        self.draft.require_tasks(paths)
        for path in paths:
            if self.row(path).disposition == "tolerated":
                self.emit(do.CountFailure(path=path))
                self._fail_around(scope)

    def _is_decided(self, path: str) -> bool:
        """True when the node was started or stopped before this token came (a condition that failed it, say)."""
        row = self.draft.task(path)
        return row is not None and row.state is not TaskState.PENDING

    def _tokens(self, path: str) -> TokenRow:
        row = self.draft.token(path)
        return row if row is not None else TokenRow(path)

    def _pass_on(self, path: str, token: Token) -> None:
        """A node that does not run: not chosen (dead) or blocked (failed)."""
        if self.run.epoch > 1:  # a retry of the run left it pending
            row = self.draft.task(path)
            if row is not None and row.state is TaskState.PENDING:
                cause = "not_chosen" if token.kind == "dead" else "blocked"
                self.emit(do.CancelTask(path=path, cause=cause, reported=False))
        spot = self.graph.spot(path)
        for edge in spot.outgoing:
            self._send(spot, edge, token)

    # --- nodes begin

    def start(
        self, path: str, *, by_always: bool = False, fault: Failure | None = None, keep_input: bool = False
    ) -> None:
        """A node has the tokens that it needs."""
        spot = self.graph.spot(path)
        if self.run.epoch == 1 and not spot.gathers:
            self.draft.assume_absent(path)  # its only token comes once
        row = self.draft.task(path)
        if row is not None and row.state is not TaskState.PENDING:
            return  # it was started, or stopped, before this token came
        if row is None:
            _nodes.create(self, path)
        if fault is not None:
            self.fail(path, "decide_failed", fault, retryable=False)
            return
        if spot.name in spot.graph.raced and self.is_beaten(path):
            self.cancel(path, BEATEN)
            return
        halt = self.halt(spot.scope)
        if halt.stopping or (halt.failing and not by_always):
            self.emit(do.CancelTask(path=path, cause=halt.cause, reported=False))
        else:
            try:
                _nodes.begin(self, path, keep_input=keep_input)
            except (ExpressionError, TooMuchToDecide) as error:
                self.fail(path, "decide_failed", expression_failure(error), retryable=False)

    # --- nodes end

    def claim(self, path: str) -> TaskRow:
        """Record the lease that the event ends: Lease itself writes no history."""
        row = self.row(path)
        leased_at = row.leased_at or self.at
        self.emit(
            do.ClaimTask(
                path=path,
                attempt=row.attempt,
                owner=row.owner or "",
                leased_at=leased_at,
                started_at=None if row.started_at == leased_at else row.started_at,
            )
        )
        return self.row(path)

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
        spot = self.graph.spot(path)
        if spot.node.compensate is not None:
            self.emit(do.NoteEffect(path=path))
        elif spot.name in spot.graph.undoes and (effect := self.run.steering.undoing) is not None:
            self.emit(do.TakeEffect(place=effect.place, path=effect.path, undone=True))
        is_switch = spot.node.type is NodeType.SWITCH
        for edge in spot.outgoing:
            if edge.on is EdgeKind.SUCCESS and is_switch:
                self._send(spot, edge, LIVE if edge.index == chosen else DEAD)
            elif edge.on is EdgeKind.SUCCESS or edge.on is EdgeKind.ALWAYS:
                self._send(spot, edge, weigh(self, spot.scope, edge, None))
            else:
                self._send(spot, edge, DEAD)

    def complete_within_limit(self, path: str, via: str, output: Document) -> None:
        """A wait is over, if what it gathered can be stored."""
        failure = too_large(f"the output of {path}", len(output.raw))
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
        spot = self.graph.spot(path)
        may_retry = retryable and spot.node.type in RETRYABLE_NODES and not self.is_over_for(path)
        pause = pause_before_retry(self, path, failure, asked_ms) if may_retry else None
        if pause is not None:
            self._retry(path, via, failure, self.at + pause, reported=reported)
            return
        handler, tokens = weigh_failure(self, spot, failure)
        disposition = _disposition(spot, handler)
        if disposition == "unhandled" and spot.name in spot.graph.raced and self.is_beaten(path):
            disposition = "tolerated"
        self.emit(
            do.FailTask(
                path=path,
                via=via,
                failure=failure,
                disposition=disposition,
                handled_by=handler,
                reported=reported,
                unknown=self._may_have_begun(path),
            )
        )
        self.cancel_timers(path)
        if spot.node.compensate is not None and took_effect(self.row(path)):
            self.emit(do.NoteEffect(path=path))
        for edge, token in tokens:
            self._send(spot, edge, token)
        if disposition == "unhandled":
            self._fail_around(spot.scope)
        elif spot.name in spot.graph.undoes:
            self.emit(do.LeaveStanding(path=spot.beside(spot.graph.undoes[spot.name])))
            self._doubt(spot, path)

    def _retry(self, path: str, via: str, failure: Failure, due_at: datetime, *, reported: bool) -> None:
        self.cancel_timers(path, only_attempt=True)
        self.emit(
            do.FailTask(path=path, via=via, failure=failure, disposition=None, handled_by=None, reported=reported)
        )
        self.emit(do.ScheduleRetry(path=path, due_at=due_at))
        self.set_alarm(path, "retry", due_at)

    def cancel_timers(self, path: str, *, only_attempt: bool = False) -> None:
        """Delete what could still fire for a task; `only_attempt`: for the attempt that is left behind."""
        spot, attempt = self.graph.spot(path), self.row(path).attempt
        node = spot.node
        if spot.name in spot.graph.raced or (
            node.body is not None and (node.timeouts.total_ms is not None or path == FINALLY)
        ):
            self.emit(do.CancelTimer(path=path, kind="cancel_grace", attempt=attempt))
        for kind, _ in spot.attempt_timers:
            self.emit(do.CancelTimer(path=path, kind=kind, attempt=attempt))
        if node.type in RETRYABLE_NODES:
            if node.timeouts.total_ms is not None and not only_attempt:
                self.emit(do.CancelTimer(path=path, kind="total_timeout", attempt=0))
        elif node.type in LOOP_NODES:
            self.emit(do.CancelTimer(path=path, kind="go_on", attempt=attempt))
            if node.timeouts.total_ms is not None:
                self.emit(do.CancelTimer(path=path, kind="total_timeout", attempt=0))
        elif node.type is NodeType.WAIT_FOR_EVENT:
            if node.timeouts.total_ms is not None:
                self.emit(do.CancelTimer(path=path, kind="event_timeout", attempt=attempt))
            if self.graph.is_scattered_wait(path):
                self.emit(do.ExpectNothing(path=path))

    def set_alarm(self, path: str, kind: str, due_at: datetime) -> None:
        """A task goes on by itself at its row's due time; of a paused run, the timer is set when it is resumed."""
        if not self.run.is_paused:
            self.emit(do.ScheduleTimer(path=path, kind=kind, attempt=self.row(path).attempt, due_at=due_at))

    def set_deadline(self, path: str, kind: str, attempt: int, after_ms: int) -> None:
        """Set a time-out, counted from now; it stands still while the run's clock does."""
        if self.run.steering.clock_stopped:
            self.emit(do.HoldTimer(path=path, kind=kind, attempt=attempt, left_ms=after_ms))
        else:
            due_at = self.at + timedelta(milliseconds=after_ms)
            self.emit(do.ScheduleTimer(path=path, kind=kind, attempt=attempt, due_at=due_at))

    # --- the run stops, and ends

    def arm_deadline(self) -> None:
        """Set the run's deadline, if it has one, counted from now."""
        deadline_ms, inherited = self.graph.plan.deadline_ms, self.deadline_at
        if inherited is not None:
            own = inherited if deadline_ms is None else self.at + timedelta(milliseconds=deadline_ms)
            self.emit(do.ScheduleTimer(path="", kind="run_deadline", attempt=0, due_at=min(own, inherited)))
        elif deadline_ms is not None:
            self.set_deadline("", "run_deadline", 0, deadline_ms)

    def cancel_run_timers(self) -> None:
        """Delete what could still stop the run."""
        if self.graph.plan.deadline_ms is not None or self.run.parent is not None:
            self.emit(do.CancelTimer(path="", kind="run_deadline", attempt=0))
        if self.run.is_stopping:
            self.emit(do.CancelTimer(path="", kind="cancel_grace", attempt=0))

    def halt(self, scope: str) -> Halt:
        """What keeps something from beginning in a scope, or in the run itself."""
        run = self.run
        if run.is_stopping:
            return Halt(stopping=True, failing=True, cause=run.stop_cause)
        if run.is_compensating or (not scope and not run.failing):  # only what undoes begins then
            return _FREE
        found: Halt | None = None
        while scope:
            row = self.scope(scope)
            stop = self.loop(row.loop).stop
            if stop in ALL_STOPS:
                return Halt(stopping=True, failing=True, cause=STOPPED)
            stop = "failure" if row.failing else stop
            if found is None and (stop is not None or self.is_cleanup(row.loop)):
                # a failure around does not keep it from cleaning up
                found = Halt(stopping=False, failing=stop is not None, cause=stop or "")
            scope = scope_of(row.loop)
        return found or Halt(stopping=False, failing=run.failing, cause="failure")

    def is_over_for(self, path: str) -> bool:
        """True when an attempt that is left behind has no successor: all stops, or fails and this is no cleanup."""
        halt = self.halt(scope_of(path))
        return halt.stopping or (halt.failing and not self.is_cleanup(path)) or self.is_beaten(path)

    def _fail_around(self, scope: str) -> None:
        """A failure counts, in the run itself or in a scope."""
        if self.graph.plan.on_failure is not OnFailure.STOP:
            return
        if not scope and not self.run.failing:
            self.emit(do.MarkRun(flag="failing"))
            self.stop_rest("")
        elif scope and not self.scope(scope).failing:
            self.emit(do.FailScope(path=scope))
            self.stop_rest(scope)

    def stop_run(self, grace: timedelta = GRACE) -> None:
        """Cancel what has not started; holders are told by Renew, and have `grace`."""
        self.grace = grace
        self.stop_rest("")
        if self.run.open_tasks:
            self.emit(do.ScheduleTimer(path="", kind="cancel_grace", attempt=0, due_at=self.at + grace))

    def stop_rest(self, scope: str) -> None:
        """Cancel what has not started in the run itself, or in a scope, cleaning up aside unless all stops."""
        halt, graph = self.halt(scope), self.graph.body(scope)
        tells = halt.stopping and not self.run.is_stopping  # else all holders in the run are told
        rows = self.open_tasks(graph, scope)
        self.look_back(row.path for row in rows)
        if graph.subflows:
            self.draft.require_children(
                row.path for row in rows if row.state is TaskState.WAITING and self.graph.is_subflow(row.path)
            )
        for row in rows:
            if tells and row.state is TaskState.RUNNING and row.cause is None:
                self.tell_to_stop(row.path, halt.cause)
            if row.state in (TaskState.RUNNING, TaskState.PENDING):
                continue  # pending: a retry left it so, and its tokens decide when they come
            if halt.stopping or not self.is_cleanup(row.path):
                self.stop_task(row, halt.cause)

    def open_tasks(self, graph: Graph, scope: str) -> list[TaskRow]:
        """Tasks of the run itself, or of a scope, that are not settled; in the order of their paths."""
        count = self.scope(scope).open_tasks if scope else self.run.open_tasks
        known = self.draft.known_tasks()
        if scope or graph.bodies:  # by name: tasks of other scopes are none of our business
            paths = [inside(scope, name) for name in graph.plan.nodes]
            rows = [row for path in paths if (row := known.get(path)) is not None and row.is_open]
            if len(rows) != count:
                self.draft.require_tasks(paths)
            if len(rows) != count and not scope:  # in an item that is over, something undoes another
                self.draft.require("open")
                rows += [row for row in known.values() if row.is_open and "." in row.path and graph.owner(row.path)]
        else:
            rows = [row for row in known.values() if row.is_open]
            if len(rows) != count:
                self.draft.require("open")
        return sorted(rows, key=lambda row: row.path)

    def all_open_tasks(self) -> list[TaskRow]:
        """Every task that is not settled, in scopes too, by path."""
        rows = [row for row in self.draft.known_tasks().values() if row.is_open]
        if self.graph.bodies or len(rows) != self.run.open_tasks:
            self.draft.require("open")
        return sorted(rows, key=lambda row: row.path)

    def is_cleanup(self, path: str) -> bool:
        """True for a task that is to run in a run that fails, too.

        An always edge started it, or it undoes another, or it is what runs at the end.
        """
        spot = self.graph.spot(path)
        if spot.name in spot.graph.undoes or path == FINALLY:
            return True
        if not any(edge.on is EdgeKind.ALWAYS for edge in spot.incoming):
            return False
        if not spot.gathers:
            return True
        row = self._tokens(path)
        return bool(row.always & row.live)

    def _close_unreached(self, graph: Graph, scope: str) -> None:
        """Nodes that a retry left pending and that nothing can reach any more, because all was stopped again."""
        if not (self.scope(scope) if scope else self.run).open_tasks:
            return
        rows = self.open_tasks(graph, scope)
        if all(row.state is TaskState.PENDING for row in rows):
            cause = self.halt(scope).cause
            for row in rows:
                self.stop_task(row, cause)

    def stop_task(self, row: TaskRow, cause: str) -> None:
        """End what has not started, or waits; a map or repeat begins nothing more."""
        if row.state is TaskState.RETRYING:
            self.emit(do.CancelTimer(path=row.path, kind="retry", attempt=row.attempt))
        elif row.state is TaskState.WAITING:
            kind = self.graph.node(row.path).type
            if kind in LOOP_NODES:
                _loops.stop(self, row.path, cause)
                return
            if kind is NodeType.SUBFLOW:
                _children.stop(self, row.path, cause)
                return
            if kind is NodeType.WAIT:
                self.emit(do.CancelTimer(path=row.path, kind="wait", attempt=row.attempt))
        self.cancel(row.path, cause)

    def cancel(self, path: str, cause: str, *, reported: bool = False, given_back: bool = False) -> None:
        """End a task without an outcome of its own. `given_back`: its worker did nothing in this attempt."""
        unknown = self._may_have_begun(path, given_back=given_back)
        self.emit(do.CancelTask(path=path, cause=cause, reported=reported, unknown=unknown))
        self.cancel_timers(path)
        spot = self.graph.spot(path)
        if spot.name in spot.graph.raced and self.is_beaten(path):
            for edge in spot.outgoing:
                self._send(spot, edge, DEAD)
        if spot.node.compensate is not None and took_effect(self.row(path)):
            self.emit(do.NoteEffect(path=path))
        elif spot.name in spot.graph.undoes:
            self._doubt(spot, path)

    def _doubt(self, spot: Spot, path: str) -> None:
        """A node that undoes another did not succeed: what it did may be known."""
        if took_effect(self.row(path)):
            self.emit(do.DoubtUndoing(path=spot.beside(spot.graph.undoes[spot.name])))

    def look_back(self, paths: Iterable[str]) -> None:
        """Ask at once for the attempts that say whether tasks took effect that are about to end without an outcome."""
        rows = (self.draft.task(path) for path in paths if self._is_looked_back_at(path))
        tried = (row for row in rows if row is not None and (row.tries or row.losses) and row.state in _BETWEEN)
        self.draft.require_attempts((row.path, row.attempt - 1) for row in tried)

    def _is_looked_back_at(self, path: str) -> bool:
        """It is undone, or undoes: whether it took effect matters when it ends without an outcome."""
        node = self.graph.node(path)
        return node.type in WORKER_NODES and (node.compensate is not None or bool(self.graph.owner(path)))

    def _may_have_begun(self, path: str, *, given_back: bool = False) -> bool:
        """True for a task between two attempts, when the last that a worker had ended without his word.

        One that was given back says nothing of those before.
        """
        row = self.row(path)
        number = row.attempt if given_back or row.state in _BETWEEN else 0
        if not self._is_looked_back_at(path) or not (row.tries or row.losses):
            return False
        while number > 1:
            number -= 1
            left = self.draft.attempt(path, number)
            if left is not None and left.leased_at is not None and left.outcome != "released":
                return left.outcome in ("lost", "timeout") and not left.reported
        return False


def _has_all(spot: Spot, row: TokenRow) -> bool:
    return (row.live | row.dead | row.failed) == (1 << len(spot.incoming)) - 1


def _is_made_good(graph: Graph, name: str, names: Names) -> bool:
    """True when each failure named was handled by an edge that can lead here."""
    edges = graph.plan.edges
    return all(handled_by is not None and name in edges[handled_by].reach for _, handled_by in names)


def _disposition(spot: Spot, handler: int | None) -> str:
    if handler is not None:
        return "handled"
    if spot.node.optional:
        return "optional"
    return "tolerated" if spot.name in spot.graph.tolerant or spot.name in spot.graph.undoes else "unhandled"
