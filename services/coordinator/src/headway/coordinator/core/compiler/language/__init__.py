"""The workflow language as data: every key that a source may hold, its kind, default and meaning.

The compiler checks sources against these tables; docs/language.md, the pages of the nodes and the JSON Schema are
generated from them, so that they cannot differ. A new node type is a new entry in `_nodes`, a reader in `nodes` and a
field in the plan.
"""

from headway.coordinator.core.compiler.language._fields import (
    LOOP_FIELDS_IN_EXPRESSIONS,
    MAX_CONCURRENCY,
    MAX_DURATION_MS,
    MAX_ITERATIONS,
    MAX_LEASE_MS,
    MAX_NAME,
    MAX_NESTING,
    MAX_NODES,
    MIN_LEASE_MS,
    MIN_RETENTION_MS,
    NAME_PATTERN,
    NODE_FIELDS_IN_EXPRESSIONS,
    ONLY_NODE,
    OUTCOME_FIELDS,
    OWN_HANDLERS,
    RESERVED_NAMES,
    RUN_FIELDS,
    Field,
    Kind,
)
from headway.coordinator.core.compiler.language._maps import (
    BODY,
    CASE,
    DEFAULTS,
    EDGE,
    LAST,
    REQUEST,
    RETENTION,
    RETRY,
    RETRY_RULE,
    TIMEOUT,
    TOLERATE,
    WORKFLOW,
)
from headway.coordinator.core.compiler.language._nodes import (
    CAN_FAIL_LATE,
    NODES,
    NodeKind,
)

__all__ = [
    "BODY",
    "CAN_FAIL_LATE",
    "CASE",
    "DEFAULTS",
    "EDGE",
    "Field",
    "Kind",
    "LAST",
    "LOOP_FIELDS_IN_EXPRESSIONS",
    "MAX_CONCURRENCY",
    "MAX_DURATION_MS",
    "MAX_ITERATIONS",
    "MAX_LEASE_MS",
    "MAX_NAME",
    "MAX_NESTING",
    "MAX_NODES",
    "MIN_LEASE_MS",
    "MIN_RETENTION_MS",
    "NAME_PATTERN",
    "NODES",
    "NODE_FIELDS_IN_EXPRESSIONS",
    "NodeKind",
    "ONLY_NODE",
    "OUTCOME_FIELDS",
    "OWN_HANDLERS",
    "REQUEST",
    "RESERVED_NAMES",
    "RETENTION",
    "RETRY",
    "RETRY_RULE",
    "RUN_FIELDS",
    "TIMEOUT",
    "TOLERATE",
    "WORKFLOW",
]
