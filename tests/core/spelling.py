"""Writes a generated workflow as its author would have: what the compiler says of it can be looked at."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from headway.coordinator.core.plan import (
    FINALLY,
    WORKER_NODES,
    Array,
    Backoff,
    Computed,
    Edge,
    EdgeKind,
    Json,
    Literal,
    Node,
    NodeType,
    Object,
    Plan,
    Reference,
    RetryPolicy,
    Template,
    Text,
    Tries,
)


def spell(plan: Plan) -> str:
    """The workflow in JSON, which is YAML. All worker nodes are written as `call`, which is what they are."""
    last = plan.nodes.get(FINALLY)
    written: dict[str, Json] = {"workflow": plan.workflow, "on_failure": plan.on_failure.value, **_graph(plan)}
    if plan.deadline_ms is not None:
        written["deadline"] = _duration(plan.deadline_ms)
    if plan.variables is not None:
        written["vars"] = {**plan.variables}
    if plan.labels:
        written["labels"] = _values(plan.labels)
    written |= _schema("output_schema", plan.output_schema)
    if last is not None and last.body is not None:
        written[FINALLY] = {**_graph(last.body), **_time_out(last)}
    return orjson.dumps(written).decode()


def _graph(plan: Plan) -> dict[str, Json]:
    cases = {case.edge for node in plan.nodes.values() for case in node.cases}
    cases |= {node.default_edge for node in plan.nodes.values() if node.default_edge is not None}
    nodes: dict[str, Json] = {name: _node(plan, node) for name, node in plan.nodes.items() if name != FINALLY}
    return {"nodes": nodes, "edges": [_edge(edge) for edge in plan.edges if edge.index not in cases]}


def _edge(edge: Edge) -> Json:
    written: dict[str, Json] = {"from": edge.source, "to": edge.target}
    if edge.on is not EdgeKind.SUCCESS:
        written["on"] = edge.on.value
    if edge.errors:
        written["errors"] = [*edge.errors]
    if edge.when is not None:
        written["when"] = edge.when.source
    return written


def _node(plan: Plan, node: Node) -> Json:
    is_work = node.type in WORKER_NODES
    written: dict[str, Json] = {"type": NodeType.CALL.value if is_work else node.type.value}
    if node.optional:
        written["optional"] = True
    if node.compensate is not None:
        written["compensate"] = node.compensate
    return written | (_work(node) if is_work else _of_its_type(plan, node))


def _of_its_type(plan: Plan, node: Node) -> dict[str, Json]:  # noqa: PLR0911 - one for each type
    match node.type:
        case NodeType.SWITCH:
            targets = plan.edges
            default = "none" if node.default_edge is None else targets[node.default_edge].target
            cases: list[Json] = [{"when": case.when.source, "to": targets[case.edge].target} for case in node.cases]
            return {"cases": cases, "default": default}
        case NodeType.JOIN:
            rest: dict[str, Json] = {"rest": "cancel"} if node.cancels_rest else {}
            return {**({} if node.need is None else {"need": node.need}), **rest}
        case NodeType.SET:
            return {"values": _values(node.values)}
        case NodeType.FINISH:
            return {"outcome": node.outcome, **_given("output", node.output), **_given("message", node.message)}
        case NodeType.WAIT:
            plain: dict[str, Json] = {} if node.wait_ms is None else {"duration": _duration(node.wait_ms)}
            computed = {**_given("duration", node.wait), **_given("until", node.until), **_given("zone", node.zone)}
            return plain | computed
        case NodeType.WAIT_FOR_EVENT:
            return _event(node)
        case NodeType.SUBFLOW:
            return _subflow(node)
        case NodeType.MAP:
            tolerate: Json = {"percent": node.tolerate_percent} if node.tolerate_percent else node.tolerate
            most: dict[str, Json] = {"max_concurrency": node.max_concurrency, "tolerate": tolerate}
            where: dict[str, Json] = {} if node.where is None else {"where": node.where.source}
            return {**most, **where, **_given("over", node.over), **_body(node)}
        case NodeType.REPEAT:
            return {**_repetition(node), **_body(node)}
        case _:
            raise AssertionError(node.type)


def _subflow(node: Node) -> dict[str, Json]:
    written: dict[str, Json] = {"workflow": node.child_workflow, "retry": _retry(node.retry)}
    written |= _given("input", node.input) | _time_out(node) | _schema("output_schema", node.output_schema)
    if node.detach:
        written["detach"] = True
    if node.child_version:
        written["version"] = node.child_version
    if node.labels:
        written["labels"] = _values(node.labels)
    written |= _given("key", node.key)
    return written


def _work(node: Node) -> dict[str, Json]:
    names = {
        "attempt": node.timeouts.attempt_ms, "queue": node.timeouts.queue_ms, "total": node.timeouts.total_ms,
        "heartbeat": node.timeouts.heartbeat_ms, "stall": node.timeouts.stall_ms,
    }  # fmt: skip
    limits: dict[str, Json] = {name: _duration(ms) for name, ms in names.items() if ms is not None}
    written: dict[str, Json] = {"handler": node.handler, "lease": _duration(node.lease_ms)}
    written |= {"queue": node.queue, "retry": _retry(node.retry), **_given("input", node.input)}
    written |= _schema("output_schema", node.output_schema)
    if limits:
        written["timeout"] = limits
    return written


def _event(node: Node) -> dict[str, Json]:
    written: dict[str, Json] = {"event": node.event} if node.event else _given("event", node.event_name)
    written |= {"reuse": node.reuse} | ({} if node.count is None else {"count": node.count})
    written |= {} if node.filter is None else {"filter": node.filter.source}
    return written | _schema("payload_schema", node.payload_schema) | _time_out(node)


def _repetition(node: Node) -> dict[str, Json]:
    written: dict[str, Json] = {"max_iterations": node.max_iterations}
    if node.ends_when is not None:
        written["until"] = node.ends_when.source
    if node.again_while is not None:
        written["while"] = node.again_while.source
    if node.wait_ms is not None:
        written["delay"] = _duration(node.wait_ms)
    if node.keep_last is not None:
        written["keep_last"] = node.keep_last
    return written


def _body(node: Node) -> dict[str, Json]:
    assert node.body is not None
    return {"body": _graph(node.body), **_given("output", node.output), **_time_out(node)}


def _time_out(node: Node) -> dict[str, Json]:
    return {} if node.timeouts.total_ms is None else {"timeout": _duration(node.timeouts.total_ms)}


def _retry(policy: RetryPolicy) -> Json:
    written = _tries(policy) | {"max_losses": policy.max_losses}
    if policy.budget_ms is not None:
        written["budget"] = _duration(policy.budget_ms)
    if policy.rules:
        written["rules"] = [{"errors": [*rule.errors], **_tries(rule)} for rule in policy.rules]
    return written


def _tries(tries: Tries) -> dict[str, Json]:
    written: dict[str, Json] = {"max_attempts": tries.max_attempts, "backoff": tries.backoff.value}
    written |= {"initial": _duration(tries.initial_ms), "jitter": tries.jitter}
    if tries.backoff is Backoff.EXPONENTIAL:
        written["factor"] = tries.factor
    return written | ({} if tries.backoff is Backoff.FIXED else {"max": _duration(tries.max_ms)})


def _schema(key: str, schema: Json) -> dict[str, Json]:
    return {} if schema is None else {key: schema}


def _duration(ms: int) -> str:
    return f"{ms}ms"


def _given(key: str, template: Template | None) -> dict[str, Json]:
    return {} if template is None else {key: _template(template)}


def _values(templates: Mapping[str, Template]) -> dict[str, Json]:
    return {name: _template(template) for name, template in templates.items()}


def _template(template: Template) -> Json:
    match template:
        case Literal():
            return template.value
        case Reference():
            return "${" + ".".join(map(str, template.path)) + "}"
        case Computed():
            return "${" + template.expression.source + "}"
        case Object():
            return _values(template.entries)
        case Array():
            return [_template(item) for item in template.items]
        case Text():
            return "".join(part if isinstance(part, str) else str(_template(part)) for part in template.parts)
