"""The run-time side of templates: what a plan's templates and conditions yield on the values of a run.

The values come from a lookup that the caller gives: only paths that are named are asked for, a bare `${a.b}` passes its
value through untouched, and what came from outside is never looked at for templates again. A lookup may answer with an
`orjson.Fragment`, raw JSON: it passes undecoded wherever it is passed whole.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

import orjson

from headway.coordinator.core.cel import ExpressionError, compile_expression
from headway.coordinator.core.effort import Effort
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

_TYPES_TOLD = 10  # values of one expression whose types are told when it fails
Lookup: TypeAlias = Callable[[VariablePath], Json | orjson.Fragment]
Presence: TypeAlias = Callable[[VariablePath], bool]


class UnknownValue(LookupError):
    """There is no value at this path."""

    reason = "UNKNOWN_VALUE"

    def __init__(self, path: VariablePath) -> None:
        super().__init__(f"{spell(path)} has no value")
        self.path = path


class TooMuch(LookupError):
    """The value at this path is larger than what may be put together."""

    reason = "PAYLOAD_TOO_LARGE"

    def __init__(self, spelt: str, size: int) -> None:
        super().__init__(
            f"{spelt} has {size} bytes of JSON, more than fit together; go over it with another map, item by item, "
            "or let each item give less"
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
            return evaluate(expression, lookup, present, effort)
        case Text(parts=parts):
            return "".join(_spell_part(part, lookup, present, effort) for part in parts)
        case Object(entries=entries):
            return {key: render(entry, lookup, present, effort) for key, entry in entries.items()}
        case Array(items=items):
            return [render(item, lookup, present, effort) for item in items]


def render_json(
    template: Template, lookup: Lookup, present: Presence | None = None, effort: Effort | None = None
) -> bytes:
    """Returns the template's value as JSON, into which values that the lookup gave raw are spliced.

    Raises:
        ExpressionError: as `render`.
    """
    return orjson.dumps(render(template, lookup, present, effort))


def evaluate(
    expression: Expression, lookup: Lookup, present: Presence | None = None, effort: Effort | None = None
) -> Json:
    """Returns the expression's value.

    Raises:
        ExpressionError: a value is missing or does not fit; it names the expression and its place.
        TooMuchToDecide: the effort does not suffice.
    """
    bindings, missing = _bind(expression, lookup, present)
    try:
        return compile_expression(expression.source).evaluate(bindings, effort)
    except ExpressionError as error:
        message = _blame_missing(error.message, missing)
        types = _types_of(expression, bindings, missing)
        raise ExpressionError(expression.source, message, expression.place, types) from None


def evaluate_condition(
    expression: Expression, lookup: Lookup, present: Presence | None = None, effort: Effort | None = None
) -> bool:
    """Returns whether the condition holds.

    Raises:
        ExpressionError: a value is missing or does not fit, or the result is no boolean.
        TooMuchToDecide: the effort does not suffice.
    """
    value = evaluate(expression, lookup, present, effort)
    if isinstance(value, bool):
        return value
    message = f"a condition must be true or false, this is {_spell_type(value)}"
    bindings, missing = _bind(expression, lookup, present)
    raise ExpressionError(expression.source, message, expression.place, _types_of(expression, bindings, missing))


def reads(template: Template) -> frozenset[VariablePath]:
    """Returns the paths whose values, or whose presence, rendering the template may ask for."""
    paths: set[VariablePath] = set()
    for part in _parts_of(template):
        paths.update((part.path,) if isinstance(part, Reference) else (*part.expression.reads, *part.expression.tests))
    return frozenset(paths)


def whole_reference(template: Template | None) -> VariablePath | None:
    """Returns the path, if the template is one bare reference: its value can be passed on without being looked at."""
    return template.path if isinstance(template, Reference) else None


def descend(value: Json, path: VariablePath, depth: int) -> Json:
    """Returns what lies in a value at the steps of the path from `depth` on; uncopied.

    Args:
        value: what lies at path[:depth].
        path: the whole path, for the error.
        depth: how many steps are done.

    Raises:
        UnknownValue: a step leads nowhere.
    """
    for step in path[depth:]:
        if not isinstance(value, dict) or step not in value:
            raise UnknownValue(path)
        value = value[step]
    return value


def spell(path: VariablePath) -> str:
    """Returns the path as an expression spells it: `input.order["order-id"]`."""
    first, *rest = path
    return first + "".join(f".{step}" if step.isidentifier() else f"[{_json_text(step)}]" for step in rest)


def _resolve(reference: Reference, lookup: Lookup) -> Json:
    try:
        return cast("Json", lookup(reference.path))  # a fragment stands for JSON
    except (UnknownValue, TooMuch) as error:
        raise ExpressionError(spell(reference.path), str(error), reference.place) from None


def _spell_part(
    part: str | Reference | Computed, lookup: Lookup, present: Presence | None, effort: Effort | None
) -> str:
    """Text stays as it is; all else is spelt as JSON spells it: true, 1.5, null, {"a":1}."""
    if isinstance(part, str):
        return part
    value = _decoded(render(part, lookup, present, effort))
    return value if isinstance(value, str) else _json_text(value)


def _bind(
    expression: Expression, lookup: Lookup, present: Presence | None
) -> tuple[dict[str, Json], list[VariablePath]]:
    """Returns the named values, each at its place in otherwise empty maps, and the paths that have none."""
    bindings: dict[str, Json] = {}
    missing: list[VariablePath] = []
    for path in expression.reads:
        try:
            value = lookup(path)
        except TooMuch as error:
            raise ExpressionError(expression.source, str(error), expression.place) from None
        except UnknownValue:
            bindings.setdefault(path[0], {})
            missing.append(path)
        else:
            _place(bindings, path, _decoded(value))
    for path in expression.tests:
        if _is_present(path, lookup, present):
            _make_maps(bindings, path)
    return bindings, missing


def _is_present(path: VariablePath, lookup: Lookup, present: Presence | None) -> bool:
    if present is not None:
        return present(path)
    try:
        lookup(path)
    except UnknownValue:
        return False
    return True


def _place(bindings: dict[str, Json], path: VariablePath, value: Json) -> None:
    _make_maps(bindings, path[:-1])[path[-1]] = value


def _make_maps(bindings: dict[str, Json], path: VariablePath) -> dict[str, Json]:
    """Makes a map at each step of the path that has none yet."""
    inner = bindings
    for step in path:
        found = inner.setdefault(step, {})
        if not isinstance(found, dict):
            break
        inner = found
    return inner


def _types_of(expression: Expression, bindings: dict[str, Json], missing: list[VariablePath]) -> dict[str, str]:
    """What the expression read, each with the type that was met; values never: they may be large, or secret."""
    types: dict[str, str] = {}
    for path in expression.reads[:_TYPES_TOLD]:
        types[spell(path)] = "not there" if path in missing else _spell_type(descend(dict(bindings), path, 0))
    return types


def _blame_missing(message: str, missing: list[VariablePath]) -> str:
    for path in missing:
        if any(message == f'there is no key "{step}"' for step in path[1:]):
            return str(UnknownValue(path))
    return message


def _decoded(value: Json | orjson.Fragment) -> Json:
    if isinstance(value, orjson.Fragment):
        return cast("Json", orjson.loads(orjson.dumps(value)))
    return value


def _json_text(value: Json | orjson.Fragment) -> str:
    return orjson.dumps(value).decode()


def _spell_type(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a map"
        case _:
            return "a number"


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
