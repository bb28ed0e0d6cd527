"""Hand-overs reach the coordinator until it has settled them, and hold up nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import timedelta
from typing import Any

import grpc
import pytest

from headway.api.events.v1 import events_pb2
from headway.relay.messages import NotPublishableError, handover_event
from tests.relay.world import World
from tests.waiting import until

BODY = b'{"type": "SignalReceived", "event": {"name": "approval", "payload": 12345678901234567890123.10}}'


@pytest.mark.parametrize("answer", [events_pb2.DELIVER_ANSWER_APPLIED, events_pb2.DELIVER_ANSWER_RUN_CLOSED])
async def test_a_settled_hand_over_is_deleted(world: World, answer: events_pb2.DeliverAnswer) -> None:
    world.coordinator.fate = lambda _: answer
    async with world.relay(poll_interval=timedelta(hours=1)):
        outbox_id = await world.handover(BODY)
        await until(world.outbox_is_empty, "the hand-over is settled")

    (handover,) = world.coordinator.delivered
    assert handover.request_id == str(outbox_id)
    assert len(handover.run_id) == 32
    assert handover.type == "SignalReceived"
    assert handover.event == b'{"name": "approval", "payload": 12345678901234567890123.10}'


async def test_a_hand_over_that_lies_beside_dispatches_is_found_with_them(world: World) -> None:
    async with world.relay(poll_interval=timedelta(hours=1)):
        await world.dispatch()  # the relay looks by itself once it listens
        await until(world.outbox_is_empty, "the relay runs")
        await world.handover(BODY, notify=False)
        await world.dispatch()
        await until(world.outbox_is_empty, "both are carried out")

    assert len(world.coordinator.delivered) == 1


async def test_a_failed_hand_over_is_kept_and_retried_while_all_else_goes_on(world: World) -> None:
    failing = await world.handover(BODY)
    tries: Counter[str] = Counter()

    def fate(handover: events_pb2.Handover) -> events_pb2.DeliverAnswer:
        tries[handover.request_id] += 1
        stuck = handover.request_id == str(failing) and tries[handover.request_id] < 3
        return events_pb2.DELIVER_ANSWER_FAILED if stuck else events_pb2.DELIVER_ANSWER_APPLIED

    world.coordinator.fate = fate
    async with world.relay():
        await until(lambda: tries[str(failing)], "it was tried once")
        others = [await world.handover(BODY) for _ in range(10)]
        await world.dispatch(10)
        await until(lambda: _settled(world, others), "the others are settled")
        await until(world.outbox_is_empty, "it is settled in the end")

    assert tries[str(failing)] == 3


async def test_a_coordinator_that_is_down_holds_up_no_dispatch(world: World) -> None:
    await world.coordinator.stop()
    handover = await world.handover(BODY)

    async with world.relay():
        await world.dispatch(5)
        await until(lambda: _left(world, [handover]), "the dispatches are published")
        await world.coordinator.start()
        await until(world.outbox_is_empty, "the hand-over is delivered once the coordinator is back")


async def test_a_hand_over_that_makes_every_call_fail_is_found_and_set_aside(world: World) -> None:
    bodies = [BODY] * 5 + [BODY.replace(b"approval", b"poison")] + [BODY] * 5
    ids = [await world.handover(body) for body in bodies]
    world.coordinator.fail_deliver_with = lambda request: (
        grpc.StatusCode.INTERNAL if any(b"poison" in handover.event for handover in request.handovers) else None
    )

    async with world.relay():
        await until(lambda: _left(world, [ids[5]]), "only the poison is left")


async def test_a_hand_over_without_a_readable_body_does_not_hold_up_the_others(world: World) -> None:
    poison = await world.handover(b"\xff{")

    async with world.relay():
        await world.handover(BODY)
        await until(lambda: _left(world, [poison]), "only the poison is left")


async def test_large_hand_overs_go_in_calls_that_fit_the_message_limit(world: World) -> None:
    large = b'{"type": "SignalReceived", "event": {"payload": "' + b"x" * 1_000_000 + b'"}}'
    for _ in range(9):
        await world.handover(large)

    async with world.relay():
        await until(world.outbox_is_empty, "all are delivered")

    assert len(world.coordinator.delivered) == 9


@pytest.mark.parametrize(
    ("body", "kind", "event"),
    [
        (b'{"type":"A","event":{}}', "A", b"{}"),
        (b' { "event" : { "a" : [1.0, 1E400, {"b": "}"}] } , "type" : "\\u0041" } ', "A", None),
        (b'{"type":"A","more":null,"event":{"type":"B"}}', "A", b'{"type":"B"}'),
    ],
)
def test_the_event_is_passed_on_as_it_is_written(body: bytes, kind: str, event: bytes | None) -> None:
    expected = b'{ "a" : [1.0, 1E400, {"b": "}"}] }' if event is None else event

    assert handover_event(body) == (kind, expected)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"type":"A"}',
        b'{"type":1,"event":{}}',
        b'{"type":"","event":{}}',
        b'{"type":"\\ud800","event":{}}',
        b'{"type":"A","event":[]}',
        b'{"type":"A","event":{}} x',
        b'{"type":"A","event":{}',
        b'{"type":"A",}',
        b"\xff",
        b'{"type":"A","event":' + b"[" * 100_000,
    ],
)
def test_a_body_that_is_not_as_agreed_is_refused(body: bytes) -> None:
    with pytest.raises(NotPublishableError):
        handover_event(body)


async def _settled(world: World, outbox_ids: list[Any]) -> bool:
    return not set(outbox_ids) & set(await world.outbox_ids())


async def _left(world: World, outbox_ids: list[Any]) -> bool:
    return await world.outbox_ids() == outbox_ids


async def test_a_slow_delivery_does_not_hold_up_dispatches(world: World) -> None:
    release = asyncio.Event()
    applied = world.coordinator.Deliver

    async def slow(request: events_pb2.DeliverRequest, context: Any) -> events_pb2.DeliverResponse:
        await release.wait()
        return await applied(request, context)

    await world.coordinator.stop()
    world.coordinator.Deliver = slow
    await world.coordinator.start()
    handover = await world.handover(BODY)
    async with world.relay():
        await world.dispatch(5)
        await until(lambda: _left(world, [handover]), "the dispatches are published")
        release.set()
        await until(world.outbox_is_empty, "the hand-over is settled")


async def test_a_hand_over_for_which_there_is_no_room_waits_without_an_alarm_and_holds_up_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    full = True

    def fate(handover: events_pb2.Handover) -> events_pb2.DeliverAnswer:
        is_start = handover.type == "StartChild"
        return events_pb2.DELIVER_ANSWER_LATER if is_start and full else events_pb2.DELIVER_ANSWER_APPLIED

    world.coordinator.fate = fate
    start = await world.handover(b'{"type": "StartChild", "event": {}}')
    async with world.relay():
        await world.handover(BODY)
        await until(lambda: _left(world, [start]), "only the start waits")
        full = False
        await until(world.outbox_is_empty, "it is delivered once there is room")

    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def test_a_hand_over_that_is_kept_is_logged_with_the_run_that_it_is_for(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.coordinator.fate = lambda _: events_pb2.DELIVER_ANSWER_FAILED
    async with world.relay():
        outbox_id = await world.handover(BODY)
        run_id = await world.database.fetchval("SELECT run_id FROM outbox")
        await until(lambda: _said(caplog, "a hand-over is not delivered"), "it is said")
        world.coordinator.fate = lambda _: events_pb2.DELIVER_ANSWER_APPLIED
        await until(world.outbox_is_empty, "it is delivered in the end")

    told = vars(_said(caplog, "a hand-over is not delivered")[0])
    assert (told["outbox_id"], told["run_id"], told["type"]) == (str(outbox_id), run_id.hex, "SignalReceived")


def _said(caplog: pytest.LogCaptureFixture, text: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage().startswith(text)]
