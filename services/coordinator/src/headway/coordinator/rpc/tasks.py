"""TasksService: Lease, Renew and Report for workers. Items are judged one by one; none fails the call."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import grpc

from headway.api.tasks.v1 import tasks_pb2 as pb
from headway.api.tasks.v1 import tasks_pb2_grpc
from headway.coordinator.core.admission import Answer
from headway.coordinator.core.events import Failure
from headway.coordinator.core.payloads import accept, accept_object, is_short, storable_text
from headway.coordinator.core.plan import FailureClass
from headway.coordinator.core.refusals import (
    BatchTooLarge,
    InvalidArgument,
    InvalidOwner,
    Overloaded,
    Refusal,
    TaskNotFound,
    bare,
)
from headway.coordinator.engine.attending import Stop
from headway.coordinator.engine.eager import Continued, Wish
from headway.coordinator.engine.engine import Engine
from headway.coordinator.engine.leasing import Granted, LeaseAsk, RenewAsk, Renewed
from headway.coordinator.engine.offering import Handed, Offering, Offers, Withdrawn
from headway.coordinator.engine.submissions import (
    Report,
    ReportCancelled,
    ReportFailed,
    ReportReleased,
    ReportSucceeded,
)
from headway.coordinator.ids import MalformedId, parse_task_id, run_id_text, task_id
from headway.coordinator.rpc import messages
from headway.coordinator.rpc.refusing import Refused, item_refusal, refuse, refusing
from headway.coordinator.rpc.requests import duration_ms, namespace_of, traceparent_of
from headway.coordinator.store.beats import Beat
from headway.coordinator.store.errors import StoreUnavailable

ITEMS = 256
QUEUES = 1_000  # that one worker may name
GRANT_KEY_LIMIT = 100
TRACE_LIMIT = 16 * 1024
MESSAGE_LIMIT = 4 * 1024
DETAILS_LIMIT = 16 * 1024
BEAT_MESSAGE_LIMIT = 1024
CHECKPOINT_LIMIT = 32 * 1024
STREAM = 10_000  # messages that wait to be sent to one worker that attends; Renew tells what it is to stop besides

_LEASE: Mapping[Answer, pb.LeaseAnswer] = {
    Answer.HELD: pb.LEASE_ANSWER_HELD,
    Answer.STALE_ATTEMPT: pb.LEASE_ANSWER_STALE_ATTEMPT,
    Answer.RUN_CLOSED: pb.LEASE_ANSWER_RUN_CLOSED,
    Answer.RUN_PAUSED: pb.LEASE_ANSWER_RUN_PAUSED,
    Answer.BUSY: pb.LEASE_ANSWER_BUSY,
}
_RENEW: Mapping[Answer, pb.RenewAnswer] = {
    Answer.LEASE_LOST: pb.RENEW_ANSWER_LEASE_LOST,
    Answer.RUN_CLOSED: pb.RENEW_ANSWER_RUN_CLOSED,
    Answer.BUSY: pb.RENEW_ANSWER_BUSY,
}
_REPORT: Mapping[Answer, pb.ReportAnswer] = {
    Answer.DUPLICATE: pb.REPORT_ANSWER_DUPLICATE,
    Answer.RUN_CLOSED: pb.REPORT_ANSWER_RUN_CLOSED,
    Answer.STALE_ATTEMPT: pb.REPORT_ANSWER_STALE_ATTEMPT,
    Answer.LEASE_LOST: pb.REPORT_ANSWER_LEASE_LOST,
    Answer.ACCEPTED: pb.REPORT_ANSWER_ACCEPTED,
}
_CLASS: Mapping[int, FailureClass] = {
    pb.FAILURE_CLASS_UNSPECIFIED: FailureClass.EXEC_FAILED,
    pb.FAILURE_CLASS_TIMEOUT: FailureClass.TIMEOUT,
    pb.FAILURE_CLASS_EXEC_FAILED: FailureClass.EXEC_FAILED,
    pb.FAILURE_CLASS_VERDICT_FAIL: FailureClass.VERDICT_FAIL,
}
_Item = TypeVar("_Item", pb.LeaseItem, pb.RenewItem, pb.ReportItem)
_Ask = TypeVar("_Ask")


class TasksService(tasks_pb2_grpc.TasksServiceServicer):
    """What workers call."""

    def __init__(self, engine: Engine, message_limit: int) -> None:
        """Ask the engine; messages have at most so many bytes."""
        self._engine = engine
        self._message_limit = message_limit

    @refusing
    async def Lease(self, request: pb.LeaseRequest, context: Any) -> pb.LeaseResponse:
        """Grant attempts."""
        _check(request.owner, len(request.items))
        asks = _read(request.items, lambda item: _lease_ask(item, request.owner))
        answers = await _answer(asks, self._engine.lease)
        room = messages.Room(messages.work_bytes(self._message_limit))
        response = pb.LeaseResponse()
        for answer in answers:
            _put_lease(response.results.add(), answer, room)
        return response

    @refusing
    async def Renew(self, request: pb.RenewRequest, context: Any) -> pb.RenewResponse:
        """Prolong leases."""
        _check(request.owner, len(request.items))
        asks = _read(request.items, lambda item: _renew_ask(item, request.owner))
        answers = await _answer(asks, self._engine.renew)
        return pb.RenewResponse(results=[_renew_result(answer) for answer in answers])

    @refusing
    async def Report(self, request: pb.ReportRequest, context: Any) -> pb.ReportResponse:
        """End attempts."""
        _check(request.owner, len(request.items))
        room_bytes = messages.work_bytes(self._message_limit)
        reporter = _reporter(request, room_bytes)
        if reporter.queues:
            self._engine.presence.note(reporter.namespace, reporter.owner, reporter.queues)
        asks = _read(request.items, lambda item: _report(item, reporter))
        answers = await _answer(asks, self._engine.submit)
        room = messages.Room(room_bytes)
        response = pb.ReportResponse()
        for answer in answers:
            _put_report(response.results.add(), answer, room)
        return response

    async def Attend(
        self, request_iterator: AsyncIterator[pb.AttendRequest], context: Any
    ) -> AsyncIterator[pb.AttendResponse]:
        """Know that a worker is there; tell it what to stop, and what was leased to it for slots that it offers."""
        request = await anext(aiter(request_iterator), pb.AttendRequest())
        try:
            _check(request.owner, 0)
            queues = _queues(request.queues)
            namespace = namespace_of(request.namespace)
        except Refused as error:
            await refuse(context, error)
        engine, owner, stream = self._engine, request.owner, _Stream()
        with (
            engine.presence.attend(namespace, owner, queues),
            engine.stop_orders.of(owner, stream.put),
            engine.offers.of(owner, [(namespace, queue) for queue in queues], stream.put) as offering,
        ):
            _hear_one(request, offering, engine.offers)
            hearing = asyncio.get_running_loop().create_task(_hear(request_iterator, offering, engine.offers))
            try:
                await context.send_initial_metadata(())  # the worker knows by it that it is heard
                while True:
                    for response in _attend_responses(await stream.get(), messages.work_bytes(self._message_limit)):
                        yield response
            finally:
                hearing.cancel()
                for grants in stream.unsent():
                    engine.offers.lose(owner, grants)


class _Stream:
    """What waits to be sent to a worker that attends."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Stop | Handed | Withdrawn] = asyncio.Queue(STREAM)

    def put(self, told: Stop | Handed | Withdrawn) -> bool:
        """False: too much waits already."""
        if self._queue.full():
            return False
        self._queue.put_nowait(told)
        return True

    async def get(self) -> Stop | Handed | Withdrawn:
        return await self._queue.get()

    def unsent(self) -> Iterator[list[tuple[int, Granted]]]:
        """Grants that the worker never hears of."""
        while not self._queue.empty():
            if isinstance(told := self._queue.get_nowait(), Handed):
                yield told.grants


