"""Expressions on the values of a run: what they name is bound, what they ask for only in part is read in part."""

from typing import cast

import orjson

from headway.coordinator.core.cel import ExpressionError, Part, Plain, compile_expression, kind_of, place_in
from headway.coordinator.core.effort import Effort
from headway.coordinator.core.lookups import (
    Lookup,
    Presence,
    Rows,
    TooMuch,
    UnknownValue,
    decoded,
    descend,
    spell,
    spell_steps,
    whole,
)
from headway.coordinator.core.plan import Expression, Json, VariablePath

_RAW = (orjson.Fragment, Rows)
_TYPES_TOLD = 10  # values of one expression whose types are told when it fails


def evaluate(
    expression: Expression, lookup: Lookup, present: Presence | None = None, effort: Effort | None = None
) -> Json | orjson.Fragment:
    """Returns what an expression yields; what is nothing but an item of a path is passed on untouched.

    Args:
        expression: from the plan.
        lookup: gives the value at a path, or raises UnknownValue.
        present: whether there is a value at a path, asked for `has(…)`; if absent, lookup is asked.
        effort: of the decision, which is charged; if absent, nothing is.

    Raises:
        ExpressionError: a value is missing, does not fit, or is larger than what may be put together; it names the
            expression and its place.
        TooMuchToDecide: the effort does not suffice.
    """
    if expression.parts:
        return Evaluation(expression, lookup, present, effort).value()
    bindings, missing = _bind(expression, lookup, present, effort)
    try:
        return compile_expression(expression.source).evaluate(bindings, effort)
    except ExpressionError as error:
        message = _blame_missing(error.message, missing)
        raise _error(expression, message, _types_of(expression, bindings, missing)) from None


def misfit(expression: Expression, lookup: Lookup, present: Presence | None, message: str) -> ExpressionError:
    """Returns what to raise when what an expression yields does not fit."""
    evaluation = Evaluation(expression, lookup, present)
    evaluation.value()
    return evaluation.error(message)


class Evaluation:
    """One expression, with what it names: each at its place in otherwise empty maps. All as `evaluate`."""

    __slots__ = ("_bindings", "_compiled", "_effort", "_expression", "_missing", "_parts", "_seen")

    def __init__(
        self, expression: Expression, lookup: Lookup, present: Presence | None, effort: Effort | None = None
    ) -> None:
        self._expression = expression
        self._effort = effort
        self._compiled = compile_expression(expression.source)
        self._bindings, self._missing = _bind(expression, lookup, present, effort)
        self._seen: dict[str, str] = {}
        self._parts: dict[VariablePath, Part] = {path: self._part(path, lookup) for path in expression.parts}

    def value(self) -> Json | orjson.Fragment:
        """Returns what it yields; what is nothing but an item of a path is passed on untouched.

        Raises:
            ExpressionError: a value is missing or does not fit; it names the expression and its place.
            TooMuchToDecide: the effort does not suffice.
        """
        chosen, spelt, effort = self._compiled.chosen, "", self._effort
        try:
            if chosen is None:
                return self._compiled.evaluate(self._bindings, effort, self._parts)
            part, key = self._parts[chosen.path], self._compiled.key(self._bindings, effort, self._parts)
            spelt = f"{spell(chosen.path)}[{orjson.dumps(key).decode()}]{spell_steps(chosen.rest)}"
            if isinstance(part, _Stored):
                found = part.rows.item(place_in(part.size(), key), chosen.rest)
            else:
                found = descend(part.item(key), chosen.rest, 0)
        except ExpressionError as error:
            raise self.error(_blame_missing(error.message, self._missing)) from None
        except UnknownValue:
            raise self.error(f"{spelt} has no value") from None
        except LookupError as error:
            raise self.error(str(error)) from None
        if not isinstance(found, orjson.Fragment):
            self._seen[spelt] = kind_of(found)
        return found

    def row(self) -> tuple[VariablePath, int] | None:
        """Returns of which rows, and at which place, it is one and nothing else; None: it is no such thing.

        Raises:
            ExpressionError, TooMuchToDecide: as `value`.
        """
        chosen = self._compiled.chosen
        part = None if chosen is None or chosen.rest else self._parts[chosen.path]
        if chosen is None or not isinstance(part, _Stored):
            return None
        key = self._compiled.key(self._bindings, self._effort, self._parts)
        try:
            return chosen.path, place_in(part.size(), key)
        except LookupError as error:
            raise self.error(str(error)) from None

    def error(self, message: str) -> ExpressionError:
        """Returns what went wrong, with the types of what was read; values never: they may be large, or secret."""
        types = {**_types_of(self._expression, self._bindings, self._missing), **self._seen}
        return _error(self._expression, message, types)

    def _part(self, path: VariablePath, lookup: Lookup) -> Part:
        try:
            value = lookup(path)
        except UnknownValue as error:
            self._seen[spell(path)] = "not there"
            return _Absent(str(error))
        if isinstance(value, Rows):
            return _Stored(path, value, self._seen)
        plain = _plain(value, self._effort)
        self._seen[spell(path)] = kind_of(plain)
        return Plain(plain)


