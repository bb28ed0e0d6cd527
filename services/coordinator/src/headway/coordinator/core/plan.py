"""The compiled plan of a workflow version: what the reducer walks.

A plan is made once, by the compiler, and stored with its version. Nothing here reads YAML, and nothing here decides.
Durations are whole milliseconds, instants do not occur.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
VariablePath: TypeAlias = tuple[str, ...]  # ("nodes", "reserve", "output", "price")

FORMAT = 1


class NodeType(StrEnum):
    """What a node does."""

    CALL = "call"
    HTTP = "http"
    PYTHON = "python"
    SWITCH = "switch"
    JOIN = "join"
    SET = "set"
    FINISH = "finish"
    WAIT = "wait"
    WAIT_FOR_EVENT = "wait_for_event"
    MAP = "map"
    REPEAT = "repeat"
    SUBFLOW = "subflow"


WORKER_NODES = frozenset({NodeType.CALL, NodeType.HTTP, NodeType.PYTHON})
CONTROL_NODES = frozenset({NodeType.SWITCH, NodeType.JOIN, NodeType.SET, NodeType.FINISH})
LOOP_NODES = frozenset({NodeType.MAP, NodeType.REPEAT})
RETRYABLE_NODES = WORKER_NODES | {NodeType.SUBFLOW}  # those whose failures their retry policy judges


class EdgeKind(StrEnum):
    """Which end of its source an edge follows."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    ALWAYS = "always"


class OnFailure(StrEnum):
    """What the first unhandled failure does to the rest of the run."""

    STOP = "stop"
    DRAIN = "drain"


