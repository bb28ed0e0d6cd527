"""The state machines are data, validated when the module is imported; nothing drifts away from the tables."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import get_args

import pytest

from headway.coordinator.core import actions as do
from headway.coordinator.core import machines
from headway.coordinator.core.events import Failure
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.machines import (
    RUN,
    TASK,
    IllegalTransition,
    LeaseRequired,
    Machine,
    RunState,
    TaskState,
    TerminalState,
    Transition,
)
from headway.coordinator.core.plan import FailureClass
from headway.coordinator.core.projector import Projector
from headway.coordinator.core.rows import RunRow, TaskRow
from headway.coordinator.core.state import Draft, State
from tests.core.flows import workflow
from tests.core.simulator import EPOCH

GOOD = (Transition(name="go", source="new", target="there"), Transition(name="end", source="there", target="done"))


def machine(*table: Transition, states: str = "new there done", initial: str = "new", final: str = "done") -> Machine:
    return Machine("toy", states=states.split(), initial=initial, final=final.split(), table=table)


def test_a_sound_table_is_accepted() -> None:
    assert machine(*GOOD).move("new", "go").target == "there"


@pytest.mark.parametrize(
    ("table", "states", "says"),
    [
        ((*GOOD, Transition(name="go", source="there", target="new")), None, "names a transition twice: go"),
        ((*GOOD, Transition(name="walk", source="new", target="there")), None, "has an arrow twice: new->there"),
        ((*GOOD, Transition(name="back", source="done", target="new")), None, "has arrows out of the final: done"),
        ((*GOOD, Transition(name="fly", source="new", target="sky")), None, "does not know: sky"),
        ((*GOOD, Transition(name="fall", source="sky", target="new")), None, "does not know: sky"),
        ((*GOOD, Transition(name="err", source="new", target="pit")), "new there done pit", "has dead ends: pit"),
        ((*GOOD, Transition(name="out", source="moon", target="new")), "new there done moon", "cannot reach: moon"),
    ],
)
def test_a_bad_table_is_refused_and_the_culprit_named(
    table: tuple[Transition, ...], states: str | None, says: str
) -> None:
    with pytest.raises(ValueError, match="machine toy") as refused:
        machine(*table, states=states or "new there done")

    assert says in str(refused.value)


def test_initial_and_final_states_of_another_machine_are_refused() -> None:
    with pytest.raises(ValueError, match="does not know: elsewhere"):
        machine(*GOOD, initial="elsewhere")
    with pytest.raises(ValueError, match="does not know: over"):
        machine(*GOOD, final="done over")


def test_a_transition_that_is_not_in_the_table_is_illegal() -> None:
    with pytest.raises(IllegalTransition, match="a task that is pending has no transition succeed"):
        TASK.move(TaskState.PENDING, "succeed", ends_lease=True)
    with pytest.raises(IllegalTransition, match="a run that is pending has no transition fly"):
        RUN.move(RunState.PENDING, "fly")


def test_what_is_over_is_terminal() -> None:
    with pytest.raises(TerminalState):
        RUN.move(RunState.SUCCEEDED, "cancel")
    with pytest.raises(TerminalState):
        TASK.move(TaskState.CANCELLED, "claim")


def test_a_failed_task_is_not_over() -> None:
    assert TASK.move(TaskState.FAILED, "schedule_retry").target == "retrying"
    with pytest.raises(IllegalTransition) as refused:
        TASK.move(TaskState.FAILED, "claim")
    assert not isinstance(refused.value, TerminalState)


@pytest.mark.parametrize("name", ["succeed", "fail", "cancel_running", "reap_lease"])
def test_only_what_ends_a_lease_may_take_a_leased_row_away(name: str) -> None:
    with pytest.raises(LeaseRequired, match=name):
        TASK.move(TaskState.RUNNING, name)

    assert TASK.move(TaskState.RUNNING, name, ends_lease=True).source == "running"


def test_every_arrow_out_of_running_ends_the_lease_and_no_other_does() -> None:
    assert [arrow.name for arrow in TASK.table if arrow.ends_lease != (arrow.source == "running")] == []


def test_every_open_state_has_its_own_cancel() -> None:
    assert set(machines.CANCEL_TRANSITION) == machines.OPEN_TASK_STATES


# Drift: the projector's guards accept exactly what the tables allow.

_GRAPH = workflow("nodes: {a: {type: call, handler: a}, b: {type: call, handler: a}}")
_FAILURE = Failure(failure_class=FailureClass.EXEC_FAILED, type="Boom", message="")


def _task(state: TaskState) -> TaskRow:
    return TaskRow(
        path="a", namespace="default", queue="", handler="", lease_ms=1, attempt_timeout_ms=None, created_at=EPOCH,
        state=state,
    )  # fmt: skip


def _applies(action: do.Action, *, task: TaskRow | None = None, run: RunState = RunState.RUNNING) -> RunState | str:
    """Where the row stands afterwards, or "refused"."""
    row = RunRow(
        namespace="default", workflow="w", version=1, key=None, trace="", created_at=EPOCH, last_event_at=EPOCH,
        state=run, unhandled_tasks=1,
    )  # fmt: skip
    state = State(graph=Graph(_GRAPH.plan), run=row, complete=True)
    if task is not None:
        state.tasks["a"] = task
    draft = Draft(state)
    try:
        Projector(draft, EPOCH).apply(action)
    except IllegalTransition:
        assert not draft.changes.tasks or draft.changes.tasks["a"].state is (task.state if task else None)
        return "refused"
    return str(draft.task("a").state) if task is not None else draft.run.state  # type: ignore[union-attr]


def _arrows(names: set[str]) -> dict[str, str]:
    return {arrow.source: arrow.target for arrow in TASK.table if arrow.name in names}


_VIA = {arrow.name: arrow for arrow in TASK.table}
_BY_ACTION: list[tuple[do.Action, dict[str, str]]] = [
    *[(do.CompleteTask(path="a", via=via, has_output=False, reported=True), _arrows({via})) for via in _VIA],
    *[
        (
            do.FailTask(path="a", via=via, failure=_FAILURE, disposition="handled", handled_by=1, reported=True),
            _arrows({via}),
        )
        for via in _VIA
    ],
    (do.ScheduleRetry(path="a", due_at=EPOCH), _arrows({"schedule_retry"})),
    (do.ReapLease(path="a", outcome="lost"), _arrows({"reap_lease"})),
    (do.AwaitTask(path="a", due_at=None), _arrows({"wait", "retry_waiting"})),
    (
        do.DispatchTask(path="a", attempt=1),
        {"ready": "ready"} | _arrows({"dependencies_satisfied", "retry_ready"}),
    ),
    (do.CancelTask(path="a", cause="cancel", reported=False), _arrows(set(machines.CANCEL_TRANSITION.values()))),
    (do.RedoTask(path="a", generation=1), dict.fromkeys(("succeeded", "failed", "cancelled"), "pending")),
    (
        do.ClaimTask(path="a", attempt=1, owner="w", leased_at=EPOCH, started_at=EPOCH),
        {"ready": "running", "running": "running"},
    ),
]


@pytest.mark.parametrize(("action", "allowed"), _BY_ACTION, ids=lambda value: repr(value)[:40])
def test_the_projector_moves_tasks_exactly_as_the_table_allows(action: do.Action, allowed: dict[str, str]) -> None:
    found = {str(state): _applies(action, task=_task(state)) for state in TaskState}

    assert {state: target for state, target in found.items() if target != "refused"} == allowed


def test_the_projector_moves_runs_exactly_as_the_table_allows() -> None:
    outcomes = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
    allowed = {
        (do.StartRun, RunState.PENDING): RunState.RUNNING,
        (RunState.CANCELLED, RunState.PENDING): RunState.CANCELLED,
        **{(target, RunState.RUNNING): target for target in outcomes},
        **{(do.ReopenRun, source): RunState.RUNNING for source in outcomes},
    }
    orders: dict[object, do.Action] = {
        do.StartRun: do.StartRun(),
        do.ReopenRun: do.ReopenRun(opening="retry", chosen=(), reset=(), kept=()),
        **{
            target: do.FinishRun(state=target, error=None, output_path=None, output_attempt=None) for target in outcomes
        },
    }

    found = {
        (name, state): _applies(order, run=state)
        for (name, order), state in itertools.product(orders.items(), RunState)
    }

    assert {key: target for key, target in found.items() if target != "refused"} == allowed


def test_a_task_is_made_once() -> None:
    order = do.CreateTask(path="a", queue="", handler="", lease_ms=1, attempt_timeout_ms=None)

    assert _applies(order, task=_task(TaskState.PENDING)) == "refused"


def test_a_token_arrives_once() -> None:
    state = State(graph=_GRAPH, complete=True)
    projector = Projector(Draft(state), EPOCH)
    order = do.SetToken(path="a", slot=3, token="live", always=False, names=())
    projector.apply(order)

    with pytest.raises(IllegalTransition, match="slot 3 of a has a token"):
        projector.apply(order)


def test_every_action_can_be_carried_out() -> None:
    from headway.coordinator.core.projector import _CARRY_OUT

    assert set(_CARRY_OUT) == set(get_args(do.Action))


# Drift: the schema's CHECKs list the states that the enums have.

_SCHEMA = Path(machines.__file__).parents[1].joinpath("store/migrations/0001_first.sql").read_text(encoding="utf-8")


def _listed(constraint: str) -> list[set[str]]:
    found = re.search(rf"CONSTRAINT {constraint} CHECK \((.*?)\)(?:,\n|\n)", _SCHEMA, re.DOTALL)
    assert found is not None, constraint
    return [set(re.findall(r"'(\w+)'", listed)) for listed in re.findall(r"IN\s*\(([^)]*)\)", found[1])]


@pytest.mark.parametrize(
    ("constraint", "known"),
    [
        ("runs_state", set(RunState)),
        ("runs_final_has_end", machines.FINAL_RUN_STATES),
        ("tasks_state", set(TaskState)),
        ("tasks_failure_class", set(FailureClass)),
        ("tasks_final_has_end", set(TaskState) - machines.OPEN_TASK_STATES),
    ],
)
def test_the_schema_lists_the_states_of_the_tables(constraint: str, known: set[str]) -> None:
    assert _listed(constraint) == [{str(each) for each in known}]


def test_the_statement_that_locks_open_tasks_lists_the_open_states() -> None:
    statements = Path(machines.__file__).parents[1].joinpath("store/sql/tasks.sql").read_text(encoding="utf-8")
    found = re.search(r"-- name: lock_open_tasks.*?state IN \(([^)]*)\)", statements, re.DOTALL)

    assert found is not None
    assert set(re.findall(r"'(\w+)'", found[1])) == {str(state) for state in machines.OPEN_TASK_STATES}


def test_the_schema_knows_every_timer_that_the_core_sets() -> None:
    from headway.coordinator.core.admission import _RUN_TIMERS, _TASK_TIMERS

    assert _listed("timers_kind") == [{*_RUN_TIMERS, *_TASK_TIMERS}]
