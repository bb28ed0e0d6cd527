"""How runs, tasks and events are told to people. Pure: text in the answer, the present instant as an argument."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from rich.text import Text

from headway.cli.output import visible
from headway.cli.table import Cell, Column, Row
from headway.client import (
    Event,
    Item,
    ItemCounts,
    Json,
    Run,
    RunError,
    RunState,
    Task,
    TaskError,
    TaskProgress,
    TaskState,
)

STYLES = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "magenta",
    "running": "cyan",
    "ready": "yellow",
    "retrying": "yellow",
    "waiting": "blue",
}

RUN_COLUMNS = (
    Column(name="RUN"),  # whole, always: it is copied into the next command
    Column(name="WORKFLOW", cut_to=10),
    Column(name="VERSION", leaves=1),
    Column(name="STATE"),
    Column(name="STARTED", leaves=4),
    Column(name="DURATION", leaves=2),
    Column(name="ERROR", cut_to=8, leaves=3),
)
ITEM_COLUMNS = (
    Column(name="ITEM"),
    Column(name="STATE"),
    Column(name="DURATION", leaves=1),
    Column(name="RESULT OR ERROR", cut_to=8, leaves=2),
)
TASK_COLUMNS = (
    Column(name="PATH"),
    Column(name="TYPE", leaves=1),
    Column(name="STATE"),
    Column(name="ATTEMPT", leaves=4),
    Column(name="TRIES", leaves=2),
    Column(name="OWNER", leaves=3),
    Column(name="DURATION", leaves=5),
    Column(name="ERROR", cut_to=20, leaves=6),
)
EVENT_COLUMNS = (
    Column(name="SEQ"),
    Column(name="AT", leaves=2),
    Column(name="EVENT"),
    Column(name="PATH"),
    Column(name="ATTEMPT", leaves=1),
    Column(name="WHAT", cut_to=24, leaves=3),
)

_FACTS = ("name", "kind", "reason", "workflow", "version", "key")  # fields of events that are worth a look
_LATE = timedelta(seconds=5)  # after which what the timers service should have told says that it is not at work
_LONGEST_FACT = 120  # characters: a line is for reading
_OWNER = re.compile(r"(?P<host>.+)-(?P<process>\d+)-(?P<start>[0-9a-f]{16})")  # as the Python worker names itself
_LONGEST_OWNER = 13  # characters of an owner of another make, in a table


def state_text(state: RunState | TaskState) -> Text:
    """The state in its colour."""
    return Text(state.value, style=STYLES.get(state.value, ""))


def span(duration: timedelta) -> str:
    """A duration in the two largest units that matter: `340ms`, `4.2s`, `3m12s`, `2h05m`, `3d04h`."""
    seconds = max(duration.total_seconds(), 0.0)
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{seconds:.1f}s"


def instant(at: datetime | None) -> str:
    """An instant in UTC, to the second; `-`: none."""
    return "-" if at is None else at.strftime("%Y-%m-%d %H:%M:%SZ")


def owner_cell(owner: str) -> str | Cell:
    """The holder of a lease; shortened to what tells workers apart: the process and the start of its start's number."""
    if match := _OWNER.fullmatch(owner):
        return Cell(text=owner, short=f"{match['process']}-{match['start'][:6]}")
    if len(owner) > _LONGEST_OWNER:
        return Cell(text=owner, short=f"…{owner[1 - _LONGEST_OWNER :]}")
    return owner


def run_row(run: Run, now: datetime) -> Row:
    """A run's line in a list."""
    return (
        run.run_id,
        run.workflow,
        str(run.version),
        Cell(text=run_state_text(run), short=_short_state(run)),
        instant(run.created_at)
        if run.created_at is None
        else Cell(text=instant(run.created_at), short=f"{span(now - run.created_at)} ago"),
        run_duration(run, now),
        "" if run.error is None else one_line(f"{run.error.failure_class}: {run.error.message}"),
    )


