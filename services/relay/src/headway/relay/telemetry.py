"""What the relay tells about itself: metrics, and a span per message.

Knows OpenTelemetry's API only; whether anything is exported is decided where the process starts.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace

from headway.relay.messages import Dispatch
from headway.runtime import telemetry
from headway.runtime.queues import stream_of

__all__ = ["Telemetry"]


class Telemetry:
    """The relay's instruments.

    Args:
        tracing: False: rows' traces are passed through as they are, at no cost.
    """

    def __init__(self, *, tracing: bool) -> None:
        self._tracing = tracing
        self._tracer = telemetry.tracer(__name__)
        meter = telemetry.meter(__name__)
        self._published = meter.create_counter(
            "headway.relay.published", unit="{row}", description="dispatches published"
        )
        self._delivered = meter.create_counter(
            "headway.relay.delivered", unit="{row}", description="hand-overs delivered"
        )
        self._failed = meter.create_counter(
            "headway.relay.failed", unit="{row}", description="rows set aside, by cause"
        )
        self._swept = meter.create_counter("headway.relay.swept", unit="{task}", description="tasks dispatched again")
        self._depth = meter.create_gauge("headway.outbox.depth", unit="{row}", description="rows in the outbox")
        self._age = meter.create_gauge("headway.outbox.age", unit="s", description="age of the outbox's oldest row")
        self._handover_age = meter.create_gauge(
            "headway.outbox.handover_age", unit="s", description="age of the outbox's oldest hand-over"
        )

    def published(self, rows: int) -> None:
        """Count dispatches whose transaction has committed."""
        self._published.add(rows)

    def delivered(self, rows: int) -> None:
        """Count hand-overs whose transaction has committed."""
        self._delivered.add(rows)

    def failed(self, rows: int, cause: str) -> None:
        """Count rows set aside: dispatches for `row` and `queue`, hand-overs for `handover` and `overload`."""
        self._failed.add(rows, {"cause": cause})

    def swept(self, tasks: int, *, broker_lost: bool) -> None:
        """Count tasks that the coordinator dispatched again."""
        self._swept.add(tasks, {"broker_lost": broker_lost})

    def depth(self, rows: int) -> None:
        """Tell how many rows the outbox has."""
        self._depth.set(rows)

    def ages(self, seconds: float, handover_seconds: float) -> None:
        """Tell how old the outbox's oldest row is, and its oldest hand-over; 0: there is none."""
        self._age.set(seconds)
        self._handover_age.set(handover_seconds)

    @contextmanager
    def publishing(self, rows: Sequence[Dispatch]) -> Iterator[list[str]]:
        """Open a span `publish` per row while its batch is published.

        Yields:
            The traceparent for each row's message, in order.
        """
        if not self._tracing:
            yield [row.trace for row in rows]
            return
        spans = [self._start(row) for row in rows]
        try:
            yield [_traceparent(span) for span in spans]
        except BaseException as error:
            for span in spans:
                span.set_status(trace.StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            for span in spans:
                span.end()

    def _start(self, row: Dispatch) -> trace.Span:
        return self._tracer.start_span(
            "publish",
            context=telemetry.context_of(row.trace),
            kind=trace.SpanKind.PRODUCER,
            attributes={
                "messaging.system": "redis",
                "messaging.destination.name": stream_of(row.queue_name),
                "messaging.message.id": str(row.outbox_id),
                "headway.run_id": str(row.run_id),
                "headway.path": row.path,
                "headway.attempt": row.attempt,
            },
        )


def _traceparent(span: trace.Span) -> str:
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    return str(
        telemetry.Traceparent(
            trace.format_trace_id(context.trace_id),
            trace.format_span_id(context.span_id),
            sampled=context.trace_flags.sampled,
        )
    )
