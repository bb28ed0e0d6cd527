"""What only the other services call: timers that are due, hand-overs, sweeps."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson

from headway.api.events.v1 import events_pb2, events_pb2_grpc
from headway.api.outbox.v1 import outbox_pb2, outbox_pb2_grpc
from headway.api.timers.v1 import timers_pb2, timers_pb2_grpc
from headway.coordinator.core.handovers import KINDS, read
from headway.coordinator.core.payloads import accept, is_short
from headway.coordinator.core.refusals import (
    BatchTooLarge,
    InvalidArgument,
    Overloaded,
    Refusal,
    RunClosed,
    RunNotFound,
)
from headway.coordinator.engine import telemetry
from headway.coordinator.engine.children import Children, Delivery
from headway.coordinator.engine.engine import Engine, Swept
from headway.coordinator.engine.starting import Started
from headway.coordinator.engine.submissions import Expire, Fire, Moved, Signal, Submission
from headway.coordinator.ids import MalformedId, parse_run_id, parse_task_id, task_id
from headway.coordinator.rpc.refusing import refusing
from headway.coordinator.rpc.requests import duration_of
from headway.coordinator.store.errors import StoreUnavailable

ITEMS = 1_000
SIGNAL = "SignalReceived"
NONE, LONGEST = timedelta(), timedelta(days=3_650)  # what a queue may lag behind
_log = logging.getLogger(__name__)


class TimersService(timers_pb2_grpc.TimersServiceServicer):
    """What the timers service calls."""

    def __init__(self, engine: Engine) -> None:
        """Ask the engine."""
        self._engine = engine

    @refusing
    async def Fire(self, request: timers_pb2.FireRequest, context: Any) -> timers_pb2.FireResponse:
        """Decide what is due."""
        _check_size(len(request.timers) + len(request.leases))
        items: list[Submission | None] = [_timer(timer) for timer in request.timers]
        items += [_lease(lease) for lease in request.leases]
        answers = await _ask(self._engine, items)
        return timers_pb2.FireResponse(answers=[_fire_answer(answer) for answer in answers])


class EventsService(events_pb2_grpc.EventsServiceServicer):
    """What the relay calls with hand-overs."""

    def __init__(self, engine: Engine, children: Children) -> None:
        """Ask the engine."""
        self._engine = engine
        self._children = children

    @refusing
    async def Deliver(self, request: events_pb2.DeliverRequest, context: Any) -> events_pb2.DeliverResponse:
        """Apply each once."""
        _check_size(len(request.handovers))
        read = [_handover(handover) for handover in request.handovers]
        answers = await _ask(self._engine, [each if isinstance(each, Signal) else None for each in read])
        between = [(place, each) for place, each in enumerate(read) if isinstance(each, Delivery)]
        told = await self._children.deliver([each for _, each in between])
        for (place, _), answer in zip(between, told, strict=True):
            answers[place] = answer
        response = events_pb2.DeliverResponse(answers=[_deliver_answer(answer) for answer in answers])
        for handover, answer in zip(request.handovers, response.answers, strict=True):
            kind = handover.type if handover.type in KINDS or handover.type == SIGNAL else "unknown"
            name = events_pb2.DeliverAnswer.Name(answer).removeprefix("DELIVER_ANSWER_").lower()
            telemetry.handovers.add(1, {"type": kind, "answer": name})
        return response


class OutboxService(outbox_pb2_grpc.OutboxServiceServicer):
    """What the relay calls when dispatches may be lost."""

    def __init__(self, engine: Engine) -> None:
        """Ask the engine."""
        self._engine = engine

    @refusing
    async def Sweep(self, request: outbox_pb2.SweepRequest, context: Any) -> outbox_pb2.SweepResponse:
        """Dispatch a page again. The cursor is the id of its last task."""
        after = _swept(request.cursor)
        if request.broker_lost:
            return _sweep_response(*await self._engine.sweep_lost(after))
        _check_size(len(request.queues))
        queues = [
            (item.namespace, item.queue, min(max(duration_of(item.delivered_age, "delivered_age"), NONE), LONGEST))
            for item in request.queues
            if is_short(item.namespace) and is_short(item.queue)  # no others were ever published to
        ]
        if not queues:
            return outbox_pb2.SweepResponse()
        return _sweep_response(*await self._engine.sweep_aged(queues, after))


def _swept(cursor: str) -> Swept | None:
    try:
        return parse_task_id(cursor) if cursor else None
    except MalformedId as error:
        raise InvalidArgument(field="cursor", problem="it is none that an answer gave") from error


def _sweep_response(dispatched: int, last: Swept | None) -> outbox_pb2.SweepResponse:
    return outbox_pb2.SweepResponse(dispatched=dispatched, cursor=task_id(*last) if last else "")


def _check_size(size: int) -> None:
    if size > ITEMS:
        raise BatchTooLarge(size=str(size), limit=str(ITEMS))


async def _ask(engine: Engine, items: Sequence[Submission | None]) -> list[object]:
    """Submit what could be read; None stands for what could not."""
    answers: list[object] = [None] * len(items)
    good = [(place, item) for place, item in enumerate(items) if item is not None]
    for (place, _), answer in zip(good, await engine.submit([item for _, item in good]), strict=True):
        if isinstance(answer, StoreUnavailable | Overloaded):
            raise answer
        answers[place] = answer
    return answers


def _timer(timer: timers_pb2.Timer) -> Fire | None:
    try:
        run_id = parse_run_id(timer.run_id)
    except MalformedId:
        return None
    if "\x00" in timer.path or "\x00" in timer.kind:
        return None
    return Fire(run_id=run_id, path=timer.path, kind=timer.kind, attempt=timer.attempt)


def _lease(lease: timers_pb2.ExpiredLease) -> Expire | None:
    try:
        run_id = parse_run_id(lease.run_id)
    except MalformedId:
        return None
    if "\x00" in lease.path:
        return None
    return Expire(run_id=run_id, path=lease.path, attempt=lease.attempt)


def _fire_answer(answer: object) -> timers_pb2.FireAnswer:
    if answer is True or isinstance(answer, Moved):
        return timers_pb2.FIRE_ANSWER_FIRED
    if answer is False or isinstance(answer, RunNotFound):
        return timers_pb2.FIRE_ANSWER_STALE
    return timers_pb2.FIRE_ANSWER_FAILED


def _handover(handover: events_pb2.Handover) -> Signal | Delivery | None:
    try:
        if handover.type in KINDS:
            return Delivery(
                request_id=UUID(handover.request_id),
                run_id=parse_run_id(handover.run_id),
                message=read(handover.type, handover.event),
                trace=handover.traceparent,
            )
        fields = orjson.loads(handover.event)
        return Signal(
            run_id=parse_run_id(handover.run_id),
            request_id=UUID(handover.request_id),
            name=_signal_name(fields["name"]),
            payload=accept(orjson.dumps(fields["payload"]), "payload"),
        )
    except (MalformedId, Refusal, ValueError, KeyError, TypeError):
        facts = {"request_id": handover.request_id[:100], "run_id": handover.run_id[:100]}
        _log.exception("a hand-over of type %s cannot be read", handover.type[:100], extra=facts)
        return None


def _signal_name(name: object) -> str:
    if not (isinstance(name, str) and is_short(name)):
        raise ValueError(f"no signal can have the name {name!r}")
    return name


def _deliver_answer(answer: object) -> events_pb2.DeliverAnswer:
    if isinstance(answer, dict | bool | Started):
        return events_pb2.DELIVER_ANSWER_APPLIED
    if isinstance(answer, RunClosed | RunNotFound):
        return events_pb2.DELIVER_ANSWER_RUN_CLOSED
    if isinstance(answer, Overloaded):
        return events_pb2.DELIVER_ANSWER_LATER
    return events_pb2.DELIVER_ANSWER_FAILED
