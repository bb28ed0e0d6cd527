"""A stored plan comes back exactly as it was, and user data in it is never taken for a template."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.coordinator.core.plan import (
    FORMAT,
    Array,
    Case,
    Computed,
    Edge,
    EdgeKind,
    Expression,
    Json,
    Literal,
    Node,
    NodeType,
    Object,
    OnFailure,
    Place,
    Plan,
    Reference,
    RetryPolicy,
    Template,
    Text,
    TimeOuts,
)
from headway.coordinator.core.plan_codec import (
    PlanUnreadable,
    decode_plan,
    decode_template,
    encode_plan,
    encode_template,
)

TAGS = ["literal", "reference", "computed", "text", "object", "array"]
NAMES = st.sampled_from(["a", "b", "c_1", *TAGS])
TEXTS = st.text(max_size=6)
COUNTS = st.integers(0, 2**40)
JSON_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=3),
    max_leaves=6,
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)
PLACES = st.builds(Place, line=st.integers(1, 9999), column=st.integers(1, 9999))
EXPRESSIONS = st.builds(
    Expression,
    source=TEXTS,
    reads=st.lists(PATHS, max_size=2).map(tuple),
    tests=st.lists(PATHS, max_size=2).map(tuple),
    place=PLACES,
)
REFERENCES = st.builds(Reference, path=PATHS, place=PLACES)
COMPUTED = st.builds(Computed, expression=EXPRESSIONS)
TEMPLATES: st.SearchStrategy[Template] = st.recursive(
    st.builds(Literal, value=JSON_VALUES)
    | REFERENCES
    | COMPUTED
    | st.builds(Text, parts=st.lists(TEXTS | REFERENCES | COMPUTED, max_size=3).map(tuple)),
    lambda inner: (
        st.builds(Object, entries=st.dictionaries(NAMES, inner, max_size=3))
        | st.builds(Array, items=st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=5,
)
NODES = st.builds(
    Node,
    id=NAMES,
    type=st.sampled_from(NodeType),
    input=st.none() | TEMPLATES,
    handler=TEXTS,
    queue=TEXTS,
    lease_ms=COUNTS,
    retry=st.builds(RetryPolicy, max_attempts=COUNTS, factor=st.floats(1, 10), jitter=st.floats(0, 1)),
    timeouts=st.builds(TimeOuts, attempt_ms=st.none() | COUNTS, total_ms=st.none() | COUNTS),
    optional=st.booleans(),
    output_schema=JSON_VALUES,
    cases=st.lists(st.builds(Case, when=EXPRESSIONS, edge=COUNTS), max_size=2).map(tuple),
    default_edge=st.none() | COUNTS,
    need=st.none() | COUNTS,
    values=st.dictionaries(NAMES, TEMPLATES, max_size=2),
    outcome=TEXTS,
    output=st.none() | TEMPLATES,
    message=st.none() | TEMPLATES,
    wait_ms=st.none() | COUNTS,
    until=st.none() | TEMPLATES,
    event=TEXTS,
)
EDGES = st.builds(
    Edge,
    index=COUNTS,
    source=NAMES,
    target=NAMES,
    on=st.sampled_from(EdgeKind),
    errors=st.lists(TEXTS, max_size=2).map(tuple),
    when=st.none() | EXPRESSIONS,
    reach=st.frozensets(NAMES, max_size=3),
)
INDEXES = st.dictionaries(NAMES, st.lists(COUNTS, max_size=3).map(tuple), max_size=3)
PLANS = st.builds(
    Plan,
    workflow=TEXTS,
    nodes=st.lists(NODES, max_size=3).map(lambda nodes: {node.id: node for node in nodes}),
    edges=st.lists(EDGES, max_size=3).map(tuple),
    input_schema=JSON_VALUES,
    deadline_ms=st.none() | COUNTS,
    on_failure=st.sampled_from(OnFailure),
    outgoing=INDEXES,
    incoming=INDEXES,
)


@given(plan=PLANS)
def test_a_plan_comes_back_exactly_as_it_was(plan: Plan) -> None:
    stored = orjson.dumps(encode_plan(plan))

    restored = decode_plan(orjson.loads(stored))

    assert restored == plan
    assert list(restored.nodes) == list(plan.nodes)


@given(template=TEMPLATES)
def test_a_template_comes_back_exactly_as_it_was(template: Template) -> None:
    assert decode_template(orjson.loads(orjson.dumps(encode_template(template)))) == template


def test_user_data_that_looks_like_a_stored_template_stays_data() -> None:
    data = Literal(value={"reference": {"path": ["input"], "place": [1, 1]}})

    assert decode_template(encode_template(data)) == data
    assert decode_template(encode_template(Object(entries={"literal": data}))) == Object(entries={"literal": data})


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"format": FORMAT + 1},
        {"format": FORMAT},
        {"format": str(FORMAT)},
        encode_plan(Plan(workflow="w", nodes={}, edges=(), outgoing={}, incoming={}))
        | {"nodes": [{"id": 1, "type": "call"}]},
        encode_plan(Plan(workflow="w", nodes={}, edges=(), outgoing={}, incoming={}))
        | {"nodes": [{"id": "a", "type": "dance"}]},
    ],
)
def test_what_is_no_plan_of_this_format_is_refused(data: dict[str, Json]) -> None:
    with pytest.raises(PlanUnreadable):
        decode_plan(data)


def test_defaults_take_no_room() -> None:
    plan = Plan(workflow="w", nodes={"a": Node(id="a", type=NodeType.JOIN)}, edges=(), outgoing={}, incoming={})

    assert encode_plan(plan)["nodes"] == [{"id": "a", "type": "join"}]
