"""Long lists in the test kit: what is left out, and single results."""

from __future__ import annotations

from tests.testkit.kit import report_on, the_case

FLOW = """
    nodes:
      all: {type: map, over: "${input}", max_concurrency: 500, body: {type: call, handler: score, input: "${item}"}}
      bad:
        type: map
        over: "${nodes.all.output}"
        where: "item.score > 2"
        body: {type: call, handler: look, input: {place: "${index}", first: "${nodes.all.output[0].score}"}}
      end: {type: finish, output: {n: "${size(nodes.bad.output)}", left_out: "${nodes.bad.counts.left_out}"}}
    edges: [[all, bad, end]]
"""


def test_items_that_are_left_out_are_not_worked_on() -> None:
    case = the_case(
        FLOW,
        """
        input: [1, 2, 3, 4]
        mocks: {score: {output: {score: "${input}"}}, look: {}}
        expect:
          output: {n: 2, left_out: 2}
          calls:
            - {handler: look, times: 2}
            - {node: "bad[0].step", input: {place: 2, first: 1}}
            - {node: "bad[1].step", input: {place: 3, first: 1}}
        """,
    )

    assert case.problems == ()


def test_two_thousand_items_are_gone_through() -> None:
    numbers = ", ".join(map(str, range(2_000)))
    report = report_on(
        FLOW.replace("item.score > 2", "item.score >= 1998"),
        f"""
        mocks: {{score: {{output: {{score: "${{input}}"}}}}, look: {{}}}}
        cases:
          - name: it
            input: [{numbers}]
            expect: {{output: {{n: 2, left_out: 1998}}}}
        """,
    )

    assert [case.problems for case in report.cases] == [()]
