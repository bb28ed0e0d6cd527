"""Whether a failed attempt is tried again, and when: by the first rule that names the failure, else by the policy."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from headway.coordinator.core.plan import RetryPolicy, Tries

if TYPE_CHECKING:
    from datetime import datetime

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.events import Failure
    from headway.coordinator.core.rows import AttemptRow

_FAILURES = ("failed", "timeout")  # outcomes of attempts that were left behind and count against the policy


def pause_before_retry(walk: Walk, path: str, failure: Failure, asked_ms: int | None) -> timedelta | None:
    """How long to wait before the next attempt; None: there is none.

    Args:
        walk: the decision under way.
        path: the task that failed.
        failure: how.
        asked_ms: what the handler asks for instead of the policy's pause; None: nothing.

    Raises:
        Missing: earlier attempts are counted, and were not loaded.
    """
    policy, row = walk.graph.node(path).retry, walk.row(path)
    tries = _tries_for(policy, str(failure.failure_class), failure.type)
    earlier = _earlier_failures(walk, path) if policy.rules or policy.budget_ms is not None else []
    count = 1 + row.tries
    if policy.rules:
        count = 1 + sum(_tries_of(policy, left) is tries for left in earlier)
    if count >= tries.max_attempts:
        return None
    drawn_ms = tries.pause_ms(count) * (1 - tries.jitter * walk.chance)
    pause = timedelta(milliseconds=drawn_ms if asked_ms is None else asked_ms)
    began = (earlier[0].leased_at if earlier else row.leased_at) or _began(walk, path)
    if policy.budget_ms is not None and walk.at + pause > began + timedelta(milliseconds=policy.budget_ms):
        return None
    return pause


def _began(walk: Walk, path: str) -> datetime:
    """When a task that no worker has leased began with the tries that it counts."""
    row = walk.row(path)
    return (row.created_at if row.tries else row.ready_at) or walk.at


def _tries_for(policy: RetryPolicy, failure_class: str, error_type: str) -> Tries:
    """What decides about a failure, and counts it with its like."""
    for rule in policy.rules:
        if failure_class in rule.errors or error_type in rule.errors:
            return rule
    return policy


def _tries_of(policy: RetryPolicy, left: AttemptRow) -> Tries:
    return _tries_for(policy, str(left.failure_class), str((left.error or {}).get("type")))


def _earlier_failures(walk: Walk, path: str) -> list[AttemptRow]:
    """The failures that the task's `tries` counts, oldest first; attempts that were lost or given back lie between."""
    row = walk.row(path)
    first = max(1, row.attempt - row.tries - row.losses)
    walk.draft.require_attempts((path, number) for number in range(first, row.attempt))
    found: list[AttemptRow] = []
    number = row.attempt
    while len(found) < row.tries and number > 1:
        number -= 1
        left = walk.draft.attempt(path, number)
        if left is not None and left.outcome in _FAILURES:
            found.append(left)
    return found[::-1]
