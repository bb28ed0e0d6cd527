"""Runs cases that are written in a test."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent, indent

from headway.coordinator.testkit import CaseReport, FileReport, RunPython, run_tests

HEAD = "workflow: flow.yaml\n"


def report_on(workflow: str, cases: str, *, run_python: RunPython | None = None) -> FileReport:
    """What comes of a test file without its first line."""
    source = "workflow: example\n" + dedent(workflow)
    return run_tests(HEAD + dedent(cases), lambda _name: source, run_python=run_python)


def family_report(files: Mapping[str, str], cases: str) -> FileReport:
    """What comes of a test file for workflows by their names, each in a file of that name; the first is tried."""
    sources = {f"{name}.yaml": f"workflow: {name}\n" + dedent(source) for name, source in files.items()}
    tried, *children = sources
    head = f"workflow: {tried}\nchildren: [{', '.join(children)}]\n"
    return run_tests(head + dedent(cases), sources.__getitem__)


def family_case(files: Mapping[str, str], case: str) -> CaseReport:
    """What comes of one case, given without its name; files as of family_report."""
    report = family_report(files, "cases:\n  - name: it\n" + indent(dedent(case).strip("\n"), "    ") + "\n")
    assert report.faults == (), report.faults
    (only,) = report.cases
    return only


def the_case(workflow: str, case: str, *, run_python: RunPython | None = None) -> CaseReport:
    """What comes of one case, given without its name."""
    cases = "cases:\n  - name: it\n" + indent(dedent(case).strip("\n"), "    ") + "\n"
    report = report_on(workflow, cases, run_python=run_python)
    assert report.faults == report.workflow.faults == (), [*report.faults, *report.workflow.faults]
    (only,) = report.cases
    return only


def wrongs(case: CaseReport) -> list[tuple[str, str, str]]:
    """What was not met: what, expected, got."""
    return [(problem.what, problem.expected, problem.got) for problem in case.problems]
