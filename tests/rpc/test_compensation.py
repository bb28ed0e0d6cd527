"""Compensation through the services: leases, renewals and eager leases in a run that undoes what it did."""

from __future__ import annotations

from uuid import uuid4

from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from tests.rpc.eager import answer, report
from tests.rpc.test_replay import check_replay
from tests.rpc.world import Dispatch, World

TRIP = (
    "workflow: trip\nnodes:\n"
    "  hotel: {type: call, handler: h, compensate: no_hotel}\n"
    "  car: {type: call, handler: h, compensate: no_car}\n"
    "  flight: {type: call, handler: h}\n"
    '  no_hotel: {type: call, handler: h, input: "${nodes.hotel.output}"}\n'
    '  no_car: {type: call, handler: h, input: "${nodes.car.output}"}\n'
    "edges: [[hotel, car, flight]]\n"
)


async def booked(world: World) -> str:
    """A run whose hotel and car are booked."""
    await world.first.deploy(TRIP)
    run_id = await world.first.start("trip")
    for booking in ("H", "C"):
        dispatch = await world.dispatch(run_id)
        await world.first.lease(dispatch)
        assert await world.first.succeed(dispatch, booking) == "ACCEPTED"
    return run_id


async def test_a_failed_run_undoes_what_it_did_over_real_leases(world: World) -> None:
    run_id = await booked(world)
    flight = await world.dispatch(run_id)
    await world.first.lease(flight)
    assert await world.first.fail(flight, final=True) == "ACCEPTED"

    run = (await world.first.get(run_id)).run
    assert (run.state, run.compensating) == (runs_pb2.RUN_STATE_RUNNING, True)
    undo = await world.dispatch(run_id)
    assert (undo.path, (await world.first.grant(undo)).input) == ("no_car", b'"C"')
    assert answer(await report(world.first, undo)) == ("ACCEPTED", "no_hotel")  # the next one with the answer

    assert await world.first.succeed(Dispatch(run_id, "no_hotel", 1), None) == "ACCEPTED"
    view = await world.first.get(run_id)
    assert (view.run.state, view.run.compensating) == (runs_pb2.RUN_STATE_FAILED, False)
    assert {task.path: task.undoes for task in view.tasks if task.undoes} == {"no_hotel": "hotel", "no_car": "car"}


async def test_what_a_retry_repeated_is_undone_twice_each_time_with_its_own_output_and_key(world: World) -> None:
    run_id = await booked(world)
    flight = await world.dispatch(run_id)
    await world.first.lease(flight)
    await world.first.succeed(flight, None)
    await world.first.retry(run_id, "car")
    for path, output in (("car", "C2"), ("flight", None)):
        dispatch = Dispatch(run_id, path, 2)
        await world.first.lease(dispatch)
        await (world.first.succeed(dispatch, output) if output else world.first.fail(dispatch, final=True))

    grants = []
    for path, attempt in (("no_car", 1), ("no_car", 2), ("no_hotel", 1)):
        grants.append(await world.first.grant(Dispatch(run_id, path, attempt)))
        await world.first.succeed(Dispatch(run_id, path, attempt), None)

    assert [grant.input for grant in grants] == [b'"C2"', b'"C"', b'"H"']
    assert len({grant.idempotency_key for grant in grants}) == 3
    assert (await world.first.get(run_id)).run.state == runs_pb2.RUN_STATE_FAILED
    assert await world.one("SELECT count(*) FROM effects") == 0
    await check_replay(world, run_id)


async def test_what_was_not_undone_when_it_was_broken_off_stands_and_is_undone_the_next_time(world: World) -> None:
    run_id = await booked(world)
    flight = await world.dispatch(run_id)
    await world.first.lease(flight)
    await world.first.fail(flight, final=True)
    undo = Dispatch(run_id, "no_car", 1)
    await world.first.lease(undo)
    await world.first.succeed(undo, None)
    await world.first.cancel(run_id, no_compensation=True)
    assert await world.first.state(run_id) == "CANCELLED"
    assert await world.one("SELECT string_agg(path, ' ') FROM effects") == "hotel"

    told = await world.first.retry(run_id, dry_run=True)
    assert (list(told.chosen), list(told.kept)) == (["car"], ["hotel"])
    assert [each.path for each in told.undone] == ["car"]
    assert list(told.standing) == []
    await world.first.retry(run_id)
    again = Dispatch(run_id, "car", 2)
    await world.first.lease(again)
    await world.first.succeed(again, "C2")
    await world.first.cancel(run_id)

    inputs = []
    for path in ("no_car", "no_hotel"):
        inputs.append((await world.first.grant(Dispatch(run_id, path, 2))).input)
        await world.first.succeed(Dispatch(run_id, path, 2), None)
    assert inputs == [b'"C2"', b'"H"']
    assert await world.first.state(run_id) == "CANCELLED"
    assert await world.one("SELECT count(*) FROM effects") == 0
    await check_replay(world, run_id)


