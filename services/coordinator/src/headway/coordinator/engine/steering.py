"""What people ask of a run: pause, resume, skip. As the decision lane takes it; see `submissions`."""

from collections.abc import Set as AbstractSet
from datetime import datetime

from headway.coordinator.core import events, refusals
from headway.coordinator.core.actions import ReopenRun
from headway.coordinator.core.decide import Decision
from headway.coordinator.core.document import Document
from headway.coordinator.core.events import RunEvent
from headway.coordinator.core.rows import RunRow
from headway.coordinator.core.state import Draft, State
from headway.coordinator.engine.submissions import Submission, TimerKey, run_after


class Pause(Submission, frozen=True, kw_only=True):
    """Dispatch nothing more. Answers {"was_paused"}: it was already, and nothing changed."""

    reason: str
    stop_clock: bool

    def event(self, at: datetime, chance: float) -> RunEvent:
        """RunPaused."""
        return events.RunPaused(at=at, chance=chance, reason=self.reason, stop_clock=self.stop_clock)

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """A run that is paused already stays as it is."""
        run = draft.run
        _refuse_final(self, run, "pause")
        if run.is_stopping:
            raise refusals.RunStopping(run_id=self.run_id.hex)
        if not run.is_paused:
            return None
        if run.steering.clock_stopped != self.stop_clock:
            clock = "stopped" if run.steering.clock_stopped else "running"
            raise refusals.RunPaused(run_id=self.run_id.hex, clock=clock)
        return {"was_paused": True}

    def answer(self, decision: Decision, state: State) -> object:
        """It was not."""
        return {"was_paused": False}


class Resume(Submission, frozen=True, kw_only=True):
    """Dispatch again. Answers {"was_resumed"}: it was not paused, and nothing changed."""

    def event(self, at: datetime, chance: float) -> RunEvent:
        """RunResumed."""
        return events.RunResumed(at=at, chance=chance)

    def judge(self, draft: Draft, event: RunEvent, due: AbstractSet[TimerKey]) -> object | None:
        """A run that is not paused stays as it is."""
        _refuse_final(self, draft.run, "resume")
        return None if draft.run.is_paused else {"was_resumed": True}

    def answer(self, decision: Decision, state: State) -> object:
        """It was paused."""
        return {"was_resumed": False}


class Skip(Submission, frozen=True, kw_only=True):
    """Give a node, `path`, its output. Answers {"reopened", "epoch"}."""

    reason: str
    output: Document

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return len(self.output.raw)

    def event(self, at: datetime, chance: float) -> RunEvent:
        """NodeSkipped."""
        return events.NodeSkipped(at=at, chance=chance, path=self.path, reason=self.reason, output=self.output)

    def answer(self, decision: Decision, state: State) -> object:
        """Whether that reopened the run."""
        reopened = any(isinstance(action, ReopenRun) for action in decision.actions)
        return {"reopened": reopened, "epoch": run_after(decision).epoch}


def _refuse_final(item: Submission, run: RunRow, request: str) -> None:
    if run.is_final:
        raise refusals.RunClosed(run_id=item.run_id.hex, state=run.state, request=request)
