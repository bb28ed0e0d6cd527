"""A request id stands for one request: the same again is answered as the first time, another one is refused.

Which calls have one, and what their requests consist of, is read off the protocol: a call or a field that nobody
thought of here fails the first tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import grpc
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from headway.api.definitions.v1 import definitions_pb2
from headway.api.events.v1 import events_pb2
from headway.api.outbox.v1 import outbox_pb2
from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from headway.api.timers.v1 import timers_pb2
from headway.coordinator.core.document import Document
from headway.coordinator.engine.submissions import Signal
from tests.rpc.world import EVENT, ONE, SLEEP, TWO, Coordinator, World, refusal_of, refused

PROTOCOL = (definitions_pb2, events_pb2, outbox_pb2, runs_pb2, tasks_pb2, timers_pb2)
BETWEEN_OURSELVES = {"Deliver"}  # its ids and its bytes are made once and stored
Setup: TypeAlias = Callable[[World], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call with a request id.

    Attributes:
        setup: makes a run that it can be about; answers its id.
        request: what is asked first; RUN and ID stand for the run and the request id.
        changed: another value for each field that makes another request.
        same: fields that do not, with why.
    """

    setup: Setup
    request: Message
    changed: Mapping[str, Any]
    same: Mapping[str, str] = field(default_factory=dict[str, str])


RUN, ID = "the run", "the id"
WHOSE = {"namespace": "whose run", "run_id": "another run has ids of its own"}
TRACE = {"traceparent": "says nothing about what is asked"}
EVENT_ID = {"id": "such a signal is remembered by its name and id"}
DRY = {"dry_run": "answers what the request would be answered"}
PAGE = {"page_size": "each run is answered for itself", "page_token": "each run is answered for itself"}


async def waiting(world: World) -> str:
    await world.first.deploy(EVENT, ONE)
    return await world.first.start("waiting", key="order-1")


async def leased(world: World) -> str:
    await world.first.deploy(ONE)
    run_id = await world.first.start("one", {"n": 1})
    await world.first.grant(await world.dispatch(run_id))
    return run_id


async def paused(world: World) -> str:
    await world.first.deploy(SLEEP)
    run_id = await world.first.start("sleeping")
    await world.first.runs.Pause(runs_pb2.PauseRequest(run_id=run_id, request_id=str(uuid4())))
    return run_id


async def cancelled(world: World) -> str:
    await world.first.deploy(SLEEP)
    run_id = await world.first.start("sleeping")
    await world.first.cancel(run_id)
    return run_id


async def deployed(world: World) -> str:
    await world.first.deploy(ONE, ONE + "  more: {type: call, handler: h}\n", TWO)
    await world.first.definitions.Deploy(definitions_pb2.DeployRequest(source=ONE, namespace="b"))
    return ""


def bulk(**operation: Any) -> runs_pb2.BulkRequest:
    states = [runs_pb2.RUN_STATE_RUNNING, runs_pb2.RUN_STATE_SUCCEEDED, runs_pb2.RUN_STATE_CANCELLED]
    return runs_pb2.BulkRequest(filter=runs_pb2.RunFilter(states=states), request_id=ID, **operation)


