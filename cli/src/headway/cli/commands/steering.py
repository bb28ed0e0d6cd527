"""Commands that steer runs: signal, cancel, retry."""

import argparse
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import ClassVar

from headway.cli.arguments import duration, json_value
from headway.cli.command import Command, Exit, Mistake, Session
from headway.cli.commands.many import Meant, add_many, do_to_many, is_of_many
from headway.cli.redoing import plan_lines
from headway.client import Client, Json, RunState, Signalled

DEFAULT_GRACE = timedelta(seconds=60)  # the server's choice when a cancel names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Command):
    """Send a run an outside event; it is kept until a wait_for_event node takes it.

    The run is named by its id, or by the idempotency key that it was started with:
    `headway signal --key ORDER-7 approval`.
    """

    name: ClassVar = ("signal",)
    help: ClassVar = "send a run an outside event"

    run_id: str | None
    signal_name: str
    payload: Json
    id: str
    ttl: timedelta | None
    key: str | None
    workflow: str | None
    start: bool
    input: Json

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the run and the event."""
        parser.add_argument("run_id", metavar="RUN", nargs="?", help="its id, or the digits that it begins with")
        parser.add_argument("signal_name", metavar="NAME", help="the event, as its wait_for_event node spells it")
        parser.add_argument(
            "--payload", type=json_value, metavar="JSON|@FILE|@-", help="JSON, a file, or standard input; else null"
        )
        parser.add_argument(
            "--id",
            default="",
            help="of the event, among those of its NAME: sent again with the same one, it counts once, as it was first",
        )
        parser.add_argument(
            "--ttl", type=duration, metavar="DURATION", help="how long it may wait to be taken; else for ever"
        )
        parser.add_argument("--key", help="instead of RUN: the idempotency key that it was started with")
        parser.add_argument("--workflow", metavar="NAME", help="with --key: the run must be of this workflow")
        parser.add_argument("--start", action="store_true", help="start a run of --workflow if --key has none")
        parser.add_argument(
            "--input",
            type=json_value,
            default={},
            metavar="JSON|@FILE|@-",
            help="with --start: the run's input (null is kept as null); else {}",
        )

    async def run(self, session: Session) -> Exit:
        """Send it."""
        async with session.client() as client:
            sent = await self._send(client)
        output = session.output
        if not output.for_people:
            started = {"existed": sent.existed} if self.start else {}
            facts = {"is_repeat": sent.is_repeat, "differs": sent.differs, **started}
            output.document({"run_id": sent.run_id, "name": self.signal_name, "seq": sent.seq, **facts})
        elif sent.is_repeat:
            output.say(f"run {sent.run_id} had received {self.signal_name} {self.id} before (event {sent.seq})")
            if sent.differs:
                output.warn("with another payload: this one was left out; another event needs another --id", "yellow")
        else:
            started_too = "" if sent.existed else " was started and"
            output.say(f"run {sent.run_id}{started_too} has received {self.signal_name} (event {sent.seq})")
        return Exit.SUCCESS

    async def _send(self, client: Client) -> Signalled:
        if (self.run_id is None) == (self.key is None):
            raise Mistake("name the run by its id or by --key: one of the two")
        if self.start and (self.key is None or self.workflow is None):
            raise Mistake("--start needs --key and --workflow: they say which run is started")
        if self.start and self.key is not None and self.workflow is not None:
            return await client.signal_with_start(
                self.workflow,
                self.key,
                self.signal_name,
                self.payload,
                input=self.input,
                id=self.id,
                ttl=self.ttl,
            )
        if self.key is not None:
            return await client.signal_key(
                self.key, self.signal_name, self.payload, workflow=self.workflow, id=self.id, ttl=self.ttl
            )
        return await client.signal(self.run_id or "", self.signal_name, self.payload, id=self.id, ttl=self.ttl)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Meant, Command):
    """Ask a run, or all open runs that filters mean, to stop.

    Its handlers are told at once, or at their worker's next Renew; the run ends without those that go on.

    Attempts that have not ended when the grace is over are closed as unknown: their work may have been done. What
    completed is undone by the nodes that `compensate` names, before the run ends.
    """

    name: ClassVar = ("cancel",)
    help: ClassVar = "stop runs"

    reason: str
    grace: timedelta | None
    no_compensation: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add which runs, why, how long, and what becomes of what was done."""
        add_many(parser)
        parser.add_argument("--reason", default="", help="why; kept in the history")
        parser.add_argument("--grace", type=duration, metavar="DURATION", help="for handlers to end, such as 10s (60s)")
        parser.add_argument(
            "--no-compensation",
            action="store_true",
            help="undo nothing; break off what is being undone, and finally",
        )

    async def run(self, session: Session) -> Exit:
        """Ask."""
        if is_of_many(self) or self.dry_run:
            return await do_to_many(
                session,
                self,
                "cancel",
                lambda client, wanted, dry, request_id: client.cancel_all(
                    wanted,
                    self.reason,
                    grace=self.grace,
                    compensate=not self.no_compensation,
                    dry_run=dry,
                    request_id=request_id,
                ),
            )
        async with session.client() as client:
            state = await client.cancel(
                self.run_id or "", self.reason, grace=self.grace, compensate=not self.no_compensation
            )
        if not session.output.for_people:
            session.output.document({"run_id": self.run_id, "state": state})
        elif state is RunState.CANCELLED:
            session.output.say(f"run {self.run_id} is cancelled")
        else:
            session.output.say(
                f"run {self.run_id} is being cancelled; handlers that run are told, at the latest at their worker's"
                f" next Renew, and closed as unknown after {_seconds(self.grace or DEFAULT_GRACE)}; child runs, nodes"
                " that undo others and `finally`, if there are any, come before its end"
            )
            session.output.say(f"follow it with: headway watch {self.run_id}", style="dim")
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(Meant, Command):
    """Reopen a finished run, or all that filters mean (without --state: those that failed or were cancelled).

    Nodes that are neither chosen nor behind a chosen one keep their result. With --dry-run it says what runs again, in
    maps how many items and which, what is kept, and whose effect was undone, or stands though it is done once more.
    """

    name: ClassVar = ("retry",)
    help: ClassVar = "reopen finished runs"

    from_nodes: list[str]
    render_inputs: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add which runs, and what to redo."""
        add_many(parser, has_dry_run=True)
        parser.add_argument(
            "--from",
            dest="from_nodes",
            action="append",
            default=[],
            metavar="NODE",
            help="a node or item, resize[12], to start again (and: repeat it); else all that failed or were stopped",
        )
        parser.add_argument("--dry-run", action="store_true", help="only say what would be redone")
        parser.add_argument(
            "--render-inputs", action="store_true", help="chosen nodes render their input anew instead of keeping it"
        )

    async def run(self, session: Session) -> Exit:
        """Ask, and tell the plan."""
        if is_of_many(self):
            return await do_to_many(
                session,
                self,
                "retry",
                lambda client, wanted, dry, request_id: client.retry_all(
                    wanted, self.from_nodes, render_inputs=self.render_inputs, dry_run=dry, request_id=request_id
                ),
            )
        async with session.client() as client:
            plan = await client.retry(
                self.run_id or "", self.from_nodes, dry_run=self.dry_run, render_inputs=self.render_inputs
            )
        output = session.output
        if not output.for_people:
            told = {each.name: getattr(plan, each.name) for each in fields(plan)}
            output.document({"run_id": self.run_id, "dry_run": self.dry_run, **told})
            return Exit.SUCCESS
        would = "would be" if self.dry_run else "is"
        output.say(f"run {self.run_id} {would} reopened as epoch {plan.epoch}")
        for line in plan_lines(plan):
            output.say(f"  {line}")
        return Exit.SUCCESS


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"
