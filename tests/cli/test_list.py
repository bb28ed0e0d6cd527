"""Lists of runs: which are meant, how many are shown, what a line says."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.api.runs.v1 import runs_pb2
from tests.cli.conftest import CommandLine
from tests.cli.runs import NOON, run, stamp
from tests.client.scripted_coordinator import ScriptedCoordinator

pytestmark = pytest.mark.usefixtures("noon")


async def test_the_duration_of_a_reopened_run_is_said_to_contain_its_pause(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    reopened = run(runs_pb2.RUN_STATE_SUCCEEDED)
    reopened.epoch = 2
    reopened.labels["vip"] = "yes"
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=[run(runs_pb2.RUN_STATE_SUCCEEDED), reopened]))
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=reopened))

    _, first, second = (await headway("list")).out.splitlines()
    shown = (await headway("show", "r1")).out

    assert "3m12s, reopened" not in first
    assert "3m12s, reopened" in second
    assert "(3m12s, reopened)" in shown
    assert "state     succeeded  (reopened: epoch 2)" in shown
    assert "labels    vip=yes" in shown


async def test_list_reads_no_further_than_the_limit(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    page = runs_pb2.ListResponse(runs=[run(runs_pb2.RUN_STATE_FAILED, error="card declined")] * 2, next_page_token="t")
    coordinator.script("runs.List", page)

    result = await headway("list", "--limit", "3", "--workflow", "orders", "--state", "failed")

    assert result.code == 0
    header, *rows = result.out.splitlines()
    assert header.split() == ["RUN", "WORKFLOW", "VERSION", "STATE", "STARTED", "DURATION", "ERROR"]
    assert len(rows) == 3
    assert "exec_failed: card declined" in rows[0]
    assert [request.page_size for request in coordinator.requests["runs.List"]] == [4, 4]
    assert result.err == "(the first 3; --limit shows more)\n"
    assert list(coordinator.requests["runs.List"][0].filter.states) == [runs_pb2.RUN_STATE_FAILED]


async def test_the_json_of_a_list_and_of_items_says_whether_there_are_more(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    runs = [run(runs_pb2.RUN_STATE_FAILED) for _ in range(2)]
    items = [runs_pb2.Item(path=f"each[{index}]", state=runs_pb2.RUN_STATE_SUCCEEDED) for index in range(2)]
    coordinator.script("runs.List", *[runs_pb2.ListResponse(runs=runs)] * 2)
    coordinator.script("runs.ListItems", *[runs_pb2.ListItemsResponse(items=items)] * 2)

    for command in (("list",), ("show", "r1", "each")):
        for limit, more in ((1, True), (2, False)):
            document = (await headway(*command, "--limit", str(limit), "--json")).document
            assert document["more"] is more
            assert len(document["runs" if command == ("list",) else "items"]) == limit


async def test_the_json_of_a_list_leaves_out_what_a_list_does_not_carry(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    listed = run(runs_pb2.RUN_STATE_SUCCEEDED)
    listed.key = "order-7"
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=[listed]))

    (document,) = (await headway("list", "--json")).document["runs"]

    assert document["key"] == "order-7"
    assert {"input", "output"} & set(document) == set()


async def test_an_empty_list_says_so(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.List", runs_pb2.ListResponse())

    assert (await headway("list")).out == "no runs\n"
    assert (await headway("list", "--json")).document == {"runs": [], "more": False}


async def test_a_list_says_which_runs_are_meant(headway: CommandLine, coordinator: ScriptedCoordinator) -> None:
    coordinator.script("runs.List", runs_pb2.ListResponse())

    result = await headway(
        "list", "--version", "2", "--state", "failed", "--state", "cancelled", "--failure-class", "timeout",
        "--key", "ORDER-*", "--label", "customer=42", "--since", "2h", "--older-than", "2026-01-02T13:00:00+02:00",
        "--finished-since", "30m", "--finished-until", "1m",
    )  # fmt: skip

    assert result.code == 0
    assert coordinator.requests["runs.List"][0].filter == runs_pb2.RunFilter(
        version=2,
        states=[runs_pb2.RUN_STATE_FAILED, runs_pb2.RUN_STATE_CANCELLED],
        failure_class="timeout",
        key_prefix="ORDER-",
        labels={"customer": "42"},
        created_from=stamp(NOON - timedelta(hours=2)),
        created_until=stamp(NOON - timedelta(hours=1)),
        finished_from=stamp(NOON - timedelta(minutes=30)),
        finished_until=stamp(NOON - timedelta(minutes=1)),
    )
