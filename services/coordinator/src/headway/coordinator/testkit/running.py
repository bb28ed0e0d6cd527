"""Runs a test file: its cases, one after the other, and what is to be said of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from headway.coordinator.core.compiler import Code, CompileResult, Fault, compile_workflow, hold_together
from headway.coordinator.core.compiler.faults import Enough, Faults
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan import Place
from headway.coordinator.testkit.agenda import Chooser, next_script
from headway.coordinator.testkit.bodies import graphs_of
from headway.coordinator.testkit.cases import Case, TestFile
from headway.coordinator.testkit.coverage import Coverage, Followed, coverage, followed
from headway.coordinator.testkit.mentions import check_mentions
from headway.coordinator.testkit.played import Played
from headway.coordinator.testkit.playing import play
from headway.coordinator.testkit.reading import read_tests
from headway.coordinator.testkit.telling import tell
from headway.coordinator.testkit.workers import RunPython
from headway.coordinator.zones import zone_names

_UNREAD = CompileResult(plan=None, faults=())


class WorkflowUnreadable(Exception):
    """The workflow's file cannot be read; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One expectation that was not met, at its place in the test file."""

    line: int
    column: int
    what: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReport:
    """What came of a case.

    Attributes:
        line: where it begins.
        problems: none: it passed.
        orders: how many orders of simultaneous things were tried.
        more_orders: there are more than its limit.
        order: what went first at each choice, when it failed.
        story: the run's history, a line each, when it failed.
    """

    name: str
    line: int
    problems: tuple[Problem, ...]
    orders: int
    more_orders: bool
    order: tuple[str, ...]
    story: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Every expectation was met."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowReport:
    """What is to be said of a workflow that took part.

    Attributes:
        file: as the test file names it.
        workflow: its name; empty: it cannot be read.
        faults: of the workflow; with a fault that is no warning, nothing was run.
        coverage: over all cases that were run; None: nothing was run.
    """

    file: str
    workflow: str
    faults: tuple[Fault, ...] = ()
    coverage: Coverage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What came of a test file.

    Attributes:
        workflow: that is tried.
        children: workflows whose runs take part, in the order of the test file.
        faults: of the test file; with a fault that is no warning, nothing was run.
    """

    workflow: WorkflowReport
    children: tuple[WorkflowReport, ...] = ()
    faults: tuple[Fault, ...] = ()
    cases: tuple[CaseReport, ...] = ()

    @property
    def passed(self) -> bool:
        """There is no fault, and every case passed."""
        faults = [fault for each in (self.workflow, *self.children) for fault in each.faults]
        return all(fault.warning for fault in (*self.faults, *faults)) and all(case.passed for case in self.cases)


def run_tests(
    text: str,
    read_workflow: Callable[[str], str],
    *,
    is_wanted: Callable[[str], bool] = lambda _: True,
    run_python: RunPython | None = None,
    name: str = "flow.test.yaml",
) -> FileReport:
    """Run the cases of a test file.

    Args:
        text: of the test file.
        read_workflow: gives the text of a workflow whose path the test file names, or raises WorkflowUnreadable.
        is_wanted: by the case's name: whether to run it.
        run_python: runs the code of `python` nodes whose mock is `real`.
        name: of the test file, without its folder; for remedies.
    """
    faults = Faults()
    try:
        tests = read_tests(text, faults, name)
    except Enough:
        tests = None
    if tests is not None and tests.workflow:
        return _try(tests, read_workflow, is_wanted, run_python, faults)
    if tests is not None:
        faults.say_that_checks_wait()
    return FileReport(workflow=WorkflowReport(file="", workflow=""), faults=faults.ordered())


def _try(
    tests: TestFile,
    read_workflow: Callable[[str], str],
    is_wanted: Callable[[str], bool],
    run_python: RunPython | None,
    faults: Faults,
) -> FileReport:
    """Hold a test file against its workflows and, if there is no fault, run its cases."""
    zones = zone_names()
    files = [(tests.workflow, tests.workflow_place), *tests.children]
    sources = [_read(file, place, read_workflow, faults) for file, place in files]
    alone = [_UNREAD if source is None else compile_workflow(source, zones) for source in sources]
    compiled = hold_together([source or "" for source in sources], alone)
    read = [_report(file, result) for (file, _), result in zip(files, compiled, strict=True)]
    plans = {result.plan.workflow: result.plan for result in compiled if result.plan is not None}
    main = read[0]
    are_named = len(plans) == len(read)
    if are_named:
        graphs = {workflow: graphs_of(Graph(plan)) for workflow, plan in plans.items()}
        with suppress(Enough):
            check_mentions(tests, main.workflow, graphs, faults)
        if not faults.fatal():
            return _run_all(tests, read, graphs, is_wanted, run_python, faults)
    elif all(result.plan is not None for result in compiled):
        _find_twins(files, [report.workflow for report in read], faults)
    if faults.fatal() and (tests.hides_names or not are_named):
        faults.say_that_checks_wait()
    return FileReport(workflow=main, children=tuple(read[1:]), faults=faults.ordered())


def _read(file: str, place: Place, read_workflow: Callable[[str], str], faults: Faults) -> str | None:
    try:
        return read_workflow(file)
    except WorkflowUnreadable as error:
        faults.add(place, Code.WRONG_VALUE, str(error), "name it as it is seen from this file")
        return None


def _report(file: str, compiled: CompileResult) -> WorkflowReport:
    workflow = "" if compiled.plan is None else compiled.plan.workflow
    return WorkflowReport(file=file, workflow=workflow, faults=compiled.faults)


def _find_twins(files: Sequence[tuple[str, Place]], workflows: Sequence[str], faults: Faults) -> None:
    known: dict[str, str] = {}
    for (file, place), workflow in zip(files, workflows, strict=True):
        if workflow in known:
            message = f"the workflow of {file} is {workflow}, and so is that of {known[workflow]}"
            faults.add(place, Code.WRONG_VALUE, message, "keep one of the files")
        known[workflow] = file


def _run_all(
    tests: TestFile,
    workflows: Sequence[WorkflowReport],
    graphs: Mapping[str, Mapping[str, Graph]],
    is_wanted: Callable[[str], bool],
    run_python: RunPython | None,
    faults: Faults,
) -> FileReport:
    found: set[Followed] = set()
    cases: list[CaseReport] = []
    for case in tests.cases:
        if is_wanted(case.name):
            report, edges = _run_case(case, workflows[0].workflow, graphs, run_python)
            cases.append(report)
            found |= edges
    covered = [
        replace(each, coverage=coverage(each.workflow, graphs[each.workflow], found) if cases else None)
        for each in workflows
    ]
    return FileReport(workflow=covered[0], children=tuple(covered[1:]), faults=faults.ordered(), cases=tuple(cases))


def _run_case(
    case: Case, workflow: str, graphs: Mapping[str, Mapping[str, Graph]], run_python: RunPython | None
) -> tuple[CaseReport, set[Followed]]:
    """Play a case, in every order if it asks for that, until one fails; also, which edges were followed."""
    found: set[Followed] = set()
    script: list[int] | None = []
    orders = 0
    played: Played | None = None
    problems: tuple[Problem, ...] = ()
    known = {name: inner[""] for name, inner in graphs.items()}
    while script is not None and not problems and orders < (case.limit if case.every_order else 1):
        played = play(case, known[workflow], Chooser(case.order, script), run_python, known)
        orders += 1
        found |= followed(graphs, played.log)
        problems = _problems(case, played)
        script = next_script(played.choices)
    has_failed = bool(problems) and played is not None
    report = CaseReport(
        name=case.name,
        line=case.place.line,
        problems=problems,
        orders=orders,
        more_orders=case.every_order and not problems and script is not None,
        order=tuple(choice.label for choice in played.choices) if played is not None and has_failed else (),
        story=tell(played) if played is not None and has_failed else (),
    )
    return report, found


def _problems(case: Case, played: Played) -> tuple[Problem, ...]:
    if played.troubles:
        return tuple(
            Problem(line=each.line, column=each.column, what=each.message, expected=each.remedy, got="")
            for each in played.troubles
        )
    found: list[Problem] = []
    for expectation in case.expectations:
        difference = expectation.differs(played)
        if difference is not None:
            place = expectation.place
            found.append(
                Problem(
                    line=place.line,
                    column=place.column,
                    what=expectation.what,
                    expected=difference.expected,
                    got=difference.got,
                )
            )
    return tuple(found)
