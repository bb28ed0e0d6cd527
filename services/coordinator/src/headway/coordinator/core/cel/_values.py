"""Values on their way into the evaluator and out of it, within limits."""

import math
from datetime import UTC, datetime, timedelta

from cel_expr_python import cel

from headway.coordinator.core.cel import limits
from headway.coordinator.core.cel._messages import type_name
from headway.coordinator.core.plan import Json

_INT64 = 2**63
_NEVER_NULL = frozenset({"bool", "int", "uint", "double", "string"})


class Refused(Exception):
    """A value that may not go in or out; its text says why."""


class Room:
    """What may still be bound in one evaluation."""

    __slots__ = ("_given", "_list", "_text", "_values", "largest_item", "longest_list", "longest_text")

    def __init__(self, text: int, longest: int | None) -> None:
        self._text = self._given = text
        self._values = limits.MAX_BOUND_VALUES
        self._list = longest
        self.longest_list = 0
        self.longest_text = 0
        self.largest_item = 1  # of a list that may be gone through, in values

    @property
    def values(self) -> int:
        """How many were bound."""
        return limits.MAX_BOUND_VALUES - self._values

    @property
    def steps(self) -> int:
        """What admitting these values costs a decision."""
        text = self._given - self._text
        return self.values * limits.BOUND_STEPS + text // limits.TEXT_A_STEP

    def admit(self, value: Json, depth: int) -> Json:
        """Returns the value as the evaluator takes it; integers beyond 64 bits become doubles, as in JavaScript."""
        self._values -= 1
        if self._values < 0:
            message = (
                f"the values that it reads are too large: more than {limits.MAX_BOUND_VALUES} in all; read single "
                "items, such as [0] or [index], or go through them with a map node"
            )
            raise Refused(message)
        match value:  # the most frequent first
            case str():
                return self._admit_text(value)
            case dict():
                self._admit_many(len(value), depth)
                return {self._admit_text(key): self.admit(item, depth + 1) for key, item in value.items()}
            case None | bool() | float():
                return value
            case int():
                return value if -_INT64 <= value < _INT64 else float(value)
            case list():
                if self._list is not None and len(value) > self._list:
                    message = (
                        f"a list of {len(value)} items is too long to go through here; at most {self._list} are "
                        "allowed; a map node goes through more, and its `where` leaves items out"
                    )
                    raise Refused(message)
                self._admit_many(len(value), depth)
                if self._list is not None:
                    return [self._admit_item(item, depth + 1) for item in value]
                return [self.admit(item, depth + 1) for item in value]

    def _admit_item(self, item: Json, depth: int) -> Json:
        before = self._values
        admitted = self.admit(item, depth)
        self.largest_item = max(self.largest_item, before - self._values)
        return admitted

    def _admit_many(self, count: int, depth: int) -> None:
        if depth >= limits.MAX_DEPTH:
            message = f"the values that it reads are nested more than {limits.MAX_DEPTH} deep"
            raise Refused(message)
        if count > self.longest_list:  # noqa: PLR1730 - a call for every value that is read
            self.longest_list = count

    def _admit_text(self, value: str) -> str:
        size = len(value)
        if size > self.longest_text:  # noqa: PLR1730
            self.longest_text = size
        self._text -= size
        if self._text < 0:
            raise Refused("the texts that it reads are too long")
        if "\0" in value:  # the evaluator would silently cut the text there
            raise Refused("a text that it reads holds a NUL character")
        if not value.isascii():
            value.encode()
        return value


class Result:
    """The way out of the evaluator's wrappers to plain JSON values."""

    __slots__ = ("_may_be_null", "_text", "_values")

    def __init__(self, kind: str) -> None:
        """Take what is of a kind, as the type checker calls it."""
        self._may_be_null = kind not in _NEVER_NULL
        self._text = limits.MAX_RESULT_TEXT
        self._values = limits.MAX_RESULT_VALUES

    @property
    def steps(self) -> int:
        """What taking these values out costs a decision."""
        values, text = limits.MAX_RESULT_VALUES - self._values, limits.MAX_RESULT_TEXT - self._text
        return values * limits.RESULT_STEPS + text // limits.TEXT_A_STEP

    def plain(self, value: cel.Value, depth: int) -> Json:
        self._values -= 1
        if self._values < 0 or depth > limits.MAX_DEPTH:
            raise Refused("its result is too large")
        # A null that is looked at gives away a reference to None that is not its own. Before Python 3.12, None is freed
        # for it one day, and the process ends.
        if self._may_be_null and value.type() == cel.Type.NULL:
            return None
        found: object = value.value()
        match found:
            case bool() | int():
                return found
            case float():
                return _finite(found)
            case str():
                return self._text_or_error(value, found)
            case list():
                return [self.plain(item, depth + 1) for item in found]
            case dict():
                # The evaluator keeps no order of keys; sorted, the same values always give the same text.
                return {self._key(key): self.plain(found[key], depth + 1) for key in sorted(found, key=str)}
            case datetime():
                return _spell_instant(found)
            case timedelta():
                return _spell_duration(found)
            case _:
                word = type_name(value.type().name().lower())
                message = f"its result, {word}, has no JSON form; string(…) may give it one"
                raise Refused(message)

    def _text_or_error(self, value: cel.Value, found: str) -> str:
        if value.type() != cel.Type.STRING:
            raise Refused(found)
        self._text -= len(found)
        if self._text < 0:
            raise Refused("its result is too large")
        return found

    def _key(self, key: object) -> str:
        if isinstance(key, str):
            self._text -= len(key)
            return key
        message = f"a map key of its result is {key!r}; JSON knows only text"
        raise Refused(message)


def _finite(value: float) -> float:
    if math.isfinite(value):
        return value
    message = f"its result, {value}, is not a JSON number"
    raise Refused(message)


def _spell_instant(value: datetime) -> str:
    """RFC 3339 in UTC, with a fraction only where there is one."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _spell_duration(value: timedelta) -> str:
    """Seconds, as protobuf's JSON form has them: 90s, 1.5s."""
    whole, fraction = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    sign = "-" if value < timedelta(0) else ""
    return f"{sign}{whole}.{fraction:06}".rstrip("0").rstrip(".") + "s"
