"""What a retry of a run comes to, for whoever asked: read off its decision, and off the rows as they stood before."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from msgspec import Struct

from headway.coordinator.core.actions import Action, OpenChild, OpenScope, RedoTask, ReopenLoop, ReopenRun
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.paths import is_within, loop_of, scope_at, scope_of, scopes_around
from headway.coordinator.core.plan import NodeType
from headway.coordinator.core.rows import took_effect, was_undone
from headway.coordinator.core.state import State

NAMED = 20  # items that are named of each map


class Ended(Struct, frozen=True):
    """Items of a map, or iterations of a repeat, that ended alike: how many, and the first NAMED of them."""

    state: RunState
    undone: bool
    count: int
    first: tuple[int, ...]


class Items(Struct, frozen=True, kw_only=True):
    """How a map or repeat stands. `total`: items not left out; of a repeat, the iterations that it may have."""

    total: int
    started: int
    ended: tuple[Ended, ...] = ()


class Before(Struct, frozen=True, kw_only=True):
    """What was looked up before the retry.

    Attributes:
        gone: children that were deleted.
        items: of the maps and repeats of the run's own graph that began, by path.
        effects: how often nodes with `compensate` did what stands, by the node of the run's own graph that it was in.
    """

    gone: frozenset[str] = frozenset()
    items: Mapping[str, Items] = {}
    effects: Mapping[str, int] = {}


def redone(
    state: State, actions: Sequence[Action], chosen: Collection[str], before: Before
) -> dict[str, list[Any] | bool]:
    """What is done again, what stays and what was undone, by the names of RetryResponse; nodes in the plan's order.

    Args:
        state: of the run before the retry, with all that its decision read.
        actions: of the decision.
        chosen: the nodes that were named, by path.
        before: what was looked up besides.
    """
    graph = state.graph
    opened = next(action for action in actions if isinstance(action, ReopenRun))
    again = (*opened.chosen, *opened.reset)
    within = [*_within_items(actions)]
    begun = {**before.items, **{path: stood for path in within if (stood := _stood(state, path)) is not None}}
    taken_up = {action.path: action for action in actions if _takes_up(action, state)}
    return {
        "chosen": [*opened.chosen],
        "reset": [*opened.reset],
        "kept": [path for path in opened.kept if path not in graph.undoes],
        "undone": [told for path in again if (told := _undone(state, path)) is not None],
        "standing": [*_standing(state, actions, again, before)],
        "items": [
            _items(state, path, begun[path], _way(path, opened, actions), [*_places(graph, path, chosen)])
            for path in (*again, *within)
            if path in begun
        ],
        "children": [_taken_up(action, state) for action in taken_up.values() if action.child not in before.gone],
        "new_children": [
            {"path": path, "workflow": graph.node(path).child_workflow}
            for path in (*again, *within)
            if graph.is_subflow(path) and (path not in taken_up or taken_up[path].child in before.gone)
        ],
        "runs_finally": graph.has_finally,
    }


def _within_items(actions: Iterable[Action]) -> Iterator[str]:
    """Nodes that are done again in items and iterations which are taken up at once."""
    anew = {action.path for action in actions if isinstance(action, OpenScope)}
    for action in actions:
        if isinstance(action, RedoTask) and (scope := scope_of(action.path)) and scope not in anew:
            yield action.path


def _stood(state: State, path: str) -> Items | None:
    """How a map or repeat within an item stands, by its row and by the page of its items that the decision read."""
    loop = state.loops.get(path)
    if loop is None:
        return None
    read = [row for row in state.scopes.values() if row is not None and row.loop == path and row.index < loop.started]
    counts = {RunState.SUCCEEDED: loop.succeeded, RunState.FAILED: loop.failed, RunState.CANCELLED: loop.cancelled}
    ended: list[Ended] = []
    for each, count in counts.items():
        undone, other = (
            tuple(sorted(row.index for row in read if row.state is each and row.undone is is_undone))
            for is_undone in (True, False)
        )
        ended += [
            Ended(each, True, len(undone), undone[:NAMED]),
            Ended(each, False, count - len(undone), other[:NAMED]),
        ]
    return Items(total=loop.total, started=loop.started, ended=tuple(ended))


def _undoing(state: State, path: str) -> tuple[str, str] | None:
    """The path and state of the task that undid a node's effect, or was to; None: nothing did."""
    spot = state.graph.spot(path)
    row = state.tasks.get(path)
    if row is None or spot.node.compensate is None or not took_effect(row):
        return None
    undo = spot.beside(spot.node.compensate)
    undoing = state.tasks.get(undo)
    return None if undoing is None or not was_undone(row, undoing) else (undo, str(undoing.state))