async def test_what_could_not_be_undone_is_undone_the_next_time_with_what_a_retry_made_of_it(world: World) -> None:
    run_id = await booked(world)
    flight = await world.dispatch(run_id)
    await world.first.lease(flight)
    await world.first.fail(flight, final=True)
    undo = Dispatch(run_id, "no_car", 1)
    keys = {(await world.first.grant(undo)).idempotency_key}
    await world.first.fail(undo, final=True)
    await world.first.lease(Dispatch(run_id, "no_hotel", 1))
    await world.first.succeed(Dispatch(run_id, "no_hotel", 1), None)
    assert "not undone: car (no_car failed)" in (await world.first.get(run_id)).run.error.message
    assert await world.one("SELECT string_agg(path, ' ') FROM effects") == "car"

    told = await world.first.retry(run_id, dry_run=True)
    assert [each.path for each in told.undone] == ["hotel"]
    assert [(each.path, each.count) for each in told.standing] == [("car", 1)]
    await world.first.retry(run_id)
    for path, output in (("hotel", "H2"), ("car", "C2"), ("flight", None)):
        dispatch = Dispatch(run_id, path, 2)
        await world.first.lease(dispatch)
        await (world.first.succeed(dispatch, output) if output else world.first.fail(dispatch, final=True))

    grants = []
    for path, attempt in (("no_car", 2), ("no_hotel", 2), ("no_car", 3)):
        grants.append(await world.first.grant(Dispatch(run_id, path, attempt)))
        await world.first.succeed(Dispatch(run_id, path, attempt), None)
    assert [grant.input for grant in grants] == [b'"C2"', b'"H2"', b'"C"']
    assert len(keys | {grants[0].idempotency_key, grants[2].idempotency_key}) == 3
    assert await world.first.state(run_id) == "FAILED"
    assert await world.one("SELECT count(*) FROM effects") == 0
    await check_replay(world, run_id)


async def test_what_may_have_been_undone_is_done_anew_and_undone_both_times(world: World) -> None:
    run_id = await booked(world)
    await world.first.cancel(run_id)
    undo = Dispatch(run_id, "no_car", 1)
    await world.first.lease(undo)
    await world.first.cancel(run_id, no_compensation=True, grace={"seconds": 1})
    assert await world.first.fire(await world.let_timers_come_due(run_id)) == ["FIRED"]
    assert await world.first.state(run_id) == "CANCELLED"

    told = await world.first.retry(run_id, dry_run=True)
    assert [(each.path, each.state) for each in told.undone] == [("car", runs_pb2.TASK_STATE_CANCELLED)]
    assert [(each.path, each.count) for each in told.standing] == [("car", 1)]
    await world.first.retry(run_id)
    again = Dispatch(run_id, "car", 2)
    await world.first.lease(again)
    await world.first.succeed(again, "C2")
    await world.first.cancel(run_id)

    grants = []
    for path, attempt in (("no_car", 2), ("no_car", 3), ("no_hotel", 1)):
        grants.append(await world.first.grant(Dispatch(run_id, path, attempt)))
        await world.first.succeed(Dispatch(run_id, path, attempt), None)
    assert [grant.input for grant in grants] == [b'"C2"', b'"C"', b'"H"']
    assert len({grant.idempotency_key for grant in grants}) == 3
    assert await world.one("SELECT count(*) FROM effects") == 0
    await check_replay(world, run_id)


async def test_in_a_cancelled_run_what_undoes_is_leased_and_not_told_to_stop(world: World) -> None:
    run_id = await booked(world)
    await world.first.cancel(run_id)

    told = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))
    assert told.message == "The run waits for 1 open task. It undoes what completed, and then ends cancelled."
    assert [reason.path for reason in told.reasons] == ["no_car"]
    flight, undo = await world.dispatches(run_id)
    assert await world.first.lease(flight) == "STALE_ATTEMPT"
    assert undo.path == "no_car"
    assert await world.first.lease(undo) == "GRANTED"
    renewed = await world.first.renew_result(undo)
    assert (renewed.answer, renewed.cancel) == (tasks_pb2.RENEW_ANSWER_RENEWED, False)
    assert await world.first.succeed(undo, None) == "ACCEPTED"
    last = await world.dispatch(run_id)
    await world.first.lease(last)
    assert await world.first.succeed(last, None) == "ACCEPTED"
    assert await world.first.state(run_id) == "CANCELLED"


