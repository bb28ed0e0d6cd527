"""The types of nodes: what keys each has, and what it is for."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.coordinator.core.compiler.language import _shared as shared
from headway.coordinator.core.compiler.language._fields import (
    DURATION_PATTERN,
    EVENT_PATTERN,
    HANDLER_PATTERN,
    MAX_CONCURRENCY,
    MAX_DURATION_MS,
    MAX_ITERATIONS,
    OWN_HANDLERS,
    Field,
    Kind,
    duration,
)
from headway.coordinator.core.plan import LOOP_NODES, WORKER_NODES, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """One type of node: its keys, and what it is for."""

    fields: tuple[Field, ...]
    doc: str
    default_queue: str = ""


NODES: Mapping[NodeType, NodeKind] = {
    NodeType.CALL: NodeKind(
        doc=("A worker runs the handler of this name. What it returns is the node's output."),
        default_queue="default",
        fields=(
            shared.TYPE,
            Field(
                name="handler",
                kind=Kind.TEXT,
                doc="The name under which a worker registered it.",
                required=True,
                pattern=f"(?!{OWN_HANDLERS}){HANDLER_PATTERN}",
            ),
            Field(name="input", kind=Kind.TEMPLATE, doc="What the handler is given.", default="null"),
            *shared.worker("default"),
        ),
    ),
    NodeType.HTTP: NodeKind(
        doc=("A worker sends an HTTP request. The output is `{status, headers, body}`."),
        default_queue="http",
        fields=(
            shared.TYPE,
            Field(name="request", kind=Kind.REQUEST, doc="What to send.", required=True),
            *shared.worker("http"),
        ),
    ),
    NodeType.PYTHON: NodeKind(
        doc=("A worker runs `run(input)` of the given source in a process of its own. What it returns is the output."),
        default_queue="python",
        fields=(
            shared.TYPE,
            Field(
                name="code",
                kind=Kind.CODE,
                doc="Defines `run(input)`. No templates in it: values come in as input.",
                required=True,
            ),
            Field(name="input", kind=Kind.TEMPLATE, doc="What `run` is given.", default="null"),
            *shared.worker("python"),
        ),
    ),
    NodeType.SWITCH: NodeKind(
        doc=(
            "Goes one way: that of the first case whose condition holds, else the default. It has"
            " no other success edges."
        ),
        fields=(
            shared.TYPE,
            Field(name="cases", kind=Kind.CASES, doc="Tried in this order.", required=True),
            Field(
                name="default", kind=Kind.NODE, doc="Where to go when no case holds; `none`: nowhere.", required=True
            ),
        ),
    ),
    NodeType.JOIN: NodeKind(
        doc=(
            "Waits for branches. Its output maps the node id of each branch that arrived to that node's output.\n\n"
            "With `need: all`, a branch that was not chosen, that failed and is `optional`, or whose failure an edge\n"
            "handled is left out; any other failure keeps the join from running. With `any` or a number, failing\n"
            "branches do not matter, and do not make the run fail, as long as enough others can still arrive; when\n"
            "too few are left, the join does not run and their failures count.\n\n"
            "With `rest: cancel`, what leads to this join and nowhere else is stopped when it fires: what has not\n"
            "started is cancelled, running handlers are told to stop and have 60 s. Whatever comes of them then does\n"
            "not count; a handler that reports success all the same has succeeded. A retry of the run that does\n"
            "this join again, for the branch that it fired at is done again, lets the others take part again, too."
        ),
        fields=(
            shared.TYPE,
            Field(
                name="need",
                kind=Kind.NEED,
                default="all",
                least=1,
                doc=(
                    "`all`: every branch that was chosen, once all are decided. `any`: the first that "
                    "arrives. A number: that many."
                ),
            ),
            Field(
                name="rest",
                kind=Kind.WORD,
                words=("cancel", "let_run"),
                default="let_run",
                doc=(
                    "With `any` or a number: what becomes of the other branches when it fires. `let_run`: they run on. "
                    "`cancel`: nodes whose every way on leads to this join are stopped."
                ),
            ),
        ),
    ),
    NodeType.SET: NodeKind(
        doc=(
            "Sets variables, which expressions of all later nodes read as `vars.name`. Two nodes that set one\n"
            "variable are either one behind the other or on ways of which only one is taken. A value that breaks the\n"
            "schema that `vars:` of the workflow gives the variable fails the node with class `verdict_fail`, type\n"
            "`VariableInvalid`. In the body of a repeat, what an iteration sets is seen by later ones and behind the\n"
            "repeat; in that of a map, whose items have no order, nothing is set. A retry that goes on with an\n"
            "iteration finds the variables as they are."
        ),
        fields=(shared.TYPE, Field(name="values", kind=Kind.TEMPLATES, doc="Name to value.", required=True)),
    ),
    NodeType.FINISH: NodeKind(
        doc=(
            "Ends the run: starts nothing more, tells running handlers to stop, and the run ends\n"
            "when they have (or after the grace, 60 s). Nothing follows it. In the body of a map or\n"
            "repeat, too, it ends the whole run."
        ),
        fields=(
            shared.TYPE,
            Field(
                name="outcome",
                kind=Kind.WORD,
                words=("succeeded", "failed"),
                doc="How the run ends.",
                default="succeeded",
            ),
            Field(name="output", kind=Kind.TEMPLATE, doc="The run's output.", default="null"),
            Field(name="message", kind=Kind.TEMPLATE, doc="With outcome `failed`: why.", default="none"),
        ),
    ),
    NodeType.WAIT: NodeKind(
        doc="Waits for a while or until an instant; exactly one of the two.",
        fields=(
            shared.TYPE,
            Field(
                name="duration",
                kind=Kind.TEMPLATE,
                shape="string",
                pattern=DURATION_PATTERN,
                doc="How long: `15m`, or a template that yields such a text, seconds as decimals (`1.5s`) included.",
                least=1,
                most=MAX_DURATION_MS,
            ),
            Field(
                name="until",
                kind=Kind.TEMPLATE,
                shape="string",
                doc=(
                    "An instant with its offset, `2030-01-31T09:00:00+01:00`, or with the name of its zone, "
                    "`2030-01-31T09:00:00 Europe/Vienna`; or a template that yields one."
                ),
            ),
            Field(
                name="zone",
                kind=Kind.TEMPLATE,
                doc="The zone of an `until` that names none, such as `Europe/Vienna`.",
            ),
        ),
    ),
    NodeType.WAIT_FOR_EVENT: NodeKind(
        doc=(
            "Waits for a signal of this name, also one that came before it began. Its payload is the output, or with\n"
            "`count` the list of all payloads. Each signal goes to one node, of those that it fits to the one that\n"
            "has waited longest; one that fits none is kept. A payload on which the filter cannot be evaluated does\n"
            "not fit. When the run is retried from here, another signal is needed, unless `reuse` says that the old\n"
            "one will do. In the body of a map, let an expression tell the items apart, as `event: paper-${item.id}`,\n"
            "or a `filter` on `item`; with thousands of items the first, for each signal asks all whose name it has."
        ),
        fields=(
            shared.TYPE,
            Field(
                name="event",
                kind=Kind.TEMPLATE,
                shape="string",
                pattern=EVENT_PATTERN,
                doc="The signal's name, or a template that yields it when the node begins.",
                required=True,
            ),
            Field(name="filter", kind=Kind.FILTER, doc="Which signals fit.", default="true"),
            Field(
                name="payload_schema",
                kind=Kind.SCHEMA,
                doc="What a payload must look like to fit.",
                default="anything",
            ),
            Field(name="count", kind=Kind.INTEGER, doc="How many signals it waits for.", least=1, most=1_000),
            Field(
                name="reuse",
                kind=Kind.BOOLEAN,
                doc="Whether a retry of the run may use its signals again.",
                default="false",
            ),
            shared.total("How long to wait; then it fails with class `timeout`."),
        ),
    ),
    NodeType.MAP: NodeKind(
        doc=(
            "Does its body for each item of a list, several at once. In the body, `item` is the item and `index` its\n"
            "place, from 0; those of a map further out are `loops.name.item` and `loops.name.index`. The output is\n"
            "the list of the items' results in their order, null for those that failed; `nodes.name.counts` has\n"
            "`total`, `succeeded`, `failed`, `cancelled` and `left_out`.\n\n"
            "Items for which `where` does not hold are left out: nothing is done for them, and they have no result.\n"
            "`index` stays the place in the list, while the results, and the numbers in paths such as `resize[12]`,\n"
            "count those that are done. So a list of any length is filtered: `where`, an `output` and a body that is\n"
            "`{type: join}`, and another map goes over what is left. An item whose `where` cannot be evaluated has\n"
            "failed. A retry of the run asks again; where it then does not hold, the item keeps its number, for the\n"
            "others keep theirs: it counts as succeeded, and its result is null.\n\n"
            "The list is evaluated once. A map's entries are gone through as `{key, value}`. Results stay rows of\n"
            "their own: another map goes `over` them however many they are, and `nodes.resize.output[0].url`,\n"
            "`size(nodes.resize.output)` and, in another map, `nodes.resize.output[index]` read no others. Where they\n"
            "are put together, they must fit into one payload.\n\n"
            "An item ends as a run does: failures that are handled in the body do not count, and the first that is\n"
            "not handled stops the item. When more items fail than `tolerate` says, the map fails, and what has not\n"
            "started in others is cancelled. A retry of the run does failed items again,\n"
            "not others; `--from resize[12].crop` does one node of one item again."
        ),
        fields=(
            shared.TYPE,
            Field(name="over", kind=Kind.TEMPLATE, doc="The list, or a map.", required=True),
            Field(
                name="where",
                kind=Kind.CONDITION,
                doc="Asked about each `item` and `index`: items for which it does not hold are left out.",
                default="true",
            ),
            shared.body("What is done for each: one node, called `step`, or `nodes` and `edges`. No `set` in it."),
            shared.result("an item"),
            Field(
                name="max_concurrency",
                kind=Kind.INTEGER,
                doc="So many items are under way at once.",
                default="100",
                least=1,
                most=MAX_CONCURRENCY,
            ),
            shared.TOTAL_OF_A_GRAPH,
            Field(
                name="tolerate",
                kind=Kind.TOLERATE,
                doc="How many items may fail without the map failing.",
                default="none",
            ),
            shared.OPTIONAL,
        ),
    ),
    NodeType.REPEAT: NodeKind(
        doc=(
            "Does its body again and again. `last` is the result of the latest iteration that is over, null before\n"
            "the first, and `index` the iteration's number, from 0; those of a repeat further out are\n"
            "`loops.name.last` and `loops.name.index`. The output is the last iteration's result;\n"
            "`nodes.name.counts` counts iterations.\n\n"
            "An iteration that fails makes the repeat fail; a retry of the run then goes on with that iteration. When\n"
            "`max_iterations` did not do, it fails with the type `IterationsExhausted`."
        ),
        fields=(
            shared.TYPE,
            shared.body("What is done: one node, called `step`, or `nodes` and `edges`."),
            Field(name="until", kind=Kind.CONDITION, doc="Asked after each iteration: it ends when this holds."),
            Field(
                name="while",
                kind=Kind.CONDITION,
                doc="Asked before each iteration, the first included: it ends when this does not hold.",
            ),
            Field(
                name="max_iterations",
                kind=Kind.INTEGER,
                doc="More are a failure.",
                required=True,
                least=1,
                most=MAX_ITERATIONS,
            ),
            shared.TOTAL_OF_A_GRAPH,
            duration("delay", "The pause between two iterations.", default="none"),
            shared.result("an iteration"),
            Field(
                name="keep_last",
                kind=Kind.INTEGER,
                doc=(
                    "So many iterations that succeeded keep their rows and can be done again; the one before them has "
                    "its own for `last`. The history keeps the events of all while the run is kept. Not around a map "
                    "or repeat."
                ),
                default="all",
                least=1,
                most=MAX_ITERATIONS,
            ),
            shared.OPTIONAL,
        ),
    ),
    NodeType.SUBFLOW: NodeKind(
        doc=(
            "Starts a run of another workflow of the namespace and waits for its end. The child's output is\n"
            "the node's. A cancel, a time-out of the node and whatever else stops it are passed on to the child, and\n"
            "so is the run's deadline. Each attempt by `retry` is a new child; a retry of the failed run goes on\n"
            "inside the child that failed. At most 16 runs lie in one another."
        ),
        fields=(
            shared.TYPE,
            Field(name="workflow", kind=Kind.NAME, doc="The workflow to run.", required=True),
            Field(
                name="version",
                kind=Kind.INTEGER,
                doc="The version to run.",
                default="the one that is deployed when the child starts",
                least=1,
            ),
            Field(name="input", kind=Kind.TEMPLATE, doc="The child's input, rendered once.", default="{}"),
            shared.labels("Labels of the child, besides those that its definition computes; null: no such label."),
            Field(
                name="key",
                kind=Kind.TEMPLATE,
                doc="The child's business key, a text or a number; null: none. The node fails when another run has it.",
                default="none",
            ),
            Field(
                name="detach",
                kind=Kind.BOOLEAN,
                doc="The node succeeds with `{run_id}` as soon as the child has started, and nothing stops it later.",
                default="false",
            ),
            shared.retry("When a child that failed is followed by another."),
            shared.total("How long all its children may take together."),
            shared.output_schema(
                "What the output must look like; another fails the attempt with class `verdict_fail`."
            ),
            shared.OPTIONAL,
            shared.COMPENSATE,
        ),
    ),
}

CAN_FAIL_LATE = WORKER_NODES | LOOP_NODES | {NodeType.WAIT_FOR_EVENT, NodeType.SUBFLOW}  # can time out
