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
        ("type: http, request: {url: '${input.u}', timeout: 2m}, timeout: 1m", "", "2m",
         "request.timeout, 2m, is longer than timeout.total, 1m, which ends it before", False),
        (HTTP, "deadline: 1m\n", "2m",
         "request.timeout, 2m, is longer than the run's deadline, 1m, which ends it before", True),
        (f"{CALL}, timeout: 1m, lease: 2m", "", "2m",
         "lease, 2m, is longer than timeout.total, 1m, which ends the attempt before it can run out", True),
        (f"{CALL}, timeout: {{attempt: 30s}}, lease: 2m", "", "2m",
         "lease, 2m, is longer than timeout.attempt, 30s, which ends the attempt before it can run out", True),
        (f"{CALL}, {RETRY}, timeout: 4s", "", "10s",
         "no retry fits into timeout.total, 4s, since the first pause takes 5s", True),
        (f"{CALL}, {RETRY}, timeout: 12s", "", "5",
         "at most 3 of 5 attempts fit into timeout.total, 12s, by the pauses alone", True),
        (f"{CALL}, {RETRY[:-1]}, rules: [{{errors: [E]}}]}}, timeout: 12s", "", "5",
         "at most 3 of 5 attempts fit into timeout.total, 12s, by the pauses alone", True),
        (f"{CALL}, {RETRY}", "deadline: 4s\n", "10s",
         "no retry fits into the run's deadline, 4s, since the first pause takes 5s", True),
        (f"{CALL}, timeout: {{attempt: 2m}}", "deadline: 1m\n", "2m",
         "timeout.attempt, 2m, is longer than the run's deadline, 1m, which ends it before", True),
        ("type: wait, duration: 1h", "deadline: 1h\n", "1h",
         "the run's deadline, 1h, is over before duration, 1h, is", True),
        ("type: wait_for_event, event: e, timeout: 2h", "deadline: 1h\n", "2h",
         "timeout.total, 2h, is longer than the run's deadline, 1h, which ends it before", True),
        (f"{CALL}, retry: {{max_attempts: 3, budget: 1m, initial: 2m, max: 5m, jitter: 0}}", "", "2m",
         "no retry fits into retry.budget, 1m, since the first pause takes 2m", True),
        (f"{CALL}, retry: {{max_attempts: 3, budget: 25s, initial: 10s, jitter: 0}}", "", "3",
         "at most 2 of 3 attempts fit into retry.budget, 25s, by the pauses alone", True),
        (f"{CALL}, {RETRY[:-1]}, rules: [{{errors: [E], initial: 1m}}]}}, timeout: 25s", "", "1m",
         "no retry fits into timeout.total, 25s, since the first pause takes 30s", True),
        (f"type: subflow, workflow: other, {RETRY}, timeout: 4s", "", "10s",
         "no retry fits into timeout.total, 4s, since the first pause takes 5s", True),
        (f"type: map, over: [1], timeout: 10s, body: {{{CALL}, timeout: 1m}}", "", "1m",
         "timeout.total, 1m, is longer than n's timeout, 10s, which ends it before", True),
        (f"type: map, over: [1], timeout: 10s, body: {{{CALL}, timeout: {{attempt: 1m}}}}", "deadline: 1h\n", "1m",
         "timeout.attempt, 1m, is longer than n's timeout, 10s, which ends it before", True),
        ("type: map, over: [1], timeout: 10m, body: {type: wait, duration: 1h}", "deadline: 30m\n", "1h",
         "n's timeout, 10m, is over before duration, 1h, is", True),
        (f"type: map, over: [1], timeout: 20s, body: {{{CALL}, retry: {{max_attempts: 2, initial: 30s, jitter: 0}}}}",
         "", "30s", "no retry fits into n's timeout, 20s, since the first pause takes 30s", True),
        (f"type: repeat, until: true, max_iterations: 3, delay: 1m, timeout: 30s, body: {{{CALL}}}", "", "1m",
         "n's timeout, 30s, is over before delay, 1m, is: there is never a second iteration", True),
        (f"type: repeat, until: true, max_iterations: 3, delay: 1m, timeout: 60s, body: {{{CALL}}}", "", "1m",
         "n's timeout, 1m, is over before delay, 1m, is: there is never a second iteration", True),
        (f"type: repeat, until: true, max_iterations: 3, delay: 2h, body: {{{CALL}}}", "deadline: 1h\n", "2h",
         "the run's deadline, 1h, is over before delay, 2h, is: there is never a second iteration", True),
        (f"{CALL}, timeout: {{queue: 2h}}", "deadline: 1h\n", "2h",
         "timeout.queue, 2h, is longer than the run's deadline, 1h, which ends it before", True),
        (f"{CALL}, timeout: {{heartbeat: 2h}}", "deadline: 1h\n", "2h",
         "timeout.heartbeat, 2h, is longer than the run's deadline, 1h, which ends it before", True),
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
        (f"{CALL}, retry: {{max_attempts: 3, budget: 31s, initial: 10s, jitter: 0}}", ""),
        (f"{CALL}, {RETRY[:-1]}, rules: [{{errors: [E]}}]}}, timeout: 21s", ""),
        (f"type: map, over: [1], timeout: 1m, body: {{{CALL}, timeout: 1m}}", "deadline: 1h\n"),
        (f"type: map, over: [1], timeout: 1m, body: {{{CALL}}}", "defaults: {timeout: 10m}\n"),
        (CALL, "defaults: {retry: {max_attempts: 5, initial: 10s}}\ndeadline: 4s\n"),
        (f"type: repeat, until: true, max_iterations: 30, delay: 10s, timeout: 30s, body: {{{CALL}}}", ""),
    ],
)
def test_what_fits_is_left_alone(node: str, workflow: str) -> None:
    assert told(node, workflow) == []


