"""The names that a test file takes from its workflows: each must be there."""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from headway.coordinator.core.compiler import Code
from headway.coordinator.core.compiler.faults import Faults, nearest
from headway.coordinator.core.compiler.language import OWN_HANDLERS
from headway.coordinator.core.graph import Graph
from headway.coordinator.core.plan import RETRYABLE_NODES, WORKER_NODES, Node, NodeType
from headway.coordinator.testkit.bodies import RUN, in_run, inside, place_of, split
from headway.coordinator.testkit.cases import Mention, Naming, TestFile

Workflows: TypeAlias = Mapping[str, Mapping[str, Graph]]
"""By name: a workflow's own graph by '', and those inside of nodes by the node's place."""
_ITEM = re.compile(r"\w+\[\d+\]")
_Wrong: TypeAlias = tuple[str, str | Callable[[], str]]
"""What is wrong with a name, and what helps."""


def check_mentions(tests: TestFile, main: str, workflows: Workflows, faults: Faults) -> None:
    """Note what a test file names that is not there.

    Args:
        tests: the file.
        main: the workflow that it tries.
        workflows: that one, and those whose runs take part.
        faults: where to.
    """
    names = _Names(main, workflows)
    are_children_lost = tests.hides_names and not tests.children
    for mention in tests.mentions:
        is_of_child = mention.naming is Naming.RUN or RUN in mention.name
        wrong = names.wrong(mention) if mention.name and not (are_children_lost and is_of_child) else None
        if wrong is not None:
            faults.add(mention.place, Code.UNKNOWN_NODE, *wrong)
    started = {node.child_workflow for places in names.places.values() for node in places.values()}
    for (file, place), workflow in zip(tests.children, [name for name in workflows if name != main], strict=True):
        if workflow not in started:
            message = f"no subflow node starts {workflow}, the workflow of {file}"
            faults.add(place, Code.UNKNOWN_NODE, message, "remove it")


class _Names:
    """What can be named."""

    def __init__(self, main: str, workflows: Workflows) -> None:
        self.places = {
            workflow: {
                inside(body, node.id): node for body, graph in graphs.items() for node in graph.plan.nodes.values()
            }
            for workflow, graphs in workflows.items()
        }
        self._main = main
        every = [node for places in self.places.values() for node in places.values()]
        handlers = {node.handler for node in every}
        self._handlers = {name for name in handlers if name and not name.startswith(OWN_HANDLERS)}
        self._asked = {node.child_workflow for node in every if node.child_workflow}

    def wrong(self, mention: Mention) -> _Wrong | None:
        """None: what is named is there."""
        name = place_of(mention.name)
        match mention.naming:
            case Naming.HANDLER:
                known = self._handlers | self._asked
                return None if mention.name in known else _unknown("handler", mention.name, known)
            case Naming.NODE:
                return self._wrong_node(name)
            case Naming.CALLED:
                return self._wrong_node(name, RETRYABLE_NODES)
            case Naming.TASK:
                return self._wrong_node(name) or _vague(mention.name)
            case Naming.WORKED:
                return self._wrong_node(name, WORKER_NODES) or _vague(mention.name)
            case Naming.RUN:
                return self._wrong_run(name) or _vague(mention.name)
            case Naming.MOCKED if mention.name in self._handlers:
                return None
            case Naming.MOCKED:
                return self._wrong_mock(name)

    def _wrong_run(self, address: str) -> _Wrong | None:
        wrong = self._wrong_node(address)
        return self._enter(address) if wrong is None else wrong

    def _wrong_node(self, address: str, types: frozenset[NodeType] = frozenset(NodeType)) -> _Wrong | None:
        """`types`: what it may be."""
        run, path = split(address)
        wrong = self._wrong_run(run) if run else None
        if wrong is not None:
            return wrong
        places = self._places_in(run)
        fitting = {in_run(run, place) for place, node in places.items() if node.type in types}
        if path in places and address not in fitting:
            return f"{address} is a {places[path].type} node: it calls nobody", nearest(address, fitting)
        return None if path in places else _unknown("node", address, fitting)

    def _wrong_mock(self, address: str) -> _Wrong | None:
        """The bare name of a node inside of another will do, too."""
        run, path = split(address)
        if (run and self._wrong_run(run) is not None) or path in self._places_in(run):
            return self._wrong_node(address, RETRYABLE_NODES)
        nodes = {place: node for place, node in self._places_in(run).items() if node.type in RETRYABLE_NODES}
        bare = {node.id for node in nodes.values()}
        known = {in_run(run, place) for place in (*nodes, *bare)} | self._handlers
        return None if path in bare else _unknown("node or handler", address, known)

    def _enter(self, address: str) -> _Wrong | None:
        """What keeps the run of a node from being looked into."""
        node = self._node(address)
        if node.type is not NodeType.SUBFLOW:
            return f"{address} is no subflow node: it has no run", "name a node that starts a run"
        if node.child_workflow not in self.places:
            message = f"the run of {address} is not played: {node.child_workflow} is not among the children"
            return message, f"add the file of {node.child_workflow} to children"
        return None

    def _places_in(self, run: str) -> Mapping[str, Node]:
        """The nodes of the workflow whose run a node starts."""
        return self.places[self._node(run).child_workflow if run else self._main]

    def _node(self, address: str) -> Node:
        run, path = split(address)
        return self._places_in(run)[path]


def _vague(address: str) -> _Wrong | None:
    """A task in an item or iteration is named without saying in which; or an item is named."""
    exact = RUN.join(
        ".".join([*(body if _ITEM.fullmatch(body) else f"{place_of(body)}[0]" for body in bodies), place_of(name)])
        for *bodies, name in (path.split(".") for path in address.split(RUN))
    )
    if exact == address:
        return None
    return f"{address} does not say which item's or iteration's node is meant", f"write {exact}, in quotes"


def _unknown(what: str, name: str, known: set[str]) -> _Wrong:
    whose = "there is" if RUN in name else "the workflow has"
    return f"{whose} no {what} {name}", nearest(name, known)