async def test_nor_does_a_cancel_of_many_compensate_when_it_is_told_not_to(world: World) -> None:
    run_id = await booked(world)
    await world.first.runs.Bulk(
        runs_pb2.BulkRequest(
            filter=runs_pb2.RunFilter(workflow="trip"),
            cancel=runs_pb2.BulkCancel(no_compensation=True),
            request_id=str(uuid4()),
        )
    )

    assert await world.first.state(run_id) == "CANCELLED"


async def test_a_cancel_without_compensation_ends_the_run_at_once(world: World) -> None:
    run_id = await booked(world)
    await world.first.cancel(run_id, no_compensation=True)

    assert await world.first.state(run_id) == "CANCELLED"
    assert [task.path for task in (await world.first.get(run_id)).tasks if task.undoes] == []


async def test_items_are_undone_over_real_leases_the_latest_first(world: World) -> None:
    await world.first.deploy(
        "workflow: seats\nnodes:\n  seats:\n    type: map\n    over: [a, b]\n    max_concurrency: 1\n"
        "    body:\n      nodes:\n"
        "        book: {type: call, handler: h, compensate: free}\n"
        '        free: {type: call, handler: h, input: "${item}"}\n'
        "  pay: {type: call, handler: h}\nedges: [[seats, pay]]\n"
    )
    run_id = await world.first.start("seats")
    for path in ("seats[0].book", "seats[1].book"):
        dispatch = Dispatch(run_id, path, 1)
        await world.first.lease(dispatch)
        assert await world.first.succeed(dispatch, path) == "ACCEPTED"
    assert await world.one("SELECT count(*) FROM effects") == 2
    pay = Dispatch(run_id, "pay", 1)
    await world.first.lease(pay)
    assert await world.first.fail(pay, final=True) == "ACCEPTED"

    told = await world.first.runs.Explain(runs_pb2.ExplainRequest(run_id=run_id))
    assert [reason.path for reason in told.reasons] == ["pay", "seats[1].free"]  # what failed, and what goes on
    assert told.reasons[1].message.startswith("It undoes seats[1].book.")
    for path, item in (("seats[1].free", b'"b"'), ("seats[0].free", b'"a"')):
        dispatch = Dispatch(run_id, path, 1)
        assert (await world.first.grant(dispatch)).input == item
        assert await world.first.succeed(dispatch, None) == "ACCEPTED"

    assert (await world.first.get(run_id)).run.state == runs_pb2.RUN_STATE_FAILED
    assert await world.one("SELECT count(*) FROM effects") == 0
    await check_replay(world, run_id)


ROOMS = (
    "workflow: rooms\nnodes:\n  each:\n    type: map\n    over: '${input}'\n    body:\n      nodes:\n"
    "        book: {type: call, handler: h, compensate: unbook}\n        unbook: {type: call, handler: h}\n"
    "  pay: {type: call, handler: h}\nedges: [[each, pay]]\n"
)


async def test_of_a_map_it_is_shown_in_how_many_items_something_was_undone_and_in_which(world: World) -> None:
    await world.first.deploy(ROOMS)
    run_id = await world.first.start("rooms", [1, 2, 3])
    for dispatch in await world.dispatches(run_id):
        await world.first.grant(dispatch)
        await world.first.succeed(dispatch)
    pay = (await world.dispatches(run_id))[-1]
    await world.first.grant(pay)
    await world.first.fail(pay, final=True)
    for left in (2, 1):
        undo = (await world.dispatches(run_id))[-1]
        await world.first.grant(undo)
        await world.first.succeed(undo)
        assert (await world.first.get(run_id)).run.compensating, left

    counts = (await world.first.task(run_id, "each")).items
    items = await world.first.runs.ListItems(runs_pb2.ListItemsRequest(run_id=run_id, path="each"))

    assert (counts.succeeded, counts.undone) == (3, 2)  # the third is under way
    assert sorted(item.undone for item in items.items) == [False, True, True]
    assert {item.state for item in items.items} == {runs_pb2.RUN_STATE_SUCCEEDED}
