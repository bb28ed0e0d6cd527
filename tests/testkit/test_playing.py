"""Workers, clock, users and crashes as a test file says them."""

from __future__ import annotations

import pytest

from headway.coordinator.core.plan import Json
from headway.coordinator.testkit import Raised, Returned
from tests.testkit.kit import report_on, the_case, wrongs

ONE = "nodes: {a: {type: call, handler: do.a, input: '${input}', %s}}"


def test_thirty_days_take_no_time() -> None:
    flow = "nodes: {a: {type: wait, duration: 30d}, b: {type: wait, duration: 335d}}\nedges: [[a, b]]"

    assert the_case(flow, "expect: {duration: 365d}").passed


def test_an_instant_is_reached_from_where_the_clock_starts() -> None:
    flow = "nodes: {a: {type: wait, until: '2031-02-01T09:00:00+01:00'}}"

    assert the_case(flow, "starts_at: 2031-02-01T00:00:00Z\nexpect: {duration: 8h}").passed


def test_results_go_by_attempt_and_the_last_one_stays() -> None:
    flow = ONE % "retry: {max_attempts: 4, initial: 1s, factor: 1}"
    case = "mocks: {do.a: [{fails: {type: A}}, {fails: {type: B}}]}\n"

    assert the_case(flow, case + "expect: {outcome: failed, nodes: {a: {attempts: 4, error: {type: B}}}}").passed


def test_a_final_failure_is_not_tried_again() -> None:
    flow = ONE % "retry: {max_attempts: 4}"

    case = "mocks: {a: {fails: {final: true}}}\nexpect: {outcome: failed, nodes: {a: {attempts: 1}}}"

    assert the_case(flow, case).passed


def test_the_mock_of_a_node_goes_before_that_of_its_handler() -> None:
    case = "mocks: {do.a: {output: 1}, a: {output: 2}}\nexpect: {nodes: {a: {output: 2}}}"

    assert the_case(ONE % "", case).passed


def test_a_mock_of_the_case_goes_before_those_of_the_file() -> None:
    cases = """
        mocks: {a: {output: 1}}
        cases: [{name: it, mocks: {do.a: {output: 2}}, expect: {nodes: {a: {output: 2}}}}]
    """

    assert report_on(ONE % "", cases).passed


def test_what_is_mocked_may_read_what_the_handler_is_given() -> None:
    case = """
        input: {n: 2, text: hello}
        mocks: {do.a: {output: {twice: "${input.n * 2}", text: "${input.text}!"}}}
        expect: {nodes: {a: {output: {twice: 4, text: hello!}}}}
    """

    assert the_case(ONE % "", case).passed


def test_a_mock_that_cannot_be_computed_names_its_place() -> None:
    (problem,) = the_case(ONE % "", 'mocks: {do.a: {output: "${input.nothing}"}}').problems

    assert "the mock of a cannot be computed: input.nothing" in problem.what
    assert (problem.line, problem.column) == (4, 31)


def test_a_failure_has_class_message_and_details_from_the_input() -> None:
    flow = """
        nodes:
          a: {type: call, handler: do.a, input: "${input}", timeout: 1h}
          b: {type: call, handler: do.b, input: {why: "${error.message}", code: "${error.code}"}}
        edges: [{from: a, on: timeout, to: b}]
    """
    case = """
        input: {id: 7}
        mocks:
          a: {fails: {class: timeout, type: Slow, message: "no answer for ${input.id}", details: {code: "${input.id}"}}}
          b: {}
        expect: {calls: [{node: b, input: {why: no answer for 7, code: 7}}]}
    """

    assert the_case(flow, case).passed


def test_an_attempt_that_takes_too_long_times_out() -> None:
    flow = ONE % "timeout: {attempt: 10s}, retry: {max_attempts: 2, initial: 1s}"

    late = the_case(flow, "mocks: {a: [{takes: 11s}, {takes: 9s}]}\nexpect: {duration: 20s, nodes: {a: {attempts: 2}}}")
    hangs = the_case(
        flow, "mocks: {a: {hangs: true}}\nexpect: {outcome: failed, error: {class: timeout}, duration: 21s}"
    )

    assert wrongs(late) == wrongs(hangs) == []


def test_a_queue_without_workers_times_out() -> None:
    flow = ONE % "timeout: {queue: 10m}"

    expected = "expect: {outcome: failed, duration: 10m, nodes: {a: {error: {type: queue_timeout}}}}"
    case = "mocks: {a: {queued: 11m}}\n" + expected

    assert wrongs(the_case(flow, case)) == []


