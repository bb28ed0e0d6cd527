"""Runs that subflow nodes start: played as they are, from the files of their workflows."""

from __future__ import annotations

from headway.coordinator.core.compiler import Code
from headway.coordinator.core.decide._children import MAX_DEPTH
from headway.coordinator.testkit import WorkflowUnreadable, run_tests
from tests.testkit.kit import family_case, family_report, wrongs

PARENT = """
nodes:
  check: {type: subflow, workflow: child, input: {n: "${input.n}"}, %s}
  after: {type: set, values: {got: "${nodes.check.output}"}}
edges: [[check, after]]
"""
CHILD = """
input_schema: {type: object, required: [n]}
nodes:
  ask: {type: call, handler: do.ask, input: "${input.n}", %s}
  pause: {type: wait, duration: 1m}
  done: {type: finish, output: {answer: "${nodes.ask.output}"}}
edges: [[ask, pause, done]]
"""
WAITING = """
nodes: {hear: {type: wait_for_event, event: word}, done: {type: finish, output: "${nodes.hear.output}"}}
edges: [[hear, done]]
"""
BOTH = {"parent": PARENT % "", "child": CHILD % ""}


def test_a_child_is_played_and_gives_its_parent_its_output() -> None:
    case = """
        input: {n: 2}
        mocks: {do.ask: {output: "${input + 1}", takes: 5s}}
        expect:
          duration: 65s
          path: [check, check/ask, check/pause, check/done, after]
          nodes: {check: {output: {answer: 3}}, check/ask: {state: succeeded, output: 3, attempts: 1}}
          runs: {check: {outcome: succeeded, output: {answer: 3}}}
          calls:
            - {node: check/ask, input: 2, times: 1}
            - {node: check, input: {n: 2}, times: 1}
            - {handler: child, times: 1}
    """

    assert wrongs(family_case(BOTH, case)) == []


def test_an_input_of_null_is_null_and_one_that_is_left_out_an_empty_object() -> None:
    files = {
        "parent": """
            input_schema: {type: "null"}
            nodes:
              own: {type: set, values: {own: "${input}"}}
              templated: {type: subflow, workflow: child, input: "${input}"}
              written: {type: subflow, workflow: child, input: null}
              without: {type: subflow, workflow: child}
        """,
        "child": """
            nodes:
              hear: {type: wait_for_event, event: word}
              done: {type: finish, output: ["${input}", "${nodes.hear.output}"]}
            edges: [[hear, done]]
        """,
    }
    case = """
        input: null
        at:
          - {signal: word, run: templated, payload: null}
          - {signal: word, run: written}
          - {signal: word, run: without}
        expect:
          nodes: {own: {output: {own: null}}}
          runs: {templated: {output: [null, null]}, written: {output: [null, null]}, without: {output: [{}, null]}}
    """

    assert wrongs(family_case(files, case)) == []


def test_the_address_of_a_node_in_a_child_goes_before_its_handler_and_is_no_other_nodes() -> None:
    flow = {
        "parent": """
            nodes:
              ask: {type: call, handler: do.ask}
              one: {type: subflow, workflow: child, input: {n: 1}}
              two: {type: subflow, workflow: child, input: {n: 2}}
        """,
        "child": CHILD % "",
    }
    case = """
        mocks: {ask: {output: own}, one/ask: {output: first}, do.ask: {output: any}}
        expect:
          nodes: {ask: {output: own}, one: {output: {answer: first}}, two: {output: {answer: any}}}
    """

    assert wrongs(family_case(flow, case)) == []


def test_items_of_a_map_each_have_a_run() -> None:
    flow = {
        "parent": """
            nodes:
              each: {type: map, over: "${input}", body: {type: subflow, workflow: child, input: {n: "${item}"}}}
        """,
        "child": CHILD % "",
    }
    case = """
        input: [a, b, c]
        mocks: {"each[1].step/ask": {fails: {type: Bad}}, each.step/ask: {output: "${input}"}}
        expect:
          outcome: failed
          path_has: ["each[0].step", "each[0].step/ask", "each[1].step/ask"]
          runs: {"each[1].step": {outcome: failed, error: {paths: [ask]}}}
          calls: [{node: each.step/ask, times: 3}, {node: "each[2].step/ask", input: c}]
    """

    assert wrongs(family_case(flow, case)) == []


