"""Plays one case: runs on a clock that jumps to what is due next, and what somebody does to them."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from headway.coordinator.core.graph import Graph
from headway.coordinator.core.refusals import Refusal, RunNotFound
from headway.coordinator.testkit.agenda import Chooser, Rank
from headway.coordinator.testkit.cases import Act, Case
from headway.coordinator.testkit.language import Refused
from headway.coordinator.testkit.played import Played
from headway.coordinator.testkit.runs import Runs
from headway.coordinator.testkit.stage import Stage, Unplayable
from headway.coordinator.testkit.workers import RunPython

MOST_STEPS = 20_000  # far more than any workflow of the allowed size takes


def play(
    case: Case,
    graph: Graph,
    chooser: Chooser,
    run_python: RunPython | None = None,
    children: Mapping[str, Graph] | None = None,
) -> Played:
    """Play a case to its end.

    Args:
        case: to play.
        graph: of its workflow.
        chooser: of what goes first.
        run_python: runs the code of `python` nodes whose mock is `real`; None: it cannot be run here.
        children: by name, workflows that its subflow nodes may start.
    """
    stage = Stage(case, chooser)
    runs = Runs(stage, children or {}, run_python)
    try:
        runs.start(graph, case.input)
    except Refusal as refusal:
        return Played(started_at=case.starts_at, refusal=str(refusal))
    troubles = ()
    try:
        for act in case.acts:
            at = case.starts_at + timedelta(milliseconds=act.after_ms)
            stage.plan(at, Rank.ACT, act.label, partial(_act, act, stage, runs))
        runs.look()
        _go_on(stage, runs)
        _look_for_left_overs(case, chooser)
    except Unplayable as unplayable:
        troubles = (unplayable.trouble,)
    return Played(
        simulations={address: run.simulation for address, run in runs.latest.items()},
        started_at=case.starts_at,
        began=tuple(stage.began),
        calls=tuple(stage.calls),
        log=tuple(stage.log),
        choices=tuple(chooser.made),
        troubles=troubles,
    )


def _go_on(stage: Stage, runs: Runs) -> None:
    for _ in range(MOST_STEPS):
        item = stage.next(runs.timers())
        if item is None:
            return
        item.do()
        runs.look()
    raise Unplayable(stage.case.place, f"after {MOST_STEPS} steps it is still not over")


def _look_for_left_overs(case: Case, chooser: Chooser) -> None:
    if chooser.left:
        message = f"{chooser.left[0]} never happens at the same instant as something else"
        labels = dict.fromkeys(choice.label for choice in chooser.made)
        remedy = f"what went first where there was a choice: {', '.join(labels) or 'nothing'}"
        raise Unplayable(case.order_place, message, remedy)


def _act(act: Act, stage: Stage, runs: Runs) -> None:
    what = f"the {act.label}"
    run = runs.latest.get(act.run)
    try:
        if run is None:
            raise RunNotFound(run_id=f"of {act.run}", namespace="default")
        act.do(run.simulation)
    except Refusal as refusal:
        workflow = "" if run is None else run.simulation.graph.plan.workflow
        stage.note(act.run, workflow, f"{what} is refused: {refusal.reason}")
        if act.refused is Refused.NEVER:
            remedy = "if it should be, say so: refused: must, or may"
            raise Unplayable(act.place, f"{what} was refused: {refusal}", remedy) from None
    else:
        if act.refused is Refused.MUST:
            raise Unplayable(act.place, f"{what} should have been refused, and was taken")
