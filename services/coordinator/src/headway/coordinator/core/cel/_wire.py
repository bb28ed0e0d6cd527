"""Protobuf's wire format, as far as a serialized CEL expression needs: reading fields in place, writing them anew."""

from collections.abc import Iterator
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]

VARINT, FIXED64, LENGTH = 0, 1, 2


class Message:
    """The fields of one protobuf message inside a buffer, found without copying it. Fixed-width ones read as 0."""

    __slots__ = ("_buffer", "_fields")

    def __init__(self, buffer: bytes, span: Span) -> None:
        self._buffer = buffer
        self._fields = [(number, value) for number, value, _ in read_fields(buffer, span)]

    def __contains__(self, number: int) -> bool:
        return any(found == number for found, _ in self._fields)

    def spans(self, *numbers: int) -> list[Span]:
        return [value for found, value in self._fields if found in numbers and isinstance(value, tuple)]

    def messages(self, *numbers: int) -> "list[Message]":
        return [Message(self._buffer, span) for span in self.spans(*numbers)]

    def message(self, number: int) -> "Message":
        return next(iter(self.messages(number)), Message(b"", (0, 0)))

    def texts(self, *numbers: int) -> list[str]:
        return [self._buffer[start:end].decode() for start, end in self.spans(*numbers)]

    def text(self, number: int) -> str:
        return next(iter(self.texts(number)), "")

    def integer(self, number: int) -> int:
        return next((value for found, value in self._fields if found == number and isinstance(value, int)), 0)


def read_fields(buffer: bytes, span: Span) -> Iterator[tuple[int, int | Span, Span]]:
    """Yields number, value and extent of each field; the value of a length-delimited one is where it lies."""
    at, end = span
    while at < end:
        begin = at
        tag, at = _read_varint(buffer, at)
        value: int | Span = 0
        match tag & 7:
            case 0:
                value, at = _read_varint(buffer, at)
            case 2:
                length, at = _read_varint(buffer, at)
                value = (at, at + length)
                at += length
            case fixed:
                at += 8 if fixed == FIXED64 else 4
        yield tag >> 3, value, (begin, at)


def write_field(number: int, value: bytes | int) -> bytes:
    """Returns one field: length-delimited for bytes, a varint for an integer."""
    if isinstance(value, int):
        return _write_varint(number << 3 | VARINT) + _write_varint(value)
    return _write_varint(number << 3 | LENGTH) + _write_varint(len(value)) + value


def _read_varint(buffer: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7


def _write_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits go into one byte
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
