"""Fields that a schema speaks of and does not require, and that expressions read as if they were always there."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from headway.coordinator.core.compiler import shapes
from headway.coordinator.core.compiler.faults import Code, Faults
from headway.coordinator.core.compiler.template_parser import Site
from headway.coordinator.core.lookups import spell
from headway.coordinator.core.plan import Json, Place, VariablePath

_MAX_FIELDS = 50  # that are told: warnings must not stand in the way of deploying by their number
_MAX_LINES = 5  # that are told
_Field: TypeAlias = tuple[int, VariablePath]


@dataclass(slots=True)
class Optionals:
    """Collects them over a whole source: one field is one warning, however often it is read."""

    input_schema: Json
    _found: dict[_Field, list[Place]] = field(default_factory=dict["_Field", "list[Place]"])

    def note(self, scope: int, path: VariablePath, place: Place) -> None:
        """Notes that a field is read. `scope`: tells fields apart that are spelt alike."""
        self._found.setdefault((scope, path), []).append(place)

    def note_unasked(self, sites: Iterable[Site]) -> None:
        """Notes the fields of the input that expressions read before any run, without asking for them."""
        form = shapes.of_schema(self.input_schema)
        for site in sites:
            for mention in site.mentions:
                missing = first_optional(form, mention.path, 1) if mention.path[0] == "input" else ()
                if missing and not mention.tested and missing not in prefixes(site.asked):
                    self.note(0, missing, mention.place)

    def say(self, faults: Faults) -> None:
        """Warns of each where it is read first; of very many, of the first ones."""
        for (_, path), found in list(self._found.items())[:_MAX_FIELDS]:
            places = [place for place in found if not faults.has_error_within(place, len(spell(path)))]
            if not places:
                continue
            first, *others = sorted(places, key=lambda place: (place.line, place.column))
            lines = dict.fromkeys(str(place.line) for place in others)
            lines.pop(str(first.line), None)
            also = f" (line {', '.join(list(lines)[:_MAX_LINES])} reads it, too)" if lines else ""
            message = (
                f"{spell(path)} may be missing, and what reads it fails then: its schema does not require it{also}"
            )
            asked = f"has({spell(path)})" if path[-1].isidentifier() else f'"{path[-1]}" in {spell(path[:-1])}'
            remedy = f"write {asked} ? {spell(path)} : null, or list {path[-1]} under required"
            faults.add(first, Code.MAY_BE_MISSING, message, remedy, warning=True)


def first_optional(form: shapes.Form, path: VariablePath, begin: int) -> VariablePath:
    """Returns the path up to the first field that need not be there; empty: as far as is known, all must.

    Args:
        form: of the value at which the path is after its first steps.
        path: as it is read.
        begin: how many steps those are.
    """
    for at in range(begin, len(path)):
        if shapes.is_optional(form, path[at]):
            return path[: at + 1]
        form = shapes.member(form, path[at]).form
        if not form:
            break
    return ()


def prefixes(paths: Iterable[VariablePath]) -> frozenset[VariablePath]:
    """Returns the paths and all that they lead through: what is there if they are."""
    return frozenset(path[:length] for path in paths for length in range(2, len(path) + 1))