def test_a_handler_that_works_for_days_keeps_its_lease() -> None:
    assert the_case(
        ONE % "lease: 1s", "mocks: {a: {takes: 3d}}\nexpect: {duration: 3d, nodes: {a: {attempts: 1}}}"
    ).passed


CRASHES = [
    ("worker_dies", "{a: {attempts: 2}}", "50s", 2),  # silent from 10s on; renewed then; 30s of lease; 10s again
    ("report_late", "{a: {attempts: 2, output: 2}}", "50s", 2),
    ("report_lost", "{a: {attempts: 1, output: 1}}", "11s", 1),
    ("report_twice", "{a: {attempts: 1, output: 1}}", "10s", 1),
    ("delivered_twice", "{a: {attempts: 1, output: 1}}", "10s", 1),
]


@pytest.mark.parametrize(("crash", "nodes", "duration", "calls"), CRASHES, ids=[each[0] for each in CRASHES])
def test_what_a_crash_does(crash: str, nodes: str, duration: str, calls: int) -> None:
    case = f"""
        mocks: {{a: [{{output: 1, takes: 10s}}, {{output: 2, takes: 10s}}]}}
        crashes: [{{node: a, crash: {crash}}}]
        expect: {{nodes: {nodes}, duration: {duration}, calls: [{{node: a, times: {calls}}}]}}
    """

    assert wrongs(the_case(ONE % "lease: 30s", case)) == []


TOLD = [
    ("report_late", "the report of a changes nothing: STALE_ATTEMPT"),
    ("report_twice", "the report of a changes nothing: DUPLICATE"),
    ("delivered_twice", "a second worker asks for a: HELD"),
    ("worker_dies", "the worker of a is silent from now on"),
]


@pytest.mark.parametrize(("crash", "line"), TOLD, ids=[each[0] for each in TOLD])
def test_the_story_tells_what_left_no_trace_in_the_history(crash: str, line: str) -> None:
    flow = "nodes: {a: {type: call, handler: do.a, lease: 1s}, w: {type: wait, duration: 1m}}\nedges: [[a, w]]"
    case = f"mocks: {{a: {{}}}}\ncrashes: [{{node: a, crash: {crash}}}]\nexpect: {{outcome: failed}}"

    assert any(told.endswith(line) for told in the_case(flow, case).story)


def test_a_worker_that_dies_too_often_fails_the_node() -> None:
    flow = ONE % "lease: 1s, retry: {max_losses: 1}"
    case = """
        mocks: {a: {}}
        crashes: [{node: a, crash: worker_dies}, {node: a, attempt: 2, crash: worker_dies}]
        expect: {outcome: failed, nodes: {a: {error: {type: LeaseLost}}}}
    """

    assert wrongs(the_case(flow, case)) == []


def test_a_cancelled_run_ends_when_its_workers_have_stopped() -> None:
    case = """
        mocks: {a: {takes: 1h}}
        at: [{after: 40s, cancel: true, grace: 2m}]
        expect: {outcome: cancelled, duration: 1m, nodes: {a: {state: cancelled}}}
    """

    assert wrongs(the_case(ONE % "lease: 90s", case)) == []  # it renews, and learns it, every 30s


def test_a_worker_that_dies_in_a_short_attempt_is_a_lost_lease_and_no_failure() -> None:
    case = """
        mocks: {a: {takes: 10s}}
        crashes: [{node: a, crash: worker_dies}]
        expect: {outcome: succeeded, nodes: {a: {attempts: 2}}}
    """

    assert wrongs(the_case(ONE % "timeout: {attempt: 30s}", case)) == []


def test_a_dead_worker_is_waited_for_until_the_grace_ends() -> None:
    case = """
        mocks: {a: {takes: 10s}}
        crashes: [{node: a, crash: worker_dies}]
        at: [{after: 20s, cancel: true, grace: 1m}]
        expect: {outcome: cancelled, duration: 80s}
    """

    assert wrongs(the_case(ONE % "", case)) == []


CHARGED = """
nodes:
  a: {type: call, handler: do.a, compensate: undo, timeout: {attempt: 5m}, retry: {max_losses: 1}}
  undo: {type: call, handler: do.b}
"""
BOTH_DIE = "crashes: [{node: a, crash: worker_dies}, {node: a, attempt: 2, crash: worker_dies}]"


