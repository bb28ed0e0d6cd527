"""Decisions that take long share no transaction for longer than a moment, and others are served between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import uuid4

import pytest
from grpc.aio import AioRpcError
from msgspec.structs import replace

from headway.api.runs.v1 import runs_pb2
from headway.coordinator import clock
from headway.coordinator.core.decide import Decision, Need, decide
from headway.coordinator.core.events import RunEvent
from headway.coordinator.core.refusals import Overloaded
from headway.coordinator.core.state import State
from headway.coordinator.engine import deciding, lanes
from headway.coordinator.engine.deciding import BATCH_STEPS, TURN_STEPS
from headway.coordinator.engine.lanes import BATCH, LONGEST_WAIT, Committed, Ticket
from headway.coordinator.store.errors import StoreEnded, StoreUnavailable, translated
from tests.engine.test_group_commit import doubled, lane_of, one_bucket, started, transactions
from tests.rpc.world import ONE, World, until


def cost(monkeypatch: pytest.MonkeyPatch, steps: int, told: Callable[[str], object] = str) -> None:
    """Each decision counts as if it had spent so many steps; `told` hears whose it is."""

    def costly(state: State, event: RunEvent, *, questions: int) -> Decision | Need:
        told(state.run_id)
        return replace(decide(state, event, questions=questions), steps=steps)

    monkeypatch.setattr(deciding, "decide", costly)


async def signalled_together(world: World, runs: Sequence[str]) -> list[int]:
    """Signal runs, all but the first in what would be one batch; their places in the histories, in order."""
    lane = world.first.engine._decisions[0]
    async with world.hold("run_events"):
        calls = [asyncio.ensure_future(world.first.signal(runs[0], "x"))]
        await world.until_blocked()
        calls += [asyncio.ensure_future(world.first.signal(run_id, "x")) for run_id in runs[1:]]
        await until(lambda: lane.backlog == len(runs) - 1, "all others have queued")
    return await asyncio.wait_for(asyncio.gather(*calls), 20)


async def test_a_batch_that_has_spent_its_budget_commits_what_is_decided_and_leaves_the_rest_for_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = await started(world, 4)
    decided: list[str] = []
    cost(monkeypatch, BATCH_STEPS // 2, decided.append)
    order = [runs[0], runs[1], runs[1], runs[2], runs[1], runs[3]]

    places = await signalled_together(world, order)

    assert await transactions(world, "SignalReceived") == 4  # the first alone, then two in each, and what is left
    assert decided == order, "in the order in which they came"
    assert places[1] < places[2] < places[4], "the events of one run are in order"
    for run_id in runs:
        history = await world.first.history(run_id)
        assert [event.seq for event in history] == list(range(1, 2 + order.count(run_id)))


async def test_however_much_a_decision_costs_the_first_of_a_batch_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = await started(world, 3)
    asked: set[int] = set()

    def costly(state: State, event: RunEvent, *, questions: int) -> Decision | Need:
        if state.run_id == runs[1] and id(state) not in asked:  # each transaction loads anew
            asked.add(id(state))
            states.append(state)
            return Need(frozenset({("task", "nothing")}), BATCH_STEPS)
        return decide(state, event, questions=questions)

    states: list[State] = []  # so that no other has its place in memory
    monkeypatch.setattr(deciding, "decide", costly)

    await signalled_together(world, [runs[0], runs[1], runs[2]])

    assert len(states) == 1


async def test_others_have_their_turn_between_two_costly_decisions_of_a_transaction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = await started(world, 5)
    turns = 0
    at: list[int] = []

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    cost(monkeypatch, TURN_STEPS, lambda _: at.append(turns))
    other = asyncio.ensure_future(take_turns())
    await signalled_together(world, runs)
    other.cancel()

    assert len(set(at)) == 5
    assert await transactions(world, "SignalReceived") == 2


async def test_starts_that_came_together_and_cost_much_are_all_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE)
    cost(monkeypatch, 2 * BATCH_STEPS)
    items = [runs_pb2.StartRequest(workflow="one", request_id=str(uuid4())) for _ in range(5)]

    answer = await world.first.runs.StartMany(runs_pb2.StartManyRequest(items=items))

    assert [result.WhichOneof("result") for result in answer.results] == ["started"] * 5
    assert await transactions(world, "RunStarted") == 5


async def test_a_start_that_holds_a_key_is_not_refused_for_having_waited(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one_bucket(world)
    await world.first.deploy(ONE)
    cost(monkeypatch, 2 * BATCH_STEPS)
    monkeypatch.setattr(lanes, "LONGEST_WAIT", -1.0)
    items = [runs_pb2.StartRequest(workflow="one", request_id=str(uuid4()), key=f"k{n}") for n in range(3)]

    answer = await world.first.runs.StartMany(runs_pb2.StartManyRequest(items=items))

    assert [result.WhichOneof("result") for result in answer.results] == ["started"] * 3
    with pytest.raises(AioRpcError, match="requests waiting"):
        await world.first.runs.StartMany(runs_pb2.StartManyRequest(items=[replaced(item) for item in items]))


def replaced(item: runs_pb2.StartRequest) -> runs_pb2.StartRequest:
    return runs_pb2.StartRequest(workflow=item.workflow, request_id=str(uuid4()))


async def test_what_was_left_comes_first_and_batches_grow_again_once_they_come_through_whole() -> None:
    batches: list[list[int]] = []

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        await asyncio.sleep(0)
        batches.append([ticket.item for ticket in batch])
        if len(batches) == 1:
            lane.submit([100])
        few = batch[:2] if len(batches) < 3 else batch
        return Committed(doubled(few).outcomes, left=list(batch[len(few) :]))

    async with lane_of(commit) as lane:
        assert await asyncio.wait_for(lane.submit(list(range(20))), 5) == [2 * item for item in range(20)]
        await until(lambda: not lane.backlog, "all were served")

    assert batches == [list(range(20)), [2, 3, 4, 5], [4, 5, 6, 7], list(range(8, 16)), [16, 17, 18, 19, 100]]


async def test_what_was_left_of_a_batch_that_waited_for_a_lock_waits_for_nobody_in_the_next() -> None:
    seen: list[list[tuple[int, bool]]] = []

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        seen.append([(ticket.skips, ticket.waits) for ticket in batch])
        if len(seen) == 1:
            return Committed([], skipped=list(batch))
        return Committed(doubled(batch[:1]).outcomes, left=list(batch[1:]))

    async with lane_of(commit) as lane:
        await asyncio.wait_for(lane.submit([1, 1]), 5)

    assert seen == [[(0, False), (0, False)], [(1, True), (1, True)], [(0, False)]]


async def test_a_run_that_was_locked_is_waited_for_although_others_are_left_before_it() -> None:
    batches: list[list[int]] = []
    more = iter(range(2, 100))

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        await asyncio.sleep(0)
        batches.append([ticket.item for ticket in batch])
        if len(batches) < 20:
            lane.submit([next(more), next(more)])
        free = [ticket for ticket in batch if ticket.item != 1 or ticket.waits]
        few = free[:-1] or free
        return Committed(doubled(few).outcomes, [t for t in batch if t not in free], left=free[len(few) :])

    async with lane_of(commit) as lane:
        lane.submit([100])
        assert await asyncio.wait_for(lane.submit([1]), 5) == [2]

    assert [1] in batches[:10]


@pytest.mark.parametrize("size", [1, 9, BATCH])
async def test_a_batch_that_the_database_ended_is_halved_until_it_comes_through(size: int) -> None:
    sizes: list[int] = []

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        sizes.append(len(batch))
        if len(batch) > 4:
            raise StoreEnded("terminating connection due to idle-in-transaction timeout")
        return doubled(batch)

    async def ask(lane: lanes.Lane[int], item: int) -> int:
        while True:
            (answer,) = await lane.submit([item])
            if not isinstance(answer, StoreEnded):
                return int(answer)

    async with lane_of(commit) as lane:
        answers = await asyncio.wait_for(asyncio.gather(*[ask(lane, item) for item in range(size)]), 20)

    assert answers == [2 * item for item in range(size)]
    assert sizes[0] == size
    assert all(later <= max(size // 2, 1) for later in sizes[1:2])


async def test_a_batch_whose_connection_broke_says_nothing_of_how_much_may_be_done_at_once() -> None:
    sizes: list[int] = []

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        sizes.append(len(batch))
        if len(sizes) == 1:
            raise StoreUnavailable("the connection is gone")
        return doubled(batch)

    async with lane_of(commit) as lane:
        for _ in range(2):
            await lane.submit(list(range(BATCH)))

    assert sizes == [BATCH, BATCH]


async def test_a_transaction_that_kept_the_database_waiting_for_too_long_is_known_as_ended_by_it(world: World) -> None:
    with pytest.raises(StoreEnded):
        await stand(world)


async def stand(world: World) -> None:
    with translated():
        async with world.first.engine.pool.acquire() as connection:
            backend = await connection.fetchval("SELECT pg_backend_pid()")
            async with connection.transaction():
                await connection.execute("SET LOCAL idle_in_transaction_session_timeout = '1ms'")
                await until(lambda: ended(world, backend), "the database has ended it")
                await connection.execute("SELECT 1")


async def ended(world: World, backend: int) -> bool:
    return bool(await world.one("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $1", backend))


async def test_whoever_waits_too_long_behind_costly_work_is_refused_with_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    served: list[int] = []

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        nonlocal now
        await asyncio.sleep(0)
        now += LONGEST_WAIT * 0.6
        served.extend(ticket.item for ticket in batch[:1])
        return Committed(doubled(batch[:1]).outcomes, left=list(batch[1:]))

    async with lane_of(commit) as lane:
        lane._stays = lambda item: item == 4
        answers = await asyncio.wait_for(lane.submit([1, 2, 3, 4, 5]), 5)

    assert served == [1, 2, 4]
    assert (answers[0], answers[1], answers[3]) == (2, 4, 8)
    refusals = [answer for answer in answers if isinstance(answer, Overloaded)]
    assert len(refusals) == 2
    assert all(int(refusal.metadata["retry_ms"]) >= lanes.SOONEST * 1000 for refusal in refusals)


async def test_where_batches_come_through_whole_nobody_is_refused_however_long_a_transaction_stood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)

    async def commit(batch: Sequence[Ticket[int]]) -> Committed[int]:
        nonlocal now
        now += 10 * LONGEST_WAIT
        return doubled(batch)

    async with lane_of(commit) as lane:
        answers = await asyncio.wait_for(lane.submit(list(range(BATCH + 9))), 5)

    assert answers == [2 * item for item in range(BATCH + 9)]
