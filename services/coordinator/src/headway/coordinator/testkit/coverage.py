"""Which edges of a workflow runs followed."""

from collections.abc import Iterable
from dataclasses import dataclass

from headway.coordinator.core.actions import CreateTask, SetToken
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan import Edge, EdgeKind
from headway.coordinator.testkit.simulation import Entry

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


def followed(graph: Graph, history: Iterable[Entry]) -> set[int]:
    """The edges that carried a live token, by index."""
    found: set[int] = set()
    for entry in history:
        for action in entry.actions:
            if isinstance(action, SetToken) and action.token == _LIVE:
                found.add(graph.incoming[action.path][action.slot].index)
            elif isinstance(action, CreateTask) and action.path not in graph.gathers:
                found.update(edge.index for edge in graph.incoming.get(action.path, ()))
    return found


def coverage(graph: Graph, found: set[int]) -> Coverage:
    """What is left when some were followed."""
    edges = graph.plan.edges
    return Coverage(edges=len(edges), never=tuple(_spell(edge) for edge in edges if edge.index not in found))


def _spell(edge: Edge) -> str:
    kind = "" if edge.on is EdgeKind.SUCCESS else f" on {edge.on}"
    errors = f" of {', '.join(edge.errors)}" if edge.errors else ""
    when = f" when {edge.when.source}" if edge.when is not None else ""
    return f"{edge.source} → {edge.target}{kind}{errors}{when}"
