"""Maps and repeats: how they begin, go on and end.

Their task waits while they are under way. Each item or iteration is a scope with tasks of its own, which ends as a run
does, by the same function; then the next one begins. One decision begins, stops or closes `Walk.room` of them; what is
left goes on when one of them ends, or by the timer `go_on`, so that no map holds up others, however large it is.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import orjson

from headway.coordinator.core import actions as do
from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.decide import redo
from headway.coordinator.core.decide._failures import TooLargeError, expression_failure, failed, timed_out
from headway.coordinator.core.decide._places import Problem, may_look, next_items
from headway.coordinator.core.decide._reading import look_ahead
from headway.coordinator.core.decide._results import (
    error_of,
    failures_in,
    items_failed,
    iteration_failed,
    result_of,
)
from headway.coordinator.core.decide._scope import Scope
from headway.coordinator.core.decide._taking_up import (
    Again,
    ask_for_children,
    ask_for_signals,
    is_taken_up,
    note,
    places_in,
    take_next,
)
from headway.coordinator.core.decide.redo_plan import Part, undone
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.effort import TooMuchToDecide
from headway.coordinator.core.failure_types import FailureType
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.outcome import outcome, tally_of
from headway.coordinator.core.paths import (
    CHUNK,
    chunk_key,
    inside,
    loop_of,
    scope_at,
    scope_of,
)
from headway.coordinator.core.plan import LOOP_NODES, Expression, Json, Node, NodeType
from headway.coordinator.core.rows import ALL_STOPS, BEATEN, STOPPED
from headway.coordinator.core.state import PAGE
from headway.coordinator.core.templates import evaluate_condition, render, whole_reference

if TYPE_CHECKING:
    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.graph import Graph, Spot
    from headway.coordinator.core.rows import LoopRow, PayloadKey, ScopeRow


# --- begin


def begin(walk: Walk, path: str, *, keep_input: bool) -> None:
    """Let a map or repeat begin; or go on where it stopped, when the run was reopened and its list is kept.

    Raises:
        ExpressionError: its list cannot be evaluated.
    """
    node = walk.graph.node(path)
    before = walk.draft.loop(path) if keep_input else None
    if before is not None and _goes_on(walk, path, node, before):
        return
    attempt = walk.row(path).attempt
    if node.type is NodeType.REPEAT:
        walk.emit(do.OpenLoop(path=path, attempt=attempt, total=node.max_iterations, source=None))
    elif not _open_map(walk, path, node, attempt):
        return
    _await(walk, path, node)
    go_on(walk, path)


def _await(walk: Walk, path: str, node: Node) -> None:
    walk.emit(do.AwaitTask(path=path, due_at=None))
    if node.timeouts.total_ms is not None:
        walk.set_deadline(path, "total_timeout", 0, node.timeouts.total_ms)


def _goes_on(walk: Walk, path: str, node: Node, loop: LoopRow) -> bool:
    """Take up what was begun before; False: it begins anew."""
    places = places_in(path, walk.chosen)
    if not is_taken_up(loop, node.type, is_chosen=bool(places)):
        return False
    latest = min(places.values()) if places and node.type is NodeType.REPEAT else None  # it is the latest one then
    if latest is not None:
        walk.emit(do.ReopenLoop(path=path, started=latest + 1, redo_from=None, redo_failed=False))
    else:
        note(walk, loop, {scope: walk.chosen[scope] for scope in places})
    _await(walk, path, node)
    if latest is not None:
        redo.redo_scope(walk, scope_at(path, latest), walk.chosen[scope_at(path, latest)])
    go_on(walk, path)
    return True


def _open_map(walk: Walk, path: str, node: Node, attempt: int) -> bool:
    """Store its list, in chunks; False: it failed. The results of another map are gone over where they are."""
    scope = Scope(walk, scope_of(path), target=path)
    if node.over is None:
        raise LookupError(path)
    whole = whole_reference(node.over)
    other = None if whole is None else scope.map_behind(whole)
    if other is not None:
        walk.emit(do.OpenLoop(path=path, attempt=attempt, total=other.results, source=other.path))
        return True
    document = Document.of(render(node.over, scope.lookup, scope.present, walk.effort))
    walk.effort.spend_decoding(document.raw)
    value = document.value
    if isinstance(value, dict):
        entries: list[Json] = [{"key": key, "value": entry} for key, entry in value.items()]
        value = entries
    if not isinstance(value, list):
        message = f"`over` must give a list or a map, not {orjson.dumps(value).decode()[:100]}"
        walk.fail(path, "decide_failed", failed(FailureType.NOT_A_LIST, message), retryable=False)
        return False
    walk.emit(do.OpenLoop(path=path, attempt=attempt, total=len(value), source=None))
    for first in range(0, len(value), CHUNK):
        key = chunk_key(path, attempt, first)
        chunk: list[Json] = value[first : first + CHUNK]
        data = Document.of(chunk)
        walk.emit(do.StorePayload(path=key[0], attempt=key[1], role=key[2], data=data))
    return True


# --- go on


def go_on(walk: Walk, path: str) -> None:
    """Do what is next: begin items, stop them, or end."""
    if walk.loop(path).stop is None and walk.is_over_for(path):
        walk.emit(do.StopLoop(path=path, cause=walk.halt(scope_of(path)).cause, closing=False))
    loop = walk.loop(path)
    if loop.stop is not None:
        _tell_open_items(walk, path)
    elif may_begin(walk, path):
        if walk.run.is_paused:
            return
        if walk.graph.node(path).type is NodeType.MAP:
            _fill(walk, path)
        else:
            _iterate(walk, path)
    _end_if_over(walk, path)


def may_begin(walk: Walk, path: str) -> bool:
    """True when a next item or iteration may begin, or be asked for: of a paused run, at its resume."""
    loop, node = walk.loop(path), walk.graph.node(path)
    if node.type is NodeType.MAP:
        return _has_room(loop, node.max_concurrency)
    return loop.stop is None and not (loop.open or (loop.failed and loop.redo_from is None))


def _later(walk: Walk, path: str) -> None:
    walk.emit(do.ScheduleTimer(path=path, kind="go_on", attempt=walk.row(path).attempt, due_at=walk.at))


def _rest(walk: Walk, path: str, pause_ms: int) -> None:
    """Let a repeat pause before its next iteration."""
    due_at = walk.at + timedelta(milliseconds=pause_ms)
    walk.emit(do.PostponeTask(path=path, due_at=due_at))
    walk.set_alarm(path, "go_on", due_at)


def _fill(walk: Walk, path: str) -> None:
    """Begin items, as many as may be under way."""
    spot = walk.graph.spot(path)
    most = spot.node.max_concurrency
    window = 0
    while _has_room(loop := walk.loop(path), most):
        if not (walk.room and may_look(walk)):
            _later(walk, path)
            return
        if loop.redo_from is None:
            window = min(max(most - loop.open, 2 * window), walk.room, loop.total - loop.seen)
            _begin_next(walk, spot, loop, window)
        else:
            _take_up(walk, loop, loop.redo_from, most - loop.open)


def _begin_next(walk: Walk, spot: Spot, loop: LoopRow, count: int) -> None:
    """Begin so many next items, or fewer; what is left out on the way is counted."""
    path, where, most = loop.path, spot.node.where, spot.node.max_concurrency
    items, end = next_items(walk, loop, where, count)
    scopes = {scope_at(path, loop.started + number): item for number, item in enumerate(items)}
    if where is not None:
        walk.places |= {scope: item.place for scope, item in scopes.items()}
    for scope in scopes:
        _assume_fresh(walk, scope)
    ready = _look_ahead(walk, spot.graph.bodies[spot.name], [s for s, item in scopes.items() if item.problem is None])
    for scope, item in scopes.items():
        if not (walk.room and _has_room(walk.loop(path), most)) or walk.effort.is_half_spent:
            return  # what is in the items before took the room
        if item.problem is None and not ready:
            return
        _leave_out(walk, path, item.place)
        walk.room -= 1
        if item.problem is None:
            ready -= 1
            _open(walk, scope, None if where is None else item.place)
        else:
            walk.emit(do.OpenScope(path=scope, place=item.place))
            _fail_item(walk, scope, item.problem)
    _leave_out(walk, path, end)


def _leave_out(walk: Walk, path: str, place: int) -> None:
    """The items before a place are not begun."""
    loop = walk.loop(path)
    if loop.seen < place:
        walk.emit(do.LeaveOut(path=path, count=place - loop.seen))


def _fail_item(walk: Walk, scope: str, problem: Problem) -> None:
    """Whether an item is to be done cannot be told: it has failed."""
    error = {**error_of(expression_failure(problem)), "message": f"where: {problem}"}
    walk.emit(do.CloseScope(path=scope, state=RunState.FAILED, error=error, output=None, output_bytes=len(NULL.raw)))
    path = loop_of(scope)[0]
    if _gives_up(walk.graph.node(path), walk.loop(path)):
        stop(walk, path, "failure")


def _has_room(loop: LoopRow, most: int) -> bool:
    """An item may have ended the run as it began."""
    return loop.stop is None and loop.open < most and (loop.redo_from is not None or loop.seen < loop.total)


def _look_ahead(walk: Walk, body: Graph, scopes: list[str]) -> int:
    """Ask at once for what the next items need.

    Returns:
        how many of them may begin in this decision: what they read of other maps fits into memory together.

    Raises:
        Missing: some of it is not loaded.
    """
    ask_for_signals(walk, body, scopes)
    if reading := body.starts_that_read:
        ready = look_ahead(walk, [inside(scope, name) for scope in scopes for name in reading])
        del scopes[-(-ready // len(reading)) :]
    if walk.run.epoch > 1:
        walk.draft.require_bodies(body, [scope for scope in scopes if walk.draft.scope(scope) is not None])
    ask_for_children(walk, body, scopes)
    return len(scopes)


def _assume_fresh(walk: Walk, scope: str) -> None:
    """Of a run that was never reopened, an item or iteration begins once; of others, unless it is there."""
    if walk.run.epoch == 1 or not walk.draft.is_begun(scope):
        walk.draft.assume_fresh(scope)


def _open(walk: Walk, scope: str, place: int | None = None) -> None:
    """Begin an item or iteration; what it has of an earlier time begins again."""
    graph = walk.graph.body(scope)
    _assume_fresh(walk, scope)
    is_there = walk.draft.scope(scope) is not None
    if is_there:
        walk.draft.require_bodies(graph, [scope])
        part = Part(walk.draft, graph, scope)
        rows, gone = part.tasks(), undone(part)
        walk.emit(do.OpenScope(path=scope, place=place))
        for name, row in rows.items():
            if not row.is_open and name not in graph.undoes:
                repeats = row.state is TaskState.SUCCEEDED or name in gone
                walk.emit(do.RedoTask(path=row.path, generation=row.generation + repeats))
        for name in sorted(graph.gathers):
            if walk.draft.token(inside(scope, name)) is not None:
                slots = tuple(range(len(graph.incoming[name])))
                walk.emit(do.EraseTokens(path=inside(scope, name), slots=slots))
    if not is_there:
        walk.emit(do.OpenScope(path=scope, place=place))
    for name in graph.starts:
        walk.start(inside(scope, name))


def _take_up(walk: Walk, loop: LoopRow, first: int, most: int) -> None:
    """Go on with the next items or iterations that are taken up, as many as may be."""
    for scope, again in take_next(walk, loop, first, most).items():
        _redo_item(walk, scope, again)


def _redo_item(walk: Walk, scope: str, again: Again) -> None:
    if again.verdict is None:
        redo.redo_scope(walk, scope, again.chosen)
        return
    walk.emit(do.ReopenScope(path=scope))
    if again.verdict is True:
        for name in walk.graph.body(scope).starts:
            walk.start(inside(scope, name))
    elif again.verdict is False:  # it has its number: it is done, though nothing was done for it
        size = len(NULL.raw)
        walk.emit(do.CloseScope(path=scope, state=RunState.SUCCEEDED, error=None, output=None, output_bytes=size))
    else:
        _fail_item(walk, scope, again.verdict)


def _iterate(walk: Walk, path: str) -> None:
    """Begin the next iteration of a repeat, or end it."""
    node, loop = walk.graph.node(path), walk.loop(path)
    if walk.row(path).due_at is not None:
        walk.emit(do.PostponeTask(path=path, due_at=None))
    if loop.redo_from is not None:
        if not walk.room:
            _later(walk, path)
            return
        _take_up(walk, loop, loop.redo_from, 1)
        if walk.loop(path).open:
            return
    following = scope_at(path, loop.started)
    goes_on = node.again_while is None or _holds(walk, path, following, node.again_while)
    if not goes_on:
        if goes_on is False:
            _complete_repeat(walk, path)
        return
    if loop.started >= loop.total:
        message = f"{loop.total} iterations did not do"
        walk.fail(path, "wait_failed", failed(FailureType.ITERATIONS_EXHAUSTED, message), retryable=False)
        return
    if not walk.room or walk.effort.is_half_spent:
        _later(walk, path)
        return
    walk.room -= 1
    if node.keep_last is not None and loop.started > node.keep_last:
        _drop(walk, scope_at(path, loop.started - node.keep_last - 1))
    _open(walk, following)


def _holds(walk: Walk, path: str, scope: str, condition: Expression) -> bool | None:
    """Whether a condition of a repeat holds, as seen from an iteration; None: it could not be told, and has failed."""
    view = Scope(walk, scope)
    try:
        return evaluate_condition(condition, view.lookup, view.present, walk.effort)
    except (ExpressionError, TooMuchToDecide) as problem:
        walk.fail(path, "wait_failed", expression_failure(problem), retryable=False)
        return None


def _drop(walk: Walk, scope: str) -> None:
    if walk.run.epoch > 1 and walk.draft.scope(scope) is None:
        return  # it was dropped before the repeat went back
    paths = tuple(inside(scope, name) for name in walk.graph.body(scope).plan.nodes)
    walk.emit(do.DropScope(path=scope, paths=paths))


def _complete_repeat(walk: Walk, path: str) -> None:
    output = walk.loop(path).output
    walk.complete(path, "wait_succeeded", None if output is None else walk.draft.payload(output))


# --- an item or iteration ends


def end(walk: Walk, row: ScopeRow) -> None:
    """End an item or iteration in which nothing is open; its map or repeat goes on."""
    state = outcome(
        tally_of(row), finish=None, cancelled=row.stopped and not row.unhandled_tasks, deadline_passed=False
    )
    if state is None:
        raise LookupError(row.path)
    key: PayloadKey | None = None
    size = len(NULL.raw)
    error: dict[str, Json] | None = None
    if state is RunState.SUCCEEDED and scope_of(walk.run.finish_path or "") != row.path:  # else nobody asks for it
        try:
            key, size = result_of(walk, row)
        except (ExpressionError, TooMuchToDecide) as problem:
            state, error = RunState.FAILED, error_of(expression_failure(problem))
        except TooLargeError as problem:
            state, error = RunState.FAILED, error_of(problem.failure)
    elif state is RunState.FAILED:
        error = failures_in(walk, row)
    walk.emit(do.CloseScope(path=row.path, state=state, error=error, output=key, output_bytes=size))
    _after(walk, row.loop, row.path, state)


def _after(walk: Walk, path: str, scope: str, state: RunState) -> None:
    node = walk.graph.node(path)
    if node.type is NodeType.REPEAT:
        _after_iteration(walk, path, node, scope, state)
    elif state is RunState.FAILED and _gives_up(node, walk.loop(path)):
        stop(walk, path, "failure")
    else:
        go_on(walk, path)


def _after_iteration(walk: Walk, path: str, node: Node, scope: str, state: RunState) -> None:
    if state is RunState.SUCCEEDED and node.ends_when is not None:
        ends = _holds(walk, path, scope, node.ends_when)
        if ends:
            _complete_repeat(walk, path)
        if ends is not False:
            return
    if state is RunState.SUCCEEDED and walk.loop(path).stop is None and node.wait_ms:
        _rest(walk, path, node.wait_ms)
    else:
        go_on(walk, path)


def _gives_up(node: Node, loop: LoopRow) -> bool:
    """True for a map that goes on no more: too many items failed, and none of them is yet to be redone."""
    counts_old = loop.redo_chosen is not None or (loop.redo_failed and loop.redo_from is not None)
    return loop.stop is None and not counts_old and _is_beyond(node, loop)


def _is_beyond(node: Node, loop: LoopRow) -> bool:
    """True when more items failed than the map tolerates."""
    return loop.failed > node.tolerate and loop.failed * 100 > node.tolerate_percent * loop.results


# --- stop, and end


def stop(walk: Walk, path: str, cause: str, grace: timedelta | None = None) -> None:
    """Nothing more of a map or repeat begins; what has not started in its open items is cancelled.

    For some causes all stops: holders in them are told too.
    """
    walk.emit(do.StopLoop(path=path, cause=_first_of(walk.loop(path), cause), closing=False))
    if cause in ALL_STOPS and cause != STOPPED:
        walk.set_grace(path, *() if grace is None else (grace,))
    go_on(walk, path)


def time_out(walk: Walk, path: str) -> None:
    """Its time is over: all that is under way in it stops, and then it fails."""
    if walk.loop(path).stop not in ALL_STOPS:
        stop(walk, path, "timeout")


def close(walk: Walk, path: str) -> None:
    """The grace of the run, or of one of its tasks, is over."""
    if not path:
        close_running(walk, "")
    elif walk.graph.node(path).body is None:
        walk.claim(path)
        walk.cancel(path, "unknown")
    else:
        _close_items(walk, path, walk.loop(path).stop or STOPPED)


def close_running(walk: Walk, scope: str) -> None:
    """The grace is over: attempts that nobody ended are closed, their effect unknown; in maps and repeats too."""
    for row in walk.open_tasks(walk.graph.body(scope), scope):
        if row.state is TaskState.RUNNING:
            walk.claim(row.path)
            walk.cancel(row.path, "unknown")
        elif row.state is TaskState.WAITING and walk.graph.node(row.path).type in LOOP_NODES:
            _close_items(walk, row.path, walk.halt(scope).cause)
        elif row.state is not TaskState.PENDING:  # its item was not told of the stop yet
            walk.stop_task(row, walk.halt(scope).cause)


def _close_items(walk: Walk, path: str, cause: str) -> None:
    walk.emit(do.StopLoop(path=path, cause=_first_of(walk.loop(path), cause), closing=True))
    go_on(walk, path)


def _first_of(loop: LoopRow, cause: str) -> str:
    """Why it stops: one that a join has beaten stays beaten, whatever ends the run behind that."""
    return BEATEN if loop.stop == BEATEN else cause


def _tell_open_items(walk: Walk, path: str) -> None:
    """Stop, or close, its open items from the cursor on, a page at a time."""
    while (loop := walk.loop(path)).cursor is not None:
        if not walk.room:
            _later(walk, path)
            return
        rows = walk.draft.items(path, "running", loop.cursor)
        told = rows[: walk.room]
        walk.room -= len(told)
        if told:
            body, scopes = walk.graph.body(told[0].path), [row.path for row in told]
            walk.draft.require_bodies(body, scopes)
            walk.draft.require_within(body, scopes, "running", walk.room)
            walk.look_back(inside(scope, name) for scope in scopes for name in body.undone_by)
        is_last = len(rows) < PAGE and len(told) == len(rows)
        walk.emit(do.MoveCursor(path=path, cursor=None if is_last else told[-1].index + 1))
        for row in told:
            if loop.closing:
                close_running(walk, row.path)
            else:
                walk.stop_rest(row.path)
            walk.touch(row.path)


def _end_if_over(walk: Walk, path: str) -> None:
    """End a map or repeat of which nothing is under way and nothing is left to do."""
    row, loop = walk.row(path), walk.loop(path)
    if row.state is not TaskState.WAITING or loop.open:
        return
    node = walk.graph.node(path)
    is_left = loop.redo_from is not None or (node.type is NodeType.MAP and loop.seen < loop.total)
    if loop.stop is None and is_left:
        return
    if loop.stop == "timeout":
        failure = timed_out("total", f"after {node.timeouts.total_ms} ms")
        walk.fail(path, "wait_failed", failure, retryable=False)
    elif node.type is NodeType.MAP:
        if _is_beyond(node, loop):
            walk.fail(path, "wait_failed", items_failed(walk, loop), retryable=False)
        elif loop.stop is not None:
            walk.cancel(path, loop.stop)
        else:
            walk.complete(path, "wait_succeeded", None)
    elif loop.failed:
        walk.fail(path, "wait_failed", iteration_failed(walk, loop), retryable=False)
    elif loop.stop is not None:
        walk.cancel(path, loop.stop)
