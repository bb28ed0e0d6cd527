"""A coordinator by script: a real gRPC server in this process that answers as a test says, and keeps what it was asked.

It stands in for the remote peer of the client and of the command line; it knows nothing of workflows.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from headway.api.definitions.v1 import definitions_pb2_grpc
from headway.api.runs.v1 import runs_pb2_grpc


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An answer: the call is refused."""

    reason: str
    code: grpc.StatusCode = grpc.StatusCode.FAILED_PRECONDITION
    message: str = "refused by script"
    metadata: dict[str, str] = field(default_factory=dict)
    retry_after: float | None = None
    details: tuple[Message, ...] = ()
    domain: str = "headway"


@dataclass(frozen=True, kw_only=True)
class Plain:
    """An answer: a status without details, as gRPC itself makes them."""

    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    message: str = "unavailable by script"


class Silence:
    """An answer that never comes."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """An answer to Watch: messages, then how the stream ends; None: in good order."""

    messages: Sequence[Message] = ()
    then: Refusal | Plain | Silence | None = None


Answer: TypeAlias = Message | Refusal | Plain | Stream | Silence | Callable[[Any], Message]


class ScriptedCoordinator:
    """Answers calls from a script; each method's last answer is given again and again."""

    def __init__(self) -> None:
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self._script: dict[str, deque[Answer]] = defaultdict(deque)
        self._server: grpc.aio.Server | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def script(self, method: str, *answers: Answer) -> None:
        """Set the answers to a method, such as "runs.Start"."""
        self._script[method] = deque(answers)

    async def start(self) -> None:
        """Listen; at a restart, on the same port."""
        server = grpc.aio.server()
        runs_pb2_grpc.add_RunsServiceServicer_to_server(
            _servicer(runs_pb2_grpc.RunsServiceServicer, "runs", self), server
        )
        definitions_pb2_grpc.add_DefinitionsServiceServicer_to_server(
            _servicer(definitions_pb2_grpc.DefinitionsServiceServicer, "definitions", self), server
        )
        self.port = server.add_insecure_port(f"127.0.0.1:{self.port}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Cut every connection."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    def next_answer(self, method: str, request: Message) -> Answer:
        """The next answer of the script; the last one stays."""
        self.requests[method].append(request)
        answers = self._script[method]
        if not answers:
            return Plain(code=grpc.StatusCode.UNIMPLEMENTED, message=f"no answer in the script for {method}")
        return answers.popleft() if len(answers) > 1 else answers[0]


async def _refuse(answer: Refusal | Plain, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    if isinstance(answer, Plain):
        await context.abort(answer.code, answer.message)
    assert isinstance(answer, Refusal)
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=answer.reason, domain=answer.domain, metadata=answer.metadata)
    ]
    if answer.retry_after is not None:
        delay = Duration()
        delay.FromNanoseconds(int(answer.retry_after * 1e9))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=code_pb2.Code.Value(answer.code.name), message=answer.message)
    for detail in [*details, *answer.details]:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    await context.abort_with_status(rpc_status.to_status(status))


def _unary(coordinator: ScriptedCoordinator, method: str) -> Callable[..., Any]:
    async def serve(_self: object, request: Message, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
        answer = coordinator.next_answer(method, request)
        if isinstance(answer, Silence):
            await asyncio.Event().wait()
        if isinstance(answer, Refusal | Plain):
            await _refuse(answer, context)
        if isinstance(answer, Message):
            return answer
        assert callable(answer)
        return answer(request)

    return serve


def _streaming(coordinator: ScriptedCoordinator, method: str) -> Callable[..., Any]:
    async def serve(_self: object, request: Message, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        answer = coordinator.next_answer(method, request)
        if isinstance(answer, Stream):
            for message in answer.messages:
                yield message
            answer = answer.then or Stream()
        if isinstance(answer, Silence):
            await asyncio.Event().wait()
        if isinstance(answer, Refusal | Plain):
            await _refuse(answer, context)

    return serve


def _servicer(kind: type[Any], prefix: str, coordinator: ScriptedCoordinator) -> Any:
    calls = [name for name in vars(kind) if name[0].isupper()]
    methods = {name: (_streaming if name == "Watch" else _unary)(coordinator, f"{prefix}.{name}") for name in calls}
    return type(f"Scripted{kind.__name__}", (kind,), methods)()
