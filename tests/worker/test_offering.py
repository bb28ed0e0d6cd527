"""An idle worker offers slots, and runs what it is leased for them; what waits in the queues goes first."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import pytest

from headway.api.tasks.v1 import tasks_pb2
from headway.worker import _offering
from headway.worker._ledger import Ledger
from headway.worker._offering import Offering
from tests.worker.conftest import Bench, nothing


def steps(bench: Bench) -> tuple[list[str], asyncio.Event]:
    """A handler that notes what it was given and then waits for the event."""
    begun: list[str] = []
    go_on = asyncio.Event()

    @bench.registry.handler("step")
    async def step(name: str) -> None:
        begun.append(name)
        await go_on.wait()

    return begun, go_on


async def until_free(bench: Bench, stream: int = 1) -> tasks_pb2.Offer:
    """Wait until slots are offered."""
    await bench.coordinator.until(
        lambda: len(bench.coordinator.offers) >= stream and any(o.slots for o in bench.coordinator.offers[stream - 1])
    )
    return bench.coordinator.offers[stream - 1][-1]


async def test_an_idle_worker_offers_half_of_its_slots_and_runs_what_it_is_leased(bench: Bench) -> None:
    begun, go_on = steps(bench)
    go_on.set()
    for name in ("a", "b"):
        bench.coordinator.offer(name, "step", name)
    async with bench.worker(concurrency=9):
        offer = await until_free(bench)
        bench.coordinator.push("a", "b")
        await bench.coordinator.until_reported("a", "b")

    assert (offer.number, offer.slots, offer.taken) == (1, 4, 0)
    assert sorted(begun) == ["a", "b"]
    assert bench.coordinator.report_of("a").HasField("succeeded")
    assert bench.coordinator.leases == []
    assert bench.left() == bench.pending() == 0


async def test_what_was_taken_is_offered_anew_once_it_is_free(bench: Bench) -> None:
    _, go_on = steps(bench)
    go_on.set()
    bench.coordinator.offer("a", "step", "a")
    async with bench.worker(concurrency=2):
        assert (await until_free(bench)).slots == 1
        bench.coordinator.push("a")
        again = await bench.coordinator.until_offered(offers=2)

    assert (again.number, again.slots, again.taken) == (2, 1, 1)


async def test_an_offer_is_made_anew_before_it_is_no_good(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_offering, "_ANEW", 0.1)
    bench.registry.handler("step")(nothing)
    async with bench.worker():
        again = await bench.coordinator.until_offered(offers=3)

    assert (again.number, again.slots, again.taken) == (3, 50, 0)


@pytest.mark.parametrize(("eager", "slots"), [(False, 10), (True, 1)])
async def test_who_does_not_want_it_or_has_but_one_slot_offers_nothing(
    bench: Bench, *, eager: bool, slots: int
) -> None:
    begun, go_on = steps(bench)
    go_on.set()
    async with bench.worker(settings={"eager": eager}, concurrency=slots):
        await bench.coordinator.until(lambda: bool(bench.coordinator.attending))
        await asyncio.to_thread(bench.blocked_reader)
        await asyncio.sleep(_offering._QUIET * 5)
        bench.dispatch("a", "step", "a")
        await bench.coordinator.until_reported("a")

    assert bench.coordinator.offers == [[]]
    assert begun == ["a"]


async def test_no_more_run_at_a_time_than_there_are_slots_wherever_they_come_from(bench: Bench) -> None:
    begun, go_on = steps(bench)
    for name in ("a", "b", "c", "d"):
        bench.coordinator.offer(name, "step", name)
    async with bench.worker(concurrency=4):
        assert (await until_free(bench)).slots == 2
        bench.coordinator.push("a", "b")
        for name in ("c", "d", "e", "f"):
            bench.dispatch(name, "step", name)
        await bench.coordinator.until(lambda: len(bench.coordinator.leases) >= 2)
        await asyncio.sleep(0.2)
        assert len(begun) == 4
        assert len(bench.coordinator.leases) == 2
        go_on.set()
        await bench.coordinator.until_reported("a", "b", "c", "d", "e", "f")


async def test_what_is_offered_is_withdrawn_when_the_queues_fill_the_other_slots(bench: Bench) -> None:
    begun, go_on = steps(bench)
    async with bench.worker(concurrency=4):
        await until_free(bench)
        for name in ("a", "b", "c", "d"):
            bench.dispatch(name, "step", name)
        async with asyncio.timeout(10):  # the stream, and what it holds, would end by itself some time
            await bench.coordinator.until(lambda: len(bench.coordinator.leases) == 4)
        offers = list(bench.coordinator.offers[0])
        go_on.set()
        await bench.coordinator.until_reported("a", "b", "c", "d")

    assert [offer.slots for offer in offers] == [2, 0]
    assert sorted(begun) == ["a", "b", "c", "d"]


async def test_slots_whose_withdrawal_is_not_answered_stay_kept(bench: Bench) -> None:
    """An attempt may be under way to each."""
    begun, go_on = steps(bench)
    bench.coordinator.answers_withdrawals = False
    for name in ("x", "y"):
        bench.coordinator.offer(name, "step", name)
    async with bench.worker(concurrency=4):
        await until_free(bench)
        for name in ("a", "b", "c", "d"):
            bench.dispatch(name, "step", name)
        withdrawal = await bench.coordinator.until_offered(offers=2)
        bench.coordinator.push("x", "y", offer=1)
        await asyncio.sleep(0.2)
        assert sorted(begun) == ["a", "b", "x", "y"]
        bench.coordinator.stop_orders.put(tasks_pb2.AttendResponse(offer=withdrawal.number))
        go_on.set()
        await bench.coordinator.until_reported("a", "b", "c", "d", "x", "y")


async def test_an_attempt_that_comes_twice_runs_once(bench: Bench) -> None:
    begun, go_on = steps(bench)
    go_on.set()
    for name in ("a", "b"):
        bench.coordinator.offer(name, "step", name)
    async with bench.worker():
        await until_free(bench)
        bench.coordinator.push("a")
        bench.coordinator.push("a")
        await bench.coordinator.until_reported("a")
        bench.coordinator.push("a", "b")
        await bench.coordinator.until_reported("b")

    assert begun == ["a", "b"]
    assert [report.task_id for report in bench.coordinator.reports] == ["a", "b"]


async def test_a_lease_counts_from_when_its_offer_was_sent(bench: Bench) -> None:
    begun, go_on = steps(bench)
    go_on.set()
    bench.coordinator.lease_seconds = 0.2
    bench.coordinator.offer("late", "step", "late")
    bench.coordinator.lease_seconds = 30
    bench.coordinator.offer("b", "step", "b")
    async with bench.worker():
        offer = await until_free(bench)
        await asyncio.sleep(0.3)
        bench.coordinator.push("late", offer=offer.number)
        bench.coordinator.push("b", offer=offer.number)
        await bench.coordinator.until_reported("b")

    assert begun == ["b"], "what has run out on its way may be another's by now"


async def test_what_names_an_offer_that_was_not_made_does_not_run(bench: Bench) -> None:
    begun, go_on = steps(bench)
    go_on.set()
    for name in ("a", "b"):
        bench.coordinator.offer(name, "step", name)
    async with bench.worker():
        await until_free(bench)
        bench.coordinator.push("a", offer=77)
        bench.coordinator.push("b")
        await bench.coordinator.until_reported("b")

    assert begun == ["b"]


async def test_a_poisoned_grant_harms_itself_alone(bench: Bench) -> None:
    begun, go_on = steps(bench)
    go_on.set()
    for name in ("a", "b"):
        bench.coordinator.offer(name, "step", name)
    bench.coordinator.grants["a"].lease.seconds = 2**62
    async with bench.worker(concurrency=2):
        await until_free(bench)
        bench.coordinator.push("a")
        await bench.coordinator.until_offered(offers=2)
        bench.coordinator.push("b")
        await bench.coordinator.until_reported("b")

    assert begun == ["b"]


async def test_a_drain_withdraws_and_gives_back_what_comes_in_the_meantime(bench: Bench) -> None:
    begun, _ = steps(bench)
    bench.coordinator.answers_withdrawals = False
    for name in ("a", "b"):
        bench.coordinator.offer(name, "step", name)
    async with bench.worker(concurrency=6) as drain:
        offer = await until_free(bench)
        drain.set()
        withdrawal = await bench.coordinator.until_offered(offers=2)
        await asyncio.sleep(0.3)
        bench.coordinator.push("a", "b", offer=offer.number)
        bench.coordinator.stop_orders.put(tasks_pb2.AttendResponse(offer=withdrawal.number))
        await bench.coordinator.until_reported("a", "b")

    assert withdrawal.slots == 0
    assert begun == []
    assert all(bench.coordinator.report_of(name).HasField("released") for name in ("a", "b"))


async def test_a_drain_does_not_wait_for_long_for_a_coordinator_that_is_silent(bench: Bench) -> None:
    bench.registry.handler("step")(nothing)
    bench.coordinator.answers_withdrawals = False
    async with bench.worker():
        await until_free(bench)
        began = time.monotonic()

    assert time.monotonic() - began < 5


async def test_a_stream_that_broke_takes_its_offers_along(bench: Bench) -> None:
    begun, go_on = steps(bench)
    go_on.set()
    for name in ("a", "b"):
        bench.coordinator.offer(name, "step", name)
    async with bench.worker():
        await until_free(bench)
        bench.coordinator.push("a")
        await bench.coordinator.until_reported("a")
        bench.coordinator.stop_orders.put(None)
        anew = await until_free(bench, stream=2)
        bench.coordinator.push("b")
        await bench.coordinator.until_reported("b")

    assert (anew.number, anew.slots, anew.taken) == (1, 50, 0)
    assert begun == ["a", "b"]


async def test_it_is_told_to_stop_like_any_other(bench: Bench) -> None:
    running = asyncio.Event()

    @bench.registry.handler("wait")
    async def wait(_: Any) -> None:
        running.set()
        await asyncio.Event().wait()

    bench.coordinator.offer("a", "wait")
    async with bench.worker():
        await until_free(bench)
        bench.coordinator.push("a")
        await running.wait()
        bench.coordinator.stop_orders.put(("a", 1))
        await bench.coordinator.until_reported("a")

    assert bench.coordinator.report_of("a").HasField("cancelled")


async def test_it_is_renewed_like_any_other(bench: Bench) -> None:
    _, go_on = steps(bench)
    bench.coordinator.lease_seconds = 1.0
    bench.coordinator.offer("a", "step", "a")
    async with bench.worker():
        await until_free(bench)
        bench.coordinator.push("a")
        await bench.coordinator.until(lambda: len(bench.coordinator.renewals) >= 3)
        go_on.set()
        await bench.coordinator.until_reported("a")

    assert bench.coordinator.report_of("a").HasField("succeeded")


class Nowhere:
    """Stands where nothing is sent to or renewed."""

    def remove(self, _: object) -> None: ...


def by_hand() -> tuple[Ledger, Offering, asyncio.Event]:
    """Six slots that are offered, without a stream."""
    drain, nowhere = asyncio.Event(), cast("Any", Nowhere())
    ledger = Ledger(slots=6, streams=nowhere, renewals=nowhere, outage=nowhere, drain=drain)
    return ledger, Offering(ledger, enabled=True, granted=lambda *_: None, drain=drain), drain


async def test_a_slot_that_was_kept_for_what_came_is_kept_no_more() -> None:
    ledger, offering, _ = by_hand()
    ledger.reserve(3)

    offering.take([tasks_pb2.NextTask(task_id="a", attempt=1)], offer=1)

    assert (ledger.free, ledger.reserved) == (5, 2)


async def test_the_answer_to_an_earlier_withdrawal_frees_nothing() -> None:
    ledger, offering, drain = by_hand()
    ledger.reserve(3)
    offering._number = 1
    drain.set()
    withdrawal, _ = offering._next(time.monotonic())
    assert (withdrawal and withdrawal.number, withdrawal and withdrawal.slots) == (2, 0)

    offering.withdrawn(1)
    assert ledger.reserved == 3

    offering.withdrawn(2)
    assert ledger.reserved == 0


async def test_in_a_drain_nothing_is_offered() -> None:
    _, offering, drain = by_hand()
    offering.begin_read()
    later = time.monotonic() + 1.0
    drain.set()

    assert offering._next(later) == (None, None)

    drain.clear()
    offer, _ = offering._next(later)
    assert offer is not None
    assert offer.slots == 3
