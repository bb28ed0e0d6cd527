"""What a handler knows about the task it runs, and how it learns that it should stop."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any

from headway.worker._errors import HandlerCancelled
from headway.worker._outcomes import encode_checkpoint
from headway.worker._pulse import Pulse

MOST_PERCENT = 100

_logger = logging.getLogger("headway.worker.handler")


class Lease:
    """The right to run one attempt, as the worker sees it: until when, and whether to stop.

    Safe to read from any thread. Written by the renewal thread only, after the worker made it.

    Attributes:
        deadline: Monotonic instant at which the lease runs out, in seconds.
        duration: How long a renewal lasts, in seconds.
        cancelled: True once the handler should stop, for whatever reason.
        lost: True once the attempt is not this worker's any more: nothing may be reported.
        pulse: The handler's heartbeats, which renewals take along.
    """

    __slots__ = ("cancelled", "deadline", "duration", "lost", "pulse")

    def __init__(self, *, deadline: float, duration: float) -> None:
        """Start a lease that runs out at `deadline`."""
        self.deadline = deadline
        self.duration = duration
        self.cancelled = False
        self.lost = False
        self.pulse = Pulse()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a handler may know about its task. Safe to use from any thread.

    Attributes:
        run_id: The run.
        path: The task's path in its run, such as "resize[12].crop".
        workflow: The run's workflow.
        namespace: The run's namespace.
        handler: The name that the handler was called by.
        task_id: The task, opaque.
        attempt: The fencing number of this attempt. Not a count of tries.
        try_number: Which try this is, from 1: failures so far plus one.
        idempotency_key: Stable over retries and lost leases of the same input: hand it to what must not act twice.
        traceparent: W3C traceparent of the handler's span (or of the lease, when tracing is off); empty: none.
        checkpoint: What an earlier attempt with the same idempotency key gave to `heartbeat`; None: nothing.
    """

    run_id: str
    path: str
    workflow: str
    namespace: str
    handler: str
    task_id: str
    attempt: int
    try_number: int
    idempotency_key: str
    traceparent: str
    lease: Lease = field(repr=False)
    checkpoint: Any = None

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """Logger whose lines carry run, path, workflow and attempt."""
        facts = {"run_id": self.run_id, "path": self.path, "workflow": self.workflow, "attempt": self.attempt}
        return logging.LoggerAdapter(_logger, facts)

    @property
    def cancelled(self) -> bool:
        """True once the handler should stop: the run was cancelled, or the lease was lost."""
        return self.lease.cancelled

    def raise_if_cancelled(self) -> None:
        """Stop here if the handler should stop. Plain functions that run for long call it now and then.

        Raises:
            HandlerCancelled: The handler should stop. Let it pass.
        """
        if self.lease.cancelled:
            message = "the handler was told to stop"
            raise HandlerCancelled(message)

    def heartbeat(self, *, percent: float | None = None, message: str | None = None, checkpoint: object = None) -> None:
        """Give a sign of life. Cheap and never waits: the next renewal takes it along, every third of the lease.

        A node with `timeout: {heartbeat: …}` needs one at least twice within that time, and one with `stall:` one that
        is new. Call it from any thread.

        Args:
            percent: Of the work that is done, 0 to 100. None: as before.
            message: What it is at, for people. None: as before.
            checkpoint: JSON, at most 32 KiB, that the next attempt finds in `context.checkpoint`. None: as before.

        Raises:
            ValueError: The percent is none.
            InvalidCheckpoint: The checkpoint is not JSON, or too large.
        """
        if percent is not None and not 0 <= percent <= MOST_PERCENT:
            error = f"percent must be between 0 and {MOST_PERCENT}, not {percent}"
            raise ValueError(error)
        encoded = None if checkpoint is None else encode_checkpoint(checkpoint)
        self.lease.pulse.beat(percent=percent, message=message, checkpoint=encoded)

    def lease_remaining(self) -> float:
        """Return for how many seconds from now the lease lasts unless it is renewed (it is, every third of it)."""
        return max(0.0, self.lease.deadline - time.monotonic())
