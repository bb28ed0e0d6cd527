"""An input that does not fit its workflow's schema is refused with the path of each fault."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.schemas import MAX_STEPS, Budget, in_one_line, misfits

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["order_id", "amount"],
    "properties": {
        "order_id": {"type": "string", "pattern": "^o"},
        "amount": {"type": "number", "minimum": 1},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "kind": {"enum": ["a", "b"]},
        "when": {"type": "string", "format": "date-time"},
        "options": {"type": "object", "properties": {"x": True}, "additionalProperties": False},
    },
    "$defs": {"line": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}}},
}
GOOD: dict[str, Any] = {"order_id": "o1", "amount": 2}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"amount": 1.5, "lines": [{"sku": "s"}], "kind": "a"}, []),
        ({"when": "formats are not checked"}, []),
        ({"order_id": 5}, [("$.order_id", "must be of type string, not integer")]),
        ({"order_id": "x"}, [("$.order_id", "'x' does not match '^o'")]),
        ({"amount": True}, [("$.amount", "must be of type number, not boolean")]),
        ({"amount": 0}, [("$.amount", "0 is less than the minimum of 1")]),
        ({"kind": "c"}, [("$.kind", 'must be one of ["a","b"]')]),
        ({"lines": [{"sku": "s"}, {}]}, [("$.lines[1].sku", "is required")]),
        ({"lines": [{"sku": None}]}, [("$.lines[0].sku", "must be of type string, not null")]),
        ({"options": {"y-z": 1}}, [('$.options["y-z"]', "is not among the properties allowed")]),
    ],
)
def test_names_the_path_and_what_is_wrong(changes: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert misfits(SCHEMA, GOOD | changes) == expected


def test_names_each_key_that_is_missing() -> None:
    assert misfits(SCHEMA, {}) == [("$.amount", "is required"), ("$.order_id", "is required")]


def test_names_the_input_itself() -> None:
    assert misfits(SCHEMA, [1]) == [("$", "must be of type object, not array")]


def test_anything_fits_no_schema() -> None:
    assert misfits(None, {"any": "thing"}) == []


def test_shows_no_more_than_can_be_read() -> None:
    lines: list[Any] = [{}] * 1_000

    assert len(misfits(SCHEMA, GOOD | {"lines": lines})) == 20


def test_an_input_nested_too_deeply_is_refused_and_not_fatal() -> None:
    schema: dict[str, Any] = {"items": {"$ref": "#"}}
    value: list[Any] = []
    for _ in range(5_000):
        value = [value]

    assert misfits(schema, value) == [("$", "is nested too deeply to be checked")]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["order_id", "amount", "lines", "sku", "options"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(value=JSON_VALUES)
def test_any_value_fits_or_is_told_why_not(value: Any) -> None:
    found = misfits(SCHEMA, value)

    assert found or (isinstance(value, dict) and {"order_id", "amount"} <= value.keys())
    assert all(path.startswith("$") and message for path, message in found)


# What a schema may cost. Counted in steps, so that a slow machine does not fail them.

TOO_MUCH = [("$", "the schema asks for more than 100,000 checks on this input")]


def test_a_pattern_takes_linear_time() -> None:
    budget = Budget()

    found = misfits({"pattern": "^(a+)+$"}, "a" * 50_000 + "!", budget)

    assert [path for path, _ in found] == ["$"]
    assert budget.steps - budget.left < 2_000


def test_a_pattern_of_names_takes_linear_time() -> None:
    schema: dict[str, Any] = {"patternProperties": {"^(a+)+$": False}, "additionalProperties": False}
    budget = Budget()

    found = misfits(schema, {"a" * 1_000 + "!": 1}, budget)

    assert [message for _, message in found] == ["is not among the properties allowed"]
    assert budget.steps - budget.left < 200


def test_unique_items_take_linear_time() -> None:
    budget = Budget()

    assert misfits({"uniqueItems": True}, [{"number": number} for number in range(20_000)], budget) == []
    assert budget.steps - budget.left < 30_000


@pytest.mark.parametrize(
    ("items", "are_unique"),
    [
        ([1, 1.0], False),
        ([True, 1], True),
        ([0, False, None, "", [], {}], True),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([1.5, 1.5], False),
        ([-0.0, 0], False),
        (["1", 1], True),
        ([[1], [True]], True),
    ],
)
def test_items_are_compared_as_json(items: list[Any], are_unique: bool) -> None:  # noqa: FBT001 - a parameter
    expected = [] if are_unique else [("$", "has items that are equal")]

    assert misfits({"uniqueItems": True}, items) == expected


def doubling(levels: int) -> dict[str, Any]:
    """A schema of so many levels, each of which asks the next one twice."""
    definitions: dict[str, Any] = {
        f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": definitions | {f"d{levels}": {"type": "integer"}}}


@pytest.mark.parametrize("dialect", [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}])
def test_alternatives_within_alternatives_end_with_the_budget(dialect: dict[str, Any]) -> None:
    schema = doubling(16)
    schema["$defs"]["d1"] |= dialect

    assert misfits(schema | dialect, "text") == TOO_MUCH


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"enum": [f"word {number}" for number in range(10_000)]}}, ["word 9999"] * 10_000),
        ({"items": {"required": [f"key{number}" for number in range(10_000)]}}, [1] * 10_000),
        ({"anyOf": [{"type": "string"}] * 1_000}, ["x" * 100_000]),
        ({"unevaluatedProperties": {}}, {f"key{number}": 1 for number in range(20_000)}),
        ({"allOf": [{"items": True}] * 1_000}, [0] * 100_000),
    ],
)
def test_what_looks_at_much_costs_more(schema: dict[str, Any], value: Any) -> None:
    assert misfits(schema, value) == TOO_MUCH


def test_a_long_list_of_plain_objects_is_within_the_budget() -> None:
    lines: list[Any] = [{"sku": "s"}] * 10_000
    budget = Budget()

    assert misfits(SCHEMA, GOOD | {"lines": lines}, budget) == []
    assert budget.steps - budget.left < MAX_STEPS


SOURCE = """
workflow: w
input_schema:
  SCHEMA
