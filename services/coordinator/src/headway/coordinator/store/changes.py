"""What a batch's decisions change of one run, together, before it is written."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct, field

from headway.coordinator.core.machines import TaskState
from headway.coordinator.core.state import Changes
from headway.coordinator.store.loading import Held


class EventRecord(Struct, frozen=True, kw_only=True):
    """A row of `run_events`, but for its run."""

    seq: int
    type: str
    at: datetime
    path: str
    attempt: int
    event: bytes
    actions: bytes


class Applied(Struct, frozen=True, kw_only=True):
    """A mutation that was applied, as it is remembered by its request id.

    Attributes:
        call: its kind.
        fingerprint: the same for the same request.
        answer: what it was answered, as JSON has it.
    """

    call: str
    fingerprint: bytes
    answer: object


class Saving(Struct, eq=False):
    """What one run's events of a batch changed, together.

    Attributes:
        dispatches: (outbox_id, path, attempt, trace), in order.
        requests: (request_id, what was applied).
        handovers: (outbox_id, run that it is for, body, trace).
        needs_deployed: of a run that starts: its version must be the deployed one when it is written.
    """

    held: Held
    changes: Changes = field(default_factory=Changes)
    events: list[EventRecord] = field(default_factory=list)
    dispatches: list[tuple[UUID, str, int, str]] = field(default_factory=list)
    requests: list[tuple[UUID, Applied]] = field(default_factory=list)
    handovers: list[tuple[UUID, UUID, bytes, str]] = field(default_factory=list)
    needs_deployed: bool = False

    def has_lease(self) -> bool:
        """A task of it is leased already."""
        return any(row.state is TaskState.RUNNING for row in self.changes.tasks.values())

    def add(self, later: Changes) -> None:
        """Lay a later decision's changes over the earlier ones."""
        mine = self.changes
        mine.run = later.run or mine.run
        mine.tasks.update(later.tasks)
        mine.tokens.update(later.tokens)
        mine.payloads.update(later.payloads)
        if later.all_timers_gone:
            mine.timers.clear()
            mine.all_timers_gone = True
        mine.timers.update(later.timers)
        mine.signals.update(later.signals)
        mine.attempts.extend(later.attempts)
        mine.labels.update(later.labels)
        mine.loops.update(later.loops)
        mine.scopes.update(later.scopes)
        mine.children.update(later.children)
        mine.effects.update(later.effects)
        mine.waits.update(later.waits)
        for scope, paths in later.dropped.items():
            mine.drop(scope, paths)
