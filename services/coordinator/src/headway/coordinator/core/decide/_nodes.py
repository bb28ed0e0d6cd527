"""How a node begins, by its type: worker nodes are dispatched, wait nodes wait, control nodes are decided at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import orjson

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide._scope import Scope
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.events import Failure
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.plan import FailureClass, Json, Node, NodeType, Template
from headway.coordinator.core.templates import evaluate_condition, render, whole_reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.rows import PayloadKey

PAYLOAD_LIMIT = 1 << 20  # bytes of JSON, for anything that is stored


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
    if node.type in (NodeType.CALL, NodeType.HTTP, NodeType.PYTHON):
        _dispatch(walk, node, keep_input=keep_input)
    else:
        _BEGIN[node.type](walk, node)


def dispatch(walk: Walk, path: str, via: str | None) -> None:
    """Put an attempt on its queue."""
    attempt, queue_ms = walk.row(path).attempt, walk.graph.node(path).timeouts.queue_ms
    walk.emit(do.DispatchTask(path=path, attempt=attempt, via=via))
    if queue_ms is not None:
        due_at = walk.at + timedelta(milliseconds=queue_ms)
        walk.emit(do.ScheduleTimer(path=path, kind="queue_timeout", attempt=attempt, due_at=due_at))


def _dispatch(walk: Walk, node: Node, *, keep_input: bool) -> None:
    if node.input is not None and not (keep_input and walk.row(node.id).input is not None):
        try:
            _set_input(walk, node.id, node.input)
        except _TooLargeError as error:
            walk.fail(node.id, "decide_failed", error.failure, retryable=False)
            return
    dispatch(walk, node.id, "dependencies_satisfied")
    if node.timeouts.total_ms is not None:
        due_at = walk.at + timedelta(milliseconds=node.timeouts.total_ms)
        walk.emit(do.ScheduleTimer(path=node.id, kind="total_timeout", attempt=0, due_at=due_at))


def _set_input(walk: Walk, path: str, template: Template) -> None:
    """Render the input once; a reference to a whole payload is kept as a reference."""
    row = walk.row(path)
    counts = path not in walk.graph.undoes  # there the generation says what is undone
    scope = Scope(walk, target=path)
    whole = whole_reference(template)
    key = scope.document(whole) if whole is not None and _is_known(scope, whole) else None
    if key is None:
        document = _document(_render(scope, template), f"the input of {path}")
        key = (path, row.attempt, "input")
        generation = row.generation + (counts and _differs(walk, row.input, document))
        walk.emit(do.StorePayload(path=path, attempt=row.attempt, role="input", data=document))
    else:
        changed = counts and row.input not in (None, key) and _differs(walk, row.input, walk.draft.payload(key))
        generation = row.generation + changed
    walk.emit(do.SetInput(path=path, input=key, generation=generation))


def _is_known(scope: Scope, whole: tuple[str, ...]) -> bool:
    """False: let `render` complain, it knows the place."""
    try:
        scope.document(whole)
    except LookupError:
        return False
    return True


def _differs(walk: Walk, before: PayloadKey | None, document: Document) -> bool:
    """True when a task that is redone gets another input than before."""
    return before is not None and walk.draft.payload(before) != document


def _switch(walk: Walk, node: Node) -> None:
    scope = Scope(walk, target=node.id)
    holding = (case.edge for case in node.cases if evaluate_condition(case.when, scope.lookup, scope.present))
    chosen = next(holding, node.default_edge)
    target = None if chosen is None else walk.graph.plan.edges[chosen].target
    walk.complete(node.id, "decide_succeeded", Document.of({"to": target}), chosen=chosen)


def _join(walk: Walk, node: Node) -> None:
    """Gather the outputs of the branches that are live, by node id, without decoding them."""
    into = walk.graph.incoming[node.id]
    tokens = walk.draft.token(node.id) if node.id in walk.graph.gathers else None
    sources = [edge.source for slot, edge in enumerate(into) if tokens is None or tokens.live >> slot & 1]
    walk.draft.require_tasks(sources)
    keys: dict[str, PayloadKey | None] = {}
    for source in sources:
        row = walk.row(source)
        succeeded = row.state is TaskState.SUCCEEDED and row.output_attempt is not None
        keys[source] = (source, row.output_attempt or 0, "output") if succeeded else None
    walk.draft.require_payloads(key for key in keys.values() if key is not None)
    gathered = {
        source: orjson.Fragment((NULL if key is None else walk.draft.payload(key)).raw) for source, key in keys.items()
    }
    document = Document(orjson.dumps(gathered))
    if len(document.raw) > PAYLOAD_LIMIT:
        failure = _too_large(f"the gathered output of {node.id}", len(document.raw))
        walk.fail(node.id, "decide_failed", failure, retryable=False)
    else:
        walk.complete(node.id, "decide_succeeded", document)


def _set(walk: Walk, node: Node) -> None:
    scope = Scope(walk, target=node.id)
    values = {name: _render(scope, template) for name, template in node.values.items()}
    try:
        document = _document(values, f"the values of {node.id}")
        _document({**walk.run.vars, **values}, "the run's variables")
    except _TooLargeError as error:
        walk.fail(node.id, "decide_failed", error.failure, retryable=False)
        return
    plain = document.value  # decoded again: what was passed through undecoded must not stay so in the variables
    walk.emit(do.SetVariables(values=plain if isinstance(plain, dict) else {}))
    walk.complete(node.id, "decide_succeeded", document)


def _finish(walk: Walk, node: Node) -> None:
    scope = Scope(walk, target=node.id)
    try:
        output = None if node.output is None else _document(_render(scope, node.output), f"the output of {node.id}")
        message = None if node.message is None else _document(_render(scope, node.message), f"message of {node.id}")
    except _TooLargeError as error:
        walk.fail(node.id, "decide_failed", error.failure, retryable=False)
        return
    if message is not None:  # kept as the node's input: what it was told to say
        row = walk.row(node.id)
        walk.emit(do.StorePayload(path=node.id, attempt=row.attempt, role="input", data=message))
        walk.emit(do.SetInput(path=node.id, input=(node.id, row.attempt, "input"), generation=row.generation))
    walk.complete(node.id, "decide_succeeded", output)
    walk.emit(do.MarkRun(flag="finish_path", path=node.id))
    walk.stop_rest()


def _wait(walk: Walk, node: Node) -> None:
    if node.wait_ms is not None:
        due_at = walk.at + timedelta(milliseconds=node.wait_ms)
    else:
        rendered = None if node.until is None else _render(Scope(walk, target=node.id), node.until)
        until = Document.of(rendered).value  # a whole output comes undecoded
        parsed = _instant(until)
        if parsed is None:
            failure = Failure(
                failure_class=FailureClass.EXEC_FAILED,
                type="InvalidInstant",
                message="`until` must be RFC 3339 text with an offset, such as 2030-01-31T09:00:00Z, "
                f"not {repr(until)[:100]}",
            )
            walk.fail(node.id, "decide_failed", failure, retryable=False)
            return
        due_at = parsed
    walk.emit(do.AwaitTask(path=node.id, due_at=due_at))
    attempt = walk.row(node.id).attempt
    walk.emit(do.ScheduleTimer(path=node.id, kind="wait", attempt=attempt, due_at=due_at))


def _wait_for_event(walk: Walk, node: Node) -> None:
    """Take the oldest signal that nobody has taken, or wait for one."""
    buffered = walk.draft.untaken(node.event)
    total_ms = node.timeouts.total_ms
    due_at = None if total_ms is None else walk.at + timedelta(milliseconds=total_ms)
    walk.emit(do.AwaitTask(path=node.id, due_at=due_at))
    if buffered:
        take_signal(walk, node.id, node.event)
    elif due_at is not None:
        attempt = walk.row(node.id).attempt
        walk.emit(do.ScheduleTimer(path=node.id, kind="event_timeout", attempt=attempt, due_at=due_at))


def take_signal(walk: Walk, path: str, name: str) -> None:
    """Give a waiting node the oldest signal of that name; there is one."""
    signal = walk.draft.untaken(name)[0]
    walk.emit(do.TakeSignal(seq=signal.seq, path=path, name=name))
    walk.complete(path, "wait_succeeded", signal.payload)


_BEGIN: dict[NodeType, Callable[[Walk, Node], None]] = {
    NodeType.SWITCH: _switch,
    NodeType.JOIN: _join,
    NodeType.SET: _set,
    NodeType.FINISH: _finish,
    NodeType.WAIT: _wait,
    NodeType.WAIT_FOR_EVENT: _wait_for_event,
}


class _TooLargeError(Exception):
    """A value is over the payload limit."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _render(scope: Scope, template: Template) -> Json:
    return render(template, scope.lookup, scope.present)


def _document(value: Json, what: str) -> Document:
    document = Document.of(value)
    if len(document.raw) > PAYLOAD_LIMIT:
        raise _TooLargeError(_too_large(what, len(document.raw)))
    return document


def _too_large(what: str, size: int) -> Failure:
    return Failure(
        failure_class=FailureClass.EXEC_FAILED,
        type="PayloadTooLarge",
        message=f"{what} has {size} bytes of JSON; the limit is {PAYLOAD_LIMIT}",
    )


def _instant(value: Json) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    if parsed.tzinfo is None:
        return None
    try:
        return parsed.astimezone(UTC)
    except OverflowError:  # its instant is before the year 1 or after 9999
        return None
