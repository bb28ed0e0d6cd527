"""The handler's span. Costs nothing until a tracer provider is set."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import trace

from headway.api.tasks.v1 import tasks_pb2
from headway.runtime import telemetry


class HandlerSpans:
    """Makes a span for each handler, when tracing is on."""

    def __init__(self) -> None:
        # Asked once: whoever traces sets its provider before it starts workers.
        provider = trace.get_tracer_provider()
        self.enabled = not isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
        self._tracer = telemetry.tracer("headway.worker")

    @contextmanager
    def span(self, grant: tasks_pb2.Grant, *, attempt: int) -> Generator[str]:
        """Make the span `handler <name>`, child of the lease's, current within the block; yield its traceparent."""
        attributes = {
            "headway.run_id": grant.run_id,
            "headway.path": grant.path,
            "headway.workflow": grant.workflow,
            "headway.attempt": attempt,
        }
        with self._tracer.start_as_current_span(
            f"handler {grant.handler}",
            context=telemetry.context_of(grant.traceparent),
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
        ):
            yield telemetry.current_traceparent()


def mark_failed(message: str) -> None:
    """Mark the current span as failed."""
    trace.get_current_span().set_status(trace.StatusCode.ERROR, message)
