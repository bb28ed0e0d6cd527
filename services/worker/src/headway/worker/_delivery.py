"""One attempt on its way through the worker, and the queue's message that may have brought it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.api.tasks.v1 import tasks_pb2
from headway.worker._context import Lease
from headway.worker._pace import Pauses

Entry = tuple[str, bytes]
"""An entry of a queue's stream: the key of the stream, and the entry's id in it."""


class Message(NamedTuple):
    """A dispatch message.

    Attributes:
        entry: Where it lies, until it is acknowledged.
        task_id: Opaque.
        attempt: The fencing number.
        trace: W3C traceparent, or empty.
    """

    entry: Entry
    task_id: str
    attempt: int
    trace: str


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """An attempt that this worker has been offered and not yet settled. Touched on the event loop only.

    Attributes:
        task_id: Opaque.
        attempt: The fencing number.
        grant_key: Made once for this delivery; the same whenever its grant is asked for again.
        entry: What is to be acknowledged once nobody needs it any more. None from then on, and from the start for what
            was granted in the answer to a report: no queue knows of it.
        trace: W3C traceparent under which its lease is taken, or empty.
        holds_slot: True until its slot is free for another.
        busy: Paces its asking again, once it was answered BUSY.
        lease: Set when it was granted.
        started_at: Monotonic instant at which its handler started, in seconds.
        handler_task: The running handler, while it runs.
        stoppable: True while the handler runs on the event loop. It is not before its first step, and not in a thread,
            which nothing can stop from outside.
        report: What is being reported, once the handler has ended.
        report_refused: True when its first report was refused and a failure is reported instead.
    """

    task_id: str
    attempt: int
    grant_key: str
    entry: Entry | None = None
    trace: str = ""
    holds_slot: bool = True
    busy: Pauses | None = None
    lease: Lease | None = None
    started_at: float = 0.0
    handler_task: asyncio.Task[None] | None = field(default=None, repr=False)
    stoppable: bool = False
    report: tasks_pb2.ReportItem | None = field(default=None, repr=False)
    report_refused: bool = False

    def facts(self, refusal: tasks_pb2.Refusal | None = None) -> dict[str, object]:
        """What a log line about it carries."""
        facts: dict[str, object] = {"task_id": self.task_id, "attempt": self.attempt}
        if refusal is not None:
            facts |= {"reason": refusal.reason, "fault": refusal.message}
        return facts
