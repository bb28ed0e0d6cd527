"""From what a handler returned or raised to what is reported. Total: whatever a handler does, there is a report.

Pure: knows protobuf, not gRPC, and neither waits nor logs.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from types import TracebackType

import orjson

from headway.api.tasks.v1 import tasks_pb2
from headway.worker._errors import InvalidCheckpoint, InvalidOutput, TaskFailed

OUTPUT_LIMIT = 1024 * 1024
"""Largest output, in bytes of JSON."""
TRACE_LIMIT = 16 * 1024
"""Longest trace and message, in bytes of UTF-8."""
DETAILS_LIMIT = 16 * 1024
"""Largest details, in bytes of JSON."""

LONGEST_PAUSE = 3_650 * 86_400.0
"""Longest pause that a handler can ask for, in seconds."""

CHECKPOINT_LIMIT = 32 * 1024
"""Largest checkpoint, in bytes of JSON."""

_NAMED_HANDLERS = 20  # in the message of a failure
_MIN_INT64 = -(2**63)
_MAX_INT64 = 2**63 - 1
_CUT = "… (cut)\n"
# Dates and dataclasses have no one spelling in JSON: refused rather than guessed.
_JSON_ONLY = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def failed(error: BaseException) -> tasks_pb2.Failed:
    """Return the report of a handler that raised `error`."""
    try:
        return _failed(error)
    except Exception as fault:  # noqa: BLE001  a failure with odd fields of its own is a failure all the same
        message = f"(the error's fields could not be read: {type(fault).__name__})"
        return failure(type_name=type(error).__name__, message=message)


def _failed(error: BaseException) -> tasks_pb2.Failed:
    if isinstance(error, TaskFailed):
        return failure(
            type_name=error.type,
            message=error.message,
            trace=error.trace or ("" if _is_our_own(error.__traceback__) else format_trace(error)),
            details=error.details,
            final=error.final,
            timed_out=error.timed_out,
            after=error.after,
        )
    return failure(type_name=type(error).__name__, message=_text_of(error), trace=format_trace(error))


def failure(
    *,
    type_name: str,
    message: str,
    trace: str = "",
    details: Mapping[str, object] | None = None,
    final: bool = False,
    timed_out: bool = False,
    after: float | None = None,
) -> tasks_pb2.Failed:
    """Return the report of a failure; texts are cut to their limits, details that do not fit are replaced by why."""
    return tasks_pb2.Failed(
        failure_class=tasks_pb2.FAILURE_CLASS_TIMEOUT if timed_out else tasks_pb2.FAILURE_CLASS_EXEC_FAILED,
        type=_clean(type_name, keep_end=False),
        message=_clean(message, keep_end=False),
        trace=_clean(trace, keep_end=True),
        details=_encode_details(details or {}),
        final=final,
        retry_after=None if after is None else timedelta(seconds=min(max(after, 0.0), LONGEST_PAUSE)),
    )


def unknown_handler(name: str, known: Collection[str]) -> tasks_pb2.Failed:
    """Return the report of a task whose handler this worker does not know; it has those that are `known`."""
    names = sorted(known)
    more = f" and {len(names) - _NAMED_HANDLERS} more" if len(names) > _NAMED_HANDLERS else ""
    has = f"it has {', '.join(names[:_NAMED_HANDLERS])}{more}" if names else "it has none"
    return failure(type_name="UnknownHandler", message=f"this worker has no handler named {name!r}: {has}")


def encode_output(output: object) -> bytes:
    """Return what a handler returned as JSON.

    Raises:
        InvalidOutput: It is not JSON, too large, or holds NaN, an integer beyond 64 bits or a NUL; the message names
            the place.
    """
    encoded = _encode(output, place="output")
    if len(encoded) > OUTPUT_LIMIT:
        message = f"the output has {len(encoded)} bytes as JSON; the limit is {OUTPUT_LIMIT}"
        raise InvalidOutput(message)
    return encoded


def encode_checkpoint(checkpoint: object) -> bytes:
    """Return a checkpoint as JSON.

    Raises:
        InvalidCheckpoint: It is not JSON, or too large; the message names the place.
    """
    try:
        encoded = _encode(checkpoint, place="checkpoint")
    except InvalidOutput as fault:
        raise InvalidCheckpoint(fault.message) from None
    if len(encoded) > CHECKPOINT_LIMIT:
        message = f"the checkpoint has {len(encoded)} bytes as JSON; the limit is {CHECKPOINT_LIMIT}"
        raise InvalidCheckpoint(message)
    return encoded


def format_trace(error: BaseException) -> str:
    """Return the error's stack trace, without the worker's own frames above the handler."""
    frames = _without_own_frames(error.__traceback__)
    try:
        return "".join(traceback.TracebackException(type(error), error, frames).format())
    except BaseException as fault:  # noqa: BLE001  an error whose own __str__ fails must not hide that the task failed
        return f"{type(error).__name__} (its trace could not be made: {type(fault).__name__})"


def _without_own_frames(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_globals.get("__name__") in _OWN:
        frames = frames.tb_next
    return frames


def _is_our_own(frames: TracebackType | None) -> bool:
    """True when a failure was raised by the SDK itself, and no handler's code took part: its message says it all."""
    while frames is not None:
        module = str(frames.tb_frame.f_globals.get("__name__"))
        if module not in _OWN and not module.startswith("headway.worker."):
            return False
        frames = frames.tb_next
    return True


