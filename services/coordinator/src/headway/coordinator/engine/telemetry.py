"""Spans and metrics of the coordinator. With tracing off, trace contexts pass through untouched at no cost."""

from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry import metrics, trace

from headway.coordinator import clock
from headway.runtime.telemetry import Traceparent, context_of, meter, tracer

_meter = meter(__name__)
decisions = _meter.create_counter("headway.decisions", description="Events decided, by type")
leases = _meter.create_counter("headway.leases", description="Lease answers, by answer")
leases_lost = _meter.create_counter("headway.leases.lost", description="Leases that were reaped")
reports_stale = _meter.create_counter("headway.reports.stale", description="Reports that changed nothing, by answer")
handovers = _meter.create_counter("headway.handovers", description="Hand-overs between runs, by type and answer")
time_to_first_start = _meter.create_histogram(
    "headway.runs.time_to_first_start", unit="s", description="From a run's start to the first lease in it"
)
total_time = _meter.create_histogram("headway.runs.total_time", unit="s", description="From a run's start to its end")
batch_size = _meter.create_histogram("headway.lanes.batch", description="Items in one transaction")
_ready_counts: list[Callable[[], int]] = []  # of the engines that run: a meter never lets go of a callback
_meter.create_observable_gauge(
    "headway.tasks.ready",
    callbacks=[lambda _options: [metrics.Observation(count()) for count in _ready_counts]],
    description="Tasks that wait for a worker",
)


def watch_ready_tasks(count: Callable[[], int]) -> Callable[[], None]:
    """Export how many tasks wait for a worker, as last counted; what is returned ends that, and is called once."""
    _ready_counts.append(count)
    return lambda: _ready_counts.remove(count)


@dataclass(slots=True)
class OpenSpan:
    """A span that has begun; `traceparent` is what its children get."""

    traceparent: str
    _span: trace.Span | None = None

    def end(self) -> None:
        """End it."""
        if self._span is not None:
            self._span.end()


def is_tracing() -> bool:
    """False: spans go nowhere, and whoever begins many may leave it."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def begin(name: str, parent: str, **attributes: str | int) -> OpenSpan:
    """Begin a span under a traceparent (empty: a trace of its own). Off: the parent is passed on."""
    if not is_tracing():
        return OpenSpan(parent)
    span = tracer(__name__).start_span(
        name, context=context_of(parent), attributes=attributes, start_time=clock.unix_nanoseconds()
    )
    context = span.get_span_context()
    if not context.is_valid:
        return OpenSpan(parent)
    own = Traceparent(
        trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id), context.trace_flags.sampled
    )
    return OpenSpan(str(own), span)
