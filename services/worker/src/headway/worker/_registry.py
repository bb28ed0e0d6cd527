"""Which functions a worker runs: names, queues, and how each is called. Messages choose among them by name only.

Nothing here imports what a message names: a handler is what the process itself registered.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from headway.runtime.queues import QUEUE_PATTERN, is_queue
from headway.worker._errors import DuplicateHandler, HandlerRefused

DEFAULT_QUEUE = "default"

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

_INPUT_AND_CONTEXT = 2
_MOST_TOLD = 20  # names in one line of the log


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A registered function.

    Attributes:
        name: What nodes call it by, such as "shipping.create".
        queue: The queue that its tasks are dispatched to.
        function: The function itself: `(input)` or `(input, context)`.
        takes_context: True when the function wants the context as its second argument.
        is_async: True for coroutine functions; others run in a thread.
    """

    name: str
    queue: str
    function: Function
    takes_context: bool
    is_async: bool


class Registry:
    """Handlers by name."""

    def __init__(self) -> None:
        """Start empty."""
        self._handlers: dict[str, Handler] = {}

    def handler(self, name: str, *, queue: str = DEFAULT_QUEUE) -> Callable[[F], F]:
        """Register the decorated function under `name`.

        Args:
            name: What nodes call it by.
            queue: The queue that its nodes name.

        Raises:
            HandlerRefused: The function takes neither `(input)` nor `(input, context)`, or no node could name it or
                its queue; or the decorator has no name in parentheses.
            DuplicateHandler: Another function has that name.
        """
        _need_parentheses(name)

        def register(function: F) -> F:
            self.add(describe(name, queue, function))
            return function

        return register

    def add(self, handler: Handler) -> None:
        """Take a handler in; adding the same function twice is fine.

        Raises:
            DuplicateHandler: Another function has that name.
        """
        known = self._handlers.get(handler.name)
        if known is not None and known != handler:
            places = f"{_place_of(known.function)} and {_place_of(handler.function)}"
            message = f"handler {handler.name!r} is registered twice: {places}"
            raise DuplicateHandler(message)
        self._handlers[handler.name] = handler

    def find(self, name: str) -> Handler | None:
        """Return the handler of that name, if there is one."""
        return self._handlers.get(name)

    def queues(self) -> tuple[str, ...]:
        """Return the queues of all handlers, sorted."""
        return tuple(sorted({handler.queue for handler in self._handlers.values()}))

    def handlers(self) -> tuple[Handler, ...]:
        """Return all handlers, in the order of their registration."""
        return tuple(self._handlers.values())


default_registry = Registry()
"""Where `@handler` registers; what a `Worker` runs unless it is given a registry of its own."""


def handler(name: str, *, queue: str = DEFAULT_QUEUE) -> Callable[[F], F]:
    """Register the decorated function in the default registry. See `Registry.handler`."""
    return default_registry.handler(name, queue=queue)


def served(queues: Sequence[str], handlers: Collection[Handler]) -> dict[str, object]:
    """What a log line tells of the queues that are read and the handlers that are known; many are cut, and counted."""
    facts: dict[str, object] = {}
    for key, names in (("queues", list(queues)), ("handlers", sorted(each.name for each in handlers))):
        facts[key] = names[:_MOST_TOLD]
        if len(names) > _MOST_TOLD:
            facts[f"more_{key}"] = len(names) - _MOST_TOLD
    return facts


def _need_parentheses(name: object) -> None:
    """`@handler` alone is called with the function, and would register nothing. Raises HandlerRefused."""
    if not callable(name):
        return
    called = getattr(name, "__name__", "name")
    message = f'@handler stands without a name above {_place_of(name)}: write @handler("{called}"), as nodes call it'
    raise HandlerRefused(message)


def _place_of(function: Function) -> str:
    """A function's name and where it is written, as far as it tells."""
    called = getattr(function, "__name__", "name")
    code = getattr(function, "__code__", None)
    return called if code is None else f"{called} ({code.co_filename}, line {code.co_firstlineno})"


def describe(name: str, queue: str, function: Function) -> Handler:
    """Look at a function's signature and say how it is called.

    Raises:
        HandlerRefused: It cannot be called as `(input)` or `(input, context)`, or no node could name it or its queue.
    """
    if not name:
        message = "a handler needs a name"
        raise HandlerRefused(message)
    if not is_queue(queue):
        message = f"handler {name!r} cannot have the queue {queue!r}: a queue's name matches {QUEUE_PATTERN}"
        raise HandlerRefused(message)
    inner = function.func if isinstance(function, functools.partial) else function
    called = inner if inspect.isroutine(inner) else type(inner).__call__
    if inspect.isasyncgenfunction(called) or inspect.isgeneratorfunction(called):
        message = f"handler {name!r} is a generator; it has to return its output"
        raise HandlerRefused(message)
    return Handler(
        name=name,
        queue=queue,
        function=function,
        takes_context=_takes_context(name, function),
        is_async=inspect.iscoroutinefunction(called),
    )


def _takes_context(name: str, function: Function) -> bool:
    """True for `(input, context)`: a second parameter that is required, or is called `context`."""
    try:
        signature = inspect.signature(function)
    except ValueError as error:
        raise HandlerRefused(f"handler {name!r} does not tell its parameters: {error}") from None
    parameters = signature.parameters.values()
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    required = [p for p in positional if p.default is p.empty]
    unfillable = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if not positional or len(required) > _INPUT_AND_CONTEXT or unfillable:
        message = f"handler {name!r} must take (input) or (input, context), not {signature}"
        raise HandlerRefused(message)
    if len(positional) < _INPUT_AND_CONTEXT:
        return False
    return len(required) == _INPUT_AND_CONTEXT or positional[1].name == "context"
