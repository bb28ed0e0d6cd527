from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from headway.runtime import telemetry
from headway.runtime.telemetry import Traceparent, parse_traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def run(program: str, *args: str) -> str:
    """Providers can be set once a process: each test has one of its own."""
    done = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("sampled", [True, False])
def test_a_traceparent_survives_the_wire(sampled: bool) -> None:  # noqa: FBT001 - a parameter of the test
    parent = Traceparent(TRACE, SPAN, sampled=sampled)

    assert parse_traceparent(str(parent)) == parent


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "nonsense",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
    ],
)
def test_an_invalid_traceparent_is_none(text: str | None) -> None:
    assert parse_traceparent(text) is None
    assert not trace.get_current_span(telemetry.context_of(text)).get_span_context().is_valid


def test_a_later_version_may_say_more() -> None:
    assert parse_traceparent(f"01-{TRACE}-{SPAN}-03-more") == Traceparent(TRACE, SPAN)


def test_a_derived_trace_id_is_stable_and_valid() -> None:
    ids = {telemetry.derived_trace_id(f"run-{number}") for number in range(100)}

    assert len(ids) == 100
    assert telemetry.derived_trace_id("run-1") in ids
    assert all(parse_traceparent(f"00-{trace_id}-{SPAN}-01") for trace_id in ids)


def test_nothing_is_made_unless_somebody_asked() -> None:
    said = run(
        "import sys\n"
        "from headway.runtime import telemetry\n"
        "telemetry.configure('relay')()\n"
        "with telemetry.tracer('t').start_as_current_span('s') as span:\n"
        "    print(span.is_recording(), repr(telemetry.current_traceparent()))\n"
        "print(any(name.startswith('opentelemetry.sdk') for name in sys.modules))\n"
    )

    assert said.splitlines() == ["False ''", "False"]


def test_spans_of_several_processes_meet_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "traces" / "spans.jsonl"
    root = (
        "import sys, pathlib\n"
        "from headway.runtime import telemetry\n"
        "tracer = telemetry.tracer('t')\n"  # before configure, as modules do
        "telemetry.configure('coordinator', trace_file=pathlib.Path(sys.argv[1]))\n"
        "with telemetry.starting_trace(telemetry.derived_trace_id('run-1')):\n"
        "    with tracer.start_as_current_span('start', attributes={'headway.run_id': 'run-1'}):\n"
        "        print(telemetry.current_traceparent(), flush=True)\n"
        "import os; os._exit(9)\n"  # a crash: what has ended is in the file all the same
    )
    child = (
        "import sys, pathlib\n"
        "from headway.runtime import telemetry\n"
        "stop = telemetry.configure('worker', trace_file=pathlib.Path(sys.argv[1]))\n"
        "with telemetry.tracer('t').start_as_current_span('handle', context=telemetry.context_of(sys.argv[2])):\n"
        "    pass\n"
        "stop()\n"
    )

    crashed = subprocess.run([sys.executable, "-c", root, str(file)], capture_output=True, text=True, check=False)
    run(child, str(file), crashed.stdout.strip())

    assert crashed.returncode == 9
    spans: dict[str, dict[str, Any]] = {}
    for line in file.read_text().splitlines():
        span = json.loads(line)
        spans[span["name"]] = span
    assert spans["start"]["trace_id"] == spans["handle"]["trace_id"] == telemetry.derived_trace_id("run-1")
    assert spans["start"]["parent_span_id"] is None
    assert spans["handle"]["parent_span_id"] == spans["start"]["span_id"]
    assert spans["start"]["attributes"] == {"headway.run_id": "run-1"}
    assert [spans[name]["service"] for name in ("start", "handle")] == ["headway-coordinator", "headway-worker"]


SAY_INSTANCE = (
    "import sys, pathlib\n"
    "from opentelemetry import trace\n"
    "from headway.runtime import telemetry\n"
    "telemetry.configure('relay', trace_file=pathlib.Path(sys.argv[1]))\n"
    "attributes = trace.get_tracer_provider().resource.attributes\n"
    "print(attributes['service.name'], attributes['service.instance.id'])\n"
)


def test_replicas_of_a_service_are_instances_of_their_own(tmp_path: Path) -> None:
    first, second = (run(SAY_INSTANCE, str(tmp_path / "spans.jsonl")).split() for _ in range(2))

    assert first[0] == second[0] == "headway-relay"
    assert first[1] != second[1]
