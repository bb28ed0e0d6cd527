"""RunsService: start, look at and steer runs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from headway.api.runs.v1 import runs_pb2 as pb
from headway.api.runs.v1 import runs_pb2_grpc
from headway.coordinator.core.document import EMPTY, NULL, Document
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.paths import inside
from headway.coordinator.core.payloads import LIMIT as LARGEST_PAYLOAD
from headway.coordinator.core.payloads import accept, is_short
from headway.coordinator.core.refusals import (
    BatchTooLarge,
    InvalidArgument,
    InvalidKey,
    InvalidSignalName,
    NodeNotFound,
    Refusal,
    RunNotFound,
    bare,
)
from headway.coordinator.engine.definitions import Definitions
from headway.coordinator.engine.deleting import Deletions
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.reads import in_turn
from headway.coordinator.engine.signalling import Keys
from headway.coordinator.engine.starting import TRIES, StartAsk, Started, Starts, digest_of
from headway.coordinator.engine.steering import Pause, Resume, Skip
from headway.coordinator.engine.submissions import Cancel, Retry, Signal, Submission
from headway.coordinator.ids import run_id_text
from headway.coordinator.rpc import messages
from headway.coordinator.rpc.bulk import bulk
from headway.coordinator.rpc.explaining import explain_run
from headway.coordinator.rpc.filters import page_token, read_page_token, run_filter
from headway.coordinator.rpc.refusing import Refused, item_refusal, refuse, refusing
from headway.coordinator.rpc.requests import (
    duration_ms,
    grace_of,
    namespace_of,
    optional_text,
    page_size,
    reason_text,
    request_id_of,
    run_id_of,
    short_text,
    signal_request_id,
    traceparent_of,
)
from headway.coordinator.store import listing, reading
from headway.coordinator.store.errors import StoreUnavailable

START_ITEMS = 256
PAGE, LARGEST_PAGE = 50, 1_000
HISTORY_PAGE = 200
WATCH_POLL_SECONDS = 0.5  # other coordinators' commits are seen this late


class RunsService(runs_pb2_grpc.RunsServiceServicer):
    """What applications and operators call."""

    def __init__(self, engine: Engine, definitions: Definitions, deletions: Deletions, message_limit: int) -> None:
        """Ask the engine; messages have at most so many bytes."""
        self._message_limit = message_limit
        self._deletions = deletions
        self._engine = engine
        self._definitions = definitions
        self._starts = self.starts = Starts(engine, definitions)
        self._keys = Keys(engine, self._starts)

    @refusing
    async def Start(self, request: pb.StartRequest, context: Any) -> pb.StartResponse:
        """Start a run, once per key or request id."""
        (answer,) = await self._starts.start([_start_ask(request)])
        if isinstance(answer, Exception):
            raise answer
        return messages.start_response(answer)

    @refusing
    async def StartMany(self, request: pb.StartManyRequest, context: Any) -> pb.StartManyResponse:
        """Start runs, each judged by itself."""
        if len(request.items) > START_ITEMS:
            raise BatchTooLarge(size=str(len(request.items)), limit=str(START_ITEMS))
        asks = [_readable(item) for item in request.items]
        answers = iter(await self._starts.start([ask for ask in asks if isinstance(ask, StartAsk)]))
        results = [next(answers) if isinstance(ask, StartAsk) else ask for ask in asks]
        return pb.StartManyResponse(results=[_start_result(result) for result in results])

    @refusing
    async def Get(self, request: pb.GetRequest, context: Any) -> pb.GetResponse:
        """A run with its tasks."""
        namespace = namespace_of(request.namespace)
        run_id = run_id_of(request.run_id, namespace)
        graph, version = await self._graph(run_id, namespace)
        if request.path:
            return await self._one_task(request, run_id, namespace, graph, version)
        paths = _paths_in(graph, version, request.scope) if graph.bodies or request.scope else None
        subflows = _subflows_in(graph, request.scope)
        found = await reading.get_run(self._engine.reads, run_id, namespace, paths, subflows)
        if found is None:
            raise RunNotFound(run_id=request.run_id, namespace=namespace)
        return messages.get_response(found, graph, self._room())

    async def _one_task(
        self, request: pb.GetRequest, run_id: UUID, namespace: str, graph: Graph, version: int
    ) -> pb.GetResponse:
        """A run with one of its tasks, and that one's output whole."""
        path = request.path
        if request.scope:
            raise InvalidArgument(field="path", problem="name a scope, or the path of one task, not both")
        if not graph.has(path):
            raise NodeNotFound(node=path[:200], workflow=graph.plan.workflow, version=str(version))
        subflows = [path] if graph.is_subflow(path) else []
        reads = self._engine.reads
        found = await reading.get_run(reads, run_id, namespace, [path], subflows, output_limit=LARGEST_PAYLOAD)
        if found is None:
            raise RunNotFound(run_id=request.run_id, namespace=namespace)
        return messages.get_response(found, graph, messages.Room(messages.one_task_bytes(self._message_limit)))

    @refusing
    async def Explain(self, request: pb.ExplainRequest, context: Any) -> pb.ExplainResponse:
        """Why a run stands where it stands."""
        return await explain_run(request, self._engine, self._message_limit)

    @refusing
    async def ListItems(self, request: pb.ListItemsRequest, context: Any) -> pb.ListItemsResponse:
        """A page of the items of a map, or of the iterations of a repeat."""
        namespace = namespace_of(request.namespace)
        run_id = run_id_of(request.run_id, namespace)
        graph, version = await self._graph(run_id, namespace)
        if not graph.has(request.path):
            raise NodeNotFound(node=request.path[:200], workflow=graph.plan.workflow, version=str(version))
        if graph.node(request.path).body is None:
            raise InvalidArgument(field="path", problem=f"{request.path} is no map or repeat, so it has no items")
        size = page_size(request.page_size, PAGE, LARGEST_PAGE)
        state = _item_state(request.state)
        first = max(request.from_index, 0)
        share = max(messages.page_bytes(self._message_limit) // size, reading.OUTPUT_LIMIT)
        items = await reading.get_items(self._engine.reads, run_id, request.path, state, first, size + 1, share)
        shown = messages.items_that_fit(items[:size], self._room())
        next_index = items[len(shown)]["index"] if len(items) > len(shown) else 0
        return pb.ListItemsResponse(items=shown, next_index=next_index)

    @refusing
    async def List(self, request: pb.ListRequest, context: Any) -> pb.ListResponse:
        """A page of runs."""
        namespace = namespace_of(request.namespace)
        size = page_size(request.page_size, PAGE, LARGEST_PAGE)
        wanted = run_filter(request.filter, namespace)
        after = read_page_token(request.page_token, wanted)
        while True:
            records, place = await listing.list_runs(self._engine.reads, wanted, after, size)
            runs = [messages.run(record) for record in records]
            if len(runs) <= 1 or self._room().takes(sum([run.ByteSize() for run in runs])):
                return pb.ListResponse(runs=runs, next_page_token=page_token(place, wanted))
            size = len(runs) // 2  # labels, errors and reasons may be long

    @refusing
    async def GetHistory(self, request: pb.GetHistoryRequest, context: Any) -> pb.GetHistoryResponse:
        """A stretch of history."""
        run_id = await self._known(request.run_id, request.namespace)
        size = page_size(request.page_size, HISTORY_PAGE, LARGEST_PAGE)
        records = await reading.get_events(self._engine.reads, run_id, request.from_seq, size + 1)
        events = messages.events_that_fit(records[:size], self._room())
        next_seq = records[len(events)]["seq"] if len(records) > len(events) else 0
        return pb.GetHistoryResponse(events=events, next_seq=next_seq)

    def _room(self) -> messages.Room:
        return messages.Room(messages.page_bytes(self._message_limit))

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
        name, payload = _signal(request)
        if request.key and request.run_id:
            raise InvalidArgument(field="key", problem="name the run by its id or by its key, not by both")
        if request.key:
            workflow = optional_text(request.workflow, "workflow")
            run_id = await self._keys.run_of(namespace, short_text(request.key, "key"), workflow)
        else:
            run_id = run_id_of(request.run_id, namespace)
        event_id = optional_text(request.id, "id")
        answer = await self._one(
            Signal(
                run_id=run_id,
                namespace=namespace,
                request_id=(
                    signal_request_id(run_id, name, event_id) if event_id else request_id_of(request.request_id)
                ),
                name=name,
                payload=payload,
                has_id=bool(event_id),
                ttl_ms=duration_ms(request.ttl, "ttl") if request.HasField("ttl") else None,
            )
        )
        return pb.SignalResponse(run_id=run_id_text(run_id), **answer)

    @refusing
    async def SignalWithStart(self, request: pb.SignalWithStartRequest, context: Any) -> pb.SignalWithStartResponse:
        """Buffer an outside event in the run of a key, which is started if need be."""
        name, payload = _signal(request)
        ask = _start_ask(request.start)
        event_id = optional_text(request.id, "id")
        ttl_ms = duration_ms(request.ttl, "ttl") if request.HasField("ttl") else None
        for _ in range(TRIES):
            run = await self._keys.run_or_start(ask)
            signal = Signal(
                run_id=run.run_id,
                namespace=ask.namespace,
                request_id=signal_request_id(run.run_id, name, event_id) if event_id else ask.request_id,
                name=name,
                payload=payload,
                has_id=bool(event_id),
                ttl_ms=ttl_ms,
                start=digest_of(ask),
            )
            with suppress(RunNotFound):  # it was deleted since
                answer = await self._one(signal)
                return pb.SignalWithStartResponse(run=messages.start_response(run), **answer)
        raise StoreUnavailable("the runs of the key were deleted before they were signalled")

    @refusing
    async def Delete(self, request: pb.DeleteRequest, context: Any) -> pb.DeleteResponse:
        """Remove a finished run."""
        namespace = namespace_of(request.namespace)
        try:
            run_id = run_id_of(request.run_id, namespace)
        except RunNotFound:
            return pb.DeleteResponse(deleted=False)
        (answer,) = await self._deletions.delete([run_id], namespace)
        if isinstance(answer, Refusal):
            raise answer
        return pb.DeleteResponse(deleted=answer)

    @refusing
    async def Bulk(self, request: pb.BulkRequest, context: Any) -> pb.BulkResponse:
        """Do one thing to a page of runs."""
        return await bulk(self._engine, self._deletions, request)

    @refusing
    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelResponse:
        """Stop a run."""
        namespace = namespace_of(request.namespace)
        grace_ms = grace_of(request)
        answer = await self._one(
            Cancel(
                run_id=run_id_of(request.run_id, namespace),
                namespace=namespace,
                request_id=request_id_of(request.request_id),
                reason=reason_text(request.reason),
                grace_ms=grace_ms,
                compensate=not request.no_compensation,
            )
        )
        return pb.CancelResponse(state=messages.STATES[answer["state"]])

    @refusing
    async def Pause(self, request: pb.PauseRequest, context: Any) -> pb.PauseResponse:
        """Let nothing new be dispatched."""
        namespace = namespace_of(request.namespace)
        answer = await self._one(
            Pause(
                run_id=run_id_of(request.run_id, namespace),
                namespace=namespace,
                request_id=request_id_of(request.request_id),
                reason=reason_text(request.reason),
                stop_clock=request.pause_clock,
            )
        )
        return pb.PauseResponse(**answer)

    @refusing
    async def Resume(self, request: pb.ResumeRequest, context: Any) -> pb.ResumeResponse:
        """Let it be dispatched again."""
        namespace = namespace_of(request.namespace)
        answer = await self._one(
            Resume(
                run_id=run_id_of(request.run_id, namespace),
                namespace=namespace,
                request_id=request_id_of(request.request_id),
            )
        )
        return pb.ResumeResponse(**answer)

    @refusing
    async def Skip(self, request: pb.SkipRequest, context: Any) -> pb.SkipResponse:
        """Give a node its output."""
        namespace = namespace_of(request.namespace)
        answer = await self._one(
            Skip(
                run_id=run_id_of(request.run_id, namespace),
                namespace=namespace,
                request_id=request_id_of(request.request_id),
                path=short_text(request.node, "node"),
                reason=reason_text(request.reason),
                output=accept(request.output, "output", empty=NULL),
            )
        )
        return pb.SkipResponse(**answer)

    @refusing
    async def Retry(self, request: pb.RetryRequest, context: Any) -> pb.RetryResponse:
        """Reopen a run."""
        namespace = namespace_of(request.namespace)
        run_id = run_id_of(request.run_id, namespace)
        graph, _ = await self._graph(run_id, namespace)
        answer = await self._one(
            Retry(
                run_id=run_id,
                namespace=namespace,
                request_id=request_id_of(request.request_id),
                chosen=tuple(request.from_nodes),
                render_inputs=request.render_inputs,
                dry_run=request.dry_run,
                before=await reading.look_before_retry(self._engine.reads, run_id, graph),
            )
        )
        return messages.retry_response(answer)

    async def _one(self, item: Submission) -> Any:
        """Submit one item; its refusal is the call's."""
        (answer,) = await self._engine.submit([item])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _graph(self, run_id: UUID, namespace: str) -> tuple[Graph, int]:
        version = await reading.get_version(self._engine.reads, run_id, namespace)
        if version is None:
            raise RunNotFound(run_id=run_id_text(run_id), namespace=namespace)
        return await self._definitions.graph((namespace, *version)), version[1]

    async def _known(self, text: str, namespace: str) -> UUID:
        name = namespace_of(namespace)
        run_id = run_id_of(text, name)
        if await reading.get_run_state(self._engine.reads, run_id, name) is None:
            raise RunNotFound(run_id=text, namespace=name)
        return run_id

    async def _watch(self, run_id: UUID, namespace: str, from_seq: int) -> AsyncIterator[pb.WatchResponse]:
        told, reads = self._engine.watchers.add(run_id), self._engine.reads
        try:
            while True:
                told.clear()
                standing = await in_turn(partial(reading.get_run_state, reads, run_id, namespace))
                if standing is None:
                    raise RunNotFound(run_id=run_id.hex, namespace=namespace)
                state, last_seq = standing
                while from_seq <= last_seq:
                    events = await in_turn(partial(reading.get_events, reads, run_id, from_seq, HISTORY_PAGE))
                    for record in events:
                        yield pb.WatchResponse(event=messages.event(record), state=messages.STATES[state])
                    from_seq = events[-1]["seq"] + 1
                if messages.is_final(state):
                    return
                await _wait(told, WATCH_POLL_SECONDS)
        finally:
            self._engine.watchers.remove(run_id, told)


def _signal(request: pb.SignalRequest | pb.SignalWithStartRequest) -> tuple[str, Document]:
    """A signal's name and payload. Raises Refusal."""
    if not is_short(request.name):
        raise InvalidSignalName
    return request.name, accept(request.payload, "payload", empty=NULL)


def _start_ask(request: pb.StartRequest) -> StartAsk:
    """Read a start. Raises Refusal."""
    key = request.key if request.HasField("key") else None
    if key is not None and not is_short(key):
        raise InvalidKey
    if request.version < 0:
        raise InvalidArgument(field="version", problem="it must be a stored version, or 0 for the deployed one")
    return StartAsk(
        request_id=request_id_of(request.request_id),
        namespace=namespace_of(request.namespace),
        workflow=short_text(request.workflow, "workflow"),
        version=request.version,
        key=key,
        input=accept(request.input, "input", empty=EMPTY),
        trace=traceparent_of(request.traceparent),
        labels=dict(request.labels),
    )


def _readable(request: pb.StartRequest) -> StartAsk | Refusal:
    try:
        return _start_ask(request)
    except Refusal as refusal:
        return bare(refusal)


def _start_result(answer: Started | Exception) -> pb.StartResult:
    if isinstance(answer, Exception):
        return pb.StartResult(refusal=item_refusal(answer))
    return pb.StartResult(started=messages.start_response(answer))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _item_state(number: int) -> str:
    """The name of a state to filter items by; unspecified: none. Raises InvalidArgument."""
    names = {int(given): name for name, given in messages.STATES.items()}
    if number and number not in names:
        raise InvalidArgument(field="state", problem=f"there is no state {number}")
    return names.get(number, "")


def _paths_in(graph: Graph, version: int, scope: str) -> list[str]:
    """What tasks a scope, or the run itself, can have. Raises NodeNotFound."""
    try:
        return [inside(scope, name) for name in graph.body(scope).plan.nodes]
    except LookupError as error:
        raise NodeNotFound(node=scope[:200], workflow=graph.plan.workflow, version=str(version)) from error


def _subflows_in(graph: Graph, scope: str) -> list[str]:
    return [inside(scope, name) for name in graph.body(scope).subflows] if graph.has_subflows else []


__all__: Sequence[str] = ("RunsService",)
