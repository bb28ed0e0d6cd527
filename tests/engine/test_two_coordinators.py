"""Two coordinators on one database: what both are asked happens once, and nothing that one of them skips is lost."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID, uuid4

import pytest

from headway.coordinator.engine import deciding
from tests.rpc.world import EVENT, JOIN, ONE, SWITCH, Coordinator, Dispatch, World, refusal_of, succeeded, until

ROUNDS = 60  # one pair of reports each
LISTED = 140  # pairs in two lists


async def one_bucket(world: World) -> None:
    """Let all runs that start from now on share a lane."""
    await world.database.execute("UPDATE settings SET value = '1'")
    await world.first.engine._refresh()


async def ready_to_join(world: World, size: int) -> list[tuple[Dispatch, Dispatch]]:
    """Runs whose two branches are both held by workers."""
    await world.first.deploy(JOIN)
    await asyncio.gather(*(world.first.start("joined") for _ in range(size)))
    found = await world.dispatches()
    for at in range(0, len(found), 200):
        await world.first.lease_all(found[at : at + 200])
    right = {d.run_id: d for d in found if d.path == "right"}
    return [(d, right[d.run_id]) for d in found if d.path == "left"]


@pytest.mark.timeout(180)
async def test_a_join_fires_once_however_its_branches_end_together(world: World) -> None:
    other = await world.coordinator()
    pairs = await ready_to_join(world, ROUNDS + LISTED)

    answers: list[str] = []
    for left, right in pairs[:ROUNDS]:
        answers += await asyncio.gather(world.first.succeed(left, "l"), other.succeed(right, "r"))
    lists = await asyncio.gather(
        world.first.report("w1", *(succeeded(left, "l") for left, _ in pairs[ROUNDS:])),
        other.report("w1", *(succeeded(right, "r") for _, right in pairs[ROUNDS:])),
    )

    assert set(answers) | set(lists[0]) | set(lists[1]) == {"ACCEPTED"}
    followers = await world.dispatches()
    assert sorted(d.run_id for d in followers) == sorted(left.run_id for left, _ in pairs)
    assert {(d.path, d.attempt) for d in followers} == {("after", 1)}
    gathered = await world.database.fetch("SELECT data FROM outputs WHERE path = 'both'")
    assert [json.loads(record["data"]) for record in gathered] == [{"left": "l", "right": "r"}] * len(pairs)
    assert await world.one("SELECT count(*) FROM run_events WHERE type = 'NodeCompleted'") == 2 * len(pairs)


async def test_a_switch_costs_no_row_in_the_outbox(world: World) -> None:
    await world.first.deploy(SWITCH)
    run_id = await world.first.start("switched")
    rate = await world.dispatch(run_id)
    await world.first.grant(rate)

    await world.first.succeed(rate, {"score": 9})

    assert await world.dispatches(run_id) == [Dispatch(run_id, "high", 1)]
    assert (await world.first.task(run_id, "gate")).output == b'{"to":"high"}'
    assert len(await world.first.history(run_id)) == 2


async def test_starts_of_one_key_by_both_at_once_are_one_run(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(ONE)

    rounds = [
        await asyncio.gather(*(c.start("one", {"n": n}, key=f"key {n}") for c in (world.first, other) * 3))
        for n in range(10)
    ]

    assert [len(set(ids)) for ids in rounds] == [1] * 10
    assert await world.one("SELECT count(*) FROM runs") == 10
    assert len(await world.dispatches()) == 10


async def test_a_start_repeated_with_its_request_id_at_both_is_one_run(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(ONE)
    request_id = str(uuid4())

    ids = await asyncio.gather(*(c.start("one", request_id=request_id) for c in (world.first, other) * 5))

    assert len(set(ids)) == 1
    assert len(await world.dispatches()) == 1


async def test_a_signal_repeated_with_its_request_id_at_both_is_one_signal(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(EVENT)
    run_id = await world.first.start("waiting")
    request_id = str(uuid4())

    numbers = await asyncio.gather(
        *(c.signal(run_id, "approval", 1, request_id=request_id) for c in (world.first, other) * 5)
    )

    assert set(numbers) == {2}
    assert await world.one("SELECT count(*) FROM signals") == 1


async def test_a_retry_repeated_with_its_request_id_at_both_reopens_once(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(ONE)
    dispatch = await world.dispatch(await world.first.start("one"))
    await world.first.grant(dispatch)
    await world.first.fail(dispatch, final=True)
    request_id = str(uuid4())

    answers = await asyncio.gather(*(c.retry(dispatch.run_id, request_id=request_id) for c in (world.first, other) * 5))

    assert {answer.epoch for answer in answers} == {2}
    assert {tuple(answer.chosen) for answer in answers} == {("work",)}
    assert await world.dispatches() == [Dispatch(dispatch.run_id, "work", 2)]


async def test_a_cancel_repeated_with_its_request_id_is_answered_as_the_first_time(world: World) -> None:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one")
    request_id = str(uuid4())

    answers = [await world.first.cancel(run_id, request_id=request_id) for _ in range(2)]

    assert answers == ["CANCELLED", "CANCELLED"]
    assert len(await world.first.history(run_id)) == 2


async def test_a_request_id_used_for_something_else_is_refused(world: World) -> None:
    await world.first.deploy(EVENT)
    run_id = await world.first.start("waiting")
    request_id = str(uuid4())
    await world.first.signal(run_id, "other", request_id=request_id)

    refusal = await refusal_of(world.first.cancel(run_id, request_id=request_id))

    assert (refusal.reason, refusal.metadata) == ("KEY_REUSED", {"key": request_id, "call": "Signal"})
    assert await world.first.state(run_id) == "RUNNING"


def batches(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> list[list[UUID]]:
    """The runs of each batch that the decision lanes commit from now on."""
    seen: list[list[UUID]] = []
    commit = deciding.Decisions.commit

    async def counted(self: deciding.Decisions, tickets: deciding.Tickets) -> object:
        if self._plans is coordinator.engine.plans:
            seen.append([ticket.item.run_id for ticket in tickets])
        return await commit(self, tickets)

    monkeypatch.setattr(deciding.Decisions, "commit", counted)
    return seen


async def test_a_run_locked_elsewhere_is_skipped_once_and_then_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one_bucket(world)
    await world.first.deploy(EVENT)
    locked, free = [await world.first.start("waiting") for _ in range(2)]
    seen = batches(world.first, monkeypatch)

    async with world.locked("SELECT 1 FROM runs WHERE run_id = $1 FOR UPDATE", UUID(locked)):
        waiting = [asyncio.ensure_future(world.first.signal(locked, "x", n)) for n in range(3)]
        await world.until_blocked()
        held_up_by = len(seen)
        assert not any(task.done() for task in waiting)

    numbers = await asyncio.gather(*waiting)
    assert sorted(numbers) == [2, 3, 4]
    assert await world.first.signal(free, "x") == 2
    assert len(seen) <= held_up_by + 3  # it waited for the lock: it did not ask again and again


async def test_what_comes_with_a_locked_run_is_committed_before_it(world: World) -> None:
    await one_bucket(world)
    pairs = await ready_to_join(world, 2)
    (locked, _), (free, _) = pairs
    both = [succeeded(locked), succeeded(free)]

    async def free_is_done() -> bool:
        return (await world.first.task(free.run_id, "left")).HasField("finished_at")

    async with world.locked("SELECT 1 FROM runs WHERE run_id = $1 FOR UPDATE", locked.uuid):
        report = asyncio.ensure_future(world.first.report("w1", *both))
        await until(free_is_done, "the run that nobody holds is decided")
        assert not report.done()

    assert await report == ["ACCEPTED", "ACCEPTED"]
