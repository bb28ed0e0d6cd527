"""Rows of a run as the reducer sees them: one class per table, one field per column that a decision reads or writes.

Rows are changed by the projector only, and only on copies of its own.
"""

from copy import copy
from datetime import datetime
from typing import Any, TypeAlias

from msgspec import Struct, field

from headway.coordinator.core.document import Document
from headway.coordinator.core.machines import FINAL_RUN_STATES, OPEN_TASK_STATES, REDO_SOURCES, RunState, TaskState
from headway.coordinator.core.plan import FailureClass, Json

PayloadKey: TypeAlias = tuple[str, int, str]  # (path, attempt, "input" | "output" | "list" | "chosen")

COMPENSATING, UNCOMPENSATED, CONCLUDED = "compensating", "uncompensated", "concluded"
# States of children, besides those of runs that are over.
OPEN, REFUSED, UNSTARTED, STARTED, LEFT, GONE = "open", "refused", "unstarted", "started", "left", "gone"

UNKNOWN = "unknown"  # cause: nobody knows whether it took effect
BEATEN = "beaten"  # cause: a join that stops the others fired without it
STOPPED = "stopped"  # cause: the map or repeat around it is beaten
PASSED_OVER = frozenset({"not_chosen", "blocked", BEATEN})  # causes: its tokens did not let it run
BROKEN_OFF = "broken_off"  # cause: what runs at the end is not to go on
ALL_STOPS = frozenset({"timeout", BEATEN, STOPPED, BROKEN_OFF})  # why all that is under way in a map or repeat stops

RUN_INPUT: PayloadKey = ("", 0, "input")


class Conclusion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run ends when what runs at its end is over, unless that fails."""

    state: RunState
    error: dict[str, Any] | None = None


class EffectRow(Struct, frozen=True):
    """A row of `effects`: what a node that can be undone did, and is not undone yet.

    Attributes:
        place: in the order in which they came: their event's number, and within it a count, in one.
        path, attempt: of the node that completed.
        gave: "output" | "nothing"; "unknown": its worker fell silent, or ran out of time; "apart": and it may have been
            undone, so that the next attempt, which has another idempotency key, is another effect.
    """

    place: int
    path: str
    attempt: int
    gave: str = "output"

    @property
    def is_known(self) -> bool:
        """The node succeeded."""
        return self.gave in ("output", "nothing")


class Steering(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What people asked of a run, and what its end will be, as far as its row keeps it.

    Attributes:
        cancel_reason: why it was cancelled; for people.
        pause_reason: why it is paused; for people.
        clock_stopped: its time-outs stand still while it is paused.
        held: time-outs that stand still: path, kind, attempt, and how many milliseconds are left.
        conclusion: set with `ending`, concluded.
        undoing: what is being undone, or was tried to be undone last; what is left to be undone lies before it.
        not_undone: nodes that could not be undone; standing: the first of them, by path.
    """

    cancel_reason: str = ""
    pause_reason: str = ""
    clock_stopped: bool = False
    held: tuple[tuple[str, str, int, int], ...] = ()
    conclusion: Conclusion | None = None
    undoing: EffectRow | None = None
    not_undone: int = 0
    standing: tuple[str, ...] = ()


NOT_STEERED = Steering()


class Parent(Struct, frozen=True, kw_only=True):
    """Whose child a run is.

    Attributes:
        run_id: of the parent, in hexadecimal digits.
        path, attempt: of the subflow node's task that it answers to.
        place: the outermost run and the paths of the nodes from there on: all runs of one node in one place have it.
        attempts: of those nodes' tasks: of two runs in one place, the later one's are greater.
        detached: the parent does not wait for it.
    """

    run_id: str
    path: str
    attempt: int
    place: str
    attempts: tuple[int, ...]
    detached: bool = False

    @property
    def depth(self) -> int:
        """How many runs lie around it."""
        return len(self.attempts)

    @property
    def asker(self) -> tuple[str, str, int]:
        """The attempt that asked for the run."""
        return self.run_id, self.path, self.attempt

    def follows(self, other: "Parent") -> bool:
        """True when its run is a later one in the same place."""
        return self.place == other.place and self.attempts > other.attempts


