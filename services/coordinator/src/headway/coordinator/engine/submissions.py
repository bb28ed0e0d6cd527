"""What can be asked of a run, as the decision lane takes it: each becomes an event, or is answered without one."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import cache
from hashlib import blake2b
from typing import Any, ClassVar, TypeAlias
from uuid import UUID

from msgspec import Struct, msgpack
from msgspec.structs import fields

from headway.coordinator.core.admission import (
    Answer,
    child_applies,
    lease_has_expired,
    look_again_at,
    report_answer,
    stop_applies,
    timer_applies,
)
from headway.coordinator.core.decide import Decision
from headway.coordinator.core.decide.redone import Before, redone
from headway.coordinator.core.document import Document
from headway.coordinator.core.events import (
    ChildFinished,
    Failure,
    LeaseExpired,
    LeaseReleased,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    RunCancelled,
    RunEvent,
    RunRetried,
    RunStarted,
    SignalReceived,
    TimerFired,
)
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.refusals import Refusal, RequestIdReused, RunNotFinished, RunNotFound, TaskNotFound
from headway.coordinator.core.rows import Parent, RunRow
from headway.coordinator.core.state import Draft, State
from headway.coordinator.engine.eager import Wish
from headway.coordinator.ids import task_id
from headway.coordinator.store.changes import Applied

FINGERPRINT_BYTES = 16  # kept with each request that was applied, to tell a repeat from another one
TimerKey: TypeAlias = tuple[UUID, str, str, int]
LONGEST_START = timedelta(hours=12)  # from its key to its run; tombstones stay for a day
LATE = "late"
"""What a start is answered that took longer: nothing was written."""
OUTDATED = "outdated"
"""What a start is answered whose remembered version is not the deployed one: nothing was written."""


class Submission(Struct, frozen=True, kw_only=True):
    """What all have.

    Attributes:
        run_id: whose lock it needs.
        path: of the task that it names; empty: none.
        trace: W3C traceparent of what caused it; empty: the run's own.
        request_id: of a mutation: answered as the first time when it was applied before.
        namespace: the run must be in it; None: the caller knows the run from us.
        dry_run: it is decided and answered, or refused, and nothing is written.
    """

    run_id: UUID
    path: str = ""
    trace: str = ""
    request_id: UUID | None = None
    namespace: str | None = None
    dry_run: bool = False

    goes_straight: ClassVar[bool] = False  # its run mostly goes straight on: see store/steps.py
    not_compared: ClassVar[AbstractSet[str]] = frozenset({"run_id", "trace", "request_id", "namespace", "dry_run"})

    @property
    def call(self) -> str:
        """The kind of call that it is."""
        return type(self).__name__

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return 0

    @property
    def stays(self) -> bool:
        """However long it has waited, it is not refused for that."""
        return False

    def compared(self) -> Mapping[str, object]:
        """What tells it from other requests about its run: no defaults, so that a field added later changes nothing."""
        given = {name: (getattr(self, name), default) for name, default in _defaults(type(self))}
        return {name: value for name, (value, default) in given.items() if value != default}

    def fingerprint(self) -> bytes:
        """The same for the same request, in every process."""
        told = _encoder.encode([self.call, self.compared()])
        return blake2b(told, digest_size=FINGERPRINT_BYTES).digest()

    def missing(self) -> Refusal:
        """What to answer when the run is not there."""
        return RunNotFound(run_id=self.run_id.hex, namespace=self.namespace or "")

    def event(self, at: datetime, chance: float) -> RunEvent:
        """The event that it becomes."""
        raise NotImplementedError

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """Answer without an event, or None: decide. Raises Missing when it needs rows, Refusal."""
        return None

    def answer(self, decision: Decision, state: State) -> object:
        """What to answer after the decision. `state`: as it was before."""
        raise NotImplementedError

    def answer_again(self, known: Applied) -> object:
        """What the request was answered the first time. Raises RequestIdReused when that was another request."""
        if known.fingerprint != self.fingerprint():
            raise RequestIdReused(key=str(self.request_id), call=known.call)
        return known.answer


class Start(Submission, frozen=True, kw_only=True):
    """Start a run. Answers True when it existed, OUTDATED or LATE. It is missing when it was deleted and had a key.

    Attributes:
        keyed_at: when its key named the run; LATE: that is too long ago.
        is_remembered: the version was remembered as the deployed one: nothing is written unless it is that still.
    """

    goes_straight = True

    graph: Graph
    workflow: str
    version: int
    key: str | None
    run_trace: str
    input: Document
    labels: Mapping[str, str]
    in_namespace: str
    parent: Parent | None = None
    deadline_at: datetime | None = None
    is_cancelled: bool = False
    is_remembered: bool = False
    keyed_at: datetime | None = None

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return len(self.input.raw)

    @property
    def stays(self) -> bool:
        """It has claimed its key, which would stand for no run."""
        return self.key is not None

    def event(self, at: datetime, chance: float) -> RunEvent:
        """RunStarted."""
        return RunStarted(
            at=at,
            chance=chance,
            namespace=self.in_namespace,
            workflow=self.workflow,
            version=self.version,
            key=self.key,
            trace=self.run_trace,
            input=self.input,
            labels=self.labels,
            parent=self.parent,
            deadline_at=self.deadline_at,
            is_cancelled=self.is_cancelled,
        )

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """True when the run is there already."""
        if draft.state.run is not None:
            return True
        return LATE if self.keyed_at is not None and event.at - self.keyed_at > LONGEST_START else None

    def answer(self, decision: Decision, state: State) -> object:
        """False: it did not exist."""
        return False


class Report(Submission, frozen=True, kw_only=True):
    """End an attempt. Answers an Answer. `checkpoint`: JSON for the next attempt; empty: none that is new."""

    attempt: int
    owner: str
    checkpoint: bytes = b""

    def missing(self) -> Refusal:
        """There is no such task."""
        return TaskNotFound(task_id=task_id(self.run_id, self.path))

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """The answer, unless it is ACCEPTED."""
        task = draft.task(self.path)
        if task is None:
            raise self.missing()
        left = draft.attempt(self.path, self.attempt) if self.attempt < task.attempt else None
        answer = report_answer(draft.run, task, left, attempt=self.attempt, owner=self.owner)
        return None if answer is Answer.ACCEPTED else answer

    def answer(self, decision: Decision, state: State) -> object:
        """ACCEPTED."""
        return Answer.ACCEPTED


class ReportSucceeded(Report, frozen=True, kw_only=True):
    """The handler returned. `wish`: for a next task; then it may answer a Continued."""

    goes_straight = True

    output: Document
    wish: Wish | None = None

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return len(self.output.raw)

    def event(self, at: datetime, chance: float) -> RunEvent:
        """NodeCompleted."""
        return NodeCompleted(
            at=at, chance=chance, path=self.path, attempt=self.attempt, owner=self.owner, output=self.output
        )


class ReportFailed(Report, frozen=True, kw_only=True):
    """The handler failed."""

    failure: Failure
    final: bool
    retry_after_ms: int | None = None

    def event(self, at: datetime, chance: float) -> RunEvent:
        """NodeFailed."""
        return NodeFailed(
            at=at,
            chance=chance,
            path=self.path,
            attempt=self.attempt,
            owner=self.owner,
            failure=self.failure,
            final=self.final,
            retry_after_ms=self.retry_after_ms,
        )


class ReportCancelled(Report, frozen=True, kw_only=True):
    """The handler was stopped."""

    def event(self, at: datetime, chance: float) -> RunEvent:
        """NodeCancelled."""
        return NodeCancelled(at=at, chance=chance, path=self.path, attempt=self.attempt, owner=self.owner)


class ReportReleased(Report, frozen=True, kw_only=True):
    """The attempt is given back."""

    def event(self, at: datetime, chance: float) -> RunEvent:
        """LeaseReleased."""
        return LeaseReleased(at=at, chance=chance, path=self.path, attempt=self.attempt, owner=self.owner)


class Expire(Submission, frozen=True, kw_only=True):
    """A lease seems to have expired. Answers True when that was so."""

    attempt: int

    def event(self, at: datetime, chance: float) -> RunEvent:
        """LeaseExpired."""
        return LeaseExpired(at=at, chance=chance, path=self.path, attempt=self.attempt)

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """False when the row says otherwise, under its lock."""
        applies = isinstance(event, LeaseExpired) and lease_has_expired(draft.task(self.path), event)
        return None if applies else False

    def answer(self, decision: Decision, state: State) -> object:
        """True: it was reaped."""
        return True


class Moved(Struct, frozen=True, kw_only=True):
    """A timer that came due too early: there were signs of life since it was set.

    Attributes:
        due_at: when to look again.
    """

    due_at: datetime


class Fire(Submission, frozen=True, kw_only=True):
    """A timer seems to be due. Answers True when it was and meant something, or a Moved."""

    kind: str
    attempt: int

    @property
    def timer(self) -> TimerKey:
        """The timer's key."""
        return (self.run_id, self.path, self.kind, self.attempt)

    def event(self, at: datetime, chance: float) -> RunEvent:
        """TimerFired."""
        return TimerFired(at=at, chance=chance, path=self.path, kind=self.kind, attempt=self.attempt)

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """False when its row is gone or not due, or when it means nothing any more."""
        if self.timer not in due or not isinstance(event, TimerFired):
            return False
        task = draft.task(self.path) if self.path else None
        if not timer_applies(draft.run, task, event):
            return False
        due_at = None if task is None else look_again_at(draft, task, event)
        return None if due_at is None else Moved(due_at=due_at)

    def answer(self, decision: Decision, state: State) -> object:
        """True: it fired."""
        return True


