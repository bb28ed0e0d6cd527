"""The maps of a source that are no nodes: what keys may stand in each."""

from dataclasses import replace

from headway.coordinator.core.compiler.language import _shared as shared
from headway.coordinator.core.compiler.language._fields import (
    MIN_LEASE_MS,
    MIN_RETENTION_MS,
    Field,
    Kind,
    duration,
)
from headway.coordinator.core.plan import Backoff, EdgeKind, OnFailure, RetryPolicy

_POLICY = RetryPolicy()

WORKFLOW = (
    Field(
        name="workflow",
        kind=Kind.NAME,
        doc="The workflow's name; deploying the same name makes a new version.",
        required=True,
    ),
    Field(name="description", kind=Kind.TEXT, doc="For people."),
    Field(
        name="input_schema",
        kind=Kind.SCHEMA,
        doc=(
            "What a run's input must look like; a start with another input is refused. One that gives "
            "no input has `{}`; null is an input like any other. `$ref` only within the schema, "
            "by place (`#/$defs/name`); "
            "patterns in RE2's syntax."
        ),
        default="anything",
    ),
    shared.output_schema(
        "What the output of a run that succeeds must look like; a run without a `finish` node has the output null. "
        "Another output fails the run with class `verdict_fail`."
    ),
    duration("deadline", "How long a run may take, from its start or its reopening.", default="for ever"),
    Field(
        name="on_failure",
        kind=Kind.WORD,
        words=tuple(OnFailure),
        default=OnFailure.STOP.value,
        doc=(
            "At the first unhandled failure: `stop` starts nothing more, `drain` lets the other "
            "branches go on to their end."
        ),
    ),
    Field(
        name="vars",
        kind=Kind.SCHEMAS,
        doc="What variables must look like. With it, `set` nodes set these and no others.",
        default="anything",
    ),
    Field(
        name="defaults",
        kind=Kind.DEFAULTS,
        doc="What holds for nodes that do not say otherwise.",
        default="none",
    ),
    shared.labels(
        "What its runs can be found by besides, from their input: texts, numbers or booleans; null: no such label."
    ),
    Field(
        name="retention",
        kind=Kind.RETENTION,
        doc="How long finished runs are kept before they are deleted with all that is stored of them.",
        default="for ever",
    ),
    *shared.GRAPH,
    Field(
        name="finally",
        kind=Kind.LAST,
        doc="What runs when all else is over, however the run ended: one node, or a graph of its own.",
        default="nothing",
    ),
)

RETENTION = tuple(
    duration(state, f"From the end of a run that {how}.", default="for ever", least=MIN_RETENTION_MS)
    for state, how in (("succeeded", "succeeded"), ("failed", "failed"), ("cancelled", "was cancelled"))
)

EDGE = (
    Field(name="from", kind=Kind.NODE, doc="Where it begins.", required=True),
    shared.TO,
    Field(
        name="on",
        kind=Kind.WORD,
        words=tuple(EdgeKind),
        default=EdgeKind.SUCCESS.value,
        doc=(
            "Which end of its source it follows. `failure` includes time-outs; `timeout` is only "
            "those; `always` is either."
        ),
    ),
    shared.errors(
        "With `on: failure` or `timeout`: {}, such as `HttpStatus`, that it takes.",
        default="any",
    ),
    shared.when("It is followed only if this holds.", default="true"),
)

CASE = (
    shared.when("The first case whose condition holds is taken."),
    shared.TO,
)

REQUEST = (
    Field(name="url", kind=Kind.TEMPLATE, shape="string", doc="Where to.", required=True),
    Field(
        name="method",
        kind=Kind.WORD,
        doc="The HTTP method.",
        default="GET",
        words=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
    ),
    Field(name="headers", kind=Kind.TEMPLATE, shape="object", doc="A map of header names to values.", default="{}"),
    Field(name="query", kind=Kind.TEMPLATE, shape="object", doc="A map of parameters, added to the URL.", default="{}"),
    Field(
        name="expect",
        kind=Kind.STATUSES,
        doc="The statuses that count as success.",
        default="200 to 299",
        least=100,
        most=599,
    ),
    Field(name="body", kind=Kind.TEMPLATE, doc="Sent as JSON; a text is sent as it is.", default="none"),
    duration("timeout", "How long to wait for the answer.", default="as long as the attempt may last"),
)

_TRIES = (
    Field(
        name="max_attempts",
        kind=Kind.INTEGER,
        doc="How often the step is tried in all.",
        default=str(_POLICY.max_attempts),
        least=1,
        most=1_000,
    ),
    Field(
        name="backoff",
        kind=Kind.WORD,
        words=tuple(Backoff),
        default=_POLICY.backoff.value,
        doc="How the pauses grow: by the `factor`, by `initial` each time, or not at all.",
    ),
    duration("initial", "The pause after the first failure.", default="1s", least=0),
    Field(
        name="factor",
        kind=Kind.NUMBER,
        doc="With `exponential`: by how much each pause is longer than the one before.",
        default=str(_POLICY.factor),
        least=1,
        most=100,
    ),
    duration("max", "The longest pause.", default="1m", least=0),
    Field(
        name="jitter",
        kind=Kind.NUMBER,
        doc="Up to this share of a pause is taken off at random.",
        default=str(_POLICY.jitter),
        least=0,
        most=1,
    ),
)

RETRY = (
    *_TRIES,
    Field(
        name="rules",
        kind=Kind.RULES,
        doc="What holds for some failures: the first rule that names a failure decides about it.",
        default="none",
    ),
    duration("budget", "No attempt begins later than this after the first one began.", default="for ever", least=0),
    Field(
        name="max_losses",
        kind=Kind.INTEGER,
        doc=("How many workers may be lost over it before it fails; counted apart from attempts."),
        default=str(_POLICY.max_losses),
        least=1,
        most=1_000,
    ),
)

RETRY_RULE = (
    shared.errors("{} that it holds for."),
    *(replace(field, default="that of the policy") for field in _TRIES),
)

TIMEOUT = (
    duration("attempt", "One attempt, from the moment a worker takes it.", default="for ever"),
    duration("queue", "Waiting for a worker, anew for each attempt.", default="for ever"),
    duration("total", "Everything: queues, attempts and the pauses between them.", default="for ever"),
    duration(
        "heartbeat",
        "Silence of a handler that runs, from its beginning or its latest heartbeat. Only `call` nodes have it.",
        default="for ever",
        least=MIN_LEASE_MS,
    ),
    duration(
        "stall",
        "The same without progress: no heartbeat with a new percent, message or checkpoint.",
        default="for ever",
        least=MIN_LEASE_MS,
    ),
)

DEFAULTS = (
    shared.queue("The queue of `call` nodes.", "default"),
    shared.retry("The retry policy of `call`, `http` and `python` nodes."),
    shared.timeouts("The time-outs of `call`, `http` and `python` nodes; a duration alone is the `total`."),
)

BODY = shared.GRAPH

LAST = (*BODY, shared.TOTAL_OF_A_GRAPH)

TOLERATE = (
    Field(name="count", kind=Kind.INTEGER, doc="So many items may fail.", default="0"),
    Field(name="percent", kind=Kind.NUMBER, doc="So many of a hundred items may fail.", default="0", most=100),
)
