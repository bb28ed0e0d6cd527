"""The expression language: what it computes, what it refuses, and that nobody can make it take long or fall over."""

import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from headway.coordinator.core.cel import (
    ExpressionError,
    ExpressionInvalid,
    UnknownNames,
    compile_expression,
    limits,
    references,
)
from headway.coordinator.core.effort import Effort, TooMuchToDecide
from headway.coordinator.core.plan import Json

INPUT: dict[str, Any] = {
    "amount": 1500,
    "price": 1500.0,
    "text": "word",
    "nothing": None,
    "list": [3, 1, 2],
    "map": {"b": 1, "a": 2, "c": 3},
    "order-id": "o1",
}


def evaluate(source: str, **variables: Any) -> Any:
    return compile_expression(source).evaluate(variables or {"input": INPUT})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1500 > 0.8", True),
        ("input.amount > 0.8", True),
        ("2 == 2.0", True),
        ("2 != 2.0", False),
        ("input.amount == input.price", True),
        ("1 + 2.5", 3.5),
        ("2.5 - 1", 1.5),
        ("2 * 1.5", 3.0),
        ("input.amount / 1000", 1.5),
        ("input.price / 1000", 1.5),
        ("3000 / 1000", 3),
        ("7 / 2.0", 3.5),
        ("int(input.amount / 1000)", 1),
        ("7 % 4", 3),
        ("-7 % 4", -3),
        ("7.5 % 2", 1.5),
        ("-7.5 % 2", -1.5),
        ("1u + 1", 2),
        ("5u / 2", 2.5),
        ("2 in [1.0, 2.0]", True),
        ("input.amount in [1500.0]", True),
        ("true ? 1 : 2.5", 1),
        ("true ? null : 1", None),
        ("[1, 2].map(x, x / 2)", [0.5, 1]),
    ],
)
def test_numbers_work_together_however_they_are_spelt(source: str, expected: object) -> None:
    result = evaluate(source)

    assert (result, type(result)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("input.amount / 0", "division by zero"),
        ("1.5 / 0.0", "division by zero"),
        ("5 % 0", "modulus by zero"),
        ("5.0 % 0", "modulus by zero"),
        ("9223372036854775807 + input.amount", "integer overflow"),
        ("9223372036854775807 + 1u", "integer overflow"),
        ("1e308 * 10", "not a JSON number"),
        ("input.text + 1", "+ cannot be used on text and integer"),
        ("input.nothing > 1", "> cannot be used on null and integer"),
        ("input.absent > 1", 'there is no key "absent"'),
        ("input.list[5]", "there is no item [5]: the list has 3"),
        ("input.amount.x", "a field is read of a value that is no map"),
        ("input.text.map(x, x)", "no items to go through in text"),
        ("input.text ? 1 : 2", "the condition before ? is not a boolean"),
        ('input.text.matches("(")', "invalid regular expression"),
        ('int("x")', "cannot convert"),
        ('b"ab"', "has no JSON form"),
        ("type(1)", "has no JSON form"),
        ("{1: 2}", "JSON knows only text"),
    ],
)
def test_what_cannot_be_computed_is_an_error_and_never_a_value(source: str, message: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        evaluate(source)

    assert message in raised.value.message
    assert raised.value.expression == source


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        ("input.x = 1", 1, 9, "a single = compares nothing"),
        ("input.x === 1", 1, 9, "=== is not an operator"),
        ("input.x and true", 1, 9, "`and` is not an operator"),
        ("true &&\n  not input.x", 2, 3, "`not` is not an operator"),
        ("${input.x}", 1, 1, "${ } inside an expression"),
        ("1 if true else 2", 1, 3, "`if … else` is not an expression"),
        ("input.x ==", 1, 11, "the expression ends too early"),
        ("input x", 1, 7, 'unexpected "x"'),
        ('1 == "a"', 1, 3, "== cannot be used on integer and text"),
        ('1 < "a"', 1, 3, "< cannot be used on integer and text"),
        ('"ü" + foo.bar', 1, 7, "unknown name foo"),
        ("True", 1, 1, "unknown name True"),
        ("input.list.len()", 1, 15, "unknown function or name len"),
        ("size(1)", 1, 5, "size cannot be used on integer"),
        ("", 1, 1, "the expression is empty"),
        ("google.protobuf.Timestamp{seconds: 1}", 1, 1, "protobuf messages"),
        ('"\ud800"', 1, 2, "half of a character"),
        ("9223372036854775808", 1, 1, "invalid int literal"),
        ("(" * 300 + "1" + ")" * 300, 1, 1, "nested too deeply"),
        ("1" + " + 1" * 200, 1, 1, "nested too deeply"),
        (f'"{"x" * 5000}"', 1, 1, "5002 bytes"),
    ],
)
def test_what_is_wrong_with_the_text_is_named_at_its_place(source: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ExpressionInvalid) as raised:
        compile_expression(source)

    assert message in raised.value.message
    assert (raised.value.line, raised.value.column) == (line, column)


