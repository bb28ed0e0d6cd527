"""A page per type of node, for docs/nodes/: keys and defaults from the tables of the language, and what is told here.

Each page has a whole workflow as its example, which the tests compile and run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headway.coordinator.core.compiler import language
from headway.coordinator.core.compiler.reference import table
from headway.coordinator.core.failure_types import FailureType
from headway.coordinator.core.plan import WORKER_NODES, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A way in which a node fails: class, type, when, and whether `retry` tries again."""

    failure_class: str
    type: str
    when: str
    retried: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the tables of the language do not know of a type.

    Attributes:
        output: what its output is.
        endings: how it fails, besides what all its kind share.
        example: a whole workflow.
        more: a link for what is told elsewhere; may be empty.
    """

    output: str
    example: str
    endings: tuple[Ending, ...] = ()
    more: str = ""


_OF_ALL = (
    Ending(
        failure_class="exec_failed",
        type=FailureType.EXPRESSION_ERROR,
        when="a condition of an edge to it, or an expression in it, cannot be evaluated",
    ),
    Ending(
        failure_class="exec_failed",
        type=FailureType.DECISION_TOO_LARGE,
        when="what is decided together with it computes more than the [limits](../language.md#limits) allow",
    ),
    Ending(
        failure_class="exec_failed",
        type=FailureType.PAYLOAD_TOO_LARGE,
        when="what is put together for it, or what it yields, has more than 1 MiB as JSON",
    ),
)
_OF_LOOPS = (
    Ending(
        failure_class="timeout",
        type=FailureType.TOTAL_TIMEOUT,
        when="all of it takes longer than `timeout`; it fails when what was under way has stopped",
    ),
)
_OUTPUT_INVALID = Ending(
    failure_class="verdict_fail",
    type=FailureType.OUTPUT_INVALID,
    when="its output breaks `output_schema`; `error.path` and `error.faults` say where",
    retried=True,
)
_OF_WORKERS = (
    _OUTPUT_INVALID,
    Ending(
        failure_class="timeout",
        type=FailureType.ATTEMPT_TIMEOUT,
        when="an attempt takes longer than `timeout.attempt`",
        retried=True,
    ),
    Ending(
        failure_class="timeout",
        type=FailureType.QUEUE_TIMEOUT,
        when="no worker takes it within `timeout.queue`",
    ),
    Ending(
        failure_class="timeout",
        type=FailureType.TOTAL_TIMEOUT,
        when="all of it takes longer than `timeout.total`",
    ),
    Ending(
        failure_class="exec_failed",
        type=FailureType.LEASE_LOST,
        when="more workers are lost over it than `retry.max_losses` allows",
    ),
    Ending(
        failure_class="exec_failed",
        type=FailureType.CANCELLED,
        when="the worker cancelled it, although nobody had asked for that",
        retried=True,
    ),
)

PAGES: Mapping[NodeType, Page] = {
    NodeType.CALL: Page(
        output="What the handler returns: any JSON value of at most 1 MiB.",
        endings=(
            Ending(
                failure_class="exec_failed",
                type="the exception's class, or what the handler names",
                when="the handler raises; not when it says that the failure is final",
                retried=True,
            ),
            Ending(failure_class="exec_failed", type="UnknownHandler", when="its worker has no handler of this name"),
            Ending(
                failure_class="exec_failed",
                type="InvalidOutput",
                when="what the handler returns is no JSON, or more than 1 MiB of it",
            ),
            Ending(
                failure_class="timeout",
                type=FailureType.HEARTBEAT_TIMEOUT,
                when="the handler gives no heartbeat for `timeout.heartbeat`",
                retried=True,
            ),
            Ending(
                failure_class="timeout",
                type=FailureType.STALL_TIMEOUT,
                when="the handler tells of no progress for `timeout.stall`",
                retried=True,
            ),
        ),
        example="""\
workflow: ship_an_order
nodes:
  ship:
    type: call
    handler: shipping.create
    queue: shipping
    input: {order: "${input.order_id}"}
    retry: {max_attempts: 5, initial: 1s, factor: 2, max: 1m}
    timeout: {attempt: 30s, total: 10m}
  sorry: {type: call, handler: mail.sorry, input: {why: "${error.message}"}}
edges:
  - {from: ship, to: sorry, on: failure}
""",
    ),
    NodeType.HTTP: Page(
        output="`{status, headers, body}`; the body decoded when it is JSON.",
        more="[What each answer means, and its failures by type](../language.md#request).",
        example="""\
workflow: reserve_stock
nodes:
  reserve:
    type: http
    request:
      method: POST
      url: "https://stock.example.com/reserve"
      body: {order: "${input.order_id}"}
      expect: [200, 201]
    retry: {max_attempts: 3}
    timeout: {attempt: 30s}
  sold_out: {type: call, handler: mail.sorry}
