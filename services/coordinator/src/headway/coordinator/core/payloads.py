"""Checks JSON that comes from outside before anything is stored: size, syntax, and what the rest cannot hold."""

import json
from typing import cast

import orjson

from headway.coordinator.core.document import EMPTY, NULL, Document
from headway.coordinator.core.plan import Json
from headway.coordinator.core.refusals import InvalidPayload, PayloadTooLarge

LIMIT = 1 << 20  # bytes of JSON
DEPTH = 100
TEXT_LIMIT = 200  # characters of names and keys
_LONG_NUMBER = b"0" * 19  # perhaps an integer beyond 64 bits
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_NUL = b"\\u0000"
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1


def accept(raw: bytes, field: str, *, empty: Document = NULL, limit: int = LIMIT) -> Document:
    """Check a payload.

    Args:
        raw: JSON, UTF-8.
        field: its name in the request, for the refusal.
        empty: what no bytes at all mean.
        limit: bytes.

    Raises:
        PayloadTooLarge, InvalidPayload: it cannot be taken.
    """
    if not raw:
        return empty
    if len(raw) > limit:
        raise PayloadTooLarge(field=field, size=str(len(raw)), limit=str(limit))
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidPayload(field=field, problem=str(error)) from error
    if raw.count(b"{") + raw.count(b"[") > DEPTH:
        _check_depth(value, field)  # first: json.loads below gives up at about a thousand
    if _NUL in raw or _LONG_NUMBER in raw.translate(_AS_ZEROS):
        _check_values(json.loads(raw), field)
    return Document(raw)


def accept_object(raw: bytes, field: str, *, limit: int = LIMIT) -> dict[str, Json]:
    """Check a payload that must be a JSON object; nothing at all is an empty one."""
    value = accept(raw, field, empty=EMPTY, limit=limit).value
    if not isinstance(value, dict):
        raise InvalidPayload(field=field, problem="it must be a JSON object")
    return value


def is_short(text: str) -> bool:
    """True for what can be a name or a key: 1 to 200 characters without NUL."""
    return 0 < len(text) <= TEXT_LIMIT and "\x00" not in text


def shortened(text: str, longest: int) -> str:
    """A text for people; of a longer one the beginning, with a sign that there is more."""
    return text if len(text) <= longest else f"{text[:longest]} …"


def storable_text(text: str, limit: int) -> str:
    """Cut text for people to a limit of bytes in UTF-8, and replace what PostgreSQL cannot hold."""
    return text.replace("\x00", "\ufffd").encode()[:limit].decode(errors="ignore")


def _check_values(value: object, field: str) -> None:
    """Look at every number and text. Iterative: the text may be deep."""
    rest: list[tuple[str, object]] = [("$", value)]
    while rest:
        place, here = rest.pop()
        if isinstance(here, dict):
            for key, item in cast("dict[str, object]", here).items():
                if "\x00" in key:
                    raise InvalidPayload(field=field, problem=f"a NUL in a key at {place}")
                rest.append((f"{place}.{key}", item))
        elif isinstance(here, list):
            rest.extend((f"{place}[{index}]", item) for index, item in enumerate(cast("list[object]", here)))
        elif isinstance(here, str) and "\x00" in here:
            raise InvalidPayload(field=field, problem=f"a NUL in the text at {place}; take it out or encode it")
        elif isinstance(here, int) and not _SMALLEST <= here <= _LARGEST:
            raise InvalidPayload(field=field, problem=f"an integer beyond 64 bits at {place}; pass it as text")


def _check_depth(value: object, field: str) -> None:
    layer, depth = [value], 0
    while layer:
        depth += 1
        if depth > DEPTH:
            raise InvalidPayload(field=field, problem=f"it is nested more than {DEPTH} deep")
        layer = [item for outer in layer for item in _members(outer) if isinstance(item, dict | list)]


def _members(outer: object) -> list[object]:
    if isinstance(outer, dict):
        return list(cast("dict[str, object]", outer).values())
    return cast("list[object]", outer) if isinstance(outer, list) else []
