"""A JSON Schema validator whose work is counted.

Whoever starts a run chooses the input, whoever deploys a workflow chooses the schema, and the coordinator decides
nothing else while it checks the one against the other. So every keyword costs steps from one budget, and those that
look at much cost more.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias, cast

import orjson
import re2
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from headway.coordinator.core.plan import Json

MAX_STEPS = 100_000
DEPLOY_STEPS = 200_000  # for all checks of a definition's schemas: a second or two
_REFERENCE_STEPS = 5  # to look up where it leads
_BYTES_A_STEP = 64  # of text that is matched, compared or shown
_ENTRIES_A_STEP = 8  # of lists and maps that a keyword runs through
_PAIRS_A_STEP = 512  # the same, where jsonschema looks for each entry among all of them
_EACH_PAIR = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_EACH = frozenset({"items", "contains", "prefixItems", "propertyNames"}) | _EACH_PAIR
_MAX_PATTERN_BYTES = 1_048_576  # what a compiled pattern and its automaton may occupy

# jsonschema's validators and keyword functions are not typed beyond this.
_Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


class TooManySteps(Exception):
    """The schema asks for more checks on this input than the budget allows."""


class PatternInvalid(ValueError):
    """The pattern cannot be matched in linear time, or is no pattern at all."""


class Budget(FormatChecker):
    """The steps that one validation has left.

    It travels as the format checker because that is what a validator hands on to those of its subschemas. Formats are
    not checked.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        """Start with so many steps."""
        super().__init__(formats=())
        self.steps = steps
        self.left = steps

    @property
    def is_spent(self) -> bool:
        """More was asked for than there was."""
        return self.left < 0

    def charge(self, steps: int) -> None:
        """Take steps away.

        Raises:
            TooManySteps: there are not enough left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooManySteps


@lru_cache(maxsize=1_024)
def compile_pattern(pattern: str) -> Any:
    """Returns what `search` can be asked of.

    Raises:
        PatternInvalid: not a pattern of RE2's syntax (https://github.com/google/re2/wiki/Syntax).
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise PatternInvalid(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
    except UnicodeEncodeError:
        raise PatternInvalid("it holds half a surrogate pair") from None


def without_dialects(schema: Json) -> Json:
    """Returns the schema without `$schema`, at which jsonschema would go on with a validator that counts nothing."""
    match schema:
        case dict():
            return {
                key: value if key in {"const", "enum", "default", "examples"} else without_dialects(value)
                for key, value in schema.items()
                if not (key == "$schema" and isinstance(value, str))
            }
        case list():
            return [without_dialects(item) for item in schema]
        case _:
            return schema


def _key(value: Json) -> bytes:
    """Returns the same bytes for values that are equal as JSON: 1 and 1.0 are, true and 1 are not."""
    return orjson.dumps(_with_whole_numbers(value), option=orjson.OPT_SORT_KEYS)


def _with_whole_numbers(value: Json) -> Json:
    match value:
        case float() if value.is_integer() and abs(value) < 2**63:
            return int(value)
        case list():
            return [_with_whole_numbers(item) for item in value]
        case dict():
            return {key: _with_whole_numbers(item) for key, item in value.items()}
        case _:
            return value


# Keywords. Each takes the validator, the keyword's value, the instance and the schema around the keyword.


def _unique_items(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not wanted or not isinstance(instance, list):
        return
    seen: set[bytes] = set()
    for item in cast("list[Json]", instance):
        key = _key(item)
        validator.format_checker.charge(1 + len(key) // _BYTES_A_STEP)
        if key in seen:
            yield ValidationError("has items that are equal")
            return
        seen.add(key)


def _pattern(validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(validator, pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, value in cast("dict[str, Json]", instance).items():
            if _matches(validator, pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in cast("dict[str, Json]", instance).items():
        if name in known or any(_matches(validator, pattern, name) for pattern in patterns):
            continue
        if allowed is False:
            yield ValidationError("has properties that are not allowed")
            return
        yield from validator.descend(value, allowed, path=name)


def _matches(validator: Any, pattern: str, text: str) -> bool:
    validator.format_checker.charge(1 + len(text) // _BYTES_A_STEP)
    return compile_pattern(pattern).search(text) is not None


def _counted(name: str, keyword: _Keyword) -> _Keyword:
    def count(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        budget: Budget = validator.format_checker
        steps = _REFERENCE_STEPS if name in {"$ref", "$dynamicRef"} else 1
        if name in {"enum", "const"}:
            steps += len(orjson.dumps(value)) // _BYTES_A_STEP
        elif isinstance(value, (list, dict)):
            steps += len(cast("list[Json]", value)) // _ENTRIES_A_STEP
        if name in _EACH and isinstance(instance, (list, dict)):
            size = len(cast("list[Json]", instance))
            steps += size // _ENTRIES_A_STEP + (size * size // _PAIRS_A_STEP if name in _EACH_PAIR else 0)
        budget.charge(steps)
        for error in keyword(validator, value, instance, schema) or ():
            if not error.relative_schema_path:  # made here, and its message may show all of the instance
                budget.charge(len(error.message) // _BYTES_A_STEP)
            yield error

    return count


_LINEAR: Mapping[str, _Keyword] = {
    "uniqueItems": _unique_items,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}
_KEYWORDS = {**cast("Mapping[str, _Keyword]", Draft202012Validator.VALIDATORS), **_LINEAR}
CountingValidator = extend(
    Draft202012Validator, validators={name: _counted(name, keyword) for name, keyword in _KEYWORDS.items()}
)
