"""What is sure of values before any run: by the JSON Schemas that they fit, and by what they are made of.

A value that fits a schema fits every keyword of it, so each keyword may be read by itself; those that are not read say
nothing. Alternatives (`anyOf`, `oneOf`) are read for the kinds of values only.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headway.coordinator.core.cel import BOOLEAN, LIST, MAP, NULL, NUMBER, TEXT, Kinds, Known, words_for
from headway.coordinator.core.plan import Json

_KINDS: Mapping[str, str] = {
    "object": MAP, "array": LIST, "string": TEXT, "number": NUMBER, "integer": NUMBER, "boolean": BOOLEAN, "null": NULL,
}  # fmt: skip
_MAY_REQUIRE = frozenset(
    {"anyOf", "oneOf", "if", "not", "const", "enum", "dependentRequired", "dependentSchemas", "minProperties"}
)
_MAX_SCHEMAS = 64  # that hold of one value; those beyond say nothing
_MAX_WAYS = 32  # that a value may be, and that are told apart
_MAX_DEPTH = 16  # of what is held against a schema


@dataclass(frozen=True, slots=True)
class Fitting:
    """It fits schemas. `root`: the one within which references lead."""

    root: Json
    schemas: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Spelt:
    """It is this value."""

    value: Json


@dataclass(frozen=True, slots=True)
class Made:
    """It is a map of these entries and no others. `sure`: each of them is there."""

    entries: "Mapping[str, Form]"
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Listed:
    """It is a list of such items."""

    items: "Form"


Form: TypeAlias = tuple[Fitting | Spelt | Made | Listed, ...]
"""What a value may be: one of these; none: nothing is known of it."""

ANY: Form = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What is known of a field.

    Attributes:
        form: of it, where it is there.
        is_excluded: there is no room for a field of this name.
        others: the names that are spoken of.
    """

    form: Form
    is_excluded: bool
    others: Collection[str]


def of_schema(schema: Json, *more: Json) -> Form:
    """Returns what fits a schema, and more of them, which refer to nothing; None: anything does."""
    return ANY if schema is None else (Fitting(schema, (schema, *more)),)


def of_kinds(kinds: Kinds) -> Form:
    """Returns what is of some kinds."""
    words: list[Json] = [word for word, kind in _KINDS.items() if kinds and kind in kinds and word != "integer"]
    return ANY if kinds is None or not kinds <= set(_KINDS.values()) else of_schema({"type": words})


def of_value(value: Json) -> Form:
    """Returns what is this value."""
    return (Spelt(value),)


def either(forms: Iterable[Form]) -> Form:
    """Returns what is one or another; of very many ways, only the kinds are kept."""
    ways: dict[int, Fitting | Spelt | Made | Listed] = {}
    for form in forms:
        if not form:
            return ANY
        ways |= {id(way): way for way in form}
        if len(ways) > _MAX_WAYS:
            whole = of_kinds(known(tuple(ways.values())).kinds)
            ways = {id(way): way for way in whole}
            if not whole:
                return ANY
    return tuple(ways.values())


def known(form: Form) -> Known:
    """Returns the kinds, and the words, of values of a form."""
    each = [_known(way) for way in form]
    kinds, words = frozenset[str](), frozenset[str]()
    for one in each:
        if one.kinds is None:
            return Known()
        kinds |= one.kinds
        words |= one.words or frozenset()
    is_open = any(one.words is None and TEXT in (one.kinds or ()) for one in each)
    return Known(kinds=kinds, words=None if is_open else words) if each else Known()


def member(form: Form, name: str) -> Member:
    """Returns what is known of a field of those values of a form that are maps."""
    found = [_member(way, name) for way in form if (kinds := _known(way).kinds) is None or MAP in kinds]
    return Member(
        form=either(each.form for each in found if not each.is_excluded),
        is_excluded=bool(found) and all(each.is_excluded for each in found),
        others=tuple(dict.fromkeys(other for each in found for other in each.others)),
    )


def items(form: Form) -> Form:
    """Returns what is known of the items of those values of a form that are lists."""
    return either(_items(way) for way in form if (kinds := _known(way).kinds) is None or LIST in kinds)


def is_optional(form: Form, name: str) -> bool:
    """Returns whether a schema speaks of a field, and a value fits it without.

    Of alternatives, and of what else may ask for it, nothing is known.
    """
    match form:
        case (Fitting(root=root, schemas=schemas),):
            each = list(_expanded(root, schemas))
        case _:
            return False
    if any(_MAY_REQUIRE & schema.keys() for schema in each):
        return False
    named = [named for schema in each if isinstance(named := schema.get("properties"), dict) and name in named]
    has_default = any(isinstance(one := properties[name], dict) and "default" in one for properties in named)
    return bool(named) and not has_default and name not in _required(form)


