"""Whatever stands in a request's fields: the answer is an answer or a refusal, never the server's own error."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from typing import Any
from uuid import uuid4

import grpc
import pytest
from google.protobuf import message
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headway.api.definitions.v1 import definitions_pb2
from headway.api.events.v1 import events_pb2
from headway.api.outbox.v1 import outbox_pb2
from headway.api.runs.v1 import runs_pb2
from headway.api.tasks.v1 import tasks_pb2
from headway.api.timers.v1 import timers_pb2
from tests.rpc.world import EVENT, ONE, TWO, World, refusal_of

METHODS = [
    (f"/{service.full_name}/{method.name}", method)
    for file in (definitions_pb2, runs_pb2, tasks_pb2, timers_pb2, events_pb2, outbox_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
RUNS = 40  # whose tasks are held: requests take them in turn, so that most reach their aim
CHANCES = 20  # requests by chance, of each method
ALLOWED = {
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
}
ODD_TEXTS = [
    "",
    "\x00",
    "a\x00b",
    "default",
    "ü",
    "\U0001f600",
    "x" * 201,
    "0" * 32,
    "f" * 32,
    "0" * 31 + "ü",
    "٣" * 32,
    "0x" + "0" * 30,
]
ODD_INTS = [0, 1, -1, 2, 1_000, 1_001, (1 << 31) - 1, -(1 << 31)]
ODD_LONGS = [*ODD_INTS, (1 << 63) - 1, -(1 << 63), 315_576_000_001]
ODD_BYTES = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b"{",
    b"\xff",
    b"\x00",
    b'"\\u0000"',
    b'{"name":"x","payload":1}',
    b"1e999",
    b"[" * 2_000,
]


class Corpus:
    """Requests that are good but for one field, which is odd in every way we know; and requests by chance."""

    def __init__(self, open_runs: Sequence[str], done_runs: Sequence[str]) -> None:
        """Take runs whose task `first` is held by w1, and runs that are over."""
        good: dict[str, list[Any]] = {
            "run_id": [run_id for pair in zip(open_runs, cycle(done_runs), strict=False) for run_id in pair],
            "request_id": [f"01890000-0000-7000-8000-0000{n:04x}0000" for n in range(1_000)],
            "task_id": [f"{run_id}:first" for run_id in open_runs],
            "workflow": ["two", "one"],
            "namespace": [""],
            "owner": ["w1"],
            "version": [1, 0],
            "attempt": [1],
            "page_size": [5],
            "page_token": [""],
            "source": [TWO],
            "path": ["first", "ask", ""],
            "kind": ["wait", "retry", "run_deadline"],
            "name": ["approval"],
            "grant_key": ["g1", "g2"],
            "traceparent": [f"00-{'a' * 32}-{'b' * 16}-01"],
            "from_nodes": ["ask"],
            "queue": ["default"],
            "type": ["SignalReceived"],
            "event": [b'{"name":"x","payload":1}'],
            "input": [b'{"a":1}'],
            "output": [b"1"],
            "payload": [b"1"],
            "details": [b"{}"],
            "seconds": [1],
            "nanos": [0],
            "from_seq": [1],
        }
        self._good = {name: cycle(values) for name, values in good.items()}

    def spoiled(self, descriptor: Descriptor) -> Iterator[message.Message]:
        """One request for each field, also those within, and each odd value."""
        cls: Any = GetMessageClass(descriptor)
        for field in descriptor.fields:
            for odd in self._odd(field):
                fields = self._fields(descriptor, keep=field)
                fields[field.name] = [odd] if field.is_repeated else odd
                yield cls(**_maps(descriptor, fields))

    def _fields(self, descriptor: Descriptor, keep: FieldDescriptor) -> dict[str, Any]:
        """Good fields, but for those that share a oneof with the one to keep."""
        rivals = {field.name for oneof in descriptor.oneofs if keep in oneof.fields for field in oneof.fields}
        return {
            field.name: [next(self._good[field.name])] if field.is_repeated else next(self._good[field.name])
            for field in descriptor.fields
            if field.name in self._good and field.name not in rivals
        }

    def _odd(self, field: FieldDescriptor) -> Iterable[Any]:
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_MESSAGE:
                assert field.message_type is not None
                return [GetMessageClass(field.message_type)(), *self.spoiled(field.message_type)]
            case FieldDescriptor.CPPTYPE_STRING:
                return ODD_BYTES if field.type == FieldDescriptor.TYPE_BYTES else ODD_TEXTS
            case FieldDescriptor.CPPTYPE_BOOL:
                return [True]
            case FieldDescriptor.CPPTYPE_INT64:
                return ODD_LONGS
            case _:
                return ODD_INTS

    def by_chance(self, descriptor: Descriptor) -> st.SearchStrategy[message.Message]:
        cls: Any = GetMessageClass(descriptor)
        fields = st.fixed_dictionaries({}, optional={field.name: self._any(field) for field in descriptor.fields})
        return fields.map(lambda given: cls(**_maps(descriptor, _one_of_each(descriptor, given))))

    def _any(self, field: FieldDescriptor) -> st.SearchStrategy[Any]:
        one = self._value(field)
        if good := self._good.get(field.name):
            one |= st.just([next(good) for _ in range(5)]).flatmap(st.sampled_from)
        return st.lists(one, max_size=3) if field.is_repeated else one

    def _value(self, field: FieldDescriptor) -> st.SearchStrategy[Any]:
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_MESSAGE:
                assert field.message_type is not None
                return self.by_chance(field.message_type)
            case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
                return st.binary(max_size=40)
            case FieldDescriptor.CPPTYPE_STRING:
                return st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=40)
            case FieldDescriptor.CPPTYPE_BOOL:
                return st.booleans()
            case FieldDescriptor.CPPTYPE_INT64:
                return st.integers(-(1 << 63), (1 << 63) - 1)
            case _:
                return st.integers(-(1 << 31), (1 << 31) - 1)


def _one_of_each(descriptor: Descriptor, given: dict[str, Any]) -> dict[str, Any]:
    """Keep one field of each oneof: the last would win anyway."""
    for oneof in descriptor.oneofs:
        for name in [field.name for field in oneof.fields if field.name in given][1:]:
            del given[name]
    return given


def _maps(descriptor: Descriptor, given: dict[str, Any]) -> dict[str, Any]:
    """Maps as they are given: their fields are lists of entries."""
    for field in descriptor.fields:
        if field.name in given and field.message_type is not None and field.message_type.GetOptions().map_entry:
            given[field.name] = {entry.key: entry.value for entry in given[field.name]}
    return given


async def good_ones(world: World, path: str) -> list[message.Message]:
    """Requests that reach what lies behind the checks only all of a piece."""
    if path.endswith("/Bulk"):
        wanted = runs_pb2.RunFilter(workflow="two")
        return [
            runs_pb2.BulkRequest(filter=wanted, cancel=runs_pb2.BulkCancel(), dry_run=True, request_id=str(uuid4()))
        ]
    if path.endswith("/ListItems"):
        await world.first.deploy(
            "workflow: mapped\nnodes: {m: {type: map, over: [1], body: {type: call, handler: h}}}\n"
        )
        run_id = await world.first.start("mapped")
        return [runs_pb2.ListItemsRequest(run_id=run_id, path="m")]
    if path.endswith("/Skip"):
        run_id = await world.first.start("two")
        await world.first.runs.Pause(runs_pb2.PauseRequest(run_id=run_id, request_id=str(uuid4())))
        return [runs_pb2.SkipRequest(run_id=run_id, node="first", output=b"1", request_id=str(uuid4()))]
    return []


async def call(world: World, path: str, method: Any, request: message.Message) -> grpc.StatusCode:
    channel: Any = world.first.channel
    answer: Any = GetMessageClass(method.output_type)
    arguments = {"request_serializer": type(request).SerializeToString, "response_deserializer": answer.FromString}
    try:
        if method.server_streaming:
            stream = channel.unary_stream(path, **arguments)(request, timeout=20)
            with contextlib.suppress(TimeoutError):  # it has nothing to tell
                await asyncio.wait_for(stream.read(), 0.02)
            stream.cancel()
        else:
            await channel.unary_unary(path, **arguments)(request, timeout=20)
    except grpc.aio.AioRpcError as error:
        if error.code() not in ALLOWED:
            pytest.fail(f"{path}\n{request}\n{error.code()}: {error.details()}")
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(("path", "method"), METHODS, ids=[path.rpartition(".")[2] for path, _ in METHODS])
async def test_no_request_whatever_is_in_it_is_answered_with_the_servers_own_error(
    path: str, method: Any, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.first.deploy(ONE, f"{ONE}description: newer\n", TWO, EVENT)
    done = [await world.first.start("waiting") for _ in range(4)]
    await asyncio.gather(*(world.first.cancel(run_id) for run_id in done))
    held = await asyncio.gather(*(world.first.start("two") for _ in range(RUNS)))
    await world.first.lease_all(await world.dispatches())
    corpus = Corpus(held, done)
    requests = list(corpus.spoiled(method.input_type)) + await good_ones(world, path)

    @settings(
        max_examples=CHANCES,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(corpus.by_chance(method.input_type))
    def collect(request: message.Message) -> None:
        requests.append(request)

    collect()
    codes = {await call(world, path, method, request) for request in requests}

    assert "item left out" not in caplog.text
    assert grpc.StatusCode.OK in codes  # it reaches what lies behind the checks


async def test_bytes_that_are_no_message_at_all_are_refused_with_a_reason_too(world: World) -> None:
    for path, method in METHODS:
        kind = world.first.channel.unary_stream if method.server_streaming else world.first.channel.unary_unary
        raw: Any = kind(path, request_serializer=bytes, response_deserializer=bytes)
        for garbage in (b"\xff\xff\xff\xff\x07", b"\x0a\x7f"):
            call = raw(garbage, timeout=20)
            refused = await refusal_of(call.read() if method.server_streaming else call)
            assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"), path