class Signal(Submission, frozen=True, kw_only=True):
    """An outside event. Answers {"seq"}.

    Attributes:
        name: what a node waits for.
        payload: JSON.
        ttl_ms: how long it may wait to be taken; None: for ever.
        has_id: its sender gave it an id: when that comes again, {"is_repeat", "differs"} are answered too.
        start: tells the start that came with it from others; empty: none did.
    """

    not_compared = Submission.not_compared | {"has_id"}

    name: str
    payload: Document
    ttl_ms: int | None = None
    has_id: bool = False
    start: str = ""

    @property
    def call(self) -> str:
        """SignalWithStart where a start came with it; one with an id is the same event, whoever sends it."""
        return "SignalWithStart" if self.start and not self.has_id else "Signal"

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return len(self.payload.raw)

    def event(self, at: datetime, chance: float) -> RunEvent:
        """SignalReceived."""
        return SignalReceived(at=at, chance=chance, name=self.name, payload=self.payload, ttl_ms=self.ttl_ms)

    def answer(self, decision: Decision, state: State) -> object:
        """Where it stands in the history."""
        return {"seq": run_after(decision).seq}

    def compared(self) -> Mapping[str, object]:
        """Of one with an id, its payload."""
        return {"payload": self.payload} if self.has_id else super().compared()

    def answer_again(self, known: Applied) -> object:
        """With an id, what was recorded stays, whatever the repeat brings."""
        if not self.has_id or known.call != self.call:
            return super().answer_again(known)
        answered: Any = known.answer
        return {**answered, "is_repeat": True, "differs": known.fingerprint != self.fingerprint()}


