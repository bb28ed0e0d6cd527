"""What a caller can be refused. Each refusal is a class: its docstring is its message, its `reason` is on the wire.

The gRPC status of each reason stands in one table in `rpc`; a test proves that none is missing.
"""

from typing import ClassVar, TypeVar

Error = TypeVar("Error", bound=BaseException)


class Refusal(Exception):
    """The request was refused and nothing was changed."""

    reason: ClassVar[str] = ""

    def __init__(self, **metadata: str) -> None:
        """Fill the docstring's placeholders; the same facts go out as metadata."""
        self.metadata = metadata
        super().__init__((self.__doc__ or "").split("\n", 1)[0].format_map(metadata))


def bare(error: Error) -> Error:
    """Take the tracebacks from an error that is kept as an answer, and from what caused it; return it.

    A traceback holds frames, a frame what it was about, and often the answer itself: such a ring is freed by the
    garbage collector alone, which counts objects and not the bytes of their payloads.
    """
    rest: BaseException | None = error
    while rest is not None and rest.__traceback__ is not None:
        rest.__traceback__ = None
        rest = rest.__cause__ or rest.__context__
    return error


class RunNotFound(Refusal):
    """There is no run {run_id} in namespace {namespace}."""

    reason = "RUN_NOT_FOUND"


class TaskNotFound(Refusal):
    """There is no task {task_id}: acknowledge its message."""

    reason = "TASK_NOT_FOUND"


class RunClosed(Refusal):
    """Run {run_id} is {state}: it takes no {request} any more; `retry` reopens it."""

    reason = "RUN_CLOSED"


class RunStopping(Refusal):
    """Run {run_id} is being stopped: nothing more starts in it, so there is nothing to pause."""

    reason = "RUN_STOPPING"


class RunPaused(Refusal):
    """Run {run_id} is paused already, with its clock {clock}: resume it before it is paused in another way."""

    reason = "RUN_PAUSED"


class RunNotHeld(Refusal):
    """Run {run_id} is {state}: a node can be skipped in a paused or in a failed run only; pause it first."""

    reason = "RUN_NOT_HELD"


class NodeNotSkippable(Refusal):
    """Node {node} is {state}, so it cannot be skipped: {remedy}."""

    reason = "NODE_NOT_SKIPPABLE"


class KeyNotFound(Refusal):
    """No run was started with the key {key!r} in namespace {namespace}, or it is not of the workflow named."""

    reason = "KEY_NOT_FOUND"


class RunNotFinished(Refusal):
    """Run {run_id} is {state}: only a finished run can be retried or deleted; cancel it first or wait for its end."""

    reason = "RUN_NOT_FINISHED"


class EndNotTold(Refusal):
    """Run {run_id} is over, and its parent, run {parent}, was not told yet: delete it when it was, in a moment."""

    reason = "END_NOT_TOLD"


class NodeNotFound(Refusal):
    """Workflow {workflow} version {version} has no node {node}."""

    reason = "NODE_NOT_FOUND"


class NodeNotReached(Refusal):
    """Node {node} was never reached in this run, so there is nothing to redo or to skip there."""

    reason = "NODE_NOT_REACHED"


class IterationDropped(Refusal):
    """The rows of {scope} were dropped (keep_last: {kept}), so {node} cannot be done again: name a later iteration."""

    reason = "ITERATION_DROPPED"


class NothingToRetry(Refusal):
    """No task of run {run_id} failed or was stopped: name the nodes to start from."""

    reason = "NOTHING_TO_RETRY"


class NodeUndoes(Refusal):
    """Node {node} undoes {undone} and is never retried by itself: retry {undone}, or the whole run."""

    reason = "NODE_UNDOES"


class WorkflowNotFound(Refusal):
    """Workflow {workflow} has no {what} in namespace {namespace}: deploy it first."""

    reason = "WORKFLOW_NOT_FOUND"


class VersionDeployed(Refusal):
    """Version {version} of {workflow} is deployed: deploy another one before it is deleted."""

    reason = "VERSION_DEPLOYED"


class VersionNeeded(Refusal):
    """Version {version} of {workflow} is needed by {count} run(s), finished ones included: {runs}."""

    reason = "VERSION_NEEDED"


class InvalidInput(Refusal):
    """The input does not fit the workflow's input_schema: {problems}."""

    reason = "INVALID_INPUT"


class InvalidPayload(Refusal):
    """{field} is not acceptable JSON: {problem}."""

    reason = "INVALID_PAYLOAD"


class PayloadTooLarge(Refusal):
    """{field} has {size} bytes; the limit is {limit}. Store it elsewhere and pass a reference."""

    reason = "PAYLOAD_TOO_LARGE"


class InvalidLabel(Refusal):
    """The run cannot be labelled: {problem}."""

    reason = "INVALID_LABEL"


class InvalidKey(Refusal):
    """The idempotency key must have 1 to 200 characters and no NUL; leave it unset for none."""

    reason = "INVALID_KEY"


class InvalidRequestId(Refusal):
    """request_id must be a UUID made before the first try, not {request_id!r}."""

    reason = "INVALID_REQUEST_ID"


class InvalidArgument(Refusal):
    """{field} is wrong: {problem}."""

    reason = "INVALID_ARGUMENT"


class InvalidSignalName(Refusal):
    """A signal's name must have 1 to 200 characters and no NUL."""

    reason = "INVALID_SIGNAL_NAME"


class InvalidOwner(Refusal):
    """owner must have 1 to 200 characters and no NUL: an identity made at the start of the worker's process."""

    reason = "INVALID_OWNER"


class InvalidPageToken(Refusal):
    """The page token is not one that this call gave out for this filter: begin with the first page."""

    reason = "INVALID_PAGE_TOKEN"


class BatchTooLarge(Refusal):
    """{size} items in one call; the limit is {limit}. Split the list."""

    reason = "BATCH_TOO_LARGE"


class KeyReused(Refusal):
    """The key {key!r} was used for another start: repeat that one unchanged, or take a new key."""

    reason = "KEY_REUSED"


class RequestIdReused(Refusal):
    """Request id {key} was used for another request, a {call}: repeat that one unchanged, or make a new id."""

    reason = "KEY_REUSED"


class DefinitionFaulty(Refusal):
    """The definition has {count} fault(s); nothing was stored."""

    reason = "DEFINITION_FAULTY"


class Overloaded(Refusal):
    """The coordinator has {backlog} requests waiting: try again later."""

    reason = "OVERLOADED"


class EventUndecidable(Refusal):
    """The event could not be decided and was left out: {problem}. The coordinator's log has the trace."""

    reason = "EVENT_UNDECIDABLE"
