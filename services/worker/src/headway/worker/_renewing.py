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
    """

    cancel: Callable[[Delivery], None]
    lost: LostCallback
    renewed: Callable[[Delivery], None]


@dataclass(slots=True, eq=False)
class _Renewal:
    delivery: Delivery
    due_at: float
    pauses: Pauses


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
        self._held: dict[Delivery, _Renewal] = {}
        self._changed = threading.Condition()
        self._wakes_at = math.inf
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

    def add(self, delivery: Delivery) -> None:
        """Renew a lease from now on."""
        lease = delivery.lease
        if lease is None:
            return
        # The duration counts from before the request was sent, and so does the third of it.
        due_at = lease.deadline - lease.duration * (1 - _PART_OF_LEASE)
        with self._changed:
            self._held[delivery] = _Renewal(delivery=delivery, due_at=due_at, pauses=Pauses())
            if due_at < self._wakes_at:
                self._changed.notify()

    def remove(self, delivery: Delivery) -> None:
        """Stop renewing a lease."""
        with self._changed:
            self._held.pop(delivery, None)

    def _run(self) -> None:
        with self._open_channel() as channel:
            stub = tasks_pb2_grpc.TasksServiceStub(channel)
            while True:
                with self._changed:
                    if self._stopped:
                        return
                    expired, due = self._look(time.monotonic())
                    if not expired and not due:
                        self._sleep()
                        continue
                for renewal in expired:
                    self._lose(renewal.delivery, answered=False)
                for start in range(0, len(due), MOST_ITEMS):
                    self._send(stub, due[start : start + MOST_ITEMS])

    def _look(self, now: float) -> tuple[list[_Renewal], list[_Renewal]]:
        """Take out what has run out and what has to be renewed; the latter is not due again until it is answered."""
        expired: list[_Renewal] = []
        due: list[_Renewal] = []
        soon: list[_Renewal] = []
        for renewal in self._held.values():
            lease = renewal.delivery.lease
            if lease is None or lease.deadline <= now:
                expired.append(renewal)
            elif renewal.due_at <= now:
                due.append(renewal)
            elif renewal.due_at <= now + lease.duration * _SLACK:
                soon.append(renewal)
        if due:
            due += soon
        for renewal in expired:
            self._held.pop(renewal.delivery, None)
        for renewal in due:
            renewal.due_at = math.inf
        return expired, due

    def _sleep(self) -> None:
        instants = (
            min(renewal.due_at, renewal.delivery.lease.deadline)
            for renewal in self._held.values()
            if renewal.delivery.lease is not None
        )
        self._wakes_at = min(instants, default=math.inf)
        if math.isinf(self._wakes_at):
            self._changed.wait()
        else:
            self._changed.wait(max(0.0, self._wakes_at - time.monotonic()))
        self._wakes_at = -math.inf

    def _send(self, stub: tasks_pb2_grpc.TasksServiceStub, batch: list[_Renewal]) -> None:
        items = [
            tasks_pb2.RenewItem(task_id=r.delivery.message.task_id, attempt=r.delivery.message.attempt) for r in batch
        ]
        sent_at = time.monotonic()
        shortest = min(r.delivery.lease.duration for r in batch if r.delivery.lease is not None)
        timeout = max(_SHORTEST_CALL, shortest * _PART_OF_LEASE)
        # A future, not a plain call: while it is under way the thread goes on watching the clock.
        call = stub.Renew.future(tasks_pb2.RenewRequest(owner=self._owner, items=items), timeout=timeout)
        call.add_done_callback(lambda done: self._answered(batch, sent_at, done))

    def _answered(self, batch: list[_Renewal], sent_at: float, call: grpc.Future[tasks_pb2.RenewResponse]) -> None:
        try:
            response = call.result()
        except grpc.RpcError as error:
            if not self._stopped:
                self._call_failed(batch, error)
            return
        except grpc.FutureCancelledError:
            return
        for renewal, result in zip(batch, response.results, strict=False):
            self._apply(renewal, result, sent_at)
        self._again(batch[len(response.results) :], at=time.monotonic() + _BUSY_PAUSE)

    def _call_failed(self, batch: Iterable[_Renewal], error: grpc.RpcError) -> None:
        code = error.code() if isinstance(error, grpc.Call) else None
        if code not in _RETRIED:
            # Not repeated: the leases run out, and their handlers are stopped then.
            logger.error("renewing failed for good", extra={"code": str(code), "fault": str(error)})
            return
        logger.warning("renewing failed; trying again", extra={"code": str(code)})
        now = time.monotonic()
        for renewal in batch:
            self._again([renewal], at=now + renewal.pauses.next())

    def _apply(self, renewal: _Renewal, result: tasks_pb2.RenewResult, sent_at: float) -> None:
        delivery = renewal.delivery
        lease = delivery.lease
        if lease is None:
            return
        if result.answer == tasks_pb2.RENEW_ANSWER_RENEWED:
            renewal.pauses.reset()
            lease.duration = result.lease.ToTimedelta().total_seconds()
            lease.deadline = sent_at + lease.duration
            self._again([renewal], at=sent_at + lease.duration * _PART_OF_LEASE)
            self._events.renewed(delivery)
            if result.cancel and not lease.cancelled:
                lease.cancelled = True
                self._events.cancel(delivery)
        elif result.answer == tasks_pb2.RENEW_ANSWER_BUSY:
            self._again([renewal], at=time.monotonic() + _BUSY_PAUSE)
        else:
            with self._changed:
                held = self._held.pop(delivery, None)
            if held is not None:
                self._lose(delivery, answered=True)

    def _again(self, batch: Iterable[_Renewal], *, at: float) -> None:
        with self._changed:
            for renewal in batch:
                renewal.due_at = at
            self._changed.notify()

    def _lose(self, delivery: Delivery, *, answered: bool) -> None:
        if delivery.lease is not None:
            delivery.lease.lost = True
            delivery.lease.cancelled = True
        self._events.lost(delivery, answered=answered)
