"""What random workflows are made of: everything that the language has a key for, but for what is excused here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.language import Field
from headway.coordinator.core.plan import (
    FINALLY,
    Backoff,
    Edge,
    Node,
    NodeType,
    Object,
    Plan,
    RetryPolicy,
    TimeOuts,
    Tries,
)
from tests.core.generated import Seeded, workflow

SEEDS = 400
OF_PLAN = {"workflow": "workflow", "vars": "variables", "deadline": "deadline_ms"}
OF_EDGE = {"from": "source", "to": "target"}
OF_NODE = {
    "workflow": "child_workflow",
    "version": "child_version",
    "default": "default_edge",
    "rest": "cancels_rest",
    "until": "ends_when",
    "while": "again_while",
    "delay": "wait_ms",
    "lease": "lease_ms",
    "timeout": "timeouts",
}
TABLES: Mapping[str, tuple[Field, ...]] = {
    "workflow": language.WORKFLOW,
    "edge": language.EDGE,
    "case": language.CASE,
    "request": language.REQUEST,
    "retry": language.RETRY,
    "retry rule": language.RETRY_RULE,
    "timeout": language.TIMEOUT,
    "defaults": language.DEFAULTS,
    "retention": language.RETENTION,
    "body": language.BODY,
    "finally": language.LAST,
    "tolerate": language.TOLERATE,
} | {str(type_): kind.fields for type_, kind in language.NODES.items()}
WORDS = {
    (name, field.name): frozenset(map(str, field.words))
    for name, table in TABLES.items()
    for field in table
    if field.words and field.name != "type"
}
EXCUSED = {
    "workflow.description": "for people: no plan has it",
    "workflow.input_schema": "looked at before there is a run",
    "workflow.retention": "looked at when the run is over",
    "retention.succeeded": "likewise",
    "retention.failed": "likewise",
    "retention.cancelled": "likewise",
    "workflow.defaults": "the compiler puts them into nodes",
    "defaults.queue": "likewise",
    "defaults.retry": "likewise",
    "defaults.timeout": "likewise",
}
EXCUSED_WORDS = {
    ("request", "method"): "passed on to the handler as it is",
    ("join", "rest"): "two values of cancels_rest",
}


def test_random_workflows_use_every_key_of_the_language() -> None:
    used = {key for seed in range(SEEDS) for key, _ in _keys(workflow(Seeded(seed)).plan)}

    wanted = {f"{table}.{field.name}" for table, keys in TABLES.items() for field in keys}
    assert wanted - used - EXCUSED.keys() == set()
    assert EXCUSED.keys() <= wanted, "what the language does not have needs no excuse"
    assert used & EXCUSED.keys() == set(), "what is used needs no excuse"


def test_random_workflows_use_every_word_of_the_language() -> None:
    used: dict[tuple[str, str], set[str]] = {}
    for seed in range(SEEDS):
        for key, value in _keys(workflow(Seeded(seed)).plan):
            table, _, name = key.rpartition(".")
            used.setdefault((table, name), set()).add(str(value))

    missing = {key: words - used.get(key, set()) for key, words in WORDS.items() if key not in EXCUSED_WORDS}
    assert {key: words for key, words in missing.items() if words} == {}


def _keys(plan: Plan) -> Iterator[tuple[str, object]]:
    """Each key that a workflow would have to be written with, and its value."""
    yield from _differing("workflow", plan, Plan, OF_PLAN)
    yield "workflow.on_failure", plan.on_failure
    for node in plan.nodes.values():
        yield from _finally(node) if node.id == FINALLY else ()
    yield from _graph(plan)


def _finally(node: Node) -> Iterator[tuple[str, object]]:
    yield "workflow.finally", True
    yield from (("finally.nodes", True), ("finally.edges", bool(node.body and node.body.edges)))
    if node.timeouts.total_ms is not None:
        yield "finally.timeout", True


def _graph(plan: Plan) -> Iterator[tuple[str, object]]:
    for edge in plan.edges:
        yield from _differing("edge", edge, Edge, OF_EDGE)
        yield "edge.on", edge.on
    for node in plan.nodes.values():
        if node.id != FINALLY:
            yield from _node(node)
        if node.body is not None:
            yield "body.nodes", True
            yield from [("body.edges", True)] if node.body.edges else []
            yield from _graph(node.body)


def _node(node: Node) -> Iterator[tuple[str, object]]:
    table = str(node.type)
    yield from ((f"{table}.{name}", value) for name, value in _fields_of(node))
    yield f"{table}.outcome", node.outcome
    for case in node.cases:
        yield from (("case.when", case.when), ("case.to", case.edge))
    yield from _differing("timeout", node.timeouts, TimeOuts, {})
    if node.retry != RetryPolicy():
        yield from _tries("retry", node.retry, RetryPolicy)
    for rule in node.retry.rules:
        yield "retry rule.errors", rule.errors
        yield from _tries("retry rule", rule, Tries)
    if node.type is NodeType.MAP:
        yield from [("tolerate.count", True)] * bool(node.tolerate)
        yield from [("tolerate.percent", True)] * bool(node.tolerate_percent)
    if node.type is NodeType.HTTP and isinstance(node.input, Object):
        yield from ((f"request.{name}", True) for name in node.input.entries)


def _tries(table: str, tries: Tries, kind: type) -> Iterator[tuple[str, object]]:
    yield from _differing(table, tries, kind, {"initial": "initial_ms", "max": "max_ms", "budget": "budget_ms"})
    yield f"{table}.backoff", Backoff(tries.backoff)


Seen = Callable[[Node], object]
SEEN: Mapping[tuple[NodeType, str], Seen] = {
    (NodeType.HTTP, "request"): lambda node: node.input,
    (NodeType.PYTHON, "code"): lambda node: isinstance(node.input, Object) and "code" in node.input.entries,
    (NodeType.WAIT, "duration"): lambda node: node.wait_ms or node.wait,
    (NodeType.WAIT, "until"): lambda node: node.until,
    (NodeType.MAP, "tolerate"): lambda node: node.tolerate or node.tolerate_percent,
    (NodeType.WAIT_FOR_EVENT, "event"): lambda node: node.event or node.event_name,
}


def _fields_of(node: Node) -> Iterator[tuple[str, object]]:
    defaults = Node(id="", type=node.type)
    for field in language.NODES[node.type].fields:
        seen = SEEN.get((node.type, field.name))
        attribute = OF_NODE.get(field.name, field.name)
        is_used = seen(node) if seen is not None else getattr(node, attribute) != getattr(defaults, attribute, None)
        if is_used or field.name == "type":
            yield field.name, node.type if field.name == "type" else True


def _differing(table: str, thing: object, kind: type, names: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """The keys whose fields of a dataclass are not what they are by default; those without a default are used."""
    of_field = {attribute: name for name, attribute in names.items()}
    for field in fields(kind):
        value = getattr(thing, field.name)
        given = field.default_factory() if callable(field.default_factory) else field.default
        if value != given:
            name = of_field.get(field.name, field.name.removesuffix("_ms"))
            yield f"{table}.{name}", True
