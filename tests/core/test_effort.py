"""What one decision may compute is limited: whoever asks for more fails, and nobody else waits for it."""

from __future__ import annotations

import time

import orjson
import pytest

from headway.coordinator.core.cel import compile_expression
from headway.coordinator.core.decide import _walk, decide
from headway.coordinator.core.document import Document
from headway.coordinator.core.effort import BYTES_A_STEP, DECISION_STEPS, Effort, decoding_steps
from headway.coordinator.core.events import TimerFired
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.labels import labels_of
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import InvalidLabel
from tests.core.flows import workflow
from tests.core.simulator import World

COSTLY = "size(input.l.map(x, size(input.l.filter(y, y > x))))"
MOST_SECONDS = 12.0  # on a busy machine; without a limit it is half a minute on an idle one


def chain(length: int, expression: str = COSTLY) -> Graph:
    nodes = "".join(f"  s{n}: {{type: set, values: {{v{n}: '${{{expression}}}'}}}}\n" for n in range(length))
    names = ", ".join(["w", *(f"s{n}" for n in range(length))])
    return workflow(f"nodes:\n  w: {{type: wait, duration: 1s}}\n{nodes}edges:\n  - [{names}]\n")


def run_chain(length: int, expression: str = COSTLY, given: Json = None) -> World:
    world = World(chain(length, expression), thorough=False).start(given)
    world.advance(seconds=1)
    world.fire(world.next_timer())
    return world


def test_a_node_that_asks_for_more_than_a_decision_may_compute_fails_and_says_what_helps() -> None:
    began = time.process_time()
    world = run_chain(1_900, given={"l": list(range(99))})

    assert time.process_time() - began < MOST_SECONDS
    assert world.state is RunState.FAILED
    failed = [row for row in world.db.tasks.values() if row.state == "failed"]
    assert [(row.error or {})["type"] for row in failed] == ["DecisionTooLarge"]
    message = str((failed[0].error or {})["message"])
    assert f"{DECISION_STEPS:,} steps" in message
    assert "put a `wait`" in message


def test_it_fails_at_the_same_node_every_time() -> None:
    ends = [run_chain(100, given={"l": list(range(99))}).states() for _ in range(2)]

    assert "failed" in ends[0].values()
    assert ends[0] == ends[1]


def test_a_map_whose_items_cost_much_goes_on_in_further_decisions() -> None:
    costly = COSTLY.replace("input.l", "input.few")
    graph = workflow(f"""
        nodes:
          each:
            type: map
            over: "${{input.l}}"
            max_concurrency: 100
            body:
              nodes:
                work: {{type: call, handler: h, input: "${{{costly}}}"}}
    """)
    world = World(graph, thorough=False).start({"l": list(range(99)), "few": list(range(99))})
    decisions = 1
    while len(world.ready()) < 99:
        world.fire(world.next_timer())
        decisions += 1

    assert decisions > 2
    assert all(state in ("ready", "waiting") for state in world.states().values())


def test_a_repeat_whose_iterations_cost_much_goes_on_in_further_decisions() -> None:
    graph = workflow(f"""
        nodes:
          again:
            type: repeat
            until: "index == 98"
            max_iterations: 99
            body:
              nodes:
                work: {{type: set, values: {{x: "${{{COSTLY}}}"}}}}
    """)
    world = World(graph, thorough=False).start({"l": list(range(99))})
    decisions = 1
    while not world.run.is_final:
        world.fire(world.next_timer())
        decisions += 1

    assert decisions > 2
    assert world.state == "succeeded"


def test_a_signal_whose_filters_cost_too_much_fails_the_node_that_waits_and_is_not_passed_over() -> None:
    costly = COSTLY.replace("input.l", "payload.l")
    graph = workflow(f"""
        nodes:
          first: {{type: call, handler: h}}
          pay: {{type: wait_for_event, event: paid, filter: "{costly} == 1"}}
        edges:
          - [first, pay]
    """)
    world = World(graph, thorough=False).start()
    for _ in range(100):
        world.signal("paid", {"l": list(range(99))})
    world.run_task("first")

    assert world.states()["pay"] == "failed"
    assert (world.task("pay").error or {})["type"] == "DecisionTooLarge"