def misfit(form: Form, wanted: Form) -> str:
    """Returns why a value of this form surely breaks a schema; empty: it may fit.

    Args:
        form: of the value.
        wanted: what fits the schema, by `of_schema`.
    """
    return _misfit(form, wanted, "$", 0)


def _misfit(form: Form, wanted: Form, path: str, depth: int) -> str:
    """Why each way to be of this form breaks the schema: the reason of the first."""
    if not form or len(wanted) != 1 or depth > _MAX_DEPTH:
        return ""
    reasons = [_misfit_of_way(way, wanted, path, depth) for way in form]
    return reasons[0] if all(reasons) else ""


def _misfit_of_way(way: Fitting | Spelt | Made | Listed, wanted: Form, path: str, depth: int) -> str:
    given, allowed = _known(way), known(wanted)
    if given.kinds is None:
        return ""
    if allowed.kinds is not None and not given.kinds & allowed.kinds:
        return f"{path} must be {words_for(allowed.kinds)}, this is {words_for(given.kinds)}"
    if given.kinds == {TEXT} and given.words and allowed.words is not None and not given.words & allowed.words:
        return f"{path} is never what it must be"
    if given.kinds != {MAP}:
        return ""
    for name in _required(wanted):
        if _member(way, name).is_excluded:
            return f"{path}.{name} is required"
    for name in _surely_in(way):
        place = f"{path}.{name}"
        room = member(wanted, name)
        if room.is_excluded:
            return f"{place} may not be there"
        if reason := _misfit(_member(way, name).form, room.form, place, depth + 1):
            return reason
    return ""


def _required(form: Form) -> Iterator[str]:
    """The names that must be in what fits a schema."""
    for way in form:
        if isinstance(way, Fitting):
            for schema in _expanded(way.root, way.schemas):
                names = schema.get("required")
                yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _surely_in(way: Fitting | Spelt | Made | Listed) -> Iterator[str]:
    match way:
        case Spelt(value=dict() as value):
            yield from value
        case Made(entries=entries, sure=True):
            yield from entries
        case Fitting():
            yield from _required((way,))
        case _:
            pass


def _known(way: Fitting | Spelt | Made | Listed) -> Known:
    match way:
        case Fitting(root=root, schemas=schemas):
            return _known_by(root, schemas)
        case Spelt(value=value):
            return Known(kinds=frozenset({_kind_of(value)}), words=_words_in([value]))
        case Made():
            return Known(kinds=frozenset({MAP}))
        case Listed():
            return Known(kinds=frozenset({LIST}))


def _known_by(root: Json, schemas: tuple[Json, ...]) -> Known:
    kinds: Kinds = None
    words: frozenset[str] | None = None
    for schema in _expanded(root, schemas):
        kinds = _both(kinds, _kinds_of(root, schema))
        values = _values_of(schema)
        if values is not None:
            texts = _words_in(values)
            words = texts if words is None else words & texts
    return Known(kinds=kinds or None, words=words)  # of a schema that nothing fits, too, nothing is known


def _words_in(values: Iterable[Json]) -> frozenset[str]:
    return frozenset(value for value in values if isinstance(value, str))


def _member(way: Fitting | Spelt | Made | Listed, name: str) -> Member:
    match way:
        case Fitting(root=root, schemas=schemas):
            return _member_by(root, schemas, name)
        case Spelt(value=dict() as value):
            form = of_value(value[name]) if name in value else ANY
            return Member(form=form, is_excluded=name not in value, others=value)
        case Made(entries=entries):
            return Member(form=entries.get(name, ANY), is_excluded=name not in entries, others=entries)
        case _:
            return Member(form=ANY, is_excluded=True, others=())


def _member_by(root: Json, schemas: tuple[Json, ...], name: str) -> Member:
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
    form: Form = (Fitting(root, tuple(found)),) if found else ANY
    return Member(form=form, is_excluded=is_excluded, others=tuple(others))


def _items(way: Fitting | Spelt | Made | Listed) -> Form:
    match way:
        case Fitting(root=root, schemas=schemas):
            every = [schema for schema in _expanded(root, schemas) if "items" in schema and "prefixItems" not in schema]
            return (Fitting(root, tuple(schema["items"] for schema in every)),) if every else ANY
        case Spelt(value=list() as value):
            return either([of_value(item) for item in value])
        case Listed(items=form):
            return form
        case _:
            return ANY


def _expanded(root: Json, schemas: tuple[Json, ...]) -> Iterator[dict[str, Json]]:
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
