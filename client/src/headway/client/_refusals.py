"""What may go wrong with a call, as exceptions.

Two sorts: the server was not reached (`Unreachable`, `DeadlinePassed`: nobody knows whether the call took effect;
repeating it with the same request_id is safe), and the server refused (`Refused` and its subclasses: nothing happened).
The reason of a refusal is the `reason` of the google.rpc.ErrorInfo that comes with the status.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

import grpc
from google.rpc import error_details_pb2, status_pb2

from headway.client._definition_values import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from google.protobuf.message import Message

_DOMAIN = "headway"
_OVERSIZE = re.compile(r"(?:CLIENT: Sent|SERVER: Received) message larger than max \((\d+) vs\. (\d+)\)")
_DETAILS_KEY = "grpc-status-details-bin"


class HeadwayError(Exception):
    """Something went wrong with a call; the root of all exceptions of the client."""


class Unreachable(HeadwayError):
    """No coordinator answers at the address; the call may or may not have taken effect."""

    def __init__(self, address: str, why: str) -> None:
        """Name the address that was tried and what the last try ended with."""
        super().__init__(f"no coordinator answers at {address}: {why}")
        self.address = address
        self.why = why


class DeadlinePassed(HeadwayError):
    """The coordinator did not answer in time; the call may or may not have taken effect."""

    def __init__(self, address: str, seconds: float) -> None:
        """Name the address and how long the call waited."""
        super().__init__(f"the coordinator at {address} did not answer within {seconds:g} s")
        self.address = address
        self.seconds = seconds


class Refused(HeadwayError):
    """The coordinator refused the call; nothing happened.

    Attributes:
        reason: Stable, such as "RUN_NOT_FOUND"; the status code's name where the server named none.
        message: For people.
        metadata: Further facts, such as the run's id.
        code: The gRPC status code; UNKNOWN for an item of a list.
    """

    expected_reason: ClassVar[str] = ""

    def __init__(self, reason: str, message: str, metadata: Mapping[str, str], code: grpc.StatusCode) -> None:
        """Carry what the server said."""
        super().__init__(f"{message} ({reason})")
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata)
        self.code = code


class WorkflowNotFound(Refused):
    """No such workflow, or no such version of it."""

    expected_reason = "WORKFLOW_NOT_FOUND"


class VersionDeployed(Refused):
    """The version is the one that new runs take."""

    expected_reason = "VERSION_DEPLOYED"


class VersionNeeded(Refused):
    """Runs were started on the version; the metadata counts them and names some."""

    expected_reason = "VERSION_NEEDED"


class RunNotFound(Refused):
    """No such run in the namespace."""

    expected_reason = "RUN_NOT_FOUND"


class KeyNotFound(Refused):
    """No run was started with this key."""

    expected_reason = "KEY_NOT_FOUND"


class NodeNotFound(Refused):
    """The run's workflow has no such node."""

    expected_reason = "NODE_NOT_FOUND"


class InvalidInput(Refused):
    """The input breaks the workflow's input schema."""

    expected_reason = "INVALID_INPUT"


class InvalidPayload(Refused):
    """The input or payload is no JSON text in UTF-8."""

    expected_reason = "INVALID_PAYLOAD"


class PayloadTooLarge(Refused):
    """The input, payload or file is larger than the server takes."""

    expected_reason = "PAYLOAD_TOO_LARGE"


class InvalidLabel(Refused):
    """A label is too long, there are too many, or one cannot be computed from the input."""

    expected_reason = "INVALID_LABEL"


class InvalidKey(Refused):
    """The idempotency key is empty or too long."""

    expected_reason = "INVALID_KEY"


class InvalidRequestId(Refused):
    """The request id is no UUID."""

    expected_reason = "INVALID_REQUEST_ID"


class InvalidSignalName(Refused):
    """The signal's name is empty or too long."""

    expected_reason = "INVALID_SIGNAL_NAME"


class InvalidPageToken(Refused):
    """The page token is not one that the server gave out."""

    expected_reason = "INVALID_PAGE_TOKEN"


class BatchTooLarge(Refused):
    """The list has more items than the server takes in one call."""

    expected_reason = "BATCH_TOO_LARGE"


class KeyReused(Refused):
    """The idempotency key or the request id was used for another request."""

    expected_reason = "KEY_REUSED"


class RunClosed(Refused):
    """The run is over."""

    expected_reason = "RUN_CLOSED"


class RunStopping(Refused):
    """The run is being stopped."""

    expected_reason = "RUN_STOPPING"


class RunPaused(Refused):
    """The run is paused already, with its clock in another state."""

    expected_reason = "RUN_PAUSED"


class RunNotHeld(Refused):
    """The run is neither paused nor failed."""

    expected_reason = "RUN_NOT_HELD"


class NodeNotSkippable(Refused):
    """A worker holds the node, or it is done, or it waits for others."""

    expected_reason = "NODE_NOT_SKIPPABLE"