def test_names_that_there_are_not_are_refused_with_all_that_is_read() -> None:
    with pytest.raises(UnknownNames, match="unknown name errors; known are input, nodes, vars, ") as raised:
        compile_expression("errors.message + input.x")

    assert [read.path for read in raised.value.reads] == [("errors", "message"), ("input", "x")]


def test_has_asks_for_presence_and_null_is_present() -> None:
    assert evaluate("has(input.amount)") is True
    assert evaluate("has(input.nothing)") is True
    assert evaluate("has(input.absent)") is False
    assert evaluate("has(input.absent) && input.absent > 1") is False


def test_integers_beyond_64_bits_become_floating_point_numbers() -> None:
    assert evaluate("input > 1", input=2**70) is True
    assert evaluate("input", input=2**63) == float(2**63)
    assert evaluate("input", input=-(2**63)) == -(2**63)


def test_maps_are_gone_through_in_the_order_of_their_keys_in_every_process() -> None:
    program = (
        "from headway.coordinator.core.cel import compile_expression as c;"
        "e = {'input': {k: 1 for k in 'zqxabc'}};"
        "print(c('input.map(k, k)').evaluate(e), c('{\"z\": 1, \"a\": 2}.map(k, k)').evaluate(e),"
        " c('input').evaluate(e))"
    )

    outputs = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(4)
    }

    assert outputs == {b"['a', 'b', 'c', 'q', 'x', 'z'] ['a', 'z'] {'a': 1, 'b': 1, 'c': 1, 'q': 1, 'x': 1, 'z': 1}\n"}


def test_instants_and_durations_become_text() -> None:
    assert evaluate('timestamp("2030-01-31T10:00:00+01:00")') == "2030-01-31T09:00:00Z"
    assert evaluate('timestamp("2030-01-31T09:00:00.5Z") + duration("1h")') == "2030-01-31T10:00:00.500000Z"
    assert evaluate('duration("90s")') == "90s"
    assert evaluate('[duration("-1.5s"), duration("0s")]') == ["-1.5s", "0s"]


def test_lists_of_instants_can_be_gone_through() -> None:
    source = '["2030-01-31T09:00:00Z"].map(x, timestamp(x)).all(t, t < timestamp("2031-01-01T00:00:00Z"))'

    assert evaluate(source) is True


def test_references_are_the_longest_paths_outside_texts_and_own_variables() -> None:
    found = references(
        'has(input.a.b) && input["order-id"].c[0].d > "input.q".size() + input.l.map(input, input.z).size()'
    )

    assert found.reads == (("input", "l"),)
    assert found.parts == (("input", "order-id", "c"),)
    assert found.tests == (("input", "a", "b"),)
    assert found.whole is None


def test_a_path_that_reaches_into_another_is_not_read_twice() -> None:
    found = references("input != {} && size(input) > 1 && input.a > 1 && has(input.b)")

    assert (found.reads, found.parts, found.tests) == ((("input",),), (), ())


def test_an_item_that_was_looked_up_by_a_number_is_not_found_by_true() -> None:
    assert evaluate("input.l[input.k] == input.l[1.0]", input={"l": [5, 6], "k": 1}) is True
    with pytest.raises(ExpressionError, match="looked up by an integer, not by a boolean"):
        evaluate("input.l[1] == input.l[input.k]", input={"l": [5, 6], "k": True})


def test_what_is_asked_only_for_its_size_is_not_read_though_something_in_it_is() -> None:
    found = references("size(input) > 1 && input.a > 1 && has(input.b)")

    assert (found.reads, found.parts, found.tests) == ((("input", "a"),), (("input",),), (("input", "b"),))
    assert evaluate("size(input) > 1 && input.a > 1 && has(input.b)", input={"a": 2, "b": 3}) is True


