"""What happened to a run: facts, in the past tense. Time and chance come with them as data."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

from msgspec import Struct

from headway.coordinator.core.document import Document
from headway.coordinator.core.plan import FailureClass
from headway.coordinator.core.rows import Parent

FORMAT = 1  # of recorded events and actions


class Failure(Struct, frozen=True, kw_only=True):
    """How a task failed.

    Attributes:
        type: the error's type, such as "CardDeclined"; for time-outs "attempt_timeout", "queue_timeout", …
        details: further facts, in scope as `error.<key>`.
    """

    failure_class: FailureClass
    type: str
    message: str
    trace: str = ""
    details: dict[str, Any] | None = None


class Event(Struct, frozen=True, kw_only=True):
    """What all events carry.

    Attributes:
        at: the database's clock, never before the run's event before it.
        chance: from [0, 1), drawn once; for jitter.
        request_id: of the mutation that caused it, hex; empty: none.
    """

    at: datetime
    chance: float = 0.0
    request_id: str = ""


class RunStarted(Event, frozen=True):
    """A run was asked for."""

    namespace: str
    workflow: str
    version: int
    key: str | None
    trace: str
    input: Document
    labels: Mapping[str, str] = {}  # recorded by LabelRun
    parent: Parent | None = None  # recorded by AdoptRun
    deadline_at: datetime | None = None  # of the parent; recorded by ScheduleTimer
    is_cancelled: bool = False  # by its parent, before it started; recorded by FinishRun


class NodeCompleted(Event, frozen=True):
    """The holder reported that the handler returned."""

    path: str
    attempt: int
    owner: str
    output: Document


class NodeFailed(Event, frozen=True):
    """The holder reported that the handler failed.

    Attributes:
        final: retrying cannot help.
        retry_after_ms: the pause that the handler asks for instead of the policy's.
    """

    path: str
    attempt: int
    owner: str
    failure: Failure
    final: bool = False
    retry_after_ms: int | None = None


class NodeCancelled(Event, frozen=True):
    """The holder reported that it stopped the handler."""

    path: str
    attempt: int
    owner: str


class LeaseReleased(Event, frozen=True):
    """The holder gave the attempt back unrun."""

    path: str
    attempt: int
    owner: str


class LeaseExpired(Event, frozen=True):
    """The reaper found the lease expired."""

    path: str
    attempt: int


class TimerFired(Event, frozen=True):
    """A timer came due. path '' and attempt 0: the run's own."""

    path: str
    kind: str
    attempt: int


class SignalReceived(Event, frozen=True):
    """Somebody signalled the run. `ttl_ms`: how long the signal may wait for somebody to take it; None: for ever."""

    name: str
    payload: Document
    ttl_ms: int | None = None


class RunCancelled(Event, frozen=True):
    """Somebody cancelled the run.

    Attributes:
        compensate: False: what it did is left as it is.
        parent: of a child that its parent stops: the attempt that it answers to from now on.
    """

    reason: str
    grace_ms: int
    compensate: bool = True
    parent: Parent | None = None  # recorded by AdoptRun


class RunPaused(Event, frozen=True):
    """Somebody paused the run. `stop_clock`: its time-outs stand still meanwhile."""

    reason: str
    stop_clock: bool = False


class RunResumed(Event, frozen=True):
    """Somebody resumed the run."""


class NodeSkipped(Event, frozen=True):
    """Somebody gave a node its output by hand."""

    path: str
    reason: str
    output: Document


class RunRetried(Event, frozen=True):
    """Somebody reopened the run. `chosen` empty: all that failed or was stopped.

    Its parent may do so when it is over, and else takes it up as it is.
    """

    chosen: tuple[str, ...] = ()
    render_inputs: bool = False
    parent: Parent | None = None  # recorded by AdoptRun
    deadline_at: datetime | None = None  # as of RunStarted


class ChildFinished(Event, frozen=True, kw_only=True):
    """The run that a subflow node waits for is over, could not start, or, detached, has started.

    Attributes:
        child: the run's id.
        state: as ChildRow.state.
        error: of a run: its error; else {type, message}; None: it has none.
        output: of a run that succeeded.
    """

    path: str
    attempt: int
    child: str
    state: str
    error: dict[str, Any] | None = None
    output: Document | None = None


RunEvent: TypeAlias = (
    RunStarted
    | NodeCompleted
    | NodeFailed
    | NodeCancelled
    | LeaseReleased
    | LeaseExpired
    | TimerFired
    | SignalReceived
    | RunCancelled
    | RunPaused
    | RunResumed
    | NodeSkipped
    | RunRetried
    | ChildFinished
)
