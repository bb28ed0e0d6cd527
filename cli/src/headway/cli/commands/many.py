"""Commands on many runs: cancel and retry by filter, and delete."""

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from headway.cli.command import Command, Exit, Mistake, Session
from headway.cli.filters import LISTED, STATES, add_filters, filter_of
from headway.client import BulkResult, Client, RunFilter, RunState, new_request_id

Doing = Callable[[Client, RunFilter, bool, str], AsyncIterator[BulkResult]]
"""What is done: with a client, to the runs of a filter, only for show or not, under a request id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The arguments that say which runs are meant, and how sure one is."""

    run_id: str | None
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
    dry_run: bool
    yes: bool
    request_id: str | None

    @property
    def wanted(self) -> RunFilter:
        """What means them; of one that is named, whatever its state is."""
        if self.run_id is None:
            return filter_of(self)
        return RunFilter(run_id_prefix=self.run_id, states=tuple(RunState(state) for state in STATES))


def add_many(parser: argparse.ArgumentParser, *, has_dry_run: bool = False) -> None:
    """Add what says which run, or which runs, are meant."""
    parser.add_argument("run_id", metavar="RUN", nargs="?", help="its id, or the digits that it begins with")
    add_filters(parser)
    if not has_dry_run:
        parser.add_argument(
            "--dry-run", action="store_true", help="only say which runs are meant, and which would be refused"
        )
    parser.add_argument("--yes", action="store_true", help="with a filter: do not ask first")
    parser.add_argument(
        "--request-id", metavar="UUID", help="with a filter: go on with what was broken off under this id"
    )


def is_of_many(meant: Meant) -> bool:
    """Many runs are meant, not one.

    Raises:
        Mistake: Both are said, or neither; or what only goes with filters is said of one.
    """
    if (meant.run_id is None) == (filter_of(meant) == RunFilter()):
        raise Mistake("name one run, or say by filters which runs are meant: one of the two")
    if meant.run_id is not None and meant.request_id is not None:
        raise Mistake("--request-id goes on with what was done to many: say by filters which runs are meant")
    return meant.run_id is None


async def do_to_many(session: Session, meant: Meant, word: str, doing: Doing) -> Exit:
    """Do something to all runs that are meant, or only say what would come of it, and tell what became of each.

    Raises:
        Mistake: Nobody said yes; the run that is named is not there.
    """
    wanted = meant.wanted
    request_id = meant.request_id or new_request_id()
    output = session.output
    results: list[BulkResult] = []
    async with session.client() as client:
        if not meant.dry_run and not meant.yes:
            _ask(_question(word, [each async for each in doing(client, wanted, True, request_id)]))
        if not meant.dry_run and output.for_people:
            output.say(f"if this is broken off, go on with --request-id {request_id}", style="dim")
        async for each in doing(client, wanted, meant.dry_run, request_id):
            results.append(each)
            if output.for_people:
                what = f"would {word}" if meant.dry_run else word
                output.say(f"{each.run_id}  {what if each.refusal is None else each.refusal.message}")
    if meant.run_id is not None and not results:
        raise Mistake(f"there is no run {meant.run_id} in namespace {session.namespace}; {LISTED}")
    refused = sum(each.refusal is not None for each in results)
    if output.for_people:
        output.say(f"{len(results) - refused} of {len(results)} runs{' (nothing was done)' if meant.dry_run else ''}")
    else:
        output.document(
            {
                "request_id": request_id,
                "dry_run": meant.dry_run,
                "results": [
                    {"run_id": each.run_id, "refusal": None if each.refusal is None else each.refusal.reason}
                    for each in results
                ],
            }
        )
    return Exit.FAILED if refused else Exit.SUCCESS


def _question(word: str, would_be: Sequence[BulkResult]) -> str:
    refused = sum(each.refusal is not None for each in would_be)
    count = len(would_be) - refused
    rest = f" ({refused} more would be refused)" if refused else ""
    return f"{word} {count} run{'s' * (count != 1)}{rest}?"


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise Mistake(f"{question} Nobody is there to ask: say --yes, or look first with --dry-run")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Mistake("nothing was done")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Meant, Command):
    """Delete a finished run, or all finished runs that filters mean, with all that is stored of them.

    The idempotency key that a run was started with is free again: a start with it begins another run.
    """

    name: ClassVar = ("delete",)
    help: ClassVar = "delete finished runs"

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add which runs."""
        add_many(parser)

    async def run(self, session: Session) -> Exit:
        """Delete."""
        if is_of_many(self) or self.dry_run:
            return await do_to_many(
                session,
                self,
                "delete",
                lambda client, wanted, dry, request_id: client.delete_all(wanted, dry_run=dry, request_id=request_id),
            )
        async with session.client() as client:
            deleted = await client.delete(self.run_id or "")
        if not session.output.for_people:
            session.output.document({"run_id": self.run_id, "deleted": deleted})
        else:
            session.output.say(f"run {self.run_id} {'is deleted' if deleted else 'is not there'}")
        return Exit.SUCCESS if deleted else Exit.FAILED