def test_a_mock_of_the_node_goes_before_its_file() -> None:
    case = "input: {n: 1}\nmocks: {check: {output: mocked}}\nexpect: {path: [check, after], runs: {check: {}}}"

    assert wrongs(family_case(BOTH, case)) == []


def test_a_child_that_fails_is_followed_by_another_whose_mocks_go_on() -> None:
    flow = {"parent": PARENT % "retry: {max_attempts: 3, initial: 10s, factor: 1}", "child": CHILD % ""}
    case = """
        input: {n: 1}
        mocks: {do.ask: [{fails: {type: A}}, {fails: {type: B}}, {output: good}]}
        crashes: [{node: check/ask, attempt: 3, crash: report_twice}]
        expect:
          duration: 80s
          nodes: {check: {attempts: 3, output: {answer: good}}, check/ask: {attempts: 1}}
          calls: [{node: check/ask, times: 3}]
    """

    assert wrongs(family_case(flow, case)) == []


def test_a_retry_inside_a_child_is_the_childs_own() -> None:
    flow = {"parent": PARENT % "", "child": CHILD % "retry: {max_attempts: 2, initial: 10s}"}
    case = """
        input: {n: 1}
        mocks: {do.ask: [{fails: {type: A}}, {output: good}]}
        expect: {duration: 70s, nodes: {check: {attempts: 1}, check/ask: {attempts: 2}}}
    """

    assert wrongs(family_case(flow, case)) == []


def test_the_failure_of_a_child_names_its_failing_nodes() -> None:
    case = """
        input: {n: 1}
        mocks: {do.ask: {fails: {type: Bad, message: no}}}
        expect:
          outcome: failed
          never: [after, check/pause]
          nodes: {check: {error: {type: SubflowFailed, details: {workflow: child, nodes: [ask]}}}}
    """

    assert wrongs(family_case(BOTH, case)) == []


def test_a_cancel_goes_down_to_the_workers_of_a_child_and_up_again() -> None:
    case = """
        input: {n: 1}
        mocks: {do.ask: {hangs: true}}
        at: [{after: 10s, cancel: true}]
        expect:
          outcome: cancelled
          within: 30s
          nodes: {check: {state: cancelled}, check/ask: {state: cancelled}}
          runs: {check: {outcome: cancelled}}
    """

    assert wrongs(family_case(BOTH, case)) == []


def test_the_deadline_of_the_parent_is_one_of_the_child() -> None:
    flow = {"parent": "deadline: 30s\n" + PARENT % "", "child": CHILD % ""}
    case = """
        input: {n: 1}
        mocks: {do.ask: {output: 1}}
        %s
        expect: {outcome: failed, duration: 30s, runs: {check: {%s}}}
    """

    assert wrongs(family_case(flow, case % ("", "outcome: cancelled"))) == []
    child_first = case % ("order: [deadline of the run of check]", "outcome: failed, error: {class: timeout}")
    assert wrongs(family_case(flow, child_first)) == []


def test_a_time_out_of_the_node_leaves_its_run_which_is_stopped() -> None:
    flow = {"parent": PARENT % "timeout: 30s", "child": CHILD % ""}
    case = """
        input: {n: 1}
        mocks: {do.ask: {output: 1}}
        expect:
          outcome: failed
          error: {class: timeout}
          duration: 30s
          runs: {check: {outcome: cancelled}}
    """

    assert wrongs(family_case(flow, case)) == []


def test_a_detached_child_goes_on_when_its_parent_is_over() -> None:
    flow = {"parent": PARENT % "detach: true", "child": CHILD % ""}
    case = """
        input: {n: 1}
        mocks: {do.ask: {output: 1, takes: 1h}}
        expect: {duration: 0s, path_has: [check, after, check/done], runs: {check: {output: {answer: 1}}}}
    """

    assert wrongs(family_case(flow, case)) == []


def test_a_child_whose_input_does_not_fit_is_refused() -> None:
    flow = {"parent": "nodes: {check: {type: subflow, workflow: child, input: {m: 1}}}", "child": CHILD % ""}
    case = """
        expect:
          outcome: failed
          nodes: {check: {error: {type: SubflowRefused, details: {reason: INVALID_INPUT}}}}
          runs: {check: {outcome: refused}}
    """

    assert wrongs(family_case(flow, case)) == []


def test_labels_of_a_child_that_cannot_be_computed_refuse_it() -> None:
    flow = {"parent": PARENT % "", "child": "labels: {who: '${input.n}'}\n" + CHILD % ""}
    case = """
        input: {n: [1]}
        expect: {outcome: failed, nodes: {check: {error: {details: {reason: INVALID_LABEL}}}}}
    """

    assert wrongs(family_case(flow, case)) == []


