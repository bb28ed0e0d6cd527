"""Runs one handler and turns whatever becomes of it into a report. One asyncio task for each handler, nothing else."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable

import orjson

from headway.api.tasks.v1 import tasks_pb2
from headway.worker import _outcomes
from headway.worker._context import Context, Lease
from headway.worker._delivery import Delivery
from headway.worker._errors import HandlerCancelled
from headway.worker._registry import Handler, Registry
from headway.worker._threads import DaemonThreads
from headway.worker._tracing import HandlerSpans, mark_failed

logger = logging.getLogger(__name__)

Outcome = bytes | tasks_pb2.Failed | tasks_pb2.Cancelled
"""How a handler ended: bytes are its output, as JSON."""


class Runner:
    """Starts handlers. `ended` is called on the event loop once each has ended, with what to report."""

    def __init__(
        self,
        registry: Registry,
        *,
        threads: DaemonThreads,
        ended: Callable[[Delivery, tasks_pb2.ReportItem], None],
        give_up: Callable[[Delivery], None],
    ) -> None:
        """Make a runner on the running event loop.

        Args:
            registry: The handlers.
            threads: Where plain functions run.
            ended: Called once a handler has ended, with what to report.
            give_up: Called when `ended` itself fails: whatever happens, the lease must not be renewed for ever.
        """
        self._registry = registry
        self._threads = threads
        self._ended = ended
        self._give_up = give_up
        self._spans = HandlerSpans()
        self._loop = asyncio.get_running_loop()

    def start(self, delivery: Delivery, grant: tasks_pb2.Grant, lease: Lease) -> None:
        """Start the granted handler; one that nobody registered ends at once, as a failure."""
        handler = self._registry.find(grant.handler)
        if handler is None:
            known = [each.name for each in self._registry.handlers()]
            report = _report(delivery, grant.traceparent, _outcomes.unknown_handler(grant.handler, known))
            self._loop.call_soon(self._end, delivery, report)
            return
        delivery.handler_task = self._loop.create_task(self._run(handler, delivery, grant, lease))

    def stop(self, delivery: Delivery) -> None:
        """Tell a handler to stop: CancelledError in async ones; plain ones look at their context's flag."""
        task = delivery.handler_task
        if task is not None and delivery.stoppable:
            task.cancel()

    async def _run(self, handler: Handler, delivery: Delivery, grant: tasks_pb2.Grant, lease: Lease) -> None:
        try:
            if self._spans.enabled:
                report = await self._traced(handler, delivery, grant, lease)
            else:
                outcome = await self._outcome(handler, delivery, grant, lease, grant.traceparent)
                report = _report(delivery, grant.traceparent, outcome)
        except Exception as error:  # noqa: BLE001  a fault of the runner's own
            report = _report(delivery, grant.traceparent, _outcomes.failed(error))
        delivery.handler_task = None
        self._end(delivery, report)

    def _end(self, delivery: Delivery, report: tasks_pb2.ReportItem) -> None:
        try:
            self._ended(delivery, report)
        except Exception:
            logger.exception("a fault in the worker: an outcome is given up", extra=delivery.facts())
            self._give_up(delivery)

    async def _traced(
        self, handler: Handler, delivery: Delivery, grant: tasks_pb2.Grant, lease: Lease
    ) -> tasks_pb2.ReportItem:
        with self._spans.span(grant, attempt=delivery.attempt) as traceparent:
            outcome = await self._outcome(handler, delivery, grant, lease, traceparent)
            if isinstance(outcome, tasks_pb2.Failed):
                mark_failed(outcome.message)
            return _report(delivery, traceparent, outcome)

    async def _outcome(
        self, handler: Handler, delivery: Delivery, grant: tasks_pb2.Grant, lease: Lease, traceparent: str
    ) -> Outcome:
        if lease.cancelled:  # before its first step
            return tasks_pb2.Cancelled()
        try:
            given = orjson.loads(encoded) if (encoded := grant.input) else None
            arguments = (given, _context(delivery, grant, lease, traceparent)) if handler.takes_context else (given,)
            if handler.is_async:
                delivery.stoppable = True
                return _outcomes.encode_output(await handler.function(*arguments))
            output, error = await self._in_thread(handler, arguments)
            return _outcomes.encode_output(output) if error is None else _ended_by(error, lease)
        # Even SystemExit: a handler may not end its worker. And GeneratorExit: should it mean that the event loop is
        # being closed, this ends without another await, as it must.
        except BaseException as error:  # noqa: BLE001
            return _ended_by(error, lease)

    async def _in_thread(self, handler: Handler, arguments: tuple[object, ...]) -> tuple[object, BaseException | None]:
        context = contextvars.copy_context()
        work = self._threads.submit(_call, context, handler, arguments)
        return await asyncio.wrap_future(work)


def _call(
    context: contextvars.Context, handler: Handler, arguments: tuple[object, ...]
) -> tuple[object, BaseException | None]:
    # Caught here: a StopIteration could leave neither a future nor a coroutine.
    try:
        return context.run(handler.function, *arguments), None
    except BaseException as error:  # noqa: BLE001  as in _outcome
        return None, error


def _ended_by(error: BaseException, lease: Lease) -> tasks_pb2.Cancelled | tasks_pb2.Failed:
    """A handler that stopped because it was told to is cancelled; a cancellation from within is a failure."""
    if lease.cancelled and isinstance(error, asyncio.CancelledError | HandlerCancelled):
        return tasks_pb2.Cancelled()
    return _outcomes.failed(error)


def _context(delivery: Delivery, grant: tasks_pb2.Grant, lease: Lease, traceparent: str) -> Context:
    return Context(
        run_id=grant.run_id,
        path=grant.path,
        workflow=grant.workflow,
        namespace=grant.namespace,
        handler=grant.handler,
        task_id=delivery.task_id,
        attempt=delivery.attempt,
        try_number=grant.try_number,
        idempotency_key=grant.idempotency_key,
        traceparent=traceparent,
        lease=lease,
        checkpoint=orjson.loads(grant.checkpoint) if grant.checkpoint else None,
    )


def _report(delivery: Delivery, traceparent: str, outcome: Outcome) -> tasks_pb2.ReportItem:
    item = tasks_pb2.ReportItem(task_id=delivery.task_id, attempt=delivery.attempt, traceparent=traceparent)
    if isinstance(outcome, bytes):
        item.succeeded.output = outcome
    elif isinstance(outcome, tasks_pb2.Failed):
        item.failed.CopyFrom(outcome)
        item.checkpoint = b"" if delivery.lease is None else delivery.lease.pulse.untold_checkpoint()
    else:
        item.cancelled.CopyFrom(outcome)
    return item
