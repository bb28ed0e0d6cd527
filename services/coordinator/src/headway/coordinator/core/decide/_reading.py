"""What nodes take of payloads that are stored: whole ones are pointed at, and many are asked for at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.decide._scope import Scope
from headway.coordinator.core.effort import TooMuchToDecide
from headway.coordinator.core.missing import Key, Missing
from headway.coordinator.core.paths import scope_of
from headway.coordinator.core.templates import asks_for_a_part, render, row_of, whole_reference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.plan import Template
    from headway.coordinator.core.rows import PayloadKey


def stored_at(scope: Scope, template: Template) -> PayloadKey | None:
    """Where the stored payload is that a template yields as it is.

    None: it is nothing that is stored, or is not there; then `render` complains, which knows the place.
    """
    path = whole_reference(template)
    try:
        if path is not None:
            return scope.document(path)
        if not asks_for_a_part(template):
            return None
        row = row_of(template, scope.lookup, scope.present, scope.effort)
        return None if row is None else scope.result(*row)
    except LookupError:
        return None


def look_ahead(walk: Walk, paths: Iterable[str]) -> int:
    """Ask at once for the results of maps that nodes are about to read; their bodies' nodes, in the order of items.

    Returns:
        how many of them may begin in this decision: what they read fits into memory together.

    Raises:
        Missing: some are not loaded.
    """
    missing: set[Key] = set()
    count = 0
    for path in paths:
        node, scope = walk.graph.node(path), Scope(walk, scope_of(path), target=path)
        try:
            for template in filter(None, (node.input, node.over)):
                if stored_at(scope, template) is None:
                    render(template, scope.lookup, scope.present, scope.effort)
        except Missing as error:
            missing |= error.keys
        except (ExpressionError, TooMuchToDecide):
            pass  # it fails when it begins
        if not walk.has_memory_for(scope.bytes_read) and count:
            break
        count += 1
    if missing:
        raise Missing(missing)
    return count
