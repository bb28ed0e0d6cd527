# ruff: noqa: E501, ISC004 - what is said stands on one line
"""What newcomers write for templates and expressions, and what they are told."""

# What is wrong, the source, and all that is said of it.
TABLE: list[tuple[str, str, list[str]]] = [
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
        "a choice without its other side",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: \"${input.x == 3 ? 'a' : }\"}\n",
        [
            "3:61: error: the expression ends too early; the part behind : is missing: write what it is otherwise, such as null",
        ],
    ),
    (
        "a choice of one",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: \"${input.x == 3 ? 'a'}\"}\n",
        [
            "3:59: error: the expression ends too early; write : behind it, and what it is otherwise, such as null",
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
            "6:36: error: `and` is not an operator; write input.x && !input.y",
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
            "6:36: error: a single = compares nothing; write input.x == 1",
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
            "8:15: error: text behind the quote that ends the value; write '\"a\" == input.x'",
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
            "3:44: error: unknown function or name len; write size(input.l)",
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
    (
        "the payload by another name",
        "workflow: w\nnodes:\n  a: {type: wait_for_event, event: e, filter: event.id == input.id}\n",
        [
            "3:47: error: unknown name event; write payload.id; in scope here: payload, input, run",
        ],
    ),
    (
        "a template around a part of a condition",
        "workflow: w\n"
        "nodes:\n"
        '  a: {type: switch, cases: [{when: "${input.n} > 5", to: b}, {when: "${input.a} == ${input.b}", to: b}, {when: "{{input.x}} == 1", to: b}], default: b}\n'
        "  b: {type: call, handler: h}\n",
        [
            "3:36: error: a condition is an expression already; ${ } does not belong here; write input.n > 5",
            "3:69: error: a condition is an expression already; ${ } does not belong here; write input.a == input.b",
            "3:112: error: a condition is an expression already; {{ }} does not belong here; write input.x == 1",
        ],
    ),
    (
        "a template in a text of a condition",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "  c: {type: call, handler: h}\n"
        "edges:\n"
        "  - {from: a, to: b, when: \"'${input.kind}' == 'gold'\"}\n"
        "  - [a, c]\n",
        [
            "7:28: error: a text in a condition holds no templates: it is compared as it is written; write input.kind == 'gold'",
        ],
    ),
    (
        "what stands for nothing",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h, input: \"${input.a || 'd'} ${input.b ?? 'd'} ${input.c ?: 'd'} ${input.d?.e} ${default(input.f, 'd')}\"}\n",
        [
            "3:49: error: || cannot be used on any value and text; write has(input.a) ? input.a : 'd'",
            "3:67: error: ?? is not an operator; write has(input.b) ? input.b : 'd'",
            "3:85: error: ?: is not an operator; write has(input.c) ? input.c : 'd'",
            "3:102: error: ?. is not an operator; write has(input.d.e) ? input.d.e : null",
            "3:116: error: unknown function or name default; write has(input.f) ? input.f : 'd'",
        ],
    ),
    (
        "parts of lists and texts",
        "workflow: w\n"
        "nodes:\n"
        '  a: {type: call, handler: h, input: "${input.l[-1]} ${input.s[0:3]} ${input.l.length()}"}\n',
        [
            "3:48: error: there is no item [-1]: places in a list count from 0; write input.l[size(input.l) - 1]",
            "3:63: error: parts are not cut out by [ : ]; read one item, such as list[0], or compute this in a python node",
            "3:86: error: unknown function or name length; write size(input.l)",
        ],
    ),
    (
        "functions of JavaScript and Python",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h, input: \"${str(input.n)} ${input.s.includes('x')} ${input.s.toUpperCase()} ${JSON.stringify(input.l)} ${json(input.l)} ${now()} ${input.l.map(x => x.id)}\"}\n",
        [
            "3:44: error: unknown function or name str; write string(input.n)",
            "3:73: error: unknown function or name includes; write input.s.contains('x')",
            "3:101: error: unknown function or name toUpperCase; compute this in a python node",
            "3:107: error: unknown name JSON; write it in a python node: there are no libraries here; in scope here: input, run",
            "3:138: error: unknown function or name json; leave it out: a template alone keeps its value, and within text it is spelt as JSON",
            "3:154: error: unknown function or name now; take it in a handler or a python node: an expression yields the same each time",
            "3:174: error: => is not an operator; write input.l.map(x, x.id)",
        ],
    ),
    (
        "templates of other languages",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h, input: {a: '$(input.a)', b: '#{input.b}', c: '<% $.c %>', d: '{input.d}', e: '$.input.e', f: '=input.f'}}\n",
        [
            "3:42: warning: $(input.a) is no template here, but text; write ${input.a}",
            "3:59: warning: #{input.b} is no template here, but text; write ${input.b}",
            "3:76: warning: <% $.c %> is no template here, but text; write ${input.c}",
            "3:92: warning: {input.d} is no template here, but text; write ${input.d}",
            "3:108: warning: $.input.e is no template here, but text; write ${input.e}",
            "3:124: warning: =input.f is no template here, but text; write ${input.f}",
        ],
    ),
    (
        "a template that is no duration",
        "workflow: w\nnodes:\n  a: {type: wait, duration: '{{ input.x }}'}\n",
        [
            "3:29: error: duration is no duration: {{ input.x }}; write ${input.x}",
        ],
    ),
]