START: dict[str, Any] = {"workflow": "one", "input": b'{"n": 1}', "labels": {"team": "a"}}
OTHER_START: dict[str, Any] = {
    "namespace": "b",
    "workflow": "two",
    "input": b'{"n": 2}',
    "key": "k",
    "version": 1,
    "labels": {"team": "b"},
}
HOUR, MINUTE = Duration(seconds=3_600), Duration(seconds=60)
CALLS: Mapping[str, Call] = {
    "Start": Call(
        setup=deployed,
        request=runs_pb2.StartRequest(**START, request_id=ID),
        changed=OTHER_START,
        same=TRACE,
    ),
    "StartMany": Call(
        setup=deployed,
        request=runs_pb2.StartManyRequest(items=[runs_pb2.StartRequest(**START, request_id=ID)]),
        changed={f"items.{name}": value for name, value in OTHER_START.items()},
        same={f"items.{name}": why for name, why in TRACE.items()},
    ),
    "Signal": Call(
        setup=waiting,
        request=runs_pb2.SignalRequest(run_id=RUN, request_id=ID, name="other", payload=b"1", ttl=HOUR),
        changed={"name": "another", "payload": b"2", "ttl": MINUTE},
        same={**WHOSE, **EVENT_ID, "key": "names the same run", "workflow": "names the same run"},
    ),
    "SignalWithStart": Call(
        setup=waiting,
        request=runs_pb2.SignalWithStartRequest(
            start=runs_pb2.StartRequest(workflow="waiting", key="order-1", request_id=ID),
            name="other",
            payload=b"1",
            ttl=HOUR,
        ),
        changed={
            "start.workflow": "one",
            "start.input": b"2",
            "start.version": 1,
            "start.labels": {"team": "b"},
            "name": "another",
            "payload": b"2",
            "ttl": MINUTE,
        },
        same={
            **EVENT_ID,
            "start.namespace": "whose run",
            "start.key": "another run has ids of its own",
            "start.traceparent": TRACE["traceparent"],
        },
    ),
    "Cancel": Call(
        setup=leased,
        request=runs_pb2.CancelRequest(run_id=RUN, request_id=ID, reason="why", grace=HOUR),
        changed={"reason": "other", "grace": Duration(), "no_compensation": True},
        same=WHOSE,
    ),
    "Pause": Call(
        setup=waiting,
        request=runs_pb2.PauseRequest(run_id=RUN, request_id=ID, reason="why"),
        changed={"reason": "other", "pause_clock": True},
        same=WHOSE,
    ),
    "Resume": Call(setup=paused, request=runs_pb2.ResumeRequest(run_id=RUN, request_id=ID), changed={}, same=WHOSE),
    "Skip": Call(
        setup=paused,
        request=runs_pb2.SkipRequest(run_id=RUN, request_id=ID, node="nap", output=b"1", reason="why"),
        changed={"node": "nowhere", "output": b"2", "reason": "other"},
        same=WHOSE,
    ),
    "Retry": Call(
        setup=cancelled,
        request=runs_pb2.RetryRequest(run_id=RUN, request_id=ID),
        changed={"from_nodes": ["nap"], "render_inputs": True},
        same={**WHOSE, **DRY},
    ),
}
FILTER = {f"filter.{each.name}": "each run is answered for itself" for each in runs_pb2.RunFilter.DESCRIPTOR.fields}
BULK: Mapping[str, Call] = {
    "cancel": Call(
        setup=leased,
        request=bulk(cancel=runs_pb2.BulkCancel(reason="why", grace=HOUR)),
        changed={"cancel.reason": "other", "cancel.grace": Duration(), "cancel.no_compensation": True},
    ),
    "retry": Call(
        setup=cancelled,
        request=bulk(retry=runs_pb2.BulkRetry()),
        changed={"retry.from_nodes": ["nap"], "retry.render_inputs": True},
    ),
    "delete": Call(
        setup=cancelled,
        request=bulk(delete=runs_pb2.BulkDelete()),
        changed={},
        same={"delete": "nothing is left that could remember it"},
    ),
    "pause": Call(
        setup=waiting,
        request=bulk(pause=runs_pb2.BulkPause(reason="why")),
        changed={"pause.reason": "other", "pause.pause_clock": True, "resume": runs_pb2.BulkResume()},
    ),
    "resume": Call(
        setup=paused,
        request=bulk(resume=runs_pb2.BulkResume()),
        changed={"cancel": runs_pb2.BulkCancel()},
    ),
    "skip": Call(
        setup=paused,
        request=bulk(skip=runs_pb2.BulkSkip(node="nap", output=b"1", reason="why")),
        changed={"skip.node": "nowhere", "skip.output": b"2", "skip.reason": "other"},
    ),
}
EVERY: list[tuple[str, Call]] = [*CALLS.items(), *(("Bulk", call) for call in BULK.values())]
CHANGES = [(name, call, place) for name, call in EVERY for place in call.changed]


def leaves(kind: Descriptor, around: str = "") -> Iterator[str]:
    """The dotted names of what a request consists of."""
    if not kind.fields:
        yield around.removesuffix(".")
        return
    for each in kind.fields:
        inner = each.message_type
        if inner is None or inner.GetOptions().map_entry or inner.full_name.startswith("google."):
            yield f"{around}{each.name}"
        else:
            yield from leaves(inner, f"{around}{each.name}.")


def with_request_ids() -> dict[str, Descriptor]:
    """The protocol's calls whose requests have one."""
    return {
        method.name: method.input_type
        for module in PROTOCOL
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if any(leaf.rpartition(".")[2] == "request_id" for leaf in leaves(method.input_type))
    }


