"""Parts of the relay by hand: what each remembers, in which order it asks, and what it makes of answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from headway.api.events.v1 import events_pb2
from headway.relay import handovers
from headway.relay.broker import Identity
from headway.relay.coordinator import Coordinator, CoordinatorRefusedError, Delivery, Fate, Sweep
from headway.relay.handovers import MOST_HANDOVERS, HandoverCarrier
from headway.relay.listening import COUNT_EVERY, Poll, waking
from headway.relay.loss import SLACK_SECONDS, LossWatch, ProgressSweep
from headway.relay.messages import Dispatch, Handover
from headway.relay.publishing import Lags, Publisher
from headway.relay.store import Backlog, Unpublished
from headway.relay.telemetry import Telemetry
from headway.relay.wakes import Wakes

HERE = Identity(epoch="e1", process="p1")
LOST = Identity(epoch=None, process="p1")


class Longest(random.Random):
    """Every pause is as long as it may be."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


class Broker:
    """A broker by script, which keeps what it was asked."""

    def __init__(self, *identities: Identity, refuses: Sequence[bool] = (), sets_epoch: Sequence[bool] = ()) -> None:
        self.asked: list[str] = []
        self.sweepers: list[str] = []
        self.fault: BaseException | None = None
        self._identities = list(identities)
        self._refuses = iter(refuses)
        self._sets_epoch = iter(sets_epoch)

    async def identity(self) -> Identity:
        self.asked.append("identity")
        return self._identities.pop(0) if len(self._identities) > 1 else self._identities[0]

    async def ensure_groups(self) -> None:
        self.asked.append("ensure_groups")
        if self.fault is not None:
            raise self.fault

    def forget(self) -> None:
        self.asked.append("forget")

    async def queues(self) -> set[str]:
        return {"default/work"}

    async def undelivered_ages(self, names: Sequence[str]) -> dict[str, float]:
        self.asked.append("undelivered_ages")
        return dict.fromkeys(names, 5.0)

    async def publish(self, messages: dict[str, Any]) -> dict[str, Exception]:
        if self.fault is not None:
            raise self.fault
        return dict.fromkeys(messages, ValueError("no")) if next(self._refuses) else {}

    async def claim_sweep(self, sweeper: str, _seconds: float) -> bool:
        self.sweepers.append(sweeper)
        return True

    async def keep_sweep(self, _sweeper: str, _seconds: float) -> bool:
        return True

    async def set_epoch(self, _sweeper: str) -> bool:
        return next(self._sets_epoch)


class Outbox:
    """An outbox by script."""

    def __init__(self, broker: Broker | None = None, **oldest: float) -> None:
        self.counts = 0
        self._broker = broker
        self._oldest = oldest

    async def unpublished(self, _most: int) -> Unpublished:
        if self._broker is not None:
            self._broker.asked.append("unpublished")
        return Unpublished(behind=False, oldest_seconds=self._oldest)

    async def depth(self) -> int:
        self.counts += 1
        return 7

    async def backlog(self) -> list[Backlog]:
        return [
            Backlog(bucket=3, oldest_seconds=1.0, handover_seconds=None),
            Backlog(bucket=4, oldest_seconds=None, handover_seconds=None),
        ]


def dispatch(age: float = 2.0) -> Dispatch:
    return Dispatch(uuid4(), uuid4(), "default", "step", 1, "work", "do.it", "", age)


def test_the_worst_lag_stays_until_the_queue_was_empty() -> None:
    lags = Lags()
    for seconds in (3.0, 5.0, 1.0):
        lags.note("default/work", seconds)
    assert (lags.worst("default/work"), lags.worst("default/other")) == (5.0, 0.0)

    lags.clear("default/work")

    assert lags.worst("default/work") == 0.0


def progress(broker: Broker, outbox: Outbox, lags: Lags | None = None) -> ProgressSweep:
    given: Any = SimpleNamespace(broker=broker, outbox=outbox, coordinator=None)
    return ProgressSweep(
        broker=given.broker, outbox=given.outbox, coordinator=given.coordinator, lags=lags or Lags(),
        telemetry=Telemetry(tracing=False), interval=1.0, clock=lambda: 0.0,
    )  # fmt: skip


async def test_the_outbox_is_read_before_the_broker_is_measured() -> None:
    broker = Broker(HERE)

    ages = await progress(broker, Outbox(broker)).delivered_ages()

    assert ages == {"default/work": 5.0 + SLACK_SECONDS}
    assert broker.asked == ["identity", "unpublished", "undelivered_ages", "identity"]


async def test_of_a_broker_that_was_replaced_while_it_was_measured_nothing_is_said() -> None:
    broker = Broker(HERE, Identity(epoch="e2", process="p2"))

    assert await progress(broker, Outbox()).delivered_ages() == {}


