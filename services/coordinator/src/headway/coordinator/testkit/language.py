"""What may stand in a test file, as data: files are checked against these tables, docs/testing.md is made from them."""

from dataclasses import replace
from enum import StrEnum

from headway.coordinator.core.compiler.language import MAX_DURATION_MS, Field, Kind
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.plan import FailureClass

MOST_ORDERS = 10_000


class Part(StrEnum):
    """Kinds of values that only a test file has."""

    MOCKS = "map of nodes or handlers to mocks"
    CASES = "list of test cases"
    VALUE = "any value"
    ACTS = "list of acts"
    HEARTBEATS = "list of heartbeats"
    MOCKED_TASKS = "list of mocks"
    CRASHES = "list of crashes"
    EXPECTATIONS = "expectations"
    FAILURE = "failure"
    ERROR = "expected error"
    NODES = "map of nodes to expectations"
    CALLS = "list of expected calls"
    RUNS = "map of subflow nodes to expectations"
    INSTANT = "instant with its offset"


class Outcome(StrEnum):
    """How a case's run can end."""

    SUCCEEDED = RunState.SUCCEEDED.value
    FAILED = RunState.FAILED.value
    CANCELLED = RunState.CANCELLED.value
    RUNNING = RunState.RUNNING.value
    REFUSED = "refused"
    ENDED = "ended"


class Crash(StrEnum):
    """What can go wrong around one attempt."""

    WORKER_DIES = "worker_dies"
    REPORT_LATE = "report_late"
    REPORT_LOST = "report_lost"
    REPORT_TWICE = "report_twice"
    DELIVERED_TWICE = "delivered_twice"


class Refused(StrEnum):
    """Whether a run refuses what somebody does."""

    NEVER = "never"
    MAY = "may"
    MUST = "must"


NOT_REACHED = "not_reached"
STATES = (*(state.value for state in TaskState), NOT_REACHED)


def _duration(name: str, doc: str, *, default: str = "", required: bool = False, least: int = 0) -> Field:
    return Field(
        name=name, kind=Kind.DURATION, doc=doc, default=default, required=required, least=least, most=MAX_DURATION_MS
    )


FILE = (
    Field(name="workflow", kind=Kind.TEXT, doc="The workflow's file, seen from this one.", required=True),
    Field(
        name="children",
        kind=Kind.TEXTS,
        doc="Files of workflows that subflow nodes start, seen from this one: their runs are played, too.",
        default="none: they are mocked",
    ),
    Field(name="mocks", kind=Part.MOCKS, doc="What workers do, in all cases.", default="none"),
    Field(name="cases", kind=Part.CASES, doc="What is tried.", required=True),
)

CASE = (
    Field(name="name", kind=Kind.TEXT, doc="What it shows; told when it fails.", required=True),
    Field(name="input", kind=Part.VALUE, doc="The run's input.", default="{}"),
    Field(name="mocks", kind=Part.MOCKS, doc="As for the file; these come first.", default="none"),
    Field(name="at", kind=Part.ACTS, doc="What somebody does to the run, and when.", default="none"),
    Field(name="crashes", kind=Part.CRASHES, doc="What breaks.", default="none"),
    Field(name="starts_at", kind=Part.INSTANT, doc="When the run starts.", default="2030-01-01T00:00:00Z"),
    _duration("until", "How long to look at it.", default="until nothing more happens by itself"),
    Field(
        name="seed",
        kind=Kind.INTEGER,
        doc="Draws the jitter of pauses; without it, pauses are as long as they can be.",
        default="no jitter",
    ),
    Field(
        name="order",
        kind=Kind.TEXTS,
        doc="Of what happens at the same instant, which goes first, in the words of the story.",
        default="acts, reports, timers",
    ),
    Field(
        name="interleavings",
        kind=Kind.WORD,
        words=("one", "all"),
        doc="`all`: try every order of what happens at the same instant; each must meet the expectations.",
        default="one",
    ),
    Field(
        name="limit",
        kind=Kind.INTEGER,
        doc="With `interleavings: all`: how many orders at most; the report says when there are more.",
        least=1,
        most=MOST_ORDERS,
        default="500",
    ),
    Field(name="expect", kind=Part.EXPECTATIONS, doc="What must have come of it.", default="it succeeded"),
)

