"""What the client hands out about definitions: plain, frozen values, as in `_values`."""

from __future__ import annotations

from collections.abc import Mapping
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
    """What `Client.check` found.

    Attributes:
        workflow: The workflow that the file names; empty: it has an error.
        faults: In order of place.
        runs: Workflows whose deployed version its subflow nodes run, by name.
    """

    workflow: str
    faults: tuple[Fault, ...]
    runs: tuple[str, ...] = ()

    @property
    def deployable(self) -> bool:
        """True when no fault is more than a warning."""
        return all(fault.warning for fault in self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How one source of a workflow differs from an earlier one; what only looks different is left out.

    Attributes:
        nodes_added, nodes_removed: Ids.
        nodes_altered: Id to the places in it that differ, such as "retry.max_attempts".
        edges_added, edges_removed: Such as "reserve → sold_out on failure".
        input_schema: Places in it that differ.
        settings: Places in the workflow's other keys that differ, such as "deadline".
    """

    nodes_added: tuple[str, ...]
    nodes_removed: tuple[str, ...]
    nodes_altered: Mapping[str, tuple[str, ...]]
    edges_added: tuple[str, ...]
    edges_removed: tuple[str, ...]
    input_schema: tuple[str, ...]
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRuns:
    """Runs of a workflow that are not finished.

    Attributes:
        by_version: Version to how many.
        counted_all: False when a version has more than were counted.
    """

    by_version: Mapping[int, int]
    counted_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What making a version the deployed one means.

    Attributes:
        previous_version: The one that was deployed before; None: none was.
        changes: What differs from it.
        open_runs: They stay on their versions.
    """

    previous_version: int | None
    changes: Changes
    open_runs: OpenRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What `Client.deploy` came to, or would come to.

    Attributes:
        version: The version that was deployed.
        changed: False when exactly this was deployed already.
    """

    workflow: str
    version: int
    changed: bool
    warnings: tuple[Fault, ...]
    effect: Effect


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Redeployed:
    """The version that `Client.set_deployed_version` made the deployed one, or would make."""

    definition: Definition
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The stored versions of a workflow, newest first, and its open runs."""

    definitions: tuple[Definition, ...]
    open_runs: OpenRuns