def test_a_signal_reaches_the_run_that_it_is_sent_to() -> None:
    flow = {"parent": PARENT % "", "child": WAITING}
    case = """
        input: {n: 1}
        at: [{after: 1h, signal: word, payload: yes, run: check}]
        expect: {duration: 1h, nodes: {check: {output: yes}}}
    """
    early = """
        input: {n: 1}
        mocks: {check: {output: 1}}
        at: [{signal: word, run: check, refused: must}]
    """

    assert wrongs(family_case(flow, case)) == []
    assert wrongs(family_case(flow, early)) == []


def test_a_child_can_be_paused_skipped_and_cancelled_by_itself() -> None:
    flow = {"parent": PARENT % "", "child": WAITING}
    skipped = """
        input: {n: 1}
        at:
          - {after: 1s, pause: true, run: check}
          - {after: 2s, skip: hear, output: by hand, run: check}
        expect: {duration: 2s, nodes: {check: {output: by hand}}}
    """
    cancelled = """
        input: {n: 1}
        at: [{after: 1s, cancel: true, run: check}]
        expect: {outcome: failed, nodes: {check: {error: {type: SubflowCancelled}}}}
    """

    assert wrongs(family_case(flow, skipped)) == []
    assert wrongs(family_case(flow, cancelled)) == []


def test_a_retry_of_the_parent_goes_on_inside_the_child_that_failed() -> None:
    case = """
        input: {n: 1}
        mocks: {do.ask: [{fails: {type: A}}, {output: good}]}
        at: [{after: 1h, retry: true}]
        expect:
          duration: 61m
          nodes: {check: {attempts: 2, output: {answer: good}}, check/ask: {attempts: 2}}
          calls: [{node: check/ask, times: 2}]
    """

    assert wrongs(family_case(BOTH, case)) == []


def test_children_have_children() -> None:
    flow = {
        "top": "nodes: {down: {type: subflow, workflow: middle, input: '${input}'}}",
        "middle": "nodes: {deeper: {type: subflow, workflow: child, input: '${input}'}}",
        "child": CHILD % "",
    }
    case = """
        input: {n: 1}
        mocks: {down/deeper/ask: {output: good}}
        expect:
          path: [down, down/deeper, down/deeper/ask, down/deeper/pause, down/deeper/done]
          runs: {down/deeper: {output: {answer: good}}}
    """

    assert wrongs(family_case(flow, case)) == []


