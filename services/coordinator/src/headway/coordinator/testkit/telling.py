"""Tells the history of a run, and of those that it started, for people: what happened when, and what it caused."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from headway.coordinator.core import actions as do
from headway.coordinator.core import events as on
from headway.coordinator.core.document import Document
from headway.coordinator.core.durations import spell_duration
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.rows import LEFT, REFUSED, STARTED, UNSTARTED
from headway.coordinator.testkit.bodies import in_run
from headway.coordinator.testkit.played import Played
from headway.coordinator.testkit.simulation import Entry

_SHOWN = 160  # characters of a payload
_THE_RUN = "the run"

_TIMERS: Mapping[str, str] = {
    "wait": "end",
    "event_timeout": "time-out",
    "retry": "retry",
    "queue_timeout": "queue time-out",
    "total_timeout": "total time-out",
    "heartbeat_timeout": "heartbeat time-out",
    "stall_timeout": "stall time-out",
    "run_deadline": "deadline",
    "cancel_grace": "end of the grace",
    "go_on": "next round",
}


def tell(played: Played) -> tuple[str, ...]:
    """The whole story, a line each."""
    if played.simulation is None:
        return (f"0s  the run is refused: {played.refusal}",)
    return tuple(_lines(played))


def _lines(played: Played) -> Iterator[str]:
    width = max((len(_since(played, told.at)) for told in played.log), default=0)
    for told in played.log:
        text = told.what if isinstance(told.what, str) else _event(told.what, told.run)
        yield f"{_since(played, told.at):>{width}}  {text}"
        if isinstance(told.what, Entry):
            actions = (_action(action, told.run) for action in told.what.actions)
            yield from (f"{'':{width}}    → {text}" for text in actions if text)


def _since(played: Played, at: datetime) -> str:
    return spell_duration(round((at - played.started_at).total_seconds() * 1000))


def _event(entry: Entry, run: str) -> str:
    return EVENTS[type(entry.event)](_named(entry.event, run), the_run(run))


def _action(action: do.Action, run: str) -> str:
    if type(action) in UNTOLD:
        return ""
    return ACTIONS[type(action)](_named(action, run), the_run(run))


def the_run(run: str) -> str:
    """What a run is called, by its address."""
    return f"{_THE_RUN} of {run}" if run else _THE_RUN


def _named(happened: msgspec.Struct, run: str) -> msgspec.Struct:
    """With the addresses of nodes instead of their paths."""
    path = getattr(happened, "path", None)
    return msgspec.structs.replace(happened, path=in_run(run, path)) if path and run else happened


def _cut(document: Document) -> str:
    return _short(document.raw.decode())


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def whose(path: str, run: str) -> str:
    """Of a node, or of a run that is not the one that is tried."""
    return f" of {path}" if path else "" if run == _THE_RUN else f" of {run}"


def timer(kind: str, path: str, run: str) -> str:
    """A timer of a node, by its address, or of a run."""
    return f"{_TIMERS.get(kind, kind)}{whose(path, run)}"


def nth(path: str, attempt: int) -> str:
    """A node's attempt; the first is the rule, and goes without saying."""
    return path if attempt == 1 else f"{path} (attempt {attempt})"


def _finish(action: do.FinishRun, run: str) -> str:
    error = "" if action.error is None else f": {action.error['message']}"
    return f"{run} {_has(action.state)}{error}"


def _has(state: str) -> str:
    return f"{'is' if state == RunState.CANCELLED else 'has'} {state}"


def _failed(action: do.FailTask, _run: str) -> str:
    what = "" if action.disposition is None else f" ({action.disposition})"
    return f"{action.path} failed: {action.failure.type}: {action.failure.message}{what}{_perhaps(action)}"


def _perhaps(action: do.FailTask | do.CancelTask) -> str:
    return "; an earlier attempt may have taken effect" if action.unknown else ""


def _marked(action: do.MarkRun, run: str) -> str:
    return _MARKS[action.flag].format(run=run, path=action.path)


def _retried(event: on.RunRetried, run: str) -> str:
    if event.parent is not None:
        return f"{run} is taken up again"
    return f"retry{whose('', run)}{''.join(f' from {path}' for path in event.chosen)}"


def _cancelled(event: on.RunCancelled, run: str) -> str:
    what = f"cancel{whose('', run)}" if event.parent is None else f"stop of {run}"
    return f"{what}, grace {spell_duration(event.grace_ms)}"


def _child_finished(event: on.ChildFinished, _run: str) -> str:
    said = event.output.raw.decode() if event.output is not None else str((event.error or {}).get("message") or "")
    what = "start" if event.state == STARTED else "end"
    return f"{what} of {event.path}: its run {_CHILDREN[event.state]}{f': {_short(said)}' if said else ''}"


def _child_closed(action: do.CloseChild, _run: str) -> str:
    return f"the run of {action.path} is left to itself" if action.state == LEFT else ""


