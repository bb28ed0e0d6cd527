"""Hand-overs between parents and children: starts, stops and ends, each applied once however often it comes.

A start is made only while its parent's row still waits for it. A stop that finds no run leaves a cancelled one behind
under the child's id, so that the start that it overtook finds that. What cannot start is told to the parent at once.
A start chooses its version before it looks at the parent's row: where a stop can leave no run behind, because there is
no such workflow yet, any start that looked before that stop was given has not found the workflow either. Where the
workflow was deleted in between, a stop finds it still: so long as a start can have found it before.
A run that is to go on and was deleted is never begun under its id again: its own children would be asked for by the ids
of those that have ended. Its parent is told, and starts another.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from headway.coordinator.core.document import EMPTY, Document
from headway.coordinator.core.handovers import CancelChild, ChildEnded, StartChild
from headway.coordinator.core.refusals import KeyReused, Overloaded, Refusal, RunNotFound, bare
from headway.coordinator.core.rows import GONE, REFUSED, STARTED
from headway.coordinator.engine.definitions import Chosen, Definitions
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.lanes import whole
from headway.coordinator.engine.starting import StartAsk, Started, Starts
from headway.coordinator.engine.submissions import EndChild, GoOn, StopChild, Submission
from headway.coordinator.ids import bucket_of, run_id_text
from headway.coordinator.store.errors import StoreConflict, StoreUnavailable, translated
from headway.coordinator.store.statements import SQL

AT_ONCE = 32  # deliveries of one call that are under way together


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A hand-over: its own id, the run that it is for, what it says."""

    request_id: UUID
    run_id: UUID
    message: StartChild | CancelChild | ChildEnded
    trace: str = ""


