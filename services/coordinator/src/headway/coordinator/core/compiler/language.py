"""The workflow language as data: every key that a source may hold, its kind, default and meaning.

The compiler checks sources against these tables and docs/language.md is generated from them, so that the two cannot
differ. A new node type is a new entry here, a reader in `nodes` and a field in the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from headway.coordinator.core.plan import (
    FINALLY,
    LOOP_NODES,
    WORKER_NODES,
    Backoff,
    EdgeKind,
    NodeType,
    OnFailure,
    RetryPolicy,
)

NAME_PATTERN = r"[a-z][a-z0-9_]*"
MAX_NAME = 63
RESERVED_NAMES = frozenset({"none", "true", "false", "null", "in", FINALLY})
MAX_NODES = 2_000
MAX_NESTING = 5
MAX_CONCURRENCY = 10_000
MAX_ITERATIONS = 1_000_000
ONLY_NODE = "step"
MIN_LEASE_MS, MAX_LEASE_MS = 1_000, 3_600_000
MAX_DURATION_MS = 3_650 * 86_400_000
MIN_RETENTION_MS = 60_000
OUTCOME_FIELDS = ("state", "class", "message", "nodes")
RUN_FIELDS = ("id", "workflow", "namespace", "version", "epoch")
NODE_FIELDS_IN_EXPRESSIONS = ("output", "state")
LOOP_FIELDS_IN_EXPRESSIONS = ("output", "state", "counts")
OWN_HANDLERS = "headway."

_RETRY = RetryPolicy()


class Kind(StrEnum):
    """What may stand behind a key, as the reference calls it."""

    NAME = "name"
    TEXT = "text"
    WORD = "one of"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "true or false"
    DURATION = "duration"
    TEMPLATE = "any value, with templates"
    TEMPLATES = "map of names to values, with templates"
    CONDITION = "bare expression"
    CODE = "Python source"
    SCHEMA = "JSON Schema (2020-12)"
    TEXTS = "list of texts"
    STATUSES = "list of numbers"
    NODE = "node"
    NODES = "map of names to nodes"
    EDGES = "list of edges"
    CASES = "list of cases"
    REQUEST = "request"
    RETRY = "retry policy"
    TIMEOUT = "duration or time-outs"
    DEFAULTS = "defaults"
    FILTER = "bare expression, also on `payload`"
    SCHEMAS = "map of names to JSON Schemas"
    RULES = "list of retry rules"
    NEED = "all, any or a number"
    RETENTION = "duration or durations by state"
    BODY = "node, or nodes and edges"
    LAST = "node, or nodes, edges and timeout"
    TOLERATE = "number, or count or percent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key.

    Attributes:
        kind: a Kind; files that are no workflows have kinds of their own besides.
        default: as the reference spells it; empty: none.
        words: Kind.WORD: what may stand there.
        least, most: bounds of integers, numbers and durations (milliseconds).
    """

    name: str
    kind: StrEnum
    doc: str
    required: bool = False
    default: str = ""
    words: tuple[str, ...] = ()
    least: float = 0
    most: float = 2**31 - 1


def _duration(name: str, doc: str, *, default: str = "", required: bool = False, least: int = 1) -> Field:
    return Field(
        name=name, kind=Kind.DURATION, doc=doc, default=default, required=required, least=least, most=MAX_DURATION_MS
    )


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
            "What a run's input must look like; a start with another input is refused. `$ref` only within the schema, "
            "by place (`#/$defs/name`); "
            "patterns in RE2's syntax."
        ),
        default="anything",
    ),
    Field(
        name="output_schema",
        kind=Kind.SCHEMA,
        doc=(
            "What the output of a run that succeeds must look like; a run without a `finish` node has the output null. "
            "Another output fails the run with class `verdict_fail`."
        ),
        default="anything",
    ),
    _duration("deadline", "How long a run may take, from its start or its reopening.", default="for ever"),
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
    Field(
        name="labels",
        kind=Kind.TEMPLATES,
        doc="What its runs can be found by besides, from their input: texts, numbers or booleans; null: no such label.",
        default="none",
    ),
    Field(
        name="retention",
        kind=Kind.RETENTION,
        doc="How long finished runs are kept before they are deleted with all that is stored of them.",
        default="for ever",
    ),
    Field(name="nodes", kind=Kind.NODES, doc="The steps.", required=True),
    Field(name="edges", kind=Kind.EDGES, doc="What follows what.", default="none"),
    Field(
        name="finally",
        kind=Kind.LAST,
        doc="What runs when all else is over, however the run ended: one node, or a graph of its own.",
        default="nothing",
    ),
)

