"""RunsService: start, look at and steer runs."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson

from headway.api.runs.v1 import runs_pb2 as pb
from headway.api.runs.v1 import runs_pb2_grpc
from headway.coordinator.core.compiler import check_input
from headway.coordinator.core.document import EMPTY, NULL, Document
from headway.coordinator.core.payloads import accept
from headway.coordinator.core.refusals import (
    InvalidArgument,
    InvalidInput,
    InvalidKey,
    InvalidSignalName,
    KeyReused,
    RunNotFound,
)
from headway.coordinator.engine.definitions import Definitions
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.submissions import Cancel, Retry, Signal, Start, Submission
from headway.coordinator.engine.telemetry import begin
from headway.coordinator.ids import is_seeded_by, run_id_text
from headway.coordinator.rpc import messages
from headway.coordinator.rpc.refusing import Refused, refuse, refusing
from headway.coordinator.rpc.requests import (
    duration_of,
    is_short,
    namespace_of,
    optional_text,
    request_id_of,
    run_id_of,
    short_text,
    traceparent_of,
)
from headway.coordinator.store import reading

GRACE_SECONDS = 60
LONGEST_GRACE = timedelta(days=1)
PAGE, LARGEST_PAGE = 50, 1_000
HISTORY_PAGE = 200
WATCH_POLL_SECONDS = 0.5  # other coordinators' commits are seen this late


class RunsService(runs_pb2_grpc.RunsServiceServicer):
    """What applications and operators call."""

    def __init__(self, engine: Engine, definitions: Definitions) -> None:
        """Ask the engine."""
        self._engine = engine
        self._definitions = definitions

    @refusing
    async def Start(self, request: pb.StartRequest, context: Any) -> pb.StartResponse:
        """Start a run, once per key or request id."""
        namespace = namespace_of(request.namespace)
        key = request.key if request.HasField("key") else None
        if key is not None and not is_short(key):
            raise InvalidKey
        if request.version < 0:
            raise InvalidArgument(field="version", problem="it must be a stored version, or 0 for the deployed one")
        request_id = request_id_of(request.request_id)
        workflow = short_text(request.workflow, "workflow")
        payload = accept(request.input, "input", empty=EMPTY)
        version, graph = await self._definitions.to_run(namespace, workflow, request.version)
        if graph.plan.input_schema is not None:
            for path, problem in check_input(graph.plan.input_schema, payload.value):
                raise InvalidInput(path=path, problem=problem)
        digest = hashlib.sha256(
            orjson.dumps([workflow, request.version, payload.value], option=orjson.OPT_SORT_KEYS)
        ).hexdigest()
        run_id = await self._engine.new_run_id(request_id, namespace, key, digest)
        span = begin(f"run {workflow}", traceparent_of(request.traceparent), **{"headway.run_id": run_id.hex})
        try:
            existed = await self._one(
                Start(
                    run_id=run_id,
                    graph=graph,
                    workflow=workflow,
                    version=version,
                    key=key,
                    run_trace=span.traceparent,
                    input=payload,
                    in_namespace=namespace,
                )
            )
        finally:
            span.end()
        if existed:
            version = await self._same_run(namespace, run_id, request, payload)
            existed = not is_seeded_by(run_id, request_id)  # else an earlier try of this call started it
        return pb.StartResponse(run_id=run_id_text(run_id), existed=existed, version=version)

    @refusing
    async def Get(self, request: pb.GetRequest, context: Any) -> pb.GetResponse:
        """A run with its tasks."""
        namespace = namespace_of(request.namespace)
        run_id = run_id_of(request.run_id, namespace)
        found = await reading.get_run(self._engine.pool, run_id, namespace)
        if found is None:
            raise RunNotFound(run_id=request.run_id, namespace=namespace)
        graph = await self._definitions.to_run(namespace, found.run["workflow"], found.run["version"])
        return messages.get_response(found, graph[1])

    @refusing
    async def List(self, request: pb.ListRequest, context: Any) -> pb.ListResponse:
        """A page of runs."""
        namespace = namespace_of(request.namespace)
        size = _page_size(request.page_size, PAGE)
        state = messages.state_name(request.state)
        after = messages.read_page_token(request.page_token)
        workflow = optional_text(request.workflow, "workflow")
        runs = await reading.list_runs(self._engine.pool, namespace, workflow, state, after, size + 1)
        token = messages.page_token(runs[size - 1]) if len(runs) > size else ""
        return pb.ListResponse(runs=[messages.run(record) for record in runs[:size]], next_page_token=token)

    @refusing
    async def GetHistory(self, request: pb.GetHistoryRequest, context: Any) -> pb.GetHistoryResponse:
        """A stretch of history."""
        run_id = await self._known(request.run_id, request.namespace)
        size = _page_size(request.page_size, HISTORY_PAGE)
        records = await reading.get_events(self._engine.pool, run_id, request.from_seq, size + 1)
        events = messages.events_that_fit(records[:size])
        next_seq = records[len(events)]["seq"] if len(records) > len(events) else 0
        return pb.GetHistoryResponse(events=events, next_seq=next_seq)

    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.WatchResponse]:
        """Events as they come, until the run is final and all were sent."""
        try:
            run_id = await self._known(request.run_id, request.namespace)
            async for response in self._watch(run_id, namespace_of(request.namespace), max(request.from_seq, 1)):
                yield response
        except Refused as error:
            await refuse(context, error)

    @refusing
    async def Signal(self, request: pb.SignalRequest, context: Any) -> pb.SignalResponse:
        """Buffer an outside event."""
        namespace = namespace_of(request.namespace)
        if not is_short(request.name):
            raise InvalidSignalName
        answer = await self._one(
            Signal(
                run_id=run_id_of(request.run_id, namespace),
                namespace=namespace,
                request_id=request_id_of(request.request_id),
                name=request.name,
                payload=accept(request.payload, "payload", empty=NULL),
            )
        )
        return pb.SignalResponse(seq=answer["seq"])

    @refusing
    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelResponse:
        """Stop a run."""
        namespace = namespace_of(request.namespace)
        grace = duration_of(request.grace, "grace") if request.HasField("grace") else timedelta(seconds=GRACE_SECONDS)
        if not timedelta() <= grace <= LONGEST_GRACE:
            raise InvalidArgument(field="grace", problem="it must be between 0 s and 1 day")
        answer = await self._one(
            Cancel(
                run_id=run_id_of(request.run_id, namespace),
                namespace=namespace,
                request_id=request_id_of(request.request_id),
                reason=request.reason.replace("\x00", "\ufffd")[:1_000],
                grace_ms=int(grace / timedelta(milliseconds=1)),
            )
        )
        return pb.CancelResponse(state=messages.STATES[answer["state"]])

    @refusing
    async def Retry(self, request: pb.RetryRequest, context: Any) -> pb.RetryResponse:
        """Reopen a run."""
        namespace = namespace_of(request.namespace)
        answer = await self._one(
            Retry(
                run_id=run_id_of(request.run_id, namespace),
                namespace=namespace,
                request_id=request_id_of(request.request_id),
                chosen=tuple(request.from_nodes),
                render_inputs=request.render_inputs,
                dry_run=request.dry_run,
            )
        )
        return pb.RetryResponse(**answer)

    async def _one(self, item: Submission) -> Any:
        """Submit one item; its refusal is the call's."""
        (answer,) = await self._engine.submit([item])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _known(self, text: str, namespace: str) -> UUID:
        name = namespace_of(namespace)
        run_id = run_id_of(text, name)
        if await reading.get_run_state(self._engine.pool, run_id, name) is None:
            raise RunNotFound(run_id=text, namespace=name)
        return run_id

    async def _same_run(self, namespace: str, run_id: UUID, request: pb.StartRequest, given: Document) -> int:
        """A start that found its run there: it must be the same one. Returns the version it runs."""
        found = await reading.get_run(self._engine.pool, run_id, namespace)
        if found is None:
            raise KeyReused(key=request.request_id)
        run = found.run
        same_version = request.version in (0, run["version"])
        if run["workflow"] != request.workflow or not same_version or orjson.loads(run["input"]) != given.value:
            raise KeyReused(key=request.request_id)
        version: int = run["version"]
        return version

    async def _watch(self, run_id: UUID, namespace: str, from_seq: int) -> AsyncIterator[pb.WatchResponse]:
        told = self._engine.watchers.add(run_id)
        try:
            while True:
                told.clear()
                standing = await reading.get_run_state(self._engine.pool, run_id, namespace)
                if standing is None:
                    raise RunNotFound(run_id=run_id.hex, namespace=namespace)
                state, last_seq = standing
                while from_seq <= last_seq:
                    events = await reading.get_events(self._engine.pool, run_id, from_seq, HISTORY_PAGE)
                    for record in events:
                        yield pb.WatchResponse(event=messages.event(record), state=messages.STATES[state])
                    from_seq = events[-1]["seq"] + 1
                if messages.is_final(state):
                    return
                await _wait(told, WATCH_POLL_SECONDS)
        finally:
            self._engine.watchers.remove(run_id, told)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _page_size(given: int, default: int) -> int:
    if not 0 <= given <= LARGEST_PAGE:
        raise InvalidArgument(field="page_size", problem=f"it must be between 0 and {LARGEST_PAGE}")
    return given or default


__all__: Sequence[str] = ("RunsService",)
