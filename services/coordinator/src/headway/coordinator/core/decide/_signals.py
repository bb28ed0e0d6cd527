"""Signals and the nodes that wait for them: which fits which, and who takes what."""

from __future__ import annotations

from datetime import timedelta
from heapq import merge
from typing import TYPE_CHECKING

import orjson

from headway.coordinator.core import actions as do
from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.decide._contracts import faults_in
from headway.coordinator.core.decide._failures import expression_failure
from headway.coordinator.core.decide._scope import Scope
from headway.coordinator.core.document import Document
from headway.coordinator.core.effort import TooMuchToDecide
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.paths import order_of, scope_of
from headway.coordinator.core.templates import evaluate_condition, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.events import SignalReceived
    from headway.coordinator.core.rows import SignalRow, TaskRow


def receive(walk: Walk, event: SignalReceived) -> None:
    """Keep a signal, and give it to the node that has waited longest of those that it fits."""
    expires_at = None if event.ttl_ms is None else walk.at + timedelta(milliseconds=event.ttl_ms)
    walk.emit(do.BufferSignal(name=event.name, payload=event.payload, expires_at=expires_at))
    for path in _waiting_for(walk, event.name):
        if walk.row(path).state is not TaskState.WAITING:
            continue  # one before it failed, and that stopped it
        signal = walk.draft.untaken(event.name)[-1]
        try:
            fits = _fits(walk, path, signal)
        except TooMuchToDecide as error:
            walk.fail(path, "wait_failed", expression_failure(error), retryable=False)
            continue
        if fits:
            _take(walk, path, signal)
            return


def take_what_is_there(walk: Walk, path: str, name: str) -> bool:
    """Let a node that begins to wait take what was kept; True: it waits no more."""
    node, attempt = walk.graph.node(path), walk.row(path).attempt
    kept = walk.draft.taken(path) if node.reuse and attempt > 1 else []
    offered = [*kept, *walk.draft.untaken(name)]
    try:
        return any(_fits(walk, path, signal) and _take(walk, path, signal) for signal in offered)
    except TooMuchToDecide as error:
        walk.fail(path, "wait_failed", expression_failure(error), retryable=False)
        return True


def ask_ahead(walk: Walk, paths: Iterable[str]) -> None:
    """Ask at once for the signals that nodes with computed names may take when they begin to wait. Raises Missing."""
    names: list[str] = []
    for path in paths:
        template, scope = walk.graph.node(path).event_name, Scope(walk, scope_of(path), target=path)
        try:
            name = None if template is None else render(template, scope.lookup, scope.present, walk.effort)
        except (ExpressionError, TooMuchToDecide):
            continue  # it fails when it begins
        if isinstance(name, str):
            names.append(name)
    walk.draft.require_signals(names)


def name_of(walk: Walk, path: str) -> str:
    """The name of the signal that a waiting node waits for: a computed one is kept as the node's input."""
    node, row = walk.graph.node(path), walk.row(path)
    if node.event or row.input is None:
        return node.event
    value = walk.draft.payload(row.input).value
    return value if isinstance(value, str) else ""


def _waiting_for(walk: Walk, name: str) -> Iterator[str]:
    """Tasks that wait for a signal of that name, in the order in which they began to."""
    paths = walk.graph.waits.get(name, ())
    walk.draft.require_tasks(paths)
    named = [row for path in paths if (row := walk.draft.task(path)) is not None and row.state is TaskState.WAITING]

    def since(row: TaskRow) -> tuple[datetime, list[tuple[str, int]]]:
        return row.ready_at or walk.at, order_of(row.path)

    return (row.path for row in merge(sorted(named, key=since), _scattered(walk, name), key=since))


def _scattered(walk: Walk, name: str) -> Iterator[TaskRow]:
    """Those of them that are in bodies, or whose name is computed."""
    if not walk.graph.has_scattered_waits:
        return
    for page in walk.draft.waits(name):
        walk.draft.require_tasks(wait.path for wait in page)
        for wait in page:
            yield walk.row(wait.path)


def _fits(walk: Walk, path: str, signal: SignalRow) -> bool:
    node = walk.graph.node(path)
    if signal.taken_by is None and _is_past_its_time(walk, signal):
        return False
    if node.payload_schema is not None and faults_in(node.payload_schema, signal.payload.value, walk.effort):
        return False
    if node.filter is None:
        return True
    scope = Scope(walk, scope_of(path), target=path, payload=signal.payload)
    try:
        return evaluate_condition(node.filter, scope.lookup, scope.present, walk.effort)
    except ExpressionError:  # whoever sends signals must not be able to fail the node
        return False


def _is_past_its_time(walk: Walk, signal: SignalRow) -> bool:
    """At the instant at which it came it is in time, however short that is."""
    return signal.expires_at is not None and signal.expires_at <= walk.at and signal.received_at < walk.at


def _take(walk: Walk, path: str, signal: SignalRow) -> bool:
    """True: it was the last one that the node waited for, and the node is done."""
    node, attempt = walk.graph.node(path), walk.row(path).attempt
    counted = walk.draft.taken(path) if node.count is not None else []
    walk.emit(do.TakeSignal(seq=signal.seq, path=path, name=signal.name, attempt=attempt))
    if node.count is None:
        walk.complete(path, "wait_succeeded", signal.payload)
        return True
    mine = [row for row in counted if row.taken_attempt == attempt and row.seq != signal.seq]
    if len(mine) + 1 < node.count:
        return False
    payloads = [orjson.Fragment(row.payload.raw) for row in sorted([*mine, signal], key=lambda row: row.seq)]
    walk.complete_within_limit(path, "wait_succeeded", Document(orjson.dumps(payloads)))
    return True
