"""A JSON document that is decoded only when someone looks inside."""

from typing import cast

import orjson

from headway.coordinator.core.plan import Json


class Document:
    """JSON text, checked when it entered, with its value decoded at most once.

    Attributes:
        raw: UTF-8 JSON.
    """

    __slots__ = ("_value", "raw")

    def __init__(self, raw: bytes) -> None:
        """Take JSON text that is known to be valid."""
        self.raw = raw
        self._value: Json | None = None

    @classmethod
    def of(cls, value: Json) -> "Document":
        """Encode a value, fragments spliced in. Raises TypeError when it is not JSON."""
        return cls(orjson.dumps(value))

    @property
    def value(self) -> Json:
        """The decoded value; do not change it."""
        if self._value is None and self.raw != b"null":
            self._value = cast("Json", orjson.loads(self.raw))
        return self._value

    def __eq__(self, other: object) -> bool:
        """Equal when the text is."""
        return isinstance(other, Document) and other.raw == self.raw

    def __hash__(self) -> int:
        """Hash of the text."""
        return hash(self.raw)

    def __repr__(self) -> str:
        """Show the text, cut."""
        return f"Document({self.raw[:80]!r})"


NULL = Document(b"null")
EMPTY = Document(b"{}")
