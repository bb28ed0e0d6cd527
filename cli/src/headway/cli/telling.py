"""How runs, tasks and events are told to people. Pure: text in the answer, the present instant as an argument."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.text import Text

from headway.cli.output import visible
from headway.client import Event, Json, Run, RunState, Task, TaskError, TaskState

STYLES = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "magenta",
    "running": "cyan",
    "ready": "yellow",
    "retrying": "yellow",
    "waiting": "blue",
}

RUN_COLUMNS = ("RUN", "WORKFLOW", "VERSION", "STATE", "STARTED", "DURATION", "ERROR")
TASK_COLUMNS = ("PATH", "TYPE", "STATE", "ATTEMPT", "TRIES", "OWNER", "DURATION", "ERROR")
EVENT_COLUMNS = ("SEQ", "AT", "EVENT", "PATH", "ATTEMPT", "WHAT")

_FACTS = ("name", "kind", "reason", "workflow", "version", "key")  # fields of events that are worth a look
_LONGEST_FACT = 120  # characters: a line is for reading


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


def run_row(run: Run, now: datetime) -> tuple[str | Text, ...]:
    """A run's line in a list."""
    return (
        run.run_id,
        run.workflow,
        str(run.version),
        run_state_text(run),
        instant(run.created_at),
        _duration(run.created_at, run.finished_at, now),
        "" if run.error is None else one_line(f"{run.error.failure_class}: {run.error.message}"),
    )


def run_state_text(run: Run) -> Text:
    """The run's state, with the flag that explains it."""
    text = state_text(run.state)
    if run.cancelling and not run.state.is_final:
        text.append(" (cancelling)", style=STYLES["cancelled"])
    return text


def task_row(task: Task, now: datetime) -> tuple[str | Text, ...]:
    """A task's line in its run's table."""
    state = state_text(task.state)
    if task.handled:
        state.append(" (handled)", style="dim")
    if task.cause:
        state.append(f" ({visible(task.cause)})", style="dim")
    losses = f" (+{task.losses} lost)" if task.losses else ""
    return (
        task.path,
        task.type,
        state,
        str(task.attempt),
        f"{task.tries}{losses}",
        task.owner or "-",
        _duration(task.started_at or task.created_at, task.finished_at, now),
        "" if task.error is None else error_line(task.error),
    )


def error_line(error: TaskError) -> str:
    """An error in one line: class, type and message."""
    return one_line(f"{error.failure_class} {error.type}: {error.message}")


def one_line(text: str) -> str:
    """The first line of a text, no longer than a line is read."""
    first, *rest = text.strip().splitlines() or [""]
    cut = first[:_LONGEST_FACT]
    return f"{cut} …" if rest or len(first) > _LONGEST_FACT else cut


def awaited(run: Run, tasks: Sequence[Task], now: datetime) -> list[str]:
    """What an unfinished run waits for, one sentence for each task that it waits for."""
    if run.state.is_final:
        return []
    lines = [line for task in tasks for line in _awaited_by(task, now)]
    return lines or ["its next decision: no task is open (if this stays, look at the coordinator's log)"]


def _awaited_by(task: Task, now: datetime) -> list[str]:
    match task.state:
        case TaskState.READY:
            since = _duration(task.created_at, None, now)
            what = f"a worker of queue {task.queue!r} that knows handler {task.handler!r}; created {since} ago"
        case TaskState.RUNNING:
            what = f"worker {task.owner}, {_lease(task, now)}"
        case TaskState.WAITING:
            due = "" if task.due_at is None else f", until {instant(task.due_at)} ({_until(task.due_at, now)})"
            what = (f"signal {task.waits_for!r}" if task.waits_for else "its time") + due
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


def _lease(task: Task, now: datetime) -> str:
    if task.lease_expires_at is None:
        return "which holds its lease"
    left = task.lease_expires_at - now
    if left >= timedelta():
        return f"whose lease lasts {span(left)} more unless renewed"
    return f"whose lease ran out {span(-left)} ago: the timers service is about to give it to another"


def _until(due_at: datetime, now: datetime) -> str:
    return f"in {span(due_at - now)}" if due_at >= now else f"due {span(now - due_at)} ago: is the timers service up?"


def _duration(start: datetime | None, end: datetime | None, now: datetime) -> str:
    return "-" if start is None else span((end or now) - start)


def event_row(event: Event) -> tuple[str | Text, ...]:
    """An event's line in a history."""
    return (
        str(event.seq),
        "-" if event.at is None else event.at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z",
        Text(visible(event.type), style="bold"),
        event.path,
        str(event.attempt) if event.attempt else "",
        facts(event.event),
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
    told = facts(event.event)
    if told:
        line.append(f"  {visible(told)}", style="dim")
    return line


def facts(event: Json) -> str:
    """What an event's fields tell beside what its line says anyway."""
    if not isinstance(event, dict):
        return ""
    failure = event.get("failure")
    if isinstance(failure, dict):
        return one_line(f"{failure.get('failure_class')} {failure.get('type')}: {failure.get('message')}")
    told = [f"{key}={event[key]}" for key in _FACTS if event.get(key)]
    chosen = event.get("chosen")
    if isinstance(chosen, list) and chosen:
        told.append("from " + ", ".join(map(str, chosen)))
    return one_line(" ".join(told))
