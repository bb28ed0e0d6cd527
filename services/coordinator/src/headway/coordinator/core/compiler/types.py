"""Checks values where something is known of them: conditions, operands, fields of inputs and outputs, requests.

What is known: the workflow's input by its schema; the outputs of nodes whose form is always the same; variables by what
sets them; the state of a node, the run and the error. Of all else nothing is known, and nothing is said.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TypeAlias, cast

from headway.coordinator.core.cel import (
    BOOLEAN,
    LIST,
    MAP,
    NULL,
    NUMBER,
    TEXT,
    Judge,
    Kinds,
    Known,
    compile_expression,
    words_for,
)
from headway.coordinator.core.compiler import language, shapes
from headway.coordinator.core.compiler.faults import Code, Faults, nearest
from headway.coordinator.core.compiler.yaml_tree import Source
from headway.coordinator.core.machines import FINAL_RUN_STATES, TaskState
from headway.coordinator.core.plan import (
    Array,
    Computed,
    Expression,
    FailureClass,
    Json,
    Literal,
    Node,
    NodeType,
    Object,
    Place,
    Plan,
    Reference,
    Template,
    Text,
    VariablePath,
)
from headway.coordinator.core.templates import spell

_Used: TypeAlias = "Expression | Computed | Reference"
_TYPES: Mapping[str, str] = {
    NUMBER: "number", TEXT: "string", BOOLEAN: "boolean", NULL: "null", LIST: "array", MAP: "object",
}  # fmt: skip
_TEXT: Json = {"type": "string"}
_RUN: Json = {
    "properties": {name: {"type": "integer"} if name in ("version", "epoch") else _TEXT for name in language.RUN_FIELDS}
}
_ERROR: Json = {
    "properties": {"class": {"enum": [*FailureClass]}, "type": _TEXT, "message": _TEXT, "node": _TEXT},
}
_OUTCOME: Json = {
    "properties": {
        "state": {"enum": [*FINAL_RUN_STATES]},
        "class": {"enum": [*FailureClass, "cancelled", None]},
        "message": {"type": ["string", "null"]},
        "nodes": {"type": "array", "items": _TEXT},
    },
}
_STATE: Json = {"enum": [*TaskState, "not_reached"]}
_HTTP: Json = {
    "type": "object",
    "properties": {"status": {"type": "integer"}, "headers": {"type": "object"}, "body": {}},
    "additionalProperties": False,
}
_REQUEST: Mapping[str, str] = {"url": TEXT, "headers": MAP, "query": MAP}


@dataclass(frozen=True, slots=True)
class _Base:
    """The schema of a value that paths begin at.

    Attributes:
        steps: of the path, that lead to it.
        what: in messages.
        is_free: whoever makes it adds names of its own, as handlers do to an error's details.
    """

    schema: Json
    steps: int
    what: str
    is_free: bool = False


def check_types(faults: Faults, source: Source, plan: Plan) -> None:
    """Checks all expressions of a plan.

    Args:
        faults: where faults go.
        source: the workflow's text.
        plan: as far as it could be compiled.
    """
    schema = plan.input_schema if not faults.count((Code.SCHEMA_INVALID,)) else None
    _Check(faults, source, plan, schema, {}, plan).run()


class _Check:
    """One graph: the workflow's, or one within a node."""

    def __init__(
        self,
        faults: Faults,
        source: Source,
        plan: Plan,
        input_schema: Json,
        around: Mapping[str, Node],
        whole: Plan,
    ) -> None:
        self._faults = faults
        self._source = source
        self._plan = plan
        self._whole = whole
        self._input_schema = input_schema
        self._nodes = {**around, **plan.nodes}
        self._sources = {
            name: [plan.edges[index].source for index in plan.incoming.get(name, ())] for name in plan.nodes
        }
        self._outputs: dict[str, Json] = {}
        self._know = cache(self._known)

    def run(self) -> None:
        for part in (*self._plan.nodes.values(), *self._plan.edges):
            for used in _used_in(part):
                if isinstance(used, Plan):
                    _Check(self._faults, self._source, used, self._input_schema, self._nodes, self._whole).run()
                else:
                    self._check(used)
        for node in self._plan.nodes.values():
            self._check_request(node)
            if node.type is NodeType.WAIT and node.until is not None:
                self._expect("until", node.until, TEXT)

    def _check(self, used: _Used) -> None:
        if isinstance(used, Reference):
            self._check_path(used.path, used.place)
            return
        expression = used.expression if isinstance(used, Computed) else used
        syntax = compile_expression(expression.source).syntax
        for read in syntax.reads:
            self._check_path(read.path, self._place(expression, read.offset))
        judge = Judge(self._know)
        result = judge.judge(syntax.root)
        for misfit in judge.misfits:
            place = self._place(expression, misfit.offset)
            self._faults.add(place, Code.TYPE_MISMATCH, misfit.message, misfit.remedy)
        if used is expression and result.kinds is not None and BOOLEAN not in result.kinds:
            message = f"a condition must be true or false, this is {words_for(result.kinds)}"
            remedy = "compare it with something: == … or > …"
            self._faults.add(expression.place, Code.NOT_A_CONDITION, message, remedy)

    def _check_path(self, path: VariablePath, place: Place) -> None:
        base = self._base(path)
        if base is None:
            return
        schemas: shapes.Schemas = (base.schema,)
        for at in range(base.steps, len(path)):
            kinds = shapes.known(base.schema, schemas).kinds
            if kinds is not None and MAP not in kinds:
                message = f"{spell(path[:at])} is {words_for(kinds)}: it has no field {path[at]}"
                self._faults.add(place, Code.TYPE_MISMATCH, message, f"write {spell(path[:at])}")
                return
            member = shapes.member(base.schema, schemas, path[at])
            close = nearest(path[at], member.others)()
            if member.is_excluded:
                message = f"{base.what} has no {spell(path[base.steps : at + 1])}"
                self._faults.add(place, Code.UNKNOWN_REFERENCE, message, close)
                return
            is_unknown = not member.schemas and path[at] not in member.others
            if is_unknown and not base.is_free and close.startswith("did you mean"):
                message = f"{base.what} does not speak of {spell(path[base.steps : at + 1])}"
                self._faults.add(place, Code.UNKNOWN_REFERENCE, message, close, warning=True)
                return
            schemas = member.schemas

    def _known(self, path: VariablePath) -> Known:
        base = self._base(path)
        if base is None:
            return Known()
        schemas: shapes.Schemas = (base.schema,)
        for step in path[base.steps :]:
            schemas = shapes.member(base.schema, schemas, step).schemas
        return shapes.known(base.schema, schemas)

    def _base(self, path: VariablePath) -> _Base | None:
        match path:
            case ("input", *_) if self._input_schema is not None:
                return _Base(self._input_schema, 1, "the input")
            case ("nodes", name, "output", *_) if name in self._nodes:
                schema = self._output_of(name)
                return None if schema is None else _Base(schema, 3, f"the output of {name}")
            case ("nodes", _, "state", *_):
                return _Base(_STATE, 3, "a state")
            case ("vars", name, *_):
                kinds = self._kinds_of_variable(name)
                return None if kinds is None else _Base({"type": [_TYPES[kind] for kind in kinds]}, 2, name)
            case ("run", name, *_) if name in language.RUN_FIELDS:
                return _Base(_RUN, 1, "run")
            case ("outcome", *_):
                return _Base(_OUTCOME, 1, "outcome")
            case ("error", *_):
                return _Base(_ERROR, 1, "error", is_free=True)
            case _:
                return None

    def _output_of(self, name: str) -> Json:
        """The schema of what a node yields; None: it may yield anything."""
        node = self._nodes[name]
        if node.output_schema is not None:
            return node.output_schema
        if node.type is NodeType.HTTP:
            return _HTTP
        if node.type is not NodeType.JOIN or name not in self._sources:
            return None
        if name not in self._outputs:
            self._outputs[name] = {}  # a join that leads to itself
            branches: dict[str, Json] = {source: self._nullable(source) for source in self._sources[name]}
            self._outputs[name] = {"type": "object", "properties": branches, "additionalProperties": False}
        return self._outputs[name]

    def _nullable(self, name: str) -> Json:
        """What a join gathers of a branch: null where it failed and its always edge led there."""
        schema = self._output_of(name)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            return {}
        return {**schema, "type": ["object", "null"]}

    def _kinds_of_variable(self, name: str) -> Kinds:
        kinds: Kinds = frozenset()
        for node in _nodes_in(self._whole):
            if name not in node.values:
                continue
            match node.values[name]:
                case Literal(value=value):
                    found = shapes.kinds_of_literal(value)
                case Text():
                    found = frozenset({TEXT})
                case Object():
                    found = frozenset({MAP})
                case Array():
                    found = frozenset({LIST})
                case _:
                    return None
            kinds = (kinds or frozenset()) | (found or frozenset())
        return kinds or None

    def _check_request(self, node: Node) -> None:
        if node.type is NodeType.HTTP and isinstance(node.input, Object):
            for key, wanted in _REQUEST.items():
                if key in node.input.entries:
                    self._expect(key, node.input.entries[key], wanted)

    def _expect(self, key: str, template: Template, wanted: str) -> None:
        match template:
            case Reference(path=path, place=place):
                kinds = self._know(path).kinds
            case Computed(expression=expression):
                place, syntax = expression.place, compile_expression(expression.source).syntax
                kinds = Judge(self._know).judge(syntax.root).kinds
            case _:
                return
        if kinds is not None and wanted not in kinds:
            message = f"{key} must be {words_for(frozenset({wanted}))}, this is {words_for(kinds)}"
            remedy = "make it text: string(…)" if wanted == TEXT else "give a map: {name: value}"
            self._faults.add(place, Code.TYPE_MISMATCH, message, remedy)

    def _place(self, expression: Expression, offset: int) -> Place:
        """Where a character of an expression stands; the expression itself where it is escaped or folded."""
        begin = self._source.index(expression.place)
        if not self._source.text.startswith(expression.source, begin):
            return expression.place
        return self._source.place(begin + offset)


def _used_in(part: object) -> Iterator["_Used | Plan"]:
    """Yields the expressions in a part of a plan, and the plans within it, wherever its fields hold any."""
    if isinstance(part, Expression | Computed | Reference | Plan):
        yield part
    elif isinstance(part, Literal | Place):
        return
    elif is_dataclass(part):
        for each in fields(part):
            yield from _used_in(getattr(part, each.name))
    elif isinstance(part, Mapping):
        for value in cast("Mapping[str, object]", part).values():
            yield from _used_in(value)
    elif isinstance(part, tuple):
        for value in cast("tuple[object, ...]", part):
            yield from _used_in(value)


def _nodes_in(plan: Plan) -> Iterator[Node]:
    """The nodes of a plan, those in bodies included."""
    for node in plan.nodes.values():
        yield node
        if node.body is not None:
            yield from _nodes_in(node.body)
