"""Templates at run time: values keep their types, pass untouched, and are never looked at for templates again."""

from typing import Any

import orjson
import pytest

from headway.coordinator.core import cel, templates
from headway.coordinator.core.plan import (
    Array,
    Computed,
    Expression,
    Json,
    Literal,
    Object,
    Place,
    Reference,
    Template,
    Text,
    VariablePath,
)
from headway.coordinator.core.templates import UnknownValue, evaluate, evaluate_condition, render, render_json

PLACE = Place(line=3, column=7)
DATA: dict[str, Json] = {
    "input": {
        "amount": 1500,
        "name": "Ada",
        "trick": "${input.amount} $${",
        "map": {"z": 1, "n": None},
        "order-id": "o1",
    },
    "nodes": {"a": {"output": {"n": 5, "big": [1, 2, 3]}, "state": "succeeded"}},
}


def lookup(path: VariablePath) -> Json:
    return templates.descend(DATA, path, 0)


def expression(source: str) -> Expression:
    found = cel.references(source)
    return Expression(source=source, reads=found.reads, tests=found.tests, place=PLACE)


def computed(source: str) -> Computed:
    return Computed(expression=expression(source))


def reference(*path: str) -> Reference:
    return Reference(path=path, place=PLACE)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (Literal(value={"a": ["${input.amount}"]}), {"a": ["${input.amount}"]}),
        (reference("input", "amount"), 1500),
        (reference("input", "order-id"), "o1"),
        (reference("input", "trick"), "${input.amount} $${"),
        (computed("input.amount / 1000"), 1.5),
        (computed('input["order-id"] + "!"'), "o1!"),
        (Text(parts=("order ", reference("input", "amount"))), "order 1500"),
        (Text(parts=(reference("input", "trick"), "|")), "${input.amount} $${|"),
        (Text(parts=(computed("input.amount > 1"), " ", computed("input.amount / 1000"))), "true 1.5"),
        (Text(parts=(reference("input", "map"), " ", reference("input", "map", "n"))), '{"z":1,"n":null} null'),
        (Object(entries={"a": Array(items=(reference("input", "name"), Literal(value=1)))}), {"a": ["Ada", 1]}),
    ],
)
def test_a_template_yields(template: Template, expected: object) -> None:
    assert render(template, lookup) == expected


def test_a_bare_path_passes_the_value_itself_uncopied() -> None:
    value: Any = {"large": [1]}

    assert render(reference("input"), lambda _path: value) is value


def test_raw_json_is_spliced_in_undecoded() -> None:
    raw = b'{"kept":  "as it is" , "n":1.0}'
    template = Object(entries={"whole": reference("nodes", "a", "output"), "one": Literal(value=1)})

    assert render_json(template, lambda _path: orjson.Fragment(raw)) == b'{"whole":' + raw + b',"one":1}'


def test_raw_json_is_decoded_where_something_is_computed_from_it() -> None:
    def raw(_path: VariablePath) -> orjson.Fragment:
        return orjson.Fragment(b'{"n": 2}')

    assert render(computed("nodes.a.output.n + 1"), lambda _path: orjson.Fragment(b"2")) == 3
    assert render(Text(parts=("is ", reference("x"))), raw) == 'is {"n":2}'


def test_only_the_paths_that_are_named_are_asked_for() -> None:
    asked: list[VariablePath] = []

    def asking(path: VariablePath) -> Json:
        asked.append(path)
        return lookup(path)

    evaluate(expression("nodes.a.output.n > 3 && has(input.name)"), asking)

    assert asked == [("nodes", "a", "output", "n"), ("input", "name")]


def test_presence_is_asked_without_the_value_where_that_can_be_told() -> None:
    def refuse(path: VariablePath) -> Json:
        raise AssertionError(path)

    assert (
        evaluate(expression("has(nodes.b.output)"), refuse, present=lambda path: path == ("nodes", "b", "output"))
        is True
    )
    assert evaluate(expression("has(nodes.b.output)"), refuse, present=lambda _path: False) is False


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("has(input.map.z)", True),
        ("has(input.map.n)", True),
        ("has(input.map.q)", False),
        ("has(input.absent.deeper)", False),
        ("has(input.amount.deeper)", False),
        ("has(input.map) && has(input.map.z)", True),
        ("has(input.absent) || has(input.map)", True),
        ("has(nodes.b.output) && nodes.b.output.n > 3", False),
        ("has(nodes.a.output) && nodes.a.output.n > 3", True),
        ("has(nodes.b.output) ? nodes.b.output.n : null", None),
        ("size(input) > 1 && input.amount > 3", True),
    ],
)
def test_has_guards_what_may_be_missing(source: str, expected: object) -> None:
    assert evaluate(expression(source), lookup) == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (reference("input", "absent"), "input.absent has no value, in input.absent (line 3, column 7)"),
        (reference("input", "a-b"), 'input["a-b"] has no value, in input["a-b"] (line 3, column 7)'),
        (computed("nodes.b.output.n > 3"), "nodes.b.output.n has no value, in nodes.b.output.n > 3 (line 3, column 7)"),
        (computed("input.name + 1"), "+ cannot be used on text and integer, in input.name + 1 (line 3, column 7)"),
        (Text(parts=("x", computed("input.amount / 0"))), "division by zero, in input.amount / 0 (line 3, column 7)"),
    ],
)
def test_an_error_names_the_expression_its_place_and_the_types(template: Template, message: str) -> None:
    with pytest.raises(cel.ExpressionError) as raised:
        render(template, lookup)

    assert str(raised.value) == message


def test_a_condition_is_true_or_false_and_nothing_else() -> None:
    assert evaluate_condition(expression("input.amount > 1"), lookup) is True

    with pytest.raises(cel.ExpressionError, match="a condition must be true or false, this is a number"):
        evaluate_condition(expression("input.amount"), lookup)
    with pytest.raises(cel.ExpressionError, match="this is null"):
        evaluate_condition(expression("input.map.n"), lookup)


def test_what_the_caller_raises_passes_through() -> None:
    class NotLoadedError(Exception):
        pass

    def unloaded(_path: VariablePath) -> Json:
        raise NotLoadedError

    with pytest.raises(NotLoadedError):
        evaluate(expression("input.amount > 1"), unloaded)


def test_reads_are_all_paths_that_may_be_asked_for() -> None:
    template = Object(
        entries={
            "a": Text(parts=("x", reference("input", "a"))),
            "b": Array(items=(computed("has(input.b) ? input.c + 1 : 0"), Literal(value=1))),
        }
    )

    assert templates.reads(template) == {("input", "a"), ("input", "b"), ("input", "c")}


def test_a_whole_reference_is_a_bare_path_and_nothing_else() -> None:
    assert templates.whole_reference(reference("nodes", "a", "output")) == ("nodes", "a", "output")
    assert templates.whole_reference(Array(items=(reference("input"),))) is None
    assert templates.whole_reference(computed("input.a + 1")) is None
    assert templates.whole_reference(None) is None


def test_descending_ends_where_there_is_nothing() -> None:
    assert templates.descend({"b": {"c": 1}}, ("a", "b", "c"), 1) == 1
    with pytest.raises(UnknownValue, match=r"a\.b\.c\.d has no value"):
        templates.descend({"b": {"c": 1}}, ("a", "b", "c", "d"), 1)
