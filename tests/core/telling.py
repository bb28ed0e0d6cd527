"""Tells a run's history as a story: what happened, and what it caused, a line each."""

from __future__ import annotations

from headway.coordinator.core import actions as do
from headway.coordinator.core.events import (
    ChildFinished,
    LeaseExpired,
    LeaseReleased,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodeSkipped,
    RunCancelled,
    RunEvent,
    RunPaused,
    RunResumed,
    RunRetried,
    RunStarted,
    SignalReceived,
    TimerFired,
)
from tests.core.simulator import EPOCH, Entry, World


def tell(world: World) -> str:
    """The whole history."""
    return "\n".join(line for entry in world.history for line in _entry(entry)) + "\n"


def _entry(entry: Entry) -> list[str]:
    seconds = (entry.at - EPOCH).total_seconds()
    return [
        f"{entry.seq:>2}  {seconds:>5g}s  {_event(entry.event)}",
        *[f"             -> {_action(each)}" for each in entry.given],
    ]


def _event(event: RunEvent) -> str:  # noqa: C901, PLR0911, PLR0912 - one line for each kind of event
    match event:
        case RunStarted():
            return f"somebody starts {event.workflow} with {event.input.raw.decode()}"
        case NodeCompleted():
            output = event.output.raw.decode()
            return f"{event.owner} reports {event.path}, attempt {event.attempt}: succeeded, {output}"
        case NodeFailed():
            final = ", and trying again cannot help" if event.final else ""
            return f"{event.owner} reports {event.path}, attempt {event.attempt}: failed, {event.failure.type}{final}"
        case NodeCancelled():
            return f"{event.owner} reports {event.path}, attempt {event.attempt}: stopped"
        case LeaseReleased():
            return f"{event.owner} gives {event.path}, attempt {event.attempt}, back"
        case LeaseExpired():
            return f"the lease of {event.path}, attempt {event.attempt}, has expired"
        case TimerFired():
            return f"the timer {event.kind} of {event.path or 'the run'} is due"
        case SignalReceived():
            return f"signal {event.name}: {event.payload.raw.decode()}"
        case RunCancelled():
            return f"somebody cancels the run; grace {event.grace_ms / 1000:g}s"
        case RunPaused():
            return f"somebody pauses the run{' and its clock' if event.stop_clock else ''}"
        case RunResumed():
            return "somebody resumes the run"
        case ChildFinished():
            return f"the child of {event.path}, attempt {event.attempt}: {event.state}"
        case NodeSkipped():
            return f"somebody skips {event.path} with {event.output.raw.decode()}"
        case RunRetried():
            return f"somebody retries the run from {', '.join(event.chosen) or 'what failed'}"


