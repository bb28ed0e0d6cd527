"""What bodies of maps and repeats may hold besides work: waits for signals, variables, and the end of the run."""

from __future__ import annotations

import pytest

from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.machines import RunState, TaskState
from tests.core.invariants import begin, check_replay

PAPERS = """
    nodes:
      papers:
        type: map
        over: "${input}"
        max_concurrency: 2
        output: "${has(nodes.paper.output) ? nodes.paper.output : null}"
        body:
          nodes:
            paper:
              type: wait_for_event
              event: "paper-${item}"
              filter: payload.pages > loops.papers.index
              timeout: 1h
            late: {type: call, handler: remind, input: "${item}"}
          edges:
            - {from: paper, on: timeout, to: late}
      done: {type: call, handler: d, input: "${nodes.papers.output}"}
    edges: [[papers, done]]
"""
ANY = """
    nodes:
      desks:
        type: map
        over: "${input}"
        body: {type: wait_for_event, event: visitor}
      done: {type: call, handler: d, input: "${nodes.desks.output}"}
    edges: [[desks, done]]
"""


def test_an_item_takes_the_signal_of_its_own_name_also_one_that_came_before_it_began() -> None:
    world = begin(PAPERS.replace("loops.papers.index", "0"), ["a", "b", "c"])

    world.signal("paper-c", {"pages": 3})
    world.signal("paper-b", {"pages": 2})
    world.signal("paper-a", {"pages": 0})
    world.signal("paper-a", {"pages": 1})

    assert world.input("done") == [{"pages": 1}, {"pages": 2}, {"pages": 3}]
    check_replay(world)


def test_a_filter_sees_the_item_and_a_time_out_is_an_edge_of_the_body() -> None:
    world = begin(PAPERS, ["a", "b"])
    world.signal("paper-a", {"pages": 1})
    world.signal("paper-b", {"pages": 1})  # its index is 1

    world.fire(world.next_timer())

    assert world.ready() == ["papers[1].late"]
    assert world.input("papers[1].late") == "b"
    check_replay(world)


def test_of_items_that_wait_for_one_name_the_one_that_waited_longest_takes_it() -> None:
    world = begin(ANY, list(range(12)))

    for visitor in range(12):
        world.signal("visitor", visitor)

    assert world.input("done") == list(range(12))


def test_waits_in_items_end_with_a_cancel_also_where_the_grace_is_over_before_all_were_told() -> None:
    world = begin(ANY.replace("over:", "max_concurrency: 250\n        over:"), list(range(250)))
    while len(world.db.scopes) < 250:
        world.fire(world.next_timer())

    world.cancel(grace_ms=0)
    world.fire(("", "cancel_grace", 0))
    while not world.run.is_final:
        world.fire(world.next_timer())

    assert world.state is RunState.CANCELLED
    check_replay(world)


FIRST = """
    nodes:
      search:
        type: map
        over: "${input}"
        max_concurrency: 2
        body:
          nodes:
            look: {type: call, handler: look, input: "${item}"}
            is_it: {type: switch, cases: [{when: nodes.look.output.found, to: found}], default: none}
            found: {type: finish, output: "${item}"}
          edges: [[look, is_it]]
      beside: {type: wait, duration: 1h}
"""


def test_a_finish_in_an_item_ends_the_whole_run_with_its_output() -> None:
    world = begin(FIRST, ["a", "b", "c"])
    assert world.ready() == ["search[0].look", "search[1].look"]
    world.run_task("search[0].look", {"found": False})

    world.run_task("search[2].look", {"found": True})

    assert world.state is RunState.SUCCEEDED
    assert world.output("search[2].found") == "c"
    assert world.run.output_path == "search[2].found"
    assert world.task("search[1].look").state is TaskState.CANCELLED
    assert world.task("beside").state is TaskState.CANCELLED
    assert world.task("search").cause == "finish"
    check_replay(world)


def test_a_finish_deep_in_items_that_begin_at_once_begins_no_others() -> None:
    world = begin("""
        nodes:
          outer:
            type: map
            over: [1, 2, 3]
            body:
              type: map
              over: [1, 2, 3]
              body: {type: finish, outcome: failed, message: "${loops.outer.item}"}
    """)

    assert world.state is RunState.FAILED
    assert (world.run.error or {})["message"] == "1"
    assert sorted(world.db.scopes) == ["outer[0]", "outer[0].step[0]"]
    check_replay(world)


