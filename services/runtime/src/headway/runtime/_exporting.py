"""The OpenTelemetry SDK, set up. Only `telemetry.configure` imports this, when there is somewhere to send to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator


def start(
    service_name: str, *, trace_file: Path | None, otlp: bool, wanted_trace_id: Callable[[], int | None]
) -> Callable[[], None]:
    """Sets the global providers; returns what flushes and stops them."""
    resource = Resource.create({SERVICE_NAME: service_name})
    spans = TracerProvider(resource=resource, id_generator=_Ids(wanted_trace_id), shutdown_on_exit=False)
    shutdowns: list[Callable[[], None]] = [spans.shutdown]
    if trace_file is not None:
        # Simple, not batched: a span is in the file when it has ended, so that kill -9 loses only open ones.
        spans.add_span_processor(SimpleSpanProcessor(FileSpanExporter(trace_file, service_name)))
    if otlp:
        spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        measures = MeterProvider(
            [PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource, shutdown_on_exit=False
        )
        metrics.set_meter_provider(measures)
        shutdowns.append(measures.shutdown)
    trace.set_tracer_provider(spans)

    def shut_down() -> None:
        for shutdown in shutdowns:
            shutdown()

    return shut_down


class _Ids(RandomIdGenerator):
    """Ids by chance, but for root spans whose trace id somebody chose (telemetry.starting_trace)."""

    def __init__(self, wanted_trace_id: Callable[[], int | None]) -> None:
        super().__init__()
        self._wanted_trace_id = wanted_trace_id

    def generate_trace_id(self) -> int:
        wanted = self._wanted_trace_id()
        return super().generate_trace_id() if wanted is None else wanted

    def is_trace_id_random(self) -> bool:
        return self._wanted_trace_id() is None


class FileSpanExporter(SpanExporter):
    """Appends each span to a file: one JSON object a line, one write a span, so that processes may share the file."""

    def __init__(self, path: Path, service_name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._service_name = service_name

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            os.write(self._fd, orjson.dumps(_document(span, self._service_name), default=str) + b"\n")
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _document(span: ReadableSpan, service_name: str) -> dict[str, Any]:
    context = span.get_span_context()
    return {
        "name": span.name,
        "service": service_name,
        "pid": os.getpid(),
        "kind": span.kind.name.lower(),
        "trace_id": trace.format_trace_id(context.trace_id) if context else None,
        "span_id": trace.format_span_id(context.span_id) if context else None,
        "parent_span_id": trace.format_span_id(span.parent.span_id) if span.parent else None,
        "start_ns": span.start_time,
        "end_ns": span.end_time,
        "status": span.status.status_code.name.lower(),
        "status_message": span.status.description,
        "attributes": dict(span.attributes or {}),
        "events": [
            {"name": event.name, "at_ns": event.timestamp, "attributes": dict(event.attributes or {})}
            for event in span.events
        ],
        "links": [
            {
                "trace_id": trace.format_trace_id(link.context.trace_id),
                "span_id": trace.format_span_id(link.context.span_id),
            }
            for link in span.links
        ],
    }