nodes:
  done: {type: finish}
"""


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ('{properties: {a: {pattern: "(?=a)b"}}}', "linear time: invalid perl operator"),
        ('{pattern: "(a)\\\\1"}', "linear time: invalid escape sequence"),
        ('{patternProperties: {"[": true}}', "linear time: missing ]"),
        ('{patternProperties: {"a": true}, unevaluatedProperties: false}', "cannot be used in one schema"),
        ('{$defs: {a: {$anchor: b}}, $ref: "#/$defs/a"}', "b gives a part of the schema a name"),
        ('{$defs: {a: {$id: "https://b.example"}}}', "https://b.example gives a part of the schema a name"),
    ],
)
def test_deploy_refuses_what_it_could_not_check_in_linear_time(schema: str, message: str) -> None:
    faults = compile_workflow(SOURCE.replace("SCHEMA", schema)).faults

    assert [fault.line for fault in faults] == [4]
    assert message in faults[0].message


def test_all_that_is_missing_is_named_at_once_and_of_much_how_much_there_is_besides() -> None:
    schema: dict[str, Any] = {"required": [f"k{number}" for number in range(7)]}

    assert in_one_line(misfits(schema, {f"k{number}": 0 for number in range(4)})) == (
        "$.k4: is required; $.k5: is required; $.k6: is required"
    )
    assert in_one_line(misfits(schema, {})).endswith("$.k4: is required; and 2 more")


def listed(entry: str, count: int) -> str:
    return ", ".join(entry.replace("N", str(number)) for number in range(count))


HEAVY: dict[str, tuple[str, ...]] = {
    "many properties": (f"{{properties: {{{listed('pN: {type: string, maxLength: 5}', 5_000)}}}}}",),
    "some in each of several": (f"{{properties: {{{listed('pN: {type: string}', 600)}}}}}",) * 6,
    "patterns that grow large": ("{properties: {" + listed(r"pN: {pattern: '\pL{50}N'}", 60) + "}}",),
    "many patterns": (f"{{patternProperties: {{{listed('pN: true', 900)}}}}}",),
    "alternatives of alternatives": (
        "{$ref: '#/$defs/d0', $defs: {"
        + ", ".join(
            f"d{level}: {{anyOf: [{{$ref: '#/$defs/d{level + 1}'}}, {{$ref: '#/$defs/d{level + 1}'}}]}}"
            for level in range(11)
        )
        + ", d11: {type: string}}}",
    )
    * 6,
}


@pytest.mark.parametrize("schemas", HEAVY.values(), ids=HEAVY)
def test_schemas_that_are_too_large_to_be_checked_at_deploy_are_refused_where_they_stand(
    schemas: tuple[str, ...],
) -> None:
    nodes = (f"  n{number}: {{type: call, handler: h, output_schema: {each}}}" for number, each in enumerate(schemas))

    faults = compile_workflow("\n".join(["workflow: w", "nodes:", *nodes])).faults

    assert [fault.message for fault in faults if "checks" in fault.message] == [
        "the schemas up to here ask for more than 200,000 checks of themselves"
    ]
    assert faults[0].line in range(3, 3 + len(schemas))
    assert len(faults) == 1


def test_constants_are_held_against_schemas_within_the_same_budget() -> None:
    values = ", ".join(f"v{number}: [1, 2]" for number in range(60))
    schema = "{items: {anyOf: [{const: 5}, {const: 6}, {type: number}]}}"
    variables = ", ".join(f"v{number}: {schema}" for number in range(60))
    nodes = "".join(f"  n{number}: {{type: set, values: {{{values}}}}}\n" for number in range(120))
    edges = ", ".join(f"n{number}" for number in range(120))

    faults = compile_workflow(f"workflow: w\nvars: {{{variables}}}\nnodes:\n{nodes}edges: [[{edges}]]\n").faults

    assert [fault.message for fault in faults if not fault.warning] == [
        "the schemas up to here ask for more than 200,000 checks of themselves"
    ]
