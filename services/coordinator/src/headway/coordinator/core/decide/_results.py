"""What items and iterations give, and how they, their map or their repeat failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.coordinator.core import actions as do
from headway.coordinator.core.decide._ending import NAMED_PATHS, unhandled
from headway.coordinator.core.decide._failures import failed, need_room
from headway.coordinator.core.decide._scope import Scope
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.events import Failure
from headway.coordinator.core.failure_types import FailureType
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.paths import inside, scope_at
from headway.coordinator.core.payloads import shortened
from headway.coordinator.core.plan import FailureClass, Json, Place, Reference
from headway.coordinator.core.templates import render, whole_reference

if TYPE_CHECKING:
    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.rows import LoopRow, PayloadKey, ScopeRow

_LONGEST_CAUSE = 400  # characters of an item's error, in that of its map


def result_of(walk: Walk, row: ScopeRow) -> tuple[PayloadKey | None, int]:
    """Where the result of an item or iteration is, and its size: of a node's output, if that is what it gives.

    Raises:
        ExpressionError, TooMuchToDecide, TooLargeError: it has none.
    """
    spot = walk.graph.spot(row.loop)
    body, template = spot.graph.bodies[spot.name], spot.node.output
    scope = Scope(walk, row.path)
    whole = whole_reference(template)
    if template is None:
        last = None if body.last is None else walk.draft.task(inside(row.path, body.last))
        if body.last is None or last is None or last.state is not TaskState.SUCCEEDED:
            return None, len(NULL.raw)
        whole = ("nodes", body.last, "output")
    if whole is not None and scope.present(whole) and (key := scope.document(whole)) is not None:
        return key, len(walk.draft.payload(key).raw)
    if template is None:
        template = Reference(path=whole or (), place=Place(line=1, column=1))
    data = Document.of(render(template, scope.lookup, scope.present, walk.effort))
    walk.effort.spend_bytes(len(data.raw))
    need_room(f"the result of {row.path}", len(data.raw))
    walk.emit(do.StorePayload(path=row.path, attempt=row.attempt, role="output", data=data))
    return (row.path, row.attempt, "output"), len(data.raw)


def error_of(failure: Failure) -> dict[str, Json]:
    """A failure as the row of an item or iteration keeps it."""
    return {"failure_class": failure.failure_class, "type": failure.type, "message": failure.message, "paths": []}


def failures_in(walk: Walk, row: ScopeRow) -> dict[str, Json]:
    """How an item or iteration failed: by the failures in it that count."""
    culprits = unhandled(walk, walk.graph.body(row.path), row.path)
    if not culprits:
        return error_of(failed(FailureType.NOTHING_SUCCEEDED, "no task succeeded"))
    first = culprits[0]
    error = first.error or {}
    return {
        "failure_class": first.failure_class,
        "type": error.get("type"),
        "message": f"{first.path}: {error.get('message')}",
        "paths": [culprit.path for culprit in culprits[:NAMED_PATHS]],
    }


def items_failed(walk: Walk, loop: LoopRow) -> Failure:
    """How a map failed of which too many items did."""
    named = ", ".join(loop.failures)
    more = loop.failed - len(loop.failures)
    message = f"{loop.failed} of {loop.results} items failed: {named}" + (f" and {more} more" if more else "")
    if loop.failures:
        walk.draft.require_scopes(loop.failures[:1])
        error = walk.scope(loop.failures[0]).error or {}
        cause = f"{error.get('type')}: {error.get('message')}"
        message += f"; the first: {shortened(cause, _LONGEST_CAUSE)}"
    details: dict[str, Json] = {"failed": loop.failed, "total": loop.results, "items": [*loop.failures]}
    return failed(FailureType.ITEMS_FAILED, message, details)


def iteration_failed(walk: Walk, loop: LoopRow) -> Failure:
    """How a repeat failed: as its latest iteration."""
    scope = walk.scope(scope_at(loop.path, loop.started - 1))
    error = scope.error or {}
    return Failure(
        failure_class=FailureClass(error.get("failure_class", FailureClass.EXEC_FAILED)),
        type=str(error.get("type")),
        message=f"{scope.path} failed: {error.get('message')}",
        details={"iteration": scope.index},
    )