@pytest.mark.parametrize(
    ("node", "workflow", "message"),
    [
        (CALL, "defaults: {timeout: 2h}\ndeadline: 1h\n",
         "timeout.total, 2h, is longer than the run's deadline, 1h, which ends it before"),
        (f"{CALL}, timeout: 4s", "defaults: {retry: {max_attempts: 5, initial: 10s, jitter: 0}}\n",
         "no retry fits into timeout.total, 4s, since the first pause takes 10s"),
    ],
)  # fmt: skip
def test_what_comes_from_the_defaults_is_named_at_its_node(node: str, workflow: str, message: str) -> None:
    assert told(node, workflow) == [(0, message, True)]


def test_in_a_map_that_may_take_longer_than_the_run_the_runs_deadline_counts() -> None:
    node = "type: map, over: [1], timeout: 10m, body: {type: wait, duration: 7m}"

    assert [message for _, message, _ in told(node, "deadline: 5m\n")] == [
        "timeout.total, 10m, is longer than the run's deadline, 5m, which ends it before",
        "the run's deadline, 5m, is over before duration, 7m, is",
    ]


def test_in_finally_only_its_own_time_out_counts() -> None:
    source = "workflow: w\ndeadline: 1m\nnodes:\n  n: {type: call, handler: h}\nfinally:\n  timeout: 5m\n  nodes:\n"
    waits = "    a: {type: wait, duration: 4m}\n    b: {type: wait, duration: 6m}\n"

    assert [str(fault) for fault in compile_workflow(source + waits).faults] == [
        "9:31: warning: finally's timeout, 5m, is over before duration, 6m, is; lower it, or raise finally's timeout"
    ]


def test_a_pause_is_not_held_against_one_that_cannot_be_read() -> None:
    source = (
        "workflow: w\nnodes:\n  n: {type: call, handler: h, retry: {max_attempts: 2, initial: 2m, max: 5 minutes}}\n"
    )

    assert [fault.code.value for fault in compile_workflow(source).faults] == ["wrong_type"]
