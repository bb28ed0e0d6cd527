"""What differs between two sources, in the words of whoever wrote them."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import Changes, compare
from headway.coordinator.core.compiler.changes import MAX_KEYS

OLD = """
workflow: orders
deadline: 1h
input_schema: {type: object, properties: {amount: {type: integer}, note: {type: string}}}
nodes:
  reserve: {type: call, handler: stock.reserve, retry: {max_attempts: 3, initial: 1s}}
  ship: {type: call, handler: ship.it, input: {order: "${input.order}", fast: true}}
  wrap: {type: call, handler: wrap.it}
edges:
  - [reserve, wrap, ship]
"""


def test_nothing_differs_where_only_the_spelling_does() -> None:
    new = """
# the same, spelt otherwise
workflow: "orders"
nodes:
  wrap: {handler: wrap.it, type: call}
  reserve:
    type: call
    handler: &h stock.reserve
    retry:
      initial: 1s
      max_attempts: 3.0
  ship: {type: call, handler: ship.it, input: {fast: true, order: '${input.order}'}}
input_schema:
  properties: {note: {type: string}, amount: {type: integer}}
  type: object
deadline: 1h
edges: [{from: wrap, to: ship, on: success}, [reserve, wrap]]
"""

    assert compare(OLD, new) == Changes()


def test_every_kind_of_change_is_named_where_it_is() -> None:
    new = """
workflow: orders
deadline: 2h
on_failure: drain
input_schema: {type: object, properties: {amount: {type: number}, gift: {type: boolean}}}
nodes:
  reserve: {type: call, handler: stock.reserve, retry: {max_attempts: 5, max: 1m}}
  ship: {type: call, handler: ship.it, queue: fast, input: {order: "${input.order}", fast: 1}}
  pack: {type: call, handler: pack.it}
edges:
  - [reserve, pack, ship]
  - {from: reserve, to: ship, on: failure, errors: [HttpStatus], when: "error.status == 409"}
"""

    assert compare(OLD, new) == Changes(
        nodes_added=("pack",),
        nodes_removed=("wrap",),
        nodes_altered={
            "reserve": ("retry.max_attempts", "retry.initial", "retry.max"),
            "ship": ("input.fast", "queue"),
        },
        edges_added=(
            "reserve → pack",
            "pack → ship",
            "reserve → ship on failure of HttpStatus when error.status == 409",
        ),
        edges_removed=("reserve → wrap", "wrap → ship"),
        input_schema=("properties.amount.type", "properties.note", "properties.gift"),
        settings=("deadline", "on_failure"),
    )


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        ("", "input_schema: {type: object}\n", ("(all of it)",)),
        ("input_schema: {type: object}\n", "", ("(all of it)",)),
        ("input_schema: {enum: [1, 2]}\n", "input_schema: {enum: [1, 2.0]}\n", ()),
        ("input_schema: {enum: [1, [true]]}\n", "input_schema: {enum: [1, [1]]}\n", ("enum",)),
    ],
)
def test_a_schema_that_comes_or_goes_or_differs_in_a_value(before: str, after: str, places: tuple[str, ...]) -> None:
    rest = "workflow: w\nnodes: {a: {type: call, handler: h}}\n"

    assert compare(before + rest, after + rest) == Changes(input_schema=places)


def test_a_node_that_differs_in_very_much_is_told_in_short() -> None:
    def source(value: int) -> str:
        inner = ", ".join(f"k{number}: {value}" for number in range(MAX_KEYS + 5))
        return f"workflow: w\nnodes:\n  a: {{type: call, handler: h, input: {{{inner}}}}}\n"

    keys = compare(source(1), source(2)).nodes_altered["a"]

    assert keys == (*(f"input.k{number}" for number in range(MAX_KEYS)), "…")