RETENTION = tuple(
    _duration(state, f"From the end of a run that {how}.", default="for ever", least=MIN_RETENTION_MS)
    for state, how in (("succeeded", "succeeded"), ("failed", "failed"), ("cancelled", "was cancelled"))
)

EDGE = (
    Field(name="from", kind=Kind.NODE, doc="Where it begins.", required=True),
    Field(name="to", kind=Kind.NODE, doc="Where it leads.", required=True),
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
    Field(
        name="errors",
        kind=Kind.TEXTS,
        doc=(
            "With `on: failure` or `timeout`: the failure classes (`timeout`, `exec_failed`, "
            "`verdict_fail`) or error types, such as `HttpStatus`, that it takes."
        ),
        default="any",
    ),
    Field(name="when", kind=Kind.CONDITION, doc="It is followed only if this holds.", default="true"),
)

CASE = (
    Field(name="when", kind=Kind.CONDITION, doc="The first case whose condition holds is taken.", required=True),
    Field(name="to", kind=Kind.NODE, doc="Where it leads.", required=True),
)

REQUEST = (
    Field(name="url", kind=Kind.TEMPLATE, doc="Where to.", required=True),
    Field(
        name="method",
        kind=Kind.WORD,
        doc="The HTTP method.",
        default="GET",
        words=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
    ),
    Field(name="headers", kind=Kind.TEMPLATE, doc="A map of header names to values.", default="{}"),
    Field(name="query", kind=Kind.TEMPLATE, doc="A map of parameters, added to the URL.", default="{}"),
    Field(
        name="expect",
        kind=Kind.STATUSES,
        doc="The statuses that count as success.",
        default="200 to 299",
        least=100,
        most=599,
    ),
    Field(name="body", kind=Kind.TEMPLATE, doc="Sent as JSON; a text is sent as it is.", default="none"),
    _duration("timeout", "How long to wait for the answer.", default="as long as the attempt may last"),
)

