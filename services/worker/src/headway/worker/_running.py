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

logger = logging.getLogger("headway.worker.handler")


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
            report = _report(delivery, grant.traceparent, _outcomes.unknown_handler(grant.handler))
            self._loop.call_soon(self._end, delivery, report)
            return
        task = self._loop.create_task(self._run(handler, delivery, grant, lease))
        delivery.handler_task = task
        task.add_done_callback(lambda done: self._finish(delivery, grant, lease, done))

    def stop(self, delivery: Delivery) -> None:
        """Tell a handler to stop: CancelledError in async ones; plain ones look at their context's flag."""
        task = delivery.handler_task
        if task is not None and delivery.stoppable:
            task.cancel()

    def _finish(
        self, delivery: Delivery, grant: tasks_pb2.Grant, lease: Lease, task: asyncio.Task[tasks_pb2.ReportItem]
    ) -> None:
        delivery.handler_task = None
        if task.cancelled():  # before its first step
            report = _report(delivery, grant.traceparent, _ended_by(asyncio.CancelledError(), lease))
        elif (error := task.exception()) is not None:  # a fault of the runner's own
            report = _report(delivery, grant.traceparent, _outcomes.failed(error))
        else:
            report = task.result()
        self._end(delivery, report)

    def _end(self, delivery: Delivery, report: tasks_pb2.ReportItem) -> None:
        try:
            self._ended(delivery, report)
        except Exception:
            logger.exception("a fault in the worker: an outcome is given up", extra=delivery.facts())
            self._give_up(delivery)

    async def _run(
        self, handler: Handler, delivery: Delivery, grant: tasks_pb2.Grant, lease: Lease
    ) -> tasks_pb2.ReportItem:
        if not self._spans.enabled:
            outcome = await self._outcome(handler, delivery, grant, lease, grant.traceparent)
            return _report(delivery, grant.traceparent, outcome)
        with self._spans.span(grant, attempt=delivery.message.attempt) as traceparent:
            outcome = await self._outcome(handler, delivery, grant, lease, traceparent)
            if isinstance(outcome, tasks_pb2.Failed):
                mark_failed(outcome.message)
            return _report(delivery, traceparent, outcome)

    async def _outcome(
        self, handler: Handler, delivery: Delivery, grant: tasks_pb2.Grant, lease: Lease, traceparent: str
    ) -> tasks_pb2.Succeeded | tasks_pb2.Failed | tasks_pb2.Cancelled:
        try:
            arguments: tuple[object, ...] = (orjson.loads(grant.input) if grant.input else None,)
            if handler.takes_context:
                arguments += (_context(delivery, grant, lease, traceparent),)
            if handler.is_async:
                return _outcomes.succeeded(await handler.function(*arguments))
            output, error = await self._in_thread(delivery, handler, arguments)
            return _outcomes.succeeded(output) if error is None else _ended_by(error, lease)
        # Even SystemExit: a handler may not end its worker. And GeneratorExit: should it mean that the event loop is
        # being closed, this ends without another await, as it must.
        except BaseException as error:  # noqa: BLE001
            return _ended_by(error, lease)

    async def _in_thread(
        self, delivery: Delivery, handler: Handler, arguments: tuple[object, ...]
    ) -> tuple[object, BaseException | None]:
        # A thread cannot be stopped from outside: cancelling would only lose sight of it.
        delivery.stoppable = False
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
    attempt = delivery.message.attempt
    facts = {"run_id": grant.run_id, "path": grant.path, "workflow": grant.workflow, "attempt": attempt}
    return Context(
        run_id=grant.run_id,
        path=grant.path,
        workflow=grant.workflow,
        namespace=grant.namespace,
        handler=grant.handler,
        task_id=delivery.message.task_id,
        attempt=attempt,
        try_number=grant.try_number,
        idempotency_key=grant.idempotency_key,
        traceparent=traceparent,
        logger=logging.LoggerAdapter(logger, facts),
        lease=lease,
    )


def _report(
    delivery: Delivery, traceparent: str, outcome: tasks_pb2.Succeeded | tasks_pb2.Failed | tasks_pb2.Cancelled
) -> tasks_pb2.ReportItem:
    task_id, attempt = delivery.message.task_id, delivery.message.attempt
    if isinstance(outcome, tasks_pb2.Succeeded):
        return tasks_pb2.ReportItem(task_id=task_id, attempt=attempt, traceparent=traceparent, succeeded=outcome)
    if isinstance(outcome, tasks_pb2.Failed):
        return tasks_pb2.ReportItem(task_id=task_id, attempt=attempt, traceparent=traceparent, failed=outcome)
    return tasks_pb2.ReportItem(task_id=task_id, attempt=attempt, traceparent=traceparent, cancelled=outcome)
