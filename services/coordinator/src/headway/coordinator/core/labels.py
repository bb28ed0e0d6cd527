"""Labels of runs: short names and values to find runs by, given at the start or computed from the input."""

from collections.abc import Mapping

import orjson

from headway.coordinator.core.cel import ExpressionError
from headway.coordinator.core.document import Document
from headway.coordinator.core.effort import Effort, TooMuchToDecide
from headway.coordinator.core.lookups import UnknownValue, descend
from headway.coordinator.core.plan import Json, Template, VariablePath
from headway.coordinator.core.refusals import InvalidLabel
from headway.coordinator.core.templates import render

MAX_LABELS = 16
MAX_NAME = 63  # characters
MAX_VALUE = 200
MAX_STEPS = 200_000  # that computing the labels of one run may take: forty times less than a decision


def label_fault(name: str, value: str) -> str:
    """What is wrong with a label; empty: nothing."""
    if not 0 < len(name) <= MAX_NAME or "\x00" in name:
        return f"a label's name must have 1 to {MAX_NAME} characters and no NUL, not {name[:MAX_NAME]!r}"
    if not 0 < len(value) <= MAX_VALUE or "\x00" in value:
        return f"the value of the label {name!r} must have 1 to {MAX_VALUE} characters and no NUL"
    return ""


def labels_fault(labels: Mapping[str, str]) -> str:
    """What is wrong with the labels of one run; empty: nothing."""
    if len(labels) > MAX_LABELS:
        return f"a run has at most {MAX_LABELS} labels, not {len(labels)}"
    return next((fault for name, value in labels.items() if (fault := label_fault(name, value))), "")


def labels_of(templates: Mapping[str, Template], given: Mapping[str, str], data: Document) -> dict[str, str]:
    """The labels of a new run, by name; what is given at the start goes before what the definition says.

    Args:
        templates: of the definition.
        given: at the start.
        data: the run's input.

    Raises:
        InvalidLabel: one cannot be computed, or is no label.
    """
    labels: dict[str, str] = {}
    effort = Effort(MAX_STEPS)
    for name, template in templates.items():
        if name in given:
            continue
        try:
            value = _spelt(render(template, lambda path: _lookup(data, path), effort=effort))
        except (ExpressionError, UnknownValue) as error:
            raise InvalidLabel(problem=f"the label {name!r} cannot be computed: {error}") from error
        except TooMuchToDecide as error:
            problem = f"the label {name!r} asks for too much: the labels of a run may take {MAX_STEPS:,} steps together"
            raise InvalidLabel(problem=problem) from error
        if value is None:
            raise InvalidLabel(problem=f"the label {name!r} is a list or a map; it must be text, a number or a boolean")
        if value:
            labels[name] = value
    labels.update(given)
    if problem := labels_fault(labels):
        raise InvalidLabel(problem=problem)
    return dict(sorted(labels.items()))


def _lookup(data: Document, path: VariablePath) -> Json:
    if path[0] != "input":
        raise UnknownValue(path)
    return descend(data.value, path, 1)


def _spelt(value: Json) -> str | None:
    """A label's value; empty: there is no such label; None: it cannot be one."""
    if value is None or isinstance(value, str):
        return value or ""
    return None if isinstance(value, list | dict) else orjson.dumps(value).decode()
