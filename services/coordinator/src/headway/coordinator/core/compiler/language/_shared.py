"""The keys that more than one map has: what they are is said here once, and with each map only what differs."""

from headway.coordinator.core.compiler.language._fields import (
    MAX_DURATION_MS,
    MAX_LEASE_MS,
    MIN_LEASE_MS,
    QUEUE_PATTERN,
    Field,
    Kind,
    duration,
)
from headway.coordinator.core.plan import NodeType

TYPE = Field(name="type", kind=Kind.WORD, words=tuple(NodeType), doc="What the node does.", required=True)
TO = Field(name="to", kind=Kind.NODE, doc="Where it leads.", required=True)
GRAPH = (
    Field(name="nodes", kind=Kind.NODES, doc="The steps.", required=True),
    Field(name="edges", kind=Kind.EDGES, doc="What follows what.", default="none"),
)
OPTIONAL = Field(name="optional", kind=Kind.BOOLEAN, doc="Its failure does not make the run fail.", default="false")
COMPENSATE = Field(
    name="compensate",
    kind=Kind.NODE,
    doc="The node beside it that undoes it if the run fails or is cancelled; a worker node without edges.",
    default="none",
)
LEASE = Field(
    name="lease",
    kind=Kind.DURATION,
    default="90s",
    least=MIN_LEASE_MS,
    most=MAX_LEASE_MS,
    doc=(
        "How long a silent worker is waited for before another may have the step; workers renew it meanwhile. "
        "A step that came with the answer to a report, past the queue, is waited for 10s at most until its "
        "first renewal, which is due after 3s (`HEADWAY_WORKER_EAGER=false` leaves such steps to the queue). "
        "By default at most half of `timeout.heartbeat` and `timeout.stall`, for heartbeats travel with renewals, and "
        "of `timeout.attempt`, so that a worker which dies is a lost lease unless it dies late in the attempt."
    ),
)


def retry(doc: str) -> Field:
    """Returns the key that holds a retry policy."""
    return Field(name="retry", kind=Kind.RETRY, doc=doc, default="no retry")


def timeouts(doc: str) -> Field:
    """Returns the key that holds all time-outs, or the total alone."""
    return Field(name="timeout", kind=Kind.TIMEOUT, doc=doc, default="for ever", least=1, most=MAX_DURATION_MS)


def total(doc: str) -> Field:
    """Returns the key of what has no other time-out than the total."""
    return duration("timeout", doc, default="for ever")


def queue(doc: str, default: str) -> Field:
    """Returns the key that names a queue."""
    return Field(name="queue", kind=Kind.TEXT, doc=doc, default=default, pattern=QUEUE_PATTERN)


def labels(doc: str) -> Field:
    """Returns the key that holds labels of runs."""
    return Field(name="labels", kind=Kind.TEMPLATES, doc=doc, default="none")


def output_schema(doc: str) -> Field:
    """Returns the key that holds the contract of an output."""
    return Field(name="output_schema", kind=Kind.SCHEMA, doc=doc, default="anything")


def errors(doc: str, default: str = "") -> Field:
    """Returns the key that names failures, which {} in its meaning stands for; required without a default."""
    what = "failure classes (`timeout`, `exec_failed`, `verdict_fail`) or error types"
    spelt = doc.format(f"{'T' if doc.startswith('{') else 't'}he {what}")
    return Field(name="errors", kind=Kind.TEXTS, doc=spelt, default=default, required=not default)


def when(doc: str, default: str = "") -> Field:
    """Returns the key that holds a condition; required without a default."""
    return Field(name="when", kind=Kind.CONDITION, doc=doc, default=default, required=not default)


TOTAL_OF_A_GRAPH = total(
    "How long it may take in all. Then what is under way in it is stopped, running handlers within 60 s, and it fails "
    "with class `timeout`."
)
WORKER = (
    retry("When a failed attempt is tried again."),
    timeouts("How long it may take; a duration alone is the `total`."),
    LEASE,
    output_schema("What its output must look like; another fails the attempt with class `verdict_fail`."),
    OPTIONAL,
    COMPENSATE,
)


def worker(default_queue: str) -> tuple[Field, ...]:
    """Returns the keys that all worker nodes have."""
    doc = "The queue whose workers run it: at most 63 small letters, digits and `_`, `.`, `-`."
    return (queue(doc, default_queue), *WORKER)


def body(doc: str) -> Field:
    """Returns the key that holds what a map or repeat does."""
    return Field(name="body", kind=Kind.BODY, doc=doc, required=True)


def result(whose: str) -> Field:
    """Returns the key that says what each round of a map or repeat gives."""
    return Field(
        name="output",
        kind=Kind.TEMPLATE,
        doc=f"What {whose} gives, seen from the end of its body.",
        default="the output of the only node that nothing follows, if it succeeded",
    )
