"""Which nodes can never run, and which joins can never have the branches that they need in one run."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from headway.coordinator.core.compiler.certainty import Certainty, Scenario, Ways
from headway.coordinator.core.compiler.drafts import NodeDraft
from headway.coordinator.core.compiler.faults import Code, Faults
from headway.coordinator.core.compiler.graph import Shape
from headway.coordinator.core.plan import Edge, Node, NodeType, Place

_MAX_TOGETHER = 512  # combinations of scenarios that are followed
_NAMED = 8


def check_reachability(
    faults: Faults, nodes: Mapping[str, Node], shape: Shape, drafts: Mapping[str, NodeDraft]
) -> None:
    """Checks a graph without cycles, all of whose edges are known.

    Args:
        faults: where faults go.
        nodes: with the edges of switches.
        shape: the graph.
        drafts: of the nodes, for their places.
    """
    certainty = Certainty(nodes, shape)
    for name, node in nodes.items():
        incoming = [shape.edges[index] for index in shape.incoming[name]]
        if certainty.never_runs(name):
            message = f"{name} can never run: no way leads to it"
            remedy = "mend what leads to it, or remove it"
            faults.add(drafts[name].place, Code.NEVER_RUNS, message, remedy, warning=True)
        elif node.type is NodeType.JOIN and 1 < (node.need or 1) <= len(incoming):
            place = drafts[name].places.get("need", drafts[name].place)
            _check_join(faults, certainty, name, node.need or 1, incoming, place)


def _check_join(
    faults: Faults, certainty: Certainty, name: str, need: int, incoming: Sequence[Edge], place: Place
) -> None:
    ways = [certainty.ways_of(edge) for edge in incoming]
    known = [each for each in ways if each is not None]
    if len(known) < len(ways):
        return
    most = _most_together(known, need)
    if most is None or most >= need:
        return
    pairs = combinations(range(len(incoming)), 2)
    excluding = [pair for pair in pairs if not _meet(known[pair[0]], known[pair[1]])]
    spelt = ", ".join(f"{incoming[one].source} and {incoming[other].source}" for one, other in excluding[:_NAMED])
    message = f"the join {name} can never fire: it needs {need} branches, and at most {most} arrive in one run"
    if spelt:
        message += f" ({spelt} exclude each other)"
    faults.add(place, Code.JOIN_OUT_OF_REACH, message, f"lower need to {most}" if most else "mend what leads to it")


def _most_together(ways: Sequence[Ways], enough: int) -> int | None:
    """Returns how many edges can be live in one run, at most `enough`; None: too many ways to follow."""
    reached: dict[Scenario, int] = {frozenset(): 0}
    for each in ways:
        for before, count in list(reached.items()):
            for scenario in each:
                both = before | scenario
                if len({what for what, _ in both}) == len(both):
                    reached[both] = max(reached.get(both, 0), count + 1)
        if max(reached.values()) >= enough:
            return enough
        if len(reached) > _MAX_TOGETHER:
            return None
    return max(reached.values())


def _meet(one: Ways, other: Ways) -> bool:
    return _most_together((one, other), 2) != 1
