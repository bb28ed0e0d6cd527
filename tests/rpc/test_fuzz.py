"""Whatever stands in a request's fields: the answer is an answer or a refusal, never the server's own error."""

from __future__ import annotations

import asyncio
from typing import Any

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
from tests.rpc.world import EVENT, ONE, TWO, World

METHODS = [
    (f"/{service.full_name}/{method.name}", method)
    for file in (definitions_pb2, runs_pb2, tasks_pb2, timers_pb2, events_pb2, outbox_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
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
    """Requests of which each field is mostly good: else every request would end at its first field."""

    def __init__(self, run_ids: list[str]) -> None:
        paths = ["work", "first", "second", "ask", "go", ""]
        uuids = [f"01890000-0000-7000-8000-00000000000{n}" for n in range(8)]
        self._good: dict[str, list[Any]] = {
            "run_id": run_ids,
            "request_id": uuids,
            "task_id": [f"{run_id}:{path}" for run_id in run_ids for path in paths],
            "workflow": ["one", "two", "waiting"],
            "namespace": ["", "default"],
            "owner": ["w1"],
            "version": [0, 1],
            "attempt": [0, 1, 2],
            "page_size": [0, 5],
            "page_token": [""],
            "source": [ONE, TWO, EVENT],
            "key": ["k1", "k2"],
            "path": paths,
            "kind": ["wait", "retry", "event_timeout", "run_deadline", "cancel_grace"],
            "name": ["approval", "other"],
            "grant_key": ["g1", "g2"],
            "traceparent": ["", f"00-{'a' * 32}-{'b' * 16}-01"],
            "from_nodes": paths[:5],
            "queue": ["default"],
            "type": ["SignalReceived", "Broken"],
            "event": [b'{"name":"x","payload":1}'],
            "seconds": [0, 1, 30],
            "nanos": [0, 1],
            "from_seq": [0, 1, 2],
        }
        self._texts = st.sampled_from(ODD_TEXTS) | st.text(
            alphabet=st.characters(exclude_categories=("Cs",)), max_size=40
        )
        self._bytes = st.sampled_from(ODD_BYTES) | st.binary(max_size=40)

    def of(self, descriptor: Descriptor) -> st.SearchStrategy[message.Message]:
        cls: Any = GetMessageClass(descriptor)
        usual = {field.name: self._field(field) for field in descriptor.fields if field.name in self._good}
        others = {field.name: self._field(field) for field in descriptor.fields if field.name not in self._good}
        fields = st.fixed_dictionaries(usual, optional=others)
        return fields.map(lambda given: cls(**_one_of_each(descriptor, given)))

    def _field(self, field: FieldDescriptor) -> st.SearchStrategy[Any]:
        one = self._value(field)
        if good := self._good.get(field.name):
            usual, odd = st.sampled_from(good), one
            one = st.integers(0, 11).flatmap(lambda chance: odd if chance == 7 else usual)
        return st.lists(one, max_size=3) if field.is_repeated else one

    def _value(self, field: FieldDescriptor) -> st.SearchStrategy[Any]:
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_MESSAGE:
                assert field.message_type is not None
                return self.of(field.message_type)
            case FieldDescriptor.CPPTYPE_STRING:
                return self._bytes if field.type == FieldDescriptor.TYPE_BYTES else self._texts
            case FieldDescriptor.CPPTYPE_BOOL:
                return st.booleans()
            case FieldDescriptor.CPPTYPE_INT64:
                return st.sampled_from(ODD_LONGS) | st.integers(-(1 << 63), (1 << 63) - 1)
            case _:
                return st.sampled_from(ODD_INTS) | st.integers(-(1 << 31), (1 << 31) - 1)


def _one_of_each(descriptor: Descriptor, given: dict[str, Any]) -> dict[str, Any]:
    """Keep one field of each oneof: the last would win anyway."""
    for oneof in descriptor.oneofs:
        for name in [field.name for field in oneof.fields if field.name in given][1:]:
            del given[name]
    return given


async def call(world: World, path: str, method: Any, request: message.Message) -> grpc.StatusCode:
    answer: Any = GetMessageClass(method.output_type)
    arguments = {"request_serializer": type(request).SerializeToString, "response_deserializer": answer.FromString}
    try:
        if method.server_streaming:
            stream = world.first.channel.unary_stream(path, **arguments)(request, timeout=20)
            await asyncio.wait_for(stream.read(), 0.02)
            stream.cancel()
        else:
            await world.first.channel.unary_unary(path, **arguments)(request, timeout=20)
    except TimeoutError:
        stream.cancel()
    except grpc.aio.AioRpcError as error:
        if error.code() not in ALLOWED:
            pytest.fail(f"{path}\n{request}\n{error.code()}: {error.details()}")
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(("path", "method"), METHODS, ids=[path.rpartition(".")[2] for path, _ in METHODS])
async def test_no_request_whatever_is_in_it_is_answered_with_the_servers_own_error(
    path: str, method: Any, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.first.deploy(ONE, TWO, EVENT)
    done = await world.first.start("waiting")
    await world.first.cancel(done)
    open_runs = [await world.first.start(workflow) for workflow in ("one", "two", "waiting")]
    await world.first.lease_all(await world.dispatches())
    corpus = Corpus([done, *open_runs])
    requests: list[message.Message] = []

    @settings(
        max_examples=60,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(corpus.of(method.input_type))
    def collect(request: message.Message) -> None:
        requests.append(request)

    collect()
    codes = {await call(world, path, method, request) for request in requests}

    assert "item left out" not in caplog.text
    assert grpc.StatusCode.OK in codes  # it reaches what lies behind the checks


async def test_bytes_that_are_no_message_at_all_are_refused_by_grpc_itself(world: World) -> None:
    for path, method in METHODS:
        if method.server_streaming:
            continue
        raw = world.first.channel.unary_unary(
            path, request_serializer=lambda given: given, response_deserializer=lambda given: given
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw(b"\xff\xff\xff\xff\x07", timeout=20)
        assert caught.value.code() in {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}  # before any code of ours
