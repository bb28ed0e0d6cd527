"""Runs a test file: its cases, one after the other, and what is to be said of them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from headway.coordinator.core.compiler import Code, Fault, compile_workflow
from headway.coordinator.core.compiler.faults import Enough, Faults, nearest
from headway.coordinator.core.graph import Graph
from headway.coordinator.testkit.agenda import Chooser, next_script
from headway.coordinator.testkit.bodies import graphs_of, inside, place_of
from headway.coordinator.testkit.cases import Case, Naming, TestFile
from headway.coordinator.testkit.coverage import Coverage, Followed, coverage, followed
from headway.coordinator.testkit.played import Played
from headway.coordinator.testkit.playing import RunPython, play
from headway.coordinator.testkit.reading import read_tests
from headway.coordinator.testkit.telling import tell
from headway.coordinator.zones import zone_names


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
class FileReport:
    """What came of a test file.

    Attributes:
        workflow: its file, as the test file names it.
        faults: of the test file; with a fault that is no warning, nothing was run.
        workflow_faults: of the workflow; likewise.
        coverage: over all cases that were run; None: nothing was run.
    """

    workflow: str
    faults: tuple[Fault, ...]
    workflow_faults: tuple[Fault, ...] = ()
    cases: tuple[CaseReport, ...] = ()
    coverage: Coverage | None = None

    @property
    def passed(self) -> bool:
        """There is no fault, and every case passed."""
        faults = (*self.faults, *self.workflow_faults)
        return all(fault.warning for fault in faults) and all(case.passed for case in self.cases)


def run_tests(
    text: str,
    read_workflow: Callable[[str], str],
    *,
    is_wanted: Callable[[str], bool] = lambda _: True,
    run_python: RunPython | None = None,
) -> FileReport:
    """Run the cases of a test file.

    Args:
        text: of the test file.
        read_workflow: gives the text of the workflow whose path the test file names, or raises WorkflowUnreadable.
        is_wanted: by the case's name: whether to run it.
        run_python: runs the code of `python` nodes whose mock is `real`.
    """
    faults = Faults()
    try:
        tests = read_tests(text, faults)
    except Enough:
        tests = None
    if tests is None or faults.fatal():
        return FileReport(workflow="" if tests is None else tests.workflow, faults=faults.ordered())
    try:
        compiled = compile_workflow(read_workflow(tests.workflow), zone_names())
    except WorkflowUnreadable as error:
        faults.add(tests.workflow_place, Code.WRONG_VALUE, str(error), "name it as it is seen from this file")
        return FileReport(workflow=tests.workflow, faults=faults.ordered())
    if compiled.plan is None:
        return FileReport(workflow=tests.workflow, faults=faults.ordered(), workflow_faults=compiled.faults)
    graph = Graph(compiled.plan)
    graphs = graphs_of(graph)
    with suppress(Enough):
        _check_mentions(tests, graphs, faults)
    if faults.fatal():
        return FileReport(workflow=tests.workflow, faults=faults.ordered(), workflow_faults=compiled.faults)
    found: set[Followed] = set()
    cases: list[CaseReport] = []
    for case in tests.cases:
        if is_wanted(case.name):
            report, edges = _run_case(case, graph, graphs, run_python)
            cases.append(report)
            found |= edges
    return FileReport(
        workflow=tests.workflow,
        faults=faults.ordered(),
        workflow_faults=compiled.faults,
        cases=tuple(cases),
        coverage=coverage(graphs, found),
    )


def _run_case(
    case: Case, graph: Graph, graphs: Mapping[str, Graph], run_python: RunPython | None
) -> tuple[CaseReport, set[Followed]]:
    """Play a case, in every order if it asks for that, until one fails; also, which edges were followed."""
    found: set[Followed] = set()
    script: list[int] | None = []
    orders = 0
    played: Played | None = None
    problems: tuple[Problem, ...] = ()
    while script is not None and not problems and orders < (case.limit if case.every_order else 1):
        played = play(case, graph, Chooser(case.order, script), run_python)
        orders += 1
        found |= followed(graphs, played.history)
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


def _check_mentions(tests: TestFile, graphs: Mapping[str, Graph], faults: Faults) -> None:
    nodes = [(inside(body, node.id), node) for body, graph in graphs.items() for node in graph.plan.nodes.values()]
    places = {place for place, _ in nodes}
    names = {node.id for _, node in nodes}
    handlers = {node.handler for _, node in nodes if node.handler}
    known: Mapping[Naming, tuple[str, set[str]]] = {
        Naming.NODE: ("node", places),
        Naming.HANDLER: ("handler", handlers),
        Naming.EITHER: ("node or handler", places | names | handlers),
    }
    for mention in tests.mentions:
        what, fitting = known[mention.naming]
        if mention.name and place_of(mention.name) not in fitting:
            message = f"the workflow has no {what} {mention.name}"
            faults.add(mention.place, Code.UNKNOWN_NODE, message, nearest(mention.name, fitting))
