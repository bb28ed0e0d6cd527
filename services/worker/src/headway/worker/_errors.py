"""The errors that a handler and the worker speak in: what fails a task, and how. Knows neither gRPC nor Redis."""

from __future__ import annotations

from collections.abc import Mapping


class TaskFailed(Exception):
    """A handler's failure with a name that the workflow can tell apart.

    Raise `Retryable` or `Final` rather than this class. Subclass them to give a failure a name of its own: the name of
    the class is what `errors:` of an edge selects by, unless `type` says otherwise.

    Attributes:
        type: Name of the failure, such as "CardDeclined".
        message: For people.
        details: JSON object of further facts: `error.<key>` after a failure edge. At most 16 KiB as JSON.
        final: True when retrying cannot help.
        timed_out: True when the failure is a time-out: edges for `timeout` take it.
        trace: Stack trace to report instead of this exception's own, when the failure happened elsewhere.
        after: Seconds to wait before the next try, instead of the retry policy's pause. None: that pause.
    """

    final: bool = False
    timed_out: bool = False
    after: float | None = None
    trace: str = ""

    def __init__(self, message: str, *, type: str | None = None, details: Mapping[str, object] | None = None) -> None:  # noqa: A002  the word of the contract
        """Make the failure.

        Args:
            message: What went wrong, for people.
            type: Name of the failure. Default: the name of the class.
            details: JSON object of further facts.
        """
        super().__init__(message)
        self.message = message
        self.type = type or self.__class__.__name__
        self.details: Mapping[str, object] = details or {}


class Retryable(TaskFailed):
    """The task failed; another try may succeed. The node's retry policy decides whether there is one."""

    final = False

    def __init__(
        self,
        message: str,
        *,
        type: str | None = None,  # noqa: A002  the word of the contract
        details: Mapping[str, object] | None = None,
        after: float | None = None,
    ) -> None:
        """Make the failure.

        Args:
            message: What went wrong, for people.
            type: Name of the failure. Default: the name of the class.
            details: JSON object of further facts.
            after: Seconds to wait before the next try, should there be one, instead of the policy's pause.
        """
        super().__init__(message, type=type, details=details)
        self.after = after


class Final(TaskFailed):
    """The task failed, and retrying cannot help. The node's retry policy is not consulted."""

    final = True


class HandlerCancelled(Exception):
    """The handler was told to stop. Raised by `Context.raise_if_cancelled()`; let it pass."""


class InvalidOutput(Final):
    """The handler returned what cannot be stored as JSON."""


class InvalidCheckpoint(Final):
    """The handler gave a checkpoint that cannot be stored as JSON."""


class HandlerRefused(TypeError):
    """What cannot be a handler: a function that takes no input, or more than an input and a context; a bad name."""


class DuplicateHandler(ValueError):
    """Two different functions under one handler name."""


class NothingToServe(ValueError):
    """A worker without a single handler or queue."""
