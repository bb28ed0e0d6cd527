"""What expressions see of a run: resolves variable paths to values, decoding only the documents they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import orjson

from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.lookups import Rows, TooMuch, UnknownValue, descend, spell
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.paths import CHUNK, chunk_key, inside, loop_of, scope_at, scopes_around
from headway.coordinator.core.plan import LOOP_NODES, EdgeKind, Json, NodeType, VariablePath
from headway.coordinator.core.rows import RUN_INPUT, EffectRow, LoopRow, PayloadKey

if TYPE_CHECKING:
    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.effort import Effort
    from headway.coordinator.core.events import Failure
    from headway.coordinator.core.graph import Spot
    from headway.coordinator.core.rows import ScopeRow

RESULTS_LIMIT = 1 << 20  # bytes of a map's results that are put together
JOINED_STEPS = 4  # for each of them
NOT_REACHED = "not_reached"  # `nodes.x.state` of a node without a task


class Scope:
    """Variables as one node, or one edge's condition, sees them.

    Attributes:
        bytes_read: how large the single results of maps are that were asked for.
    """

    __slots__ = ("_error", "_payload", "_scope", "_target", "_walk", "bytes_read")

    def __init__(
        self,
        walk: Walk,
        scope: str,
        *,
        target: str | None = None,
        error: tuple[str, Failure] | None = None,
        payload: Document | None = None,
    ) -> None:
        """See the run through `walk`.

        Args:
            walk: the decision under way.
            scope: the item or iteration in which it stands; empty: the run itself.
            target: the node that is about to run: `error` is that of the failure edge that led to it.
            error: for a condition on an edge behind a failure: the node that failed, and how.
            payload: for a condition on a signal: its own.
        """
        self.bytes_read = 0
        self._payload = payload
        self._walk = walk
        self._scope = scope
        self._target = target
        self._error = error

    @property
    def effort(self) -> Effort:
        """What the decision has left."""
        return self._walk.effort

    def lookup(self, path: VariablePath) -> Json | orjson.Fragment | Rows:
        """Return the value at a path such as ("nodes", "reserve", "output", "price").

        Raises:
            UnknownValue: there is nothing there.
            Missing: it was not loaded.
        """
        root = path[0]
        if root == "input":
            return self._inside(RUN_INPUT, self._walk.draft.payload(RUN_INPUT), path, 1)
        if root == "nodes":
            return self._node(path)
        if root == "vars":
            return descend(dict(self._walk.run.vars), path, 1)
        if root == "run":
            return descend(self._run(), path, 1)
        if root in ("error", "outcome"):
            return descend(self._error_value(path) if root == "error" else self._outcome(path), path, 1)
        if root == "payload" and self._payload is not None:
            return self._inside(self._payload, self._payload, path, 1)
        if root in ("item", "index", "last"):
            return self._of_loop(self._innermost(root, path), path, 0)
        if root == "loops" and len(path) > 2:  # noqa: PLR2004 - loops.name.item
            return self._of_loop(self._named(path), path, 2)
        raise UnknownValue(path)

    def present(self, path: VariablePath) -> bool:
        """Return whether there is a value at a path; a whole payload is not decoded for that.

        Raises:
            Missing: it was not loaded.
        """
        try:
            if self.document(path) is None and self.map_behind(path) is None:
                self.lookup(path)
        except (UnknownValue, TooMuch):
            return False
        return True

    def document(self, path: VariablePath) -> PayloadKey | None:
        """Return the stored payload that a path names as a whole, or None when it names something else.

        Raises:
            UnknownValue: a node that did not succeed.
            Missing: it was not loaded.
        """
        if path == ("input",):
            return RUN_INPUT
        if path[0] == "nodes" and path[2:] == ("output",):
            spot = self._spot(path)
            return None if spot.node.type is NodeType.MAP else self._output_key(spot, path)
        return None

    def _spot(self, path: VariablePath) -> Spot:
        """The node that `nodes.name` means: in the graph of this scope, or in one of those around it."""
        graph = self._walk.graph
        if not self._scope:
            found = graph.spots.get(path[1])
            if found is None:
                raise UnknownValue(path)
            return found
        for scope in (*scopes_around(self._scope), ""):
            body = graph.body(scope)
            if path[1] in body.plan.nodes:
                return body.at(scope, path[1])
        raise UnknownValue(path)

    def _node(self, path: VariablePath) -> Json | orjson.Fragment | Rows:
        spot = self._spot(path)
        what = path[2] if len(path) > 2 else None  # noqa: PLR2004 - nodes.name.output
        if what == "output":
            key = self._output_key(spot, path)
            if spot.node.type is NodeType.MAP:
                if len(path) > 3:  # noqa: PLR2004 - a list has no fields
                    raise UnknownValue(path)
                return _Results(self, self._walk.loop(spot.beside(spot.name)), path)
            document: Document = NULL if key is None else self._walk.draft.payload(key)
            return self._inside(key, document, path, 3)
        where = spot.beside(spot.name)
        if what == "state":
            if (undone := self._undone(where)) is not None and undone.is_known:
                return str(TaskState.SUCCEEDED)
            row = self._walk.draft.task(where)
            if undone is not None and row is not None and row.attempt != undone.attempt:
                return str(TaskState.CANCELLED)
            return str(row.state) if row is not None else NOT_REACHED
        if what == "counts" and spot.node.type in LOOP_NODES:
            loop = self._walk.draft.loop(where)
            if loop is None:
                raise UnknownValue(path)
            return descend(counts_of(loop), path, 3)
        raise UnknownValue(path)

    def _output_key(self, spot: Spot, path: VariablePath) -> PayloadKey | None:
        where = f"{spot.scope}.{spot.name}" if spot.scope else spot.name
        if (undone := self._undone(where)) is not None and undone.is_known:
            return (where, undone.attempt, "output") if undone.gave == "output" else None
        row = self._walk.draft.task(where)
        if row is None or row.state is not TaskState.SUCCEEDED or (undone and undone.attempt != row.attempt):
            raise UnknownValue(path)
        return None if row.output_attempt is None else (row.path, row.output_attempt, "output")

    def _undone(self, where: str) -> EffectRow | None:
        """What the node that begins undoes, if it is that of this node: perhaps that of an earlier attempt."""
        effect = self._walk.undoing
        return effect if effect is not None and effect.path == where else None

    def results(self, loop: LoopRow, path: VariablePath) -> orjson.Fragment:
        """Return all that the items of a map gave. Raises TooMuch, Missing."""
        size = loop.output_bytes + loop.results
        if size > RESULTS_LIMIT:
            raise TooMuch(spell(path), size)
        self.effort.spend(loop.results * JOINED_STEPS)
        document = self._walk.draft.results(loop)
        self.effort.spend_bytes(len(document.raw))
        return orjson.Fragment(document.raw)

    def result_of(self, row: ScopeRow | None, rest: VariablePath) -> Json | orjson.Fragment:
        """Return what lies in what an item of a map gave. Raises UnknownValue, Missing."""
        output = None if row is None else row.output
        document = NULL if output is None else self._walk.draft.payload(output)
        return self._inside(output, document, rest, 0)

    def value_of(self, row: ScopeRow | None) -> Json:
        """Return what an item of a map gave, decoded. Raises Missing."""
        output = None if row is None else row.output
        document = NULL if output is None else self._walk.draft.payload(output)
        self.effort.decode(output, document.raw)
        return document.value

    def row_of(self, loop: LoopRow, index: int) -> ScopeRow | None:
        """Return the row of an item whose result is read, or None when there is none. Raises Missing."""
        row = self._walk.draft.scope(scope_at(loop.path, index))
        self.bytes_read += 0 if row is None else row.output_bytes
        return row

    def result(self, path: VariablePath, index: int) -> PayloadKey | None:
        """Return where a result of the map behind a path is stored; None: it is null. Raises Missing."""
        loop = self.map_behind(path)
        row = None if loop is None else self.row_of(loop, index)
        return None if row is None else row.output

    def map_behind(self, path: VariablePath) -> LoopRow | None:
        """The map whose results a path names as a whole, or None when it names something else.

        Raises:
            Missing: it was not loaded.
        """
        if path[0] != "nodes" or path[2:] != ("output",):
            return None
        spot = self._spot(path)
        where = spot.beside(spot.name)
        row = self._walk.draft.task(where)
        is_there = spot.node.type is NodeType.MAP and row is not None and row.state is TaskState.SUCCEEDED
        return self._walk.draft.loop(where) if is_there else None

    # --- maps and repeats around

    def _innermost(self, root: str, path: VariablePath) -> str:
        kinds = {"item": (NodeType.MAP,), "last": (NodeType.REPEAT,)}.get(root, tuple(LOOP_NODES))
        for scope in scopes_around(self._scope):
            if self._walk.graph.node(loop_of(scope)[0]).type in kinds:
                return scope
        raise UnknownValue(path)

    def _named(self, path: VariablePath) -> str:
        for scope in scopes_around(self._scope):
            if self._walk.graph.spot(loop_of(scope)[0]).name == path[1]:
                return scope
        raise UnknownValue(path)

    def _of_loop(self, scope: str, path: VariablePath, depth: int) -> Json | orjson.Fragment:
        """What a map or repeat gives to its body: `item`, `index`, `last`."""
        where, index = loop_of(scope)
        what, node = path[depth], self._walk.graph.node(where)
        if what == "index":
            return descend(index if node.where is None else self._walk.place(scope), path, depth + 1)
        is_map = node.type is NodeType.MAP
        if what == "item" and is_map:
            place = index if node.where is None else self._walk.place(scope)
            return self._item(self._walk.loop(where), place, path, depth + 1)
        if what == "last" and not is_map:
            output = self._last(where, index)
            return self._inside(output, NULL if output is None else self._walk.draft.payload(output), path, depth + 1)
        raise UnknownValue(path)

    def _last(self, where: str, index: int) -> PayloadKey | None:
        """The output of the iteration before: the latest one, unless something is undone in one that is long over."""
        if not self._walk.run.is_compensating:
            return self._walk.loop(where).output
        return self._walk.scope(scope_at(where, index - 1)).output if index else None

    def _item(self, loop: LoopRow, index: int, path: VariablePath, depth: int) -> Json | orjson.Fragment:
        draft = self._walk.draft
        if loop.source is not None:
            output = self._walk.scope(scope_at(loop.source, index)).output
            return self._inside(output, NULL if output is None else draft.payload(output), path, depth)
        key = chunk_key(loop.path, loop.attempt, index)
        document = draft.payload(key)
        self.effort.decode(key, document.raw)
        chunk = cast("list[Json]", document.value)
        return descend(chunk[index % CHUNK], path, depth)

    def _inside(self, key: object, document: Document, path: VariablePath, depth: int) -> Json | orjson.Fragment:
        """A whole document goes on as it is, undecoded."""
        if len(path) == depth:
            self.effort.spend_bytes(len(document.raw))
            return orjson.Fragment(document.raw)
        self.effort.decode(key, document.raw)
        return descend(document.value, path, depth)

    def _run(self) -> dict[str, Json]:
        run = self._walk.run
        return {
            "id": self._walk.draft.state.run_id,
            "workflow": run.workflow,
            "version": run.version,
            "namespace": run.namespace,
            "epoch": run.epoch,
        }

    def _outcome(self, path: VariablePath) -> dict[str, Json]:
        conclusion = self._walk.run.conclusion
        if conclusion is None:
            raise UnknownValue(path)
        error = conclusion.error or {}
        failure_class = error.get("failure_class")
        return {
            "state": str(conclusion.state),
            "class": None if failure_class is None else str(failure_class),
            "message": error.get("message"),
            "nodes": error.get("paths", []),
        }

    def _error_value(self, path: VariablePath) -> Json:
        if self._error is not None:
            source, failure = self._error
            return _error(source, failure.failure_class, failure.type, failure.message, failure.details)
        source_of = self._failed_source()
        if source_of is None:
            raise UnknownValue(path)
        row = self._walk.row(inside(self._scope, source_of))
        error = row.error or {}
        details = error.get("details")
        kind, message = str(error.get("type")), str(error.get("message"))
        return _error(source_of, str(row.failure_class), kind, message, details if isinstance(details, dict) else None)

    def _failed_source(self) -> str | None:
        """The node behind the first failure or time-out edge that led here."""
        if self._target is None:
            return None
        spot = self._walk.graph.spot(self._target)
        live = 1
        if spot.gathers:
            row = self._walk.draft.token(self._target)
            live = row.live if row is not None else 0
        for slot, edge in enumerate(spot.incoming):
            if live >> slot & 1 and edge.on in (EdgeKind.FAILURE, EdgeKind.TIMEOUT, EdgeKind.ALWAYS):
                source = self._walk.draft.task(spot.beside(edge.source))
                if source is not None and source.state is TaskState.FAILED:
                    return edge.source
        return None


class _Results(Rows):
    """What the items of a map gave. One expression reads as much of it, item by item, as could be put together."""

    __slots__ = ("_loop", "_path", "_read", "_scope")

    def __init__(self, scope: Scope, loop: LoopRow, path: VariablePath) -> None:
        self._scope = scope
        self._loop = loop
        self._path = path
        self._read: dict[int, int] = {}  # bytes, by item

    @property
    def size(self) -> int:
        return self._loop.results

    def whole(self) -> orjson.Fragment:
        return self._scope.results(self._loop, self._path)

    def item(self, index: int, rest: VariablePath) -> Json | orjson.Fragment:
        return self._scope.result_of(self._row(index), rest)

    def value(self, index: int) -> Json:
        return self._scope.value_of(self._row(index))

    def _row(self, index: int) -> ScopeRow | None:
        row = self._scope.row_of(self._loop, index)
        self._read[index] = 0 if row is None else row.output_bytes
        size = sum(self._read.values())
        if size > RESULTS_LIMIT:
            raise TooMuch(f"what is read of {spell(self._path)}", size)
        return row


def counts_of(loop: LoopRow) -> Json:
    """What `nodes.name.counts` is."""
    return {
        "total": loop.started,
        "succeeded": loop.succeeded,
        "failed": loop.failed,
        "cancelled": loop.cancelled,
        "left_out": loop.left_out,
    }


def _error(source: str, failure_class: str, kind: str, message: str, details: dict[str, Json] | None) -> Json:
    return {**(details or {}), "node": source, "class": failure_class, "type": kind, "message": message}
