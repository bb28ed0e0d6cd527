"""More than can be carried: new work is refused in good time, work under way goes on, and nothing is half done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest
from google.rpc import error_details_pb2

from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from headway.api.timers.v1 import timers_pb2
from headway.client import Client, Patience
from headway.coordinator import clock
from headway.coordinator.core.refusals import Overloaded
from headway.coordinator.engine import lanes
from headway.coordinator.engine.lanes import BATCH, NEW_BETWEEN, NEW_LEAST, NEW_PART, Committed, Lane, Ticket
from headway.coordinator.ids import bucket_of
from tests.engine.outages import outage
from tests.rpc.world import ONE, Refused, World, refusal_of, succeeded, unpacked, until


def item(**fields: Any) -> runs_pb2.StartRequest:
    return runs_pb2.StartRequest(workflow="one", request_id=str(uuid4()), **fields)


def pause_of(refusal: Refused) -> timedelta:
    hint = error_details_pb2.RetryInfo()
    assert unpacked(refusal.details, hint)
    return hint.retry_delay.ToTimedelta()


async def one_bucket(world: World) -> None:
    await world.database.execute("UPDATE settings SET value = '1'")
    await world.first.engine._refresh()


@asynccontextmanager
async def full(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[asyncio.Task[str]]]:
    """While the block runs, a lane stands, and as many starts wait in it as may."""
    starts: list[asyncio.Task[str]] = []
    async with world.hold("run_events"):
        starts.append(asyncio.ensure_future(world.first.start("one")))
        await world.until_blocked()
        monkeypatch.setattr(lanes, "NEW_BACKLOG", 3)
        starts += [asyncio.ensure_future(world.first.start("one")) for _ in range(3)]
        await until(lambda: world.first.engine.backlog == 3, "the lane is full")
        yield starts


async def test_starts_are_refused_while_reports_are_still_taken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(await world.first.start("one"))
    await world.first.grant(dispatch)

    async with full(world, monkeypatch) as starts:
        refusals = [
            await refusal_of(world.first.runs.Start(item())),
            await refusal_of(world.first.runs.Start(item(key="k"))),
            await refusal_of(world.first.runs.StartMany(runs_pb2.StartManyRequest(items=[item(), item(key="l")]))),
        ]
        report = asyncio.ensure_future(world.first.report("w1", succeeded(dispatch)))
        signal = asyncio.ensure_future(world.first.signal(dispatch.run_id, "x"))
        await until(lambda: world.first.engine.backlog == 5, "both have queued")

    assert {(refusal.code, refusal.reason) for refusal in refusals} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    }
    assert await report == ["ACCEPTED"]
    assert len(set(await asyncio.gather(*starts))) == 4
    await asyncio.gather(signal, return_exceptions=True)
    assert await world.one("SELECT count(*) FROM runs") == 5
    assert await world.one("SELECT count(*) FROM start_keys") == 0


@pytest.mark.parametrize(
    "call", ["signal", "cancel", "pause", "resume", "skip", "retry", "bulk", "lease", "renew", "report", "fire"]
)
async def test_whatever_is_refused_for_overload_says_when_to_come_again(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    dispatch = await world.dispatch(run_id)
    await world.first.grant(dispatch)
    runs, tasks, request_id = world.first.runs, world.first.tasks, str(uuid4())
    named: dict[str, Any] = {"run_id": run_id, "request_id": request_id}
    attempt: dict[str, Any] = {"task_id": dispatch.task_id, "attempt": 1}
    only = runs_pb2.RunFilter(workflow="one")
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "signal": lambda: runs.Signal(runs_pb2.SignalRequest(**named, name="x")),
        "cancel": lambda: runs.Cancel(runs_pb2.CancelRequest(**named)),
        "pause": lambda: runs.Pause(runs_pb2.PauseRequest(**named)),
        "resume": lambda: runs.Resume(runs_pb2.ResumeRequest(**named)),
        "skip": lambda: runs.Skip(runs_pb2.SkipRequest(**named, node="work")),
        "retry": lambda: runs.Retry(runs_pb2.RetryRequest(**named)),
        "bulk": lambda: runs.Bulk(runs_pb2.BulkRequest(request_id=request_id, filter=only, pause=runs_pb2.BulkPause())),
        "lease": lambda: tasks.Lease(
            tasks_pb2.LeaseRequest(owner="w2", items=[tasks_pb2.LeaseItem(**attempt, grant_key="g")])
        ),
        "renew": lambda: tasks.Renew(tasks_pb2.RenewRequest(owner="w1", items=[tasks_pb2.RenewItem(**attempt)])),
        "report": lambda: tasks.Report(tasks_pb2.ReportRequest(owner="w1", items=[succeeded(dispatch)])),
        "fire": lambda: world.first.timers.Fire(
            timers_pb2.FireRequest(leases=[timers_pb2.ExpiredLease(run_id=run_id, path="work", attempt=1)])
        ),
    }
    before = await world.rows_of(run_id)
    monkeypatch.setattr(lanes, "BACKLOG", 0)

    refusal = await refusal_of(calls[call]())

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert timedelta(seconds=lanes.SOONEST) <= pause_of(refusal) <= timedelta(seconds=lanes.LATEST)
    assert await world.rows_of(run_id) == before


async def test_a_signal_that_may_start_its_run_is_refused_like_a_start_and_leaves_no_trace(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ONE)
    request = runs_pb2.SignalWithStartRequest(start=item(key="k"), name="x")
    monkeypatch.setattr(lanes, "NEW_BACKLOG", 0)

    refusal = await refusal_of(world.first.runs.SignalWithStart(request))

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert timedelta(seconds=lanes.SOONEST) <= pause_of(refusal) <= timedelta(seconds=lanes.LATEST)
    assert await world.one("SELECT count(*) FROM start_keys") == 0
    monkeypatch.undo()
    answer = await world.first.runs.SignalWithStart(request)
    assert not answer.run.existed
    assert await world.one("SELECT count(*) FROM signals") == 1


async def test_a_refusal_says_when_to_come_again_and_the_client_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE)
    patience = Patience(first_pause=timedelta(milliseconds=1))

    async with Client(world.first.address, patience=patience) as client:
        async with full(world, monkeypatch):
            refusal = await refusal_of(world.first.runs.Start(item()))
            start = asyncio.ensure_future(client.start("one", key="mine"))
            await asyncio.sleep(0.05)
            assert not start.done()
        started = await start

    assert timedelta(seconds=lanes.SOONEST) <= pause_of(refusal) <= timedelta(seconds=lanes.LATEST)
    assert refusal.metadata.keys() == {"backlog", "wait_ms", "retry_ms"}
    assert not started.existed
    assert await world.dispatches(started.run_id)


async def test_a_keyed_start_that_was_taken_is_not_refused_after_its_key_was_claimed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE)

    async with world.hold("run_events"):
        starts = [asyncio.ensure_future(world.first.start("one"))]
        await world.until_blocked()
        monkeypatch.setattr(lanes, "NEW_BACKLOG", 3)
        async with world.hold("start_keys"):
            keyed = asyncio.ensure_future(world.first.start("one", key="k"))
            await world.until_blocked(2)
            starts += [asyncio.ensure_future(world.first.start("one")) for _ in range(2)]
            await until(lambda: world.first.engine.backlog == 2, "two wait, and room is kept for the third")
            for fields in ({}, {"key": "l"}):
                assert (await refusal_of(world.first.runs.Start(item(**fields)))).reason == "OVERLOADED"
            monkeypatch.setattr(lanes, "NEW_BACKLOG", 0)
        await until(lambda: world.first.engine.backlog == 3, "the key was claimed, and its start waits")

    monkeypatch.setattr(lanes, "NEW_BACKLOG", 1)
    assert len({await keyed, *await asyncio.gather(*starts)}) == 4
    assert await world.one("SELECT array_agg(key) FROM start_keys") == ["k"]
    assert await world.first.start("one")  # the room was given back


async def test_the_time_that_a_start_waits_for_its_key_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE)
    await world.first.start("one")
    monkeypatch.setattr(Lane, "wait", lanes.NEW_SECONDS * 0.7)

    await world.first.start("one")
    refusal = await refusal_of(world.first.runs.Start(item(key="k")))

    assert refusal.reason == "OVERLOADED"
    assert await world.one("SELECT count(*) FROM start_keys") == 0


async def test_starts_over_two_buckets_are_all_refused_when_one_is_full(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE)

    async with full(world, monkeypatch):
        await world.database.execute("UPDATE settings SET value = '2'")
        await world.first.engine._refresh()
        items = [item() for _ in range(20)]
        refusal = await refusal_of(world.first.runs.StartMany(runs_pb2.StartManyRequest(items=items)))

    assert refusal.reason == "OVERLOADED"
    ids = [world.first.engine.run_id_of(UUID(given.request_id)) for given in items]
    assert {bucket_of(run_id) for run_id in ids} == {0, 1}
    assert await world.one("SELECT count(*) FROM runs WHERE run_id = ANY ($1::uuid[])", ids) == 0


# --- the lane by itself

Commit = Callable[[Sequence[Ticket[int]]], Awaitable[Committed[int]]]


async def test_a_page_of_many_runs_of_which_one_waited_too_long_is_to_be_asked_for_again_as_a_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ONE)
    run_ids = [await world.first.start("one") for _ in range(2)]
    request = runs_pb2.BulkRequest(
        request_id=str(uuid4()), filter=runs_pb2.RunFilter(workflow="one"), pause=runs_pb2.BulkPause()
    )
    monkeypatch.setattr(lanes, "BATCH", BATCH + 1)  # as after a transaction that had too much to do
    monkeypatch.setattr(lanes, "LONGEST_WAIT", -1.0)

    refusal = await refusal_of(world.first.runs.Bulk(request))

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert pause_of(refusal) >= timedelta(seconds=lanes.SOONEST)
    monkeypatch.undo()
    assert [each.refusal.reason for each in (await world.first.runs.Bulk(request)).results] == ["", ""]
    assert [(await world.first.get(run_id)).run.HasField("paused_at") for run_id in run_ids] == [True, True]


class Clock:
    """A monotonic clock that stands until it is set forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(clock, "monotonic", lambda: self.now)