def test_a_bare_path_is_known_as_such() -> None:
    assert references("nodes.a.output.items").whole == ("nodes", "a", "output", "items")
    assert references('input["order-id"]').whole == ("input", "order-id")
    assert references("has(input.a)").whole is None
    assert references("input.a[0]").whole is None
    assert references("int").whole is None


def nested(depth: int) -> str:
    inner = "true"
    for level in range(depth):
        inner = f"input.all(v{level}, {inner})"
    return inner


def test_comprehensions_nest_twice_and_no_deeper() -> None:
    compile_expression(nested(2))

    with pytest.raises(ExpressionInvalid, match="nested in one another"):
        compile_expression(nested(3))


def test_long_lists_are_refused_where_they_are_gone_through_and_only_there() -> None:
    long = list(range(limits.MAX_LIST[1] or 0))

    assert evaluate("input.map(x, x).size()", input=long) == 1_000
    assert evaluate("input.size()", input=[*long, 1]) == 1_001
    with pytest.raises(ExpressionError, match="a list of 1001 items is too long"):
        evaluate("input.map(x, x)", input=[*long, 1])


def test_large_values_are_refused() -> None:
    with pytest.raises(ExpressionError, match="more than 10000"):
        evaluate("input.size()", input=list(range(20_000)))
    with pytest.raises(ExpressionError, match="too long"):
        evaluate("input.size()", input="x" * 300_000)
    with pytest.raises(ExpressionError, match="its result is too large"):
        evaluate("input.map(x, input)", input=list(range(1_000)))


def test_deep_values_are_refused() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]

    with pytest.raises(ExpressionError, match="deep"):
        evaluate("input", input=value)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("input.all(a, " + " && ".join(["input + input != []"] * 18) + ")", list(range(178))),
        ("input.all(a, " + " && ".join(["input + input != []"] * 2) + ")", list(range(1_000))),
        ("input.all(a, input.all(b, " + " && ".join(["input + input != []"] * 15) + "))", list(range(44))),
        ("input.map(a, input.map(b, a + b)).size()", list(range(99))),
        ("input.filter(a, a in input).map(a, a in input).size()", list(range(1_000))),
        ('input.all(a, a.matches("(a*)*b") || true)', ["a" * 16] * 1_000),
    ],
)
def test_nobody_can_make_an_evaluation_take_long(source: str, value: object) -> None:
    began = time.monotonic()

    evaluate(source, input=value)  # the worst that the limits let through

    assert time.monotonic() - began < 10  # at most a second on a quiet machine


def test_the_more_is_computed_for_each_item_the_shorter_a_list_may_be() -> None:
    assert limits.longest_list(1, 5) == 1_000
    assert limits.longest_list(1, 20) == 500
    assert limits.longest_list(2, 10) == 99
    assert limits.longest_list(2, 40) == 50
    assert limits.longest_list(0, 0) is None


def test_an_evaluation_takes_microseconds() -> None:
    expression = compile_expression("nodes.a.output.n > 3")
    bindings: Any = {"nodes": {"a": {"output": {"n": 5}}}}
    best = float("inf")

    for _ in range(200):
        began = time.perf_counter()
        for _ in range(20):
            expression.evaluate(bindings)
        best = min(best, (time.perf_counter() - began) / 20)

    assert best < 100e-6  # measured: 8 µs


def test_threads_share_expressions() -> None:
    expression = compile_expression("input.list.map(x, x * 2.5).size() + input.amount / 1000")
    wrong: list[object] = []

    def work() -> None:
        wrong.extend(value for value in (expression.evaluate({"input": INPUT}) for _ in range(300)) if value != 4.5)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


PIECES = st.sampled_from(
    [
        *("input", ".a", '["k"]', "[0]", "x", "1", "2.5", "1u", "'x'", "null", "true", "b'\\xff'", "r'\\'"),
        *("(", ")", "{", "}", "[", "]", ",", " ? ", " : ", " + ", " / ", " % ", "-", "!"),
        *(" && ", " || ", " == ", " < ", " in ", "has(", ".map(x, ", ".all(x, ", "duration('1s')", "timestamp("),
        *("\\", '"', "$", "`", "@", "//", "\0", "\ud800", "\U0001f600", "\n", " "),
    ]
)
ANY_TEXT = st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=30)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "k", "x"]), inner, max_size=3),
    max_leaves=8,
)


