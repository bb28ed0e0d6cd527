# ruff: noqa: E501, ISC004 - what is said stands on one line
"""Workflows as people write them who come from elsewhere: each fault is said at its place, once, with what to write."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import Code, compile_workflow
from headway.coordinator.zones import zone_names

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
        "a tab",
        "workflow: w\nnodes:\n  a:\n    type: call\n\thandler: h\n",
        [
            "5:1: error: a tab; indent with spaces",
        ],
    ),
    (
        "a name twice",
        "workflow: w\nnodes:\n  a: {type: call, handler: h}\n  a: {type: call, handler: g}\n",
        [
            "4:3: error: the key a stands here twice; first in line 3; remove or rename one of them",
        ],
    ),
    (
        "a line too far left",
        "workflow: w\nnodes:\n  a:\n    type: call\n   handler: h\n",
        [
            "5:4: error: this line does not go with those above it; give neighbours the same indentation, and begin all with a dash or none",
        ],
    ),
    (
        "a line too far right",
        "workflow: w\nnodes:\n  a:\n    type: call\n      handler: h\n",
        [
            "5:7: error: a key below a line that has a value already; indent both lines alike",
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
        "two braces, the way of CI",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: '${{ inputs.name }}'}\n",
        [
            "3:39: error: ${{ }} is not a template here; write ${input.name}",
        ],
    ),
    (
        "the same around a condition",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "edges:\n"
        "  - {from: a, to: b, when: '${{ input.x > 1 }}'}\n",
        [
            "6:28: error: a condition is an expression already; ${ } does not belong here; write input.x > 1",
        ],
    ),
    (
        "two braces, the way of clusters",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: '{{inputs.parameters.x}}'}\n",
        [
            "3:38: warning: {{inputs.parameters.x}} is no template here, but text; write ${input.x}",
        ],
    ),
    (
        "the same without quotes",
        "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    input: {{inputs.parameters.x}}\n",
        [
            '6:13: error: a map or list as a key; a template is written in quotes: "${name}"',
        ],
    ),
    (
        "paths of JSON",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: {id: '$.order.id', 'x.$': $.y}}\n",
        [
            "3:43: warning: $.order.id is no template here, but text; write ${input.order.id}",
            "3:64: warning: $.y is no template here, but text; write ${input.y}",
        ],
    ),
    (
        "a template without quotes in brackets",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: ${input.x}}\n",
        [
            '3:39: error: a template without quotes, which YAML takes for a map; put it in quotes: "${ … }"',
        ],
    ),
    (
        "a template without quotes, with a colon",
        "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    input: ${input.x ? 'a' : 'b'}\n",
        [
            '6:28: error: a template without quotes, which YAML takes for a map; put it in quotes: "${ … }"',
        ],
    ),
    (
        "yes",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, optional: yes}\n",
        [
            "3:41: error: optional must be true or false, this is yes; write true, without quotes",
        ],
    ),
    (
        "off",
        "workflow: w\nnodes:\n  a: {type: wait_for_event, event: e, reuse: off}\n",
        [
            "3:46: error: reuse must be true or false, this is off; write false, without quotes",
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
        "an arrow",
        "workflow: w\nnodes:\n  a: {type: call, handler: h}\n  b: {type: call, handler: h}\nedges:\n  - a -> b\n",
        [
            "6:5: error: an edge must be a list or a map; write [a, b]",
        ],
    ),
    (
        "edges as a map",
        "workflow: w\nnodes:\n  a: {type: call, handler: h}\n  b: {type: call, handler: h}\nedges:\n  a: b\n",
        [
            "6:3: error: edges must be a list, this is a map; write edges: [[from, to]]",
        ],
    ),
    (
        "a chain without its second brackets",
        "workflow: w\nnodes:\n  a: {type: call, handler: h}\n  b: {type: call, handler: h}\nedges: [a, b]\n",
        [
            "5:8: error: edges must be a list of edges, this is one edge; write [[a, b]]",
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
        "keys with capitals",
        "workflow: w\nnodes:\n  a: {Type: call, Handler: h}\n",
        [
            "3:7: error: unknown key Type in the node a; write type, in small letters",
        ],
    ),
    (
        "names with capitals and dashes",
        "workflow: w\n"
        "nodes:\n"
        "  shipOrder: {type: call, handler: h}\n"
        "  ship-it: {type: call, handler: h}\n"
        "edges: [[shipOrder, ship-it]]\n",
        [
            "3:3: error: 'shipOrder' cannot name a node; small letters, digits and _, a letter first, at most 63: ship_order",
            "4:3: error: 'ship-it' cannot name a node; small letters, digits and _, a letter first, at most 63: ship_it",
        ],
    ),
    (
        "what steps gave",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h, input: '${steps.a.outputs.x}'}\n"
        "edges: [[a, b]]\n",
        [
            "4:41: error: unknown name steps; write nodes.name.output; in scope here: nodes, input, run",
        ],
    ),
    (
        "a node by its bare name",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h, input: '${a.output.x} ${a.x}'}\n"
        "edges: [[a, b]]\n",
        [
            "4:41: error: unknown name a; write nodes.a.output.x",
            "4:55: error: unknown name a; write nodes.a.output.x",
        ],
    ),
    (
        "fields that a node has elsewhere",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h, input: '${nodes.a.outputs.x} ${nodes.a.result} ${nodes.a.x}'}\n"
        "edges: [[a, b]]\n",
        [
            "4:41: error: nodes.a.outputs.x is nothing: a call node has output and state; write nodes.a.output.x",
            "4:62: error: nodes.a.result is nothing: a call node has output and state; write nodes.a.output",
            "4:80: error: nodes.a.x is nothing: a call node has output and state; write nodes.a.output.x",
        ],
    ),
    (
        "inputs, Input, a typo and the environment",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: '${inputs.x} ${Input.x} ${inptu.x} ${env.HOME}'}\n",
        [
            "3:41: error: unknown name inputs; write input.name; in scope here: input, run",
            "3:53: error: unknown name Input; did you mean input? in scope here: input, run",
            "3:64: error: unknown name inptu; did you mean input? in scope here: input, run",
            "3:75: error: unknown name env; write input.name: what lies in the environment is read by handlers; in scope here: input, run",
        ],
    ),
    (
        "words for operators",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "edges:\n"
        "  - {from: a, to: b, when: input.x and not input.y}\n",
        [
            "6:36: error: `and` is not an operator; write &&",
        ],
    ),
    (
        "a single =",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "edges:\n"
        "  - {from: a, to: b, when: input.x = 1}\n",
        [
            "6:36: error: a single = compares nothing; write ==",
        ],
    ),
    (
        "a condition that begins with a quote",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "edges:\n"
        "  - from: a\n"
        "    to: b\n"
        '    when: "a" == input.x\n',
        [
            "8:15: error: text behind the quote that ends the value; put all of the value in quotes of the other kind: '\"a\" == input.name'",
        ],
    ),
    (
        "text without quotes in a condition",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "edges:\n"
        "  - {from: a, to: b, when: input.x == gold}\n",
        [
            '6:39: error: unknown name gold; in scope here: nodes, input, run; a text stands in quotes: "gold"',
        ],
    ),
    (
        "nodes as a list",
        "workflow: w\nnodes:\n  - name: a\n    type: call\n    handler: h\n",
        [
            "3:3: error: nodes must be a map, this is a list; write nodes: {name: {type: call, handler: …}}, without dashes",
        ],
    ),
    (
        "no colon at all",
        "workflow w\nnodes:\n  a: {type: call, handler: h}\n",
        [
            "1:1: error: a key without a colon and a space behind it; write workflow: w",
        ],
    ),
    (
        "no space behind the first colon",
        "workflow:w\nnodes:\n  a: {type: call, handler: h}\n",
        [
            "1:1: error: a key without a colon and a space behind it; write workflow: w",
        ],
    ),
    (
        "no space before a brace",
        "workflow: w\nnodes:\n  a:{type: call, handler: h}\n",
        [
            "3:3: error: no space behind a colon; write `a: `",
        ],
    ),
    (
        "no space within braces",
        "workflow: w\nnodes:\n  a: {type:call, handler:h}\n",
        [
            "3:7: error: unknown key type:call in the node a; write a space behind the colon",
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
        "a star without quotes",
        "workflow: w\nschedule: * * * * *\nnodes: {a: {type: call, handler: h}}\n",
        [
            "2:12: error: * begins an alias; a value that begins with * must stand in quotes",
        ],
    ),
    (
        "an @ without quotes",
        "workflow: w\nnodes:\n  a: {type: call, handler: @mail}\n",
        [
            "3:28: error: no value can begin with this character; put the value in quotes",
        ],
    ),
    (
        "a colon in text",
        "workflow: w\nnodes:\n  a:\n    type: finish\n    outcome: failed\n    message: Error: no stock\n",
        [
            "6:19: error: `: ` in a value without quotes; put the value in quotes, or the key on a line of its own",
        ],
    ),
    (
        "a # that is a comment",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, queue: #fast}\n",
        [
            "4:1: error: a bracket that is never closed; close it; what stands behind a # is a comment, unless it is in quotes",
        ],
    ),
    (
        "a number for text",
        "workflow: w\nnodes:\n  a: {type: call, handler: 42}\n",
        [
            "3:28: error: handler must be text, this is 42; put it in quotes",
        ],
    ),
    (
        "a key with nothing behind it",
        "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    queue:\n",
        [
            "6:5: error: queue must be text, this is empty; write at least one character",
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
        "a typo in edges",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h, input: '${nodes.a.output}'}\n"
        "edgs: [[a, b]]\n",
        [
            "5:1: error: unknown key edgs in a workflow; did you mean edges?",
        ],
    ),
    (
        "a typo in nodes",
        "workflow: w\nnods:\n  a: {type: call, handler: h}\n  b: {type: call, handler: h}\nedges: [[a, b]]\n",
        [
            "2:1: error: unknown key nods in a workflow; did you mean nodes?",
        ],
    ),
    (
        "quotes of a word processor",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: “${input.x}”}\n",
        [
            "3:40: error: typographic quotes, which YAML takes for letters; write \" or '",
        ],
    ),
    (
        "a computed handler",
        "workflow: w\nnodes:\n  a: {type: call, handler: 'ship.${input.x}'}\n",
        [
            "3:28: error: handler is constant: no template can stand here; write the text itself; where it is to be chosen, let a switch go to one of several nodes",
        ],
    ),
    (
        "a computed type",
        "workflow: w\nnodes:\n  a: {type: '${input.t}'}\n",
        [
            "3:13: error: there is no node type ${input.t}; known here: call, finish, http, join, map, python, repeat, set, subflow, switch, wait, wait_for_event",
        ],
    ),
    (
        "functions of another language",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h, input: '${len(input.l)}'}\n"
        "  b: {type: call, handler: h, input: '${input.name.upper()}'}\n",
        [
            "3:44: error: unknown function or name len; write size",
            "4:57: error: unknown function or name upper; compute this in a python node",
        ],
    ),
    (
        "$name in a text",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: 'Hello $input.name'}\n",
        [
            "3:38: warning: Hello $input.name is no template here, but text; write ${input.name}",
        ],
    ),
    (
        "a template for a condition",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: repeat, max_iterations: 3, until: '${last.done}', body: {type: call, handler: h}}\n",
        [
            "3:47: error: a condition is an expression already; ${ } does not belong here; write last.done",
        ],
    ),
    (
        "an item by a dot",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: '${input.items.0.id}'}\n",
        [
            '3:52: error: unexpected ".0"; an item of a list is read by [0], a field whose name is no word by ["1"]',
        ],
    ),
    (
        "a field with a dash",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: '${input.order-id}'}\n",
        [
            '3:47: error: - subtracts: order-id is not read as one name; write ["order-id"]',
        ],
    ),
]


@pytest.mark.parametrize(("source", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_newcomer_is_told_where_it_is_wrong_and_what_to_write(source: str, expected: list[str]) -> None:
    faults = compile_workflow(source, zone_names()).faults

    assert [str(fault) for fault in faults if fault.code is not Code.CHECKS_WAIT] == expected


def test_nobody_is_left_without_a_remedy() -> None:
    faults = [fault for _, source, _ in TABLE for fault in compile_workflow(source).faults]

    assert [str(fault) for fault in faults if not fault.remedy and fault.code is not Code.CHECKS_WAIT] == []
    assert len(TABLE) > 60
