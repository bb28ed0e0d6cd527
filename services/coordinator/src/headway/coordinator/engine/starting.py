"""Starting runs, one or many at a time: the version, the key, the run, in that order.

Whatever is refused is refused before anything is written for it. A start that was made before is answered as the first
time, even if it would be refused today.

Whoever reads a run's id from a key inserts the run, unless it is there: so a half start is completed by anybody. Where
the run was deleted since, its tombstone is met: the key is freed, and the start begins again under an id of its own.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, TypeAlias
from uuid import UUID

import orjson

from headway.coordinator.core.document import Document
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.labels import labels_of
from headway.coordinator.core.plan import Plan
from headway.coordinator.core.refusals import (
    InvalidInput,
    InvalidLabel,
    KeyReused,
    Refusal,
    RequestIdReused,
    RunNotFound,
    WorkflowNotFound,
    bare,
)
from headway.coordinator.core.rows import Parent
from headway.coordinator.core.schemas import in_one_line, misfits
from headway.coordinator.engine.definitions import Chosen, Definitions
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.lanes import Committed, Lane, Ticket, whole
from headway.coordinator.engine.submissions import LATE, OUTDATED, Start
from headway.coordinator.engine.telemetry import begin
from headway.coordinator.ids import bucket_of, is_seeded_by, key_bucket, run_id_text, seeds
from headway.coordinator.store.deleting import free_keys
from headway.coordinator.store.errors import StoreUnavailable, translated
from headway.coordinator.store.loading import parent_of
from headway.coordinator.store.starting import Claim, StartKey, claim_keys, find_keys, find_started
from headway.coordinator.store.statements import SQL

KEY_LANES = 4  # transactions that claim keys at the same time: each is of one of the keys' many buckets
TRIES = 8  # at a key whose runs are deleted as fast as they begin


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAsk:
    """A run that somebody wants to start.

    Attributes:
        version: 0: the deployed one.
        chosen: the version that it takes, when that is settled.
        run_id: of the run, when that is settled; None: it follows from the request.
        parent, deadline_at, is_cancelled: of a child: as events.RunStarted has them. It needs a key for itself.
        adopts: a run of the key and the workflow will do, whatever it was started with.
    """

    request_id: UUID
    namespace: str
    workflow: str
    version: int
    key: str | None
    input: Document
    trace: str
    labels: Mapping[str, str]
    adopts: bool = False
    chosen: Chosen | None = None
    run_id: UUID | None = None
    parent: Parent | None = None
    deadline_at: datetime | None = None
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """The run that a start names. `existed`: another start of the same key had begun it."""

    run_id: UUID
    existed: bool
    version: int


Answer: TypeAlias = Started | Exception


@dataclass(frozen=True, slots=True)
class _KeyAsk:
    """Whose is the key? `claim`: nobody's yet, it is claimed; None: nothing is written."""

    bucket: int
    key: StartKey
    claim: Claim | None


@dataclass(slots=True, eq=False)
class _Beginning:
    """A start on its way.

    Attributes:
        seed: which of its request's seeds its own run's id is made from.
        fault: what speaks against it, unless it was made before.
        is_gone: the run that it names was deleted.
        keyed_at: when its key named the run; None: it has none.
        is_remembered: its version was the deployed one when it was last looked up; the write has to see whether it is.
    """

    ask: StartAsk
    run_id: UUID
    seed: int = 0
    version: int = 0
    graph: Graph | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    fault: Refusal | None = None
    answer: Answer | None = None
    is_remembered: bool = False
    is_gone: bool = False
    keyed_at: datetime | None = None

    @property
    def is_own(self) -> bool:
        """The run that it names is its own, and not that of another start with the key."""
        own = islice(seeds(self.ask.request_id), TRIES)
        return any(is_seeded_by(self.run_id, seed) for seed in own)


