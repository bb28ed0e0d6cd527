"""why: what is asked, and what people and programs read."""

from __future__ import annotations

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from headway.api.runs.v1 import runs_pb2
from headway.cli.commands.why import NEXT
from headway.client import ReasonKind
from tests.cli.conftest import CommandLine
from tests.client.scripted_coordinator import ScriptedCoordinator

ANSWER = runs_pb2.ExplainResponse(
    run=runs_pb2.Run(run_id="r1", state=runs_pb2.RUN_STATE_RUNNING),
    message="The run waits for 3 open tasks.",
    reasons=[
        runs_pb2.Reason(
            path="both",
            kind=runs_pb2.REASON_KIND_BRANCHES,
            message="It waits for slow (success).",
            branches=[runs_pb2.OpenEdge(from_node="slow", on="success")],
        ),
        runs_pb2.Reason(path="slow", kind=runs_pb2.REASON_KIND_NO_WORKER, message="Nobody.", queue="far"),
    ],
    left_out=1,
)


async def test_why_tells_each_reason_in_a_sentence(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Explain", ANSWER)

    result = await headway("why", "r1")

    assert result.out.splitlines() == [
        "running  The run waits for 3 open tasks.",
        "  both  [branches]",
        "    It waits for slow (success).",
        "  slow  [no_worker]",
        "    Nobody.",
        "  … and 1 more open tasks",
        "next: headway worker MODULE --queue far",
    ]


async def test_why_as_json_has_the_facts(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.Explain", ANSWER)

    document = (await headway("why", "r1", "--json")).document

    assert (document["state"], document["left_out"]) == ("running", 1)
    assert document["reasons"][0]["branches"] == [{"from_node": "slow", "on": "success"}]
    assert (document["reasons"][1]["kind"], document["reasons"][1]["queue"]) == ("no_worker", "far")
    assert document["reasons"][1]["until"] is None


async def test_why_names_the_run_that_is_waited_for(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    waits = runs_pb2.Reason(
        path="pay", kind=runs_pb2.REASON_KIND_CHILD, message="It waits for run c1 of payment.", child_run_id="c1"
    )
    coordinator.script("runs.Explain", runs_pb2.ExplainResponse(run=ANSWER.run, message="So.", reasons=[waits]))

    told = await headway("why", "r1")
    (reason,) = (await headway("why", "r1", "--json")).document["reasons"]

    assert told.out.splitlines()[1:] == [
        "  pay  [child]",
        "    It waits for run c1 of payment.",
        "next: headway why c1",
    ]
    assert (reason["kind"], reason["child_run_id"]) == ("child", "c1")


async def test_of_many_items_that_wait_alike_three_are_told_and_what_to_do_is_said_once(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    waits = [
        runs_pb2.Reason(
            path=f"each[{index}].hear", kind=runs_pb2.REASON_KIND_SIGNAL, message="So.", signal=f"go_{index}"
        )
        for index in range(40)
    ]
    other = runs_pb2.Reason(path="each[7].pay", kind=runs_pb2.REASON_KIND_LEASED, message="Held.", owner="w1")
    coordinator.script("runs.Explain", runs_pb2.ExplainResponse(run=ANSWER.run, message="", reasons=[*waits, other]))

    lines = (await headway("why", "r1")).out.splitlines()[1:]

    assert lines[0:6:2] == [f"  each[{index}].hear  [signal]" for index in range(3)]
    apart = [
        runs_pb2.Reason(path=f"n{index}", kind=runs_pb2.REASON_KIND_SIGNAL, message="So.", signal=f"go_{index}")
        for index in range(7)
    ]
    coordinator.script("runs.Explain", runs_pb2.ExplainResponse(run=ANSWER.run, message="", reasons=apart))
    steps = [line for line in (await headway("why", "r1")).out.splitlines() if line.startswith("next:")]
    assert steps == [f"next: headway signal r1 go_{index}" for index in range(5)]
    assert lines[6:] == [
        "  … and 37 more of each[…].hear  [signal]",
        "  each[7].pay  [leased]",
        "    Held.",
        "next: headway signal r1 go_0",
        "next: if it takes too long, look at worker w1 (host and process id), and end it: another takes over",
    ]


@pytest.mark.parametrize("kind", [*ReasonKind])
def test_every_kind_of_reason_has_its_next_step_or_none_by_intention(kind: ReasonKind) -> None:
    assert kind in NEXT


async def test_what_is_overdue_leads_to_the_timers_service_and_the_most_urgent_comes_first(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    long_ago = Timestamp(seconds=1)
    reasons = [
        *(
            runs_pb2.Reason(path=f"a{n}", kind=runs_pb2.REASON_KIND_LEASED, message="So.", owner=f"w{n}")
            for n in range(6)
        ),
        runs_pb2.Reason(path="nap", kind=runs_pb2.REASON_KIND_TIMER, message="So.", until=long_ago),
        runs_pb2.Reason(path="pay", kind=runs_pb2.REASON_KIND_RETRY, message="So."),
        runs_pb2.Reason(path="slow", kind=runs_pb2.REASON_KIND_QUEUED, message="So.", queue="q"),
        runs_pb2.Reason(path="lost", kind=runs_pb2.REASON_KIND_NO_WORKER, message="So.", queue="far"),
    ]
    coordinator.script("runs.Explain", runs_pb2.ExplainResponse(run=ANSWER.run, message="", reasons=reasons))

    steps = [line for line in (await headway("why", "r1")).out.splitlines() if line.startswith("next:")]

    assert steps[:3] == [
        "next: headway worker MODULE --queue far",
        "next: headway show r1 pay: mend what its error tells; it is tried again by itself",
        "next: see to the timers service; its log says what is the matter",
    ]
    assert steps[3].startswith("next: headway worker MODULE --queue q (one more)")
    assert len(steps) == 5


async def test_of_a_subflow_node_that_failed_the_next_step_is_its_run(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    error = runs_pb2.TaskError(type="SubflowFailed", details=b'{"workflow": "pay", "run_id": "c1", "nodes": ["x"]}')
    failed = runs_pb2.Reason(path="pay", kind=runs_pb2.REASON_KIND_FAILED, message="So.", error=error)
    closed = runs_pb2.Reason(path="ship", kind=runs_pb2.REASON_KIND_CLOSED, message="So.")
    failed_run = runs_pb2.Run(run_id="r1", state=runs_pb2.RUN_STATE_FAILED)
    paused = runs_pb2.Run(run_id="r1", state=runs_pb2.RUN_STATE_RUNNING, paused_at=Timestamp(seconds=1))
    coordinator.script(
        "runs.Explain",
        runs_pb2.ExplainResponse(run=failed_run, message="", reasons=[failed]),
        runs_pb2.ExplainResponse(run=paused, message=""),
        runs_pb2.ExplainResponse(run=failed_run, message="", reasons=[closed]),
        runs_pb2.ExplainResponse(run=ANSWER.run, message="", reasons=[failed]),
    )

    after_failure = (await headway("why", "r1")).out.splitlines()
    while_paused = (await headway("why", "r1")).out.splitlines()
    after_closing = (await headway("why", "r1")).out.splitlines()
    going_on = (await headway("why", "r1")).out.splitlines()

    assert after_failure[-2:] == ["next: headway why c1", "next: headway retry r1 --dry-run"]
    assert going_on[-1] == "next: headway why c1"
    assert while_paused[-1] == "next: headway resume r1"
    assert after_closing[-1] == "next: headway retry r1 --dry-run"


async def test_why_of_very_many_nodes_tells_some_of_each_kind(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    timers = [
        runs_pb2.Reason(path=f"nap_{number}", kind=runs_pb2.REASON_KIND_TIMER, message="It waits.")
        for number in range(199)
    ]
    lost = runs_pb2.Reason(path="ship", kind=runs_pb2.REASON_KIND_UNPUBLISHED, message="Nobody can see it.")
    coordinator.script(
        "runs.Explain",
        runs_pb2.ExplainResponse(run=ANSWER.run, message="So.", reasons=[*timers, lost], left_out=1_800),
    )

    told = (await headway("why", "r1")).out.splitlines()
    document = (await headway("why", "r1", "--json")).document

    assert told[1:7:2] == ["  nap_0  [timer]", "  nap_1  [timer]", "  nap_2  [timer]"]
    assert told[7] == "  … and 196 more  [timer]"
    assert told[8:] == [
        "  ship  [unpublished]",
        "    Nobody can see it.",
        "  … and 1800 more open tasks",
        "next: see to the relay and to Redis; the relay's log says which",
    ]
    assert len(document["reasons"]) == 200


async def test_why_names_the_worker_that_a_handler_is_missing_at(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    reason = runs_pb2.Reason(
        path="pay",
        kind=runs_pb2.REASON_KIND_RETRY,
        message="It failed.",
        queue="money",
        handler="pay.charge",
        error=runs_pb2.TaskError(type="UnknownHandler"),
    )
    coordinator.script("runs.Explain", runs_pb2.ExplainResponse(run=ANSWER.run, message="So.", reasons=[reason]))

    told = await headway("why", "r1")

    assert told.out.splitlines()[-1] == (
        "next: headway worker MODULE --queue money (a MODULE that registers pay.charge)"
    )


async def test_nothing_that_a_run_says_steers_the_terminal(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    odd = "red \x1b[31m clear \x9b2J bell \x07 back \u202e wide 你好"
    reason = runs_pb2.Reason(path="pay", kind=runs_pb2.REASON_KIND_FAILED, message=odd)
    run = runs_pb2.Run(run_id="r1", state=runs_pb2.RUN_STATE_FAILED)
    coordinator.script("runs.Explain", runs_pb2.ExplainResponse(run=run, message=odd, reasons=[reason]))

    people, json_text = (await headway("why", "r1")).out, (await headway("why", "r1", "--json")).out

    for told in (people, json_text):
        assert all(each.isprintable() or each == "\n" for each in told)
        assert "wide 你好" in told
    assert people.splitlines()[0].startswith("failed  red \\x1b[31m clear \\x9b2J bell ")
    assert "\\u001b[31m clear \\u009b2J" in json_text