class FailureClass(StrEnum):
    """In what way a task failed."""

    TIMEOUT = "timeout"
    EXEC_FAILED = "exec_failed"
    VERDICT_FAIL = "verdict_fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something stands in the YAML source; both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A CEL expression.

    Attributes:
        source: the CEL text.
        reads: the longest variable paths it reads, each cut behind the first index; what is bound when it is evaluated.
        parts: the paths of which it asks only for items, or how many there are: they are not read as a whole.
        tests: the paths of which `has(…)` asks only whether they are there: their values are not needed.
        place: where it stands, for messages.
    """

    source: str
    reads: tuple[VariablePath, ...]
    parts: tuple[VariablePath, ...] = ()
    tests: tuple[VariablePath, ...] = ()
    place: Place

    @property
    def names(self) -> tuple[VariablePath, ...]:
        """All paths that it may ask for."""
        return (*self.reads, *self.parts, *self.tests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A value without expressions in it."""

    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """`${a.b.c}` alone: the value itself, resolved without CEL."""

    path: VariablePath
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """`${ … }` alone, computed by CEL; keeps the value's type."""

    expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text with `${ … }` in it; becomes text."""

    parts: tuple["str | Reference | Computed", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """A map with expressions somewhere in it."""

    entries: Mapping[str, "Template"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """A list with expressions somewhere in it."""

    items: tuple["Template", ...]


Template: TypeAlias = Literal | Reference | Computed | Text | Object | Array


class Backoff(StrEnum):
    """How the pauses between attempts grow."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """How often, and after which pauses, a failed attempt is tried again.

    The n-th failure is followed by a pause of min(initial * factor ** (n - 1), max); linear: min(initial * n, max);
    fixed: initial. A random share of up to `jitter` is taken off.
    """

    max_attempts: int = 1
    backoff: Backoff = Backoff.EXPONENTIAL
    initial_ms: int = 1_000
    factor: float = 2.0
    max_ms: int = 60_000
    jitter: float = 0.2

    def pause_ms(self, count: int) -> float:
        """The pause after the count-th failure, before chance takes its share."""
        if self.backoff is Backoff.FIXED:
            return self.initial_ms
        try:
            grown = self.factor ** (count - 1) if self.backoff is Backoff.EXPONENTIAL else count
            return min(self.initial_ms * grown, float(self.max_ms))
        except OverflowError:  # far beyond any cap
            return float(self.max_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule(Tries):
    """What holds for some failures: it counts them, and them alone.

    Attributes:
        errors: failure classes or error types.
    """

    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy(Tries):
    """When a failed attempt is tried again: by the first rule that names its failure, else by the policy's own tries.

    Attributes:
        budget_ms: no attempt begins later than this after the first one began; None: no such limit.
        max_losses: lost leases, counted apart.
    """

    rules: tuple[RetryRule, ...] = ()
    budget_ms: int | None = None
    max_losses: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOuts:
    """How long a task may take; None: for ever.

    Attributes:
        attempt_ms: one attempt, from its lease.
        queue_ms: waiting for a worker, per attempt, from its becoming ready.
        total_ms: everything, from its first becoming ready or waiting.
        heartbeat_ms: silence of a handler that runs: from its lease, or its latest heartbeat.
        stall_ms: no progress of a handler that runs: from its lease, or the latest heartbeat that told of some.
    """

    attempt_ms: int | None = None
    queue_ms: int | None = None
    total_ms: int | None = None
    heartbeat_ms: int | None = None
    stall_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of a switch: the edge that goes live when it is the first whose condition holds."""

    when: Expression
    edge: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge of the graph.

    Attributes:
        index: its place in Plan.edges, which is written order; case edges of a switch follow the written ones.
        errors: failure and timeout edges only: failure classes or error types it takes; empty: any.
        when: condition; None: holds. Case edges have none: the switch decides.
        reach: failure and timeout edges only: every node that can be reached through this edge, its target included.
    """

    index: int
    source: str
    target: str
    on: EdgeKind = EdgeKind.SUCCESS
    errors: tuple[str, ...] = ()
    when: Expression | None = None
    reach: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A step of the graph. Fields that its type does not have keep their defaults.

    Attributes:
        input: call, http, python: the handler's input. An http node's is its request; a python node's is
            {code, input}. join: None (it gathers the outputs of its live branches, by node id).
        handler: call: as written; http: "headway.http"; python: "headway.python".
        lease_ms: how long a lease of it lasts.
        optional: its failure never makes the run fail.
        output_schema: JSON Schema of its output; None: anything.
        compensate: the node that undoes it when the run fails or is cancelled.
        cases, default_edge: switch. No default edge: no case holds, nothing is live.
        need: join: live tokens it needs; None: "all" (one live token, once every edge has one).
        cancels_rest: join: when it fires, what leads to it and nowhere else is stopped.
        values: set: variable name to value.
        outcome: finish: "succeeded" or "failed".
        output: finish: the run's output. message: finish with outcome failed: why.
        wait_ms, wait, until: wait: one of the three. `wait` yields a duration as the language spells it, `until` RFC
            3339 text with an offset, or without one and the name of a zone behind it.
        zone: wait: yields the name of the zone of an `until` that has none.
        event: wait_for_event: the signal's name; empty: `event_name` yields it. Its time-out is timeouts.total_ms.
        filter: wait_for_event: a condition on `payload`; None: any fits.
        payload_schema: wait_for_event: JSON Schema of the payload; None: anything fits.
        count: wait_for_event: how many signals it takes; its output is then the list of them. None: one, as it is.
        reuse: wait_for_event: when it is run again, what it took before is good enough.
        body: map, repeat: what is done for each item, or again and again; its nodes and edges are compiled like the
            workflow's own. `output`: what an item or iteration gives; None: the output of the body's last node.
        over: map: yields the list, or the map whose entries, as {key, value}, are gone through.
        where: map: items for which it does not hold are left out; None: none are.
        max_concurrency: map: items that are under way at once.
        tolerate: map: so many items may fail. tolerate_percent: so many of a hundred.
        ends_when, again_while: repeat: `ends_when` is asked after each iteration, `again_while` before each.
        max_iterations: repeat: more are a failure. wait_ms: the pause between two.
        keep_last: repeat: finished iterations whose rows are kept; None: all.
        child_workflow: subflow: the workflow to run; its input is `input`. child_version: 0: the deployed one.
        detach: subflow: the run goes its own way once it has started.
        labels: subflow: of the run that it starts, by name. key: subflow: yields that run's key; None: none.
    """

    id: str
    type: NodeType
    input: Template | None = None
    handler: str = ""
    queue: str = ""
    lease_ms: int = 90_000
    retry: RetryPolicy = RetryPolicy()
    timeouts: TimeOuts = TimeOuts()
    optional: bool = False
    output_schema: Json = None
    compensate: str | None = None
    cases: tuple[Case, ...] = ()
    default_edge: int | None = None
    need: int | None = None
    cancels_rest: bool = False
    values: Mapping[str, Template] = field(default_factory=dict[str, Template])
    outcome: str = "succeeded"
    output: Template | None = None
    message: Template | None = None
    wait_ms: int | None = None
    wait: Template | None = None
    until: Template | None = None
    zone: Template | None = None
    event: str = ""
    event_name: Template | None = None
    filter: Expression | None = None
    payload_schema: Json = None
    count: int | None = None
    reuse: bool = False
    body: "Plan | None" = None
    over: Template | None = None
    where: Expression | None = None
    max_concurrency: int = 100
    tolerate: int = 0
    tolerate_percent: float = 0
    ends_when: Expression | None = None
    again_while: Expression | None = None
    max_iterations: int = 0
    keep_last: int | None = None
    child_workflow: str = ""
    child_version: int = 0
    detach: bool = False
    labels: Mapping[str, Template] = field(default_factory=dict[str, Template])
    key: Template | None = None


FINALLY = "finally"  # the node, of the workflow's own graph, that runs when all else is over: a repeat of one iteration


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A workflow version, ready to run; or the body of a map or repeat, which has nodes and edges only.

    Attributes:
        nodes: by id, in written order.
        edges: in index order.
        input_schema, output_schema: JSON Schema of the run's input, and of its output when it succeeds; None: anything.
        variables: JSON Schemas by variable; None: any variable may be set to anything.
        deadline_ms: of the run, from its start (or reopening).
        labels: of every run, by name; they see the input only.
        retention_ms: how long finished runs are kept, by state; for ever in states that are not named.
        outgoing, incoming: edge indexes per node, in index order. A node without incoming edges is a start.
    """

    workflow: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    input_schema: Json = None
    output_schema: Json = None
    variables: Mapping[str, Json] | None = None
    deadline_ms: int | None = None
    on_failure: OnFailure = OnFailure.STOP
    labels: Mapping[str, Template] = field(default_factory=dict[str, Template])
    retention_ms: Mapping[str, int] = field(default_factory=dict[str, int])
    outgoing: Mapping[str, tuple[int, ...]]
    incoming: Mapping[str, tuple[int, ...]]
