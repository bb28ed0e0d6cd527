"""How a node begins, by its type: worker nodes are dispatched, wait nodes wait, control nodes are decided at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import orjson

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide import _children, _loops
from headway.coordinator.core.decide._contracts import breach, variable_breach
from headway.coordinator.core.decide._failures import TooLargeError, failed, need_room, too_large
from headway.coordinator.core.decide._reading import stored_at
from headway.coordinator.core.decide._scope import Scope
from headway.coordinator.core.decide._signals import take_what_is_there
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.durations import parse_computed_duration
from headway.coordinator.core.failure_types import FailureType
from headway.coordinator.core.instants import is_local, parse_instant, split_zone
from headway.coordinator.core.lookups import TooMuch, whole
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.paths import scope_of
from headway.coordinator.core.plan import (
    LOOP_NODES,
    WORKER_NODES,
    Json,
    Node,
    NodeType,
    Template,
    VariablePath,
)
from headway.coordinator.core.templates import evaluate_condition, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.rows import PayloadKey

LONGEST_NAME = 200  # characters of a signal's name
LONGEST_MS = 3_650 * 86_400_000  # of a wait


def create(walk: Walk, path: str) -> None:
    """Make the task's row, pending."""
    node = walk.graph.node(path)
    walk.emit(
        do.CreateTask(
            path=path,
            queue=node.queue,
            handler=node.handler,
            lease_ms=node.lease_ms,
            attempt_timeout_ms=node.timeouts.attempt_ms,
        )
    )


def begin(walk: Walk, path: str, *, keep_input: bool) -> None:
    """Let a pending node do what its type says.

    Raises:
        ExpressionError: one of its expressions cannot be evaluated; nothing was decided yet.
    """
    node = walk.graph.node(path)
    if node.type in WORKER_NODES:
        _dispatch(walk, path, node, keep_input=keep_input)
    elif node.type in LOOP_NODES:
        _loops.begin(walk, path, keep_input=keep_input)
    elif node.type is NodeType.SUBFLOW:
        _subflow(walk, path, node, keep_input=keep_input)
    else:
        _BEGIN[node.type](walk, path, node)


def try_again(walk: Walk, path: str) -> None:
    """The pause before a node's next attempt is over."""
    if walk.graph.is_subflow(path):
        walk.emit(do.AwaitTask(path=path, due_at=None))
        _children.start(walk, path)
    else:
        dispatch(walk, path)


def dispatch(walk: Walk, path: str) -> None:
    """Put an attempt on its queue; of a paused run, when it is resumed."""
    attempt, timers, held = walk.row(path).attempt, walk.graph.spot(path).attempt_timers, walk.run.is_paused
    walk.emit(do.DispatchTask(path=path, attempt=attempt, held=held))
    for kind, limit_ms in () if held else timers:
        due_at = walk.at + timedelta(milliseconds=limit_ms)
        walk.emit(do.ScheduleTimer(path=path, kind=kind, attempt=attempt, due_at=due_at))


def _dispatch(walk: Walk, path: str, node: Node, *, keep_input: bool) -> None:
    if node.input is not None and not (keep_input and walk.row(path).input is not None):
        try:
            _set_input(walk, path, node.input)
        except TooLargeError as error:
            walk.fail(path, "decide_failed", error.failure, retryable=False)
            return
    dispatch(walk, path)
    if node.timeouts.total_ms is not None:
        walk.set_deadline(path, "total_timeout", 0, node.timeouts.total_ms)


def _subflow(walk: Walk, path: str, node: Node, *, keep_input: bool) -> None:
    """Wait for a run of another workflow; of a paused run, it is asked for when that is resumed."""
    failure = _children.too_deep(walk)
    is_kept = keep_input and walk.row(path).input is not None
    if failure is None and node.input is not None and not is_kept:
        try:
            _set_input(walk, path, node.input)
        except TooLargeError as error:
            failure = error.failure
    if failure is not None:
        walk.fail(path, "decide_failed", failure, retryable=False)
        return
    walk.emit(do.AwaitTask(path=path, due_at=None))
    if node.timeouts.total_ms is not None:
        walk.set_deadline(path, "total_timeout", 0, node.timeouts.total_ms)
    if not walk.run.is_paused:
        _children.start(walk, path, again=keep_input)