SUM = """
    nodes:
      zero: {type: set, values: {sum: 0}}
      add:
        type: repeat
        until: last >= 6
        max_iterations: 10
        output: "${vars.sum}"
        body:
          nodes:
            ask: {type: call, handler: ask, input: "${vars.sum}"}
            sum: {type: set, values: {sum: "${vars.sum + nodes.ask.output}"}}
          edges: [[ask, sum]]
      done: {type: call, handler: d, input: "${vars.sum}"}
    edges: [[zero, add, done]]
"""


def test_what_an_iteration_sets_later_ones_and_what_follows_see() -> None:
    world = begin(SUM)
    for index, number in enumerate((1, 2, 3)):
        assert world.input(f"add[{index}].ask") == sum(range(index + 1))
        world.run_task(f"add[{index}].ask", number)

    assert world.input("done") == 6
    check_replay(world)


def test_a_retry_goes_on_with_what_iterations_set_and_one_of_the_whole_repeat_begins_anew() -> None:
    world = begin(SUM)
    world.run_task("add[0].ask", 2)
    world.fail_task("add[1].ask")
    assert world.state is RunState.FAILED

    world.retry()

    assert world.input("add[1].ask") == 2
    world.run_task("add[1].ask", 4)
    world.run_task("done")
    world.retry("add")
    assert world.input("add[0].ask") == 0
    check_replay(world)


@pytest.mark.parametrize("most", [1, 5])
def test_a_variable_set_in_a_map_is_a_fault(most: int) -> None:
    found = compile_workflow(
        "workflow: w\nnodes:\n  m:\n    type: map\n    over: [1]\n"
        f"    max_concurrency: {most}\n    body: {{type: repeat, until: 'true', max_iterations: 2, "
        "body: {type: set, values: {x: 1}}}\n"
    )

    assert found.plan is None
    assert [fault.code for fault in found.faults] == ["not_in_a_body"]


def test_a_variable_that_only_a_later_node_of_the_body_sets_is_guarded() -> None:
    body = "a: {type: call, handler: h, input: '${vars.x}'}\n        s: {type: set, values: {x: 1}}\n"
    text = (
        "workflow: w\nnodes:\n  r:\n    type: repeat\n    until: index > 0\n    max_iterations: 2\n    body:\n"
        f"      nodes:\n        {body}      edges: [[a, s]]\n"
        "  after: {type: call, handler: h, input: '${vars.x}'}\nedges: [[r, after]]\n"
    )

    faults = compile_workflow(text).faults
    guarded = compile_workflow(text.replace("${vars.x}", "${has(vars.x) ? vars.x : 0}"))

    assert [fault.code for fault in faults] == ["may_be_missing", "may_be_missing"]
    assert guarded.plan is not None


COUNTED = """
    nodes:
      papers:
        type: map
        over: "${input}"
        body:
          nodes:
            both: {type: wait_for_event, event: "paper-${item}", count: 2, reuse: true, payload_schema: {type: integer}}
            file: {type: call, handler: f, input: "${nodes.both.output}"}
          edges: [[both, file]]
"""


def test_each_item_counts_signals_of_its_own_and_takes_only_those_that_keep_its_schema() -> None:
    world = begin(COUNTED, ["a", "b"])

    for name, payload in (("paper-a", 1), ("paper-b", 2), ("paper-b", "no number"), ("paper-a", 3)):
        world.signal(name, payload)

    assert world.input("papers[0].file") == [1, 3]
    assert world.states()["papers[1].both"] == "waiting"
    world.signal("paper-b", 4)
    assert world.input("papers[1].file") == [2, 4]
    check_replay(world)


def test_an_item_that_waits_again_in_a_retry_may_reuse_what_it_took() -> None:
    world = begin(COUNTED, ["a", "b"])
    for payload in (1, 2):
        world.signal("paper-a", payload)
        world.signal("paper-b", payload)
    world.run_task("papers[1].file")
    world.fail_task("papers[0].file")

    world.retry("papers[0].both")

    assert world.task("papers[0].both").attempt == 2
    assert world.input("papers[0].file") == [1, 2]
    world.run_task("papers[0].file")
    assert world.state is RunState.SUCCEEDED
