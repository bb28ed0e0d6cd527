"""The run-time side of templates: what a plan's templates and conditions yield on the values of a run.

What came from outside is never looked at for templates again, and a bare `${a.b}` passes its value through untouched.
"""

from collections.abc import Iterator
from typing import TypeGuard, cast

import orjson

from headway.coordinator.core import evaluation
from headway.coordinator.core.cel import ExpressionError, kind_of
from headway.coordinator.core.effort import Effort
from headway.coordinator.core.lookups import Lookup, Presence, Rows, TooMuch, UnknownValue, decoded, spell
from headway.coordinator.core.plan import (
    Array,
    Computed,
    Expression,
    Json,
    Literal,
    Object,
    Reference,
    Template,
    Text,
    VariablePath,
)


def render(template: Template, lookup: Lookup, present: Presence | None = None, effort: Effort | None = None) -> Json:
    """Returns the template's value; where the lookup gave fragments, they are in it, and only orjson can write it.

    Args:
        template: from the plan.
        lookup: gives the value at a path, or raises UnknownValue.
        present: whether there is a value at a path, asked for `has(…)`; if absent, lookup is asked.
        effort: of the decision, which is charged; if absent, nothing is.

    Raises:
        ExpressionError: a value is missing or does not fit.
        TooMuchToDecide: the effort does not suffice.
    """
    match template:
        case Literal(value=value):
            return value
        case Reference():
            return _resolve(template, lookup)
        case Computed(expression=expression):
            return cast("Json", evaluation.evaluate(expression, lookup, present, effort))  # a fragment stands for JSON
        case Text(parts=parts):
            return "".join(_spell_part(part, lookup, present, effort) for part in parts)
        case Object(entries=entries):
            return {key: render(entry, lookup, present, effort) for key, entry in entries.items()}
        case Array(items=items):
            return [render(item, lookup, present, effort) for item in items]


def evaluate(
    expression: Expression, lookup: Lookup, present: Presence | None = None, effort: Effort | None = None
) -> Json:
    """Returns the expression's value.

    Raises:
        ExpressionError: a value is missing or does not fit; it names the expression and its place.
        TooMuchToDecide: the effort does not suffice.
    """
    return decoded(evaluation.evaluate(expression, lookup, present, effort))


def evaluate_condition(
    expression: Expression, lookup: Lookup, present: Presence | None = None, effort: Effort | None = None
) -> bool:
    """Returns whether the condition holds.

    Raises:
        ExpressionError: a value is missing or does not fit, or the result is no boolean.
        TooMuchToDecide: the effort does not suffice.
    """
    value = evaluation.evaluate(expression, lookup, present, effort)
    if isinstance(value, bool):
        return value
    if isinstance(yielded := decoded(value), bool):
        return yielded
    message = f"a condition must be true or false, this is {kind_of(yielded)}"
    raise evaluation.misfit(expression, lookup, present, message)


def reads(template: Template) -> frozenset[VariablePath]:
    """Returns the paths whose values, or whose presence, rendering the template may ask for."""
    paths: set[VariablePath] = set()
    for part in _parts_of(template):
        paths.update((part.path,) if isinstance(part, Reference) else part.expression.names)
    return frozenset(paths)


def whole_reference(template: Template | None) -> VariablePath | None:
    """Returns the path, if the template is one bare reference: its value can be passed on without being looked at."""
    return template.path if isinstance(template, Reference) else None


def asks_for_parts(template: Template) -> bool:
    """Returns whether rendering the template may ask for items of values that are not read as a whole."""
    return any(isinstance(part, Computed) and part.expression.parts for part in _parts_of(template))


def asks_for_a_part(template: Template) -> TypeGuard[Computed]:
    """Returns whether a template is one expression and nothing else, and asks for items of values."""
    return isinstance(template, Computed) and bool(template.expression.parts)


def row_of(
    template: Computed, lookup: Lookup, present: Presence | None = None, effort: Effort | None = None
) -> tuple[VariablePath, int] | None:
    """Returns of which rows, and at which place, a template is one and nothing else; None: it is no such thing.

    Raises:
        ExpressionError, TooMuchToDecide: as `render`.
    """
    return evaluation.Evaluation(template.expression, lookup, present, effort).row()


def _resolve(reference: Reference, lookup: Lookup) -> Json:
    try:
        found = lookup(reference.path)
        return cast("Json", found.whole() if isinstance(found, Rows) else found)  # a fragment stands for JSON
    except (UnknownValue, TooMuch) as error:
        raise ExpressionError(spell(reference.path), str(error), reference.place) from None


def _spell_part(
    part: str | Reference | Computed, lookup: Lookup, present: Presence | None, effort: Effort | None
) -> str:
    """Text stays as it is; all else is spelt as JSON spells it: true, 1.5, null, {"a":1}."""
    if isinstance(part, str):
        return part
    value = decoded(render(part, lookup, present, effort))
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Json | orjson.Fragment) -> str:
    return orjson.dumps(value).decode()


def _parts_of(template: Template) -> Iterator[Reference | Computed]:
    match template:
        case Literal():
            return
        case Reference() | Computed():
            yield template
        case Text(parts=parts):
            yield from (part for part in parts if not isinstance(part, str))
        case Object(entries=entries):
            for entry in entries.values():
                yield from _parts_of(entry)
        case Array(items=items):
            for item in items:
                yield from _parts_of(item)
