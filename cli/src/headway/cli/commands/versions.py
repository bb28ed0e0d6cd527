"""Commands about stored versions: list them, roll back, delete one."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headway.cli.arguments import at_least_one
from headway.cli.changes import effect_lines, open_on
from headway.cli.command import Command, Exit, Mistake, Session
from headway.cli.table import Column
from headway.client import Definition

COLUMNS = (
    Column(name="VERSION"),
    Column(name="DEPLOYED"),
    Column(name="OPEN RUNS"),
    Column(name="STORED AT", leaves=2),
    Column(name="DIGEST", cut_to=12, leaves=1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListVersions(Command):
    """List the stored versions of a workflow, newest first, with their open runs.

    Of each version at most 10,000 open runs are counted.
    """

    name: ClassVar = ("versions",)
    help: ClassVar = "list the versions of a workflow"

    workflow: str

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the workflow."""
        _add_workflow(parser)

    async def run(self, session: Session) -> Exit:
        """Read and print them."""
        async with session.client() as client:
            found = await client.list_versions(self.workflow)
        if not found.definitions:
            raise Mistake(f"there is no workflow {self.workflow} in namespace {session.namespace}")
        if not session.output.for_people:
            session.output.document(
                {
                    "workflow": self.workflow,
                    "counted_all": found.open_runs.counted_all,
                    "versions": [
                        _listed(each, found.open_runs.by_version.get(each.version, 0)) for each in found.definitions
                    ],
                }
            )
            return Exit.SUCCESS
        rows = [
            [
                str(each.version),
                "deployed" if each.deployed else "",
                open_on(found.open_runs, each.version),
                each.created_at.isoformat(timespec="seconds").replace("+00:00", "Z") if each.created_at else "",
                each.digest,
            ]
            for each in found.definitions
        ]
        session.output.table(COLUMNS, rows)
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback(Command):
    """Let new runs take an older version, or a newer one again. Running runs keep theirs.

    Without --to it is the next older version that is stored. It says what differs; with --dry-run it does no more.
    """

    name: ClassVar = ("rollback",)
    help: ClassVar = "deploy a stored version again"

    workflow: str
    to: int | None
    dry_run: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add where to."""
        _add_workflow(parser)
        parser.add_argument("--to", type=at_least_one, metavar="VERSION", help="the version; else the next older one")
        parser.add_argument("--dry-run", action="store_true", help="say what it would do, and do nothing")

    async def run(self, session: Session) -> Exit:
        """Choose the version, so that repeating the call repeats the choice, and deploy it."""
        async with session.client() as client:
            to = self.to or _next_older(self.workflow, await client.list_definitions(self.workflow))
            done = await client.set_deployed_version(self.workflow, to, dry_run=self.dry_run)
        if not session.output.for_people:
            session.output.document(
                {
                    "workflow": self.workflow,
                    "version": to,
                    "dry_run": self.dry_run,
                    "changed": done.effect.previous_version != to,
                    "effect": done.effect,
                }
            )
            return Exit.SUCCESS
        if done.effect.previous_version == to:
            session.output.say(f"{self.workflow} version {to} is deployed already")
            return Exit.SUCCESS
        what = "would be deployed" if self.dry_run else "is deployed"
        session.output.say(f"{self.workflow} version {to} {what}")
        for line in effect_lines(done.effect, to):
            session.output.say(f"  {line}")
        return Exit.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVersion(Command):
    """Remove a version that no run needs: no run can be started on it any more, and its number is never given again.

    Refused while it is deployed, and while runs that were started on it are kept, finished ones included.
    """

    name: ClassVar = ("delete-version",)
    help: ClassVar = "remove a version that no run needs"

    workflow: str
    version: int

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the version."""
        _add_workflow(parser)
        parser.add_argument("version", metavar="VERSION", type=at_least_one, help="a stored version")

    async def run(self, session: Session) -> Exit:
        """Remove it."""
        async with session.client() as client:
            await client.delete_version(self.workflow, self.version)
        if session.output.for_people:
            session.output.say(f"{self.workflow} version {self.version} is gone")
        else:
            session.output.document({"workflow": self.workflow, "version": self.version, "deleted": True})
        return Exit.SUCCESS


def _add_workflow(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workflow", metavar="WORKFLOW", help="its name")


def _next_older(workflow: str, definitions: Sequence[Definition]) -> int:
    if not definitions:
        raise Mistake(
            f"there is no workflow {workflow} in this namespace: deploy it first, or name another --namespace"
        )
    deployed = next((each.version for each in definitions if each.deployed), None)
    if deployed is None:
        raise Mistake(f"no version of {workflow} is deployed: name one with --to")
    older = [each.version for each in definitions if each.version < deployed]
    if not older:
        raise Mistake(f"version {deployed} of {workflow} is the oldest that is stored: name another one with --to")
    return max(older)


def _listed(definition: Definition, open_runs: int) -> dict[str, object]:
    return {
        "version": definition.version,
        "deployed": definition.deployed,
        "open_runs": open_runs,
        "created_at": definition.created_at,
        "digest": definition.digest,
    }
