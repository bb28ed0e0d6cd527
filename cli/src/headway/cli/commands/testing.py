"""The command that tests workflows: no coordinator, no worker, no waiting."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from headway.cli.arguments import reason
from headway.cli.command import Command, Exit, Mistake, Session
from headway.cli.files import read_text, test_files
from headway.cli.output import Output
from headway.client import Json
from headway.worker import PythonHandler, TaskFailed

if TYPE_CHECKING:
    from headway.coordinator.testkit import CaseReport, Coverage, FileReport, Problem, WorkflowReport

KIT = "headway.coordinator"


LONGEST_STORY = 200  # lines of a failed case that people are told


@dataclass(frozen=True, slots=True, kw_only=True)
class Test(Command):
    """Run the tests of workflows, on a virtual clock: waits of days take no time, and no server is needed.

    A test file names its workflow and has cases: input, mocked handlers, signals and crashes at times, and what must
    come of it. docs/testing.md has the keys. Exit code 0: every case passed; 1: one failed, a file has faults, or too
    few edges were followed; 2: a file cannot be read, or no case has such a name.
    """

    name: ClassVar = ("test",)
    help: ClassVar = "test workflows without servers, on a virtual clock"
    talks_to_coordinator: ClassVar = False

    files: tuple[str, ...]
    filter: str
    coverage_min: float | None

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add the files and how to judge them."""
        parser.add_argument("files", nargs="+", metavar="FILE", help="a test file, FLOW.test.yaml, or a folder of them")
        parser.add_argument("--filter", metavar="TEXT", default="", help="only cases with this text in their name")
        parser.add_argument(
            "--coverage-min",
            metavar="N",
            type=_percent,
            default=None,
            help="fail a file whose cases follow less than this percentage of its workflow's edges",
        )

    async def run(self, session: Session) -> Exit:
        """Run all files, then tell."""
        if self.filter and self.coverage_min is not None:
            raise Mistake("--filter and --coverage-min exclude each other: some cases cannot follow all edges")
        if find_spec(KIT) is None:
            raise Mistake("the test kit is not on this machine: install headway[dev]")
        texts = [(file, read_text(file)) for file in test_files(self.files)]
        # In a thread: code of `python` nodes that is run for real needs an event loop of its own.
        reports = await asyncio.to_thread(_run_all, texts, self.filter)
        if self.filter and not any(report.cases or not report.passed for _, report in reports):
            raise Mistake(f"no case has {self.filter!r} in its name")
        too_low = {
            file: covered.percent
            for file, report in reports
            if (covered := report.workflow.coverage) is not None and covered.percent < (self.coverage_min or 0)
        }
        passed = not too_low and all(report.passed for _, report in reports)
        if session.output.for_people:
            for file, report in reports:
                _tell(session.output, file, report, wanted=self.coverage_min)
            _sum_up(session.output, [report for _, report in reports], passed=passed)
        else:
            files = [_document(file, report, enough=file not in too_low) for file, report in reports]
            session.output.document({"passed": passed, "files": files})
        return Exit.SUCCESS if passed else Exit.FAILED


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:  # noqa: PLR2004 - per cent
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage from 0 to 100")
    return value


def _run_all(texts: Sequence[tuple[str, str]], wanted: str) -> "list[tuple[str, FileReport]]":
    return [(file, _run(Path(file), text, wanted)) for file, text in texts]


def _run(file: Path, text: str, wanted: str) -> "FileReport":
    # Here, and not above: only the extra `dev` brings the kit along.
    from headway.coordinator.testkit import Raised, Returned, WorkflowUnreadable, run_tests  # noqa: PLC0415

    def read_workflow(name: str) -> str:
        path = file.parent / name
        try:
            return path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WorkflowUnreadable(f"cannot read {path}: {reason(error)}") from None

    def run_python(request: Json) -> Returned | Raised:
        try:
            output = cast("Json", asyncio.run(PythonHandler()(request)))
        except TaskFailed as error:
            return Raised(
                type=error.type,
                message=error.message,
                trace=error.trace,
                details=cast("dict[str, Json]", dict(error.details)),
                final=error.final,
                timed_out=error.timed_out,
            )
        return Returned(output=output)

    return run_tests(
        text,
        read_workflow,
        is_wanted=lambda name: wanted.lower() in name.lower(),
        run_python=run_python,
        name=file.name,
    )


