"""Commands that start runs and look at them."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from typing import ClassVar

from headway.cli import clock
from headway.cli.arguments import at_least_one, at_least_zero, json_value
from headway.cli.command import Command, Exit, Mistake, Session
from headway.cli.filters import add_filters, filter_of, label, labels_of
from headway.cli.following import exit_of, follow, tell_outcome
from headway.cli.output import Output, plain
from headway.cli.telling import (
    EVENT_COLUMNS,
    ITEM_COLUMNS,
    RUN_COLUMNS,
    TASK_COLUMNS,
    awaited,
    event_row,
    instant,
    item_row,
    outputs,
    run_duration,
    run_error_line,
    run_row,
    run_state_text,
    task_row,
)
from headway.client import Event, Item, Json, Refused, Run, RunDetails, RunState, Started, Task, TaskState

_NOT_OF_ITEMS = (RunState.UNSPECIFIED, RunState.PENDING)
_ONLY_IN_SHOW = frozenset({"input", "output", "trace_id"})
MOST_AWAITED = 20  # lines of what a run waits for; --json has all
LONGEST_OUTPUT = 120  # characters of a task's output in `show`; --json has more
LONGEST_PAYLOAD = 400  # the same of a run's input or output
_ITEMS = 50  # that are shown unless somebody says otherwise
FINALLY = "finally"  # the node of what runs at the end: a graph that is gone through once


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Command):
    """Start a run of a workflow's deployed version, or of the version given."""

    name: ClassVar = ("start",)
    help: ClassVar = "start a run"

    workflow: str
    input: Json
    key: str | None
    version: int | None
    label: list[tuple[str, str]]
    wait: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add what a run is started with."""
        parser.add_argument("workflow", metavar="WORKFLOW", help="its name")
        parser.add_argument(
            "--input",
            type=json_value,
            default={},
            metavar="JSON|@FILE|@-",
            help="JSON (null is kept as null), a file, or standard input; else {}",
        )
        parser.add_argument("--key", help="idempotency key: the same key with the same input names the same run")
        parser.add_argument("--version", type=at_least_one, metavar="N", help="else the deployed version")
        parser.add_argument(
            "--label",
            action="append",
            type=label,
            default=[],
            metavar="NAME=VALUE",
            help="what it can be found by besides (several: repeat it)",
        )
        parser.add_argument("--wait", action="store_true", help="follow the run to its end; exit 1 unless it succeeded")

    async def run(self, session: Session) -> Exit:
        """Start, and follow if asked to."""
        async with session.client() as client:
            started = await client.start(
                self.workflow, self.input, key=self.key, version=self.version, labels=dict(self.label)
            )
        if not self.wait:
            if session.output.for_people:
                self._tell(session.output, started)
                session.output.say(f"follow it with: headway watch {started.run_id}", style="dim")
            else:
                session.output.document(started)
            return Exit.SUCCESS
        if session.output.for_people:
            self._tell(session.output, started)
        run, _ = await follow(session, started.run_id)
        if session.output.for_people:
            tell_outcome(session, run)
            if run.output is not None:
                session.output.say(_json_line("output", run.output))
        else:
            session.output.document({**_ended(run), "existed": started.existed, "version": started.version})
        return exit_of(run.state)

    def _tell(self, output: Output, started: Started) -> None:
        what = "was there already under the key" if started.existed else "started"
        output.say(f"run {started.run_id} {what} ({self.workflow} version {started.version})")


@dataclass(frozen=True, slots=True, kw_only=True)
class List(Command):
    """List runs: latest start first; by when they finished, latest end first; by how keys begin, in their order.

    `--json` says with `more` whether there are more than --limit.
    """

    name: ClassVar = ("list",)
    help: ClassVar = "list runs"

    workflow: str | None
    version: int | None
    state: list[str]
    paused: bool
    failure_class: str | None
    key: str | None
    label: list[tuple[str, str]]
    since: datetime | None
    until: datetime | None
    finished_since: datetime | None
    finished_until: datetime | None
    parent: str | None
    limit: int

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the filters."""
        add_filters(parser)
        parser.add_argument("--limit", type=at_least_one, default=50, metavar="N", help="at most so many (50)")

    async def run(self, session: Session) -> Exit:
        """Read as many as wanted."""
        runs: list[Run] = []
        async with session.client() as client:
            async for run in client.list(filter_of(self), page_size=self.limit + 1):
                runs.append(run)
                if len(runs) > self.limit:
                    break
        are_more, runs = len(runs) > self.limit, runs[: self.limit]
        if not session.output.for_people:
            session.output.document({"runs": [_listed(run) for run in runs], "more": are_more})
        elif runs:
            now = clock.now()
            session.output.table(RUN_COLUMNS, [run_row(run, now) for run in runs])
            _tell_more(session.output, self.limit, are_more=are_more)
        else:
            session.output.say("no runs")
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Show(Command):
    """Show a run: what it is, what it waits for, and its tasks with their last errors.

    With the path of a map or repeat, show its items or iterations; with that of one of them, `resize[12]`, its tasks;
    with that of any other task, it alone; with `finally`, what runs at the end. DURATION is how long a task's latest
    attempt has taken. Long inputs and outputs are cut; `--json` has them whole, but for outputs of more than 64 KiB and
    what exceeds 8 MiB in all: `output_left_out` is the bytes of an output that is not there, and `left_out` of an error
    says that its message, trace and details are not. Show the task by its path, `headway show RUN PATH --json`, and its
    output is there; large results of items are with `--from INDEX --limit 1`. `headway history` has all errors.
    `--json` says with `more` whether there are more items than --limit, and with `more_stale_reports` whether there
    were more reports that came too late than the latest 100.
    """

    name: ClassVar = ("show",)
    help: ClassVar = "show a run, its tasks, and what it waits for; or the items of a map"

    run_id: str
    path: str
    state: str | None
    from_index: int | None
    limit: int | None

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the run, and the part of it."""
        add_run(parser)
        parser.add_argument(
            "path",
            metavar="PATH",
            nargs="?",
            default="",
            help="a map or repeat, one of its items: resize[12], or a task",
        )
        parser.add_argument(
            "--state",
            choices=[state.value for state in RunState if state not in _NOT_OF_ITEMS],
            help="of a map or repeat: only items in this state",
        )
        parser.add_argument(
            "--from",
            dest="from_index",
            type=at_least_zero,
            metavar="INDEX",
            help="of a map or repeat: the first item to show (0)",
        )
        parser.add_argument(
            "--limit", type=at_least_one, metavar="N", help="of a map or repeat: at most so many items (50)"
        )

    async def run(self, session: Session) -> Exit:
        """Get and print it."""
        path = f"{FINALLY}[0]" if self.path == FINALLY else self.path
        if path and not path.endswith("]"):
            try:
                return await self._show_items(session)
            except Refused as refused:
                if refused.metadata.get("field") != "path":
                    raise
            self._refuse_options_of_items()
            async with session.client() as client:
                return self._tell(session, path, await client.get_task(self.run_id, path))
        self._refuse_options_of_items()
        async with session.client() as client:
            return self._tell(session, path, await client.get(self.run_id, path))

    def _refuse_options_of_items(self) -> None:
        """Nothing else is shown in parts."""
        given = {"--state": self.state, "--from": self.from_index, "--limit": self.limit}
        named = [option for option, value in given.items() if value is not None]
        if named:
            what = f"{self.path} is neither" if self.path else "name it: headway show RUN PATH"
            raise Mistake(f"{', '.join(named)} choose items of a map or repeat; {what}")

    def _tell(self, session: Session, path: str, details: RunDetails) -> Exit:
        if path and not details.tasks:
            raise Mistake(f"{self.path} has not begun, or is not there; `headway show RUN` shows what has begun")
        is_over = path and all(task.state.is_final for task in details.tasks)
        waits_for = [] if is_over else awaited(details.run, details.tasks, clock.now())
        if session.output.for_people:
            _show(session.output, details, waits_for)
        else:
            session.output.document({**_fields(details), "waits_for": waits_for})
        return Exit.SUCCESS

    async def _show_items(self, session: Session) -> Exit:
        items: list[Item] = []
        state = RunState(self.state) if self.state else None
        first, limit = self.from_index or 0, self.limit or _ITEMS
        async with session.client() as client:
            async for item in client.items(self.run_id, self.path, state=state, from_index=first, page_size=limit + 1):
                items.append(item)
                if len(items) > limit:
                    break
        are_more, items = len(items) > limit, items[:limit]
        output = session.output
        if not output.for_people:
            output.document({"run_id": self.run_id, "path": self.path, "items": items, "more": are_more})
        elif items:
            now, width = clock.now(), min(output.width, LONGEST_OUTPUT)
            output.table(ITEM_COLUMNS, [item_row(item, now, width) for item in items])
            if missing := next((item for item in items if item.output_left_out), None):
                whole = f"headway show {self.run_id} {self.path} --from {missing.index} --limit 1 --json"
                output.warn(f"(what is left out is shown one at a time: {whole})", style="dim")
            _tell_more(output, limit, are_more=are_more)
        else:
            output.say("no items")
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class History(Command):
    """Print a run's history: every event, in order."""

    name: ClassVar = ("history",)
    help: ClassVar = "print a run's events"

    run_id: str

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the run."""
        add_run(parser)

    async def run(self, session: Session) -> Exit:
        """Read all of it."""
        events: list[Event] = []
        async with session.client() as client:
            async for event in client.history(self.run_id):
                events.append(event)  # noqa: PERF401 - an async generator is closed before the client is
        if session.output.for_people:
            session.output.table(EVENT_COLUMNS, [event_row(event) for event in events])
        else:
            session.output.document({"run_id": self.run_id, "events": events})
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Command):
    """Follow a run's events until it ends; exit 1 unless it succeeded.

    With `--json` the document comes at the end, with all events in it; `--json-lines` prints each as it comes.
    """

    name: ClassVar = ("watch",)
    help: ClassVar = "follow a run to its end"

    run_id: str

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the run."""
        add_run(parser)
        parser.add_argument(
            "--json-lines",
            dest="as_lines",
            action="store_true",
            help="print each event as it comes, one JSON document a line",
        )

    async def run(self, session: Session) -> Exit:
        """Follow it."""
        run, events = await follow(session, self.run_id)
        if session.output.for_people:
            tell_outcome(session, run)
        elif session.output.as_json:
            session.output.document({**_ended(run), "events": events})
        return exit_of(run.state)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the run that a command is about."""
    parser.add_argument("run_id", metavar="RUN", help="its id, or the digits that it begins with")


def _tell_more(output: Output, limit: int, *, are_more: bool) -> None:
    """What a table leaves out, on standard error: standard output has the table and nothing else."""
    if are_more:
        output.warn(f"(the first {limit}; --limit shows more)", style="dim")


def _ended(run: Run) -> dict[str, object]:
    return {"run_id": run.run_id, "state": run.state, "output": run.output, "error": run.error}


def _listed(run: Run) -> dict[str, object]:
    """A run's fields as far as a list carries them."""
    return {each.name: getattr(run, each.name) for each in fields(run) if each.name not in _ONLY_IN_SHOW}


