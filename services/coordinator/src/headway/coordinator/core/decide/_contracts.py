"""Contracts: what the workflow says of outputs, held against what came."""

from headway.coordinator.core.document import Document
from headway.coordinator.core.events import Failure
from headway.coordinator.core.plan import FailureClass, Json
from headway.coordinator.core.schemas import misfits

NAMED = 5  # ways in which an output breaks its contract that a failure's details name


def breach(schema: Json, output: Document, what: str) -> Failure | None:
    """How an output breaks its schema, as a failure; None: it does not.

    Args:
        schema: JSON Schema; None: anything fits.
        output: that came.
        what: whose output it is, for the message.
    """
    found = [] if schema is None else misfits(schema, output.value)
    if not found:
        return None
    (path, problem), more = found[0], len(found) - 1
    named: list[Json] = [{"path": path, "problem": problem} for path, problem in found[:NAMED]]
    return Failure(
        failure_class=FailureClass.VERDICT_FAIL,
        type="OutputInvalid",
        message=f"{what} breaks its output_schema: {path} {problem}" + (f", and {more} more" if more else ""),
        details={"path": path, "faults": named},
    )