class _Absent:
    """What an expression asks for, where there is nothing."""

    __slots__ = ("_message",)

    def __init__(self, message: str) -> None:
        self._message = message

    def item(self, key: Json) -> Json:
        del key
        raise LookupError(self._message)

    def size(self) -> int:
        raise LookupError(self._message)


class _Stored:
    """Rows, of which an expression asks for some."""

    __slots__ = ("_seen", "_spelt", "rows")

    def __init__(self, path: VariablePath, rows: Rows, seen: dict[str, str]) -> None:
        self.rows = rows
        self._spelt = spell(path)
        self._seen = seen
        seen[self._spelt] = kind_of([])

    def item(self, key: Json) -> Json:
        place = place_in(self.rows.size, key)
        found = self.rows.value(place)
        self._seen[f"{self._spelt}[{place}]"] = kind_of(found)
        return found

    def size(self) -> int:
        return self.rows.size


def _plain(value: Json | orjson.Fragment, effort: Effort | None) -> Json:
    """Returns the value of what a lookup gave; decoding it is charged. Raises TooMuchToDecide."""
    if effort is None or not isinstance(value, orjson.Fragment):
        return decoded(value)
    raw = orjson.dumps(value)
    effort.spend_decoding(raw)
    return cast("Json", orjson.loads(raw))


def _bind(
    expression: Expression, lookup: Lookup, present: Presence | None, effort: Effort | None
) -> tuple[dict[str, Json], list[VariablePath]]:
    """Returns the values that are read, and the paths that have none. Raises ExpressionError."""
    bindings: dict[str, Json] = {}
    missing: list[VariablePath] = []
    for path in expression.reads:
        try:
            value = lookup(path)
            if isinstance(value, _RAW):
                value = _plain(whole(value), effort)
        except TooMuch as error:
            raise ExpressionError(expression.source, str(error), expression.place) from None
        except UnknownValue:
            bindings.setdefault(path[0], {})
            missing.append(path)
        else:
            _make_maps(bindings, path[:-1])[path[-1]] = value
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
    for path in expression.reads:
        types[spell(path)] = "not there" if path in missing else kind_of(descend(dict(bindings), path, 0))
    return types


def _error(expression: Expression, message: str, types: dict[str, str]) -> ExpressionError:
    told = dict(list(types.items())[:_TYPES_TOLD])
    return ExpressionError(expression.source, message, expression.place, told)


def _blame_missing(message: str, missing: list[VariablePath]) -> str:
    for path in missing:
        if any(message == f'there is no key "{step}"' for step in path[1:]):
            return str(UnknownValue(path))
    return message