def _fields(details: RunDetails) -> dict[str, object]:
    return {each.name: getattr(details, each.name) for each in fields(details)}


def _some(waits_for: list[str], run_id: str) -> Iterator[str]:
    yield from waits_for[:MOST_AWAITED]
    if len(waits_for) > MOST_AWAITED:
        yield f"… and {len(waits_for) - MOST_AWAITED} more; `headway why {run_id}` tells them by kind"


def _show(output: Output, details: RunDetails, waits_for: list[str]) -> None:
    run, now = details.run, clock.now()
    _header(output, run, now)
    if waits_for:
        output.say("waits for", style="bold")
        for line in _some(waits_for, run.run_id):
            output.say(f"  {line}")
    if details.tasks:
        output.say()
        output.table(TASK_COLUMNS, [task_row(task, now) for task in details.tasks])
    if children := [task for task in details.tasks if task.child_run_id]:
        output.say()
        output.say("runs started", style="bold")
        widest = max(len(task.path) for task in children)
        for task in children:
            output.say(f"  {task.path:<{widest}}  {task.child_run_id}")
    if told := outputs(details.tasks, min(output.width, LONGEST_OUTPUT)):
        output.say()
        output.say("outputs", style="bold")
        for line in told:
            output.say(f"  {line}")
    if missing := next((task.path for task in details.tasks if task.output_left_out), None):
        output.say(f"  what is left out is shown task by task: headway show {run.run_id} {missing} --json", style="dim")
    for task in details.tasks:
        _failure(output, run.run_id, task)
    for stale in details.stale_reports:
        output.say(
            f"a report of {stale.owner} for {stale.path} attempt {stale.attempt} came too late"
            f" ({stale.answer}, {instant(stale.at)}) and changed nothing",
            style="dim",
        )
    if details.more_stale_reports:
        output.say("earlier reports that came too late are left out", style="dim")