class RunNotFinished(Refused):
    """The run is not over yet."""

    expected_reason = "RUN_NOT_FINISHED"


class EndNotTold(Refused):
    """The run is over, and its parent was not told yet."""

    expected_reason = "END_NOT_TOLD"


class NodeNotReached(Refused):
    """The run never reached the node."""

    expected_reason = "NODE_NOT_REACHED"


class IterationDropped(Refused):
    """The node's iteration is over, and its repeat dropped its rows since."""

    expected_reason = "ITERATION_DROPPED"


class NodeUndoes(Refused):
    """The node undoes another, which is to be retried instead."""

    expected_reason = "NODE_UNDOES"


class NothingToRetry(Refused):
    """No node of the run failed or was stopped."""

    expected_reason = "NOTHING_TO_RETRY"


class Overloaded(Refused):
    """The server has too much to do, and had so for as long as the client was ready to wait."""

    expected_reason = "OVERLOADED"


class StoreUnavailable(Refused):
    """The coordinator cannot reach its database, and could not for as long as the client was ready to wait.

    Unlike with other refusals, the call may have taken effect; repeating it with the same request_id is safe.
    """

    expected_reason = "STORE_UNAVAILABLE"


class DefinitionFaulty(Refused):
    """The definition has faults; nothing was stored.

    Attributes:
        faults: All of them and the warnings, in order of place. The first ones only, with warnings not told from
            faults, where the coordinator could not be asked again.
    """

    expected_reason = "DEFINITION_FAULTY"

    def __init__(
        self,
        reason: str,
        message: str,
        metadata: Mapping[str, str],
        code: grpc.StatusCode,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        """Carry what the server said, with the faults."""
        super().__init__(reason, message, metadata, code)
        self.faults = faults


def _refusals(root: type[Refused]) -> dict[str, type[Refused]]:
    return {refusal.expected_reason: refusal for refusal in root.__subclasses__()}


REFUSALS = _refusals(Refused)
"""Which exception each reason becomes; other reasons become plain `Refused`."""


def retry_hint(error: grpc.aio.AioRpcError) -> timedelta | None:
    """How long the server asks to wait before the next try; None: it does not ask for one."""
    hint = error_details_pb2.RetryInfo()
    if not _unpack(_status(error), hint):
        return None
    return hint.retry_delay.ToTimedelta()


def has_reason(error: grpc.aio.AioRpcError) -> bool:
    """True when a coordinator answered and says why; False when it is gRPC that could not reach one."""
    info = error_details_pb2.ErrorInfo()
    return _unpack(_status(error), info) and info.domain == _DOMAIN


def refusal(error: grpc.aio.AioRpcError) -> Refused:
    """The exception that a refused call raises."""
    status = _status(error)
    code = error.code()
    info = error_details_pb2.ErrorInfo()
    if not _unpack(status, info) or info.domain != _DOMAIN:
        if sizes := _OVERSIZE.search(error.details() or ""):  # gRPC itself, here or there
            facts = {"field": "the request", "size": sizes[1], "limit": sizes[2]}
            message = "{field} has {size} bytes; the limit is {limit}. Store it elsewhere and pass a reference."
            return PayloadTooLarge(PayloadTooLarge.expected_reason, message.format_map(facts), facts, code)
        return Refused(code.name, error.details() or "the call was refused", {}, code)
    message = error.details() or info.reason
    kind = REFUSALS.get(info.reason, Refused)
    if kind is DefinitionFaulty:
        return DefinitionFaulty(info.reason, message, info.metadata, code, _faults(status))
    return kind(info.reason, message, info.metadata, code)


def item_refusal(reason: str, message: str, metadata: Mapping[str, str]) -> Refused:
    """The refusal of one item of a list."""
    return REFUSALS.get(reason, Refused)(reason, message, metadata, grpc.StatusCode.UNKNOWN)


def _status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    status = status_pb2.Status()
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            status.ParseFromString(value)
    return status


def _unpack(status: status_pb2.Status, into: Message) -> bool:
    return any(detail.Unpack(into) for detail in status.details)


def _faults(status: status_pb2.Status) -> tuple[Fault, ...]:
    """What a BadRequest says of the faults: the first of them, as many as fit in trailers."""
    bad_request = error_details_pb2.BadRequest()
    _unpack(status, bad_request)
    return tuple(_fault_of(each) for each in bad_request.field_violations)


def _fault_of(violation: error_details_pb2.BadRequest.FieldViolation) -> Fault:
    place = re.search(r"(\d+):(\d+)$", violation.field)
    message, _, remedy = violation.description.partition(" — ")
    return Fault(
        line=int(place[1]) if place else 1,
        column=int(place[2]) if place else 1,
        code=violation.reason,
        message=message,
        remedy=remedy,
        warning=False,
    )
