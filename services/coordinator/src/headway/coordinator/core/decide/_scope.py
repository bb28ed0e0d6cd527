"""What expressions see of a run: resolves variable paths to values, decoding only the documents they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.plan import EdgeKind, Json, VariablePath
from headway.coordinator.core.rows import RUN_INPUT, PayloadKey
from headway.coordinator.core.templates import UnknownValue, descend

if TYPE_CHECKING:
    from headway.coordinator.core.decide._walk import Walk
    from headway.coordinator.core.events import Failure

NOT_REACHED = "not_reached"  # `nodes.x.state` of a node without a task


class Scope:
    """Variables as one node, or one edge's condition, sees them."""

    __slots__ = ("_error", "_payload", "_target", "_walk")

    def __init__(
        self,
        walk: Walk,
        *,
        target: str | None = None,
        error: tuple[str, Failure] | None = None,
        payload: Document | None = None,
    ) -> None:
        """See the run through `walk`.

        Args:
            walk: the decision under way.
            target: the node that is about to run: `error` is that of the failure edge that led to it.
            error: for a condition on an edge behind a failure: the node that failed, and how.
            payload: for a condition on a signal: its own.
        """
        self._payload = payload
        self._walk = walk
        self._target = target
        self._error = error

    def lookup(self, path: VariablePath) -> Json | orjson.Fragment:
        """Return the value at a path such as ("nodes", "reserve", "output", "price").

        Raises:
            UnknownValue: there is nothing there.
            Missing: it was not loaded.
        """
        root = path[0]
        if root == "input":
            return _inside(self._walk.draft.payload(RUN_INPUT), path, 1)
        if root == "nodes":
            return self._node(path)
        if root == "vars":
            return descend(dict(self._walk.run.vars), path, 1)
        if root == "run":
            return descend(self._run(), path, 1)
        if root == "error":
            return descend(self._error_value(path), path, 1)
        if root == "payload" and self._payload is not None:
            return _inside(self._payload, path, 1)
        raise UnknownValue(path)

    def present(self, path: VariablePath) -> bool:
        """Return whether there is a value at a path; a whole payload is not decoded for that.

        Raises:
            Missing: it was not loaded.
        """
        try:
            if self.document(path) is None:
                self.lookup(path)
        except UnknownValue:
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
            return self._output_key(path)
        return None

    def _node(self, path: VariablePath) -> Json | orjson.Fragment:
        if path[2:3] == ("state",):
            row = self._walk.draft.task(path[1])
            return str(row.state) if row is not None else NOT_REACHED
        if path[2:3] != ("output",):
            raise UnknownValue(path)
        key = self._output_key(path)
        document: Document = NULL if key is None else self._walk.draft.payload(key)
        return _inside(document, path, 3)

    def _output_key(self, path: VariablePath) -> PayloadKey | None:
        row = self._walk.draft.task(path[1])
        if row is None or row.state is not TaskState.SUCCEEDED:
            raise UnknownValue(path)
        return None if row.output_attempt is None else (row.path, row.output_attempt, "output")

    def _run(self) -> dict[str, Json]:
        run = self._walk.run
        return {
            "id": self._walk.draft.state.run_id,
            "workflow": run.workflow,
            "version": run.version,
            "namespace": run.namespace,
            "epoch": run.epoch,
        }

    def _error_value(self, path: VariablePath) -> Json:
        if self._error is not None:
            source, failure = self._error
            return _error(source, failure.failure_class, failure.type, failure.message, failure.details)
        source_of = self._failed_source()
        if source_of is None:
            raise UnknownValue(path)
        row = self._walk.row(source_of)
        error = row.error or {}
        details = error.get("details")
        kind, message = str(error.get("type")), str(error.get("message"))
        return _error(row.path, str(row.failure_class), kind, message, details if isinstance(details, dict) else None)

    def _failed_source(self) -> str | None:
        """The node behind the first failure or time-out edge that led here."""
        if self._target is None:
            return None
        graph = self._walk.graph
        into = graph.incoming[self._target]
        live = 1
        if self._target in graph.gathers:
            row = self._walk.draft.token(self._target)
            live = row.live if row is not None else 0
        for slot, edge in enumerate(into):
            if live >> slot & 1 and edge.on in (EdgeKind.FAILURE, EdgeKind.TIMEOUT, EdgeKind.ALWAYS):
                source = self._walk.draft.task(edge.source)
                if source is not None and source.state is TaskState.FAILED:
                    return edge.source
        return None


def _inside(document: Document, path: VariablePath, depth: int) -> Json | orjson.Fragment:
    """A whole document goes on as it is, undecoded."""
    return orjson.Fragment(document.raw) if len(path) == depth else descend(document.value, path, depth)


def _error(source: str, failure_class: str, kind: str, message: str, details: dict[str, Json] | None) -> Json:
    return {**(details or {}), "node": source, "class": failure_class, "type": kind, "message": message}
