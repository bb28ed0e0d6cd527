"""Keeps leases alive, in a thread and over a channel of its own: a handler that blocks the event loop keeps its lease.

The thread also watches the clock: a lease that runs out unanswered is lost here, without the event loop's help. What it
finds it writes into the `Lease` (which handlers in threads see at once) and tells through the callbacks, which are
called in this thread or in gRPC's: they have to hand over to the event loop.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import grpc

from headway.api.tasks.v1 import tasks_pb2, tasks_pb2_grpc
from headway.worker._batching import MOST_ITEMS
from headway.worker._context import Lease
from headway.worker._coordinator import seconds_of
from headway.worker._delivery import Delivery
from headway.worker._pace import Pauses

logger = logging.getLogger(__name__)

_PART_OF_LEASE = 1 / 3
"""A lease is renewed every third of it."""
_SLACK = 0.1
"""Leases due within this part of their duration go along with those that are due now."""
_SHORTEST_CALL = 1.0
_BUSY_PAUSE = 0.2
_RETRIED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED}


class LostCallback(Protocol):
    """Told of a lost lease."""

    def __call__(self, delivery: Delivery, /, *, answered: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalEvents:
    """Whom to tell. Called outside the event loop's thread.

    Attributes:
        cancel: The coordinator wants the handler stopped; its outcome still counts.
        lost: The lease is lost. answered=True: the coordinator said so. False: it ran out unanswered.
        renewed: The lease goes on.
        failed: A call was not answered, and is tried again; told how it failed.
        answered: A call was answered.
    """

    cancel: Callable[[Delivery], None]
    lost: LostCallback
    renewed: Callable[[Delivery], None]
    failed: Callable[[str], None]
    answered: Callable[[], None]


class Renewals:
    """The leases that this worker holds, and the thread that renews them."""

    def __init__(self, *, channel: Callable[[], grpc.Channel], owner: str, events: RenewalEvents) -> None:
        """Make the thread; `start` starts it.

        Args:
            channel: Opens a channel to the coordinator.
            owner: This worker's identity.
            events: Whom to tell.
        """
        self._open_channel = channel
        self._owner = owner
        self._events = events
        self._due_at: dict[Delivery, float] = {}
        self._pauses: dict[Delivery, Pauses] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._wakes_at = -math.inf
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="headway-renewals", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing; does not wait for a call under way."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def join(self, timeout: float) -> None:
        """Wait for the thread's end, at most `timeout` seconds."""
        self._thread.join(timeout)

    def add(self, delivery: Delivery, lease: Lease) -> None:
        """Renew a delivery's lease from now on."""
        # The duration counts from before the request was sent, and so does the third of it.
        due_at = lease.deadline - lease.duration * (1 - _PART_OF_LEASE)
        with self._lock:
            self._set_due(delivery, due_at)

    def hurry(self) -> None:
        """Try again at once what has failed: the coordinator is back."""
        now = time.monotonic()
        with self._lock:
            for delivery in self._pauses:
                if self._due_at.get(delivery, math.inf) < math.inf:  # else it is under way
                    self._set_due(delivery, now)

    def remove(self, delivery: Delivery) -> None:
        """Stop renewing a lease."""
        with self._lock:
            self._due_at.pop(delivery, None)
            self._pauses.pop(delivery, None)

    def _set_due(self, delivery: Delivery, instant: float) -> None:
        """Wake the thread, unless it is awake or will be by then: every wake-up takes time from the handlers."""
        self._due_at[delivery] = instant
        if instant < self._wakes_at:
            self._wakes_at = -math.inf
            self._changed.notify()

    def _run(self) -> None:
        with self._open_channel() as channel:
            stub = tasks_pb2_grpc.TasksServiceStub(channel)
            while True:
                with self._lock:
                    if self._stopped:
                        return
                    expired, due = self._look(time.monotonic())
                    if not expired and not due:
                        self._sleep()
                        continue
                for delivery in expired:
                    self._lose(delivery, answered=False)
                for start in range(0, len(due), MOST_ITEMS):
                    self._send(stub, due[start : start + MOST_ITEMS])

    def _look(self, now: float) -> tuple[list[Delivery], list[Delivery]]:
        """Take out what has run out and what has to be renewed; the latter is not due again until it is answered."""
        expired: list[Delivery] = []
        due: list[Delivery] = []
        soon: list[Delivery] = []
        for delivery, due_at in self._due_at.items():
            lease = delivery.lease
            if lease is None or lease.deadline <= now:
                expired.append(delivery)
            elif due_at <= now:
                due.append(delivery)
            elif due_at <= now + lease.duration * _SLACK:
                soon.append(delivery)
        if due:
            due += soon
        for delivery in expired:
            del self._due_at[delivery]
        for delivery in due:
            self._due_at[delivery] = math.inf
        return expired, due

    def _sleep(self) -> None:
        instants = (
            min(due_at, delivery.lease.deadline)
            for delivery, due_at in self._due_at.items()
            if delivery.lease is not None
        )
        self._wakes_at = min(instants, default=math.inf)
        if math.isinf(self._wakes_at):
            self._changed.wait()
        else:
            self._changed.wait(max(0.0, self._wakes_at - time.monotonic()))
        self._wakes_at = -math.inf

    def _send(self, stub: tasks_pb2_grpc.TasksServiceStub, batch: list[Delivery]) -> None:
        items: list[tasks_pb2.RenewItem] = []
        told: list[int] = []
        for delivery in batch:
            beat, number = (None, 0) if delivery.lease is None else delivery.lease.pulse.untold()
            items.append(tasks_pb2.RenewItem(task_id=delivery.task_id, attempt=delivery.attempt, beat=beat))
            told.append(number)
        sent_at = time.monotonic()
        shortest = min(delivery.lease.duration for delivery in batch if delivery.lease is not None)
        timeout = max(_SHORTEST_CALL, shortest * _PART_OF_LEASE)
        # A future, not a plain call: while it is under way the thread goes on watching the clock.
        call = stub.Renew.future(tasks_pb2.RenewRequest(owner=self._owner, items=items), timeout=timeout)
        call.add_done_callback(lambda done: self._answered(batch, told, sent_at, done))

    def _answered(
        self, batch: list[Delivery], told: list[int], sent_at: float, call: grpc.Future[tasks_pb2.RenewResponse]
    ) -> None:
        try:
            response = call.result()
        except grpc.RpcError as error:
            if not self._stopped:
                self._call_failed(batch, error)
            return
        except grpc.FutureCancelledError:
            return
        self._events.answered()
        for delivery, number, result in zip(batch, told, response.results, strict=False):
            try:
                self._apply(delivery, result, number, sent_at)
            except Exception:
                # Asked for no more: the lease runs out, and its handler is stopped then.
                logger.exception("an answer to Renew cannot be taken", extra=delivery.facts())
        self._again(batch[len(response.results) :], at=time.monotonic() + _BUSY_PAUSE)

    def _call_failed(self, batch: Iterable[Delivery], error: grpc.RpcError) -> None:
        code = error.code() if isinstance(error, grpc.Call) else None
        if code not in _RETRIED:
            # Not repeated: the leases run out, and their handlers are stopped then.
            logger.error("renewing failed for good", extra={"code": str(code), "fault": str(error)})
            return
        self._events.failed(f"{code.name if code else type(error).__name__}: {_details(error)}")
        now = time.monotonic()
        with self._lock:
            for delivery in batch:
                if delivery in self._due_at:
                    self._set_due(delivery, now + self._pauses.setdefault(delivery, Pauses()).next())

    def _apply(self, delivery: Delivery, result: tasks_pb2.RenewResult, told: int, sent_at: float) -> None:
        lease = delivery.lease
        if lease is None:
            return
        if result.answer == tasks_pb2.RENEW_ANSWER_RENEWED:
            duration = seconds_of(result.lease)
            lease.duration = duration
            lease.deadline = sent_at + duration
            lease.pulse.tell(told)
            with self._lock:
                self._pauses.pop(delivery, None)
            self._again([delivery], at=sent_at + duration * _PART_OF_LEASE)
            self._events.renewed(delivery)
            if result.cancel and not lease.cancelled:
                lease.cancelled = True
                self._events.cancel(delivery)
        elif result.answer == tasks_pb2.RENEW_ANSWER_BUSY:
            self._again([delivery], at=time.monotonic() + _BUSY_PAUSE)
        else:
            with self._lock:
                held = self._due_at.pop(delivery, None)
            if held is not None:
                self._lose(delivery, answered=True)

    def _again(self, batch: Iterable[Delivery], *, at: float) -> None:
        with self._lock:
            for delivery in batch:
                if delivery in self._due_at:
                    self._set_due(delivery, at)

    def _lose(self, delivery: Delivery, *, answered: bool) -> None:
        if delivery.lease is not None:
            delivery.lease.lost = True
            delivery.lease.cancelled = True
        self._events.lost(delivery, answered=answered)


def _details(error: grpc.RpcError) -> str:
    return str(error.details() or "") if isinstance(error, grpc.Call) else str(error)