def _action(action: do.Action) -> str:  # noqa: C901, PLR0911, PLR0912, PLR0915 - a line for each kind of action
    match action:
        case do.CreateRun() | do.StartRun():
            return "create the run" if isinstance(action, do.CreateRun) else "start the run"
        case do.MarkRun():
            return f"mark the run: {action.flag} {action.path or ''}".rstrip()
        case do.ResetVariables():
            return f"let the variables be {action.values}"
        case do.SetVariables():
            return f"set variables {action.values}"
        case do.FinishRun():
            error = "" if action.error is None else f": {action.error['message']}"
            return f"the run {'is' if action.state == 'cancelled' else 'has'} {action.state}{error}"
        case do.ReopenRun():
            again, kept = ", ".join(action.reset) or "nothing", ", ".join(action.kept) or "nothing"
            return f"reopen the run at {', '.join(action.chosen)}; redo {again} in turn; keep {kept}"
        case do.StorePayload():
            whose = f"the {action.role} of {action.path or 'the run'}, attempt {action.attempt}"
            return f"store {whose}: {action.data.raw.decode()}"
        case do.CreateTask():
            return f"create {action.path}"
        case do.SetInput():
            where = f"{action.input[2]} of {action.input[0] or 'the run'}"
            return f"give {action.path} the {where}; generation {action.generation}"
        case do.DispatchTask():
            what = "hold back" if action.held else "dispatch"
            return f"{what} {action.path}, attempt {action.attempt}"
        case do.AwaitTask():
            until = "" if action.due_at is None else f" until {(action.due_at - EPOCH).total_seconds():g}s"
            return f"{action.path} waits{until}"
        case do.ClaimTask():
            leased = (action.leased_at - EPOCH).total_seconds()
            return f"{action.owner} had {action.path}, attempt {action.attempt}, since {leased:g}s"
        case do.CompleteTask():
            return f"{action.path} has succeeded" + (f": {action.cause}" if action.cause else "")
        case do.FailTask():
            what = "will be tried again" if action.disposition is None else str(action.disposition)
            by = "" if action.handled_by is None else f" by edge {action.handled_by}"
            perhaps = "; it may have begun" if action.unknown else ""
            return f"{action.path} has failed, {action.failure.type}: {what}{by}{perhaps}"
        case do.CountFailure():
            return f"the failure of {action.path} counts after all"
        case do.ExcuseFailure():
            return f"the failure of {action.path} is tolerated again"
        case do.ScheduleRetry():
            return f"{action.path} is tried again at {(action.due_at - EPOCH).total_seconds():g}s"
        case do.ReapLease():
            return f"{action.path} leaves the attempt behind: {action.outcome}"
        case do.CancelTask():
            return f"{action.path} is cancelled: {action.cause}" + ("; it may have begun" if action.unknown else "")
        case do.StopTask():
            return f"tell the holder of {action.path} to stop: {action.cause}"
        case do.ConcludeRun():
            error = "" if action.error is None else f": {action.error['message']}"
            return f"the run will have {action.state}{error}"
        case do.RedoTask():
            return f"{action.path} begins again; generation {action.generation}"
        case do.ScheduleTimer():
            due = (action.due_at - EPOCH).total_seconds()
            return f"set the timer {action.kind} of {action.path or 'the run'} to {due:g}s"
        case do.CancelTimer():
            return f"take the timer {action.kind} of {action.path or 'the run'} away"
        case do.SetToken():
            names = "" if not action.names else f", naming {', '.join(name for name, _ in action.names)}"
            return f"edge {action.slot} into {action.path} is {action.token}{names}"
        case do.EraseTokens():
            return f"take back the tokens of edges {', '.join(map(str, action.slots))} into {action.path}"
        case do.BufferSignal():
            return f"keep the signal {action.name}"
        case do.PauseRun() | do.ResumeRun():
            return "the run is paused" if isinstance(action, do.PauseRun) else "the run goes on"
        case do.HoldTask():
            return f"hold {action.path} back"
        case do.HoldTimer():
            return f"stop the time-out {action.kind} of {action.path or 'the run'}: {action.left_ms / 1000:g}s are left"
        case do.PostponeTask():
            until = None if action.due_at is None else (action.due_at - EPOCH).total_seconds()
            return f"{action.path} now waits {'for nothing' if until is None else f'until {until:g}s'}"
        case do.SetGeneration():
            return f"{action.path} has generation {action.generation}"
        case do.TakeSignal():
            return f"{action.path} takes signal {action.seq}"
        case do.LabelRun():
            return f"label the run: {', '.join(f'{name}={value}' for name, value in action.labels.items())}"
        case do.OpenChild():
            return f"{action.path} asks for a run of {action.workflow}, attempt {action.attempt}"
        case do.StopChild():
            return f"the child of {action.path} is to stop: {action.cause}"
        case do.CloseChild():
            return f"the child of {action.path} is waited for no more: {action.state}"
        case do.HandOver():
            return f"hand over: {action.kind}"
        case _:
            return _action_of_few(action) or _action_of_loops(action)


def _action_of_few(action: do.Action) -> str:
    match action:
        case do.NoteEffect():
            return f"{action.path} can be undone"
        case do.BeginUndoing():
            return f"what {action.path} did is being undone"
        case do.DoubtUndoing():
            return f"what {action.path} did may have been undone"
        case do.TakeEffect():
            return f"what {action.path} did was {'undone' if action.undone else 'done anew'}"
        case do.LeaveStanding():
            return f"what {action.path} did stands"
        case do.ExpectSignal():
            return f"{action.path} waits for a signal {action.name}"
        case do.ExpectNothing():
            return f"{action.path} waits for no signal"
        case _:
            return ""


def _action_of_loops(action: do.Action) -> str:  # noqa: PLR0911 - one for each
    match action:
        case do.OpenLoop():
            return f"begin {action.path}: {action.total} at most" + (f", of {action.source}" if action.source else "")
        case do.StopLoop():
            return f"begin nothing more of {action.path}: {action.cause}" + (", close it" if action.closing else "")
        case do.MoveCursor():
            return f"{action.path} is told {'whole' if action.cursor is None else f'before {action.cursor}'}"
        case do.ReopenLoop():
            what = "what did not succeed" if action.redo_failed else "what was stopped"
            redo = "" if action.redo_from is None else f"; do {what} again, from {action.redo_from} on"
            return f"{action.path} goes on with {action.started} begun{redo}"
        case do.OpenScope() | do.ReopenScope():
            return f"{'begin' if isinstance(action, do.OpenScope) else 'reopen'} {action.path}"
        case do.LeaveOut():
            return f"{action.path} leaves {action.count} out"
        case do.FailScope():
            return f"begin nothing more in {action.path}: a failure counts"
        case do.CloseScope():
            error = "" if action.error is None else f": {action.error['type']}"
            return f"{action.path} {'is' if action.state == 'cancelled' else 'has'} {action.state}{error}"
        case do.DropScope():
            return f"drop the rows of {action.path}"
        case _:
            raise AssertionError(action)
