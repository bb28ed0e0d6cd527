"""The worker SDK: runs handlers under a lease.

    from headway.worker import Context, Final, Worker, handler

    @handler("shipping.create", queue="shipping")
    async def create(order: dict, context: Context) -> dict:
        if order["weight"] > 30:
            raise Final("too heavy to ship", type="TooHeavy", details={"limit": 30})
        return await carrier.book(order, key=context.idempotency_key)

    if __name__ == "__main__":
        raise SystemExit(Worker().run())

A handler takes `(input)` or `(input, context)`, both plain JSON values and a `Context`. Coroutine functions run on the
event loop; plain functions run in threads. What it returns becomes the task's output. What it raises fails the task:
`Final` for good, everything else until the node's retry policy is spent.

Handlers run at least once: after a lost lease the same task runs again, with the same `context.idempotency_key`, and
with what it last gave to `context.heartbeat(checkpoint=…)` as `context.checkpoint`.
"""

from headway.worker._builtin_python import PythonHandler
from headway.worker._command import run_worker
from headway.worker._context import Context
from headway.worker._errors import (
    DuplicateHandler,
    Final,
    HandlerCancelled,
    HandlerRefused,
    InvalidCheckpoint,
    InvalidOutput,
    NothingToServe,
    Retryable,
    TaskFailed,
)
from headway.worker._registry import Registry, handler
from headway.worker._settings import WorkerSettings
from headway.worker._worker import Worker

__all__ = [
    "Worker",
    "handler",
    "Context",
    "Retryable",
    "Final",
    "TaskFailed",
    "HandlerCancelled",
    "Registry",
    "run_worker",
    "WorkerSettings",
    "InvalidOutput",
    "InvalidCheckpoint",
    "HandlerRefused",
    "DuplicateHandler",
    "NothingToServe",
    "PythonHandler",
]
