"""Words of other workflow languages, and what to write here instead.

Whoever comes from a CI service, a state machine or a cluster's workflows writes `needs:`, `steps:` or `retries: 3`.
Each is a key or a word that has no meaning here; these tables say which one has. Nothing here is part of the language.
"""

from collections.abc import Mapping

from headway.coordinator.core.compiler.yaml_tree import Yaml, YamlList, YamlScalar


def _by_word(table: Mapping[str, str]) -> dict[str, str]:
    """Turns remedies, each with the words that ask for it, the other way round."""
    return {word: remedy for remedy, words in table.items() for word in words.split()}


_EDGES = "write it under edges: [[before, this]]"
_ONWARD = "write it under edges: [[this, next]]"
_WORKFLOW: Mapping[str, str] = _by_word(
    {
        "write workflow: and the workflow's name": "name id",
        "write nodes: a map of names to nodes": "jobs steps tasks states States activities stages",
        "write edges: [[a, b]]": "transitions dependencies connections links order flow sequence",
        "remove it: each deploy makes a new version": "version apiVersion kind metadata spec",
        "remove it: what no edge leads to starts with the run": "StartAt start entrypoint initial",
        "remove it: runs are started by an application or by headway start": "on trigger triggers schedule cron events",
        "pass it as input of the run; input_schema says what that looks like": (
            "env inputs input params parameters arguments secrets"
        ),
        "write vars: names and JSON Schemas, and set nodes that set them": "variables",
        "write a finish node with output:": "output outputs return returns",
        "write deadline: 1h": "timeout timeouts TimeoutSeconds timeout-minutes max_duration",
        "write it under defaults:": "retry retries queue",
        "write finally: what runs at the end, however the run ends": "onExit on_exit always cleanup post",
        "write an edge {from: …, to: …, on: failure}": "catch on_error onError error_handler",
        "write description:": "Comment comment title summary doc documentation",
        "write nodes: in the body of a map or repeat": "templates template",
    }
)
_NODE: Mapping[str, str] = _by_word(
    {
        _EDGES: "needs depends_on depends dependsOn dependencies after requires runAfter upstream",
        _ONWARD: "next Next then goto transition transitions followed_by downstream on_success",
        "write an edge {from: this, to: …, on: failure}": (
            "catch Catch on_failure on_error onError onErrors onFailure rescue except on"
        ),
        "write it on an edge: {from: …, to: this, when: …}": "if condition when unless else",
        "write edges: behind nodes:, not in a node": "edges",
        "write input:": "with args arguments params parameters Parameters inputs payload data env environment",
        "write handler: and the name under which a worker registered it": (
            "uses image function activity action resource Resource task operation call worker"
        ),
        "write type: python and code:, or type: call and a handler that runs it": (
            "run script command shell cmd bash exec"
        ),
        "write retry: {max_attempts: 3}, the first attempt included": (
            "retries retry_count max_retries maxRetries retryPolicy retry_policy retryStrategy Retry attempts "
            "max_attempts maxAttempts maximum_attempts retry_limit backoff"
        ),
        "write timeout: 30s": (
            "timeout_seconds timeoutSeconds timeout-minutes TimeoutSeconds start_to_close_timeout "
            "schedule_to_close_timeout activeDeadlineSeconds deadline timeouts max_duration"
        ),
        "write timeout: {heartbeat: 30s}": "heartbeat heartbeat_timeout HeartbeatSeconds",
        "write optional: true": "continue-on-error continue_on_error continueOn ignore_errors allow_failure",
        "write type: map with over: and body:": (
            "foreach forEach for_each with_items withItems withParam loop matrix strategy each"
        ),
        "remove it: several edges out of a node fork, and a join waits for them": "parallel branches Branches fork",
        "write each as a node of its own under nodes:; what belongs together is a body: of a map or repeat": (
            "steps nodes tasks jobs states sequence do"
        ),
        "remove it: the key is the node's name": "id name Name",
        "write it as a comment: # …": "description comment Comment title label doc",
        "remove it: later nodes read nodes.name.output": (
            "output outputs result ResultPath OutputPath returns register save_as"
        ),
        "write compensate: and the node that undoes this one": "compensation undo rollback compensatedBy",
        "write output_schema:": "schema outputSchema contract",
        "remove it: a finish node ends the run, and so does its last node": "end End terminal",
        "write queue:": "runs-on pool task_queue taskQueue agent executor",
    }
)
# Keys of nodes that say what edges say.
ORDER = frozenset(word for word, remedy in _NODE.items() if "edge" in remedy)
_OF_TYPES: Mapping[str, Mapping[str, str]] = {
    "http": _by_word(
        {
            "write it in request:": "url uri method headers query body expect json",
        }
    ),
    "switch": _by_word(
        {
            "write cases:": "choices Choices branches conditions when if",
            "write default:": "Default else otherwise",
        }
    ),
    "wait": _by_word(
        {
            "write duration: 30s": "seconds Seconds sleep time for delay minutes timeout",
        }
    ),
    "wait_for_event": _by_word(
        {
            "write event:": "signal name message channel",
            "write filter:": "when if condition match",
        }
    ),
    "map": _by_word(
        {
            "write over:": "items list in with_items withItems foreach ItemsPath each input",
            "write where:": "filter Filter select only_if",
            "write body:": "do steps nodes iterator Iterator ItemProcessor template step node",
            "write max_concurrency:": "concurrency MaxConcurrency parallelism parallel batch",
            "write tolerate:": "ToleratedFailureCount ToleratedFailurePercentage max_failures",
        }
    ),
    "repeat": _by_word(
        {
            "write body:": "do steps nodes step node",
            "write until: or while:": "condition if when exit_when",
            "write max_iterations:": "max times count limit max_loops iterations",
            "write delay:": "interval sleep pause every",
        }
    ),
    "set": _by_word(
        {
            "write values:": "vars variables set assign value",
        }
    ),
    "finish": _by_word(
        {
            "write outcome: succeeded or failed": "status state Status",
            "write message:": "error Error Cause reason cause",
            "write output:": "result outputs value return",
        }
    ),
    "join": _by_word(
        {
            "write need:": "count mode strategy min require",
        }
    ),
    "subflow": _by_word(
        {
            "write workflow:": "name uses flow child workflow_id workflowId",
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
        "write call, with handler:": "task activity step action function lambda job service Task operation",
        "write python, with code:": "script code inline javascript js py bash shell run",
        "write http, with request:": "rest request webhook curl api",
        "write switch, with cases: and default:": "choice Choice if condition branch decision gateway case router",
        "remove the node: several edges out of a node fork, and a join waits for them": (
            "parallel Parallel fork split FORK_JOIN"
        ),
        "write join": "merge gather barrier sync",
        "write map, with over: and body:": "foreach forEach for_each for matrix Map fan_out each DYNAMIC_FORK",
        "write repeat, with until: and body:": "while until loop do_while DO_WHILE poll retry",
        "write wait, with duration:": "sleep delay timer pause Wait",
        "write wait_for_event, with event:": "event signal receive approval human manual wait_for_signal callback",
        "write set, with values:": "pass Pass assign variable vars set_variable",
        "write finish, with outcome: failed": "fail Fail abort TERMINATE",
        "write finish": "end succeed Succeed stop exit return terminate",
        "write subflow, with workflow:": (
            "workflow sub_workflow subworkflow child child_workflow call_workflow SUB_WORKFLOW"
        ),
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
    node_type = what.removeprefix("a ").removesuffix(" node")
    if not what.endswith(" node"):
        return _BY_MAP.get(what, {}).get(key, "")
    found = _OF_TYPES.get(node_type, {}).get(key) or _NODE.get(key, "")
    others = _names_in(value)
    if found == _EDGES and others:
        return f"write under edges: {', '.join(f'[{other}, {name}]' for other in others)}"
    if found == _ONWARD and others:
        return f"write under edges: {', '.join(f'[{name}, {other}]' for other in others)}"
    if found and key in ("retries", "max_retries", "maxRetries") and isinstance(value, YamlScalar):
        return f"write retry: {{max_attempts: {value.value + 1}}}" if isinstance(value.value, int) else found
    return found.replace("this", name)


def _names_in(tree: Yaml) -> list[str]:
    items = tree.items if isinstance(tree, YamlList) else (tree,)
    return [each.value for each in items if isinstance(each, YamlScalar) and isinstance(each.value, str)]