class Cancel(Submission, frozen=True, kw_only=True):
    """Stop the run. Answers {"state"}."""

    reason: str
    grace_ms: int
    compensate: bool = True

    def event(self, at: datetime, chance: float) -> RunEvent:
        """RunCancelled."""
        return RunCancelled(
            at=at, chance=chance, reason=self.reason, grace_ms=self.grace_ms, compensate=self.compensate
        )

    def answer(self, decision: Decision, state: State) -> object:
        """Where the run stands now."""
        return {"state": str(run_after(decision).state)}


class StopChild(Cancel, frozen=True, kw_only=True):
    """Its parent's node, in the attempt that it names, stops the run. Answers as Cancel; False: it is over for that."""

    parent: Parent

    def event(self, at: datetime, chance: float) -> RunEvent:
        """RunCancelled."""
        return RunCancelled(
            at=at,
            chance=chance,
            reason=self.reason,
            grace_ms=self.grace_ms,
            compensate=self.compensate,
            parent=self.parent,
        )

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """False when that attempt's run is over, or the run answers to a later one."""
        return None if stop_applies(draft.run, self.parent) else False


class Retry(Submission, frozen=True, kw_only=True):
    """Reopen the run. Answers what `redone` tells, and {"epoch"}.

    `before`: what was looked up for the answer.
    """

    not_compared = Submission.not_compared | {"before"}

    chosen: tuple[str, ...]
    render_inputs: bool
    before: Before = Before()

    def event(self, at: datetime, chance: float) -> RunEvent:
        """RunRetried."""
        return RunRetried(at=at, chance=chance, chosen=self.chosen, render_inputs=self.render_inputs)

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """None: decide. Raises RunNotFinished."""
        if not draft.run.is_final:
            raise RunNotFinished(run_id=self.run_id.hex, state=draft.run.state)
        return None

    def answer(self, decision: Decision, state: State) -> object:
        """What is done again, and what is not."""
        return {**redone(state, decision.actions, self.chosen, self.before), "epoch": run_after(decision).epoch}


