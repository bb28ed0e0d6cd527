# ruff: noqa: E501, ISC004 - a source on one line is easier to count columns in
"""Workflows in which something is wrong, each with the places and the kinds of its faults."""

WORKER = "{type: call, handler: h}"

# What is wrong: its name, the source, and line, column and code of every fault and warning in it.
TABLE = [
    # YAML
    ("an empty file", "", [(1, 1, "yaml_syntax")]),
    ("only a comment", "# nothing\n", [(1, 1, "yaml_syntax")]),
    ("a list", "- a\n", [(1, 1, "wrong_type")]),
    # Lists
    (
        "an expression that goes through the results of a map for another one",
        'workflow: w\nnodes:\n  m: {type: map, over: "${input}", body: {type: join}}\n  n: {type: map, over: "${nodes.m.output.filter(x, x)}", body: {type: join}}\nedges: [[m, n]]\n',
        [(4, 27, "long_list")],
    ),
    (
        "a where that reads the body",
        f'workflow: w\nnodes:\n  m: {{type: map, over: [1], where: "nodes.step.output > item", body: {WORKER}}}\n',
        [(3, 37, "not_an_ancestor")],
    ),
    (
        "a where that is no condition",
        f'workflow: w\nnodes:\n  m: {{type: map, over: [1], where: "size([1])", body: {WORKER}}}\n',
        [(3, 36, "not_a_condition")],
    ),
    # Failures
    (
        "failures that are nearly classes, or types of a node",
        "workflow: w\ndefaults: {retry: {max_attempts: 2, rules: [{errors: [exec_faild], max_attempts: 1}]}}\nnodes:\n  a: {type: http, request: {url: u}}\n  b: {type: call, handler: h, retry: {max_attempts: 3, rules: [{errors: [Timeout, Lost], max_attempts: 1}]}}\nedges: [{from: a, to: b, on: failure, errors: [HTTPStatus, Nonsense, OutputInvalid, timeout]}]\n",
        [
            (2, 55, "unlikely_failure"),
            (5, 74, "unlikely_failure"),
            (6, 48, "unlikely_failure"),
            (6, 60, "unlikely_failure"),
        ],
    ),
    # Compensation
    (
        "an undoing node that is not there",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, compensate: b}\n",
        [(3, 43, "unknown_node")],
    ),
    (
        "a node that undoes itself",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, compensate: a}\n",
        [(3, 43, "contradiction")],
    ),
    (
        "an undoing node that waits",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, compensate: b}\n  b: {type: wait, duration: 1s}\n",
        [(3, 43, "contradiction")],
    ),
    (
        "one node that undoes two",
        f"workflow: w\nnodes:\n  a: {{type: call, handler: h, compensate: u}}\n  b: {{type: call, handler: h, compensate: u}}\n  u: {WORKER}\n",
        [(4, 43, "contradiction")],
    ),
    (
        "an undoing node that is undone",
        f"workflow: w\nnodes:\n  a: {{type: call, handler: h, compensate: u}}\n  u: {{type: call, handler: h, compensate: v}}\n  v: {WORKER}\n",
        [(3, 43, "contradiction")],
    ),
    (
        "an edge to an undoing node",
        f"workflow: w\nnodes:\n  a: {{type: call, handler: h, compensate: u}}\n  u: {WORKER}\nedges: [[a, u]]\n",
        [(5, 13, "edge_not_allowed")],
    ),
    (
        "an undoing node that reads what may not have run",
        f'workflow: w\nnodes:\n  a: {{type: call, handler: h, compensate: u}}\n  b: {WORKER}\n  u: {{type: call, handler: h, input: "${{nodes.b.output}}"}}\n',
        [(5, 41, "not_an_ancestor")],
    ),
    ("a control character", "workflow: \x01", [(1, 11, "yaml_syntax")]),
    ("an escape beyond Unicode", 'workflow: "\\U00110000"', [(1, 1, "yaml_syntax")]),
    ("a tab", "workflow: w\nnodes:\n\ta: b\n", [(3, 1, "yaml_syntax")]),
    ("a quote that is never closed", 'workflow: "w\n', [(1, 11, "yaml_syntax"), (1, 1, "missing_key")]),
    ("a bracket that is never closed", "workflow: w\nnodes: {a: {type: call\n", [(2, 12, "yaml_syntax")]),
    ("wrong indentation", "workflow: w\nnodes:\n  a: 1\n b: 2\n", [(4, 2, "yaml_syntax")]),
    (
        "two documents",
        f"workflow: w\nnodes: {{a: {WORKER}}}\n---\nworkflow: w\n",
        [(3, 1, "yaml_syntax")],
    ),
    ("a merge key", f"workflow: w\nnodes: {{a: {WORKER}}}\n<<: {{description: x}}\n", [(3, 1, "yaml_key")]),
    ("a key that stands twice", f"workflow: w\nnodes:\n  a: {WORKER}\n  a: {WORKER}\n", [(4, 3, "duplicate_key")]),
    (
        "an alias without an anchor",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: *x}\n",
        [(3, 38, "yaml_alias")],
    ),
    (
        "an alias within its anchor",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: &x [*x]}\n",
        [(3, 42, "yaml_alias")],
    ),
    (
        "a bomb of aliases",
        "workflow: w\ndescription: &a [x,x,x,x,x,x,x,x,x,x]\nnodes:\n"
        + "".join(f"  n{i}: &{'bcdefg'[i]} [{','.join(['*' + 'abcdef'[i]] * 10)}]\n" for i in range(6)),
        [(7, 20, "too_large")],
    ),
    ("endless depth", "a: " + "[" * 100_000, [(1, 67, "too_large")]),
    (
        "a number that JSON has not",
        "workflow: w\nnodes: {a: {type: call, handler: h, input: .inf}}",
        [(2, 44, "wrong_value")],
    ),
    (
        "an integer beyond 64 bits",
        "workflow: w\nnodes: {a: {type: call, handler: h, input: 9223372036854775808}}",
        [(2, 44, "wrong_value")],
    ),
    (
        "half of a character",
        'workflow: w\nnodes: {a: {type: call, handler: h, input: "\\ud800"}}',
        [(2, 44, "wrong_value")],
    ),
    # the usual slips
    (
        "a tag",
        "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    input: !input.x\n",
        [(6, 12, "yaml_tag")],
    ),
    ("a tag within brackets", "workflow: w\nnodes:\n  a: {type: call, handler: h, input: !x}\n", [(3, 40, "yaml_tag")]),
    (
        "a template without quotes within brackets",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: {order: ${x}}}\n",
        [(3, 47, "unquoted_template")],
    ),
    (
        "another language's template",
        "workflow: w\nnodes:\n  a: {type: call, handler: {{name}}}\n",
        [(3, 29, "yaml_key")],
    ),
    (
        "a template become a map",
        "workflow: w\nnodes:\n  a: {type: call, handler: {name}}\n",
        [(3, 28, "unquoted_template")],
    ),
    (
        "a choice without quotes",
        "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    input: a ? b : c\n",
        [(6, 18, "yaml_syntax")],
    ),
    ("a list of nodes", "workflow: w\nnodes:\n  - a\n", [(3, 3, "wrong_type")]),
    (
        "a template as a condition",
        f'workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\nedges:\n  - {{from: a, to: b, when: "${{input.x > 1}}"}}\n',
        [(6, 28, "bare_expression")],
    ),
    (
        "a template in constant text",
        'workflow: w\nnodes:\n  a: {type: call, handler: "${input.h}"}\n',
        [(3, 28, "template_not_allowed")],
    ),
    (
        "a template of another language in text",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, input: 'Hello {{ inputs.name }}'}\n",
        [(3, 38, "not_a_template")],
    ),
    (
        "templates in the texts of code, which are none there",
        "workflow: w\nnodes:\n  a:\n    type: python\n    code: |\n      def run(input):\n"
        "          'tells ${input.x}'  # ${input.x}\n"
        "          é = 'é'; b = 'é ${input.order.id}' + \"${item}\" + f\"${input.get('x')}\" + '$${vars.x} ${items} ${x}'\n"
        "          return b\n",
        [(8, 27, "not_a_template"), (8, 49, "not_a_template")],
    ),
    (
        "templates in code whose lines end in other ways",
        "workflow: w\nnodes:\n  a: {type: python, code: \"def run(input):\\r  a = 1\\r\\n  return '${vars.x}'\\r\"}\n",
        [(3, 27, "not_a_template")],
    ),
    (
        "a template that is not closed",
        'workflow: w\nnodes:\n  a: {type: call, handler: h, input: "a ${input.x"}\n',
        [(3, 41, "template_syntax")],
    ),
    # keys and values
    (
        "four faults at once",
        "workfow: w\nnodes:\n  a: {type: call, handlr: h}\n  b: {type: cal}\nedge: []\n",
        [
            (1, 1, "unknown_key"),
            (3, 19, "unknown_key"),
            (4, 13, "unknown_node_type"),
            (5, 1, "unknown_key"),
        ],
    ),
    ("no nodes", "workflow: w\nnodes: {}\n", [(2, 8, "no_nodes")]),
    ("a node without a type", "workflow: w\nnodes:\n  a: {handler: h}\n", [(3, 3, "missing_key")]),
    ("a node that is no map", "workflow: w\nnodes:\n  a: call\n", [(3, 6, "wrong_type")]),
    (
        "names that are none",
        f"workflow: My Flow\nnodes:\n  ShipIt: {WORKER}\n  none: {WORKER}\n",
        [(1, 11, "wrong_name"), (3, 3, "wrong_name"), (4, 3, "reserved_name")],
    ),
    (
        "values out of bounds",
        "workflow: w\ndeadline: 0s\nnodes:\n  a: {type: call, handler: h, lease: 2h, retry: {max_attempts: 0, jitter: 3}}\n",
        [(2, 11, "wrong_value"), (4, 38, "wrong_value"), (4, 64, "wrong_value"), (4, 75, "wrong_value")],
    ),
    (
        "a duration without a unit",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, timeout: 30}\n",
        [(3, 40, "wrong_type")],
    ),
    (
        "words of another YAML",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, optional: yes}\n",
        [(3, 41, "wrong_type")],
    ),
    (
        "a retry that contradicts itself",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, retry: {initial: 2m, max: 1m}}\n",
        [(3, 48, "contradiction")],
    ),
    (
        "a factor of pauses that do not grow by one",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, retry: {backoff: linear, factor: 2}}\n",
        [(3, 64, "contradiction")],
    ),
    (
        "a longest of pauses that are all the same",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, retry: {backoff: fixed, max: 2m}}\n",
        [(3, 60, "contradiction")],
    ),
    (
        "retry rules for one failure, for none, and that are none",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, retry: {rules: [{errors: [X]}, {errors: [Y, X]}, {}, x]}}\n",
        [(3, 71, "contradiction"), (3, 80, "missing_key"), (3, 84, "wrong_type")],
    ),
    (
        "two nodes that set one variable side by side",
        "workflow: w\nnodes:\n  a: {type: set, values: {x: 1}}\n  b: {type: set, values: {x: 2}}\n"
        "  c: {type: set, values: {x: 3}}\nedges: [[a, c], [b, c]]\n",
        [(4, 3, "unordered_set")],
    ),
    (
        "an edge that stands twice, its errors in another order",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\nedges:\n"
        "  - {from: a, to: b, on: failure, errors: [X, Y]}\n  - {from: a, to: b, on: failure, errors: [Y, X]}\n",
        [(7, 5, "duplicate_edge")],
    ),
    (
        "conditions of which perhaps none holds",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\n  c: {WORKER}\nedges:\n"
        "  - {from: a, to: b, when: input.x > 1}\n  - {from: a, to: c, when: input.x < 1}\n",
        [(7, 5, "may_lead_nowhere")],
    ),
    (
        "time-outs that contradict each other",
        "workflow: w\nnodes:\n  a: {type: call, handler: h, timeout: {attempt: 2m, total: 1m}}\n",
        [(3, 50, "contradiction")],
    ),
    *(
        (
            f"a queue with {what}",
            f"workflow: w\nnodes:\n  a: {{type: call, handler: h, queue: '{queue}'}}\n",
            [(3, 38, "wrong_value")],
        )
        for what, queue in [
            ("a slash", "a/b"),
            ("a brace", "{a"),
            ("the other brace", "a}"),
            ("a capital", "Ship"),
            ("too many letters", "a" * 64),
        ]
    ),
    (
        "a handler of the engine's",
        "workflow: w\nnodes:\n  a: {type: call, handler: headway.x}\n",
        [(3, 28, "reserved_name")],
    ),
    *(
        (f"python {what}", f"workflow: w\nnodes:\n  a: {{type: python, code: {code}}}\n", [(3, column, "wrong_value")])
        for what, code, column in [
            ("without run", "x = 1", 27),
            ("that does not parse", "'def run(input) return 1'", 43),
            ("with an argument too many", "'def run(input, more): return 1'", 28),
            ("without an argument", "'def run(): return 1'", 28),
            ("with an argument that must be named", "'def run(input, *, more): return 1'", 28),
            ("that is asynchronous", "'async def run(input): return 1'", 28),
            ("with run inside of another", "'def f(): run = 1'", 28),
        ]
    ),
    (
        "python that does not parse, in lines of its own",
        "workflow: w\nnodes:\n  a:\n    type: python\n    code: |\n      # run\n\n      def run(input):\n"
        "        x = 1\n        x = = 2\n        return ${x}\n",
        [(10, 13, "wrong_value")],
    ),
    (
        "a request that is none",
        "workflow: w\nnodes:\n  a: {type: http, request: {url: 5, method: FETCH, headers: [a], expect: [20]}}\n",
        [(3, 34, "wrong_type"), (3, 45, "wrong_value"), (3, 61, "wrong_type"), (3, 75, "wrong_type")],
    ),
    (
        "a zone without a time",
        "workflow: w\nnodes:\n  a: {type: wait, duration: 1s, zone: UTC}\n",
        [(3, 39, "contradiction")],
    ),
    (
        "zones that do not exist",
        "workflow: w\nnodes:\n  a: {type: wait, until: '2030-01-31T09:00:00 Europe/Wien'}\n"
        "  b: {type: wait, until: '${input.at}', zone: europe/vienna}\n"
        "  c: {type: wait, until: '2030-01-31T09:00:00', zone: 5}\n  d: {type: wait, until: '${input.at}', zone: [UTC]}\n"
        "  e: {type: wait, until: '${input.at}', zone: '${input.zone}'}\n  f: {type: wait, until: '2030-01-31 09:00 UTC'}\n",
        [(3, 47, "unknown_zone"), (4, 47, "unknown_zone"), (5, 55, "unknown_zone"), (6, 47, "unknown_zone")],
    ),
    (
        "an instant with two zones",
        "workflow: w\nnodes:\n  a: {type: wait, until: '2030-01-31T09:00:00 UTC', zone: UTC}\n",
        [(3, 26, "wrong_value")],
    ),
    ("a wait for nothing", "workflow: w\nnodes:\n  a: {type: wait}\n", [(3, 3, "contradiction")]),
    (
        "a wait for two things",
        "workflow: w\nnodes:\n  a: {type: wait, duration: 1m, until: 2030-01-31T09:00:00Z}\n",
        [(3, 3, "contradiction")],
    ),
    (
        "an instant without an offset",
        "workflow: w\nnodes:\n  a: {type: wait, until: 2030-01-31T09:00:00}\n",
        [(3, 26, "wrong_value")],
    ),
    ("an event without a name", "workflow: w\nnodes:\n  a: {type: wait_for_event}\n", [(3, 3, "missing_key")]),
    (
        "a message of success",
        "workflow: w\nnodes:\n  a: {type: finish, message: done}\n",
        [(3, 30, "contradiction")],
    ),
    ("a set of nothing", "workflow: w\nnodes:\n  a: {type: set, values: {}}\n", [(3, 26, "wrong_value")]),
    # edges
    (
        "edges that are none",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\nedges:\n  - [a, c]\n  - a -> b\n  - [a]\n"
        "  - {from: a, to: [b]}\n  - {from: a, to: b, on: fail}\n  - {from: a, to: b, errors: [x]}\n",
        [
            (6, 9, "unknown_node"),
            (7, 5, "wrong_type"),
            (8, 5, "wrong_value"),
            (9, 19, "wrong_type"),
            (10, 26, "wrong_value"),
            (11, 30, "contradiction"),
        ],
    ),
    ("edges as a map", f"workflow: w\nnodes: {{a: {WORKER}}}\nedges: {{a: b}}\n", [(3, 8, "wrong_type")]),
    (
        "an edge twice",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\nedges:\n  - [a, b]\n  - [a, b]\n",
        [(7, 9, "duplicate_edge")],
    ),
    (
        "a cycle",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\n  c: {WORKER}\nedges:\n  - [a, b, c, a]\n",
        [(7, 15, "cycle")],
    ),
    ("a node after itself", f"workflow: w\nnodes: {{a: {WORKER}}}\nedges: [[a, a]]\n", [(3, 13, "cycle")]),
    (
        "a switch with a wrong target, no default and another edge",
        f"workflow: w\nnodes:\n  s: {{type: switch, cases: [{{when: input.x, to: z}}]}}\n  u: {WORKER}\nedges:\n  - [s, u]\n",
        [(3, 3, "missing_key"), (3, 49, "unknown_node"), (6, 9, "edge_not_allowed")],
    ),
    (
        "something after the end",
        f"workflow: w\nnodes:\n  f: {{type: finish}}\n  u: {WORKER}\nedges:\n  - [f, u]\n",
        [(6, 9, "edge_not_allowed")],
    ),
    (
        "a time-out that cannot be",
        f"workflow: w\nnodes:\n  w: {{type: wait, duration: 1m}}\n  u: {WORKER}\nedges:\n  - {{from: w, on: timeout, to: u}}\n",
        [(6, 5, "edge_not_allowed")],
    ),
    (
        "edges that are never followed",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  u: {WORKER}\n  v: {WORKER}\nedges:\n"
        "  - {from: a, on: failure, to: u}\n  - {from: a, on: failure, errors: [x], to: v}\n  - {from: u, on: timeout, to: v}\n",
        [(8, 5, "edge_never_followed"), (9, 5, "edge_never_followed")],
    ),
    (
        "a node by itself",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\n  c: {WORKER}\nedges:\n  - [a, b]\n",
        [(5, 3, "isolated_node")],
    ),
    (
        "joins out of reach and of one",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  j: {{type: join, need: 3}}\n  k: {{type: join}}\n  l: {{type: join, need: some}}\n"
        "edges:\n  - [a, j]\n  - [a, k, l]\n",
        [(4, 25, "join_out_of_reach"), (5, 3, "join_of_one"), (6, 3, "join_of_one"), (6, 25, "wrong_value")],
    ),
    # schemas
    (
        "a schema that is no map",
        f"workflow: w\ninput_schema: object\nnodes: {{a: {WORKER}}}\n",
        [(2, 15, "schema_invalid")],
    ),
    (
        "a schema with an unknown type",
        f"workflow: w\ninput_schema:\n  properties:\n    a: {{type: strin}}\nnodes: {{a: {WORKER}}}\n",
        [(4, 15, "schema_invalid")],
    ),
    (
        "a schema that refers to the network, to nothing, and with a wrong pattern",
        "workflow: w\ninput_schema:\n  properties:\n    a: {$ref: https://example.com/x}\n    b: {$ref: '#/$defs/x'}\n"
        f"    c: {{pattern: '('}}\nnodes: {{a: {WORKER}}}\n",
        [(4, 15, "schema_invalid"), (5, 15, "schema_invalid"), (6, 18, "schema_invalid")],
    ),
    (
        "a schema that refers to itself",
        f"workflow: w\ninput_schema: {{$ref: '#'}}\nnodes: {{a: {WORKER}}}\n",
        [(2, 15, "schema_invalid")],
    ),
    # expressions
    (
        "a single =",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\nedges:\n  - {{from: a, to: b, when: input.x = 1}}\n",
        [(6, 36, "expression_invalid")],
    ),
    (
        "a condition that is none",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\nedges:\n  - {{from: a, to: b, when: 1 + 1}}\n",
        [(6, 28, "not_a_condition")],
    ),
    (
        "unknown names in a text of several lines",
        "workflow: w\nnodes:\n  a:\n    type: call\n    handler: h\n    input: |\n      hello ${input.x}\n      and ${foo.y}\n",
        [(8, 13, "unknown_reference")],
    ),
    (
        "an unknown name behind escapes",
        'workflow: w\nnodes:\n  a: {type: call, handler: h, input: "${input.x + \\"a\\" + foo}"}\n',
        [(3, 59, "unknown_reference")],
    ),
    (
        "values that do not go together",
        "workflow: w\ninput_schema: {required: [n], properties: {n: {type: number}}}\n"
        "nodes:\n  s: {type: switch, cases: [{when: 'input.n > \"5\"', to: a}], default: none}\n"
        f"  a: {WORKER}\n",
        [(4, 45, "type_mismatch")],
    ),
    (
        "a node behind an edge that is never followed",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  b: {WORKER}\n  c: {WORKER}\n"
        "edges:\n  - {from: a, to: b, on: failure}\n  - {from: a, to: c, on: failure}\n",
        [(5, 3, "never_runs"), (8, 5, "edge_never_followed")],
    ),
    (
        "references that lead nowhere",
        "workflow: w\nnodes:\n"
        '  a: {type: call, handler: h, input: "${nodes.b.output}"}\n'
        '  b: {type: call, handler: h, input: "${nodes.a.outptu.x} ${nodes.z.output} ${error.message} ${run.idd}"}\n'
        '  c: {type: call, handler: h, input: "${vars.x} ${nodes} ${nodes.a}"}\n'
        "edges:\n  - [a, b]\n  - [a, c]\n",
        [
            (3, 41, "not_an_ancestor"),
            (4, 41, "unknown_reference"),
            (4, 61, "unknown_reference"),
            (4, 79, "no_error_here"),
            (4, 96, "unknown_reference"),
            (5, 41, "unknown_variable"),
            (5, 51, "unknown_reference"),
            (5, 60, "unknown_reference"),
        ],
    ),
    (
        "the output of a node that failed",
        f'workflow: w\nnodes:\n  a: {WORKER}\n  b: {{type: call, handler: h, input: "${{nodes.a.output}}"}}\n'
        'edges:\n  - {from: a, on: failure, to: b, when: "nodes.a.output == 1"}\n',
        [(4, 41, "may_be_missing"), (6, 42, "may_be_missing")],
    ),
    (
        "an error that may not be there",
        f'workflow: w\nnodes:\n  a: {WORKER}\n  b: {{type: call, handler: h, input: "${{error.message}}"}}\n'
        "edges:\n  - {from: a, on: always, to: b}\n",
        [(4, 41, "may_be_missing")],
    ),
    # Maps and repeats
    (
        "what cannot stand in a body",
        "workflow: w\nnodes:\n  m:\n    type: map\n    over: [1]\n    body:\n      nodes:\n"
        "        s: {type: set, values: {x: 1}}\n",
        [(8, 9, "not_in_a_body")],
    ),
    (
        "counted signals in iterations that are not kept",
        "workflow: w\nnodes:\n  r:\n    type: repeat\n    until: true\n    max_iterations: 2\n    keep_last: 1\n"
        "    body: {type: wait_for_event, event: x, count: 2}\n",
        [(7, 16, "contradiction")],
    ),
    (
        "a node in a body that one outside undoes, and one in finally",
        "workflow: w\nnodes:\n  m:\n    type: map\n    over: [1]\n    body:\n      nodes:\n"
        f"        a: {{type: call, handler: h, compensate: b}}\n  b: {WORKER}\nedges: [[m, b]]\n"
        f"finally:\n  nodes:\n    x: {{type: call, handler: h, compensate: y}}\n    y: {WORKER}\n",
        [(8, 49, "not_in_a_body"), (13, 45, "not_in_a_body")],
    ),
    (
        "a node that is undone in iterations that are not kept",
        "workflow: w\nnodes:\n  r:\n    type: repeat\n    until: true\n    max_iterations: 2\n    keep_last: 1\n"
        f"    body: {{nodes: {{a: {{type: call, handler: h, compensate: b}}, b: {WORKER}}}}}\n",
        [(7, 16, "contradiction")],
    ),
    (
        "references into a body, and out of every loop",
        "workflow: w\nnodes:\n"
        f"  m: {{type: map, over: [1], body: {{nodes: {{inner: {WORKER}}}}}}}\n"
        '  a: {type: call, handler: h, input: "${nodes.inner.output} ${item} ${index} ${last} ${loops.m.item}"}\n'
        "edges:\n  - [m, a]\n",
        [
            (4, 41, "inside_a_body"),
            (4, 63, "no_loop_here"),
            (4, 71, "no_loop_here"),
            (4, 80, "no_loop_here"),
            (4, 88, "no_loop_here"),
        ],
    ),
    (
        "what a repeat does not give, and what is not there yet",
        "workflow: w\nnodes:\n"
        f"  before: {WORKER}\n"
        "  r:\n    type: repeat\n    while: nodes.step.output == null\n    max_iterations: 2\n"
        '    body: {type: call, handler: h, input: "${item} ${loops.r.item} ${loops.x.index} ${nodes.before.output}"}\n',
        [
            (6, 12, "not_an_ancestor"),
            (8, 46, "no_loop_here"),
            (8, 54, "unknown_reference"),
            (8, 70, "no_loop_here"),
            (8, 87, "not_an_ancestor"),
        ],
    ),
    (
        "a result that may not be there",
        "workflow: w\nnodes:\n  m:\n    type: map\n    over: [1]\n"
        '    output: "${nodes.b.output} ${nodes.a.output} ${nodes.c.output}"\n'
        f"    body:\n      nodes:\n        a: {WORKER}\n        b: {WORKER}\n        c: {WORKER}\n"
        "      edges:\n        - {from: a, to: b, when: item == 1}\n        - [a, c]\n",
        [(6, 16, "may_be_missing")],
    ),
    (
        "a repeat without an end, one around a map that keeps nothing, and both ways of tolerating",
        "workflow: w\nnodes:\n"
        f"  r: {{type: repeat, max_iterations: 2, body: {WORKER}}}\n"
        "  k:\n    type: repeat\n    until: true\n    max_iterations: 2\n    keep_last: 1\n    body:\n"
        f"      nodes: {{m: {{type: map, over: [], tolerate: {{count: 1, percent: 2}}, body: {WORKER}}}}}\n"
        "edges:\n  - [r, k]\n",
        [(3, 3, "missing_key"), (8, 16, "contradiction"), (10, 50, "contradiction")],
    ),
    (
        "names of nodes outside, and edges across",
        f"workflow: w\nnodes:\n  a: {WORKER}\n  m:\n    type: map\n    over: [1]\n    body:\n      nodes:\n"
        f"        a: {WORKER}\n        b: {WORKER}\n      edges:\n        - [b, m]\n",
        [(9, 9, "not_in_a_body"), (12, 15, "unknown_node")],
    ),
    (
        "maps in maps in maps, and so on",
        "workflow: w\nnodes:\n  m: " + "{type: map, over: [], body: " * 6 + "{type: call, handler: h}" + "}" * 6 + "\n",
        [(3, 146, "too_deep")],
    ),
]
