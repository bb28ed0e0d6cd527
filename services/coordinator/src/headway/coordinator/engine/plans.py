"""Plans of stored versions, decoded and indexed once. A version never changes, so nothing here goes stale."""

from collections import OrderedDict

import orjson

from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan_codec import decode_plan
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL

KEPT = 512  # versions in memory

VersionKey = tuple[str, str, int]  # (namespace, workflow, version)


class PlanMissing(Exception):
    """A run is pinned to a version that is not stored: a broken invariant."""


class Plans:
    """A bounded cache of graphs."""

    def __init__(self) -> None:
        """Begin empty."""
        self._graphs: OrderedDict[VersionKey, Graph] = OrderedDict()

    def put(self, key: VersionKey, plan: bytes) -> Graph:
        """Keep a plan that was just read."""
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._graphs[key] = Graph(decode_plan(orjson.loads(plan)))
            if len(self._graphs) > KEPT:
                self._graphs.popitem(last=False)
        else:
            self._graphs.move_to_end(key)
        return graph

    def known(self, key: VersionKey) -> Graph | None:
        """The graph of a version, if it is in memory."""
        graph = self._graphs.get(key)
        if graph is not None:
            self._graphs.move_to_end(key)
        return graph

    async def get(self, connection: Connection, key: VersionKey) -> Graph:
        """The graph of a version, read if need be.

        Raises:
            PlanMissing: it is not stored.
        """
        graph = self.known(key)
        if graph is not None:
            return graph
        plan = await connection.fetchval(SQL["get_plan"], *key)
        if plan is None:
            raise PlanMissing(f"{key[1]} version {key[2]} in namespace {key[0]}")
        return self.put(key, plan)