def _tell(output: Output, file: str, report: "FileReport", *, wanted: float | None) -> None:
    workflows = (report.workflow, *report.children)
    told = [(file, report.faults), *((str(Path(file).parent / each.file), each.faults) for each in workflows)]
    for where, faults in told:
        for fault in faults:
            remedy = f" — {fault.remedy}" if fault.remedy else ""
            kind, style = ("warning", "yellow") if fault.warning else ("error", "red")
            output.say(f"{where}:{fault.line}:{fault.column}: {kind}: {fault.message}{remedy}", style=style)
    for case in report.cases:
        _tell_case(output, file, case)
    for each in workflows:
        if each.coverage is not None:
            is_tried = each is report.workflow
            _tell_coverage(output, file if is_tried else f"  {each.file}", each.coverage, wanted if is_tried else None)


def _tell_case(output: Output, file: str, case: "CaseReport") -> None:
    orders = f" ({case.orders} orders{', and there are more' if case.more_orders else ''})" if case.orders > 1 else ""
    if case.passed:
        output.say(f"  passed  {case.name}{orders}", style="green")
        return
    output.say(f"  FAILED  {case.name}{orders}", style="red")
    for problem in case.problems:
        _tell_problem(output, file, problem)
    if case.order:
        output.say(f"    in this order: [{', '.join(case.order)}]")
    if case.story:
        output.say("    the run:")
        for line in _shortened(case.story):
            output.say(f"      {line}", style="dim")


def _shortened(story: "Sequence[str]") -> "Sequence[str]":
    """A story without its middle, when it is too long to be read."""
    left_out = len(story) - LONGEST_STORY
    if left_out <= 0:
        return story
    head = LONGEST_STORY // 4
    return (*story[:head], f"… {left_out:,} lines are left out here; --json has them …", *story[head + left_out :])


def _tell_problem(output: Output, file: str, problem: "Problem") -> None:
    output.say(f"    {file}:{problem.line}:{problem.column}: {problem.what}")
    if problem.got:
        output.say(f"      expected  {problem.expected}")
        output.say(f"      got       {problem.got}")
    elif problem.expected:
        output.say(f"      {problem.expected}")


def _tell_coverage(output: Output, file: str, coverage: "Coverage", wanted: float | None) -> None:
    followed = coverage.edges - len(coverage.never)
    is_low = wanted is not None and coverage.percent < wanted
    least = f"; at least {wanted:g} % are wanted" if is_low else ""
    style = "red" if is_low else ""
    output.say(f"{file}: {followed} of {coverage.edges} edges followed ({coverage.percent:.0f} %{least})", style=style)
    for edge in coverage.never:
        output.say(f"  never   {edge}", style="yellow")


def _sum_up(output: Output, reports: "Sequence[FileReport]", *, passed: bool) -> None:
    cases = [case for report in reports for case in report.cases]
    failed = sum(not case.passed for case in cases)
    faults = sum(
        not fault.warning
        for report in reports
        for faults in (report.faults, *(each.faults for each in (report.workflow, *report.children)))
        for fault in faults
    )
    words = [f"{len(cases) - failed} passed", f"{failed} failed"] + (
        [f"{faults} fault{'s' if faults > 1 else ''}"] if faults else []
    )
    output.say(", ".join(words), style="green" if passed else "red")


def _document(file: str, report: "FileReport", *, enough: bool) -> dict[str, object]:
    return {
        "file": file,
        "workflow": report.workflow.file,
        "passed": report.passed and enough,
        "faults": report.faults,
        "workflow_faults": report.workflow.faults,
        "cases": [
            {
                "name": case.name,
                "line": case.line,
                "passed": case.passed,
                "problems": case.problems,
                "orders": case.orders,
                "more_orders": case.more_orders,
                "order": case.order,
                "story": case.story,
            }
            for case in report.cases
        ],
        "coverage": _coverage(report.workflow),
        "children": [
            {"file": each.file, "faults": each.faults, "coverage": _coverage(each)} for each in report.children
        ],
    }


def _coverage(workflow: "WorkflowReport") -> dict[str, object] | None:
    covered = workflow.coverage
    if covered is None:
        return None
    return {"edges": covered.edges, "never": covered.never, "percent": round(covered.percent, 1)}
