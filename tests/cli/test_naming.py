"""How commands name a run: by the digits that its id begins with."""

from __future__ import annotations

import pytest

from headway.api.runs.v1 import runs_pb2
from tests.cli.conftest import CommandLine
from tests.cli.runs import run
from tests.client.scripted_coordinator import ScriptedCoordinator

pytestmark = pytest.mark.usefixtures("noon")


async def test_a_run_can_be_named_by_the_digits_that_its_id_begins_with(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    found = run(runs_pb2.RUN_STATE_SUCCEEDED)
    found.run_id = "0" * 31 + "1"
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=[found]))
    coordinator.script("runs.Get", runs_pb2.GetResponse(run=found))

    result = await headway("show", "00")

    assert result.code == 0
    assert coordinator.requests["runs.List"][0].filter.run_id_prefix == "00"
    assert coordinator.requests["runs.Get"][0].run_id == found.run_id


async def test_digits_that_several_ids_begin_with_name_none_and_all_are_listed(
    headway: CommandLine, coordinator: ScriptedCoordinator
) -> None:
    runs = [run(runs_pb2.RUN_STATE_SUCCEEDED) for _ in range(2)]
    for number, each in enumerate(runs):
        each.run_id = f"{number:032x}"
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=runs), runs_pb2.ListResponse())

    several, none = await headway("cancel", "00"), await headway("show", "ff")
    many = [runs_pb2.Run(run_id=f"{number:032x}", workflow="w") for number in range(11)]
    coordinator.script("runs.List", runs_pb2.ListResponse(runs=many))
    more = await headway("show", "00")

    assert (several.code, none.code) == (2, 2)
    assert all(each.run_id in several.err for each in runs)
    assert "no run's id begins with ff in namespace default; `headway list` shows" in none.err
    assert not coordinator.requests["runs.Cancel"]
    assert "…" not in several.err
    assert (more.err.count("  w  "), more.err.splitlines()[-1]) == (10, "  …")
