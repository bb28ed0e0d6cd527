"""Defaults of a workflow: what nodes have that do not say otherwise."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.plan import Node, RetryPolicy, TimeOuts

SOURCE = """
workflow: w
defaults: {queue: slow, retry: {max_attempts: 4, initial: 2s}, timeout: 5m}
nodes:
  silent: {type: call, handler: h}
  outspoken: {type: call, handler: h, queue: fast, retry: {max_attempts: 2}, timeout: {attempt: 10s}}
  fetch: {type: http, request: {url: "https://example.com"}}
  ask: {type: wait_for_event, event: approval}
edges: [[silent, ask]]
"""


def nodes(source: str = SOURCE) -> dict[str, Node]:
    result = compile_workflow(source)
    assert result.plan is not None, result.faults
    return dict(result.plan.nodes)


def test_a_node_that_says_nothing_has_the_workflows_defaults() -> None:
    silent = nodes()["silent"]

    assert silent.queue == "slow"
    assert silent.retry == RetryPolicy(max_attempts=4, initial_ms=2_000)
    assert silent.timeouts == TimeOuts(total_ms=300_000)


def test_a_key_of_the_node_takes_nothing_of_the_default() -> None:
    outspoken = nodes()["outspoken"]

    assert outspoken.queue == "fast"
    assert outspoken.retry == RetryPolicy(max_attempts=2)
    assert outspoken.timeouts == TimeOuts(attempt_ms=10_000)


@pytest.mark.parametrize(
    ("says", "lease_ms"),
    [
        ("timeout: {attempt: 30s}", 15_000),
        ("timeout: {attempt: 1h}", 90_000),
        ("timeout: {attempt: 1s}", 1_000),
        ("timeout: {attempt: 1m, heartbeat: 20s}", 10_000),
        ("timeout: {total: 30s}", 90_000),
        ("timeout: {attempt: 30s}, lease: 20s", 20_000),
    ],
)
def test_a_lease_is_short_enough_to_be_lost_before_an_attempt_is_over(says: str, lease_ms: int) -> None:
    assert nodes(f"workflow: w\nnodes: {{a: {{type: call, handler: h, {says}}}}}")["a"].lease_ms == lease_ms


def test_the_default_queue_is_that_of_call_nodes_and_waits_have_no_default_time_out() -> None:
    found = nodes()

    assert found["fetch"].queue == "http"
    assert found["fetch"].retry.max_attempts == 4
    assert found["ask"].timeouts == TimeOuts()


def test_what_is_wrong_with_defaults_is_said_at_its_place() -> None:
    source = (
        "workflow: w\ndefaults: {queue: A, retries: 3, timeout: {attempt: 2m, total: 1m}}\n"
        "nodes: {a: {type: set, values: {x: 1}}}\n"
    )

    found = {(fault.line, fault.column, fault.code.value) for fault in compile_workflow(source).faults}

    assert found == {(2, 19, "wrong_value"), (2, 22, "unknown_key"), (2, 53, "contradiction")}
