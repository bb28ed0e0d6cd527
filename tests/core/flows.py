"""Makes plans for tests: from YAML where a reader shall see the workflow, from parts where a generator makes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from textwrap import dedent

from headway.coordinator.core.cel import references
from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan import (
    Computed,
    Edge,
    EdgeKind,
    Expression,
    Json,
    Node,
    OnFailure,
    Place,
    Plan,
    Reference,
    Template,
    VariablePath,
)

_NOWHERE = Place(line=1, column=1)


def workflow(text: str) -> Graph:
    """The graph of a workflow written in YAML; `workflow:` may be left out."""
    source = dedent(text)
    if "workflow:" not in source:
        source = "workflow: example\n" + source
    result = compile_workflow(source)
    assert result.plan is not None, [str(fault) for fault in result.faults]
    return Graph(result.plan)


def plan(
    nodes: Iterable[Node],
    edges: Iterable[Edge],
    *,
    deadline_ms: int | None = None,
    on_failure: OnFailure = OnFailure.STOP,
    output_schema: Json = None,
    variables: Mapping[str, Json] | None = None,
    labels: Mapping[str, Template] | None = None,
) -> Plan:
    """A plan from its parts, the nodes in an order that all edges follow; indexes and reach are worked out here."""
    by_id = {node.id: node for node in nodes}
    numbered = [replace(edge, index=index) for index, edge in enumerate(edges)]
    outgoing = {name: tuple(edge.index for edge in numbered if edge.source == name) for name in by_id}
    incoming = {name: tuple(edge.index for edge in numbered if edge.target == name) for name in by_id}
    reach = _reach(by_id, numbered)
    return Plan(
        workflow="generated",
        nodes=by_id,
        edges=tuple(
            replace(edge, reach=reach[edge.target]) if edge.on in (EdgeKind.FAILURE, EdgeKind.TIMEOUT) else edge
            for edge in numbered
        ),
        deadline_ms=deadline_ms,
        on_failure=on_failure,
        output_schema=output_schema,
        variables=variables,
        labels=labels or {},
        outgoing=outgoing,
        incoming=incoming,
    )


def _reach(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> dict[str, frozenset[str]]:
    reach = {name: frozenset({name}) for name in nodes}
    for name in reversed(list(nodes)):
        for edge in edges:
            if edge.source == name:
                reach[name] |= reach[edge.target]
    return reach


def edge(
    source: str, target: str, on: EdgeKind = EdgeKind.SUCCESS, *, errors: tuple[str, ...] = (), when: str | None = None
) -> Edge:
    """An edge whose index is not known yet."""
    condition = None if when is None else expression(when)
    return Edge(index=0, source=source, target=target, on=on, errors=errors, when=condition)


@lru_cache
def expression(source: str) -> Expression:
    """A CEL expression."""
    found = references(source)
    return Expression(source=source, reads=found.reads, parts=found.parts, tests=found.tests, place=_NOWHERE)


def computed(source: str) -> Computed:
    """`${ … }` that CEL computes."""
    return Computed(expression=expression(source))


def reference(path: str) -> Reference:
    """`${a.b.c}`."""
    steps: VariablePath = tuple(path.split("."))
    return Reference(path=steps, place=_NOWHERE)
