"""Reads the edges of a source, adds those of the switches, and checks each by itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.drafts import NodeDraft, Target
from headway.coordinator.core.compiler.failures import check_failures, instead_of_status
from headway.coordinator.core.compiler.faults import Code, nearest
from headway.coordinator.core.compiler.fields import Entries, Reading
from headway.coordinator.core.compiler.habits import WORDS, normal
from headway.coordinator.core.compiler.nodes import read_target
from headway.coordinator.core.compiler.template_parser import Site, is_unknown
from headway.coordinator.core.compiler.yaml_tree import Yaml, YamlList, YamlMap, YamlScalar
from headway.coordinator.core.plan import Case, Edge, EdgeKind, Node, NodeType, Place, TimeOuts

_OPPOSITES = ((" == ", " != "), (" < ", " >= "), (" > ", " <= "))
_HANDLING = (EdgeKind.FAILURE, EdgeKind.TIMEOUT)
_ARROWS = re.compile(r"\s*(?:-+>+|=>|→|>+|,|\s+to\s+)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDraft:
    """An edge whose reach is not known yet. `is_case`: a switch decides about it."""

    edge: Edge
    place: Place
    sites: tuple[Site, ...] = ()
    is_case: bool = False


def read_edges(
    reading: Reading, tree: YamlList | None, nodes: Mapping[str, NodeDraft]
) -> tuple[list[EdgeDraft], list[Site]]:
    """Returns the written edges whose ends exist, in written order, and the expressions on those that were refused."""
    drafts: list[EdgeDraft] = []
    refused: list[Site] = []
    items = tree.items if tree is not None else ()
    names = [item.value for item in items if isinstance(item, YamlScalar) and item.value in nodes]
    if tree is not None and names and len(names) == len(items):
        remedy = f"write [[{', '.join(map(str, names))}]]"
        reading.faults.add(tree.place, Code.WRONG_TYPE, "edges must be a list of edges, this is one edge", remedy)
        return [], []
    for item in items:
        drafts += _read_edge(reading, item, nodes, refused)
    kept: list[EdgeDraft] = []
    seen: dict[object, Place] = {}
    for draft in drafts:
        if not _is_allowed(reading, draft, nodes):
            refused += draft.sites
            continue
        edge = draft.edge
        key = (edge.source, edge.target, edge.on, frozenset(edge.errors), edge.when.source if edge.when else None)
        if key in seen:
            message = f"the edge from {edge.source} to {edge.target} stands here twice; first in line {seen[key].line}"
            reading.faults.add(draft.place, Code.DUPLICATE_EDGE, message, "remove one of them")
            continue
        seen[key] = draft.place
        kept.append(replace(draft, edge=replace(edge, index=len(kept))))
    _warn_of_dead_edges(reading, kept, nodes)
    _warn_of_dead_ends(reading, kept, nodes)
    return kept, refused


def add_case_edges(
    reading: Reading, written: list[EdgeDraft], nodes: Mapping[str, NodeDraft]
) -> tuple[list[EdgeDraft], dict[str, Node]]:
    """Returns all edges, those of the switches last, and the nodes with their cases.

    Cases to one target share an edge.
    """
    edges = list(written)
    finished: dict[str, Node] = {}
    for name, draft in nodes.items():
        made: dict[str, int] = {}

        def edge_to(
            target: Target, source: str = name, made: dict[str, int] = made, *, is_default: bool = False
        ) -> int | None:
            instead = WORDS["default"].get(normal(target.node), "") if is_default else ""
            if not _exists(reading, target, nodes, instead):
                return None
            if target.node not in made:
                made[target.node] = len(edges)
                edge = Edge(index=len(edges), source=source, target=target.node)
                edges.append(EdgeDraft(edge=edge, place=target.place, is_case=True))
            return made[target.node]

        numbered = [(case, edge_to(case.to)) for case in draft.cases]
        cases = tuple(Case(when=case.when, edge=edge) for case, edge in numbered if edge is not None)
        default_edge = edge_to(draft.default, is_default=True) if draft.default is not None else None
        finished[name] = replace(draft.node, cases=cases, default_edge=default_edge)
    return edges, finished


def _read_edge(reading: Reading, tree: Yaml, nodes: Mapping[str, NodeDraft], refused: list[Site]) -> list[EdgeDraft]:
    if isinstance(tree, YamlList):
        return _read_chain(reading, tree, nodes)
    if isinstance(tree, YamlMap) and (pair := _pair_in(tree, nodes)) is not None:
        message = "an edge must be a list, or a map with from and to"
        reading.faults.add(tree.place, Code.WRONG_TYPE, message, f"write [{', '.join(pair)}]")
        return []
    if isinstance(tree, YamlMap):
        return _read_full_edge(reading, tree, nodes, refused)
    ends = _ARROWS.split(tree.value.strip()) if isinstance(tree.value, str) else []
    is_chain = len(ends) > 1 and all(end and " " not in end for end in ends)
    remedy = f"write [{', '.join(ends)}]" if is_chain else "write [from, to] or {from: …, to: …}"
    reading.faults.add(tree.place, Code.WRONG_TYPE, "an edge must be a list or a map", remedy)
    return []


def _pair_in(tree: YamlMap, nodes: Mapping[str, NodeDraft]) -> tuple[str, str] | None:
    """Returns both nodes of what was meant for an edge by `one: other`."""
    for name, value in tree.entries.items() if len(tree.entries) == 1 else ():
        if name in nodes and isinstance(value, YamlScalar) and value.value in nodes:
            return name, str(value.value)
    return None


def _read_chain(reading: Reading, tree: YamlList, nodes: Mapping[str, NodeDraft]) -> list[EdgeDraft]:
    targets: list[Target | None] = []
    for item in tree.items:
        if isinstance(item, YamlScalar) and isinstance(item.value, str):
            target = Target(node=item.value, place=item.place)
            targets.append(target if _exists(reading, target, nodes) else None)
        else:
            remedy = "several edges out of a node fork: write one chain for each branch"
            reading.faults.add(item.place, Code.WRONG_TYPE, "a chain holds ids of nodes", remedy)
            targets.append(None)
    if len(tree.items) < 2:  # noqa: PLR2004 - an edge has two ends
        reading.faults.add(tree.place, Code.WRONG_VALUE, "a chain has at least two nodes", "write [from, to]")
    return [
        EdgeDraft(edge=Edge(index=0, source=source.node, target=target.node), place=target.place)
        for source, target in pairwise(targets)
        if source is not None and target is not None
    ]


def _read_full_edge(
    reading: Reading, tree: YamlMap, nodes: Mapping[str, NodeDraft], refused: list[Site]
) -> list[EdgeDraft]:
    entries = Entries(reading, tree, language.EDGE, "an edge")
    source, target = (read_target(entries, end, is_edge=True) for end in ("from", "to"))
    kind = EdgeKind(entries.word("on") or EdgeKind.SUCCESS)
    fails = nodes[source.node].node if source is not None and source.node in nodes else None
    errors = entries.texts("errors", instead_of_status(entries.tree("errors"), fails, is_edge=True)) or ()
    if errors and kind not in _HANDLING:
        message = f"errors has no meaning with on: {kind.value}"
        reading.faults.add(entries.place_of("errors"), Code.CONTRADICTION, message, "add on: failure, or remove it")
    reading.templates.take_sites()
    when = entries.condition("when")
    sites = reading.templates.take_sites()
    known = [end is not None and _exists(reading, end, nodes) for end in (source, target)]
    if source is None or target is None or not all(known):
        refused += sites
        return []
    check_failures(reading.faults, entries.tree("errors"), nodes[source.node].node, is_edge=True)
    edge = Edge(index=0, source=source.node, target=target.node, on=kind, errors=errors, when=when)
    return [EdgeDraft(edge=edge, place=tree.place, sites=sites)]


def _exists(reading: Reading, target: Target, nodes: Mapping[str, NodeDraft], instead: str = "") -> bool:
    if target.node in nodes:
        return True
    message = f"there is no node {target.node}"
    reading.faults.add(target.place, Code.UNKNOWN_NODE, message, instead or nearest(target.node, nodes))
    return False


def _is_allowed(reading: Reading, draft: EdgeDraft, nodes: Mapping[str, NodeDraft]) -> bool:
    edge, source = draft.edge, nodes[draft.edge.source].node
    message = remedy = ""
    if source.type is NodeType.FINISH:
        message, remedy = f"{source.id} ends the run: nothing follows it", "remove the edge"
    elif source.type is NodeType.SWITCH and edge.on is EdgeKind.SUCCESS:
        message, remedy = f"{source.id} is a switch: its cases are its edges", "remove the edge, or add a case"
    elif edge.on is EdgeKind.TIMEOUT and source.type not in language.CAN_FAIL_LATE:
        message = f"{source.id} cannot time out: it is a {source.type.value} node"
        remedy = "follow its success, or give the node before it a timeout"
    if message:
        reading.faults.add(draft.place, Code.EDGE_NOT_ALLOWED, message, remedy)
    return not message


def _warn_of_dead_edges(reading: Reading, drafts: list[EdgeDraft], nodes: Mapping[str, NodeDraft]) -> None:
    takers: dict[str, Place] = {}  # per node, its first failure edge that takes everything
    for draft in drafts:
        edge, timeouts = draft.edge, nodes[draft.edge.source].node.timeouts
        if edge.on is EdgeKind.TIMEOUT and timeouts == TimeOuts():
            message = f"{edge.source} has no timeout, so this edge is never followed"
            reading.faults.add(draft.place, Code.EDGE_NEVER_FOLLOWED, message, "set its timeout", warning=True)
        if edge.on not in _HANDLING:
            continue
        if edge.source in takers:
            message = (
                f"the edge in line {takers[edge.source].line} takes every failure of {edge.source} before this one"
            )
            reading.faults.add(
                draft.place, Code.EDGE_NEVER_FOLLOWED, message, "write the narrower one first", warning=True
            )
        elif edge.on is EdgeKind.FAILURE and not edge.errors and edge.when is None:
            takers[edge.source] = draft.place


def _warn_of_dead_ends(reading: Reading, drafts: list[EdgeDraft], nodes: Mapping[str, NodeDraft]) -> None:
    """A success that perhaps nothing follows, although edges lead on."""
    onward: dict[str, list[EdgeDraft]] = {}
    for draft in drafts:
        if draft.edge.on not in _HANDLING and nodes[draft.edge.source].node.type is not NodeType.SWITCH:
            onward.setdefault(draft.edge.source, []).append(draft)
    for name, ways in onward.items():
        conditions = [draft.edge.when.source for draft in ways if draft.edge.when is not None]
        if any(draft.edge.when is not None and is_unknown(draft.edge.when) for draft in ways):
            continue
        if len(conditions) < len(ways) or any(_is_opposite(one, other) for one in conditions for other in conditions):
            continue
        message = f"every edge out of {name} has a condition: if none holds, nothing follows it"
        remedy = "add the way for all other cases, or a switch with a default"
        reading.faults.add(ways[0].place, Code.MAY_LEAD_NOWHERE, message, remedy, warning=True)


def _is_opposite(one: str, other: str) -> bool:
    """True when one of two conditions surely holds, as far as their spelling tells."""
    if other in (f"!({one})", f"!{one}"):
        return True
    is_plain = not any(operator in one for operator in ("&&", "||", "?"))
    return is_plain and any(one.count(left) == 1 and one.replace(left, right) == other for left, right in _OPPOSITES)