edges:
  - {from: reserve, to: sold_out, on: failure, errors: [HttpStatus], when: error.status == 409}
""",
    ),
    NodeType.PYTHON: Page(
        output="What `run` returns: any JSON value of at most 1 MiB.",
        more="[Its limits, and its failures by type](../language.md#inline-code).",
        example="""\
workflow: rate_an_order
nodes:
  rate:
    type: python
    input: "${input}"
    code: |
      def run(order):
          return {"score": order["amount"] / 1000}
""",
    ),
    NodeType.SWITCH: Page(
        output="`{to}`: the node that it went to; null when it went nowhere.",
        example="""\
workflow: approve_large_orders
nodes:
  gate:
    type: switch
    cases:
      - {when: input.amount > 1000, to: approve}
    default: ship
  approve: {type: call, handler: people.ask}
  ship: {type: call, handler: shipping.create}
edges:
  - [approve, ship]
""",
    ),
    NodeType.JOIN: Page(
        output="A map from the id of each branch that arrived to that node's output.",
        example="""\
workflow: the_first_of_two_offers
nodes:
  one: {type: call, handler: offers.ask, input: one}
  other: {type: call, handler: offers.ask, input: other}
  first: {type: join, need: any, rest: cancel}
  order: {type: call, handler: orders.place, input: "${nodes.first.output}"}
edges:
  - [one, first]
  - [other, first, order]
""",
    ),
    NodeType.SET: Page(
        output="The values that it set.",
        endings=(
            Ending(
                failure_class="verdict_fail",
                type=FailureType.VARIABLE_INVALID,
                when="a value breaks the schema that `vars` of the workflow gives its variable",
            ),
        ),
        example="""\
workflow: remember_the_total
nodes:
  total: {type: set, values: {cents: "${input.amount * 100}", note: "of ${input.order_id}"}}
  bill: {type: call, handler: billing.send, input: {cents: "${vars.cents}", note: "${vars.note}"}}
edges:
  - [total, bill]
""",
    ),
    NodeType.FINISH: Page(
        output="The run's output, when the run ends with it.",
        example="""\
workflow: stop_at_a_refusal
nodes:
  ask: {type: call, handler: people.ask}
  gate: {type: switch, cases: [{when: nodes.ask.output == "no", to: refused}], default: done}
  refused: {type: finish, outcome: failed, message: "somebody said ${nodes.ask.output}"}
  done: {type: finish, output: {answer: "${nodes.ask.output}"}}
edges:
  - [ask, gate]
""",
    ),
    NodeType.WAIT: Page(
        output="None: null.",
        endings=(
            Ending(
                failure_class="exec_failed",
                type=FailureType.INVALID_DURATION,
                when="`duration` yields no text such as `90s`, or more than ten years",
            ),
            Ending(
                failure_class="exec_failed",
                type=FailureType.INVALID_INSTANT,
                when="`until` yields no instant with either an offset or a zone, or there is no such zone",
            ),
        ),
        example="""\
workflow: remind_twice
nodes:
  first: {type: call, handler: mail.remind}
  pause: {type: wait, duration: 1d}
  again: {type: call, handler: mail.remind}
  hold: {type: wait, until: "${input.due}"}
edges:
  - [first, pause, again, hold]
""",
    ),
    NodeType.WAIT_FOR_EVENT: Page(
        output="The signal's payload; with `count`, the list of all.",
        endings=(
            Ending(
                failure_class="timeout",
                type=FailureType.EVENT_TIMEOUT,
                when="no signal that fits, or not enough of them, come within `timeout`",
            ),
            Ending(
                failure_class="exec_failed",
                type=FailureType.INVALID_EVENT_NAME,
                when="`event` yields no text of 1 to 200 characters",
            ),
        ),
        example="""\
workflow: ask_for_approval
nodes:
  approve: {type: wait_for_event, event: approval, timeout: 2d}
  ship: {type: call, handler: shipping.create, input: {by: "${nodes.approve.output.by}"}}
  escalate: {type: call, handler: mail.escalate}
edges:
  - [approve, ship]
  - {from: approve, to: escalate, on: timeout}
""",
    ),
    NodeType.MAP: Page(
        output="The list of the items' results in their order; null for those that failed.",
        endings=(
            *_OF_LOOPS,
            Ending(
                failure_class="exec_failed", type=FailureType.ITEMS_FAILED, when="more items fail than `tolerate` says"
            ),
            Ending(
                failure_class="exec_failed", type=FailureType.NOT_A_LIST, when="`over` gives neither a list nor a map"
            ),
        ),
        example="""\