RESULT = (
    Field(
        name="output",
        kind=Kind.TEMPLATE,
        doc="What the handler returns; in templates, `input` is what the handler is given.",
        default="null",
    ),
    Field(name="fails", kind=Part.FAILURE, doc="The handler fails instead."),
    Field(name="hangs", kind=Kind.BOOLEAN, doc="It never ends by itself.", default="false"),
    Field(name="real", kind=Kind.BOOLEAN, doc="`python` nodes only: their code is run.", default="false"),
    _duration("takes", "From the lease to the report.", default="0s"),
    _duration("queued", "How long no worker takes it.", default="0s"),
    Field(name="heartbeats", kind=Part.HEARTBEATS, doc="The signs of life that it gives.", default="none: silence"),
)
MOCK = (
    *RESULT,
    Field(
        name="in_turn",
        kind=Part.MOCKED_TASKS,
        doc="Instead of all others: what comes of one task after the other, in the order in which they begin.",
    ),
)

HEARTBEAT = (
    _duration("after", "When, from the lease.", default="`every`, or 0s"),
    _duration("every", "How long until the next one like it.", default="only one", least=1),
    _duration("until", "With `every`: when it falls silent, from the lease.", default="the attempt's end"),
    Field(
        name="progress",
        kind=Kind.BOOLEAN,
        doc="Whether it tells of progress; a checkpoint always does.",
        default="false",
    ),
    Field(name="checkpoint", kind=Part.VALUE, doc="What the next attempt finds as its checkpoint."),
)

FAILURE = (
    Field(name="type", kind=Kind.TEXT, doc="The error's type, such as `CardDeclined`.", default="Failed"),
    Field(
        name="class",
        kind=Kind.WORD,
        words=tuple(FailureClass),
        doc="The failure class.",
        default=FailureClass.EXEC_FAILED.value,
    ),
    Field(name="message", kind=Kind.TEMPLATE, doc="For people.", default="mocked"),
    Field(name="details", kind=Kind.TEMPLATES, doc="Read by expressions as `error.name`.", default="{}"),
    Field(name="final", kind=Kind.BOOLEAN, doc="Trying again cannot help.", default="false"),
)

ACT = (
    _duration("after", "When, from the start of the run that is tried.", default="0s"),
    Field(
        name="run",
        kind=Kind.TEXT,
        doc="To the run of this subflow node; `skip` and `from` name nodes in it then.",
        default="the one that is tried",
    ),
    Field(name="signal", kind=Kind.TEXT, doc="Send a signal of this name."),
    Field(name="payload", kind=Part.VALUE, doc="The signal's payload.", default="null"),
    Field(name="cancel", kind=Kind.BOOLEAN, doc="Cancel the run.", default="false"),
    _duration("grace", "With `cancel`: how long handlers may take to stop.", default="30s"),
    Field(name="pause", kind=Kind.BOOLEAN, doc="Pause the run.", default="false"),
    Field(name="pause_clock", kind=Kind.BOOLEAN, doc="With `pause`: its time-outs stand still.", default="false"),
    Field(name="resume", kind=Kind.BOOLEAN, doc="Resume the run.", default="false"),
    Field(name="skip", kind=Kind.TEXT, doc="Give this node its output by hand, in a paused or failed run."),
    Field(name="output", kind=Part.VALUE, doc="With `skip`: the output.", default="null"),
    Field(name="retry", kind=Kind.BOOLEAN, doc="Retry the run, which is over.", default="false"),
    Field(name="from", kind=Kind.TEXTS, doc="With `retry`: from these nodes.", default="all that failed"),
    Field(
        name="render_inputs",
        kind=Kind.BOOLEAN,
        doc="With `retry`: these nodes render their input anew.",
        default="false",
    ),
    Field(
        name="refused",
        kind=Kind.WORD,
        words=tuple(Refused),
        doc="Whether the run refuses it, because it is over, not over, stopping, or not paused.",
        default=Refused.NEVER.value,
    ),
)

