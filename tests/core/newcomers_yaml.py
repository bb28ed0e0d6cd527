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
    (
        "an open quote, told where it opens",
        "workflow: w\n"
        "nodes:\n"
        "  a:\n"
        "    type: call\n"
        '    handler: "h\n'
        '    input: {n: "${input.n}"}\n'
        "  b:\n"
        "    type: call\n"
        "    handlr: 'h'\n",
        [
            '5:14: error: a quote that is never closed; write "h"',
            "9:5: error: unknown key handlr in a call node; did you mean handler?",
        ],
    ),
    (
        "an open quote to the end of the file",
        'workflow: w\nnodes:\n  a:\n    type: call\n    handler: "h\n',
        [
            '5:14: error: a quote that is never closed; write "h"',
        ],
    ),
    (
        "several values that YAML cannot read",
        "workflow: w\n"
        "nodes:\n"
        "  a:\n"
        "    type: call\n"
        "    handler: h\n"
        "    input:\n"
        '      one: "say "hi""\n'
        "      two: 'it's'\n"
        "      three: @foo\n"
        "      four: *x\n"
        "      five: key: value\n"
        "      six: ${input.x ? 'a' : 'b'}\n",
        [
            "7:18: error: text behind the quote that ends the value; write 'say \"hi\"'",
            '8:16: error: text behind the quote that ends the value; write "it\'s"',
            "9:14: error: no value can begin with this character; put the value in quotes",
            "10:13: error: *x refers to no anchor; put * in quotes, or set &x before it",
            "11:16: error: `: ` in a value without quotes; put the value in quotes, or the key on a line of its own",
            '12:28: error: a template without quotes, which YAML takes for a map; put it in quotes: "${ … }"',
        ],
    ),
    (
        "two templates without quotes, and a typo",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h, input: ${input.x}}\n"
        "  b: {type: cal, handler: h, input: {a: ${input.y ? 'a' : 'b'}, b: Hi ${inptu.n}}}\n"
        "edges: [[a, ${input.z}]]\n",
        [
            '3:39: error: a template without quotes, which YAML takes for a map; put it in quotes: "${ … }"',
            "4:13: error: there is no node type cal; did you mean call?",
            '4:42: error: a template without quotes, which YAML takes for a map; put it in quotes: "${ … }"',
            '4:72: error: a template without quotes, which YAML takes for a map; put it in quotes: "${ … }"',
            '5:14: error: a template without quotes, which YAML takes for a map; put it in quotes: "${ … }"',
        ],
    ),
    (
        "text in lines of its own within braces",
        "workflow: w\nnodes:\n  a: {type: python, code: |\n    def run(input):\n      return 1\n  }\n",
        [
            "3:27: error: text in lines of its own (|) cannot stand within braces; write the braces' keys in lines of their own, without braces",
        ],
    ),
    (
        "code that is not indented",
        "workflow: w\nnodes:\n  a:\n    type: python\n    code: |\n    def run(input):\n      return 1\n",
        [
            "6:5: error: text that is not indented below line 5, which announces it by |; indent all of it deeper than line 5",
        ],
    ),
    (
        "code that is not indented, and is no YAML",
        "workflow: w\n"
        "nodes:\n"
        "  a:\n"
        "    type: python\n"
        "    code: |\n"
        "    import json\n"
        "    def run(input):\n"
        "      return 1\n",
        [
            "6:5: error: text that is not indented below line 5, which announces it by |; indent all of it deeper than line 5",
        ],
    ),
    (
        "code at the beginning of the line",
        "workflow: w\nnodes:\n  a:\n    type: python\n    code: >\n\ndef run(input):\n  return 1\n",
        [
            "7:1: error: text that is not indented below line 5, which announces it by >; indent all of it deeper than line 5",
        ],
    ),
    (
        "keys beside their nodes",
        "workflow: w\nnodes:\n  a:\n  type: call\n  handler: x\n  b:\n  type: call\n  handler: y\nedges: [[a, b]]\n",
        [
            "4:3: error: type stands beside a, not below it; indent the keys of each node deeper than its name",
        ],
    ),
    (
        "edges among the nodes",
        "workflow: w\nnodes:\n  a: {type: call, handler: h}\n  b: {type: call, handler: h}\n  edges: [[a, b]]\n",
        [
            "5:3: error: edges stands among the nodes; indent it less: it stands beside nodes:",
        ],
    ),
    (
        "a bracket that stays open over lines",
        "workflow: w\nnodes:\n  a: {type: call, handler: h\n  b: {type: call, handler: h}\n",
        [
            "4:4: error: a comma or a closing bracket is missing before this; close the bracket of line 3; put values that hold , : { } [ ] in quotes",
        ],
    ),
    (
        "an equals sign for a colon",
        "workflow = w\nnodes: {a: {type: call, handler: h}}\n",
        [
            "1:1: error: a key without a colon and a space behind it; write workflow: w",
        ],
    ),
    (
        "a comment of JavaScript",
        "workflow: w\nnodes:\n  // first\n  a: {type: call, handler: h}\n",
        [
            "3:3: error: // begins no comment; write #",
        ],
    ),
    (
        "edges with a comma, arrows and a colon",
        "workflow: w\n"
        "nodes:\n"
        "  a: {type: call, handler: h}\n"
        "  b: {type: call, handler: h}\n"
        "edges:\n"
        "  - a, b\n"
        "  - a => b -> a\n"
        "  - a: b\n",
        [
            "6:5: error: an edge must be a list or a map; write [a, b]",
            "7:5: error: an edge must be a list or a map; write [a, b, a]",
            "8:5: error: an edge must be a list, or a map with from and to; write [a, b]",
        ],
    ),
]
