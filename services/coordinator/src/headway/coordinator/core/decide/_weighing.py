"""What an edge carries, once its source has ended: tokens, by the edge's kind and its condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.decide._failures import expression_failure
from headway.coordinator.core.decide._scope import Scope
from headway.coordinator.core.effort import TooMuchToDecide
from headway.coordinator.core.events import Failure
from headway.coordinator.core.plan import Edge, EdgeKind, Expression, FailureClass
from headway.coordinator.core.templates import evaluate_condition

if TYPE_CHECKING:
    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.graph import Spot
    from headway.coordinator.core.rows import TokenRow

Names: TypeAlias = tuple[tuple[str, int | None], ...]  # failed nodes beside, each with the edge that handled it


class Token(Struct, frozen=True):
    """What an edge carries. `fault`: a live token whose condition could not be evaluated: its target fails."""

    kind: str
    names: Names = ()
    fault: Failure | None = None


LIVE, DEAD = Token("live"), Token("dead")


def weigh(walk: Walk, scope: str, edge: Edge, failure: Failure | None) -> Token:
    """The token of an edge, in a scope or the run itself, whose kind fits: its condition decides."""
    if edge.when is None:
        return LIVE
    try:
        return LIVE if _holds(walk, scope, edge, edge.when, failure) else DEAD
    except (ExpressionError, TooMuchToDecide) as error:
        return Token("live", fault=expression_failure(error, edge))


def _holds(walk: Walk, scope: str, edge: Edge, condition: Expression, failure: Failure | None) -> bool:
    view = Scope(walk, scope, error=failure and (edge.source, failure))
    return evaluate_condition(condition, view.lookup, view.present, walk.effort)


def weigh_failure(walk: Walk, spot: Spot, failure: Failure) -> tuple[int | None, list[tuple[Edge, Token]]]:
    """The edge that handles a failure, if any, and what each edge carries."""
    handler: int | None = None
    tokens: list[tuple[Edge, Token]] = []
    for edge in spot.outgoing:
        if edge.on is EdgeKind.SUCCESS:
            continue
        token = DEAD
        if edge.on is EdgeKind.ALWAYS:
            token = weigh(walk, spot.scope, edge, failure)
        elif handler is None and _selects(edge, failure):
            token = weigh(walk, spot.scope, edge, failure)
            handler = edge.index if token is not DEAD else None
        tokens.append((edge, token))
    onward = DEAD if spot.node.optional else Token("failed", ((spot.name, handler),))
    tokens.extend((edge, onward) for edge in spot.outgoing if edge.on is EdgeKind.SUCCESS)
    return handler, tokens


def names_of(row: TokenRow) -> Names:
    """The failed nodes that the tokens at a node name, each with the edge that handled it."""
    seen: dict[str, int | None] = {}
    for names in row.names.values():
        seen.update((name, handled_by) for name, handled_by in names)
    return tuple(sorted(seen.items()))


def within_reach(spot: Spot, row: TokenRow) -> int:
    """How many live tokens there are at a node, and may still come."""
    return len(spot.incoming) - row.dead.bit_count() - row.failed.bit_count()


def _selects(edge: Edge, failure: Failure) -> bool:
    """True when a failure or time-out edge takes this failure, its condition aside."""
    if edge.on is EdgeKind.TIMEOUT and failure.failure_class is not FailureClass.TIMEOUT:
        return False
    return not edge.errors or failure.failure_class in edge.errors or failure.type in edge.errors