_TRIES = (
    Field(
        name="max_attempts",
        kind=Kind.INTEGER,
        doc="How often the step is tried in all.",
        default=str(_RETRY.max_attempts),
        least=1,
        most=1_000,
    ),
    Field(
        name="backoff",
        kind=Kind.WORD,
        words=tuple(Backoff),
        default=_RETRY.backoff.value,
        doc="How the pauses grow: by the `factor`, by `initial` each time, or not at all.",
    ),
    _duration("initial", "The pause after the first failure.", default="1s", least=0),
    Field(
        name="factor",
        kind=Kind.NUMBER,
        doc="With `exponential`: by how much each pause is longer than the one before.",
        default=str(_RETRY.factor),
        least=1,
        most=100,
    ),
    _duration("max", "The longest pause.", default="1m", least=0),
    Field(
        name="jitter",
        kind=Kind.NUMBER,
        doc="Up to this share of a pause is taken off at random.",
        default=str(_RETRY.jitter),
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
    _duration("budget", "No attempt begins later than this after the first one began.", default="for ever", least=0),
    Field(
        name="max_losses",
        kind=Kind.INTEGER,
        doc=("How many workers may be lost over it before it fails; counted apart from attempts."),
        default=str(_RETRY.max_losses),
        least=1,
        most=1_000,
    ),
)

RETRY_RULE = (
    Field(
        name="errors",
        kind=Kind.TEXTS,
        doc="The failure classes (`timeout`, `exec_failed`, `verdict_fail`) or error types that it holds for.",
        required=True,
    ),
    *(replace(field, default="that of the policy") for field in _TRIES),
)

TIMEOUT = (
    _duration("attempt", "One attempt, from the moment a worker takes it.", default="for ever"),
    _duration("queue", "Waiting for a worker, anew for each attempt.", default="for ever"),
    _duration("total", "Everything: queues, attempts and the pauses between them.", default="for ever"),
    _duration(
        "heartbeat",
        "Silence of a handler that runs, from its beginning or its latest heartbeat. Only `call` nodes have it.",
        default="for ever",
        least=MIN_LEASE_MS,
    ),
    _duration(
        "stall",
        "The same without progress: no heartbeat with a new percent, message or checkpoint.",
        default="for ever",
        least=MIN_LEASE_MS,
    ),
)

_QUEUE_DOC = "The queue whose workers run it: at most 63 small letters, digits and `_`, `.`, `-`."

DEFAULTS = (
    Field(name="queue", kind=Kind.TEXT, doc="The queue of `call` nodes.", default="default"),
    Field(
        name="retry", kind=Kind.RETRY, doc="The retry policy of `call`, `http` and `python` nodes.", default="no retry"
    ),
    Field(
        name="timeout",
        kind=Kind.TIMEOUT,
        doc="The time-outs of `call`, `http` and `python` nodes; a duration alone is the `total`.",
        default="for ever",
        least=1,
        most=MAX_DURATION_MS,
    ),
)

BODY = (
    Field(name="nodes", kind=Kind.NODES, doc="The steps.", required=True),
    Field(name="edges", kind=Kind.EDGES, doc="What follows what.", default="none"),
)

LAST = (
    *BODY,
    _duration(
        "timeout",
        "How long it may take in all. Then what is under way in it is stopped, running handlers within 60 s, and it "
        "fails with class `timeout`.",
        default="for ever",
    ),
)

TOLERATE = (
    Field(name="count", kind=Kind.INTEGER, doc="So many items may fail.", default="0"),
    Field(name="percent", kind=Kind.NUMBER, doc="So many of a hundred items may fail.", default="0", most=100),
)

_TYPE = Field(name="type", kind=Kind.WORD, words=tuple(NodeType), doc="What the node does.", required=True)


def _worker(queue: str) -> tuple[Field, ...]:
    return (
        Field(name="queue", kind=Kind.TEXT, doc=_QUEUE_DOC, default=queue),
        Field(name="retry", kind=Kind.RETRY, doc="When a failed attempt is tried again.", default="no retry"),
        Field(
            name="timeout",
            kind=Kind.TIMEOUT,
            doc="How long it may take; a duration alone is the `total`.",
            default="for ever",
            least=1,
            most=MAX_DURATION_MS,
        ),
        Field(
            name="lease",
            kind=Kind.DURATION,
            default="90s",
            least=MIN_LEASE_MS,
            most=MAX_LEASE_MS,
            doc=(
                "How long a silent worker is waited for before another may have the step; workers renew it meanwhile. "
                "A step that came with the answer to a report, past the queue, is waited for 10s at most until its "
                "first renewal, which is due after 3s (`HEADWAY_WORKER_EAGER=false` leaves such steps to the queue). "
                "By default at most half of `timeout.heartbeat` and `timeout.stall`: heartbeats travel with renewals."
            ),
        ),
        Field(
            name="output_schema",
            kind=Kind.SCHEMA,
            doc="What its output must look like; another fails the attempt with class `verdict_fail`.",
            default="anything",
        ),
        Field(name="optional", kind=Kind.BOOLEAN, doc="Its failure does not make the run fail.", default="false"),
        Field(
            name="compensate",
            kind=Kind.NODE,
            doc="The node beside it that undoes it if the run fails or is cancelled; a worker node without edges.",
            default="none",
        ),
    )


_LOOP_TIMEOUT = _duration(
    "timeout",
    "How long it may take in all. Then what is under way in it is stopped, running handlers within 60 s, and it fails "
    "with class `timeout`.",
    default="for ever",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """One type of node: its keys, what it is for, and an example for the reference."""

    fields: tuple[Field, ...]
    doc: str
    example: str
    default_queue: str = ""


NODES: Mapping[NodeType, NodeKind] = {
    NodeType.CALL: NodeKind(
        doc=("A worker runs the handler of this name. What it returns is the node's output."),
        example=('ship: {type: call, handler: shipping.create, queue: shipping, input: {order: "${input.order_id}"}}'),
        default_queue="default",
        fields=(
            _TYPE,
            Field(name="handler", kind=Kind.TEXT, doc="The name under which a worker registered it.", required=True),
            Field(name="input", kind=Kind.TEMPLATE, doc="What the handler is given.", default="null"),
            *_worker("default"),
        ),
    ),
    NodeType.HTTP: NodeKind(
        doc=("A worker sends an HTTP request. The output is `{status, headers, body}`."),
        example=(
            "reserve: {type: http, request: {method: POST, url: "
            '"https://stock.example.com/reserve", body: {order: "${input.order_id}"}}}'
        ),
        default_queue="http",
        fields=(_TYPE, Field(name="request", kind=Kind.REQUEST, doc="What to send.", required=True), *_worker("http")),
    ),
    NodeType.PYTHON: NodeKind(
        doc=("A worker runs `run(input)` of the given source in a process of its own. What it returns is the output."),
        example=(
            'risk: {type: python, input: "${input}", code: "def run(input): return {\'score\': '
            "input['amount'] / 1000}\"}"
        ),
        default_queue="python",
        fields=(
            _TYPE,
            Field(
                name="code",
                kind=Kind.CODE,
                doc="Defines `run(input)`. No templates in it: values come in as input.",
                required=True,
            ),
            Field(name="input", kind=Kind.TEMPLATE, doc="What `run` is given.", default="null"),
            *_worker("python"),
        ),
    ),
    NodeType.SWITCH: NodeKind(
        doc=(
            "Goes one way: that of the first case whose condition holds, else the default. It has"
            " no other success edges."
        ),
        example=('gate: {type: switch, cases: [{when: "nodes.risk.output.score > 0.8", to: approve}], default: ship}'),
        fields=(
            _TYPE,
            Field(name="cases", kind=Kind.CASES, doc="Tried in this order.", required=True),
            Field(
                name="default", kind=Kind.NODE, doc="Where to go when no case holds; `none`: nowhere.", required=True
            ),
        ),
    ),
    NodeType.JOIN: NodeKind(
        doc=(
            "Waits for branches. Its output maps the node id of each branch that arrived to that node's output.\n\n"
            "With `need: all`, a branch that was not chosen, that failed and is `optional`, or whose failure an edge\n"
            "handled is left out; any other failure keeps the join from running. With `any` or a number, failing\n"
            "branches do not matter, and do not make the run fail, as long as enough others can still arrive; when\n"
            "too few are left, the join does not run and their failures count.\n\n"
            "With `rest: cancel`, what leads to this join and nowhere else is stopped when it fires: what has not\n"
            "started is cancelled, running handlers are told to stop and have 60 s. Whatever comes of them then does\n"
            "not count; a handler that reports success all the same has succeeded."
        ),
        example="either: {type: join, need: any}",
        fields=(
            _TYPE,
            Field(
                name="need",
                kind=Kind.NEED,
                default="all",
                least=1,
                doc=(
                    "`all`: every branch that was chosen, once all are decided. `any`: the first that "
                    "arrives. A number: that many."
                ),
            ),
            Field(
                name="rest",
                kind=Kind.WORD,
                words=("cancel", "let_run"),
                default="let_run",
                doc=(
                    "With `any` or a number: what becomes of the other branches when it fires. `let_run`: they run on. "
                    "`cancel`: nodes whose every way on leads to this join are stopped."
                ),
            ),
        ),
    ),
    NodeType.SET: NodeKind(
        doc=(
            "Sets variables, which expressions of all later nodes read as `vars.name`. Two nodes that set one\n"
            "variable are either one behind the other or on ways of which only one is taken. A value that breaks the\n"
            "schema that `vars:` of the workflow gives the variable fails the node with class `verdict_fail`, type\n"
            "`VariableInvalid`. In the body of a repeat, what an iteration sets is seen by later ones and behind the\n"
            "repeat; in that of a map, whose items have no order, nothing is set. A retry that goes on with an\n"
            "iteration finds the variables as they are."
        ),
        example='total: {type: set, values: {cents: "${input.amount * 100}"}}',
        fields=(_TYPE, Field(name="values", kind=Kind.TEMPLATES, doc="Name to value.", required=True)),
    ),
    NodeType.FINISH: NodeKind(
        doc=(
            "Ends the run: starts nothing more, tells running handlers to stop at their next Renew, and the run ends\n"
            "when they have (or after the grace, 60 s). Nothing follows it. In the body of a map or\n"
            "repeat, too, it ends the whole run."
        ),
        example=('done: {type: finish, output: {tracking: "${nodes.ship.output.tracking}"}}'),
        fields=(
            _TYPE,
            Field(
                name="outcome",
                kind=Kind.WORD,
                words=("succeeded", "failed"),
                doc="How the run ends.",
                default="succeeded",
            ),
            Field(name="output", kind=Kind.TEMPLATE, doc="The run's output.", default="null"),
            Field(name="message", kind=Kind.TEMPLATE, doc="With outcome `failed`: why.", default="none"),
        ),
    ),
    NodeType.WAIT: NodeKind(
        doc="Waits for a while or until an instant; exactly one of the two.",
        example="cool_down: {type: wait, duration: 15m}",
        fields=(
            _TYPE,
            Field(
                name="duration",
                kind=Kind.TEMPLATE,
                doc="How long: `15m`, or a template that yields such a text, seconds as decimals (`1.5s`) included.",
                least=1,
                most=MAX_DURATION_MS,
            ),
            Field(
                name="until",
                kind=Kind.TEMPLATE,
                doc=(
                    "An instant with its offset, `2030-01-31T09:00:00+01:00`, or with the name of its zone, "
                    "`2030-01-31T09:00:00 Europe/Vienna`; or a template that yields one."
                ),
            ),
            Field(
                name="zone",
                kind=Kind.TEMPLATE,
                doc="The zone of an `until` that names none, such as `Europe/Vienna`.",
            ),
        ),
    ),
    NodeType.WAIT_FOR_EVENT: NodeKind(
        doc=(
            "Waits for a signal of this name, also one that came before it began. Its payload is the output, or with\n"
            "`count` the list of all payloads. Each signal goes to one node, of those that it fits to the one that\n"
            "has waited longest; one that fits none is kept. A payload on which the filter cannot be evaluated does\n"
            "not fit. When the run is retried from here, another signal is needed, unless `reuse` says that the old\n"
            "one will do. In the body of a map, let an expression tell the items apart, as `event: paper-${item.id}`,\n"
            "or a `filter` on `item`."
        ),
        example="approve: {type: wait_for_event, event: approval, timeout: 2d}",
        fields=(
            _TYPE,
            Field(
                name="event",
                kind=Kind.TEMPLATE,
                doc="The signal's name, or a template that yields it when the node begins.",
                required=True,
            ),
            Field(name="filter", kind=Kind.FILTER, doc="Which signals fit.", default="true"),
            Field(
                name="payload_schema",
                kind=Kind.SCHEMA,
                doc="What a payload must look like to fit.",
                default="anything",
            ),
            Field(name="count", kind=Kind.INTEGER, doc="How many signals it waits for.", least=1, most=1_000),
            Field(
                name="reuse",
                kind=Kind.BOOLEAN,
                doc="Whether a retry of the run may use its signals again.",
                default="false",
            ),
            _duration("timeout", "How long to wait; then it fails with class `timeout`.", default="for ever"),
        ),
    ),
    NodeType.MAP: NodeKind(
        doc=(
            "Does its body for each item of a list, several at once. In the body, `item` is the item and `index` its\n"
            "place, from 0; those of a map further out are `loops.name.item` and `loops.name.index`. The output is\n"
            "the list of the items' results in their order, null for those that failed; `nodes.name.counts` has\n"
            "`total`, `succeeded`, `failed` and `cancelled`.\n\n"
            "The list is evaluated once. A map's entries are gone through as `{key, value}`. Results stay rows of\n"
            "their own: another map goes `over` them however large they are together; where they are put together,\n"
            "they must fit into one payload. An item ends as a run does: failures that are handled in the body do not\n"
            "count, and the first that is not handled stops the item. When more items fail than `tolerate` says, the\n"
            "map fails, and what has not started in others is cancelled. A retry of the run does failed items again,\n"
            "not others; `--from resize[12].crop` does one node of one item again."
        ),
        example=(
            'resize: {type: map, over: "${input.images}", max_concurrency: 20, tolerate: {percent: 5},\n'
            '         body: {type: call, handler: images.resize, input: {url: "${item.url}"}}}'
        ),
        fields=(
            _TYPE,
            Field(name="over", kind=Kind.TEMPLATE, doc="The list, or a map.", required=True),
            Field(
                name="body",
                kind=Kind.BODY,
                doc=("What is done for each: one node, called `step`, or `nodes` and `edges`. No `set` in it."),
                required=True,
            ),
            Field(
                name="output",
                kind=Kind.TEMPLATE,
                doc="What an item gives, seen from the end of its body.",
                default="the output of the only node that nothing follows, if it succeeded",
            ),
            Field(
                name="max_concurrency",
                kind=Kind.INTEGER,
                doc="So many items are under way at once.",
                default="100",
                least=1,
                most=MAX_CONCURRENCY,
            ),
            _LOOP_TIMEOUT,
            Field(
                name="tolerate",
                kind=Kind.TOLERATE,
                doc="How many items may fail without the map failing.",
                default="none",
            ),
            Field(name="optional", kind=Kind.BOOLEAN, doc="Its failure does not make the run fail.", default="false"),
        ),
    ),
    NodeType.REPEAT: NodeKind(
        doc=(
            "Does its body again and again. `last` is the result of the latest iteration that is over, null before\n"
            "the first, and `index` the iteration's number, from 0; those of a repeat further out are\n"
            "`loops.name.last` and `loops.name.index`. The output is the last iteration's result;\n"
            "`nodes.name.counts` counts iterations.\n\n"
            "An iteration that fails makes the repeat fail; a retry of the run then goes on with that iteration. When\n"
            "`max_iterations` did not do, it fails with the type `IterationsExhausted`."
        ),
        example=(
            'poll: {type: repeat, until: "last.body.done", max_iterations: 100, delay: 10s,\n'
            '       body: {type: http, request: {url: "https://jobs.example.com/7"}}}'
        ),
        fields=(
            _TYPE,
            Field(
                name="body",
                kind=Kind.BODY,
                doc="What is done: one node, called `step`, or `nodes` and `edges`.",
                required=True,
            ),
            Field(name="until", kind=Kind.CONDITION, doc="Asked after each iteration: it ends when this holds."),
            Field(
                name="while",
                kind=Kind.CONDITION,
                doc="Asked before each iteration, the first included: it ends when this does not hold.",
            ),
            Field(
                name="max_iterations",
                kind=Kind.INTEGER,
                doc="More are a failure.",
                required=True,
                least=1,
                most=MAX_ITERATIONS,
            ),
            _LOOP_TIMEOUT,
            _duration("delay", "The pause between two iterations.", default="none"),
            Field(
                name="output",
                kind=Kind.TEMPLATE,
                doc="What an iteration gives, seen from the end of its body.",
                default="the output of the only node that nothing follows, if it succeeded",
            ),
            Field(
                name="keep_last",
                kind=Kind.INTEGER,
                doc="So many finished iterations keep their rows; the history keeps all. Not around a map or repeat.",
                default="all",
                least=1,
                most=MAX_ITERATIONS,
            ),
            Field(name="optional", kind=Kind.BOOLEAN, doc="Its failure does not make the run fail.", default="false"),
        ),
    ),
    NodeType.SUBFLOW: NodeKind(
        doc=(
            "Starts a run of another workflow of the namespace and waits for its end. The child's output is\n"
            "the node's. A cancel, a time-out of the node and whatever else stops it are passed on to the child, and\n"
            "so is the run's deadline. Each attempt by `retry` is a new child; a retry of the failed run goes on\n"
            "inside the child that failed. At most 16 runs lie in one another."
        ),
        example='pay: {type: subflow, workflow: payment, input: {order: "${input.order_id}"}}',
        fields=(
            _TYPE,
            Field(name="workflow", kind=Kind.NAME, doc="The workflow to run.", required=True),
            Field(
                name="version",
                kind=Kind.INTEGER,
                doc="The version to run.",
                default="the one that is deployed when the child starts",
                least=1,
            ),
            Field(name="input", kind=Kind.TEMPLATE, doc="The child's input, rendered once.", default="{}"),
            Field(
                name="labels",
                kind=Kind.TEMPLATES,
                doc="Labels of the child, besides those that its definition computes; null: no such label.",
                default="none",
            ),
            Field(
                name="key",
                kind=Kind.TEMPLATE,
                doc="The child's business key, a text or a number; null: none. The node fails when another run has it.",
                default="none",
            ),
            Field(
                name="detach",
                kind=Kind.BOOLEAN,
                doc="The node succeeds with `{run_id}` as soon as the child has started, and nothing stops it later.",
                default="false",
            ),
            Field(
                name="retry",
                kind=Kind.RETRY,
                doc="When a child that failed is followed by another.",
                default="no retry",
            ),
            _duration("timeout", "How long all its children may take together.", default="for ever"),
            Field(
                name="output_schema",
                kind=Kind.SCHEMA,
                doc="What the output must look like; another fails the attempt with class `verdict_fail`.",
                default="anything",
            ),
            Field(name="optional", kind=Kind.BOOLEAN, doc="Its failure does not make the run fail.", default="false"),
            Field(
                name="compensate",
                kind=Kind.NODE,
                doc="The node beside it that undoes it if the run fails or is cancelled; a worker node without edges.",
                default="none",
            ),
        ),
    ),
}

CAN_FAIL_LATE = WORKER_NODES | LOOP_NODES | {NodeType.WAIT_FOR_EVENT, NodeType.SUBFLOW}  # can time out
