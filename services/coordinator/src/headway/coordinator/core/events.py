"""What happened to a run: facts, in the past tense. Time and chance come with them as data."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from headway.coordinator.core.document import Document
from headway.coordinator.core.plan import FailureClass, Json

FORMAT = 1  # of recorded events and actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How a task failed.

    Attributes:
        type: the error's type, such as "CardDeclined"; for time-outs "attempt_timeout", "queue_timeout", …
        details: further facts, in scope as `error.<key>`.
    """

    failure_class: FailureClass
    type: str
    message: str
    trace: str = ""
    details: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events carry.

    Attributes:
        at: the database's clock, never before the run's event before it.
        chance: from [0, 1), drawn once; for jitter.
        request_id: of the mutation that caused it, hex; empty: none.
    """

    at: datetime
    chance: float = 0.0
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run was asked for."""

    namespace: str
    workflow: str
    version: int
    key: str | None
    trace: str
    input: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCompleted(Event):
    """The holder reported that the handler returned."""

    path: str
    attempt: int
    owner: str
    output: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed(Event):
    """The holder reported that the handler failed. `final`: retrying cannot help."""

    path: str
    attempt: int
    owner: str
    failure: Failure
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCancelled(Event):
    """The holder reported that it stopped the handler."""

    path: str
    attempt: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReleased(Event):
    """The holder gave the attempt back unrun."""

    path: str
    attempt: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired(Event):
    """The reaper found the lease expired."""

    path: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    """A timer came due. path '' and attempt 0: the run's own."""

    path: str
    kind: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReceived(Event):
    """Somebody signalled the run."""

    name: str
    payload: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled(Event):
    """Somebody cancelled the run."""

    reason: str
    grace_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRetried(Event):
    """Somebody reopened the run. `chosen` empty: all that failed or was stopped."""

    chosen: tuple[str, ...] = ()
    render_inputs: bool = False


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
    | RunRetried
)
REPORTS = (NodeCompleted, NodeFailed, NodeCancelled, LeaseReleased)
