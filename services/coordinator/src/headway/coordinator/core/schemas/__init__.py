"""JSON Schemas at run time: does a value fit, and if not, where?

Draft 2020-12; patterns in RE2's syntax, which takes linear time. Formats are not checked, and nothing is ever fetched:
references lead within the schema. That a schema is one was seen when it was deployed.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import cast

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema_specifications import REGISTRY
from referencing import Registry
from referencing.jsonschema import DRAFT202012, Schema

from headway.coordinator.core.plan import Json
from headway.coordinator.core.schemas._steps import (
    DEPLOY_STEPS,
    MAX_STEPS,
    Budget,
    CountingValidator,
    PatternInvalid,
    TooManySteps,
    compile_pattern,
    without_dialects,
)

__all__ = [
    "DEPLOY_STEPS",
    "KEYWORDS",
    "MAX_STEPS",
    "Budget",
    "PatternInvalid",
    "TooManySteps",
    "compile_pattern",
    "cut_message",
    "in_one_line",
    "misfits",
    "misfits_of_schema",
    "no_registry",
    "validator_of",
]

KEYWORDS = frozenset(cast("Mapping[str, object]", CountingValidator.VALIDATORS))
_MAX_FAULTS = 20
_MAX_TOLD = 5
_MAX_SHOWN = 200
_WORDS: Mapping[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def misfits(schema: Json, value: Json, budget: Budget | None = None) -> list[tuple[str, str]]:
    """Returns how a value breaks a schema: JSON path (`$.order_id`) and message; at most 20.

    Args:
        schema: of the plan; None: anything fits.
        value: an input, an output or a signal's payload.
        budget: the steps that it may take; None: MAX_STEPS.
    """
    if schema is None:
        return []
    validator = validator_of(schema, budget or Budget())
    found: list[tuple[str, str]] = []
    try:
        for error in validator.iter_errors(value):
            found += _explain(error)
            if len(found) >= _MAX_FAULTS:
                break
    except RecursionError:
        found.append(("$", "is nested too deeply to be checked"))
    except TooManySteps:
        found = [("$", f"the schema asks for more than {MAX_STEPS:,} checks on this input")]
    except PatternInvalid as error:
        found.append(("$", f"the schema has a pattern that cannot be matched: {error}"))
    return sorted(found[:_MAX_FAULTS])


def in_one_line(faults: Sequence[tuple[str, str]]) -> str:
    """Returns the first of what `misfits` found, and how many there are besides."""
    told = "; ".join(f"{path}: {problem}" for path, problem in faults[:_MAX_TOLD])
    return told if len(faults) <= _MAX_TOLD else f"{told}; and {len(faults) - _MAX_TOLD} more"


def misfits_of_schema(schema: Json, budget: Budget) -> Iterator[ValidationError]:
    """Yields what makes this no JSON Schema of draft 2020-12. Raises TooManySteps."""
    return CountingValidator(_META_SCHEMA, registry=_META_SCHEMAS, format_checker=budget).iter_errors(schema)


def validator_of(schema: Json, budget: Budget) -> Draft202012Validator:
    """Returns what goes through a value by a schema, and charges the budget for it."""
    loaded = _loaded(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS))
    return CountingValidator(loaded, registry=no_registry(), format_checker=budget)


@lru_cache(maxsize=256)
def _loaded(schema: bytes) -> Schema:
    return cast("Schema", without_dialects(orjson.loads(schema)))


def no_registry() -> Registry[Schema]:
    """Returns an empty registry, without a way to retrieve anything."""
    return Registry()


def _meta_schema(address: str) -> Schema:
    return cast("Schema", without_dialects(cast("Json", REGISTRY.contents(address))))


_DIALECT = "https://json-schema.org/draft/2020-12"
_VOCABULARIES = ("core", "applicator", "unevaluated", "validation", "meta-data", "format-annotation", "content")
_META_SCHEMA = _meta_schema(f"{_DIALECT}/schema")
_META_SCHEMAS: Registry[Schema] = (
    Registry[Schema]()
    .with_resources(
        (address, DRAFT202012.create_resource(_meta_schema(address)))
        for address in (f"{_DIALECT}/schema", *(f"{_DIALECT}/meta/{name}" for name in _VOCABULARIES))
    )
    .crawl()
)


def _explain(error: ValidationError) -> Iterator[tuple[str, str]]:
    path, value = error.json_path, cast("Json", error.instance)
    limit = cast("Json", error.validator_value)
    match error.validator, limit, value:
        case "required", list(), dict():
            missing = next((name for name in limit if error.message.startswith(repr(name))), "")
            yield _member(path, str(missing)), "is required"
        case "additionalProperties", _, dict():
            known = _known_properties(cast("Json", error.schema))
            unknown = [name for name in value if name not in known]
            yield from ((_member(path, name), "is not among the properties allowed") for name in unknown)
        case "type", _, _:
            wanted = " or ".join(str(each) for each in limit) if isinstance(limit, list) else str(limit)
            yield path, f"must be of type {wanted}, not {_WORDS[type(value)]}"
        case "enum", list(), _:
            yield path, f"must be one of {orjson.dumps(limit).decode()[:_MAX_SHOWN]}"
        case _:
            yield path, cut_message(error)


def _known_properties(schema: Json) -> frozenset[str]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return frozenset(properties) if isinstance(properties, dict) else frozenset()


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{orjson.dumps(name).decode()}]"


def cut_message(error: ValidationError) -> str:
    """Returns what the validator says of an error, cut."""
    return error.message if len(error.message) <= _MAX_SHOWN else error.message[:_MAX_SHOWN] + "…"
