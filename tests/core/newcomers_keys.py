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
            "5:21: error: a cycle: a → b → a; remove one of its edges",
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
            "3:49: error: unknown key delay in a retry policy; write initial: 1s",
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
]
