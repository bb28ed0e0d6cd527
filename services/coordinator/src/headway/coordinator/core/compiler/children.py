"""Holds a workflow against those that its subflow nodes run: what these are is known where they are stored."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from headway.coordinator.core.compiler.faults import Code, Enough, Fault, Faults
from headway.coordinator.core.compiler.types import Child, check_types
from headway.coordinator.core.compiler.yaml_tree import Source
from headway.coordinator.core.plan import Json, Literal, Place, Plan, Template
from headway.coordinator.core.schemas import TooManySteps, misfits


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A workflow that a subflow node names.

    Attributes:
        workflow: its name.
        version: 0: the deployed one.
        place: where it is named.
        input: what the node gives it. input_place: where that stands.
    """

    workflow: str
    version: int
    place: Place
    input: Template | None
    input_place: Place


def check_children(
    source: str,
    plan: Plan,
    said: Sequence[Fault],
    named: Collection[Named],
    children: Mapping[tuple[str, int], Child],
) -> tuple[Fault, ...]:
    """Returns warnings: of inputs that cannot fit a child's input_schema, and of reads of what its output has not.

    They do not stand in the way: another version of a child may be deployed when the run comes to it.

    Args:
        source: the workflow's text.
        plan: what it compiled to, as far as it did.
        said: what was said of it alone.
        named: the workflows that it runs.
        children: what is known of them, by name and version.
    """
    faults = Faults(said)
    try:
        check_types(faults, Source(source), plan, children)
        for each in named:
            schema = children.get((each.workflow, each.version), (None, None))[0]
            problem = _misfit_of_constant(schema, each.input or Literal(value={}))
            if problem:
                message = f"the input breaks input_schema of {each.workflow}: {problem}"
                faults.add(each.input_place, Code.TYPE_MISMATCH, message, "give an input that fits")
    except Enough:
        pass  # what was found is told
    return tuple(replace(fault, warning=True) for fault in faults.ordered() if fault not in said)


def _misfit_of_constant(schema: Json, given: Template) -> str:
    if schema is None or not isinstance(given, Literal):
        return ""
    try:
        found = misfits(schema, given.value)
    except TooManySteps:
        return ""
    return " ".join(found[0]) if found else ""
