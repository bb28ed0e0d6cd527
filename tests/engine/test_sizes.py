"""What is large must not be held in memory all at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway.coordinator.core.refusals import Overloaded
from headway.coordinator.engine import deciding, lanes, leasing
from headway.coordinator.engine.lanes import Committed, Lane
from headway.coordinator.store import loading
from tests.engine.outages import outage
from tests.rpc.world import ONE, World


async def test_a_transaction_takes_only_as_many_items_as_fit_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "BATCH_BYTES", 10)
    batches: list[list[int]] = []

    async def commit(tickets: Any) -> Committed[int]:
        batches.append([ticket.item for ticket in tickets])
        return Committed(outcomes=[(ticket, ticket.item) for ticket in tickets])

    lane = Lane("sized", commit, outage=outage(), group=lambda item: item, size=lambda item: item)
    done = lane.submit([4, 4, 4, 99, 1])
    running = asyncio.create_task(lane.run())

    assert await done == [4, 4, 4, 99, 1]
    running.cancel()
    assert batches == [[4, 4], [4], [99], [1]]


async def test_more_bytes_than_may_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "BACKLOG_BYTES", 10)

    async def never(tickets: Any) -> Committed[int]:
        raise AssertionError(tickets)

    lane = Lane("full", never, outage=outage(), group=lambda item: item, size=lambda item: item)
    lane.submit([99])  # alone, anything may wait

    with pytest.raises(Overloaded):
        lane.submit([1])


async def test_inputs_that_do_not_fit_together_are_granted_when_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.first.deploy(ONE)
    for _ in range(3):
        await world.first.start("one", {"pad": "x" * 300})
    dispatches = await world.dispatches()
    monkeypatch.setattr(leasing, "INPUT_BYTES", 400)

    answers = {await world.first.lease(dispatch) for dispatch in dispatches[:1]}
    together = [result.answer for result in await world.first.lease_all(dispatches[1:], key="k")]
    again = {await world.first.lease(dispatch, key="k") for dispatch in dispatches[1:]}

    assert answers == {"GRANTED"}
    assert sorted(together) in ([1, 6], [1, 1])  # both, when they are in two buckets
    assert again == {"GRANTED"}


async def test_a_decision_that_reads_one_output_after_the_other_does_not_ask_for_each_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = range(150)
    nodes = [f"a{n}: {{type: set, values: {{x{n}: {{v: {n}}}}}}}" for n in many]
    nodes += ["nap: {type: wait, duration: 1s}"]
    nodes += [f"b{n}: {{type: set, values: {{y{n}: '${{nodes.a{n}.output.x{n}.v}}'}}}}" for n in many]
    chain = ", ".join([*(f"a{n}" for n in many), "nap", *(f"b{n}" for n in many)])
    await world.first.deploy("workflow: reading\nnodes:\n  " + "\n  ".join(nodes) + f"\nedges:\n  - [{chain}]\n")
    run_id = await world.first.start("reading")
    due = await world.let_timers_come_due(run_id)
    loads: list[object] = []
    load = loading.load

    async def counted(*given: Any) -> None:
        loads.append(given)
        await load(*given)

    monkeypatch.setattr(deciding, "load", counted)

    assert await world.first.fire(due) == ["FIRED"]

    assert await world.first.state(run_id) == "SUCCEEDED"
    assert len(loads) <= 10
