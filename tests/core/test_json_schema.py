"""The language as a JSON Schema: what compiles fits it, and what it can see of what does not compile does not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft7Validator

from headway.coordinator.core.compiler import Code, Fault, compile_workflow
from headway.coordinator.core.compiler.faults import Faults
from headway.coordinator.core.compiler.json_schema import json_schema
from headway.coordinator.core.compiler.language import NODES, RESERVED_NAMES, Kind
from headway.coordinator.core.compiler.yaml_tree import Source, load_yaml, plain_value
from tests.core.faulty import TABLE
from tests.core.test_newcomers import TABLE as NEWCOMERS

ROOT = Path(__file__).resolve().parents[2]
VALIDATOR = Draft7Validator(json_schema())
SEEN = {
    Code.UNKNOWN_KEY,
    Code.MISSING_KEY,
    Code.UNKNOWN_NODE_TYPE,
    Code.NO_NODES,
    Code.WRONG_NAME,
    Code.RESERVED_NAME,
    Code.WRONG_TYPE,
    Code.WRONG_VALUE,
    Code.UNQUOTED_TEMPLATE,
    Code.TEMPLATE_NOT_ALLOWED,
    Code.BARE_EXPRESSION,
}


def problems(source: str) -> list[str]:
    tree = load_yaml(Source(source), Faults())
    validator: Any = VALIDATOR  # typed for mappings only
    return [error.message for error in validator.iter_errors(None if tree is None else plain_value(tree))]


def written() -> Iterator[str]:
    """Every workflow that stands in a test, an example or the documents as one piece of text."""
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "nodes:" in node.value:
                yield node.value
    for path in (*(ROOT / "examples").rglob("*.yaml"), *(ROOT / "tests").rglob("*.yaml")):
        yield path.read_text("utf-8")
    for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"):
        yield from re.findall(r"```yaml\n(.*?)```", path.read_text("utf-8"), re.DOTALL)


def test_every_workflow_that_compiles_fits() -> None:
    compiled = [source for source in dict.fromkeys(written()) if compile_workflow(source).plan is not None]

    wrong = {source: found for source in compiled if (found := problems(source))}

    assert wrong == {}
    assert len(compiled) > 30


def test_what_the_schema_can_see_does_not_fit() -> None:
    faulty = {source: compile_workflow(source).faults for _, source, _ in (*TABLE, *NEWCOMERS)}
    seen = [source for source, faults in faulty.items() if any(_is_structural(fault) for fault in faults)]

    missed = [source for source in seen if _is_yaml(source) and not problems(source)]

    assert missed == []
    assert len(seen) > 80


def _is_yaml(source: str) -> bool:
    faults = Faults()
    return load_yaml(Source(source), faults) is not None and not faults.fatal()


def _is_structural(fault: Fault) -> bool:
    """It is about a key or a value alone; not about the calendar, numbers that JSON has not, or code."""
    others = ("code ", "run ", "until is no instant", "JSON has no", "64 bits", "surrogate")
    return not fault.warning and fault.code in SEEN and not any(each in fault.message for each in others)


def test_every_key_is_described() -> None:
    def undescribed(schema: object, path: str) -> Iterator[str]:
        match schema:
            case {"properties": dict() as properties, **rest}:
                for name, each in cast("dict[str, dict[str, object]]", properties).items():
                    if "description" not in each and not path.endswith(("if", "then")):
                        yield f"{path}.{name}"
                    yield from undescribed(each, f"{path}.{name}")
                yield from undescribed(rest, path)
            case dict():
                for name, each in cast("dict[str, object]", schema).items():
                    yield from undescribed(each, f"{path}/{name}")
            case list():
                for each in cast("list[object]", schema):
                    yield from undescribed(each, path)
            case _:
                pass

    assert [*undescribed(json_schema(), "")] == []


@pytest.mark.parametrize(
    "node",
    [
        "{type: call}",
        "{type: call, handler: h, retries: 3}",
        "{type: call, handler: h, retry: {max_attempts: 0}}",
        "{type: call, handler: h, retry: {factor: '2'}}",
        "{type: call, handler: h, timeout: 30}",
        "{type: call, handler: h, timeout: {atempt: 30s}}",
        "{type: call, handler: h, lease: 90}",
        "{type: call, handler: h, optional: 'yes'}",
        "{type: call, handler: '${input.h}'}",
        "{type: http, request: {method: get, url: x}}",
        "{type: http, request: {method: GET}}",
        "{type: http, request: {url: x, expect: [99]}}",
        "{type: switch, cases: [], default: none}",
        "{type: switch, cases: [{when: '${input.x}', to: a}], default: none}",
        "{type: switch, cases: [{when: input.x, to: a}]}",
        "{type: join, need: some}",
        "{type: join, need: 0}",
        "{type: set, values: {}}",
        "{type: set, values: {Big: 1}}",
        "{type: finish, outcome: done}",
        "{type: wait_for_event}",
        "{type: python, code: 1}",
        "[call]",
        "{handler: h}",
    ],
)
def test_a_node_that_is_wrong_is_seen(node: str) -> None:
    source = f"workflow: w\nnodes:\n  a: {node}\n"

    assert problems(source)
    assert compile_workflow(source).plan is None


@pytest.mark.parametrize(
    "line", ["edges: [[a]]", "edges: [a -> b]", "edges: [{from: a}]", "deadline: 5", "on_failure: go"]
)
def test_a_workflow_that_is_wrong_is_seen(line: str) -> None:
    source = f"workflow: w\nnodes: {{a: {{type: call, handler: h}}}}\n{line}\n"

    assert problems(source)
    assert compile_workflow(source).plan is None


def test_every_reserved_name_and_every_type_of_node_is_in_it() -> None:
    for name in RESERVED_NAMES:
        assert problems(f"workflow: w\nnodes:\n  {name}: {{type: call, handler: h}}\n")
    definitions: Any = json_schema()["definitions"]
    assert definitions["node"]["properties"]["type"]["enum"] == [kind.value for kind in NODES]
    call = definitions["node"]["allOf"][0]["then"]["properties"]
    assert call["queue"]["default"] == "default"
    assert call["lease"] == {
        "$ref": "#/definitions/duration",
        "description": call["lease"]["description"],
        "default": "90s",
    }
    assert definitions["retry"]["properties"]["jitter"]["default"] == 0.2
    assert Draft7Validator.check_schema(json_schema()) is None


def test_every_kind_of_value_has_a_schema() -> None:
    text = str(json_schema())

    assert all(kind.value for kind in Kind)
    assert "None" not in re.findall(r"'default': (\w+)", text)