def test_every_call_that_takes_a_request_id_is_here() -> None:
    assert with_request_ids().keys() - BETWEEN_OURSELVES == CALLS.keys() | {"Bulk"}
    assert {each.name for each in runs_pb2.BulkRequest.DESCRIPTOR.oneofs_by_name["operation"].fields} == BULK.keys()


@pytest.mark.parametrize("name", [*CALLS, "Bulk"])
def test_every_field_of_a_request_makes_another_one_or_is_said_not_to(name: str) -> None:
    calls = [call for other, call in EVERY if other == name]
    known = {place for call in calls for place in (*call.changed, *call.same)}
    if name == "Bulk":
        known |= {*FILTER, *PAGE, *DRY, "namespace"}

    fields = {leaf for leaf in leaves(with_request_ids()[name]) if leaf.rpartition(".")[2] != "request_id"}

    assert known >= fields
    assert {place for place in known if place not in fields} <= {"cancel"}  # whole operations are changed, too


def filled(call: Call, run_id: str, request_id: str) -> Message:
    """The request about a run, with a request id."""
    request = type(call.request)()
    request.CopyFrom(call.request)
    for place, stands in (("run_id", RUN), ("request_id", ID), ("start.request_id", ID), ("items.request_id", ID)):
        holder, name = part(request, place)
        if holder is not None and getattr(holder, name, None) == stands:
            setattr(holder, name, run_id if stands == RUN else request_id)
    return request


def part(request: Any, place: str) -> tuple[Any, str]:
    """The message that has the field, and the field's name; None: the request has none such."""
    *around, name = place.split(".")
    for step in around:
        if step not in request.DESCRIPTOR.fields_by_name:
            return None, name
        inner = getattr(request, step)
        request = inner if isinstance(inner, Message) else inner[0]
    return request, name


def changed(request: Message, place: str, value: Any) -> Message:
    """The same request with another value of one field."""
    other = type(request)()
    other.CopyFrom(request)
    holder, name = part(other, place)
    if isinstance(value, Message):
        getattr(holder, name).CopyFrom(value)
        getattr(holder, name).SetInParent()
    elif isinstance(value, dict | list):
        holder.ClearField(name)
        getattr(holder, name).update(value) if isinstance(value, dict) else getattr(holder, name).extend(value)
    else:
        setattr(holder, name, value)
    assert other != request
    return other


async def ask(coordinator: Coordinator, name: str, request: Message) -> Any:
    return await getattr(coordinator.runs, name)(request)


async def reason_of(coordinator: Coordinator, name: str, request: Message) -> tuple[str, dict[str, str]]:
    """With what it is refused: as a call, or in its only result."""
    if name not in {"StartMany", "Bulk"}:
        refusal = await refusal_of(ask(coordinator, name, request))
        assert refusal.code is grpc.StatusCode.ALREADY_EXISTS
        return refusal.reason, refusal.metadata
    (result,) = (await ask(coordinator, name, request)).results
    return result.refusal.reason, dict(result.refusal.metadata)


async def story(world: World) -> list[Any]:
    return await world.database.fetch("SELECT run_id, seq, type, event FROM run_events ORDER BY run_id, seq")


@pytest.mark.parametrize(("name", "call", "place"), CHANGES, ids=[f"{name}-{place}" for name, _, place in CHANGES])
async def test_another_request_with_the_id_is_refused_and_changes_nothing(
    name: str, call: Call, place: str, world: World
) -> None:
    other, request_id = await world.coordinator(), str(uuid4())
    request = filled(call, await call.setup(world), request_id)
    first = await ask(world.first, name, request)
    before = await story(world)

    reason, facts = await reason_of(other, name, changed(request, place, call.changed[place]))

    assert (reason, facts.get("key")) == ("KEY_REUSED", "order-1" if place == "start.workflow" else request_id)
    assert await ask(other, name, request) == first
    assert await story(world) == before