async def _hear(requests: AsyncIterator[pb.AttendRequest], offering: Offering, offers: Offers) -> None:
    """Take a worker's offers until it has nothing more to say, or the stream is over."""
    with suppress(grpc.RpcError, Refusal):
        async for request in requests:
            _hear_one(request, offering, offers)


def _hear_one(request: pb.AttendRequest, offering: Offering, offers: Offers) -> None:
    if request.HasField("offer"):
        offers.hear(offering, request.offer.number, request.offer.slots, request.offer.taken)


def _attend_responses(told: Stop | Handed | Withdrawn, room_bytes: int) -> Iterator[pb.AttendResponse]:
    match told:
        case Withdrawn(offer):
            yield pb.AttendResponse(offer=offer)
        case Handed(offer, grants):
            response, room = pb.AttendResponse(offer=offer), messages.Room(room_bytes)
            for attempt, grant in grants:
                size = len(grant.input) + len(grant.checkpoint)
                if not room.takes(size):
                    yield response
                    response, room = pb.AttendResponse(offer=offer), messages.Room(room_bytes - size)
                _put_next(response.granted.add(), attempt, grant)
            yield response
        case run_id, path, attempt:
            yield pb.AttendResponse(task_id=task_id(run_id, path), attempt=attempt)


def _check(owner: str, size: int) -> None:
    if not is_short(owner):
        raise InvalidOwner
    if size > ITEMS:
        raise BatchTooLarge(size=str(size), limit=str(ITEMS))


