"""When leases are due to be renewed, and what an answer does to each: by hand, without the thread."""

from __future__ import annotations

import math
import time
from typing import Any

import grpc
import pytest

from headway.api.tasks.v1 import tasks_pb2, tasks_pb2_grpc
from headway.worker._context import Lease
from headway.worker._delivery import Delivery
from headway.worker._renewing import RenewalEvents, Renewals

LOST = tasks_pb2.RenewResult(answer=tasks_pb2.RENEW_ANSWER_LEASE_LOST)


class Heard:
    """Renewals that nobody runs, and what they tell."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.renewals = Renewals(
            channel=self._no_channel,
            owner="w",
            events=RenewalEvents(
                cancel=lambda delivery: self.told.append(f"cancel {delivery.task_id}"),
                lost=self._lost,
                renewed=lambda delivery: self.told.append(f"renewed {delivery.task_id}"),
                failed=lambda fault: self.told.append(f"failed {fault}"),
                answered=lambda: None,
            ),
        )

    def hold(self, task_id: str, asked_at: float, duration: float = 30.0) -> Delivery:
        """A lease that was asked for then."""
        lease = Lease(deadline=asked_at + duration, duration=duration)
        delivery = Delivery(task_id=task_id, attempt=1, grant_key="k", lease=lease)
        self.renewals.add(delivery, lease)
        return delivery

    def due(self, now: float) -> list[str]:
        return [delivery.task_id for delivery in self.renewals._look(now)[1]]

    def _no_channel(self) -> Any:
        raise AssertionError("nothing is sent")

    def _lost(self, delivery: Delivery, /, *, answered: bool) -> None:
        self.told.append(f"lost {delivery.task_id} {answered}")


class Sent:
    """A stub of which each call is kept, and what calls back once it is answered."""

    def __init__(self) -> None:
        self.timeouts: list[float] = []
        self.Renew = self

    def future(self, _request: tasks_pb2.RenewRequest, timeout: float) -> Any:
        self.timeouts.append(timeout)
        return self

    def add_done_callback(self, _callback: object) -> None: ...


class Answered:
    """A call that is done."""

    def __init__(self, *results: tasks_pb2.RenewResult) -> None:
        self._response = tasks_pb2.RenewResponse(results=results)

    def result(self) -> tasks_pb2.RenewResponse:
        return self._response


class Broken:
    """A call that has failed."""

    def result(self) -> tasks_pb2.RenewResponse:
        raise grpc.RpcError


def extended(seconds: int = 30, *, cancel: bool = False) -> tasks_pb2.RenewResult:
    result = tasks_pb2.RenewResult(answer=tasks_pb2.RENEW_ANSWER_RENEWED, cancel=cancel)
    result.lease.seconds = seconds
    return result


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_a_lease_is_due_after_a_third_of_it_and_what_is_due_soon_after_goes_along(heard: Heard) -> None:
    for task_id, asked_at in (("first", 100.0), ("soon", 102.0), ("later", 104.0)):
        heard.hold(task_id, asked_at)

    assert heard.due(109.9) == []
    assert heard.due(110.1) == ["first", "soon"]
    assert heard.due(110.2) == []  # they are under way
    assert heard.due(114.1) == ["later"]


def test_what_is_under_way_is_watched_until_its_lease_runs_out(heard: Heard) -> None:
    now = time.monotonic()
    delivery = heard.hold("t1", now - 11.0)
    assert heard.due(now) == ["t1"]
    waits: list[float | None] = []
    heard.renewals._changed.wait = waits.append  # type: ignore[method-assign]

    with heard.renewals._lock:
        heard.renewals._sleep()

    assert len(waits) == 1
    assert 18.0 < (waits[0] or math.inf) <= 19.0
    assert heard.renewals._look(now + 19.1) == ([delivery], [])


@pytest.mark.parametrize(("duration", "timeout"), [(0.3, 1.0), (30.0, 10.0)])
def test_a_call_has_a_third_of_the_shortest_lease_and_a_second_at_least(
    heard: Heard, duration: float, timeout: float
) -> None:
    batch = [heard.hold("t1", 0.0, duration), heard.hold("t2", 0.0, 60.0)]
    sent: Any = Sent()

    heard.renewals._send(sent, batch)

    assert sent.timeouts == [pytest.approx(timeout)]


def test_a_cancel_that_is_told_again_is_passed_on_once(heard: Heard) -> None:
    delivery = heard.hold("t1", 100.0)

    for _ in range(2):
        heard.renewals._apply(delivery, extended(cancel=True), 0, 110.0)

    assert heard.told == ["renewed t1", "cancel t1", "renewed t1"]


def test_what_an_answer_leaves_out_is_asked_for_again_soon(heard: Heard) -> None:
    now = time.monotonic()
    batch = [heard.hold("t1", now - 11.0), heard.hold("t2", now - 11.0)]
    assert heard.due(now) == ["t1", "t2"]
    done: Any = Answered(extended())

    heard.renewals._answered(batch, [0, 0], now, done)

    assert heard.due(now + 2.0) == ["t2"]


def test_a_lease_that_is_no_longer_held_cannot_be_lost(heard: Heard) -> None:
    gone, held = heard.hold("gone", 100.0), heard.hold("held", 100.0)
    heard.renewals.remove(gone)

    for delivery in (gone, held):
        heard.renewals._apply(delivery, LOST, 0, 110.0)

    assert heard.told == ["lost held True"]


def unavailable() -> grpc.RpcError:
    """What a call to where nobody listens ends with."""
    with grpc.insecure_channel("127.0.0.1:1") as channel, pytest.raises(grpc.RpcError) as raised:
        tasks_pb2_grpc.TasksServiceStub(channel).Renew(tasks_pb2.RenewRequest(), timeout=10)
    return raised.value


def test_a_call_that_found_nobody_is_repeated_for_what_is_still_held(heard: Heard) -> None:
    now = time.monotonic()
    batch = [heard.hold("gone", now - 11.0), heard.hold("held", now - 11.0)]
    assert heard.due(now) == ["gone", "held"]
    heard.renewals.remove(batch[0])

    heard.renewals._call_failed(batch, unavailable())

    assert heard.due(now + 18.0) == ["held"]


def test_a_call_that_was_refused_is_not_repeated(heard: Heard) -> None:
    now = time.monotonic()
    batch = [heard.hold("t1", now - 11.0)]
    assert heard.due(now) == ["t1"]

    heard.renewals._call_failed(batch, grpc.RpcError())

    assert heard.due(now + 18.0) == []


def test_calls_that_fail_because_all_is_over_are_not_told_of(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    batch = [heard.hold("t1", 100.0)]
    done: Any = Broken()

    heard.renewals._answered(batch, [0], 110.0, done)
    heard.renewals.stop()
    heard.renewals._answered(batch, [0], 110.0, done)

    assert len(caplog.records) == 1


def test_what_failed_is_tried_again_at_once_when_the_coordinator_is_back(heard: Heard) -> None:
    now = time.monotonic()
    failed, under_way = heard.hold("failed", now - 11.0), heard.hold("under way", now - 11.0)
    assert heard.due(now) == ["failed", "under way"]
    heard.renewals._call_failed([failed], unavailable())
    heard.renewals._pauses[under_way] = heard.renewals._pauses[failed]
    heard.renewals._due_at[failed] = now + 15.0

    heard.renewals.hurry()

    assert heard.due(time.monotonic()) == ["failed"]
    assert [told[: len("failed UNAVAILABLE: ")] for told in heard.told] == ["failed UNAVAILABLE: "]