@given(source=ANY_TEXT, value=JSON_VALUES)
def test_any_text_on_any_value_gives_json_or_one_of_two_errors(source: str, value: object) -> None:
    try:
        result = compile_expression(source).evaluate({"input": value})  # pyright: ignore[reportArgumentType] - JSON
    except (ExpressionInvalid, ExpressionError):
        return

    assert_is_json(result)


def test_some_of_these_texts_have_a_value() -> None:
    def has_value(source: str) -> bool:
        try:
            compile_expression(source).evaluate({"input": {"a": 1}})
        except (ExpressionInvalid, ExpressionError):
            return False
        return True

    assert find(ANY_TEXT, lambda source: "input" in source and has_value(source))


def assert_is_json(value: object) -> None:
    match value:
        case list():
            for item in value:
                assert_is_json(item)
        case dict():
            for key, item in value.items():
                assert type(key) is str
                assert_is_json(item)
        case _:
            assert value is None or type(value) in (bool, int, float, str)


@given(value=JSON_VALUES)
def test_json_passes_through_unchanged_but_for_large_integers(value: object) -> None:
    result = evaluate("input", input=value)

    assert result == as_bound(value)


def test_a_text_with_a_nul_character_is_refused_because_the_evaluator_would_cut_it() -> None:
    with pytest.raises(ExpressionError, match="NUL"):
        evaluate("input", input="a\0b")


def as_bound(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int() if not -(2**63) <= value < 2**63:
            return float(value)
        case list():
            return [as_bound(item) for item in value]
        case dict():
            return {key: as_bound(item) for key, item in value.items()}
        case _:
            return value


KEYS = st.one_of(st.none(), st.booleans(), st.integers(-1, 3), st.sampled_from([0.0, 1.0, 0.5, "a", "b", ""]))
VALUES = st.recursive(
    KEYS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner), max_leaves=6
)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(value=VALUES, key=KEYS, place=st.integers(0, 2))
@pytest.mark.parametrize(
    "source",
    [
        "{}[item]",
        "size({}) + 1",
        "{}[item].a",
        "{}[index][item]",
        "has({}[index].a) ? 1 : 2",
        "{}[7] == 1 || true",
        "[0, 1].map(each, {}[each])",
        "{}.size() > index && {}[index] == item",
    ],
)
def test_a_part_is_what_it_is_of_the_whole(source: str, value: Json, key: Json, place: int) -> None:
    """`[input][0]` is read as a whole: the evaluator itself looks up what it holds."""
    variables: dict[str, Json] = {"input": value, "item": key, "index": place}

    assert meant(source.replace("{}", "input"), variables) == meant(source.replace("{}", "[input][0]"), variables)


def meant(source: str, variables: dict[str, Json]) -> object:
    """The value, or that there is none."""
    try:
        return compile_expression(source).evaluate(variables)
    except ExpressionError:
        return ExpressionError


def test_parts_in_comprehensions_are_paid_for() -> None:
    many = " + ".join(["input[each]"] * 17)

    with pytest.raises(ExpressionInvalid, match="too much is computed for each item"):
        compile_expression(f"[1, 2].map(each, {many})")


def test_what_a_part_holds_is_paid_for_before_it_is_gone_through() -> None:
    effort = Effort(300_000)

    with pytest.raises(TooMuchToDecide):
        compile_expression("input[0].map(each, input[1].map(other, other + each + 1))").evaluate(
            {"input": [list(range(99)), list(range(99))]}, effort
        )


@pytest.mark.parametrize(("source", "given"), [("input", None), ("input", [None] * 10), ("input == 1 ? 1 : null", 2)])
def test_nulls_that_are_yielded_take_no_references_to_none_away(source: str, given: Json) -> None:
    compiled = compile_expression(source)
    compiled.evaluate({"input": given})
    before = sys.getrefcount(None)

    for _ in range(500):
        compiled.evaluate({"input": given})

    assert sys.getrefcount(None) > before - 100  # where it can be freed at all; for what else refers to it