@pytest.mark.parametrize(
    ("happens", "times"),
    [
        ("mocks: {a: {hangs: true}, undo: {}}", 1),
        (f"mocks: {{a: {{takes: 9s}}, undo: {{}}}}\n{BOTH_DIE}", 1),
        ("mocks: {a: {fails: {type: Declined}}}", 0),
    ],
    ids=["hangs", "dies", "fails"],
)
def test_what_nobody_knows_the_end_of_is_undone(happens: str, times: int) -> None:
    expected = f"expect: {{outcome: failed, calls: [{{handler: do.b, times: {times}}}]}}"

    assert wrongs(the_case(CHARGED, f"{happens}\n{expected}")) == []


WAIT = "nodes: {ok: {type: wait_for_event, event: ok, timeout: 1h}, b: {type: set, values: {x: '1'}}}\nedges: [[ok, b]]"


def test_a_signal_comes_when_it_is_said() -> None:
    case = "at: [{after: 30m, signal: ok, payload: {by: me}}]\nexpect: {duration: 30m, nodes: {ok: {output: {by: me}}}}"

    assert the_case(WAIT, case).passed


def test_what_a_run_refuses_must_be_said() -> None:
    late = "at: [{after: 2h, signal: ok%s}]\nexpect: {outcome: failed}"
    in_time = "at: [{after: 30m, signal: ok, refused: must}]"

    (problem,) = the_case(WAIT, late % "").problems
    (taken,) = the_case(WAIT, in_time).problems

    assert problem.what.startswith("the signal ok was refused")
    assert taken.what == "the signal ok should have been refused, and was taken"
    assert the_case(WAIT, late % ", refused: must").passed
    assert the_case(WAIT, late % ", refused: may").passed


def test_looking_ends_when_it_is_said() -> None:
    assert the_case(WAIT, "until: 59m\nexpect: {outcome: running, duration: 59m}").passed
    assert the_case(WAIT, "until: 1h\nexpect: {outcome: failed}").passed


def test_of_what_happens_at_once_the_order_can_be_said() -> None:
    case = "at: [{after: 1h, signal: ok, refused: may}]\n%sexpect: {outcome: %s}"

    assert the_case(WAIT, case % ("", "succeeded")).passed
    assert the_case(WAIT, case % ("order: [time-out of ok]\n", "failed")).passed


def test_what_is_named_in_an_order_goes_first_once() -> None:
    flow = """
        nodes:
          a: {type: call, handler: do.it, retry: &again {max_attempts: 2}}
          b: {type: call, handler: do.it, retry: *again}
          first: {type: join, need: any}
        edges: [[a, first], [b, first]]
    """
    case = "mocks: {do.it: [{fails: {}}, {output: 1}]}\n%sexpect: {nodes: {first: {output: {%s: 1}}}}"

    assert the_case(flow, case % ("order: [report of b, report of a]\n", "a")).passed
    assert the_case(flow, case % ("order: [report of a, retry of b, report of b]\n", "b")).passed


RACE = """
    nodes:
      a: {type: call, handler: do.it}
      b: {type: call, handler: do.it}
      c: {type: call, handler: do.it}
      first: {type: join, need: any}
      done: {type: finish, output: "${nodes.first.output}"}
    edges: [[a, first], [b, first], [c, first], [first, done]]
"""


def test_every_order_is_tried_and_the_one_that_fails_is_told() -> None:
    case = "mocks: {do.it: {output: 1}}\ninterleavings: all\nexpect: {%s}"

    passes = the_case(RACE, case % "path_has: [first, done]")
    fails = the_case(RACE, case % "output: {a: 1}")

    assert (passes.passed, passes.orders, passes.more_orders) == (True, 6, False)
    assert (fails.passed, fails.order[0]) == (False, "report of b")


def test_the_order_that_failed_can_be_played_again() -> None:
    case = "mocks: {do.it: {output: 1}}\n%sexpect: {output: {a: 1}}"
    failed = the_case(RACE, case % "interleavings: all\n")

    again = the_case(RACE, case % f"order: [{', '.join(failed.order)}]\n")

    assert wrongs(again) == wrongs(failed) == [("output", '{"a":1}', '{"b":1} (.a)')]
    assert again.order == failed.order
    assert the_case(RACE, case % "").passed


