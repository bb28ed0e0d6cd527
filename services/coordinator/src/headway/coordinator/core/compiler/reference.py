"""Fills the tables of docs/language.md from the tables of the language, so that the two cannot differ."""

import re
from collections.abc import Callable, Mapping, Sequence

from headway.coordinator.core.cel import limits
from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.fields import spell
from headway.coordinator.core.compiler.language import Field, Kind
from headway.coordinator.core.compiler.template_parser import MAX_EXPRESSIONS_BYTES
from headway.coordinator.core.compiler.yaml_tree import MAX_BYTES, MAX_DEPTH, MAX_VALUES
from headway.coordinator.core.durations import spell_duration
from headway.coordinator.core.effort import BYTES_A_STEP, DECISION_STEPS
from headway.coordinator.core.payloads import LIMIT
from headway.coordinator.core.schemas import DEPLOY_STEPS, MAX_STEPS

_MARKED = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def fill(text: str) -> str:
    """Returns the page, with what stands between its marks made anew.

    Raises:
        KeyError: a mark that has no table.
    """
    return _MARKED.sub(lambda found: found[1] + _PARTS[found[2]]() + found[3], text)


def table(fields: Sequence[Field]) -> str:
    """Returns the keys as a table."""
    rows = [f"| `{field.name}` | {_value_of(field)} | {_default_of(field)} | {field.doc} |\n" for field in fields]
    return "| key | value | default | meaning |\n| --- | --- | --- | --- |\n" + "".join(rows)


def _value_of(field: Field) -> str:
    if field.words:
        return ", ".join(f"`{word}`" for word in field.words)
    if field.kind in (Kind.INTEGER, Kind.NUMBER):
        return f"{field.kind.value}, {spell(field.least)} to {spell(field.most)}"
    if field.kind is Kind.DURATION and (field.least > 1 or field.most < language.MAX_DURATION_MS):
        return f"duration, {spell_duration(int(field.least))} to {spell_duration(int(field.most))}"
    return field.kind.value


def _default_of(field: Field) -> str:
    if field.required:
        return "**required**"
    plain = not field.default or " " in field.default or field.default in ("anything", "none")
    return field.default if plain else f"`{field.default}`"


def _nodes() -> str:
    rows = "".join(
        f"| [{node_type.value}](nodes/{node_type.value}.md) | {_first_sentence(kind.doc)} |\n"
        for node_type, kind in language.NODES.items()
    )
    return f"| type | what it does |\n| --- | --- |\n{rows}"


def _first_sentence(text: str) -> str:
    return text.replace("\n", " ").partition(". ")[0].partition(": ")[0].removesuffix(".") + "."


def _limits() -> str:
    rows = {
        "size of a file": f"{MAX_BYTES:,} bytes",
        "values in a file, aliases expanded": f"{MAX_VALUES:,}",
        "depth of a file": str(MAX_DEPTH),
        "an input, an output, a signal's payload, a run's variables": f"{LIMIT:,} bytes of JSON each (1 MiB)",
        "nodes": f"{language.MAX_NODES:,}",
        "checks that a schema asks for of one value": f"{MAX_STEPS:,}",
        "checks that all schemas ask for of themselves, at deploy": f"{DEPLOY_STEPS:,}: about 2,500 properties",
        "a name": f"{language.MAX_NAME} characters",
        "an expression": f"{limits.MAX_SOURCE_BYTES:,} bytes",
        "all different expressions of a file, those that are only a path left out": (
            f"{MAX_EXPRESSIONS_BYTES:,} bytes, 128 added for each"
        ),
        "`map`, `filter`, `all`, `exists` inside one another": str(limits.MAX_LOOPS),
        "items of a list that an expression goes through": f"{limits.MAX_LIST[1]:,}; {limits.MAX_LIST[2]} when nested; "
        "fewer when much is computed for each; a `map` node goes through more, and its `where` leaves items out",
        "values that one expression reads": f"{limits.MAX_BOUND_VALUES:,}; of lists and maps of which it asks only "
        "for items or the size, those items count",
        "results of a map that are put together, or that one expression reads item by item": (
            f"{LIMIT:,} bytes of JSON; go over them with another map, which has no such limit"
        ),
        "text that one expression reads": f"{limits.MAX_BOUND_TEXT:,} characters; "
        f"{limits.MAX_LOOP_TEXT:,} when it goes through a list",
        "what one decision computes: all nodes and conditions from one event to the next `wait` or worker": (
            f"{DECISION_STEPS:,} steps; a step is an operator applied to an item, a twelfth of a value that an "
            f"expression reads, a value that it compares, or {BYTES_A_STEP} bytes of JSON read or written, as an upper "
            "estimate. The node that asks for more fails with the type `DecisionTooLarge`: put a `wait` or a node for "
            "a worker before it"
        ),
    }
    lines = "".join(f"| {what} | {most} |\n" for what, most in rows.items())
    return f"| what | at most |\n| --- | --- |\n{lines}"


_PARTS: Mapping[str, Callable[[], str]] = {
    "workflow": lambda: table(language.WORKFLOW),
    "defaults": lambda: table(language.DEFAULTS),
    "nodes": _nodes,
    "retention": lambda: table(language.RETENTION),
    "request": lambda: table(language.REQUEST),
    "retry": lambda: table(language.RETRY),
    "retry rule": lambda: table(language.RETRY_RULE),
    "timeout": lambda: table(language.TIMEOUT),
    "finally": lambda: table(language.LAST),
    "edge": lambda: table(language.EDGE),
    "case": lambda: table(language.CASE),
    "limits": _limits,
}
