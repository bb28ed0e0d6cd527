"""One thing done to many runs: a table from operations to what they do to a page."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid5

from headway.api.runs.v1 import runs_pb2 as pb
from headway.coordinator.core.document import NULL, Document
from headway.coordinator.core.machines import FINAL_RUN_STATES, RunState
from headway.coordinator.core.payloads import accept
from headway.coordinator.core.refusals import InvalidArgument, Overloaded, RequestIdReused
from headway.coordinator.engine.deleting import Deletions
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.steering import Pause, Resume, Skip
from headway.coordinator.engine.submissions import Cancel, Retry, Submission
from headway.coordinator.ids import run_id_text
from headway.coordinator.rpc.filters import page_token, read_page_token, run_filter
from headway.coordinator.rpc.refusing import item_refusal
from headway.coordinator.rpc.requests import (
    grace_of,
    namespace_of,
    page_size,
    reason_text,
    request_id_of,
    short_text,
)
from headway.coordinator.store.errors import StoreUnavailable
from headway.coordinator.store.listing import RunFilter, find_runs

PAGE, LARGEST_PAGE = 50, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The runs of a page, each with a request id of its own that follows from the request's."""

    engine: Engine
    deletions: Deletions
    request: pb.BulkRequest
    namespace: str
    runs: Sequence[tuple[UUID, UUID]]

    async def submit(self, make: Callable[[UUID, UUID], Submission]) -> list[Any]:
        """Submit something for each."""
        return await self.engine.submit([make(run_id, request_id) for run_id, request_id in self.runs])


@dataclass(frozen=True, slots=True)
class Operation:
    """What can be done to many runs.

    Attributes:
        states: in which it can be done at all; where a filter names none, these are meant.
        apply: does it, or says what would come of it in a dry run: an answer or an exception for each run of the page.
        check: refuses what is wrong whatever the run, even where none is meant. Raises Refusal.
        paused: where a filter names no states, of those only the paused ones are meant.
    """

    states: frozenset[RunState]
    apply: Callable[[Page], Awaitable[Sequence[object]]]
    check: Callable[[pb.BulkRequest], object] = field(default=lambda _: None)
    paused: bool = False


async def _cancel(page: Page) -> Sequence[object]:
    given = page.request.cancel
    grace_ms = grace_of(given)
    return await page.submit(
        lambda run_id, request_id: Cancel(
            run_id=run_id,
            namespace=page.namespace,
            request_id=request_id,
            dry_run=page.request.dry_run,
            reason=reason_text(given.reason),
            grace_ms=grace_ms,
            compensate=not given.no_compensation,
        )
    )


async def _retry(page: Page) -> Sequence[object]:
    given = page.request.retry
    return await page.submit(
        lambda run_id, request_id: Retry(
            run_id=run_id,
            namespace=page.namespace,
            request_id=request_id,
            chosen=tuple(given.from_nodes),
            render_inputs=given.render_inputs,
            dry_run=page.request.dry_run,
        )
    )


async def _delete(page: Page) -> Sequence[object]:
    run_ids = [run_id for run_id, _ in page.runs]
    return await page.deletions.delete(run_ids, page.namespace, dry_run=page.request.dry_run)


async def _pause(page: Page) -> Sequence[object]:
    given = page.request.pause
    return await page.submit(
        lambda run_id, request_id: Pause(
            run_id=run_id,
            namespace=page.namespace,
            request_id=request_id,
            dry_run=page.request.dry_run,
            reason=reason_text(given.reason),
            stop_clock=given.pause_clock,
        )
    )


async def _resume(page: Page) -> Sequence[object]:
    return await page.submit(
        lambda run_id, request_id: Resume(
            run_id=run_id, namespace=page.namespace, request_id=request_id, dry_run=page.request.dry_run
        )
    )


async def _skip(page: Page) -> Sequence[object]:
    node, output = _given_to_skip(page.request)
    return await page.submit(
        lambda run_id, request_id: Skip(
            run_id=run_id,
            namespace=page.namespace,
            request_id=request_id,
            dry_run=page.request.dry_run,
            path=node,
            reason=reason_text(page.request.skip.reason),
            output=output,
        )
    )


def _given_to_skip(request: pb.BulkRequest) -> tuple[str, Document]:
    return short_text(request.skip.node, "skip.node"), accept(request.skip.output, "output", empty=NULL)


_OPEN = frozenset({RunState.PENDING, RunState.RUNNING})
OPERATIONS: Mapping[str, Operation] = {
    "cancel": Operation(_OPEN, _cancel, lambda request: grace_of(request.cancel)),
    "retry": Operation(frozenset({RunState.FAILED, RunState.CANCELLED}), _retry),
    "delete": Operation(FINAL_RUN_STATES, _delete),
    "pause": Operation(_OPEN, _pause),
    "resume": Operation(frozenset({RunState.RUNNING}), _resume, paused=True),
    "skip": Operation(_OPEN | {RunState.FAILED}, _skip, _given_to_skip),
}


async def bulk(engine: Engine, deletions: Deletions, request: pb.BulkRequest) -> pb.BulkResponse:
    """Do it to a page. Raises Refusal, StoreUnavailable."""
    namespace = namespace_of(request.namespace)
    request_id = request_id_of(request.request_id)
    size = page_size(request.page_size, PAGE, LARGEST_PAGE)
    operation = OPERATIONS.get(request.WhichOneof("operation") or "")
    if operation is None:
        raise InvalidArgument(field="operation", problem="it must be set")
    wanted = run_filter(request.filter, namespace)
    if wanted == RunFilter(namespace=namespace):
        raise InvalidArgument(field="filter", problem="it would mean every run: name at least one thing")
    operation.check(request)
    if not wanted.states:
        wanted = replace(wanted, states=operation.states, paused=wanted.paused or operation.paused)
    found = await find_runs(engine.pool, wanted, read_page_token(request.page_token, wanted), size)
    page = Page(
        engine=engine,
        deletions=deletions,
        request=request,
        namespace=namespace,
        runs=[(run_id, uuid5(request_id, run_id.hex)) for run_id in found.run_ids],
    )
    answers = await operation.apply(page) if page.runs else []
    results = [_result(request_id, run_id, answer) for (run_id, _), answer in zip(page.runs, answers, strict=True)]
    return pb.BulkResponse(results=results, next_page_token=page_token(found.after, wanted))


def _result(request_id: UUID, run_id: UUID, answer: object) -> pb.BulkResult:
    if isinstance(answer, Overloaded | StoreUnavailable):  # the whole page is to be repeated
        raise answer
    if isinstance(answer, RequestIdReused):
        answer = RequestIdReused(**answer.metadata | {"key": str(request_id)})
    refusal = item_refusal(answer) if isinstance(answer, Exception) else None
    return pb.BulkResult(run_id=run_id_text(run_id), refusal=refusal)
