"""Commands that hold runs, help them over a node, and let them go on."""

import argparse
from dataclasses import dataclass
from typing import ClassVar

from headway.cli.arguments import json_value
from headway.cli.command import Command, Exit, Session
from headway.cli.commands.many import Meant, add_many, do_to_many, is_of_many
from headway.client import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Meant, Command):
    """Let nothing new be dispatched in a run, or in all open runs that filters mean, until it is resumed.

    What runs may end, and is recorded. No item or iteration begins, and nothing is undone. The end of a wait, a next
    try and the delay of a repeat that become due meanwhile happen once, when the run is resumed. Time-outs run on
    unless `--pause-clock` is given.
    """

    name: ClassVar = ("pause",)
    help: ClassVar = "hold runs"

    reason: str
    pause_clock: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add why, and whether time goes on."""
        add_many(parser)
        parser.add_argument("--reason", default="", help="why; shown while it is paused")
        parser.add_argument(
            "--pause-clock", action="store_true", help="let its deadline and the time-outs of its nodes stand still"
        )

    async def run(self, session: Session) -> Exit:
        """Ask."""
        if is_of_many(self) or self.dry_run:
            return await do_to_many(
                session,
                self,
                "pause",
                lambda client, wanted, dry, request_id: client.pause_all(
                    wanted, self.reason, pause_clock=self.pause_clock, dry_run=dry, request_id=request_id
                ),
            )
        async with session.client() as client:
            changed = await client.pause(self.run_id or "", self.reason, pause_clock=self.pause_clock)
        if not session.output.for_people:
            session.output.document({"run_id": self.run_id, "was_paused": not changed})
        elif changed:
            session.output.say(f"run {self.run_id} is paused; what runs may end")
            session.output.say(f"let it go on with: headway resume {self.run_id}", style="dim")
        else:
            session.output.say(f"run {self.run_id} was paused already")
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Meant, Command):
    """Let a paused run go on, or all paused runs that filters mean.

    With --state, runs that are not paused are meant too, and stay as they are.
    """

    name: ClassVar = ("resume",)
    help: ClassVar = "let paused runs go on"

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the run."""
        add_many(parser)

    async def run(self, session: Session) -> Exit:
        """Ask."""
        if is_of_many(self) or self.dry_run:
            return await do_to_many(
                session,
                self,
                "resume",
                lambda client, wanted, dry, request_id: client.resume_all(wanted, dry_run=dry, request_id=request_id),
            )
        async with session.client() as client:
            changed = await client.resume(self.run_id or "")
        if not session.output.for_people:
            session.output.document({"run_id": self.run_id, "was_resumed": not changed})
        else:
            session.output.say(f"run {self.run_id} {'goes on' if changed else 'was not paused'}")
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(Meant, Command):
    """Give a node of a paused or failed run, or of all that filters mean, its output by hand.

    What follows goes on as after a success.

    In a paused run: a node that waits for a worker, a time, a signal or its next try. In a failed run: a node that
    failed or was stopped; that reopens the run, and what was stopped starts again.
    """

    name: ClassVar = ("skip",)
    help: ClassVar = "give a node its output by hand"

    node: str
    output: Json
    reason: str

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the node and what it gives out."""
        add_many(parser)
        parser.add_argument("node", metavar="NODE", help="its path")
        parser.add_argument(
            "--output", type=json_value, metavar="JSON|@FILE|@-", help="JSON, a file, or standard input; else null"
        )
        parser.add_argument("--reason", default="", help="why; kept in the history")

    async def run(self, session: Session) -> Exit:
        """Ask."""
        if is_of_many(self) or self.dry_run:
            return await do_to_many(
                session,
                self,
                "skip",
                lambda client, wanted, dry, request_id: client.skip_all(
                    wanted, self.node, self.output, reason=self.reason, dry_run=dry, request_id=request_id
                ),
            )
        async with session.client() as client:
            reopened = await client.skip(self.run_id or "", self.node, self.output, reason=self.reason)
            run = (await client.get(self.run_id or "")).run if session.output.for_people else None
        if run is None:
            session.output.document({"run_id": self.run_id, "node": self.node, "reopened": reopened})
            return Exit.SUCCESS
        session.output.say(f"node {self.node} of run {self.run_id} is skipped")
        if run.state.is_final:
            session.output.say(f"nothing is left to be done: the run has {run.state.value}", style="dim")
        elif run.paused_at is None:
            session.output.say(f"the run goes on: headway watch {self.run_id}", style="dim")
        else:
            session.output.say(f"let the run go on with: headway resume {self.run_id}", style="dim")
        return Exit.SUCCESS