def _set_input(walk: Walk, path: str, template: Template) -> None:
    """Render the input once; a reference to a whole payload is kept as a reference."""
    row = walk.row(path)
    counts = not walk.graph.owner(path)  # there the generation says what is undone
    scope = _scope_for(walk, path)
    key = stored_at(scope, template)
    if key is None:
        document = _document(walk, _render(scope, template), f"the input of {path}")
        key = (path, row.attempt, "input")
        generation = row.generation + (counts and _differs(walk, row.input, document))
        walk.emit(do.StorePayload(path=path, attempt=row.attempt, role="input", data=document))
    else:
        changed = counts and row.input not in (None, key) and _differs(walk, row.input, walk.draft.payload(key))
        generation = row.generation + changed
    walk.emit(do.SetInput(path=path, input=key, generation=generation))


def _differs(walk: Walk, before: PayloadKey | None, document: Document) -> bool:
    """True when a task that is redone gets another input than before."""
    return before is not None and walk.draft.payload(before) != document


def _switch(walk: Walk, path: str, node: Node) -> None:
    scope = _scope_for(walk, path)
    holding = (
        case.edge for case in node.cases if evaluate_condition(case.when, scope.lookup, scope.present, walk.effort)
    )
    chosen = next(holding, node.default_edge)
    target = None if chosen is None else walk.graph.spot(path).graph.plan.edges[chosen].target
    walk.complete(path, "decide_succeeded", Document.of({"to": target}), chosen=chosen)


def _join(walk: Walk, path: str, _node: Node) -> None:
    """Gather the outputs of the branches that are live, by node id, without decoding them."""
    spot = walk.graph.spot(path)
    tokens = walk.draft.token(path) if spot.gathers else None
    sources = [edge.source for slot, edge in enumerate(spot.incoming) if tokens is None or tokens.live >> slot & 1]
    walk.draft.require_tasks([spot.beside(source) for source in sources])
    scope = Scope(walk, spot.scope)
    names: list[VariablePath] = [("nodes", source, "output") for source in sources]
    there = [name for name in names if walk.row(spot.beside(name[1])).state is TaskState.SUCCEEDED]
    walk.draft.require_payloads(key for name in there if (key := scope.document(name)) is not None)
    try:
        gathered = {name[1]: whole(scope.lookup(name)) if name in there else None for name in names}
    except TooMuch as error:
        walk.fail(path, "decide_failed", failed(FailureType.PAYLOAD_TOO_LARGE, str(error)), retryable=False)
        return
    document = Document(orjson.dumps(gathered))
    walk.effort.spend_bytes(len(document.raw))
    failure = too_large(f"the gathered output of {path}", len(document.raw))
    if failure is not None:
        walk.fail(path, "decide_failed", failure, retryable=False)
    else:
        walk.complete(path, "decide_succeeded", document)


def _set(walk: Walk, path: str, node: Node) -> None:
    scope = _scope_for(walk, path)
    values = {name: _render(scope, template) for name, template in node.values.items()}
    try:
        document = _document(walk, values, f"the values of {path}")
        _document(walk, {**walk.run.vars, **values}, "the run's variables")
    except TooLargeError as error:
        walk.fail(path, "decide_failed", error.failure, retryable=False)
        return
    walk.effort.spend_decoding(document.raw)
    plain = document.value  # decoded again: what was passed through undecoded must not stay so in the variables
    known = plain if isinstance(plain, dict) else {}
    broken = variable_breach(walk.graph.plan.variables, known, walk.effort)
    if broken is not None:
        walk.fail(path, "decide_failed", broken, retryable=False)
        return
    walk.emit(do.SetVariables(values=known))
    walk.complete(path, "decide_succeeded", document)


def _finish(walk: Walk, path: str, node: Node) -> None:
    scope = _scope_for(walk, path)
    try:
        output = None if node.output is None else _document(walk, _render(scope, node.output), f"the output of {path}")
        message = None if node.message is None else _document(walk, _render(scope, node.message), f"message of {path}")
    except TooLargeError as error:
        walk.fail(path, "decide_failed", error.failure, retryable=False)
        return
    if node.outcome == RunState.SUCCEEDED:
        broken = breach(
            walk.graph.plan.output_schema, NULL if output is None else output, "the run's output", walk.effort
        )
        if broken is not None:
            walk.fail(path, "decide_failed", broken, retryable=False)
            return
    if message is not None:
        _keep_as_input(walk, path, message)
    walk.complete(path, "decide_succeeded", output)
    walk.emit(do.MarkRun(flag="finish_path", path=path))
    walk.stop_run()