def _read(items: Sequence[_Item], parse: Callable[[_Item], _Ask]) -> list[_Ask | Refusal]:
    """Parse each item; a malformed one becomes its refusal."""
    parsed: list[_Ask | Refusal] = []
    for item in items:
        try:
            parsed.append(parse(item))
        except MalformedId:
            parsed.append(TaskNotFound(task_id=item.task_id[:200]))
        except Refusal as refusal:
            parsed.append(bare(refusal))
    return parsed


async def _answer(asks: Sequence[object], ask: Callable[[Any], Any]) -> list[object]:
    """Ask for those that are well-formed; put all answers in order.

    Raises:
        StoreUnavailable, Overloaded: the whole call is to be repeated.
    """
    good = [(place, item) for place, item in enumerate(asks) if not isinstance(item, Refusal)]
    answers = list(asks)
    for (place, _), answer in zip(good, await ask([item for _, item in good]), strict=True):
        if isinstance(answer, StoreUnavailable | Overloaded):
            raise answer
        answers[place] = answer
    return answers


def _lease_ask(item: pb.LeaseItem, owner: str) -> LeaseAsk:
    run_id, path = parse_task_id(item.task_id)
    return LeaseAsk(
        run_id=run_id,
        path=path,
        attempt=item.attempt,
        owner=owner,
        grant_key=_grant_key(item.grant_key, "grant_key"),
        trace=traceparent_of(item.traceparent),
    )


def _grant_key(given: str, field: str) -> str:
    if not given or len(given) > GRANT_KEY_LIMIT or "\x00" in given:
        raise InvalidArgument(field=field, problem=f"it must have 1 to {GRANT_KEY_LIMIT} characters and no NUL")
    return given


def _renew_ask(item: pb.RenewItem, owner: str) -> RenewAsk:
    run_id, path = parse_task_id(item.task_id)
    beat = _beat(item.beat) if item.HasField("beat") else None
    return RenewAsk(run_id=run_id, path=path, attempt=item.attempt, owner=owner, beat=beat)


def _beat(beat: pb.Beat) -> Beat:
    percent = beat.percent if beat.HasField("percent") else None
    if percent is not None and not 0 <= percent <= 100:  # noqa: PLR2004 - or no number at all
        raise InvalidArgument(field="percent", problem="it must be between 0 and 100")
    progress_age = duration_ms(beat.progress_age, "progress_age") if beat.HasField("progress_age") else None
    return Beat(
        age_ms=duration_ms(beat.age, "age"),
        progress_age_ms=progress_age,
        percent=percent,
        message=storable_text(beat.message, BEAT_MESSAGE_LIMIT) if beat.HasField("message") else None,
        checkpoint=_checkpoint(beat.checkpoint) or None,
    )


def _checkpoint(given: bytes) -> bytes:
    return accept(given, "checkpoint", limit=CHECKPOINT_LIMIT).raw if given else b""


class _Reporter(NamedTuple):
    """Who reports, and what it reads: a next task must be for one of its queues."""

    owner: str
    namespace: str
    queues: frozenset[str]
    next_bytes: int  # of each next task, so that all fit into one answer


