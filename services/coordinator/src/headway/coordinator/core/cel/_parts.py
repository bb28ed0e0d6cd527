"""Values of which an expression asks only for items, or how many there are: they are read while it is evaluated.

The evaluator calls back with the number under which the value was given to it. What goes wrong in a call reaches CEL as
an error of its own, which `||` and `&&` may pass over; what is to end the evaluation in any case is kept beside it.
"""

import json
from collections.abc import Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Protocol, Self

from headway.coordinator.core.cel._values import Refused, Room
from headway.coordinator.core.effort import TooMuchToDecide
from headway.coordinator.core.missing import Key, Missing
from headway.coordinator.core.plan import Json, VariablePath


class Part(Protocol):
    """A value that is not read as a whole. Both raise LookupError when there is nothing to answer with, saying why."""

    def item(self, key: Json) -> Json:
        """The item at a place of a list, or the entry of a map."""
        ...

    def size(self) -> int:
        """How many items, entries or characters it has."""
        ...


class Plain:
    """A value that is at hand."""

    __slots__ = ("_value",)

    def __init__(self, value: Json) -> None:
        self._value = value

    def item(self, key: Json) -> Json:
        match self._value:
            case list() as items:
                return items[place_in(len(items), key)]
            case dict() as entries if isinstance(key, str) and key in entries:
                return entries[key]
            case dict():
                message = f"there is no key {json.dumps(key, ensure_ascii=False)}"
            case _:
                message = f"no value can be looked up by [ ] in {kind_of(self._value)}"
        raise LookupError(message)

    def size(self) -> int:
        if isinstance(self._value, str | list | dict):
            return len(self._value)
        message = f"size cannot be used on {kind_of(self._value)}"
        raise LookupError(message)


def place_in(size: int, key: Json) -> int:
    """Returns the place in a list of that size; 2.0 is 2. Raises LookupError: there is none."""
    if isinstance(key, bool) or not isinstance(key, int | float) or key != key // 1:
        message = f"an item of a list is looked up by an integer, not by {kind_of(key)}"
        raise LookupError(message)
    if not 0 <= key < size:
        message = f"there is no item [{int(key)}]: the list has {size}"
        raise LookupError(message)
    return int(key)


def kind_of(value: Json) -> str:
    """Returns `a list`."""
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


class Parts:
    """The parts of one evaluation, by the numbers that stand for them."""

    __slots__ = ("_charge", "_ended_by", "_fields", "_missing", "_room", "_seen", "numbers")

    def __init__(
        self,
        parts: Mapping[VariablePath, Part],
        fields: Mapping[VariablePath, frozenset[str]],
        room: Room,
        charge: Callable[[], None],
    ) -> None:
        """Take what an expression may ask for.

        Args:
            parts: by path.
            fields: by path, all fields of items that it asks for; if absent, it asks for whole items.
            room: what may be bound; items that are asked for count.
            charge: called when the room has less; raises TooMuchToDecide.
        """
        self._room = room
        self._charge = charge
        self._missing: frozenset[Key] = frozenset()
        self._ended_by: TooMuchToDecide | None = None
        self._seen: dict[tuple[int, type, Json], Json] = {}
        self.numbers = {path: next(_numbers) for path in parts}
        self._fields = {number: fields[path] for path, number in self.numbers.items() if path in fields}
        _open.update((number, (parts[path], self)) for path, number in self.numbers.items())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the values. Raises what is to end the evaluation in any case."""
        for number in self.numbers.values():
            del _open[number]
        if self._missing:
            raise Missing(self._missing) from None
        if self._ended_by is not None:
            raise self._ended_by from None

    def item(self, number: int, part: Part, key: Json) -> Json:
        """Returns an item as the evaluator takes it, and the same again without looking."""
        if isinstance(key, list | dict):
            message = "no value can be looked up by [ ] with a list or a map"
            raise Refused(message)
        place = (number, type(key), key)  # for 1 is true in Python
        if place not in self._seen:
            found, fields = part.item(key), self._fields.get(number)
            if fields is not None and isinstance(found, dict):
                found = {name: found[name] for name in fields if name in found}
            self._seen[place] = self._room.admit(found, 0)
            self._charge()
        return self._seen[place]

    def ask(self, question: Callable[[], Json]) -> Json:
        """Returns the answer; null in its stead, when rows have to be loaded first: more may turn out to be missing."""
        try:
            return question()
        except Missing as error:
            self._missing |= error.keys
        except TooMuchToDecide as error:
            self._ended_by = error
        return None


_open: dict[int, tuple[Part, Parts]] = {}
_numbers = count()


def item_of(number: int, key: Json) -> Json:
    """Returns an item of an open part: what `@item` is."""
    part, parts = _open[number]
    return parts.ask(lambda: parts.item(number, part, key))


def size_of(number: int) -> int:
    """Returns the size of an open part: what `@size` is."""
    part, parts = _open[number]
    found = parts.ask(part.size)
    return found if isinstance(found, int) else 0
