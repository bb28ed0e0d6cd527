"""From refusals to gRPC: one table from reason to status, and ErrorInfo on every one of them."""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from headway.api.tasks.v1 import tasks_pb2
from headway.coordinator.core.machines import IllegalTransition
from headway.coordinator.core.refusals import Refusal
from headway.coordinator.engine.definitions import Faulty
from headway.coordinator.store.errors import StoreUnavailable

DOMAIN = "headway"
RETRY_SECONDS = 1  # the hint that goes out with RESOURCE_EXHAUSTED

STATUS: Mapping[str, grpc.StatusCode] = {
    "RUN_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "TASK_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "NODE_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "WORKFLOW_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "RUN_CLOSED": grpc.StatusCode.FAILED_PRECONDITION,
    "RUN_NOT_FINISHED": grpc.StatusCode.FAILED_PRECONDITION,
    "NODE_NOT_REACHED": grpc.StatusCode.FAILED_PRECONDITION,
    "NOTHING_TO_RETRY": grpc.StatusCode.FAILED_PRECONDITION,
    "ILLEGAL_TRANSITION": grpc.StatusCode.FAILED_PRECONDITION,
    "TERMINAL_STATE": grpc.StatusCode.FAILED_PRECONDITION,
    "LEASE_REQUIRED": grpc.StatusCode.FAILED_PRECONDITION,
    "INVALID_INPUT": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_PAYLOAD": grpc.StatusCode.INVALID_ARGUMENT,
    "PAYLOAD_TOO_LARGE": grpc.StatusCode.INVALID_ARGUMENT,
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

Refused = (Refusal, IllegalTransition, StoreUnavailable)
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


def reason_of(error: Exception) -> str:
    """The stable reason of a refusal."""
    return "STORE_UNAVAILABLE" if isinstance(error, StoreUnavailable) else str(getattr(error, "reason", ""))


def item_refusal(error: Exception) -> tasks_pb2.Refusal:
    """A refusal of one item in a list."""
    metadata: dict[str, str] = getattr(error, "metadata", {})
    return tasks_pb2.Refusal(reason=reason_of(error), message=str(error), metadata=metadata)


async def refuse(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    """Abort the call with the refusal's status and details."""
    reason = reason_of(error)
    status = STATUS[reason]
    metadata: dict[str, str] = getattr(error, "metadata", {})
    details = [error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)]
    packed = [_pack(detail) for detail in details]
    if isinstance(error, Faulty):
        packed.append(_pack(_bad_request(error)))
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        hint = error_details_pb2.RetryInfo()
        hint.retry_delay.FromSeconds(RETRY_SECONDS)
        packed.append(_pack(hint))
    rich = status_pb2.Status(code=code_pb2.Code.Value(status.name), message=str(error), details=packed)
    await context.abort_with_status(rpc_status.to_status(rich))
    raise AssertionError("abort returns never")


def refusing(
    method: Callable[[Any, _Request, Any], Awaitable[_Response]],
) -> Callable[[Any, _Request, Any], Awaitable[_Response]]:
    """Turn a method's refusals into gRPC errors."""

    @wraps(method)
    async def wrapped(service: Any, request: _Request, context: Any) -> _Response:
        try:
            return await method(service, request, context)
        except Refused as error:
            await refuse(context, error)

    return wrapped


def _bad_request(error: Faulty) -> error_details_pb2.BadRequest:
    violations = [
        error_details_pb2.BadRequest.FieldViolation(
            field=f"{fault.line}:{fault.column}", description=f"{fault.message} — {fault.remedy}", reason=fault.code
        )
        for fault in error.faults
    ]
    return error_details_pb2.BadRequest(field_violations=violations)


def _pack(detail: Any) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
