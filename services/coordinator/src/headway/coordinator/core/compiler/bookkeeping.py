"""Reads what a workflow says of its runs as a whole: their labels, and how long they are kept."""

from collections.abc import Mapping

from headway.coordinator.core.cel import VARIABLES
from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.faults import Code
from headway.coordinator.core.compiler.fields import Entries, Reading
from headway.coordinator.core.compiler.names import instead_of_name
from headway.coordinator.core.compiler.optional import Optionals
from headway.coordinator.core.compiler.yaml_tree import Yaml, YamlList, YamlMap
from headway.coordinator.core.durations import spell_duration
from headway.coordinator.core.labels import MAX_LABELS, label_fault
from headway.coordinator.core.plan import Array, Literal, Object, Template


def read_labels(reading: Reading, outer: Entries, optionals: Optionals) -> Mapping[str, Template]:
    """Returns the templates under the key `labels`, by name."""
    tree = outer.map("labels")
    if tree is None:
        return {}
    if len(tree.entries) > MAX_LABELS:
        message = f"{len(tree.entries)} labels; a run has at most {MAX_LABELS}"
        reading.faults.add(tree.place, Code.TOO_MANY, message, "leave the least useful out")
    return {name: _read_label(reading, name, value, tree, optionals) for name, value in tree.entries.items()}


def _read_label(reading: Reading, name: str, tree: Yaml, within: YamlMap, optionals: Optionals) -> Template:
    if problem := label_fault(name, "-"):
        reading.faults.add(within.keys[name], Code.WRONG_NAME, problem, "shorten it")
    template = reading.templates.template(tree)
    if isinstance(template, Object | Array) or (
        isinstance(template, Literal) and isinstance(template.value, dict | list)
    ):
        message = f"the label {name} must be text, a number or a boolean"
        reading.faults.add(tree.place, Code.WRONG_TYPE, message, "write one label for each value")
    elif (
        isinstance(template, Literal)
        and isinstance(template.value, str)
        and (problem := label_fault(name, template.value))
    ):
        reading.faults.add(tree.place, Code.WRONG_VALUE, problem, "shorten it, or leave the label out")
    sites = reading.templates.take_sites()
    optionals.note_unasked(sites)
    for site in sites:
        for mention in site.mentions:
            root = mention.path[0]
            if root in VARIABLES and root != "input":
                message = f"labels are made at the start: {root} is not there yet"
                reading.faults.add(mention.place, Code.UNKNOWN_REFERENCE, message, "read input, all that labels see")
            elif root != "input":
                remedy = instead_of_name(mention.path, ["input"], (), ())
                reading.faults.add(mention.place, Code.UNKNOWN_REFERENCE, f"unknown name {root}", remedy)
    return template


def read_retention(reading: Reading, outer: Entries) -> Mapping[str, int]:
    """Returns milliseconds by state under the key `retention`; a duration alone is for all states."""
    states = [field.name for field in language.RETENTION]
    tree = outer.tree("retention")
    if isinstance(tree, YamlMap):
        entries = Entries(reading, tree, language.RETENTION, "a retention")
        return {state: kept for state in states if (kept := entries.duration(state)) is not None}
    if isinstance(tree, YamlList):
        outer.wrong(tree.place, "retention must be a duration or a map", "write 30d, or {succeeded: 7d, failed: 30d}")
        return {}
    kept = outer.duration("retention")
    if kept is not None and kept < language.MIN_RETENTION_MS:
        message = f"retention must be at least {spell_duration(language.MIN_RETENTION_MS)}"
        reading.faults.add(outer.place_of("retention"), Code.WRONG_VALUE, message, "write 30d, or leave it out")
        return {}
    return {} if kept is None else dict.fromkeys(states, kept)
