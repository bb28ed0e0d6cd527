"""Templates at run time: values keep their types, pass untouched, and are never looked at for templates again."""

from typing import Any, TypeAlias

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.coordinator.core import cel, lookups, templates
from headway.coordinator.core.lookups import UnknownValue, spell
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
from headway.coordinator.core.templates import evaluate, evaluate_condition, render

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
    return lookups.descend(DATA, path, 0)


def expression(source: str) -> Expression:
    found = cel.references(source)
    return Expression(source=source, reads=found.reads, parts=found.parts, tests=found.tests, place=PLACE)


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

    assert orjson.dumps(render(template, lambda _path: orjson.Fragment(raw))) == b'{"whole":' + raw + b',"one":1}'


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
        (reference("input", "absent"), "input.absent has no value, in input.absent WHERE"),
        (reference("input", "a-b"), 'input["a-b"] has no value, in input["a-b"] WHERE'),
        (
            computed("nodes.b.output.n > 3"),
            "nodes.b.output.n has no value, in nodes.b.output.n > 3 WHERE; nodes.b.output.n is not there",
        ),
        (
            computed("input.name + 1"),
            "+ cannot be used on text and integer, in input.name + 1 WHERE; input.name is text",
        ),
        (
            Text(parts=("x", computed("input.amount / 0"))),
            "division by zero, in input.amount / 0 WHERE; input.amount is a number",
        ),
    ],
)
def test_an_error_names_the_expression_its_place_and_the_types(template: Template, message: str) -> None:
    with pytest.raises(cel.ExpressionError) as raised:
        render(template, lookup)

    assert str(raised.value) == message.replace("WHERE", "(line 3, column 7)")


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
    assert lookups.descend({"b": {"c": 1}}, ("a", "b", "c"), 1) == 1
    with pytest.raises(UnknownValue, match=r"a\.b\.c\.d has no value"):
        lookups.descend({"b": {"c": 1}}, ("a", "b", "c", "d"), 1)


# has(…): a value may be missing at any depth, in any of the variables, under any form of guard.

ERROR: dict[str, Json] = {"class": "exec_failed", "type": "SoldOut", "message": "none left", "body": {"left": 0}}


@pytest.mark.parametrize(
    ("source", "data", "expected"),
    [
        ("has(nodes.a.output) ? nodes.a.output : null", {"nodes": {"a": {"output": 7}}}, 7),
        ("has(nodes.a.output) ? nodes.a.output : null", {"nodes": {"a": {"output": None}}}, None),
        ("has(nodes.a.output) ? nodes.a.output : 'other'", {"nodes": {"a": {"state": "failed"}}}, "other"),
        ("has(nodes.a.output) ? nodes.a.output : 'other'", {"nodes": {}}, "other"),
        ("has(nodes.a.output) ? nodes.a.output : 'other'", {}, "other"),
        ("has(nodes.a.output.x.y) ? nodes.a.output.x.y : 0", {"nodes": {"a": {"output": {"x": {}}}}}, 0),
        ("has(nodes.a.output) ? nodes.a.output : nodes.b.output", {"nodes": {"b": {"output": 3}}}, 3),
        ("has(nodes.a.output) && nodes.a.output", {"nodes": {"a": {"state": "failed"}}}, False),
        ("!has(nodes.a.output) || nodes.a.output", {"nodes": {"a": {"state": "failed"}}}, True),
        ("nodes.a.state == 'failed' ? 'sorry' : nodes.a.output", {"nodes": {"a": {"state": "failed"}}}, "sorry"),
        ("has(input.a) ? input.a : false", {"input": {}}, False),
        ("has(input.a) ? input.a : false", {"input": {"a": True}}, True),
        ("has(input.a) ? input.a : false", {"input": 5}, False),
        ("has(input.a.b) ? input.a.b : false", {"input": {}}, False),
        ("has(input.a.b) ? input.a.b : false", {"input": {"a": {}}}, False),
        ("has(input.a.b) ? input.a.b : false", {"input": {"a": {"b": 1}}}, 1),
        ("has(input.a.b) ? input.a.b : false", {"input": {"a": None}}, False),
        ("has(input.a.b.c.d) ? input.a.b.c.d : 0", {"input": {"a": {"b": "text"}}}, 0),
        ('has(input["a-b"].c) ? input["a-b"].c : 0', {"input": {}}, 0),
        ('has(input["a-b"].c) ? input["a-b"].c : 0', {"input": {"a-b": {"c": 4}}}, 4),
        ("has(input.a.b) ? input.a.b : has(input.a) ? input.a : 0", {"input": {}}, 0),
        ("has(input.a.b) ? input.a.b : has(input.a) ? input.a : 0", {"input": {"a": 9}}, 9),
        ("has(input.a.b) ? input.a.b : has(input.a) ? input.a : 0", {"input": {"a": {"b": 8}}}, 8),
        ("has(input.a) || has(input.a.b)", {"input": {}}, False),
        ("has(input.a.b) || has(input.a)", {"input": {}}, False),
        ("input.a == 5 && has(input.a.b)", {"input": {"a": 5}}, False),
        ("has(input.a) ? (has(input.b) ? input.b : input.a) : 0", {"input": {"a": 1}}, 1),
        ("[1, 2].all(each, has(input.a.b) ? input.a.b == each : true)", {"input": {}}, True),
        ("input.map(each, has(each.a.b) ? each.a.b : 0)", {"input": [{}, {"a": {}}, {"a": {"b": 1}}]}, [0, 0, 1]),
        ("has(input.list[0].a.b) ? input.list[0].a.b : 0", {"input": {"list": [{}]}}, 0),
        ("input.list.map(input, has(input.a) ? input.a : 0)", {"input": {"list": [{}, {"a": 2}], "a": 9}}, [0, 2]),
        ("input.map(vars, has(vars.a)).size() + (has(vars.a) ? vars.a : 0)", {"input": [{}], "vars": {"a": 1}}, 2),
        ("has(vars.a) ? vars.a : 'unset'", {"vars": {}}, "unset"),
        ("has(vars.a) ? vars.a : 'unset'", {"vars": {"a": 1}}, 1),
        ("has(vars.a.b) ? vars.a.b : 'unset'", {"vars": {"a": {}}}, "unset"),
        ("has(error.class) ? error.class : 'none'", {}, "none"),
        ("has(error.class) ? error.class : 'none'", {"error": ERROR}, "exec_failed"),
        ("has(error.class) ? error.message : 'none'", {}, "none"),
        ("has(error.status) ? error.status : 0", {"error": ERROR}, 0),
        ("has(error.body.left) ? error.body.left : 1", {"error": ERROR}, 0),
        ("has(error.body.left) ? error.body.left : 1", {}, 1),
        ("has(run.id) ? run.id : ''", {"run": {"id": "r1"}}, "r1"),
    ],
)  # fmt: skip
def test_a_guard_stands_for_the_very_value_that_it_tests(source: str, data: dict[str, Json], expected: object) -> None:
    def find(path: VariablePath) -> Json:
        return lookups.descend(data, path, 0)

    def present(path: VariablePath) -> bool:
        return not isinstance(found(path), UnknownValue)

    def found(path: VariablePath) -> object:
        try:
            return find(path)
        except UnknownValue as error:
            return error

    assert evaluate(expression(source), find) == expected
    assert evaluate(expression(source), find, present) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (Text(parts=("got ", computed("has(input.none) ? input.none : 'nothing'"))), "got nothing"),
        (Object(entries={"x": Array(items=(computed("has(vars.v) ? vars.v : null"),))}), {"x": [None]}),
    ],
)
def test_a_guard_works_wherever_a_template_stands(template: Template, expected: object) -> None:
    assert render(template, lookup) == expected


