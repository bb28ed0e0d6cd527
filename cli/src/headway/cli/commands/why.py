"""The command that says why a run stands where it stands."""

import argparse
from dataclasses import dataclass
from typing import ClassVar

from headway.cli.command import Command, Exit, Session
from headway.cli.commands.runs import add_run
from headway.cli.telling import run_state_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Why(Command):
    """Say what a run waits for, node by node: a worker, a lease, a time, a signal, other branches, its next try.

    Of a run that is over: what decided its end. `--json` has the kind and the facts of each reason.
    """

    name: ClassVar = ("why",)
    help: ClassVar = "say what a run waits for, or why it ended as it did"

    run_id: str

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the run."""
        add_run(parser)

    async def run(self, session: Session) -> Exit:
        """Ask and print."""
        async with session.client() as client:
            found = await client.explain(self.run_id)
        output = session.output
        if not output.for_people:
            output.document(
                {
                    "run_id": found.run.run_id,
                    "state": found.run.state,
                    "message": found.message,
                    "reasons": found.reasons,
                    "left_out": found.left_out,
                }
            )
            return Exit.SUCCESS
        state = run_state_text(found.run)
        state.append(f"  {found.message}", style="default")
        output.say(state)
        for reason in found.reasons:
            output.say(f"  {reason.path}  [{reason.kind}]")
            output.say(f"    {reason.message}")
        if found.left_out:
            output.say(f"  … and {found.left_out} more open tasks", style="dim")
        return Exit.SUCCESS