class Gated:
    """A lane whose transactions wait to be let through, one by one, and last as long as they are told."""

    def __init__(self, time: Clock) -> None:
        self.batches: list[list[int]] = []
        self.locked: set[int] = set()
        self.lane = Lane("test", self._commit, outage=outage(), group=lambda item: item, size=lambda _item: 1)
        self._time = time
        self._gates: list[asyncio.Future[float]] = []

    async def _commit(self, batch: Sequence[Ticket[int]]) -> Committed[int]:
        gate = asyncio.get_running_loop().create_future()
        self._gates.append(gate)
        self.batches.append([ticket.item for ticket in batch])
        self._time.now += await gate
        skipped = [ticket for ticket in batch if ticket.item in self.locked]
        return Committed([(ticket, ticket.item) for ticket in batch if ticket not in skipped], skipped)

    async def until(self, batches: int) -> None:
        await until(lambda: len(self.batches) == batches, f"transaction {batches} has begun")

    async def let_through(self, seconds: float = 0.01, *, which: int = -1) -> None:
        """End a transaction that runs, the latest unless another is meant, and wait for the next."""
        self._gates[which].set_result(seconds)
        await self.until(len(self.batches) + 1)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
async def gated(time: Clock) -> AsyncIterator[Gated]:
    made = Gated(time)
    loop = asyncio.ensure_future(made.lane.run())
    yield made
    loop.cancel()