CRASH = (
    Field(name="node", kind=Kind.TEXT, doc="Around which node.", required=True),
    Field(name="attempt", kind=Kind.INTEGER, doc="Around which attempt.", least=1, default="1"),
    Field(
        name="crash",
        kind=Kind.WORD,
        words=tuple(Crash),
        doc=(
            "`worker_dies`: before it reports; the lease runs out. `report_late`: the worker freezes, loses its lease "
            "and reports afterwards. `report_lost`: the report arrives a second later, when it is sent again. "
            "`report_twice`: the answer is lost, and the worker reports again. `delivered_twice`: a second worker gets "
            "the same message."
        ),
        required=True,
    ),
)

EXPECT = (
    Field(
        name="outcome",
        kind=Kind.WORD,
        words=tuple(Outcome),
        doc="`running`: it waits for somebody. `refused`: the input does not fit the `input_schema`. "
        "`ended`: it is over, in whatever way.",
        default=Outcome.SUCCEEDED.value,
    ),
    Field(name="output", kind=Part.VALUE, doc="The run's output, exactly."),
    Field(name="output_has", kind=Part.VALUE, doc="The run's output: these keys, perhaps among others."),
    Field(name="error", kind=Part.ERROR, doc="The run's error."),
    Field(name="path", kind=Kind.TEXTS, doc="All nodes that ran, in the order in which they began."),
    Field(name="path_has", kind=Kind.TEXTS, doc="Nodes that ran in this order, perhaps among others."),
    Field(name="never", kind=Kind.TEXTS, doc="Nodes that did not run."),
    Field(name="nodes", kind=Part.NODES, doc="What became of nodes."),
    Field(name="runs", kind=Part.RUNS, doc="What became of the runs that subflow nodes started."),
    Field(name="calls", kind=Part.CALLS, doc="What handlers, and the runs of subflow nodes, were given."),
    _duration("duration", "From the run's start to its end, exactly."),
    _duration("within", "From the run's start to its end, at most."),
)

RUN = tuple(
    replace(field, default="") if field.name == "outcome" else field
    for field in EXPECT
    if field.name in ("outcome", "output", "output_has", "error")
)

ERROR = (
    Field(
        name="class",
        kind=Kind.WORD,
        words=(*FailureClass, RunState.CANCELLED.value),
        doc="The failure class; `cancelled` is that of a run.",
    ),
    Field(name="message", kind=Kind.TEXT, doc="The message, exactly."),
    Field(name="says", kind=Kind.TEXT, doc="A part of the message."),
    Field(name="type", kind=Kind.TEXT, doc="Of a node: the error's type."),
    Field(name="details", kind=Part.VALUE, doc="Of a node: these details, perhaps among others."),
    Field(name="paths", kind=Kind.TEXTS, doc="Of a run: the nodes that made it fail."),
)

NODE_ERROR = tuple(field for field in ERROR if field.name != "paths")
RUN_ERROR = tuple(field for field in ERROR if field.name not in ("type", "details"))

NODE = (
    Field(name="state", kind=Kind.WORD, words=STATES, doc="Where it stands in the end."),
    Field(name="output", kind=Part.VALUE, doc="Its output, exactly."),
    Field(name="output_has", kind=Part.VALUE, doc="Its output: these keys, perhaps among others."),
    Field(name="error", kind=Part.ERROR, doc="Its error."),
    Field(name="attempts", kind=Kind.INTEGER, doc="How many there were, those that were lost included.", least=1),
)

CALL = (
    Field(name="handler", kind=Kind.TEXT, doc="Of this handler, or for a run of this workflow;"),
    Field(name="node", kind=Kind.TEXT, doc="or of this node; `resize.crop` of all items, `resize[12].crop` of one."),
    Field(name="input", kind=Part.VALUE, doc="Calls with this input, exactly.", default="any"),
    Field(name="input_has", kind=Part.VALUE, doc="Calls with these keys in their input, perhaps among others."),
    Field(name="checkpoint", kind=Part.VALUE, doc="Calls that found this checkpoint, exactly.", default="any"),
    Field(name="times", kind=Kind.INTEGER, doc="How many such calls; 0: none.", default="at least one"),
)
