"""Plans to and from JSON-able data, exactly.

A stored plan outlives the code that wrote it, so it carries a format number, and every template is tagged with its
kind: user data sits only behind the tag `literal` (or as the plain parts of a text), where nothing looks for
templates. This module decides nothing and reads no YAML.
"""

from collections.abc import Callable, Mapping
from typing import TypedDict, TypeVar

from headway.coordinator.core.plan import (
    FORMAT,
    Array,
    Backoff,
    Case,
    Computed,
    Edge,
    EdgeKind,
    Expression,
    Json,
    Literal,
    Node,
    NodeType,
    Object,
    OnFailure,
    Place,
    Plan,
    Reference,
    RetryPolicy,
    RetryRule,
    Template,
    Text,
    TimeOuts,
    Tries,
    VariablePath,
)

S = TypeVar("S")
T = TypeVar("T")


class _TriesFields(TypedDict):
    max_attempts: int
    backoff: Backoff
    initial_ms: int
    factor: float
    max_ms: int
    jitter: float


class PlanUnreadable(ValueError):
    """The stored plan is not one that this version of Headway can read."""

    reason = "PLAN_UNREADABLE"


def encode_plan(plan: Plan) -> dict[str, Json]:
    """Returns the plan as data for `json` or `orjson`; fields with their default are left out of nodes and edges."""
    return {
        "format": FORMAT,
        "workflow": plan.workflow,
        "nodes": [_encode_node(node) for node in plan.nodes.values()],
        "edges": [_encode_edge(edge) for edge in plan.edges],
        "input_schema": plan.input_schema,
        "output_schema": plan.output_schema,
        "variables": None if plan.variables is None else dict(plan.variables),
        "deadline_ms": plan.deadline_ms,
        "on_failure": plan.on_failure.value,
        "labels": {name: encode_template(value) for name, value in plan.labels.items()},
        "retention_ms": dict[str, Json](plan.retention_ms),
        "outgoing": {node: list[Json](edges) for node, edges in plan.outgoing.items()},
        "incoming": {node: list[Json](edges) for node, edges in plan.incoming.items()},
    }


def decode_plan(data: Mapping[str, Json]) -> Plan:
    """Returns the plan that `encode_plan` was given.

    Raises:
        PlanUnreadable: the format number is unknown or the data was not made by `encode_plan`.
    """
    if data.get("format") != FORMAT:
        message = f"plan format {data.get('format')!r}; this version of Headway reads format {FORMAT}"
        raise PlanUnreadable(message)
    try:
        nodes = [_decode_node(_entries(node)) for node in _items(data["nodes"])]
        return Plan(
            workflow=_text(data["workflow"]),
            nodes={node.id: node for node in nodes},
            edges=tuple(_decode_edge(_entries(edge)) for edge in _items(data["edges"])),
            input_schema=data["input_schema"],
            output_schema=data["output_schema"],
            variables=_optional(data["variables"], _entries),
            deadline_ms=_optional(data["deadline_ms"], _integer),
            on_failure=OnFailure(data["on_failure"]),
            labels={name: decode_template(value) for name, value in _entries(data["labels"]).items()},
            retention_ms={state: _integer(kept) for state, kept in _entries(data["retention_ms"]).items()},
            outgoing=_decode_indexes(data["outgoing"]),
            incoming=_decode_indexes(data["incoming"]),
        )
    except (KeyError, ValueError) as error:
        message = f"plan cannot be read: {error!r}"
        raise PlanUnreadable(message) from error


# Templates


def encode_template(template: Template) -> dict[str, Json]:
    """Returns the template as a map with one key, its kind."""
    match template:
        case Literal(value=value):
            return {"literal": value}
        case Reference(path=path, place=place):
            return {"reference": {"path": list[Json](path), "place": _encode_place(place)}}
        case Computed(expression=expression):
            return {"computed": _encode_expression(expression)}
        case Text(parts=parts):
            return {"text": [part if isinstance(part, str) else encode_template(part) for part in parts]}
        case Object(entries=entries):
            return {"object": {key: encode_template(entry) for key, entry in entries.items()}}
        case Array(items=items):
            return {"array": [encode_template(item) for item in items]}


