"""Any text at all gives a plan or faults, and in seconds."""

import time
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.plan import EdgeKind
from headway.coordinator.core.plan_codec import decode_plan, encode_plan
from tests.core.sources import WORKER, compiled, reads, workflow

WORDS = ["workflow", "nodes", "edges", "type", "call", "switch", "join", "when", "to", "from", "on", "need", "cases"]
YAML_PIECES = st.sampled_from(
    [
        *WORDS,
        *(
            ": ",
            "\n",
            "  ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ", ",
            '"',
            "'",
            "|\n",
            ">",
            "&a ",
            "*a",
            "!x ",
            "? ",
            "#",
            "%",
            "@",
            "\t",
        ),
        *(
            "${",
            "}",
            "$${",
            "input.x",
            "nodes.a.output",
            "a",
            "b",
            "1",
            "1.5",
            "30s",
            "null",
            "true",
            "\\u",
            "\0",
            "é",
            "---\n",
        ),
    ]
)


@given(text=st.lists(YAML_PIECES, max_size=30).map("".join) | st.text(max_size=40))
def test_any_text_gives_a_plan_or_faults(text: str) -> None:
    result = compile_workflow(text)

    assert (result.plan is None) == any(not fault.warning for fault in result.faults)
    assert all(fault.line >= 1 and fault.column >= 1 for fault in result.faults)


JSON_TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from([*WORDS, "a", "b", "30s", "${input.x", "${nodes.a.output}"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*WORDS, "a", "b", "input", "values", "timeout", "retry", "request", "code"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(nodes=JSON_TREES, edges=JSON_TREES, schema=JSON_TREES)
def test_any_tree_in_the_place_of_nodes_and_edges_gives_a_plan_or_faults(nodes: Any, edges: Any, schema: Any) -> None:
    source = orjson.dumps({"workflow": "w", "nodes": nodes, "edges": edges, "input_schema": schema}).decode()

    result = compile_workflow(source)

    assert (result.plan is None) == any(not fault.warning for fault in result.faults)


@st.composite
def sources(draw: st.DrawFn) -> str:
    """Valid graphs: edges lead from earlier nodes to later ones."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 8)))]
    nodes = {
        name: draw(st.sampled_from([WORKER, "{type: join, need: any}", f"{{type: set, values: {{x_{name}: 1}}}}"]))
        for name in names
    }
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12)) if pairs else []
    edges: list[str] = []
    for one, other in chosen:
        kind = draw(st.sampled_from([EdgeKind.SUCCESS, EdgeKind.FAILURE, EdgeKind.ALWAYS]))
        when = draw(st.sampled_from(["", ", when: input.x > 1"]))
        edges.append(f"{{from: {one}, to: {other}, on: {kind.value}{when}}}")
    reached = {other for _, other in chosen}
    nodes |= {name: WORKER for name in names if name not in reached}
    return workflow(nodes, f"[{', '.join(edges)}]")


@given(source=sources())
def test_any_graph_without_cycles_compiles_and_can_be_stored(source: str) -> None:
    plan = compiled(source)

    assert decode_plan(orjson.loads(orjson.dumps(encode_plan(plan)))) == plan
    assert [edge.index for edge in plan.edges] == list(range(len(plan.edges)))
    for node in plan.nodes:
        assert all(plan.edges[index].source == node for index in plan.outgoing[node])
        assert all(plan.edges[index].target == node for index in plan.incoming[node])
    for edge in plan.edges:
        assert (edge.target in edge.reach) == (edge.on in (EdgeKind.FAILURE, EdgeKind.TIMEOUT))


@settings(deadline=None)
@given(size=st.just(2_000))
def test_the_largest_workflow_compiles_in_seconds(size: int) -> None:
    nodes = {f"n{number}": reads(f"nodes.n{number - 1}.output") if number else WORKER for number in range(size)}
    began = time.monotonic()

    compiled(workflow(nodes, f"[[{', '.join(nodes)}]]"))

    assert time.monotonic() - began < 30  # measured: 2 s


def set_behind_failures(count: int) -> str:
    """One variable, set twice behind each of many failures that are handled."""
    setter = "{type: set, values: {x: 1}}"
    nodes = {f"{kind}{n}": WORKER if kind == "n" else setter for n in range(count) for kind in "nfg"}
    ways = "{{from: n{0}, on: failure, to: f{0}}}, [n{0}, g{0}], [f{0}, n{1}], [g{0}, n{1}]"
    return workflow(nodes, f"[{', '.join(ways.format(n, n + 1) for n in range(count - 1))}]")


def nearly_named(count: int) -> str:
    """Edges to nodes whose names are nearly those of others."""
    name = "node" * 10
    edges = ", ".join(f"[{name}{n}, {name}x{n}]" for n in range(count))
    return workflow({f"{name}{n}": WORKER for n in range(count)}, f"[{edges}]")


def expressions(count: int, behind: str) -> str:
    items = ", ".join(f"'${{input.x + {n}{behind}}}'" for n in range(count))
    return workflow({"a": f"{{type: call, handler: h, input: [{items}]}}"})


@pytest.mark.parametrize(
    "source",
    [
        set_behind_failures(300),
        nearly_named(600),
        expressions(12_000, ""),
        expressions(12_000, " +"),
        workflow({"a": WORKER, "b": WORKER}, f"[{', '.join(['[a, b]'] * 5_000)}]"),
    ],
    ids=["set behind failures", "nearly named", "expressions", "wrong expressions", "one edge again and again"],
)
def test_what_is_made_to_take_long_takes_seconds(source: str) -> None:
    began = time.process_time()

    compile_workflow(source)

    assert time.process_time() - began < 20  # measured: up to 4 s, most of it reading YAML


# The reference