class Starts:
    """Starts runs."""

    def __init__(self, engine: Engine, definitions: Definitions) -> None:
        """Use an engine, with lanes of its own for keys."""
        self._engine = engine
        self._definitions = definitions
        self._key_lanes: list[Lane[_KeyAsk]] = [
            Lane(f"keys-{number}", self._hold_keys, outage=engine.outage, group=lambda ask: ask.key)
            for number in range(KEY_LANES)
        ]
        for lane in self._key_lanes:
            engine.serve(lane)

    async def start(self, asks: Sequence[StartAsk]) -> list[Answer]:
        """Start runs; an answer or a refusal for each, in order.

        Raises:
            Overloaded: they would have to wait for too long; the whole is to be repeated later.
            StoreUnavailable: the database does not answer; the whole is to be repeated.
        """
        every = [_Beginning(ask, ask.run_id or self._engine.run_id_of(ask.request_id)) for ask in asks]
        keyed = [each for each in every if each.ask.key is not None]
        ahead = max((lane.wait for lane in self._key_lanes), default=0.0) if keyed else 0.0
        # Whoever has claimed a key is not refused any more: the key would stand for no run.
        with self._engine.admit([(each.run_id, len(each.ask.input.raw)) for each in every], ahead=ahead) as room:
            await self._choose_versions([each for each in every if not await self._recall_version(each)])
            await self._begin(every, room)
        for _ in range(TRIES):
            gone = [each for each in every if each.is_gone]
            if not gone:
                break
            await self._leave(gone)
            await self._begin([each for each in gone if each.answer is None])
        return [each.answer or StoreUnavailable("the runs of the key were deleted as they began") for each in every]

    async def _begin(self, every: Sequence[_Beginning], room: ExitStack | None = None) -> None:
        """Answer each, but for those that name runs that were deleted. `room`: given up when they are submitted."""
        if keyed := [each for each in every if each.ask.key is not None]:
            await self._ask_keys(keyed)
        if room is not None:
            room.close()
        outdated = await self._submit([each for each in every if each.fault is None and each.answer is None])
        if outdated:
            await self._choose_versions(outdated)
            await self._submit([each for each in outdated if each.fault is None])
        if unanswered := [each for each in every if each.answer is None and not each.is_gone]:
            await self._look_again(unanswered)

    async def _leave(self, gone: Sequence[_Beginning]) -> None:
        """Free the keys of runs that were deleted, and take an id of one's own; without a key none begins anew."""
        await free_keys(self._engine.pool, [(each.ask.namespace, each.ask.key, each.run_id) for each in gone])
        for each in gone:
            each.is_gone = False
            each.fault = None
            if each.answer is not None:
                continue
            if each.ask.parent is not None or each.ask.key is None:
                each.answer = _without_another(each)
                continue
            each.seed += each.is_own
            each.run_id = self._engine.run_id_of(next(islice(seeds(each.ask.request_id), each.seed, None)))

    async def _choose_versions(self, every: Sequence[_Beginning]) -> None:
        open_asks = [each.ask for each in every if each.ask.chosen is None]
        found = await self._definitions.to_run([(ask.namespace, ask.workflow, ask.version) for ask in open_asks])
        looked_up = iter(found)
        for each in every:
            chosen = each.ask.chosen or next(looked_up)
            if isinstance(chosen, WorkflowNotFound):
                each.fault = chosen
                continue
            each.is_remembered, (each.version, each.graph) = False, chosen
            await _judge(each, each.graph.plan, is_alone=len(every) == 1)

    async def _recall_version(self, each: _Beginning) -> bool:
        """Take the deployed version from memory; False: it is to be looked up.

        So is one that speaks against the start: another may be deployed now. So is that of a start with a key, which is
        not refused any more once it has the key.
        """
        ask = each.ask
        is_open = not ask.version and ask.key is None and ask.chosen is None
        known = self._definitions.remembered(ask.namespace, ask.workflow) if is_open else None
        if known is None:
            return False
        each.is_remembered, (each.version, each.graph) = True, known
        await _judge(each, each.graph.plan, is_alone=False)
        is_sound, each.fault = each.fault is None, None
        return is_sound

    async def _ask_keys(self, keyed: Sequence[_Beginning]) -> None:
        """The keys of sound starts claim a run id, unless they have one; those of others may have one."""
        parts: dict[int, list[tuple[_Beginning, str, _KeyAsk]]] = {}
        for each in keyed:
            digest, key = digest_of(each.ask), (each.ask.namespace, each.ask.key or "")
            claim = Claim(each.run_id, digest) if each.fault is None else None
            ask = _KeyAsk(key_bucket(*key), key, claim)
            parts.setdefault(ask.bucket % KEY_LANES, []).append((each, digest, ask))
        for number, part in parts.items():  # in all of them, before anything is queued in one
            self._key_lanes[number].need_room(len(part), 0, new=True)
        calls = [
            (part, self._key_lanes[number].submit([ask for _, _, ask in part], new=True))
            for number, part in parts.items()
        ]
        for part, call in calls:
            for (each, digest, ask), holder in zip(part, whole(await call), strict=True):
                if isinstance(holder, Claim) and holder.run_id != each.run_id and each.ask.parent is not None:
                    await self._take_over(each, ask, holder)
                else:
                    _take(each, digest, holder)

    async def _take_over(self, each: _Beginning, ask: _KeyAsk, holder: Claim) -> None:
        """A child gets its key from an earlier run of its node in the same place, when that is over."""
        own, claim = each.ask.parent, ask.claim
        if own is None or claim is None:
            each.answer = each.fault
            return
        with translated():
            async with self._engine.pool.acquire() as connection:
                former = await connection.fetchrow(SQL["find_parent"], bucket_of(holder.run_id), holder.run_id)
                before = None if former is None or former["finished_at"] is None else parent_of(former["parent"])
                is_deleted = former is not None and not former["namespace"]
                if is_deleted or (before is not None and own.follows(before)):
                    held = holder.run_id, claim.run_id, claim.digest
                    if await connection.fetchval(SQL["pass_start_key"], ask.bucket, *ask.key, *held):
                        each.keyed_at = holder.asked_at
                        return
        each.answer = KeyReused(key=ask.key[1], holder=run_id_text(holder.run_id))

    async def _hold_keys(self, tickets: Sequence[Ticket[_KeyAsk]]) -> Committed[_KeyAsk]:
        """Ask for the keys of one bucket after the other; each bucket's claims are a transaction of their own."""
        buckets: dict[int, dict[StartKey, Claim | None]] = {}
        for ticket in tickets:
            asked = buckets.setdefault(ticket.item.bucket, {})
            asked[ticket.item.key] = asked.get(ticket.item.key) or ticket.item.claim
        held: dict[StartKey, Claim] = {}
        with translated():
            async with self._engine.pool.acquire() as connection:
                for bucket, asked in buckets.items():
                    claims = {key: claim for key, claim in asked.items() if claim is not None}
                    held |= await claim_keys(connection, bucket, claims)
                    held |= await find_keys(connection, bucket, [key for key in asked if key not in held])
        return Committed([(ticket, held.get(ticket.item.key)) for ticket in tickets])

    async def _submit(self, sound: Sequence[_Beginning]) -> list[_Beginning]:
        """Start what can be started; return those whose remembered version is not the deployed one any more."""
        if not sound:
            return []
        outdated: list[_Beginning] = []
        spans = [
            begin(f"run {each.ask.workflow}", each.ask.trace, **{"headway.run_id": each.run_id.hex}) for each in sound
        ]
        try:
            starts = [_start(each, span.traceparent) for each, span in zip(sound, spans, strict=True)]
            answers = whole(await self._engine.submit(starts, new=True, admitted=True))
        finally:
            for span in spans:
                span.end()
        for each, existed in zip(sound, answers, strict=True):
            if isinstance(existed, RunNotFound):
                each.is_gone = True
            elif isinstance(existed, Exception):
                each.answer = existed
            elif existed == OUTDATED:
                outdated.append(each)
            elif existed == LATE:
                each.answer = StoreUnavailable("it took too long from its key to its run")
            elif not existed:
                is_anothers = each.ask.adopts and not each.is_own
                each.answer = Started(each.run_id, is_anothers, each.version)
        return outdated

    async def _look_again(self, every: Sequence[_Beginning]) -> None:
        """Where the run is there already, answer as the first time; where it is not, the fault stands."""
        buckets: dict[int, list[_Beginning]] = {}
        found: dict[UUID, Any] = {}
        for each in every:
            buckets.setdefault(bucket_of(each.run_id), []).append(each)
        with translated():
            async with self._engine.pool.acquire() as connection:
                for bucket, part in buckets.items():
                    found |= await find_started(connection, bucket, [each.run_id for each in part])
        for each in every:
            run = found.get(each.run_id)
            _look(each, run)
            is_by_request = each.ask.key is None and each.ask.parent is None
            if is_by_request and isinstance(each.answer, Started) and not await self._has_labels(each.ask, run):
                each.answer = _reused(each)

    async def _has_labels(self, ask: StartAsk, run: Any) -> bool:
        """Whether the run would have the labels that it has, had it been started so."""
        graph = await self._definitions.graph((ask.namespace, ask.workflow, run["version"]))
        try:
            return labels_of(graph.plan.labels, ask.labels, ask.input) == orjson.loads(run["labels"] or "{}")
        except InvalidLabel:
            return False


