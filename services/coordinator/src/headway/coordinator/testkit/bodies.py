"""Where nodes stand: in the workflow's own graph, or in a graph that one of its nodes has inside.

A task's path tells items and iterations apart, `resize[12].crop`; its place does not: `resize.crop`. Behind that of a
subflow node and a `/` stands what is in the run that it starts: `deploy[0].step/check/ask`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields

from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan import Plan

RUN = "/"  # between the node that starts a run and a node of that run
_INDEX = re.compile(r"\[[^\]]*\]")


def place_of(path: str) -> str:
    """A path without the indexes of items."""
    return _INDEX.sub("", path)


def inside(body: str, node: str) -> str:
    """The place of a node in a body; the workflow's own graph is the body ''."""
    return f"{body}.{node}" if body else node


def in_run(address: str, path: str) -> str:
    """The address of a node in the run of a subflow node; the address of the run that is tried is ''."""
    return f"{address}{RUN}{path}" if address else path


def split(address: str) -> tuple[str, str]:
    """The address of the run, and the path in it."""
    run, _, path = address.rpartition(RUN)
    return run, path


def graphs_of(graph: Graph) -> Mapping[str, Graph]:
    """The workflow's own graph by '', and those inside of nodes by the node's place."""
    return {"": graph} | {body: Graph(plan) for body, plan in _inner(graph.plan, "")}


def _inner(plan: Plan, body: str) -> Iterator[tuple[str, Plan]]:
    for node in plan.nodes.values():
        for value in (getattr(node, field.name) for field in fields(node)):
            if isinstance(value, Plan):
                place = inside(body, node.id)
                yield place, value
                yield from _inner(value, place)
