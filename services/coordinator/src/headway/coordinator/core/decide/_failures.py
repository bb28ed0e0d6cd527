"""Failures that the engine itself gives, and those that are read back from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.events import Failure
from headway.coordinator.core.failure_types import FailureType
from headway.coordinator.core.payloads import LIMIT
from headway.coordinator.core.plan import FailureClass

if TYPE_CHECKING:
    from headway.coordinator.core.effort import TooMuchToDecide
    from headway.coordinator.core.plan import Edge, Json
    from headway.coordinator.core.rows import TaskRow


def failed(kind: FailureType, message: str, details: dict[str, Json] | None = None) -> Failure:
    """A failure of a type that the engine gives."""
    return Failure(failure_class=FailureClass.EXEC_FAILED, type=kind.value, message=message, details=details)


def expression_failure(error: ExpressionError | TooMuchToDecide, edge: Edge | None = None) -> Failure:
    """An expression that could not be evaluated, as a failure of the node that needed it. `edge`: whose condition."""
    details: dict[str, Json] = {}
    kind = FailureType.DECISION_TOO_LARGE
    if isinstance(error, ExpressionError):
        kind = FailureType.EXPRESSION_ERROR
        details = {"expression": error.expression, "values": dict(error.types)}
        if error.place is not None:
            details |= {"line": error.place.line, "column": error.place.column}
    if edge is not None:
        details["edge"] = edge.index
    return failed(kind, str(error), details)


def timed_out(which: str, message: str) -> Failure:
    """The failure of a node whose time is over."""
    return Failure(
        failure_class=FailureClass.TIMEOUT,
        type=FailureType(f"{which}_timeout").value,
        message=f"{which} time-out: {message}",
        details={"timeout": which},
    )


def too_large(what: str, size: int) -> Failure | None:
    """The failure of a node that gives more bytes of JSON than can be stored; None: they can be."""
    if size <= LIMIT:
        return None
    return failed(FailureType.PAYLOAD_TOO_LARGE, f"{what} has {size} bytes of JSON; the limit is {LIMIT}")


class TooLargeError(Exception):
    """A value has more bytes of JSON than can be stored. `failure`: of the node that gives it."""

    def __init__(self, failure: Failure) -> None:
        """Say what the node fails with."""
        super().__init__(failure.message)
        self.failure = failure


def need_room(what: str, size: int) -> None:
    """Raise TooLargeError when so many bytes of JSON are more than can be stored."""
    if size > LIMIT and (failure := too_large(what, size)) is not None:
        raise TooLargeError(failure)


def failure_of(row: TaskRow) -> Failure:
    """How a failed task failed, from its row."""
    error = row.error or {}
    details = error.get("details")
    return Failure(
        failure_class=row.failure_class or FailureClass.EXEC_FAILED,
        type=str(error.get("type")),
        message=str(error.get("message")),
        details=details if isinstance(details, dict) else None,
    )
