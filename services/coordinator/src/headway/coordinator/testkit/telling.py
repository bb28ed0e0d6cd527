"""Tells a run's history for people: what happened when, and what it caused."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from headway.coordinator.core import actions as do
from headway.coordinator.core import events as on
from headway.coordinator.core.document import Document
from headway.coordinator.core.durations import spell_duration
from headway.coordinator.testkit.played import Note, Played
from headway.coordinator.testkit.simulation import Entry

_SHOWN = 160  # characters of a payload

TIMERS: Mapping[str, str] = {
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
    notes = list(played.notes)
    width = max(len(_since(played.started_at, entry.at)) for entry in played.history)
    for entry in played.history:
        yield _line(played, width, entry.at, _event(entry))
        yield from (f"{'':{width}}    → {text}" for action in entry.actions if (text := _action(action)))
        while notes and notes[0].seq <= entry.seq:
            note: Note = notes.pop(0)
            yield _line(played, width, note.at, note.text)


def _line(played: Played, width: int, at: datetime, text: str) -> str:
    return f"{_since(played.started_at, at):>{width}}  {text}"


def _since(start: datetime, at: datetime) -> str:
    return spell_duration(round((at - start).total_seconds() * 1000))


def _event(entry: Entry) -> str:
    known = _EVENTS.get(type(entry.event))
    return known(entry.event) if known is not None else _plainly(entry.event)


def _action(action: do.Action) -> str:
    if type(action) in _UNTOLD:
        return ""
    known = _ACTIONS.get(type(action))
    return known(action) if known is not None else _plainly(action)


def _plainly(happened: object) -> str:
    """What has no words of its own here."""
    facts = msgspec.structs.asdict(happened) if isinstance(happened, msgspec.Struct) else {}
    named = (f"{name} {value}" for name, value in facts.items() if name not in ("at", "chance", "request_id"))
    return f"{type(happened).__name__} {', '.join(named)}"


def _cut(document: Document) -> str:
    text = document.raw.decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _whose(path: str) -> str:
    return f" of {path}" if path else ""


def nth(path: str, attempt: int) -> str:
    """A node's attempt; the first is the rule, and goes without saying."""
    return path if attempt == 1 else f"{path} (attempt {attempt})"


def _finish(action: do.FinishRun) -> str:
    error = "" if action.error is None else f": {action.error['message']}"
    return f"the run {'is' if action.state == 'cancelled' else 'has'} {action.state}{error}"


def _failed(action: do.FailTask) -> str:
    what = "" if action.disposition is None else f" ({action.disposition})"
    return f"{action.path} failed: {action.failure.type}: {action.failure.message}{what}"


_EVENTS: Mapping[type, Callable[[Any], str]] = {
    on.RunStarted: lambda event: f"the run starts with {_cut(event.input)}",
    on.NodeCompleted: lambda event: f"report of {nth(event.path, event.attempt)}: {_cut(event.output)}",
    on.NodeFailed: lambda event: (
        f"report of {nth(event.path, event.attempt)}: {event.failure.type}{', final' if event.final else ''}"
    ),
    on.NodeCancelled: lambda event: f"stop of {nth(event.path, event.attempt)}",
    on.LeaseReleased: lambda event: f"{nth(event.path, event.attempt)} is given back",
    on.LeaseExpired: lambda event: f"the lease of {nth(event.path, event.attempt)} has run out",
    on.TimerFired: lambda event: f"{TIMERS.get(event.kind, event.kind)}{_whose(event.path)}",
    on.SignalReceived: lambda event: f"signal {event.name}: {_cut(event.payload)}",
    on.RunPaused: lambda event: f"pause{', and the clock stops' if event.stop_clock else ''}",
    on.RunResumed: lambda _: "resume",
    on.NodeSkipped: lambda event: f"skip of {event.path}: {_cut(event.output)}",
    on.RunRetried: lambda event: f"retry{''.join(f' from {path}' for path in event.chosen)}",
    on.RunCancelled: lambda event: f"cancel, grace {spell_duration(event.grace_ms)}",
}
_ACTIONS: Mapping[type, Callable[[Any], str]] = {
    do.MarkRun: lambda action: f"the run is {action.flag}" if action.path is None else f"{action.path} ends the run",
    do.PauseRun: lambda _: "the run is paused",
    do.ResumeRun: lambda _: "the run goes on",
    do.ReopenRun: lambda _: "the run is open again",
    do.RedoTask: lambda action: f"{action.path} is to be done again",
    do.SetVariables: lambda action: f"variables {_cut(Document.of(action.values))}",
    do.FinishRun: _finish,
    do.DispatchTask: lambda action: f"{nth(action.path, action.attempt)} waits for a worker",
    do.AwaitTask: lambda action: f"{action.path} waits",
    do.CompleteTask: lambda action: f"{action.path} succeeded",
    do.FailTask: _failed,
    do.ScheduleRetry: lambda action: f"{action.path} is to be tried again",
    do.ReapLease: lambda action: f"{action.path} is {action.outcome}, and begins again",
    do.CancelTask: lambda action: f"{action.path} is cancelled: {action.cause}",
    do.CountFailure: lambda action: f"the failure of {action.path} counts after all",
    do.ExcuseFailure: lambda action: f"the failure of {action.path} is tolerated again",
    do.TakeSignal: lambda action: f"{action.path} takes the signal {action.name}",
    do.StopLoop: lambda action: f"{action.path} begins nothing more: {action.cause}",
    do.OpenScope: lambda action: f"{action.path} begins",
    do.CloseScope: lambda action: f"{action.path} {'is' if action.state == 'cancelled' else 'has'} {action.state}",
    do.OpenChild: lambda action: f"{action.path} asks for a run of {action.workflow}",
    do.StopChild: lambda action: f"the run of {action.path} is to stop: {action.cause}",
    do.CloseChild: lambda action: f"the run of {action.path}: {action.state}",
    do.ConcludeRun: lambda action: f"all is over but for finally: the run will be {action.state}",
    do.StopTask: lambda action: f"the holder of {action.path} is told to stop: {action.cause}",
    do.DropScope: lambda action: f"the rows of {action.path} are dropped",
}
_UNTOLD = frozenset(
    {
        do.HandOver,
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
    }
)
