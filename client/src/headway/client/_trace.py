"""The trace that a call belongs to, if the application is traced.

OpenTelemetry is the application's choice and no dependency of the client: an application with a current span has
imported its API already, so it is looked up, never imported.
"""

from __future__ import annotations

import sys


def current_traceparent() -> str:
    """The W3C traceparent of the current OpenTelemetry span; empty: none."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return ""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
