"""From refusals to gRPC: one table from reason to status, and ErrorInfo on every one of them."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.core.refusals import Refusal, bare
from headway.coordinator.engine.definitions import Faulty
from headway.coordinator.store.errors import StoreConflict, StoreUnavailable

DOMAIN = "headway"
# Details travel in trailers, of which clients take 8 KiB by default; the message is in them twice, once %-encoded.
MESSAGE_BYTES = 600
VALUE_BYTES = 200
FAULTS_BYTES = 3_000

STATUS: Mapping[str, grpc.StatusCode] = {
    "RUN_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "KEY_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "TASK_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "NODE_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "WORKFLOW_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "RUN_CLOSED": grpc.StatusCode.FAILED_PRECONDITION,
    "RUN_STOPPING": grpc.StatusCode.FAILED_PRECONDITION,
    "RUN_PAUSED": grpc.StatusCode.FAILED_PRECONDITION,
    "RUN_NOT_HELD": grpc.StatusCode.FAILED_PRECONDITION,
    "NODE_NOT_SKIPPABLE": grpc.StatusCode.FAILED_PRECONDITION,
    "RUN_NOT_FINISHED": grpc.StatusCode.FAILED_PRECONDITION,
    "END_NOT_TOLD": grpc.StatusCode.FAILED_PRECONDITION,
    "NODE_NOT_REACHED": grpc.StatusCode.FAILED_PRECONDITION,
    "ITERATION_DROPPED": grpc.StatusCode.FAILED_PRECONDITION,
    "NODE_UNDOES": grpc.StatusCode.FAILED_PRECONDITION,
    "NOTHING_TO_RETRY": grpc.StatusCode.FAILED_PRECONDITION,
    "VERSION_DEPLOYED": grpc.StatusCode.FAILED_PRECONDITION,
    "VERSION_NEEDED": grpc.StatusCode.FAILED_PRECONDITION,
    "INVALID_INPUT": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_PAYLOAD": grpc.StatusCode.INVALID_ARGUMENT,
    "PAYLOAD_TOO_LARGE": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_LABEL": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_KEY": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_REQUEST_ID": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_ARGUMENT": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_SIGNAL_NAME": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_OWNER": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_PAGE_TOKEN": grpc.StatusCode.INVALID_ARGUMENT,
    "BATCH_TOO_LARGE": grpc.StatusCode.INVALID_ARGUMENT,
    "DEFINITION_FAULTY": grpc.StatusCode.INVALID_ARGUMENT,
    "KEY_REUSED": grpc.StatusCode.ALREADY_EXISTS,
    "OVERLOADED": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "STORE_UNAVAILABLE": grpc.StatusCode.UNAVAILABLE,
    "EVENT_UNDECIDABLE": grpc.StatusCode.ABORTED,
}

Refused = (Refusal, StoreUnavailable, StoreConflict)
_Parameters = ParamSpec("_Parameters")
_Response = TypeVar("_Response")


def reason_of(error: Exception) -> str:
    """The stable reason of a refusal."""
    is_store = isinstance(error, StoreUnavailable | StoreConflict)
    return "STORE_UNAVAILABLE" if is_store else str(getattr(error, "reason", ""))


def item_refusal(error: Exception) -> tasks_pb2.Refusal:
    """A refusal of one item in a list."""
    metadata: dict[str, str] = getattr(error, "metadata", {})
    return tasks_pb2.Refusal(reason=reason_of(error), message=str(error), metadata=metadata)


async def refuse(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    """Abort the call with the refusal's status and details.

    The context keeps the error that it aborts with, and that error the frames that it comes through: they let go of it.
    """
    reason = reason_of(error)
    status = STATUS[reason]
    given: dict[str, str] = getattr(error, "metadata", {})
    metadata = {name: cut(value, VALUE_BYTES) for name, value in given.items()}
    packed = [_pack(error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata))]
    if isinstance(error, Faulty):
        packed.append(_pack(_bad_request(error)))
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        hint = error_details_pb2.RetryInfo()
        hint.retry_delay.FromMilliseconds(int(given["retry_ms"]))
        packed.append(_pack(hint))
    rich = status_pb2.Status(
        code=code_pb2.Code.Value(status.name), message=cut(str(error), MESSAGE_BYTES), details=packed
    )
    try:
        await context.abort_with_status(rpc_status.to_status(rich))
    finally:
        del context, error
    raise AssertionError("abort returns never")


def refusing(
    method: Callable[_Parameters, Awaitable[_Response]],
) -> Callable[_Parameters, Coroutine[Any, Any, _Response]]:
    """Turn the refusals of an RPC's method (self, request, context) into gRPC errors."""

    @wraps(method)
    async def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Response:
        try:
            return await method(*args, **kwargs)
        except Refused as error:
            refusal = bare(error)
        refused = refuse(cast("grpc.aio.ServicerContext[Any, Any]", args[2]), refusal)
        del args, kwargs, refusal
        return await refused

    return wrapped


def _bad_request(error: Faulty) -> error_details_pb2.BadRequest:
    """The first faults, as many as fit; Check returns all of them."""
    answer = error_details_pb2.BadRequest()
    for fault in error.faults:
        description = cut(f"{fault.message} — {fault.remedy}", MESSAGE_BYTES)
        answer.field_violations.add(field=f"{fault.line}:{fault.column}", description=description, reason=fault.code)
        if answer.ByteSize() > FAULTS_BYTES:
            del answer.field_violations[-1]
            break
    return answer


def cut(text: str, limit: int) -> str:
    """Cut a text to a limit of bytes, and say so."""
    raw = text.encode()
    return text if len(raw) <= limit else raw[: limit - 3].decode(errors="ignore") + "…"


def _pack(detail: Any) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