def test_how_late_was_published_is_forgotten_once_all_is_delivered() -> None:
    lags = Lags()
    lags.note("default/work", 60.0)
    sweep = progress(Broker(HERE), Outbox(), lags)

    ages = [sweep._task_age("default/work", undelivered, None) for undelivered in (5.0, 0.0, 5.0)]

    assert ages == [65.0 + SLACK_SECONDS, 0.0, 5.0 + SLACK_SECONDS]


class Sweeping:
    """A coordinator that sweeps in two pages."""

    def __init__(self) -> None:
        self.cursors: list[str] = []

    async def sweep_everything(self, cursor: str) -> Sweep:
        self.cursors.append(cursor)
        return Sweep(dispatched=1, cursor="" if cursor else "next")


def watch(broker: Broker) -> tuple[LossWatch, Sweeping]:
    coordinator = Sweeping()
    names = iter(["s1", "s2", "s3"])
    given: Any = SimpleNamespace(broker=broker, coordinator=coordinator)
    made = LossWatch(
        broker=given.broker, coordinator=given.coordinator, telemetry=Telemetry(tracing=False),
        make_sweeper=lambda: next(names),
    )  # fmt: skip
    return made, coordinator


async def test_another_broker_is_set_up_once_and_again_when_that_failed() -> None:
    broker = Broker(HERE)
    loss, _ = watch(broker)
    broker.fault = OSError("away")
    with pytest.raises(OSError, match="away"):
        await loss.step()
    broker.fault = None

    for _ in range(3):
        await loss.step()

    assert broker.asked == [*["identity", "forget", "ensure_groups"] * 2, "identity", "identity"]


async def test_a_sweep_that_was_not_proved_goes_on_under_its_name_and_the_next_loss_has_another() -> None:
    broker = Broker(LOST, sets_epoch=[False, True, True])
    loss, coordinator = watch(broker)

    for _ in range(3):
        await loss.step()
    await asyncio.sleep(0)

    assert broker.sweepers == ["s1", "s1", "s2"]
    assert coordinator.cursors == ["", "next"] * 3
    assert len(asyncio.all_tasks()) == 1  # nobody keeps the claim of a sweep that is over


async def test_a_poll_wakes_for_dispatches_and_for_hand_overs_and_counts_now_and_then() -> None:
    outbox: Any = Outbox()
    wakes = [Wakes(), Wakes()]
    poll = Poll(outbox=outbox, wakes=wakes, telemetry=Telemetry(tracing=False))

    for _ in range(COUNT_EVERY + 1):
        await poll.step()

    assert outbox.counts == 2
    assert [await each.take() for each in wakes] == [3, 3]
    assert [[*each._due] for each in wakes] == [[], []]


def test_a_notification_that_names_no_bucket_wakes_for_none(caplog: pytest.LogCaptureFixture) -> None:
    wakes = Wakes()
    notified = waking(wakes)

    notified("x" * 200)
    notified("7")

    assert [*wakes._due] == [7]
    assert [vars(record)["payload"] for record in caplog.records] == ["x" * 100]


def delivery() -> Delivery:
    return Delivery(request_id=str(uuid4()), run_id="r", type="SignalReceived", event=b"{}")


async def test_fewer_answers_than_hand_overs_say_nothing_about_any() -> None:
    channel: Any = SimpleNamespace(unary_unary=lambda *_, **__: None)
    coordinator = Coordinator(channel)

    async def deliver(_request: events_pb2.DeliverRequest, **_: float) -> events_pb2.DeliverResponse:
        return events_pb2.DeliverResponse(answers=[events_pb2.DELIVER_ANSWER_APPLIED])

    events: Any = SimpleNamespace(Deliver=deliver)
    coordinator._events = events

    assert await coordinator.deliver([delivery()]) == [Fate.DONE]
    with pytest.raises(CoordinatorRefusedError, match="1 answers to 2 hand-overs"):
        await coordinator.deliver([delivery(), delivery()])