@pytest.mark.parametrize(("name", "call"), EVERY, ids=[f"{name}-{place}" for place, (name, _) in enumerate(EVERY)])
async def test_the_same_request_is_answered_as_the_first_time_by_whichever_coordinator(
    name: str, call: Call, world: World
) -> None:
    other = await world.coordinator()
    request = filled(call, await call.setup(world), str(uuid4()))
    first = await ask(world.first, name, request)
    before = await story(world)

    answers = [await ask(coordinator, name, request) for coordinator in (world.first, other)]

    if call is not BULK["delete"]:
        assert answers == [first, first]
    assert await story(world) == before


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("Cancel", "grace", MINUTE),
        ("Cancel", "namespace", "default"),
        ("Cancel", "no_compensation", False),
        ("Signal", "payload", b"null"),
        ("Signal", "key", ""),
        ("Skip", "output", b"null"),
        ("Retry", "render_inputs", False),
        ("Start", "input", b"{}"),
        ("Start", "traceparent", f"00-{'a' * 32}-{'b' * 16}-01"),
        ("Start", "version", 2),
        ("SignalWithStart", "start.input", b" { } "),
    ],
)
async def test_what_is_not_given_is_the_same_as_its_default(name: str, place: str, value: Any, world: World) -> None:
    call = CALLS[name]
    request = filled(call, await call.setup(world), str(uuid4()))
    holder, field_name = part(request, place)
    holder.ClearField(field_name)
    given: Any = type(request)()
    given.CopyFrom(request)
    holder, field_name = part(given, place)
    if isinstance(value, Message):
        getattr(holder, field_name).CopyFrom(value)
    else:
        setattr(holder, field_name, value)

    first = await ask(world.first, name, request)

    assert await ask(world.first, name, given) == first


async def test_an_id_of_another_kind_of_call_is_refused_with_the_kind_that_it_was_used_for(world: World) -> None:
    run_id, request_id = await waiting(world), str(uuid4())
    await ask(world.first, "Signal", filled(CALLS["Signal"], run_id, request_id))

    others = [name for name in CALLS if name not in {"Signal", "Start", "StartMany"}]
    told = [await reason_of(world.first, name, filled(CALLS[name], run_id, request_id)) for name in others]

    assert told == [("KEY_REUSED", {"key": request_id, "call": "Signal"})] * 6


async def test_a_dry_run_is_not_remembered_and_answers_what_the_request_would_be(world: World) -> None:
    run_id, request_id = await cancelled(world), str(uuid4())
    await world.first.retry(run_id, "nap", request_id=request_id, dry_run=True)

    first = await world.first.retry(run_id, request_id=request_id)
    again = await world.first.retry(run_id, request_id=request_id, dry_run=True)
    other = await refusal_of(world.first.retry(run_id, "nap", request_id=request_id, dry_run=True))

    assert (again, other.reason) == (first, "KEY_REUSED")


async def test_another_request_at_the_same_time_is_refused_and_one_of_them_is_done(world: World) -> None:
    run_id, request_id = await waiting(world), str(uuid4())
    async with world.locked("SELECT 1 FROM runs WHERE run_id = $1 FOR UPDATE", UUID(run_id)):
        signals = [
            runs_pb2.SignalRequest(run_id=run_id, request_id=request_id, name="other", payload=payload)
            for payload in (b"1", b"1", b"2")
        ]
        calls = [world.first.runs.Signal(signal) for signal in signals]
        await world.until_blocked()

    answers: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
    refusals = [refused(answer) for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
    done = [answer for answer in answers if isinstance(answer, runs_pb2.SignalResponse)]
    assert {refusal.reason for refusal in refusals} == {"KEY_REUSED"}
    assert len(done) + len(refusals) == 3
    assert len({answer.seq for answer in done}) == await world.one("SELECT count(*) FROM signals") == 1


def test_a_fingerprint_leaves_out_what_is_as_by_default_and_whose_request_it_is() -> None:
    mine = Signal(run_id=UUID(int=1), request_id=UUID(int=2), name="x", payload=Document(b"1"), trace="t")
    same = Signal(run_id=UUID(int=3), namespace="b", name="x", payload=Document(b"1"), ttl_ms=None)
    others = [
        Signal(run_id=UUID(int=1), name="x", payload=Document(b"1"), ttl_ms=1),
        Signal(run_id=UUID(int=1), name="x", payload=Document(b" 1")),
    ]

    assert (
        mine.fingerprint() == same.fingerprint() == bytes.fromhex("7a4067fb36de6ee6cdafda1b03649aa9")
    )  # of every version
    assert len({mine.fingerprint(), *(each.fingerprint() for each in others)}) == 3
