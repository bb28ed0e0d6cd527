"""What people type to say which runs they mean: filters, and the beginnings of ids."""

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from headway.cli import clock
from headway.cli.arguments import at_least_one, duration
from headway.cli.command import Command, Mistake, Session
from headway.client import Client, Run, RunFilter, RunState

CLASSES = ("timeout", "exec_failed", "verdict_fail", "cancelled")
STATES = tuple(state.value for state in RunState if state is not RunState.UNSPECIFIED)
WHOLE_ID = 32  # digits
LISTED = "`headway list` shows the runs of a --namespace"
NAMED = 10  # runs that are named when a beginning fits several
_BEGINNING = re.compile(rf"[0-9a-f]{{1,{WHOLE_ID - 1}}}")
Asked = TypeVar("Asked", bound=Command)


class Filters(Protocol):
    """The arguments that `add_filters` adds."""

    @property
    def workflow(self) -> str | None:
        """Its name."""
        ...

    @property
    def version(self) -> int | None:
        """Of the workflow."""
        ...

    @property
    def state(self) -> list[str]:
        """One of them."""
        ...

    @property
    def paused(self) -> bool:
        """Only paused ones."""
        ...

    @property
    def failure_class(self) -> str | None:
        """How they failed."""
        ...

    @property
    def key(self) -> str | None:
        """The idempotency key; with `*` at its end, how it begins."""
        ...

    @property
    def parent(self) -> str | None:
        """The run whose subflow nodes started them."""
        ...

    @property
    def label(self) -> list[tuple[str, str]]:
        """All of them."""
        ...

    @property
    def since(self) -> datetime | None:
        """Started then or later."""
        ...

    @property
    def until(self) -> datetime | None:
        """Started before."""
        ...

    @property
    def finished_since(self) -> datetime | None:
        """Finished then or later."""
        ...

    @property
    def finished_until(self) -> datetime | None:
        """Finished before."""
        ...


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add what says which runs are meant."""
    group = parser.add_argument_group("which runs (all that is given must hold)")
    group.add_argument("--workflow", metavar="NAME", help="of this workflow")
    group.add_argument("--version", type=at_least_one, metavar="N", help="of this version")
    group.add_argument("--state", action="append", default=[], choices=STATES, help="in this state (or: repeat it)")
    group.add_argument("--paused", action="store_true", help="that is paused")
    group.add_argument("--failure-class", choices=CLASSES, help="that ended so")
    group.add_argument("--key", help="started with this idempotency key; `ORDER-*`: with one that begins so")
    group.add_argument("--parent", metavar="RUN", help="started by subflow nodes of this run (its whole id)")
    group.add_argument(
        "--label",
        action="append",
        type=label,
        default=[],
        metavar="NAME=VALUE",
        help="with this label (and: repeat it)",
    )
    when = "2h ago: `2h`, or an instant such as 2030-01-31T09:00:00Z"
    group.add_argument("--since", type=moment, metavar="WHEN", help=f"started then or later ({when})")
    group.add_argument(
        "--until", "--older-than", dest="until", type=moment, metavar="WHEN", help="started before (two names of one)"
    )
    group.add_argument("--finished-since", type=moment, metavar="WHEN", help="finished then or later")
    group.add_argument("--finished-until", type=moment, metavar="WHEN", help="finished before")


def filter_of(given: Filters) -> RunFilter:
    """The filter that was typed."""
    begins = given.key is not None and given.key.endswith("*")
    return RunFilter(
        workflow=given.workflow,
        version=given.version,
        states=tuple(RunState(state) for state in given.state),
        paused=given.paused,
        failure_class=given.failure_class,
        created_from=given.since,
        created_until=given.until,
        finished_from=given.finished_since,
        finished_until=given.finished_until,
        key=None if begins else given.key,
        key_prefix=given.key[:-1] if begins and given.key else None,
        labels=dict(given.label),
        parent_run_id=given.parent,
    )


def label(text: str) -> tuple[str, str]:
    """A label's name and value, written NAME=VALUE.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is no label; write it like customer=42")
    return name, value


def moment(text: str) -> datetime:
    """An instant, or a duration before now.

    Raises:
        argparse.ArgumentTypeError: It is neither.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return _ago(text)
    if instant.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no zone; write Z or an offset such as +01:00 behind it")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} lies outside of the years 1 to 9999") from None


def _ago(text: str) -> datetime:
    try:
        before: timedelta = duration(text)
        return clock.now() - before
    except (argparse.ArgumentTypeError, OverflowError):
        message = f"{text!r} is neither a duration, such as 2d, nor an instant, such as 2030-01-31T09:00:00Z"
        raise argparse.ArgumentTypeError(message) from None


def labels_of(given: Mapping[str, str]) -> str:
    """Labels in one line."""
    return ", ".join(f"{name}={value}" for name, value in given.items())


async def with_whole_id(command: Asked, session: Session) -> Asked:
    """The command with the id of the run that it is about, of which the beginning may have been typed.

    Raises:
        Mistake: No run's id begins so, or several do.
    """
    typed = getattr(command, "run_id", None)
    if typed == "":
        raise Mistake(f"the run's id is empty; {LISTED}")
    if not isinstance(typed, str) or not _BEGINNING.fullmatch(typed):
        return command
    async with session.client() as client:
        found = await _beginning_with(client, typed)
    match found:
        case [run]:
            return replace(command, run_id=run.run_id)  # pyright: ignore[reportArgumentType] - it has the field
        case []:
            raise Mistake(f"no run's id begins with {typed} in namespace {session.namespace}; {LISTED}")
        case _:
            lines = [f"  {run.run_id}  {run.workflow}  {run.state.value}" for run in found[:NAMED]]
            more = ["  …"] if len(found) > NAMED else []
            raise Mistake("\n".join([f"several runs' ids begin with {typed}: give more digits", *lines, *more]))


async def _beginning_with(client: Client, typed: str) -> list[Run]:
    return [run async for run in client.list(RunFilter(run_id_prefix=typed), page_size=NAMED + 1)]
