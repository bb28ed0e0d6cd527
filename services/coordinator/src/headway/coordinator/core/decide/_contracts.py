"""Contracts: what the workflow says of outputs, held against what came."""

from collections.abc import Mapping

from headway.coordinator.core.document import Document
from headway.coordinator.core.effort import SCHEMA_STEPS, Effort
from headway.coordinator.core.events import Failure
from headway.coordinator.core.failure_types import FailureType
from headway.coordinator.core.plan import FailureClass, Json
from headway.coordinator.core.schemas import Budget, misfits

NAMED = 5  # ways in which an output breaks its contract that a failure's details name


def breach(schema: Json, output: Document, what: str, effort: Effort) -> Failure | None:
    """How an output breaks its schema, as a failure; None: it does not.

    Args:
        schema: JSON Schema; None: anything fits.
        output: that came.
        what: whose output it is, for the message.
        effort: of the decision, which is charged.

    Raises:
        TooMuchToDecide: it does not suffice.
    """
    if schema is None:
        return None
    return _verdict(schema, output.value, FailureType.OUTPUT_INVALID.value, f"{what} breaks its output_schema", effort)


def variable_breach(schemas: Mapping[str, Json] | None, values: Mapping[str, Json], effort: Effort) -> Failure | None:
    """How the first variable that does so breaks its schema, as a failure; None: none does.

    Raises:
        TooMuchToDecide: the effort does not suffice.
    """
    for name, value in values.items():
        schema = None if schemas is None else schemas.get(name)
        if schema is None:
            continue
        if found := _verdict(schema, value, FailureType.VARIABLE_INVALID.value, f"{name} breaks its schema", effort):
            return found
    return None


def faults_in(schema: Json, value: Json, effort: Effort) -> list[tuple[str, str]]:
    """How a value breaks a schema, as `misfits`; what it takes is charged. Raises TooMuchToDecide."""
    budget = Budget()
    found = misfits(schema, value, budget)
    effort.spent((budget.steps - max(budget.left, 0)) * SCHEMA_STEPS)
    return found


def _verdict(schema: Json, value: Json, error_type: str, what: str, effort: Effort) -> Failure | None:
    found = faults_in(schema, value, effort)
    if not found:
        return None
    (path, problem), more = found[0], len(found) - 1
    named: list[Json] = [{"path": path, "problem": problem} for path, problem in found[:NAMED]]
    return Failure(
        failure_class=FailureClass.VERDICT_FAIL,
        type=error_type,
        message=f"{what}: {path} {problem}" + (f", and {more} more" if more else ""),
        details={"path": path, "faults": named},
    )