def _short_state(run: Run) -> Text:
    """The run's state by its flag alone: each goes with no other state than running."""
    flags = {
        "paused": run.paused_at is not None,
        "finally": run.concluded is not None,
        "compensating": run.compensating,
        "cancelling": run.cancelling,
    }
    flag = next((flag for flag, is_so in flags.items() if is_so), None)
    return state_text(run.state) if flag is None else Text(flag, style=STYLES["waiting"])


def run_state_text(run: Run) -> Text:
    """The run's state, with the flag that explains it."""
    text = state_text(run.state)
    if run.concluded is not None:
        text.append(f" (finally, then {run.concluded})", style=STYLES["waiting"])
    elif run.compensating:
        text.append(" (compensating)", style=STYLES["cancelled"])
    elif run.cancelling:
        text.append(" (cancelling)", style=STYLES["cancelled"])
    if run.paused_at is not None:
        text.append(" (paused)", style=STYLES["waiting"])
    return text


def task_row(task: Task, now: datetime) -> Row:
    """A task's line in its run's table."""
    state = state_text(task.state)
    if task.disposition not in {"", "unhandled"}:
        state.append(f" ({visible(task.disposition)})", style="dim")
    if task.cause:
        state.append(f" ({visible(task.cause)})", style="dim")
    if task.undoes:
        state.append(f" (undoes {task.undoes})", style="dim")
    if task.items is not None:
        state.append(f" ({item_counts(task.items)})", style="dim")
    losses = f" (+{task.losses} lost)" if task.losses else ""
    return (
        task.path,
        task.type,
        state,
        str(task.attempt),
        f"{task.tries}{losses}",
        owner_cell(task.owner),
        _task_duration(task, now),
        "" if task.error is None else one_line(f"{task.error.type}: {_message(task.error)}"),
    )


def _task_duration(task: Task, now: datetime) -> str:
    """How long its latest attempt has taken: with its worker, or waiting; `-`: it was decided at once, or is due."""
    is_under_way = task.state not in {TaskState.PENDING, TaskState.RETRYING}
    return _duration(task.leased_at or task.ready_at if is_under_way else None, task.finished_at, now)


