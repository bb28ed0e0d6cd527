"""The language as a JSON Schema, for editors, made from its tables.

It says what keys there are and what may stand behind each; what it cannot say (names that must exist, cycles, types of
expressions) `headway check` says. What compiles fits it; what it refuses does not compile.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.language import Field, Kind
from headway.coordinator.core.plan import Json, NodeType

_TEMPLATE_IN_CONDITION = r"""^\s*(\$\{|\{\{)|['"]\s*(\$\{[^{}]*\}|\{\{[^{}]*\}\})\s*['"]"""
_DIALECT = "http://json-schema.org/draft-07/schema#"  # what editors know best


def json_schema() -> dict[str, Json]:
    """Returns the schema, draft 7."""
    return {
        "$schema": _DIALECT,
        "title": "Headway workflow",
        "description": "A workflow in YAML: nodes, the steps, and edges, what follows what.",
        **_object(language.WORKFLOW),
        "patternProperties": {f"^{language.OWN_KEYS}": {}},
        "definitions": _definitions(),
    }


def _definitions() -> dict[str, Json]:
    reserved: list[Json] = [*sorted(language.RESERVED_NAMES)]
    name: dict[str, Json] = {"$ref": "#/definitions/name"}
    chain: dict[str, Json] = {"type": "array", "items": name, "minItems": 2}
    return {
        "name": {
            "type": "string",
            "pattern": f"^{language.NAME_PATTERN}$",
            "maxLength": language.MAX_NAME,
            "not": {"enum": reserved},
        },
        "duration": {
            "type": "string",
            "pattern": f"^{language.DURATION_PATTERN}$",
            "maxLength": 40,
        },
        "constant": {"type": "string", "minLength": 1, "not": {"pattern": r"\$\{"}},
        "condition": {"type": ["string", "boolean"], "not": {"pattern": _TEMPLATE_IN_CONDITION}},
        "node": _node(),
        "edge": {"oneOf": [chain, {**_object(language.EDGE), **_OF_EDGES}]},
        "case": _object(language.CASE),
        "request": _object(language.REQUEST),
        "retry": {**_object(language.RETRY), **_OF_TRIES},
        "timeouts": _object(language.TIMEOUT),
        "defaults": _object(language.DEFAULTS),
        "rule": _object(language.RETRY_RULE),
        "retention": _object(language.RETENTION),
        "body": _object(language.BODY),
        "last": _object(language.LAST),
        "tolerated": _object(language.TOLERATE),
    }


def _node() -> dict[str, Json]:
    """One branch for each type, chosen by `type`: so that an editor tells the faults of the one that is meant."""
    types: list[Json] = [kind.value for kind in language.NODES]
    branches: list[Json] = [
        {
            "if": {"required": ["type"], "properties": {"type": {"const": kind.value}}},
            "then": {**_object(node.fields), **_OF_NODES.get(kind, {}), "description": _plain(node.doc)},
        }
        for kind, node in language.NODES.items()
    ]
    chosen: Json = {"enum": types, "description": "What the node does; its other keys depend on it."}
    return {"type": "object", "required": ["type"], "properties": {"type": chosen}, "allOf": branches}


def _object(fields: Sequence[Field]) -> dict[str, Json]:
    required: list[Json] = [field.name for field in fields if field.required]
    return {
        "type": "object",
        "properties": {field.name: _described(field) for field in fields},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _described(field: Field) -> Json:
    schema = _BY_KIND[field.kind](field)
    about: dict[str, Json] = {"description": _plain(field.doc)}
    default = _default_of(field)
    return {**schema, **about, **({} if default is None else {"default": default})}


def _plain(text: str) -> str:
    return text.replace("\n\n", "\0").replace("\n", " ").replace("\0", "\n\n")


def _default_of(field: Field) -> Json:
    """The default where it is a value of the language, as the table spells it, and not a sentence."""
    if field.required or not field.default:
        return None
    match field.kind:
        case Kind.INTEGER:
            return int(field.default) if field.default.isdecimal() else None
        case Kind.NUMBER:
            return float(field.default) if field.default[0].isdecimal() else None
        case Kind.BOOLEAN:
            return field.default == "true"
        case Kind.WORD | Kind.NEED:
            return field.default if " " not in field.default else None
        case Kind.DURATION | Kind.TEXT:
            return field.default if " " not in field.default and field.default != "none" else None
        case _:
            return None


def _reference(name: str) -> Callable[[Field], dict[str, Json]]:
    return lambda _: {"$ref": f"#/definitions/{name}"}


def _always(schema: dict[str, Json]) -> Callable[[Field], dict[str, Json]]:
    return lambda _: schema


def _bounds(field: Field) -> dict[str, Json]:
    return {"minimum": field.least, "maximum": field.most}


_TEMPLATE: Json = {"type": "string", "pattern": r"\$\{"}


def _text(field: Field) -> dict[str, Json]:
    if field.pattern:
        return {"type": "string", "pattern": f"^{field.pattern}$"}
    return {"type": "string"} if field.name == "description" else {"$ref": "#/definitions/constant"}


def _template(field: Field) -> dict[str, Json]:
    if not field.shape:
        return {}
    constant: Json = {"type": field.shape, **({"pattern": f"^{field.pattern}$"} if field.pattern else {})}
    is_any = field.shape == "string" and not field.pattern
    return {"type": "string"} if is_any else {"anyOf": [constant, _TEMPLATE]}


# What holds between keys of one map.
_OF_NODES: Mapping[NodeType, dict[str, Json]] = {
    NodeType.WAIT: {
        "oneOf": [{"required": ["duration"]}, {"required": ["until"]}],
        "dependencies": {"zone": ["until"]},
    },
    NodeType.FINISH: {
        "if": {"required": ["message"]},
        "then": {"required": ["outcome"], "properties": {"outcome": {"const": "failed"}}},
    },
    NodeType.JOIN: {
        "if": {"required": ["rest"], "properties": {"rest": {"const": "cancel"}}},
        "then": {"required": ["need"], "properties": {"need": {"not": {"const": "all"}}}},
    },
    NodeType.REPEAT: {"anyOf": [{"required": ["until"]}, {"required": ["while"]}]},
}
_OF_EDGES: dict[str, Json] = {
    "if": {"required": ["errors"], "properties": {"errors": {"minItems": 1}}},
    "then": {"required": ["on"], "properties": {"on": {"enum": ["failure", "timeout"]}}},
}
_OF_TRIES: dict[str, Json] = {
    "allOf": [
        {
            "if": {"required": ["backoff"], "properties": {"backoff": {"enum": ["linear", "fixed"]}}},
            "then": {"not": {"required": ["factor"]}},
        },
        {
            "if": {"required": ["backoff"], "properties": {"backoff": {"const": "fixed"}}},
            "then": {"not": {"required": ["max"]}},
        },
    ]
}
_BY_KIND: Mapping[StrEnum, Callable[[Field], dict[str, Json]]] = {
    Kind.NAME: _reference("name"),
    Kind.TEXT: _text,
    Kind.WORD: lambda field: {"enum": list[Json](str(word) for word in field.words)},
    Kind.INTEGER: lambda field: {"type": "integer", **_bounds(field)},
    Kind.NUMBER: lambda field: {"type": "number", **_bounds(field)},
    Kind.BOOLEAN: _always({"type": "boolean"}),
    Kind.DURATION: _reference("duration"),
    Kind.TEMPLATE: _template,
    Kind.TEMPLATES: _always({"type": "object", "minProperties": 1, "propertyNames": {"$ref": "#/definitions/name"}}),
    Kind.CONDITION: _reference("condition"),
    Kind.CODE: _always({"type": "string"}),
    Kind.SCHEMA: _always({"type": "object"}),
    Kind.TEXTS: _always({"type": "array", "items": {"type": "string", "minLength": 1}}),
    Kind.STATUSES: lambda field: {"type": "array", "items": {"type": "integer", **_bounds(field)}},
    Kind.NODE: _reference("constant"),
    Kind.NODES: _always(
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": language.MAX_NODES,
            "propertyNames": {"$ref": "#/definitions/name"},
            "additionalProperties": {"$ref": "#/definitions/node"},
        }
    ),
    Kind.EDGES: _always({"type": "array", "items": {"$ref": "#/definitions/edge"}}),
    Kind.CASES: _always({"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/case"}}),
    Kind.REQUEST: _reference("request"),
    Kind.RETRY: _reference("retry"),
    Kind.TIMEOUT: _always({"oneOf": [{"$ref": "#/definitions/duration"}, {"$ref": "#/definitions/timeouts"}]}),
    Kind.DEFAULTS: _reference("defaults"),
    Kind.FILTER: _reference("condition"),
    Kind.SCHEMAS: _always(
        {"type": "object", "propertyNames": {"$ref": "#/definitions/name"}, "additionalProperties": {"type": "object"}}
    ),
    Kind.RULES: _always({"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/rule"}}),
    Kind.RETENTION: _always({"oneOf": [{"$ref": "#/definitions/duration"}, {"$ref": "#/definitions/retention"}]}),
    Kind.BODY: _always({"anyOf": [{"$ref": "#/definitions/node"}, {"$ref": "#/definitions/body"}]}),
    Kind.LAST: _always({"anyOf": [{"$ref": "#/definitions/node"}, {"$ref": "#/definitions/last"}]}),
    Kind.TOLERATE: lambda field: {
        "anyOf": [{"type": "integer", **_bounds(field)}, {"$ref": "#/definitions/tolerated"}]
    },
    Kind.NEED: lambda field: {"anyOf": [{"enum": ["all", "any"]}, {"type": "integer", **_bounds(field)}]},
}
