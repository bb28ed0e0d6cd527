"""What runs tell each other, as it lies in the outbox: a parent to its child, a child to its parent.

Each may come twice, late, or in any order. A parent's order to stop names all that is needed to begin the child: one
that overtakes the order to start finds no run, and leaves a cancelled one behind, which the late order then finds.
"""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from headway.coordinator.core.document import Document
from headway.coordinator.core.rows import Parent

NO_OUTPUT = msgspec.Raw()


class StartChild(Struct, frozen=True, kw_only=True):
    """For the child: start, or, `again`, go on where it failed or was stopped; one that was deleted tells so.

    Attributes:
        version: 0: the one that is deployed when it starts.
        key: that nobody else may have; None: none.
        deadline_at: it ends by then.
    """

    namespace: str
    workflow: str
    version: int
    input: msgspec.Raw
    labels: dict[str, str]
    parent: Parent
    deadline_at: datetime | None
    again: bool = False
    key: str | None = None


class CancelChild(Struct, frozen=True, kw_only=True):
    """For the child: stop."""

    namespace: str
    workflow: str
    version: int
    parent: Parent
    reason: str
    grace_ms: int
    compensate: bool


class ChildEnded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """For the parent: fields as of events.ChildFinished; `output` empty: none."""

    path: str
    attempt: int
    child: str
    state: str
    error: dict[str, Any] | None
    output: msgspec.Raw = NO_OUTPUT


KINDS: dict[str, type[StartChild | CancelChild | ChildEnded]] = {
    "StartChild": StartChild,
    "CancelChild": CancelChild,
    "ChildFinished": ChildEnded,
}
_KIND_OF = {cls: kind for kind, cls in KINDS.items()}


def kind_of(message: StartChild | CancelChild | ChildEnded) -> str:
    """What a message is called in the outbox."""
    return _KIND_OF[type(message)]


def body_of(message: StartChild | CancelChild | ChildEnded) -> Document:
    """A message as it is kept."""
    return Document(msgspec.json.encode(message))


def read(kind: str, body: bytes) -> StartChild | CancelChild | ChildEnded:
    """Read a message. Raises KeyError when there is no such kind, ValueError when it is none."""
    return msgspec.json.decode(body, type=KINDS[kind])


def raw_of(document: Document) -> msgspec.Raw:
    """A payload, to be put into a message undecoded."""
    return msgspec.Raw(document.raw)