def test_there_are_limits_and_they_are_told() -> None:
    case = "mocks: {do.it: {output: 1}}\ninterleavings: all\nlimit: 4\nexpect: {path_has: [done]}"

    report = the_case(RACE, case)

    assert (report.passed, report.orders, report.more_orders) == (True, 4, True)


def test_jitter_is_drawn_by_a_seed_and_the_same_each_time() -> None:
    flow = ONE % "retry: {max_attempts: 2, initial: 10s, jitter: 0.5}"
    case = "mocks: {a: [{fails: {}}, {}]}\nseed: %s\nexpect: {duration: 10s}"

    def took(seed: int) -> str:
        ((_, _, got),) = wrongs(the_case(flow, case % seed))
        return got

    assert took(1) == took(1) != took(2)
    assert the_case(flow, (case % 1).replace("seed: 1\n", "")).passed


CODE = "nodes: {a: {type: python, input: {n: '${input.n}'}, code: 'def run(input): return input'}}"


def test_code_is_run_for_real_when_it_is_asked_for() -> None:
    given: list[Json] = []

    def run_python(request: Json) -> Returned | Raised:
        given.append(request)
        return Returned(output=42)

    case = (
        "input: {n: 1}\nmocks: {a: {real: true}}\nexpect: {nodes: {a: {output: 42}}, calls: [{node: a, input: {n: 1}}]}"
    )

    assert the_case(CODE, case, run_python=run_python).passed
    assert given == [{"code": "def run(input): return input", "input": {"n": 1}}]


def test_code_that_fails_fails_its_node() -> None:
    def run_python(_request: Json) -> Returned | Raised:
        return Raised(type="ValueError", message="no", details={}, final=True, timed_out=True)

    case = "input: {n: 1}\nmocks: {a: {real: true}}\nexpect: {outcome: failed, error: {class: timeout}}"

    assert the_case(CODE, case, run_python=run_python).passed


def test_only_code_of_python_nodes_can_be_run_for_real() -> None:
    (problem,) = the_case(ONE % "", "mocks: {a: {real: true}}").problems

    assert problem.what == "a is no python node: only their code can be run for real"


def test_an_http_node_is_mocked_like_any_other() -> None:
    flow = "nodes: {a: {type: http, request: {url: 'http://x/${input.n}'}}}"
    case = """
        input: {n: 1}
        mocks: {a: {output: {status: 200, headers: {}, body: "${input.url}"}}}
        expect: {nodes: {a: {output_has: {body: "http://x/1"}}}, calls: [{node: a, input_has: {url: "http://x/1"}}]}
    """

    assert the_case(flow, case).passed


# Pause, resume, skip, retry


@pytest.mark.parametrize(("clock", "duration"), [("", "13s"), (", pause_clock: true", "22s")])
def test_what_is_due_in_a_paused_run_happens_when_it_is_resumed(clock: str, duration: str) -> None:
    flow = """
        nodes:
          a: {type: call, handler: do.a}
          b: {type: wait_for_event, event: e, timeout: 12s}
          late: {type: call, handler: do.b}
        edges: [{from: b, on: timeout, to: late}, {from: a, to: late, on: always}]
    """
    case = f"""
        mocks: {{a: {{takes: 3s}}, late: {{takes: 1s}}}}
        at: [{{after: 1s, pause: true{clock}}}, {{after: 10s, resume: true}}]
        expect: {{nodes: {{late: {{state: succeeded}}}}, duration: {duration}}}
    """

    assert wrongs(the_case(flow, case)) == []


def test_nothing_begins_while_a_run_is_paused() -> None:
    flow = "nodes: {a: {type: call, handler: h}, b: {type: call, handler: h}}\nedges: [[a, b]]"
    case = "mocks: {h: {takes: 2s}}\nat: [{after: 1s, pause: true}%s]\nexpect: {%s}"

    assert the_case(
        flow, case % ("", "outcome: running, path: [a], nodes: {a: {state: succeeded}, b: {state: ready}}")
    ).passed
    assert the_case(flow, case % (", {after: 9s, resume: true}", "path: [a, b], duration: 11s")).passed