workflow: thumbnails
nodes:
  resize:
    type: map
    over: [cat.png, dog.png]
    tolerate: {percent: 50}
    body: {type: call, handler: images.resize, input: {file: "${item}", number: "${index}"}}
  publish: {type: call, handler: images.publish, input: "${nodes.resize.output}"}
edges:
  - [resize, publish]
""",
    ),
    NodeType.REPEAT: Page(
        output="The last iteration's result; null when there was none.",
        endings=(
            *_OF_LOOPS,
            Ending(
                failure_class="exec_failed", type=FailureType.ITERATIONS_EXHAUSTED, when="`max_iterations` did not do"
            ),
            Ending(
                failure_class="exec_failed",
                type=FailureType.NOTHING_SUCCEEDED,
                when="nothing in an iteration succeeded, and all that failed was handled or optional",
            ),
            Ending(
                failure_class="that of the failure",
                type="that of the failure",
                when="something in an iteration failed and was not handled",
            ),
        ),
        example="""\
workflow: poll_a_job
nodes:
  poll:
    type: repeat
    until: last.status == 200
    max_iterations: 100
    delay: 10s
    body: {type: call, handler: jobs.ask, input: {try: "${index}"}}
""",
    ),
    NodeType.SUBFLOW: Page(
        output="The child's output; with `detach`, `{run_id}`.",
        endings=(
            Ending(
                failure_class="that of the child",
                type=FailureType.SUBFLOW_FAILED,
                when="the child failed; `error.run_id` names it, `error.nodes` its failing nodes",
                retried=True,
            ),
            Ending(
                failure_class="exec_failed",
                type=FailureType.SUBFLOW_CANCELLED,
                when="somebody else cancelled the child",
            ),
            Ending(
                failure_class="exec_failed",
                type=FailureType.SUBFLOW_REFUSED,
                when="the child could not start; `error.reason` says why, such as `WORKFLOW_NOT_FOUND`",
            ),
            Ending(
                failure_class="exec_failed",
                type=FailureType.SUBFLOW_KEY_TAKEN,
                when="another run has the `key`, `error.key`: `error.run_id` names it",
            ),
            Ending(
                failure_class="exec_failed", type=FailureType.SUBFLOW_TOO_DEEP, when="16 runs lie around it already"
            ),
            Ending(failure_class="timeout", type=FailureType.TOTAL_TIMEOUT, when="it took longer than `timeout`"),
            _OUTPUT_INVALID,
        ),
        example="""\
workflow: purchase
nodes:
  pay: {type: subflow, workflow: payment, input: {amount: "${input.amount}"}}
  ship: {type: call, handler: shipping.create, input: {paid: "${nodes.pay.output}"}}
  sorry: {type: call, handler: mail.sorry, input: {why: "${error.message}"}}
edges:
  - [pay, ship]
  - {from: pay, to: sorry, on: failure}
""",
    ),
}


def endings_of(node_type: NodeType) -> tuple[Ending, ...]:
    """Returns all ways in which a type of node fails."""
    return (*PAGES[node_type].endings, *(_OF_WORKERS if node_type in WORKER_NODES else ()), *_OF_ALL)


def page(node_type: NodeType) -> str:
    """Returns the page of a type of node."""
    kind, told = language.NODES[node_type], PAGES[node_type]
    rows = "".join(
        f"| {_cell(each.failure_class)} | {_cell(each.type)} | {each.when} | {'yes' if each.retried else 'no'} |\n"
        for each in endings_of(node_type)
    )
    fields = [field for field in kind.fields if field.name != "type"]
    more = f"\n{told.more}\n" if told.more else ""
    return (
        f"# {node_type.value}\n\nThis page is generated from the code: `make docs`. The language: "
        f"[language.md](../language.md).\n\n{kind.doc}\n\n## Example\n\n```yaml\n{told.example}```\n\n## Keys\n\n"
        f"{table(fields)}{_linked(node_type)}\n## Output\n\n{told.output}\n{more}\n## Failures\n\n"
        f"What `errors:` of an edge can name, and whether `retry` tries again.\n\n"
        f"| class | type | when | retried |\n| --- | --- | --- | --- |\n{rows}"
    )


def _cell(text: str) -> str:
    return text if " " in text else f"`{text}`"


def _linked(node_type: NodeType) -> str:
    links = list(_links(node_type))
    return f"\nMore on {', '.join(links)}.\n" if links else ""


def _links(node_type: NodeType) -> Iterator[str]:
    names = {field.name for field in language.NODES[node_type].fields}
    if node_type in WORKER_NODES:
        yield from (f"[{name}](../language.md#{name})" for name in ("retry", "timeout") if name in names)
    yield from (f"[{name}](../language.md#{name})" for name in ("request", "cases") if name in names)