def test_workflows_that_call_each_other_end_at_the_depth_limit() -> None:
    flow = {
        "ping": "nodes: {down: {type: subflow, workflow: pong}}",
        "pong": "nodes: {back: {type: subflow, workflow: ping}}",
    }
    deepest = "/".join(["down", "back"] * (MAX_DEPTH // 2 + 1))[: -len("/back")]
    case = f"expect: {{outcome: failed, nodes: {{{deepest}: {{error: {{type: SubflowTooDeep}}}}}}}}"

    assert wrongs(family_case(flow, case)) == []


def test_a_workflow_that_calls_itself_needs_no_file_twice() -> None:
    flow = {"me": "nodes: {again: {type: subflow, workflow: me}}"}

    assert wrongs(family_case(flow, "expect: {outcome: failed, error: {says: failed}}")) == []


def test_what_ends_at_the_same_instant_is_tried_in_every_order() -> None:
    flow = {"parent": PARENT % "timeout: 1m", "child": CHILD % ""}
    case = """
        input: {n: 1}
        mocks: {do.ask: {output: 1}}
        interleavings: all
        expect: {outcome: ended}
    """
    first = """
        input: {n: 1}
        mocks: {do.ask: {output: 1}}
        order: [total time-out of check]
        expect: {outcome: failed, nodes: {check: {error: {type: total_timeout}}}}
    """

    report = family_case(flow, case)

    assert report.passed
    assert report.orders > 2
    assert wrongs(family_case(flow, first)) == []


def test_the_story_names_the_run_of_each_line_and_tells_ends_in_words() -> None:
    case = """
        input: {n: 2}
        mocks: {do.ask: {fails: {type: Bad, message: no}}}
        expect: {outcome: succeeded}
    """

    child = "run 00000000000000000000000000000002 of child"
    assert family_case(BOTH, case).story == (
        '0s  the run starts with {"n":2}',
        "      → check waits",
        "      → check asks for a run of child",
        '0s  the run of check starts with {"n":2}',
        "      → check/ask waits for a worker",
        "0s  report of check/ask: Bad",
        "      → check/ask failed: Bad: no (unhandled)",
        "      → the run of check is failing",
        "      → the run of check has failed: ask: Bad: no",
        "0s  end of check: its run has failed: ask: Bad: no",
        f"      → check failed: SubflowFailed: {child} failed: ask: Bad: no (unhandled)",
        "      → the run is failing",
        f"      → the run has failed: check: SubflowFailed: {child} failed: ask: Bad: no",
    )


def test_edges_are_counted_for_each_workflow_that_takes_part() -> None:
    report = family_report(
        BOTH, "cases: [{name: it, input: {n: 1}, mocks: {do.ask: {fails: {}}}, expect: {outcome: failed}}]"
    )

    (child,) = report.children
    assert report.workflow.coverage is not None
    assert child.coverage is not None
    assert report.workflow.coverage.never == ("check → after",)
    assert (child.file, child.coverage.never) == ("child.yaml", ("ask → pause", "pause → done"))


def test_a_run_of_which_nothing_is_known_asks_for_a_mock_or_a_file() -> None:
    case = family_case({"parent": PARENT % ""}, "input: {n: 1}")

    (problem,) = case.problems
    assert problem.what == "check asks for a run of child, and nothing says what comes of it"
    assert problem.expected == "add a mock for check, or the file of child to children"


MISTAKES = {
    "children: [nobody.yaml]": "1:36: error: cannot read nobody.yaml; name it as it is seen from this file",
    "children: [parent.yaml]": (
        "1:36: error: the workflow of parent.yaml is parent, and so is that of parent.yaml; keep one of the files"
    ),
    "children: [alone.yaml]": "1:36: error: no subflow node starts alone, the workflow of alone.yaml; remove it",
    "mocks: {check/ask: {}}": (
        "1:33: error: the run of check is not played: child is not among the children; "
        "add the file of child to children"
    ),
    "children: [child.yaml], mocks: {check/aks: {}}": (
        "1:57: error: there is no node or handler check/aks; did you mean check/ask?"
    ),
    "children: [child.yaml], mocks: {chek/ask: {}}": "1:57: error: the workflow has no node chek; did you mean check?",
    "children: [child.yaml], mocks: {after/ask: {}}": (
        "1:57: error: after is no subflow node: it has no run; name a node that starts a run"
    ),
}


def test_what_is_wrong_with_children_is_told_with_its_place_and_a_remedy() -> None:
    sources = {
        "parent.yaml": "workflow: parent\n" + PARENT % "",
        "child.yaml": "workflow: child\n" + CHILD % "",
        "alone.yaml": "workflow: alone\n" + CHILD % "",
    }

    def read(file: str) -> str:
        if file not in sources:
            raise WorkflowUnreadable(f"cannot read {file}")
        return sources[file]

    reports = {text: run_tests(f"{{workflow: parent.yaml, {text}, cases: [{{name: it}}]}}", read) for text in MISTAKES}

    told = {
        text: [str(fault) for fault in report.faults if fault.code is not Code.CHECKS_WAIT]
        for text, report in reports.items()
    }
    assert told == {text: [fault] for text, fault in MISTAKES.items()}


def test_a_child_that_does_not_compile_is_told_with_its_file() -> None:
    report = family_report({"parent": PARENT % "", "child": "nodes: {a: {type: nothing}}"}, "cases: [{name: it}]")

    assert not report.passed
    assert [fault.line for fault in report.children[0].faults] == [2]


def test_a_workflow_is_held_against_the_schemas_of_its_children() -> None:
    flow = {
        "parent": """
            nodes:
              ask: {type: subflow, workflow: child, input: {m: "${input.n}"}}
              after: {type: set, values: {got: "${nodes.ask.output.anwser}"}}
            edges: [[ask, after]]
        """,
        "child": "output_schema: {properties: {answer: {}}, additionalProperties: false}" + CHILD % "",
    }
    report = family_report(flow, "cases: [{name: it, mocks: {do.ask: {output: 1}}}]")

    assert [(fault.message, fault.warning) for fault in report.workflow.faults] == [
        ("the input breaks input_schema of child: $.n is required", True),
        ("the output of ask has no anwser", True),
    ]
