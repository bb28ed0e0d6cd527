"""The schemas of a workflow, of inputs, outputs and signals: is what was written one that can be used?"""

from collections.abc import Iterator
from typing import cast

import orjson
from jsonschema.exceptions import ValidationError
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, Schema

from headway.coordinator.core.compiler.faults import Code, close_to
from headway.coordinator.core.compiler.fields import Reading, cut
from headway.coordinator.core.compiler.yaml_tree import Yaml, YamlList, YamlMap, YamlScalar, plain_value
from headway.coordinator.core.plan import Json, Place
from headway.coordinator.core.schemas import (
    DEPLOY_STEPS,
    KEYWORDS,
    MAX_STEPS,
    Budget,
    PatternInvalid,
    TooManySteps,
    compile_pattern,
    cut_message,
    misfits,
    misfits_of_schema,
    no_registry,
    validator_of,
)

_KNOWN = KEYWORDS | {"$id", "$schema", "$defs", "definitions", "title", "description"}
_HOLD_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_ARE_SCHEMAS = frozenset(
    {
        "additionalProperties", "items", "prefixItems", "contains", "not", "if", "then", "else", "allOf", "anyOf",
        "oneOf", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
_DEFAULTS_TOLD = 5  # besides the first
_MOST_WORDS = 100  # unknown ones of a schema that are held against the known
_SHORTEST_WORD = 4  # letters of a keyword that another word can be a slip of: id and note are words of their own
_MEANT = frozenset(word for word in KEYWORDS if len(word) >= _SHORTEST_WORD)
_REFERENCES = ("$ref", "$dynamicRef")
_NAMES = ("$anchor", "$dynamicAnchor", "$id")
_REFERENCE_STEPS = 10
_VALUE_STEPS = 30
_PATTERN_STEPS = 250
_INSTRUCTIONS_A_STEP = 8  # of a compiled pattern
_BYTES_A_STEP = 64


def check_schema(reading: Reading, tree: Yaml, what: str) -> Json:
    """Returns the schema; what is wrong in it becomes faults, and the schema None, which anything fits.

    Args:
        reading: where faults go.
        tree: as it is written.
        what: the key behind which it stands.
    """
    schema = plain_value(tree)
    if not isinstance(tree, YamlMap):
        reading.faults.add(tree.place, Code.SCHEMA_INVALID, f"{what} must be a map", "write {type: object, …}")
        return None
    slips = _say_slips(reading, tree)
    _say_defaults(reading, tree, what)
    if tree.entries and not slips and not _KNOWN & tree.entries.keys():
        message = f"no key of {what} is one of JSON Schema's: anything fits"
        remedy = "write {type: object, properties: {name: {type: number}}}"
        reading.faults.add(tree.place, Code.SCHEMA_INVALID, message, remedy, warning=True)
    was_spent = reading.schema_steps.is_spent
    try:
        return schema if _is_sound(reading, tree, schema) else None
    except TooManySteps:
        if not was_spent:
            _say_too_many(reading, tree.place)
    return None


def _is_sound(reading: Reading, tree: Yaml, schema: Json) -> bool:
    errors = reading.faults.errors
    for error in misfits_of_schema(schema, reading.schema_steps):
        message, remedy = _explain_schema(error)
        reading.faults.add(_place_in(tree, list(error.absolute_path)), Code.SCHEMA_INVALID, message, remedy)
    if reading.faults.errors == errors:
        _check_references(reading, tree, schema)
        _check_patterns(reading, tree)
        _check_unevaluated(reading, tree)
    if reading.faults.errors == errors:
        _try_out(reading, tree, schema)
    return reading.faults.errors == errors


def misfit_of(reading: Reading, schema: Json, value: Json, place: Place) -> str:
    """Returns how a constant of the workflow breaks a schema of it, in a few words; empty: it does not."""
    budget = reading.schema_steps
    if schema is None or budget.is_spent:
        return ""
    budget.left -= _VALUE_STEPS
    found = misfits(schema, value, budget)
    if budget.is_spent:
        _say_too_many(reading, place)
        return ""
    return " ".join(found[0]) if found else ""


def _say_too_many(reading: Reading, place: Place) -> None:
    message = f"the schemas up to here ask for more than {DEPLOY_STEPS:,} checks of themselves"
    reading.faults.add(place, Code.SCHEMA_INVALID, message, "let them say less; put what repeats under $defs")


def _say_slips(reading: Reading, tree: Yaml) -> int:
    """Warns of unknown keywords that are near known ones, for they say nothing; returns how many there are."""
    meant: dict[str, str] = {}
    slips = 0
    for key, place in _keywords_in(tree):
        if key in _KNOWN or key.startswith("x-"):
            continue
        if key not in meant and len(meant) < _MOST_WORDS:
            meant[key] = close_to(key, _MEANT)
        if close := meant.get(key):
            slips += 1
            message = f"{cut(key)} is no keyword of JSON Schema, and says nothing"
            reading.faults.add(place, Code.SCHEMA_INVALID, message, f"did you mean {close}?", warning=True)
    return slips


def _say_defaults(reading: Reading, tree: YamlMap, what: str) -> None:
    """Warns, once for a schema, of defaults: nothing fills them in."""
    found = list(_defaults_in(tree))
    if not found:
        return
    name, default = found[0]
    message = f"default is not filled in: without a value, {name} stays absent"
    if len(found) > 1:
        others = [other for other, _ in found[1 : _DEFAULTS_TOLD + 1]]
        message += f" (and so {', '.join(others)}{', …' if len(found) > _DEFAULTS_TOLD + 1 else ''})"
    remedy = "remove it, and ask where it is read: has(…) ? … : …"
    if what == "input_schema" and all(step.isidentifier() for step in name.split(".")):
        path = f"input.{name}"
        remedy = f"remove it, and where it is read, write has({path}) ? {path} : {_spelt(default)}"
    reading.faults.add(default.place, Code.SCHEMA_INVALID, message, remedy, warning=True)


def _defaults_in(tree: YamlMap, name: str = "") -> Iterator[tuple[str, Yaml]]:
    """Yields the defaults of the fields of a schema, each with the path that leads to its field."""
    fields = tree.entries.get("properties")
    for field, schema in fields.entries.items() if isinstance(fields, YamlMap) else ():
        if isinstance(schema, YamlMap):
            path = f"{name}.{field}" if name else field
            if "default" in schema.entries:
                yield path, schema.entries["default"]
            yield from _defaults_in(schema, path)


def _spelt(value: Yaml) -> str:
    """A value as an expression spells it."""
    return orjson.dumps(plain_value(value)).decode()


def _keywords_in(tree: Yaml) -> Iterator[tuple[str, Place]]:
    """Yields the keys of a schema and of those in it, but none of data such as `enum` and `default`."""
    if isinstance(tree, YamlList):
        for item in tree.items:
            yield from _keywords_in(item)
    elif isinstance(tree, YamlMap):
        for key, value in tree.entries.items():
            yield key, tree.keys[key]
            if key in _ARE_SCHEMAS:
                yield from _keywords_in(value)
            elif key in _HOLD_SCHEMAS and isinstance(value, YamlMap):
                for part in value.entries.values():
                    yield from _keywords_in(part)


def _explain_schema(error: ValidationError) -> tuple[str, str]:
    if error.absolute_path and error.absolute_path[-1] == "type":
        remedy = "types are array, boolean, integer, null, number, object and string"
        return f"not JSON Schema: {error.instance!r} is no type", remedy
    keyword = next((str(step) for step in reversed(error.absolute_path) if isinstance(step, str)), "")
    remedy = f"mend what stands behind {keyword}" if keyword else "write {type: object, …}"
    return f"not JSON Schema: {cut_message(error)}", remedy


def _check_references(reading: Reading, tree: Yaml, schema: Json) -> None:
    for name, place in _texts_at(tree, _NAMES):
        if not (isinstance(tree, YamlMap) and "$id" in tree.entries and place == tree.entries["$id"].place):
            message = f"{cut(name)} gives a part of the schema a name, and names are not looked up"
            reading.faults.add(place, Code.SCHEMA_INVALID, message, "refer to the part by its place: #/$defs/name")
    resource = DRAFT202012.create_resource(cast("Schema", schema))
    resolver = no_registry().with_resource("", resource).resolver("")
    for reference, place in _texts_at(tree, _REFERENCES):
        reading.schema_steps.charge(_REFERENCE_STEPS + len(reference) // _BYTES_A_STEP)
        if not reference.startswith("#"):
            remedy = "put it under $defs and refer to #/$defs/name"
            message = f"{reference} lies outside the schema, and nothing is fetched"
            reading.faults.add(place, Code.SCHEMA_INVALID, message, remedy)
            continue
        try:
            resolver.lookup(reference)
        except Unresolvable:
            message = f"{reference} leads nowhere"
            reading.faults.add(place, Code.SCHEMA_INVALID, message, "name what stands under $defs")


def _check_patterns(reading: Reading, tree: Yaml) -> None:
    for pattern, place in (*_texts_at(tree, ("pattern",)), *_keys_at(tree, "patternProperties")):
        reading.schema_steps.charge(_PATTERN_STEPS)
        try:
            reading.schema_steps.charge(compile_pattern(pattern).programsize // _INSTRUCTIONS_A_STEP)
        except PatternInvalid as error:
            message = f"{pattern!r} is no regular expression that can be matched in linear time: {error}"
            remedy = "write it without look-around, back references and large counts (RE2's syntax)"
            reading.faults.add(place, Code.SCHEMA_INVALID, message, remedy)


def _check_unevaluated(reading: Reading, tree: Yaml) -> None:
    """Where both stand, jsonschema matches the patterns itself, and not in linear time."""
    if not any(True for _ in _keys_at(tree, "patternProperties")):
        return
    for place in _places_of(tree, "unevaluatedProperties"):
        message = "unevaluatedProperties and patternProperties cannot be used in one schema"
        reading.faults.add(place, Code.SCHEMA_INVALID, message, "use additionalProperties instead")


def _try_out(reading: Reading, tree: Yaml, schema: Json) -> None:
    """Meets what the meta-schema cannot see, such as references that go round in a circle, before a run does."""
    samples: tuple[Json, ...] = (None, 0, "a", ["a"], {"a": 0})
    try:
        for sample in samples:
            trial = Budget(min(MAX_STEPS, reading.schema_steps.left))
            try:
                list(validator_of(schema, trial).iter_errors(sample))
            finally:
                reading.schema_steps.charge(trial.steps - trial.left)
    except TooManySteps:
        if reading.schema_steps.is_spent:
            raise
        message = f"the schema asks for more than {MAX_STEPS:,} checks even on a small input"
        reading.faults.add(tree.place, Code.SCHEMA_INVALID, message, "let alternatives not contain one another")
    except RecursionError:
        message = "a reference leads back to itself"
        reading.faults.add(tree.place, Code.SCHEMA_INVALID, message, "let it lead into properties or items")
    except (Unresolvable, TypeError) as error:  # TypeError: a number that JSON has no place for
        message = f"this schema cannot be used: {error}"
        reading.faults.add(tree.place, Code.SCHEMA_INVALID, message, "leave out what the message names")


def _texts_at(tree: Yaml, keys: tuple[str, ...]) -> Iterator[tuple[str, Place]]:
    """Yields the texts that stand behind any of the keys, anywhere."""
    match tree:
        case YamlMap(entries=entries):
            for key, value in entries.items():
                if key in keys and isinstance(value, YamlScalar) and isinstance(value.value, str):
                    yield value.value, value.place
                yield from _texts_at(value, keys)
        case YamlList(items=items):
            for item in items:
                yield from _texts_at(item, keys)
        case YamlScalar():
            return


def _keys_at(tree: Yaml, keyword: str) -> Iterator[tuple[str, Place]]:
    """Yields the keys of the maps that stand behind a keyword, anywhere, and where what they hold stands."""
    for value in _values_at(tree, keyword):
        if isinstance(value, YamlMap):
            yield from ((key, entry.place) for key, entry in value.entries.items())


def _places_of(tree: Yaml, keyword: str) -> Iterator[Place]:
    return (value.place for value in _values_at(tree, keyword))


def _values_at(tree: Yaml, keyword: str) -> Iterator[Yaml]:
    match tree:
        case YamlMap(entries=entries):
            for key, value in entries.items():
                if key == keyword:
                    yield value
                yield from _values_at(value, keyword)
        case YamlList(items=items):
            for item in items:
                yield from _values_at(item, keyword)
        case YamlScalar():
            return


def _place_in(tree: Yaml, path: list[str | int]) -> Place:
    """Returns where what lies at a path stands, or the last of its containers that exists."""
    for step in path:
        match tree, step:
            case YamlMap(entries=entries), str() if step in entries:
                tree = entries[step]
            case YamlList(items=items), int() if step < len(items):
                tree = items[step]
            case _:
                break
    return tree.place
