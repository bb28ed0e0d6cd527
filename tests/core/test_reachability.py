"""Nodes that can never run, and joins that can never have the branches that they need in one run."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import Fault, compile_workflow

CALL = "{type: call, handler: h}"
GATE = "  gate: {type: switch, cases: [{when: input.x == 1, to: a}, {when: input.x == 2, to: b}], default: c}\n"


def faults(nodes: str, edges: str, join: str = "{type: join, need: 2}") -> list[Fault]:
    calls = "".join(f"  {name}: {CALL}\n" for name in ("a", "b", "c", "d"))
    source = f"workflow: w\nnodes:\n  end: {join}\n{nodes}{calls}edges:\n{edges}"
    return list(compile_workflow(source).faults)


def told(found: list[Fault]) -> list[tuple[int, int, str, bool]]:
    return [(fault.line, fault.column, fault.message, fault.warning) for fault in found]


def test_branches_of_a_switch_exclude_each_other() -> None:
    (fault,) = faults(GATE, "  - [a, end]\n  - [b, end]\n  - [c, d]\n")

    assert (fault.line, fault.column, fault.code, fault.warning) == (3, 27, "join_out_of_reach", False)
    assert fault.message == (
        "the join end can never fire: it needs 2 branches, and at most 1 arrive in one run (a and b exclude each other)"
    )
    assert fault.remedy == "lower need to 1"


def test_a_success_and_a_handled_failure_of_one_node_exclude_each_other() -> None:
    found = faults("", "  - [a, b, end]\n  - {from: a, to: c, on: failure}\n  - [c, end]\n  - [b, d]\n")

    assert [fault.code for fault in found] == ["join_out_of_reach"]


@pytest.mark.parametrize(
    ("nodes", "edges", "join"),
    [
        (GATE, "  - [a, end]\n  - [b, end]\n  - [d, end]\n", "{type: join, need: 2}"),
        (GATE, "  - [a, end]\n  - [b, end]\n  - [c, d]\n", "{type: join, need: any}"),
        (GATE, "  - [a, end]\n  - [b, end]\n  - [c, d]\n", "{type: join}"),
        ("", "  - [a, b, end]\n  - {from: a, to: c, on: always}\n  - [c, end]\n  - [b, d]\n", "{type: join, need: 2}"),
        ("", "  - {from: a, to: end, when: input.x}\n  - {from: a, to: b, when: input.y}\n  - [b, end]\n  - [c, d]\n",
         "{type: join, need: 2}"),
    ],
)  # fmt: skip
def test_branches_that_may_arrive_together_are_left_alone(nodes: str, edges: str, join: str) -> None:
    assert [fault for fault in faults(nodes, edges, join) if fault.code != "may_lead_nowhere"] == []


def test_two_switches_exclude_each_other_only_as_far_as_they_do() -> None:
    nodes = (
        "  one: {type: switch, cases: [{when: input.x == 1, to: a}], default: b}\n"
        "  two: {type: switch, cases: [{when: input.x == 1, to: c}], default: d}\n"
    )
    edges = "  - [a, end]\n  - [b, end]\n  - [c, end]\n  - [d, end]\n"

    assert faults(nodes, edges, "{type: join, need: 2}") == []
    (fault,) = faults(nodes, edges, "{type: join, need: 3}")
    assert "at most 2 arrive in one run (a and b, c and d exclude each other)" in fault.message


def test_a_node_that_no_way_leads_to_is_a_warning_and_so_is_all_behind_it() -> None:
    edges = (
        "  - {from: a, to: b, on: failure}\n  - {from: a, to: c, on: failure}\n  - [c, d]\n  - [b, end]\n  - [a, end]\n"
    )

    found = [fault for fault in faults("", edges, "{type: join}") if fault.code == "never_runs"]

    assert told(found) == [
        (6, 3, "c can never run: no way leads to it", True),
        (7, 3, "d can never run: no way leads to it", True),
    ]


def test_a_graph_with_very_many_ways_is_not_followed_to_the_end() -> None:
    branches = range(12)
    nodes = "".join(
        f"  s{n}: {{type: switch, cases: [{{when: input.x == {n}, to: l{n}}}], default: r{n}}}\n"
        f"  l{n}: {CALL}\n  r{n}: {CALL}\n"
        for n in branches
    )
    edges = "".join(f"  - [l{n}, end]\n  - [r{n}, end]\n" for n in branches)

    assert faults(nodes, f"{edges}  - [a, b, c, d]\n", "{type: join, need: 12}") == []


def test_where_the_graph_is_not_known_nothing_is_said_but_that_checks_wait() -> None:
    found = faults(GATE, "  - [a, end]\n  - [b, end]\n  - [c, nope]\n")

    assert [fault.code for fault in found] == ["unknown_node", "checks_wait"]
