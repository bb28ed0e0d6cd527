"""Commands about definitions: check and deploy."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import ClassVar

from rich.text import Text

from headway.cli.changes import effect_lines
from headway.cli.command import Command, Exit, Mistake, Session
from headway.cli.files import Workflows, read_workflows
from headway.cli.output import Output, visible
from headway.client import (
    Checked,
    Client,
    DefinitionFaulty,
    Deployed,
    Fault,
    Patience,
    PayloadTooLarge,
    Unreachable,
)

ONE_TRY = Patience(give_up_after=timedelta())
COMPILER = "headway.coordinator"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """A file and what was found in it."""

    file: str
    workflow: str
    faults: tuple[Fault, ...]

    def passes(self, *, strict: bool) -> bool:
        """True when no fault is more than a warning; strictly, when there is none at all."""
        return not self.faults if strict else all(fault.warning for fault in self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Command):
    """Compile workflow files and name every fault; nothing is stored.

    Of a folder, the workflows that are right in it are checked. Test files among them are left out: `headway test`
    runs them.

    The coordinator checks them if one answers; else the compiler on this machine does, if it is installed. Only the
    coordinator can tell that a workflow which a subflow node names is not deployed, nor among the files.
    """

    name: ClassVar = ("check",)
    help: ClassVar = "find the faults of workflow files"

    files: tuple[str, ...]
    offline: bool
    strict: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the files."""
        _add_files(parser)
        parser.add_argument("--offline", action="store_true", help="use the compiler on this machine")
        _add_strict(parser)

    async def run(self, session: Session) -> Exit:
        """Check all files, then tell."""
        workflows = read_workflows(self.files)
        checked = await self._check(session, workflows)
        if session.output.for_people:
            _print_faults(session.output, checked)
            _tell_left_out(session.output, workflows)
            _print_sum(session.output, checked)
        else:
            session.output.document({"files": checked, "left_out": workflows.tests})
        return Exit.SUCCESS if all(each.passes(strict=self.strict) for each in checked) else Exit.FAILED

    async def _check(self, session: Session, workflows: Workflows) -> list[CheckedFile]:
        if self.offline:
            return await _check_here(workflows.sources)
        try:
            async with session.client(patience=ONE_TRY) as client:
                checked, _ = await _check_there(client, workflows.sources)
                return checked
        except Unreachable:
            if find_spec(COMPILER) is None:
                raise
            return await _check_here(workflows.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy(Command):
    """Deploy workflow files: store each as a new version and let new runs take it.

    All files are checked first; if one has faults, none is deployed. Content that is deployed already changes nothing.
    It prints the warnings, says what differs from the version that was deployed, and how many open runs stay on which
    versions. Of a folder, the workflows that are right in it are deployed.
    """

    name: ClassVar = ("deploy",)
    help: ClassVar = "deploy workflow files"

    files: tuple[str, ...]
    dry_run: bool
    strict: bool

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the files."""
        _add_files(parser)
        parser.add_argument("--dry-run", action="store_true", help="say what it would do, and do nothing")
        _add_strict(parser)

    async def run(self, session: Session) -> Exit:
        """Check all, deploy all, tell."""
        workflows = read_workflows(self.files)
        deployed: list[tuple[str, Deployed]] = []
        async with session.client() as client:
            checked, beside = await _check_there(client, workflows.sources)
            if not all(each.passes(strict=self.strict) for each in checked):
                return _refused(session.output, checked, deployed)
            for (file, source), others in zip(workflows.sources, beside, strict=True):
                try:
                    deployed.append((file, await client.deploy(source, beside=others, dry_run=self.dry_run)))
                except DefinitionFaulty as error:  # by a coordinator of another version than checked
                    faulty = CheckedFile(file=file, workflow="", faults=error.faults or (_whole_file(error),))
                    return _refused(session.output, [faulty], deployed)
        found = [CheckedFile(file=file, workflow=each.workflow, faults=each.warnings) for file, each in deployed]
        _tell(session.output, workflows, found, deployed, dry_run=self.dry_run)
        return Exit.SUCCESS if all(each.passes(strict=self.strict) for each in found) else Exit.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema(Command):
    """Print the JSON Schema of the workflow language, for editors.

    It is made by the compiler on this machine, from the tables that it checks files by. docs/checking.md has the
    settings of editors.
    """

    name: ClassVar = ("schema",)
    help: ClassVar = "print the language as a JSON Schema"
    talks_to_coordinator: ClassVar = False

    async def run(self, session: Session) -> Exit:
        """Ask the compiler, and print what it says."""
        out, err = await _ask_compiler("schema")
        try:
            schema = json.loads(out)
        except ValueError:
            raise _broken(err) from None
        session.output.document(schema)
        return Exit.SUCCESS


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", action=_Tuple, help="a workflow in YAML, or a folder of them"
    )


def _add_strict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="take warnings for errors")


class _Tuple(argparse.Action):
    """Keeps several values as a tuple."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's contract
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,  # noqa: ARG002 - argparse's contract
    ) -> None:
        """Keep them."""
        setattr(namespace, self.dest, tuple(values or ()))