async def _judge(each: _Beginning, plan: Plan, *, is_alone: bool) -> None:
    """What the version that was chosen has against the start, if anything; the run's labels, if nothing."""
    if each.ask.is_cancelled:  # nothing of it is run
        return
    if not is_alone and (plan.input_schema is not None or plan.labels):
        await asyncio.sleep(0)  # each may take long: others' calls go on between them
    schema = plan.input_schema
    if schema is not None and (faults := misfits(schema, each.ask.input.value)):
        path, problem = faults[0]
        each.fault = InvalidInput(path=path, problem=problem, problems=in_one_line(faults))
        return
    if each.ask.labels or plan.labels:
        try:
            each.labels = labels_of(plan.labels, each.ask.labels, each.ask.input)
        except InvalidLabel as fault:
            each.fault = bare(fault)


def digest_of(ask: StartAsk) -> str:
    """Tells a start from others of its key."""
    request = [ask.workflow, ask.version, ask.input.value, *([dict(ask.labels)] if ask.labels else [])]
    return hashlib.sha256(_canonical(request)).hexdigest()


def _canonical(value: object) -> bytes:
    """The same JSON for the same value; as values of Python, true is 1."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _take(each: _Beginning, digest: str, holder: Claim | Exception | None) -> None:
    """Go on with the run id that the key stands for."""
    each.keyed_at = holder.asked_at if isinstance(holder, Claim) else None
    if isinstance(holder, Exception):
        each.answer = holder
    elif holder is None and each.fault is None:
        raise StoreUnavailable("the claimed key was not there")
    elif holder is None:
        each.answer = each.fault
    elif holder.digest == digest or each.ask.adopts:
        each.run_id = holder.run_id
    elif each.fault is not None:
        each.answer = KeyReused(key=each.ask.key or "")
    else:  # unless that run was deleted
        each.run_id, each.fault = holder.run_id, KeyReused(key=each.ask.key or "")


def _start(each: _Beginning, traceparent: str) -> Start:
    if each.graph is None:
        raise LookupError("a start without a version")
    return Start(
        run_id=each.run_id,
        graph=each.graph,
        workflow=each.ask.workflow,
        version=each.version,
        key=each.ask.key,
        run_trace=traceparent,
        input=each.ask.input,
        labels=each.labels,
        in_namespace=each.ask.namespace,
        parent=each.ask.parent,
        deadline_at=each.ask.deadline_at,
        is_cancelled=each.ask.is_cancelled,
        is_remembered=each.is_remembered,
        keyed_at=each.keyed_at,
    )


def _look(each: _Beginning, run: Any) -> None:
    """Answer with what is there under the id that the start names, unless the key has to be freed first."""
    is_deleted = run is not None and not run["namespace"]
    is_without_key = run is not None and run["key"] is None and each.ask.parent is None and not is_deleted
    is_fit = each.fault is None or isinstance(each.fault, KeyReused)
    each.is_gone = is_fit and each.ask.key is not None and (is_deleted or is_without_key)
    if not each.is_gone or (is_without_key and each.is_own):  # its request id is another's, whose run has no key
        each.answer = _again(each, None if is_deleted else run)


def _without_another(each: _Beginning) -> Answer:
    """What a start is answered whose run was deleted and which begins no other."""
    if each.ask.parent is not None:  # which was told the run's end
        return RunNotFound(run_id=each.run_id.hex, namespace=each.ask.namespace)
    return RequestIdReused(key=str(each.ask.request_id), call="Start")


def _again(each: _Beginning, run: Any) -> Answer:
    """The answer of the first time, when the run that is there is the one that is asked for."""
    ask = each.ask
    if isinstance(each.fault, KeyReused):
        return each.fault
    if run is None:
        return each.fault or StoreUnavailable("the run was deleted as it was asked for")
    if ask.parent is not None and run["parent"] is None:
        return KeyReused(key=ask.key or "", holder=run_id_text(each.run_id))
    if (
        (run["namespace"], run["workflow"]) != (ask.namespace, ask.workflow)
        or (ask.parent is None and run["key"] != ask.key)
        or (not ask.adopts and ask.version not in (0, run["version"]))
        or (not ask.adopts and _canonical(orjson.loads(run["input"])) != _canonical(ask.input.value))
    ):
        return _reused(each)
    return Started(each.run_id, not each.is_own, run["version"])


def _reused(each: _Beginning) -> KeyReused | RequestIdReused:
    """Its key or its request id stands for a run that was started otherwise."""
    if each.ask.key is not None and not each.is_own:
        return KeyReused(key=each.ask.key)
    return RequestIdReused(key=str(each.ask.request_id), call="Start")
