"""Why a run stands where it stands: values, and how they are made from messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headway.api.runs.v1 import runs_pb2
from headway.client import _translate

if TYPE_CHECKING:
    from datetime import datetime

    from headway.client._values import Run, TaskError


class ReasonKind(StrEnum):
    """In what way a node waits, or what it did to its run's end."""

    UNSPECIFIED = "unspecified"  # a kind that this version of the client does not know
    QUEUED = "queued"  # waits for a worker, and there are some
    NO_WORKER = "no_worker"  # waits for a worker, and none of its queue was seen lately
    UNPUBLISHED = "unpublished"  # wants a worker, but the relay has not passed it on: it, or the broker, is down
    LEASED = "leased"  # a worker runs it
    LEASE_EXPIRED = "lease_expired"  # its worker fell silent; it is about to be given to another
    TIMER = "timer"  # waits for a time
    SIGNAL = "signal"  # waits for a signal
    BRANCHES = "branches"  # waits for other nodes
    RETRY = "retry"  # failed; is tried again
    STOPPING = "stopping"  # the run is being stopped, and waits for its worker
    FAILED = "failed"  # the run is over, and this is why
    PAUSED = "paused"  # the run is paused
    CLOSED = "closed"  # the run is over, and its worker did not end in time: what it did is unknown
    ITEMS = "items"  # a map or repeat waits for its items or iterations
    CHILD = "child"  # a subflow node waits for the run that it started


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEdge:
    """An edge that is waited for.

    Attributes:
        from_node: Where it comes from.
        on: "success", "failure", "timeout" or "always".
    """

    from_node: str
    on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one node stands where it stands.

    Attributes:
        path: The node's path.
        message: One sentence, for people.
        since: Since when; None: not known.
        until: Until when; None: for as long as it takes.
        queue: Empty for control and wait nodes.
        handler: Empty for control and wait nodes.
        owner: Worker that holds the lease, or did when it failed; empty: none.
        attempt: 0: none.
        signal: Its name; empty: none.
        branches: What is waited for.
        workers: Workers of the queue that were seen lately.
        worker_seen_at: When one was last seen; None: not within the last hour.
        error: How it failed.
        child_run_id: The run that is waited for; empty: none.
    """

    path: str
    kind: ReasonKind
    message: str
    since: datetime | None
    until: datetime | None
    queue: str
    handler: str
    owner: str
    attempt: int
    signal: str
    branches: tuple[OpenEdge, ...]
    workers: int
    worker_seen_at: datetime | None
    error: TaskError | None
    child_run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a run waits for, or why it ended as it did.

    Attributes:
        run: Without input and output.
        message: One sentence about the whole, for people.
        reasons: By path; of a run that is over, the tasks that decided its end.
        left_out: How many more open tasks there are; of a run that is over: how many more tasks and items failed.
    """

    run: Run
    message: str
    reasons: tuple[Reason, ...]
    left_out: int


_KINDS = {number: ReasonKind(name.removeprefix("REASON_KIND_").lower()) for name, number in runs_pb2.ReasonKind.items()}


def explanation(message: runs_pb2.ExplainResponse) -> Explanation:
    """What a run waits for."""
    return Explanation(
        run=_translate.run(message.run),
        message=message.message,
        reasons=tuple(_reason(each) for each in message.reasons),
        left_out=message.left_out,
    )


def _reason(message: runs_pb2.Reason) -> Reason:
    seen_at = _translate.instant(message.worker_seen_at) if message.HasField("worker_seen_at") else None
    return Reason(
        path=message.path,
        kind=_KINDS.get(message.kind, ReasonKind.UNSPECIFIED),
        message=message.message,
        since=_translate.instant(message.since) if message.HasField("since") else None,
        until=_translate.instant(message.until) if message.HasField("until") else None,
        queue=message.queue,
        handler=message.handler,
        owner=message.owner,
        attempt=message.attempt,
        signal=message.signal,
        branches=tuple(OpenEdge(from_node=each.from_node, on=each.on) for each in message.branches),
        workers=message.workers,
        child_run_id=message.child_run_id,
        worker_seen_at=seen_at,
        error=_translate.task_error(message.error) if message.HasField("error") else None,
    )
