"""What queues while a transaction runs shares the next one; what goes wrong with one item stays with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest
from google.rpc import error_details_pb2

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.core.refusals import EventUndecidable, Overloaded
from headway.coordinator.engine import lanes
from headway.coordinator.engine.lanes import Committed, Lane, Ticket
from headway.coordinator.store.errors import StoreConflict, StoreEnded, StoreUnavailable
from tests.engine.outages import outage
from tests.rpc.world import EVENT, ONE, Dispatch, World, refusal_of, succeeded, unpacked, until

Commit = Callable[[Sequence[Ticket[int]]], Awaitable[Committed[int]]]


@asynccontextmanager
async def lane_of(commit: Commit, *, group: Callable[[int], object] = lambda item: item) -> AsyncIterator[Lane[int]]:
    lane = Lane("test", commit, outage=outage(), group=group)
    loop = asyncio.ensure_future(lane.run())
    try:
        yield lane
    finally:
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop


def doubled(batch: Sequence[Ticket[int]]) -> Committed[int]:
    return Committed([(ticket, ticket.item * 2) for ticket in batch])


async def one_bucket(world: World) -> None:
    await world.database.execute("UPDATE settings SET value = '1'")
    await world.first.engine._refresh()


async def transactions(world: World, type_: str) -> int:
    """How many transactions wrote events of a type: rows of one share its number."""
    return await world.one("SELECT count(DISTINCT xmin::text) FROM run_events WHERE type = $1", type_)


async def started(world: World, size: int) -> list[str]:
    await one_bucket(world)
    await world.first.deploy(EVENT)
    return [await world.first.start("waiting") for _ in range(size)]


async def test_events_that_queued_while_a_transaction_ran_share_the_next_one(world: World) -> None:
    runs = await started(world, 8)
    lane = world.first.engine._decisions[0]

    async with world.hold("run_events"):
        calls = [asyncio.ensure_future(world.first.signal(runs[0], "x"))]
        await world.until_blocked()
        calls += [asyncio.ensure_future(world.first.signal(run_id, "x")) for run_id in (*runs, *runs)]
        await until(lambda: lane.backlog == 16, "all others have queued")

    await asyncio.gather(*calls)
    assert await transactions(world, "SignalReceived") == 2
    assert await world.one("SELECT count(*) FROM run_events WHERE type = 'SignalReceived'") == 17


async def test_leases_that_queued_share_a_transaction(world: World) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE)
    for _ in range(6):
        await world.first.start("one")
    found = await world.dispatches()
    await world.first.grant(found[0])

    async with world.hold("tasks"):
        calls = [asyncio.ensure_future(world.first.grant(found[1]))]
        await world.until_blocked()
        calls += [asyncio.ensure_future(world.first.grant(dispatch)) for dispatch in found[2:]]
        await until(lambda: world.first.engine._leases[0].backlog == 4, "the others have queued")

    await asyncio.gather(*calls)
    assert await world.one("SELECT count(DISTINCT xmin::text) FROM tasks WHERE state = 'running'") == 3


async def test_an_event_whose_rows_contradict_each_other_harms_only_itself(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE)
    for _ in range(8):
        await world.first.start("one")
    found = await world.dispatches()
    await world.first.lease_all(found)
    await world.database.execute("UPDATE runs SET open_tasks = 0 WHERE run_id = $1", found[5].uuid)

    results = (
        await world.first.tasks.Report(
            tasks_pb2.ReportRequest(owner="w1", items=[succeeded(dispatch) for dispatch in found])
        )
    ).results

    assert [result.refusal.reason for result in results] == [""] * 5 + ["EVENT_UNDECIDABLE"] + [""] * 2
    assert "runs_counts_not_negative" in results[5].refusal.message
    assert {await world.first.state(d.run_id) for d in found if d is not found[5]} == {"SUCCEEDED"}
    assert await world.first.state(found[5].run_id) == "RUNNING"
    assert [vars(r)["run_id"] for r in caplog.records if "item left out" in r.message] == [found[5].run_id]
    await world.database.execute("UPDATE runs SET open_tasks = 1 WHERE run_id = $1", found[5].uuid)
    assert await world.first.succeed(found[5]) == "ACCEPTED"


async def test_a_connection_that_breaks_is_told_and_the_lane_goes_on(world: World) -> None:
    (run_id,) = await started(world, 1)

    async with world.hold("run_events"):
        call = asyncio.ensure_future(refusal_of(world.first.signal(run_id, "x")))
        (backend,) = await world.until_blocked()
        await world.database.execute("SELECT pg_terminate_backend($1)", backend)
        refusal = await call

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
    assert await world.first.signal(run_id, "x") == 2


async def test_reads_survive_that_all_connections_break(world: World) -> None:
    (run_id,) = await started(world, 1)
    await world.database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'headway-coordinator'"
    )

    async def answers() -> bool:
        try:
            return await world.first.state(run_id) == "RUNNING"
        except grpc.aio.AioRpcError as error:
            codes.append(error.code())
            return False

    codes: list[grpc.StatusCode] = []
    await until(answers, "the coordinator has connected again")
    assert set(codes) <= {grpc.StatusCode.UNAVAILABLE}


async def test_too_many_waiting_are_refused_with_a_hint_when_to_come_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run_id,) = await started(world, 1)
    lane = world.first.engine._decisions[0]

    async with world.hold("run_events"):
        calls = [asyncio.ensure_future(world.first.signal(run_id, "x"))]
        await world.until_blocked()
        monkeypatch.setattr(lanes, "BACKLOG", 2)
        calls += [asyncio.ensure_future(world.first.signal(run_id, "x")) for _ in range(2)]
        await until(lambda: lane.backlog == 2, "the lane is full")
        refusal = await refusal_of(world.first.signal(run_id, "x"))

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert refusal.metadata["backlog"] == "2"
    hint = error_details_pb2.RetryInfo()
    assert unpacked(refusal.details, hint)
    assert lanes.SOONEST <= hint.retry_delay.ToTimedelta().total_seconds() <= lanes.LATEST
    assert sorted(await asyncio.gather(*calls)) == [2, 3, 4]


async def test_a_list_over_two_buckets_is_queued_in_both_or_in_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(EVENT)
    zero = await world.first.start("waiting", request_id=str(UUID(int=uuid4().int & ~0xFFFF)))
    one = await world.first.start("waiting", request_id=str(UUID(int=uuid4().int & ~0xFFFF | 1)))
    engine = world.first.engine
    item: Any = type("Item", (), {"run_id": UUID(zero), "missing": staticmethod(lambda: None), "size": 0})
    other: Any = type("Item", (), {"run_id": UUID(one), "missing": staticmethod(lambda: None), "size": 0})
    monkeypatch.setattr(lanes, "BACKLOG", 2)

    with pytest.raises(Overloaded):
        await engine.submit([item, other, other, other])

    assert engine.backlog == 0


# --- the lane by itself


async def test_an_idle_lane_serves_a_single_item_at_once() -> None:
    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        return doubled(batch)

    async with lane_of(commit) as lane:
        assert await lane.submit([4]) == [8]


async def test_answers_stand_in_the_order_of_their_items_whatever_the_batches_were() -> None:
    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        return Committed(list(reversed(doubled(batch).outcomes)))

    async with lane_of(commit) as lane:
        assert await lane.submit(list(range(1_000))) == [2 * n for n in range(1_000)]


async def test_a_batch_that_fails_is_halved_until_the_bad_items_stand_alone() -> None:
    sizes: list[int] = []

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        sizes.append(len(batch))
        if any(ticket.item in (3, 200) for ticket in batch):
            raise ValueError("poison")
        return doubled(batch)

    async with lane_of(commit) as lane:
        results = await lane.submit(list(range(256)))

    bad = [n for n, result in enumerate(results) if isinstance(result, EventUndecidable)]
    assert bad == [3, 200]
    assert len(sizes) <= 2 * 2 * 8 + 1
    assert [result for n, result in enumerate(results) if n not in bad] == [2 * n for n in range(256) if n not in bad]


async def test_a_conflict_is_tried_again_alone_and_given_up_as_unavailable() -> None:
    tries: dict[int, int] = {}

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        if len(batch) > 1:
            raise StoreConflict("together")
        item = batch[0].item
        tries[item] = tries.get(item, 0) + 1
        if item == 1 or tries[item] < 3:
            raise StoreConflict("alone")
        return doubled(batch)

    async with lane_of(commit) as lane:
        hopeless, later = await lane.submit([1, 2])

    assert isinstance(hopeless, StoreUnavailable)
    assert later == 4
    assert tries == {1: lanes.CONFLICT_TRIES, 2: 3}


async def test_a_database_that_does_not_answer_is_told_to_all_and_not_asked_for_each() -> None:
    calls = 0

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StoreUnavailable("gone")
        return doubled(batch)

    async with lane_of(commit) as lane:
        first = await lane.submit([1, 2, 3])
        second = await lane.submit([4])

    assert [type(result) for result in first] == [StoreUnavailable] * 3
    assert second == [8]
    assert calls == 2


async def test_a_lane_waits_for_a_lock_only_when_nothing_else_can_be_done() -> None:
    batches: list[tuple[list[int], bool]] = []
    taken = {1, 2, 3}

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        await asyncio.sleep(0)  # a lane that spins must not stop the clock of this test
        waits = any(ticket.waits for ticket in batch)
        batches.append(([ticket.item for ticket in batch], waits))
        if waits:
            taken.clear()  # whoever held one lock has committed, and held them all
        free = [ticket for ticket in batch if ticket.item not in taken]
        return Committed(doubled(free).outcomes, [ticket for ticket in batch if ticket.item in taken])

    async with lane_of(commit) as lane:
        assert await asyncio.wait_for(lane.submit([1, 2, 3, 4, 1]), 5) == [2, 4, 6, 8, 2]

    assert batches == [([1, 2, 3, 4, 1], False), ([1, 2, 3, 1], False), ([1, 1], True), ([2, 3], False)]


async def test_an_item_that_was_skipped_too_often_is_waited_for_whatever_else_there_is_to_do() -> None:
    batches: list[list[int]] = []
    more = iter(range(2, 100))

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        await asyncio.sleep(0)
        batches.append([ticket.item for ticket in batch])
        if len(batches) < 20:
            lane.submit([next(more)])
        free = [ticket for ticket in batch if ticket.item != 1 or ticket.waits]
        return Committed(doubled(free).outcomes, [ticket for ticket in batch if ticket not in free])

    async with lane_of(commit) as lane:
        lane.submit([100])
        assert await asyncio.wait_for(lane.submit([1]), 5) == [2]

    assert batches[: lanes.SKIPS + 1] == [[100, 1], [1, 2], [1, 3], [1, 4], [1]]


async def test_items_of_one_run_keep_their_order_when_they_are_skipped() -> None:
    order: list[int] = []
    asked = 0

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        nonlocal asked
        asked += 1
        if asked == 1:
            lane.submit([11, 12])
            return Committed([], list(batch))
        order.extend(ticket.item for ticket in batch)
        return doubled(batch)

    async with lane_of(commit, group=lambda item: item // 10) as lane:
        await lane.submit([10, 20])
        await until(lambda: len(order) == 4, "all were decided")

    assert [item for item in order if item < 20] == [10, 11, 12]


async def test_run_ids_that_somebody_made_up_make_no_lanes(world: World) -> None:
    made_up = [Dispatch(f"{uuid4().hex[:28]}{bucket:04x}", "work", 1) for bucket in range(100, 200)]

    answers = {await world.first.lease(dispatch) for dispatch in made_up}

    assert answers == {"REFUSED"}
    assert set(world.first.engine._leases) <= {0, 1}


async def test_a_database_that_is_down_is_told_once_whatever_is_tried_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_down = True

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        if is_down:
            raise StoreUnavailable("nobody listens there")
        return doubled(batch)

    caplog.set_level("INFO")
    async with lane_of(commit) as lane:
        for _ in range(3 * lanes.LOST_TRIES):
            await lane.submit([7])
        is_down = False
        assert await lane.submit([7]) == [14]
        await until(lambda: len(caplog.records) > 1, "it is told that it is back")

    assert [record.getMessage() for record in caplog.records] == [
        "the database does not serve; trying again",
        "the database serves again",
    ]


async def test_what_loses_the_database_each_time_it_is_tried_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        if any(ticket.item == 7 for ticket in batch):
            raise StoreEnded("the connection is gone")
        return doubled(batch)

    async with lane_of(commit) as lane:
        for _ in range(lanes.LOST_TRIES - 1):
            await lane.submit([7])
            await lane.submit([8])
        assert not [record for record in caplog.records if record.levelname == "ERROR"]
        await lane.submit([7])

    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == "lane test: the database was lost each time that this was tried: 7 (5 times)"


@pytest.mark.parametrize(("count", "named"), [(3, "2 (5 times)"), (4, "2 (5 times) and 1 more")])
async def test_of_many_that_lose_the_database_some_are_named(
    caplog: pytest.LogCaptureFixture, count: int, named: str
) -> None:
    async def commit(_: Sequence[Ticket[int]]) -> Committed[int]:
        raise StoreEnded("the connection is gone")

    async with lane_of(commit) as lane:
        for _ in range(lanes.LOST_TRIES):
            lane._most = lanes.BATCH  # all in one transaction again
            await lane.submit(list(range(count)))

    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage().endswith(f"0 (5 times), 1 (5 times), {named}")


async def test_of_no_more_than_so_many_it_is_known_that_they_lost_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    async def commit(_: Sequence[Ticket[int]]) -> Committed[int]:
        raise StoreEnded("the connection is gone")

    monkeypatch.setattr(lanes, "LOST_KNOWN", 3)
    async with lane_of(commit) as lane:
        for item in range(20):
            await lane.submit([item])
        assert 1 <= len(lane._lost) <= 4


async def test_what_went_through_in_between_is_counted_anew(caplog: pytest.LogCaptureFixture) -> None:
    lost = [True] * (lanes.LOST_TRIES - 1)
    fates = iter([*lost, False, *lost])

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        if next(fates):
            raise StoreEnded("the connection is gone")
        return doubled(batch)

    async with lane_of(commit) as lane:
        for _ in range(2 * len(lost) + 1):
            await lane.submit([7])

    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2 * len(lost)


async def test_the_halves_of_a_batch_that_failed_are_served_in_order() -> None:
    served: list[int] = []

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        if len(batch) > 1:
            raise LookupError("a fault of our own")
        served.append(batch[0].item)
        return doubled(batch)

    async with lane_of(commit) as lane:
        await lane.submit([1, 2, 3, 4, 5])

    assert served == [1, 2, 3, 4, 5]


async def test_what_waits_is_let_go_of_when_nobody_serves_it_any_more() -> None:
    async def never(batch: Sequence[Ticket[int]]) -> Committed[int]:
        raise AssertionError(batch)

    lane = lanes.Lane("forgotten", never, outage=outage(), group=lambda item: item)
    lane.submit([1])
    lane.submit([2], new=True)

    lane.forget()

    assert lane.backlog == 0


@pytest.mark.parametrize("fault", [StoreUnavailable("gone"), Overloaded(backlog="1", wait_ms="1", retry_ms="1")])
def test_one_answer_that_asks_for_a_repeat_stands_for_the_whole(fault: Exception) -> None:
    assert lanes.whole([1, LookupError()])[0] == 1
    with pytest.raises(type(fault)):
        lanes.whole([1, fault])