class Children:
    """Delivers what runs tell each other."""

    def __init__(self, engine: Engine, definitions: Definitions, starts: Starts) -> None:
        """Use an engine, its versions of workflows, and what starts runs."""
        self._engine = engine
        self._definitions = definitions
        self._starts = starts

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[object]:
        """Apply each; an exception stands for one that could not be decided.

        Ends go together. Orders for one child are given in order, to different ones at the same time. One for which
        there is no room is answered by Overloaded, alone: the ends of runs must not wait behind the starts of others.

        Raises:
            StoreUnavailable, StoreConflict: the whole is to be repeated.
        """
        answers: list[object] = [None] * len(deliveries)
        ends: list[tuple[int, EndChild]] = []
        orders: dict[UUID, list[tuple[int, Delivery, StartChild | CancelChild]]] = {}
        for place, delivery in enumerate(deliveries):
            message = delivery.message
            if isinstance(message, ChildEnded):
                ends.append((place, _end(delivery.run_id, message, delivery.trace)))
            else:
                orders.setdefault(delivery.run_id, []).append((place, delivery, message))
        room = asyncio.Semaphore(AT_ONCE)

        async def give(to_one: Sequence[tuple[int, Delivery, StartChild | CancelChild]]) -> None:
            async with room:
                for place, delivery, message in to_one:
                    answers[place] = await self._give(delivery, message)

        async def tell() -> None:
            told = await self._told_or_why_not([item for _, item in ends])
            for (place, _), answer in zip(ends, told, strict=True):
                answers[place] = answer

        async with asyncio.TaskGroup() as group:
            if ends:
                group.create_task(tell())
            for to_one in orders.values():
                group.create_task(give(to_one))
        for answer in answers:
            if isinstance(answer, StoreUnavailable | StoreConflict):
                raise answer
        return answers

    async def _give(self, delivery: Delivery, message: StartChild | CancelChild) -> object:
        try:
            if isinstance(message, StartChild):
                return await self._start(delivery, message)
            return await self._cancel(delivery, message)
        except (Overloaded, StoreUnavailable, StoreConflict) as error:
            return bare(error)

    async def _told_or_why_not(self, ends: Sequence[EndChild]) -> list[object]:
        try:
            return await self._told(ends)
        except (Overloaded, StoreUnavailable, StoreConflict) as error:
            return [bare(error)] * len(ends)

    async def _start(self, delivery: Delivery, message: StartChild) -> object:
        self._engine.admit([(delivery.run_id, len(bytes(message.input)))], ahead=0.0).close()
        (chosen,) = await self._definitions.to_run([(message.namespace, message.workflow, message.version)])
        wanted = await self._wanted(message)
        if wanted is None or wanted["child_run_id"] != delivery.run_id:
            return False
        is_cancelled = wanted["stop"] is not None  # before it began: only what tells so is left of it
        if message.again:
            item = GoOn(run_id=delivery.run_id, parent=message.parent, deadline_at=message.deadline_at)
            answer = await self._one(item)
            if isinstance(answer, RunNotFound):
                return await self._tell(delivery, message, GONE, None)
            return await self._refused(delivery, message, answer) if isinstance(answer, Refusal) else answer
        ask = _ask(delivery, message, chosen, Document(bytes(message.input)), is_cancelled=is_cancelled)
        (answer,) = await self._starts.start([ask])
        if isinstance(answer, Refusal):
            return await self._refused(delivery, message, answer)
        if isinstance(answer, Started) and message.parent.detached:
            return await self._tell(delivery, message, STARTED, None)
        return answer

    async def _wanted(self, message: StartChild) -> Any:
        """The parent's row, while it waits."""
        parent = message.parent
        run_id = UUID(parent.run_id)
        with translated():
            async with self._engine.pool.acquire() as connection:
                row = [run_id], [parent.path], [parent.attempt]
                return await connection.fetchrow(SQL["find_wanted"], bucket_of(run_id), *row)

    async def _refused(self, delivery: Delivery, message: StartChild, refusal: Refusal) -> object:
        error = {"type": refusal.reason, "message": str(refusal)}
        if isinstance(refusal, KeyReused):
            error |= refusal.metadata  # the key, and whose it is
        return await self._tell(delivery, message, REFUSED, error)

    async def _tell(self, delivery: Delivery, message: StartChild, state: str, error: dict[str, Any] | None) -> object:
        parent = message.parent
        end = ChildEnded(
            path=parent.path, attempt=parent.attempt, child=run_id_text(delivery.run_id), state=state, error=error
        )
        (answer,) = await self._told([_end(UUID(parent.run_id), end, delivery.trace)])
        return answer

    async def _told(self, ends: Sequence[EndChild]) -> list[object]:
        """Tell parents; a parent that is gone waits no more."""
        answers = await self._all(ends)
        return [False if isinstance(answer, RunNotFound) else answer for answer in answers]

    async def _cancel(self, delivery: Delivery, message: CancelChild) -> object:
        item = StopChild(
            run_id=delivery.run_id,
            request_id=delivery.request_id,
            parent=message.parent,
            reason=message.reason,
            grace_ms=message.grace_ms,
            compensate=message.compensate,
        )
        answer = await self._one(item)
        if isinstance(answer, RunNotFound):
            chosen = await self._definitions.to_cancel((message.namespace, message.workflow, message.version))
            (begun,) = await self._starts.start([_ask(delivery, message, chosen, EMPTY, is_cancelled=True)])
            if isinstance(begun, Refusal):  # nor can the start be made that it overtook
                return False
            answer = await self._one(item)  # unless it is the cancelled one, the start came in between
        return answer

    async def _one(self, item: Submission) -> Any:
        (answer,) = await self._all([item])
        return answer

    async def _all(self, items: Sequence[Submission]) -> list[Any]:
        return whole(await self._engine.submit(items))


def _end(run_id: UUID, message: ChildEnded, trace: str) -> EndChild:
    return EndChild(
        run_id=run_id,
        path=message.path,
        trace=trace,
        attempt=message.attempt,
        child=message.child,
        state=message.state,
        error=message.error,
        output=Document(raw) if (raw := bytes(message.output)) else None,
    )


def _ask(
    delivery: Delivery, message: StartChild | CancelChild, chosen: Chosen, given: Document, *, is_cancelled: bool
) -> StartAsk:
    is_start = isinstance(message, StartChild)
    return StartAsk(
        request_id=delivery.request_id,
        run_id=delivery.run_id,
        namespace=message.namespace,
        workflow=message.workflow,
        version=message.version,
        chosen=chosen,
        key=None if is_cancelled or not is_start else message.key,
        input=given,
        trace=delivery.trace,
        labels=message.labels if is_start else {},
        parent=message.parent,
        deadline_at=message.deadline_at if is_start else None,
        is_cancelled=is_cancelled,
        adopts=True,
    )
