"""One dispatch message on its way through the worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from headway.api.tasks.v1 import tasks_pb2
from headway.worker._context import Lease
from headway.worker._pace import Pauses


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An entry of a queue's stream.

    Attributes:
        stream: Key of the stream.
        message_id: The entry's id in it.
        task_id: Opaque.
        attempt: The fencing number.
        trace: W3C traceparent, or empty.
    """

    stream: str
    message_id: bytes
    task_id: str
    attempt: int
    trace: str


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """A message that this worker has read and not yet settled. Touched on the event loop only.

    Attributes:
        message: What was read.
        grant_key: Made once for this delivery; the same whenever its Lease is asked again.
        holds_slot: True until its handler has ended or will never run.
        busy: Paces its asking again, once it was answered BUSY.
        lease: Set when it was granted.
        started_at: Monotonic instant at which its handler started, in seconds.
        acknowledged: True once the message is handed over to be acknowledged.
        handler_task: The running handler, while it runs.
        stoppable: False once the handler runs in a thread, which nothing can stop from outside.
        report: What is being reported, once the handler has ended.
        report_refused: True when its first report was refused and a failure is reported instead.
    """

    message: Message
    grant_key: str
    holds_slot: bool = True
    busy: Pauses | None = None
    lease: Lease | None = None
    started_at: float = 0.0
    acknowledged: bool = False
    handler_task: asyncio.Task[tasks_pb2.ReportItem] | None = field(default=None, repr=False)
    stoppable: bool = True
    report: tasks_pb2.ReportItem | None = field(default=None, repr=False)
    report_refused: bool = False

    def facts(self, refusal: tasks_pb2.Refusal | None = None) -> dict[str, object]:
        """What a log line about it carries."""
        facts: dict[str, object] = {"task_id": self.message.task_id, "attempt": self.message.attempt}
        if refusal is not None:
            facts |= {"reason": refusal.reason, "fault": refusal.message}
        return facts