class RunRow(Struct):
    """A row of `runs`."""

    namespace: str
    workflow: str
    version: int
    key: str | None
    trace: str
    created_at: datetime
    last_event_at: datetime
    state: RunState = RunState.PENDING
    epoch: int = 1
    seq: int = 0
    vars: dict[str, Json] = field(default_factory=dict)
    cancelling: bool = False
    failing: bool = False
    expired: bool = False
    finish_path: str | None = None
    ending: str | None = None  # "compensating" | "uncompensated" | "concluded"
    open_tasks: int = 0
    succeeded_tasks: int = 0
    unhandled_tasks: int = 0
    error: dict[str, Json] | None = None
    output_path: str | None = None
    output_attempt: int | None = None
    finished_at: datetime | None = None
    paused_at: datetime | None = None
    steering: Steering = NOT_STEERED
    parent: Parent | None = None

    @property
    def is_tombstone(self) -> bool:
        """There was a run with a key, which was deleted: it is in no namespace."""
        return not self.namespace

    @property
    def is_paused(self) -> bool:
        """Nothing is dispatched until it is resumed."""
        return self.paused_at is not None

    @property
    def is_final(self) -> bool:
        """The run is over, unless it is reopened."""
        return self.state in FINAL_RUN_STATES

    @property
    def is_stopping(self) -> bool:
        """Nothing new may start, not even behind an always edge, and holders are told to stop."""
        is_told_to = self.cancelling or self.expired or self.finish_path is not None
        return is_told_to and self.ending in (None, UNCOMPENSATED)

    @property
    def is_compensating(self) -> bool:
        """All is over but for what undoes it."""
        return self.ending == COMPENSATING

    @property
    def conclusion(self) -> Conclusion | None:
        """How it ends, while what runs at the end is under way; None: that is not known yet."""
        return self.steering.conclusion if self.ending == CONCLUDED else None

    @property
    def stop_cause(self) -> str:
        """Why what has not started is cancelled; only asked while something stops the run."""
        if self.cancelling:
            return "cancel"
        if self.finish_path is not None:
            return "finish"
        return "deadline" if self.expired else "failure"


class TaskRow(Struct):
    """A row of `tasks`."""

    path: str
    namespace: str
    queue: str
    handler: str
    lease_ms: int
    attempt_timeout_ms: int | None
    created_at: datetime
    state: TaskState = TaskState.PENDING
    attempt: int = 1
    generation: int = 1
    tries: int = 0
    losses: int = 0
    input: PayloadKey | None = None
    output_attempt: int | None = None
    failure_class: FailureClass | None = None
    error: dict[str, Json] | None = None
    disposition: str | None = None
    handled_by: int | None = None
    cause: str | None = None
    ready_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    due_at: datetime | None = None
    owner: str | None = None  # who holds this attempt, or held it
    leased_at: datetime | None = None
    lease_expires_at: datetime | None = None
    grant_key: str | None = None
    eager_grants: int = 0  # how many leases in a row, this one included, came with a report's answer
    attempt_expires_at: datetime | None = None
    sweep_at: datetime | None = None
    reported: bool = False  # its worker reported the attempt that the row stands at

    @property
    def is_open(self) -> bool:
        """It may still change without the run being reopened."""
        return self.state in OPEN_TASK_STATES


class TokenRow(Struct):
    """A row of `tokens`: bitmaps by incoming slot, and per failed slot the failed nodes with their handling edge."""

    path: str
    live: int = 0
    dead: int = 0
    failed: int = 0
    always: int = 0
    names: dict[str, list[tuple[str, int | None]]] = field(default_factory=dict)


class BeatRow(Struct, frozen=True):
    """What a decision needs of a row of `beats`: the latest signs of life of an attempt."""

    attempt: int
    beat_at: datetime
    progress_at: datetime | None


class LoopRow(Struct):
    """A row of `loops`: how far a map or repeat is.

    Attributes:
        attempt: of its task, when its list was made.
        total: items; of a repeat, the iterations that it may have.
        left_out: items that were looked at and are not begun.
        started: items or iterations that were begun; they are begun in order.
        open: that are under way.
        output_bytes: of the results of items that succeeded.
        source: of a map that goes over the results of another one: that one's path.
        output: repeat: where the latest iteration's output is.
        failures: the first items that failed, by path.
        stop: why nothing more is begun; None: it goes on.
        closing: the grace is over: what still runs is closed.
        cursor: items from here on have not been told of the stop yet; None: all have.
        redo_from: items from here on that did not succeed are to be done again before new ones begin; None: none.
        redo_failed: of those, failed ones too; else only those that were stopped, or undone.
        redo_chosen: before them, the chosen ones from `redo_from` on: the attempt of its task that stored which; None:
            none are left.
        undone: something in its items was undone, and is wanted anew by a retry.
    """

    path: str
    attempt: int
    total: int
    source: str | None = None
    started: int = 0
    open: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    output_bytes: int = 0
    output: PayloadKey | None = None
    failures: list[str] = field(default_factory=list)
    stop: str | None = None
    closing: bool = False
    cursor: int | None = None
    redo_from: int | None = None
    redo_failed: bool = False
    redo_chosen: int | None = None
    undone: bool = False
    left_out: int = 0

    @property
    def seen(self) -> int:
        """How many items were begun or left out: the place of the next one."""
        return self.started + self.left_out

    @property
    def results(self) -> int:
        """How many results there are, once it is done; before, at most so many."""
        return self.total - self.left_out


