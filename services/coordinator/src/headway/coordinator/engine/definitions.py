"""Checking and deploying workflows, and finding the version that a new run takes."""

import asyncio
import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from headway.coordinator.core.compiler import CompileResult, Fault, compile_workflow
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan_codec import encode_plan
from headway.coordinator.core.refusals import DefinitionFaulty, WorkflowNotFound
from headway.coordinator.engine.plans import PlanMissing, Plans
from headway.coordinator.store.errors import translated
from headway.coordinator.store.pool import Connection, Pool
from headway.coordinator.store.statements import SQL


class Faulty(DefinitionFaulty):
    """The definition has {count} fault(s); nothing was stored."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        """Carry them."""
        super().__init__(count=str(sum(not fault.warning for fault in faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What a deploy came to."""

    workflow: str
    version: int
    changed: bool
    warnings: tuple[Fault, ...]


class Definitions:
    """Versions of workflows."""

    def __init__(self, pool: Pool, plans: Plans) -> None:
        """Use a pool, and the cache of plans that the lanes use."""
        self._pool = pool
        self._plans = plans

    async def check(self, source: str) -> CompileResult:
        """Compile, off the event loop: a large file takes a while."""
        return await asyncio.get_running_loop().run_in_executor(None, partial(compile_workflow, source))

    async def deploy(self, namespace: str, source: str) -> Deployed:
        """Store and deploy; identical content changes nothing, and an earlier version's content deploys that version.

        Raises:
            Faulty: with every fault.
            StoreUnavailable: the database does not answer.
        """
        result = await self.check(source)
        if result.plan is None:
            raise Faulty(result.faults)
        workflow = result.plan.workflow
        digest = hashlib.sha256(source.encode()).hexdigest()
        plan = orjson.dumps(encode_plan(result.plan))
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(SQL["lock_workflow"], namespace, workflow)
                versions = await connection.fetch(SQL["get_versions"], namespace, workflow)
                same = next((record for record in versions if record["digest"] == digest), None)
                version = same["version"] if same else 1 + max((record["version"] for record in versions), default=0)
                if same is None:
                    key = (namespace, workflow, version)
                    await connection.execute(SQL["insert_definition"], *key, digest, source, plan)
                changed = same is None or not same["deployed"]
                if changed:
                    await self._set_deployed(connection, namespace, workflow, version)
        return Deployed(workflow=workflow, version=version, changed=changed, warnings=result.faults)

    async def set_deployed(self, namespace: str, workflow: str, version: int) -> Any:
        """Make a stored version the deployed one; return its row.

        Raises:
            WorkflowNotFound: there is no such version.
        """
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(SQL["lock_workflow"], namespace, workflow)
                if await connection.fetchval(SQL["get_plan"], namespace, workflow, version) is None:
                    raise _not_found(namespace, workflow, version)
                await self._set_deployed(connection, namespace, workflow, version)
                return await connection.fetchrow(SQL["get_definition"], namespace, workflow, version)

    async def get(self, namespace: str, workflow: str, version: int) -> Any:
        """A version's row; 0: the deployed one. Raises WorkflowNotFound."""
        with translated():
            async with self._pool.acquire() as connection:
                record = await connection.fetchrow(SQL["get_definition"], namespace, workflow, version)
        if record is None:
            raise _not_found(namespace, workflow, version)
        return record

    async def list(self, namespace: str, workflow: str) -> Any:
        """Rows of all versions."""
        with translated():
            async with self._pool.acquire() as connection:
                return await connection.fetch(SQL["list_definitions"], namespace, workflow)

    async def to_run(self, namespace: str, workflow: str, version: int) -> tuple[int, Graph]:
        """The version that a new run takes; 0: the deployed one. Raises WorkflowNotFound."""
        with translated():
            async with self._pool.acquire() as connection:
                taken = version or await connection.fetchval(SQL["get_deployed"], namespace, workflow)
                if taken is None:
                    raise _not_found(namespace, workflow, version)
                try:
                    return taken, await self._plans.get(connection, (namespace, workflow, taken))
                except PlanMissing as error:
                    raise _not_found(namespace, workflow, taken) from error

    async def _set_deployed(self, connection: Connection, namespace: str, workflow: str, version: int) -> None:
        await connection.execute(SQL["undeploy"], namespace, workflow)
        await connection.execute(SQL["deploy"], namespace, workflow, version)


def _not_found(namespace: str, workflow: str, version: int) -> WorkflowNotFound:
    return WorkflowNotFound(namespace=namespace, workflow=workflow, version=str(version) if version else "deployed")
