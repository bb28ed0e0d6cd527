"""Which runs are meant: filters of lists and of operations on many runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.api.runs.v1 import runs_pb2
from headway.client import _translate
from headway.client._values import RunState

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs are meant: those that match all that is given.

    Attributes:
        version: Of the workflow.
        states: In one of these; empty: in any.
        failure_class: "timeout", "exec_failed", "verdict_fail" or "cancelled".
        created_from: Accepted at this instant or later; with a zone, as all instants.
        created_until: Accepted before this instant.
        finished_from: Finished at this instant or later.
        finished_until: Finished before this instant.
        key: Their idempotency key.
        key_prefix: How their idempotency keys begin.
        labels: All of these, by name.
        run_id_prefix: How their ids begin.
        parent_run_id: The run whose subflow nodes started them.
        paused: Only paused ones.
    """

    workflow: str | None = None
    version: int | None = None
    states: tuple[RunState, ...] = ()
    failure_class: str | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None
    finished_from: datetime | None = None
    finished_until: datetime | None = None
    key: str | None = None
    key_prefix: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    run_id_prefix: str | None = None
    parent_run_id: str | None = None
    paused: bool = False

    def message(self) -> runs_pb2.RunFilter:
        """The filter as it goes over the wire."""
        message = runs_pb2.RunFilter(
            workflow=self.workflow or "",
            version=self.version or 0,
            states=[_translate.run_state_message(state) for state in self.states],
            failure_class=self.failure_class or "",
            key=self.key or "",
            key_prefix=self.key_prefix or "",
            labels=self.labels,
            run_id_prefix=self.run_id_prefix or "",
            parent_run_id=self.parent_run_id or "",
            paused=self.paused,
        )
        for name in ("created_from", "created_until", "finished_from", "finished_until"):
            instant: datetime | None = getattr(self, name)
            if instant is not None:
                getattr(message, name).FromDatetime(instant)
        return message
