"""What a JSON Schema says of the values at a path: only what is sure, whatever else stands in it.

A value that fits a schema fits every keyword of it, so each keyword may be read by itself; those that are not read say
nothing. Alternatives (`anyOf`, `oneOf`) are read for the kinds of values only.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headway.coordinator.core.cel import BOOLEAN, LIST, MAP, NULL, NUMBER, TEXT, Kinds, Known
from headway.coordinator.core.plan import Json

Schemas: TypeAlias = tuple[Json, ...]
"""Schemas that all hold of a value; none: nothing is known of it."""

_KINDS: Mapping[str, str] = {
    "object": MAP, "array": LIST, "string": TEXT, "number": NUMBER, "integer": NUMBER, "boolean": BOOLEAN, "null": NULL,
}  # fmt: skip
_MAX_SCHEMAS = 64  # that hold of one value; those beyond say nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What is known of a field.

    Attributes:
        schemas: that hold of it.
        is_excluded: the schema leaves no room for a field of this name.
        others: the names that it speaks of.
    """

    schemas: Schemas
    is_excluded: bool
    others: Collection[str]


def known(root: Json, schemas: Schemas) -> Known:
    """Returns the kinds, and the words, of values that fit.

    Args:
        root: the schema within which references lead.
        schemas: that hold.
    """
    kinds: Kinds = None
    words: frozenset[str] | None = None
    for schema in _expanded(root, schemas):
        kinds = _both(kinds, _kinds_of(root, schema))
        values = _values_of(schema)
        if values is not None:
            texts = frozenset(value for value in values if isinstance(value, str))
            words = texts if words is None else words & texts
    return Known(kinds=kinds, words=words)


def member(root: Json, schemas: Schemas, name: str) -> Member:
    """Returns what is known of a field of values that fit."""
    found: list[Json] = []
    is_excluded = False
    others: dict[str, None] = {}
    for schema in _expanded(root, schemas):
        properties, rest = schema.get("properties"), schema.get("additionalProperties")
        named = properties if isinstance(properties, dict) else {}
        others |= dict.fromkeys(named)
        if name in named:
            found.append(named[name])
        elif not schema.get("patternProperties"):
            is_excluded = is_excluded or rest is False
            found += [rest] if isinstance(rest, dict) else []
    return Member(schemas=tuple(found), is_excluded=is_excluded, others=tuple(others))


def _expanded(root: Json, schemas: Schemas) -> Iterator[dict[str, Json]]:
    """Yields the schemas, what they refer to, and all of which they say that it holds, too."""
    pending = list(schemas)
    seen: set[int] = set()
    for schema in pending:
        if not isinstance(schema, dict) or id(schema) in seen or len(seen) >= _MAX_SCHEMAS:
            continue
        seen.add(id(schema))
        yield schema
        if isinstance(reference := schema.get("$ref"), str):
            pending.append(_referred(root, reference))
        if isinstance(every := schema.get("allOf"), list):
            pending += every


def _referred(root: Json, reference: str) -> Json:
    """Returns what a pointer within the schema leads to; None: it is an anchor, which is not followed."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    found = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found


def _kinds_of(root: Json, schema: dict[str, Json]) -> Kinds:
    kinds: Kinds = None
    match schema.get("type"):
        case str() as word if word in _KINDS:
            kinds = frozenset({_KINDS[word]})
        case list() as words:
            kinds = frozenset(_KINDS[word] for word in words if isinstance(word, str) and word in _KINDS)
        case _:
            pass
    if (values := _values_of(schema)) is not None:
        kinds = _both(kinds, frozenset(_kind_of(value) for value in values))
    for keyword in ("anyOf", "oneOf"):
        if isinstance(alternatives := schema.get(keyword), list):
            each = [_alternative(root, alternative) for alternative in alternatives]
            if None not in each:
                kinds = _both(kinds, frozenset[str]().union(*(one for one in each if one is not None)))
    return kinds


def _alternative(root: Json, schema: Json) -> Kinds:
    """The kinds of one alternative, by its own words and one reference."""
    if not isinstance(schema, dict):
        return None
    if isinstance(reference := schema.get("$ref"), str):
        schema = _referred(root, reference)
    return _kinds_of({}, {"type": schema.get("type")}) if isinstance(schema, dict) else None


def _values_of(schema: dict[str, Json]) -> list[Json] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _kind_of(value: Json) -> str:
    match value:
        case None:
            return NULL
        case bool():
            return BOOLEAN
        case int() | float():
            return NUMBER
        case str():
            return TEXT
        case list():
            return LIST
        case dict():
            return MAP


def _both(one: Kinds, other: Kinds) -> Kinds:
    return other if one is None else one if other is None else one & other


def kinds_of_literal(value: Json) -> Kinds:
    """Returns the kind of a value."""
    return frozenset({_kind_of(value)})
