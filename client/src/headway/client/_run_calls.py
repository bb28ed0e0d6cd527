"""The client's calls to RunsService."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf import duration_pb2

from headway.api.runs.v1 import runs_pb2, runs_pb2_grpc
from headway.client import _translate
from headway.client._explaining import explanation
from headway.client._filters import RunFilter
from headway.client._refusals import item_refusal
from headway.client._request_id import new_request_id
from headway.client._trace import current_traceparent
from headway.client._values import NO_INPUT, NewRun, Outcome, Progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from headway.client._connection import Connection
    from headway.client._explaining import Explanation
    from headway.client._refusals import Refused
    from headway.client._values import Event, Item, JsonInput, RetryPlan, Run, RunDetails, RunState, Signalled, Started

LARGEST_PAGE = 1000
LARGEST_LIST = 256
MOST_BYTES = 3 * 1024 * 1024  # of a list, with its frame below the smallest message limit that a coordinator may have


class RunCalls:
    """Start, watch and steer runs; a part of `Client`.

    Every mutation makes its request_id before its first try, so that tries of one call have one effect. Give a
    `request_id` of your own to carry that over several calls, after `Unreachable` or `DeadlinePassed`; with other
    arguments the call is refused with `KeyReused`.
    """

    def __init__(self, connection: Connection, namespace: str) -> None:
        """Call over a connection, for a namespace."""
        self._connection = connection
        self._namespace = namespace
        self._runs = runs_pb2_grpc.RunsServiceStub(connection.channel)

    async def start(
        self,
        workflow: str,
        input: JsonInput = NO_INPUT,  # noqa: A002 - the word that the YAML, the protocol and the command line use
        *,
        key: str | None = None,
        version: int | None = None,
        labels: Mapping[str, str] | None = None,
        request_id: str | None = None,
    ) -> Started:
        """Start a run, in the trace of the current OpenTelemetry span.

        Args:
            workflow: Its name.
            input: A JSON value; None is null. Left out: {}.
            key: Idempotency key, 1 to 200 characters: the same key with the same request names the same run.
            version: The version to run; None: the deployed one.
            labels: What it can be found by besides, by name; they go before those of the definition.
            request_id: UUID; None: a new one.

        Raises:
            WorkflowNotFound: No such workflow or version.
            InvalidInput: The input breaks the workflow's schema.
            PayloadTooLarge: The input is larger than 1 MiB.
            InvalidKey: The key is empty or too long.
            InvalidLabel: A label is too long, or one of the definition's cannot be computed from the input.
            KeyReused: The key belongs to another request.
            Overloaded: The server takes no runs just now.
        """
        new = NewRun(
            workflow,
            input,
            key=key,
            version=version,
            labels=labels or {},
            request_id=request_id or new_request_id(),
        )
        return _translate.started(await self._connection.call(self._runs.Start, self._start_request(new)))

    async def start_many(self, runs: Iterable[NewRun]) -> list[Started | Refused]:
        """Start any number of runs, in far less time than as many calls of `start`.

        They go in lists of up to 256 runs and 3 MiB (or half the message limit), one list after the other,
        and each list is tried as every call is. Each run is judged by itself: one that is refused harms no other.

        Returns:
            For each run, in order, the run it names, or the refusal that `start` would have raised; a refusal's `code`
            is UNKNOWN here.

        Raises:
            Overloaded: The server takes no runs just now. As with each exception here, some of the runs may have been
                started: repeat the call with the same values, and none is started twice.
        """
        requests = [self._start_request(new) for new in runs]
        results: list[Started | Refused] = []
        for part in _lists(requests, min(self._connection.message_limit // 2, MOST_BYTES)):
            response = await self._connection.call(self._runs.StartMany, runs_pb2.StartManyRequest(items=part))
            results += [_start_result(each) for each in response.results]
        return results

    def _start_request(self, new: NewRun) -> runs_pb2.StartRequest:
        return runs_pb2.StartRequest(
            namespace=self._namespace,
            workflow=new.workflow,
            input=_translate.to_json(new.input),
            key=new.key,
            request_id=new.request_id,
            version=new.version or 0,
            traceparent=current_traceparent(),
            labels=new.labels,
        )

    async def get(self, run_id: str, scope: str = "") -> RunDetails:
        """A run with its tasks, or with those of an item or iteration such as "resize[12]".

        What there is no room for is left out, and says so: `output_left_out` of a task, `left_out` of an error.

        Raises:
            RunNotFound: No such run.
            NodeNotFound: Its workflow has no such map or repeat.
        """
        request = runs_pb2.GetRequest(namespace=self._namespace, run_id=run_id, scope=scope)
        return _translate.run_details(await self._connection.call(self._runs.Get, request))

    async def get_task(self, run_id: str, path: str) -> RunDetails:
        """A run with one of its tasks, such as "charge" or "resize[12].crop", whose output is whole.

        The run has no tasks as long as that one has not begun.

        Raises:
            RunNotFound: No such run.
            NodeNotFound: Its workflow has no such node.
        """
        request = runs_pb2.GetRequest(namespace=self._namespace, run_id=run_id, path=path)
        return _translate.run_details(await self._connection.call(self._runs.Get, request))

    async def explain(self, run_id: str) -> Explanation:
        """For each live node of a run what it waits for; of a run that is over, what decided its end.

        Raises:
            RunNotFound: No such run.
        """
        request = runs_pb2.ExplainRequest(namespace=self._namespace, run_id=run_id)
        return explanation(await self._connection.call(self._runs.Explain, request))

    async def items(
        self, run_id: str, path: str, *, state: RunState | None = None, from_index: int = 0, page_size: int = 50
    ) -> AsyncIterator[Item]:
        """The items of a map, or iterations of a repeat, in order, page by page as they are read, from an index on.

        Large results are left out of large pages, and say so with `output_left_out`; pages of one or two have them all.

        Raises:
            RunNotFound: No such run.
            NodeNotFound: Its workflow has no such map or repeat.
        """
        first = from_index
        while True:
            request = runs_pb2.ListItemsRequest(
                namespace=self._namespace,
                run_id=run_id,
                path=path,
                state=_translate.run_state_message(state),
                from_index=first,
                page_size=min(page_size, LARGEST_PAGE),
            )
            response = await self._connection.call(self._runs.ListItems, request)
            for each in response.items:
                yield _translate.item(each)
            first = response.next_index
            if not first:
                return

    async def list(self, wanted: RunFilter | None = None, *, page_size: int = 50) -> AsyncIterator[Run]:
        """Runs that a filter means, page by page as they are read; None: all.

        Latest start first; with `finished_from` or `finished_until` latest end first; with `key_prefix` in the order of
        keys. While runs come and go, none comes twice, and none that matches all the while is left out.
        """
        token = ""
        while True:
            request = runs_pb2.ListRequest(
                namespace=self._namespace,
                filter=(wanted or RunFilter()).message(),
                page_size=min(page_size, LARGEST_PAGE),
                page_token=token,
            )
            response = await self._connection.call(self._runs.List, request)
            for each in response.runs:
                yield _translate.run(each)
            token = response.next_page_token
            if not token:
                return

    async def history(self, run_id: str, *, from_seq: int = 1, page_size: int = 200) -> AsyncIterator[Event]:
        """The run's events in order, page by page as they are read, from a sequence number on.

        Raises:
            RunNotFound: No such run.
        """
        next_seq = from_seq
        while True:
            request = runs_pb2.GetHistoryRequest(
                namespace=self._namespace,
                run_id=run_id,
                from_seq=next_seq,
                page_size=min(page_size, LARGEST_PAGE),
            )
            response = await self._connection.call(self._runs.GetHistory, request)
            for each in response.events:
                yield _translate.event(each)
            next_seq = response.next_seq
            if not next_seq:
                return

    async def watch(self, run_id: str, *, from_seq: int = 1) -> AsyncIterator[Progress]:
        """The run's events as they happen, each once, until the run is final.

        A connection that breaks is opened again, and goes on where it broke.

        Raises:
            RunNotFound: No such run.
            Unreachable: The connection broke, and no server has answered since.
        """
        next_seq = from_seq

        def request() -> runs_pb2.WatchRequest:
            return runs_pb2.WatchRequest(namespace=self._namespace, run_id=run_id, from_seq=next_seq)

        async for response in self._connection.stream(self._runs.Watch, request):
            if response.event.seq < next_seq:
                continue  # sent again after a break
            next_seq = response.event.seq + 1
            yield Progress(event=_translate.event(response.event), state=_translate.run_state(response.state))

    async def wait(self, run_id: str) -> Outcome:
        """Wait until the run is final. For a limit, put `asyncio.timeout` around it.

        Raises:
            RunNotFound: No such run.
            Unreachable: The connection broke, and no server has answered since.
        """
        while True:
            run = (await self.get(run_id)).run
            if run.state.is_final:
                return Outcome(run_id=run_id, state=run.state, output=run.output, error=run.error)
            async for _ in self.watch(run_id, from_seq=run.last_seq + 1):
                pass

    async def signal(
        self,
        run_id: str,
        name: str,
        payload: JsonInput = None,
        *,
        id: str = "",  # noqa: A002  the word of the contract
        ttl: timedelta | None = None,
        request_id: str | None = None,
    ) -> Signalled:
        """Send an outside event; it is kept until a node takes it.

        Args:
            run_id: The run.
            name: What a node waits for.
            payload: A JSON value; left out: null.
            id: Tells the event from others of its name: with the same id, only the first counts, and what is sent again
                is answered with `is_repeat`. Empty: each counts.
            ttl: How long it may wait for a node to take it. None: as long as the run lasts.
            request_id: For a repeat by hand.

        Raises:
            RunNotFound: No such run.
            RunClosed: The run is over.
            InvalidSignalName: The name is empty or longer than 200 characters.
            PayloadTooLarge: The payload is larger than 1 MiB.
        """
        request = runs_pb2.SignalRequest(
            namespace=self._namespace,
            run_id=run_id,
            name=name,
            payload=_translate.to_json(payload),
            request_id=request_id or new_request_id(),
            id=id,
            ttl=ttl,
        )
        return _translate.signalled(await self._connection.call(self._runs.Signal, request))

    async def cancel(
        self,
        run_id: str,
        reason: str = "",
        *,
        grace: timedelta | None = None,
        compensate: bool = True,
        request_id: str | None = None,
    ) -> RunState:
        """Ask the run to stop. Returns CANCELLED when nothing was running, else RUNNING.

        Args:
            run_id: The run.
            reason: For people; kept in the history.
            grace: How long handlers have to end; None: the server's choice (60 s).
            compensate: False: what completed is not undone; a compensation under way is broken off, and
                so is what runs at the end (`finally`).
            request_id: UUID; None: a new one.

        Raises:
            RunNotFound: No such run.
            RunClosed: The run is over.
        """
        request = runs_pb2.CancelRequest(
            namespace=self._namespace,
            run_id=run_id,
            reason=reason,
            request_id=request_id or new_request_id(),
            no_compensation=not compensate,
        )
        if grace is not None:
            duration = duration_pb2.Duration()
            duration.FromTimedelta(grace)
            request.grace.CopyFrom(duration)
        return _translate.run_state((await self._connection.call(self._runs.Cancel, request)).state)

    async def pause(
        self, run_id: str, reason: str = "", *, pause_clock: bool = False, request_id: str | None = None
    ) -> bool:
        """Let nothing new be dispatched in a run until it is resumed. Returns False when it was paused already.

        Args:
            run_id: The run.
            reason: For people; shown while it is paused.
            pause_clock: Its time-outs stand still meanwhile.
            request_id: UUID; None: a new one.

        Raises:
            RunNotFound: No such run.
            RunClosed: The run is over.
            RunStopping: The run is being stopped.
            RunPaused: It is paused already, with its clock in another state.
        """
        request = runs_pb2.PauseRequest(
            namespace=self._namespace,
            run_id=run_id,
            reason=reason,
            pause_clock=pause_clock,
            request_id=request_id or new_request_id(),
        )
        return not (await self._connection.call(self._runs.Pause, request)).was_paused

    async def resume(self, run_id: str, *, request_id: str | None = None) -> bool:
        """End a run's pause. Returns False when it was not paused.

        Raises:
            RunNotFound: No such run.
            RunClosed: The run is over.
        """
        request = runs_pb2.ResumeRequest(
            namespace=self._namespace, run_id=run_id, request_id=request_id or new_request_id()
        )
        return not (await self._connection.call(self._runs.Resume, request)).was_resumed

    async def skip(
        self, run_id: str, node: str, output: JsonInput = None, *, reason: str = "", request_id: str | None = None
    ) -> bool:
        """Give a node of a paused or failed run its output. Returns True when that reopened the run.

        Args:
            run_id: The run.
            node: The node's path.
            output: A JSON value; left out: null. Of a switch: `{"to": node}`; of a set node: a dict of its values.
            reason: For people; kept in the history.
            request_id: UUID; None: a new one.

        Raises:
            RunNotFound: No such run.
            NodeNotFound: The workflow has no such node.
            NodeNotReached: The run never reached the node.
            IterationDropped: Its repeat dropped the rows of its iteration (`keep_last`).
            RunNotHeld: The run is neither paused nor failed.
            NodeNotSkippable: A worker holds the node, or it is done, or waits for others.
            PayloadTooLarge: The output is larger than 1 MiB.
        """
        request = runs_pb2.SkipRequest(
            namespace=self._namespace,
            run_id=run_id,
            node=node,
            output=_translate.to_json(output),
            reason=reason,
            request_id=request_id or new_request_id(),
        )
        return (await self._connection.call(self._runs.Skip, request)).reopened

    async def retry(
        self,
        run_id: str,
        from_nodes: Sequence[str] = (),
        *,
        dry_run: bool = False,
        render_inputs: bool = False,
        request_id: str | None = None,
    ) -> RetryPlan:
        """Reopen a finished run from chosen nodes.

        Args:
            run_id: The run.
            from_nodes: Nodes to start again; empty: all that failed or were stopped.
            dry_run: Only say what would be redone.
            render_inputs: Chosen nodes render their input anew instead of keeping it.
            request_id: UUID; None: a new one.

        Raises:
            RunNotFound: No such run.
            NodeNotFound: The workflow has no such node.
            NodeNotReached: The run never reached the node.
            IterationDropped: Its repeat dropped the rows of its iteration (`keep_last`).
            RunNotFinished: The run is not over.
            NodeUndoes: The node undoes another; retry that one.
            NothingToRetry: Nothing failed or was stopped.
        """
        request = runs_pb2.RetryRequest(
            namespace=self._namespace,
            run_id=run_id,
            dry_run=dry_run,
            render_inputs=render_inputs,
            request_id=request_id or new_request_id(),
            from_nodes=from_nodes,
        )
        response = await self._connection.call(self._runs.Retry, request)
        return _translate.retry_plan(response)


def _start_result(message: runs_pb2.StartResult) -> Started | Refused:
    if message.HasField("started"):
        return _translate.started(message.started)
    return item_refusal(message.refusal.reason, message.refusal.message, message.refusal.metadata)


def _lists(requests: Sequence[runs_pb2.StartRequest], most_bytes: int) -> Iterator[list[runs_pb2.StartRequest]]:
    """Cut into lists that fit into a message, by number and by bytes; at least one request each."""
    part: list[runs_pb2.StartRequest] = []
    size = 0
    for request in requests:
        bytes_ = request.ByteSize()
        if part and (len(part) == LARGEST_LIST or size + bytes_ > most_bytes):
            yield part
            part, size = [], 0
        part.append(request)
        size += bytes_
    if part:
        yield part
