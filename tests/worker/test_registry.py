"""Which functions can be handlers, and how they are called."""

from __future__ import annotations

import functools
from typing import Any, cast

import pytest

from headway.worker import DuplicateHandler, HandlerRefused, Registry
from headway.worker._registry import Handler


def registered(function: Any) -> Handler:
    registry = Registry()
    registry.handler("run", queue="some")(function)
    return registry.handlers()[0]


async def with_input(order: Any) -> None:
    del order


async def with_context(order: Any, context: Any) -> None:
    del order, context


def test_a_function_of_one_parameter_gets_the_input_alone() -> None:
    assert not registered(with_input).takes_context


def test_a_second_required_parameter_gets_the_context_whatever_it_is_called() -> None:
    assert registered(with_context).takes_context
    assert registered(lambda order, about: (order, about)).takes_context


def test_a_second_parameter_with_a_default_gets_the_context_only_by_that_name() -> None:
    assert registered(lambda order, context=None: (order, context)).takes_context
    assert not registered(lambda order, retries=3: (order, retries)).takes_context


def test_methods_partials_and_callable_objects_can_be_handlers() -> None:
    class Carrier:
        async def book(self, order: Any, context: Any) -> None:
            del order, context

        async def __call__(self, order: Any) -> None:
            del order

    assert registered(Carrier().book).takes_context
    assert registered(Carrier()).is_async
    assert not registered(Carrier()).takes_context
    partial = registered(functools.partial(with_context, context=None))
    assert partial.is_async
    assert not partial.takes_context


@pytest.mark.parametrize(
    "function",
    [lambda: None, lambda a, b, c: (a, b, c), lambda a, *, needed: (a, needed), str],
    ids=["no parameter", "three", "a required keyword", "no signature"],
)
def test_a_function_that_cannot_be_called_with_input_and_context_is_refused(function: Any) -> None:
    with pytest.raises(HandlerRefused):
        registered(function)


@pytest.mark.parametrize("queue", ["", "a/b", "{a}", "Capital", "a b", "a" * 64])
def test_a_handler_of_a_queue_that_no_node_could_name_is_refused(queue: str) -> None:
    with pytest.raises(HandlerRefused, match=r"handler 'run' cannot have the queue .*: .* matches \[a-z0-9\]"):
        Registry().handler("run", queue=queue)(with_input)


def test_a_decorator_without_a_name_is_refused_with_the_line() -> None:
    def greet(given: Any) -> Any:
        return given

    line = greet.__code__.co_firstlineno
    with pytest.raises(
        HandlerRefused, match=rf'above greet \(.*test_registry.py, line {line}\): write @handler\("greet"\)'
    ):
        Registry().handler(cast("Any", greet))


def test_a_generator_is_refused() -> None:
    async def stream(given: Any) -> Any:
        yield given

    with pytest.raises(HandlerRefused, match="return its output"):
        registered(stream)


def test_a_name_belongs_to_one_function() -> None:
    registry = Registry()
    registry.handler("run")(with_input)
    registry.handler("run")(with_input)  # a module imported twice

    with pytest.raises(DuplicateHandler):
        registry.handler("run")(with_context)


def test_the_queues_of_a_registry_are_those_of_its_handlers() -> None:
    registry = Registry()
    registry.handler("a")(with_input)
    registry.handler("b", queue="shipping")(with_input)
    registry.handler("c", queue="shipping")(with_input)

    assert registry.queues() == ("default", "shipping")