def test_a_node_of_a_paused_run_gets_its_output_by_hand() -> None:
    flow = """
        nodes: {a: {type: wait_for_event, event: e}, b: {type: call, handler: h, input: "${nodes.a.output}"}}
        edges: [[a, b]]
    """
    case = """
        mocks: {b: {output: "${input.by}"}}
        at: [{after: 1s, pause: true}, {after: 2s, skip: a, output: {by: hand}}, {after: 5s, resume: true}]
        expect: {nodes: {b: {output: hand}}, duration: 5s}
    """

    assert wrongs(the_case(flow, case)) == []
    refused = the_case(flow, "mocks: {b: {}}\nat: [{skip: a}]\nexpect: {outcome: running}")
    assert ["a node can be skipped in a paused or in a failed run only" in what for what, _, _ in wrongs(refused)] == [
        True
    ]


def test_a_run_that_failed_is_retried_from_what_failed_or_from_a_node() -> None:
    flow = "nodes: {a: {type: call, handler: do.a}, b: {type: call, handler: do.b}}\nedges: [[a, b]]"
    case = """
        mocks: {do.a: {}, do.b: [{fails: {}}, {output: 1}]}
        at: [{after: 1h, retry: true%s}]
        expect: {nodes: {b: {attempts: 2}}, calls: [{handler: do.a, times: %d}], duration: 1h}
    """

    assert wrongs(the_case(flow, case % ("", 1))) == []
    assert wrongs(the_case(flow, case % (", from: [a]", 2))) == []


def test_acts_that_a_run_refuses_must_be_said() -> None:
    acts = "at: [{after: 5s, pause: true%s}, {after: 5s, resume: true%s}, {after: 0s, retry: true%s}]"
    flow = "nodes: {a: {type: wait, duration: 1s}}"

    assert the_case(flow, acts % ((", refused: must",) * 3)).passed
    ((what, *_),) = wrongs(the_case(flow, acts % ("", "", ", refused: must")))
    assert what.startswith("the pause was refused")


# Heartbeats

SILENT = ONE % "timeout: {heartbeat: 30s, stall: 2m}, retry: {max_attempts: 2, initial: 1s, factor: 1}"


@pytest.mark.parametrize(
    ("mock", "expected"),
    [
        ("{hangs: true}", "outcome: failed, nodes: {a: {error: {type: heartbeat_timeout}}}, duration: 61s"),
        (
            "{takes: 10m, heartbeats: [{every: 5s}]}",
            "outcome: failed, nodes: {a: {error: {type: stall_timeout}}}, duration: 4m1s",
        ),
        ("{takes: 10m, heartbeats: [{every: 5s, progress: true}]}", "duration: 10m"),
        ("{takes: 10m, heartbeats: [{every: 5s}, {every: 1m, progress: true}]}", "duration: 10m"),
        (
            "{takes: 10m, heartbeats: [{every: 5s, until: 1m, progress: true}]}",
            "outcome: failed, nodes: {a: {error: {type: heartbeat_timeout}}}, duration: 3m1s",
        ),
        (
            "[{hangs: true, heartbeats: [{after: 5s, checkpoint: 1}, {after: 20s, checkpoint: {page: 2}}]}, {}]",
            "calls: [{node: a, checkpoint: {page: 2}, times: 1}, {node: a, checkpoint: null, times: 1}], duration: 51s",
        ),
        (
            "[{fails: {}, takes: 9s, heartbeats: [{after: 8900ms, checkpoint: 7}]}, {}]",
            "calls: [{node: a, checkpoint: 7, times: 1}], duration: 10s",
        ),
    ],
)
def test_silence_and_want_of_progress_are_told_by_the_heartbeats_of_the_mock(mock: str, expected: str) -> None:
    assert wrongs(the_case(SILENT, f"mocks: {{a: {mock}}}\nexpect: {{{expected}}}")) == []


def test_what_a_worker_told_just_before_it_died_is_lost() -> None:
    case = """
        mocks: {a: [{takes: 9s, heartbeats: [{after: 1s, checkpoint: 1}, {after: 8900ms, checkpoint: 2}]}, {}]}
        crashes: [{node: a, crash: worker_dies}]
        expect: {calls: [{node: a, checkpoint: 1, times: 1}]}
    """

    assert wrongs(the_case(SILENT, case)) == []


def test_a_retry_that_repeats_a_success_begins_without_a_checkpoint() -> None:
    case = """
        mocks: {a: {heartbeats: [{checkpoint: 1}]}}
        at: [{after: 5s, retry: true, from: [a]}]
        expect: {calls: [{node: a, checkpoint: null, times: 2}]}
    """

    assert wrongs(the_case(SILENT, case)) == []
