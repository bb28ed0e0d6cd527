"""What a key of the language is: its kind, bounds, default and meaning; and the limits of the language."""

from dataclasses import dataclass
from enum import StrEnum

from headway.coordinator.core.plan import FINALLY

NAME_PATTERN = r"[a-z][a-z0-9_]*"
MAX_NAME = 63
HANDLER_PATTERN = r"[A-Za-z_][A-Za-z0-9_.:/-]{0,254}"
QUEUE_PATTERN = r"[a-z0-9][a-z0-9_.-]{0,62}"
EVENT_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,254}"
DURATION_PATTERN = r"(?=.)(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?"
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
COUNTS_IN_EXPRESSIONS = ("total", "succeeded", "failed", "cancelled", "left_out")
OWN_HANDLERS = "headway."
OWN_KEYS = "x-"  # what keys begin with that a file may have besides, and that say nothing


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
        shape: Kind.TEMPLATE: the JSON type of what it yields; empty: any.
        pattern: of texts, and of constants that a template may stand for; empty: any.
        least, most: bounds of integers, numbers and durations (milliseconds).
    """

    name: str
    kind: StrEnum
    doc: str
    required: bool = False
    default: str = ""
    words: tuple[str, ...] = ()
    shape: str = ""
    pattern: str = ""
    least: float = 0
    most: float = 2**31 - 1


def duration(name: str, doc: str, *, default: str = "", required: bool = False, least: int = 1) -> Field:
    """Returns a key whose value is a duration; its bounds in milliseconds."""
    return Field(
        name=name, kind=Kind.DURATION, doc=doc, default=default, required=required, least=least, most=MAX_DURATION_MS
    )