def decode_template(data: Json) -> Template:
    """Returns the template that `encode_template` was given.

    Raises:
        PlanUnreadable: not a tagged template.
    """
    entries = _entries(data)
    if len(entries) != 1:
        message = f"a template has one tag, not {len(entries)}"
        raise PlanUnreadable(message)
    ((tag, body),) = entries.items()
    match tag:
        case "literal":
            return Literal(value=body)
        case "reference":
            reference = _entries(body)
            return Reference(path=_path(reference["path"]), place=_decode_place(reference["place"]))
        case "computed":
            return Computed(expression=_decode_expression(body))
        case "text":
            return Text(parts=tuple(_decode_part(part) for part in _items(body)))
        case "object":
            return Object(entries={key: decode_template(entry) for key, entry in _entries(body).items()})
        case "array":
            return Array(items=tuple(decode_template(item) for item in _items(body)))
        case _:
            message = f"unknown kind of template: {tag!r}"
            raise PlanUnreadable(message)


def _decode_part(data: Json) -> str | Reference | Computed:
    if isinstance(data, str):
        return data
    part = decode_template(data)
    if isinstance(part, Reference | Computed):
        return part
    message = f"a text cannot hold a {type(part).__name__}"
    raise PlanUnreadable(message)


def _encode_expression(expression: Expression) -> dict[str, Json]:
    return {
        "source": expression.source,
        "reads": [list[Json](path) for path in expression.reads],
        "parts": [list[Json](path) for path in expression.parts],
        "tests": [list[Json](path) for path in expression.tests],
        "place": _encode_place(expression.place),
    }


def _decode_expression(data: Json) -> Expression:
    entries = _entries(data)
    return Expression(
        source=_text(entries["source"]),
        reads=tuple(_path(path) for path in _items(entries["reads"])),
        parts=tuple(_path(path) for path in _items(entries["parts"])),
        tests=tuple(_path(path) for path in _items(entries["tests"])),
        place=_decode_place(entries["place"]),
    )


def _encode_place(place: Place) -> list[Json]:
    return [place.line, place.column]


def _decode_place(data: Json) -> Place:
    line, column = _items(data)
    return Place(line=_integer(line), column=_integer(column))


# Nodes and edges


def _encode_node(node: Node) -> dict[str, Json]:
    changed = {key: value for key, value in _node_fields(node).items() if value != _NODE_DEFAULTS[key]}
    return {"id": node.id, "type": node.type.value} | changed


def _node_fields(node: Node) -> dict[str, Json]:
    return {
        "input": _optional(node.input, encode_template),
        "handler": node.handler,
        "queue": node.queue,
        "lease_ms": node.lease_ms,
        "retry": _encode_retry(node.retry),
        "timeouts": _encode_timeouts(node.timeouts),
        "optional": node.optional,
        "output_schema": node.output_schema,
        "compensate": node.compensate,
        "cases": [{"when": _encode_expression(case.when), "edge": case.edge} for case in node.cases],
        "default_edge": node.default_edge,
        "need": node.need,
        "cancels_rest": node.cancels_rest,
        "values": {name: encode_template(value) for name, value in node.values.items()},
        "outcome": node.outcome,
        "output": _optional(node.output, encode_template),
        "message": _optional(node.message, encode_template),
        "wait_ms": node.wait_ms,
        "wait": _optional(node.wait, encode_template),
        "until": _optional(node.until, encode_template),
        "zone": _optional(node.zone, encode_template),
        "event": node.event,
        "event_name": _optional(node.event_name, encode_template),
        "filter": _optional(node.filter, _encode_expression),
        "payload_schema": node.payload_schema,
        "count": node.count,
        "reuse": node.reuse,
        "body": _optional(node.body, encode_plan),
        "over": _optional(node.over, encode_template),
        "where": _optional(node.where, _encode_expression),
        "max_concurrency": node.max_concurrency,
        "tolerate": node.tolerate,
        "tolerate_percent": node.tolerate_percent,
        "ends_when": _optional(node.ends_when, _encode_expression),
        "again_while": _optional(node.again_while, _encode_expression),
        "max_iterations": node.max_iterations,
        "keep_last": node.keep_last,
        "child_workflow": node.child_workflow,
        "child_version": node.child_version,
        "detach": node.detach,
        "labels": {name: encode_template(value) for name, value in node.labels.items()},
        "key": _optional(node.key, encode_template),
    }


