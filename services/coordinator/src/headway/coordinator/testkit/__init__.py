"""The test kit: runs workflows on the pure core, without servers, on a virtual clock, and judges what came of them.

    report = run_tests(text, read_workflow)

One run is a `simulation`: the core's rows in memory. A case is read from YAML (`reading`, by the tables of `language`),
played (`playing`: workers that do as mocks say, timers, acts, crashes; `agenda`: what goes first) and looked at
(`expectations`). Nothing here does I/O, looks at a clock or draws chance that no seed gives; it knows the core and
nothing else of the coordinator.
"""

from headway.coordinator.testkit.coverage import Coverage
from headway.coordinator.testkit.playing import Raised, Returned, RunPython
from headway.coordinator.testkit.running import CaseReport, FileReport, Problem, WorkflowUnreadable, run_tests

__all__ = [
    "run_tests",
    "FileReport",
    "CaseReport",
    "Problem",
    "Coverage",
    "WorkflowUnreadable",
    "RunPython",
    "Returned",
    "Raised",
]
