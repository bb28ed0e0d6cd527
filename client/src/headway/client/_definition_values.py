"""What the client hands out about definitions: plain, frozen values, as in `_values`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headway.client._values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong with a definition.

    Attributes:
        line: From 1.
        column: From 1.
        code: Stable, such as "unknown_node".
        message: What is wrong.
        remedy: What to do; may be empty.
        warning: True when it does not keep the file from being deployed.
    """

    line: int
    column: int
    code: str
    message: str
    remedy: str
    warning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What `Client.check` found: the workflow the file names (empty: unreadable) and its faults in order of place."""

    workflow: str
    faults: tuple[Fault, ...]

    @property
    def deployable(self) -> bool:
        """True when no fault is more than a warning."""
        return all(fault.warning for fault in self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """The version that `Client.deploy` deployed; `changed` is False when exactly this was deployed already."""

    workflow: str
    version: int
    changed: bool
    warnings: tuple[Fault, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One version of a workflow.

    Attributes:
        deployed: True when new runs take it.
        digest: SHA-256 of the source, hex.
        source: YAML; empty except from `Client.get_definition`.
        plan: Compiled plan; None except from `Client.get_definition`.
    """

    namespace: str
    workflow: str
    version: int
    deployed: bool
    digest: str
    created_at: datetime | None
    source: str
    plan: Json