def _decode_node(data: dict[str, Json]) -> Node:
    entries = _NODE_DEFAULTS | data
    return Node(
        id=_text(entries["id"]),
        type=NodeType(entries["type"]),
        input=_optional(entries["input"], decode_template),
        handler=_text(entries["handler"]),
        queue=_text(entries["queue"]),
        lease_ms=_integer(entries["lease_ms"]),
        retry=_decode_retry(_entries(entries["retry"])),
        timeouts=_decode_timeouts(_entries(entries["timeouts"])),
        optional=entries["optional"] is True,
        output_schema=entries["output_schema"],
        compensate=_optional(entries["compensate"], _text),
        cases=tuple(_decode_case(_entries(case)) for case in _items(entries["cases"])),
        default_edge=_optional(entries["default_edge"], _integer),
        need=_optional(entries["need"], _integer),
        cancels_rest=entries["cancels_rest"] is True,
        values={name: decode_template(value) for name, value in _entries(entries["values"]).items()},
        outcome=_text(entries["outcome"]),
        output=_optional(entries["output"], decode_template),
        message=_optional(entries["message"], decode_template),
        wait_ms=_optional(entries["wait_ms"], _integer),
        wait=_optional(entries["wait"], decode_template),
        until=_optional(entries["until"], decode_template),
        zone=_optional(entries["zone"], decode_template),
        event=_text(entries["event"]),
        event_name=_optional(entries["event_name"], decode_template),
        filter=_optional(entries["filter"], _decode_expression),
        payload_schema=entries["payload_schema"],
        count=_optional(entries["count"], _integer),
        reuse=entries["reuse"] is True,
        body=_optional(entries["body"], lambda body: decode_plan(_entries(body))),
        over=_optional(entries["over"], decode_template),
        where=_optional(entries["where"], _decode_expression),
        max_concurrency=_integer(entries["max_concurrency"]),
        tolerate=_integer(entries["tolerate"]),
        tolerate_percent=_number(entries["tolerate_percent"]),
        ends_when=_optional(entries["ends_when"], _decode_expression),
        again_while=_optional(entries["again_while"], _decode_expression),
        max_iterations=_integer(entries["max_iterations"]),
        keep_last=_optional(entries["keep_last"], _integer),
        child_workflow=_text(entries["child_workflow"]),
        child_version=_integer(entries["child_version"]),
        detach=bool(entries["detach"]),
        labels={name: decode_template(value) for name, value in _entries(entries["labels"]).items()},
        key=_optional(entries["key"], decode_template),
    )


def _encode_edge(edge: Edge) -> dict[str, Json]:
    encoded: dict[str, Json] = {"index": edge.index, "source": edge.source, "target": edge.target, "on": edge.on.value}
    if edge.errors:
        encoded["errors"] = list[Json](edge.errors)
    if edge.when is not None:
        encoded["when"] = _encode_expression(edge.when)
    if edge.reach:
        encoded["reach"] = list[Json](sorted(edge.reach))
    return encoded


def _decode_edge(data: dict[str, Json]) -> Edge:
    return Edge(
        index=_integer(data["index"]),
        source=_text(data["source"]),
        target=_text(data["target"]),
        on=EdgeKind(data["on"]),
        errors=_path(data.get("errors", [])),
        when=_optional(data.get("when"), _decode_expression),
        reach=frozenset(_path(data.get("reach", []))),
    )


