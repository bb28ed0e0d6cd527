"""The handler's span: child of the lease's, current while the handler runs, named in the report."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.worker.conftest import Bench, nothing

MODULE = """
from opentelemetry import trace
from headway.worker import Final, handler

def current():
    context = trace.get_current_span().get_span_context()
    return [trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)]

@handler("traced.async")
async def traced_async(given, context):
    return [*current(), context.traceparent]

@handler("traced.plain")
def traced_plain(given, context):
    return [*current(), context.traceparent]

@handler("traced.failing")
def traced_failing(given):
    raise Final("no")
"""

LEASE = f"00-{'a' * 32}-{'b' * 16}-01"


async def test_handlers_run_in_a_span_of_their_own_below_the_lease(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "traced_handlers.py").write_text(MODULE)
    spans_file = tmp_path / "spans.jsonl"
    for name in ("async", "plain", "failing"):
        bench.dispatch(name, f"traced.{name}", traceparent=LEASE)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headway.worker", "traced_handlers"),
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HEADWAY_COORDINATOR": bench.coordinator.address,
            "HEADWAY_REDIS_URL": bench.redis_url,
            "HEADWAY_TRACE_FILE": str(spans_file),
        },
        stderr=asyncio.subprocess.PIPE,
    )
    await bench.coordinator.until_reported("async", "plain", "failing")
    process.terminate()
    await process.communicate()

    for name in ("async", "plain"):
        report = bench.coordinator.report_of(name)
        trace_id, span_id, traceparent = json.loads(report.succeeded.output)
        assert trace_id == "a" * 32
        assert span_id != "b" * 16
        assert traceparent == report.traceparent == f"00-{trace_id}-{span_id}-01"
    written = spans_file.read_text()
    assert written.count("handler traced.") == 3


async def test_without_tracing_the_leases_trace_is_passed_on(bench: Bench) -> None:
    bench.registry.handler("run")(nothing)
    bench.dispatch("t1", "run", traceparent=LEASE)

    async with bench.worker():
        await bench.coordinator.until_reported("t1")

    assert bench.coordinator.report_of("t1").traceparent == LEASE
