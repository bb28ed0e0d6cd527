"""Durations that contradict each other are named where they stand."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import compile_workflow


def told(node: str, workflow: str = "") -> list[tuple[int, str, bool]]:
    source = f"workflow: w\n{workflow}nodes:\n  n: {{{node}}}\n"
    faults = compile_workflow(source).faults
    assert all(fault.code == "contradiction" for fault in faults), faults
    assert all(fault.line == source[: source.index("  n:")].count("\n") + 1 for fault in faults)
    return [(fault.column - len("  n: {"), fault.message, fault.warning) for fault in faults]


HTTP = "type: http, request: {url: x, timeout: 2m}"
CALL = "type: call, handler: h"
RETRY = "retry: {max_attempts: 5, initial: 10s, factor: 1, jitter: 0.5}"


@pytest.mark.parametrize(
    ("node", "workflow", "key", "message", "warning"),
    [
        (f"{HTTP}, timeout: {{attempt: 30s}}", "", "2m",
         "request.timeout, 2m, is longer than timeout.attempt, 30s, which ends it before", False),
        (f"{HTTP}, timeout: 1m", "", "2m",
         "request.timeout, 2m, is longer than timeout.total, 1m, which ends it before", False),
        (f"{CALL}, timeout: {{attempt: 30s}}, lease: 2m", "", "2m",
         "lease, 2m, is longer than timeout.attempt, 30s, which ends the attempt before it can run out", True),
        (f"{CALL}, {RETRY}, timeout: 4s", "", "10s",
         "no retry fits into timeout.total, 4s, since the first pause takes 5s", True),
        (f"{CALL}, {RETRY}, timeout: 12s", "", "5",
         "at most 3 of 5 attempts fit into timeout.total, 12s, by the pauses alone", True),
        (f"{CALL}, {RETRY}", "deadline: 4s\n", "10s",
         "no retry fits into the run's deadline, 4s, since the first pause takes 5s", True),
        (f"{CALL}, timeout: {{attempt: 2m}}", "deadline: 1m\n", "2m",
         "timeout.attempt, 2m, is longer than the run's deadline, 1m, which ends it before", True),
        ("type: wait, duration: 1h", "deadline: 1h\n", "1h",
         "the run's deadline, 1h, is over before duration, 1h, is", True),
        ("type: wait_for_event, event: e, timeout: 2h", "deadline: 1h\n", "2h",
         "timeout.total, 2h, is longer than the run's deadline, 1h, which ends it before", True),
    ],
)  # fmt: skip
def test_what_is_cut_short_is_named_where_it_stands(
    node: str, workflow: str, key: str, message: str, *, warning: bool
) -> None:
    assert told(node, workflow) == [(node.index(key) + 1, message, warning)]


@pytest.mark.parametrize(
    ("node", "workflow"),
    [
        (f"{HTTP}, timeout: {{attempt: 2m, total: 10m}}, lease: 2m", "deadline: 10m\n"),
        (f"{CALL}, timeout: {{attempt: 30s}}", ""),
        (f"{CALL}, {RETRY}, timeout: 20s", "deadline: 20s\n"),
        (f"{CALL}, timeout: 1s", "deadline: 1s\n"),
        ("type: wait, duration: 59m", "deadline: 1h\n"),
    ],
)
def test_what_fits_is_left_alone(node: str, workflow: str) -> None:
    assert told(node, workflow) == []