def _decode_case(data: dict[str, Json]) -> Case:
    return Case(when=_decode_expression(data["when"]), edge=_integer(data["edge"]))


def _encode_retry(retry: RetryPolicy) -> dict[str, Json]:
    encoded = _encode_tries(retry)
    encoded["rules"] = [_encode_rule(rule) for rule in retry.rules]
    encoded["budget_ms"], encoded["max_losses"] = retry.budget_ms, retry.max_losses
    return encoded


def _encode_rule(rule: RetryRule) -> Json:
    encoded = _encode_tries(rule)
    encoded["errors"] = list[Json](rule.errors)
    return encoded


def _encode_tries(tries: Tries) -> dict[str, Json]:
    return {
        "max_attempts": tries.max_attempts,
        "backoff": tries.backoff.value,
        "initial_ms": tries.initial_ms,
        "factor": tries.factor,
        "max_ms": tries.max_ms,
        "jitter": tries.jitter,
    }


def _decode_retry(data: dict[str, Json]) -> RetryPolicy:
    return RetryPolicy(
        **_decode_tries(data),
        rules=tuple(_decode_rule(_entries(rule)) for rule in _items(data["rules"])),
        budget_ms=_optional(data["budget_ms"], _integer),
        max_losses=_integer(data["max_losses"]),
    )


def _decode_rule(data: dict[str, Json]) -> RetryRule:
    return RetryRule(**_decode_tries(data), errors=_path(data["errors"]))


def _decode_tries(data: dict[str, Json]) -> _TriesFields:
    return {
        "max_attempts": _integer(data["max_attempts"]),
        "backoff": Backoff(data["backoff"]),
        "initial_ms": _integer(data["initial_ms"]),
        "factor": _number(data["factor"]),
        "max_ms": _integer(data["max_ms"]),
        "jitter": _number(data["jitter"]),
    }


def _encode_timeouts(timeouts: TimeOuts) -> dict[str, Json]:
    return {
        "attempt_ms": timeouts.attempt_ms,
        "queue_ms": timeouts.queue_ms,
        "total_ms": timeouts.total_ms,
        "heartbeat_ms": timeouts.heartbeat_ms,
        "stall_ms": timeouts.stall_ms,
    }


def _decode_timeouts(data: dict[str, Json]) -> TimeOuts:
    return TimeOuts(
        attempt_ms=_optional(data["attempt_ms"], _integer),
        queue_ms=_optional(data["queue_ms"], _integer),
        total_ms=_optional(data["total_ms"], _integer),
        heartbeat_ms=_optional(data["heartbeat_ms"], _integer),
        stall_ms=_optional(data["stall_ms"], _integer),
    )


def _decode_indexes(data: Json) -> dict[str, tuple[int, ...]]:
    return {node: tuple(_integer(index) for index in _items(indexes)) for node, indexes in _entries(data).items()}


# Values of a known kind


def _optional(value: S | None, convert: Callable[[S], T]) -> T | None:
    return None if value is None else convert(value)


def _unexpected(wanted: str, value: Json) -> PlanUnreadable:
    return PlanUnreadable(f"expected {wanted}, found {type(value).__name__}")


def _entries(value: Json) -> dict[str, Json]:
    if isinstance(value, dict):
        return value
    raise _unexpected("a map", value)


def _items(value: Json) -> list[Json]:
    if isinstance(value, list):
        return value
    raise _unexpected("a list", value)


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    raise _unexpected("a text", value)


def _integer(value: Json) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _unexpected("an integer", value)


def _number(value: Json) -> float:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return value
    raise _unexpected("a number", value)


def _path(value: Json) -> VariablePath:
    return tuple(_text(step) for step in _items(value))


_NODE_DEFAULTS = _node_fields(Node(id="", type=NodeType.CALL))