class GoOn(Submission, frozen=True, kw_only=True):
    """Its parent takes the run up again. Answers True."""

    parent: Parent
    deadline_at: datetime | None

    def event(self, at: datetime, chance: float) -> RunEvent:
        """RunRetried."""
        return RunRetried(at=at, chance=chance, parent=self.parent, deadline_at=self.deadline_at)

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """True when it was told so before."""
        known = draft.run.parent
        return True if known is not None and known.asker == self.parent.asker else None

    def answer(self, decision: Decision, state: State) -> object:
        """It goes on, or its end was told."""
        return True


class EndChild(Submission, frozen=True, kw_only=True):
    """A run that a subflow node, `path`, asked for is over. Answers True; False: nobody waits for that any more."""

    attempt: int
    child: str
    state: str
    error: dict[str, Any] | None = None
    output: Document | None = None

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return 0 if self.output is None else len(self.output.raw)

    def event(self, at: datetime, chance: float) -> RunEvent:
        """ChildFinished."""
        return ChildFinished(
            at=at,
            chance=chance,
            path=self.path,
            attempt=self.attempt,
            child=self.child,
            state=self.state,
            error=self.error,
            output=self.output,
        )

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """False when its node waits no more."""
        if not (isinstance(event, ChildFinished) and draft.state.graph.has(self.path)):
            return False
        child = draft.child(self.path)
        return None if child_applies(draft.run, draft.task(self.path), child, event) else False

    def answer(self, decision: Decision, state: State) -> object:
        """True: it was waited for."""
        return True


@cache
def _defaults(kind: type[Submission]) -> tuple[tuple[str, object], ...]:
    """The fields that are compared, with their defaults."""
    return tuple((field.name, field.default) for field in fields(kind) if field.name not in kind.not_compared)


def _raw(value: object) -> bytes:
    if isinstance(value, Document):
        return value.raw
    raise NotImplementedError(type(value).__name__)


_encoder = msgpack.Encoder(enc_hook=_raw, order="sorted")


def run_after(decision: Decision) -> RunRow:
    """The run's row after a decision: each counts its event in it."""
    if decision.changes.run is None:
        raise LookupError("a decision without a run")
    return decision.changes.run


def told(item: Submission) -> str:
    """What an item is, for logs: its kind, what it is about, and its run."""
    what = [type(item).__name__, getattr(item, "kind", ""), item.path, f"of run {item.run_id.hex}"]
    return " ".join(word for word in what if word)
