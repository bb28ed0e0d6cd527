"""What runs at the end of a run, however it ends."""

import pytest

from headway.coordinator.core.admission import Answer
from headway.coordinator.core.compiler import compile_workflow
from headway.coordinator.core.machines import RunState, TaskState
from headway.coordinator.core.refusals import InvalidArgument, NothingToRetry
from tests.core.invariants import begin, check_replay
from tests.core.simulator import World

JOB = """
    workflow: job
    deadline: 1h
    nodes:
      rent: {type: call, handler: machines.rent, compensate: give_back}
      work: {type: call, handler: jobs.run}
      give_back: {type: call, handler: machines.give_back}
    edges: [[rent, work]]
    finally:
      timeout: 10m
      nodes:
        told:
          type: call
          handler: mail.tell
          input: {state: "${outcome.state}", why: "${outcome.message}", class: "${outcome.class}",
                  at: "${outcome.nodes}", rent: "${has(nodes.rent.output) ? nodes.rent.output : null}"}
        logged: {type: call, handler: log.write}
      edges: [{from: told, to: logged, on: always}]
"""
TOLD, LOGGED = "finally[0].told", "finally[0].logged"


def given(world: World, path: str) -> object:
    return world.db.payloads[path, world.task(path).attempt, "input"].value


def error(world: World) -> str:
    assert world.run.error is not None
    return str(world.run.error["message"])


def end(world: World) -> None:
    world.run_task(TOLD)
    world.run_task(LOGGED)


def test_it_runs_when_the_run_has_succeeded() -> None:
    world = begin(JOB)
    world.run_task("rent", "M1")
    assert "finally" not in world.db.tasks

    world.run_task("work")

    assert world.state is RunState.RUNNING
    assert given(world, TOLD) == {"state": "succeeded", "why": None, "class": None, "at": [], "rent": "M1"}
    assert list(world.db.timers) == [("finally", "total_timeout", 0)]
    end(world)
    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_it_runs_when_the_run_has_failed_and_all_is_undone() -> None:
    world = begin(JOB)
    world.run_task("rent", "M1")

    world.fail_task("work", "Broken")

    assert "finally" not in world.db.tasks
    world.run_task("give_back")
    assert given(world, TOLD) == {
        "state": "failed", "why": "work: Broken: work broke", "class": "exec_failed", "at": ["work"], "rent": "M1",
    }  # fmt: skip
    end(world)
    assert world.state is RunState.FAILED
    assert error(world) == "work: Broken: work broke"
    check_replay(world)


def test_it_runs_when_the_run_was_cancelled() -> None:
    world = begin(JOB)
    world.lease("rent")
    world.cancel(reason="enough")
    assert "finally" not in world.db.tasks

    world.stopped("rent")

    assert given(world, TOLD) == {
        "state": "cancelled", "why": "cancelled by request: enough", "class": "cancelled", "at": [], "rent": None,
    }  # fmt: skip
    assert world.lease(TOLD) is Answer.GRANTED
    assert world.renew(TOLD) == (Answer.RENEWED, False)
    world.succeed(TOLD)
    world.run_task(LOGGED)
    assert world.state is RunState.CANCELLED


def test_it_runs_when_the_deadline_has_passed() -> None:
    world = begin(JOB)

    assert world.fire(world.next_timer())

    assert world.run.expired
    end(world)
    assert world.state is RunState.FAILED
    assert error(world) == "the run's deadline passed"


def test_it_runs_when_a_finish_node_ended_the_run_whose_output_stays() -> None:
    world = begin("""
        nodes: {end: {type: finish, output: 7}}
        finally: {type: call, handler: log.write, input: "${outcome.state}"}
    """)

    world.run_task("finally[0].step")

    assert world.state is RunState.SUCCEEDED
    assert (world.run.output_path, world.run.output_attempt) == ("end", 1)


def test_it_may_be_over_at_once() -> None:
    world = begin("""
        nodes: {a: {type: call, handler: a}}
        finally:
          nodes:
            one: {type: switch, cases: [{when: "outcome.state == 'failed'", to: mail}], default: none}
            mail: {type: call, handler: mail}
    """)

    world.run_task("a")

    assert world.state is RunState.SUCCEEDED
    check_replay(world)


def test_its_failure_fails_a_run_that_had_succeeded_and_names_the_node() -> None:
    world = begin(JOB)
    world.run_task("rent")
    world.run_task("work")

    world.fail_task(TOLD, "NoMail")
    world.run_task(LOGGED)

    assert world.state is RunState.FAILED
    assert error(world) == "finally: NoMail: finally[0] failed: finally[0].told: finally[0].told broke"
    assert world.run.error is not None
    assert world.run.error["paths"] == ["finally"]
    assert "give_back" not in world.db.tasks


def test_its_failure_is_told_of_a_run_that_had_failed_which_keeps_its_error() -> None:
    world = begin(JOB)
    world.fail_task("rent", "Sold")

    world.fail_task(TOLD, "NoMail")
    world.run_task(LOGGED)

    assert world.state is RunState.FAILED
    assert error(world).startswith("rent: Sold: rent broke; finally: NoMail")


