"""Words of other workflow languages, and what to write here instead.

Whoever comes from a CI service, a state machine or a cluster's workflows writes `needs:`, `steps:` or `retries: 3`.
Each is a key or a word that has no meaning here; these tables say which one has. Nothing here is part of the language.
"""

import re
from collections.abc import Iterable, Mapping

from headway.coordinator.core.compiler.language import NODES
from headway.coordinator.core.compiler.slips import meant_duration
from headway.coordinator.core.compiler.yaml_tree import Yaml, YamlList, YamlScalar
from headway.coordinator.core.durations import parse_duration

_DURATION = re.compile(r": [0-9]+[a-z]+(?=\}|\Z| )")


def normal(word: str) -> str:
    """Returns a word as all ways to spell it: `TimeoutSeconds` and `timeout-seconds` are `timeoutseconds`."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _by_word(table: Mapping[str, str]) -> dict[str, str]:
    """Turns remedies, each with the words that ask for it, the other way round; the words as `normal` spells them."""
    return {normal(word): remedy for remedy, words in table.items() for word in words.split()}


_EDGES = "write it under edges: [[before, this]]"
_ONWARD = "write it under edges: [[this, next]]"
_WAITS = "remove it: the node waits for its child, unless detach is true"
_RETRY = "write retry: {max_attempts: 3}, the first attempt included"
_WORKFLOW: Mapping[str, str] = _by_word(
    {
        "write workflow: and the workflow's name": "name id metadata document dag_id workflow_name",
        "write nodes: a map of names to nodes": "jobs steps tasks task states activities stages do dag",
        "write edges: [[a, b]]": "transitions dependencies connections links order flow sequence",
        "remove it: each deploy makes a new version": (
            "version apiversion kind schemaversion dsl restartable workflowstatuslistenerenabled"
        ),
        "remove it, and write nodes: and edges: at the top of the file": "spec template definition",
        "remove it: what no edge leads to starts with the run": "startat start entrypoint initial",
        "remove it: runs are started by an application or by headway start": (
            "on trigger triggers schedule schedules schedule_interval cron events start_date catchup"
        ),
        "pass it as input of the run; input_schema says what that looks like": (
            "env inputs input params parameters inputparameters inputtemplate arguments secrets environment data"
        ),
        "write vars: names and JSON Schemas, and set nodes that set them": "variables",
        "write a finish node with output:": "output outputs return returns outputparameters",
        "write deadline: 1h": (
            "timeout timeouts timeoutseconds timeoutminutes maxduration activedeadlineseconds executiontimeout "
            "workflowexecutiontimeout workflowruntimeout"
        ),
        "write it under defaults:": "retry retries queue retrypolicy retrystrategy taskqueue",
        "write finally: what runs at the end, however the run ends": "onexit always cleanup post hooks",
        "write an edge {from: …, to: …, on: failure}": "catch onerror errorhandler fallback failureworkflow",
        "write description:": "comment title summary doc documentation",
        "write nodes: in the body of a map or repeat": "templates",
        "write labels: {name: value}": "tags annotations searchattributes",
        "write retention: 30d": "ttl ttlstrategy ttlsecondsafterfinished",
        "remove it: who may do what is said by tokens": "permissions serviceaccountname owneremail access",
        "remove it: a queue's workers say how much runs at once; in a map, write max_concurrency:": (
            "concurrency parallelism max_active_runs"
        ),
    }
)
_NODE: Mapping[str, str] = _by_word(
    {
        _EDGES: "needs dependson depends dependencies after requires runafter upstream",
        _ONWARD: "next then goto transition transitions followedby downstream onsuccess",
        "write an edge {from: this, to: …, on: failure}": (
            "catch onfailure onerror onerrors rescue except on fallback otherwise"
        ),
        "write an edge {from: this, to: …, on: timeout}": "ontimeout timedout timeoutto onheartbeattimeout",
        "write it on an edge: {from: …, to: this, when: …}": "if condition when unless else runif",
        "write edges: behind nodes:, not in a node": "edges",
        "write input:": (
            "with args arguments params parameters inputs inputparameters payload data env environment inputmapping "
            "opkwargs opargs"
        ),
        "write handler: and the name under which a worker registered it": (
            "uses image function functionname activity activitytype action resource task taskname taskreferencename "
            "operation call worker pythoncallable queuename"
        ),
        "write type: python and code:, or type: call and a handler that runs it": (
            "run script command shell cmd bash exec bashcommand source"
        ),
        _RETRY: (
            "retries retrycount maxretries retrypolicy retrystrategy retry attempts maxattempts maximumattempts "
            "retrylimit backoff retrydelayseconds retrylogic"
        ),
        "write timeout: 30s": (
            "timeoutseconds timeoutminutes starttoclosetimeout scheduletoclosetimeout activedeadlineseconds deadline "
            "timeouts maxduration executiontimeout responsetimeoutseconds"
        ),
        "write timeout: {heartbeat: 30s}": "heartbeat heartbeattimeout heartbeatseconds",
        "write timeout: {queue: 30s}": "scheduletostarttimeout polltimeoutseconds",
        "write optional: true": "continueonerror continueon ignoreerrors allowfailure continueonfail triggerrule",
        "write type: map with over: and body:": (
            "foreach withitems withitem withparam withsequence loop matrix strategy each"
        ),
        "remove it: several edges out of a node fork, and a join waits for them": (
            "parallel branches fork forktasks joinon"
        ),
        "write each as a node of its own under nodes:; what belongs together is a body: of a map or repeat": (
            "steps nodes tasks jobs states sequence do loopover"
        ),
        "remove it: the key is the node's name": "id name",
        "write it as a comment: # …": "description comment title label doc notes",
        "remove it: later nodes read nodes.this.output": (
            "output outputs result resultpath outputpath resultselector returns register saveas outputparameters export"
        ),
        "write compensate: and the node that undoes it": "compensation undo rollback compensatedby",
        "write output_schema:": "schema outputschema contract",
        "remove it: a finish node ends the run, and so does its last node": "end terminal",
        "write queue:": "runson pool taskqueue agent executor domain",
        "remove it: labels are of runs, and stand beside nodes:": "tags annotations metadata labels",
        "remove it: a queue of its own, with workers of its own, lets a node go first or not too often": (
            "priority ratelimit rateLimited concurrency throttle ratelimitperfrequency"
        ),
        "remove it: a node is done once in a run, and its output is kept with the run": (
            "cache memoize memoization cacheconfig"
        ),
        "remove it: a handler has no versions; give another version another name": "version",
        "remove it: retries of a step share an idempotency key, which handlers find in their context": (
            "idempotencykey key workflowid"
        ),
        "write a node {type: wait, duration: 30s} before it": "startdelay delay sleep wait",
    }
)
_MORE_TRIES = frozenset({"retries", "maxretries", "retrycount", "retrylimit"})  # which leave the first attempt out
# Keys of nodes that say what edges say.
_ORDER = frozenset(word for word, remedy in _NODE.items() if "edge" in remedy)
_OF_A_BODY = {
    "write it in the nodes of the body": "retry compensate output_schema queue lease handler request code",
}
_OF_TYPES: Mapping[str, Mapping[str, str]] = {
    "http": _by_word(
        {
            "write it in request:": "url uri method headers query body expect json endpoint",
            "write request: {url: …, method: …}": "with http_request httprequest",
        }
    ),
    "switch": _by_word(
        {
            "write cases:": "choices branches conditions when if decision_cases dataConditions",
            "write default:": "else otherwise default_case defaultCondition",
            "remove it: the cases' expressions read input.name and nodes.name.output": (
                "input expression on value variable case evaluator_type case_value_param"
            ),
        }
    ),
    "wait": _by_word(
        {
            "write duration: 30s": "seconds sleep time for delay minutes timeout",
            "write until:": "timestamp date at",
        }
    ),
    "wait_for_event": _by_word(
        {
            "write event:": "signal name message channel sink on",
            "write filter:": "when if condition match correlation",
            "write payload_schema:": "output_schema schema contract",
        }
    ),
    "map": _by_word(
        {
            "write over:": "items list in with_items with_param foreach items_path each input for",
            "write where:": "filter select only_if when if",
            "write body:": "do steps nodes iterator item_processor template step node",
            "write max_concurrency:": "concurrency max_concurrency parallelism parallel batch",
            "remove it: in the body, the item is called item": "as item_name loop_var iterator_name",
            "write tolerate:": "tolerated_failure_count tolerated_failure_percentage max_failures",
            **_OF_A_BODY,
        }
    ),
    "repeat": _by_word(
        {
            "write body:": "do steps nodes step node loop_over",
            "write until: or while:": "condition if when exit_when loop_condition",
            "write max_iterations:": "max times count limit max_loops iterations",
            "write delay:": "interval sleep pause every",
            "remove it: the nodes of the body read input.name and nodes.name.output": "input",
            **_OF_A_BODY,
        }
    ),
    "set": _by_word(
        {
            "write values:": "vars variables set assign value parameters result input",
        }
    ),
    "finish": _by_word(
        {
            "write outcome: succeeded or failed": "status state termination_status",
            "write message:": "error cause reason termination_reason",
            "write output:": "result outputs value return workflow_output",
        }
    ),
    "join": _by_word(
        {
            "write need:": "count mode strategy min require",
        }
    ),
    "subflow": _by_word(
        {
            "write workflow:": "name uses flow child workflow_id workflow_name sub_workflow_param workflow_ref",
            _WAITS: "wait wait_for_completion sync",
            "write detach: true": "async fire_and_forget parent_close_policy",
        }
    ),
}
_EDGE: Mapping[str, str] = _by_word(
    {
        "write when:": "if condition unless expr expression",
        "write from:": "source src start",
        "write to:": "target dst destination next end",
        "write on:": "type event kind status trigger",
        "write errors:": "error catch ErrorEquals error_types",
    }
)
_TRIES: Mapping[str, str] = _by_word(
    {
        "write max_attempts:, the first attempt included": (
            "attempts limit maxAttempts maximumAttempts maximum_attempts MaxAttempts retries count max_retries times "
            "max_tries"
        ),
        "write initial: 1s": "delay interval IntervalSeconds initial_interval initialInterval wait pause",
        "write factor:": "BackoffRate multiplier backoff_coefficient backoffCoefficient rate backoff_rate",
        "write max: 1m": "max_interval maximumInterval MaxDelaySeconds max_delay cap maxDuration",
        "write rules: [{errors: [Name], max_attempts: 3}]": "on ErrorEquals errors retry_on when if",
        "write rules: [{errors: [Name], max_attempts: 1}]": (
            "nonRetryable non_retryable nonRetryableErrorTypes non_retryable_error_types except"
        ),
        "write backoff:": "strategy type policy mode",
    }
)
_TIMEOUT: Mapping[str, str] = _by_word(
    {
        "write attempt:": "start_to_close startToClose execution run seconds",
        "write queue:": "schedule_to_start scheduleToStart wait pending",
        "write total:": "schedule_to_close scheduleToClose overall all max",
    }
)
_REQUEST: Mapping[str, str] = _by_word(
    {
        "write body:": "json data payload form",
        "write query:": "params parameters qs",
        "write url:": "uri endpoint href address",
        "write method:": "verb type",
        "write expect: [200]": "status expected expect_status ok",
        "write headers: {Authorization: …}": "auth authentication authorization",
    }
)
_GRAPH = _by_word({"write nodes:": "steps tasks do jobs states template", "write edges:": "order flow transitions"})
_BY_MAP: Mapping[str, Mapping[str, str]] = {
    "a workflow": _WORKFLOW,
    "an edge": _EDGE,
    "a case": _by_word(
        {
            "write when:": "if condition case expr",
            "write to:": "next Next then goto target",
        }
    ),
    "a retry policy": _TRIES,
    "a retry rule": _TRIES,
    "time-outs": _TIMEOUT,
    "a body": _GRAPH,
    "finally": _GRAPH,
    "a request": _REQUEST,
}
# What other languages call types of nodes.
TYPES: Mapping[str, str] = _by_word(
    {
        "write call, with handler:": (
            "task activity step action function lambda job service operation SIMPLE DYNAMIC KAFKA_PUBLISH container "
            "resource serviceTask sendTask email mail slack agent llm emit publish EVENT_PUBLISH worker "
            "BusinessRuleTask docker"
        ),
        "write python, with code:": (
            "script code inline javascript js py bash shell run LAMBDA_TASK scriptTask PythonOperator BashOperator "
            "JSON_JQ_TRANSFORM jq transform"
        ),
        "write http, with request:": "rest request webhook curl api http_request HttpOperator SimpleHttpOperator",
        "write switch, with cases: and default:": (
            "choice if condition branch decision gateway case router exclusiveGateway inclusiveGateway "
            "BranchPythonOperator"
        ),
        "remove the node: several edges out of a node fork, and a join waits for them": (
            "parallel fork split FORK_JOIN parallelGateway dag steps sequence async"
        ),
        "write join": "merge gather barrier sync EXCLUSIVE_JOIN",
        "write map, with over: and body:": "foreach for matrix fan_out each DYNAMIC_FORK FORK_JOIN_DYNAMIC",
        "write repeat, with until: and body:": "while until loop do_while poll retry",
        "write wait, with duration:": "sleep delay timer pause timerEvent",
        "write wait_for_event, with event:": (
            "event signal receive approval human manual wait_for_signal callback suspend listen userTask sensor "
            "receiveTask wait_for_webhook"
        ),
        "write set, with values:": "pass assign variable vars set_variable",
        "write finish, with outcome: failed": "fail abort terminate raise throw error",
        "write finish": "end succeed stop exit return",
        "write subflow, with workflow:": (
            "workflow sub_workflow child child_workflow call_workflow start_workflow callActivity trigger_dag_run"
        ),
        "remove the node: an edge with on: failure leads to what is done about a failure": "try catch",
    }
)
# Words behind keys: by key, what other languages call them.
WORDS: Mapping[str, Mapping[str, str]] = {
    "on": _by_word(
        {
            "write failure": "error errors fail failed catch exception rejected",
            "write success": "ok succeeded completed true resolved",
            "write always": "any done finally complete end",
            "write timeout": "timed_out deadline expired",
        }
    ),
    "outcome": _by_word(
        {
            "write succeeded": "success ok completed complete succeed",
            "write failed": "failure fail error cancelled",
        }
    ),
    "backoff": _by_word(
        {
            "write exponential": "exp jitter",
            "write fixed": "constant none static",
        }
    ),
    "need": _by_word(
        {
            "write need: any": "one first some or race 1",
            "write need: all": "every each both and",
        }
    ),
    "default": _by_word({"write default: none": "null end stop exit terminate finish done nothing"}),
    "on_failure": _by_word({"write stop": "fail abort fail_fast terminate", "write drain": "continue ignore proceed"}),
}


def instead_of_key(key: str, what: str, name: str, value: Yaml) -> str:
    """Returns what to write instead of a key that has no meaning here; empty: no other language is known to have it.

    Args:
        key: as it was written.
        what: the map that it stands in, as messages call it.
        name: of the node that the map is; else empty.
        value: what stands behind the key.
    """
    word = normal(key)
    if not what.endswith(" node"):
        return _with_duration(_BY_MAP.get(what, {}).get(word, ""), word, value)
    node_type = what.removeprefix("a ").removesuffix(" node")
    found = _OF_TYPES.get(node_type, {}).get(word) or _NODE.get(word, "")
    others = _names_in(value)
    if found == _EDGES and others:
        return f"write under edges: {', '.join(f'[{other}, {name}]' for other in others)}"
    if found == _ONWARD and others:
        return f"write under edges: {', '.join(f'[{name}, {other}]' for other in others)}"
    if found.startswith("write an edge ") and len(others) == 1:
        return found.replace("…", others[0]).replace("this", name)
    if found == _WAITS and isinstance(value, YamlScalar) and value.value is False:
        return "write detach: true"
    if found == _RETRY and isinstance(value, YamlScalar) and isinstance(value.value, int):
        return f"write retry: {{max_attempts: {attempts_meant(value.value, more=word in _MORE_TRIES)}}}"
    if found.startswith(f"write {key}:") or not found:
        found = _of_other_types(key)
    return _with_duration(found, word, value).replace("this", name)


def attempts_meant(given: object, *, more: bool = False) -> int:
    """Returns how many attempts are meant by a number, or by true or false.

    Args:
        given: as it was written.
        more: the first attempt does not count.
    """
    if isinstance(given, bool) or not isinstance(given, int):
        return 1 if given is False else 3
    return max(1, given + more)


def says_order(key: str) -> bool:
    """Returns whether a key of a node says what edges say."""
    return normal(key) in _ORDER


def _of_other_types(key: str) -> str:
    """What to do about a key that nodes of other types have."""
    kinds = [kind.value for kind, node in NODES.items() if any(field.name == key for field in node.fields)]
    return f"remove it: only {', '.join(kinds)} nodes have {key}" if kinds else ""


def _with_duration(remedy: str, word: str, value: Yaml) -> str:
    """Returns a remedy with a duration as a sample with the one that was meant."""
    given = value.value if isinstance(value, YamlScalar) else None
    if given is None or isinstance(given, bool) or _DURATION.search(remedy) is None:
        return remedy
    if isinstance(given, int | float) and "minutes" in word:
        given *= 60
    meant = given if isinstance(given, str) and parse_duration(given) is not None else ""
    meant = meant or meant_duration(given).rpartition(" ")[2]
    return _DURATION.sub(f": {meant}", remedy) if meant else remedy


def instead_of_type(word: str) -> str:
    """Returns what to write instead of a type of nodes that another language has; empty: none is known to have it."""
    return TYPES.get(normal(word), "")


def type_by_key(keys: Iterable[str]) -> str:
    """Returns what to write where a key says what another language's node does; empty: no key does."""
    for key in keys:
        remedy = instead_of_type(key)
        if (kind := next((each for each in NODES if each.value == key), None)) is not None:
            needed = [f"{field.name}:" for field in NODES[kind].fields if field.required and field.name != "type"]
            remedy = f"write {key}" + (f", with {' and '.join(needed)}" if needed else "")
        if remedy:
            return remedy.replace("write ", "write type: ", 1)
    return ""


def _names_in(tree: Yaml) -> list[str]:
    items = tree.items if isinstance(tree, YamlList) else (tree,)
    return [each.value for each in items if isinstance(each, YamlScalar) and isinstance(each.value, str)]