def _undone(state: State, path: str) -> dict[str, str] | None:
    undoing = _undoing(state, path)
    return None if undoing is None else {"path": path, "by": undoing[0], "state": undoing[1]}


def _standing(
    state: State, actions: Iterable[Action], again: Iterable[str], before: Before
) -> Iterator[dict[str, str | int]]:
    """Nodes that are done once more though what they did stands, and how often they did it."""
    redo = [action.path for action in actions if isinstance(action, RedoTask)]
    going_on = {action.path for action in actions if isinstance(action, ReopenLoop)}
    for path in again:
        stands = before.effects.get(path, 0)
        if path in going_on:
            inside = [each for each in redo if each != path and is_within(each, path)]
            stands = min(stands, sum(_stands(state, each) for each in inside))
        if stands:
            yield {"path": path, "count": stands}


def _stands(state: State, path: str) -> bool:
    row = state.tasks.get(path)
    has_effect = row is not None and state.graph.node(path).compensate is not None and took_effect(row)
    return has_effect and _undoing(state, path) is None


def _way(path: str, opened: ReopenRun, actions: Iterable[Action]) -> ReopenLoop | None:
    """How a map or repeat goes on where it stopped; None: it begins anew."""
    if path in opened.reset:
        return None
    return next((action for action in actions if isinstance(action, ReopenLoop) and action.path == path), None)


def _places(graph: Graph, loop: str, chosen: Iterable[str]) -> Iterator[int]:
    """In which items of a map chosen nodes are."""
    for path in chosen:
        scope = graph.spot(path).scope if graph.has(path) else path  # else it is an item or iteration as a whole
        places = dict(map(loop_of, scopes_around(scope)))
        if loop in places:
            yield places[loop]


def _items(state: State, loop: str, items: Items, way: ReopenLoop | None, places: Collection[int]) -> dict[str, Any]:
    """Which items run again. An item is counted once: as one that was chosen only if nothing else makes it run."""
    if way is None:
        return {"path": loop, "anew": True, "total": items.started}
    counts = {"failed": 0, "stopped": 0, "undone": 0, "kept": 0}
    named = {*places}
    for each in items.ended:
        sort = _sort(each.state, way, undone=each.undone)
        counts[sort] += each.count
        named.update(each.first if sort != "kept" else ())
    rows = [row for index in {*places} if (row := state.scopes.get(scope_at(loop, index))) is not None]
    by_choice = sum(_sort(row.state, way, undone=row.undone) == "kept" for row in rows)
    counts["kept"] -= by_choice
    is_map = state.graph.node(loop).type is NodeType.MAP
    return {
        "path": loop,
        "total": items.total if is_map else items.started,
        **counts,
        "chosen": by_choice,
        "unbegun": items.total - items.started if is_map else 0,
        "paths": [scope_at(loop, index) for index in sorted(named)[:NAMED]],
    }


def _sort(ended: RunState, way: ReopenLoop, *, undone: bool) -> str:
    """Why an item that ended so is taken up; "kept": it is not."""
    if ended is RunState.CANCELLED:
        return "stopped"
    if ended is RunState.FAILED and way.redo_failed:
        return "failed"
    return "undone" if undone else "kept"


def _takes_up(action: Action, state: State) -> TypeGuard[OpenChild]:
    """A subflow node asks for the run that it had before."""
    before = state.children.get(action.path) if isinstance(action, OpenChild) else None
    return before is not None and isinstance(action, OpenChild) and before.child == action.child


def _taken_up(action: OpenChild, state: State) -> dict[str, Any]:
    """`nodes`: those that failed in it, as its parent was told; none: it was stopped."""
    task = state.tasks.get(action.path)
    details = None if task is None else (task.error or {}).get("details")
    nodes = details.get("nodes") if isinstance(details, dict) else None
    return {"path": action.path, "run_id": action.child, "workflow": action.workflow, "nodes": nodes or []}