def test_a_cancel_does_not_stop_it() -> None:
    world = begin(JOB)
    world.run_task("rent")
    world.run_task("work")
    world.lease(TOLD)

    world.cancel()

    assert world.renew(TOLD) == (Answer.RENEWED, False)
    world.succeed(TOLD)
    world.run_task(LOGGED)
    assert world.state is RunState.SUCCEEDED


def test_a_cancel_without_compensation_breaks_it_off() -> None:
    world = begin(JOB)
    world.run_task("rent")
    world.run_task("work")
    world.lease(TOLD)

    world.cancel(compensate=False, grace_ms=5_000)

    assert world.renew(TOLD) == (Answer.RENEWED, True)
    assert world.next_timer() == ("finally", "cancel_grace", 1)
    assert world.fire(("finally", "cancel_grace", 1))
    assert world.state is RunState.CANCELLED
    assert error(world) == "finally was broken off by request"
    assert LOGGED not in world.db.tasks or world.task(LOGGED).state is TaskState.CANCELLED


def test_its_time_is_its_own() -> None:
    world = begin(JOB)
    world.run_task("rent")
    world.run_task("work")
    world.lease(TOLD)

    while world.db.timers and ("finally", "cancel_grace", 1) not in world.db.timers:
        world.fire(world.next_timer())
    assert world.renew(TOLD) == (Answer.RENEWED, True)
    world.stopped(TOLD)

    assert world.state is RunState.FAILED
    assert error(world) == "finally: total_timeout: total time-out: after 600000 ms"


def test_a_retry_runs_it_again_at_the_new_end() -> None:
    world = begin(JOB)
    world.fail_task("rent")
    end(world)
    assert world.state is RunState.FAILED

    opened = world.retry()

    assert (opened.chosen, opened.kept) == (("rent",), ())
    assert world.task("finally").state is TaskState.SUCCEEDED
    world.run_task("rent")
    world.run_task("work")
    assert world.task("finally").attempt == 2
    assert given(world, TOLD) == {"state": "succeeded", "why": None, "class": None, "at": [], "rent": None}
    end(world)
    assert world.state is RunState.SUCCEEDED
    with pytest.raises(NothingToRetry):
        world.retry()
    check_replay(world)


def test_a_retry_of_a_run_in_which_nothing_else_failed_runs_it_alone() -> None:
    world = begin(JOB)
    world.run_task("rent")
    world.run_task("work")
    world.fail_task(TOLD)
    world.run_task(LOGGED)

    opened = world.retry()

    assert opened.chosen == ()
    end(world)
    assert world.state is RunState.SUCCEEDED


def test_nothing_in_it_can_be_chosen_for_a_retry() -> None:
    world = begin(JOB)
    world.fail_task("rent")
    end(world)

    for path in ("finally", TOLD):
        with pytest.raises(InvalidArgument, match="runs again by itself"):
            world.retry(path)


def test_what_succeeded_in_it_before_makes_no_run_succeed() -> None:
    world = begin("""
        nodes: {a: {type: call, handler: a, optional: true}}
        finally: {type: call, handler: log.write}
    """)
    world.fail_task("a")
    world.run_task("finally[0].step")
    assert world.state is RunState.FAILED

    world.retry()
    world.fail_task("a")
    world.run_task("finally[0].step")

    assert world.state is RunState.FAILED


def test_a_pause_holds_it() -> None:
    world = begin(JOB)
    world.lease("rent")
    world.pause(stop_clock=True)
    world.fail("rent", final=True)
    assert TOLD not in world.db.tasks

    world.resume()
    world.fire(world.next_timer())

    end(world)
    assert world.state is RunState.FAILED
    check_replay(world)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("[[rent, work]]", "[[rent, work, finally]]"), "there is no node finally"),
        (("rent: {type: call", "finally: {type: call, handler: a}\n      rent: {type: call"), "finally"),
        (("handler: jobs.run", "handler: jobs.run, input: '${outcome.state}'"), "outcome is there only in finally"),
        (("${outcome.class}", "${outcome.klass}"), "outcome has no klass"),
        (("${has(nodes.rent.output) ? nodes.rent.output : null}", "${nodes.rent.output}"), "may not have succeeded"),
        (('"${outcome.class}"', '"${has(nodes.finally.output)}"'), "nothing can read it"),
        (('"${outcome.class}"', '"${index}"'), "index is there only in the body"),
        (("{type: call, handler: log.write}", "{type: finish}"), "finish cannot stand in finally"),
        (("timeout: 10m", "timeout: 10m\n      retries: 3"), "unknown key retries in finally"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_it_is_said_when_it_is_deployed(change: tuple[str, str], fault: str) -> None:
    faults = compile_workflow(JOB.replace(*change)).faults

    assert any(fault in str(each) for each in faults), [str(each) for each in faults]
