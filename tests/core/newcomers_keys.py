# ruff: noqa: E501, ISC004 - what is said stands on one line
"""What newcomers write for nodes, edges and their keys, and what they are told."""

# What is wrong, the source, and all that is said of it.
TABLE: list[tuple[str, str, list[str]]] = [
    (
        "what comes before, in a node",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h, needs: a}\n"
        "  x: {type: call, handler: h, input: '${nodes.b.output}', needs: [a, b]}\n",
        [
            "4:31: error: unknown key needs in a call node; write under edges: [a, b]",
            "5:59: error: unknown key needs in a call node; write under edges: [a, x], [b, x]",
        ],
    ),
    (
        "the same as a list",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b:\n"
        "    type: call\n"
        "    handler: h\n"
        "    depends_on:\n"
        "      - a\n",
        [
            "7:5: error: unknown key depends_on in a call node; write under edges: [a, b]",
        ],
    ),
    (
        "a condition on a node",
        'workflow: w\nnodes:\n  a: {type: call, handler: h, if: "input.x > 1"}\n',
        [
            "3:31: error: unknown key if in a call node; write it on an edge: {from: …, to: a, when: …}",
        ],
    ),
    (
        "steps",
        "workflow: w\nsteps:\n  - name: a\n    uses: h\n",
        [
            "2:1: error: unknown key steps in a workflow; write nodes: a map of names to nodes",
        ],
    ),
    (
        "a CI workflow",
        "name: CI\non: [push]\njobs:\n  build:\n    runs-on: ubuntu\n    steps:\n      - run: make\n",
        [
            "1:1: error: unknown key name in a workflow; write workflow: and the workflow's name",
            "2:1: error: unknown key on in a workflow; remove it: runs are started by an application or by headway start",
            "3:1: error: unknown key jobs in a workflow; write nodes: a map of names to nodes",
        ],
    ),
    (
        "uses and with",
        "workflow: w\nnodes:\n  a:\n    type: call\n    uses: mail.send\n    with: {to: x}\n",
        [
            "5:5: error: unknown key uses in a call node; write handler: and the name under which a worker registered it",
            "6:5: error: unknown key with in a call node; write input:",
        ],
    ),
    (
        "catch",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h, catch: [{ErrorEquals: [X], Next: b}]}\n"
        "  b: {type: call, handler: h}\n",
        [
            "3:31: error: unknown key catch in a call node; write an edge {from: a, to: …, on: failure}",
        ],
    ),
    (
        "retries",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, retries: 3}\n",
        [
            "3:31: error: unknown key retries in a call node; write retry: {max_attempts: 4}",
        ],
    ),
    (
        "retry as a number",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, retry: 3}\n",
        [
            "3:38: error: retry must be a map, this is 3; write retry: {max_attempts: 3}, the first attempt included",
        ],
    ),
    (
        "a time-out without a unit",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, timeout: 5}\n",
        [
            "3:40: error: timeout is no duration: 5; write the unit: 5s",
        ],
    ),
    (
        "an ISO duration",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, timeout: PT5S}\n",
        [
            "3:40: error: timeout is no duration: PT5S; write 5s",
        ],
    ),
    (
        "a duration in words",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, timeout: 5 seconds}\n",
        [
            "3:40: error: timeout is no duration: 5 seconds; write 5s",
        ],
    ),
    (
        "a duration with a decimal point",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, timeout: 1.5s}\n",
        [
            "3:40: error: timeout is no duration: 1.5s; write 1s500ms",
        ],
    ),
    (
        "a parallel node",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: parallel, branches: [b, c]}\n"
        "  b: {type: call, handler: h}\n"
        "  c: {type: call, handler: h}\n",
        [
            "3:13: error: there is no node type parallel; remove the node: several edges out of a node fork, and a join waits for them",
        ],
    ),
    (
        "a foreach node",
        "workflow: w\nnodes:\n  a: {type: foreach, items: '${input.l}', do: {type: call, handler: h}}\n",
        [
            "3:13: error: there is no node type foreach; write map, with over: and body:",
        ],
    ),
    (
        "foreach on a node",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, foreach: '${input.l}'}\n",
        [
            "3:31: error: unknown key foreach in a call node; write type: map with over: and body:",
        ],
    ),
    (
        "items and do",
        "workflow: w\nnodes:\n  a: {type: map, items: '${input.l}', do: {type: call, handler: h}}\n",
        [
            "3:18: error: unknown key items in a map node; write over:",
            "3:39: error: unknown key do in a map node; write body:",
        ],
    ),
    (
        "steps in a body",
        "workflow: w\n"
        "nodes:\n"
        "  a:\n"
        "    type: map\n"
        "    over: '${input.l}'\n"
        "    body:\n"
        "      steps:\n"
        "        - {type: call, handler: h}\n",
        [
            "7:7: error: unknown key steps in a body; write nodes:",
        ],
    ),
    (
        "nodes beside nodes",
        "workflow: w\nnodes:\na: {type: call, handler: h}\nb: {type: call, handler: h}\n",
        [
            "3:1: error: unknown key a in a workflow; a is a node: indent it below nodes:",
            "4:1: error: unknown key b in a workflow; b is a node: indent it below nodes:",
        ],
    ),
    (
        "an edge on error",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "edges:\n"
        "  - {from: a, to: b, on: error}\n",
        [
            "6:26: error: on cannot be error; write failure",
        ],
    ),
    (
        "an edge on completed",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "edges:\n"
        "  - {from: a, to: b, on: completed}\n",
        [
            "6:26: error: on cannot be completed; write success",
        ],
    ),
    (
        "a condition called if",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "edges:\n"
        "  - {from: a, to: b, if: input.x}\n",
        [
            "6:22: error: unknown key if in an edge; write when:",
        ],
    ),
    (
        "a state machine",
        "StartAt: A\nStates:\n  A:\n    Type: Task\n    Resource: arn\n    End: true\n",
        [
            "1:1: error: unknown key StartAt in a workflow; remove it: what no edge leads to starts with the run",
            "1:1: error: a workflow needs the key workflow; add workflow: a_name",
            "2:1: error: unknown key States in a workflow; write nodes: a map of names to nodes",
        ],
    ),
    (
        "a script to run",
        "workflow: w\nnodes:\n  a: {type: call, run: make build}\n",
        [
            "3:19: error: unknown key run in a call node; write type: python and code:, or type: call and a handler that runs it",
        ],
    ),
    (
        "a script node",
        "workflow: w\nnodes:\n  a: {type: script, script: 'x=1'}\n",
        [
            "3:13: error: there is no node type script; write python, with code:",
        ],
    ),
    (
        "code with another function",
        "workflow: w\nnodes:\n  a:\n    type: python\n    code: |\n      def main(input):\n        return 1\n",
        [
            "6:7: error: the code defines no function run; write def run(input): …; what it returns is the output",
        ],
    ),
    (
        "a request without request",
        "workflow: w\nnodes:\n  a: {type: http, url: 'https://x', method: POST}\n",
        [
            "3:19: error: unknown key url in a http node; write it in request:",
            "3:37: error: unknown key method in a http node; write it in request:",
        ],
    ),
    (
        "a method in small letters",
        "workflow: w\nnodes:\n  a: {type: http, request: {url: 'https://x', method: post}}\n",
        [
            "3:55: error: method cannot be post; did you mean POST?",
        ],
    ),
    (
        "a sleep node",
        "workflow: w\nnodes:\n  a: {type: sleep, seconds: 30}\n",
        [
            "3:13: error: there is no node type sleep; write wait, with duration:",
        ],
    ),
    (
        "seconds",
        "workflow: w\nnodes:\n  a: {type: wait, seconds: 30}\n",
        [
            "3:19: error: unknown key seconds in a wait node; write duration: 30s",
        ],
    ),
    (
        "a pause without a unit",
        "workflow: w\nnodes:\n  a: {type: wait, duration: 30}\n",
        [
            "3:29: error: duration is no duration: 30; write the unit: 30s",
        ],
    ),
    (
        "cases in other words",
        "workflow: w\nnodes:\n  a: {type: switch, cases: [{if: input.x, goto: b}]}\n  b: {type: call, handler: h}\n",
        [
            "3:3: error: a switch node needs the key default; add default: the name of a node",
            "3:30: error: unknown key if in a case; write when:",
            "3:43: error: unknown key goto in a case; write to:",
        ],
    ),
    (
        "cases as a map",
        "workflow: w\nnodes:\n  a: {type: switch, cases: {gold: b}, default: b}\n  b: {type: call, handler: h}\n",
        [
            "3:28: error: cases must be a list, this is a map; write cases: [{when: …, to: …}]",
        ],
    ),
    (
        "else",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: switch, cases: [{when: input.x, to: b}], else: b}\n"
        "  b: {type: call, handler: h}\n",
        [
            "3:54: error: unknown key else in a switch node; write default:",
        ],
    ),
    (
        "a loop of edges",
        "workflow: w\nnodes:\n  a: {type: call, handler: h}\n  b: {type: call, handler: h}\nedges: [[a, b], [b, a]]\n",
        [
            "5:21: error: a cycle: a → b → a; remove one of its edges; what is to be done again is the body of a node {type: repeat, until: …, max_iterations: 3, body: …}",
        ],
    ),
    (
        "times",
        "workflow: w\nnodes:\n  a: {type: repeat, times: 3, body: {type: call, handler: h}}\n",
        [
            "3:3: error: the repeat a needs until or while; add until: a condition that ends it",
            "3:21: error: unknown key times in a repeat node; write max_iterations:",
        ],
    ),
    (
        "a retry policy in other words",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, retry: {limit: 3, delay: 5, multiplier: 2}}\n",
        [
            "3:39: error: unknown key limit in a retry policy; write max_attempts:, the first attempt included",
            "3:49: error: unknown key delay in a retry policy; write initial: 5s",
            "3:59: error: unknown key multiplier in a retry policy; write factor:",
        ],
    ),
    (
        "a fail node",
        "workflow: w\nnodes:\n  a: {type: fail, error: X, cause: y}\n",
        [
            "3:13: error: there is no node type fail; write finish, with outcome: failed",
        ],
    ),
    (
        "a status",
        "workflow: w\nnodes:\n  a: {type: finish, status: ok, outcome: success}\n",
        [
            "3:21: error: unknown key status in a finish node; write outcome: succeeded or failed",
            "3:42: error: outcome cannot be success; write succeeded",
        ],
    ),
    (
        "a schema that is a map of names",
        "workflow: w\ninput_schema: {amount: number}\nnodes: {a: {type: call, handler: h}}\n",
        [
            "2:15: warning: no key of input_schema is one of JSON Schema's: anything fits; write {type: object, properties: {name: {type: number}}}",
        ],
    ),
    (
        "keywords of a schema that are misspelt",
        "workflow: w\n"
        "input_schema:\n"
        "  type: object\n"
        "  requierd: [n]\n"
        "  propertys: {a: {type: string}}\n"
        "  properties: {n: {type: integer, minimun: 1, note: silent, x-maximun: 3}, requierd: {enum: [{requierd: 1}]}}\n"
        "  additionalproperties: false\n"
        "  allOf: [{not: {max_length: 3}}]\n"
        "nodes: {a: {type: call, handler: h}}\n",
        [
            "4:3: warning: requierd is no keyword of JSON Schema, and says nothing; did you mean required?",
            "5:3: warning: propertys is no keyword of JSON Schema, and says nothing; did you mean properties?",
            "6:35: warning: minimun is no keyword of JSON Schema, and says nothing; did you mean minimum?",
            "7:3: warning: additionalproperties is no keyword of JSON Schema, and says nothing; did you mean additionalProperties?",
            "8:18: warning: max_length is no keyword of JSON Schema, and says nothing; did you mean maxLength?",
        ],
    ),
    (
        "a type of another language",
        "workflow: w\n"
        "input_schema: {type: object, properties: {amount: {type: int}}}\n"
        "nodes: {a: {type: call, handler: h}}\n",
        [
            "2:58: error: not JSON Schema: 'int' is no type; types are array, boolean, integer, null, number, object and string",
        ],
    ),
    (
        "a signal node",
        "workflow: w\nnodes:\n  a: {type: signal, name: approved}\n",
        [
            "3:13: error: there is no node type signal; write wait_for_event, with event:",
        ],
    ),
    (
        "a schedule",
        "workflow: w\nschedule: '0 * * * *'\nnodes: {a: {type: call, handler: h}}\n",
        [
            "2:1: error: unknown key schedule in a workflow; remove it: runs are started by an application or by headway start",
        ],
    ),
    (
        "finally as a list",
        "workflow: w\nnodes: {a: {type: call, handler: h}}\nfinally:\n  - {type: call, handler: h}\n",
        [
            "4:3: error: finally must be a map, this is a list; write finally: {type: call, handler: …}, or {nodes: …, edges: …}, without dashes",
        ],
    ),
    (
        "an exit handler",
        "workflow: w\nnodes: {a: {type: call, handler: h}}\nonExit: {type: call, handler: h}\n",
        [
            "3:1: error: unknown key onExit in a workflow; write finally: what runs at the end, however the run ends",
        ],
    ),
    (
        "a file of Airflow",
        "dag_id: x\n"
        'schedule_interval: "@daily"\n'
        "nodes:\n"
        '  a: {type: PythonOperator, code: "def run(input): return 1", trigger_rule: all_done}\n',
        [
            "1:1: error: unknown key dag_id in a workflow; write workflow: and the workflow's name",
            "2:1: error: unknown key schedule_interval in a workflow; remove it: runs are started by an application or by headway start",
            "4:13: error: there is no node type PythonOperator; write python, with code:",
        ],
    ),
    (
        "the name of an item",
        "workflow: w\nnodes:\n  a: {type: map, over: [1], as: x, body: {type: call, handler: h}}\n",
        [
            "3:29: error: unknown key as in a map node; remove it: in the body, the item is called item",
        ],
    ),
    (
        "a file of Argo",
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: x}\nspec: {entrypoint: a}\n",
        [
            "1:1: error: unknown key apiVersion in a workflow; remove it: each deploy makes a new version",
            "2:1: error: unknown key kind in a workflow; remove it: each deploy makes a new version",
            "3:1: error: unknown key metadata in a workflow; write workflow: and the workflow's name",
            "4:1: error: unknown key spec in a workflow; remove it, and write nodes: and edges: at the top of the file",
        ],
    ),
    (
        "a file of Conductor",
        "name: order\n"
        "schemaVersion: 2\n"
        "timeoutSeconds: 60\n"
        "inputParameters: [a]\n"
        "outputParameters: {a: b}\n"
        "failureWorkflow: x\n"
        "tasks: []\n",
        [
            "1:1: error: unknown key name in a workflow; write workflow: and the workflow's name",
            "2:1: error: unknown key schemaVersion in a workflow; remove it: each deploy makes a new version",
            "3:1: error: unknown key timeoutSeconds in a workflow; write deadline: 1m",
            "4:1: error: unknown key inputParameters in a workflow; pass it as input of the run; input_schema says what that looks like",
            "5:1: error: unknown key outputParameters in a workflow; write a finish node with output:",
            "6:1: error: unknown key failureWorkflow in a workflow; write an edge {from: …, to: …, on: failure}",
            "7:1: error: unknown key tasks in a workflow; write nodes: a map of names to nodes",
        ],
    ),
    (
        "a file of Serverless Workflow",
        "document: {dsl: '1.0.0'}\ndo: []\n",
        [
            "1:1: error: unknown key document in a workflow; write workflow: and the workflow's name",
            "2:1: error: unknown key do in a workflow; write nodes: a map of names to nodes",
        ],
    ),
    (
        "tasks of Serverless Workflow",
        "workflow: w\n"
        "nodes:\n"
        "  a: {call: http, with: {}}\n"
        "  b: {emit: {}}\n"
        "  c: {listen: {}}\n"
        "  d: {fork: {}}\n"
        "  e: {try: [], catch: {}}\n"
        "  f: {for: {}, do: []}\n"
        "  g: {raise: {}}\n"
        "  h: {switch: []}\n",
        [
            "3:3: error: the node a needs the key type; write type: call, with handler:",
            "4:3: error: the node b needs the key type; write type: call, with handler:",
            "5:3: error: the node c needs the key type; write type: wait_for_event, with event:",
            "6:3: error: the node d needs the key type; remove the node: several edges out of a node fork, and a join waits for them",
            "7:3: error: the node e needs the key type; remove the node: an edge with on: failure leads to what is done about a failure",
            "8:3: error: the node f needs the key type; write type: map, with over: and body:",
            "9:3: error: the node g needs the key type; write type: finish, with outcome: failed",
            "10:3: error: the node h needs the key type; write type: switch, with cases: and default:",
        ],
    ),
    (
        "tags, a time-out and a fallback of the run",
        "workflow: w\ntags: [a]\ntimeout: 5m\nfallback: b\nnodes: {a: {type: call, handler: h}}\n",
        [
            "2:1: error: unknown key tags in a workflow; write labels: {name: value}",
            "3:1: error: unknown key timeout in a workflow; write deadline: 5m",
            "4:1: error: unknown key fallback in a workflow; write an edge {from: …, to: …, on: failure}",
        ],
    ),
    (
        "tags, a fallback and more of a node",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h, tags: [x], fallback: b, priority: 1, cache: true, startToCloseTimeout: 90s}\n",
        [
            "3:31: error: unknown key tags in a call node; remove it: labels are of runs, and stand beside nodes:",
            "3:42: error: unknown key fallback in a call node; write an edge {from: a, to: b, on: failure}",
            "3:55: error: unknown key priority in a call node; remove it: a queue of its own, with workers of its own, lets a node go first or not too often",
            "3:68: error: unknown key cache in a call node; remove it: a node is done once in a run, and its output is kept with the run",
            "3:81: error: unknown key startToCloseTimeout in a call node; write timeout: 90s",
        ],
    ),
    (
        "keys that other types have",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: wait_for_event, event: e, output_schema: {}, retry: {max_attempts: 2}}\n"
        "  b: {type: set, values: {x: 1}, compensate: a, retry: {max_attempts: 2}}\n"
        "  c: {type: repeat, until: true, max_iterations: 2, retry: {max_attempts: 2}, body: {type: call, handler: h}}\n"
        "  d: {type: subflow, workflow: x, wait: true, async: true}\n",
        [
            "3:39: error: unknown key output_schema in a wait_for_event node; write payload_schema:",
            "3:58: error: unknown key retry in a wait_for_event node; remove it: only call, http, python, subflow nodes have retry",
            "4:34: error: unknown key compensate in a set node; remove it: only call, http, python, subflow nodes have compensate",
            "4:49: error: unknown key retry in a set node; remove it: only call, http, python, subflow nodes have retry",
            "5:53: error: unknown key retry in a repeat node; write it in the nodes of the body",
            "6:35: error: unknown key wait in a subflow node; remove it: the node waits for its child, unless detach is true",
            "6:47: error: unknown key async in a subflow node; write detach: true",
        ],
    ),
    (
        "a case that leads to several",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: switch, cases: [{when: true, to: [b, c]}], default: [b, c]}\n"
        "  b: {type: call, handler: h}\n"
        "  c: {type: call, handler: h}\n",
        [
            "3:46: error: to must be one node, this is a list; let it lead to one node, fork: {type: set, values: {forked: true}}, and fork behind it by edges: [fork, b], [fork, c]",
            "3:65: error: default must be one node, this is a list; let it lead to one node, fork: {type: set, values: {forked: true}}, and fork behind it by edges: [fork, b], [fork, c]",
        ],
    ),
    (
        "a node of the body that is undone outside",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: map, over: [1], body: {type: call, handler: h, compensate: u}}\n"
        "  b: {type: map, over: [1], body: {nodes: {x: {type: call, handler: h, compensate: v}}}}\n"
        "  u: {type: call, handler: h}\n"
        "  v: {type: call, handler: h}\n"
        "edges: [[a, b]]\n",
        [
            "3:72: error: u stands outside of the body: step is undone by a node of the same body; write the body as nodes: {step: …, u: …}, with u in it and not outside",
            "4:84: error: v stands outside of the body: x is undone by a node of the same body; move v into the body, beside x",
        ],
    ),
    (
        "a node that is undone inside of a body",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h, compensate: x}\n"
        "  b: {type: map, over: [1], body: {nodes: {x: {type: call, handler: h}}}}\n"
        "edges: [[a, b]]\n",
        [
            "3:43: error: x is in the body of b: it undoes nodes of that body; write a node beside a that undoes it",
        ],
    ),
    (
        "nodes by another name",
        "workflow: w\nNodes:\n  a: {type: call, handler: h}\nedges: [[a, b]]\n",
        [
            "2:1: error: unknown key Nodes in a workflow; did you mean nodes?",
        ],
    ),
    (
        "a default",
        "workflow: w\n"
        "input_schema: {type: object, properties: {n: {type: integer, default: 3}, o: {type: object, properties: {t: {default: x}}}}}\n"
        'nodes: {a: {type: call, handler: h, input: "${input.n}"}}\n',
        [
            "2:71: warning: default is not filled in: without a value, n stays absent (and so o.t); remove it, and where it is read, write has(input.n) ? input.n : 3",
        ],
    ),
    (
        "iterations without a last one",
        "workflow: w\n"
        "nodes:\n"
        '  r: {type: repeat, while: last.more, max_iterations: 2, body: {type: call, handler: h, input: "${last.x}"}}\n',
        [
            "3:28: error: last is null before the first iteration: it has no fields then; write index == 0 || last.more …, so that it begins",
            "3:99: error: last is null before the first iteration: it has no fields then; write has(last.x) ? last.x : null",
        ],
    ),
    (
        "what a map gives in its body",
        "workflow: w\n"
        "nodes:\n"
        '  m: {type: map, over: [1], body: {type: call, handler: h, input: "${nodes.m.index}"}}\n'
        "  r: {type: repeat, until: true, max_iterations: 2, body: {type: call, handler: h}}\n"
        '  a: {type: call, handler: h, input: "${nodes.m.item} ${nodes.r.last.x}"}\n'
        "edges: [[m, r, a]]\n",
        [
            "3:70: error: nodes.m.index is nothing: a map node has output, state and counts; write index",
            "5:41: error: nodes.m.item is nothing: a map node has output, state and counts; item is there in the body of m only; behind it, nodes.m.output[0] is the first of its results",
            "5:57: error: nodes.r.last.x is nothing: a repeat node has output, state and counts; last is there in the body of r only; behind it, nodes.r.output is its last result",
        ],
    ),
]
