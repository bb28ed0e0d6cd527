"""Commands that steer runs: signal, cancel, retry."""

import argparse
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from headway.cli.arguments import duration, json_value
from headway.cli.command import Command, Exit, Session
from headway.cli.commands.runs import add_run
from headway.client import Json, RunState

DEFAULT_GRACE = timedelta(seconds=60)  # the server's choice when a cancel names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Command):
    """Send a run an outside event; it is kept until a wait_for_event node takes it."""

    name: ClassVar = ("signal",)
    help: ClassVar = "send a run an outside event"

    run_id: str
    signal_name: str
    payload: Json
    id: str
    ttl: timedelta | None

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the event."""
        add_run(parser)
        parser.add_argument("signal_name", metavar="NAME", help="the event, as its wait_for_event node spells it")
        parser.add_argument(
            "--payload", type=json_value, metavar="JSON|@FILE|@-", help="JSON, a file, or standard input; else null"
        )
        parser.add_argument("--id", default="", help="of the event: sent again with the same one, it counts once")
        parser.add_argument(
            "--ttl", type=duration, metavar="DURATION", help="how long it may wait to be taken; else for ever"
        )

    async def run(self, session: Session) -> Exit:
        """Send it."""
        async with session.client() as client:
            seq = await client.signal(self.run_id, self.signal_name, self.payload, id=self.id, ttl=self.ttl)
        if session.output.for_people:
            session.output.say(f"run {self.run_id} has received {self.signal_name} (event {seq})")
        else:
            session.output.document({"run_id": self.run_id, "name": self.signal_name, "seq": seq})
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Command):
    """Ask a run to stop. Its handlers are told at once, or at their next Renew; the run ends without those that go on.

    Attempts that have not ended when the grace is over are closed as unknown: their work may have been done. What
    completed is undone by the nodes that `compensate` names, before the run ends.
    """

    name: ClassVar = ("cancel",)
    help: ClassVar = "stop a run"

    run_id: str
    reason: str
    grace: timedelta | None
    no_compensation: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add why, how long, and what becomes of what was done."""
        add_run(parser)
        parser.add_argument("--reason", default="", help="why; kept in the history")
        parser.add_argument("--grace", type=duration, metavar="DURATION", help="for handlers to end, such as 10s (60s)")
        parser.add_argument(
            "--no-compensation",
            action="store_true",
            help="undo nothing; break off what is being undone",
        )

    async def run(self, session: Session) -> Exit:
        """Ask."""
        async with session.client() as client:
            state = await client.cancel(self.run_id, self.reason, grace=self.grace, compensate=not self.no_compensation)
        if not session.output.for_people:
            session.output.document({"run_id": self.run_id, "state": state})
        elif state is RunState.CANCELLED:
            session.output.say(f"run {self.run_id} is cancelled")
        else:
            session.output.say(
                f"run {self.run_id} is being cancelled; its handlers are told (where workers do not attend, at their"
                f" next Renew); attempts that do not end within {_seconds(self.grace or DEFAULT_GRACE)} are closed as"
                " unknown"
            )
            session.output.say(f"follow it with: headway watch {self.run_id}", style="dim")
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(Command):
    """Reopen a finished run. Nodes that are neither chosen nor behind a chosen one keep their result."""

    name: ClassVar = ("retry",)
    help: ClassVar = "reopen a finished run"

    run_id: str
    from_nodes: list[str]
    dry_run: bool
    render_inputs: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add what to redo."""
        add_run(parser)
        parser.add_argument(
            "--from",
            dest="from_nodes",
            action="append",
            default=[],
            metavar="NODE",
            help="a node to start again (several: repeat it); else all that failed or were stopped",
        )
        parser.add_argument("--dry-run", action="store_true", help="only say what would be redone")
        parser.add_argument(
            "--render-inputs", action="store_true", help="chosen nodes render their input anew instead of keeping it"
        )

    async def run(self, session: Session) -> Exit:
        """Ask, and tell the plan."""
        async with session.client() as client:
            plan = await client.retry(
                self.run_id, self.from_nodes, dry_run=self.dry_run, render_inputs=self.render_inputs
            )
        output = session.output
        if not output.for_people:
            output.document(
                {
                    "run_id": self.run_id,
                    "dry_run": self.dry_run,
                    "chosen": plan.chosen,
                    "reset": plan.reset,
                    "kept": plan.kept,
                    "epoch": plan.epoch,
                }
            )
            return Exit.SUCCESS
        would = "would be" if self.dry_run else "is"
        output.say(f"run {self.run_id} {would} reopened as epoch {plan.epoch}")
        for label, nodes in (("starts again", plan.chosen), ("reset", plan.reset), ("kept", plan.kept)):
            output.say(f"  {label:<13} {', '.join(nodes) or '-'}")
        return Exit.SUCCESS


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"
