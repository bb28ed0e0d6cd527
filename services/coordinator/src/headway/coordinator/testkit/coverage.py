"""Which edges of workflows runs followed."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headway.coordinator.core.actions import CreateTask, SetToken
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan import Edge, EdgeKind
from headway.coordinator.testkit.bodies import inside, place_of
from headway.coordinator.testkit.played import Told
from headway.coordinator.testkit.simulation import Entry

Followed: TypeAlias = tuple[str, str, int]
"""The workflow; the graph in it, by the place of the node that it is inside of; the edge's index."""


_LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of a workflow was tried.

    Attributes:
        edges: how many it has.
        never: those that no run followed, as text.
    """

    edges: int
    never: tuple[str, ...]

    @property
    def percent(self) -> float:
        """Of the edges; 100 when there are none."""
        return 100.0 if not self.edges else 100.0 * (self.edges - len(self.never)) / self.edges


def followed(workflows: Mapping[str, Mapping[str, Graph]], log: Iterable[Told]) -> set[Followed]:
    """The edges that carried a live token, in whichever run."""
    found: set[Followed] = set()
    for told in log:
        if isinstance(told.what, Entry):
            edges = _followed(workflows[told.workflow], told.what)
            found.update((told.workflow, body, edge) for body, edge in edges)
    return found


def _followed(graphs: Mapping[str, Graph], entry: Entry) -> Iterator[tuple[str, int]]:
    for action in entry.actions:
        if isinstance(action, SetToken) and action.token == _LIVE:
            body, _, node = place_of(action.path).rpartition(".")
            yield body, graphs[body].incoming[node][action.slot].index
        elif isinstance(action, CreateTask):
            body, _, node = place_of(action.path).rpartition(".")
            into = graphs[body].incoming[node]
            yield from ((body, edge.index) for edge in into if len(into) == 1)


def coverage(workflow: str, graphs: Mapping[str, Graph], found: Collection[Followed]) -> Coverage:
    """What is left of a workflow when some were followed."""
    edges = [(body, edge) for body, graph in graphs.items() for edge in graph.plan.edges]
    never = tuple(_spell(body, edge) for body, edge in edges if (workflow, body, edge.index) not in found)
    return Coverage(edges=len(edges), never=never)


def _spell(body: str, edge: Edge) -> str:
    kind = "" if edge.on is EdgeKind.SUCCESS else f" on {edge.on}"
    errors = f" of {', '.join(edge.errors)}" if edge.errors else ""
    when = f" when {edge.when.source}" if edge.when is not None else ""
    return f"{inside(body, edge.source)} → {inside(body, edge.target)}{kind}{errors}{when}"
