"""The client's calls that concern many runs, or a run by its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf import duration_pb2

from headway.api.runs.v1 import runs_pb2, runs_pb2_grpc
from headway.client import _translate
from headway.client._refusals import item_refusal
from headway.client._request_id import new_request_id
from headway.client._trace import current_traceparent
from headway.client._values import NO_INPUT, Signalled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import timedelta

    from headway.client._connection import Connection
    from headway.client._filters import RunFilter
    from headway.client._refusals import Refused
    from headway.client._values import JsonInput

PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """What became of one of many runs.

    Attributes:
        refusal: Why nothing was done to it; None: it was done. Its `code` is UNKNOWN. Of a dry run: as it would be.
    """

    run_id: str
    refusal: Refused | None


class BulkCalls:
    """Operations on many runs, signals by key, deletion; a part of `Client`.

    The operations on many runs yield a result for each run as the server answers page by page. What is broken off has
    been done to the runs that were answered, and perhaps to a page more: asked again with the same `request_id`, it
    goes on, and nothing is done to a run twice.
    """

    def __init__(self, connection: Connection, namespace: str) -> None:
        """Call over a connection, for a namespace."""
        self._connection = connection
        self._namespace = namespace
        self._runs = runs_pb2_grpc.RunsServiceStub(connection.channel)

    def cancel_all(
        self,
        wanted: RunFilter,
        reason: str = "",
        *,
        grace: timedelta | None = None,
        compensate: bool = True,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> AsyncIterator[BulkResult]:
        """Ask runs to stop; without states in the filter, all open ones that match.

        Args:
            wanted: Which runs; at least one thing must be given.
            reason: For people; kept in the histories.
            grace: How long handlers have to end; None: the server's choice (60 s).
            compensate: False: what completed is not undone.
            dry_run: Only say which runs are meant, and which of them would be refused as they stand now.
            request_id: UUID; None: a new one.
        """
        operation = runs_pb2.BulkCancel(reason=reason, no_compensation=not compensate)
        if grace is not None:
            duration = duration_pb2.Duration()
            duration.FromTimedelta(grace)
            operation.grace.CopyFrom(duration)
        return self._bulk(wanted, dry_run=dry_run, request_id=request_id, cancel=operation)

    def retry_all(
        self,
        wanted: RunFilter,
        from_nodes: Sequence[str] = (),
        *,
        render_inputs: bool = False,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> AsyncIterator[BulkResult]:
        """Reopen runs; without states in the filter, those that failed or were cancelled. Arguments as `retry`."""
        operation = runs_pb2.BulkRetry(from_nodes=from_nodes, render_inputs=render_inputs)
        return self._bulk(wanted, dry_run=dry_run, request_id=request_id, retry=operation)

    def delete_all(
        self, wanted: RunFilter, *, dry_run: bool = False, request_id: str | None = None
    ) -> AsyncIterator[BulkResult]:
        """Remove finished runs with all that is stored of them."""
        return self._bulk(wanted, dry_run=dry_run, request_id=request_id, delete=runs_pb2.BulkDelete())

    def pause_all(
        self,
        wanted: RunFilter,
        reason: str = "",
        *,
        pause_clock: bool = False,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> AsyncIterator[BulkResult]:
        """Hold runs; without states in the filter, all open ones. Arguments as `pause`."""
        operation = runs_pb2.BulkPause(reason=reason, pause_clock=pause_clock)
        return self._bulk(wanted, dry_run=dry_run, request_id=request_id, pause=operation)

    def resume_all(
        self, wanted: RunFilter, *, dry_run: bool = False, request_id: str | None = None
    ) -> AsyncIterator[BulkResult]:
        """End pauses; without states in the filter, only paused runs are meant, with them others stay as they are."""
        return self._bulk(wanted, dry_run=dry_run, request_id=request_id, resume=runs_pb2.BulkResume())

    def skip_all(
        self,
        wanted: RunFilter,
        node: str,
        output: JsonInput = None,
        *,
        reason: str = "",
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> AsyncIterator[BulkResult]:
        """Give a node its output by hand in runs; without states in the filter, in open and failed ones.

        Arguments as `skip`. A run that is neither paused nor failed is refused with RunNotHeld.
        """
        operation = runs_pb2.BulkSkip(node=node, output=_translate.to_json(output), reason=reason)
        return self._bulk(wanted, dry_run=dry_run, request_id=request_id, skip=operation)

    async def _bulk(
        self, wanted: RunFilter, *, dry_run: bool, request_id: str | None, **operation: Any
    ) -> AsyncIterator[BulkResult]:
        request = runs_pb2.BulkRequest(
            namespace=self._namespace,
            filter=wanted.message(),
            dry_run=dry_run,
            page_size=PAGE,
            request_id=request_id or new_request_id(),
            **operation,
        )
        while True:
            response = await self._connection.call(self._runs.Bulk, request)
            for each in response.results:
                yield _bulk_result(each)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    async def delete(self, run_id: str) -> bool:
        """Remove a finished run with all that is stored of it; False: there is none.

        Raises:
            RunNotFinished: The run is not over.
            EndNotTold: It is, and its parent was not told yet.
        """
        request = runs_pb2.DeleteRequest(namespace=self._namespace, run_id=run_id)
        return (await self._connection.call(self._runs.Delete, request)).deleted

    async def signal_key(
        self,
        key: str,
        name: str,
        payload: JsonInput = None,
        *,
        workflow: str | None = None,
        id: str = "",  # noqa: A002  the word of the contract
        ttl: timedelta | None = None,
        request_id: str | None = None,
    ) -> Signalled:
        """Send an outside event to the run that was started with a key.

        Args:
            key: Its idempotency key.
            name: As a wait_for_event node spells it.
            payload: A JSON value; left out: null.
            workflow: The run must be of this workflow; None: of any.
            id: As in `signal`.
            ttl: As in `signal`.
            request_id: UUID; None: a new one.

        Raises:
            KeyNotFound: No run was started with it.
            RunClosed: The run is over.
        """
        request = runs_pb2.SignalRequest(
            namespace=self._namespace,
            key=key,
            workflow=workflow or "",
            name=name,
            payload=_translate.to_json(payload),
            request_id=request_id or new_request_id(),
            id=id,
            ttl=ttl,
        )
        response = await self._connection.call(self._runs.Signal, request)
        return _translate.signalled(response)

    async def signal_with_start(
        self,
        workflow: str,
        key: str,
        name: str,
        payload: JsonInput = None,
        *,
        input: JsonInput = NO_INPUT,  # noqa: A002 - the word that the YAML, the protocol and the command line use
        labels: Mapping[str, str] | None = None,
        id: str = "",  # noqa: A002  the word of the contract
        ttl: timedelta | None = None,
        request_id: str | None = None,
    ) -> Signalled:
        """Send an outside event to the run of a key, which is started for it when there is none.

        Args:
            workflow: Its name.
            key: Idempotency key: of all that call with it, one starts the run, and all signal it.
            name: As a wait_for_event node spells it.
            payload: A JSON value; left out: null.
            input: For the start: a JSON value; None is null. Left out: {}.
            labels: For the start.
            id: As in `signal`.
            ttl: As in `signal`.
            request_id: UUID; None: a new one.

        Raises:
            KeyReused: The key belongs to a run of another workflow.
            RunClosed: The run of the key is over.
        """
        start = runs_pb2.StartRequest(
            namespace=self._namespace,
            workflow=workflow,
            key=key,
            input=_translate.to_json(input),
            labels=labels,
            request_id=request_id or new_request_id(),
            traceparent=current_traceparent(),
        )
        request = runs_pb2.SignalWithStartRequest(
            start=start, name=name, payload=_translate.to_json(payload), id=id, ttl=ttl
        )
        response = await self._connection.call(self._runs.SignalWithStart, request)
        return Signalled(
            run_id=response.run.run_id,
            seq=response.seq,
            existed=response.run.existed,
            is_repeat=response.is_repeat,
            differs=response.differs,
        )


def _bulk_result(message: runs_pb2.BulkResult) -> BulkResult:
    given = message.refusal if message.HasField("refusal") else None
    refusal = None if given is None else item_refusal(given.reason, given.message, given.metadata)
    return BulkResult(run_id=message.run_id, refusal=refusal)
