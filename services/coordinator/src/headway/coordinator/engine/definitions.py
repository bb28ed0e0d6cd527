"""Checking and deploying workflows, and finding the version that a new run takes."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeAlias, TypeVar

import orjson

from headway.coordinator.core.compiler import Code, CompileResult, Fault, compile_workflow, faces
from headway.coordinator.core.compiler.children import Named, check_children
from headway.coordinator.core.compiler.faults import Enough, Faults, in_order
from headway.coordinator.core.compiler.types import Child
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan_codec import encode_plan
from headway.coordinator.core.refusals import DefinitionFaulty, WorkflowNotFound
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.lanes import Committed, Lane, Ticket
from headway.coordinator.engine.plans import PlanMissing, VersionKey
from headway.coordinator.engine.versions import Effect, make_deployed, not_found, standing
from headway.coordinator.store.errors import translated
from headway.coordinator.store.pool import Connection
from headway.coordinator.store.starting import WorkflowKey, find_deployed, find_versions
from headway.coordinator.store.statements import SQL
from headway.coordinator.zones import zone_names

REMEMBERED = 1_024  # workflows whose deployed version is remembered
LOOKED_INTO = 64  # workflows that the nodes of one definition run: so many are held against it
STRIDE = 0.005  # seconds from one look-up to the next, at the least: a decision takes longer
T = TypeVar("T")
Chosen: TypeAlias = tuple[int, Graph] | WorkflowNotFound
"""The version that a run takes, and its graph; or why there is none."""


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
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check came to.

    Attributes:
        workflow: its name; empty: it has a fault.
        faults: all of them.
        runs: workflows whose deployed version its subflow nodes run.
    """

    workflow: str
    faults: tuple[Fault, ...]
    runs: Sequence[str]


