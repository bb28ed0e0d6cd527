"""What differs between two sources of a workflow, in the words of whoever wrote them.

Sources are compared as the values that they spell: order of keys, comments, quotes and aliases are no difference, and a
chain of edges is the edges that it stands for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from headway.coordinator.core.compiler.faults import Faults
from headway.coordinator.core.compiler.yaml_tree import Source, load_yaml, plain_value
from headway.coordinator.core.plan import EdgeKind, Json

MAX_KEYS = 20
MAX_PATH = 200
_PARTS = ("nodes", "edges", "input_schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How a source differs from an earlier one.

    Attributes:
        nodes_added, nodes_removed: ids.
        nodes_altered: id to the places in it that differ, such as `retry.max_attempts`.
        edges_added, edges_removed: as `a → b on failure when x > 1`.
        input_schema: places in it that differ; `(all of it)` when it came or went.
        settings: places in the other keys of the workflow that differ.
    """

    nodes_added: tuple[str, ...] = ()
    nodes_removed: tuple[str, ...] = ()
    nodes_altered: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    edges_added: tuple[str, ...] = ()
    edges_removed: tuple[str, ...] = ()
    input_schema: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


def compare(before: str, after: str) -> Changes:
    """Returns what differs between two sources that were compiled without a fault."""
    was, now = _read(before), _read(after)
    old_nodes, new_nodes = _map(was.get("nodes")), _map(now.get("nodes"))
    altered = {name: _places(old_nodes[name], node) for name, node in new_nodes.items() if name in old_nodes}
    old_edges, new_edges = _edges(was.get("edges")), _edges(now.get("edges"))
    return Changes(
        nodes_added=tuple(name for name in new_nodes if name not in old_nodes),
        nodes_removed=tuple(name for name in old_nodes if name not in new_nodes),
        nodes_altered={name: keys for name, keys in altered.items() if keys},
        edges_added=tuple(edge for edge in new_edges if edge not in old_edges),
        edges_removed=tuple(edge for edge in old_edges if edge not in new_edges),
        input_schema=_places(was.get("input_schema"), now.get("input_schema")),
        settings=_places(_without_parts(was), _without_parts(now)),
    )


def _read(source: str) -> dict[str, Json]:
    tree = load_yaml(Source(source), Faults())
    return _map(None if tree is None else plain_value(tree))


def _map(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _without_parts(workflow: dict[str, Json]) -> Json:
    return {key: value for key, value in workflow.items() if key not in _PARTS}


def _places(before: Json, after: Json) -> tuple[str, ...]:
    """Returns where two values differ; what follows behind the first MAX_KEYS is one `…`."""
    found: list[str] = []
    for place in _differences(before, after, ""):
        if len(found) == MAX_KEYS:
            return (*found, "…")
        found.append(place if len(place) <= MAX_PATH else place[:MAX_PATH] + "…")
    return tuple(found)


def _differences(before: Json, after: Json, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before | after:
            inner = f"{path}.{key}" if path else key
            if key in before and key in after:
                yield from _differences(before[key], after[key], inner)
            else:
                yield inner
    elif not _is_same(before, after):
        yield path or "(all of it)"


def _is_same(one: Json, other: Json) -> bool:
    """Equal as JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _edges(value: Json) -> dict[str, None]:
    """Returns the edges as people read them, in written order."""
    found: dict[str, None] = {}
    for item in value if isinstance(value, list) else ():
        if isinstance(item, list):
            found |= dict.fromkeys(f"{source} → {target}" for source, target in pairwise(item))
        elif isinstance(item, dict):
            found[_spell_edge(item)] = None
    return found


def _spell_edge(edge: dict[str, Json]) -> str:
    spelt = f"{edge.get('from')} → {edge.get('to')}"
    if (kind := edge.get("on", EdgeKind.SUCCESS.value)) != EdgeKind.SUCCESS.value:
        spelt += f" on {kind}"
    if isinstance(errors := edge.get("errors"), list) and errors:
        spelt += f" of {', '.join(map(str, errors))}"
    return spelt + (f" when {edge['when']}" if "when" in edge else "")
