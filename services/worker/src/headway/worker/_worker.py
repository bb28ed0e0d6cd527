"""The worker as its users see it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from headway.runtime.process import run_service
from headway.runtime.queues import NAMESPACE_PATTERN, QUEUE_PATTERN, is_namespace, is_queue
from headway.runtime.serving import serve
from headway.runtime.settings import load
from headway.worker._builtin_http import HTTP_HANDLER, HTTP_QUEUE, HttpHandler
from headway.worker._builtin_python import PYTHON_HANDLER, PYTHON_QUEUE, PythonHandler
from headway.worker._errors import NothingToServe
from headway.worker._registry import Registry, default_registry, describe
from headway.worker._serving import Serving
from headway.worker._settings import WorkerSettings

BUILTINS = {"http": HTTP_QUEUE, "python": PYTHON_QUEUE}
"""Built-in handlers by the name that enables them, and the queue of each."""

_LONGEST_HOST = 100


class Worker:
    """Runs registered handlers under leases. Says nothing about itself until it runs.

    A worker may be run more than once, not twice at a time. Each run is an owner of its own.
    """

    def __init__(
        self,
        registry: Registry = default_registry,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        namespace: str | None = None,
        builtins: Sequence[str] = (),
        allow_python: bool = False,
        settings: WorkerSettings | None = None,
    ) -> None:
        """Make a worker.

        Args:
            registry: The handlers; by default those that `@handler` registered.
            queues: What to read, instead of the queues that the handlers were registered for.
            concurrency: How many handlers run at a time. Default: HEADWAY_WORKER_CONCURRENCY.
            namespace: Whose queues are read. Default: HEADWAY_NAMESPACE.
            builtins: Built-in handlers to serve as well: "http", "python".
            allow_python: Let `headway.python` run inline code. It is no sandbox: the code may do what this process may.
            settings: Everything else, for `serve`. Default: read from the environment, as `run` always does.

        Raises:
            ValueError: An unknown name among `builtins`, "python" among them without `allow_python`, a concurrency
                below 1, or a queue or namespace that cannot be.
        """
        if unknown := sorted(set(builtins) - set(BUILTINS)):
            raise ValueError(f"unknown built-in handlers {', '.join(unknown)}; known are {', '.join(BUILTINS)}")
        if "python" in builtins and not allow_python:
            # It would take what is dispatched to the queue, and fail all of it for good.
            raise ValueError(
                "the built-in handler python runs code that workflows bring along; allow that with --allow-python"
                " (allow_python=True), or do not serve python"
            )
        if concurrency is not None and concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; a worker needs at least one slot")
        for queue in queues or ():
            if not is_queue(queue):
                raise ValueError(f"there can be no queue {queue!r}: its name matches {QUEUE_PATTERN}")
        if namespace is not None and not is_namespace(namespace):
            raise ValueError(f"there can be no namespace {namespace!r}: its name matches {NAMESPACE_PATTERN}")
        self._registry = registry
        self._queues = queues
        self._concurrency = concurrency
        self._namespace = namespace
        self._builtins = tuple(builtins)
        self._settings = settings

    def run(self) -> int:
        """Run as this process's service: settings, logs, signals. Blocks until the worker has drained.

        SIGTERM and SIGINT drain; a second one ends the process at once.

        Returns:
            The exit code: 0 drained, 1 failed, 2 the settings are wrong.
        """
        return run_service("worker", WorkerSettings, self._serve)

    async def serve(self, drain: asyncio.Event) -> None:
        """Run on the current event loop, within a program that has signals and logs of its own.

        Args:
            drain: Set it to stop: handlers may then end within HEADWAY_DRAIN_TIMEOUT.

        Raises:
            NothingToServe: No handler is registered and no queue named.
            SettingsError: The environment lacks a setting.
        """
        await self._serve(self._settings or load(WorkerSettings), drain)

    async def _serve(self, settings: WorkerSettings, drain: asyncio.Event) -> None:
        changes: dict[str, int | str] = {}
        if self._concurrency is not None:
            changes["concurrency"] = self._concurrency
        if self._namespace is not None:
            changes["namespace"] = self._namespace
        settings = dataclasses.replace(settings, **changes)
        async with self._handlers() as registry, _health(settings):
            queues = registry.queues() if self._queues is None else tuple(dict.fromkeys(self._queues))
            if not queues:
                raise NothingToServe("no handler is registered and no built-in one enabled: there is no queue to read")
            serving = Serving(settings, registry=registry, queues=queues, owner=_owner(), drain=drain)
            await serving.run()

    @asynccontextmanager
    async def _handlers(self) -> AsyncGenerator[Registry]:
        """The registered handlers together with the built-in ones, which live as long as the block."""
        registry = Registry()
        for handler in self._registry.handlers():
            registry.add(handler)
        http = HttpHandler()
        if "http" in self._builtins:
            registry.add(describe(HTTP_HANDLER, HTTP_QUEUE, http))
        if "python" in self._builtins:
            registry.add(describe(PYTHON_HANDLER, PYTHON_QUEUE, PythonHandler()))
        try:
            yield registry
        finally:
            await http.close()


@asynccontextmanager
async def _health(settings: WorkerSettings) -> AsyncGenerator[None]:
    if settings.listen is None:
        yield
        return
    async with serve(settings.listen):
        yield


def _owner() -> str:
    """Identity of one start: host and process for people, the rest to be unique."""
    return f"{socket.gethostname()[:_LONGEST_HOST]}-{os.getpid()}-{uuid.uuid4().hex[:16]}"  # noqa: TID251  made here, at the edge