class ScopeRow(Struct):
    """A row of `scopes`: an item of a map, or an iteration of a repeat. It counts its tasks as a run does.

    Attributes:
        index: among those that are begun.
        place: in the list that its map goes over, where that leaves items out; else None, for it is the index.
    """

    path: str
    loop: str
    index: int
    created_at: datetime
    state: RunState = RunState.RUNNING
    attempt: int = 1
    failing: bool = False
    stopped: bool = False  # something in it was cut short
    open_tasks: int = 0
    succeeded_tasks: int = 0
    unhandled_tasks: int = 0
    error: dict[str, Json] | None = None
    output: PayloadKey | None = None
    output_bytes: int = 0
    finished_at: datetime | None = None
    undone: bool = False  # something in it was undone since it was begun
    place: int | None = None


def took_effect(row: TaskRow) -> bool:
    """It succeeded; or its worker fell silent, or ran out of time: nobody knows."""
    if row.state is TaskState.FAILED and row.leased_at is not None:
        return not row.reported
    return row.state is TaskState.SUCCEEDED or (row.state in REDO_SOURCES and row.cause == UNKNOWN)


def undoing_generation(undone: int, stands_at: int, *, is_undone: bool) -> int:
    """The generation of what undoes an attempt of a node that stands at the same or a later one: another for each pair.

    Attempts are numbered from 1. Below 46,341 of them it fits a column of 32 bits.

    Args:
        undone: the attempt.
        stands_at: the latest one.
        is_undone: that one was undone before, or may have been.
    """
    return (stands_at * (stands_at - 1) // 2 + undone) * 2 + is_undone


def was_undone(row: TaskRow, undoing: TaskRow) -> bool:
    """True when the attempt that a node stands at was undone, or may have been; afterwards earlier ones, too."""
    first = undoing_generation(1, row.attempt, is_undone=False)
    own = undoing_generation(row.attempt, row.attempt, is_undone=False)
    if not first <= undoing.generation <= own + 1:
        return False
    return bool(undoing.generation % 2) or (undoing.generation == own and took_effect(undoing))


class WaitRow(Struct, frozen=True):
    """A row of `waits`: a node in a body, or with a computed name, that waits for a signal.

    Attributes:
        path: of the task.
        name: of the signal.
        place: as of effects: in the order in which they began to wait.
    """

    path: str
    name: str
    place: int


class ChildRow(Struct):
    """A row of `children`: the run that an attempt of a subflow node started, or took up again.

    Attributes:
        child: the run's id, in hexadecimal digits.
        state: OPEN; how the run ended; REFUSED: it could not start; UNSTARTED: cancelled before it started; STARTED:
            detached, and begun; LEFT: it is waited for no more; GONE: it was to go on, and had been deleted.
        stop: why it was told to stop.
    """

    path: str
    attempt: int
    child: str
    workflow: str
    version: int
    detached: bool
    created_at: datetime
    state: str = OPEN
    stop: str | None = None

    @property
    def is_open(self) -> bool:
        """Its end, or its start when it is detached, is waited for."""
        return self.state == OPEN


class SignalRow(Struct):
    """A row of `signals`."""

    seq: int
    name: str
    payload: Document
    received_at: datetime
    taken_by: str | None = None
    taken_attempt: int | None = None
    expires_at: datetime | None = None


class AttemptRow(Struct, frozen=True, kw_only=True):
    """A row of `attempts`: an attempt that was left behind."""

    path: str
    attempt: int
    owner: str | None
    leased_at: datetime | None
    ended_at: datetime
    outcome: str
    reported: bool
    failure_class: FailureClass | None = None
    error: dict[str, Json] | None = None


def copy_loop(row: LoopRow) -> LoopRow:
    """Copy a row of `loops` with its list of failures."""
    copied = copy(row)
    copied.failures = list(row.failures)
    return copied


def copy_token(row: TokenRow) -> TokenRow:
    """Copy a row of `tokens` with its map of names."""
    copied = copy(row)
    copied.names = dict(row.names)
    return copied
