"""Which rows an event will probably need: loading them at once saves a second question. Being wrong costs nothing."""

from collections.abc import Iterable
from functools import lru_cache

from headway.coordinator.core.events import ChildFinished, RunEvent, RunStarted, SignalReceived
from headway.coordinator.core.graph import Graph, Spot
from headway.coordinator.core.missing import Key
from headway.coordinator.core.paths import inside, loop_of, scopes_around
from headway.coordinator.core.plan import CONTROL_NODES, Expression, Node, Template, VariablePath
from headway.coordinator.core.rows import RUN_INPUT
from headway.coordinator.core.state import LATEST
from headway.coordinator.core.templates import reads

_INPUT_KEY: Key = ("payload", *RUN_INPUT)


def wants(graph: Graph, event: RunEvent) -> frozenset[Key]:
    """Name the rows to load before deciding; the run's own row is always there."""
    if isinstance(event, RunStarted):
        return frozenset()
    if isinstance(event, SignalReceived):
        scattered: set[Key] = {("waits", event.name, 0)} if graph.has_scattered_waits else set()
        named = {("task", path) for path in graph.waits.get(event.name, ())}
        return frozenset({("signals", event.name)} | named | scattered)
    if isinstance(event, ChildFinished):
        return _wants_at(graph, event.path) | {("child", event.path)}
    return _wants_at(graph, getattr(event, "path", ""))


def _wants_at(graph: Graph, path: str) -> frozenset[Key]:
    """The same for what happens to a task; an empty path: none."""
    own = graph.spots.get(path)
    if own is not None and own.node.body is None and path not in graph.undoes:
        return _after(graph, path)
    if not graph.has(path):  # reports may name any path
        return frozenset()
    spot = graph.spot(path)
    if spot.name in spot.graph.undoes:
        return _in_scope(spot) | {("effects", "", LATEST)}
    return _in_scope(spot) | ({("loop", path)} if spot.node.body is not None else set())


def _in_scope(spot: Spot) -> frozenset[Key]:
    """The same for a task of an item or iteration, and the rows that count it, outwards."""
    around = scopes_around(spot.scope)
    keys: set[Key] = set()
    for key in _after(spot.graph, spot.name):
        if key[0] == "payload":
            keys.add(key)
        else:
            keys.add((key[0], _resolve(spot, str(key[1]))))
    for scope in around:
        loop = loop_of(scope)[0]
        keys |= {("scope", scope), ("loop", loop), ("task", loop)}
    for name in spot.graph.starts_that_read:  # of the next item
        for path in _reads(spot.graph.plan.nodes[name]):
            if path[0] == "nodes" and len(path) > 1:
                where = _resolve(spot, path[1])
                keys |= {("task", where), ("loop", where)}
    return frozenset(keys)


def _resolve(spot: Spot, name: str) -> str:
    """The path of a node that an expression in this scope names."""
    graph: Graph | None = spot.graph
    for scope in (*scopes_around(spot.scope), ""):
        if graph is None or name in graph.plan.nodes:
            return inside(scope, name)
        graph = graph.outer
    return name


@lru_cache(maxsize=65_536)
def _after(graph: Graph, name: str) -> frozenset[Key]:
    """The node's own row, and what the nodes behind it need, through control nodes, which are decided at once."""
    keys: set[Key] = {("task", name)}
    seen, frontier = {name}, [name]
    while frontier:
        here = frontier.pop()
        for edge in graph.outgoing[here]:
            if edge.when is not None:
                keys |= _keys_of(edge.when.names)
            if edge.target in graph.gathers:
                keys |= {("token", edge.target), ("task", edge.target)}
            if edge.target in seen:
                continue
            seen.add(edge.target)
            node = graph.plan.nodes[edge.target]
            keys |= _keys_of(_reads(node))
            if node.type in CONTROL_NODES:
                frontier.append(edge.target)
    return frozenset(keys)


def _reads(node: Node) -> Iterable[VariablePath]:
    templates: list[Template] = [
        template
        for template in (node.input, node.message, node.until, node.wait, node.zone, node.over, node.key)
        if template is not None
    ]
    templates.extend(node.values.values())
    templates.extend(node.labels.values())
    if node.output is not None and node.body is None:
        templates.append(node.output)
    for template in templates:
        yield from reads(template)
    if node.event_name is not None:
        yield from reads(node.event_name)
    conditions: Iterable[Expression] = (*(case.when for case in node.cases), *((node.where,) if node.where else ()))
    for condition in conditions:
        yield from condition.names


def _keys_of(paths: Iterable[VariablePath]) -> set[Key]:
    keys: set[Key] = set()
    for path in paths:
        if path[0] == "input":
            keys.add(_INPUT_KEY)
        elif path[0] == "nodes" and len(path) > 1:
            keys.add(("task", path[1]))
    return keys
