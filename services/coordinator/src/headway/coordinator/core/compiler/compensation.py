"""Checks what `compensate:` names: nodes that run only to undo others."""

from collections.abc import Callable, Iterable, Mapping

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.drafts import NodeDraft
from headway.coordinator.core.compiler.edges import EdgeDraft
from headway.coordinator.core.compiler.faults import Code, Remedy, nearest
from headway.coordinator.core.compiler.fields import Reading
from headway.coordinator.core.plan import WORKER_NODES, Edge


def check_compensation(
    reading: Reading, drafts: Mapping[str, NodeDraft], edges: Iterable[EdgeDraft], is_outside: Callable[[str], bool]
) -> dict[str, str]:
    """Returns, by node, the sound node that undoes it.

    Args:
        reading: where faults go.
        drafts: the nodes of a graph.
        edges: of it.
        is_outside: whether a node lies around the graph.
    """
    undone_by: dict[str, str] = {}
    undoes: dict[str, str] = {}
    touched = {end: draft for draft in edges for end in (draft.edge.source, draft.edge.target)}
    for name, draft in drafts.items():
        undo = draft.node.compensate
        if undo is None:
            continue
        complaint = _complaint(name, undo, drafts, undoes)
        if undo not in drafts:
            complaint = _astray(name, undo, drafts, is_outside) or complaint
        if complaint is not None:
            reading.faults.add(draft.places["compensate"], *complaint)
            continue
        undoes[undo] = name
        if undo in touched:
            message = f"{undo} undoes {name}: no edge leads to it or away from it"
            reading.faults.add(touched[undo].place, Code.EDGE_NOT_ALLOWED, message, "remove the edge")
        else:
            undone_by[name] = undo
    return undone_by


def edges_for_checking(undone_by: Mapping[str, str], first: int) -> list[Edge]:
    """Returns edges that say what surely ran when a node undoes another; numbered from `first`, for checks only."""
    return [
        Edge(index=index, source=owner, target=undo) for index, (owner, undo) in enumerate(undone_by.items(), first)
    ]


def _astray(
    name: str, undo: str, drafts: Mapping[str, NodeDraft], is_outside: Callable[[str], bool]
) -> tuple[Code, str, Remedy] | None:
    """What is wrong where it is the node of another graph; None: it is none of any."""
    if is_outside(undo):
        remedy = f"move {undo} into the body, beside {name}"
        if list(drafts) == [language.ONLY_NODE]:
            remedy = f"write the body as nodes: {{{name}: …, {undo}: …}}, with {undo} in it and not outside"
        message = f"{undo} stands outside of the body: {name} is undone by a node of the same body"
        return Code.NOT_IN_A_BODY, message, remedy
    around = (each for each, draft in drafts.items() if draft.body is not None and undo in draft.body.nodes)
    if (loop := next(around, None)) is not None:
        message = f"{undo} is in the body of {loop}: it undoes nodes of that body"
        return Code.INSIDE_A_BODY, message, f"write a node beside {name} that undoes it"
    return None


def _complaint(
    name: str, undo: str, drafts: Mapping[str, NodeDraft], undoes: Mapping[str, str]
) -> tuple[Code, str, Remedy] | None:
    if undo not in drafts:
        return Code.UNKNOWN_NODE, f"there is no node {undo}", nearest(undo, drafts)
    node = drafts[undo].node
    if undo == name:
        return Code.CONTRADICTION, f"{name} cannot undo itself", "name another node"
    if node.type not in WORKER_NODES:
        kinds = ", ".join(sorted(each.value for each in WORKER_NODES))
        return Code.CONTRADICTION, f"{undo} cannot undo anything: it is a {node.type.value} node", f"use one of {kinds}"
    if undo in undoes:
        return Code.CONTRADICTION, f"{undo} undoes {undoes[undo]} already", "write a node for each"
    if node.compensate is not None:
        return Code.CONTRADICTION, f"{undo} undoes {name}: it is never undone itself", "remove its compensate"
    return None
