"""OpenTelemetry, switched by the environment: off (no-op spans and instruments) unless somebody asked for it.

With OTEL_EXPORTER_OTLP_ENDPOINT, spans and metrics go there over gRPC. With HEADWAY_TRACE_FILE, each finished span is
appended to that file as one line of JSON, in one write: several processes may share the file, and a test reads one
run's spans from it. Both may be set. Code takes `tracer(__name__)` and `meter(__name__)` and needs not know.

The SDK is imported only when it is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from opentelemetry import metrics, trace
from opentelemetry.context import Context

__all__ = [
    "Traceparent",
    "configure",
    "context_of",
    "current_traceparent",
    "derived_trace_id",
    "meter",
    "parse_traceparent",
    "starting_trace",
    "tracer",
]

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_next_trace_id: ContextVar[int | None] = ContextVar("headway_next_trace_id", default=None)


@dataclass(frozen=True, slots=True)
class Traceparent:
    """A position in a trace, as the W3C `traceparent` header carries it; `str()` writes the header."""

    trace_id: str
    """32 hexadecimal digits, not all zero."""
    span_id: str
    """16 hexadecimal digits, not all zero."""
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


def parse_traceparent(text: str | None) -> Traceparent | None:
    """Reads a `traceparent`; None for what the W3C recommendation (Trace Context, 3.2.2) calls invalid."""
    match = _TRACEPARENT.fullmatch(text.strip()) if text else None
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Traceparent(trace_id, span_id, sampled=bool(int(flags, 16) & 1))


def current_traceparent() -> str:
    """The `traceparent` of the current span; empty when there is none."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return str(
        Traceparent(
            trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id), context.trace_flags.sampled
        )
    )


def context_of(traceparent: str | Traceparent | None) -> Context:
    """The context in which to start a child of a span of another process.

    An invalid or empty traceparent gives an empty context: the span starts a trace of its own.
    """
    parent = traceparent if isinstance(traceparent, Traceparent) else parse_traceparent(traceparent)
    if parent is None:
        return Context()
    span_context = trace.SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED if parent.sampled else trace.TraceFlags.DEFAULT),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(span_context), Context())


def derived_trace_id(name: str) -> str:
    """A trace id that follows from a name (a run's id): whoever knows the name knows the trace, even before it is."""
    return hashlib.blake2b(name.encode(), digest_size=16, person=b"headway-trace").hexdigest()


@contextmanager
def starting_trace(trace_id: str) -> Generator[None]:
    """Root spans that start inside have this trace id (32 hexadecimal digits) instead of one by chance."""
    token = _next_trace_id.set(int(trace_id, 16))
    try:
        yield
    finally:
        _next_trace_id.reset(token)


def tracer(name: str) -> trace.Tracer:
    """The tracer of a module. It may be taken before `configure` runs."""
    return trace.get_tracer(name)


def meter(name: str) -> metrics.Meter:
    """The meter of a module. It may be taken before `configure` runs."""
    return metrics.get_meter(name)


def configure(service: str, *, otlp_endpoint: str | None = None, trace_file: Path | None = None) -> Callable[[], None]:
    """Sets the process's tracer and meter providers, once, when there is somewhere to send to.

    Args:
        service: Becomes the resource's `service.name`, as `headway-<service>`, unless OTEL_SERVICE_NAME says otherwise.
        otlp_endpoint: Set: export over OTLP; the exporter reads the address and its other settings from OTEL_*.
        trace_file: Append finished spans to this file.

    Returns:
        What to call at exit: flushes and stops the exporters.
    """
    if not otlp_endpoint and trace_file is None:
        return lambda: None
    # Imported late: the SDK costs a process that does not trace megabytes and a tenth of a second.
    from headway.runtime import _exporting  # noqa: PLC0415

    return _exporting.start(
        os.environ.get("OTEL_SERVICE_NAME") or f"headway-{service}",
        trace_file=trace_file,
        otlp=bool(otlp_endpoint),
        wanted_trace_id=_next_trace_id.get,
    )
