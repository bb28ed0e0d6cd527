"""How templates and conditions get at the values of a run: by paths, through functions that the caller gives.

Only paths that are named are asked for. A lookup may answer with an `orjson.Fragment`, raw JSON, which passes undecoded
wherever it is passed whole; or with `Rows`, of which only those are read that an expression asks for.
"""

from collections.abc import Callable
from typing import TypeAlias, cast

import orjson

from headway.coordinator.core.plan import Json, VariablePath


class Rows:
    """A list whose items are stored one by one: the results of a map. No ABC: whether a value is one is often asked."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """How many there are."""
        raise NotImplementedError

    def whole(self) -> orjson.Fragment:
        """All of them. Raises TooMuch."""
        raise NotImplementedError

    def item(self, index: int, rest: VariablePath) -> Json | orjson.Fragment:
        """One that there is, or what lies in it. Raises UnknownValue, and TooMuch."""
        raise NotImplementedError

    def value(self, index: int) -> Json:
        """One that there is, decoded once, however often it is asked for; do not change it. Raises TooMuch."""
        raise NotImplementedError


Lookup: TypeAlias = Callable[[VariablePath], Json | orjson.Fragment | Rows]
Presence: TypeAlias = Callable[[VariablePath], bool]


class UnknownValue(LookupError):
    """There is no value at this path."""

    reason = "UNKNOWN_VALUE"

    def __init__(self, path: VariablePath) -> None:
        super().__init__(f"{spell(path)} has no value")
        self.path = path


class TooMuch(LookupError):
    """What would have to be put together is larger than may be."""

    reason = "PAYLOAD_TOO_LARGE"

    def __init__(self, what: str, size: int) -> None:
        super().__init__(
            f"{what} has {size} bytes of JSON, more than fit together; go over it with another map, item by item, "
            "read single items, such as [0] or [index], or let each item give less"
        )


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
    return path[0] + spell_steps(path[1:])


def spell_steps(steps: VariablePath) -> str:
    """Returns the steps behind the first: `.order["order-id"]`."""
    return "".join(f".{step}" if step.isidentifier() else f"[{orjson.dumps(step).decode()}]" for step in steps)


def whole(value: Json | orjson.Fragment | Rows) -> Json | orjson.Fragment:
    """Returns what a lookup gave, rows put together. Raises TooMuch."""
    return value.whole() if isinstance(value, Rows) else value


def decoded(value: Json | orjson.Fragment) -> Json:
    """Returns the value of what a lookup gave."""
    return cast("Json", orjson.loads(orjson.dumps(value))) if isinstance(value, orjson.Fragment) else value
