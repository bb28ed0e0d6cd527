"""The test kit: runs workflows on the pure core, without servers, on a virtual clock, and judges what came of them.

    report = run_tests(text, read_workflow)

One run is a `simulation`: the core's rows in memory. A case is read from YAML (`reading`, by the tables of `language`;
`mentions`: what it names), played (`playing`: the clock and users; `runs`: the run that is tried and those that it
starts; `workers`, who do as mocks say; `agenda`: what goes first) and looked at (`expectations`). Nothing here does
I/O, looks at a clock or draws chance that no seed gives; it knows the core and nothing else of the coordinator.
"""

from headway.coordinator.testkit.coverage import Coverage
from headway.coordinator.testkit.running import (
    CaseReport,
    FileReport,
    Problem,
    WorkflowReport,
    WorkflowUnreadable,
    run_tests,
)
from headway.coordinator.testkit.workers import Raised, Returned, RunPython

__all__ = [
    "run_tests",
    "FileReport",
    "WorkflowReport",
    "CaseReport",
    "Problem",
    "Coverage",
    "WorkflowUnreadable",
    "RunPython",
    "Returned",
    "Raised",
]
