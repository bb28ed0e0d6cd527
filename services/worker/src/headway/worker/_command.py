"""Starting a worker from modules: what `python -m headway.worker` and `headway worker` have in common."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from headway.worker._errors import NothingToServe
from headway.worker._importing import ModuleRefused, file_of, import_module, registers_nothing, registries_in
from headway.worker._registry import Registry, default_registry
from headway.worker._worker import BUILTINS, Worker


def run_worker(
    modules: Sequence[str] = (),
    *,
    queues: Sequence[str] = (),
    concurrency: int | None = None,
    namespace: str | None = None,
    builtins: Sequence[str] = (),
    allow_python: bool = False,
) -> int:
    """Import modules and run a worker with the handlers that they register, until it is told to drain.

    Args:
        modules: `package.module` (importing it registers its handlers) or `package.module:attr` (a `Registry`). The
            current folder is importable.
        queues: What to read; empty: the queues of the handlers.
        concurrency: How many handlers run at a time; None: HEADWAY_WORKER_CONCURRENCY.
        namespace: Whose queues are read; None: HEADWAY_NAMESPACE.
        builtins: "http", "python".
        allow_python: Let `headway.python` run inline code.

    Returns:
        The exit code: 0 drained, 1 failed, 2 the settings or the modules are wrong (said on stderr).
    """
    try:
        registry = load_registry(modules)
        if not registry.handlers() and not builtins:
            raise NothingToServe("nothing to serve: name modules that register handlers, or built-in handlers")
        worker = Worker(
            registry,
            queues=queues or None,
            concurrency=concurrency,
            namespace=namespace,
            builtins=builtins,
            allow_python=allow_python,
        )
    except ValueError as error:
        print(f"headway worker: {error}", file=sys.stderr)  # noqa: T201  no logs yet
        return 2
    return worker.run()


def load_registry(modules: Sequence[str]) -> Registry:
    """Import modules; return one registry with all their handlers.

    Raises:
        ModuleRefused: One cannot be imported, its attribute is no registry, or none of them registers a handler.
        DuplicateHandler: Two of them register one name.
    """
    folder = os.getcwd()  # noqa: PTH109  sys.path holds texts
    if folder not in sys.path:
        sys.path.insert(0, folder)
    merged = Registry()
    imported: list[ModuleType] = []
    for name in modules:
        module_name, _, attribute = name.partition(":")
        module = import_module(module_name)
        imported.append(module)
        for handler in _registry_of(module, attribute).handlers():
            merged.add(handler)
    for handler in default_registry.handlers():
        merged.add(handler)
    if imported and not merged.handlers():
        raise registers_nothing(imported)
    return merged


def _registry_of(module: ModuleType, attribute: str) -> Registry:
    if not attribute:
        return default_registry
    registry = getattr(module, attribute, None)
    if not isinstance(registry, Registry):
        own = registries_in(module)
        has = f"; it has {', '.join(own)}" if own else ""
        raise ModuleRefused(
            f"{attribute!r} of {module.__name__!r} ({file_of(module)}) is no Registry of headway.worker{has}"
        )
    return registry


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m headway.worker`."""
    parser = argparse.ArgumentParser(prog="python -m headway.worker", description="Run handlers of Python modules.")
    parser.add_argument("modules", nargs="*", metavar="MODULE[:attr]", help="a module that registers handlers")
    parser.add_argument("--queue", action="append", default=[], help="read this queue, instead of the handlers' own")
    parser.add_argument("--concurrency", type=int, help="handlers at a time")
    parser.add_argument("--namespace", help="whose queues are read")
    parser.add_argument("--builtin", action="append", default=[], choices=sorted(BUILTINS), help="serve it as well")
    parser.add_argument("--allow-python", action="store_true", help="let headway.python run inline code")
    given = parser.parse_args(arguments)
    return run_worker(
        given.modules,
        queues=given.queue,
        concurrency=given.concurrency,
        namespace=given.namespace,
        builtins=given.builtin,
        allow_python=given.allow_python,
    )