async def test_work_under_way_goes_first_and_new_work_gets_its_part(gated: Gated) -> None:
    gated.lane.submit([0])
    await gated.until(1)
    gated.lane.submit(range(1_000, 1_400), new=True)
    gated.lane.submit(range(1, 401))

    for _ in range(3):
        await gated.let_through()

    first, second, third = gated.batches[1:]
    new = BATCH - NEW_LEAST
    assert first == [*range(1, new + 1), *range(1_000, 1_000 + NEW_LEAST)]
    under_way = 400 - new
    assert second[:under_way] == [*range(new + 1, 401)]
    assert len(second) - under_way == under_way // NEW_PART
    assert third == [*range(third[0], third[0] + NEW_BETWEEN)]


async def test_new_work_alone_fills_a_transaction(gated: Gated) -> None:
    gated.lane.submit([1], new=True)
    await gated.until(1)
    gated.lane.submit(range(1_000), new=True)

    await gated.let_through()

    assert gated.batches[1] == [*range(BATCH)]


async def test_new_work_goes_on_however_much_is_under_way(gated: Gated) -> None:
    gated.lane.submit([-1])
    await gated.until(1)
    gated.lane.submit(range(1_000_000, 1_000_100), new=True)

    for _ in range(13):
        gated.lane.submit(range(BATCH))
        await gated.let_through()

    assert sum(number >= 1_000_000 for batch in gated.batches for number in batch) == 100