def _wait(walk: Walk, path: str, node: Node) -> None:
    try:
        due_at = _end_of_wait(walk, path, node)
    except _InvalidTimeError as error:
        walk.fail(path, "decide_failed", failed(error.type, str(error)), retryable=False)
        return
    walk.emit(do.AwaitTask(path=path, due_at=due_at))
    walk.set_alarm(path, "wait", due_at)


def _end_of_wait(walk: Walk, path: str, node: Node) -> datetime:
    scope = _scope_for(walk, path)
    if node.wait_ms is not None:
        return walk.at + timedelta(milliseconds=node.wait_ms)
    if node.wait is not None:
        spelt = _rendered(scope, node.wait)
        wait_ms = parse_computed_duration(spelt) if isinstance(spelt, str) else None
        if wait_ms is None or wait_ms > LONGEST_MS:
            problem = f"`duration` must be text such as 90s or 1m30s, and at most ten years, not {repr(spelt)[:100]}"
            raise _InvalidTimeError(FailureType.INVALID_DURATION, problem)
        return walk.at + timedelta(milliseconds=wait_ms)
    until = _rendered(scope, node.until) if node.until is not None else None
    local, zone = split_zone(until) if isinstance(until, str) else ("", "")
    given = _rendered(scope, node.zone) if node.zone is not None else ""
    instant = parse_instant(local)
    if not zone and not given and instant is not None:
        return instant
    if not is_local(local) or bool(zone) == bool(given) or not isinstance(given, str):
        problem = (
            "`until` must be RFC 3339 text with either an offset or one zone, such as 2030-01-31T09:00:00Z or "
            f"2030-01-31T09:00:00 Europe/Vienna, not {repr(until)[:100]}"
        )
        raise _InvalidTimeError(FailureType.INVALID_INSTANT, problem)
    found = walk.draft.instant(local, zone or given)
    if found is None:
        problem = f"there is no time {local[:100]} in a zone {(zone or given)[:100]}"
        raise _InvalidTimeError(FailureType.INVALID_INSTANT, problem)
    return found


def _rendered(scope: Scope, template: Template) -> Json:
    return Document.of(_render(scope, template)).value  # a whole output comes undecoded


def _wait_for_event(walk: Walk, path: str, node: Node) -> None:
    """Take signals that nobody has taken, oldest first, or wait for them."""
    name = node.event
    if node.event_name is not None:
        given = _rendered(_scope_for(walk, path), node.event_name)
        if not isinstance(given, str) or not 0 < len(given) <= LONGEST_NAME or "\x00" in given:
            problem = f"`event` must be text of 1 to {LONGEST_NAME} characters, not {repr(given)[:100]}"
            walk.fail(path, "decide_failed", failed(FailureType.INVALID_EVENT_NAME, problem), retryable=False)
            return
        name = given
        _keep_as_input(walk, path, Document.of(name))
    total_ms = node.timeouts.total_ms
    due_at = None if total_ms is None else walk.at + timedelta(milliseconds=total_ms)
    walk.emit(do.AwaitTask(path=path, due_at=due_at))
    if take_what_is_there(walk, path, name):
        return
    if total_ms is not None:
        walk.set_deadline(path, "event_timeout", walk.row(path).attempt, total_ms)
    if walk.graph.is_scattered_wait(path):
        walk.emit(do.ExpectSignal(path=path, name=name))


def _keep_as_input(walk: Walk, path: str, document: Document) -> None:
    """What a node was told to say, or to wait for."""
    row = walk.row(path)
    walk.emit(do.StorePayload(path=path, attempt=row.attempt, role="input", data=document))
    walk.emit(do.SetInput(path=path, input=(path, row.attempt, "input"), generation=row.generation))


_BEGIN: dict[NodeType, Callable[[Walk, str, Node], None]] = {
    NodeType.SWITCH: _switch,
    NodeType.JOIN: _join,
    NodeType.SET: _set,
    NodeType.FINISH: _finish,
    NodeType.WAIT: _wait,
    NodeType.WAIT_FOR_EVENT: _wait_for_event,
}


class _InvalidTimeError(Exception):
    """What a template yielded is no time to wait for."""

    def __init__(self, kind: FailureType, problem: str) -> None:
        super().__init__(problem)
        self.type = kind


def _scope_for(walk: Walk, path: str) -> Scope:
    return Scope(walk, scope_of(path), target=path)


def _render(scope: Scope, template: Template) -> Json:
    return render(template, scope.lookup, scope.present, scope.effort)


def _document(walk: Walk, value: Json, what: str) -> Document:
    document = Document.of(value)
    walk.effort.spend_bytes(len(document.raw))
    need_room(what, len(document.raw))
    return document
