# ruff: noqa: E501, ISC004 - what is said stands on one line
"""Slips of newcomers in YAML, in names and in the spelling of values, and what they are told."""

# What is wrong, the source, and all that is said of it.
TABLE: list[tuple[str, str, list[str]]] = [
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
]