async def test_new_work_is_refused_at_a_lower_backlog(gated: Gated) -> None:
    gated.lane.submit(range(lanes.NEW_BACKLOG), new=True)

    with pytest.raises(Overloaded):
        gated.lane.submit([1], new=True)
    gated.lane.submit(range(lanes.BACKLOG - lanes.NEW_BACKLOG))
    with pytest.raises(Overloaded):
        gated.lane.submit([1])


async def test_new_work_is_refused_at_fewer_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "NEW_BYTES", 10)

    async def never(tickets: Any) -> Committed[int]:
        raise AssertionError(tickets)

    lane = Lane("full", never, outage=outage(), group=lambda item: item, size=lambda item: item)
    lane.submit([99], new=True)  # alone, anything may wait

    with pytest.raises(Overloaded):
        lane.submit([1], new=True)
    lane.submit([1])


async def test_new_work_is_refused_when_it_would_wait_too_long_at_the_pace_of_late(gated: Gated) -> None:
    gated.lane.submit([0])
    await gated.until(1)
    gated.lane.submit(range(BATCH))
    gated.lane.submit(range(200), new=True)
    await gated.let_through()
    gated.lane.submit([1] * BATCH)
    await gated.let_through(NEW_LEAST * 0.02)  # 20 ms a piece: what waits takes almost 4 s

    with pytest.raises(Overloaded) as caught:
        gated.lane.submit([1], new=True)

    assert 3_500 < float(caught.value.metadata["wait_ms"]) < 4_000
    gated.lane.submit([1])


async def test_a_pace_that_changes_is_believed_by_a_quarter(gated: Gated) -> None:
    gated.lane.submit([1], new=True)
    await gated.until(1)
    gated.lane.submit(range(4 * BATCH), new=True)
    await gated.let_through()

    for milliseconds in (4, 8):
        await gated.let_through(BATCH * milliseconds / 1_000)

    assert gated.lane.backlog == BATCH
    assert gated.lane.wait == pytest.approx(BATCH * 0.005)


async def test_a_wait_for_a_lock_tells_nothing_of_the_pace_of_new_work(gated: Gated) -> None:
    gated.locked = {1}
    gated.lane.submit([1], new=True)
    await gated.until(1)
    gated.lane.submit([2, 3], new=True)
    await gated.let_through()
    assert gated.batches[1] == [1]  # alone: nothing was settled

    gated.locked = set()
    await gated.let_through(5.0)

    assert gated.lane._pace == 0.0


async def test_room_that_is_kept_for_new_work_counts_until_it_is_given_back(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "NEW_BYTES", 10)
    gated.lane.submit([0])
    await gated.until(1)
    gated.lane.submit([1])
    give_back = gated.lane.admit(1, 8, ahead=0.0)

    with pytest.raises(Overloaded):
        gated.lane.admit(1, 8, ahead=0.0)
    give_back()
    gated.lane.admit(1, 8, ahead=0.0)


async def test_a_lane_that_is_idle_keeps_nobody_waiting_however_long_it_was(gated: Gated, time: Clock) -> None:
    done = gated.lane.submit([1], new=True)
    await gated.until(1)
    gated._gates[0].set_result(0.01)
    await done
    await until(lambda: gated.lane._began_at is None, "the lane is idle")
    time.now += 10 * lanes.NEW_SECONDS

    assert gated.lane.wait == 0.0
    gated.lane.submit([2], new=True)


async def test_those_who_waited_too_long_leave_no_bytes_behind_and_those_who_stay_keep_their_order(
    gated: Gated,
) -> None:
    gated.lane._stays = lambda item: item in {2, 3}
    gated.lane._most = 3  # as after a transaction that had too much to do
    gated.locked = {0}
    skipped = gated.lane.submit([0])
    await gated.until(1)
    gated.lane.submit([1, 2, 3])

    await gated.let_through(lanes.LONGEST_WAIT + 1)

    assert gated.batches[1] == [2, 3]
    assert gated.lane._bytes == 0
    (answer,) = await skipped
    assert isinstance(answer, Overloaded)


