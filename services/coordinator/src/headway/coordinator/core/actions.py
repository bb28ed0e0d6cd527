"""What must change: orders, in the imperative, in the order in which they are to be carried out.

They are recorded with their event; the projector alone carries them out on rows, and the shell saves what it wrote.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from headway.coordinator.core.document import Document
from headway.coordinator.core.events import Failure
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.rows import PayloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRun:
    """Insert the run, pending."""

    namespace: str
    workflow: str
    version: int
    key: str | None
    trace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """pending -> running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRun:
    """Raise a flag of a running run, or set the finish node that ran."""

    flag: str  # "cancelling" | "failing" | "expired" | "finish_path"
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVariables:
    """Merge values into the run's variables."""

    values: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRun:
    """running -> final; every timer of the run goes with it."""

    state: RunState
    error: dict[str, Json] | None
    output_path: str | None
    output_attempt: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenRun:
    """final -> running, epoch + 1, all flags down. For the history: what starts, what is reset, what is kept."""

    opening: str
    chosen: tuple[str, ...]
    reset: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePayload:
    """Insert a payload. Recorded by its size."""

    path: str
    attempt: int
    role: str
    data: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTask:
    """Insert a task, pending."""

    path: str
    queue: str
    handler: str
    lease_ms: int
    attempt_timeout_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInput:
    """Point a pending task at its input. `generation`: of its idempotency key from now on."""

    path: str
    input: PayloadKey
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchTask:
    """Make the task ready by the transition `via` (None: it is ready already) and write its outbox row."""

    path: str
    attempt: int
    via: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitTask:
    """pending -> waiting."""

    path: str
    due_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTask:
    """Record the lease under which what follows happened (the live row shows it already)."""

    path: str
    attempt: int
    owner: str
    leased_at: datetime
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteTask:
    """-> succeeded by `via`. Its output, if any, was stored before."""

    path: str
    via: str
    has_output: bool
    reported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FailTask:
    """-> failed by `via`. `disposition` None: ScheduleRetry follows."""

    path: str
    via: str
    failure: Failure
    disposition: str | None
    handled_by: int | None
    reported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CountFailure:
    """A failure that was tolerated is not any more."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcuseFailure:
    """A failure that counted is tolerated again: the join that it kept from firing is decided anew."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRetry:
    """failed -> retrying, attempt + 1."""

    path: str
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapLease:
    """running -> ready, attempt + 1. outcome: "lost" (counted) or "released"."""

    path: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTask:
    """-> cancelled, from whatever open state it is in."""

    path: str
    cause: str
    reported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoTask:
    """settled -> pending, attempt + 1, in a run that was reopened."""

    path: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTimer:
    """Insert a timer, or move it."""

    path: str
    kind: str
    attempt: int
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    """Delete a timer; it may be gone already."""

    path: str
    kind: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetToken:
    """An edge's token reached a node with several incoming edges."""

    path: str
    slot: int
    token: str  # "live" | "dead" | "failed"
    always: bool
    names: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseTokens:
    """Take tokens back: their sources are redone."""

    path: str
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSignal:
    """Insert a signal under the event's sequence number."""

    name: str
    payload: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeSignal:
    """A wait consumes a signal."""

    seq: int
    path: str
    name: str


Action: TypeAlias = (
    CreateRun
    | StartRun
    | MarkRun
    | SetVariables
    | FinishRun
    | ReopenRun
    | StorePayload
    | CreateTask
    | SetInput
    | DispatchTask
    | AwaitTask
    | ClaimTask
    | CompleteTask
    | FailTask
    | CountFailure
    | ExcuseFailure
    | ScheduleRetry
    | ReapLease
    | CancelTask
    | RedoTask
    | ScheduleTimer
    | CancelTimer
    | SetToken
    | EraseTokens
    | BufferSignal
    | TakeSignal
)