class Definitions:
    """Versions of workflows."""

    def __init__(self, engine: Engine) -> None:
        """Use an engine's pool and its cache of plans, and a lane of its own for look-ups."""
        self._pool = engine.pool
        self._reads = engine.reads
        self._plans = engine.plans
        self._seat = engine.seat()
        self._lookups: Lane[VersionKey] = Lane(
            "look-ups", self._look_up, outage=engine.outage, group=lambda key: key, stride=STRIDE
        )
        engine.serve(self._lookups)
        self._deployed: OrderedDict[WorkflowKey, int] = OrderedDict()  # as looked up last; may not be true any more

    async def check(self, namespace: str, source: str, beside: Sequence[str] = ()) -> Checked:
        """Say all that is wrong; nothing is stored.

        Args:
            namespace: whose it is.
            source: YAML.
            beside: YAML of workflows that will be deployed together with it.

        Raises:
            StoreUnavailable: it names other workflows, and the database does not answer.
            Overloaded: too many look.
        """
        together = [await _compiled(each) for each in (source, *beside)]
        result, found = together[0], _Children()
        if others := _others(together):
            with translated():
                async with self._reads.acquire() as connection:
                    found = await self._find_children(connection, namespace, others)
        return Checked(
            workflow=result.plan.workflow if result.plan is not None else "",
            faults=await _with_children(source, together, found),
            runs=sorted({each.workflow for each in result.named if not each.version}),
        )

    async def deploy(
        self, namespace: str, source: str, beside: Sequence[str] = (), *, dry_run: bool = False
    ) -> Deployed:
        """Store and deploy; identical content changes nothing, and an earlier version's content deploys that version.

        Args:
            namespace: whose it is.
            source: YAML.
            beside: YAML of workflows that are deployed together with it.
            dry_run: only say what it would come to.

        Raises:
            Faulty: with every fault.
            StoreUnavailable: the database does not answer.
        """
        together = [await _compiled(each) for each in (source, *beside)]
        result = together[0]
        if result.plan is None:
            raise Faulty(result.faults)
        workflow = result.plan.workflow
        digest = hashlib.sha256(source.encode()).hexdigest()
        plan = orjson.dumps(encode_plan(result.plan))
        kept = result.plan.retention_ms
        retention = orjson.dumps(dict(kept)).decode() if kept else None
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(SQL["lock_workflow"], namespace, workflow)
                versions = await connection.fetch(SQL["get_versions"], namespace, workflow)
                before = await standing(connection, namespace, workflow)
                same = next((each for each in versions if each["digest"] == digest and not each["deleted_at"]), None)
                version = same["version"] if same else 1 + max((record["version"] for record in versions), default=0)
                if same is None and not dry_run:
                    key = (namespace, workflow, version)
                    await connection.execute(SQL["insert_definition"], *key, digest, source, plan, retention)
                changed = same is None or not same["deployed"]
                if changed and not dry_run:
                    await make_deployed(connection, namespace, workflow, version)
                others = _others(together)
                found = await self._find_children(connection, namespace, others) if others else _Children()
        effect = await before.effect(source)
        warnings = await _with_children(source, together, found)
        return Deployed(workflow=workflow, version=version, changed=changed, warnings=warnings, effect=effect)

    def remembered(self, namespace: str, workflow: str) -> tuple[int, Graph] | None:
        """The version that was deployed when it was looked up last; whoever takes it must see whether it is still."""
        version = self._deployed.get((namespace, workflow))
        graph = None if version is None else self._plans.known((namespace, workflow, version))
        return None if version is None or graph is None else (version, graph)

    async def to_run(self, wanted: Sequence[VersionKey]) -> Sequence[Chosen]:
        """The versions that new runs take; 0: the one that is deployed when this is called, or a later one.

        A named one is looked for, too: it may have been deleted.

        Those who ask at the same time share a query; one that began before never answers.

        Returns:
            For each, in order, its number and graph, or WorkflowNotFound.

        Raises:
            StoreUnavailable: the database does not answer.
            Overloaded: too many ask.
        """
        asked = list(dict.fromkeys(wanted))
        found: dict[VersionKey, Chosen] = {}
        answers = await self._lookups.submit(asked, new=True) if asked else []
        for key, answer in zip(asked, answers, strict=True):
            if not isinstance(answer, tuple | WorkflowNotFound):
                raise answer
            found[key] = answer
        return [found[key] for key in wanted]

    async def to_cancel(self, key: VersionKey) -> Chosen:
        """The version of a run that is cancelled before it starts; 0: the one that is deployed, else the latest.

        One that was deleted will do, as long as a start may still be on its way to it.

        Raises:
            StoreUnavailable: the database does not answer.
        """
        with translated():
            async with self._pool.acquire() as connection:
                version = await connection.fetchval(SQL["find_to_cancel"], *key)
                return await self._choose(connection, key, version or 0)

    async def graph(self, key: VersionKey) -> Graph:
        """The graph of the version that a run is on. Raises Overloaded when too many look."""
        graph = self._plans.known(key)
        if graph is None:
            with translated():
                async with self._reads.acquire() as connection:
                    graph = await self._plans.get(connection, key)
        return graph

    async def _find_children(self, connection: Connection, namespace: str, named: Sequence[Named]) -> "_Children":
        deployed = await find_deployed(connection, {(namespace, each.workflow) for each in named})
        stored = await find_versions(connection, [(namespace, each.workflow, each.version) for each in named])
        found: dict[tuple[str, int], VersionKey] = {}
        for each in named:
            version = each.version or deployed.get((namespace, each.workflow), 0)
            key = (namespace, each.workflow, version)
            if key in stored or (version and not each.version):
                found[each.workflow, each.version] = key
        missing = [each for each in named if (each.workflow, each.version) not in found]
        children: dict[tuple[str, int], Child] = {}
        for name, key in islice(found.items(), LOOKED_INTO):
            with suppress(PlanMissing):  # deleted just now
                plan = (await self._plans.get(connection, key)).plan
                children[name] = plan.input_schema, plan.output_schema
        return _Children(namespace=namespace, missing=missing, schemas=children)

    async def _look_up(self, tickets: Sequence[Ticket[VersionKey]]) -> Committed[VersionKey]:
        keys = list(dict.fromkeys(ticket.item for ticket in tickets))
        workflows = {key[:2] for key in keys if not key[2]}
        named = [key for key in keys if key[2]]
        chosen: dict[VersionKey, Chosen] = {}
        with translated():
            async with self._seat as connection:
                deployed = await find_deployed(connection, workflows) if workflows else {}
                stored = await find_versions(connection, named) if named else set[VersionKey]()
                self._remember(deployed)
                for key in keys:
                    version = deployed.get(key[:2], 0) if not key[2] else key[2] if key in stored else 0
                    chosen[key] = await self._choose(connection, key, version)
        return Committed([(ticket, chosen[ticket.item]) for ticket in tickets])

    def _remember(self, deployed: Mapping[WorkflowKey, int]) -> None:
        for key, version in deployed.items():
            self._deployed[key] = version
            self._deployed.move_to_end(key)
        while len(self._deployed) > REMEMBERED:
            self._deployed.popitem(last=False)

    async def _choose(self, connection: Connection, key: VersionKey, version: int) -> Chosen:
        if not version:
            return not_found(*key)
        try:
            return version, await self._plans.get(connection, (*key[:2], version))
        except PlanMissing:
            return not_found(*key[:2], version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Children:
    """What there is of the workflows that subflow nodes name.

    Attributes:
        missing: those that are not there now, and where each is named.
        schemas: of the others, by name and version.
    """

    namespace: str = ""
    missing: Sequence[Named] = ()
    schemas: Mapping[tuple[str, int], Child] = field(default_factory=dict[tuple[str, int], Child])

    def faults(self) -> tuple[Fault, ...]:
        """Warnings of what is missing."""
        faults = Faults()
        for each in self.missing:
            message = f"no workflow {each.workflow} is deployed in namespace {self.namespace}"
            if each.version:
                message = f"there is no version {each.version} of {each.workflow} in namespace {self.namespace}"
            remedy = "deploy it, too, before a run comes to this node"
            with suppress(Enough):
                faults.add(each.place, Code.NOT_DEPLOYED, message, remedy, warning=True)
        return faults.ordered()


def _others(together: Sequence[CompileResult]) -> list[Named]:
    """What the first one's subflow nodes name and what may not be there; versions of what comes along count."""
    names = {each.draft.workflow for each in together if each.draft is not None}
    return [each for each in together[0].named if each.version or each.workflow not in names]


async def _with_children(source: str, together: Sequence[CompileResult], found: "_Children") -> tuple[Fault, ...]:
    """All that is said of the first one: also of those that its subflow nodes name."""
    result, told = together[0], ()
    children = {**found.schemas, **faces(together)}
    if result.draft is not None and any((each.workflow, each.version) in children for each in result.named):
        check = partial(check_children, source, result.draft, result.faults, result.named, children)
        told = await _off_the_loop(check)
    return in_order((*result.faults, *told, *found.faults()))


async def _compiled(source: str) -> CompileResult:
    return await _off_the_loop(partial(_compile, source))


async def _off_the_loop(work: Callable[[], T]) -> T:
    """Do what takes a while with a large file."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _compile(source: str) -> CompileResult:
    return compile_workflow(source, zone_names())
