"""Versions of a workflow: which is deployed, what differs between two, and which may go.

A version that is deleted keeps its row, so that its number is never given again, and its plan for a day, so that a
start that had found it before finds it still. So starts need no lock on their version.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.coordinator.core.compiler import Changes, compare
from headway.coordinator.core.refusals import VersionDeployed, VersionNeeded, WorkflowNotFound
from headway.coordinator.engine.engine import Engine
from headway.coordinator.ids import run_id_text
from headway.coordinator.store.errors import translated
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.statements import SQL

COUNTED_OPEN = 10_000  # runs of a version, at most
NAMED = 5  # runs that a refusal names
COUNTED = 1_000  # runs that it counts


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRuns:
    """Open runs of a workflow by version. `counted_all`: no version has more than were counted."""

    by_version: Mapping[int, int]
    counted_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What making a version the deployed one means; `previous` 0: none was deployed."""

    previous: int = 0
    changes: Changes = field(default_factory=Changes)
    open_runs: OpenRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What was deployed before, and who is running, as one transaction saw it; `previous` 0: nothing was."""

    previous: int
    source: str
    open_runs: OpenRuns

    async def effect(self, source: str) -> Effect:
        """Compare with what is deployed instead, off the event loop: large files take a while."""
        changes = await asyncio.to_thread(compare, self.source, source) if self.previous else Changes()
        return Effect(previous=self.previous, changes=changes, open_runs=self.open_runs)


def not_found(namespace: str, workflow: str, version: int) -> WorkflowNotFound:
    """The refusal of a version that is not there; 0: none is deployed."""
    what = f"version {version}" if version else "deployed version"
    return WorkflowNotFound(namespace=namespace, workflow=workflow, what=what, version=str(version or "deployed"))


async def standing(connection: Connection, namespace: str, workflow: str) -> Standing:
    """How a workflow stands now."""
    record = await connection.fetchrow(SQL["get_definition"], namespace, workflow, 0)
    return Standing(
        previous=record["version"] if record else 0,
        source=record["source"] if record else "",
        open_runs=await count_open_runs(connection, namespace, workflow),
    )


async def count_open_runs(connection: Connection, namespace: str, workflow: str) -> OpenRuns:
    """Count them, up to a limit for each version."""
    records = await connection.fetch(SQL["count_open_runs"], namespace, workflow, COUNTED_OPEN)
    found: dict[int, int] = {record["version"]: record["runs"] for record in records}
    return OpenRuns(by_version=found, counted_all=max(found.values(), default=0) < COUNTED_OPEN)


async def make_deployed(connection: Connection, namespace: str, workflow: str, version: int) -> None:
    """Let new runs take a version, inside a transaction that holds the workflow."""
    await connection.execute(SQL["undeploy"], namespace, workflow)
    await connection.execute(SQL["deploy"], namespace, workflow, version)


class Versions:
    """What can be done with stored versions."""

    def __init__(self, engine: Engine) -> None:
        """Use an engine's connections."""
        self._pool = engine.pool
        self._reads = engine.reads

    async def set_deployed(
        self, namespace: str, workflow: str, version: int, *, dry_run: bool = False
    ) -> tuple[Any, Effect]:
        """Make a stored version the deployed one, or only say what that would do; return its row and what it means.

        Raises:
            WorkflowNotFound: there is no such version.
        """
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(SQL["lock_workflow"], namespace, workflow)
                record = await self._stored(connection, namespace, workflow, version)
                before = await standing(connection, namespace, workflow)
                if not dry_run and before.previous != version:
                    await make_deployed(connection, namespace, workflow, version)
                    record = await self._stored(connection, namespace, workflow, version)
        return record, await before.effect(record["source"])

    async def get(self, namespace: str, workflow: str, version: int) -> Any:
        """A version's row; 0: the deployed one. Raises WorkflowNotFound."""
        with translated():
            async with self._reads.acquire() as connection:
                return await self._stored(connection, namespace, workflow, version)

    async def list(self, namespace: str, workflow: str) -> tuple[Any, OpenRuns | None]:
        """Rows of all versions, and the open runs when it is one workflow's."""
        with translated():
            async with self._reads.acquire() as connection:
                records = await connection.fetch(SQL["list_definitions"], namespace, workflow)
                return records, await count_open_runs(connection, namespace, workflow) if workflow else None

    async def delete(self, namespace: str, workflow: str, version: int) -> None:
        """Let no run be started on a version any more. Repeating it changes nothing.

        Raises:
            WorkflowNotFound: there never was such a version.
            VersionDeployed: new runs take it.
            VersionNeeded: runs were started on it, and are kept.
        """
        key = (namespace, workflow, version)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(SQL["lock_workflow"], namespace, workflow)
                await connection.execute(SQL["empty_deleted"], namespace)
                versions = await connection.fetch(SQL["get_versions"], namespace, workflow)
                if any(each["version"] == version and each["deleted_at"] is not None for each in versions):
                    return
                record = await self._stored(connection, namespace, workflow, version)
                if record["deployed"]:
                    raise VersionDeployed(workflow=workflow, version=str(version))
                needing = await connection.fetch(SQL["find_runs_of_version"], *key, record["created_at"], COUNTED + 1)
                if needing:
                    raise _needed(workflow, version, needing)
                await connection.execute(SQL["delete_version"], *key)

    async def _stored(self, connection: Connection, namespace: str, workflow: str, version: int) -> Any:
        record = await connection.fetchrow(SQL["get_definition"], namespace, workflow, version)
        if record is None:
            raise not_found(namespace, workflow, version)
        return record


def _needed(workflow: str, version: int, needing: list[Any]) -> VersionNeeded:
    named = ", ".join(run_id_text(record["run_id"]) for record in needing[:NAMED])
    count = f"more than {COUNTED}" if len(needing) > COUNTED else str(len(needing))
    more = ", …" if len(needing) > NAMED else ""
    return VersionNeeded(workflow=workflow, version=str(version), count=count, runs=named + more)