async def test_calls_shrink_while_they_fail_as_a_whole_and_grow_again() -> None:
    refuses = iter([True, True, False, True])

    class Choking:
        async def deliver(self, deliveries: Sequence[Delivery]) -> list[Fate]:
            if next(refuses):
                raise CoordinatorRefusedError("no")
            return [Fate.DONE] * len(deliveries)

    given: Any = SimpleNamespace(outbox=None, coordinator=Choking(), wakes=Wakes())
    carrier = HandoverCarrier(
        outbox=given.outbox, coordinator=given.coordinator, wakes=given.wakes, telemetry=Telemetry(tracing=False),
        chance=Longest(), clock=lambda: 0.0,
    )  # fmt: skip
    sizes: list[int] = []
    fates: list[list[Fate]] = []
    for count in (2, 2, 2, 1):
        fates.append(await carrier._deliver([delivery() for _ in range(count)]))
        sizes.append(carrier._size.size)

    assert sizes == [MOST_HANDOVERS // 2, MOST_HANDOVERS // 4, MOST_HANDOVERS // 2, MOST_HANDOVERS // 4]
    assert fates == [[], [], [Fate.DONE, Fate.DONE], [Fate.KEPT]]


class Claims:
    """Hand-overs that can be claimed, as an outbox gives them."""

    def __init__(self, count: int) -> None:
        body = b'{"type": "SignalReceived", "event": {}}'
        self.rows = [Handover(outbox_id=uuid4(), run_id=uuid4(), body=body, trace="") for _ in range(count)]
        self.deleted: list[UUID] = []

    @asynccontextmanager
    async def claim_handovers(self, *_: object, **__: object) -> AsyncIterator[Claims]:
        yield self

    async def delete(self, ids: Sequence[UUID]) -> None:
        self.deleted += ids


class Deciding:
    """A coordinator that gives every hand-over but the first its fate at once."""

    def __init__(self, first: Fate) -> None:
        self._first = first

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[Fate]:
        return [self._first, *[Fate.DONE] * (len(deliveries) - 1)]


@pytest.mark.parametrize("first", [Fate.DONE, Fate.LATER, Fate.KEPT])
@pytest.mark.parametrize(("count", "is_again"), [(MOST_HANDOVERS, True), (3, False)])
async def test_a_full_batch_is_followed_by_a_look_and_what_stays_is_left_alone_for_a_while(
    first: Fate, count: int, *, is_again: bool
) -> None:
    claims = Claims(count)
    given: Any = SimpleNamespace(outbox=claims, coordinator=Deciding(first))
    carrier = HandoverCarrier(
        outbox=given.outbox, coordinator=given.coordinator, wakes=Wakes(), telemetry=Telemetry(tracing=False),
        chance=Longest(), clock=lambda: 0.0,
    )  # fmt: skip

    assert await carrier.deliver_batch(0) is is_again

    stays = [] if first is Fate.DONE else [claims.rows[0].outbox_id]
    assert claims.deleted == [row.outbox_id for row in claims.rows if row.outbox_id not in stays]
    assert carrier._parked.waiting() == stays


@pytest.mark.parametrize(("most_bytes", "fit"), [(5, 2), (1, 1)])
async def test_of_what_does_not_fit_into_a_call_the_rest_is_looked_at_at_once_and_what_cannot_be_read_later(
    monkeypatch: pytest.MonkeyPatch, most_bytes: int, fit: int
) -> None:
    monkeypatch.setattr(handovers, "MOST_BYTES", most_bytes)
    claims = Claims(3)
    claims.rows.insert(0, Handover(outbox_id=uuid4(), run_id=uuid4(), body=b"{", trace=""))
    given: Any = SimpleNamespace(outbox=claims, coordinator=Deciding(Fate.DONE))
    carrier = HandoverCarrier(
        outbox=given.outbox, coordinator=given.coordinator, wakes=Wakes(), telemetry=Telemetry(tracing=False),
        chance=Longest(), clock=lambda: 0.0,
    )  # fmt: skip

    assert await carrier.deliver_batch(0)

    assert claims.deleted == [row.outbox_id for row in claims.rows[1 : 1 + fit]]
    assert carrier._parked.waiting() == [claims.rows[0].outbox_id]


def publisher(broker: Broker) -> Publisher:
    given: Any = SimpleNamespace(outbox=None, broker=broker)
    return Publisher(
        outbox=given.outbox, broker=given.broker, wakes=Wakes(), handovers=Wakes(), telemetry=Telemetry(tracing=False),
        batch=10, chance=Longest(), clock=lambda: 0.0,
    )  # fmt: skip


async def test_a_queue_that_was_taken_again_begins_anew_with_the_shortest_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    publishing = publisher(Broker(HERE, refuses=[True, True, False, True]))
    rows = [dispatch(), dispatch(9.0), dispatch()]

    kept = [await publishing._publish(rows) for _ in range(4)]

    every = {row.outbox_id for row in rows}
    assert kept == [every, every, set[UUID](), every]
    assert [vars(record)["retry_in_seconds"] for record in caplog.records] == [1.0, 2.0, 1.0]
    assert publishing.lags.worst("default/work") == 9.0


@pytest.mark.parametrize("fault", [OSError("away"), asyncio.CancelledError()], ids=["a fault", "a drain"])
async def test_what_was_set_up_is_distrusted_however_an_exchange_was_broken_off(fault: BaseException) -> None:
    broker = Broker(HERE)
    broker.fault = fault

    with pytest.raises(type(fault)):
        await publisher(broker)._publish([dispatch()])

    assert broker.asked == ["forget"]