def test_a_guard_for_one_value_is_none_for_another() -> None:
    with pytest.raises(cel.ExpressionError, match=r"input\.absent\.b has no value"):
        evaluate(expression("has(input.map) ? input.absent.b : 0"), lookup)


# The oracle: what guards mean, on a small language of tests, reads, choices and connectives.

Tree: TypeAlias = tuple[Any, ...]
STEPS = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3)
PATHS = st.builds(lambda root, steps: (root, *steps), st.sampled_from(["input", "nodes", "vars", "error"]), STEPS)
CONDITIONS = st.recursive(
    st.tuples(st.just("has"), PATHS),
    lambda inner: (
        st.tuples(st.just("not"), inner)
        | st.tuples(st.sampled_from(["and", "or"]), inner, inner | st.tuples(st.just("is"), PATHS))
    ),
    max_leaves=4,
)
TREES = st.recursive(
    st.tuples(st.just("read"), PATHS),
    lambda inner: (
        st.tuples(st.just("if"), CONDITIONS, inner, inner)
        | PATHS.flatmap(lambda path: st.tuples(st.just("if"), st.just(("has", path)), st.just(("read", path)), inner))
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.sampled_from([None, 1, "text"]),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)
VARIABLES = st.dictionaries(
    st.sampled_from(["input", "nodes", "vars", "error"]),
    st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
)


def written(tree: Tree) -> str:
    match tree:
        case ("has", path):
            return f"has({spell(path)})"
        case ("is", path):
            return f"{spell(path)} == 1"
        case ("read", path):
            return spell(path)
        case ("not", inner):
            return f"!({written(inner)})"
        case ("if", condition, one, other):
            return f"(({written(condition)}) ? {written(one)} : {written(other)})"
        case (word, one, other):
            return f"({written(one)} {'&&' if word == 'and' else '||'} {written(other)})"
        case _:
            raise AssertionError(tree)


def meant(tree: Tree, data: dict[str, Json]) -> Any:
    """The value, or UnknownValue, the class: a read that nothing guards. One side of && or || alone may decide."""
    match tree:
        case ("has", path):
            return meant(("read", path), data) is not UnknownValue
        case ("is", path):
            value = meant(("read", path), data)
            return value if value is UnknownValue else value == 1
        case ("read", path):
            try:
                return lookups.descend(data, path, 0)
            except UnknownValue:
                return UnknownValue
        case ("not", inner):
            value = meant(inner, data)
            return value if value is UnknownValue else not value
        case ("if", condition, one, other):
            value = meant(condition, data)
            return value if value is UnknownValue else meant(one if value else other, data)
        case (word, one, other):
            sides = [meant(one, data), meant(other, data)]
            deciding = word == "or"
            if any(side is deciding for side in sides):
                return deciding
            return UnknownValue if UnknownValue in sides else not deciding
        case _:
            raise AssertionError(tree)


@given(tree=TREES, data=VARIABLES)
def test_guards_mean_what_a_small_oracle_says(tree: Tree, data: dict[str, Json]) -> None:
    expected = meant(tree, data)
    found = expression(f"[{written(tree)}]")  # a list: no bare path

    def find(path: VariablePath) -> Json:
        return lookups.descend(data, path, 0)

    if expected is UnknownValue:
        with pytest.raises(cel.ExpressionError):
            evaluate(found, find)
    else:
        assert evaluate(found, find) == [expected]
