"""The runs of a case: the one that is tried and those that its subflow nodes start. They talk as in production.

A run whose subflow node has a mock ends as that says; of any other, the file of its workflow says what it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from headway.coordinator.core.actions import AwaitTask, CompleteTask, FailTask, StopTask
from headway.coordinator.core.document import Document
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.handovers import NO_OUTPUT, CancelChild, ChildEnded, StartChild, raw_of
from headway.coordinator.core.labels import labels_of
from headway.coordinator.core.machines import RunState
from headway.coordinator.core.refusals import InvalidInput, Refusal
from headway.coordinator.core.rows import REFUSED, STARTED
from headway.coordinator.core.schemas import in_one_line, misfits
from headway.coordinator.testkit.agenda import Item, Rank
from headway.coordinator.testkit.bodies import in_run
from headway.coordinator.testkit.cases import Result
from headway.coordinator.testkit.played import Call, Told
from headway.coordinator.testkit.simulation import Simulation
from headway.coordinator.testkit.stage import Stage, Unplayable
from headway.coordinator.testkit.telling import the_run, timer
from headway.coordinator.testkit.workers import RunPython, Workers


@dataclass(slots=True, kw_only=True)
class Run:
    """A run with its workers.

    Attributes:
        address: of the subflow node that asked for it; empty: it is the one that is tried.
        seen: how much of its history was looked at.
    """

    address: str
    simulation: Simulation
    workers: Workers
    seen: int = 0


class Runs:
    """Every run of a case."""

    def __init__(self, stage: Stage, graphs: Mapping[str, Graph], run_python: RunPython | None) -> None:
        """Begin without any.

        Args:
            stage: where they are played.
            graphs: of the workflows that subflow nodes may start, by name.
            run_python: runs the code of `python` nodes whose mock is `real`; None: it cannot be run here.
        """
        self.latest: dict[str, Run] = {}  # by address
        self._stage = stage
        self._graphs = graphs
        self._run_python = run_python
        self._every: dict[str, Run] = {}  # by id

    def start(self, graph: Graph, given: Document) -> None:
        """Start the run that is tried. Raises Refusal."""
        labels = admitted(graph, given, {})
        self._add("", graph, "").simulation.start(given, labels=labels)

    def timers(self) -> list[Item]:
        """What is set in all of them."""
        return [
            Item(
                at=due_at,
                rank=Rank.TIMER,
                number=place,
                label=timer(kind, in_run(run.address, path) if path else "", the_run(run.address)),
                do=partial(run.workers.fire, (path, kind, attempt)),
            )
            for run in self._every.values()
            for place, ((path, kind, attempt), due_at) in enumerate(sorted(run.simulation.timers.items()))
        ]

    def look(self) -> None:
        """Take up what the latest events have caused."""
        for run in tuple(self._every.values()):
            if run.seen < len(run.simulation.history):
                self._look_at(run)

    def _look_at(self, run: Run) -> None:
        simulation, workflow = run.simulation, run.simulation.graph.plan.workflow
        for entry in simulation.history[run.seen :]:
            self._stage.log.append(Told(run=run.address, workflow=workflow, at=entry.at, what=entry))
            for action in entry.actions:
                if isinstance(action, AwaitTask | CompleteTask | FailTask):
                    self._stage.began.setdefault(in_run(run.address, action.path))
                elif isinstance(action, StopTask):
                    run.workers.stop(action)
        run.seen = len(simulation.history)
        run.workers.look()
        handovers, simulation.handovers = simulation.handovers, []
        for to, message in handovers:
            self._deliver(to, message)

    def _add(self, address: str, graph: Graph, run_id: str) -> Run:
        simulation = Simulation(graph, self._stage.surroundings, run_id)
        workers = Workers(self._stage, simulation, address, self._run_python)
        run = Run(address=address, simulation=simulation, workers=workers)
        self._every[simulation.run_id] = self.latest[address] = run
        return run

    # --- what runs tell each other

    def _deliver(self, to: str, message: StartChild | CancelChild | ChildEnded) -> None:
        match message:
            case StartChild():
                address = self._address_of(message)
                self._plan(0, Rank.DELIVERY, f"start of {the_run(address)}", partial(self._start, to, message))
            case CancelChild():
                self._stop(to, message)
            case ChildEnded():
                self._tell(to, message)

    def _plan(self, after_ms: int, rank: Rank, label: str, do: partial[None]) -> None:
        self._stage.plan(self._stage.surroundings.now + timedelta(milliseconds=after_ms), rank, label, do)

    def _address_of(self, message: StartChild | CancelChild) -> str:
        return in_run(self._every[message.parent.run_id].address, message.parent.path)

    def _start(self, to: str, message: StartChild) -> None:
        """A subflow node asks for a run, or for one to go on; unless it does not wait for it any more."""
        parent, address = self._every[message.parent.run_id], self._address_of(message)
        row = parent.simulation.waits_for(message.parent.path, message.parent.attempt)
        if row is None:
            return
        given = Document(bytes(message.input))
        self._stage.calls.append(Call(path=address, handler=message.workflow, input=given.value))
        number = parent.workers.number_of(message.parent.path, message.parent.attempt)
        result = self._stage.result_of(address, "", number)
        if result is not None:
            self._mock(parent, to, message, result, given)
        elif message.again and to in self._every:
            self._every[to].simulation.take_up(message)
        elif message.workflow in self._graphs:
            self._begin(address, to, message, given, is_cancelled=row.stop is not None)
        else:
            what = f"{address} asks for a run of {message.workflow}, and nothing says what comes of it"
            remedy = f"add a mock for {address}, or the file of {message.workflow} to children"
            raise Unplayable(self._stage.case.place, what, remedy)

    def _begin(self, address: str, to: str, message: StartChild, given: Document, *, is_cancelled: bool) -> None:
        graph = self._graphs[message.workflow]
        try:
            labels = {} if is_cancelled else admitted(graph, given, message.labels)
        except Refusal as refusal:
            self._end(to, message, REFUSED, error={"type": refusal.reason, "message": str(refusal)})
            return
        run = self._add(address, graph, to)
        run.simulation.start(
            given, labels=labels, parent=message.parent, deadline_at=message.deadline_at, is_cancelled=is_cancelled
        )
        if message.parent.detached:
            self._end(to, message, STARTED)

    def _mock(self, parent: Run, to: str, message: StartChild, result: Result, given: Document) -> None:
        """The run ends as its mock says."""
        if message.parent.detached:
            self._end(to, message, STARTED)
            return
        if result.real:
            what = f"{self._address_of(message)} is no python node: only their code can be run for real"
            remedy = "remove the mock: a run whose workflow's file is among children is played"
            raise Unplayable(result.place, what, remedy)
        outcome = parent.workers.outcome(message.parent.path, result, given.value)
        if result.hangs:
            return
        if isinstance(outcome, Document):
            self._end(to, message, RunState.SUCCEEDED, result.takes_ms, output=outcome)
        else:
            failure, _ = outcome
            told = f"{failure.type}: {failure.message}"
            error: dict[str, Any] = {"failure_class": failure.failure_class, "message": told, "paths": []}
            self._end(to, message, RunState.FAILED, result.takes_ms, error=error)

    def _stop(self, to: str, message: CancelChild) -> None:
        run = self._every.get(to)
        if run is not None:
            label = f"stop of {the_run(run.address)}"
            self._plan(0, Rank.REPORT, label, partial(run.simulation.stop, message))
        elif self._every[message.parent.run_id].simulation.waits_for(message.parent.path, message.parent.attempt):
            self._end(to, message, RunState.CANCELLED)

    def _end(
        self,
        to: str,
        asked: StartChild | CancelChild,
        state: str,
        after_ms: int = 0,
        *,
        output: Document | None = None,
        error: dict[str, Any] | None = None,
    ) -> None:
        """The run that a node asked for ends so, after a while; or it has started, or could not."""
        parent = asked.parent
        end = ChildEnded(
            path=parent.path,
            attempt=parent.attempt,
            child=to,
            state=state,
            error=error,
            output=NO_OUTPUT if output is None else raw_of(output),
        )
        self._tell(parent.run_id, end, after_ms)

    def _tell(self, parent: str, end: ChildEnded, after_ms: int = 0) -> None:
        run = self._every[parent]
        address = in_run(run.address, end.path)
        label = f"start of {address}" if end.state == STARTED else f"end of {address}"
        self._plan(after_ms, Rank.REPORT, label, partial(_learn, run.simulation, end))


def _learn(simulation: Simulation, end: ChildEnded) -> None:
    simulation.end_child(end)


def admitted(graph: Graph, given: Document, labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a run that is to start. Raises Refusal: its input or its labels are not such as they must be."""
    if faults := misfits(graph.plan.input_schema, given.value):
        path, problem = faults[0]
        raise InvalidInput(path=path, problem=problem, problems=in_one_line(faults))
    return labels_of(graph.plan.labels, labels, given)
