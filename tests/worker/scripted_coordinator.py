"""A coordinator by script: a real gRPC server, in threads of its own, that answers a worker as a test tells it to.

It stands in for the worker's remote peer. Threads, because some tests block the event loop on purpose.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import grpc
import orjson
from google.protobuf.duration_pb2 import Duration

from headway.api.tasks.v1 import tasks_pb2, tasks_pb2_grpc

PATIENCE = 20.0

GRANTED = tasks_pb2.LEASE_ANSWER_GRANTED


@dataclass
class Script:
    """What to answer, item by item; `aborts` are statuses that whole calls end with, first come first."""

    lease: Callable[[tasks_pb2.LeaseItem], tasks_pb2.LeaseResult]
    renew: Callable[[tasks_pb2.RenewItem], tasks_pb2.RenewResult]
    report: Callable[[tasks_pb2.ReportItem], tasks_pb2.ReportResult]
    aborts: dict[str, deque[grpc.StatusCode]] = field(
        default_factory=lambda: {"lease": deque(), "renew": deque(), "report": deque()}
    )
    always_abort: dict[str, grpc.StatusCode] = field(default_factory=dict[str, grpc.StatusCode])


class ScriptedCoordinator(tasks_pb2_grpc.TasksServiceServicer):
    """Grants, renews and accepts everything, unless the script says otherwise. Keeps all that it was asked."""

    def __init__(self, *, lease_seconds: float = 30.0) -> None:
        self.lease_seconds = lease_seconds
        self.grants: dict[str, tasks_pb2.Grant] = {}
        self.lease_calls: list[list[tasks_pb2.LeaseItem]] = []
        self.renew_calls: list[list[tasks_pb2.RenewItem]] = []
        self.report_calls: list[list[tasks_pb2.ReportItem]] = []
        self.owners: set[str] = set()
        self.served: set[tuple[str, ...]] = set()
        self.attending: list[tuple[str, ...]] = []
        self.offers: list[list[tasks_pb2.Offer]] = []
        """Of each stream of Attend."""
        self.answers_withdrawals = True
        self.stop_orders: queue.SimpleQueue[tuple[str, int] | tasks_pb2.AttendResponse | None] = queue.SimpleQueue()
        self.script = Script(lease=self.grant, renew=self.extend, report=self.accept)
        self._changed = threading.Condition()
        self._server: grpc.Server | None = None
        self.port = 0

    # Setting up.

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen; at a restart, on the same port."""
        server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        tasks_pb2_grpc.add_TasksServiceServicer_to_server(self, server)
        self.port = server.add_insecure_port(f"127.0.0.1:{self.port}")
        server.start()
        self._server = server

    def stop(self) -> None:
        """Stop listening, at once."""
        if self._server is not None:
            self._server.stop(None).wait(PATIENCE)
            self._server = None

    def offer(self, task_id: str, handler: str, given: object = None, **fields: Any) -> None:
        """Say what to grant for a task."""
        self.grants[task_id] = tasks_pb2.Grant(
            lease=self.duration(),
            handler=handler,
            input=orjson.dumps(given),
            idempotency_key=fields.pop("idempotency_key", f"key-of-{task_id}"),
            run_id="run-1",
            path=fields.pop("path", task_id),
            try_number=fields.pop("try_number", 1),
            workflow="orders",
            namespace="default",
            **fields,
        )

    def duration(self) -> Duration:
        duration = Duration()
        duration.FromTimedelta(timedelta(seconds=self.lease_seconds))
        return duration

    # What was asked.

    @property
    def leases(self) -> list[tasks_pb2.LeaseItem]:
        return [item for call in list(self.lease_calls) for item in call]

    @property
    def renewals(self) -> list[tasks_pb2.RenewItem]:
        return [item for call in list(self.renew_calls) for item in call]

    @property
    def reports(self) -> list[tasks_pb2.ReportItem]:
        return [item for call in list(self.report_calls) for item in call]

    def report_of(self, task_id: str) -> tasks_pb2.ReportItem:
        return [item for item in self.reports if item.task_id == task_id][-1]

    def wait(self, holds: Callable[[], bool]) -> None:
        """Block until it holds, looking whenever a call has come."""
        with self._changed:
            assert self._changed.wait_for(holds, PATIENCE), "the coordinator was never asked what the test waits for"

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds, looking whenever a call has come."""
        await asyncio.to_thread(self.wait, holds)

    async def until_reported(self, *task_ids: str) -> None:
        """Wait until reports of all these tasks have come."""
        await self.until(lambda: set(task_ids) <= {item.task_id for item in self.reports})

    # Default answers.

    def grant(self, item: tasks_pb2.LeaseItem) -> tasks_pb2.LeaseResult:
        return tasks_pb2.LeaseResult(answer=GRANTED, grant=self.grants[item.task_id])

    def extend(self, item: tasks_pb2.RenewItem) -> tasks_pb2.RenewResult:
        del item
        return tasks_pb2.RenewResult(answer=tasks_pb2.RENEW_ANSWER_RENEWED, lease=self.duration())

    def accept(self, item: tasks_pb2.ReportItem) -> tasks_pb2.ReportResult:
        del item
        return tasks_pb2.ReportResult(answer=tasks_pb2.REPORT_ANSWER_ACCEPTED)

    # Other answers.

    def push(self, *task_ids: str, offer: int | None = None) -> None:
        """Lease tasks that were offered to be granted, unasked, for slots of an offer; None: the latest."""
        number = self.offers[-1][-1].number if offer is None else offer
        tasks = [tasks_pb2.NextTask(task_id=task_id, attempt=1, grant=self.grants[task_id]) for task_id in task_ids]
        self.stop_orders.put(tasks_pb2.AttendResponse(granted=tasks, offer=number))

    async def until_offered(self, stream: int = 1, *, offers: int = 1) -> tasks_pb2.Offer:
        """Wait until a worker has made so many offers on a stream; return the latest."""
        await self.until(lambda: len(self.offers) >= stream and len(self.offers[stream - 1]) >= offers)
        return self.offers[stream - 1][-1]

    def grant_along(self, task_id: str) -> tasks_pb2.ReportResult:
        """Accept, and grant a task that was offered."""
        task = tasks_pb2.NextTask(task_id=task_id, attempt=1, grant=self.grants[task_id])
        return tasks_pb2.ReportResult(answer=tasks_pb2.REPORT_ANSWER_ACCEPTED, next=task)

    # The service.

    def Lease(  # noqa: N802 - the contract's
        self, request: tasks_pb2.LeaseRequest, context: grpc.ServicerContext
    ) -> tasks_pb2.LeaseResponse:
        self._note("lease", request.owner, self.lease_calls, list(request.items), context)
        return tasks_pb2.LeaseResponse(results=[self.script.lease(item) for item in request.items])

    def Renew(  # noqa: N802 - the contract's
        self, request: tasks_pb2.RenewRequest, context: grpc.ServicerContext
    ) -> tasks_pb2.RenewResponse:
        self._note("renew", request.owner, self.renew_calls, list(request.items), context)
        return tasks_pb2.RenewResponse(results=[self.script.renew(item) for item in request.items])

    def Report(  # noqa: N802 - the contract's
        self, request: tasks_pb2.ReportRequest, context: grpc.ServicerContext
    ) -> tasks_pb2.ReportResponse:
        self.served.add((request.namespace, *request.queues))
        self._note("report", request.owner, self.report_calls, list(request.items), context)
        return tasks_pb2.ReportResponse(results=[self.script.report(item) for item in request.items])

    def Attend(  # noqa: N802 - the contract's
        self, request_iterator: Iterator[tasks_pb2.AttendRequest], context: grpc.ServicerContext
    ) -> Iterator[tasks_pb2.AttendResponse]:
        request = next(request_iterator)
        context.send_initial_metadata(())
        with self._changed:
            self.attending.append((request.owner, request.namespace, *request.queues))
            self.offers.append([])
            self._changed.notify_all()
        listener = threading.Thread(target=self._listen, args=(request_iterator, self.offers[-1]), daemon=True)
        listener.start()
        while context.is_active():
            try:
                order = self.stop_orders.get(timeout=0.05)
            except queue.Empty:
                continue
            if order is None:
                return
            if isinstance(order, tasks_pb2.AttendResponse):
                yield order
            else:
                yield tasks_pb2.AttendResponse(task_id=order[0], attempt=order[1])

    def _listen(self, requests: Iterator[tasks_pb2.AttendRequest], heard: list[tasks_pb2.Offer]) -> None:
        with contextlib.suppress(grpc.RpcError):
            for request in requests:
                with self._changed:
                    heard.append(request.offer)
                    self._changed.notify_all()
                if not request.offer.slots and self.answers_withdrawals:
                    self.stop_orders.put(tasks_pb2.AttendResponse(offer=request.offer.number))

    def _note(self, method: str, owner: str, calls: list[Any], items: list[Any], context: grpc.ServicerContext) -> None:
        with self._changed:
            calls.append(items)
            self.owners.add(owner)
            self._changed.notify_all()
        aborts = self.script.aborts[method]
        code = aborts.popleft() if aborts else self.script.always_abort.get(method)
        if code is not None:
            context.abort(code, "by script")
