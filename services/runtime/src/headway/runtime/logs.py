"""Logs on stderr: one JSON object a line for machines, aligned text for people.

A line always has `at`, `level`, `service`, `logger` and `message`; `run_id`, `task_id` and whatever else `bound` holds
when the line is written; `trace_id` inside a span; `error` (with the trace) for an exception. Extra fields of a call
(`logger.info("…", extra={"queue": "shipping"})`) stand beside them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TextIO

import orjson
from opentelemetry import trace

__all__ = ["bound", "configure"]

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_fields: ContextVar[Mapping[str, Any]] = ContextVar("headway_log_fields", default=MappingProxyType({}))


@contextmanager
def bound(**fields: Any) -> Generator[None]:
    """Adds fields (run_id, task_id, …) to every line that this task of asyncio, and those it starts, writes inside."""
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


def configure(
    service: str,
    *,
    level: str = "info",
    log_format: Literal["auto", "json", "text"] = "auto",
    stream: TextIO | None = None,
) -> None:
    """Makes the root logger write to stderr; whatever handlers it had are replaced.

    Args:
        service: The name that each line carries.
        level: debug, info, warning or error.
        log_format: auto is text on a terminal and JSON elsewhere.
        stream: Where to write instead of stderr.
    """
    target: TextIO = sys.stderr if stream is None else stream
    text = log_format == "text" or (log_format == "auto" and target.isatty())
    handler = logging.StreamHandler(target)
    handler.setFormatter(_TextFormatter(service) if text else _JsonFormatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    # They tell of each request at INFO, which is ours to tell.
    for chatty in ("httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    # It tells, with a trace, of each connection that it cannot make; whoever needs one tells of the outage.
    logging.getLogger("asyncpg.pool").setLevel(logging.DEBUG if root.level <= logging.DEBUG else logging.ERROR)


def _document(record: logging.LogRecord, service: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "service": service,
        "logger": record.name,
        "message": record.getMessage(),
    }
    document.update(_fields.get())
    document.update({name: value for name, value in vars(record).items() if name not in _OWN})
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        document["trace_id"] = trace.format_trace_id(context.trace_id)
    return document


class _JsonFormatter(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        document = _document(record, self._service)
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)
        if record.stack_info:
            document["stack"] = self.formatStack(record.stack_info)
        try:
            return orjson.dumps(document, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except (TypeError, ValueError):
            # An int beyond 64 bits, a lone surrogate: a log line is never worth an exception.
            return orjson.dumps({name: ascii(value) for name, value in document.items()}).decode()


class _TextFormatter(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        document = _document(record, self._service)
        at, level, message = (document.pop(name) for name in ("at", "level", "message"))
        del document["service"], document["logger"]
        fields = "".join(f"  {name}={value}" for name, value in document.items())
        line = f"{at[11:23]} {level.upper():<7} {self._service:<11} {message}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