async def test_where_hardly_anything_queues_a_transaction_begins_a_stride_after_the_last() -> None:
    loop = asyncio.get_running_loop()
    began: list[float] = []

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        began.append(loop.time())
        if len(began) == 1:
            second.append(lane.submit([2]))
        return Committed([(ticket, ticket.item) for ticket in batch])

    lane = Lane("strides", commit, outage=outage(), group=lambda item: item, stride=0.2)
    second: list[asyncio.Future[list[int]]] = []
    running = asyncio.ensure_future(lane.run())

    await lane.submit([1])
    await second[0]

    running.cancel()
    assert began[1] - began[0] > 0.19


async def test_a_pace_that_was_slow_is_forgotten_when_all_that_waits_is_taken(gated: Gated) -> None:
    gated.lane._pace = 1.0
    gated.lane.submit([1], new=True)
    await gated.until(1)
    gated.lane.submit([2], new=True)
    await gated.let_through()
    gated.lane.submit(range(100), new=True)

    gated.lane.submit([3], new=True)


async def test_a_transaction_that_stands_makes_new_work_be_refused_until_it_goes_on(gated: Gated, time: Clock) -> None:
    gated.lane.submit([1])
    await gated.until(1)
    gated.lane.submit([2], new=True)
    time.now += lanes.NEW_SECONDS + 1

    with pytest.raises(Overloaded):
        gated.lane.submit([3], new=True)
    gated.lane.submit([4])
    await gated.let_through()
    gated.lane.submit([5], new=True)


async def test_those_who_are_refused_are_asked_to_come_again_one_after_another(gated: Gated) -> None:
    gated.lane.submit(range(lanes.NEW_BACKLOG), new=True)
    gated.lane._pace = 0.001
    pauses: list[float] = []

    for _ in range(200):
        with pytest.raises(Overloaded) as caught:
            gated.lane.submit(range(10), new=True)
        pauses.append(float(caught.value.metadata["retry_ms"]) / 1_000)

    assert pauses[0] == pytest.approx(5 - lanes.NEW_SECONDS / 2 + 0.01, abs=0.01)
    assert pauses == sorted(pauses)
    assert pauses[50] == pytest.approx(pauses[0] + 0.5, abs=0.01)
    assert pauses[-1] == lanes.LATEST


async def test_what_waits_is_decided_beside_the_transaction_that_runs_when_much_does_but_for_its_runs(
    gated: Gated,
) -> None:
    beside = asyncio.ensure_future(gated.lane.run_beside())
    gated.lane.submit([7])
    await gated.until(1)
    gated.lane.submit(range(lanes.BESIDE - 1))
    await asyncio.sleep(0)
    assert gated.batches == [[7]]

    gated.lane.submit([lanes.BESIDE])
    await gated.until(2)

    assert gated.batches[1] == [*range(7), *range(8, lanes.BESIDE - 1), lanes.BESIDE]
    assert (gated.lane.backlog, gated.lane._bytes) == (1, 1)
    await gated.let_through(which=0)
    assert gated.batches[2] == [7]
    assert gated.lane._bytes == 0
    beside.cancel()


async def test_what_was_locked_beside_is_taken_up_by_a_lane_that_is_idle_by_then(gated: Gated) -> None:
    beside = asyncio.ensure_future(gated.lane.run_beside())
    first = gated.lane.submit([-1])
    await gated.until(1)
    gated.lane.submit(range(lanes.BESIDE))
    await gated.until(2)
    gated._gates[0].set_result(0.01)
    await first
    gated.locked = {3}

    await gated.let_through()

    assert gated.batches[2] == [3]
    beside.cancel()


async def test_what_was_locked_beside_keeps_others_of_its_run_from_going_before_it(gated: Gated) -> None:
    beside = asyncio.ensure_future(gated.lane.run_beside())
    gated.lane.submit([-1])
    await gated.until(1)
    gated.lane.submit(range(lanes.BESIDE))
    await gated.until(2)
    gated.locked = {3}
    gated.lane.submit(range(lanes.BESIDE))

    await gated.let_through()

    assert gated.batches[2] == [item for item in range(lanes.BESIDE) if item != 3]
    beside.cancel()


async def test_what_nobody_waits_for_any_more_is_left_out(gated: Gated) -> None:
    gated.lane.submit([0])
    await gated.until(1)
    given_up = [gated.lane.submit([1, 2]), gated.lane.submit([3], new=True)]
    kept = gated.lane.submit([4])
    for call in given_up:
        call.cancel()

    await gated.let_through()

    assert gated.batches[1] == [4]
    assert not kept.done()
    assert gated.lane.backlog == 0
