"""Checks values where something is known of them: conditions, operands, fields of inputs and outputs, requests.

What is known: the input, payloads and outputs by their schemas; outputs whose form is always the same, or by what they
are put together from; items by the list, iterations by what the body gives; variables by their schemas, or by what sets
them; the state of a node, the run and the error. Of all else nothing is known, and nothing is said.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from headway.coordinator.core.lookups import spell
from headway.coordinator.core.machines import FINAL_RUN_STATES, TaskState
from headway.coordinator.core.plan import (
    FINALLY,
    LOOP_NODES,
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

_Used: TypeAlias = "Expression | Computed | Reference"
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
_COUNTS: Json = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in language.COUNTS_IN_EXPRESSIONS},
    "additionalProperties": False,
}
_NULL = shapes.of_schema({"type": "null"})
_TEXTS = shapes.of_schema({"type": "string"})
_INDEX = shapes.of_schema({"type": "integer"})
_CHOSEN: shapes.Form = (shapes.Made({"to": shapes.of_schema({"type": ["string", "null"]})}),)
_DETACHED: shapes.Form = (shapes.Made({"run_id": _TEXTS}),)
_OUTPUTS: Mapping[NodeType, shapes.Form] = {
    NodeType.HTTP: shapes.of_schema(_HTTP),
    NodeType.SWITCH: _CHOSEN,
    NodeType.WAIT: _NULL,
}
_ENTRY: shapes.Form = (shapes.Made({"key": _TEXTS, "value": shapes.ANY}),)

_COUNTED = ("length", "len", "count", "size", "Length", "Count")  # what other languages call how many there are
_AS_TEXT, _AS_MAP = "make it text: string(…)", "give a map: {name: value}"
_REQUEST: Mapping[str, tuple[Kinds, str]] = {
    "url": (frozenset({TEXT}), _AS_TEXT),
    "headers": (frozenset({MAP, NULL}), _AS_MAP),
    "query": (frozenset({MAP, NULL}), _AS_MAP),
}
_HEADER: tuple[Kinds, str] = frozenset({TEXT, NUMBER, BOOLEAN}), _AS_TEXT
_LABEL: tuple[Kinds, str] = frozenset({TEXT, NUMBER, BOOLEAN, NULL}), "write one label for each value"
# By type of node, what the templates in its fields must yield: as the key is spelt, of what kinds, and a remedy.
_YIELDS: Mapping[NodeType, Mapping[str, tuple[str, Kinds, str]]] = {
    NodeType.WAIT: {
        "wait": ("duration", frozenset({TEXT}), 'make it text with a unit: string(…) + "s"'),
        "until": ("until", frozenset({TEXT}), _AS_TEXT),
        "zone": ("zone", frozenset({TEXT}), _AS_TEXT),
    },
    NodeType.WAIT_FOR_EVENT: {"event_name": ("event", frozenset({TEXT}), _AS_TEXT)},
    NodeType.MAP: {"over": ("over", frozenset({LIST, MAP}), "give the list, or a map")},
    NodeType.SUBFLOW: {"key": ("key", frozenset({TEXT, NUMBER, NULL}), _AS_TEXT)},
}
_GIVEN_BY: Mapping[str, frozenset[NodeType]] = {
    "item": frozenset({NodeType.MAP}), "index": LOOP_NODES, "last": frozenset({NodeType.REPEAT}),
}  # fmt: skip

Child: TypeAlias = tuple[Json, Json]
"""The input_schema and the output_schema of a workflow that a subflow node runs; None: anything."""


@dataclass(frozen=True, slots=True)
class _Base:
    """What is known of a value that paths begin at.

    Attributes:
        steps: of the path, that lead to it.
        what: in messages.
        is_free: whoever makes it adds names of its own, as handlers do to an error's details.
    """

    form: shapes.Form
    steps: int
    what: str
    is_free: bool = False


_BASES: Mapping[str, _Base] = {
    "run": _Base(shapes.of_schema(_RUN), 1, "run"),
    "outcome": _Base(shapes.of_schema(_OUTCOME), 1, "outcome"),
    "error": _Base(shapes.of_schema(_ERROR), 1, "error", is_free=True),
    "state": _Base(shapes.of_schema(_STATE), 3, "a state"),
    "counts": _Base(shapes.of_schema(_COUNTS), 3, "what is counted"),
}


def check_types(
    faults: Faults, source: Source, plan: Plan, children: Mapping[tuple[str, int], Child] | None = None
) -> None:
    """Checks all expressions of a plan, and the values that they make up.

    Args:
        faults: where faults go.
        source: the workflow's text.
        plan: as far as it could be compiled.
        children: what is known of the workflows that it runs, by name and version (0: the one that is deployed).
    """
    _Check(faults, source, plan, children or {}).run()


class _Check:
    """One graph: the workflow's, or one within a node."""

    def __init__(
        self,
        faults: Faults,
        source: Source,
        plan: Plan,
        children: Mapping[tuple[str, int], Child],
        outer: "_Check | None" = None,
        loop: Node | None = None,
    ) -> None:
        self._faults = faults
        self._source = source
        self.plan = plan
        self._children = children
        self._outer = outer
        self._loop = loop
        self.root: _Check = self if outer is None else outer.root
        self._bodies = {
            node.id: _Check(faults, source, node.body, children, self, node)
            for node in plan.nodes.values()
            if node.body is not None
        }
        self._outputs: dict[str, shapes.Form] = {}
        self._variables: dict[str, shapes.Form] = {}
        self._form_at = cache(self._find_form)
        self._known = cache(self._find_known)

    def run(self) -> None:
        for node in self.plan.nodes.values():
            self._check_node(node)
        for edge in self.plan.edges:
            if edge.when is not None:
                self.check(edge.when, None)
        for name, template in self.plan.labels.items():
            for used in _used_in(template):
                self.check(used, None)
            self._expect(f"the label {name}", template, *_LABEL)
        for body in self._bodies.values():
            body.run()

    def _check_node(self, node: Node) -> None:
        payload = shapes.of_schema(node.payload_schema)
        for each in fields(node):
            value: object = getattr(node, each.name)
            if value is None or isinstance(value, str | int | Plan):
                continue
            where = self if each.name == "over" else self._bodies.get(node.id, self)
            for used in _used_in(value):
                where.check(used, payload if each.name == "filter" else None)
        for field, (key, kinds, remedy) in _YIELDS.get(node.type, {}).items():
            self._expect(key, cast("Template | None", getattr(node, field)), kinds, remedy)
        if node.type is NodeType.HTTP and isinstance(node.input, Object):
            for key, (kinds, remedy) in _REQUEST.items():
                self._expect(key, node.input.entries.get(key), kinds, remedy)
            headers = node.input.entries.get("headers")
            for name, template in headers.entries.items() if isinstance(headers, Object) else ():
                self._expect(f"the header {name}", template, *_HEADER)
        self._check_contracts(node)

    def _check_contracts(self, node: Node) -> None:
        """Meets values that surely break the schema which holds of them; constants are met where they are read."""
        for name, template in node.values.items():
            if schema := (self.root.plan.variables or {}).get(name):
                self._hold_against(f"{name} breaks its schema in vars", template, schema)
        if node.type is NodeType.FINISH and node.outcome == "succeeded" and node.output is not None:
            what = f"the output of {node.id} breaks output_schema"
            self._hold_against(what, node.output, self.root.plan.output_schema)
        if node.input is not None and (child := self._child_of(node)) is not None:
            what = f"the input breaks input_schema of {node.child_workflow}"
            self._hold_against(what, node.input, child[0])

    def _hold_against(self, what: str, template: Template, schema: Json) -> None:
        if isinstance(template, Literal):
            return
        if problem := shapes.misfit(self.form_of(template), shapes.of_schema(schema)):
            self._say(template, f"{what}: {problem}", "give a value that fits")

    def check(self, used: _Used, payload: shapes.Form | None) -> None:
        if isinstance(used, Reference):
            self._check_path(used.path, used.place, payload)
            return
        expression = used.expression if isinstance(used, Computed) else used
        syntax = compile_expression(expression.source).syntax
        for read in syntax.reads:
            self._check_path(read.path, self._place(expression, read.offset), payload)
        judge = Judge(self._knower(payload))
        result = judge.judge(syntax.root)
        for misfit in judge.misfits:
            place = self._place(expression, misfit.offset)
            self._faults.add(place, Code.TYPE_MISMATCH, misfit.message, misfit.remedy)
        if used is expression and result.kinds is not None and BOOLEAN not in result.kinds:
            message = f"a condition must be true or false, this is {words_for(result.kinds)}"
            remedy = "compare it with something: == … or > …"
            self._faults.add(expression.place, Code.NOT_A_CONDITION, message, remedy)

    def _knower(self, payload: shapes.Form | None = None) -> Callable[[VariablePath], Known]:
        def know(path: VariablePath) -> Known:
            if path[0] == "payload":
                return shapes.known(_descend(payload or shapes.ANY, path[1:]))
            return self._known(path)

        return know

    def _check_path(self, path: VariablePath, place: Place, payload: shapes.Form | None) -> None:
        base = self._base(path, payload)
        if base is None:
            return
        form = base.form
        for at in range(base.steps, len(path)):
            if not form:
                return
            kinds = shapes.known(form).kinds
            if kinds is not None and MAP not in kinds:
                message = f"{spell(path[:at])} is {words_for(kinds)}: it has no field {path[at]}"
                is_counted = path[at] in _COUNTED and not kinds - {TEXT, LIST}
                remedy = f"write size({spell(path[:at])})" if is_counted else f"write {spell(path[:at])}"
                self._faults.add(place, Code.TYPE_MISMATCH, message, remedy)
                return
            member = shapes.member(form, path[at])
            close = nearest(path[at], member.others)()
            if member.is_excluded:
                message = f"{base.what} has no {spell(path[base.steps : at + 1])}"
                self._faults.add(place, Code.UNKNOWN_REFERENCE, message, close)
                return
            is_unknown = not member.form and path[at] not in member.others
            if is_unknown and not base.is_free and close.startswith("did you mean"):
                message = f"{base.what} does not speak of {spell(path[base.steps : at + 1])}"
                self._faults.add(place, Code.UNKNOWN_REFERENCE, message, close, warning=True)
                return
            form = member.form

    def _find_form(self, path: VariablePath) -> shapes.Form:
        base = self._base(path, None)
        return shapes.ANY if base is None else _descend(base.form, path[base.steps :])

    def _find_known(self, path: VariablePath) -> Known:
        return shapes.known(self._form_at(path))

    def _base(self, path: VariablePath, payload: shapes.Form | None) -> _Base | None:
        base: _Base | None = None
        match path:
            case ("run" | "outcome", name, *_) if name not in (*language.RUN_FIELDS, *language.OUTCOME_FIELDS):
                pass  # said where names are checked
            case (("run" | "outcome" | "error") as name, *_):
                base = _BASES[name]
            case ("input", *_):
                base = _Base(shapes.of_schema(self.root.plan.input_schema), 1, "the input")
            case ("payload", *_) if payload is not None:
                base = _Base(payload, 1, "the payload")
            case ("nodes", name, "output", *_) if form := self.output_of(name):
                base = _Base(form, 3, f"the output of {name}")
            case ("nodes", _, ("state" | "counts") as name, *_):
                base = _BASES[name]
            case ("vars", name, *_):
                base = _Base(self.root.variable(name), 2, name)
            case (("item" | "index" | "last") as what, *_):
                base = _Base(self.given(what, None), 1, what)
            case ("loops", name, ("item" | "index" | "last") as what, *_):
                base = _Base(self.given(what, name), 3, spell(path[:3]))
            case _:
                pass
        return base

    def given(self, what: str, name: str | None) -> shapes.Form:
        """What the map or repeat of that name gives, or the innermost one that gives it."""
        loop, outer = self._loop, self._outer
        if loop is None or outer is None:
            return shapes.ANY
        if loop.id == FINALLY or loop.type not in _GIVEN_BY[what] or name not in (None, loop.id):
            return outer.given(what, name)
        match what:
            case "index":
                return _INDEX
            case "item":
                return outer.item_of(loop)
            case _:
                return outer.output_of(loop.id)

    def item_of(self, node: Node) -> shapes.Form:
        over = shapes.ANY if node.over is None else self.form_of(node.over)
        kinds = shapes.known(over).kinds
        if kinds is None:
            return shapes.ANY
        return shapes.either([*([shapes.items(over)] if LIST in kinds else []), *([_ENTRY] if MAP in kinds else [])])

    def output_of(self, name: str) -> shapes.Form:
        """What a node yields, here or further out."""
        if name not in self.plan.nodes:
            return shapes.ANY if self._outer is None else self._outer.output_of(name)
        if name not in self._outputs:
            self._outputs[name] = shapes.ANY  # while it is asked for: in a graph that goes round in a circle
            self._outputs[name] = self._find_output(self.plan.nodes[name])
        return self._outputs[name]

    def _find_output(self, node: Node) -> shapes.Form:
        if node.output_schema is not None:
            return shapes.of_schema(node.output_schema, *([_HTTP] if node.type is NodeType.HTTP else []))
        found = _OUTPUTS.get(node.type, shapes.ANY)
        payload = shapes.of_schema(node.payload_schema)
        match node.type:
            case NodeType.WAIT_FOR_EVENT:
                found = payload if node.count is None else (shapes.Listed(payload),)
            case NodeType.SET:
                found = (shapes.Made({name: self.form_of(value) for name, value in node.values.items()}),)
            case NodeType.JOIN:
                sources = [self.plan.edges[index].source for index in self.plan.incoming.get(node.id, ())]
                found = (shapes.Made({name: _or_null(self.output_of(name)) for name in sources}, sure=False),)
            case NodeType.MAP:
                found = (shapes.Listed(_or_null(self._result_of(node))),)
            case NodeType.REPEAT:
                found = _or_null(self._result_of(node))
            case NodeType.SUBFLOW:
                child = self._child_of(node)
                found = _DETACHED if node.detach else found if child is None else shapes.of_schema(child[1])
            case _:
                pass
        return found

    def _result_of(self, node: Node) -> shapes.Form:
        """What an item or iteration of a map or repeat gives."""
        body = self._bodies.get(node.id)
        if body is None:
            return shapes.ANY
        if node.output is not None:
            return body.form_of(node.output)
        ends = _ends_of(body.plan)
        return body.output_of(ends[0]) if len(ends) == 1 else shapes.ANY

    def _child_of(self, node: Node) -> Child | None:
        return self._children.get((node.child_workflow, node.child_version))

    def variable(self, name: str) -> shapes.Form:
        if schema := (self.plan.variables or {}).get(name):
            return shapes.of_schema(schema)
        if name not in self._variables:
            self._variables[name] = shapes.ANY  # while it is asked for: it may be set from itself
            self._variables[name] = shapes.either([*self.set_to(name)])
        return self._variables[name]

    def set_to(self, name: str) -> Iterator[shapes.Form]:
        for node in self.plan.nodes.values():
            if name in node.values:
                yield self.form_of(node.values[name])
        for body in self._bodies.values():
            yield from body.set_to(name)

    def form_of(self, template: Template) -> shapes.Form:
        match template:
            case Literal(value=value):
                return shapes.of_value(value)
            case Reference(path=()):
                return shapes.ANY
            case Reference(path=path):
                return self._form_at(path)
            case Computed(expression=expression):
                syntax = compile_expression(expression.source).syntax
                return shapes.of_kinds(Judge(self._knower()).judge(syntax.root).kinds)
            case Text():
                return _TEXTS
            case Object(entries=entries):
                return (shapes.Made({key: self.form_of(value) for key, value in entries.items()}),)
            case Array(items=items):
                return (shapes.Listed(shapes.either([self.form_of(item) for item in items])),)

    def _expect(self, key: str, template: Template | None, wanted: Kinds, remedy: str) -> None:
        if template is None or isinstance(template, Literal) or wanted is None:
            return
        kinds = shapes.known(self.form_of(template)).kinds
        if kinds is not None and not wanted & kinds:
            self._say(template, f"{key} must be {words_for(wanted - {NULL})}, this is {words_for(kinds)}", remedy)

    def _say(self, template: Template, message: str, remedy: str) -> None:
        """Says what is wrong with a whole value, where its first expression stands; not if one of them is wrong."""
        extents = [_extent(used) for used in _used_in(template)]
        if all(length and not self._faults.has_error_within(place, length) for place, length in extents):
            self._faults.add(extents[0][0], Code.TYPE_MISMATCH, message, remedy)

    def _place(self, expression: Expression, offset: int) -> Place:
        """Where a character of an expression stands; the expression itself where it is escaped or folded."""
        begin = self._source.index(expression.place)
        if not self._source.text.startswith(expression.source, begin):
            return expression.place
        return self._source.place(begin + offset)


def _or_null(form: shapes.Form) -> shapes.Form:
    """What is there if something succeeded, else null."""
    return shapes.either((form, _NULL))


def _ends_of(body: Plan) -> list[str]:
    """The nodes that nothing follows, but for those that end the run or undo others."""
    undoing = {node.compensate for node in body.nodes.values()}
    going_on = (name for name, node in body.nodes.items() if node.type is not NodeType.FINISH and name not in undoing)
    return [name for name in going_on if not body.outgoing.get(name)]


def _descend(form: shapes.Form, path: Sequence[str]) -> shapes.Form:
    for step in path:
        form = shapes.member(form, step).form
    return form


def _extent(used: _Used) -> tuple[Place, int]:
    """Where an expression stands, and how many characters it has; none: it could not be read."""
    if isinstance(used, Reference):
        return used.place, len(spell(used.path)) if used.path else 0
    expression = used.expression if isinstance(used, Computed) else used
    return expression.place, len(expression.source)


def _used_in(part: object) -> Iterator[_Used]:
    """Yields the expressions in a part of a plan, wherever its fields hold any."""
    if isinstance(part, Expression | Computed | Reference):
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
