"""Which edges of a workflow runs followed."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headway.coordinator.core.actions import CreateTask, SetToken
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan import Edge, EdgeKind
from headway.coordinator.testkit.bodies import inside, place_of
from headway.coordinator.testkit.simulation import Entry

Followed: TypeAlias = tuple[str, int]  # the graph, by the place of the node that it is inside of; the edge's index

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


def followed(graphs: Mapping[str, Graph], history: Iterable[Entry]) -> set[Followed]:
    """The edges that carried a live token."""
    found: set[Followed] = set()
    for entry in history:
        for action in entry.actions:
            if isinstance(action, SetToken) and action.token == _LIVE:
                body, _, node = place_of(action.path).rpartition(".")
                found.add((body, graphs[body].incoming[node][action.slot].index))
            elif isinstance(action, CreateTask):
                body, _, node = place_of(action.path).rpartition(".")
                into = graphs[body].incoming[node]
                found.update((body, edge.index) for edge in into if len(into) == 1)
    return found


def coverage(graphs: Mapping[str, Graph], found: Collection[Followed]) -> Coverage:
    """What is left when some were followed."""
    edges = [(body, edge) for body, graph in graphs.items() for edge in graph.plan.edges]
    never = tuple(_spell(body, edge) for body, edge in edges if (body, edge.index) not in found)
    return Coverage(edges=len(edges), never=never)


def _spell(body: str, edge: Edge) -> str:
    kind = "" if edge.on is EdgeKind.SUCCESS else f" on {edge.on}"
    errors = f" of {', '.join(edge.errors)}" if edge.errors else ""
    when = f" when {edge.when.source}" if edge.when is not None else ""
    return f"{inside(body, edge.source)} → {inside(body, edge.target)}{kind}{errors}{when}"