_CHILDREN: Mapping[str, str] = {
    RunState.SUCCEEDED: "has succeeded",
    RunState.FAILED: "has failed",
    RunState.CANCELLED: "is cancelled",
    STARTED: "has started, and is not waited for",
    REFUSED: "could not start",
    UNSTARTED: "was cancelled before it started",
}
_MARKS: Mapping[str, str] = {
    "cancelling": "{run} is being cancelled",
    "failing": "{run} is failing",
    "expired": "the time of {run} is over",
    "finish_path": "{path} ends {run}",
    "ending": "{run} undoes what it did",
}
EVENTS: Mapping[type, Callable[[Any, str], str]] = {
    on.RunStarted: lambda event, run: f"{run} starts with {_cut(event.input)}",
    on.NodeCompleted: lambda event, _: f"report of {nth(event.path, event.attempt)}: {_cut(event.output)}",
    on.NodeFailed: lambda event, _: (
        f"report of {nth(event.path, event.attempt)}: {event.failure.type}{', final' if event.final else ''}"
    ),
    on.NodeCancelled: lambda event, _: f"stop of {nth(event.path, event.attempt)}",
    on.LeaseReleased: lambda event, _: f"{nth(event.path, event.attempt)} is given back",
    on.LeaseExpired: lambda event, _: f"the lease of {nth(event.path, event.attempt)} has run out",
    on.TimerFired: lambda event, run: timer(event.kind, event.path, run),
    on.SignalReceived: lambda event, run: f"signal {event.name}{whose('', run)}: {_cut(event.payload)}",
    on.RunPaused: lambda event, run: f"pause{whose('', run)}{', and the clock stops' if event.stop_clock else ''}",
    on.RunResumed: lambda _, run: f"resume{whose('', run)}",
    on.NodeSkipped: lambda event, _: f"skip of {event.path}: {_cut(event.output)}",
    on.RunRetried: _retried,
    on.RunCancelled: _cancelled,
    on.ChildFinished: _child_finished,
}
ACTIONS: Mapping[type, Callable[[Any, str], str]] = {
    do.MarkRun: _marked,
    do.PauseRun: lambda _, run: f"{run} is paused",
    do.ResumeRun: lambda _, run: f"{run} goes on",
    do.ReopenRun: lambda _, run: f"{run} is open again",
    do.RedoTask: lambda action, _: f"{action.path} is to be done again",
    do.SetVariables: lambda action, _: f"variables {_cut(Document.of(action.values))}",
    do.LabelRun: lambda action, run: f"{run} is labelled {_cut(Document.of(action.labels))}",
    do.FinishRun: _finish,
    do.DispatchTask: lambda action, _: f"{nth(action.path, action.attempt)} waits for a worker",
    do.AwaitTask: lambda action, _: f"{action.path} waits",
    do.CompleteTask: lambda action, _: f"{action.path} succeeded",
    do.FailTask: _failed,
    do.ScheduleRetry: lambda action, _: f"{action.path} is to be tried again",
    do.ReapLease: lambda action, _: f"{action.path} is {action.outcome}, and begins again",
    do.CancelTask: lambda action, _: f"{action.path} is cancelled: {action.cause}{_perhaps(action)}",
    do.CountFailure: lambda action, _: f"the failure of {action.path} counts after all",
    do.ExcuseFailure: lambda action, _: f"the failure of {action.path} is tolerated again",
    do.TakeSignal: lambda action, _: f"{action.path} takes the signal {action.name}",
    do.StopLoop: lambda action, _: f"{action.path} begins nothing more: {action.cause}",
    do.ReopenLoop: lambda action, _: f"{action.path} goes on",
    do.OpenScope: lambda action, _: f"{action.path} begins",
    do.LeaveOut: lambda action, _: f"{action.path} leaves {action.count} out",
    do.ReopenScope: lambda action, _: f"{action.path} goes on",
    do.CloseScope: lambda action, _: f"{action.path} {_has(action.state)}",
    do.OpenChild: lambda action, _: f"{action.path} asks for a run of {action.workflow}",
    do.StopChild: lambda action, _: f"the run of {action.path} is to stop: {action.cause}",
    do.CloseChild: _child_closed,
    do.ConcludeRun: lambda action, run: f"all is over but for finally: {run} will be {action.state}",
    do.StopTask: lambda action, _: f"the holder of {action.path} is told to stop: {action.cause}",
    do.DropScope: lambda action, _: f"the rows of {action.path} are dropped",
    do.NoteEffect: lambda action, _: f"{action.path} can be undone",
    do.BeginUndoing: lambda action, _: f"{action.path} is being undone",
    do.DoubtUndoing: lambda action, _: f"{action.path} may have been undone",
    do.TakeEffect: lambda action, _: f"{action.path} was {'undone' if action.undone else 'done anew'}",
    do.LeaveStanding: lambda action, _: f"what {action.path} did stands",
}
UNTOLD = frozenset(
    {
        do.HandOver,
        do.AdoptRun,
        do.SetGeneration,
        do.HoldTask,
        do.HoldTimer,
        do.PostponeTask,
        do.ResetVariables,
        do.CreateRun,
        do.StartRun,
        do.StorePayload,
        do.CreateTask,
        do.SetInput,
        do.ClaimTask,
        do.ScheduleTimer,
        do.CancelTimer,
        do.SetToken,
        do.EraseTokens,
        do.BufferSignal,
        do.OpenLoop,
        do.MoveCursor,
        do.FailScope,
        do.ExpectSignal,
        do.ExpectNothing,
    }
)