def test_what_is_rendered_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_walk, "Effort", lambda: Effort(10_000 // BYTES_A_STEP))
    nodes = "".join(f"  n{n}: {{type: call, handler: h, input: {{whole: '${{input}}'}}}}\n" for n in range(9))

    world = World(workflow(f"on_failure: drain\nnodes:\n{nodes}"), thorough=False).start("x" * 1_000)

    assert sorted(world.states().values()) == ["failed"] * 4 + ["ready"] * 5  # each is read once and written once


def test_labels_may_take_only_so_much() -> None:
    graph = workflow(f"""
        labels: {{one: "${{{COSTLY}}}", two: "${{{COSTLY}}}"}}
        nodes: {{a: {{type: call, handler: h}}}}
    """)

    with pytest.raises(InvalidLabel, match="steps together"):
        labels_of(graph.plan.labels, {}, Document(orjson.dumps({"l": list(range(99))})))


SAME: list[Json] = [{"a": n} for n in range(2_400)]
FEW = SAME[:99]


@pytest.mark.parametrize(
    ("larger", "smaller", "given"),
    [
        ("input.l == input.k", "size(input.l) == size(input.k)", {"l": SAME, "k": SAME}),
        ("input.l != input.k", "size(input.l) != size(input.k)", {"l": SAME, "k": SAME}),
        ("input.l == input.l && input.l == input.l", "input.l == input.l", {"l": SAME}),
        ("input.k in input.l", "size(input.k) == size(input.l)", {"k": {"a": 1}, "l": SAME}),
        ("size(input.l + input.l)", "size(input.l) + size(input.l)", {"l": SAME}),
        ("input.s.matches('(a|ab)*c')", "input.s == 'c'", {"s": "ab" * 100_000}),
        ("input.l.filter(x, input.k == input.k)", "input.l.filter(x, x == input.k)", {"l": [1, 2], "k": FEW}),
        ("[input.k].exists(x, x == input.k)", "input.l.exists(x, x == input.k)", {"l": [1], "k": FEW}),
        ("[[input.k]].exists(x, x.exists(y, y == input.k))", "[[input.k]].exists(x, x.exists(y, y == 1))", {"k": [1]}),
    ],
)  # fmt: skip
def test_what_compares_joins_or_searches_much_costs_more(larger: str, smaller: str, given: dict[str, Json]) -> None:
    assert steps_of(larger, given) > steps_of(smaller, given)


def steps_of(expression: str, given: Json) -> int:
    effort = Effort()
    compile_expression(expression).evaluate({"input": given}, effort)
    return effort.steps


def test_to_compare_an_item_with_something_small_costs_what_the_item_does() -> None:
    items: list[Json] = [{"id": n, "name": "n"} for n in range(800)]
    few = DECISION_STEPS // 20

    assert steps_of("input.l.filter(x, x.id == input.id)", {"l": items, "id": 7}) < few
    assert steps_of("input.l.filter(x, x.id > 3).exists(x, x.id == input.id)", {"l": items, "id": 7}) < few
    assert steps_of("input.l.filter(x, x == input.one)", {"l": items, "one": items[0]}) < few


def test_a_chain_that_compares_large_lists_is_refused_before_it_takes_long() -> None:
    world = run_chain(200, "input.l == input.k", {"l": SAME, "k": SAME})

    assert world.state is RunState.FAILED
    failed = [row for row in world.db.tasks.values() if row.state == "failed"]
    assert [(row.error or {})["type"] for row in failed] == ["DecisionTooLarge"]
    done = sum(row.state == "succeeded" for row in world.db.tasks.values())
    assert 30 <= done <= 60


def test_a_decision_tells_what_it_spent() -> None:
    world = World(chain(3, "size(input.l)"), thorough=False).start({"l": list(range(99))})
    path, kind, attempt = world.next_timer()

    verdict = decide(world._whole_state(), TimerFired(at=world.now, chance=0.0, path=path, kind=kind, attempt=attempt))

    assert 3 * 99 < verdict.steps < DECISION_STEPS


RESULT = """
    nodes:
      m: {type: map, over: "${input}", body: {type: call, handler: h}}
      w: {type: wait, duration: 1s}
%s
    edges: [[m, w, %s]]
"""


def read_results(results: list[Json], expression: str, count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Steps of a decision in which so many nodes read what the items of a map gave."""
    made: list[Effort] = []

    def kept() -> Effort:
        made.append(Effort())
        return made[-1]

    names = [f"s{number}" for number in range(count)]
    nodes = "".join(f"      {name}: {{type: set, values: {{{name}: '${{{expression}}}'}}}}\n" for name in names)
    world = World(workflow(RESULT % (nodes, ", ".join(names))), thorough=False).start([*range(len(results))])
    for index, result in enumerate(results):
        world.run_task(f"m[{index}].step", result)
    monkeypatch.setattr(_walk, "Effort", kept)
    world.advance(seconds=1)
    world.fire(world.next_timer())
    assert world.state is RunState.SUCCEEDED
    return made[-1].steps


def test_a_result_that_is_read_counts_for_the_values_in_it_once_in_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    inner: list[Json] = [[] for _ in range(50_000)]
    nested: Json = {"n": 1, "l": inner}
    text: Json = {"n": 1, "l": "x" * 150_000}

    one, ten = (read_results([nested], "nodes.m.output[0].n + 1", count, monkeypatch) for count in (1, 10))
    of_text = read_results([text], "nodes.m.output[0].n + 1", 1, monkeypatch)
    field = read_results([nested], "nodes.m.output[0].n", 1, monkeypatch)

    assert one > 100_000 > 10 * of_text
    assert field > 100_000
    assert ten < one + 10_000


def test_results_that_are_put_together_count_each(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (read_results([1] * count, "nodes.m.output", 1, monkeypatch) for count in (10, 1_010))

    assert many - few > 4_000


def test_decoding_takes_no_longer_than_the_steps_that_it_counts_for() -> None:
    worst = [
        b"[" + b"[]," * 300_000 + b"[]]",
        b"[" + b'{"a":1},' * 100_000 + b"1]",
        b"[" + b"[[[[[]]]]]," * 50_000 + b"1]",
    ]

    for raw in worst:
        seconds = min(_seconds_to_decode(raw) for _ in range(5))
        assert seconds < decoding_steps(raw) / 16e6 * MOST_SECONDS  # on a busy machine


def _seconds_to_decode(raw: bytes) -> float:
    began = time.process_time()
    orjson.loads(raw)
    return time.process_time() - began