def _header(output: Output, run: Run, now: datetime) -> None:
    output.say(f"run       {run.run_id}")
    output.say(f"workflow  {run.workflow} version {run.version} (namespace {run.namespace})")
    state = run_state_text(run)
    if run.epoch > 1:
        state.append(f"  (reopened: epoch {run.epoch})", style="default")
    output.say("state     ", end="")
    output.say(state)
    ended = instant(run.finished_at)
    took = f" ({run_duration(run, now)})" if run.finished_at and run.created_at else ""
    output.say(f"started   {instant(run.created_at)}    ended {ended}{took}")
    if run.paused_at is not None:
        clock = ", its time-outs standing still" if run.clock_paused else ""
        why = f": {run.pause_reason}" if run.pause_reason else ""
        output.say(f"paused    {instant(run.paused_at)}{clock}{why}")
    if run.cancel_reason:
        output.say(f"cancelled {run.cancel_reason}")
    if run.key is not None:
        output.say(f"key       {run.key}")
    if run.parent_run_id:
        output.say(f"parent    run {run.parent_run_id}, node {run.parent_path}")
    if run.labels:
        output.say(f"labels    {labels_of(run.labels)}")
    if run.trace_id:
        output.say(f"trace     {run.trace_id}")
    if run.error is not None:
        output.say(f"error     {run_error_line(run.error)}", style="red")
    output.say(_json_line("input", run.input, LONGEST_PAYLOAD))
    if run.output is not None:
        output.say(_json_line("output", run.output, LONGEST_PAYLOAD))


def _failure(output: Output, run_id: str, task: Task) -> None:
    if task.error is None or task.state not in {TaskState.FAILED, TaskState.RETRYING}:
        return
    output.say()
    output.say(f"{task.path} {task.state.value}: {task.error.failure_class} {task.error.type}", style="red")
    if task.error.left_out:
        output.say(f"  its message and trace are left out; they are in: headway show {run_id} {task.path}", style="dim")
    for line in task.error.message.splitlines():
        output.say(f"  {line}")
    if task.error.details is not None:
        output.say(f"  {json.dumps(task.error.details, ensure_ascii=False)}", style="dim")
    for line in task.error.trace.splitlines():
        output.say(f"  {line}", style="dim")
    if task.type == FINALLY:
        output.say(f"  its tasks: headway show {run_id} {FINALLY}", style="dim")
    elif task.items is not None and task.items.failed:
        output.say(f"  what failed in it: headway show {run_id} {task.path} --state failed", style="dim")


def _json_line(label: str, value: Json, longest: int | None = None) -> str:
    text = json.dumps(plain(value), ensure_ascii=False)
    cut = text if longest is None or len(text) <= longest else f"{text[:longest]} … (--json has all of it)"
    return f"{label:<9} {cut}"
