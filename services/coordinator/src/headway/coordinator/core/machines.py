"""The state machines, as data. Checked when this module is imported; printed into the documentation from here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class RunState(StrEnum):
    """Where a run stands. *Cancelling*, *failing* and *expired* are flags of a running run, not states."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskState(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_TASK_STATES = frozenset(
    {TaskState.PENDING, TaskState.READY, TaskState.RUNNING, TaskState.WAITING, TaskState.RETRYING}
)
FINAL_RUN_STATES = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})


class IllegalTransition(Exception):
    """The machine has no such transition from this state."""

    def __init__(self, machine: str, state: str, transition: str) -> None:
        """Name the machine, the state and what was asked of it."""
        super().__init__(f"a {machine} that is {state} has no transition {transition}")
        self.machine, self.state, self.transition = machine, state, transition


class TerminalState(IllegalTransition):
    """The run or task is over."""


class LeaseRequired(IllegalTransition):
    """Only what ends a lease may do this: Report, the reaper, or a stop after its grace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One arrow.

    Attributes:
        ends_lease: the row is leased; only a caller that ends leases may take this arrow.
        leaves_attempt: the attempt's number grows with it.
    """

    name: str
    source: str
    target: str
    ends_lease: bool = False
    leaves_attempt: bool = False


class Machine:
    """A checked table of transitions.

    Raises:
        ValueError: the table is wrong: a duplicate name or arrow, an arrow out of a final state or of another
            machine's state, a dead end, a state that cannot be reached.
    """

    def __init__(
        self, name: str, *, states: Iterable[str], initial: str, final: Iterable[str], table: Iterable[Transition]
    ) -> None:
        """Check and index the table."""
        self.name = name
        self.states = tuple(states)
        self.initial = initial
        self.final = frozenset(final)
        self.table = tuple(table)
        self._check()
        self._by_name: Mapping[str, Transition] = {arrow.name: arrow for arrow in self.table}

    def move(self, state: str, transition: str, *, ends_lease: bool = False) -> Transition:
        """Return the arrow to take.

        Args:
            state: where the row stands.
            transition: the arrow's name.
            ends_lease: the caller is one that ends leases.

        Raises:
            TerminalState, LeaseRequired, IllegalTransition: in this order.
        """
        arrow = self._by_name.get(transition)
        if arrow is not None and arrow.source == state:
            if arrow.ends_lease and not ends_lease:
                raise LeaseRequired(self.name, state, transition)
            return arrow
        error = TerminalState if state in self.final else IllegalTransition
        raise error(self.name, state, transition)

    def _check(self) -> None:
        names = [arrow.name for arrow in self.table]
        arrows = [(arrow.source, arrow.target) for arrow in self.table]
        self._refuse("names a transition twice", {name for name in names if names.count(name) > 1})
        self._refuse("has an arrow twice", {f"{a}->{b}" for a, b in arrows if arrows.count((a, b)) > 1})
        known = set(self.states)
        self._refuse("does not know", ({s for arrow in arrows for s in arrow} | {self.initial} | self.final) - known)
        self._refuse("has arrows out of the final", {source for source, _ in arrows if source in self.final})
        self._refuse("has dead ends", known - self.final - {source for source, _ in arrows})
        reached, frontier = {self.initial}, [self.initial]
        while frontier:
            here = frontier.pop()
            fresh = {target for source, target in arrows if source == here} - reached
            reached |= fresh
            frontier.extend(fresh)
        self._refuse("cannot reach", known - reached)

    def _refuse(self, what: str, culprits: set[str]) -> None:
        if culprits:
            raise ValueError(f"machine {self.name} {what}: {', '.join(sorted(culprits))}")


RUN = Machine(
    "run",
    states=RunState,
    initial=RunState.PENDING,
    final=FINAL_RUN_STATES,
    table=(
        Transition(name="start", source=RunState.PENDING, target=RunState.RUNNING),
        Transition(name="cancel_before_start", source=RunState.PENDING, target=RunState.CANCELLED),
        Transition(name="succeed", source=RunState.RUNNING, target=RunState.SUCCEEDED),
        Transition(name="fail", source=RunState.RUNNING, target=RunState.FAILED),
        Transition(name="cancel", source=RunState.RUNNING, target=RunState.CANCELLED),
    ),
)

_T = TaskState
TASK = Machine(
    "task",
    states=TaskState,
    initial=_T.PENDING,
    final=(_T.SUCCEEDED, _T.CANCELLED),  # *failed* is not final: it may be retried
    table=(
        # worker nodes
        Transition(name="dependencies_satisfied", source=_T.PENDING, target=_T.READY),
        Transition(name="claim", source=_T.READY, target=_T.RUNNING),
        Transition(name="succeed", source=_T.RUNNING, target=_T.SUCCEEDED, ends_lease=True),
        Transition(name="fail", source=_T.RUNNING, target=_T.FAILED, ends_lease=True),
        Transition(name="cancel_running", source=_T.RUNNING, target=_T.CANCELLED, ends_lease=True),
        Transition(name="reap_lease", source=_T.RUNNING, target=_T.READY, ends_lease=True, leaves_attempt=True),
        Transition(name="schedule_retry", source=_T.FAILED, target=_T.RETRYING, leaves_attempt=True),
        Transition(name="retry_ready", source=_T.RETRYING, target=_T.READY),
        Transition(name="expire_ready", source=_T.READY, target=_T.FAILED),
        Transition(name="expire_retrying", source=_T.RETRYING, target=_T.FAILED),
        # wait nodes
        Transition(name="wait", source=_T.PENDING, target=_T.WAITING),
        Transition(name="retry_waiting", source=_T.RETRYING, target=_T.WAITING),
        Transition(name="wait_succeeded", source=_T.WAITING, target=_T.SUCCEEDED),
        Transition(name="wait_failed", source=_T.WAITING, target=_T.FAILED),
        # control nodes, and inputs that cannot be rendered
        Transition(name="decide_succeeded", source=_T.PENDING, target=_T.SUCCEEDED),
        Transition(name="decide_failed", source=_T.PENDING, target=_T.FAILED),
        # what is given an output by hand
        Transition(name="skip_ready", source=_T.READY, target=_T.SUCCEEDED),
        Transition(name="skip_retrying", source=_T.RETRYING, target=_T.SUCCEEDED),
        # what is stopped before it ran
        Transition(name="cancel_pending", source=_T.PENDING, target=_T.CANCELLED),
        Transition(name="cancel_ready", source=_T.READY, target=_T.CANCELLED),
        Transition(name="cancel_waiting", source=_T.WAITING, target=_T.CANCELLED),
        Transition(name="cancel_retrying", source=_T.RETRYING, target=_T.CANCELLED),
    ),
)

CANCEL_TRANSITION: Mapping[str, str] = {
    arrow.source: arrow.name for arrow in TASK.table if arrow.target == TaskState.CANCELLED
}

SKIP_TRANSITION: Mapping[str, str] = {  # in a paused run: of what was reached and nobody holds
    TaskState.READY: "skip_ready",
    TaskState.RETRYING: "skip_retrying",
    TaskState.WAITING: "wait_succeeded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopening:
    """What takes a finished run up again; raises its epoch."""

    name: str
    sources: frozenset[RunState]


REOPENINGS: Mapping[str, Reopening] = {
    opening.name: opening
    for opening in (
        Reopening(name="retry", sources=FINAL_RUN_STATES),
        Reopening(name="skip", sources=frozenset({RunState.FAILED})),
    )
}
REDO_SOURCES = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED})  # -> pending, attempt + 1