def item_counts(counts: ItemCounts) -> str:
    """How far a map or repeat is: `40 of 1000 done, 20 running, 2 failed`."""
    others = [
        (counts.running, "running"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
        (counts.undone, "undone"),
        (counts.left_out, "left out"),
    ]
    done = f"{counts.succeeded} of {counts.total - counts.left_out} done"
    return ", ".join([done, *(f"{count} {what}" for count, what in others if count)])


def item_row(item: Item, now: datetime, width: int) -> Row:
    """The line of an item of a map, or of an iteration of a repeat."""
    if item.error is not None:
        result = run_error_line(item.error)
    else:
        result = left_out(item) or ("" if item.output is None else json.dumps(item.output, ensure_ascii=False))
    took = _duration(item.created_at, item.finished_at, now)
    state = state_text(item.state)
    if item.undone:
        state.append(" (undone)", style="dim")
    name = item.path if item.place == item.index else f"{item.path} (item {item.place})"
    return name, state, took, one_line(result, width)


def error_line(error: TaskError) -> str:
    """An error in one line: class, type and message."""
    return one_line(f"{error.failure_class} {error.type}: {_message(error)}")


def _message(error: TaskError) -> str:
    return "(left out)" if error.left_out else error.message


def run_error_line(error: RunError) -> str:
    """A run's error: class, place and message. A message that begins with its one place does not name it again."""
    message = " ".join(error.message.split())
    if len(error.paths) == 1:
        message = message.removeprefix(f"{error.paths[0]}: ")
    where = f" at {', '.join(error.paths)}" if error.paths else ""
    return f"{error.failure_class}{where}: {message}"


def outputs(tasks: Sequence[Task], width: int) -> list[str]:
    """The outputs of tasks, each cut to one line of so many characters, or how large one is that was left out."""
    shown = [task for task in tasks if task.output is not None or task.output_left_out]
    widest = max((len(task.path) for task in shown), default=0)
    room = max(width - widest - 6, 20)
    texts = [left_out(task) or one_line(json.dumps(task.output, ensure_ascii=False), room) for task in shown]
    return [f"{task.path:<{widest}}  {text}" for task, text in zip(shown, texts, strict=True)]


def left_out(of: Task | Item) -> str:
    """What stands in place of an output that is not here; empty: it is here, or there is none."""
    return f"({of.output_left_out:,} bytes, left out)" if of.output_left_out else ""


def one_line(text: str, longest: int = _LONGEST_FACT) -> str:
    """The first line of a text, no longer than a line is read."""
    first, *rest = text.strip().splitlines() or [""]
    cut = first[:longest]
    return f"{cut} …" if rest or len(first) > longest else cut


def awaited(run: Run, tasks: Sequence[Task], now: datetime) -> list[str]:
    """What an unfinished run waits for, one sentence for each task that it waits for."""
    if run.state.is_final:
        return []
    lines = [line for task in tasks for line in _awaited_by(run, task, now)]
    if not lines and run.paused_at is not None:
        return ["the run to be resumed: held by the pause"]
    if not lines and run.compensating:
        return [f"what undoes its items, or its next decision: `headway why {run.run_id}` says which"]
    return lines or ["its next decision: no task is open (if this stays, look at the coordinator's log)"]


def _awaited_by(run: Run, task: Task, now: datetime) -> list[str]:
    match task.state:
        case _ if _is_held(run, task):
            due = "" if task.due_at is None else f", and not before {instant(task.due_at)}"
            what = f"the run to be resumed: held by the pause{due}"
        case TaskState.READY:
            since = _duration(task.ready_at, None, now)
            what = f"a worker of queue {task.queue!r} that knows handler {task.handler!r}, for {since}"
        case TaskState.RUNNING:
            what = f"worker {task.owner}, {_lease(task, now)}{_progress(task.progress, now)}"
        case TaskState.WAITING:
            counts = task.items
            if task.type == "finally":
                what = f"what runs at the end: headway show {run.run_id} finally"
            elif counts is not None:
                what = _items_awaited(run, task, counts, now)
            elif task.type == "subflow":
                what = f"run {task.child_run_id} to end"
            else:
                what = (f"signal {task.waits_for!r}" if task.waits_for else "its time") + _wait_end(run, task, now)
        case TaskState.RETRYING:
            due = "soon" if task.due_at is None else f"at {instant(task.due_at)} ({_until(task.due_at, now)})"
            error = "" if task.error is None else f"; last: {error_line(task.error)}"
            what = f"its next try {due}, after {task.tries} failed{error}"
        case TaskState.PENDING:
            what = "branches that lead to it"
        case TaskState.UNSPECIFIED:
            what = "something that this version of the command line does not know"
        case TaskState.SUCCEEDED | TaskState.FAILED | TaskState.CANCELLED:
            return []
    return [f"{task.path}: {what}"]


def _items_awaited(run: Run, task: Task, counts: ItemCounts, now: datetime) -> str:
    of = f"of {counts.total - counts.left_out} items" if task.type == "map" else f"after {counts.succeeded} iterations"
    due = "" if task.due_at is None else f", at {instant(task.due_at)} ({_until(task.due_at, now)})"
    held = "" if run.paused_at is None else "; none begins while the run is paused"
    return (f"{counts.running} {of} under way" if counts.running else f"the next one, {of}{due}") + held


def _wait_end(run: Run, task: Task, now: datetime) -> str:
    """When it stops waiting, whatever comes; empty: never."""
    if task.due_at is None:
        return ""
    if run.clock_paused:
        return "; its time-out stands still while the run is paused"
    return f", until {instant(task.due_at)} ({_until(task.due_at, now)})"


def _is_held(run: Run, task: Task) -> bool:
    """It would be dispatched, or go on by itself, were the run not paused."""
    if run.paused_at is None:
        return False
    is_alarm = task.type == "wait" or (task.type == "repeat" and task.due_at is not None)  # else it is its iteration
    is_unstarted = task.type == "subflow" and not task.child_run_id
    waits = task.state is TaskState.WAITING and (is_alarm or is_unstarted)
    return waits or task.state in {TaskState.READY, TaskState.RETRYING}


def _progress(progress: TaskProgress | None, now: datetime) -> str:
    if progress is None:
        return ""
    percent = "" if progress.percent is None else f" {progress.percent:.0f} %"
    message = "" if not progress.message else f" {one_line(progress.message)}"
    ago = "" if progress.at is None else f", {span(now - progress.at)} ago"
    return f"; told{percent}{message}{ago}"


def _lease(task: Task, now: datetime) -> str:
    if task.lease_expires_at is None:
        return "which holds its lease"
    left = task.lease_expires_at - now
    if left >= timedelta():
        return f"whose lease lasts {span(left)} more unless renewed"
    if -left > _LATE:
        return f"whose lease ran out {span(-left)} ago: is the timers service up?"
    return f"whose lease ran out {span(-left)} ago: the timers service is about to give it to another"


def _until(due_at: datetime, now: datetime) -> str:
    return f"in {span(due_at - now)}" if due_at >= now else f"due {span(now - due_at)} ago: is the timers service up?"


def run_duration(run: Run, now: datetime) -> str:
    """How long it has taken since its start; that of a reopened run contains the time that it lay finished."""
    reopened = ", reopened" if run.epoch > 1 else ""
    return f"{_duration(run.created_at, run.finished_at, now)}{reopened}"


def _duration(start: datetime | None, end: datetime | None, now: datetime) -> str:
    return "-" if start is None else span((end or now) - start)


def event_row(event: Event) -> Row:
    """An event's line in a history."""
    at = "-"
    if event.at is not None:
        date, time = event.at.strftime("%Y-%m-%d|%H:%M:%S.%f")[:-3].split("|")
        at = Cell(text=f"{date} {time}Z", short=time)
    return (
        str(event.seq),
        at,
        Text(visible(event.type), style="bold"),
        event.path,
        str(event.attempt) if event.attempt else "",
        facts(event),
    )


def event_line(event: Event) -> Text:
    """An event's line while a run is watched."""
    at = "-" if event.at is None else event.at.strftime("%H:%M:%S.%f")[:-3]
    line = Text(f"{at}  {event.seq:>4}  ")
    line.append(f"{visible(event.type):<15}", style="bold")
    if event.path:
        line.append(f"  {visible(event.path)}", style="cyan")
    if event.attempt > 1:
        line.append(f"  attempt {event.attempt}")
    told = facts(event)
    if told:
        line.append(f"  {visible(told)}", style="dim")
    return line


def facts(event: Event) -> str:
    """What an event's fields, and what it caused, tell beside what its line says anyway."""
    if event.type in {"LeaseExpired", "LeaseReleased"}:
        return one_line("; ".join(_end_of_lease(event)))
    fields = event.event
    if not isinstance(fields, dict):
        return ""
    failure = fields.get("failure")
    if isinstance(failure, dict):
        return one_line(_failure_line(failure))
    told = [f"{key}={fields[key]}" for key in _FACTS if fields.get(key)]
    chosen = fields.get("chosen")
    if isinstance(chosen, list) and chosen:
        told.append("from " + ", ".join(map(str, chosen)))
    return one_line(" ".join(told))


def _end_of_lease(event: Event) -> Iterator[str]:
    """What became of an attempt whose lease ended without a result: the event itself says only that it did."""
    for name, action in _actions_about(event):
        match name:
            case "ReapLease":
                yield "given back unrun" if action.get("outcome") == "released" else "lease lost"
            case "DispatchTask":
                yield f"again as attempt {action.get('attempt')}"
            case "CancelTask":
                yield f"closed ({action.get('cause')})"
            case "FailTask":
                failure = action.get("failure")
                yield _failure_line(failure) if isinstance(failure, dict) else "failed"
            case "ScheduleRetry":
                yield f"next try at {action.get('due_at')}"
            case _:
                pass


def _actions_about(event: Event) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The event's actions on its own task. What is not written as expected (by a newer server) is passed over."""
    for recorded in event.actions if isinstance(event.actions, list) else ():
        match recorded:
            case [str() as name, dict() as action] if action.get("path") == event.path:
                yield name, action
            case _:
                pass


def _failure_line(failure: Mapping[str, Json]) -> str:
    return f"{failure.get('failure_class')} {failure.get('type')}: {failure.get('message')}"
