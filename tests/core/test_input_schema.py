"""An input that does not fit its workflow's schema is refused with the path of each fault."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.coordinator.core.compiler import check_input

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
    assert check_input(SCHEMA, GOOD | changes) == expected


def test_names_each_key_that_is_missing() -> None:
    assert check_input(SCHEMA, {}) == [("$.amount", "is required"), ("$.order_id", "is required")]


def test_names_the_input_itself() -> None:
    assert check_input(SCHEMA, [1]) == [("$", "must be of type object, not array")]


def test_anything_fits_no_schema() -> None:
    assert check_input(None, {"any": "thing"}) == []


def test_shows_no_more_than_can_be_read() -> None:
    lines: list[Any] = [{}] * 1_000

    assert len(check_input(SCHEMA, GOOD | {"lines": lines})) == 20


def test_an_input_nested_too_deeply_is_refused_and_not_fatal() -> None:
    schema: dict[str, Any] = {"items": {"$ref": "#"}}
    value: list[Any] = []
    for _ in range(5_000):
        value = [value]

    assert check_input(schema, value) == [("$", "is nested too deeply to be checked")]


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
    for path, message in check_input(SCHEMA, value):
        assert path.startswith("$")
        assert message