def _reporter(request: pb.ReportRequest, room: int) -> _Reporter:
    wishes = sum([bool(item.next_grant_key) for item in request.items])
    return _Reporter(request.owner, namespace_of(request.namespace), _queues(request.queues), room // max(wishes, 1))


def _queues(given: Sequence[str]) -> frozenset[str]:
    if len(given) > QUEUES:
        raise InvalidArgument(field="queues", problem=f"there may be at most {QUEUES}")
    return frozenset(given)


def _report(item: pb.ReportItem, reporter: _Reporter) -> Report:
    run_id, path = parse_task_id(item.task_id)
    if item.attempt < 1:
        raise InvalidArgument(field="attempt", problem="it must be a number from 1")
    make = _OUTCOMES.get(item.WhichOneof("outcome") or "", _no_outcome)
    return make(
        item,
        reporter,
        run_id=run_id,
        path=path,
        attempt=item.attempt,
        owner=reporter.owner,
        trace=traceparent_of(item.traceparent),
    )


def _no_outcome(_item: pb.ReportItem, _reporter: _Reporter, **_place: Any) -> Report:
    raise InvalidArgument(field="outcome", problem="set one of succeeded, failed, cancelled, released")


def _succeeded(item: pb.ReportItem, reporter: _Reporter, **place: Any) -> Report:
    wish = None
    if item.next_grant_key and reporter.queues:
        grant_key = _grant_key(item.next_grant_key, "next_grant_key")
        wish = Wish(
            grant_key=grant_key,
            namespace=reporter.namespace,
            queues=reporter.queues,
            room=reporter.next_bytes,
        )
    return ReportSucceeded(**place, output=accept(item.succeeded.output, "output"), wish=wish)


def _failed(item: pb.ReportItem, _reporter: _Reporter, **place: Any) -> Report:
    failed = item.failed
    retry_after_ms = duration_ms(failed.retry_after, "retry_after") if failed.HasField("retry_after") else None
    return ReportFailed(
        **place,
        failure=_failure(failed),
        final=failed.final,
        retry_after_ms=retry_after_ms,
        checkpoint=_checkpoint(item.checkpoint),
    )


def _cancelled(_item: pb.ReportItem, _reporter: _Reporter, **place: Any) -> Report:
    return ReportCancelled(**place)


def _released(item: pb.ReportItem, _reporter: _Reporter, **place: Any) -> Report:
    return ReportReleased(**place, checkpoint=_checkpoint(item.checkpoint))


_OUTCOMES: Mapping[str, Callable[..., Report]] = {
    "succeeded": _succeeded,
    "failed": _failed,
    "cancelled": _cancelled,
    "released": _released,
}


def _failure(failed: pb.Failed) -> Failure:
    return Failure(
        failure_class=_CLASS.get(failed.failure_class, FailureClass.EXEC_FAILED),
        type=storable_text(failed.type, 200) or "Error",
        message=storable_text(failed.message, MESSAGE_LIMIT),
        trace=storable_text(failed.trace, TRACE_LIMIT),
        details=accept_object(failed.details, "details", limit=DETAILS_LIMIT),
    )


# Results are filled in where they stand: a message that is put into another is copied.


def _put_lease(result: pb.LeaseResult, answer: object, room: messages.Room) -> None:
    if isinstance(answer, Granted):
        if not room.takes(len(answer.input) + len(answer.checkpoint)):  # it is asked for again, by the same grant_key
            result.answer = pb.LEASE_ANSWER_BUSY
            return
        result.answer = pb.LEASE_ANSWER_GRANTED
        _put_grant(result.grant, answer)
    elif isinstance(answer, Answer):
        result.answer = _LEASE[answer]
    else:
        result.answer = pb.LEASE_ANSWER_REFUSED
        result.refusal.CopyFrom(item_refusal(_error(answer)))


def _put_next(task: pb.NextTask, attempt: int, granted: Granted) -> None:
    task.task_id = task_id(granted.run_id, granted.path)
    task.attempt = attempt
    _put_grant(task.grant, granted)


def _put_grant(grant: pb.Grant, granted: Granted) -> None:
    grant.lease.seconds = granted.lease.days * 86_400 + granted.lease.seconds
    grant.lease.nanos = granted.lease.microseconds * 1_000
    grant.handler = granted.handler
    grant.input = granted.input
    grant.idempotency_key = granted.idempotency_key
    grant.traceparent = granted.trace
    grant.run_id = run_id_text(granted.run_id)
    grant.path = granted.path
    grant.try_number = granted.try_number
    grant.workflow = granted.workflow
    grant.namespace = granted.namespace
    grant.checkpoint = granted.checkpoint


def _renew_result(answer: object) -> pb.RenewResult:
    if isinstance(answer, Renewed):
        return pb.RenewResult(answer=pb.RENEW_ANSWER_RENEWED, lease=answer.lease, cancel=answer.cancel)
    if isinstance(answer, Answer):
        return pb.RenewResult(answer=_RENEW[answer])
    return pb.RenewResult(answer=pb.RENEW_ANSWER_REFUSED, refusal=item_refusal(_error(answer)))


def _put_report(result: pb.ReportResult, answer: object, room: messages.Room) -> None:
    if isinstance(answer, Answer):
        result.answer = _REPORT[answer]
    elif isinstance(answer, Continued):
        result.answer = _REPORT[answer.answer]
        if not room.takes(
            len(answer.grant.input) + len(answer.grant.checkpoint)
        ):  # reports that come again, among more
            return
        _put_next(result.next, answer.attempt, answer.grant)
    else:
        result.answer = pb.REPORT_ANSWER_REFUSED
        result.refusal.CopyFrom(item_refusal(_error(answer)))


def _error(answer: object) -> Exception:
    if not isinstance(answer, Exception):
        raise TypeError(f"not an answer: {answer!r}")
    return answer