async def _check_there(
    client: Client, sources: Sequence[tuple[str, str]]
) -> tuple[list[CheckedFile], list[Sequence[str]]]:
    """What was found in each file, and the sources among them of the workflows that it runs and is held against."""
    answers = [await _checked(client, source) for _, source in sources]
    among = {answer.workflow: source for answer, (_, source) in zip(answers, sources, strict=True) if answer.workflow}
    beside: list[Sequence[str]] = []
    for place, (_, source) in enumerate(sources):
        runs = [name for name in answers[place].runs if name in among and name != answers[place].workflow]
        beside.append([among[name] for name in runs])
        if runs:
            answers[place] = await _checked(client, source, beside[place])
    checked = [
        CheckedFile(file=file, workflow=answer.workflow, faults=answer.faults)
        for (file, _), answer in zip(sources, answers, strict=True)
    ]
    return checked, beside


async def _checked(client: Client, source: str, beside: Sequence[str] = ()) -> Checked:
    try:
        return await client.check(source, beside=beside)
    except PayloadTooLarge as error:
        limit = int(error.metadata["limit"])
        fault = Fault(
            line=1,
            column=1,
            code="too_large",
            message=f"the file is larger than {limit:,} bytes",
            remedy="split the workflow, or pass large data as input",
            warning=False,
        )
        return Checked(workflow="", faults=(fault,))


async def _check_here(sources: Sequence[tuple[str, str]]) -> list[CheckedFile]:
    """Check with an installed coordinator's compiler, in a process of its own: the command line imports no service.

    Raises:
        Mistake: It is not installed, or it broke.
    """
    out, err = await _ask_compiler("check", given=json.dumps(sources).encode())
    try:
        answer = json.loads(out)
        return [
            CheckedFile(
                file=each["file"],
                workflow=each.get("workflow") or "",
                faults=tuple(Fault(**fault) for fault in each["faults"]),
            )
            for each in answer["files"]
        ]
    except (ValueError, KeyError, TypeError):
        raise _broken(err) from None


async def _ask_compiler(command: str, *, given: bytes = b"") -> tuple[bytes, bytes]:
    """Call an installed coordinator's compiler; returns what it wrote to standard output and to standard error.

    Args:
        command: of the coordinator's program.
        given: what it reads from standard input.

    Raises:
        Mistake: It is not installed.
    """
    if find_spec(COMPILER) is None:
        raise Mistake("the compiler is not on this machine; install headway[dev]")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", COMPILER, command,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    return await process.communicate(given)


def _broken(err: bytes) -> Mistake:
    lines = err.decode(errors="replace").strip().splitlines()
    return Mistake(f"the compiler on this machine broke: {lines[-1] if lines else 'no answer'}")


def _whole_file(error: DefinitionFaulty) -> Fault:
    return Fault(line=1, column=1, code=error.reason.lower(), message=error.message, remedy="", warning=False)


def _refused(output: Output, checked: Sequence[CheckedFile], deployed: Sequence[tuple[str, Deployed]]) -> Exit:
    if output.for_people:
        _print_faults(output, checked)
        done = ", ".join(file for file, _ in deployed)
        output.warn(f"deployed before the fault: {done}" if done else "nothing was deployed", style="red")
    else:
        output.document({"deployed": [_entry(*each) for each in deployed], "files": checked})
    return Exit.FAILED


def _tell(
    output: Output,
    workflows: Workflows,
    found: Sequence[CheckedFile],
    deployed: Sequence[tuple[str, Deployed]],
    *,
    dry_run: bool,
) -> None:
    if not output.for_people:
        entries = [_entry(*each) for each in deployed]
        output.document({"dry_run": dry_run, "deployed": entries, "files": found, "left_out": workflows.tests})
        return
    _print_faults(output, found)
    _tell_left_out(output, workflows)
    for file, each in deployed:
        what = ("would be deployed" if dry_run else "deployed") if each.changed else "was deployed already"
        output.say(f"{each.workflow} version {each.version} {what} ({file})")
        for line in effect_lines(each.effect, each.version):
            output.say(f"  {line}")


def _entry(file: str, deployed: Deployed) -> dict[str, object]:
    return {
        "file": file,
        "workflow": deployed.workflow,
        "version": deployed.version,
        "changed": deployed.changed,
        "effect": deployed.effect,
    }


def _print_faults(output: Output, checked: Sequence[CheckedFile]) -> None:
    for each in checked:
        for fault in each.faults:
            kind, style = ("warning", "yellow") if fault.warning else ("error", "red")
            remedy = f" — {fault.remedy}" if fault.remedy else ""
            line = Text(visible(f"{each.file}:{fault.line}:{fault.column}: "), style="bold")
            line.append(f"{kind}: ", style=style)
            line.append(visible(f"{fault.message}{remedy}"), style="not bold")
            output.say(line)


def _tell_left_out(output: Output, workflows: Workflows) -> None:
    for file in workflows.tests:
        output.warn(f"{file} is left out: a test file; run it with: headway test {file}", style="dim")


def _print_sum(output: Output, checked: Sequence[CheckedFile]) -> None:
    errors = sum(not fault.warning for each in checked for fault in each.faults)
    warnings = sum(fault.warning for each in checked for fault in each.faults)
    output.say(
        f"{_count(len(checked), 'file')}, {_count(errors, 'error')}, {_count(warnings, 'warning')}",
        style="red" if errors else "green",
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
