"""The types of failures that the engine itself gives, as `errors:` of an edge names them; handlers give others.

Deciding code has them from here, the pages of the nodes say when each comes, and a test holds the two together.
"""

from collections.abc import Mapping
from enum import StrEnum

from headway.coordinator.core.plan import NodeType


class FailureType(StrEnum):
    """What `error.type` of a task or item is when no handler said so: the value, for expressions take nothing else."""

    EXPRESSION_ERROR = "ExpressionError"
    DECISION_TOO_LARGE = "DecisionTooLarge"
    PAYLOAD_TOO_LARGE = "PayloadTooLarge"
    OUTPUT_INVALID = "OutputInvalid"
    VARIABLE_INVALID = "VariableInvalid"
    LEASE_LOST = "LeaseLost"
    CANCELLED = "Cancelled"
    ATTEMPT_TIMEOUT = "attempt_timeout"
    QUEUE_TIMEOUT = "queue_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    HEARTBEAT_TIMEOUT = "heartbeat_timeout"
    STALL_TIMEOUT = "stall_timeout"
    EVENT_TIMEOUT = "event_timeout"
    INVALID_EVENT_NAME = "InvalidEventName"
    INVALID_DURATION = "InvalidDuration"
    INVALID_INSTANT = "InvalidInstant"
    NOT_A_LIST = "NotAList"
    ITEMS_FAILED = "ItemsFailed"
    ITERATIONS_EXHAUSTED = "IterationsExhausted"
    NOTHING_SUCCEEDED = "NothingSucceeded"
    SUBFLOW_FAILED = "SubflowFailed"
    SUBFLOW_CANCELLED = "SubflowCancelled"
    SUBFLOW_REFUSED = "SubflowRefused"
    SUBFLOW_KEY_TAKEN = "SubflowKeyTaken"
    SUBFLOW_TOO_DEEP = "SubflowTooDeep"


# What the workers of Headway's own nodes give besides. For http that is all; the code of a python node raises others.
TYPES_OF_NODES: Mapping[NodeType, tuple[str, ...]] = {
    NodeType.HTTP: (
        "HttpStatus",
        "HttpUnreachable",
        "HttpTimeout",
        "HttpError",
        "HttpInvalidRequest",
        "HttpResponseTooLarge",
    ),
    NodeType.PYTHON: ("PythonTimeout", "PythonDied", "PythonLimit", "SyntaxError", "NameError", "InvalidOutput"),
}