_OWN = {"headway.worker._running", "concurrent.futures.thread", "headway.worker._threads"}


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as fault:  # noqa: BLE001  as above
        return f"(the error's text could not be made: {type(fault).__name__})"


def _encode(value: object, *, place: str) -> bytes:
    """Return JSON. The fast way first; what it cannot vouch for is walked."""
    try:
        encoded = orjson.dumps(value, option=_JSON_ONLY | orjson.OPT_STRICT_INTEGER)
        # orjson writes null for NaN, and PostgreSQL cannot hold a NUL in a text.
        if b"null" not in encoded and b"\\u0000" not in encoded:
            return encoded
    except TypeError:
        pass
    _check(value, place, depth=0)
    try:
        return orjson.dumps(value, option=_JSON_ONLY)
    except TypeError as fault:
        message = f"{place} is not JSON: {fault}"
        raise InvalidOutput(message) from None


_DEEPEST = 200


def _check(value: object, place: str, *, depth: int) -> None:
    """Find what is not JSON and name its place.

    Raises:
        InvalidOutput: Found.
    """
    fault = ""
    if value is None or isinstance(value, bool):
        return
    if depth > _DEEPEST:
        fault = f"is nested deeper than {_DEEPEST}"
    elif isinstance(value, str):
        fault = "contains a NUL character" if "\0" in value else ""
    elif isinstance(value, int):
        fault = "" if _MIN_INT64 <= value <= _MAX_INT64 else "is an integer beyond 64 bits"
    elif isinstance(value, float):
        fault = "" if math.isfinite(value) else f"is {value}, which JSON cannot hold"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                fault = f"has a key that is not text: {key!r}"
                break
            _check(key, f"a key of {place}", depth=depth)
            _check(item, f"{place}.{key}", depth=depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{place}[{index}]", depth=depth + 1)
    if fault:
        message = f"{place} {fault}"
        raise InvalidOutput(message)


def _encode_details(details: Mapping[str, object]) -> bytes:
    if not details:
        return b""
    try:
        encoded = _encode(dict(details), place="details")
    except (InvalidOutput, TypeError, ValueError) as fault:
        return orjson.dumps({"details_dropped": _clean(str(fault), keep_end=False)[:1000]})
    if len(encoded) > DETAILS_LIMIT:
        return orjson.dumps({"details_dropped": f"{len(encoded)} bytes; the limit is {DETAILS_LIMIT}"})
    return encoded


def _clean(text: str, *, keep_end: bool) -> str:
    """Cut a text to the limit and replace what protobuf or PostgreSQL cannot hold: surrogates and NULs."""
    encoded = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(encoded) <= TRACE_LIMIT:
        return encoded.decode()
    room = TRACE_LIMIT - len(_CUT.encode())
    # errors="ignore": the cut may fall within a character.
    if keep_end:
        return _CUT + encoded[-room:].decode("utf-8", "ignore")
    return encoded[:room].decode("utf-8", "ignore") + _CUT


def cut_details(details: Mapping[str, object], *, key: str) -> dict[str, object]:
    """Return the details with the value at `key` cut to text so that the whole fits."""
    try:
        if len(_encode(dict(details), place="details")) <= DETAILS_LIMIT:
            return dict(details)
        text = details[key] if isinstance(details[key], str) else orjson.dumps(details[key]).decode()
    except InvalidOutput:
        text = ""
    kept: Sequence[str] = str(text)[: DETAILS_LIMIT // 8]
    return {**details, key: str(kept), f"{key}_cut": True}
