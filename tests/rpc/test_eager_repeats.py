"""A report whose answer was lost comes again, and finds the next task that it was granted."""

from __future__ import annotations

import json
from datetime import timedelta

from tests.rpc.eager import LINE, answer, granted, leased, report, report_all, wishing
from tests.rpc.world import ONE, World


async def test_a_report_repeated_is_granted_the_same_task_again(world: World) -> None:
    other = await world.coordinator()
    await world.first.deploy(LINE)
    first = await leased(world, "line", {"n": 1})
    one = await report(world.first, first, {"x": 1})
    before = await world.rows_of(first.run_id)

    again = [await report(coordinator, first, {"x": 2}) for coordinator in (world.first, other)]

    for result in again:
        assert answer(result) == ("DUPLICATE", "b")
        assert timedelta(seconds=5) < result.next.grant.lease.ToTimedelta() <= timedelta(seconds=10)
        result.next.grant.lease.CopyFrom(one.next.grant.lease)
        assert result.next == one.next
    assert await world.rows_of(first.run_id) == before


async def test_it_comes_again_with_an_input_by_reference(world: World) -> None:
    await world.first.deploy(LINE)
    b = granted(await report(world.first, await leased(world, "line", {"n": 1})))
    await report(world.first, b, key="k2")

    again = await report(world.first, b, key="k2")

    assert answer(again) == ("DUPLICATE", "c")
    assert json.loads(again.next.grant.input) == {"n": 1}


async def test_a_report_that_comes_twice_in_one_transaction_is_granted_the_task_both_times(world: World) -> None:
    """The first answer may be on its way to nobody: the worker's call timed out while it waited for its turn."""
    await world.first.deploy(LINE)
    first = await leased(world, "line")

    one, other = await report_all(world.first, wishing(first), wishing(first))

    assert (answer(one), answer(other)) == (("ACCEPTED", "b"), ("DUPLICATE", "b"))
    assert granted(one) == granted(other)


async def test_another_who_repeats_the_report_or_another_key_is_granted_nothing(world: World) -> None:
    await world.first.deploy(LINE)
    first = await leased(world, "line")
    await report(world.first, first)

    assert answer(await report(world.first, first, owner="w2")) == ("DUPLICATE", None)
    assert answer(await report(world.first, first, key="another")) == ("DUPLICATE", None)
    assert answer(await report(world.first, first, key="")) == ("DUPLICATE", None)


async def test_a_report_repeated_after_the_next_task_is_done_is_granted_nothing(world: World) -> None:
    await world.first.deploy(LINE)
    first = await leased(world, "line")
    b = granted(await report(world.first, first))
    to_c = await report(world.first, b, key="k2")

    assert answer(await report(world.first, first)) == ("DUPLICATE", None)
    assert answer(await report(world.first, b, key="k2")) == ("DUPLICATE", "c")
    assert answer(to_c) == ("ACCEPTED", "c")


async def test_a_report_repeated_after_the_next_lease_was_lost_is_granted_nothing(world: World) -> None:
    await world.first.deploy(LINE)
    first = await leased(world, "line")
    b = granted(await report(world.first, first))
    await world.let_lease_expire(b)
    await world.first.reap(b)

    while_ready = await report(world.first, first)
    second = await world.dispatch(first.run_id)
    await world.first.grant(second, "w1", "by its message")
    while_held = await report(world.first, first)

    assert (answer(while_ready), answer(while_held)) == (("DUPLICATE", None), ("DUPLICATE", None))


async def test_a_lease_that_ran_out_and_was_not_reaped_is_granted_again_with_nothing_left_of_it(world: World) -> None:
    await world.first.deploy(LINE)
    first = await leased(world, "line")
    b = granted(await report(world.first, first))
    await world.let_lease_expire(b)

    again = await report(world.first, first)

    assert (answer(again), again.next.grant.lease.ToTimedelta()) == (("DUPLICATE", "b"), timedelta())
    assert await world.first.renew(b) == "RENEWED"


async def test_a_report_repeated_after_the_run_is_over_is_granted_nothing(world: World) -> None:
    await world.first.deploy(ONE)
    first = await leased(world, "one")

    assert answer(await report(world.first, first)) == ("ACCEPTED", None)
    assert answer(await report(world.first, first)) == ("DUPLICATE", None)
