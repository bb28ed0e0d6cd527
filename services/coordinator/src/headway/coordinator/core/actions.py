"""What must change: orders, in the imperative, in the order in which they are to be carried out.

They are recorded with their event; the projector alone carries them out on rows, and the shell saves what it wrote.
A record names an action by its tag and the fields by their order: a tag is never given to another action, and a new
field goes to the end, with a default.
"""

from datetime import datetime
from typing import Any, TypeAlias

from msgspec import Struct

from headway.coordinator.core.document import Document
from headway.coordinator.core.events import Failure
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.rows import Parent, PayloadKey


class Order(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What all actions are."""


class CreateRun(Order, frozen=True, gc=False, tag=1):
    """Insert the run, pending."""

    namespace: str
    workflow: str
    version: int
    key: str | None
    trace: str


class StartRun(Order, frozen=True, gc=False, tag=2):
    """pending -> running."""


class MarkRun(Order, frozen=True, gc=False, tag=3):
    """Raise a flag of a running run, or set the finish node that ran, or how it ends (`ending`)."""

    flag: str  # "cancelling" | "failing" | "expired" | "finish_path" | "ending"
    path: str | None = None  # of the last two, their value
    reason: str = ""  # of "cancelling", for people


class SetVariables(Order, frozen=True, gc=False, tag=4):
    """Merge values into the run's variables."""

    values: dict[str, Any]


class FinishRun(Order, frozen=True, gc=False, tag=5):
    """running -> final; every timer of the run goes with it."""

    state: RunState
    error: dict[str, Any] | None
    output_path: str | None
    output_attempt: int | None


class ReopenRun(Order, frozen=True, gc=False, tag=6):
    """final -> running, epoch + 1, all flags down. For the history: what starts, what is reset, what is kept."""

    opening: str
    chosen: tuple[str, ...]
    reset: tuple[str, ...]
    kept: tuple[str, ...]


class StorePayload(Order, frozen=True, gc=False, tag=7):
    """Insert a payload. Recorded by its size."""

    path: str
    attempt: int
    role: str
    data: Document


class CreateTask(Order, frozen=True, gc=False, tag=8):
    """Insert a task, pending."""

    path: str
    queue: str
    handler: str
    lease_ms: int
    attempt_timeout_ms: int | None


class SetInput(Order, frozen=True, gc=False, tag=9):
    """Point a pending task at its input. `generation`: of its idempotency key from now on."""

    path: str
    input: PayloadKey
    generation: int


class DispatchTask(Order, frozen=True, gc=False, tag=10):
    """pending or retrying -> ready, unless it is ready already; and write its outbox row.

    `held`: the run is paused: the row is written when it is resumed.
    """

    path: str
    attempt: int
    held: bool = False


class AwaitTask(Order, frozen=True, gc=False, tag=11):
    """pending or retrying -> waiting."""

    path: str
    due_at: datetime | None


class ClaimTask(Order, frozen=True, gc=False, tag=12):
    """Record the lease under which what follows happened (the live row shows it already).

    Attributes:
        started_at: of the task's first lease; None: it is this one.
    """

    path: str
    attempt: int
    owner: str
    leased_at: datetime
    started_at: datetime | None


class CompleteTask(Order, frozen=True, gc=False, tag=13):
    """-> succeeded by `via`. Its output, if any, was stored before."""

    path: str
    via: str
    has_output: bool
    reported: bool
    cause: str | None = None  # "skipped": the output was given by hand


class FailTask(Order, frozen=True, gc=False, tag=14):
    """-> failed by `via`. `disposition` None: ScheduleRetry follows. `unknown`: as of CancelTask."""

    path: str
    via: str
    failure: Failure
    disposition: str | None
    handled_by: int | None
    reported: bool
    unknown: bool = False


class CountFailure(Order, frozen=True, gc=False, tag=15):
    """A failure that was tolerated is not any more."""

    path: str


class ExcuseFailure(Order, frozen=True, gc=False, tag=16):
    """A failure that counted is tolerated again: the join that it kept from firing is decided anew."""

    path: str


class ScheduleRetry(Order, frozen=True, gc=False, tag=17):
    """failed -> retrying, attempt + 1."""

    path: str
    due_at: datetime


class ReapLease(Order, frozen=True, gc=False, tag=18):
    """running -> ready, attempt + 1. outcome: "lost" (counted) or "released"."""

    path: str
    outcome: str


class CancelTask(Order, frozen=True, gc=False, tag=19):
    """-> cancelled, from whatever open state it is in.

    `unknown`: between two attempts, of which the earlier may have taken effect. The row says that instead of the cause.
    """

    path: str
    cause: str
    reported: bool
    unknown: bool = False


class RedoTask(Order, frozen=True, gc=False, tag=20):
    """settled -> pending, attempt + 1, in a run that was reopened."""

    path: str
    generation: int


class ScheduleTimer(Order, frozen=True, gc=False, tag=21):
    """Insert a timer, or move it."""

    path: str
    kind: str
    attempt: int
    due_at: datetime


class CancelTimer(Order, frozen=True, gc=False, tag=22):
    """Delete a timer; it may be gone already."""

    path: str
    kind: str
    attempt: int


class SetToken(Order, frozen=True, gc=False, tag=23):
    """An edge's token reached a node with several incoming edges."""

    path: str
    slot: int
    token: str  # "live" | "dead" | "failed"
    always: bool
    names: tuple[tuple[str, int | None], ...]


class EraseTokens(Order, frozen=True, gc=False, tag=24):
    """Take tokens back: their sources are redone."""

    path: str
    slots: tuple[int, ...]


class BufferSignal(Order, frozen=True, gc=False, tag=25):
    """Insert a signal under the event's sequence number."""

    name: str
    payload: Document
    expires_at: datetime | None = None


class TakeSignal(Order, frozen=True, gc=False, tag=26):
    """A wait consumes a signal; one that it took in an attempt before, perhaps again."""

    seq: int
    path: str
    name: str
    attempt: int = 1


class PauseRun(Order, frozen=True, gc=False, tag=27):
    """Dispatch nothing until the run is resumed."""

    reason: str
    clock_stopped: bool


class ResumeRun(Order, frozen=True, gc=False, tag=28):
    """Dispatch again. What was held meanwhile follows."""


class HoldTask(Order, frozen=True, gc=False, tag=29):
    """A READY task whose message, if there is one, is not for any worker now, and is not to be published again."""

    path: str


class HoldTimer(Order, frozen=True, gc=False, tag=30):
    """Take a time-out away and remember what is left of it."""

    path: str
    kind: str
    attempt: int
    left_ms: int


class PostponeTask(Order, frozen=True, gc=False, tag=31):
    """A waiting task goes on by itself at another time than was said; None: not by itself any more."""

    path: str
    due_at: datetime | None


class ResetVariables(Order, frozen=True, gc=False, tag=32):
    """Let the run's variables be what the set nodes that a retry keeps have set."""

    values: dict[str, Any]


class SetGeneration(Order, frozen=True, gc=False, tag=33):
    """Set the generation of a pending task's idempotency key: of one that undoes another, as `undoing_generation`."""

    path: str
    generation: int


class LabelRun(Order, frozen=True, gc=False, tag=34):
    """Insert the new run's labels, by name."""

    labels: dict[str, str]


class OpenLoop(Order, frozen=True, gc=False, tag=40):
    """A map or repeat begins; what its row counted before is forgotten. `source`: the map whose results it takes."""

    path: str
    attempt: int
    total: int
    source: str | None


class StopLoop(Order, frozen=True, gc=False, tag=41):
    """Nothing more of it is begun, and its open items are told, from the first on. closing: the grace is over."""

    path: str
    cause: str
    closing: bool


class MoveCursor(Order, frozen=True, gc=False, tag=42):
    """Its items before this one have been told of the stop; None: all have."""

    path: str
    cursor: int | None


class ReopenLoop(Order, frozen=True, gc=False, tag=43):
    """It goes on in a run that was reopened. `started`: of a repeat that goes back; what is redone, as in the row."""

    path: str
    started: int
    redo_from: int | None
    redo_failed: bool
    redo_chosen: int | None = None


class OpenScope(Order, frozen=True, gc=False, tag=44):
    """The next item or iteration begins; or one that was there before, in a run that was reopened."""

    path: str
    place: int | None = None  # in the list, where items are left out


class LeaveOut(Order, frozen=True, gc=False, tag=75):
    """So many next items of a map are not begun: its `where` does not hold for them."""

    path: str
    count: int


class ReopenScope(Order, frozen=True, gc=False, tag=45):
    """An item or iteration that was over goes on, in a run that was reopened."""

    path: str


class FailScope(Order, frozen=True, gc=False, tag=46):
    """A failure in it counts: nothing more begins but what follows an always edge."""

    path: str


class CloseScope(Order, frozen=True, gc=False, tag=47):
    """It is over. `output`: where its result is."""

    path: str
    state: RunState
    error: dict[str, Any] | None
    output: PayloadKey | None
    output_bytes: int


class StopTask(Order, frozen=True, gc=False, tag=49):
    """Whoever holds its lease is to stop, or who takes it: it is cancelled when he has, or when the grace is over."""

    path: str
    cause: str


class ConcludeRun(Order, frozen=True, gc=False, tag=50):
    """How the run ends is known; what runs at the end begins."""

    state: RunState
    error: dict[str, Any] | None


class DropScope(Order, frozen=True, gc=False, tag=48):
    """Its rows are deleted; `paths`: of its nodes."""

    path: str
    paths: tuple[str, ...]


class NoteEffect(Order, frozen=True, gc=False, tag=51):
    """A node that can be undone took effect, in the attempt at which it stands."""

    path: str


class BeginUndoing(Order, frozen=True, gc=False, tag=56):
    """What a node did is being undone; it stands until that succeeds. The fields are those of EffectRow."""

    place: int
    path: str
    attempt: int
    gave: str


class DoubtUndoing(Order, frozen=True, gc=False, tag=57):
    """What a node did may have been undone: it is wanted anew, and stays to be undone."""

    path: str


class TakeEffect(Order, frozen=True, gc=False, tag=52):
    """What a node did is to be undone no more. undone: since it was undone; else since a retry did it anew."""

    place: int
    path: str
    undone: bool


class ExpectSignal(Order, frozen=True, gc=False, tag=54):
    """A waiting node is found by the name of the signal that it waits for; others are found by their path."""

    path: str
    name: str


class ExpectNothing(Order, frozen=True, gc=False, tag=55):
    """It does not wait any more."""

    path: str


class LeaveStanding(Order, frozen=True, gc=False, tag=53):
    """What a node did could not be undone."""

    path: str


class AdoptRun(Order, frozen=True, gc=False, tag=70):
    """The run is a child; whose, it is told again when its parent takes it up again."""

    parent: Parent


class OpenChild(Order, frozen=True, gc=False, tag=71):
    """Insert the row of a run that is asked to start, or to go on; HandOver asks it."""

    path: str
    attempt: int
    child: str
    workflow: str
    version: int
    detached: bool


class StopChild(Order, frozen=True, gc=False, tag=72):
    """A child is told to stop, and its end is waited for."""

    path: str
    attempt: int
    cause: str


class CloseChild(Order, frozen=True, gc=False, tag=73):
    """A child's end has come, or is waited for no more."""

    path: str
    attempt: int
    state: str


class HandOver(Order, frozen=True, gc=False, tag=74):
    """Write an outbox row for another run. Recorded by its size.

    Attributes:
        to: the run's id, in hexadecimal digits.
        kind: what it is: core/handovers.py.
    """

    to: str
    kind: str
    body: Document


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
    | PauseRun
    | ResumeRun
    | HoldTask
    | HoldTimer
    | PostponeTask
    | ResetVariables
    | SetGeneration
    | LabelRun
    | OpenLoop
    | StopLoop
    | MoveCursor
    | ReopenLoop
    | OpenScope
    | LeaveOut
    | ReopenScope
    | FailScope
    | CloseScope
    | StopTask
    | ConcludeRun
    | DropScope
    | NoteEffect
    | BeginUndoing
    | DoubtUndoing
    | TakeEffect
    | LeaveStanding
    | ExpectSignal
    | ExpectNothing
    | AdoptRun
    | OpenChild
    | StopChild
    | CloseChild
    | HandOver
)
